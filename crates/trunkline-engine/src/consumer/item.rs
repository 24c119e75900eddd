//! The items of a consumer: one variable under one subscription each, with its side of the ledger.

use std::collections::VecDeque;

use trunkline_types::{Lost, Position};

use super::sink::{Delivery, Sink};
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;

/// What an index of the outbox stands for.
pub(crate) enum Item {
    Variable(VariableItem),
    /// The feed of an `all` subscription.
    Feed {
        subscription: u32,
    },
}

/// One variable under one subscription. There may be two million, so what most do not need is
/// apart.
pub(crate) struct VariableItem {
    pub(crate) variable: Arc<Variable>,
    pub(crate) subscription: u32,
    /// Where it stands in its subscription's list.
    pub(crate) place: u32,
    /// Tells it from earlier items of the same index; never 0.
    generation: u32,
    /// Deliveries that the peer has not confirmed; 0 where it need not.
    unconfirmed: u32,
    /// Sequence before the first update that counts for this subscription.
    pub(crate) opened_at: u64,
    /// Sequence of the last delivery.
    pub(crate) last: u64,
    pub(crate) delivered: u64,
    pub(crate) coalesced: u64,
    rest: Option<Box<Rest>>,
    /// The first reading is still to be delivered.
    pub(crate) is_first: bool,
}

/// What only buffered contracts, filters and resumed subscriptions need.
#[derive(Default)]
pub(crate) struct Rest {
    /// The ring's push number to read next (`last:n`).
    pub(crate) cursor: u64,
    /// The first reading of a buffered contract, until it is delivered.
    pub(crate) initial: Option<Box<Update>>,
    /// Held back by `only_changes` and told.
    pub(crate) filtered: u64,
    /// Dropped by the buffer and told.
    pub(crate) queue: u64,
    pub(crate) disconnect: u64,
    /// Handed over once more because the peer had something else.
    pub(crate) repaired: u64,
    /// Still to be told with the next delivery.
    untold: Lost,
}

impl VariableItem {
    /// An item that counts from what the variable holds now, `sequence`, and from what the
    /// subscriber has already.
    pub(crate) fn new(
        variable: &Arc<Variable>,
        subscription: u32,
        generation: u32,
        sequence: u64,
        resume: Option<Position>,
        epoch: u64,
    ) -> Self {
        let mut item = Self {
            variable: Arc::clone(variable),
            subscription,
            place: 0,
            generation,
            unconfirmed: 0,
            opened_at: sequence.saturating_sub(1),
            last: sequence.saturating_sub(1),
            delivered: 0,
            coalesced: 0,
            rest: None,
            is_first: true,
        };
        let Some(had) = resume else { return item };
        if had.epoch != epoch || had.sequence > sequence {
            // Nobody knows what was written in between.
            item.rest().untold.unknown = true;
        } else if had.sequence == sequence {
            // What the subscriber has is what there is: nothing to deliver.
            item.opened_at = sequence;
            item.last = sequence;
            item.is_first = false;
        } else {
            let missed = sequence - 1 - had.sequence;
            item.opened_at = had.sequence;
            if missed > 0 {
                let rest = item.rest();
                rest.disconnect = missed;
                rest.untold.disconnect = missed;
            }
        }
        item
    }

    pub(crate) fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    pub(crate) fn rest_ref(&self) -> Option<&Rest> {
        self.rest.as_deref()
    }

    pub(crate) fn rest_mut(&mut self) -> Option<&mut Rest> {
        self.rest.as_deref_mut()
    }

    /// Held back by `only_changes` and told.
    pub(crate) fn filtered(&self) -> u64 {
        self.rest_ref().map_or(0, |rest| rest.filtered)
    }

    /// Whether the first reading of a buffered contract waits.
    pub(crate) fn has_initial(&self) -> bool {
        self.rest_ref().is_some_and(|rest| rest.initial.is_some())
    }

    pub(crate) fn unconfirmed(&self) -> u64 {
        u64::from(self.unconfirmed)
    }

    /// Hands over an update of a buffered contract: between two of those nothing is coalesced, so
    /// what is neither delivered nor dropped was filtered.
    pub(crate) fn hand_over_buffered(
        &mut self,
        index: u32,
        update: &Update,
        queue: u64,
        in_flight: &mut InFlight,
        sink: &mut dyn Sink,
    ) {
        let between = update.sequence.saturating_sub(self.last).saturating_sub(1);
        let filtered = between.saturating_sub(queue);
        if queue > 0 {
            self.rest().queue += queue;
        }
        let lost = Lost {
            queue,
            ..Lost::NONE
        };
        self.hand_over(index, update, lost, filtered, in_flight, sink);
    }

