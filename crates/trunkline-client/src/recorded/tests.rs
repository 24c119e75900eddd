//! Tests that each reading is returned once and each loss is reported, whatever happens to the engine.

use trunkline_proto::message::ended::EndReason;
use trunkline_proto::{Fault, FaultCode};
use trunkline_types::history::{HistoryCursor, Row, Rows};
use trunkline_types::{DataType, Quality, Sample, Value};

use super::*;

/// A page with rows of these starts, sequences and times. Times are in seconds.
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

/// Returns a time of a clock that was set.
fn at(seconds: i64) -> Timestamp {
    Timestamp::PLAUSIBLE_MIN.saturating_add_nanos(seconds * 1_000_000_000)
}

fn key(epoch: u64, sequence: u64, seconds: i64) -> RowKey {
    RowKey {
        time: at(seconds).as_nanos(),
        epoch,
        sequence,
    }
}

fn live(epoch: u64, sequence: u64, seconds: i64) -> Event {
    let time = at(seconds);
    let reading = Reading {
        sample: Sample {
            value: Value::F64(1.0),
            quality: Quality::GOOD,
            source_timestamp: time,
            engine_timestamp: time,
        },
        position: Position { epoch, sequence },
        lost: NONE,
        stale: None,
        own: false,
    };
    Event::Reading { item: 0, reading }
}

fn gone() -> Event {
    Event::Ended {
        item: 0,
        reason: EndReason::Gone,
        last: None,
        lost: None,
        sentence: "gone".into(),
    }
}

const NONE: Lost = Lost::NONE;
const UNKNOWN: Lost = Lost {
    unknown: true,
    ..Lost::NONE
};

fn overrun(count: u64) -> Lost {
    Lost {
        overrun: count,
        ..NONE
    }
}

fn coalesced(count: u64) -> Lost {
    Lost {
        coalesced: count,
        ..NONE
    }
}

/// The event that this start was interrupted.
fn interrupted(epoch: u64, seconds: i64) -> HistoryEventRow {
    HistoryEventRow {
        key: key(epoch, 1 << 60, seconds),
        event: HistoryEvent::Interrupted,
    }
}

/// The event that updates are missing, the first one with this sequence.
fn lost(epoch: u64, sequence: u64, seconds: i64, count: u64) -> HistoryEventRow {
    HistoryEventRow {
        key: key(epoch, sequence, seconds),
        event: HistoryEvent::Lost(Some(count)),
    }
}

/// A page from this start of the engine.
fn sent_by(epoch: u64, mut page: HistoryPage) -> HistoryPage {
    page.epoch = epoch;
    page
}

/// Passes in an event as the subscription does.
fn take(sut: &mut RecordedEvents, event: Event) {
    let sequence = match &event {
        Event::Reading { reading, .. } => reading.position.sequence,
        _ => 0,
    };
    sut.take_event(event, sequence);
}

/// Passes in the reading of a variable without a value. `base` is the sequence that precedes its
/// first update.
fn take_no_value(sut: &mut RecordedEvents, epoch: u64, base: u64) {
    sut.take_event(live(epoch, 0, 0), base);
}

/// Page `one` of several.
fn followed_by_another(mut one: HistoryPage) -> HistoryPage {
    one.next = Some(HistoryCursor::default());
    one
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
    RecordedEvents::new(&["rig/x"], at(0))
}

/// The times of two starts overlap, because a source is late.
///
/// Behaviour: B-63.
#[test]
fn rows_of_two_starts_may_be_out_of_order() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(2, 2, 30));
    assert!(sut.query().is_some_and(|query| query.after.is_none()));
    sut.take_page(page(&[(2, 1, 10), (1, 1, 20), (2, 2, 30)], &[]));
    assert_eq!(
        returned(&mut sut),
        [(2, 1, NONE), (1, 1, NONE), (2, 2, NONE)]
    );
    // Updates of the present start are missing later.
    take(&mut sut, live(2, 5, 60));
    let after = Position {
        epoch: 2,
        sequence: 2,
    };
    assert!(sut.query().is_some_and(|query| query.after == Some(after)));
    let rows = [(1, 1, 20), (2, 3, 40), (2, 4, 50), (2, 5, 60)];
    sut.take_page(page(&rows, &[]));
    assert_eq!(
        returned(&mut sut),
        [(2, 3, NONE), (2, 4, NONE), (2, 5, NONE)]
    );
}

/// Behaviour: B-41, B-63.
#[test]
fn late_samples_are_returned_only_in_the_part_before_the_beginning() {
    const LATE: u64 = (1 << 52) + 1;
    let mut sut = since_the_beginning();
    // The variable has no value yet in this start.
    take(&mut sut, live(2, 0, 0));
    sut.take_page(page(&[(1, LATE, 10), (1, 1, 20), (2, LATE, 20)], &[]));
    let before = [(1, LATE, NONE), (1, 1, NONE), (2, LATE, NONE), (2, 0, NONE)];
    assert_eq!(returned(&mut sut), before);
    take(&mut sut, live(2, 2, 50));
    let rows = [(2, LATE, 20), (2, LATE + 1, 30), (2, 1, 40), (2, 2, 50)];
    sut.take_page(page(&rows, &[]));
    assert_eq!(returned(&mut sut), [(2, 1, NONE), (2, 2, NONE)]);
}

