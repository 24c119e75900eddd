//! The settings of a driver in the configuration.

use std::collections::BTreeMap;

use trunkline_types::Setting;
use trunkline_types::name::suggest;

/// The settings of one I/O server, by key.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Settings {
    by_key: BTreeMap<String, Setting>,
}

/// An error in a setting, which the user corrects in the configuration.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SettingError {
    #[error(
        "unknown setting \"{key}\"; {}",
        suggested_or_known(suggestion, "valid settings", known)
    )]
    Unknown {
        key: String,
        /// The most similar key.
        suggestion: Option<String>,
        /// All keys separated by commas, or `none`.
        known: String,
    },
    #[error("setting \"{key}\" must be {expected}, not {given}")]
    WrongType {
        key: String,
        expected: &'static str,
        given: &'static str,
    },
    #[error("setting \"{key}\" cannot be {given}: {rule}")]
    BadValue {
        key: String,
        given: String,
        rule: String,
    },
}

impl Settings {
    /// Returns empty settings, with which a driver uses its defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a value. Returns the previous value of the setting.
    pub fn insert(&mut self, key: impl Into<String>, value: Setting) -> Option<Setting> {
        self.by_key.insert(key.into(), value)
    }

    /// Checks that all keys are among `known`.
    ///
    /// # Errors
    /// [`SettingError::Unknown`] for the first key that is not, with a suggestion.
    pub fn check_keys(&self, known: &[&str]) -> Result<(), SettingError> {
        match self
            .by_key
            .keys()
            .find(|key| !known.contains(&key.as_str()))
        {
            None => Ok(()),
            Some(key) => Err(SettingError::Unknown {
                key: key.clone(),
                suggestion: suggest(key, known.iter().copied()),
                known: if known.is_empty() {
                    "none".into()
                } else {
                    known.join(", ")
                },
            }),
        }
    }

    /// Returns the value of a boolean setting; `None` if the setting is absent.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, SettingError> {
        match self.by_key.get(key) {
            None => Ok(None),
            Some(Setting::Bool(value)) => Ok(Some(*value)),
            Some(other) => Err(wrong_type(key, "true or false", other)),
        }
    }

    /// Returns the value of a setting that is a whole number of at least 0; `None` if the setting
    /// is absent.
    ///
    /// # Errors
    /// [`SettingError::WrongType`] for any other type, [`SettingError::BadValue`] for a negative
    /// number.
    pub fn unsigned(&self, key: &str) -> Result<Option<u64>, SettingError> {
        match self.by_key.get(key) {
            None => Ok(None),
            Some(Setting::Integer(value)) => match u64::try_from(*value) {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(SettingError::BadValue {
                    key: key.into(),
                    given: value.to_string(),
                    rule: "it must be 0 or more".into(),
                }),
            },
            Some(other) => Err(wrong_type(key, "a whole number", other)),
        }
    }

    /// Returns the value of a setting that is a whole or decimal number; `None` if the setting is
    /// absent.
    pub fn number(&self, key: &str) -> Result<Option<f64>, SettingError> {
        match self.by_key.get(key) {
            None => Ok(None),
            Some(Setting::Integer(value)) => Ok(Some(*value as f64)),
            Some(Setting::Float(value)) => Ok(Some(*value)),
            Some(other) => Err(wrong_type(key, "a number", other)),
        }
    }

    /// Returns the value of a text setting; `None` if the setting is absent.
    pub fn text(&self, key: &str) -> Result<Option<&str>, SettingError> {
        match self.by_key.get(key) {
            None => Ok(None),
            Some(Setting::String(value)) => Ok(Some(value)),
            Some(other) => Err(wrong_type(key, "text", other)),
        }
    }
}

impl FromIterator<(String, Setting)> for Settings {
    fn from_iter<T: IntoIterator<Item = (String, Setting)>>(settings: T) -> Self {
        Self {
            by_key: settings.into_iter().collect(),
        }
    }
}

fn wrong_type(key: &str, expected: &'static str, given: &Setting) -> SettingError {
    let given = match given {
        Setting::Bool(_) => "true or false",
        Setting::Integer(_) => "a whole number",
        Setting::Float(_) => "a number",
        Setting::String(_) => "text",
        Setting::List(_) => "a list",
    };
    SettingError::WrongType {
        key: key.into(),
        expected,
        given,
    }
}

/// Returns `did you mean "x"? (what: known)`, or `what: known` without a suggestion.
pub(crate) fn suggested_or_known(suggestion: &Option<String>, what: &str, known: &str) -> String {
    match suggestion {
        Some(name) => format!("did you mean \"{name}\"? ({what}: {known})"),
        None => format!("{what}: {known}"),
    }
}
