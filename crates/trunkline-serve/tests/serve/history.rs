//! Tests queries of the history over a connection: the query that the host receives, and pages of any size.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use trunkline_access::{Action, Actions};
use trunkline_client::ClientOptions;
use trunkline_engine::{Administrator, Caller, LogPage, Order, Reply, Report, Rights};
use trunkline_proto::limits::HISTORY_PATTERNS_MAX;
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::history::{HistoryBuilder, HistoryHead, HistoryPattern};
use trunkline_proto::{FaultCode, FrameKind, Negotiation};
use trunkline_serve::{RequestBudget, ServeOptions};
use trunkline_types::history::{
    Bucket, Grid, HistoryCursor, HistoryEvent, HistoryEventRow, HistoryForm, HistoryPage,
    HistoryQuery, HistorySeries, PermittedNames, Row, RowKey, Rows, SeriesData,
};
use trunkline_types::{DataType, Pattern, Position, Quality, Reason, Timestamp};

use crate::rig::{Pair, Peer, World, client_options, f64_variable};

/// A host that answers every query with the same page, or stores the queries without an answer.
#[derive(Default)]
struct Host {
    page: Option<HistoryPage>,
    asked: Mutex<Vec<HistoryQuery>>,
    waiting: Mutex<Vec<Reply>>,
}

impl Administrator for Host {
    fn submit(&self, _: &Caller, order: Order, reply: Reply) {
        let Order::History(query) = order else {
            panic!("{order:?}");
        };
        self.asked.lock().unwrap().push(*query);
        match self.page.clone() {
            Some(page) => reply.send(Ok(Report {
                page: Some(Box::new(LogPage::History(page))),
                ..Report::default()
            })),
            None => self.waiting.lock().unwrap().push(reply),
        }
    }
}

fn world() -> World {
    World::with_library("rig", vec![f64_variable("x")])
}

fn host_of(page: HistoryPage) -> Arc<Host> {
    Arc::new(Host {
        page: Some(page),
        ..Host::default()
    })
}

fn options(host: &Arc<Host>) -> ServeOptions {
    ServeOptions {
        administrator: Some(Arc::clone(host) as Arc<dyn Administrator>),
        ..ServeOptions::default()
    }
}

fn connected(world: &World, host: &Arc<Host>, client: ClientOptions) -> Pair {
    let mut pair = Pair::offline(world, options(host), client);
    pair.connect();
    pair
}

fn series(variable: &str, data_type: DataType, data: SeriesData) -> HistorySeries {
    HistorySeries {
        variable: variable.to_owned(),
        data_type,
        units: "degC".to_owned(),
        data,
    }
}

fn key(n: usize) -> RowKey {
    RowKey {
        time: 1_767_225_600_000_000_000 + n as i64 * 1_000_003,
        epoch: 7 + n as u64 / 20_000,
        // A gap every 1,000 rows.
        sequence: (n + n / 1000 * 5) as u64,
    }
}

/// Returns rows that are longer than several items, with delays and events.
fn rows(count: usize, fixed: Option<usize>, value: impl Fn(usize) -> Vec<u8>) -> SeriesData {
    let mut rows = Rows::new(fixed);
    for n in 0..count {
        let quality = match n % 700 {
            0 => Quality::bad(Reason::SensorFailure),
            _ => Quality::GOOD,
        };
        rows.push(&Row {
            key: key(n),
            delay: (n % 3) as i64,
            quality,
            value: &value(n),
        });
        if n % 10 == 9 {
            rows.push_event(HistoryEventRow {
                key: key(n),
                event: HistoryEvent::Lost(Some(5)),
            });
        }
    }
    SeriesData::Rows(rows)
}

fn number(n: usize) -> Vec<u8> {
    (n as f64).to_le_bytes().to_vec()
}

