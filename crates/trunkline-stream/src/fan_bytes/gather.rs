//! The byte-level core of every kind of reader with several writers.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use trunkline_net::{Clock, Spin, StreamMemory};
use trunkline_proto::stream::{ElementForm, LinkOptions, ReaderLink};
use trunkline_ring::{RingShape, RingStart};

use super::hub::{Hub, Lane, Lanes};
use super::member::{Acquired, Member, PeerStatus, Run, RunEnd};
use crate::bytes::{ConnectedEnd, ReaderCore, Wanted};
use crate::directory::Registration;
use crate::end::{Bell, Bells, ReaderEnd};
use crate::error::StreamError;
use crate::handle::{EndpointHandle, Environment};
use crate::properties::{Monitor, Properties};
use crate::wait::{Blocking, Waiter};

/// Creates the lanes of a reader, each with a buffer of its own.
pub(crate) struct Writers {
    pub(crate) shape: RingShape,
    pub(crate) is_touched: bool,
    pub(crate) bell: Arc<Bell>,
    /// Writers that the program has not seen yet; bounded by the maximum number of writers.
    fresh: Mutex<Vec<Source>>,
}

pub(crate) struct Source {
    member: Arc<Member>,
    core: ReaderCore,
    /// Set once no more data will arrive.
    has_end: Arc<OnceLock<()>>,
}

impl Writers {
    pub(crate) fn new(shape: RingShape, is_touched: bool, bell: Arc<Bell>) -> Self {
        Self {
            shape,
            is_touched,
            bell,
            fresh: Mutex::default(),
        }
    }

    fn take_fresh(&self) -> Vec<Source> {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *fresh)
    }
}

impl Lanes for Writers {
    type End = ReaderEnd;
    type ProgramPart = Arc<StreamMemory>;
    const REMOVE_WHEN_OVER: bool = false;
    const PEERS: &'static str = "writers";

    fn link(&self, options: LinkOptions) -> ReaderLink {
        ReaderLink::reader(options, Clock::new().now())
    }

    fn ends(&self) -> std::io::Result<(ReaderEnd, Arc<StreamMemory>)> {
        let memory = StreamMemory::create(self.shape, RingStart::default(), self.is_touched)?;
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
        let fresh = self.fresh.lock();
        fresh.unwrap_or_else(PoisonError::into_inner).push(source);
    }

    fn properties(&self, hub: &Hub<Self>) -> Properties {
        let mut found = hub.properties_of_lanes();
        for lane in hub.present() {
            let (ready, read) = lane.link.with(|end, _, _| {
                let read = end.inner.ring.read_elements().unwrap_or(0);
                (end.link.ready().1, read)
            });
            found.in_buffer += ready.saturating_sub(read);
            found.total += read;
        }
        found.total += hub.elements_before();
        found
    }
}

pub(crate) struct FanInCore {
    pub(crate) hub: Arc<Hub<Writers>>,
    bells: Arc<Bells>,
    sources: Vec<Source>,
    /// Index of the source whose turn is next.
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
        bells: Arc<Bells>,
        registration: Option<Registration>,
    ) -> Self {
        Self {
            hub,
            bells,
            sources: Vec::new(),
            next: 0,
            registration,
        }
    }

    /// Waits for elements of any writer, or for the end of a writer's stream, and takes the
    /// elements of that writer. `decode` gets the form, the bytes and the number of elements.
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
        let until = Environment::Real.deadline(timeout);
        let mut watch = self.hub.bell.watch();
        loop {
            if let Some(found) = self.find(max).await? {
                return Ok(found);
            }
            if !watch.rung(waiter, &self.bells, until).await {
                return Err(StreamError::Timeout {
                    timeout: timeout.unwrap_or_default(),
                    what: "no writer has sent anything",
                });
            }
        }
    }

    /// Searches for elements, or for a stream's end after its last element, beginning with the
    /// writer whose turn it is.
    async fn find(&mut self, max: usize) -> Result<Option<Found>, StreamError> {
        self.sources.append(&mut self.hub.lanes.take_fresh());
        let count = self.sources.len();
        for step in 0..count {
            let index = (self.next + step) % count;
            let Source { core, has_end, .. } = &mut self.sources[index];
            let elements = match core.available() {
                0 if has_end.get().is_none() => continue,
                // Does not wait, so it never blocks an async caller.
                0 => match core.wait_for(&Blocking, Wanted::Available, None).await {
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

    /// Removes a writer whose stream has ended. The error of reading from it becomes the reported
    /// end.
    fn end(&mut self, index: usize, error: StreamError) -> Result<Found, StreamError> {
        let end = RunEnd::of(error)?;
        let Source { member, core, .. } = self.sources.remove(index);
        // The next turn belongs to the source after it.
        self.next = index;
        self.hub.forget(member.number, core.ring.read_elements());
        // The writer may have to reconnect to learn about the end; readers must not wait for that.
        let leaving = thread::Builder::new().name("trunkline-leave".to_owned());
        let _detached = leaving.spawn(move || drop(core));
        Ok(Found::Ended(member, end))
    }

    /// The writers that are connected or expected back, and those with elements left to read.
    pub(crate) fn present(&mut self) -> Vec<PeerStatus> {
        self.sources.append(&mut self.hub.lanes.take_fresh());
        let present = |source: &mut Source| PeerStatus {
            member: source.member.clone(),
            is_connected: source.core.link.with(|end, _, _| end.link.is_connected()),
            waiting: source.core.available() as u64,
            lost: 0,
        };
        self.sources.iter_mut().map(present).collect()
    }

    /// Destroys the reader; each writer learns how far its stream has been read.
    pub(crate) async fn close(&mut self, waiter: &impl Waiter) {
        self.hub.close();
        self.registration = None;
        self.sources.append(&mut self.hub.lanes.take_fresh());
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
        self.bells.close(Clock::new().now());
    }
}

impl Drop for FanInCore {
    fn drop(&mut self) {
        if !self.bells.is_closed() {
            crate::wait::block(self.close(&Blocking));
        }
    }
}
