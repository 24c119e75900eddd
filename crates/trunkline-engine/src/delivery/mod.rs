//! The effect of a commit on each subscriber, depending on its contract.

pub(crate) mod budget;
pub(crate) mod counters;
pub(crate) mod feed;
pub(crate) mod group_room;
pub(crate) mod late;
pub(crate) mod mail;
pub(crate) mod outbox;
pub(crate) mod rings;
pub(crate) mod subscribers;
