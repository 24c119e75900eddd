//! The history through the facade: pages, and subscriptions that combine history and updates,
//! across lost connections and restarts of the engine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use trunkline::io::Drivers;
use trunkline::proto::FaultCode;
use trunkline::types::history::{
    HistoryEvent, HistoryForm, HistoryItem, HistoryQuery, HistorySeries, SeriesData,
};
use trunkline::types::{
    Contract, DataType, LibraryDefinition, Pattern, Reading, Timestamp, Value, VariableDefinition,
    WhyStage, WhyVerdict,
};
use trunkline::{
    CallError, Client, Engine, EngineOptions, Event, OpenOptions, RecordedSubscription, StartError,
    SubscribeOptions, Subscription, VariableRef, Write, WriteOutcome,
};

/// Limit that only a hanging test reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A configuration with `rig/x` and `rig/y`, these keys of the engine and these `[[history]]`
/// sections.
fn config(folder: &Path, listen: SocketAddr, history: &str) -> String {
    let folder = folder.display();
    let (engine, history) = history.split_at(history.find('[').unwrap());
    format!(
        "[engine]\nstore = \"{folder}/plant.db\"\nlisten = [\"{listen}\"]\nlocal_socket = false\n\
         {engine}[library]\nname = \"rig\"\n[[variable]]\nname = \"x\"\ntype = \"i64\"\n\
         [[variable]]\nname = \"y\"\ntype = \"f64\"\nrange = [0, 200]\n{history}"
    )
}

const EVERYTHING: &str = "[[history]]\nvariables = \"**\"\n";

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn start_at(folder: &Path, listen: SocketAddr, history: &str) -> Engine {
    let text = config(folder, listen, history);
    let file = folder.join("plant.toml");
    let plan = trunkline::config::parse(file.to_str().unwrap(), &text).expect("it is valid");
    let open = Some(trunkline_history::open as trunkline::OpenHistory);
    Engine::from_plan_with(&plan, &Drivers::built_in(), open).expect("the engine starts")
}

fn started(history: &str) -> (TempDir, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let engine = start_at(folder.path(), any_port(), history);
    (folder, engine)
}

/// Writes these numbers to `rig/x`.
fn write(engine: &Engine, numbers: impl IntoIterator<Item = i64>) {
    let variable = engine.variable::<i64>("rig/x").unwrap();
    for number in numbers {
        variable.write(number).unwrap();
    }
}

fn query(pattern: &str) -> HistoryQuery {
    HistoryQuery {
        patterns: vec![Pattern::parse(pattern).unwrap()],
        ..HistoryQuery::default()
    }
}

/// All series of a query, and the number of pages that contained them.
fn everything(client: &Client, mut query: HistoryQuery) -> (Vec<HistorySeries>, usize) {
    let (mut series, mut pages) = (Vec::new(), 0);
    loop {
        let page = client.history(query.clone(), TIMEOUT).unwrap();
        let length: usize = page.series.iter().map(|one| one.data.len()).sum();
        if query.limit > 0 {
            assert!(length <= query.limit as usize, "{length}");
        }
        pages += 1;
        series.extend(page.series);
        match page.next {
            Some(next) => query.from = Some(next),
            None => return (series, pages),
        }
    }
}

fn readings(series: &[HistorySeries]) -> Vec<(String, Reading)> {
    let readings = series.iter().flat_map(|one| {
        let readings = one.items().filter_map(|item| match item {
            HistoryItem::Reading(reading) => Some(reading),
            HistoryItem::Event { .. } => None,
        });
        readings.map(|reading| (one.variable.clone(), reading))
    });
    readings.collect()
}

fn events(series: &[HistorySeries]) -> Vec<HistoryEvent> {
    let items = series.iter().flat_map(HistorySeries::items);
    let events = items.filter_map(|item| match item {
        HistoryItem::Event { event, .. } => Some(event),
        HistoryItem::Reading(_) => None,
    });
    events.collect()
}

fn number(reading: &Reading) -> i64 {
    match reading.sample.value {
        Value::I64(number) => number,
        ref other => panic!("{other:?}"),
    }
}

