//! Watched patterns, and subscriptions by pattern.

pub(crate) mod follow;
pub(crate) mod watch;

use self::follow::Follow;
use self::watch::Watches;
use crate::table::Slab;

#[derive(Debug, Default)]
pub(crate) struct Patterns {
    pub(crate) watches: Watches,
    pub(crate) follows: Slab<Follow>,
}
