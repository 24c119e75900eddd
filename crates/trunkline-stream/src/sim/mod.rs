//! Runs endpoints in a simulation: the production code of cores, endpoints and journals runs in one
//! thread, with the simulator's clock, random numbers, network and disk.
//!
//! ```text
//!   SimWriter | SimReader     the cores, as programs use them; they wait as futures
//!        |
//!      SimEnd                 replaces the link: StreamEndpoint<S> behind a lock
//!        |
//!    SimEndpoint              the simulator's interface: drives the end as a link does
//! ```
//!
//! Not part of the crate's interface; only built with the feature `sim`.

#![allow(
    missing_docs,
    missing_debug_implementations,
    reason = "only the simulator uses these items"
)]

mod end;
mod program;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trunkline_net::passing::Descriptors;
use trunkline_proto::Endpoint;
use trunkline_proto::message::stream::{Incarnation, StreamEnd};
use trunkline_proto::stream::StreamFault;
use trunkline_types::Tick;

use crate::directory::{self, DirectoryHost, DirectorySession, Registration};
use crate::end::StreamEndpoint;
use crate::error::StreamError;
use crate::handle::{EndpointHandle, Environment, SimulatedEnvironment};
use crate::journal::disk::Disk;
use crate::journal::{Bounds, JournalError, JournalOptions, SyncJob, Synced};
use crate::properties::{HasProperties, Properties};
use crate::rendezvous::{Plan, World};
use crate::wait::Waiter;

pub use self::program::{SimReader, SimWriter};
pub use crate::directory::SimulatedBell as Bell;

use self::end::{SimEnd, SimHandle};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock of a simulation.
#[derive(Default)]
pub struct SimClock(Mutex<Tick>);

impl SimClock {
    pub fn set(&self, now: Tick) {
        *lock(&self.0) = now;
    }

    pub fn now(&self) -> Tick {
        *lock(&self.0)
    }
}

/// A simulated process, and the machine on which the process runs.
pub struct Process {
    clock: Arc<SimClock>,
    random: Mutex<u64>,
    host: Mutex<Option<Arc<DirectoryHost>>>,
    disk: Mutex<Option<(Arc<dyn Disk>, Bounds)>>,
    /// The endpoint created last, and the number of endpoints created.
    ends: Mutex<(Option<Arc<dyn SimEndpoint>>, u64)>,
}

impl Process {
    pub fn new(clock: &Arc<SimClock>, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            random: Mutex::new(seed),
            host: Mutex::default(),
            disk: Mutex::default(),
            ends: Mutex::default(),
        })
    }

    /// Drops the process's endpoint when the process ends.
    pub fn forget(&self) {
        lock(&self.ends).0 = None;
    }

    /// Sets the directory in which the endpoints of this process register.
    pub fn set_host(&self, host: Arc<DirectoryHost>) {
        *lock(&self.host) = Some(host);
    }

    /// Sets the disk for the journal of the next endpoint.
    pub fn set_disk(&self, disk: Arc<dyn Disk>, bounds: Bounds) {
        *lock(&self.disk) = Some((disk, bounds));
    }

    /// Returns the endpoint created last, and the number of endpoints created.
    pub fn ends(&self) -> (Option<Arc<dyn SimEndpoint>>, u64) {
        lock(&self.ends).clone()
    }
}

