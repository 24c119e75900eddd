//! The history: how fast an engine records, how many bytes a sample takes, how fast plots and rows
//! are read, and how soon a killed engine serves again.

pub(crate) mod databases;
mod http;
mod made;
mod read;
pub mod restart;

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trunkline::config::{DeploymentPlan, HistoryConfig};
use trunkline::io::Drivers;
use trunkline::types::history::{
    HistoryForm, HistoryPage, HistoryQuery, HistoryRule, HistorySettings, SeriesData,
};
use trunkline::types::{Contract, DataType, Pattern};
use trunkline::{Client, Engine, Event, SubscribeOptions, Subscription};

use crate::Outcome;
use crate::hosting::{self, name};
use crate::peers::Peer;
use crate::record::Row;
use crate::settings::Settings;

/// Name of the scenario in results.
pub const SCENARIO: &str = "history";
/// The limit of recording: the same samples as 16 bytes each, appended and synced as often.
pub const RAW: &str = "append";

/// Reads the Parquet files of a history.
pub const DUCKDB: &str = "duckdb";

/// Numbers of variables that are recorded.
pub const VARIABLES: [usize; 2] = [1, 1000];

const TIMEOUT: Duration = Duration::from_secs(120);
/// Samples per call of the writing program.
const PER_CALL: usize = 100;
/// Time between two commits.
const COMMIT: Duration = Duration::from_millis(20);
const SECOND: i64 = 1_000_000_000;
/// Figures of the engine: rows recorded since its start, and updates that are missing.
const RECORDED: &str = "_engine/history/recorded";
const LOST: &str = "_engine/history/lost";

/// Returns true if another system takes part in a cell.
pub(crate) fn has_peer(peer: &Peer, settings: &Settings) -> bool {
    let what: String = settings.value_or("what", String::new()).unwrap_or_default();
    match what.as_str() {
        "record" => peer.system != DUCKDB,
        "read" => peer.system == DUCKDB,
        _ => false,
    }
}

pub fn cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let what: String = settings.value("what")?;
    // One process, whose threads use all CPUs.
    crate::placement::unpin()?;
    match (what.as_str(), system) {
        ("record", RAW) => append(settings, placement),
        ("record", crate::cells::TRUNKLINE) => record(settings, placement),
        ("record", _) => databases::record(system, settings, placement),
        ("read", DUCKDB) => read::with_duckdb(settings, placement),
        ("read", _) => read::with_trunkline(settings, placement),
        ("restart", _) => restart::cell(settings, placement),
        _ => Err(format!("there is no part {what} of {SCENARIO}").into()),
    }
}

/// A sine of 5 V with 10 mV of noise, as a converter of 16 bits delivers it.
struct Signal {
    table: Vec<f64>,
    random: u64,
}

