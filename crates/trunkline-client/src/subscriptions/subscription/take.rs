//! Takes queued readings and events from a subscription.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_types::{Lost, Reading};

use super::{KEPT_SERIALS_MAX, LocalItem, Notice, Subscription, Taking, Waiting};
use crate::event::Event;
use crate::subscriptions::batch::Batch;
use crate::subscriptions::remote::{RemoteItem, Status};
use crate::subscriptions::subscription::queue::{Next, Queued};
use crate::variables::reading::Received;

impl Subscription {
    /// Passes up to `most` of the next events to `receive`, readings with the sequences in their
    /// records. Returns their number, and the number of credits that they return.
    #[inline]
    pub(crate) fn take(
        &mut self,
        taking: Taking<'_>,
        most: usize,
        mut receive: impl FnMut(Event, u64),
    ) -> (usize, u32) {
        let (mut taken, mut credits) = (0, 0);
        while taken < most {
            let (readings, returned) = self.take_readings(taking, most - taken, |queued| {
                let (item, sequence) = (queued.item, queued.received.record_sequence());
                let reading = queued.into_reading();
                receive(Event::Reading { item, reading }, sequence);
            });
            taken += readings;
            credits += returned;
            if taken == most {
                break;
            }
            match self.next_mark(taking) {
                Some(event) => receive(event, 0),
                None => break,
            }
            taken += 1;
        }
        (taken, credits)
    }

    /// Fills a batch with up to `most` of the next readings, and with the event after them if it is
    /// not a reading. Returns the number of credits that the readings return.
    #[inline]
    pub(crate) fn take_batch(&mut self, taking: Taking<'_>, most: usize, batch: &mut Batch) -> u32 {
        batch.reserve(most.min(self.queue.len()));
        let (readings, credits) = self.take_readings(taking, most, |queued| batch.push(queued));
        if readings < most
            && let Some(event) = self.next_mark(taking)
        {
            match event {
                // Under `latest` and `sampled`, every reading is made from a local copy.
                Event::Reading { item, reading } => {
                    batch.push(Queued::of_reading(item, reading));
                    self.take_cells(taking, most - 1, batch);
                }
                event => batch.end_with(event),
            }
        }
        credits
    }

    /// Adds readings from local copies to a batch.
    fn take_cells(&mut self, taking: Taking<'_>, most: usize, batch: &mut Batch) {
        for _ in 0..most {
            match self.next_mark(taking) {
                Some(Event::Reading { item, reading }) => {
                    batch.push(Queued::of_reading(item, reading));
                }
                Some(event) => return batch.end_with(event),
                None => return,
            }
        }
    }

    /// Takes up to `most` queued readings. Returns their number, and the number of credits that
    /// they return.
    #[inline(always)]
    fn take_readings(
        &mut self,
        taking: Taking<'_>,
        most: usize,
        receive: impl FnMut(Queued),
    ) -> (usize, u32) {
        let Self {
            items,
            bytes,
            options,
            queue,
            ..
        } = self;
        let mut credits = 0;
        let visit = |queued: &mut Queued| {
            credits += u32::from(queued.credit == taking.remote.credit_period);
            *bytes -= queued.bytes as usize;
            let entry = items.get_mut(queued.item as usize);
            take_queued(queued, entry, options.max_age, taking);
        };
        let readings = queue.take_readings(most, visit, receive);
        self.ledger.taken += readings as u64;
        self.ledger.waiting -= readings as u64;
        (readings, credits)
    }

