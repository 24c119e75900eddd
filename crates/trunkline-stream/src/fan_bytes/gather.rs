//! Implements the byte-level core that all kinds of readers with several writers share.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use trunkline_net::{Clock, Spin, StreamMemory};
use trunkline_proto::stream::{ElementForm, LinkOptions, ReaderLink};
use trunkline_ring::{RingShape, RingStart};

use super::hub::{Hub, Lane, Lanes};
use super::member::{Acquired, Member, PeerStatus, Run, RunEnd};
use crate::bytes::{ConnectedEnd, ReadAmount, ReaderCore};
use crate::directory::Registration;
use crate::end::{Bell, BellLink, ReaderEnd};
use crate::error::StreamError;
use crate::handle::{EndpointHandle, Environment};
use crate::properties::{Monitor, Properties};
use crate::wait::{Blocking, Waiter};

/// Creates the lanes of a reader, each of which has its own buffer.
pub(crate) struct Writers {
    pub(crate) shape: RingShape,
    pub(crate) is_preallocated: bool,
    pub(crate) bell: Arc<Bell>,
    /// Writers that the program has not seen yet; bounded by the maximum number of writers.
    new_sources: Mutex<Vec<Source>>,
}

/// One of the writers, and the reader of the writer's stream.
pub(crate) struct Source {
    member: Arc<Member>,
    core: ReaderCore,
    /// Set once no more data will arrive.
    has_end: Arc<OnceLock<()>>,
}

impl Writers {
    pub(crate) fn new(shape: RingShape, is_preallocated: bool, bell: Arc<Bell>) -> Self {
        Self {
            shape,
            is_preallocated,
            bell,
            new_sources: Mutex::default(),
        }
    }