/// Behaviour: H-16.
#[test]
fn pages_have_every_reading_once_by_variable_and_then_by_time() {
    let (_folder, engine) = started(EVERYTHING);
    let y = engine.variable::<f64>("rig/y").unwrap();
    for value in 0..1_000 {
        write(&engine, [value]);
        y.write(value as f64 / 8.0).unwrap();
    }
    let client = engine.client().unwrap();
    let whole = everything(&client, query("rig/*"));
    assert_eq!(whole.1, 1);
    let rows = readings(&whole.0);
    let expected = (0..1_000).map(Value::I64);
    let expected = expected.chain((0..1_000).map(|one| Value::F64(f64::from(one) / 8.0)));
    let values = rows.iter().map(|(_, reading)| reading.sample.value.clone());
    assert!(values.eq(expected), "{} rows", rows.len());
    let live = y.read().unwrap();
    let last = &rows.last().unwrap().1;
    assert_eq!(last.position, live.position);
    assert_eq!(last.sample.source_timestamp, live.source_timestamp);
    assert_eq!(last.sample.engine_timestamp, live.engine_timestamp);
    assert_eq!(last.sample.quality, live.quality);
    for limit in [1, 7, 999, 1_000, 1_001] {
        let mut paged = query("rig/*");
        paged.limit = limit;
        let (series, pages) = everything(&client, paged);
        assert_eq!(readings(&series), rows, "limit {limit}");
        assert_eq!(events(&series), events(&whole.0), "limit {limit}");
        // Each variable has two events.
        assert!(pages >= 2_004_usize.div_ceil(limit as usize), "{pages}");
    }
    let mut after = query("rig/x");
    after.after = Some(rows[499].1.position);
    assert_eq!(readings(&everything(&client, after).0), rows[500..1_000]);
}

#[test]
fn last_reading_and_intervals_are_those_of_the_rows() {
    let (_folder, engine) = started(EVERYTHING);
    write(&engine, [5, -3, 9]);
    let client = engine.client().unwrap();
    let mut last = query("rig/*");
    last.form = HistoryForm::Last;
    let last = readings(&everything(&client, last).0);
    assert_eq!(last.len(), 1, "nothing was written to rig/y");
    assert_eq!(number(&last[0].1), 9);
    let mut points = query("rig/x");
    points.form = HistoryForm::Points(2);
    points.since = Some(Timestamp::from_nanos(0));
    let series = everything(&client, points).0;
    let SeriesData::Buckets { buckets, .. } = &series[0].data else {
        panic!("{series:?}");
    };
    let all = buckets.iter().skip(1).fold(buckets[0], |mut all, next| {
        all.join(next);
        all
    });
    assert_eq!((all.count, all.bad, all.lost), (3, 0, 0));
    assert_eq!(
        (all.first, all.last, all.min, all.max),
        (5.0, 9.0, -3.0, 9.0)
    );
    assert_eq!(all.sum, 11.0);
}

/// No query is made here, because a query would record the updates at once.
///
/// Behaviour: SV-09.
#[test]
fn updates_are_recorded_although_nobody_asks() {
    const ROUNDS: u64 = 3;
    const BATCHES: u64 = 100;
    const WRITES: u64 = 100;
    let (_folder, engine) = started(&format!("health = \"100ms\"\n{EVERYTHING}"));
    let address = engine.local_addrs()[0];
    let client = Client::connect(&format!("tl+tcp://{address}")).unwrap();
    let follow = |name: &str, contract: Contract| {
        let options = SubscribeOptions::default();
        client.subscribe(&[name], contract, options).unwrap()
    };
    // A batch forms while the recorder processes the previous batch.
    let pace = follow("rig/x", Contract::Sampled(Duration::from_millis(20)));
    let recorded = follow("_engine/history/recorded", Contract::Latest);
    let opened = client.open(&["rig/x"], OpenOptions::default(), TIMEOUT);
    let x = opened.unwrap().remove(0).unwrap().variable;
    let wait = |updates: &Subscription, is_it: &dyn Fn(&Value) -> bool| {
        loop {
            match updates.next(Some(TIMEOUT)) {
                Some(Event::Reading { reading, .. }) if is_it(&reading.sample.value) => return,
                event => assert!(event.is_some(), "updates are not recorded"),
            }
        }
    };
    for batch in 1..=ROUNDS * BATCHES {
        let numbers = (batch - 1) * WRITES + 1..=batch * WRITES;
        let writes = numbers.map(|number| Write::new(x, Value::I64(number as i64)));
        client.write(writes, TIMEOUT).unwrap();
        let written = batch * WRITES;
        wait(&pace, &|value| *value == Value::I64(written as i64));
        if batch % BATCHES == 0 {
            // The count includes the events of the start.
            let events = 3;
            wait(&recorded, &|value| *value == Value::U64(written + events));
        }
    }
}

