//! Defines the possible outcomes of a write (B-20).

use std::convert::Infallible;

/// The outcome of a write. Every write has exactly one outcome.
///
/// Every layer has the same set of outcomes, but its own types of positions and reasons. In layers that
/// try every write, `NotTried` is [`Infallible`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteOutcome<At, Why, Cause = Why, NotTried = Infallible> {
    /// The write became the update at this position.
    Applied(At),
    /// The value was within the deadband of the update at this position. Nothing changed.
    Unchanged(At),
    /// A later write replaced this one before it was carried out (write mode `newest`).
    Superseded,
    /// A rule refused the write. Nothing changed.
    Refused(Why),
    /// It is unknown whether the write was carried out.
    Unknown(Cause),
    /// The write was not tried. Nothing changed; it may be tried again.
    NotTried(NotTried),
}

/// The outcome of a group of writes, which are carried out together or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupOutcome<O> {
    /// The commit number, from 1 within the engine's epoch. `None` if nothing was written, or if
    /// the outcome is unknown.
    pub commit: Option<u64>,
    /// The index of the write that caused the refusal of the others.
    pub refused_member: Option<usize>,
    /// The outcome of each write, in order.
    pub outcomes: Vec<O>,
}
