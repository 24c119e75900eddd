//! Errors in configuration files, each with its place and, where possible, a remedy.

use std::fmt;

/// All errors of the configuration files that were loaded together, ordered by file and line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigErrors {
    /// The first errors: at least one, at most [`ERRORS_MAX`].
    pub errors: Vec<ConfigError>,
    /// Number of errors that are not in `errors`.
    pub further: usize,
}

/// Maximum number of errors that are reported in full. Further errors are only counted.
pub const ERRORS_MAX: usize = 100;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// Path of the file as the caller named it, or of a CSV file that a configuration file refers to.
    pub file: String,
    /// Position in the file; `None` for an error of the file as a whole.
    pub position: Option<Position>,
    pub kind: ConfigErrorKind,
    /// The word that the user probably meant, if a known word is similar.
    pub suggestion: Option<String>,
    /// For a variable created from a template: the place of the `[[use]]`, `file:line:column`.
    pub used_at: Option<String>,
}

/// A position in a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// Line number, from 1.
    pub line: u32,
    /// Column number in characters (not bytes), from 1.
    pub column: u32,
}

/// What is wrong. The message of each variant follows `file:line:column`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigErrorKind {
    // The file.
    #[error("does not exist; specify a file, or a folder of files that end in .toml")]
    FileMissing,
    #[error("cannot be read: {reason}")]
    Unreadable { reason: String },
    #[error("is larger than {max} bytes, the limit for a configuration file; split it")]
    FileTooLarge { max: String },
    #[error("is a folder without files that end in .toml; specify a folder that has one")]
    DirectoryEmpty,
    #[error("this is not UTF-8 text; save the file as UTF-8")]
    NotUtf8,
    #[error("not valid TOML: {reason}")]
    Syntax { reason: String },

    // Keys and sections.
    #[error("unknown key \"{key}\"")]
    UnknownKey {
        key: String,
        /// The permitted keys, separated by commas.
        known: String,
    },
    #[error("\"{key}\" is not allowed in {section}; remove it")]
    KeyElsewhere { key: String, section: &'static str },
    #[error("\"{key}\": {feature} is not supported by this version")]
    NotSupported { key: String, feature: &'static str },
    #[error("{section} needs \"{key}\"")]
    KeyMissing {
        section: &'static str,
        key: &'static str,
    },
    #[error("write {expected} here, not {found}")]
    WrongSection { expected: String, found: String },
    #[error("{section} is already defined at {other}; only one file can have it")]
    SectionTwice {
        section: &'static str,
        other: String,
    },

    // One value.
    #[error("\"{key}\" is {found}, but must be {expected}")]
    WrongForm {
        key: String,
        expected: &'static str,
        found: String,
    },
    #[error("\"{key}\" is {found}, but must be from {low} to {high}")]
    OutOfBounds {
        key: String,
        found: String,
        low: String,
        high: String,
    },
    #[error("\"{key}\" is \"{found}\", but must be one of {choices}")]
    UnknownChoice {
        key: String,
        found: String,
        choices: String,
    },
    #[error("\"{key}\" is longer than {max} bytes")]
    TextTooLong { key: String, max: usize },
    #[error("\"{key}\" contains a control character (U+{code:04X})")]
    ControlCharacter { key: String, code: u32 },

    // Names.
    #[error("\"{name}\" cannot be a name: {reason}")]
    InvalidName { name: String, reason: String },
    #[error("variable \"{name}\" is also defined at {other}")]
    VariableTwice { name: String, other: String },
    #[error("library \"{name}\" already has a different description at {other}; keep one of them")]
    DescriptionTwice { name: String, other: String },
    #[error("I/O server \"{name}\" is also defined at {other}")]
    IoTwice { name: String, other: String },
    #[error("template \"{name}\" is also defined at {other}")]
    TemplateTwice { name: String, other: String },

    // Type.
    #[error("{reason}")]
    InvalidType { reason: String },
    #[error("\"{key}\" is only valid with {owner} in the same table")]
    BelongsTo { key: String, owner: &'static str },

    // Properties that are not valid for the type, or contradict each other.
    #[error("\"{key}\" is not valid for the type {data_type}: {reason}")]
    NotForType {
        key: &'static str,
        data_type: String,
        reason: String,
    },
    #[error("the lower limit of \"range\", {low}, is not below the upper limit, {high}")]
    RangeEmpty { low: String, high: String },
    #[error("coerce needs a range; add range = [LOW, HIGH]")]
    CoerceWithoutRange,
    #[error("clamp = true contradicts coerce = false; remove one of them")]
    ClampContradicted,
    #[error(
        "scale needs a source that delivers raw values; add source = \"SERVER:ITEM\", or alias"
    )]
    ScaleWithoutSource,
    #[error("this scale cannot be used: {reason}")]
    InvalidScale { reason: String },
    #[error("alarm {name}: {reason}")]
    InvalidAlarm { name: String, reason: String },
    #[error("{reason}")]
    AlarmRefused { reason: String },
    #[error("{reason}")]
    FifoRefused { reason: String },
    #[error(
        "a FIFO of {data_type} needs \"length\", the number of {elements} in each value, because it is \
         allocated when the engine starts"
    )]
    FifoLengthMissing {
        data_type: String,
        elements: &'static str,
    },
    #[error("every value of {data_type} has length {fixed}, so \"length\" cannot be {length}")]
    FifoLengthFixed {
        data_type: String,
        fixed: u32,
        length: u32,
    },
    #[error("this FIFO is too large: {reason}")]
    FifoTooLarge { reason: String },
    #[error("timestamps can be switched off only for scope = \"process\"")]
    TimestampsNeeded,
    #[error("this initial value cannot be used: {reason}")]
    InvalidInitial { reason: String },
    #[error("the initial value {value} is outside the range {low} to {high}")]
    InitialOutOfRange {
        value: String,
        low: String,
        high: String,
    },
    #[error("\"{source_text}\" is not a source; write SERVER:ITEM, such as plc1:holding/100")]
    InvalidSource { source_text: String },
    #[error("\"{text}\" cannot be the target of an alias: {reason}")]
    InvalidAlias { text: String, reason: String },
    #[error(
        "an alias takes its value from its target, so it cannot have \"{key}\"; remove one of them"
    )]
    AliasContradicted { key: &'static str },
    #[error("{reason}")]
    AliasRefused { reason: String },
    #[error(
        "the register number {number} is already used by {name} at {other}; change one of the numbers"
    )]
    NumberTwice {
        number: u32,
        name: String,
        other: String,
    },
    #[error("no [[io]] section is named \"{name}\"")]
    UnknownIo { name: String },

    // Repetition and placeholders.
    #[error("\"{text}\": {reason}")]
    Placeholder { text: String, reason: String },
    #[error("placeholders do not work in {section}; for a literal brace, write {{{{ or }}}}")]
    PlaceholderHere { section: &'static str },
    #[error("\"{text}\" is not a range of whole numbers such as \"1..4\"")]
    InvalidRange { text: String },
    #[error("the range \"{text}\" ends before it starts")]
    RangeBackwards { text: String },
    #[error("\"{key}\" is empty; add at least one value")]
    NothingToRepeat { key: String },
    #[error(
        "the lists of zip differ in length: \"{first}\" has {first_len} values, but \"{second}\" has \
         {second_len}"
    )]
    ZipLengths {
        first: String,
        first_len: u64,
        second: String,
        second_len: u64,
    },
    #[error("\"{name}\" cannot be used in a placeholder; use letters, digits and _")]
    ParameterName { name: String },
    #[error("\"{name}\" already has a value from {defined_by}; use another name")]
    ParameterTwice {
        name: String,
        defined_by: &'static str,
    },
    #[error(
        "this creates {count} variables, more than the limit of {max} (engine.limits.variables_max)"
    )]
    TooManyVariables { count: String, max: String },

    // Overrides, templates and rows.
    #[error("\"{text}\" is not a pattern: {reason}")]
    InvalidPattern { text: String, reason: String },
    #[error("\"{text}\" matches no variable of this file's library")]
    MatchesNothing { text: String },
    #[error("there is no template \"{name}\"")]
    UnknownTemplate { name: String },
    #[error("template \"{template}\" needs rows for its parameters {params}; add rows or csv")]
    RowsMissing { template: String, params: String },
    #[error("rows and csv cannot be combined; remove one of them")]
    RowsAndCsv,
    #[error("this row lacks \"{param}\"")]
    ParameterMissing { param: String },
    #[error("\"{param}\" is {found}, but must be {wanted}")]
    ParameterType {
        param: String,
        found: String,
        wanted: &'static str,
    },
    #[error("\"{path}\" cannot be used: {reason}")]
    CsvPath { path: String, reason: String },
    #[error("not valid CSV: {reason}")]
    CsvSyntax { reason: String },

    // History.
    #[error(
        "\"{text}\" has no effect, because \"{earlier}\" at {other} matches the same variables first; put \
         this section before that one, or remove it"
    )]
    HistoryUnreachable {
        text: String,
        earlier: String,
        other: String,
    },
    #[error("a section with record = false cannot have \"{key}\"; remove one of them")]
    HistoryContradicted { key: &'static str },
    #[error(
        "no [[history]] section selects variables to record in this folder; add one, or remove \
         \"{key}\""
    )]
    HistoryOfNothing { key: &'static str },
    #[error(
        "the spool is used while the history folder cannot be written, so it cannot be the same \
         folder; specify a folder on another disk"
    )]
    SpoolIsHistory,

    // Engine.
    #[error("\"{text}\" is not an address and port such as 127.0.0.1:5850")]
    InvalidAddress { text: String },
    #[error("{reason}")]
    InvalidSocket { reason: String },
    #[error("\"{text}\" is listed twice")]
    AddressTwice { text: String },
    #[error(
        "other machines can reach {address}, and the engine has no certificates and accounts: \
         create them with `trunkline init`, and set `security` to their folder; or listen on \
         127.0.0.1, or accept the risk with insecure = true"
    )]
    NotLoopback { address: String },
    #[error(
        "other machines can reach {address}, and HTTP requests are not authenticated or encrypted yet; use \
         127.0.0.1 or [::1]"
    )]
    HttpNotLoopback { address: String },
    #[error("\"{text}\" is not a host name such as plant7.example, without a port")]
    InvalidHost { text: String },
    #[error("deadline must be at least twice keep_alive ({keep_alive}), not {deadline}")]
    DeadlineTooShort {
        keep_alive: String,
        deadline: String,
    },
}

