//! Taking what waits: from marks to deliveries, contract by contract.
//!
//! A mark is cleared before the value it stands for is read, so a write that comes between is marked
//! again and delivered again; nothing is ever lost between the two.

use trunkline_types::{Contract, Lost, Position};

use crate::consumer::{Consumer, Delivery, EndedItem, Item, Parts, Sink, VariableItem, forget};
use crate::interest::Kind;
use crate::outbox::Wakes;
use crate::sync::Arc;
use crate::update::Update;

/// Marks taken at a time; what the sink no longer wants is marked again.
const TAKE: usize = 64;

/// Whether an item is done with for now.
enum Progress {
    Done,
    /// More waits for it: mark it again.
    More,
    /// Its variable was undeployed.
    Gone,
}

impl Consumer {
    /// Hands over what waits until nothing does or the sink wants no more. Returns whether more is left.
    pub fn drain(&mut self, sink: &mut dyn Sink, wakes: &mut Wakes) -> bool {
        let mut closed: Vec<(u32, Option<u32>)> = Vec::new();
        let more = drain_marks(&mut self.parts(), sink, wakes, &mut closed);
        for (subscription, handle) in closed {
            match handle {
                Some(handle) => self.unsubscribe(subscription, Some(&[handle]), wakes),
                None => self.unsubscribe(subscription, None, wakes),
            };
        }
        more
    }
}

fn drain_marks(
    parts: &mut Parts<'_>,
    sink: &mut dyn Sink,
    wakes: &mut Wakes,
    closed: &mut Vec<(u32, Option<u32>)>,
) -> bool {
    loop {
        if !sink.wants() {
            return !parts.outbox.marks.is_empty();
        }
        let mut taken = std::mem::take(parts.taken);
        taken.clear();
        // Whether more is marked shows at the next turn of the loop.
        let _taken = parts.outbox.marks.take(parts.cursor, TAKE, &mut |index| taken.push(index));
        let empty = taken.is_empty();
        for index in &taken {
            let progress = match sink.wants() {
                true => deliver_item(parts, *index, sink, wakes, closed),
                false => Progress::More,
            };
            match progress {
                Progress::Done => {}
                Progress::More => {
                    parts.outbox.marks.mark(*index);
                }
                Progress::Gone => {
                    if let Some(Some(Item::Variable(item))) = parts.items.get(*index as usize) {
                        let handle = item.variable.handle();
                        sink.gone(item.subscription, handle);
                        closed.push((item.subscription, Some(handle)));
                    }
                }
            }
        }
        *parts.taken = taken;
        if empty {
            return false;
        }
    }
}

