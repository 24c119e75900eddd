//! The history: how fast an engine records, how many bytes a sample takes, and how fast plots and
//! rows are read.

use std::fs::File;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trunkline::config::{DeploymentPlan, HistoryConfig};
use trunkline::io::Drivers;
use trunkline::types::history::{HistoryForm, HistoryQuery, HistoryRule, HistorySettings};
use trunkline::types::{
    DataType, LibraryDefinition, Moment, Pattern, Tick, Timestamp, Value, VariableDefinition,
};
use trunkline::{Client, Engine};
use trunkline_engine::history::History;
use trunkline_engine::{Caller, Engine as Core, EngineOptions, Wake, Wakes, Write as Written};
use trunkline_history::FileHistory;

use crate::Outcome;
use crate::hosting::{self, Manner, name, url};
use crate::record::Row;
use crate::settings::Settings;

/// Name of the scenario in results.
pub const SCENARIO: &str = "history";
/// The limit of recording: the same samples as 16 bytes each, appended and synced as often.
pub const RAW: &str = "append";

/// Numbers of variables that are recorded.
pub const VARIABLES: [usize; 2] = [1, 1000];

const TIMEOUT: Duration = Duration::from_secs(120);
/// Samples per call of the writing program.
const PER_CALL: usize = 100;
/// Time between two commits.
const COMMIT: Duration = Duration::from_millis(20);
const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;
/// The start of the day that is recorded.
const MIDNIGHT: i64 = 20_000 * DAY;

