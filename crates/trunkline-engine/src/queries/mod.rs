//! Answers about many variables, or about one in many words.

pub(crate) mod explain;
pub mod health;
pub(crate) mod names;
pub mod search;
pub(crate) mod writers;