/// Behaviour: B-63.
#[test]
fn loss_just_before_the_first_live_reading_is_reported() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(2, 1, 30));
    let interrupted = interrupted(1, 20);
    sut.take_page(page(&[(2, 1, 30)], &[interrupted]));
    assert_eq!(returned(&mut sut), [(2, 1, UNKNOWN)]);

    // The clock was set back before the second start.
    let mut sut = since_the_beginning();
    take(&mut sut, live(2, 1, 10));
    sut.take_page(sent_by(2, page(&[(2, 1, 10)], &[interrupted])));
    assert_eq!(returned(&mut sut), [(2, 1, UNKNOWN)]);
}

/// Behaviour: B-63.
#[test]
fn loss_before_a_start_without_a_value_is_reported_once() {
    let mut sut = since_the_beginning();
    let interrupted = interrupted(1, 20);
    take(&mut sut, live(2, 0, 0));
    sut.take_page(sent_by(2, page(&[(1, 1, 10)], &[interrupted])));
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (2, 0, UNKNOWN)]);
    take(&mut sut, live(2, 2, 40));
    let rows = [(1, 1, 10), (2, 1, 30), (2, 2, 40)];
    sut.take_page(page(&rows, &[interrupted]));
    assert_eq!(returned(&mut sut), [(2, 1, NONE), (2, 2, NONE)]);
}

/// Behaviour: B-63.
#[test]
fn loss_at_the_end_of_a_page_is_reported_with_the_first_row_of_the_next() {
    let lost = lost(1, 1, 11, 3);
    let mut first = page(&[(1, 1, 10)], &[lost]);
    first.next = Some(HistoryCursor {
        variable: "rig/x".to_owned(),
        series: 0,
        after: Some(lost.key),
        ..HistoryCursor::default()
    });
    let overrun = overrun(3);
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 6, 30));
    sut.take_page(first.clone());
    sut.take_page(page(&[(1, 5, 20), (1, 6, 30)], &[]));
    assert_eq!(
        returned(&mut sut),
        [(1, 1, NONE), (1, 5, overrun), (1, 6, NONE)]
    );

    // The next page has no row.
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 5, 20));
    sut.take_page(first);
    sut.take_page(HistoryPage::default());
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (1, 5, overrun)]);
}

/// The variable was deployed again with another type. Events of the engine are in both series.
///
/// Behaviour: B-63, B-64.
#[test]
fn loss_after_the_last_row_of_a_series_does_not_precede_the_next_series() {
    let interrupted = interrupted(1, 30);
    let mut both = page(&[(1, 1, 10)], &[interrupted]);
    let second = page(&[(1, 2, 20)], &[interrupted]).series.remove(0);
    both.series.push(HistorySeries {
        data_type: DataType::U64,
        ..second
    });
    let mut sut = since_the_beginning();
    take(&mut sut, live(2, 1, 40));
    sut.take_page(sent_by(2, both));
    assert_eq!(
        returned(&mut sut),
        [(1, 1, NONE), (1, 2, NONE), (2, 1, UNKNOWN)]
    );
}

/// The engine restarts twice after the reading, and is killed in between.
///
/// Behaviour: B-63.
#[test]
fn interruption_of_a_later_start_is_reported_after_the_reading() {
    let interrupted = interrupted(2, 20);
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(sent_by(3, page(&[(1, 1, 10)], &[interrupted])));
    take(&mut sut, live(3, 1, 30));
    sut.take_page(sent_by(3, page(&[(3, 1, 30)], &[interrupted])));
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (3, 1, UNKNOWN)]);

    // The reading has no value, and no time.
    let mut sut = since_the_beginning();
    take_no_value(&mut sut, 1, 0);
    sut.take_page(sent_by(3, page(&[(2, 1, 10)], &[interrupted])));
    take(&mut sut, live(3, 1, 30));
    sut.take_page(sent_by(3, page(&[(2, 1, 10), (3, 1, 30)], &[interrupted])));
    let expected = [(2, 1, NONE), (1, 0, NONE), (3, 1, UNKNOWN)];
    assert_eq!(returned(&mut sut), expected);
}

