//! The `key=value` settings of a cell or a role.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::Outcome;

/// Settings of one cell or role, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Reads `key=value` arguments.
    pub fn parse(arguments: &[String]) -> Outcome<Self> {
        let mut settings = Self::default();
        for argument in arguments {
            let (key, value) = argument
                .split_once('=')
                .ok_or_else(|| format!("`{argument}` is not a setting; write key=value"))?;
            settings.set(key, value);
        }
        Ok(settings)
    }

    pub fn set(&mut self, key: &str, value: impl fmt::Display) {
        self.0.insert(key.to_owned(), value.to_string());
    }

    /// Returns the same settings with one more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.set(key, value);
        self
    }

    /// Returns the value of a required setting.
    pub fn value<T: FromStr>(&self, key: &str) -> Outcome<T> {
        let text = self
            .0
            .get(key)
            .ok_or_else(|| format!("setting `{key}` is missing"))?;
        text.parse()
            .map_err(|_| format!("`{text}` is not a valid value for setting `{key}`").into())
    }

    /// Returns the value of an optional setting.
    pub fn value_or<T: FromStr>(&self, key: &str, default: T) -> Outcome<T> {
        if self.0.contains_key(key) {
            self.value(key)
        } else {
            Ok(default)
        }
    }

    /// Returns the settings as arguments of a process.
    pub fn arguments(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_round_trip_through_arguments() {
        let sut = Settings::default().with("n", 10).with("type", "f32");
        let read = Settings::parse(&sut.arguments()).unwrap();
        assert_eq!(read, sut);
        assert_eq!(read.value::<u32>("n").unwrap(), 10);
        assert_eq!(read.value_or("ticks", 7).unwrap(), 7);
    }

    #[test]
    fn errors_name_the_wrong_setting() {
        assert!(
            Settings::parse(&["n".to_owned()])
                .unwrap_err()
                .to_string()
                .contains("`n`")
        );
        let sut = Settings::default().with("n", "many");
        assert!(
            sut.value::<u32>("n")
                .unwrap_err()
                .to_string()
                .contains("`many`")
        );
        assert!(
            sut.value::<u32>("t")
                .unwrap_err()
                .to_string()
                .contains("`t`")
        );
    }
}
