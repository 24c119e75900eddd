//! Requests on their way: carried out in the order they came, in slices.
//!
//! A request is taken over whole, so that the frame's buffer is free for the next one, and worked off as
//! far as there is room for its answers. So one that names 100,000 variables disturbs nobody, and a
//! client that does not read its answers stops its own requests and nothing else.

use trunkline_proto::message::open::OpenTerms;
use trunkline_proto::message::subscribe::{SubscribeItem, SubscribeTerms};
use trunkline_proto::message::write::WriteOptions;

/// Items handled at a time.
pub(crate) const SLICE: usize = 1000;

/// One request, or one frame of a request that came in several.
#[derive(Debug)]
pub(crate) enum Work {
    Open(OpenWork),
    Subscribe(SubscribeWork),
    Handles(HandlesWork),
    Writes(WritesWork),
    Find { request: u32, pattern: String, cursor: u32, limit: u32 },
    Why { request: u32, name: String },
    Engine { request: u32 },
}

/// What is to be done with a list of handles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandlesVerb {
    Read,
    Close,
    Info,
    RequestValue,
    /// Out of this subscription; all of it when `whole`.
    Unsubscribe { subscription: u32, whole: bool },
}

#[derive(Debug)]
pub(crate) struct OpenWork {
    pub(crate) request: u32,
    pub(crate) terms: OpenTerms,
    pub(crate) names: Names,
    /// Names that were not found so far.
    pub(crate) misses: u32,
    /// Number of the first of these names within the request.
    pub(crate) base: u32,
    pub(crate) next: usize,
    pub(crate) more: bool,
}

#[derive(Debug)]
pub(crate) struct SubscribeWork {
    pub(crate) request: u32,
    pub(crate) terms: SubscribeTerms,
    pub(crate) resume_epoch: Option<u64>,
    pub(crate) items: Vec<SubscribeItem>,
    pub(crate) base: u32,
    pub(crate) next: usize,
    pub(crate) more: bool,
}

#[derive(Debug)]
pub(crate) struct HandlesWork {
    pub(crate) verb: HandlesVerb,
    pub(crate) request: u32,
    pub(crate) handles: Vec<u32>,
    pub(crate) base: u32,
    pub(crate) next: usize,
    pub(crate) more: bool,
}

/// Writes that could not be carried out on arrival.
#[derive(Debug)]
pub(crate) struct WritesWork {
    pub(crate) writes: Vec<OwnedWrite>,
    pub(crate) next: usize,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct OwnedWrite {
    pub(crate) id: u64,
    pub(crate) handle: u32,
    pub(crate) options: WriteOptions,
    pub(crate) value: Box<[u8]>,
}

/// Names in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Names {
    pub(crate) fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len() as u32);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)? as usize,
            None => 0,
        };
        self.bytes.get(start..end)
    }
}

impl Work {
    /// Bytes it holds, roughly, for the bound on what a session may have waiting.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Work::Open(work) => work.names.bytes.len() + 4 * work.names.len(),
            Work::Subscribe(work) => 16 * work.items.len(),
            Work::Handles(work) => 4 * work.handles.len(),
            Work::Writes(work) => {
                work.writes.iter().map(|write| 64 + write.value.len()).sum()
            }
            Work::Find { pattern, .. } => pattern.len(),
            Work::Why { name, .. } => name.len(),
            Work::Engine { .. } => 0,
        }
    }
}
