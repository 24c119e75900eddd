//! Tests queries against a plain list of rows, and the limits of pages.

#![allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]

mod rig;

use std::num::NonZeroU64;

use fastrand::Rng;
use rig::{Line, Plant, SECOND, START, all, bad, folder};
use trunkline_engine::history::{History, HistoryError};
use trunkline_engine::{Wakes, Write};
use trunkline_types::history::{
    Bucket, Grid, HistoryForm, HistoryQuery, HistorySeries, Rows, SeriesData,
};
use trunkline_types::{DataType, Moment, Pattern, Timestamp, Value};

const DAY: i64 = 86_400 * SECOND;
/// Work limit of a page.
const WORK: usize = 512 << 10;
/// Tolerance for work that cannot be interrupted.
const SLACK: usize = 256 << 10;

fn variables() -> Vec<(&'static str, DataType)> {
    vec![
        ("x", DataType::F64),
        ("n", DataType::I32),
        ("text", DataType::String),
    ]
}

fn query_of(name: &str, form: HistoryForm) -> HistoryQuery {
    HistoryQuery {
        patterns: vec![Pattern::parse(&format!("rig/{name}")).unwrap()],
        form,
        ..HistoryQuery::default()
    }
}

fn grid(step: i64) -> Grid {
    Grid(NonZeroU64::new(step as u64))
}

/// Reads all pages, and checks the work of each page. Returns the series and the number of pages.
fn pages(plant: &Plant, query: &HistoryQuery) -> (Vec<HistorySeries>, usize) {
    let (mut query, mut all, mut count) = (query.clone(), Vec::new(), 0);
    loop {
        let wall = plant.moment().wall;
        let (page, work) = plant.history.read_with_work(&query, wall).unwrap();
        assert_eq!(page.state, "");
        assert!(work <= WORK + SLACK, "a page took the work of {work} rows");
        let length: usize = page.series.iter().map(|one| one.data.len()).sum();
        assert!(query.limit == 0 || length <= query.limit as usize);
        all.extend(page.series);
        count += 1;
        if page.next.is_none() {
            return (all, count);
        }
        assert_ne!(page.next, query.from, "a page ends where it began");
        query.from = page.next;
    }
}

/// Returns the time of each row, and its value if it has one.
fn points_of(series: &[HistorySeries]) -> Vec<(i64, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for one in series {
        let SeriesData::Rows(rows) = &one.data else {
            panic!("buckets");
        };
        rows.visit(0..rows.len(), |row| {
            let is_there = row.quality.has_value() && !row.quality.is_bad();
            found.push((row.key.time, is_there.then(|| row.value.to_vec())));
        });
    }
    found
}

fn buckets_of(series: &[HistorySeries]) -> Vec<Bucket> {
    let buckets = series.iter().flat_map(|one| match &one.data {
        SeriesData::Buckets { buckets, .. } => buckets.clone(),
        SeriesData::Rows(_) => panic!("rows"),
    });
    buckets.collect()
}

/// A row, or an event, which has no line. Sorted by key.
#[derive(Clone, Debug)]
struct Entry {
    time: i64,
    line: Option<Line>,
    lost: u64,
}

/// Returns the rows and events of a variable, read as plain rows.
fn entries(plant: &Plant, name: &str) -> Vec<Entry> {
    let answer = plant.read(&query_of(name, HistoryForm::Rows)).unwrap();
    let lines = answer
        .lines
        .into_iter()
        .map(|line| (line.key, Some(line), 0));
    let events = answer.events.iter();
    let events = events.map(|event| (event.key, None, event.event.parts().1));
    // An event precedes a row with the same key.
    let mut entries: Vec<_> = events.chain(lines).collect();
    entries.sort_by_key(|(key, _, _)| *key);
    let entries = entries.into_iter().map(|(key, line, lost)| Entry {
        time: key.time,
        line,
        lost,
    });
    entries.collect()
}

fn is_good(line: &Line) -> bool {
    let quality = trunkline_types::Quality::from_bits(line.quality);
    !quality.is_bad() && quality.has_value()
}