fn buckets(count: usize) -> SeriesData {
    let bucket = |n: usize| {
        let mut bucket = Bucket::new(n as i64 * 1024);
        bucket.add(n as f64);
        bucket.lost = n as u64 % 3;
        bucket
    };
    SeriesData::Buckets {
        width: 1024,
        buckets: (0..count).map(bucket).collect(),
    }
}

/// Returns a page with short series, long series, series of long values, and series with the same name.
fn large_page() -> HistoryPage {
    let texts = |n: usize| vec![b'a' + n as u8 % 26; n * 37 % 5000];
    HistoryPage {
        series: vec![
            series("rig/a", DataType::F64, rows(3, Some(8), number)),
            series("rig/b", DataType::F64, rows(50_000, Some(8), number)),
            series("rig/b", DataType::String, rows(700, None, texts)),
            series(
                "rig/c",
                DataType::Bytes,
                rows(3, None, |n| vec![n as u8; 2_000_000]),
            ),
            series("rig/d", DataType::F64, buckets(5000)),
            series("rig/e", DataType::F64, buckets(1)),
            series(
                "rig/f",
                DataType::I16,
                rows(9_000, Some(2), |n| vec![n as u8, 1]),
            ),
        ],
        next: Some(HistoryCursor {
            variable: "rig/f".to_owned(),
            series: 3,
            after: Some(key(8_999)),
            state: vec![5; 200],
        }),
        state: "in a test".to_owned(),
        ..HistoryPage::default()
    }
}

/// Behaviour: H-16.
#[test]
fn page_arrives_whole_in_frames_of_any_size() {
    let page = large_page();
    let host = host_of(page.clone());
    for frame_max in [4096, Negotiation::OURS.frame_max] {
        let client = ClientOptions {
            negotiation: Negotiation {
                frame_max,
                ..Negotiation::OURS
            },
            ..client_options()
        };
        let mut sut = connected(&world(), &host, client);
        let request = sut.client.history(HistoryQuery::default()).unwrap();
        let mut found = sut.answer(request).unwrap();
        assert_eq!(found.epoch, sut.client.session().unwrap().epoch);
        found.epoch = page.epoch;
        // The message of a failed comparison would be megabytes long.
        assert!(found == page, "of frames of {frame_max}");
        let frames = sut.traffic.to_client.count(FrameKind::HistoryRows);
        assert!((20..200).contains(&frames), "{frames} frames");
        assert!(sut.client.state().is_connected());
    }
}

/// Behaviour: H-16.
#[test]
fn query_reaches_the_host_as_it_was_made() {
    let host = host_of(HistoryPage::default());
    let mut sut = connected(&world(), &host, client_options());
    let pattern = |text: &str| Pattern::parse(text).unwrap();
    let forms = [
        HistoryForm::Rows,
        HistoryForm::Last,
        HistoryForm::Buckets(NonZeroU64::new(1_000_000_000).unwrap()),
        HistoryForm::Points(500),
        HistoryForm::Total,
        HistoryForm::Interpolated(Grid(None)),
        HistoryForm::Interpolated(Grid(NonZeroU64::new(7))),
        HistoryForm::Stepped(Grid(NonZeroU64::new(1_000))),
    ];
    let mut queries: Vec<_> = forms
        .into_iter()
        .map(|form| HistoryQuery {
            permitted: PermittedNames::default(),
            patterns: vec![pattern("rig/**"), pattern("x")],
            since: Some(Timestamp::from_nanos(-7)),
            until: Some(Timestamp::from_nanos(i64::MAX)),
            after: Some(Position {
                epoch: 3,
                sequence: 4,
            }),
            form,
            from: Some(HistoryCursor {
                variable: "rig/x".to_owned(),
                series: 9,
                after: None,
                state: vec![1, 2, 3],
            }),
            durations: true,
            limit: 77,
        })
        .collect();
    queries.push(HistoryQuery::default());
    queries.push(HistoryQuery {
        patterns: vec![pattern(&"v".repeat(200)); HISTORY_PATTERNS_MAX],
        ..HistoryQuery::default()
    });
    for query in &queries {
        let request = sut.client.history(query.clone()).unwrap();
        assert_eq!(sut.answer(request).unwrap().series, []);
    }
    assert!(*host.asked.lock().unwrap() == queries);
    let too_many = HistoryQuery {
        patterns: vec![pattern("*"); HISTORY_PATTERNS_MAX + 1],
        ..HistoryQuery::default()
    };
    assert!(sut.client.history(too_many).is_err());
}

