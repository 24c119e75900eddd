//! F5: the engine's wall clock jumps. It stamps data and nothing else.

use std::path::Path;

use trunkline::{SubscribeOptions, Write};
use trunkline_types::{Contract, Value};

use crate::engine::{Engine, Handles, Launch, config, names};
use crate::figures::{is_full, record, size};
use crate::view::View;
use crate::{CUT_OFF, alone};

const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// Steps of the wall clock, as the library that fakes it reads them.
const STEPS: [&str; 8] = ["+3600", "-3600", "+0", "+3650d", "-3650d", "+0", "-1", "-2"];

/// Behaviour: B-42.
#[test]
fn steps_of_the_wall_clock_drop_no_session_and_reorder_nothing() {
    let _alone = alone();
    let Some(library) = LIBRARIES.into_iter().find(|path| Path::new(path).exists()) else {
        eprintln!("skipped: F5 with a real clock (libfaketime is not installed)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("offset");
    std::fs::write(&file, "+0").unwrap();
    let environment = [
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let environment = environment.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let engine = Engine::launch(Launch {
        before: Vec::new(),
        environment: environment.to_vec(),
        listen: vec!["127.0.0.1:0".to_owned()],
        config: config(1, "f64", ""),
    });
    let client = engine.client();
    let handles = Handles::open(&client, &names(1));
    let subscription = client
        .subscribe(&names(1), Contract::ALL, SubscribeOptions::default())
        .unwrap();
    let mut view = View::default();
    let (rounds, mut written, mut stamps) = (size(3, 125), 0u64, Vec::new());
    for step in STEPS.iter().cycle().take(rounds * STEPS.len()) {
        std::fs::write(&file, step).unwrap();
        for _ in 0..5 {
            written += 1;
            let write = Write::new(handles.0[0], Value::F64(written as f64));
            client.write([write], CUT_OFF).unwrap();
        }
        let expected = Value::F64(written as f64);
        while view
            .newest
            .get(&0)
            .is_none_or(|newest| newest.sample.value != expected)
        {
            let event = subscription
                .next(Some(CUT_OFF))
                .expect("an update is missing");
            view.take(event);
        }
        let newest = &view.newest[&0];
        assert_eq!(newest.position.sequence, written, "in order");
        assert_eq!(newest.stale, None, "a step of {step} makes nothing old");
        stamps.push(newest.sample.engine_timestamp.as_nanos());
    }
    let (first, last) = (stamps.iter().min().unwrap(), stamps.iter().max().unwrap());
    assert!(
        last - first > 7000 * 86_400 * 1_000_000_000,
        "the clock was not moved"
    );
    assert!(view.disconnects.is_empty(), "{:?}", view.disconnects);
    assert_eq!((view.lost, view.skipped), (0, 0));
    if is_full() {
        let check = format!("F5, {} steps of the engine's clock", rounds * STEPS.len());
        record(&check, "sessions dropped", "0", "0");
        record(&check, "updates lost or out of order", "0", "0");
    }
}
