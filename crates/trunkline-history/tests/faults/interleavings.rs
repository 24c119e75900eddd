//! Tests random interleavings of writes, commits, closing segments, moves to files, kills and queries against
//! a model, which is a list of rows.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use fastrand::Rng;
use tempfile::TempDir;
use trunkline_engine::history::History;
use trunkline_types::history::{
    Bucket, HistoryCursor, HistoryForm, HistoryQuery, HistorySeries, SeriesData,
};
use trunkline_types::{DataType, Pattern, Timestamp, Value};

use crate::rig::{Answer, LIBRARY, Line, Plant, SECOND, START, all, assert_same, folder};

/// Number of seeds; `HISTORY_SEEDS` overrides it.
const SEEDS: u64 = 200;
const STEPS: usize = 40;
const HOUR: i64 = 3600 * SECOND;

fn variables() -> [(&'static str, DataType); 4] {
    [
        ("x", DataType::F64),
        ("n", DataType::U16),
        ("text", DataType::String),
        ("flag", DataType::Bool),
    ]
}

struct World {
    random: Rng,
    folder: TempDir,
    plant: Option<Plant>,
    epoch: u64,
    is_busy: bool,
    /// The acknowledged rows.
    recorded: Vec<Line>,
    /// The rows that wait to be recorded.
    waiting: Vec<Line>,
    /// The steps so far, for failure messages.
    steps: Vec<String>,
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
            is_busy: seed.is_multiple_of(4),
            recorded: Vec::new(),
            waiting: Vec::new(),
            steps: vec![format!("seed {seed}")],
        }
    }

    fn plant(&mut self) -> &mut Plant {
        self.plant.as_mut().unwrap()
    }

    fn step(&mut self) {
        let step = self.random.u32(0..100);
        match step {
            0..45 => self.write(),
            // Creates enough files that some are joined.
            45..60 if self.is_busy => {
                self.close_segment();
                self.maintain();
            }
            45..60 => self.record(),
            60..67 => self.close_segment(),
            67..77 => self.maintain(),
            77..83 => self.kill(),
            83..94 => self.query(),
            94..97 => self.buckets(),
            _ => self.last(),
        }
        self.steps.push(format!("{step}"));
    }

    fn random_time(&mut self) -> i64 {
        let random = &mut self.random;
        match random.u32(0..10) {
            // Repeat the same time frequently.
            0..2 => START,
            2..4 => START + random.i64(-3..4) * HOUR,
            _ => START + random.i64(-20 * HOUR..20 * HOUR),
        }
    }

    fn write(&mut self) {
        for _ in 0..self.random.usize(1..12) {
            let at = self.random_time();
            let random = &mut self.random;
            let (name, value) = match random.u32(0..8) {
                0..3 => ("x", Value::F64(f64::from(random.i32(-1000..1000)))),
                3..5 => ("n", Value::U16(random.u16(..))),
                5..7 => {
                    let length = random.usize(0..20);
                    let text: String = std::iter::repeat_with(|| random.alphanumeric())
                        .take(length)
                        .collect();
                    ("text", Value::String(text.into()))
                }
                _ => ("flag", Value::Bool(random.bool())),
            };
            let is_measured = random.u32(0..3) > 0;
            let pause = random.i64(0..SECOND);
            let plant = self.plant();
            plant.time += pause;
            let line = match is_measured {
                true => plant.write_at(name, &value, at),
                false => plant.write(name, &value),
            };
            self.waiting.push(line);
        }
    }

    /// Treats waiting rows as acknowledged, unless too many closed segments block the recorder.
    fn acknowledge(&mut self) {
        if self.plant().history.is_idle() {
            self.recorded.append(&mut self.waiting);
        } else {
            let is_due = self.plant().history.is_maintenance_due();
            assert!(is_due, "nothing was recorded, and nothing is due");
        }
    }

    fn record(&mut self) {
        self.plant().record();
        self.acknowledge();
    }

    fn close_segment(&mut self) {
        self.plant().close_segment();
        self.acknowledge();
    }

    fn maintain(&mut self) {
        let wall = self.plant().moment().wall;
        for _ in 0..self.random.usize(1..4) {
            let _more = self.plant().history.maintain(wall).unwrap();
        }
    }

    fn kill(&mut self) {
        let time = self.plant().time + SECOND;
        // Release the lock before the restart.
        self.plant = None;
        self.waiting.clear();
        self.epoch += 1;
        let plant = Plant::start(self.folder.path(), self.epoch, time, &variables());
        self.plant = Some(plant);
    }

    /// Returns a query with a random time span and a random pattern.
    fn random_query(&mut self) -> HistoryQuery {
        let mut query = all();
        if self.random.bool() {
            query.since = Some(Timestamp::from_nanos(self.random_time()));
        }
        if self.random.bool() {
            query.until = Some(Timestamp::from_nanos(self.random_time()));
        }
        let patterns = ["**", "rig/x", "rig/n", "rig/*", "rig/text", "none/*"];
        let pattern = self.random.choice(patterns).unwrap();
        query.patterns = vec![Pattern::parse(pattern).unwrap()];
        query
    }

    fn expected(&self, query: &HistoryQuery) -> Vec<Line> {
        let is_wanted = |line: &&Line| {
            let time = Timestamp::from_nanos(line.key.time);
            query.since.is_none_or(|since| time >= since)
                && query.until.is_none_or(|until| time < until)
                && query.patterns.iter().any(|one| one.matches(&line.variable))
        };
        self.recorded.iter().filter(is_wanted).cloned().collect()
    }

    /// Reads pages, and moves rows between them.
    fn query(&mut self) {
        let mut query = self.random_query();
        query.limit = self.random.choice([0, 1, 2, 3, 7, 50]).unwrap();
        let expected = self.expected(&query);
        let mut answer = Answer::default();
        let mut pages: Vec<HistoryCursor> = Vec::new();
        loop {
            let wall = self.plant().moment().wall;
            let page = self.plant().history.read(&query, wall).unwrap();
            query.from = page.next.clone();
            answer.add(page);
            let Some(next) = query.from.clone() else {
                break;
            };
            assert!(!pages.contains(&next), "{next:?} comes twice");
            pages.push(next);
            match self.random.u32(0..20) {
                0 => self.maintain(),
                1 => self.plant().close_segment_of_recorded(),
                _ => {}
            }
        }
        assert_same(&answer.lines, &expected, &self.steps_text());
        // Rows that were recorded in the meantime are acknowledged.
        self.acknowledge_if_idle();
    }

    fn acknowledge_if_idle(&mut self) {
        if self.plant().history.is_idle() {
            self.recorded.append(&mut self.waiting);
        }
    }

    fn last(&mut self) {
        let mut query = self.random_query();
        query.form = HistoryForm::Last;
        let mut expected: Vec<Line> = Vec::new();
        let mut rows = self.expected(&query);
        rows.sort();
        for line in rows {
            match expected.last_mut() {
                Some(last) if last.variable == line.variable => *last = line,
                _ => expected.push(line),
            }
        }
        let answer = self.plant().read(&query).unwrap();
        assert_same(&answer.lines, &expected, &self.steps_text());
    }

    /// The first and the last number may be any of the rows with the first and the last time.
    fn buckets(&mut self) {
        let mut query = self.random_query();
        query.patterns = vec![Pattern::parse("rig/x").unwrap()];
        let width = self.random.i64(SECOND..10 * HOUR);
        query.form = HistoryForm::Buckets(NonZeroU64::new(width as u64).unwrap());
        let mut rows = self.expected(&query);
        rows.sort();
        let start_of = |line: &Line| line.key.time.div_euclid(width) * width;
        let mut ends = BTreeSet::new();
        for of_bucket in rows.chunk_by(|a, b| start_of(a) == start_of(b)) {
            let (first, last) = (of_bucket.first().unwrap(), of_bucket.last().unwrap());
            for line in of_bucket {
                for (is_last, end) in [(false, first), (true, last)] {
                    if line.key.time == end.key.time {
                        ends.insert((start_of(line), is_last, number_of(line).to_bits()));
                    }
                }
            }
        }
        let mut expected: Vec<Bucket> = Vec::new();
        for line in rows {
            let number = number_of(&line);
            let start = start_of(&line);
            if expected.last().is_none_or(|last| last.start != start) {
                expected.push(Bucket::new(start));
            }
            expected.last_mut().unwrap().add(number);
        }
        let wall = self.plant().moment().wall;
        let page = self.plant().history.read(&query, wall).unwrap();
        let mut found = page.series.first().map_or(Vec::new(), buckets_of);
        found.retain(|one| !is_empty(one));
        assert_eq!(found.len(), expected.len(), "{}", self.steps_text());
        for (found, expected) in found.into_iter().zip(expected) {
            let is_first = ends.contains(&(found.start, false, found.first.to_bits()));
            let is_last = ends.contains(&(found.start, true, found.last.to_bits()));
            assert!(is_first && is_last, "{found:?}: {}", self.steps_text());
            let found = Bucket {
                first: expected.first,
                last: expected.last,
                ..found
            };
            assert_eq!(found, expected, "{}", self.steps_text());
        }
    }

    fn steps_text(&self) -> String {
        self.steps.join(" ")
    }
}