pub fn cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let what: String = settings.value("what")?;
    // One process, whose threads use all CPUs.
    crate::placement::unpin()?;
    match (what.as_str(), system) {
        ("record", RAW) => append(settings, placement),
        ("record", _) => record(settings, placement),
        _ => read(settings, placement),
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
    // The engine measures itself once a second.
    std::thread::sleep(Duration::from_millis(1100));
    let lost = engine
        .variable::<u64>("_engine/history/lost")?
        .read()?
        .value as f64;
    row.figure("samples_per_s", written as f64 / seconds);
    row.figure("lost", lost);
    row.require(lost == 0.0, || format!("{lost} updates are lost"));
    Ok(row)
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

/// Reads a day of one variable at 100 Hz, and the last hour of a thousand at 1 Hz, from files that
/// were recorded before.
fn read(settings: &Settings, placement: &str) -> Outcome<Row> {
    let hours: i64 = settings.value("hours")?;
    let case = format!("what=read hours={hours}");
    let mut row = Row::new(SCENARIO, crate::cells::TRUNKLINE, case, placement);
    let folder = crate::streams::disk::folder()?;
    let samples = make(folder.path(), hours)?;
    let bytes = bytes_of(folder.path())?;
    row.figure("bytes_per_sample", bytes as f64 / samples as f64);

    let start = Instant::now();
    let mut plan = DeploymentPlan {
        history: Some(HistoryConfig {
            folder: folder.path().to_owned(),
            rules: vec![every_update()?],
        }),
        ..DeploymentPlan::default()
    };
    plan.engine.listen = vec![hosting::free_port().into()];
    let engine =
        Engine::from_plan_with(&plan, &Drivers::built_in(), Some(trunkline_history::open))?;
    row.figure("start_ms", milliseconds(start));
    let address = engine.local_addrs().first().copied();
    let client = Manner::SLEEPING.client(&url(address.ok_or("the engine listens nowhere")?))?;
    let end = MIDNIGHT + hours * 3600 * SECOND;
    let plot = HistoryQuery {
        patterns: vec![Pattern::parse("rig/fast")?],
        since: Some(Timestamp::from_nanos(MIDNIGHT)),
        until: Some(Timestamp::from_nanos(end)),
        form: HistoryForm::Points(2000),
        ..HistoryQuery::default()
    };
    let (cold, buckets) = ask(&client, &plot)?;
    row.figure("plot_cold_ms", cold);
    let warm = (0..5).map(|_| ask(&client, &plot).map(|(ms, _)| ms));
    row.figure("plot_warm_ms", median(warm.collect::<Outcome<Vec<_>>>()?));
    row.require(buckets > 900 && buckets <= 2000, || {
        format!("{buckets} points")
    });
    let minutes = HistoryQuery {
        form: HistoryForm::Buckets(NonZeroU64::new(60 * SECOND as u64).ok_or("zero")?),
        ..plot.clone()
    };
    row.figure("minutes_ms", ask(&client, &minutes)?.0);
    let hour = HistoryQuery {
        since: Some(Timestamp::from_nanos(end - 3600 * SECOND)),
        form: HistoryForm::Rows,
        ..plot
    };
    let (ms, count) = ask(&client, &hour)?;
    row.figure("hour_of_one_ms", ms);
    row.require(count == 360_000, || format!("{count} rows of one variable"));
    let many = HistoryQuery {
        patterns: vec![Pattern::parse("rig/slow/**")?],
        ..hour
    };
    let (ms, count) = ask(&client, &many)?;
    row.figure("hour_of_many_ms", ms);
    row.require(count == 3_600_000, || {
        format!("{count} rows of many variables")
    });
    Ok(row)
}

fn last() -> Outcome<HistoryQuery> {
    Ok(HistoryQuery {
        patterns: vec![Pattern::parse(&name(0))?],
        form: HistoryForm::Last,
        ..HistoryQuery::default()
    })
}

/// Asks for all pages. Returns the time in milliseconds, and the number of rows or buckets.
fn ask(client: &Client, query: &HistoryQuery) -> Outcome<(f64, usize)> {
    let start = Instant::now();
    let (mut query, mut count) = (query.clone(), 0);
    loop {
        let page = client.history(query.clone(), TIMEOUT)?;
        count += page.series.iter().map(|one| one.data.len()).sum::<usize>();
        query.from = page.next;
        if query.from.is_none() {
            return Ok((milliseconds(start), count));
        }
    }
}

struct Unheard;

impl Wake for Unheard {
    fn wake(&self) {}
}

/// Records the samples of a day, as fast as possible. Returns their number.
fn make(folder: &Path, hours: i64) -> Outcome<u64> {
    let core = Core::new(EngineOptions::new("bench", 1));
    let at = Timestamp::from_nanos(MIDNIGHT);
    let history = FileHistory::open(folder, vec![every_update()?], &core, Box::new(Unheard), at)?;
    let mut variables = vec![VariableDefinition::new("fast", DataType::F64)];
    let slow = (0..1000).map(|n| VariableDefinition::new(format!("slow/v{n:04}"), DataType::F64));
    variables.extend(slow);
    let library = LibraryDefinition {
        name: "rig".to_owned(),
        description: String::new(),
        variables,
    };
    let begin = Instant::now();
    let tick = || Tick::from_nanos(begin.elapsed().as_nanos() as u64 + 1);
    let handles = core.libraries().deploy(&library, tick(), at)?;
    history.follow(&handles, at)?;
    let variables = handles.iter().filter_map(|handle| core.variable(*handle));
    let variables: Vec<_> = variables.collect();
    let (caller, mut signal) = (Caller::local(1, 0), Signal::new());
    let mut written = 0;
    let mut write = |index: usize, time: i64| {
        let value = Value::F64(signal.at(written as usize + 7919 * index));
        let mut write = Written::value(&value);
        // A clock jitters by some microseconds.
        let stamp = Timestamp::from_nanos(time + (signal.random() % 4000) as i64);
        write.source_timestamp = Some(stamp);
        let variable = &variables[index];
        let wakes = &mut Wakes::new();
        let _done = core.try_write(&caller, tick(), stamp, variable, &write, wakes);
        written += 1;
    };
    for second in 0..hours * 3600 {
        let time = MIDNIGHT + second * SECOND;
        for n in 0..100 {
            write(0, time + n * SECOND / 100);
        }
        if second >= (hours - 1) * 3600 {
            for index in 1..=1000 {
                write(index, time + index as i64 * 1000);
            }
        }
        if second % 300 == 0 || second >= (hours - 1) * 3600 {
            let moment = Moment {
                now: tick(),
                wall: Timestamp::from_nanos(time),
            };
            history.record(moment)?;
            while history.maintain(moment.wall)? {}
        }
    }
    let moment = Moment {
        now: tick(),
        wall: Timestamp::from_nanos(MIDNIGHT + hours * 3600 * SECOND),
    };
    history.close_segment(moment)?;
    while history.maintain(moment.wall)? {}
    Ok(written)
}

/// Bytes of all Parquet files and summaries.
fn bytes_of(folder: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for kind in ["samples", "summaries"] {
        for date in std::fs::read_dir(folder.join(kind))? {
            for file in std::fs::read_dir(date?.path())? {
                bytes += file?.metadata()?.len();
            }
        }
    }
    Ok(bytes)
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
