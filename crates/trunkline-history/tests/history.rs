//! Tests recording variables, and reading them from memory, from files, and after a restart.

#![allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use trunkline_engine::history::History;
use trunkline_engine::{Caller, Engine, EngineOptions, Wake, Wakes, Write};
use trunkline_history::FileHistory;
use trunkline_types::history::{
    HistoryEvent, HistoryForm, HistoryPage, HistoryQuery, HistoryRule, HistorySettings, Rows,
    SeriesData,
};
use trunkline_types::{
    DataType, LibraryDefinition, Moment, Pattern, Position, Tick, Timestamp, Value,
    VariableDefinition,
};

const START: i64 = 1_790_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

struct Unheard;

impl Wake for Unheard {
    fn wake(&self) {}
}

fn rule(pattern: &str, settings: Option<HistorySettings>) -> HistoryRule {
    HistoryRule {
        pattern: Pattern::parse(pattern).unwrap(),
        settings,
    }
}

/// An engine with a history. The test advances its clock.
struct Plant {
    engine: Engine,
    history: Arc<FileHistory>,
    caller: Caller,
    time: i64,
}

impl Plant {
    fn start(
        folder: &Path,
        epoch: u64,
        time: i64,
        rules: Vec<HistoryRule>,
        variables: &[(&str, DataType)],
    ) -> Self {
        let engine = Engine::new(EngineOptions::new("test", epoch));
        let wall = Timestamp::from_nanos(time);
        let history = FileHistory::open(folder, rules, &engine, Box::new(Unheard), wall).unwrap();
        let library = LibraryDefinition {
            name: "rig".to_owned(),
            description: String::new(),
            variables: variables
                .iter()
                .map(|(name, data_type)| VariableDefinition::new(*name, data_type.clone()))
                .collect(),
        };
        let deployed = engine
            .libraries()
            .deploy(&library, Tick::from_nanos(1), wall)
            .unwrap();
        history.follow(&deployed, wall).unwrap();
        Self {
            engine,
            history: Arc::new(history),
            caller: Caller::local(1, 0),
            time,
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            now: Tick::from_nanos((self.time - START + SECOND) as u64),
            wall: Timestamp::from_nanos(self.time),
        }
    }

    fn write(&mut self, name: &str, value: Value) {
        let variable = self.engine.resolve(&self.caller, name).unwrap();
        let Moment { now, wall } = self.moment();
        let write = Write::value(&value);
        self.engine.try_write(
            &self.caller,
            now,
            wall,
            &variable,
            &write,
            &mut Wakes::new(),
        );
        self.time += SECOND;
    }

    fn record(&self) {
        self.history.record(self.moment()).unwrap();
    }

    fn read(&self, query: &HistoryQuery) -> HistoryPage {
        self.history.read(query, self.moment().wall).unwrap()
    }

    /// Advances the clock by more than an hour to close the segment, and moves it to files.
    fn seal(&mut self) {
        self.time += 3700 * SECOND;
        self.record();
        while self.history.maintain(self.moment().wall).unwrap() {}
        assert_eq!(self.history.figures().unsealed, 0);
    }
}

fn all(pattern: &str) -> HistoryQuery {
    HistoryQuery {
        patterns: vec![Pattern::parse(pattern).unwrap()],
        ..HistoryQuery::default()
    }
}

fn rows_of(page: &HistoryPage) -> &Rows {
    match &page.series[0].data {
        SeriesData::Rows(rows) => rows,
        SeriesData::Buckets { .. } => panic!("buckets"),
    }
}

fn values(page: &HistoryPage) -> Vec<Value> {
    let series = &page.series[0];
    let rows = rows_of(page);
    let decode = |row: &trunkline_types::history::Row<'_>| {
        trunkline_types::wire::decode_exact(&series.data_type, row.value).unwrap()
    };
    (0..rows.len())
        .map(|row| rows.with_row(row, decode).unwrap())
        .collect()
}

fn events(page: &HistoryPage) -> Vec<HistoryEvent> {
    rows_of(page)
        .events()
        .iter()
        .map(|mark| mark.event)
        .collect()
}

