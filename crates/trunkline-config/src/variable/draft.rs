//! Reads the properties that one table sets for a variable. Checks each property on its own.

use std::time::Duration;

use trunkline_types::definition::UNITS_BYTES_MAX;
pub(crate) use trunkline_types::definition::{DESCRIPTION_BYTES_MAX, SOURCE_BYTES_MAX};
use trunkline_types::{Access, AuditMode, DataType, Deadband, Scope};

use super::alarm::{self, AlarmForm};
use super::fifo::FifoForm;
use super::scale::ScaleForm;
use super::{Layer, Located, data_type, fifo, scale};
use crate::fields::{Braces, Filled, Values};
use crate::keys::Section;
use crate::node::{Node, NodeKind, Table};
use crate::report::Report;

const PRECISION_MAX: i64 = 17;
const STALL_MAX: Duration = Duration::from_secs(3_600);
const AGE_MIN: Duration = Duration::from_millis(1);
const AGE_MAX: Duration = Duration::from_secs(365 * 86_400);

/// The properties set by a table. A property is `None` if the table does not set it, and `Some(None)`
/// if the table sets it to `"none"`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft<'a> {
    pub data_type: Option<Located<DataType>>,
    pub description: Option<Located<String>>,
    pub units: Option<Located<String>>,
    pub range: Option<Located<Option<[f64; 2]>>>,
    pub coerce: Option<Located<bool>>,
    pub precision: Option<Located<Option<u8>>>,
    pub access: Option<Located<Access>>,
    pub scope: Option<Located<Scope>>,
    pub scale: Option<Located<Option<ScaleForm>>>,
    pub deadband: Option<Located<Deadband>>,
    pub fifo: Option<Located<Option<FifoForm>>>,
    pub timestamps: Option<Located<bool>>,
    pub stall: Option<Located<Duration>>,
    pub max_age: Option<Located<Option<Duration>>>,
    pub retain: Option<Located<bool>>,
    pub number: Option<Located<u32>>,
    pub single_writer: Option<Located<bool>>,
    pub audit: Option<Located<AuditMode>>,
    pub initial: Option<Located<&'a Node>>,
    pub source: Option<Located<String>>,
    pub alias: Option<Located<String>>,
    pub alarm: Option<Located<Vec<AlarmForm>>>,
    /// True if a property could not be read. Further errors of this draft are then not reported,
    /// because they may follow from that one.
    pub is_broken: bool,
}

/// Treatment of placeholders in `description` and `source`, which often differ between variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TextMode {
    /// Placeholders are filled in.
    Fill,
    /// Placeholders stay as written, to be filled in later for each variable.
    AsWritten,
}

impl<'a> Draft<'a> {
    /// Reads the properties of a table. Unknown keys have already been reported.
    pub fn read(
        table: &'a Table,
        layer: Layer,
        braces: Braces<'_>,
        texts: TextMode,
        report: &mut Report,
    ) -> Self {
        let values = Values {
            report,
            env: braces,
        };
        let mut reader = DraftReader {
            table,
            layer,
            values,
            is_broken: false,
        };
        let data_type = reader.data_type();
        let text = |reader: &mut DraftReader<'a, '_, '_>, key, max| {
            reader.property(key, |values, node| match &node.kind {
                NodeKind::Text(text) if texts == TextMode::AsWritten && node.has_braces() => {
                    Some(text.clone())
                }
                _ => values.text_within(key, node, max),
            })
        };
        let mut draft = Draft {
            data_type,
            description: text(&mut reader, "description", DESCRIPTION_BYTES_MAX),
            source: text(&mut reader, "source", SOURCE_BYTES_MAX),
            alias: reader.property("alias", |v, node| {
                v.text_within("alias", node, SOURCE_BYTES_MAX)
            }),
            units: reader.property("units", |v, node| {
                v.text_within("units", node, UNITS_BYTES_MAX)
            }),
            range: reader.optional("range", |v, node| v.pair("range", node)),
            coerce: reader.property("coerce", |v, node| v.boolean("coerce", node)),
            precision: reader.optional("precision", |v, node| {
                v.integer("precision", node, 0..=PRECISION_MAX)
                    .map(|digits| digits as u8)
            }),
            access: reader.property("access", |v, node| v.choice("access", node, ACCESS)),
            scope: reader.property("scope", |v, node| v.choice("scope", node, SCOPE)),
            scale: reader.optional("scale", scale::read),
            deadband: reader.property("deadband", deadband),
            fifo: reader.property("fifo", fifo::read),
            timestamps: reader.property("timestamps", |v, node| v.boolean("timestamps", node)),
            stall: reader.property("stall", |v, node| {
                v.duration("stall", node, Duration::ZERO..=STALL_MAX)
            }),
            max_age: reader.optional("max_age", |v, node| {
                v.duration("max_age", node, AGE_MIN..=AGE_MAX)
            }),
            retain: reader.property("retain", |v, node| v.boolean("retain", node)),
            number: reader.property("number", |v, node| {
                let number = v.integer("number", node, 0..=i64::from(u32::MAX))?;
                u32::try_from(number).ok()
            }),
            single_writer: reader
                .property("single_writer", |v, node| v.boolean("single_writer", node)),
            audit: reader.property("audit", |v, node| match v.filled(node)? {
                Filled::Bool(true) => Some(AuditMode::Complete),
                Filled::Bool(false) => Some(AuditMode::Off),
                Filled::Text(_) => v.choice("audit", node, AUDIT),
                _ => v.wrong_form("audit", node, AUDIT_FORM),
            }),
            initial: reader.property("initial", |_, node| Some(node)),
            alarm: reader.property("alarm", alarm::read),
            is_broken: false,
        };
        draft.is_broken = reader.is_broken;
        draft
    }

    /// Returns the properties of both drafts; those of `upper` take precedence.
    pub fn overlaid(&self, upper: &Draft<'a>) -> Draft<'a> {
        macro_rules! first_set {
            ($($field:ident),*) => {
                Draft {
                    $($field: upper.$field.as_ref().or(self.$field.as_ref()).cloned(),)*
                    is_broken: self.is_broken || upper.is_broken,
                }
            };
        }
        first_set!(
            data_type,
            description,
            units,
            range,
            coerce,
            precision,
            access,
            scope,
            scale,
            deadband,
            fifo,
            timestamps,
            stall,
            max_age,
            retain,
            number,
            single_writer,
            audit,
            initial,
            source,
            alias,
            alarm
        )
    }
}