/// The source is late, so updates of the second start are missing before a row of the first one.
///
/// Behaviour: B-63.
#[test]
fn loss_before_a_row_of_a_finished_start_is_reported_once() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(2, 1, 30));
    sut.take_page(page(&[(2, 1, 30), (1, 1, 50)], &[]));
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (2, 1, NONE)]);

    let lost = lost(2, 2, 40, 3);
    take(&mut sut, live(2, 6, 70));
    sut.take_page(page(&[(1, 1, 50), (2, 5, 60), (2, 6, 70)], &[lost]));
    let overrun = overrun(3);
    assert_eq!(returned(&mut sut), [(2, 5, overrun), (2, 6, NONE)]);

    // A query after an update of the next start returns the loss again.
    take(&mut sut, live(3, 1, 80));
    sut.take_page(page(&[(1, 1, 50), (3, 1, 80)], &[]));
    assert_eq!(returned(&mut sut), [(3, 1, NONE)]);
    take(&mut sut, live(3, 3, 100));
    let rows = [(1, 1, 50), (2, 5, 60), (2, 6, 70), (3, 2, 90), (3, 3, 100)];
    sut.take_page(page(&rows, &[lost]));
    assert_eq!(returned(&mut sut), [(3, 2, NONE), (3, 3, NONE)]);
}

/// Behaviour: B-63.
#[test]
fn variable_that_is_deployed_again_while_a_gap_is_filled_continues() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 7, 30));
    take(&mut sut, gone());
    take(&mut sut, live(1, 8, 40));
    sut.take_page(page(&[(1, 7, 30), (1, 8, 40)], &[]));
    assert!(matches!(sut.next_event(), Some(Event::Reading { .. })));
    assert!(matches!(sut.next_event(), Some(Event::Ended { .. })));
    assert_eq!(returned(&mut sut), [(1, 8, NONE)]);
}

/// The engine restarts after a gap is noticed, and before its page arrives.
///
/// Behaviour: B-63.
#[test]
fn page_of_the_next_start_repeats_and_omits_nothing() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 3, 30));
    // The page has rows of the start that the subscription has not reached yet.
    let rows = [
        (1, 2, 20),
        (1, 3, 30),
        (1, 4, 40),
        (2, 1, 7250),
        (2, 2, 7260),
    ];
    sut.take_page(page(&rows, &[]));
    let before = [(1, 2, NONE), (2, 1, NONE), (2, 2, NONE), (1, 3, NONE)];
    assert_eq!(returned(&mut sut), before);

    // The restored subscription begins with a reading that was returned already. Updates of the
    // former start that came after the gap are missing still. The query begins with them, although
    // later readings were returned.
    take(&mut sut, live(2, 2, 7260));
    let since = sut.query().and_then(|query| query.since);
    assert_eq!(since, Some(at(0)));
    let rows = [(1, 4, 40), (2, 1, 7250), (2, 2, 7260), (2, 3, 7270)];
    sut.take_page(page(&rows, &[]));
    assert_eq!(returned(&mut sut), [(1, 4, NONE)]);
    take(&mut sut, live(2, 3, 7270));
    assert!(sut.query().is_none(), "the update follows");
    assert_eq!(returned(&mut sut), [(2, 3, NONE)]);

    // Later updates of that start are missing.
    take(&mut sut, live(2, 6, 7300));
    let rows = [(2, 4, 7280), (2, 5, 7290), (2, 6, 7300)];
    sut.take_page(page(&rows, &[]));
    assert_eq!(
        returned(&mut sut),
        [(2, 4, NONE), (2, 5, NONE), (2, 6, NONE)]
    );
}

/// Behaviour: B-63.
#[test]
fn rows_after_those_of_an_earlier_page_are_returned() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 2, 20));
    sut.take_page(page(&[(1, 1, 10), (1, 2, 20), (2, 1, 30)], &[]));
    let before = [(1, 1, NONE), (2, 1, NONE), (1, 2, NONE)];
    assert_eq!(returned(&mut sut), before);
    // The connection was down, so the next reading of that start comes later.
    take(&mut sut, live(2, 4, 60));
    let rows = [(2, 1, 30), (2, 2, 40), (2, 3, 50), (2, 4, 60)];
    sut.take_page(page(&rows, &[]));
    assert_eq!(
        returned(&mut sut),
        [(2, 2, NONE), (2, 3, NONE), (2, 4, NONE)]
    );
}

/// A loss before a reading that was returned already is reported with the next reading.
///
/// Behaviour: B-63.
#[test]
fn loss_before_a_repeated_reading_is_reported_with_the_next() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(page(&[(1, 1, 10), (2, 1, 40)], &[]));
    assert_eq!(returned(&mut sut), [(2, 1, NONE), (1, 1, NONE)]);
    let interrupted = interrupted(1, 20);
    take(&mut sut, live(2, 1, 40));
    sut.take_page(page(&[(1, 1, 10), (2, 1, 40)], &[interrupted]));
    assert_eq!(returned(&mut sut), []);
    let mut after_an_empty_page = sut.clone();
    take(&mut sut, live(2, 2, 50));
    assert_eq!(returned(&mut sut), [(2, 2, UNKNOWN)]);

    let sut = &mut after_an_empty_page;
    take(sut, live(2, 3, 60));
    sut.take_page(HistoryPage::default());
    assert_eq!(returned(sut), [(2, 3, UNKNOWN)]);
}