fn deliver_item(
    parts: &mut Parts<'_>,
    index: u32,
    sink: &mut dyn Sink,
    wakes: &mut Wakes,
    closed: &mut Vec<(u32, Option<u32>)>,
) -> Progress {
    match parts.items.get_mut(index as usize) {
        None | Some(None) => Progress::Done,
        Some(Some(Item::Feed { subscription })) => {
            let subscription = *subscription;
            deliver_feed(parts, subscription, sink, wakes, closed)
        }
        Some(Some(Item::Variable(item))) => {
            let Some(subscription) = parts.subscriptions.get_mut(&item.subscription) else {
                return Progress::Done;
            };
            let contract = subscription.contract;
            let only_changes = subscription.options.only_changes;
            let mut progress = Progress::Done;
            match contract {
                Contract::Latest | Contract::Sampled(_) => {
                    let newest = newest(item, parts.outbox, index, only_changes);
                    if let Some((update, filtered)) = newest {
                        let gap = update.sequence - item.last;
                        let lost = Lost {
                            coalesced: gap.saturating_sub(1).saturating_sub(filtered),
                            ..Lost::NONE
                        };
                        item.filtered_seen += filtered;
                        item.coalesced += lost.coalesced;
                        hand_over(item, index, &update, lost, filtered, parts.in_flight, sink);
                    }
                }
                Contract::Last(n) => {
                    deliver_initial(item, index, parts.in_flight, sink);
                    let updates = &mut *parts.updates;
                    updates.clear();
                    let (dropped, more) = take_last(item, only_changes, n, updates);
                    if more {
                        progress = Progress::More;
                    }
                    if dropped > 0 {
                        item.dropped.get_or_insert_default().queue += dropped;
                    }
                    let mut queue = dropped;
                    for update in updates.iter() {
                        let lost = Lost { queue, ..Lost::NONE };
                        hand_over_buffered(item, index, update, lost, parts.in_flight, sink);
                        queue = 0;
                    }
                }
                Contract::First(_) => {
                    deliver_initial(item, index, parts.in_flight, sink);
                    for _ in 0..TAKE {
                        let Some((dropped, update)) = take_first(item, parts.outbox, index) else {
                            break;
                        };
                        if dropped > 0 {
                            item.dropped.get_or_insert_default().queue += dropped;
                        }
                        let lost = Lost { queue: dropped, ..Lost::NONE };
                        hand_over_buffered(item, index, &update, lost, parts.in_flight, sink);
                        if !sink.wants() {
                            progress = Progress::More;
                            break;
                        }
                    }
                }
                Contract::All { .. } => deliver_initial(item, index, parts.in_flight, sink),
            }
            if matches!(progress, Progress::Done) && item.variable.is_gone() {
                let held = subscription.feed.as_ref();
                match held.is_some_and(|(feed, _)| feed.waiting_of(index) > 0) {
                    // Its end follows its last update: the feed comes back to it.
                    true => subscription.gone_behind_feed = true,
                    false => progress = Progress::Gone,
                }
            }
            progress
        }
    }
}

/// The newest update, unless this item has it already, and what `only_changes` held back before it.
fn newest(
    item: &mut VariableItem,
    outbox: &Arc<crate::outbox::Outbox>,
    index: u32,
    only_changes: bool,
) -> Option<(Update, u64)> {
    let (update, filtered) = if only_changes {
        let state = item.variable.lock();
        let interests = &state.extra.as_ref()?.interests;
        let interest = interests.iter().find(|interest| interest.is(outbox, index))?;
        (item.variable.update_locked(&state), interest.filtered - item.filtered_seen)
    } else {
        (item.variable.update(), 0)
    };
    let news = update.sequence.saturating_sub(item.last);
    (item.first || news > filtered).then_some((update, filtered))
}

fn take_last(
    item: &mut VariableItem,
    only_changes: bool,
    n: u32,
    updates: &mut Vec<Update>,
) -> (u64, bool) {
    let state = item.variable.lock();
    let Some(extra) = &state.extra else { return (0, false) };
    let ring = if only_changes { &extra.ring_changes } else { &extra.ring_all };
    let Some(ring) = ring else { return (0, false) };
    let read = ring.read(item.cursor, n, TAKE, updates);
    item.cursor = read.cursor;
    (read.dropped, read.more)
}

fn take_first(
    item: &VariableItem,
    outbox: &Arc<crate::outbox::Outbox>,
    index: u32,
) -> Option<(u64, Update)> {
    let mut state = item.variable.lock();
    let interests = &mut state.extra.as_mut()?.interests;
    let interest = interests.iter_mut().find(|interest| interest.is(outbox, index))?;
    match &mut interest.kind {
        Kind::First(queue) => queue.pop(),
        _ => None,
    }
}