fn number(line: &Line) -> f64 {
    match line.value.len() {
        4 => f64::from(i32::from_le_bytes(
            line.value.as_slice().try_into().unwrap(),
        )),
        _ => f64::from_le_bytes(line.value.as_slice().try_into().unwrap()),
    }
}

/// Computes the value at a time from its definition. The value is in wire form.
fn value_at(entries: &[Entry], at: i64, is_linear: bool) -> Option<Vec<u8>> {
    let lines = entries.iter().enumerate();
    let lines = lines.filter_map(|(index, entry)| Some((index, entry.line.as_ref()?)));
    let mut lines = lines.rev();
    let (index, before) = lines.find(|(_, line)| line.key.time <= at)?;
    let later = &entries[index + 1..];
    if !is_good(before) {
        return None;
    }
    if before.key.time == at {
        return Some(match is_linear {
            true => number(before).to_le_bytes().to_vec(),
            false => before.value.clone(),
        });
    }
    if !is_linear {
        let holds = later
            .iter()
            .all(|entry| entry.line.is_some() || entry.time > at)
            || later.first().is_some_and(|entry| entry.line.is_some());
        return holds.then(|| before.value.clone());
    }
    let after = later.first()?.line.as_ref()?;
    is_good(after).then(|| {
        let share = (at - before.key.time) as f64 / (after.key.time - before.key.time) as f64;
        let value = number(before) + (number(after) - number(before)) * share;
        value.to_le_bytes().to_vec()
    })
}

/// Computes the buckets with durations from their definition.
fn expected_buckets(entries: &[Entry], since: i64, until: i64, width: Option<i64>) -> Vec<Bucket> {
    let start_of = |time: i64| width.map_or(since, |width| time.div_euclid(width) * width);
    let mut buckets: std::collections::BTreeMap<i64, Bucket> = Default::default();
    for (index, entry) in entries.iter().enumerate() {
        let is_inside = (since..until).contains(&entry.time);
        if is_inside && (entry.line.is_some() || entry.lost > 0) {
            let start = start_of(entry.time);
            let bucket = buckets.entry(start).or_insert_with(|| Bucket::new(start));
            bucket.lost += entry.lost;
            match &entry.line {
                Some(line) if is_good(line) => bucket.add(number(line)),
                Some(_) => bucket.bad += 1,
                None => {}
            }
        }
        let Some(line) = entry.line.as_ref().filter(|line| is_good(line)) else {
            continue;
        };
        let end = entries.get(index + 1).map_or(until, |next| next.time);
        let (mut at, end) = (entry.time.max(since), end.min(until));
        while at < end {
            let start = start_of(at);
            let stop = width.map_or(end, |width| end.min(start + width));
            let bucket = buckets.entry(start).or_insert_with(|| Bucket::new(start));
            bucket.hold(number(line), (stop - at) as u64);
            at = stop;
        }
    }
    buckets.into_values().collect()
}

fn assert_buckets(found: &[Bucket], expected: &[Bucket], what: &str) {
    let exact = |one: &Bucket| {
        let numbers = [one.first, one.last, one.min, one.max];
        let counts = [one.count, one.bad, one.lost, one.covered];
        (one.start, counts, numbers.map(f64::to_bits))
    };
    let (found_exact, expected_exact): (Vec<_>, Vec<_>) = (
        found.iter().map(exact).collect(),
        expected.iter().map(exact).collect(),
    );
    let first = (0..found.len().max(expected.len()))
        .find(|at| found_exact.get(*at) != expected_exact.get(*at));
    assert!(
        first.is_none(),
        "{what}: {first:?}: {:?} instead of {:?}",
        first.map(|at| found.get(at)),
        first.map(|at| expected.get(at)),
    );
    for (found, expected) in found.iter().zip(expected) {
        for (one, other) in [
            (found.sum, expected.sum),
            (found.time_mean, expected.time_mean),
        ] {
            let is_near = (one - other).abs() <= 1e-9 * other.abs().max(1.0);
            assert!(is_near, "{what}: {found:?} instead of {expected:?}");
        }
    }
}

