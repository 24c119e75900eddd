//! Tracks requests that arrive in several frames.

use std::collections::HashMap;

use trunkline_proto::Disconnect;
use trunkline_proto::limits::REQUEST_DEADLINE;
use trunkline_types::Tick;

/// Maximum number of requests of a session whose last frame has not arrived.
const UNFINISHED_MAX: usize = 1024;

/// The requests whose last frame has not arrived.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    requests: HashMap<u32, UnfinishedRequest>,
    /// Time of the next check. No deadline expires before it.
    next_check: Option<Tick>,
}

#[derive(Debug)]
struct UnfinishedRequest {
    /// Number of items in the frames received so far.
    items: u32,
    /// True if the request was refused, so that its remaining frames are ignored.
    is_refused: bool,
    /// Deadline for the next frame.
    due: Tick,
}

impl Unfinished {
    /// Records that more frames of the request follow; `items` is the number received so far.
    pub(crate) fn expect_more(
        &mut self,
        now: Tick,
        request: u32,
        items: u32,
        is_refused: bool,
    ) -> Result<(), Disconnect> {
        if self.requests.len() >= UNFINISHED_MAX && !self.requests.contains_key(&request) {
            return Err(Disconnect::Malformed {
                sentence: format!("more than {UNFINISHED_MAX} requests are unfinished"),
            });
        }
        let due = now.saturating_add(REQUEST_DEADLINE);
        let unfinished = UnfinishedRequest {
            items,
            is_refused,
            due,
        };
        self.requests.insert(request, unfinished);
        self.next_check.get_or_insert(due);
        Ok(())
    }

    /// Removes the request. Returns the number of items in its earlier frames, or 0 if this is the
    /// first frame.
    pub(crate) fn remove(&mut self, request: u32) -> u32 {
        let unfinished = self.requests.remove(&request);
        if self.requests.is_empty() {
            self.next_check = None;
        }
        unfinished.map_or(0, |unfinished| unfinished.items)
    }

    pub(crate) fn is_refused(&self, request: u32) -> bool {
        let unfinished = self.requests.get(&request);
        unfinished.is_some_and(|unfinished| unfinished.is_refused)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        self.next_check
    }

    /// Returns true if the next frame of a request is overdue. Removes a refused request that is
    /// overdue without returning true, because the client may have stopped sending after the refusal.
    pub(crate) fn handle_timeout(&mut self, now: Tick) -> bool {
        if self.next_check.is_none_or(|next_check| now < next_check) {
            return false;
        }
        self.requests
            .retain(|_, unfinished| !unfinished.is_refused || now < unfinished.due);
        self.next_check = self
            .requests
            .values()
            .map(|unfinished| unfinished.due)
            .min();
        self.next_check.is_some_and(|due| due <= now)
    }
}