/// The engine is killed before it records an update that comes before the gap's reading.
///
/// Behaviour: B-63.
#[test]
fn update_missing_from_an_interrupted_start_is_unknown_and_not_coalesced() {
    let interrupted = interrupted(1, 20);
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 3, 30));
    sut.take_page(page(&[(1, 1, 10), (2, 1, 40)], &[interrupted]));
    let before = [(1, 1, NONE), (2, 1, NONE), (1, 3, UNKNOWN)];
    assert_eq!(returned(&mut sut), before);
    // Later updates of that start may be missing, too.
    take(&mut sut, live(2, 3, 60));
    let rows = [(1, 1, 10), (2, 1, 40), (2, 2, 50), (2, 3, 60)];
    sut.take_page(page(&rows, &[interrupted]));
    assert_eq!(returned(&mut sut), [(2, 2, UNKNOWN), (2, 3, NONE)]);
}

/// Behaviour: B-63.
#[test]
fn updates_after_the_clock_was_set_back_are_returned() {
    const HOUR: i64 = 3600;
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10 * HOUR));
    sut.take_page(page(&[(1, 1, 10 * HOUR)], &[]));
    assert_eq!(returned(&mut sut), [(1, 1, NONE)]);
    // The clock is set back by five hours, and the engine starts again.
    take(&mut sut, live(2, 2, 5 * HOUR + 1));
    let since = sut.query().and_then(|query| query.since).unwrap();
    assert!(since <= at(5 * HOUR));
    let rows = [(2, 1, 5 * HOUR), (2, 2, 5 * HOUR + 1), (1, 1, 10 * HOUR)];
    sut.take_page(page(&rows, &[]));
    assert_eq!(returned(&mut sut), [(2, 1, NONE), (2, 2, NONE)]);
}

/// Behaviour: B-63.
#[test]
fn damage_of_the_history_is_reported_once() {
    let damaged = |mut page: HistoryPage, state: &str| {
        page.state = state.to_owned();
        page
    };
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(damaged(page(&[(1, 1, 10)], &[]), "a file was set apart"));
    assert_eq!(returned(&mut sut), [(1, 1, UNKNOWN)]);
    let gap = [(1, 2, 20), (1, 3, 30)];
    take(&mut sut, live(1, 3, 30));
    sut.take_page(damaged(page(&gap, &[]), "a file was set apart"));
    assert_eq!(returned(&mut sut), [(1, 2, NONE), (1, 3, NONE)]);
    // Another damage is another loss.
    take(&mut sut, live(1, 5, 50));
    let gap = [(1, 4, 40), (1, 5, 50)];
    sut.take_page(damaged(page(&gap, &[]), "two files were set apart"));
    assert_eq!(returned(&mut sut), [(1, 4, NONE), (1, 5, UNKNOWN)]);
}

/// A good value replaces a bad one although its source timestamp is earlier.
///
/// Behaviour: B-63.
#[test]
fn reading_that_comes_before_the_last_row_in_time_is_not_repeated() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(3, 0, 0));
    sut.take_page(page(&[(4, 2, 99), (4, 1, 100)], &[]));
    let before = [(4, 2, NONE), (4, 1, NONE), (3, 0, NONE)];
    assert_eq!(returned(&mut sut), before);
    take(&mut sut, live(4, 2, 99));
    sut.take_page(page(&[(4, 2, 99), (4, 1, 100)], &[]));
    assert_eq!(returned(&mut sut), []);
    take(&mut sut, live(4, 3, 110));
    assert_eq!(returned(&mut sut), [(4, 3, NONE)]);
}

/// The subscription begins after the variable was deployed again in the same start of the engine. Its
/// sequences continue.
///
/// Behaviour: B-01, B-63.
#[test]
fn rows_of_an_earlier_deployment_are_returned() {
    let rows = [(1, 1, 10), (1, 2, 20), (1, 3, 40), (1, 4, 50)];
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 3, 40));
    sut.take_page(page(&rows, &[]));
    assert_eq!(
        returned(&mut sut),
        [(1, 1, NONE), (1, 2, NONE), (1, 3, NONE)]
    );
    take(&mut sut, live(1, 4, 50));
    assert_eq!(returned(&mut sut), [(1, 4, NONE)]);
}

/// Updates before the end of a deployment were not delivered.
///
/// Behaviour: B-01, B-63.
#[test]
fn rest_of_an_ended_deployment_is_returned() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 2, 20));
    sut.take_page(page(&[(1, 1, 10), (1, 2, 20)], &[]));
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (1, 2, NONE)]);
    take(&mut sut, gone());
    take(&mut sut, live(1, 4, 50));
    let rows = [(1, 1, 10), (1, 2, 20), (1, 3, 30), (1, 4, 50)];
    sut.take_page(page(&rows, &[]));
    assert!(matches!(sut.next_event(), Some(Event::Ended { .. })));
    assert_eq!(returned(&mut sut), [(1, 3, NONE), (1, 4, NONE)]);
    take(&mut sut, live(1, 5, 60));
    assert_eq!(returned(&mut sut), [(1, 5, NONE)]);
}