/// The entries of an `all` subscription, as far as its credit goes, and its end after the last of them.
fn deliver_feed(
    parts: &mut Parts<'_>,
    id: u32,
    sink: &mut dyn Sink,
    wakes: &mut Wakes,
    closed: &mut Vec<(u32, Option<u32>)>,
) -> Progress {
    let Some(subscription) = parts.subscriptions.get_mut(&id) else { return Progress::Done };
    let Some((feed, _)) = &subscription.feed else { return Progress::Done };
    let feed = Arc::clone(feed);
    // Asked before the entries are taken: once it has ended none is added.
    let ended = feed.has_ended();
    let credit = subscription.credit.unwrap_or(u64::MAX);
    let limit = usize::try_from(credit).unwrap_or(usize::MAX).min(TAKE);
    if limit == 0 {
        // `Consumer::grant` marks the feed again.
        return Progress::Done;
    }
    let mut entries = std::mem::take(parts.entries);
    entries.clear();
    let more = feed.take(limit, &mut entries, wakes);
    if let Some(credit) = &mut subscription.credit {
        *credit -= entries.len() as u64;
    }
    for entry in entries.drain(..) {
        if let Some(Some(Item::Variable(item))) = parts.items.get_mut(entry.item as usize) {
            deliver_initial(item, entry.item, parts.in_flight, sink);
            let update = &entry.update;
            hand_over_buffered(item, entry.item, update, Lost::NONE, parts.in_flight, sink);
        }
    }
    *parts.entries = entries;
    if more {
        return Progress::More;
    }
    let Some(subscription) = parts.subscriptions.get_mut(&id) else { return Progress::Done };
    let behind = std::mem::take(&mut subscription.gone_behind_feed);
    let items = if behind { subscription.items.clone() } else { Vec::new() };
    if ended {
        end_overrun(parts, id, sink);
        closed.push((id, None));
    } else if behind {
        for index in &items {
            parts.outbox.marks.mark(*index);
        }
    }
    Progress::Done
}

/// Tells that a subscription has ended, with the exact count of what each item misses.
fn end_overrun(parts: &mut Parts<'_>, id: u32, sink: &mut dyn Sink) {
    let Some(subscription) = parts.subscriptions.get(&id) else { return };
    let mut ended = Vec::with_capacity(subscription.items.len());
    for index in &subscription.items {
        let Some(Some(Item::Variable(item))) = parts.items.get_mut(*index as usize) else {
            continue;
        };
        deliver_initial(item, *index, parts.in_flight, sink);
        forget(&item.variable, parts.outbox, *index);
        ended.push(EndedItem {
            handle: item.variable.handle(),
            last: Position { epoch: parts.epoch, sequence: item.last },
            lost: item.variable.sequence().saturating_sub(item.last),
        });
    }
    sink.overrun(id, &ended);
}

fn deliver_initial(
    item: &mut VariableItem,
    index: u32,
    in_flight: &mut Option<std::collections::VecDeque<(u32, u32)>>,
    sink: &mut dyn Sink,
) {
    if let Some(update) = item.initial.take() {
        hand_over(item, index, &update, Lost::NONE, 0, in_flight, sink);
    }
}

/// Hands over an update of a buffered contract: between two of those nothing is coalesced, so what is
/// neither delivered nor dropped was filtered.
fn hand_over_buffered(
    item: &mut VariableItem,
    index: u32,
    update: &Update,
    lost: Lost,
    in_flight: &mut Option<std::collections::VecDeque<(u32, u32)>>,
    sink: &mut dyn Sink,
) {
    let filtered = (update.sequence - item.last).saturating_sub(1).saturating_sub(lost.queue);
    item.filtered_seen += filtered;
    hand_over(item, index, update, lost, filtered, in_flight, sink);
}

fn hand_over(
    item: &mut VariableItem,
    index: u32,
    update: &Update,
    lost: Lost,
    filtered: u64,
    in_flight: &mut Option<std::collections::VecDeque<(u32, u32)>>,
    sink: &mut dyn Sink,
) {
    let untold = item.dropped.as_mut().map(|dropped| std::mem::take(&mut dropped.untold));
    item.first = false;
    item.last = update.sequence;
    item.sent(index, in_flight);
    if update.sequence > 0 {
        item.delivered += 1;
    }
    sink.deliver(&Delivery {
        subscription: item.subscription,
        variable: &item.variable,
        update,
        lost: lost.plus(untold.unwrap_or_default()),
        filtered,
    });
}
