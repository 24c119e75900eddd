//! Reads configuration files into a deployment plan, and reports errors with file, line and column.
//!
//! This crate does not depend on the engine. Files are TOML. Reading continues after an error, so
//! that one run reports up to [`ERRORS_MAX`] errors:
//!
//! ```text
//! plant.toml:17:9 unknown key "unit"; did you mean "units"?
//! ```
//!
//! ```text
//! files --source--> texts --node--> trees with places --sections, expand--> DeploymentPlan
//!                                                              |
//!                             keys: which keys exist           +--report--> ConfigErrors
//! ```
//!
//! # Layout
//! - `load`: converts paths or texts to a plan. Only this module handles several files.
//! - [`plan`]: the result. [`error`]: the errors. [`keys`]: a description of every key.
//! - `running`: compares the configuration in use with one that was read later.
//! - `source`, `node`, `report`, `fields`, `suggestion`: texts, trees, errors, typed access.
//! - `engine`, `io`, `history`, `variable/`: the sections.
//! - `placeholder/`, `expand/`, `template`, `csv`: create many variables from one table.

#![forbid(unsafe_code)]

mod csv;
mod display;
mod engine;
pub mod error;
mod expand;
mod fields;
mod history;
mod intern;
mod io;
pub mod keys;
mod libraries;
mod load;
mod node;
mod placeholder;
pub mod plan;
mod report;
mod running;
mod sections;
mod source;
mod suggestion;
mod template;
mod variable;

pub use engine::HTTP_PORT;
pub use error::{ConfigError, ConfigErrorKind, ConfigErrors, ERRORS_MAX, Position};
pub use load::{LoadOptions, default_config_text, load, load_with, parse, parse_with};
pub use plan::{
    DeploymentPlan, EngineConfig, HistoryConfig, IoConfig, Limits, LogLevel, StoreChoice,
};
pub use running::{ConfigChanges, RunningConfig};
pub use source::FILE_BYTES_MAX;
