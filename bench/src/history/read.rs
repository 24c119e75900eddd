//! A day of one variable at 100 Hz, and the last hour of a thousand at 1 Hz, read from files that
//! were recorded before: by a client of an engine, and by DuckDB without one.

use std::num::NonZeroU64;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde::Deserialize;
use trunkline::config::{DeploymentPlan, HistoryConfig};
use trunkline::io::Drivers;
use trunkline::types::history::{HistoryForm, HistoryQuery, SeriesData};
use trunkline::types::{Pattern, Timestamp};
use trunkline::{Client, Engine};

use super::{DUCKDB, SCENARIO, SECOND, ask, ask_each, every_update, made, median, milliseconds};
use crate::Outcome;
use crate::hosting::{self, Manner, url};
use crate::peers::named;
use crate::record::Row;
use crate::settings::Settings;

/// Intervals of a plot, at most.
const POINTS: u32 = 2000;
/// Repeats of the plot.
const WARM: usize = 5;

/// What is asked.
struct Queries {
    plot: HistoryQuery,
    minutes: HistoryQuery,
    hour_of_one: HistoryQuery,
    hour_of_many: HistoryQuery,
}

impl Queries {
    fn new(hours: i64) -> Outcome<Self> {
        let end = made::MIDNIGHT + hours * 3600 * SECOND;
        let plot = HistoryQuery {
            patterns: vec![Pattern::parse("rig/fast")?],
            since: Some(Timestamp::from_nanos(made::MIDNIGHT)),
            until: Some(Timestamp::from_nanos(end)),
            form: HistoryForm::Points(POINTS),
            ..HistoryQuery::default()
        };
        let minutes = HistoryQuery {
            form: HistoryForm::Buckets(NonZeroU64::new(60 * SECOND as u64).ok_or("zero")?),
            ..plot.clone()
        };
        let hour_of_one = HistoryQuery {
            since: Some(Timestamp::from_nanos(end - 3600 * SECOND)),
            form: HistoryForm::Rows,
            ..plot.clone()
        };
        let hour_of_many = HistoryQuery {
            patterns: vec![Pattern::parse("rig/slow/**")?],
            ..hour_of_one.clone()
        };
        Ok(Self {
            plot,
            minutes,
            hour_of_one,
            hour_of_many,
        })
    }
}

pub(super) fn with_trunkline(settings: &Settings, placement: &str) -> Outcome<Row> {
    let hours: i64 = settings.value("hours")?;
    let case = format!("what=read hours={hours}");
    let mut row = Row::new(SCENARIO, crate::cells::TRUNKLINE, case, placement);
    let folder = crate::streams::disk::folder()?;
    let samples = made::day(folder.path(), hours)?;
    let bytes = bytes_of(folder.path())?;
    row.figure("bytes_per_sample", bytes as f64 / samples as f64);

    let start = Instant::now();
    let engine = engine(folder.path())?;
    row.figure("start_ms", milliseconds(start));
    let (client, queries) = (client(&engine)?, Queries::new(hours)?);
    let (cold, buckets) = ask(&client, &queries.plot)?;
    row.figure("plot_cold_ms", cold);
    let warm = (0..WARM).map(|_| ask(&client, &queries.plot).map(|(ms, _)| ms));
    row.figure("plot_warm_ms", median(warm.collect::<Outcome<Vec<_>>>()?));
    row.require(buckets > 900 && buckets <= POINTS as usize, || {
        format!("{buckets} points")
    });
    row.figure("minutes_ms", ask(&client, &queries.minutes)?.0);
    let (ms, count) = ask(&client, &queries.hour_of_one)?;
    row.figure("hour_of_one_ms", ms);
    row.require(count == 360_000, || format!("{count} rows of one variable"));
    let (ms, count) = ask(&client, &queries.hour_of_many)?;
    row.figure("hour_of_many_ms", ms);
    row.require(count == 3_600_000, || {
        format!("{count} rows of many variables")
    });
    Ok(row)
}

/// What the program in Python prints.
#[derive(Debug, Deserialize)]
struct Answered {
    figures: std::collections::BTreeMap<String, f64>,
    counts: Counts,
}

/// What both systems must agree on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Counts {
    /// Intervals of the plot, and samples in them.
    plot: (usize, u64),
    minutes: (usize, u64),
    hour_of_one: usize,
    hour_of_many: usize,
}

/// DuckDB reads files with the same samples as Trunkline: those of the same random numbers.
pub(super) fn with_duckdb(settings: &Settings, placement: &str) -> Outcome<Row> {
    let hours: i64 = settings.value("hours")?;
    let case = format!("what=read hours={hours}");
    let mut row = Row::new(SCENARIO, DUCKDB, case, placement);
    let python = named(DUCKDB)
        .ok_or("there is no system duckdb")?
        .program()?;
    let folder = crate::streams::disk::folder()?;
    made::day(folder.path(), hours)?;
    let engine = engine(folder.path())?;
    let (client, queries) = (client(&engine)?, Queries::new(hours)?);
    let (width, plot) = buckets(&client, &queries.plot)?;
    let expected = Counts {
        plot,
        minutes: buckets(&client, &queries.minutes)?.1,
        hour_of_one: ask(&client, &queries.hour_of_one)?.1,
        hour_of_many: ask(&client, &queries.hour_of_many)?.1,
    };
    drop((client, engine));
    let end = made::MIDNIGHT + hours * 3600 * SECOND;
    let output = Command::new(python)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/peers/python/history_duckdb.py"
        ))
        .arg(folder.path())
        .args([made::MIDNIGHT, end, width as i64].map(|number| number.to_string()))
        .arg(WARM.to_string())
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let answered: Answered = serde_json::from_slice(&output.stdout)?;
    row.figures = answered.figures;
    row.require(answered.counts == expected, || {
        format!("{:?}, but Trunkline answers {expected:?}", answered.counts)
    });
    Ok(row)
}

fn engine(folder: &Path) -> Outcome<Engine> {
    let mut plan = DeploymentPlan {
        history: Some(HistoryConfig {
            folder: folder.to_owned(),
            spool: None,
            rules: vec![every_update()?],
        }),
        ..DeploymentPlan::default()
    };
    plan.engine.listen = vec![hosting::free_port().into()];
    let open = Some(trunkline_history::open as trunkline::OpenHistory);
    Ok(Engine::from_plan_with(&plan, &Drivers::built_in(), open)?)
}

fn client(engine: &Engine) -> Outcome<Client> {
    let address = engine.local_addrs().first().copied();
    Manner::SLEEPING.client(&url(address.ok_or("the engine listens nowhere")?))
}

/// Returns the width of the intervals, their number, and that of the samples in them.
fn buckets(client: &Client, query: &HistoryQuery) -> Outcome<(u64, (usize, u64))> {
    let (mut widest, mut number, mut samples) = (0, 0, 0);
    ask_each(client, query, &mut |page| {
        for series in &page.series {
            if let SeriesData::Buckets { width, buckets } = &series.data {
                widest = widest.max(*width);
                let counts = buckets.iter().map(|bucket| bucket.count);
                number += counts.clone().filter(|count| *count > 0).count();
                samples += counts.sum::<u64>();
            }
        }
    })?;
    Ok((widest, (number, samples)))
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
