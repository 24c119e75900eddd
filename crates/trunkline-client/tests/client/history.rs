//! The history: the client joins the frames of a page, also across a reconnection, and disconnects
//! from an engine that violates the protocol.

use trunkline_client::RequestId;
use trunkline_client::request::History;
use trunkline_proto::Features;
use trunkline_proto::message::history::{HistoryRowsBuilder, HistoryRowsHead};
use trunkline_types::history::{
    Bucket, HistoryCursor, HistoryEvent, HistoryEventRow, HistoryQuery, HistorySeries, Row, RowKey,
    Rows, SeriesData,
};
use trunkline_types::{DataType, Quality};

use super::hostile::sentence;
use super::rig::{Rig, Said};

fn ask(query: HistoryQuery) -> (Rig, RequestId<History>, u32) {
    let mut rig = Rig::new();
    rig.engine.welcome.features = Features::HISTORY;
    rig.connect();
    rig.said();
    let request = rig.client.history(query).unwrap();
    rig.exchange();
    let number = asked(&mut rig);
    (rig, request, number)
}

/// Returns the number of the last query.
fn asked(rig: &mut Rig) -> u32 {
    match rig.said().pop() {
        Some(Said::History { request }) => request,
        other => panic!("{other:?}"),
    }
}

fn cursor(series: u32) -> HistoryCursor {
    HistoryCursor {
        variable: "a/b".to_owned(),
        series,
        after: None,
        state: vec![7],
    }
}

fn series(units: &str, data: SeriesData) -> HistorySeries {
    HistorySeries {
        variable: "a/b".to_owned(),
        data_type: DataType::U8,
        units: units.to_owned(),
        data,
    }
}

fn key(number: u8) -> RowKey {
    RowKey {
        time: i64::from(number) * 10,
        epoch: 7,
        sequence: u64::from(number),
    }
}

/// Rows of these numbers, with an event at each mark.
fn rows(numbers: &[u8], marks: &[u8]) -> SeriesData {
    let mut rows = Rows::new(Some(1));
    for number in numbers {
        rows.push(&Row {
            key: key(*number),
            delay: 0,
            quality: Quality::GOOD,
            value: &[*number],
        });
    }
    for mark in marks {
        rows.push_event(HistoryEventRow {
            key: key(*mark),
            event: HistoryEvent::Interrupted,
        });
    }
    SeriesData::Rows(rows)
}

fn buckets(width: u64, starts: &[i64]) -> SeriesData {
    let bucket = |start: &i64| {
        let mut bucket = Bucket::new(*start);
        bucket.add(1.0);
        bucket
    };
    let buckets = starts.iter().map(bucket).collect();
    SeriesData::Buckets { width, buckets }
}

fn tell(rig: &mut Rig, request: u32, series: &[HistorySeries], next: Option<u32>, more: bool) {
    let head = HistoryRowsHead {
        next: next.map(cursor),
        state: "in a test",
    };
    rig.tell(|out| {
        let mut page = HistoryRowsBuilder::begin(out, request, &head);
        series.iter().for_each(|one| page.push(one));
        page.finish(more);
    });
}

#[test]
fn parts_of_a_series_are_joined_and_others_are_not() {
    let (mut rig, request, number) = ask(HistoryQuery::default());
    let first = [
        series("V", rows(&[1, 2], &[0])),
        series("V", rows(&[3], &[])),
    ];
    tell(&mut rig, number, &first, Some(9), true);
    let second = [
        series("V", rows(&[4], &[3, 4])),
        series("A", rows(&[5], &[])),
        series("A", buckets(8, &[8])),
        series("A", buckets(8, &[16, 24])),
    ];
    tell(&mut rig, number, &second, Some(9), true);
    tell(
        &mut rig,
        number,
        &[series("A", buckets(4, &[28]))],
        Some(9),
        false,
    );
    let page = rig.answer(request).unwrap();
    let expected = [
        series("V", rows(&[1, 2, 3, 4], &[0, 3, 4])),
        series("A", rows(&[5], &[])),
        series("A", buckets(8, &[8, 16, 24])),
        series("A", buckets(4, &[28])),
    ];
    assert_eq!(page.series, expected);
    assert_eq!(page.next, Some(cursor(9)));
    assert_eq!(page.state, "in a test");
}

#[test]
fn interrupted_page_is_asked_for_again_as_a_whole() {
    let (mut rig, request, number) = ask(HistoryQuery::default());
    tell(
        &mut rig,
        number,
        &[series("V", rows(&[1], &[]))],
        None,
        true,
    );
    rig.reconnect();
    rig.exchange();
    let number = asked(&mut rig);
    tell(
        &mut rig,
        number,
        &[series("V", rows(&[1], &[]))],
        None,
        false,
    );
    let page = rig.answer(request).unwrap();
    assert_eq!(page.series, [series("V", rows(&[1], &[]))]);
}

#[test]
fn page_that_does_not_advance_ends_the_connection() {
    let (mut rig, _, number) = ask(HistoryQuery {
        from: Some(cursor(3)),
        ..HistoryQuery::default()
    });
    tell(&mut rig, number, &[], Some(3), false);
    assert!(sentence(&rig).contains("continues where the query began"));
}

#[test]
fn endless_page_ends_the_connection() {
    let (mut rig, _, number) = ask(HistoryQuery::default());
    let mut large = Rows::new(None);
    large.push(&Row {
        key: key(1),
        delay: 0,
        quality: Quality::GOOD,
        value: &vec![0; 1_000_000],
    });
    let large = series("V", SeriesData::Rows(large));
    for n in 0..135 {
        // Each series has another unit, so that no series are joined.
        let one = HistorySeries {
            units: n.to_string(),
            ..large.clone()
        };
        tell(&mut rig, number, &[one], None, true);
        if !rig.client.state().is_connected() {
            break;
        }
    }
    assert!(sentence(&rig).contains("a page of the history with more than"));
}
