//! An end in a simulated process, in the place of its link.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;

use trunkline_proto::Endpoint;
use trunkline_proto::message::stream::{Incarnation, StreamEnd};
use trunkline_proto::stream::StreamFault;
use trunkline_types::{Tick, Timestamp};

use super::{Driven, Process, Wakes, is_over, lock};
use crate::directory::Arrivals;
use crate::end::syncing::Syncs;
use crate::end::{End, Inner};
use crate::held::Held;
use crate::journal::{SyncJob, Synced};
use crate::properties::{Asked, Properties};

pub(crate) struct Seat<S: Inner + 'static> {
    pub(crate) process: Arc<Process>,
    is_checked: bool,
    state: Mutex<State<S>>,
    arrived: Mutex<VecDeque<(u64, Vec<u8>)>>,
    /// A reference to itself, for reading its properties.
    own: Mutex<Weak<Seat<S>>>,
}

struct State<S: Inner> {
    end: End<S>,
    /// Set while a program waits, with the deadline of the wait.
    waits: Option<Option<Tick>>,
    is_touched: bool,
    closes_by: Option<Tick>,
    wakes: Option<Wakes>,
}

impl<S: Inner + 'static> Seat<S> {
    pub(super) fn new(process: Arc<Process>, end: End<S>, is_checked: bool) -> Self {
        let state = State {
            end,
            waits: None,
            is_touched: false,
            closes_by: None,
            wakes: None,
        };
        Self {
            process,
            is_checked,
            state: Mutex::new(state),
            arrived: Mutex::default(),
            own: Mutex::default(),
        }
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut End<S>, Tick, Timestamp) -> R) -> R {
        let state = &mut *lock(&self.state);
        state.is_touched = true;
        f(&mut state.end, self.process.now(), Timestamp::UNIX_EPOCH)
    }

    pub(crate) async fn wait<R>(
        &self,
        deadline: Option<Tick>,
        mut f: impl FnMut(&mut End<S>, Tick) -> Option<R>,
    ) -> Option<R> {
        let waited = poll_fn(|_| {
            let state = &mut *lock(&self.state);
            let now = self.process.now();
            state.is_touched = true;
            let answer = f(&mut state.end, now);
            let is_late = deadline.is_some_and(|deadline| deadline <= now);
            if answer.is_some() || is_late || state.closes_by.is_some() {
                state.waits = None;
                return Poll::Ready(answer);
            }
            state.waits = Some(deadline);
            Poll::Pending
        });
        waited.await
    }

    pub(crate) fn close(&self, deadline: Tick) {
        lock(&self.state).closes_by.get_or_insert(deadline);
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closes_by.is_some()
    }
}

impl<S: Asked> Seat<S> {
    /// The door through which arrivals reach this end.
    pub(super) fn door(self: &Arc<Self>) -> Arc<dyn Arrivals> {
        *lock(&self.own) = Arc::downgrade(self);
        Arc::new(Door(Arc::downgrade(self)))
    }
}

/// A handle on a seat. Dropping the program's handle closes the seat, as it closes a link.
pub(crate) struct Placed<S: Inner + 'static> {
    seat: Arc<Seat<S>>,
    is_of_program: bool,
}

impl<S: Inner + 'static> Placed<S> {
    pub(super) fn of_program(seat: Arc<Seat<S>>) -> Self {
        Self {
            seat,
            is_of_program: true,
        }
    }

    fn of_monitor(seat: Arc<Seat<S>>) -> Arc<Self> {
        Arc::new(Self {
            seat,
            is_of_program: false,
        })
    }
}

impl<S: Inner + 'static> Deref for Placed<S> {
    type Target = Arc<Seat<S>>;

    fn deref(&self) -> &Arc<Seat<S>> {
        &self.seat
    }
}

impl<S: Inner + 'static> Drop for Placed<S> {
    fn drop(&mut self) {
        if self.is_of_program {
            self.seat.close(Tick::ZERO);
        }
    }
}

struct Door<S: Inner + 'static>(Weak<Seat<S>>);

impl<S: Asked> Arrivals for Door<S> {
    fn arrive(&self, _: OwnedFd, _: &[u8]) {}

    fn arrive_simulated(&self, transport: u64, bytes: &[u8]) {
        if let Some(seat) = self.0.upgrade() {
            lock(&seat.arrived).push_back((transport, bytes.to_vec()));
        }
    }

    fn properties(&self) -> Option<Properties> {
        let seat = self.0.upgrade()?;
        Some(S::properties(&Held::Simulated(Placed::of_monitor(seat))))
    }
}

impl<S: Asked> Driven for Seat<S> {
    fn drive(&self, f: &mut dyn FnMut(&mut dyn Endpoint)) {
        f(&mut lock(&self.state).end);
    }

    fn next_arrival(&self) -> Option<(u64, Vec<u8>)> {
        lock(&self.arrived).pop_front()
    }

    fn admit(&self, bytes: &[u8]) -> Result<(), Vec<u8>> {
        let state = &mut *lock(&self.state);
        if state.closes_by.is_some() {
            return Err(Vec::new());
        }
        state.end.admit(self.process.now(), bytes, false)?;
        state.end.link.set_checked(self.is_checked);
        Ok(())
    }

    fn waits(&self) -> Option<Option<Tick>> {
        lock(&self.state).waits
    }

    fn take_touched(&self) -> bool {
        std::mem::take(&mut lock(&self.state).is_touched)
    }

    fn closes_by(&self) -> Option<Tick> {
        lock(&self.state).closes_by
    }

    fn kill(&self) {
        lock(&self.state).closes_by = Some(Tick::ZERO);
    }

    fn properties(&self) -> Properties {
        let touched = lock(&self.state).is_touched;
        let properties = match lock(&self.own).upgrade() {
            Some(seat) => S::properties(&Held::Simulated(Placed::of_monitor(seat))),
            None => unreachable!("it has a door"),
        };
        // Reading properties does not count as use by the program.
        lock(&self.state).is_touched = touched;
        properties
    }

    fn peer(&self) -> Option<[u8; 16]> {
        let state = lock(&self.state);
        state.end.link.peer().map(|peer| peer.incarnation.0)
    }

    fn peer_heard(&self) -> Option<(StreamEnd, Incarnation)> {
        let link = &lock(&self.state).end.link;
        let peer = link.peer().filter(|_| link.is_peer_heard())?;
        Some((peer.clone(), link.options().incarnation))
    }

    fn incarnation(&self) -> [u8; 16] {
        lock(&self.state).end.link.options().incarnation.0
    }

    fn disconnections(&self) -> u64 {
        lock(&self.state).end.link.disconnections()
    }

    fn is_connected(&self) -> bool {
        lock(&self.state).end.link.is_connected()
    }

    fn is_over(&self) -> bool {
        lock(&self.state).end.link.is_over()
    }

    fn fault(&self) -> Option<StreamFault> {
        is_over(&lock(&self.state).end.link)
    }

    fn sync_job(&self) -> Option<SyncJob> {
        let state = lock(&self.state);
        let is_told = state.wakes.as_ref().is_some_and(|w| w.try_recv().is_ok());
        is_told.then(|| state.end.inner.sync_job()).flatten()
    }

    fn finish_sync(&self, done: Synced) {
        let state = &mut *lock(&self.state);
        state.end.inner.finish_sync(done);
        state.end.look();
        state.is_touched = true;
    }
}

/// Replaces the thread that syncs a journal.
pub(crate) fn start_syncing<S: Syncs + 'static>(seat: &Arc<Seat<S>>, wakes: Wakes) {
    lock(&seat.state).wakes = Some(wakes);
}