/// Generates good, bad and late values over several starts of the engine, with and without an orderly stop.
/// The rows are in files, in closed segments and in the open segment.
struct World {
    random: Rng,
    folder: tempfile::TempDir,
    plant: Option<Plant>,
    epoch: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let folder = folder();
        let plant = Plant::start(folder.path(), 1, START, &variables());
        Self {
            random: Rng::with_seed(seed),
            folder,
            plant: Some(plant),
            epoch: 1,
        }
    }

    fn plant(&mut self) -> &mut Plant {
        self.plant.as_mut().unwrap()
    }

    fn write(&mut self) {
        let value = self.random.i32(-1000..1000);
        let is_bad = self.random.u32(0..12) == 0;
        let name = self.random.choice(["x", "x", "n", "text"]).unwrap();
        let value = match name {
            "x" => Value::F64(f64::from(value) / 8.0),
            "n" => Value::I32(value),
            _ => Value::String(format!("text {value}").into()),
        };
        let step = self.random.i64(1..3 * SECOND);
        let is_late = self.random.u32(0..10) == 0;
        let back = self.random.i64(0..60 * SECOND);
        let plant = self.plant();
        let mut write = Write::value(&value);
        if is_bad {
            write.quality = Some(bad());
        }
        if is_late {
            plant.write_at(name, &value, plant.time - back);
        } else {
            plant.put(name, &write);
        }
        plant.time += step;
    }

    fn step(&mut self) {
        match self.random.u32(0..100) {
            0..88 => self.write(),
            88..94 => self.plant().record_everything(),
            94..97 => {
                self.plant().record_everything();
                self.plant().close_segment();
                if self.random.bool() {
                    self.plant().maintain();
                }
            }
            _ => {
                self.plant().record_everything();
                let mut plant = self.plant.take().unwrap();
                if self.random.bool() {
                    plant.history.close(plant.moment().wall).unwrap();
                }
                plant.time += self.random.i64(0..100 * SECOND);
                let time = plant.time;
                drop(plant);
                self.epoch += 1;
                let path = self.folder.path();
                self.plant = Some(Plant::start(path, self.epoch, time, &variables()));
            }
        }
    }
}

/// Returns a random time span within the written rows, or extending beyond them.
fn some_time(random: &mut Rng, plant: &Plant) -> (i64, i64) {
    let since = random.i64(START - 100 * SECOND..plant.time);
    let until = random.i64(since + 1..plant.time + 1);
    (since, until)
}

/// Behaviour: H-16.
#[test]
fn values_at_points_match_their_definition() {
    let mut checked = 0;
    for seed in 0..12 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        world.plant().record_everything();
        let mut random = world.random.clone();
        let plant = world.plant();
        for name in ["x", "n", "text"] {
            let known = entries(plant, name);
            for _ in 0..6 {
                let (since, until) = some_time(&mut random, plant);
                let step = random
                    .i64(SECOND / 50..20 * SECOND)
                    .max((until - since) / 2000);
                let is_linear = random.bool();
                let form = match is_linear {
                    true => HistoryForm::Interpolated(grid(step)),
                    false => HistoryForm::Stepped(grid(step)),
                };
                let query = HistoryQuery {
                    since: Some(Timestamp::from_nanos(since)),
                    until: Some(Timestamp::from_nanos(until)),
                    limit: random.choice([0, 1, 3, 100]).unwrap(),
                    ..query_of(name, form)
                };
                let found = points_of(&pages(plant, &query).0);
                let first = since + (step - since.rem_euclid(step)) % step;
                let times = (0..)
                    .map(|n| first + n * step)
                    .take_while(|time| *time < until);
                let is_linear = is_linear && name != "text";
                let expected: Vec<_> = times
                    .map(|at| (at, value_at(&known, at, is_linear)))
                    .collect();
                let has_row = known
                    .iter()
                    .any(|one| one.line.is_some() && one.time < until);
                if !has_row {
                    assert!(found.is_empty(), "seed {seed}");
                    continue;
                }
                assert_eq!(found.len(), expected.len(), "seed {seed}, {query:?}");
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(found.0, expected.0);
                    let is_same = match (&found.1, &expected.1) {
                        (Some(one), Some(other)) if is_linear => {
                            let of = |bytes: &Vec<u8>| {
                                f64::from_le_bytes(bytes.as_slice().try_into().unwrap())
                            };
                            (of(one) - of(other)).abs() < 1e-9
                        }
                        (one, other) => one == other,
                    };
                    assert!(
                        is_same,
                        "seed {seed}: {found:?} not {expected:?}: {query:?}"
                    );
                    checked += usize::from(expected.1.is_some());
                }
            }
        }
    }
    assert!(checked > 1_000, "{checked} points have a value");
}