/// SV-09, H-16: rows are read as they were written, from memory, from files, and after a restart.
#[test]
fn rows_are_read_from_memory_from_files_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let rules = || vec![rule("**", Some(HistorySettings::default()))];
    let variables = [
        ("x", DataType::F64),
        ("text", DataType::String),
        ("n", DataType::I64),
    ];
    let mut plant = Plant::start(folder.path(), 7, START, rules(), &variables);
    for n in 0..10 {
        plant.write("rig/x", Value::F64(f64::from(n)));
    }
    plant.write("rig/text", Value::String("hello".into()));
    plant.write("rig/n", Value::I64(i64::MAX));
    plant.record();
    let numbers: Vec<Value> = (0..10).map(|n| Value::F64(f64::from(n))).collect();
    let check = |plant: &Plant| {
        let page = plant.read(&all("rig/x"));
        assert_eq!(values(&page), numbers);
        let rows = rows_of(&page);
        assert_eq!(rows.times()[3], START + 3 * SECOND);
        assert_eq!(rows.key(9).unwrap().sequence, 10);
        assert_eq!(
            values(&plant.read(&all("rig/text"))),
            [Value::String("hello".into())]
        );
        assert_eq!(values(&plant.read(&all("rig/n"))), [Value::I64(i64::MAX)]);
        let names = plant.read(&all("rig/**"));
        let names: Vec<_> = names.series.iter().map(|one| &*one.variable).collect();
        assert_eq!(names, ["rig/n", "rig/text", "rig/x"]);
    };
    check(&plant);
    assert_eq!(
        events(&plant.read(&all("rig/x"))),
        [HistoryEvent::Started, HistoryEvent::Added]
    );
    plant.seal();
    check(&plant);
    plant.write("rig/x", Value::F64(10.0));
    plant.record();
    let time = plant.time;
    // The state after kill -9: no segment is closed.
    drop(plant);
    let mut plant = Plant::start(folder.path(), 8, time + 60 * SECOND, rules(), &variables);
    plant.record();
    let page = plant.read(&all("rig/x"));
    assert_eq!(values(&page).len(), 11);
    use HistoryEvent::{Added, Interrupted, Started, Stopped};
    assert_eq!(events(&page), [Started, Added, Interrupted, Started]);
    plant.write("rig/x", Value::F64(11.0));
    plant.history.close(plant.moment().wall).unwrap();
    let time = plant.time;
    drop(plant);
    let plant = Plant::start(folder.path(), 9, time + 60 * SECOND, rules(), &variables);
    plant.record();
    let page = plant.read(&all("rig/x"));
    assert_eq!(values(&page).len(), 12);
    let expected = [Started, Added, Interrupted, Started, Stopped, Started];
    assert_eq!(events(&page), expected);
}

#[test]
fn pages_time_spans_and_buckets_are_the_same_from_memory_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let rules = vec![rule("rig/x", Some(HistorySettings::default()))];
    let mut plant = Plant::start(folder.path(), 1, START, rules, &[("x", DataType::F64)]);
    for n in 0..5000 {
        plant.write("rig/x", Value::F64(f64::from(n)));
        if n == 2000 {
            plant.record();
            plant.history.close_segment(plant.moment()).unwrap();
            while plant.history.maintain(plant.moment().wall).unwrap() {}
        }
    }
    plant.record();
    let mut query = all("rig/x");
    query.since = Some(Timestamp::from_nanos(START + 1000 * SECOND));
    query.until = Some(Timestamp::from_nanos(START + 4000 * SECOND));
    query.limit = 700;
    let mut seen = Vec::new();
    loop {
        let page = plant.read(&query);
        seen.extend(values(&page));
        query.from = page.next;
        if query.from.is_none() {
            break;
        }
    }
    let expected: Vec<Value> = (1000..4000).map(|n| Value::F64(f64::from(n))).collect();
    assert_eq!(seen, expected);

    query.limit = 0;
    query.form = HistoryForm::Buckets((100 * SECOND as u64).try_into().unwrap());
    let page = plant.read(&query);
    let SeriesData::Buckets { buckets, .. } = &page.series[0].data else {
        panic!("rows");
    };
    assert_eq!(buckets.len(), 30);
    let first = &buckets[0];
    assert_eq!(
        (first.count, first.first, first.last),
        (100, 1000.0, 1099.0)
    );
    assert_eq!(
        (first.min, first.max, first.mean()),
        (1000.0, 1099.0, 1049.5)
    );

    query.form = HistoryForm::Last;
    assert_eq!(values(&plant.read(&query)), [Value::F64(3999.0)]);
    query.until = Some(Timestamp::from_nanos(START + 1500 * SECOND));
    assert_eq!(values(&plant.read(&query)), [Value::F64(1499.0)]);
}

