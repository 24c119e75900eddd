//! Alarms of variables: samples and times in, changes of state out.
//!
//! ```text
//! AlarmDefinition   what raises an alarm, and how it is handled      trunkline-types
//! Condition         is the alarm's condition met by this sample?     condition
//! Machine           states as in ISA-18.2                            state
//! Alarm             a condition with its delays and its state        alarm
//! Report            rates, floods and worst alarms of a time         report
//! ```
//!
//! Nothing here reads a clock, starts a thread or waits: a caller passes the time with each sample,
//! and calls [`Alarm::poll`] when [`Alarm::due`] says so.
#![forbid(unsafe_code)]

pub mod alarm;
pub mod condition;
pub mod report;
pub mod state;

pub use alarm::{Alarm, Change};
pub use condition::Condition;
pub use report::Report;
pub use state::{Event, Machine, Refused, Rules, State};