/// Reads the keys of one table, and records whether any of them could not be read.
struct DraftReader<'a, 'r, 'e> {
    table: &'a Table,
    layer: Layer,
    values: Values<'r, 'e>,
    is_broken: bool,
}

impl<'a, 'r, 'e> DraftReader<'a, 'r, 'e> {
    fn property<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Values<'r, 'e>, &'a Node) -> Option<T>,
    ) -> Option<Located<T>> {
        debug_assert!(
            Section::Variable.key(key).is_some(),
            "{key} is missing from the key tables"
        );
        let node = self.table.node(key)?;
        let value = read(&mut self.values, node);
        self.is_broken |= value.is_none();
        Some(Located {
            place: node.place,
            layer: self.layer,
            value: value?,
        })
    }

    /// Reads a property that can be `"none"`.
    fn optional<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Values<'r, 'e>, &'a Node) -> Option<T>,
    ) -> Option<Located<Option<T>>> {
        self.property(key, |values, node| match &node.kind {
            NodeKind::Text(text) if text == "none" => Some(None),
            _ => read(values, node).map(Some),
        })
    }

    fn data_type(&mut self) -> Option<Located<DataType>> {
        let place = self
            .table
            .node("type")
            .map_or(self.table.place, |node| node.place);
        match data_type::read(self.table, &mut self.values) {
            Ok(found) => found.map(|value| Located {
                place,
                layer: self.layer,
                value,
            }),
            Err(data_type::Reported) => {
                self.is_broken = true;
                None
            }
        }
    }
}

fn deadband(values: &mut Values<'_, '_>, node: &Node) -> Option<Deadband> {
    let percent =
        |values: &mut Values<'_, '_>, key: &str, node| values.number_within(key, node, 0.0..=100.0);
    if let NodeKind::Table(_) = &node.kind {
        let table = values.table("deadband", node, Section::Deadband)?;
        let mut part = |key: &str| match table.node(key) {
            Some(node) => percent(values, key, node),
            None => Some(0.0),
        };
        let (user, source) = (part("user"), part("source"));
        return Some(Deadband {
            user_percent: user?,
            source_percent: source?,
        });
    }
    match values.filled(node)? {
        Filled::Integer(_) | Filled::Float(_) => {
            let both = percent(values, "deadband", node)?;
            Some(Deadband {
                user_percent: both,
                source_percent: both,
            })
        }
        _ => values.wrong_form("deadband", node, "percent of the range, or a table"),
    }
}

const ACCESS: &[(&str, Access)] = &[
    ("read-write", Access::ReadWrite),
    ("read-only", Access::ReadOnly),
    ("write-only", Access::WriteOnly),
];

const AUDIT_FORM: &str = "true, false, \"complete\" or \"best-effort\"";
const AUDIT: &[(&str, AuditMode)] = &[
    ("complete", AuditMode::Complete),
    ("best-effort", AuditMode::BestEffort),
];

const SCOPE: &[(&str, Scope)] = &[("network", Scope::Network), ("process", Scope::Process)];
