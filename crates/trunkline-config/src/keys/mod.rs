//! Describes every key of a configuration file, as data. The reader, the suggestions in error
//! messages and the reference page (`docs/reference/configuration.md`) use this data.

mod tables;

use tables::{
    ALARM, DEADBAND, ENGINE, FIFO, FILE, HISTORY, IO, LIBRARY, LIMITS, OVERRIDE, SCALE, TEMPLATE,
    USE, VARIABLE, WAVEFORM,
};

/// A section and its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// The top level of a file.
    File,
    /// `[engine]`.
    Engine,
    /// `[engine.limits]`.
    Limits,
    /// `[library]`.
    Library,
    /// `[defaults]`.
    Defaults,
    /// `[[variable]]`, also inside a template.
    Variable,
    /// `scale = { ... }` of a variable.
    Scale,
    /// `deadband = { ... }` of a variable.
    Deadband,
    /// `fifo = { ... }` of a variable.
    Fifo,
    /// One entry of `alarm = { ... }` of a variable.
    Alarm,
    /// A struct's field written as a table.
    Field,
    /// `[[override]]`.
    Override,
    /// `[[template]]`.
    Template,
    /// `[[use]]`.
    Use,
    /// `[[io]]`. Keys that are not listed here are settings of the driver.
    Io,
    /// `[[history]]`.
    History,
    /// A waveform written as an initial value.
    Waveform,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Name of the key in a file.
    pub name: &'static str,
    /// Permitted values, with units.
    pub form: &'static str,
    /// Value that applies if the key is absent; empty if the key is required.
    pub default: &'static str,
    /// What the key sets.
    pub meaning: &'static str,
    /// For keys of a variable: the other sections that accept it.
    pub accepted_in: AcceptedIn,
    /// When a change of the key takes effect; `None` for a key that is a section of its own.
    pub reload: Option<Reload>,
}

/// When a changed key takes effect, if the configuration is read again while the engine runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reload {
    /// When the configuration is reloaded.
    AtOnce,
    /// When the configuration is reloaded, for connections that begin later.
    NewConnections,
    /// When the engine is started again.
    Restart,
}

impl Reload {
    /// Returns the words of the reference page.
    pub fn words(self) -> &'static str {
        match self {
            Reload::AtOnce => "at once",
            Reload::NewConnections => "for new connections",
            Reload::Restart => "restart",
        }
    }
}

/// The sections that accept a key of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcceptedIn {
    /// Only `[[variable]]`.
    Own,
    /// Also `[[override]]`.
    Override,
    /// Also `[[override]]` and `[defaults]`.
    Defaults,
}

/// A key that a later version will accept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedKey {
    /// Section that will accept the key; `Variable` includes `[defaults]` and `[[override]]`.
    pub section: Section,
    /// Name of the key in a file.
    pub name: &'static str,
    /// The missing feature, as the error message names it.
    pub feature: &'static str,
}

/// Every section, in the order of the reference page.
pub const SECTIONS: &[Section] = &[
    Section::File,
    Section::Engine,
    Section::Limits,
    Section::Library,
    Section::Defaults,
    Section::Variable,
    Section::Scale,
    Section::Deadband,
    Section::Fifo,
    Section::Alarm,
    Section::Field,
    Section::Override,
    Section::Template,
    Section::Use,
    Section::Io,
    Section::History,
    Section::Waveform,
];

/// Keys that are reported as not yet supported, not as unknown.
pub const PLANNED: &[PlannedKey] = &[
    planned(
        Section::Variable,
        "history",
        "setting the history of a variable outside [[history]]",
    ),
    planned(Section::Variable, "write", "limiting who may write"),
    planned(Section::Variable, "read", "limiting who may read"),
    planned(Section::File, "stream", "declaring streams"),
];

/// Keys that complete `type`, such as the labels of an enum.
pub(crate) const TYPE_DETAILS: &[&str] = &["labels", "element", "shape", "fields"];

impl Section {
    /// Returns the header of the section as written in a file.
    pub fn header(self) -> &'static str {
        match self {
            Section::File => "a file",
            Section::Engine => "[engine]",
            Section::Limits => "[engine.limits]",
            Section::Library => "[library]",
            Section::Defaults => "[defaults]",
            Section::Variable => "[[variable]]",
            Section::Scale => "scale",
            Section::Deadband => "deadband",
            Section::Fifo => "fifo",
            Section::Alarm => "alarm",
            Section::Field => "a field",
            Section::Override => "[[override]]",
            Section::Template => "[[template]]",
            Section::Use => "[[use]]",
            Section::Io => "[[io]]",
            Section::History => "[[history]]",
            Section::Waveform => "a waveform",
        }
    }

    /// Returns the keys that the section accepts.
    pub fn keys(self) -> impl Iterator<Item = &'static Key> {
        let (own, accepted_in): (&[Key], Option<AcceptedIn>) = match self {
            Section::File => (FILE, None),
            Section::Engine => (ENGINE, None),
            Section::Limits => (LIMITS, None),
            Section::Library => (LIBRARY, None),
            Section::Defaults => (&[], Some(AcceptedIn::Defaults)),
            Section::Variable => (&[], Some(AcceptedIn::Own)),
            Section::Scale => (SCALE, None),
            Section::Deadband => (DEADBAND, None),
            Section::Fifo => (FIFO, None),
            Section::Alarm => (ALARM, None),
            Section::Field => (&[], None),
            Section::Override => (OVERRIDE, Some(AcceptedIn::Override)),
            Section::Template => (TEMPLATE, None),
            Section::Use => (USE, None),
            Section::Io => (IO, None),
            Section::History => (HISTORY, None),
            Section::Waveform => (WAVEFORM, None),
        };
        let variable_keys = VARIABLE
            .iter()
            .filter(move |key| match (self, accepted_in) {
                (Section::Field, _) => key.name == "type" || TYPE_DETAILS.contains(&key.name),
                (_, Some(accepted_in)) => key.accepted_in as u8 >= accepted_in as u8,
                (_, None) => false,
            });
        own.iter().chain(variable_keys)
    }

    pub fn key(self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    /// Returns true if the section accepts only some of the keys of a variable.
    pub(crate) fn is_part_of_variable(self) -> bool {
        matches!(self, Section::Defaults | Section::Override | Section::Field)
    }

    /// Returns the missing feature if a later version will accept the key.
    pub(crate) fn planned(self, name: &str) -> Option<&'static str> {
        let section = match self {
            Section::Defaults | Section::Override => Section::Variable,
            other => other,
        };
        let key = PLANNED
            .iter()
            .find(|key| key.section == section && key.name == name)?;
        Some(key.feature)
    }
}

const fn planned(section: Section, name: &'static str, feature: &'static str) -> PlannedKey {
    PlannedKey {
        section,
        name,
        feature,
    }
}