/// The buckets are also equal at the ends of the time span, and if rows are late.
#[test]
fn buckets_from_summaries_equal_buckets_from_rows() {
    let folder = tempfile::tempdir().unwrap();
    let rules = vec![rule("rig/x", Some(HistorySettings::default()))];
    let mut plant = Plant::start(folder.path(), 1, START, rules, &[("x", DataType::F64)]);
    let mut random = fastrand::Rng::with_seed(7);
    let mut written = Vec::new();
    for n in 0..9000 {
        let number = random.f64();
        written.push((plant.time, number));
        plant.write("rig/x", Value::F64(number));
        plant.time -= SECOND - random.i64(1..2 * SECOND);
        if n % 3000 == 2999 {
            // The time spans of consecutive segments overlap.
            plant.time -= 100 * SECOND;
            plant.history.close_segment(plant.moment()).unwrap();
            while plant.history.maintain(plant.moment().wall).unwrap() {}
        }
    }
    assert!(folder.path().join("summaries").exists());
    let mut query = all("rig/x");
    for _ in 0..50 {
        let since = START + random.i64(0..4000 * SECOND);
        let until = since + random.i64(SECOND..6000 * SECOND);
        query.since = Some(Timestamp::from_nanos(since));
        query.until = Some(Timestamp::from_nanos(until));
        query.form = HistoryForm::Points(random.u32(2..60));
        let page = plant.read(&query);
        let (width, buckets) = match page.series.first().map(|one| &one.data) {
            Some(SeriesData::Buckets { width, buckets }) => (*width as i64, buckets.clone()),
            _ => (1, Vec::new()),
        };
        let mut sorted: Vec<_> = written
            .iter()
            .filter(|(time, _)| (since..until).contains(time))
            .collect();
        sorted.sort_by_key(|(time, _)| *time);
        let mut expected: Vec<trunkline_types::history::Bucket> = Vec::new();
        for (time, number) in sorted {
            let start = time.div_euclid(width) * width;
            if expected.last().is_none_or(|last| last.start != start) {
                expected.push(trunkline_types::history::Bucket::new(start));
            }
            expected.last_mut().unwrap().add(*number);
        }
        let exact = |one: &trunkline_types::history::Bucket| {
            (one.start, one.count, one.first, one.last, one.min, one.max)
        };
        let (found, wanted): (Vec<_>, Vec<_>) = (
            buckets.iter().map(exact).collect(),
            expected.iter().map(exact).collect(),
        );
        assert_eq!(found, wanted);
    }
}

/// Behaviour: H-13.
#[test]
fn deadband_resolution_and_period_reduce_the_recorded_rows() {
    let folder = tempfile::tempdir().unwrap();
    let settings = |deadband_percent, resolution, every| {
        Some(HistorySettings {
            deadband_percent,
            resolution,
            every,
            ..HistorySettings::default()
        })
    };
    let rules = vec![
        rule("rig/dead", settings(1.0, 0.0, None)),
        rule("rig/rough", settings(0.0, 0.5, None)),
        rule(
            "rig/slow",
            settings(0.0, 0.0, Some(Duration::from_secs(10))),
        ),
        rule("rig/off", None),
        rule("**", Some(HistorySettings::default())),
    ];
    let names = ["dead", "rough", "slow", "off", "every"];
    let variables = names.map(|name| (name, DataType::F64));
    let mut plant = Plant::start(folder.path(), 1, START, rules, &variables);
    plant.record();
    for n in 0..40 {
        for name in names {
            plant.write(&format!("rig/{name}"), Value::F64(f64::from(n) * 0.25));
            plant.time -= SECOND;
        }
        plant.time += SECOND;
        plant.record();
    }
    let count = |name: &str| values(&plant.read(&all(name))).len();
    // Without a configured range, the range is 100, so the deadband is 1.
    assert_eq!(count("rig/dead"), 8);
    // Multiples of 0.5 from 0 to 10.
    assert_eq!(count("rig/rough"), 21);
    assert_eq!(count("rig/slow"), 4);
    assert_eq!(count("rig/every"), 40);
    assert!(plant.read(&all("rig/off")).series.is_empty());
}

