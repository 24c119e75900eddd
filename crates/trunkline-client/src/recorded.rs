//! Readings from a given time on: recorded ones first, then live ones, each exactly once (B-63).
//!
//! ```text
//! events of the subscription --> gap? --no--> ready
//!                                 |yes          ^
//!                                 v             |
//!                              query ----> pages of the history, then the reading after the gap
//! ```

use std::collections::{HashSet, VecDeque};

use trunkline_proto::message::ended::EndReason;
use trunkline_types::history::{
    HistoryEvent, HistoryItem, HistoryPage, HistoryQuery, HistorySeries, RowKey, SeriesData,
    is_late_sequence,
};
use trunkline_types::{Lost, Pattern, Position, Reading, Timestamp};

use crate::event::Event;

/// Assumed maximum disorder of source timestamps: the search for rows of another engine start
/// begins this long before the last reading.
const DISORDER: i64 = 3_600_000_000_000;

/// Combines the events of a subscription under the contract `all` with pages of the history. A
/// program passes in the events, carries out the [`query`](Self::query) when there is one, and takes
/// the events with recorded readings in their places.
///
/// While there is a query, the program leaves the readings in the subscription if it can. Readings
/// that it passes in are held until the gap is filled; the subscription's bound is theirs.
#[derive(Debug)]
pub struct RecordedEvents {
    items: Vec<FollowedItem>,
    ready: VecDeque<Event>,
    /// Events of items that arrived while a gap was being filled.
    held: VecDeque<Event>,
    filling: Option<Filling>,
}

#[derive(Debug)]
struct FollowedItem {
    /// `None` if the name is invalid.
    pattern: Option<Pattern>,
    /// Time from which readings are returned.
    since: Timestamp,
    /// The newest update that was returned, and the latest source timestamp.
    last: Option<Position>,
    last_time: Timestamp,
    /// Engine starts that have no more missing updates, except the present one.
    done: HashSet<u64>,
    /// Recorded losses that were reported. Queries overlap, so a later one may return them again; those
    /// before the time of the last query are dropped.
    reported_losses: HashSet<RowKey>,
    /// Losses before a reading without a value. The next reading reports them.
    unreported: Lost,
    /// True if updates after `last` may be missing.
    has_gap: bool,
    /// True once everything that was recorded before the subscription began was returned.
    has_begun: bool,
}

/// A gap that is being filled from the history.
#[derive(Debug)]
struct Filling {
    item: u32,
    /// The reading after the gap.
    reading: Reading,
    query: HistoryQuery,
    /// Late samples are returned only in the part before the subscription began.
    takes_late: bool,
    done: HashSet<u64>,
    /// Starts of the engine of which the history has returned readings.
    epochs: HashSet<u64>,
    /// The last row that was returned. Rows come in the order of their source timestamps.
    last: Option<Position>,
    /// The highest sequence that was returned of the start of `reading`.
    highest: Option<u64>,
    /// True if the history has the variable.
    is_recorded: bool,
    /// Updates missing before rows that are not returned. Their times do not show whether they are
    /// missing before or after `reading`.
    skipped: Lost,
    /// Updates missing after the last row of the pages so far.
    lost: Lost,
}

impl RecordedEvents {
    /// Items with these names, in the order of the subscription's. Readings are wanted from `since` on.
    pub fn new<N: AsRef<str>>(names: &[N], since: Timestamp) -> Self {
        let items = names.iter().map(|name| FollowedItem {
            // An invalid name is reported as an event of the subscription.
            pattern: Pattern::parse(name.as_ref()).ok(),
            since,
            last: None,
            last_time: since,
            done: HashSet::new(),
            reported_losses: HashSet::new(),
            unreported: Lost::NONE,
            has_gap: true,
            has_begun: false,
        });
        Self {
            items: items.collect(),
            ready: VecDeque::new(),
            held: VecDeque::new(),
            filling: None,
        }
    }

    /// Returns the next event. `None` if more must be passed in.
    pub fn next_event(&mut self) -> Option<Event> {
        while self.ready.is_empty() && self.filling.is_none() {
            let event = self.held.pop_front()?;
            self.take(event);
        }
        self.ready.pop_front()
    }