/// Defines [`ConfigErrorKind::code`] and [`ConfigErrorKind::CODES`] from one list, so that they agree.
macro_rules! codes {
    ($($variant:ident => $code:literal,)*) => {
        impl ConfigErrorKind {
            /// Returns a stable name for scripts, such as `unknown-key`.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $code,)*
                }
            }

            pub const CODES: &'static [&'static str] = &[$($code),*];
        }
    };
}

codes! {
    FileMissing => "file-missing",
    Unreadable => "unreadable",
    FileTooLarge => "file-too-large",
    DirectoryEmpty => "directory-empty",
    NotUtf8 => "not-utf8",
    Syntax => "syntax",
    UnknownKey => "unknown-key",
    KeyElsewhere => "key-elsewhere",
    NotSupported => "not-supported",
    KeyMissing => "key-missing",
    WrongSection => "wrong-section",
    SectionTwice => "section-twice",
    WrongForm => "wrong-form",
    OutOfBounds => "out-of-bounds",
    UnknownChoice => "unknown-choice",
    TextTooLong => "text-too-long",
    ControlCharacter => "control-character",
    InvalidName => "invalid-name",
    VariableTwice => "variable-twice",
    DescriptionTwice => "description-twice",
    IoTwice => "io-twice",
    TemplateTwice => "template-twice",
    InvalidType => "invalid-type",
    BelongsTo => "belongs-to",
    NotForType => "not-for-type",
    RangeEmpty => "range-empty",
    CoerceWithoutRange => "coerce-without-range",
    ClampContradicted => "clamp-contradicted",
    ScaleWithoutSource => "scale-without-source",
    InvalidScale => "invalid-scale",
    InvalidAlarm => "invalid-alarm",
    AlarmRefused => "alarm-refused",
    FifoRefused => "fifo-refused",
    FifoLengthMissing => "fifo-length-missing",
    FifoLengthFixed => "fifo-length-fixed",
    FifoTooLarge => "fifo-too-large",
    TimestampsNeeded => "timestamps-needed",
    InvalidInitial => "invalid-initial",
    InitialOutOfRange => "initial-out-of-range",
    InvalidSource => "invalid-source",
    InvalidAlias => "invalid-alias",
    AliasContradicted => "alias-contradicted",
    AliasRefused => "alias-refused",
    NumberTwice => "number-twice",
    UnknownIo => "unknown-io",
    Placeholder => "placeholder",
    PlaceholderHere => "placeholder-here",
    InvalidRange => "invalid-range",
    RangeBackwards => "range-backwards",
    NothingToRepeat => "nothing-to-repeat",
    ZipLengths => "zip-lengths",
    ParameterName => "parameter-name",
    ParameterTwice => "parameter-twice",
    TooManyVariables => "too-many-variables",
    InvalidPattern => "invalid-pattern",
    MatchesNothing => "matches-nothing",
    UnknownTemplate => "unknown-template",
    RowsMissing => "rows-missing",
    RowsAndCsv => "rows-and-csv",
    ParameterMissing => "parameter-missing",
    ParameterType => "parameter-type",
    CsvPath => "csv-path",
    CsvSyntax => "csv-syntax",
    HistoryUnreachable => "history-unreachable",
    HistoryContradicted => "history-contradicted",
    HistoryOfNothing => "history-of-nothing",
    SpoolIsHistory => "spool-is-history",
    InvalidAddress => "invalid-address",
    InvalidSocket => "invalid-socket",
    AddressTwice => "address-twice",
    NotLoopback => "not-loopback",
    HttpNotLoopback => "http-not-loopback",
    InvalidHost => "invalid-host",
    DeadlineTooShort => "deadline-too-short",
}

