//! What a commit does for each subscriber, by its contract.

pub(crate) mod budget;
pub(crate) mod counters;
pub(crate) mod feed;
pub(crate) mod group_room;
pub(crate) mod late;
pub(crate) mod mail;
pub(crate) mod outbox;
pub(crate) mod rings;
pub(crate) mod subscribers;