/// H-13: the deadband is a percentage of the variable's current range.
#[test]
fn deadband_follows_the_range_of_the_variable() {
    let folder = tempfile::tempdir().unwrap();
    let settings = HistorySettings {
        deadband_percent: 10.0,
        ..HistorySettings::default()
    };
    let rules = vec![rule("**", Some(settings))];
    let mut plant = Plant::start(folder.path(), 1, START, rules, &[("x", DataType::F64)]);
    let replace = |plant: &Plant, high: f64| {
        let mut variable = VariableDefinition::new("x", DataType::F64);
        Arc::make_mut(&mut variable.properties).range = Some((0.0, high));
        let library = LibraryDefinition {
            name: "rig".to_owned(),
            description: String::new(),
            variables: vec![variable],
        };
        let Moment { now, wall } = plant.moment();
        let libraries = plant.engine.libraries();
        let replaced = libraries
            .deploy_retained(&library, true, &|_, _| None, now, wall, &mut Wakes::new())
            .unwrap();
        plant.history.follow(&replaced.handles, wall).unwrap();
    };
    let count = |plant: &mut Plant| {
        let before = values_of_all(plant);
        for n in 0..40 {
            plant.write("rig/x", Value::F64(f64::from(n % 2) * 15.0));
        }
        plant.record();
        values_of_all(plant) - before
    };
    replace(&plant, 100.0);
    // A step of 15 is more than a tenth of 100, and less than a tenth of 1000.
    assert!(count(&mut plant) >= 39);
    replace(&plant, 1000.0);
    assert!(count(&mut plant) <= 1);
    replace(&plant, 100.0);
    assert!(count(&mut plant) >= 39);
}

fn values_of_all(plant: &Plant) -> usize {
    let page = plant.read(&all("rig/x"));
    page.series.first().map_or(0, |_| rows_of(&page).len())
}

/// B-64: an event records the number of lost updates.
#[test]
fn updates_beyond_the_queue_limit_are_recorded_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let rules = vec![rule("**", Some(HistorySettings::default()))];
    let mut plant = Plant::start(folder.path(), 1, START, rules, &[("x", DataType::F64)]);
    plant.record();
    let variable = plant.engine.resolve(&plant.caller, "rig/x").unwrap();
    // Exceed the limit of the recorder's subscription.
    let total = 1_001_000;
    let Moment { now, wall } = plant.moment();
    for n in 0..total {
        let value = Value::F64(f64::from(n));
        let write = Write::value(&value);
        plant.engine.try_write(
            &plant.caller,
            now,
            wall,
            &variable,
            &write,
            &mut Wakes::new(),
        );
    }
    while !plant.history.is_idle() {
        plant.record();
        while plant.history.maintain(plant.moment().wall).unwrap() {}
    }
    plant.write("rig/x", Value::F64(-1.0));
    plant.record();
    let figures = plant.history.figures();
    assert!(figures.lost > 0);
    let mut query = all("rig/x");
    let (mut rows, mut lost, mut losses) = (0, 0, Vec::new());
    loop {
        let page = plant.read(&query);
        rows += rows_of(&page).len() as u64;
        for mark in rows_of(&page).events() {
            if let HistoryEvent::Lost(Some(count)) = mark.event {
                lost += count;
                losses.push((mark.key, count));
            }
        }
        query.from = page.next;
        if query.from.is_none() {
            break;
        }
    }
    assert_eq!(rows + lost, total as u64 + 1);
    assert_eq!(lost, figures.lost);
    // A query after a position in the middle of a loss returns the event.
    let (key, count) = losses[0];
    let last = key.sequence + count - 1;
    for (sequence, is_expected) in [(key.sequence, true), (last - 1, true), (last, false)] {
        let page = plant.read(&HistoryQuery {
            since: Some(Timestamp::from_nanos(key.time)),
            after: Some(Position {
                epoch: key.epoch,
                sequence,
            }),
            ..all("rig/x")
        });
        let mut marks = rows_of(&page).events().iter();
        let is_there = marks.any(|mark| mark.key == key);
        assert_eq!(is_there, is_expected, "after {sequence} of {key:?}");
    }
}