/// A proxy that carries one connection at a time. The test admits each connection.
struct Cable {
    listener: TcpListener,
    engine: SocketAddr,
}

impl Cable {
    fn to(engine: SocketAddr) -> Self {
        let listener = TcpListener::bind(any_port()).unwrap();
        Self { listener, engine }
    }

    fn client(&self) -> Client {
        // TCP, as between two machines.
        let address = self.listener.local_addr().unwrap();
        Client::connect(&format!("tl+tcp://{address}")).unwrap()
    }

    /// Carries the next connection. Returns a handle that cuts it.
    fn let_in(&self) -> impl FnOnce() + use<> {
        let (near, _) = self.listener.accept().unwrap();
        let far = TcpStream::connect(self.engine).unwrap();
        let copy = |stream: &TcpStream| stream.try_clone().unwrap();
        carry(copy(&near), copy(&far));
        carry(copy(&far), copy(&near));
        move || {
            for end in [near, far] {
                // The connection may already have ended.
                let _ended = end.shutdown(Shutdown::Both);
            }
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
    });
}

/// Receives the readings of `rig/x` since a time in a thread, which ends with its receiver.
fn follow(client: Client, since: Timestamp) -> Receiver<Reading> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let names = ["rig/x"];
        let sut = RecordedSubscription::new(&client, &names, since, TIMEOUT);
        let mut sut = sut.unwrap();
        loop {
            match sut.next(Some(TIMEOUT)) {
                // A variable that has no value yet has a reading as well.
                Ok(Some(Event::Reading { reading, .. })) if reading.position.sequence == 0 => {}
                Ok(Some(Event::Reading { reading, .. })) => {
                    if sender.send(reading).is_err() {
                        return;
                    }
                }
                // A query is repeated if the connection is lost during it.
                Ok(Some(_)) | Err(_) => {}
                Ok(None) => return,
            }
        }
    });
    receiver
}

/// The next readings until the one with this number.
fn until(followed: &Receiver<Reading>, last: i64) -> Vec<Reading> {
    let mut readings: Vec<Reading> = Vec::new();
    loop {
        let reading = followed.recv_timeout(TIMEOUT).expect("a reading");
        readings.push(reading);
        if readings.last().map(number) == Some(last) {
            return readings;
        }
    }
}

fn numbers(readings: &[Reading]) -> Vec<i64> {
    readings.iter().map(number).collect()
}

/// A time before everything that is recorded.
const BEGINNING: Timestamp = Timestamp::from_nanos(0);

/// Behaviour: B-63.
#[test]
fn subscription_since_a_time_continues_over_lost_connections() {
    let (_folder, engine) = started(EVERYTHING);
    write(&engine, 0..100);
    let cable = Cable::to(engine.local_addrs()[0]);
    let client = cable.client();
    let cut = cable.let_in();
    let followed = follow(client, BEGINNING);
    let mut all = until(&followed, 99);
    write(&engine, 100..200);
    all.extend(until(&followed, 199));
    let (mut cut, mut next) = (cut, 200);
    for _ in 0..5 {
        cut();
        // The subscription misses all these updates, and the history supplies them.
        write(&engine, next..next + 50);
        cut = cable.let_in();
        all.extend(until(&followed, next + 49));
        next += 50;
        write(&engine, next..next + 50);
        all.extend(until(&followed, next + 49));
        next += 50;
    }
    assert_eq!(numbers(&all), (0..next).collect::<Vec<_>>());
    let sequences = all.iter().map(|reading| reading.position.sequence);
    assert!(sequences.eq(1..=next as u64));
    assert!(all.iter().all(|reading| reading.lost.nothing_lost()));
}