    /// Returns the query whose page must be passed in next, if a gap is being filled.
    pub fn query(&self) -> Option<&HistoryQuery> {
        self.filling.as_ref().map(|filling| &filling.query)
    }

    /// Passes in an event of the subscription.
    pub fn take_event(&mut self, event: Event) {
        match event {
            Event::Connected { .. } | Event::Disconnected { .. } => self.ready.push_back(event),
            Event::Reading { .. } | Event::ItemError { .. } | Event::Ended { .. } => {
                match self.filling {
                    Some(_) => self.held.push_back(event),
                    None => self.take(event),
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Reading { item, reading } => self.take_reading(item, reading),
            event => self.note(event),
        }
    }

    /// Passes in the page of the present query.
    pub fn take_page(&mut self, page: HistoryPage) {
        if let Some(filling) = self.filling.take() {
            self.fill(filling, page);
        }
    }

    /// Leaves the gap open, because the engine cannot read the history: the loss before the reading
    /// after it is unknown.
    pub fn give_up(&mut self) {
        if let Some(mut filling) = self.filling.take() {
            filling.reading.lost.unknown = true;
            self.finish(filling, None);
        }
    }

    fn note(&mut self, event: Event) {
        if let Event::Ended { item, reason, .. } = &event
            && let Some(item) = self.items.get_mut(*item as usize)
        {
            item.has_gap = true;
            if *reason == EndReason::Gone {
                // The sequence of a redeployed variable starts again at 1.
                item.since = item.last_time.saturating_add_nanos(1);
                item.last = None;
            }
        }
        self.ready.push_back(event);
    }

    fn take_reading(&mut self, item: u32, reading: Reading) {
        let Some(known) = self.items.get_mut(item as usize) else {
            return;
        };
        let at = reading.position;
        let in_epoch = known.last.filter(|last| last.epoch == at.epoch);
        if in_epoch.is_some_and(|last| last.sequence >= at.sequence) {
            // The first reading of a restored subscription may already have been returned.
            return;
        }
        let follows = in_epoch.is_some_and(|last| last.sequence + 1 == at.sequence);
        if !std::mem::take(&mut known.has_gap) && follows {
            return self.push_live(item, reading);
        }
        let since = match known.last {
            None => known.since,
            Some(_) => known
                .last_time
                .saturating_add_nanos(-DISORDER)
                .max(known.since),
        };
        let query = HistoryQuery {
            patterns: known.pattern.iter().cloned().collect(),
            since: Some(since),
            after: known.last,
            ..HistoryQuery::default()
        };
        self.filling = Some(Filling {
            item,
            reading,
            query,
            takes_late: !known.has_begun,
            done: known.done.clone(),
            epochs: HashSet::new(),
            last: None,
            highest: in_epoch.map(|last| last.sequence),
            is_recorded: false,
            skipped: Lost::NONE,
            lost: std::mem::take(&mut known.unreported),
        });
    }

    fn fill(&mut self, mut filling: Filling, mut page: HistoryPage) {
        let before = filling.reading.position;
        if let Some(known) = self.items.get_mut(filling.item as usize) {
            for series in &mut page.series {
                known.keep_new_losses(series);
            }
        }
        for series in &page.series {
            filling.is_recorded = true;
            for row in series.items() {
                let HistoryItem::Reading(mut reading) = row else {
                    continue;
                };
                // The page before may have ended between the loss and this row.
                reading.lost = std::mem::take(&mut filling.lost).plus(reading.lost);
                let at = reading.position;
                let is_late = is_late_sequence(at.sequence);
                // Skips rows that come later, and rows of engine starts that are complete.
                let is_later =
                    at.epoch == before.epoch && at.sequence >= before.sequence && !is_late;
                let is_unwanted = is_late && !filling.takes_late;
                if is_later || is_unwanted {
                    filling.skipped = filling.skipped.plus(reading.lost);
                }
                if is_later || is_unwanted {
                    continue;
                }
                if filling.done.contains(&at.epoch) {
                    // The times of the starts overlap, so the loss may be one of another start.
                    filling.lost = reading.lost;
                    continue;
                }
                filling.epochs.insert(at.epoch);
                if !is_late {
                    filling.last = Some(at);
                    if at.epoch == before.epoch {
                        filling.highest = filling.highest.max(Some(at.sequence));
                    }
                }
                self.push(filling.item, reading);
            }
            let lost = series.lost_after_last().unwrap_or(Lost::NONE);
            filling.lost = filling.lost.plus(lost);
        }
        if !page.state.is_empty() {
            filling.lost.unknown = true;
        }
        filling.query.from = page.next;
        if filling.query.from.is_some() {
            self.filling = Some(filling);
            return;
        }
        let lost = filling.skipped.plus(filling.lost);
        let lost = filling.is_recorded.then_some(lost);
        self.finish(filling, lost);
    }

    /// Returns the reading after a gap. `lost` counts the updates that the history lacks before it;
    /// `None` if the history does not have the variable.
    fn finish(&mut self, filling: Filling, lost: Option<Lost>) {
        let mut reading = filling.reading;
        let (at, after) = (reading.position, filling.query.after);
        if let Some(lost) = lost.filter(|_| at.sequence > 0) {
            reading.lost = lost;
            let before = filling.highest.or(after.map(|_| 0));
            if let Some(before) = before.filter(|_| lost.nothing_lost()) {
                // If nothing was lost, unrecorded updates were left out on request.
                reading.lost.coalesced = at.sequence.saturating_sub(before + 1);
            }
        }
        if let Some(known) = self.items.get_mut(filling.item as usize) {
            // Earlier starts have ended, and were read to their end.
            let read = filling
                .epochs
                .into_iter()
                .chain(after.map(|after| after.epoch));
            known.done.extend(read.filter(|epoch| *epoch != at.epoch));
            known.has_begun = true;
            if let Some(since) = filling.query.since {
                let since = since.as_nanos();
                known.reported_losses.retain(|loss| loss.time >= since);
            }
            if at.sequence == 0 {
                known.last = filling.last.or(known.last);
                known.unreported = lost.unwrap_or(Lost::NONE);
            }
        }
        self.push_live(filling.item, reading);
    }

    /// Returns a reading that becomes the newest one.
    fn push_live(&mut self, item: u32, reading: Reading) {
        if let Some(known) = self.items.get_mut(item as usize)
            && reading.position.sequence > 0
        {
            known.last = Some(reading.position);
        }
        self.push(item, reading);
    }

    fn push(&mut self, item: u32, reading: Reading) {
        if let Some(known) = self.items.get_mut(item as usize)
            && reading.position.sequence > 0
            && !is_late_sequence(reading.position.sequence)
        {
            known.last_time = known.last_time.max(reading.sample.source_timestamp);
        }
        self.ready.push_back(Event::Reading { item, reading });
    }
}

impl FollowedItem {
    /// Removes the losses that were reported already, and notes the others as reported.
    fn keep_new_losses(&mut self, series: &mut HistorySeries) {
        let SeriesData::Rows(rows) = &mut series.data else {
            return;
        };
        for mark in rows.take_marks() {
            let is_loss = matches!(
                mark.event,
                HistoryEvent::Lost(_) | HistoryEvent::Interrupted
            );
            if !is_loss || self.reported_losses.insert(mark.key) {
                rows.push_mark(mark);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_types::history::{HistoryCursor, HistoryMark, Row, Rows};
    use trunkline_types::{DataType, Quality, Sample, Value};

    use super::*;

    /// A row of this start, sequence and time, in seconds.
    fn page(rows: &[(u64, u64, i64)], marks: &[HistoryMark]) -> HistoryPage {
        let mut data = Rows::new(Some(8));
        for (epoch, sequence, seconds) in rows {
            data.push(&Row {
                key: key(*epoch, *sequence, *seconds),
                delay: 0,
                quality: Quality::GOOD,
                value: &1.0_f64.to_le_bytes(),
            });
        }
        for mark in marks {
            data.push_mark(*mark);
        }
        HistoryPage {
            series: vec![HistorySeries {
                variable: "rig/x".to_owned(),
                data_type: DataType::F64,
                units: String::new(),
                data: SeriesData::Rows(data),
            }],
            ..HistoryPage::default()
        }
    }

    fn key(epoch: u64, sequence: u64, seconds: i64) -> RowKey {
        RowKey {
            time: seconds * 1_000_000_000,
            epoch,
            sequence,
        }
    }

    fn live(epoch: u64, sequence: u64, seconds: i64) -> Event {
        let time = Timestamp::from_nanos(seconds * 1_000_000_000);
        let reading = Reading {
            sample: Sample {
                value: Value::F64(1.0),
                quality: Quality::GOOD,
                source_timestamp: time,
                engine_timestamp: time,
            },
            position: Position { epoch, sequence },
            lost: Lost::NONE,
            stale: None,
            own: false,
        };
        Event::Reading { item: 0, reading }
    }

    /// The positions of the readings that are returned, each with its loss.
    fn returned(sut: &mut RecordedEvents) -> Vec<(u64, u64, Lost)> {
        let events = std::iter::from_fn(|| sut.next_event());
        let readings = events.map(|event| match event {
            Event::Reading { reading, .. } => {
                let Position { epoch, sequence } = reading.position;
                (epoch, sequence, reading.lost)
            }
            event => panic!("{event:?}"),
        });
        readings.collect()
    }

    fn since_the_beginning() -> RecordedEvents {
        RecordedEvents::new(&["rig/x"], Timestamp::from_nanos(0))
    }

    /// The times of two starts overlap, because a source is late.
    ///
    /// Behaviour: B-63.
    #[test]
    fn rows_of_two_starts_may_be_out_of_order() {
        let mut sut = since_the_beginning();
        sut.take_event(live(2, 2, 30));
        assert!(sut.query().is_some_and(|query| query.after.is_none()));
        sut.take_page(page(&[(2, 1, 10), (1, 1, 20), (2, 2, 30)], &[]));
        let none = Lost::NONE;
        assert_eq!(
            returned(&mut sut),
            [(2, 1, none), (1, 1, none), (2, 2, none)]
        );
        // Updates of the present start are missing later.
        sut.take_event(live(2, 5, 60));
        let after = Position {
            epoch: 2,
            sequence: 2,
        };
        assert!(sut.query().is_some_and(|query| query.after == Some(after)));
        let rows = [(1, 1, 20), (2, 3, 40), (2, 4, 50), (2, 5, 60)];
        sut.take_page(page(&rows, &[]));
        assert_eq!(
            returned(&mut sut),
            [(2, 3, none), (2, 4, none), (2, 5, none)]
        );
    }

    /// Behaviour: B-41, B-63.
    #[test]
    fn late_samples_are_returned_only_in_the_part_before_the_beginning() {
        const LATE: u64 = (1 << 52) + 1;
        let mut sut = since_the_beginning();
        // The variable has no value yet in this start.
        sut.take_event(live(2, 0, 0));
        sut.take_page(page(&[(1, LATE, 10), (1, 1, 20), (2, LATE, 20)], &[]));
        let none = Lost::NONE;
        let before = [(1, LATE, none), (1, 1, none), (2, LATE, none), (2, 0, none)];
        assert_eq!(returned(&mut sut), before);
        sut.take_event(live(2, 1, 40));
        let rows = [(2, LATE, 20), (2, LATE + 1, 30), (2, 1, 40)];
        sut.take_page(page(&rows, &[]));
        assert_eq!(returned(&mut sut), [(2, 1, none)]);
    }

    /// Behaviour: B-63.
    #[test]
    fn loss_just_before_the_first_live_reading_is_reported() {
        let mut sut = since_the_beginning();
        sut.take_event(live(2, 1, 30));
        let interrupted = HistoryMark {
            key: key(1, 1 << 60, 20),
            event: HistoryEvent::Interrupted,
        };
        sut.take_page(page(&[(2, 1, 30)], &[interrupted]));
        let unknown = Lost {
            unknown: true,
            ..Lost::NONE
        };
        assert_eq!(returned(&mut sut), [(2, 1, unknown)]);

        // Its source is late.
        let mut sut = since_the_beginning();
        sut.take_event(live(2, 1, 10));
        sut.take_page(page(&[(2, 1, 10)], &[interrupted]));
        assert_eq!(returned(&mut sut), [(2, 1, unknown)]);
    }

    /// Behaviour: B-63.
    #[test]
    fn loss_before_a_start_without_a_value_is_reported_with_its_first_value() {
        let mut sut = since_the_beginning();
        let interrupted = HistoryMark {
            key: key(1, 1 << 60, 20),
            event: HistoryEvent::Interrupted,
        };
        sut.take_event(live(2, 0, 0));
        sut.take_page(page(&[(1, 1, 10)], &[interrupted]));
        let none = Lost::NONE;
        assert_eq!(returned(&mut sut), [(1, 1, none), (2, 0, none)]);
        sut.take_event(live(2, 1, 30));
        sut.take_page(page(&[(1, 1, 10), (2, 1, 30)], &[interrupted]));
        let unknown = Lost {
            unknown: true,
            ..none
        };
        assert_eq!(returned(&mut sut), [(2, 1, unknown)]);
    }

    /// Behaviour: B-63.
    #[test]
    fn loss_at_the_end_of_a_page_is_reported_with_the_first_row_of_the_next() {
        let lost = HistoryMark {
            key: key(1, 1, 11),
            event: HistoryEvent::Lost(Some(3)),
        };
        let mut first = page(&[(1, 1, 10)], &[lost]);
        first.next = Some(HistoryCursor {
            variable: "rig/x".to_owned(),
            series: 0,
            after: Some(lost.key),
            ..HistoryCursor::default()
        });
        let overrun = Lost {
            overrun: 3,
            ..Lost::NONE
        };
        let mut sut = since_the_beginning();
        sut.take_event(live(1, 6, 30));
        sut.take_page(first.clone());
        sut.take_page(page(&[(1, 5, 20), (1, 6, 30)], &[]));
        let none = Lost::NONE;
        assert_eq!(
            returned(&mut sut),
            [(1, 1, none), (1, 5, overrun), (1, 6, none)]
        );

        // The next page has no row.
        let mut sut = since_the_beginning();
        sut.take_event(live(1, 5, 20));
        sut.take_page(first);
        sut.take_page(HistoryPage::default());
        assert_eq!(returned(&mut sut), [(1, 1, none), (1, 5, overrun)]);
    }

    /// The source is late, so updates of the second start are missing before a row of the first one.
    ///
    /// Behaviour: B-63.
    #[test]
    fn loss_before_a_row_of_a_finished_start_is_reported_once() {
        let mut sut = since_the_beginning();
        sut.take_event(live(2, 1, 30));
        sut.take_page(page(&[(2, 1, 30), (1, 1, 50)], &[]));
        let none = Lost::NONE;
        assert_eq!(returned(&mut sut), [(1, 1, none), (2, 1, none)]);

        let lost = HistoryMark {
            key: key(2, 2, 40),
            event: HistoryEvent::Lost(Some(3)),
        };
        sut.take_event(live(2, 6, 70));
        sut.take_page(page(&[(1, 1, 50), (2, 5, 60), (2, 6, 70)], &[lost]));
        let overrun = Lost {
            overrun: 3,
            ..Lost::NONE
        };
        assert_eq!(returned(&mut sut), [(2, 5, overrun), (2, 6, none)]);

        // A query after an update of the next start returns the loss again.
        sut.take_event(live(3, 1, 80));
        sut.take_page(page(&[(1, 1, 50), (3, 1, 80)], &[]));
        assert_eq!(returned(&mut sut), [(3, 1, none)]);
        sut.take_event(live(3, 3, 100));
        let rows = [(1, 1, 50), (2, 5, 60), (2, 6, 70), (3, 2, 90), (3, 3, 100)];
        sut.take_page(page(&rows, &[lost]));
        assert_eq!(returned(&mut sut), [(3, 2, none), (3, 3, none)]);
    }

    /// Behaviour: B-63.
    #[test]
    fn variable_that_is_deployed_again_while_a_gap_is_filled_begins_again() {
        let mut sut = since_the_beginning();
        sut.take_event(live(1, 7, 30));
        sut.take_event(Event::Ended {
            item: 0,
            reason: EndReason::Gone,
            last: None,
            lost: None,
            sentence: "gone".into(),
        });
        sut.take_event(live(1, 1, 40));
        sut.take_page(page(&[(1, 7, 30)], &[]));
        assert!(matches!(sut.next_event(), Some(Event::Reading { .. })));
        assert!(matches!(sut.next_event(), Some(Event::Ended { .. })));
        assert!(sut.next_event().is_none());
        sut.take_page(page(&[(1, 1, 40)], &[]));
        assert_eq!(returned(&mut sut), [(1, 1, Lost::NONE)]);
    }
}