/// Behaviour: H-16, B-64.
#[test]
fn covered_time_and_time_weighted_mean_match_their_definition() {
    for seed in 100..112 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        world.plant().record_everything();
        let mut random = world.random.clone();
        let plant = world.plant();
        for name in ["x", "n"] {
            let known = entries(plant, name);
            for _ in 0..8 {
                let (since, until) = some_time(&mut random, plant);
                let width = random.i64(SECOND..100 * SECOND);
                let is_total = random.bool();
                let form = match is_total {
                    true => HistoryForm::Total,
                    false => HistoryForm::Buckets(NonZeroU64::new(width as u64).unwrap()),
                };
                let query = HistoryQuery {
                    since: Some(Timestamp::from_nanos(since)),
                    until: Some(Timestamp::from_nanos(until)),
                    limit: random.choice([0, 1, 3, 100]).unwrap(),
                    durations: true,
                    ..query_of(name, form)
                };
                let found = buckets_of(&pages(plant, &query).0);
                let width = (!is_total).then_some(width);
                let expected = expected_buckets(&known, since, until, width);
                assert_buckets(&found, &expected, &format!("seed {seed}, {query:?}"));
            }
        }
    }
}

/// The durations are also equal around gaps and across overlapping files.
///
/// Behaviour: H-16.
#[test]
fn durations_from_summaries_equal_durations_from_rows() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &variables());
    let mut random = Rng::with_seed(3);
    for round in 0..4 {
        for n in 0..3_000 {
            let value = Value::F64(random.f64());
            let mut write = Write::value(&value);
            if n % 997 == 5 {
                write.quality = Some(bad());
            }
            plant.put("x", &write);
            plant.time += random.i64(1..2 * SECOND);
        }
        plant.seal();
        if round == 1 {
            let time = plant.time + 50 * SECOND;
            drop(plant);
            plant = Plant::start(folder.path(), 2, time, &variables());
        }
        // The time spans of consecutive files overlap.
        plant.time -= 20 * SECOND;
    }
    plant.record_everything();
    let known = entries(&plant, "x");
    for _ in 0..40 {
        let since = START + random.i64(0..5_000 * SECOND);
        let until = since + random.i64(SECOND..12_000 * SECOND);
        let until = until.min(plant.time);
        let is_total = random.bool();
        let form = match is_total {
            true => HistoryForm::Total,
            false => HistoryForm::Points(random.u32(2..40)),
        };
        let query = HistoryQuery {
            since: Some(Timestamp::from_nanos(since)),
            until: Some(Timestamp::from_nanos(until)),
            durations: true,
            ..query_of("x", form)
        };
        let width = form.width(since, until).map(|width| width as i64);
        let found = buckets_of(&pages(&plant, &query).0);
        let expected = expected_buckets(&known, since, until, width);
        assert_buckets(&found, &expected, &format!("{query:?}"));
    }
}