/// Behaviour: B-63.
#[test]
fn subscription_since_a_time_is_complete_while_connections_fail() {
    const WRITES: i64 = 100_000;
    let (_folder, engine) = started(EVERYTHING);
    let cable = Cable::to(engine.local_addrs()[0]);
    let client = cable.client();
    let mut cut = cable.let_in();
    let followed = follow(client, BEGINNING);
    let writer = engine.clone();
    let writer = thread::spawn(move || write(&writer, 0..WRITES));
    let mut all: Vec<Reading> = Vec::new();
    while all.last().map(number) != Some(WRITES - 1) {
        all.push(followed.recv_timeout(TIMEOUT).expect("a reading"));
        if all.len().is_multiple_of(5_000) {
            cut();
            cut = cable.let_in();
        }
    }
    writer.join().unwrap();
    let found = numbers(&all);
    let wrong = (0..WRITES).zip(&found).find(|(one, found)| one != *found);
    assert_eq!(wrong, None, "{} readings", found.len());
    assert_eq!(found.len() as i64, WRITES);
}

/// Behaviour: B-63, B-64.
#[test]
fn subscription_since_a_time_continues_after_starts_of_the_engine() {
    let (folder, mut engine) = started(EVERYTHING);
    let address = engine.local_addrs()[0];
    let cable = Cable::to(address);
    let client = cable.client();
    let _cut = cable.let_in();
    let followed = follow(client, BEGINNING);
    let mut all = Vec::new();
    let mut next = 0;
    for _ in 0..3 {
        write(&engine, next..next + 20);
        all.extend(until(&followed, next + 19));
        next += 20;
        engine.shutdown(Duration::from_secs(1));
        drop(engine);
        engine = start_at(folder.path(), address, EVERYTHING);
        // The subscription misses all these updates, and the history supplies them.
        write(&engine, next..next + 20);
        let _cut = cable.let_in();
        all.extend(until(&followed, next + 19));
        next += 20;
    }
    assert_eq!(numbers(&all), (0..next).collect::<Vec<_>>());
    let recorded = everything(&engine.client().unwrap(), query("rig/x")).0;
    let rows: Vec<Reading> = readings(&recorded).into_iter().map(|row| row.1).collect();
    assert_eq!(numbers(&rows), numbers(&all));
    let places = |readings: &[Reading]| -> Vec<_> {
        readings.iter().map(|reading| reading.position).collect()
    };
    assert_eq!(places(&rows), places(&all));
    let mut expected = vec![HistoryEvent::Started, HistoryEvent::Added];
    for _ in 0..3 {
        expected.extend([HistoryEvent::Stopped, HistoryEvent::Started]);
    }
    assert_eq!(events(&recorded), expected);
}

/// Writes numbers to `rig/x` with these times of measurement, in seconds after a fixed time.
fn outcomes_at(client: &Client, writes: &[(i64, i64)]) -> Vec<WriteOutcome> {
    let opened = client.open(&["rig/x"], OpenOptions::default(), TIMEOUT);
    let x: VariableRef = opened.unwrap().remove(0).unwrap().variable;
    let writes = writes.iter().map(|(number, second)| {
        let mut write = Write::new(x, Value::I64(*number));
        let time = 1_700_000_000 + *second;
        write.options.source_timestamp = Some(Timestamp::from_nanos(time * 1_000_000_000));
        write
    });
    client.write(writes, TIMEOUT).unwrap()
}

fn write_at(client: &Client, writes: &[(i64, i64)]) {
    for outcome in outcomes_at(client, writes) {
        assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
    }
}

/// Writes late samples, and returns the number of those that are recorded in the history only.
fn late(client: &Client, writes: &[(i64, i64)]) -> usize {
    let outcomes = outcomes_at(client, writes).into_iter();
    let kept = outcomes.filter(|outcome| {
        let WriteOutcome::Refused(fault) = outcome else {
            return false;
        };
        assert!(fault.sentence.contains("in the history only"), "{fault}");
        fault.code == FaultCode::LateRecorded
    });
    kept.count()
}

/// Numbers of the recorded rows of `rig/x`.
fn recorded(client: &Client) -> Vec<i64> {
    let rows = readings(&everything(client, query("rig/x")).0);
    rows.iter().map(|(_, reading)| number(reading)).collect()
}

