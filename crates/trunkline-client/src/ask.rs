//! Requests that the client makes by itself, about its own state.
//!
//! Subscriptions, patterns and the provider state their needs here. `request` sends the requests
//! and passes on the answers.

use std::sync::Arc;

use crate::table::Key;
use crate::variables::page::Page;

/// The client's own requests, until `Requests` takes them over, and the order numbers of all
/// requests.
#[derive(Debug, Default)]
pub(crate) struct OwnRequests {
    pub(crate) list: Vec<(u64, OwnRequest, Place)>,
    /// The last order number assigned. Requests and writes share these numbers and are sent in
    /// their order.
    last_order: u64,
}

/// The place of a request in the sending order.
#[derive(Debug)]
pub(crate) enum Place {
    /// Before all others: handles cannot be used until it is answered.
    First,
    Last,
}

impl OwnRequests {
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

/// Subscribes open items again, starting after their last updates.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) remote: u32,
    pub(crate) items: Vec<u32>,
}

/// Ends the given items of a remote subscription, or the whole subscription if `handles` is empty.
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

/// Asks for the role of a provider under this name.
#[derive(Debug)]
pub(crate) struct Provide(pub(crate) String);
