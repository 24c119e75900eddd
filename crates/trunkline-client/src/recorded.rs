//! Readings from a given time on: recorded ones first, then live ones, each exactly once (B-63).
//!
//! ```text
//! events of the subscription --> gap? --no--> ready
//!                                 |yes          ^
//!                                 v             |
//!                              query ----> pages of the history, then the reading after the gap
//! ```

use std::collections::{HashMap, HashSet, VecDeque};

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
    /// The newest update of the subscription that was returned, and its source timestamp.
    last: Option<Position>,
    last_time: Timestamp,
    /// The latest source timestamp of all readings that were returned.
    latest_time: Timestamp,
    /// The highest sequence that was returned of each engine start. Updates up to it were returned,
    /// or cannot be. A page may have updates of a start that the subscription has not reached yet.
    returned: HashMap<u64, u64>,
    /// Recorded losses that were reported. Queries overlap, so a later one may return them again; those
    /// before the time of the last query are dropped.
    reported_losses: HashSet<RowKey>,
    /// The damage of the history that was reported last, as the engine describes it.
    state: String,
    /// Losses before a reading that is not returned, or has no value. The next reading reports them.
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
    /// The highest sequences that were returned before this gap. Rows of a start that come after each
    /// other are compared with this, because only the order of their times is known.
    returned: HashMap<u64, u64>,
    /// The last row that was returned, and its source timestamp. Rows come in the order of their
    /// source timestamps.
    last: Option<(Position, Timestamp)>,
    /// True if the history has the variable.
    is_recorded: bool,
    /// True if the start of `reading` was interrupted, so its last updates may not be recorded.
    is_interrupted: bool,
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
            latest_time: since,
            returned: HashMap::new(),
            reported_losses: HashSet::new(),
            state: String::new(),
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
                item.since = item.latest_time.saturating_add_nanos(1);
                item.last = None;
                item.returned.clear();
            }
        }
        self.ready.push_back(event);
    }

    fn take_reading(&mut self, item: u32, reading: Reading) {
        let Some(known) = self.items.get_mut(item as usize) else {
            return;
        };
        let at = reading.position;
        if let Some(last) = known.last.filter(|last| last.epoch == at.epoch) {
            if last.sequence >= at.sequence {
                // The first reading of a restored subscription may already have been returned.
                return;
            }
            if last.sequence + 1 == at.sequence && !known.has_gap {
                return self.push_live(item, reading);
            }
        }
        known.has_gap = false;
        let since = match known.last {
            None => known.since,
            Some(_) => {
                // The engine's clock may have been set back.
                let time = match at.sequence {
                    0 => known.last_time,
                    _ => known.last_time.min(reading.sample.source_timestamp),
                };
                time.saturating_add_nanos(-DISORDER).max(known.since)
            }
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
            returned: known.returned.clone(),
            last: None,
            is_recorded: false,
            is_interrupted: false,
            skipped: Lost::NONE,
            lost: std::mem::take(&mut known.unreported),
        });
    }

    fn fill(&mut self, mut filling: Filling, mut page: HistoryPage) {
        let before = filling.reading.position;
        if let Some(known) = self.items.get_mut(filling.item as usize) {
            for series in &mut page.series {
                filling.is_interrupted |= is_interrupted(series, before.epoch);
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
                // Skips rows that come later, and rows that were returned already.
                let is_later =
                    at.epoch == before.epoch && at.sequence >= before.sequence && !is_late;
                let is_unwanted = is_late && !filling.takes_late;
                if is_later || is_unwanted {
                    filling.skipped = filling.skipped.plus(reading.lost);
                }
                if is_later || is_unwanted {
                    continue;
                }
                let highest = filling.returned.get(&at.epoch).filter(|_| !is_late);
                if highest.is_some_and(|highest| at.sequence <= *highest) {
                    // The times of the starts overlap, so the loss may be one of another start.
                    filling.lost = reading.lost;
                    continue;
                }
                if !is_late {
                    filling.last = Some((at, reading.sample.source_timestamp));
                }
                self.push(filling.item, reading);
            }
            let lost = series.lost_after_last().unwrap_or(Lost::NONE);
            filling.lost = filling.lost.plus(lost);
        }
        if let Some(known) = self.items.get_mut(filling.item as usize)
            && known.state != page.state
        {
            // The engine repeats a damage that it found at its start in every page.
            filling.lost.unknown |= !page.state.is_empty();
            known.state = page.state;
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
        let Some(known) = self.items.get_mut(filling.item as usize) else {
            return;
        };
        let highest = known.returned.get(&at.epoch).copied();
        if lost.is_none() {
            reading.lost = filling.lost.plus(reading.lost);
        }
        if let Some(lost) = lost.filter(|_| at.sequence > 0) {
            reading.lost = lost;
            let before = highest.or(after.map(|_| 0));
            if let Some(before) = before.filter(|_| lost.nothing_lost()) {
                // If nothing was lost, unrecorded updates were left out on request.
                let missing = at.sequence.saturating_sub(before + 1);
                match filling.is_interrupted {
                    true => reading.lost.unknown = missing > 0,
                    false => reading.lost.coalesced = missing,
                }
            }
        }
        known.has_begun = true;
        if let Some(since) = filling.query.since {
            let since = since.as_nanos();
            known.reported_losses.retain(|loss| loss.time >= since);
        }
        if at.sequence == 0 {
            if let Some((last, time)) = filling.last {
                // A value that is bad may be followed by one with an earlier source timestamp.
                let highest = known.returned.get(&last.epoch).copied();
                let sequence = last.sequence.max(highest.unwrap_or(0));
                known.last = Some(Position { sequence, ..last });
                known.last_time = time;
            }
            known.unreported = lost.unwrap_or(filling.lost);
        } else if let Some(highest) = highest.filter(|highest| *highest >= at.sequence) {
            // The page of an earlier gap had this reading already.
            known.last = Some(Position {
                sequence: highest,
                ..at
            });
            known.last_time = reading.sample.source_timestamp;
            known.unreported = reading.lost;
            return;
        }
        self.push_live(filling.item, reading);
    }

    /// Returns a reading that becomes the newest one.
    fn push_live(&mut self, item: u32, mut reading: Reading) {
        if let Some(known) = self.items.get_mut(item as usize)
            && reading.position.sequence > 0
        {
            known.last = Some(reading.position);
            known.last_time = reading.sample.source_timestamp;
            reading.lost = std::mem::take(&mut known.unreported).plus(reading.lost);
        }
        self.push(item, reading);
    }

    fn push(&mut self, item: u32, reading: Reading) {
        let Position { epoch, sequence } = reading.position;
        if let Some(known) = self.items.get_mut(item as usize)
            && sequence > 0
            && !is_late_sequence(sequence)
        {
            let time = reading.sample.source_timestamp;
            known.latest_time = known.latest_time.max(time);
            let highest = known.returned.entry(epoch).or_default();
            *highest = sequence.max(*highest);
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
        for mark in rows.take_events() {
            let is_loss = matches!(
                mark.event,
                HistoryEvent::Lost(_) | HistoryEvent::Interrupted
            );
            if !is_loss || self.reported_losses.insert(mark.key) {
                rows.push_event(mark);
            }
        }
    }
}

/// Returns true if this start of the engine ended without a stop.
fn is_interrupted(series: &HistorySeries, epoch: u64) -> bool {
    let SeriesData::Rows(rows) = &series.data else {
        return false;
    };
    let mut marks = rows.events().iter();
    marks.any(|mark| mark.key.epoch == epoch && mark.event == HistoryEvent::Interrupted)
}

#[cfg(test)]
mod tests {
    use trunkline_types::history::{HistoryCursor, HistoryEventRow, Row, Rows};
    use trunkline_types::{DataType, Quality, Sample, Value};

    use super::*;

    /// A row of this start, sequence and time, in seconds.
    fn page(rows: &[(u64, u64, i64)], marks: &[HistoryEventRow]) -> HistoryPage {
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
            data.push_event(*mark);
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
        let interrupted = HistoryEventRow {
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
        let interrupted = HistoryEventRow {
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
        let lost = HistoryEventRow {
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

        let lost = HistoryEventRow {
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

    /// The engine restarts after a gap is noticed, and before its page arrives.
    ///
    /// Behaviour: B-63.
    #[test]
    fn page_of_the_next_start_repeats_and_omits_nothing() {
        let none = Lost::NONE;
        let mut sut = since_the_beginning();
        sut.take_event(live(1, 3, 30));
        // The page has rows of the start that the subscription has not reached yet.
        let rows = [
            (1, 2, 20),
            (1, 3, 30),
            (1, 4, 40),
            (2, 1, 7250),
            (2, 2, 7260),
        ];
        sut.take_page(page(&rows, &[]));
        let before = [(1, 2, none), (2, 1, none), (2, 2, none), (1, 3, none)];
        assert_eq!(returned(&mut sut), before);

        // The restored subscription begins with a reading that was returned already. Updates of the
        // former start that came after the gap are missing still. The query begins with them, although
        // later readings were returned.
        sut.take_event(live(2, 2, 7260));
        let since = sut.query().and_then(|query| query.since);
        assert_eq!(since, Some(Timestamp::from_nanos(0)));
        let rows = [(1, 4, 40), (2, 1, 7250), (2, 2, 7260), (2, 3, 7270)];
        sut.take_page(page(&rows, &[]));
        assert_eq!(returned(&mut sut), [(1, 4, none)]);
        sut.take_event(live(2, 3, 7270));
        assert!(sut.query().is_none(), "the update follows");
        assert_eq!(returned(&mut sut), [(2, 3, none)]);

        // Later updates of that start are missing.
        sut.take_event(live(2, 6, 7300));
        let rows = [(2, 4, 7280), (2, 5, 7290), (2, 6, 7300)];
        sut.take_page(page(&rows, &[]));
        assert_eq!(
            returned(&mut sut),
            [(2, 4, none), (2, 5, none), (2, 6, none)]
        );
    }

    /// Behaviour: B-63.
    #[test]
    fn rows_after_those_of_an_earlier_page_are_returned() {
        let none = Lost::NONE;
        let mut sut = since_the_beginning();
        sut.take_event(live(1, 2, 20));
        sut.take_page(page(&[(1, 1, 10), (1, 2, 20), (2, 1, 30)], &[]));
        let before = [(1, 1, none), (2, 1, none), (1, 2, none)];
        assert_eq!(returned(&mut sut), before);
        // The connection was down, so the next reading of that start comes later.
        sut.take_event(live(2, 4, 60));
        let rows = [(2, 1, 30), (2, 2, 40), (2, 3, 50), (2, 4, 60)];
        sut.take_page(page(&rows, &[]));
        assert_eq!(
            returned(&mut sut),
            [(2, 2, none), (2, 3, none), (2, 4, none)]
        );
    }

    /// A loss before a reading that was returned already is reported with the next reading.
    ///
    /// Behaviour: B-63.
    #[test]
    fn loss_before_a_repeated_reading_is_reported_with_the_next() {
        let none = Lost::NONE;
        let mut sut = since_the_beginning();
        sut.take_event(live(1, 1, 10));
        sut.take_page(page(&[(1, 1, 10), (2, 1, 40)], &[]));
        assert_eq!(returned(&mut sut), [(2, 1, none), (1, 1, none)]);
        let interrupted = HistoryEventRow {
            key: key(1, 1 << 60, 20),
            event: HistoryEvent::Interrupted,
        };
        sut.take_event(live(2, 1, 40));
        sut.take_page(page(&[(1, 1, 10), (2, 1, 40)], &[interrupted]));
        assert_eq!(returned(&mut sut), []);
        let unknown = Lost {
            unknown: true,
            ..none
        };
        sut.take_event(live(2, 2, 50));
        assert_eq!(returned(&mut sut), [(2, 2, unknown)]);
    }

    /// The engine is killed before it records an update that comes before the gap's reading.
    ///
    /// Behaviour: B-63.
    #[test]
    fn update_missing_from_an_interrupted_start_is_unknown_and_not_coalesced() {
        let none = Lost::NONE;
        let unknown = Lost {
            unknown: true,
            ..none
        };
        let interrupted = HistoryEventRow {
            key: key(1, 1 << 60, 20),
            event: HistoryEvent::Interrupted,
        };
        let mut sut = since_the_beginning();
        sut.take_event(live(1, 3, 30));
        sut.take_page(page(&[(1, 1, 10), (2, 1, 40)], &[interrupted]));
        let before = [(1, 1, none), (2, 1, unknown), (1, 3, unknown)];
        assert_eq!(returned(&mut sut), before);
    }

    /// Behaviour: B-63.
    #[test]
    fn updates_after_the_clock_was_set_back_are_returned() {
        const HOUR: i64 = 3600;
        let none = Lost::NONE;
        let mut sut = since_the_beginning();
        sut.take_event(live(1, 1, 10 * HOUR));
        sut.take_page(page(&[(1, 1, 10 * HOUR)], &[]));
        assert_eq!(returned(&mut sut), [(1, 1, none)]);
        // The clock is set back by five hours, and the engine starts again.
        sut.take_event(live(2, 2, 5 * HOUR + 1));
        let since = sut.query().and_then(|query| query.since).unwrap();
        assert!(since.as_nanos() <= 5 * HOUR * 1_000_000_000);
        let rows = [(2, 1, 5 * HOUR), (2, 2, 5 * HOUR + 1), (1, 1, 10 * HOUR)];
        sut.take_page(page(&rows, &[]));
        assert_eq!(returned(&mut sut), [(2, 1, none), (2, 2, none)]);
    }

    /// Behaviour: B-63.
    #[test]
    fn damage_of_the_history_is_reported_once() {
        let damaged = |mut page: HistoryPage, state: &str| {
            page.state = state.to_owned();
            page
        };
        let none = Lost::NONE;
        let unknown = Lost {
            unknown: true,
            ..none
        };
        let mut sut = since_the_beginning();
        sut.take_event(live(1, 1, 10));
        sut.take_page(damaged(page(&[(1, 1, 10)], &[]), "a file was set apart"));
        assert_eq!(returned(&mut sut), [(1, 1, unknown)]);
        let gap = [(1, 2, 20), (1, 3, 30)];
        sut.take_event(live(1, 3, 30));
        sut.take_page(damaged(page(&gap, &[]), "a file was set apart"));
        assert_eq!(returned(&mut sut), [(1, 2, none), (1, 3, none)]);
        // Another damage is another loss.
        sut.take_event(live(1, 5, 50));
        let gap = [(1, 4, 40), (1, 5, 50)];
        sut.take_page(damaged(page(&gap, &[]), "two files were set apart"));
        assert_eq!(returned(&mut sut), [(1, 4, none), (1, 5, unknown)]);
    }

    /// A good value replaces a bad one although its source timestamp is earlier.
    ///
    /// Behaviour: B-63.
    #[test]
    fn reading_that_comes_before_the_last_row_in_time_is_not_repeated() {
        let none = Lost::NONE;
        let mut sut = since_the_beginning();
        sut.take_event(live(3, 0, 0));
        sut.take_page(page(&[(4, 2, 99), (4, 1, 100)], &[]));
        let before = [(4, 2, none), (4, 1, none), (3, 0, none)];
        assert_eq!(returned(&mut sut), before);
        sut.take_event(live(4, 2, 99));
        assert!(sut.query().is_none());
        assert_eq!(returned(&mut sut), []);
        sut.take_event(live(4, 3, 110));
        assert_eq!(returned(&mut sut), [(4, 3, none)]);
    }

    /// The history has no rows in the time that is asked for.
    ///
    /// Behaviour: B-63.
    #[test]
    fn loss_before_a_start_without_a_value_is_not_forgotten_by_an_empty_page() {
        let mut sut = since_the_beginning();
        let interrupted = HistoryEventRow {
            key: key(1, 1 << 60, 20),
            event: HistoryEvent::Interrupted,
        };
        sut.take_event(live(2, 0, 0));
        sut.take_page(page(&[(1, 1, 10)], &[interrupted]));
        let none = Lost::NONE;
        assert_eq!(returned(&mut sut), [(1, 1, none), (2, 0, none)]);
        sut.take_event(live(2, 1, 30));
        sut.take_page(HistoryPage::default());
        let unknown = Lost {
            unknown: true,
            ..none
        };
        assert_eq!(returned(&mut sut), [(2, 1, unknown)]);
    }
}