impl Plant {
    /// Closes the segment unless rows are waiting, because closing would record them.
    fn close_segment_of_recorded(&self) {
        if self.history.is_idle() {
            self.close_segment();
        }
    }
}

fn is_empty(bucket: &Bucket) -> bool {
    bucket.count == 0 && bucket.bad == 0 && bucket.lost == 0
}

fn number_of(line: &Line) -> f64 {
    f64::from_le_bytes(line.value.as_slice().try_into().unwrap())
}

fn buckets_of(series: &HistorySeries) -> Vec<Bucket> {
    assert_eq!(series.variable, format!("{LIBRARY}/x"));
    match &series.data {
        SeriesData::Buckets { buckets, .. } => buckets.clone(),
        SeriesData::Rows(_) => panic!("rows"),
    }
}

/// H-16, SV-09.
#[test]
fn random_interleavings_match_the_model() {
    let set = std::env::var("HISTORY_SEEDS").ok();
    let seeds = set.map_or(SEEDS, |set| set.parse().unwrap());
    for seed in 0..seeds {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        // Finally, move everything to files.
        world.record();
        world.plant().maintain();
        world.record();
        world.plant().seal();
        let everything = world.plant().everything();
        assert_same(&everything.lines, &world.recorded, &world.steps_text());
    }
}

