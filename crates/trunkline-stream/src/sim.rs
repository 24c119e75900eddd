//! Endpoints in a simulated world: the production cores, ends and journals in one thread, with the
//! simulator's time, randomness, network and disk.
//!
//! ```text
//!   SimWriter | SimReader     the cores, as programs use them; they wait as futures
//!        |
//!      Seat                   in the place of the link: End<S> behind a lock
//!        |
//!     Driven                  what the simulator has: it turns the end as a link does
//! ```
//!
//! Not part of the crate's interface; only built with the feature `sim`.

#![allow(
    missing_docs,
    missing_debug_implementations,
    reason = "of the simulator only"
)]

mod program;
mod seat;

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trunkline_proto::Endpoint;
use trunkline_proto::message::stream::{Incarnation, StreamEnd};
use trunkline_proto::stream::{Link, StreamFault};
use trunkline_types::Tick;

use crate::directory::{self, Arrivals, DirectoryHost, DirectorySession};
use crate::end::End;
use crate::journal::disk::Disk;
use crate::journal::{Bounds, SyncJob, Synced};
use crate::machine::Machine;
use crate::properties::{Asked, Properties};

pub use self::program::{SimReader, SimWriter};
pub(crate) use self::seat::{Placed, Seat, start_syncing};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time of a simulated world.
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

/// A program's process and its machine.
pub struct Process {
    clock: Arc<SimClock>,
    random: Mutex<u64>,
    host: Mutex<Option<Arc<DirectoryHost>>>,
    disk: Mutex<Option<(Arc<dyn Disk>, Bounds)>>,
    /// The end created last, and the number of ends created.
    seated: Mutex<(Option<Arc<dyn Driven>>, u64)>,
}

impl Process {
    pub fn new(clock: &Arc<SimClock>, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            random: Mutex::new(seed),
            host: Mutex::default(),
            disk: Mutex::default(),
            seated: Mutex::default(),
        })
    }

    /// Drops the process's endpoint when the process ends.
    pub fn forget(&self) {
        lock(&self.seated).0 = None;
    }

    /// Sets the directory in which its endpoints register.
    pub fn set_host(&self, host: Arc<DirectoryHost>) {
        *lock(&self.host) = Some(host);
    }

    /// Sets the disk for the journal of its next endpoint.
    pub fn set_disk(&self, disk: Arc<dyn Disk>, bounds: Bounds) {
        *lock(&self.disk) = Some((disk, bounds));
    }

    /// The endpoint created last, and the number of endpoints created.
    pub fn seated(&self) -> (Option<Arc<dyn Driven>>, u64) {
        lock(&self.seated).clone()
    }

    pub(crate) fn now(&self) -> Tick {
        self.clock.now()
    }

    pub(crate) fn bits(&self) -> u64 {
        let mut state = lock(&self.random);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.bits().to_le_bytes());
        bytes[8..].copy_from_slice(&self.bits().to_le_bytes());
        bytes
    }

    pub(crate) fn host(&self) -> Arc<DirectoryHost> {
        let host = lock(&self.host).clone();
        host.unwrap_or_default()
    }

    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        match &*lock(&self.disk) {
            Some((disk, _)) => disk.clone(),
            None => Arc::new(crate::journal::sim_disk::SimDisk::default()),
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        match &*lock(&self.disk) {
            Some((_, bounds)) => *bounds,
            None => Bounds::of(1 << 20),
        }
    }

    /// Places an end in this process.
    pub(crate) fn seat<S: Asked>(
        self: &Arc<Self>,
        end: End<S>,
        is_checked: Option<bool>,
    ) -> (Arc<Placed<S>>, Arc<dyn Arrivals>) {
        // The two ends are always on different machines here.
        let seat = Arc::new(Seat::new(self.clone(), end, is_checked.unwrap_or(true)));
        let seated = &mut *lock(&self.seated);
        seated.0 = Some(seat.clone());
        seated.1 += 1;
        let arrivals = seat.door();
        (Arc::new(Placed::of_program(seat)), arrivals)
    }
}

/// An end as the simulator drives it.
pub trait Driven: Send + Sync {
    /// Runs `f` on the end, as a link does under its lock.
    fn drive(&self, f: &mut dyn FnMut(&mut dyn Endpoint));
    /// The next arrival in order: the transport's number, and the bytes read from it.
    fn next_arrival(&self) -> Option<(u64, Vec<u8>)>;
    /// Admits a peer that arrived with these bytes.
    ///
    /// # Errors
    /// The answer to send before the transport is closed.
    fn admit(&self, bytes: &[u8]) -> Result<(), Vec<u8>>;
    /// The deadline of the program's wait; `None` if no program waits.
    fn waits(&self) -> Option<Option<Tick>>;
    /// Returns true if a program has used the end since the last call.
    fn take_touched(&self) -> bool;
    /// The time by which the end must close, at the latest; it closes earlier once everything is
    /// sent.
    fn closes_by(&self) -> Option<Tick>;
    /// The process is gone: later calls have no effect.
    fn kill(&self);
    /// The properties as a monitor reads them.
    fn properties(&self) -> Properties;
    /// The incarnation of the peer, if known.
    fn peer(&self) -> Option<[u8; 16]>;
    /// The peer's own description, and this end's incarnation; `None` until the peer has been
    /// heard.
    fn peer_heard(&self) -> Option<(StreamEnd, Incarnation)>;
    /// The incarnation of this end.
    fn incarnation(&self) -> [u8; 16];
    /// Number of connections lost after they were up.
    fn disconnections(&self) -> u64;
    /// Returns true while connected to the peer.
    fn is_connected(&self) -> bool;
    /// Returns true if the stream is over, for any reason.
    fn is_over(&self) -> bool;
    /// The reason why the stream is over, as its program sees it.
    fn fault(&self) -> Option<StreamFault>;
    /// The data for the disk to sync, if a sync was requested.
    fn sync_job(&self) -> Option<SyncJob>;
    /// Reports the result of a sync.
    fn finish_sync(&self, done: Synced);
}

/// Wakes a session of a directory.
#[derive(Clone, Default)]
pub struct Bell(Arc<Mutex<bool>>);

impl Bell {
    pub(crate) fn ring(&self) {
        *lock(&self.0) = true;
    }

    /// Returns true if the bell has been rung.
    pub fn is_rung(&self) -> bool {
        *lock(&self.0)
    }

    /// Returns true if the bell has been rung, and resets it.
    pub fn take(&self) -> bool {
        std::mem::take(&mut lock(&self.0))
    }
}

/// A directory that uses the clock of this world.
pub fn directory(process: &Arc<Process>) -> Arc<DirectoryHost> {
    let machine = Machine::Simulated(process.clone());
    Arc::new(DirectoryHost::simulated(machine))
}

/// A connection to a directory; it cannot register names.
pub fn session(host: &Arc<DirectoryHost>, bell: &Bell, now: Tick) -> DirectorySession {
    let bell = directory::Bell::Simulated(bell.clone());
    DirectorySession::told_by(host.clone(), bell, now).without_names()
}

/// Hands a transport over to its endpoint, under the number that its session has returned.
pub fn hand_over(host: &DirectoryHost, number: u64, transport: u64) {
    host.hand_over_simulated(number, transport);
}

/// Wake-ups for the thread that syncs the journal outside the simulation.
pub(crate) type Wakes = Receiver<()>;

fn is_over<H>(link: &Link<H>) -> Option<StreamFault> {
    link.fault().cloned()
}
