//! The data delivered to a subscriber, and the trait that receives it.

use trunkline_types::ledger::EndedItem;
use trunkline_types::{Contract, Lost, Position};

use crate::delivery::feed::SharedRun;
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscribe {
    pub subscription: u32,
    pub contract: Contract,
    /// Deliver only updates that differ from the previous one in value or quality.
    pub only_changes: bool,
    /// The last update that the subscriber already has, from an earlier connection.
    pub resume: Option<Position>,
    /// Under `all`: the first update uses no credit, because the subscriber can identify it.
    pub first_is_free: bool,
}

impl Subscribe {
    /// Creates the options of a subscriber that has no update yet and also wants updates that
    /// repeat a value.
    pub fn new(subscription: u32, contract: Contract) -> Self {
        Self {
            subscription,
            contract,
            only_changes: false,
            resume: None,
            first_is_free: false,
        }
    }
}

/// One delivery: an update of one item of one subscription, with the losses before it.
#[derive(Debug)]
pub struct Delivery<'a> {
    pub subscription: u32,
    pub variable: &'a Arc<Variable>,
    /// The update; sequence 0 and no value if the variable was never written.
    pub update: &'a Update,
    /// Updates that this item missed since its previous delivery.
    pub lost: Lost,
    /// Updates that `only_changes` filtered out since the previous delivery. They do not count as
    /// lost.
    pub filtered: u64,
}

/// Receives deliveries. [`wants`](Self::wants) is called before each one.
///
/// Called on the draining thread while no lock is held, so it may write variables.
pub trait Sink {
    /// Returns true if the sink accepts another delivery.
    fn wants(&self) -> bool;
    fn deliver(&mut self, delivery: &Delivery<'_>);
    /// Receives consecutive deliveries of one subscription without losses, each an update with its
    /// variable's handle. An implementation takes the first update in any case, and further ones as
    /// long as it accepts more. It takes none if it needs each update through `deliver`.
    fn deliver_all(
        &mut self,
        _subscription: u32,
        _updates: &mut dyn Iterator<Item = (u32, &Update)>,
    ) {
    }
    /// Encodes updates of an `all` feed into `out`, which is empty, as one self-contained run for
    /// all members of the feed. Each update comes with its variable's handle. Returns a number that
    /// is stored with the run for the sinks, or `None` if this sink needs updates singly.
    fn encode(
        &mut self,
        _updates: &mut dyn Iterator<Item = (u32, &Update)>,
        _out: &mut Vec<u8>,
    ) -> Option<u64> {
        None
    }
    /// Returns true if the sink accepts this encoded run, whether it encoded the run itself or not.
    fn takes(&self, _run: &SharedRun) -> bool {
        false
    }
    /// Receives the updates of an encoded run. There are no losses before any of them.
    fn deliver_run(&mut self, _subscription: u32, _run: &SharedRun) {}
    /// Reports that the subscription has ended because it exceeded its bound. All queued updates
    /// were delivered before.
    fn overrun(&mut self, subscription: u32, items: &[EndedItem]);
    /// Reports that the variable was undeployed. All its updates were delivered before.
    fn gone(&mut self, subscription: u32, handle: u32);
}
