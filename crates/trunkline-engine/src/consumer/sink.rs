//! What a subscriber gets, and how it is handed over.

use trunkline_types::{Lost, Position};

use crate::feed::SharedRun;
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;

/// What a subscriber wants beside the contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SubscribeOptions {
    /// Only updates that differ from the one before in value or quality.
    pub only_changes: bool,
}

/// One delivery: an update of one item of one subscription, and what was missed before it.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// The subscription, by the number its subscriber gave it.
    pub subscription: u32,
    /// The variable.
    pub variable: &'a Arc<Variable>,
    /// The update; sequence 0 and no value when nothing was written yet.
    pub update: &'a Update,
    /// What this item missed since its previous delivery.
    pub lost: Lost,
    /// Updates held back by `only_changes` since its previous delivery; not lost.
    pub filtered: u64,
}

/// How a subscription that overran its bound ended, item by item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedItem {
    /// The variable's handle.
    pub handle: u32,
    /// The last update that was delivered.
    pub last: Position,
    /// Updates written after it that were not, those that `only_changes` held back not counted.
    pub lost: u64,
}

/// Takes deliveries; asked before each whether it still has room.
///
/// It is called on the thread that drains, while no lock is held: it may write variables.
pub trait Sink {
    /// Whether one more delivery is welcome.
    fn wants(&self) -> bool;
    /// One delivery. Deliveries of one subscription come in runs.
    fn deliver(&mut self, delivery: &Delivery<'_>);
    /// Deliveries of one subscription with nothing missed before any of them, each an update with
    /// its variable's handle: takes them for as long as it wants any, one without asking. Takes
    /// none where it wants them one by one.
    fn deliver_all(
        &mut self,
        _subscription: u32,
        _updates: &mut dyn Iterator<Item = (u32, &Update)>,
    ) {
    }
    /// Puts updates of an `all` feed down as one piece that stands by itself, for all who share the
    /// feed, in `out`, which is empty; each comes with its variable's handle. Returns a number that
    /// the piece keeps for the sinks; `None`: this sink takes them one by one.
    fn encode(
        &mut self,
        _updates: &mut dyn Iterator<Item = (u32, &Update)>,
        _out: &mut Vec<u8>,
    ) -> Option<u64> {
        None
    }
    /// Whether such a piece, which this sink or another one has encoded, is welcome as it is.
    fn takes(&self, _run: &SharedRun) -> bool {
        false
    }
    /// The updates of such a piece, none of which was preceded by a loss.
    fn deliver_run(&mut self, _subscription: u32, _run: &SharedRun) {}
    /// The subscription has ended because it overran its bound; all it held was delivered before.
    fn overrun(&mut self, subscription: u32, items: &[EndedItem]);
    /// The variable was undeployed; all it had was delivered before.
    fn gone(&mut self, subscription: u32, handle: u32);
}