#[test]
fn history_needs_the_right_to_read_and_a_host() {
    let world = world();
    world.permit(Rights::Uniform(
        Actions::ALL.without(Actions::of(&[Action::History])),
    ));
    let host = host_of(HistoryPage::default());
    let mut sut = connected(&world, &host, client_options());
    let request = sut.client.history(HistoryQuery::default()).unwrap();
    let fault = sut.answer(request).unwrap_err();
    assert_eq!(fault.code, FaultCode::Denied);
    assert!(host.asked.lock().unwrap().is_empty());
    world.permit(Rights::ALL);
    let mut sut = Pair::on(&world);
    let request = sut.client.history(HistoryQuery::default()).unwrap();
    let fault = sut.answer(request).unwrap_err();
    assert_eq!(fault.code, FaultCode::NotSupported);
}

fn ask(peer: &mut Peer, head: &HistoryHead, patterns: &[&str]) {
    peer.say(|out| {
        let mut frame = HistoryBuilder::begin(out, 7, head);
        for pattern in patterns {
            frame.push(&HistoryPattern { pattern });
        }
        frame.finish(false);
    });
}

#[test]
fn queries_that_cannot_be_answered_are_refused_in_a_sentence() {
    let host = Arc::new(Host::default());
    let world = world();
    let head = |form, size| HistoryHead {
        form,
        size,
        ..HistoryHead::default()
    };
    let many = vec!["x"; HISTORY_PATTERNS_MAX + 1];
    for (head, patterns, code) in [
        (head(0, 0), &["rig/***"][..], FaultCode::BadPattern),
        (head(0, 0), &["x", ""], FaultCode::BadPattern),
        (head(2, 0), &["x"], FaultCode::BadRequest),
        (head(200, 1), &["x"], FaultCode::BadRequest),
        (head(0, 0), &many, FaultCode::TooLarge),
    ] {
        let mut peer = Peer::with(&world, options(&host));
        peer.say(|out| Hello::default().encode(out));
        ask(&mut peer, &head, patterns);
        let faults = peer.frames(|frame| {
            let fault = FaultMessage::decode(frame).ok()?;
            Some((frame.request(), fault.fault.to_fault().code))
        });
        let faults: Vec<_> = faults.into_iter().flatten().collect();
        assert_eq!(faults, [(7, code)]);
    }
    assert!(host.asked.lock().unwrap().is_empty());
}

#[test]
fn a_query_counts_until_its_host_has_answered_it() {
    let host = Arc::new(Host::default());
    let requests = Arc::new(RequestBudget::new(64 << 20));
    let options = ServeOptions {
        requests: Arc::clone(&requests),
        ..options(&host)
    };
    let mut peer = Peer::with(&world(), options);
    peer.say(|out| Hello::default().encode(out));
    let pattern = "v".repeat(100);
    let patterns = vec![pattern.as_str(); HISTORY_PATTERNS_MAX];
    for count in 1..=3 {
        ask(&mut peer, &HistoryHead::default(), &patterns);
        let counted = requests.used();
        let needed = count * HISTORY_PATTERNS_MAX * 100;
        assert!((needed..needed * 2).contains(&counted), "{counted} bytes");
    }
    // After the session has ended, the host still has the query.
    drop(peer);
    assert!(requests.used() > 0);
    host.waiting.lock().unwrap().clear();
    assert_eq!(requests.used(), 0);
}
