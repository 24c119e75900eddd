//! Requests that the client makes by itself, about what it holds.
//!
//! Subscriptions, patterns and the provider say what they need. `request` sends it and gives them the
//! answers.

use std::sync::Arc;

use crate::table::Key;
use crate::variables::page::Page;

/// The client's own requests, until `Requests` takes them over, and the numbers of all requests.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) list: Vec<(u64, OwnRequest, Place)>,
    /// Last number given out. Requests and writes share the numbers, and are sent in their order.
    last_order: u64,
}

/// The place of a request among all others.
#[derive(Debug)]
pub(crate) enum Place {
    /// Ahead of them: it must be answered before handles can be used.
    First,
    Last,
}

impl Asked {
    pub(crate) fn next_order(&mut self) -> u64 {
        self.last_order += 1;
        self.last_order
    }

    pub(crate) fn push(&mut self, request: OwnRequest) {
        let order = self.next_order();
        self.list.push((order, request, Place::Last));
    }

    pub(crate) fn push_first(&mut self, request: OwnRequest) {
        let order = self.next_order();
        self.list.push((order, request, Place::First));
    }
}

#[derive(Debug)]
pub(crate) enum OwnRequest {
    Restore(Restore),
    OpenItems(OpenItems),
    Resume(Resume),
    Unsubscribe(Unsubscribe),
    CheckAll(CheckAll),
    Watch(Watch),
    Unwatch(Unwatch),
    Provide(Provide),
}

/// Reopens the variables that the program had open.
#[derive(Debug)]
pub(crate) struct Restore(pub(crate) Page<()>);

/// Opens items of a remote subscription and subscribes them.
#[derive(Debug)]
pub(crate) struct OpenItems {
    pub(crate) remote: u32,
    pub(crate) items: Vec<u32>,
}

/// Subscribes open items, starting after their last updates.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) remote: u32,
    pub(crate) items: Vec<u32>,
}

/// Ends items of a remote subscription, or all of it if `handles` is empty.
#[derive(Debug)]
pub(crate) struct Unsubscribe {
    pub(crate) remote: u32,
    pub(crate) handles: Vec<u32>,
}

/// Asks the engine to compare everything it sent with what arrived.
#[derive(Debug)]
pub(crate) struct CheckAll;

#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) key: Key,
    pub(crate) number: u32,
    pub(crate) pattern: Arc<str>,
}

#[derive(Debug)]
pub(crate) struct Unwatch(pub(crate) u32);

/// Asks to be the source of variables.
#[derive(Debug)]
pub(crate) struct Provide(pub(crate) String);
