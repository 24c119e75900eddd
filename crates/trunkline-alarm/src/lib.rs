//! Computes the states of alarms from samples and times.
//!
//! ```text
//! AlarmDefinition   the configuration of an alarm                    trunkline-types
//! Condition         evaluates the condition of an alarm              condition
//! Machine           the states of ISA-18.2                           state
//! Alarm             a condition with its delays and its state        alarm
//! Report            rates, floods and worst alarms of a period       report
//! ```
//!
//! The crate reads no clock, starts no thread and never waits. The caller passes the time with each sample,
//! and calls [`Alarm::poll`] at the time that [`Alarm::next_deadline`] returns.
#![forbid(unsafe_code)]

pub mod alarm;
pub mod condition;
pub mod report;
pub mod state;

pub use alarm::{Alarm, Change};
pub use condition::Condition;
pub use report::Report;
pub use state::{ActionError, Event, Machine, Rules, State};