#[test]
fn expired_unreadable_file_is_removed_when_it_is_readable_again() {
    let folder = tempfile::tempdir().unwrap();
    let settings = HistorySettings {
        keep: Some(Duration::from_secs(3600)),
        ..HistorySettings::default()
    };
    let rules = vec![rule("**", Some(settings))];
    let variables = [("x", DataType::F64)];
    let mut plant = Plant::start(folder.path(), 1, START, rules, &variables);
    plant.write("rig/x", Value::F64(1.0));
    plant.history.close_segment(plant.moment()).unwrap();
    let maintain = |plant: &Plant| {
        while plant.history.maintain(plant.moment().wall).unwrap() {}
    };
    maintain(&plant);
    let (samples, elsewhere) = (folder.path().join("samples"), folder.path().join("other"));
    let files = || {
        let dates = std::fs::read_dir(&samples).unwrap();
        let of_date = |date: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_dir(date.unwrap().path()).unwrap().count()
        };
        dates.map(of_date).sum::<usize>()
    };
    assert_eq!(files(), 1);
    plant.time += 2 * 3600 * SECOND;
    std::fs::rename(&samples, &elsewhere).unwrap();
    maintain(&plant);
    std::fs::rename(&elsewhere, &samples).unwrap();
    assert_eq!(files(), 1, "the age of its rows is unknown");
    plant.time += 3600 * SECOND;
    maintain(&plant);
    assert_eq!(files(), 0);
}

#[test]
fn small_files_are_joined_and_expired_rows_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let keep = |hours: u64| {
        Some(HistorySettings {
            keep: Some(Duration::from_secs(hours * 3600)),
            ..HistorySettings::default()
        })
    };
    let rules = vec![rule("rig/short", keep(1)), rule("**", keep(24))];
    let variables = [("short", DataType::F64), ("long", DataType::F64)];
    let mut plant = Plant::start(folder.path(), 1, START, rules, &variables);
    for n in 0..16 {
        for _ in 0..20 {
            plant.write("rig/short", Value::F64(f64::from(n)));
            plant.write("rig/long", Value::F64(f64::from(n)));
        }
        plant.history.close_segment(plant.moment()).unwrap();
        while plant.history.maintain(plant.moment().wall).unwrap() {}
    }
    let files = |plant: &Plant| {
        let mut count = 0;
        for date in std::fs::read_dir(folder.path().join("samples")).unwrap() {
            count += std::fs::read_dir(date.unwrap().path()).unwrap().count();
        }
        assert!(plant.history.figures().unsealed == 0);
        count
    };
    let maintain = |plant: &Plant| {
        while plant.history.maintain(plant.moment().wall).unwrap() {}
    };
    maintain(&plant);
    assert!(files(&plant) < 8, "{}", files(&plant));
    assert_eq!(values(&plant.read(&all("rig/long"))).len(), 320);
    assert_eq!(values(&plant.read(&all("rig/short"))).len(), 320);
    plant.time += 2 * 3600 * SECOND;
    for n in 0..8 {
        plant.write("rig/long", Value::F64(f64::from(n)));
        plant.history.close_segment(plant.moment()).unwrap();
        maintain(&plant);
    }
    assert_eq!(values(&plant.read(&all("rig/long"))).len(), 328);
    plant.time += 30 * 3600 * SECOND;
    maintain(&plant);
    assert!(
        plant
            .read(&all("rig/long"))
            .series
            .iter()
            .all(|one| match &one.data {
                SeriesData::Rows(rows) => rows.times().is_empty(),
                SeriesData::Buckets { .. } => false,
            })
    );
    assert_eq!(files(&plant), 0);
}

/// The folder existed before the history, and others may read it. The files and folders in it are private.
///
/// Behaviour: B-83.
#[test]
fn files_in_a_folder_that_others_can_read_are_private() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let rules = vec![rule("**", Some(HistorySettings::default()))];
    let mut plant = Plant::start(folder.path(), 7, START, rules, &[("x", DataType::F64)]);
    for _ in 0..3 {
        plant.write("rig/x", Value::F64(1.0));
        plant.history.close_segment(plant.moment()).unwrap();
        while plant.history.maintain(plant.moment().wall).unwrap() {}
    }
    plant.write("rig/x", Value::F64(2.0));
    plant.record();
    let (mut count, mut found) = (0, vec![folder.path().to_owned()]);
    while let Some(parent) = found.pop() {
        for entry in std::fs::read_dir(parent).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{:?} has mode {mode:o}", entry.path());
            count += 1;
            if entry.file_type().unwrap().is_dir() {
                found.push(entry.path());
            }
        }
    }
    assert!(count > 8, "{count}");
}
