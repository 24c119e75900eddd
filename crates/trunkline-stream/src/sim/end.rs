//! Implements an endpoint in a simulated process, which replaces the network link.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use trunkline_net::Transport;
use trunkline_proto::Endpoint;
use trunkline_proto::message::stream::directory::Ticket;
use trunkline_proto::message::stream::{Incarnation, StreamEnd};
use trunkline_proto::stream::StreamFault;
use trunkline_types::Tick;

use super::{Process, SimEndpoint, lock};
use crate::directory::{Arrival, Arrivals};
use crate::end::{EndpointRole, StreamEndpoint};
use crate::handle::{EndpointHandle, Environment, SimulatedEnvironment, SimulatedLink};
use crate::journal::{SyncJob, Synced};
use crate::properties::{HasProperties, Properties};
use crate::rendezvous::World;

/// Requests to sync the journal. Outside a simulation, a thread receives them and syncs the journal.
type Wakes = Receiver<()>;

pub(crate) struct SimEnd<S: EndpointRole + 'static> {
    pub(crate) process: Arc<Process>,
    is_checked: bool,
    endpoint: Mutex<StreamEndpoint<S>>,
    state: Mutex<State>,
    /// Connections that wait to be admitted: the number of the transport, and the bytes read from it.
    arrived: Mutex<VecDeque<(u64, Vec<u8>)>>,
    /// A reference to this endpoint, for reading the properties.
    weak_self: Mutex<Weak<SimEnd<S>>>,
}

#[derive(Default)]
struct State {
    /// Set while a program is waiting, with the deadline of the wait.
    waits: Option<Option<Tick>>,
    /// A program has used the endpoint since the last query.
    was_used: bool,
    /// Time at which the endpoint closes at the latest; set once the program has dropped it.
    closes_by: Option<Tick>,
    wakes: Option<Wakes>,
}

impl<S: EndpointRole + 'static> SimEnd<S> {
    pub(super) fn new(process: Arc<Process>, end: StreamEndpoint<S>, is_checked: bool) -> Self {
        Self {
            process,
            is_checked,
            endpoint: Mutex::new(end),
            state: Mutex::default(),
            arrived: Mutex::default(),
            weak_self: Mutex::default(),
        }
    }
}

impl<S: HasProperties> SimEnd<S> {
    /// Returns the acceptor of connections that arrive for this endpoint.
    pub(super) fn acceptor(self: &Arc<Self>) -> Arc<dyn Arrivals> {
        *lock(&self.weak_self) = Arc::downgrade(self);
        Arc::new(Acceptor(Arc::downgrade(self)))
    }
}

/// A handle on a simulated end. Dropping the program's handle closes the end, as it closes a link.
pub(crate) struct SimHandle<S: EndpointRole + 'static> {
    end: Arc<SimEnd<S>>,
    is_of_program: bool,
}

impl<S: EndpointRole + 'static> SimHandle<S> {
    pub(super) fn of_program(end: Arc<SimEnd<S>>) -> Self {
        Self {
            end,
            is_of_program: true,
        }
    }

    fn of_monitor(end: Arc<SimEnd<S>>) -> Arc<Self> {
        Arc::new(Self {
            end,
            is_of_program: false,
        })
    }
}

impl<S: EndpointRole + 'static> SimulatedLink<S> for SimHandle<S> {
    fn environment(&self) -> Environment {
        self.end.process.environment()
    }

    fn end(&self) -> MutexGuard<'_, StreamEndpoint<S>> {
        lock(&self.end.state).was_used = true;
        lock(&self.end.endpoint)
    }

    fn ends_wait(&self, deadline: Option<Tick>, is_answered: bool) -> bool {
        let state = &mut *lock(&self.end.state);
        let is_late = deadline.is_some_and(|deadline| deadline <= self.end.process.now());
        let ends = is_answered || is_late || state.closes_by.is_some();
        state.waits = (!ends).then_some(deadline);
        ends
    }

    fn start_syncing(&self, wakes: Wakes) {
        lock(&self.end.state).wakes = Some(wakes);
    }

    fn close(&self, deadline: Tick) {
        let state = &mut *lock(&self.end.state);
        state.closes_by.get_or_insert(deadline);
    }

    fn is_closed(&self) -> bool {
        lock(&self.end.state).closes_by.is_some()
    }
}