/// Behaviour: H-16.
#[test]
fn total_of_a_long_time_reads_summaries_instead_of_rows() {
    const COUNT: u64 = 60_000;
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &variables());
    plant.time += SECOND;
    write_many(&mut plant, COUNT);
    plant.seal();
    let query = query_of("x", HistoryForm::Total);
    let found = buckets_of(&pages(&plant, &query).0);
    assert_eq!(
        (found[0].count, found[0].covered),
        (COUNT, COUNT * 1_000_000)
    );
    assert!((found[0].time_mean - 499.5).abs() < 1e-6, "{found:?}");
    let wall = plant.moment().wall;
    let (_, work) = plant.history.read_with_work(&query, wall).unwrap();
    assert!(work < 16_000, "the work of {work} rows");
}

/// The source's clock is ahead. Time in the future is not covered, with or without a summary.
///
/// Behaviour: H-16.
#[test]
fn time_after_now_is_not_covered_by_a_summary() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &variables());
    // After the variable was added.
    for n in 1..=2_000 {
        plant.write_at("x", &Value::F64(n as f64), START + n * SECOND);
    }
    plant.time = START + 500 * SECOND;
    plant.seal();
    let query = HistoryQuery {
        since: Some(Timestamp::from_nanos(START)),
        until: Some(Timestamp::from_nanos(START + 4_000 * SECOND)),
        ..query_of("x", HistoryForm::Total)
    };
    let found = buckets_of(&pages(&plant, &query).0);
    let counts = (found[0].count, found[0].covered);
    assert_eq!(counts, (2_000, 499 * SECOND as u64));
}

/// Without a start time, the intervals begin with the first row and have the requested width.
#[test]
fn points_without_since_begin_with_the_first_row() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &variables());
    // After the variable was added.
    plant.time += SECOND;
    for n in 0..1000 {
        plant.write("x", &Value::F64(f64::from(n)));
        if n == 500 {
            plant.seal();
        }
    }
    plant.record();
    let found = buckets_of(&pages(&plant, &query_of("x", HistoryForm::Points(100))).0);
    assert!(
        (25..=100).contains(&found.len()),
        "{} intervals",
        found.len()
    );
    assert_eq!(found.iter().map(|one| one.count).sum::<u64>(), 1000);
    let total = buckets_of(&pages(&plant, &query_of("x", HistoryForm::Total)).0);
    assert_eq!((total[0].count, total.len()), (1000, 1));
    assert_eq!(total[0].covered, 1000 * SECOND as u64);
}

/// A cursor of another query or engine does not cause a panic.
#[test]
fn foreign_cursor_is_refused() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &variables());
    for n in 0..10 {
        plant.write("x", &Value::F64(f64::from(n)));
    }
    plant.record();
    for form in [
        HistoryForm::Rows,
        HistoryForm::Last,
        HistoryForm::Total,
        HistoryForm::Points(7),
        HistoryForm::Interpolated(grid(SECOND)),
    ] {
        let mut query = query_of("x", form);
        query.limit = 1;
        let wall = plant.moment().wall;
        let Some(next) = plant.history.read(&query, wall).unwrap().next else {
            continue;
        };
        for length in 0..next.state.len() {
            let mut cut = next.clone();
            cut.state.truncate(length);
            query.from = Some(cut);
            let refused = plant.history.read(&query, wall).unwrap_err();
            assert!(matches!(refused, HistoryError::Query(_)), "{refused}");
        }
        let mut random = Rng::with_seed(9);
        for _ in 0..200 {
            let mut other = next.clone();
            let at = random.usize(0..other.state.len());
            other.state[at] ^= 1 << random.u32(0..8);
            query.from = Some(other);
            // A changed cursor may give any answer, but must not cause a panic.
            let _ = plant.history.read(&query, wall);
        }
    }
}

fn write_many(plant: &mut Plant, count: u64) {
    let variable = plant.variable("x");
    for n in 0..count {
        let Moment { now, wall } = plant.moment();
        let value = Value::F64((n % 1000) as f64);
        let write = Write::value(&value);
        let mut wakes = Wakes::new();
        plant
            .engine
            .try_write(&plant.caller, now, wall, &variable, &write, &mut wakes);
        plant.time += 1_000_000;
        if n % 200_000 == 199_999 {
            plant.record_everything();
        }
    }
    plant.record_everything();
}