impl ConfigError {
    /// Returns the place, `file:line:column`, or the file alone.
    pub fn place(&self) -> String {
        match self.position {
            Some(position) => format!("{}:{position}", self.file),
            None => self.file.clone(),
        }
    }

    /// Returns the error without place and suggestion.
    pub fn message(&self) -> String {
        self.kind.to_string()
    }

    /// Returns the remedy if one is known, such as `did you mean "units"?`.
    pub fn hint(&self) -> Option<String> {
        match (&self.suggestion, &self.kind) {
            (Some(word), _) => Some(format!("did you mean \"{word}\"?")),
            (None, ConfigErrorKind::UnknownKey { known, .. }) if !known.is_empty() => {
                Some(format!("the keys here are {known}"))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Formats as `plant.toml:17:9 unknown key "unit"; did you mean "units"?`
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place(), self.kind)?;
        if let Some(hint) = self.hint() {
            write!(f, "; {hint}")?;
        }
        if let Some(place) = &self.used_at {
            write!(f, " (used at {place})")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Formats one error per line, and the number of further errors.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fmt::Display::fmt(error, f)?;
        }
        match self.further {
            0 => Ok(()),
            1 => f.write_str("\nand 1 further error"),
            n => write!(f, "\nand {n} further errors"),
        }
    }
}

impl std::error::Error for ConfigErrors {}