impl<S: EndpointRole + 'static> Drop for SimHandle<S> {
    fn drop(&mut self) {
        if self.is_of_program {
            self.close(Tick::ZERO);
        }
    }
}

struct Acceptor<S: EndpointRole + 'static>(Weak<SimEnd<S>>);

impl<S: HasProperties> Arrivals for Acceptor<S> {
    fn arrive(&self, _: Transport, _: Arrival, _: &[u8]) {}

    fn revoke(&self, _: &Ticket, _: bool) {}

    fn tickets(&self) -> BTreeSet<Ticket> {
        BTreeSet::new()
    }

    fn arrive_simulated(&self, transport: u64, bytes: &[u8]) {
        if let Some(end) = self.0.upgrade() {
            lock(&end.arrived).push_back((transport, bytes.to_vec()));
        }
    }

    fn properties(&self) -> Option<Properties> {
        let end = self.0.upgrade()?;
        Some(Properties::of(&EndpointHandle::Simulated(
            SimHandle::of_monitor(end),
        )))
    }
}

impl<S: HasProperties> SimEndpoint for SimEnd<S> {
    fn drive(&self, f: &mut dyn FnMut(&mut dyn Endpoint)) {
        f(&mut *lock(&self.endpoint));
    }

    fn next_arrival(&self) -> Option<(u64, Vec<u8>)> {
        lock(&self.arrived).pop_front()
    }

    fn admit(&self, bytes: &[u8]) -> Result<(), Vec<u8>> {
        if lock(&self.state).closes_by.is_some() {
            return Err(Vec::new());
        }
        let end = &mut *lock(&self.endpoint);
        end.admit(self.process.now(), bytes, false, &None)?;
        end.link.set_checked(self.is_checked);
        Ok(())
    }

    fn waits(&self) -> Option<Option<Tick>> {
        lock(&self.state).waits
    }

    fn take_used(&self) -> bool {
        std::mem::take(&mut lock(&self.state).was_used)
    }

    fn close_deadline(&self) -> Option<Tick> {
        lock(&self.state).closes_by
    }

    fn kill(&self) {
        lock(&self.state).closes_by = Some(Tick::ZERO);
    }

    fn properties(&self) -> Properties {
        let touched = lock(&self.state).was_used;
        let properties = match lock(&self.weak_self).upgrade() {
            Some(end) => Properties::of(&EndpointHandle::Simulated(SimHandle::of_monitor(end))),
            None => unreachable!("`acceptor` has set the reference"),
        };
        // Reading properties does not count as use by the program.
        lock(&self.state).was_used = touched;
        properties
    }

    fn peer(&self) -> Option<[u8; 16]> {
        let end = lock(&self.endpoint);
        end.link.peer().map(|peer| peer.incarnation.0)
    }

    fn reported_peer(&self) -> Option<(StreamEnd, Incarnation)> {
        let link = &lock(&self.endpoint).link;
        let peer = link.peer().filter(|_| link.is_peer_confirmed())?;
        Some((peer.clone(), link.options().incarnation))
    }

    fn incarnation(&self) -> [u8; 16] {
        lock(&self.endpoint).link.options().incarnation.0
    }

    fn disconnections(&self) -> u64 {
        lock(&self.endpoint).link.disconnections()
    }

    fn is_connected(&self) -> bool {
        lock(&self.endpoint).link.is_connected()
    }

    fn is_over(&self) -> bool {
        lock(&self.endpoint).link.is_over()
    }

    fn fault(&self) -> Option<StreamFault> {
        lock(&self.endpoint).link.fault().cloned()
    }

    fn sync_job(&self) -> Option<SyncJob> {
        let is_requested = {
            let state = lock(&self.state);
            state.wakes.as_ref().is_some_and(|w| w.try_recv().is_ok())
        };
        is_requested
            .then(|| lock(&self.endpoint).inner.sync_job())
            .flatten()
    }

    fn finish_sync(&self, done: Synced) {
        let end = &mut *lock(&self.endpoint);
        end.inner.finish_sync(done);
        end.poll_ring();
        lock(&self.state).was_used = true;
    }
}