/// Behaviours: B-41, B-63.
#[test]
fn late_sample_is_recorded_and_is_part_of_what_was_recorded_before_a_subscription() {
    let (_folder, engine) = started(EVERYTHING);
    let client = engine.client().unwrap();
    write_at(&client, &[(1, 50), (2, 60)]);
    assert_eq!(late(&client, &[(3, 55), (4, 55), (5, 40)]), 3);

    let followed = follow(engine.client().unwrap(), BEGINNING);
    assert_eq!(numbers(&until(&followed, 2)), [5, 1, 3, 4, 2]);
    assert_eq!(late(&client, &[(6, 45)]), 1);
    write_at(&client, &[(7, 70)]);
    assert_eq!(numbers(&until(&followed, 7)), [7], "it was never the value");
    assert_eq!(recorded(&client), [5, 6, 1, 3, 4, 2, 7]);
}

/// Behaviour: B-41.
#[test]
fn late_sample_just_before_a_stop_is_recorded() {
    let (folder, engine) = started(EVERYTHING);
    let address = engine.local_addrs()[0];
    let client = engine.client().unwrap();
    write_at(&client, &[(1, 50), (2, 60)]);
    assert_eq!(late(&client, &[(3, 55)]), 1);
    drop(client);
    engine.shutdown(Duration::from_secs(1));
    drop(engine);
    let engine = start_at(folder.path(), address, EVERYTHING);
    assert_eq!(recorded(&engine.client().unwrap()), [1, 3, 2]);
}

/// Behaviour: B-63.
#[test]
fn subscription_since_a_time_is_complete_if_the_clock_was_set_back() {
    let (folder, engine) = started(EVERYTHING);
    let address = engine.local_addrs()[0];
    write_at(&engine.client().unwrap(), &[(1, 50), (2, 60)]);
    engine.shutdown(Duration::from_secs(1));
    drop(engine);
    let engine = start_at(folder.path(), address, EVERYTHING);
    let client = engine.client().unwrap();
    write_at(&client, &[(3, 10), (4, 20)]);
    let followed = follow(engine.client().unwrap(), BEGINNING);
    let mut all = until(&followed, 4);
    write_at(&client, &[(5, 30), (6, 40)]);
    all.extend(until(&followed, 6));
    let (first, second): (Vec<i64>, Vec<i64>) =
        numbers(&all).into_iter().partition(|number| *number <= 2);
    assert_eq!(first, [1, 2], "each once, in the order of its start");
    assert_eq!(second, [3, 4, 5, 6]);
}

fn library(data_type: DataType) -> LibraryDefinition {
    LibraryDefinition {
        name: "lib".to_owned(),
        description: String::new(),
        variables: vec![VariableDefinition::new("v", data_type)],
    }
}

/// Behaviour: B-64.
#[test]
fn variable_deployed_again_with_another_type_has_two_series() {
    let (folder, engine) = started(EVERYTHING);
    let address = engine.local_addrs()[0];
    let undeployed_and_deployed = |data_type| {
        engine.undeploy("lib").unwrap();
        engine.deploy(&library(data_type)).unwrap();
    };
    engine.deploy(&library(DataType::I64)).unwrap();
    let v = engine.variable::<i64>("lib/v").unwrap();
    v.write(1).unwrap();
    v.write(2).unwrap();
    undeployed_and_deployed(DataType::Bool);
    let v = engine.variable::<bool>("lib/v").unwrap();
    v.write(true).unwrap();
    undeployed_and_deployed(DataType::I64);
    let v = engine.variable::<i64>("lib/v").unwrap();
    v.write(3).unwrap();
    engine.undeploy("lib").unwrap();

    let check = |engine: &Engine, then: &[HistoryEvent]| {
        let series = everything(&engine.client().unwrap(), query("lib/*")).0;
        assert_eq!(series.len(), 2, "{series:?}");
        let values = |one: &HistorySeries| -> Vec<Value> {
            let rows = readings(std::slice::from_ref(one)).into_iter();
            rows.map(|row| row.1.sample.value).collect()
        };
        assert_eq!(series[0].data_type, DataType::I64);
        assert_eq!(values(&series[0]), [1, 2, 3].map(Value::I64));
        assert_eq!(series[1].data_type, DataType::Bool);
        assert_eq!(values(&series[1]), [Value::Bool(true)]);
        let lives = [HistoryEvent::Added, HistoryEvent::Retired];
        for (one, count) in series.iter().zip([2, 1]) {
            let all = events(std::slice::from_ref(one));
            let own = all.iter().filter(|event| lives.contains(event));
            assert!(own.eq(lives.repeat(count).iter()), "{all:?}");
            assert!(all.ends_with(then), "{all:?}");
        }
    };
    check(&engine, &[]);
    engine.shutdown(Duration::from_secs(1));
    drop(engine);
    let engine = start_at(folder.path(), address, EVERYTHING);
    check(&engine, &[HistoryEvent::Stopped, HistoryEvent::Started]);
}

