//! Requests that arrive in several frames.

use std::collections::HashMap;

use trunkline_proto::Disconnect;
use trunkline_proto::limits::REQUEST_DEADLINE;
use trunkline_types::Tick;

/// Maximum number of requests that arrive in several frames at the same time.
const PAGED_REQUESTS_MAX: usize = 1024;

/// Requests in several frames whose last frame has not arrived.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    requests: HashMap<u32, Begun>,
    /// A time before which no deadline passes.
    look_at: Option<Tick>,
}

#[derive(Debug)]
struct Begun {
    /// Number of items in its earlier frames.
    items: u32,
    /// True if it was refused: its remaining frames are ignored.
    is_refused: bool,
    /// Deadline for the next frame.
    due: Tick,
}

impl Unfinished {
    /// Records a frame of the request that others follow.
    pub(crate) fn go_on(
        &mut self,
        now: Tick,
        request: u32,
        items: u32,
        is_refused: bool,
    ) -> Result<(), Disconnect> {
        if self.requests.len() >= PAGED_REQUESTS_MAX && !self.requests.contains_key(&request) {
            return Err(Disconnect::Malformed {
                sentence: format!("more than {PAGED_REQUESTS_MAX} requests are unfinished"),
            });
        }
        let due = now.saturating_add(REQUEST_DEADLINE);
        let begun = Begun {
            items,
            is_refused,
            due,
        };
        self.requests.insert(request, begun);
        self.look_at.get_or_insert(due);
        Ok(())
    }

    /// Records the last frame of the request. Returns the number of items in the earlier frames.
    pub(crate) fn end(&mut self, request: u32) -> u32 {
        let begun = self.requests.remove(&request);
        if self.requests.is_empty() {
            self.look_at = None;
        }
        begun.map_or(0, |begun| begun.items)
    }

    pub(crate) fn is_refused(&self, request: u32) -> bool {
        let begun = self.requests.get(&request);
        begun.is_some_and(|begun| begun.is_refused)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        self.look_at
    }

    /// Returns true if the next frame of a request is overdue. A refused request is only forgotten,
    /// because its client may have seen the refusal and may send nothing more.
    pub(crate) fn handle_timeout(&mut self, now: Tick) -> bool {
        if self.look_at.is_none_or(|at| now < at) {
            return false;
        }
        self.requests
            .retain(|_, begun| !begun.is_refused || now < begun.due);
        self.look_at = self.requests.values().map(|begun| begun.due).min();
        self.look_at.is_some_and(|due| due <= now)
    }
}