/// A query of all rows takes several pages.
#[test]
fn pages_of_many_rows_have_bounded_work_and_memory() {
    const COUNT: u64 = 1_500_000;
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &variables());
    write_many(&mut plant, COUNT / 2);
    plant.seal();
    write_many(&mut plant, COUNT / 2);
    let memory = |series: &[HistorySeries]| -> usize {
        let of = |one: &HistorySeries| match &one.data {
            SeriesData::Rows(rows) => Rows::memory(rows),
            SeriesData::Buckets { buckets, .. } => size_of_val(buckets.as_slice()),
        };
        series.iter().map(of).sum()
    };
    let mut query = query_of("x", HistoryForm::Rows);
    let (mut rows, mut page_count) = (0, 0);
    loop {
        let wall = plant.moment().wall;
        let (page, work) = plant.history.read_with_work(&query, wall).unwrap();
        assert!(work <= WORK + SLACK, "{work}");
        assert!(memory(&page.series) <= 4 << 20);
        rows += page.series.iter().map(|one| one.data.len()).sum::<usize>();
        page_count += 1;
        query.from = page.next;
        if query.from.is_none() {
            break;
        }
    }
    assert!(rows as u64 >= COUNT);
    assert!(page_count > 20);
    // The buckets of no summary divide this width.
    let width = NonZeroU64::new(7_777_777_777).unwrap();
    let (series, count) = pages(&plant, &query_of("x", HistoryForm::Buckets(width)));
    assert!(count > 1, "{count} page");
    let found = buckets_of(&series);
    assert_eq!(found.iter().map(|one| one.count).sum::<u64>(), COUNT);
    let starts: Vec<i64> = found.iter().map(|one| one.start).collect();
    assert!(starts.is_sorted_by(|a, b| a < b), "no bucket is split");
    let points = query_of("x", HistoryForm::Interpolated(grid(100_000_000)));
    let (series, count) = pages(&plant, &points);
    assert!(count > 1, "{count} page");
    let found = points_of(&series);
    // The last point is at the current time, after the last row.
    assert_eq!(found.len() as u64, COUNT / 100 + 1);
    // The points are far apart, so the rows between them are not read.
    let coarse = query_of("x", HistoryForm::Stepped(grid(600 * SECOND)));
    let wall = plant.moment().wall;
    let (_, work) = plant.history.read_with_work(&coarse, wall).unwrap();
    assert!(work < 200_000, "{work}");
}

/// A search through many files continues in the next page.
#[test]
fn pages_over_many_files_have_bounded_work() {
    const DAYS: u64 = 120;
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &variables());
    plant.write("n", &Value::I32(5));
    for day in 0..DAYS {
        plant.write("x", &Value::F64(day as f64));
        plant.seal();
        plant.time += DAY;
    }
    plant.history.close(plant.moment().wall).unwrap();
    let time = plant.time;
    drop(plant);
    // The indices of the files are not in memory.
    let open = || Plant::start(folder.path(), 2, time, &variables());
    let forms = [
        HistoryForm::Rows,
        HistoryForm::Last,
        HistoryForm::Total,
        HistoryForm::Points(50),
        HistoryForm::Interpolated(grid(DAY)),
        HistoryForm::Stepped(grid(DAY)),
    ];
    for form in forms {
        let plant = open();
        let (series, count) = pages(&plant, &query_of("n", form));
        assert!(count > 2, "{form:?}: {count} pages");
        let length: usize = series.iter().map(|one| one.data.len()).sum();
        assert!(length > 0, "{form:?}");
        if form == HistoryForm::Last {
            assert_eq!(points_of(&series).len(), 1);
        }
        drop(plant);
    }
    let plant = open();
    let (series, _) = pages(&plant, &all());
    let rows: usize = series
        .iter()
        .filter(|one| one.variable == "rig/x")
        .map(|one| match &one.data {
            SeriesData::Rows(rows) => rows.len(),
            SeriesData::Buckets { .. } => 0,
        })
        .sum();
    assert_eq!(rows as u64, DAYS);
}