impl Signal {
    fn new() -> Self {
        let mut signal = Self {
            table: Vec::new(),
            random: 1,
        };
        signal.table = (0..1 << 16)
            .map(|n| {
                let noise = (signal.random() >> 48) as f64 / 65536.0 - 0.5;
                let value = 5.0 * (f64::from(n) * 1e-4).sin() + 0.02 * noise;
                (value * 6553.6).round() / 6553.6
            })
            .collect();
        signal
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn at(&self, n: usize) -> f64 {
        self.table.get(n & ((1 << 16) - 1)).copied().unwrap_or(0.0)
    }
}

fn every_update() -> Outcome<HistoryRule> {
    Ok(HistoryRule {
        pattern: Pattern::parse("**")?,
        settings: Some(HistorySettings::default()),
    })
}

/// Records as fast as a program writes: it waits when the recorder does not follow. The time ends
/// when the last sample is durable.
fn record(settings: &Settings, placement: &str) -> Outcome<Row> {
    let (count, ms): (usize, u64) = (settings.value("vars")?, settings.value("ms")?);
    let case = format!("what=record vars={count}");
    let mut row = Row::new(SCENARIO, crate::cells::TRUNKLINE, case, placement);
    let folder = crate::streams::disk::folder()?;
    let plan = DeploymentPlan {
        libraries: vec![hosting::library(count, DataType::F64, TIMEOUT)],
        history: Some(HistoryConfig {
            folder: folder.path().to_owned(),
            spool: None,
            rules: vec![every_update()?],
        }),
        ..DeploymentPlan::default()
    };
    let engine =
        Engine::from_plan_with(&plan, &Drivers::built_in(), Some(trunkline_history::open))?;
    let client = engine.client()?;
    let variables = (0..count)
        .map(|index| engine.variable::<f64>(&name(index)))
        .collect::<Result<Vec<_>, _>>()?;
    let signal = Signal::new();
    let (start, mut written) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(ms) {
        let writes = (0..PER_CALL).map(|_| {
            let variable = &variables[written % count];
            let value = signal.at(written);
            written += 1;
            (variable, value)
        });
        for result in engine.write_many(writes) {
            result?;
        }
    }
    // The answer comes when everything is recorded.
    ask(&client, &last()?)?;
    let seconds = start.elapsed().as_secs_f64();
    let lost = lost(&engine, &client, written as u64)? as f64;
    row.figure("samples_per_s", written as f64 / seconds);
    row.figure("lost", lost);
    row.require(lost == 0.0, || format!("{lost} updates are lost"));
    Ok(row)
}

/// Returns the number of updates that are missing of those written. The engine measures itself once a
/// second: waits until its figures have all of them.
fn lost(engine: &Engine, client: &Client, written: u64) -> Outcome<u64> {
    let recorded = engine.variable::<u64>(RECORDED)?;
    let lost = engine.variable::<u64>(LOST)?;
    let options = SubscribeOptions::default();
    let figures = client.subscribe(&[RECORDED, LOST], Contract::Latest, options)?;
    loop {
        let lost = lost.read()?.value;
        if recorded.read()?.value + lost >= written {
            return Ok(lost);
        }
        while !matches!(next_of(&figures)?, Event::Reading { .. }) {}
    }
}

fn next_of(figures: &Subscription) -> Outcome<Event> {
    let event = figures.next(Some(TIMEOUT));
    Ok(event.ok_or("the figures of the engine do not arrive")?)
}

/// Appends 16 bytes per sample from memory, and syncs every 20 ms.
fn append(settings: &Settings, placement: &str) -> Outcome<Row> {
    let (count, ms): (usize, u64) = (settings.value("vars")?, settings.value("ms")?);
    let case = format!("what=record vars={count}");
    let mut row = Row::new(SCENARIO, RAW, case, placement);
    let folder = crate::streams::disk::folder()?;
    let mut file = File::create(folder.path().join("log"))?;
    let signal = Signal::new();
    let (start, mut written) = (Instant::now(), 0);
    let (mut buffer, mut synced) = (Vec::new(), Instant::now());
    while start.elapsed() < Duration::from_millis(ms) {
        let stamp = nanos();
        for _ in 0..PER_CALL {
            buffer.extend_from_slice(&stamp.to_le_bytes());
            buffer.extend_from_slice(&signal.at(written).to_le_bytes());
            written += 1;
        }
        if synced.elapsed() >= COMMIT {
            file.write_all(&buffer)?;
            file.sync_data()?;
            buffer.clear();
            synced = Instant::now();
        }
    }
    file.write_all(&buffer)?;
    file.sync_data()?;
    let seconds = start.elapsed().as_secs_f64();
    row.figure("samples_per_s", written as f64 / seconds);
    row.figure("lost", 0.0);
    Ok(row)
}

fn last() -> Outcome<HistoryQuery> {
    Ok(HistoryQuery {
        patterns: vec![Pattern::parse(&name(0))?],
        form: HistoryForm::Last,
        ..HistoryQuery::default()
    })
}

/// Asks for all pages. Returns the time in milliseconds, and the number of rows or buckets; events
/// are not rows.
fn ask(client: &Client, query: &HistoryQuery) -> Outcome<(f64, usize)> {
    let mut count = 0;
    let ms = ask_each(client, query, &mut |page| {
        let lengths = page.series.iter().map(|one| match &one.data {
            SeriesData::Rows(rows) => rows.len(),
            SeriesData::Buckets { buckets, .. } => buckets.len(),
        });
        count += lengths.sum::<usize>();
    })?;
    Ok((ms, count))
}

/// Asks for all pages, and takes each. Returns the time in milliseconds.
fn ask_each(
    client: &Client,
    query: &HistoryQuery,
    take: &mut dyn FnMut(&HistoryPage),
) -> Outcome<f64> {
    let start = Instant::now();
    let mut query = query.clone();
    loop {
        let page = client.history(query.clone(), TIMEOUT)?;
        take(&page);
        query.from = page.next;
        if query.from.is_none() {
            return Ok(milliseconds(start));
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn nanos() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i64)
}
