//! Defines the settings of a driver, for configurations and programs.

use std::fmt;

#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    Bool(bool),
    Integer(i64),
    /// A number with a fraction or an exponent.
    Float(f64),
    String(String),
    /// Any number of settings, not necessarily of the same kind.
    List(Vec<Setting>),
}

/// Formats the value as in a configuration file.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Bool(value) => write!(f, "{value}"),
            Setting::Integer(value) => write!(f, "{value}"),
            Setting::Float(value) => write!(f, "{value:?}"),
            Setting::String(value) => write!(f, "{value:?}"),
            Setting::List(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}