    fn take_new_sources(&self) -> Vec<Source> {
        let sources = self.new_sources.lock();
        std::mem::take(&mut *sources.unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lanes for Writers {
    type End = ReaderEnd;
    type ProgramPart = Arc<StreamMemory>;
    const REMOVE_WHEN_OVER: bool = false;
    const PEERS: &'static str = "writers";
    const HOLDS_BACK: bool = false;

    fn link(&self, options: LinkOptions) -> ReaderLink {
        ReaderLink::reader(options, Clock::new().now())
    }

    fn ends(&self) -> std::io::Result<(ReaderEnd, Arc<StreamMemory>)> {
        let memory = StreamMemory::create(self.shape, RingStart::default(), self.is_preallocated)?;
        let mut end = ReaderEnd::new(memory.element_memory().producer());
        end.bell = Some(self.bell.clone());
        Ok((end, memory))
    }

    fn on_opened(&self, lane: &Lane<ReaderEnd>, memory: Arc<StreamMemory>) {
        let connected = ConnectedEnd {
            link: EndpointHandle::Net(lane.link.clone()),
            registration: None,
            form: lane.link.with(|end, _, _| end.link.options().form),
            spin: Spin::new(Duration::ZERO),
        };
        let source = Source {
            member: lane.member.clone(),
            has_end: lane.link.with(|end, _, _| end.inner.has_end.clone()),
            core: ReaderCore::new(connected, memory.element_memory().consumer()),
        };
        let sources = self.new_sources.lock();
        sources.unwrap_or_else(PoisonError::into_inner).push(source);
    }

    fn properties(&self, hub: &Hub<Self>) -> Properties {
        let mut combined = hub.properties_of_lanes();
        for lane in hub.current_lanes() {
            let (ready, read) = lane.link.with(|end, _, _| {
                let read = end.inner.ring.read_elements().unwrap_or(0);
                (end.link.ready().1, read)
            });
            combined.in_buffer += ready.saturating_sub(read);
            combined.total += read;
        }
        combined.total += hub.elements_of_removed_lanes();
        combined
    }
}

pub(crate) struct FanInCore {
    pub(crate) hub: Arc<Hub<Writers>>,
    bell_link: Arc<BellLink>,
    sources: Vec<Source>,
    /// Index of the source that the next search begins with.
    next: usize,
    /// Held for as long as the endpoint exists.
    registration: Option<Registration>,
}

enum Found {
    /// Index of the source, and its number of elements.
    Elements(usize, usize),
    Ended(Arc<Member>, RunEnd),
}

impl FanInCore {
    pub(crate) fn monitor(&self) -> Monitor {
        let hub = self.hub.clone();
        Monitor::new(move || hub.properties())
    }

    pub(crate) fn properties(&self) -> Properties {
        self.hub.properties()
    }

    pub(crate) fn new(
        hub: Arc<Hub<Writers>>,
        bell_link: Arc<BellLink>,
        registration: Option<Registration>,
    ) -> Self {
        Self {
            hub,
            bell_link,
            sources: Vec::new(),
            next: 0,
            registration,
        }
    }

    /// Waits for elements of any writer, or for the end of a writer's stream, and reads the elements
    /// of that writer. `decode` gets the form, the bytes and the number of elements.
    pub(crate) async fn read_run<T>(
        &mut self,
        waiter: &impl Waiter,
        max: usize,
        timeout: Option<Duration>,
        decode: impl FnOnce(ElementForm, &[u8], usize) -> Result<Vec<T>, StreamError>,
    ) -> Result<Run<T>, StreamError> {
        match self.acquire(waiter, max, timeout).await? {
            Acquired::Ended { writer, end } => Ok(Run::Ended { writer, end }),
            Acquired::Elements {
                writer,
                elements: (core, count),
            } => {
                let form = core.form;
                let bytes = core.region(count)?;
                let len = bytes.len();
                let elements = decode(form, bytes, count)?;
                core.release(len, count);
                Ok(Run::Elements { writer, elements })
            }
        }
    }

    /// Waits for elements of any writer, or for the end of a writer's stream. Returns the reader of
    /// that writer, and the number of elements, at most `max`.
    pub(crate) async fn acquire(
        &mut self,
        waiter: &impl Waiter,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Acquired<(&mut ReaderCore, usize)>, StreamError> {
        match self.wait(waiter, max, timeout).await? {
            Found::Ended(writer, end) => Ok(Acquired::Ended { writer, end }),
            Found::Elements(index, count) => {
                let Source { member, core, .. } = &mut self.sources[index];
                Ok(Acquired::Elements {
                    writer: member.clone(),
                    elements: (core, count),
                })
            }
        }
    }

    /// Waits for elements of any writer, or for the end of a writer's stream. Writers take turns.
    async fn wait(
        &mut self,
        waiter: &impl Waiter,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Found, StreamError> {
        let max = max.max(1);
        if let Some(found) = self.find(max).await? {
            return Ok(found);
        }
        let deadline = Environment::Real.deadline(timeout);
        let mut watch = self.hub.bell.watch();
        loop {
            if let Some(found) = self.find(max).await? {
                return Ok(found);
            }
            if !watch.wait_for_ring(waiter, &self.bell_link, deadline).await {
                return Err(StreamError::Timeout {
                    timeout: timeout.unwrap_or_default(),
                    what: "no writer has sent anything",
                });
            }
        }
    }

    /// Searches the sources, beginning with the next one, for elements or for the end of a stream
    /// whose elements have all been read.
    async fn find(&mut self, max: usize) -> Result<Option<Found>, StreamError> {
        self.sources.append(&mut self.hub.lanes.take_new_sources());
        let count = self.sources.len();
        for step in 0..count {
            let index = (self.next + step) % count;
            let Source { core, has_end, .. } = &mut self.sources[index];
            let elements = match core.available() {
                0 if has_end.get().is_none() => continue,
                // This call does not wait, so it never blocks an async caller.
                0 => match core.wait_for(&Blocking, ReadAmount::Available, None).await {
                    Ok(elements) => elements,
                    Err(error) => return self.end(index, error).map(Some),
                },
                elements => elements,
            };
            if elements > 0 {
                self.next = (index + 1) % count;
                return Ok(Some(Found::Elements(index, elements.min(max))));
            }
        }
        Ok(None)
    }

    /// Removes a writer whose stream has ended. `error` is the result of reading from that writer,
    /// and determines the reported end.
    fn end(&mut self, index: usize, error: StreamError) -> Result<Found, StreamError> {
        let end = RunEnd::of(error)?;
        let Source { member, core, .. } = self.sources.remove(index);
        // The source after the removed one now has this index.
        self.next = index;
        self.hub.forget(member.number, core.ring.read_elements());
        // The writer may have to reconnect to learn about the end. The program must not wait for
        // that.
        let closer = thread::Builder::new().name("trunkline-leave".to_owned());
        let _detached = closer.spawn(move || drop(core));
        Ok(Found::Ended(member, end))
    }

    /// Returns the writers that are connected or may reconnect, and those with elements left to
    /// read.
    pub(crate) fn peers(&mut self) -> Vec<PeerStatus> {
        self.sources.append(&mut self.hub.lanes.take_new_sources());
        let status_of = |source: &mut Source| PeerStatus {
            member: source.member.clone(),
            is_connected: source.core.link.with(|end, _, _| end.link.is_connected()),
            waiting: source.core.available() as u64,
            lost: 0,
        };
        self.sources.iter_mut().map(status_of).collect()
    }

    /// Destroys the reader; each writer learns how far its stream has been read.
    pub(crate) async fn close(&mut self, waiter: &impl Waiter) {
        self.hub.close();
        self.registration = None;
        self.sources.append(&mut self.hub.lanes.take_new_sources());
        // All writers are notified before waiting for any of them.
        for source in &self.sources {
            source.core.link.with(|end, _, _| {
                end.poll_ring();
                end.link.abort();
            });
        }
        for mut source in std::mem::take(&mut self.sources) {
            source.core.close(waiter).await;
            self.hub.remove(source.member.number);
        }
        self.bell_link.close(Clock::new().now());
    }
}

impl Drop for FanInCore {
    fn drop(&mut self) {
        if !self.bell_link.is_closed() {
            crate::wait::block(self.close(&Blocking));
        }
    }
}
