//! Requests that the client makes itself, about its own state.
//!
//! Subscriptions, patterns and the provider role add their requests here. `request` sends them and
//! passes on the answers.

use std::sync::Arc;

use crate::table::Key;
use crate::variables::page::Page;

/// The requests that the client makes itself, until `Requests` sends them, and the order numbers of
/// all requests.
#[derive(Debug, Default)]
pub(crate) struct OwnRequests {
    pub(crate) list: Vec<(u64, OwnRequest, Place)>,
    /// The last order number that was assigned. Requests and writes share these numbers, which
    /// determine the order of sending.
    last_order: u64,
}

/// The place of a request in the order of sending.
#[derive(Debug)]
pub(crate) enum Place {
    /// Before all other requests. Handles cannot be used until it is answered.
    First,
    /// After all other requests.
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

/// Opens the program's variables again on a new connection.
#[derive(Debug)]
pub(crate) struct Restore(pub(crate) Page<()>);

/// Opens and subscribes items of a remote subscription.
#[derive(Debug)]
pub(crate) struct OpenItems {
    pub(crate) remote: u32,
    pub(crate) items: Vec<u32>,
}

/// Subscribes open items again, from their last updates on.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) remote: u32,
    pub(crate) items: Vec<u32>,
}

/// Ends these items of a remote subscription, or the whole subscription if `handles` is empty.
#[derive(Debug)]
pub(crate) struct Unsubscribe {
    pub(crate) remote: u32,
    pub(crate) handles: Vec<u32>,
}

/// Asks the engine to compare everything that it has sent with what has arrived.
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

/// Asks for the role of the provider with this name.
#[derive(Debug)]
pub(crate) struct Provide(pub(crate) String);