    /// The last delivery is made once more: until the peer confirms this one it counts as not
    /// confirmed.
    pub(crate) fn repair(&mut self, index: u32, in_flight: &mut InFlight) {
        self.rest().repaired += 1;
        let counts = self.last > 0;
        if in_flight.push(index, if counts { self.generation } else { 0 }) && counts {
            self.unconfirmed += 1;
        }
    }

    pub(crate) fn hand_over(
        &mut self,
        index: u32,
        update: &Update,
        lost: Lost,
        filtered: u64,
        in_flight: &mut InFlight,
        sink: &mut dyn Sink,
    ) {
        if filtered > 0 {
            self.rest().filtered += filtered;
        }
        let untold = self.rest_mut().map(|rest| std::mem::take(&mut rest.untold));
        self.is_first = false;
        self.last = update.sequence;
        // Nothing written yet is no update: it is sent, and counts nowhere.
        let counts = update.sequence > 0;
        self.delivered += u64::from(counts);
        if in_flight.push(index, if counts { self.generation } else { 0 }) && counts {
            self.unconfirmed += 1;
        }
        sink.deliver(&Delivery {
            subscription: self.subscription,
            variable: &self.variable,
            update,
            lost: lost.plus(untold.unwrap_or_default()),
            filtered,
        });
    }
}

/// Deliveries that the peer has not confirmed, oldest first; nothing when it need not confirm.
#[derive(Default)]
pub(crate) struct InFlight {
    queue: Option<VecDeque<(u32, u32)>>,
}

impl InFlight {
    pub(crate) fn confirmed_by_peer() -> Self {
        Self {
            queue: Some(VecDeque::new()),
        }
    }

    fn push(&mut self, index: u32, generation: u32) -> bool {
        if let Some(queue) = &mut self.queue {
            queue.push_back((index, generation));
        }
        self.queue.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.as_ref().map_or(0, VecDeque::len)
    }

    /// Confirms the `records` oldest; false when there are fewer.
    pub(crate) fn confirm(&mut self, records: u64, items: &mut Items) -> bool {
        let Some(queue) = &mut self.queue else {
            return records == 0;
        };
        for _ in 0..records {
            let Some((index, generation)) = queue.pop_front() else {
                return false;
            };
            if let Some(item) = items.get_mut(index)
                && item.generation == generation
            {
                item.unconfirmed = item.unconfirmed.saturating_sub(1);
            }
        }
        true
    }
}

/// The items by index; an index is used again when its item has gone.
#[derive(Default)]
pub(crate) struct Items {
    slots: Vec<Option<Item>>,
    free: Vec<u32>,
    variables: usize,
    generation: u32,
}

impl Items {
    /// Number of variables, under whatever subscriptions.
    pub(crate) fn variable_count(&self) -> usize {
        self.variables
    }

    /// A number for a new item that no other of the last four billion has.
    pub(crate) fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.generation
    }

    /// The index that [`Items::insert`] will use next.
    pub(crate) fn next_index(&self) -> u32 {
        // At most `ITEMS_MAX` items and as many feeds, which fits.
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    pub(crate) fn insert(&mut self, item: Item) -> u32 {
        self.variables += usize::from(matches!(item, Item::Variable(_)));
        let index = self.next_index();
        match self.slots.get_mut(index as usize) {
            Some(slot) => {
                *slot = Some(item);
                self.free.pop();
            }
            None => self.slots.push(Some(item)),
        }
        index
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Item> {
        let item = self.slots.get_mut(index as usize)?.take()?;
        self.variables -= usize::from(matches!(item, Item::Variable(_)));
        self.free.push(index);
        Some(item)
    }

    /// One more than the largest index.
    pub(crate) fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn slot(&self, index: u32) -> Option<&Item> {
        self.slots.get(index as usize)?.as_ref()
    }

    pub(crate) fn get(&self, index: u32) -> Option<&VariableItem> {
        match self.slot(index)? {
            Item::Variable(item) => Some(item),
            Item::Feed { .. } => None,
        }
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut VariableItem> {
        match self.slots.get_mut(index as usize)?.as_mut()? {
            Item::Variable(item) => Some(item),
            Item::Feed { .. } => None,
        }
    }
}
