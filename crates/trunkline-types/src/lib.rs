//! Defines the names, URLs, data types, values, samples, timestamps, quality, units and scaling of
//! Trunkline.
//!
//! Every other crate builds on this one. It defines the values of variables, independently of where
//! they are stored. It performs no I/O, starts no thread and reads no clock.
//!
//! ```text
//! Name, Pattern, Url     the address of a variable      name, pattern, url
//! DataType, Value        the type and the value         data_type, value, array, waveform
//! Sample, Reading        the data for readers           sample, quality, time
//! VariableDefinition     the configuration              definition, scaling
//! wire, json, text       the three external forms       wire/, json/, text/
//! ```
//!
//! # Layout
//! - [`name`], [`pattern`], [`url`]: addressing (`library/path#field`, `*` and `**`,
//!   `tl://host/...`); [`stream_url`]: addressing of stream endpoints.
//! - [`data_type`], [`value`], [`mod@array`], [`waveform`]: the types and their values.
//! - [`time`]: [`Timestamp`] (UTC nanoseconds), [`Tick`] (monotonic nanoseconds), and [`Moment`]
//!   with both.
//! - [`quality`], [`sample`]: quality with its reason and clock; samples and readings.
//! - [`scaling`], [`definition`]: the configuration of a variable.
//! - [`fifo`], [`alias`]: the rules for real-time FIFOs and for aliases.
//! - [`verb`], [`condition`]: the actions that clients request, and search conditions.
//! - [`outcome`], [`mod@fault`], [`why`]: outcomes of a write, reasons for a refusal, explanations.
//! - [`audit`]: the record of actions on an engine; [`control`]: control of folders.
//! - [`history`]: the recorded updates of variables, and queries of them.
//! - [`wire`]: the binary form shared by cells, frames and golden vectors.
//! - [`json`], [`text`]: the forms for users and scripts.

#![forbid(unsafe_code)]

pub mod address;
pub mod alarm;
pub mod alias;
#[cfg(test)]
mod arbitrary;
pub mod array;
pub mod audit;
pub mod condition;
pub mod contract;
pub mod control;
pub mod data_type;
pub mod definition;
pub mod fault;
pub mod fifo;
pub mod history;
pub mod json;
pub mod ledger;
pub mod name;
pub mod outcome;
pub mod pattern;
pub mod permitted;
pub mod quality;
pub mod sample;
pub mod scaling;
mod setting;
pub mod step_budget;
pub mod stream_url;
pub mod text;
pub mod time;
pub mod url;
pub mod value;
pub mod verb;
pub mod waveform;
pub mod why;
pub mod wire;

pub use address::{ListenAddress, SocketPath};
pub use array::{Array, Elements};
pub use audit::{AuditAction, AuditEntry, AuditMode, AuditOutcome, AuditPage, AuditQuery};
pub use condition::{Comparison, Condition, ConditionError};
pub use contract::Contract;
pub use control::{ControlEntry, ControlHolder, ControlLevel, ControlTerms, Folder, FolderError};
pub use data_type::{ArrayType, DataType, ElementType, EnumType, StructType};
pub use definition::{
    Access, Deadband, Fifo, LibraryDefinition, Properties, Scope, VariableDefinition,
};
pub use fault::{Fault, FaultCode, FaultRef};
pub use name::Name;
pub use outcome::{GroupOutcome, WriteOutcome};
pub use pattern::Pattern;
pub use quality::{Clock, ClockSync, Level, Quality, Reason};
pub use sample::{Lost, Position, Reading, Sample};
pub use scaling::Scaling;
pub use setting::Setting;
pub use step_budget::StepBudget;
pub use stream_url::{StreamUrl, StreamUrlError};
pub use time::{Moment, Tick, Timestamp};
pub use url::Url;
pub use value::Value;
pub use verb::{Granted, LeaseVerb, WriteVerb};
pub use waveform::Waveform;
pub use why::{WhyStage, WhyStep, WhyVerdict};
