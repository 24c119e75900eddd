//! Endpoints in a simulated world: the same cores, ends and journals, with the time, the chance,
//! the network and the disk of a simulator, in one thread.
//!
//! ```text
//!   SimWriter | SimReader     the cores, as programs use them; they wait as futures
//!        |
//!      Seat                   in the place of the link: End<S> behind a lock
//!        |
//!     Driven                  what the simulator has: it turns the end as a link does
//! ```
//!
//! No part of the crate's interface: only with the feature `sim`.

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

/// The time of a world.
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

/// A program's process, and the machine that it is on.
pub struct Process {
    clock: Arc<SimClock>,
    random: Mutex<u64>,
    host: Mutex<Option<Arc<DirectoryHost>>>,
    disk: Mutex<Option<(Arc<dyn Disk>, Bounds)>>,
    /// The end that came last, and how many have come.
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

    /// It is gone, and with it what it had.
    pub fn forget(&self) {
        lock(&self.seated).0 = None;
    }

    /// Where its endpoints register.
    pub fn set_host(&self, host: Arc<DirectoryHost>) {
        *lock(&self.host) = Some(host);
    }

    /// Where the journal of its next endpoint is.
    pub fn set_disk(&self, disk: Arc<dyn Disk>, bounds: Bounds) {
        *lock(&self.disk) = Some((disk, bounds));
    }

    /// The endpoint that was created last, and how many were.
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

    /// An end comes into this process.
    pub(crate) fn seat<S: Asked>(
        self: &Arc<Self>,
        end: End<S>,
        is_checked: Option<bool>,
    ) -> (Arc<Placed<S>>, Arc<dyn Arrivals>) {
        // Machines are always two here.
        let seat = Arc::new(Seat::new(self.clone(), end, is_checked.unwrap_or(true)));
        let seated = &mut *lock(&self.seated);
        seated.0 = Some(seat.clone());
        seated.1 += 1;
        let arrivals = seat.door();
        (Arc::new(Placed::of_program(seat)), arrivals)
    }
}

/// An end, as the simulator drives it.
pub trait Driven: Send + Sync {
    /// Runs `f` on the end, as a link does under its lock.
    fn drive(&self, f: &mut dyn FnMut(&mut dyn Endpoint));
    /// Who has come to it, in order: the transport's number, and what was read of it.
    fn next_arrival(&self) -> Option<(u64, Vec<u8>)>;
    /// The first who came is let in; otherwise the answer.
    ///
    /// # Errors
    /// What to answer before the transport is closed.
    fn admit(&self, bytes: &[u8]) -> Result<(), Vec<u8>>;
    /// Whether a program waits, and until when.
    fn waits(&self) -> Option<Option<Tick>>;
    /// Whether a program has used the end since it was asked last.
    fn take_touched(&self) -> bool;
    /// It is to be closed when everything is sent, or by then.
    fn closes_by(&self) -> Option<Tick>;
    /// Its process is gone: no call does anything any more.
    fn kill(&self);
    /// As a program of a monitor asks.
    fn properties(&self) -> Properties;
    /// The life of its peer, while it knows one.
    fn peer(&self) -> Option<[u8; 16]>;
    /// What its peer says of itself, and this end's own life: of a peer that has been heard.
    fn peer_heard(&self) -> Option<(StreamEnd, Incarnation)>;
    /// Its own life.
    fn incarnation(&self) -> [u8; 16];
    /// How often it has lost a connection that was up.
    fn disconnections(&self) -> u64;
    /// Whether it is connected with its peer.
    fn is_connected(&self) -> bool;
    /// Whether its stream is over, however.
    fn is_over(&self) -> bool;
    /// Why it is over, as its program is told.
    fn fault(&self) -> Option<StreamFault>;
    /// What its disk is to make safe, if it was told so.
    fn sync_job(&self) -> Option<SyncJob>;
    /// That was done, or not.
    fn finish_sync(&self, done: Synced);
}

/// Rings for a session of a directory.
#[derive(Clone, Default)]
pub struct Bell(Arc<Mutex<bool>>);

impl Bell {
    pub(crate) fn ring(&self) {
        *lock(&self.0) = true;
    }

    /// Whether it rings.
    pub fn is_rung(&self) -> bool {
        *lock(&self.0)
    }

    /// Whether it has rung since.
    pub fn take(&self) -> bool {
        std::mem::take(&mut lock(&self.0))
    }
}

/// A directory with a clock of this world.
pub fn directory(process: &Arc<Process>) -> Arc<DirectoryHost> {
    let machine = Machine::Simulated(process.clone());
    Arc::new(DirectoryHost::simulated(machine))
}

/// A connection to a directory, which gives no names to others.
pub fn session(host: &Arc<DirectoryHost>, bell: &Bell, now: Tick) -> DirectorySession {
    let bell = directory::Bell::Simulated(bell.clone());
    DirectorySession::told_by(host.clone(), bell, now).without_names()
}

/// A connection whose session said that it is somebody's by this number.
pub fn hand_over(host: &DirectoryHost, number: u64, transport: u64) {
    host.hand_over_simulated(number, transport);
}

/// What a seat keeps of the thread that there is otherwise.
pub(crate) type Wakes = Receiver<()>;

fn is_over<H>(link: &Link<H>) -> Option<StreamFault> {
    link.fault().cloned()
}