/// Behaviour: B-63.
#[test]
fn subscription_since_a_time_continues_when_the_variable_is_deployed_again() {
    let (_folder, engine) = started(EVERYTHING);
    write(&engine, 0..10);
    let followed = follow(engine.client().unwrap(), BEGINNING);
    until(&followed, 9);
    engine.undeploy("rig").unwrap();
    engine
        .deploy(&LibraryDefinition {
            name: "rig".to_owned(),
            description: String::new(),
            variables: vec![VariableDefinition::new("x", DataType::I64)],
        })
        .unwrap();
    write(&engine, 10..30);
    assert_eq!(numbers(&until(&followed, 29)), (10..30).collect::<Vec<_>>());
}

/// Behaviour: H-13.
#[test]
fn why_tells_the_deadband_and_the_rows_keep_it() {
    let sections = "[[history]]\nvariables = \"rig/y\"\ndeadband = 5\nresolution = 0.5\n";
    let (_folder, engine) = started(sections);
    let client = engine.client().unwrap();
    let said = |name: &str| {
        let steps = client.why(name, TIMEOUT).unwrap();
        let step = steps
            .into_iter()
            .find(|step| step.stage == WhyStage::Consumer && step.sentence.contains("recorded"));
        let step = step.unwrap();
        (step.verdict, step.sentence)
    };
    let deadband = "its updates are recorded, if the value has changed by more than 5 % of the \
                    range, rounded to 0.5";
    assert_eq!(said("rig/y"), (WhyVerdict::Ok, deadband.to_owned()));
    let (verdict, sentence) = said("rig/x");
    assert_eq!(verdict, WhyVerdict::Note);
    assert!(sentence.starts_with("it is not recorded"), "{sentence}");

    // 5 % of 200 are 10.
    let y = engine.variable::<f64>("rig/y").unwrap();
    for value in [50.2, 60.0, 60.4, 60.8, 50.9, 50.0, 49.7] {
        y.write(value).unwrap();
    }
    let rows = readings(&everything(&client, query("rig/*")).0);
    let found: Vec<(Value, bool)> = rows
        .iter()
        .map(|row| (row.1.sample.value.clone(), row.1.lost.nothing_lost()))
        .collect();
    let kept = [50.0, 60.5, 50.0].map(|value| (Value::F64(value), true));
    assert_eq!(found, kept);
}

#[test]
fn engine_without_history_answers_that_it_is_not_supported() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = engine.client().unwrap();
    let refused = client.history(query("**"), TIMEOUT);
    let is_refused = |error: &CallError| matches!(error, CallError::Fault(fault) if fault.code == FaultCode::NotSupported);
    assert!(refused.as_ref().is_err_and(is_refused), "{refused:?}");

    engine.deploy(&library(DataType::I64)).unwrap();
    let v = engine.variable::<i64>("lib/v").unwrap();
    v.write(4).unwrap();
    let mut sut = RecordedSubscription::new(&client, &["lib/v"], BEGINNING, TIMEOUT).unwrap();
    let error = loop {
        match sut.next(Some(TIMEOUT)) {
            Ok(Some(Event::Reading { reading, .. })) => panic!("{reading:?}"),
            Ok(event) => assert!(event.is_some()),
            Err(error) => break error,
        }
    };
    assert!(is_refused(&error), "{error:?}");
    // The error does not lose the update.
    let Ok(Some(Event::Reading { reading, .. })) = sut.next(Some(TIMEOUT)) else {
        panic!("the update did not come");
    };
    assert_eq!(number(&reading), 4);
    assert_eq!(reading.lost.count(), None);
}

#[test]
fn program_that_records_nothing_refuses_sections_of_history() {
    let folder = tempfile::tempdir().unwrap();
    let text = config(folder.path(), any_port(), EVERYTHING);
    let plan = trunkline::config::parse("plant.toml", &text).unwrap();
    let started = Engine::from_plan(&plan);
    assert!(matches!(started, Err(StartError::NoHistory)), "{started:?}");
}