/// The variable is deployed again, and has no value yet. It is written before the page is read.
///
/// Behaviour: B-01, B-63.
#[test]
fn rows_of_an_earlier_deployment_come_before_a_reading_without_a_value() {
    let rows = [(1, 1, 10), (1, 2, 20), (1, 3, 30), (1, 4, 50), (1, 5, 60)];
    let former = [(1, 1, NONE), (1, 2, NONE), (1, 3, NONE)];
    let mut sut = since_the_beginning();
    take_no_value(&mut sut, 1, 3);
    sut.take_page(page(&rows, &[]));
    assert_eq!(returned(&mut sut), [&former[..], &[(1, 0, NONE)]].concat());
    take(&mut sut, live(1, 4, 50));
    assert_eq!(returned(&mut sut), [(1, 4, NONE)]);

    // The first update is not delivered.
    let mut sut = since_the_beginning();
    take_no_value(&mut sut, 1, 3);
    sut.take_page(page(&rows[..3], &[]));
    assert_eq!(returned(&mut sut), [&former[..], &[(1, 0, NONE)]].concat());
    take(&mut sut, live(1, 5, 60));
    sut.take_page(page(&rows, &[]));
    assert_eq!(returned(&mut sut), [(1, 4, NONE), (1, 5, NONE)]);

    // The subscription had readings of the earlier deployment.
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(page(&rows[..1], &[]));
    assert_eq!(returned(&mut sut), [(1, 1, NONE)]);
    let mut has_all = sut.clone();
    take(&mut sut, gone());
    take_no_value(&mut sut, 1, 3);
    sut.take_page(page(&rows, &[]));
    assert!(matches!(sut.next_event(), Some(Event::Ended { .. })));
    assert_eq!(
        returned(&mut sut),
        [(1, 2, NONE), (1, 3, NONE), (1, 0, NONE)]
    );

    // Nothing is missing.
    let sut = &mut has_all;
    take_no_value(sut, 1, 1);
    assert!(sut.query().is_none());
    assert_eq!(returned(sut), [(1, 0, NONE)]);
    take(sut, live(1, 2, 20));
    assert_eq!(returned(sut), [(1, 2, NONE)]);
}

/// The clock of a source is ahead, and a row comes after the end of the variable.
///
/// Behaviour: B-63.
#[test]
fn times_do_not_decide_which_deployment_a_row_belongs_to() {
    let mut sut = since_the_beginning();
    take_no_value(&mut sut, 1, 6);
    sut.take_page(page(&[(1, 7, 20), (1, 5, 30), (1, 6, 90)], &[]));
    assert_eq!(
        returned(&mut sut),
        [(1, 5, NONE), (1, 6, NONE), (1, 0, NONE)]
    );
    take(&mut sut, live(1, 7, 20));
    assert_eq!(returned(&mut sut), [(1, 7, NONE)]);
}

/// Updates of the former variable are missing from the history.
///
/// Behaviour: B-01, B-63.
#[test]
fn missing_updates_before_a_reading_without_a_value_are_counted() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(page(&[(1, 1, 10)], &[]));
    assert_eq!(returned(&mut sut), [(1, 1, NONE)]);
    take_no_value(&mut sut, 1, 5);
    sut.take_page(page(&[(1, 1, 10), (1, 3, 20)], &[]));
    assert_eq!(returned(&mut sut), [(1, 3, NONE), (1, 0, NONE)]);
    take(&mut sut, live(1, 6, 30));
    sut.take_page(page(&[(1, 1, 10), (1, 3, 20), (1, 6, 30)], &[]));
    let coalesced = coalesced(3);
    assert_eq!(returned(&mut sut), [(1, 6, coalesced)]);
}

/// Behaviour: B-01, B-63.
#[test]
fn loss_before_a_reading_without_a_value_is_not_counted_again() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(page(&[(1, 1, 10)], &[]));
    take_no_value(&mut sut, 1, 5);
    let lost = lost(1, 2, 15, 3);
    sut.take_page(page(&[], &[lost]));
    let overrun = overrun(3);
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (1, 0, overrun)]);
    take(&mut sut, live(1, 6, 30));
    sut.take_page(page(&[(1, 5, 20), (1, 6, 30)], &[lost]));
    assert_eq!(returned(&mut sut), [(1, 5, NONE), (1, 6, NONE)]);
}

/// Rows were removed because they were older than `keep`.
///
/// Behaviour: B-63.
#[test]
fn updates_that_are_missing_before_the_first_row_are_counted() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 3, 10));
    sut.take_page(page(&[(1, 3, 10)], &[]));
    returned(&mut sut);
    take(&mut sut, live(1, 9, 90));
    sut.take_page(page(&[(1, 7, 70), (1, 8, 80), (1, 9, 90)], &[]));
    let coalesced = coalesced(3);
    assert_eq!(
        returned(&mut sut),
        [(1, 7, NONE), (1, 8, NONE), (1, 9, coalesced)]
    );
}