    /// Takes the next event if it is not a queued reading.
    fn next_mark(&mut self, taking: Taking<'_>) -> Option<Event> {
        loop {
            let event = match self.queue.next_mark()? {
                Next::Cell { item } => {
                    let reading = self.take_cell(item, taking);
                    reading.map(|reading| Event::Reading { item, reading })
                }
                Next::Notice { item } => self.take_notice(item),
                Next::Connection(event) => Some(event),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Takes the next reading of one item, even if other entries were queued before it. Also
    /// returns the number of credits that the reading returns.
    pub(crate) fn next_of(&mut self, item: u32, taking: Taking<'_>) -> Option<(Reading, u32)> {
        let entry = self.items.get_mut(item as usize)?;
        let serial = match &entry.waiting {
            Waiting::Cell(cell) => {
                let (serial, _) = (*cell)?;
                self.queue.remove_mark(serial);
                return Some((self.take_cell(item, taking)?, 0));
            }
            Waiting::Buffer(serials) => serials.front().copied(),
            Waiting::Count(0) => None,
            Waiting::Count(_) => self.queue.first_reading_of(item),
        }?;
        let max_age = self.options.max_age;
        let (reading, bytes, credit) = self.queue.remove_reading(serial, |queued| {
            take_queued(queued, Some(entry), max_age, taking);
            (queued.take_reading(), queued.bytes, queued.credit)
        })?;
        self.bytes -= bytes as usize;
        self.ledger.taken += 1;
        self.ledger.waiting -= 1;
        Some((reading, u32::from(credit == taking.remote.credit_period)))
    }

    /// Returns the current local copy of an item without taking it.
    pub(crate) fn peek(&self, item: u32, taking: Taking<'_>) -> Option<Reading> {
        let remote_item = taking
            .remote
            .item(self.items.get(item as usize)?.remote_item)?;
        let copy = remote_item.copy.as_ref()?;
        let stale = staleness(copy, remote_item, self.options.max_age, taking);
        let data_type = Some(remote_item.data_type.as_ref()?);
        let mut copy = copy.clone();
        copy.prepare(data_type, None);
        Some(copy.into_reading(Lost::NONE, stale))
    }

    fn take_cell(&mut self, item: u32, taking: Taking<'_>) -> Option<Reading> {
        let mut reading = self.peek(item, taking)?;
        let entry = self.items.get_mut(item as usize)?;
        entry.waiting = Waiting::Cell(None);
        reading.lost = std::mem::take(&mut entry.missed).lost();
        self.ledger.taken += 1;
        self.ledger.waiting -= 1;
        Some(reading)
    }

    fn take_notice(&mut self, item: u32) -> Option<Event> {
        let (_, notice) = *self.items.get_mut(item as usize)?.notice.take()?;
        Some(match notice {
            Notice::Fault(fault) => Event::ItemError { item, fault },
            Notice::Ended {
                reason,
                last,
                lost,
                sentence,
            } => Event::Ended {
                item,
                reason,
                last,
                lost,
                sentence,
            },
        })
    }
}

/// Updates the state of an item whose queued reading is passed to the program.
#[inline(always)]
fn take_queued(
    queued: &mut Queued,
    entry: Option<&mut LocalItem>,
    max_age: Option<Duration>,
    taking: Taking<'_>,
) {
    let mut remote_item = None;
    if let Some(entry) = entry {
        match &mut entry.waiting {
            Waiting::Count(count) => *count -= 1,
            Waiting::Buffer(serials) => {
                // The oldest reading is always taken first, by `next_of` and by the queue.
                serials.pop_front();
                if serials.is_empty() && serials.capacity() > KEPT_SERIALS_MAX {
                    **serials = VecDeque::new();
                }
            }
            Waiting::Cell(_) => {}
        }
        remote_item = taking.remote.item(entry.remote_item);
    }
    let received = &mut queued.received;
    let stale = remote_item.and_then(|item| staleness(received, item, max_age, taking));
    let data_type = remote_item.and_then(|item| item.data_type.as_ref());
    received.prepare(data_type, stale);
}

/// Returns the age of a reading if the variable may have a newer value.
#[inline]
fn staleness(
    received: &Received,
    item: &RemoteItem,
    max_age: Option<Duration>,
    taking: Taking<'_>,
) -> Option<Duration> {
    let is_live = taking.connected && matches!(item.status, Status::Live);
    let max_age = max_age.or(item.max_age);
    if is_live && max_age.is_none() && !received.is_marked_stale() {
        return None;
    }
    let age = received.age(taking.now);
    match is_live {
        true => received.stale_age(age, max_age),
        false => Some(age),
    }
}
