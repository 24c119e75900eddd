//! One subscription as a program sees it. Every missing update must have been reported.

use std::collections::HashMap;
use std::sync::Arc;

use trunkline::Event;
use trunkline::proto::Disconnect;
use trunkline_types::Reading;

/// The newest reading of each item, and the losses so far.
#[derive(Default)]
pub struct View {
    pub newest: HashMap<u32, Reading>,
    pub readings: u64,
    /// Updates merged into newer ones, or lost, according to the readings.
    pub skipped: u64,
    /// Updates lost while the connection was up or down, against the contract.
    pub lost: u64,
    /// Connections that ended, and why.
    pub disconnects: Vec<Arc<Disconnect>>,
    pub connects: u64,
    /// Engine starts that items have lived through.
    pub restarts: u64,
}

impl View {
    /// Processes an event. Within an epoch every missing number must be accounted for exactly, and
    /// none may arrive twice or late; across epochs the loss must be unknown.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Reading { item, reading } => self.take_reading(item, reading),
            Event::Connected { .. } => self.connects += 1,
            Event::Disconnected { cause, .. } => self.disconnects.push(cause),
            Event::ItemError { item, fault } => panic!("item {item}: {fault}"),
            _ => {}
        }
    }

    fn take_reading(&mut self, item: u32, reading: Reading) {
        self.readings += 1;
        let lost = reading.lost;
        if let Some(before) = self.newest.get(&item) {
            let (last, next) = (before.position, reading.position);
            if last.epoch == next.epoch {
                // A change of quality alone, such as `stale`, has the number of its value.
                assert!(
                    next.sequence >= last.sequence,
                    "item {item}: {last:?} after {next:?}"
                );
                let gap = (next.sequence - last.sequence).saturating_sub(1);
                let against = lost.count();
                let told = against.map(|against| against + lost.coalesced);
                assert_eq!(
                    told,
                    Some(gap),
                    "item {item}, {last:?} to {next:?}: {lost:?}"
                );
                self.skipped += gap;
                self.lost += against.unwrap_or(0);
            } else {
                assert!(lost.unknown, "item {item}, {last:?} to {next:?}: {lost:?}");
                self.restarts += 1;
            }
        }
        self.newest.insert(item, reading);
    }

    /// Returns true if the newest readings match the engine's: position and value of each.
    pub fn equals(&self, engine: &[Reading]) -> bool {
        engine.iter().enumerate().all(|(item, theirs)| {
            let ours = self.newest.get(&(item as u32));
            ours.is_some_and(|ours| {
                ours.position == theirs.position && ours.sample.value == theirs.sample.value
            })
        })
    }
}