/// The engine restarts twice while the pages of a gap are read.
///
/// Behaviour: B-63.
#[test]
fn rows_that_were_left_once_are_left_in_later_pages() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 2, 20));
    let first = page(&[(1, 1, 10), (2, 1, 30)], &[]);
    sut.take_page(sent_by(2, followed_by_another(first)));
    sut.take_page(sent_by(3, page(&[(2, 2, 40)], &[])));
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (1, 2, NONE)]);
    take(&mut sut, live(3, 1, 50));
    let rows = [(1, 2, 20), (2, 1, 30), (2, 2, 40), (3, 1, 50)];
    sut.take_page(sent_by(3, page(&rows, &[])));
    assert_eq!(
        returned(&mut sut),
        [(2, 1, NONE), (2, 2, NONE), (3, 1, NONE)]
    );
}

/// The query for the reading without a value begins too late to find the first update of the start.
///
/// Behaviour: B-63.
#[test]
fn updates_after_the_clock_was_set_back_are_returned_after_a_reading_without_a_value() {
    const HOUR: i64 = 3600;
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10 * HOUR));
    sut.take_page(page(&[(1, 1, 10 * HOUR)], &[]));
    assert_eq!(returned(&mut sut), [(1, 1, NONE)]);
    take_no_value(&mut sut, 2, 1);
    sut.take_page(page(&[(1, 1, 10 * HOUR)], &[]));
    assert_eq!(returned(&mut sut), [(2, 0, NONE)]);
    take(&mut sut, live(2, 2, 5 * HOUR + 1));
    let rows = [(2, 1, 5 * HOUR), (2, 2, 5 * HOUR + 1), (1, 1, 10 * HOUR)];
    sut.take_page(page(&rows, &[]));
    assert_eq!(returned(&mut sut), [(2, 1, NONE), (2, 2, NONE)]);
}

/// The subscription does not count across deployments, so it reports an unknown loss.
///
/// Behaviour: B-01, B-63.
#[test]
fn sequences_show_that_nothing_is_missing_after_a_redeployment() {
    let uncounted = |event: Event| match event {
        Event::Reading { item, mut reading } => {
            reading.lost.unknown = true;
            Event::Reading { item, reading }
        }
        event => event,
    };
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(page(&[(1, 1, 10)], &[]));
    sut.take_event(uncounted(live(1, 0, 0)), 1);
    sut.take_event(uncounted(live(1, 2, 20)), 2);
    assert_eq!(
        returned(&mut sut),
        [(1, 1, NONE), (1, 0, NONE), (1, 2, NONE)]
    );
}

/// Behaviour: B-01, B-63.
#[test]
fn reading_without_a_value_waits_while_a_gap_is_filled() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 2, 20));
    take_no_value(&mut sut, 1, 3);
    take_no_value(&mut sut, 1, 3);
    take(&mut sut, live(1, 4, 50));
    sut.take_page(page(&[(1, 1, 10), (1, 2, 20)], &[]));
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (1, 2, NONE)]);
    sut.take_page(page(&[(1, 1, 10), (1, 2, 20), (1, 3, 30), (1, 4, 50)], &[]));
    assert_eq!(
        returned(&mut sut),
        [(1, 3, NONE), (1, 0, NONE), (1, 0, NONE), (1, 4, NONE)]
    );
}

/// Behaviour: B-63.
#[test]
fn reading_without_a_value_follows_a_gap_that_cannot_be_filled() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(page(&[(1, 1, 10)], &[]));
    take_no_value(&mut sut, 1, 3);
    sut.give_up();
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (1, 0, UNKNOWN)]);
    // The history can be read again.
    take(&mut sut, live(1, 4, 40));
    sut.take_page(page(&[(1, 2, 20), (1, 3, 30), (1, 4, 40)], &[]));
    assert_eq!(
        returned(&mut sut),
        [(1, 2, NONE), (1, 3, NONE), (1, 4, NONE)]
    );
}

/// The engine restarts before the page is read.
///
/// Behaviour: B-63.
#[test]
fn updates_of_the_next_start_come_after_a_reading_without_a_value() {
    let mut sut = since_the_beginning();
    take_no_value(&mut sut, 1, 1);
    let rows = [(1, 1, 10), (2, 1, 20)];
    sut.take_page(sent_by(2, page(&rows, &[])));
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (1, 0, NONE)]);
    take(&mut sut, live(2, 1, 20));
    sut.take_page(sent_by(2, page(&rows, &[])));
    assert_eq!(returned(&mut sut), [(2, 1, NONE)]);
}