impl SimulatedEnvironment for Process {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn bits(&self) -> u64 {
        let mut state = lock(&self.random);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl World for Arc<Process> {
    fn environment(&self) -> Environment {
        Environment::Simulated(self.clone())
    }

    fn disk(&self, _: &JournalOptions) -> Result<Arc<dyn Disk>, JournalError> {
        match &*lock(&self.disk) {
            Some((disk, _)) => Ok(disk.clone()),
            None => Ok(Arc::new(crate::journal::sim_disk::SimDisk::default())),
        }
    }

    fn bounds(&self, _: &JournalOptions, _: u64) -> Result<Bounds, JournalError> {
        let disk = lock(&self.disk);
        Ok(disk
            .as_ref()
            .map_or(Bounds::of(1 << 20), |(_, bounds)| *bounds))
    }

    /// Places an endpoint in this process.
    async fn start<S: HasProperties>(
        &self,
        _: &impl Waiter,
        plan: &Plan<'_, Self>,
        end: StreamEndpoint<S>,
        _: &Descriptors,
    ) -> Result<(EndpointHandle<S>, Option<Registration>), StreamError> {
        // In a simulation, the two endpoints are always on different machines.
        let is_checked = plan.options.is_checked.unwrap_or(true);
        let end = Arc::new(SimEnd::new(self.clone(), end, is_checked));
        {
            let ends = &mut *lock(&self.ends);
            ends.0 = Some(end.clone());
            ends.1 += 1;
        }
        let arrivals = end.acceptor();
        let host = lock(&self.host).clone().unwrap_or_default();
        let link = EndpointHandle::Simulated(Arc::new(SimHandle::of_program(end)));
        let registration = Registration::here(host, None, &plan.url, &plan.link, arrivals)?;
        Ok((link, Some(registration)))
    }
}

/// An endpoint as the simulator drives it.
pub trait SimEndpoint: Send + Sync {
    /// Runs `f` on the endpoint, as a link does under its lock.
    fn drive(&self, f: &mut dyn FnMut(&mut dyn Endpoint));
    /// Removes the oldest waiting connection, and returns the number of its transport and the bytes
    /// read from it.
    fn next_arrival(&self) -> Option<(u64, Vec<u8>)>;
    /// Admits a peer that arrived with these bytes.
    fn admit(&self, bytes: &[u8]) -> Result<(), Vec<u8>>;
    /// Returns the deadline of the program's wait; `None` if no program is waiting, `Some(None)` if
    /// the wait has no deadline.
    fn waits(&self) -> Option<Option<Tick>>;
    /// Returns true if a program has used the endpoint since the last call.
    fn take_used(&self) -> bool;
    /// Returns the time at which the endpoint closes at the latest. It closes earlier if everything
    /// has been sent.
    fn close_deadline(&self) -> Option<Tick>;
    /// Ends the process: later calls have no effect.
    fn kill(&self);
    /// Returns the properties as a monitor reads them.
    fn properties(&self) -> Properties;
    fn peer(&self) -> Option<[u8; 16]>;
    /// Returns the peer's description of itself, and this endpoint's incarnation; `None` until a
    /// message from the peer has arrived.
    fn reported_peer(&self) -> Option<(StreamEnd, Incarnation)>;
    fn incarnation(&self) -> [u8; 16];
    /// Returns the number of connections that were lost after they had been established.
    fn disconnections(&self) -> u64;
    fn is_connected(&self) -> bool;
    fn is_over(&self) -> bool;
    /// Returns the reason why the stream is over, as the program sees it.
    fn fault(&self) -> Option<StreamFault>;
    /// Returns a job that syncs the journal, if a sync was requested.
    fn sync_job(&self) -> Option<SyncJob>;
    fn finish_sync(&self, done: Synced);
}

/// Creates a directory that uses the clock of the simulation.
pub fn directory(process: &Arc<Process>) -> Arc<DirectoryHost> {
    Arc::new(DirectoryHost::simulated(process.environment()))
}

/// Creates a connection to a directory, over which no name can be registered.
pub fn session(host: &Arc<DirectoryHost>, bell: &Bell, now: Tick) -> DirectorySession {
    let notifier = directory::SessionNotifier::Simulated(bell.clone());
    let gate = Arc::new(directory::OpenGate);
    DirectorySession::with_notifier(host.clone(), notifier, gate, now).without_registration()
}

/// Hands a transport over to its endpoint. `number` is the value that the transport's session
/// returned.
pub fn hand_over(host: &DirectoryHost, number: u64, transport: u64) {
    host.hand_over_simulated(number, transport);
}
