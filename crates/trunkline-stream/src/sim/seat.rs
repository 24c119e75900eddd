//! An end in a simulated process; it takes the place of a link.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use trunkline_proto::Endpoint;
use trunkline_proto::message::stream::{Incarnation, StreamEnd};
use trunkline_proto::stream::StreamFault;
use trunkline_types::Tick;

use super::{Driven, Process, lock};
use crate::directory::Arrivals;
use crate::end::{EndpointRole, StreamEndpoint};
use crate::handle::{EndpointHandle, Environment, SimulatedEnvironment, SimulatedLink};
use crate::journal::{SyncJob, Synced};
use crate::properties::{HasProperties, Properties};
use crate::rendezvous::World;

/// Wake-ups for the thread that syncs the journal outside the simulation.
type Wakes = Receiver<()>;

pub(crate) struct Seat<S: EndpointRole + 'static> {
    pub(crate) process: Arc<Process>,
    is_checked: bool,
    end: Mutex<StreamEndpoint<S>>,
    state: Mutex<State>,
    arrived: Mutex<VecDeque<(u64, Vec<u8>)>>,
    /// A reference to itself, for reading its properties.
    own: Mutex<Weak<Seat<S>>>,
}

#[derive(Default)]
struct State {
    /// Set while a program waits, with the deadline of the wait.
    waits: Option<Option<Tick>>,
    is_touched: bool,
    closes_by: Option<Tick>,
    wakes: Option<Wakes>,
}

impl<S: EndpointRole + 'static> Seat<S> {
    pub(super) fn new(process: Arc<Process>, end: StreamEndpoint<S>, is_checked: bool) -> Self {
        Self {
            process,
            is_checked,
            end: Mutex::new(end),
            state: Mutex::default(),
            arrived: Mutex::default(),
            own: Mutex::default(),
        }
    }
}

impl<S: HasProperties> Seat<S> {
    /// Returns the acceptor of connections that arrive for this end.
    pub(super) fn acceptor(self: &Arc<Self>) -> Arc<dyn Arrivals> {
        *lock(&self.own) = Arc::downgrade(self);
        Arc::new(Acceptor(Arc::downgrade(self)))
    }
}

/// A handle on a seat. Dropping the program's handle closes the seat, as it closes a link.
pub(crate) struct Placed<S: EndpointRole + 'static> {
    seat: Arc<Seat<S>>,
    is_of_program: bool,
}

impl<S: EndpointRole + 'static> Placed<S> {
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

impl<S: EndpointRole + 'static> SimulatedLink<S> for Placed<S> {
    fn environment(&self) -> Environment {
        self.seat.process.environment()
    }

    fn end(&self) -> MutexGuard<'_, StreamEndpoint<S>> {
        lock(&self.seat.state).is_touched = true;
        lock(&self.seat.end)
    }

    fn ends_wait(&self, deadline: Option<Tick>, is_answered: bool) -> bool {
        let state = &mut *lock(&self.seat.state);
        let is_late = deadline.is_some_and(|deadline| deadline <= self.seat.process.now());
        let ends = is_answered || is_late || state.closes_by.is_some();
        state.waits = (!ends).then_some(deadline);
        ends
    }

    fn start_syncing(&self, wakes: Wakes) {
        lock(&self.seat.state).wakes = Some(wakes);
    }

    fn close(&self, deadline: Tick) {
        let state = &mut *lock(&self.seat.state);
        state.closes_by.get_or_insert(deadline);
    }

    fn is_closed(&self) -> bool {
        lock(&self.seat.state).closes_by.is_some()
    }
}

impl<S: EndpointRole + 'static> Drop for Placed<S> {
    fn drop(&mut self) {
        if self.is_of_program {
            self.close(Tick::ZERO);
        }
    }
}

struct Acceptor<S: EndpointRole + 'static>(Weak<Seat<S>>);

impl<S: HasProperties> Arrivals for Acceptor<S> {
    fn arrive(&self, _: OwnedFd, _: &[u8]) {}

    fn arrive_simulated(&self, transport: u64, bytes: &[u8]) {
        if let Some(seat) = self.0.upgrade() {
            lock(&seat.arrived).push_back((transport, bytes.to_vec()));
        }
    }

    fn properties(&self) -> Option<Properties> {
        let seat = self.0.upgrade()?;
        Some(Properties::of(&EndpointHandle::Simulated(
            Placed::of_monitor(seat),
        )))
    }
}

impl<S: HasProperties> Driven for Seat<S> {
    fn drive(&self, f: &mut dyn FnMut(&mut dyn Endpoint)) {
        f(&mut *lock(&self.end));
    }

    fn next_arrival(&self) -> Option<(u64, Vec<u8>)> {
        lock(&self.arrived).pop_front()
    }

    fn admit(&self, bytes: &[u8]) -> Result<(), Vec<u8>> {
        if lock(&self.state).closes_by.is_some() {
            return Err(Vec::new());
        }
        let end = &mut *lock(&self.end);
        end.admit(self.process.now(), bytes, false)?;
        end.link.set_checked(self.is_checked);
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
            Some(seat) => Properties::of(&EndpointHandle::Simulated(Placed::of_monitor(seat))),
            None => unreachable!("it has an acceptor"),
        };
        // Reading properties does not count as use by the program.
        lock(&self.state).is_touched = touched;
        properties
    }

    fn peer(&self) -> Option<[u8; 16]> {
        let end = lock(&self.end);
        end.link.peer().map(|peer| peer.incarnation.0)
    }

    fn peer_heard(&self) -> Option<(StreamEnd, Incarnation)> {
        let link = &lock(&self.end).link;
        let peer = link.peer().filter(|_| link.is_peer_heard())?;
        Some((peer.clone(), link.options().incarnation))
    }

    fn incarnation(&self) -> [u8; 16] {
        lock(&self.end).link.options().incarnation.0
    }

    fn disconnections(&self) -> u64 {
        lock(&self.end).link.disconnections()
    }

    fn is_connected(&self) -> bool {
        lock(&self.end).link.is_connected()
    }

    fn is_over(&self) -> bool {
        lock(&self.end).link.is_over()
    }

    fn fault(&self) -> Option<StreamFault> {
        lock(&self.end).link.fault().cloned()
    }

    fn sync_job(&self) -> Option<SyncJob> {
        let is_told = {
            let state = lock(&self.state);
            state.wakes.as_ref().is_some_and(|w| w.try_recv().is_ok())
        };
        is_told.then(|| lock(&self.end).inner.sync_job()).flatten()
    }

    fn finish_sync(&self, done: Synced) {
        let end = &mut *lock(&self.end);
        end.inner.finish_sync(done);
        end.poll_ring();
        lock(&self.state).is_touched = true;
    }
}