/// A program starts again and continues after the last reading that it processed.
///
/// Behaviour: B-63.
#[test]
fn readings_after_a_bookmark_are_returned_once() {
    let Event::Reading { reading, .. } = live(2, 2, 30) else {
        panic!("not a reading")
    };
    let bookmark = Bookmark::of(&reading).unwrap();
    let after = || RecordedEvents::starting_at(&[("rig/x", RecordedStart::After(bookmark))]);

    // It missed nothing.
    let mut sut = after();
    take(&mut sut, live(2, 2, 30));
    take(&mut sut, live(2, 3, 40));
    assert!(sut.query().is_none());
    assert_eq!(returned(&mut sut), [(2, 3, NONE)]);

    // The engine is still in the same start. A source was late before, and another one was ahead.
    let mut sut = after();
    take(&mut sut, live(2, 5, 60));
    let query = sut.query().unwrap();
    assert_eq!(query.after, Some(bookmark.position));
    assert_eq!(query.since, Some(at(30 - 3600)));
    let rows = [(1, 9, 10), (2, 3, 25), (1, 8, 29), (2, 4, 50), (2, 5, 60)];
    sut.take_page(sent_by(2, page(&rows, &[interrupted(1, 15)])));
    assert_eq!(
        returned(&mut sut),
        [(2, 3, NONE), (2, 4, NONE), (2, 5, NONE)]
    );

    // The engine has started twice since then.
    let mut sut = after();
    take(&mut sut, live(1, 1, 70));
    let rows = [(9, 4, 10), (2, 3, 40), (3, 1, 50), (1, 1, 70)];
    sut.take_page(sent_by(1, page(&rows, &[interrupted(3, 60)])));
    assert_eq!(
        returned(&mut sut),
        [(2, 3, NONE), (3, 1, NONE), (1, 1, UNKNOWN)]
    );
}

/// The subscription is new, so it does not count what was missed before.
///
/// Behaviour: B-63.
#[test]
fn missed_updates_after_a_bookmark_are_counted_without_a_history() {
    let Event::Reading { reading, .. } = live(2, 2, 30) else {
        panic!("not a reading")
    };
    let bookmark = Bookmark::of(&reading).unwrap();
    let after = |name| RecordedEvents::starting_at(&[(name, RecordedStart::After(bookmark))]);
    let mut sut = after("rig/x");
    take(&mut sut, live(2, 9, 60));
    sut.take_page(HistoryPage::default());
    take(&mut sut, live(2, 10, 70));
    let missed = Lost {
        disconnect: 6,
        ..NONE
    };
    assert_eq!(returned(&mut sut), [(2, 9, missed), (2, 10, NONE)]);

    let mut sut = after("rig/x");
    take(&mut sut, live(3, 1, 60));
    sut.take_page(HistoryPage::default());
    assert_eq!(returned(&mut sut), [(3, 1, UNKNOWN)]);

    // The sequences of a field may have begun again.
    let mut sut = after("rig/x#forced");
    take(&mut sut, live(2, 1, 60));
    let since = sut.query().and_then(|query| query.since);
    assert_eq!(since, Some(at(30).saturating_add_nanos(1)));
    sut.take_page(HistoryPage::default());
    assert_eq!(returned(&mut sut), [(2, 1, UNKNOWN)]);
    for (first, seconds) in [(2, 30), (3, 60)] {
        let mut sut = after("rig/x#forced");
        take(&mut sut, live(2, first, seconds));
        sut.take_page(HistoryPage::default());
        take(&mut sut, live(2, first + 1, 70));
        sut.take_page(HistoryPage::default());
        let after_two = (3..=first + 1).map(|sequence| (2, sequence, NONE));
        assert_eq!(returned(&mut sut), after_two.collect::<Vec<_>>());
    }

    // The first reading is the bookmark's, so the subscription counts what is missed after it.
    let mut sut = after("rig/x");
    take(&mut sut, live(2, 2, 30));
    let Event::Reading { item, mut reading } = live(2, 9, 60) else {
        panic!("not a reading")
    };
    reading.lost = missed;
    sut.take_event(Event::Reading { item, reading }, 9);
    sut.take_page(HistoryPage::default());
    assert_eq!(returned(&mut sut), [(2, 9, missed)]);
}

/// Behaviour: B-63.
#[test]
fn each_update_of_a_loss_is_counted_in_its_gap() {
    // The recorder lacks updates after the reading, which the subscription delivers.
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 2, 20));
    let rows = [(1, 1, 10), (1, 2, 20), (1, 6, 60)];
    sut.take_page(page(&rows, &[lost(1, 3, 25, 3)]));
    take(&mut sut, live(1, 3, 30));
    assert_eq!(
        returned(&mut sut),
        [(1, 1, NONE), (1, 2, NONE), (1, 3, NONE)]
    );
    // Later, it does not deliver them.
    take(&mut sut, live(1, 6, 60));
    sut.take_page(page(&rows[2..], &[lost(1, 3, 25, 3)]));
    assert_eq!(returned(&mut sut), [(1, 6, overrun(2))]);

    // A loss of the next start.
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(sent_by(2, page(&[(1, 1, 10)], &[lost(2, 1, 20, 2)])));
    assert_eq!(returned(&mut sut), [(1, 1, NONE)]);
    take(&mut sut, live(2, 3, 30));
    sut.take_page(sent_by(2, page(&[(2, 3, 30)], &[lost(2, 1, 20, 2)])));
    assert_eq!(returned(&mut sut), [(2, 3, overrun(2))]);

    // The subscription delivers an update in the middle of a loss.
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(page(&[(1, 1, 10)], &[]));
    take(&mut sut, live(1, 5, 50));
    sut.take_page(page(&[], &[lost(1, 2, 15, 8)]));
    assert_eq!(returned(&mut sut), [(1, 1, NONE), (1, 5, overrun(3))]);
    take(&mut sut, live(1, 11, 110));
    sut.take_page(page(&[(1, 10, 100), (1, 11, 110)], &[lost(1, 2, 15, 8)]));
    assert_eq!(returned(&mut sut), [(1, 10, overrun(4)), (1, 11, NONE)]);
}

