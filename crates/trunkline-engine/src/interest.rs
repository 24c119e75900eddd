//! What a variable knows of one subscription, and what a commit does for it.

use trunkline_types::Tick;

use crate::feed::{Feed, Reserve};
use crate::outbox::{Outbox, Wakes};
use crate::realtime::ReaderFifo;
use crate::retained::FirstQueue;
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::{Extra, Variable};

/// One subscription of one variable, as its commits see it.
#[derive(Debug)]
pub(crate) struct Interest {
    pub(crate) outbox: Arc<Outbox>,
    /// The item to mark in the outbox.
    pub(crate) item: u32,
    /// Only updates whose value or quality differs from the one before (catch-all off).
    pub(crate) only_changes: bool,
    /// Updates that `only_changes` held back.
    pub(crate) filtered: u64,
    pub(crate) kind: Kind,
}

/// The contract, as far as commits are concerned.
#[derive(Debug)]
pub(crate) enum Kind {
    /// `latest`: the mark is all, the value is read when it is sent.
    Mark,
    /// `sampled`: not even a mark; the consumer looks once per period.
    Sampled,
    /// `last:n`: the variable's ring keeps the updates.
    Last,
    /// `first:n`: its own queue.
    First(Box<FirstQueue>),
    /// `all`: the consumer's feed; marks the feed's own item.
    Feed {
        /// Where the updates go.
        feed: Arc<Feed>,
        /// The index in the outbox that stands for the feed.
        mark: u32,
    },
    /// A real-time reader's FIFO of its own (NV-03).
    Fifo(Arc<ReaderFifo>),
}

impl Interest {
    pub(crate) fn is(&self, outbox: &Arc<Outbox>, item: u32) -> bool {
        self.item == item && Arc::ptr_eq(&self.outbox, outbox)
    }
}

/// Step 3, last part: room for one update of `bytes` in every `all` feed, or none taken at all.
///
/// A subscription that ends here, because nobody may wait for it, is marked so that its consumer hears
/// of it at once.
pub(crate) fn reserve_room(
    extra: &Extra,
    variable: &Variable,
    changed: bool,
    bytes: usize,
    now: Tick,
    wakes: &mut Wakes,
) -> Result<Reservation, Tick> {
    let stall = variable.properties().stall;
    let mut reservation = Reservation { taken: Vec::new() };
    for (index, interest) in extra.interests.iter().enumerate() {
        let Kind::Feed { feed, mark } = &interest.kind else { continue };
        if interest.only_changes && !changed {
            continue;
        }
        match feed.reserve(bytes, now, stall) {
            Reserve::Reserved => reservation.taken.push(index),
            Reserve::Ended => {
                if interest.outbox.marks.mark(*mark) {
                    wakes.add(&interest.outbox);
                }
            }
            Reserve::WouldBlock { until } => {
                for index in reservation.taken {
                    if let Some(Interest { kind: Kind::Feed { feed, .. }, .. }) =
                        extra.interests.get(index)
                    {
                        feed.release(bytes);
                    }
                }
                return Err(until);
            }
        }
    }
    Ok(reservation)
}

/// The feeds in which a write has room, by index of their interest.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    taken: Vec<usize>,
}

/// Step 4, last part: hands a numbered update to every subscription.
pub(crate) fn announce(
    extra: &mut Extra,
    update: &Update,
    changed: bool,
    reservation: &Reservation,
    wakes: &mut Wakes,
) {
    if let Some(ring) = &mut extra.ring_all {
        ring.push(update.clone());
    }
    if changed && let Some(ring) = &mut extra.ring_changes {
        ring.push(update.clone());
    }
    let mut reserved = reservation.taken.iter().peekable();
    for (index, interest) in extra.interests.iter_mut().enumerate() {
        let has_room = reserved.next_if_eq(&&index).is_some();
        if interest.only_changes && !changed {
            interest.filtered += 1;
            continue;
        }
        let marked = match &mut interest.kind {
            Kind::Mark | Kind::Last => Some(interest.item),
            Kind::Sampled => None,
            Kind::First(queue) => queue.push(update).then_some(interest.item),
            Kind::Feed { feed, mark } => has_room.then(|| {
                feed.commit(interest.item, update);
                *mark
            }),
            Kind::Fifo(fifo) => {
                fifo.deliver(update);
                None
            }
        };
        if let Some(item) = marked
            && interest.outbox.marks.mark(item)
        {
            wakes.add(&interest.outbox);
        }
    }
}
