//! Implements the byte-level cores that all kinds of writers and readers share.

mod reader;
mod writer;

use std::sync::Arc;

use trunkline_net::{Spin, StreamMemory};
use trunkline_proto::stream::ElementForm;
use trunkline_ring::ElementMemory;

use crate::directory::Registration;
use crate::end::EndpointRole;
use crate::handle::EndpointHandle;

pub use self::reader::{ByteRegion, Region};
pub(crate) use self::reader::{ReadAmount, ReaderCore};
pub use self::writer::Closed;
pub(crate) use self::writer::{ABORTED, CLOSE_TIMEOUT, NOT_RECEIVED_IN_TIME, PANICKED, WriterCore};

/// An endpoint that has been created and registered, before it becomes a writer or a reader.
pub(crate) struct ConnectedEnd<S: EndpointRole + 'static> {
    pub(crate) link: EndpointHandle<S>,
    pub(crate) registration: Option<Registration>,
    pub(crate) form: ElementForm,
    /// Controls how long the program spins when it waits on a ring shared with another process.
    pub(crate) spin: Spin,
}

impl<S: EndpointRole + 'static> ConnectedEnd<S> {
    /// Returns the memory for the program's end of the ring: the shared memory, or `own` if no memory
    /// is shared.
    pub(crate) fn memory_of_program(&self, own: &Arc<StreamMemory>) -> ElementMemory {
        self.link.with(|end, _, _| match end.inner.shared() {
            Some(shared) => shared.memory.element_memory(),
            None => own.element_memory().starting_at(end.start()),
        })
    }
}