/// Stops the readers on drop.
struct End<'a>(&'a Mutex<Option<u64>>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Readers see each row recorded before they began exactly once, while rows are recorded and moved.
#[test]
fn readers_see_every_row_once_while_rows_are_recorded_and_moved() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &variables());
    let wall = plant.moment().wall;
    // Sequence numbers up to this one were acknowledged; `None` stops the readers.
    let acknowledged = Mutex::new(Some(0));
    let history = Arc::clone(&plant.history);
    thread::scope(|scope| {
        for limit in [0, 7] {
            let (history, acknowledged) = (&history, &acknowledged);
            scope.spawn(move || {
                loop {
                    let known = *acknowledged.lock().unwrap();
                    let Some(known) = known else { return };
                    let mut query = all();
                    query.limit = limit;
                    let mut answer = Answer::default();
                    loop {
                        let page = history.read(&query, wall).unwrap();
                        query.from = page.next.clone();
                        answer.add(page);
                        if query.from.is_none() {
                            break;
                        }
                    }
                    let lines = answer.lines.iter();
                    let found: Vec<u64> = lines.map(|line| line.key.sequence).collect();
                    let expected: Vec<u64> = (1..=found.len() as u64).collect();
                    assert_eq!(found, expected);
                    assert!(found.len() as u64 >= known);
                }
            });
        }
        // The guard stops the readers even if this thread panics.
        let _end = End(&acknowledged);
        for round in 0..500 {
            let mut last = 0;
            for _ in 0..3 {
                last = plant.write("x", &Value::F64(1.0)).key.sequence;
            }
            plant.record_everything();
            *acknowledged.lock().unwrap() = Some(last);
            if round % 5 == 4 {
                plant.close_segment();
                plant.maintain();
            }
        }
    });
}

/// Rows are ordered by time, then by epoch, then by sequence number, also within a bucket.
#[test]
fn bucket_has_the_first_and_last_number_of_rows_with_one_time() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &variables());
    for number in 1..5 {
        plant.write_at("x", &Value::F64(f64::from(number)), START);
        plant.record();
        if number == 2 {
            plant.seal();
        }
    }
    let mut query = all();
    query.patterns = vec![Pattern::parse("rig/x").unwrap()];
    query.form = HistoryForm::Buckets(NonZeroU64::new(SECOND as u64).unwrap());
    let page = plant.history.read(&query, plant.moment().wall).unwrap();
    let buckets = buckets_of(page.series.first().unwrap());
    let ends: Vec<(f64, f64)> = buckets.iter().map(|one| (one.first, one.last)).collect();
    assert_eq!(ends, [(1.0, 4.0)]);
}

#[test]
fn interval_with_only_events_has_no_bucket() {
    let folder = folder();
    let plant = Plant::start(folder.path(), 1, START, &variables());
    plant.record();
    let mut query = all();
    query.form = HistoryForm::Buckets(NonZeroU64::new(SECOND as u64).unwrap());
    let page = plant.history.read(&query, plant.moment().wall).unwrap();
    assert!(page.series.is_empty(), "{page:?}");
}

/// The pages together have each event once.
#[test]
fn pages_have_at_most_the_requested_number_of_rows_and_events() {
    let folder = folder();
    let mut time = START;
    // Each start adds an event or two.
    for epoch in 1..20 {
        let mut plant = Plant::start(folder.path(), epoch, time, &variables());
        for n in 0..epoch % 4 {
            plant.write("x", &Value::F64(n as f64));
        }
        plant.record_everything();
        time = plant.time + SECOND;
    }
    let plant = Plant::start(folder.path(), 20, time, &variables());
    let events = plant.everything().events;
    for limit in [1, 2, 5, 30] {
        let mut query = all();
        query.limit = limit;
        let mut answer = Answer::default();
        loop {
            let page = plant.history.read(&query, plant.moment().wall).unwrap();
            let length: usize = page.series.iter().map(|series| series.data.len()).sum();
            assert!(length <= limit as usize, "{length} instead of {limit}");
            query.from = page.next.clone();
            answer.add(page);
            if query.from.is_none() {
                break;
            }
        }
        assert_eq!(answer.events, events, "limit {limit}");
    }
}
