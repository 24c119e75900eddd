//! The ends of a write (B-20).

use std::convert::Infallible;

/// The end of a write. Every write has exactly one.
///
/// The layers differ in what an update's position is and in what a reason is; the set of ends is
/// the same. Where every write is tried, `NotTried` is [`Infallible`].
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
    /// It is not known whether the write was carried out.
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
    pub culprit: Option<usize>,
    /// One outcome per write, in order.
    pub outcomes: Vec<O>,
}
