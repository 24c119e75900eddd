//! Alarms of variables: samples and times go in, changes of state come out.
//!
//! ```text
//! AlarmDefinition   what raises an alarm, and how it is handled      trunkline-types
//! Condition         decides if a sample meets the condition          condition
//! Machine           states as in ISA-18.2                            state
//! Alarm             a condition with its delays and its state        alarm
//! Report            rates, floods and worst alarms of a period       report
//! ```
//!
//! Nothing here reads a clock, starts a thread or waits. The caller passes the time with each sample, and
//! calls [`Alarm::poll`] at the time that [`Alarm::next_deadline`] returns.
#![forbid(unsafe_code)]

pub mod alarm;
pub mod condition;
pub mod report;
pub mod state;

pub use alarm::{Alarm, Change};
pub use condition::Condition;
pub use report::Report;
pub use state::{ActionError, Event, Machine, Rules, State};