/// A page of a file is damaged. Its loss belongs to no start.
///
/// Behaviour: B-63.
#[test]
fn unknown_loss_is_not_counted_again() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(page(&[(1, 1, 10)], &[]));
    take(&mut sut, live(1, 5, 50));
    let damaged = HistoryEventRow {
        key: key(u64::MAX, u64::MAX, 20),
        event: HistoryEvent::Lost(None),
    };
    sut.take_page(page(&[(1, 4, 40)], &[damaged]));
    assert_eq!(
        returned(&mut sut),
        [(1, 1, NONE), (1, 4, UNKNOWN), (1, 5, NONE)]
    );
}

/// Initial and retained values have sequences, but are not recorded.
///
/// Behaviour: B-63.
#[test]
fn updates_before_the_first_row_of_a_start_are_not_counted() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(page(&[(1, 1, 10)], &[]));
    take(&mut sut, live(2, 4, 40));
    sut.take_page(sent_by(2, page(&[(2, 2, 20), (2, 3, 30)], &[])));
    assert_eq!(
        returned(&mut sut),
        [(1, 1, NONE), (2, 2, NONE), (2, 3, NONE), (2, 4, NONE)]
    );
}

#[test]
fn only_updates_have_bookmarks() {
    let bookmark = |sequence| match live(1, sequence, 10) {
        Event::Reading { reading, .. } => Bookmark::of(&reading),
        event => panic!("{event:?}"),
    };
    assert!(bookmark(7).is_some());
    assert_eq!(bookmark(0), None);
    assert_eq!(bookmark((1 << 52) + 1), None);
}

/// The page of an earlier gap had later readings than this one.
///
/// Behaviour: B-63.
#[test]
fn reading_without_a_value_is_not_returned_after_a_later_value() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 1, 10));
    sut.take_page(page(&[(1, 1, 10), (2, 1, 20)], &[]));
    assert_eq!(returned(&mut sut), [(2, 1, NONE), (1, 1, NONE)]);
    take_no_value(&mut sut, 2, 0);
    sut.take_page(page(&[(1, 1, 10), (2, 1, 20)], &[]));
    assert_eq!(returned(&mut sut), []);
    take(&mut sut, live(2, 2, 30));
    assert_eq!(returned(&mut sut), [(2, 2, NONE)]);
}

/// Behaviour: B-63.
#[test]
fn readings_of_a_field_that_begins_again_are_returned() {
    let mut sut = RecordedEvents::new(&["rig/x#forced"], at(0));
    take(&mut sut, live(1, 5, 50));
    sut.take_page(HistoryPage::default());
    assert_eq!(returned(&mut sut), [(1, 5, NONE)]);
    take(&mut sut, gone());
    take(&mut sut, live(1, 1, 60));
    sut.take_page(HistoryPage::default());
    assert!(matches!(sut.next_event(), Some(Event::Ended { .. })));
    assert_eq!(returned(&mut sut), [(1, 1, NONE)]);

    // The report of the end was replaced by the fault of the next attempt.
    let fault = Fault {
        code: FaultCode::UnknownName,
        sentence: String::new(),
    };
    take(&mut sut, Event::ItemError { item: 0, fault });
    take_no_value(&mut sut, 1, 0);
    sut.take_page(HistoryPage::default());
    assert!(matches!(sut.next_event(), Some(Event::ItemError { .. })));
    assert_eq!(returned(&mut sut), [(1, 0, NONE)]);
    take(&mut sut, live(1, 1, 70));
    assert_eq!(returned(&mut sut), [(1, 1, NONE)]);
}

/// The engine restarts between two pages, and its source is late.
///
/// Behaviour: B-63.
#[test]
fn rows_of_the_next_start_are_left_to_its_readings() {
    let mut sut = since_the_beginning();
    take(&mut sut, live(1, 3, 30));
    let first = page(&[(1, 1, 10), (1, 2, 20)], &[]);
    sut.take_page(sent_by(1, followed_by_another(first)));
    // The second page begins after the row (2, 1, 15).
    sut.take_page(sent_by(2, page(&[(1, 3, 30), (2, 2, 40)], &[])));
    let before = [(1, 1, NONE), (1, 2, NONE), (1, 3, NONE)];
    assert_eq!(returned(&mut sut), before);
    take(&mut sut, live(2, 2, 40));
    let rows = [(1, 1, 10), (2, 1, 15), (1, 2, 20), (1, 3, 30), (2, 2, 40)];
    sut.take_page(page(&rows, &[]));
    assert_eq!(returned(&mut sut), [(2, 1, NONE), (2, 2, NONE)]);
}
