//! An engine that is killed while it records, beside gigabytes of history, and started again (R6).

use std::path::PathBuf;
use std::time::Instant;

use trunkline::config::{DeploymentPlan, HistoryConfig};
use trunkline::io::Drivers;
use trunkline::types::history::{HistoryForm, HistoryQuery, SeriesData};
use trunkline::types::{Contract, DataType, LibraryDefinition, Pattern, Timestamp};
use trunkline::{Client, Engine, SubscribeOptions};

use super::{
    PER_CALL, RECORDED, SCENARIO, SECOND, Signal, TIMEOUT, ask, ask_each, every_update, last, made,
    median, milliseconds, nanos, next_of,
};
use crate::Outcome;
use crate::hosting::{self, Manner, name, url};
use crate::record::Row;
use crate::role::{Role, say, wait_for_end};
use crate::settings::Settings;

const VARIABLES: usize = 1000;
/// Number of starts after a kill.
const STARTS: usize = 3;
/// Rows that are recorded before the engine is killed, for each GB: with 10 GB, several segments of
/// the log wait to become files.
const ROWS_PER_GB: f64 = 1.6e6;
const GB: f64 = 1e9;

fn library() -> LibraryDefinition {
    hosting::library(VARIABLES, DataType::F64, TIMEOUT)
}

/// Makes a history. Then, several times: an engine records at full speed and is killed; another one
/// is started. Each engine is a process. The files that were just read or written are in the page
/// cache, if it has room for them.
pub(super) fn cell(settings: &Settings, placement: &str) -> Outcome<Row> {
    let gb: f64 = settings.value("gb")?;
    let case = format!("what=restart gb={gb}");
    let mut row = Row::new(SCENARIO, crate::cells::TRUNKLINE, case, placement);
    let folder = crate::streams::disk::folder()?;
    let bytes = made::bytes(folder.path(), &library(), (gb * GB) as u64, nanos())?;
    row.figure("bytes", bytes as f64);
    row.require(bytes as f64 >= gb * GB, || {
        format!("{bytes} bytes were made")
    });

    let role = Settings::default().with("folder", folder.path().display());
    let (mut serving, mut answered) = (Vec::new(), Vec::new());
    let (mut in_log, mut gap) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let mut far = Role::start("history-engine", &role.clone().with("records", true))?;
        let client = Manner::SLEEPING.client(&far.expect("LISTENING")?)?;
        record_until(&client, (gb * ROWS_PER_GB) as u64)?;
        in_log.push(figure(&client, "_engine/history/unsealed")? as f64);
        far.kill()?;
        let killed = nanos();
        drop((client, far));

        let start = Instant::now();
        let mut far = Role::start("history-engine", &role.clone().with("records", false))?;
        let client = Manner::SLEEPING.client(&far.expect("LISTENING")?)?;
        ask(&client, &last()?)?;
        serving.push(milliseconds(start));
        let (count, newest) = minute(&client, killed)?;
        answered.push(milliseconds(start));
        row.require(count > 0, || "the last minute is empty".to_owned());
        gap.push((killed - newest) as f64 / 1e6);
    }
    row.figure("serving_ms", median(serving));
    row.figure("answered_ms", median(answered));
    row.figure("rows_in_log", median(in_log));
    row.figure("missing_ms", median(gap));
    Ok(row)
}

/// Reads the rows of a variable of the minute before the kill. Returns their number and the newest
/// time.
fn minute(client: &Client, killed: i64) -> Outcome<(usize, i64)> {
    let query = HistoryQuery {
        patterns: vec![Pattern::parse(&name(0))?],
        since: Some(Timestamp::from_nanos(killed - 60 * SECOND)),
        until: Some(Timestamp::from_nanos(killed)),
        form: HistoryForm::Rows,
        ..HistoryQuery::default()
    };
    let (mut count, mut newest) = (0, i64::MIN);
    ask_each(client, &query, &mut |page| {
        for series in &page.series {
            if let SeriesData::Rows(rows) = &series.data {
                count += rows.len();
                newest = rows.times().last().copied().unwrap_or(newest).max(newest);
            }
        }
    })?;
    Ok((count, newest))
}

/// Waits until the engine has recorded this number of rows.
fn record_until(client: &Client, rows: u64) -> Outcome<()> {
    let options = SubscribeOptions::default();
    let figures = client.subscribe(&[RECORDED], Contract::Latest, options)?;
    while figure(client, RECORDED)? < rows {
        next_of(&figures)?;
    }
    Ok(())
}

fn figure(client: &Client, name: &str) -> Outcome<u64> {
    Ok(client.variable::<u64>(name, TIMEOUT)?.get(TIMEOUT)?)
}

/// The process of an engine with a history. It ends with its parent, without closing the history.
pub fn serve(settings: &Settings) -> Outcome<()> {
    crate::placement::unpin()?;
    let mut plan = DeploymentPlan {
        libraries: vec![library()],
        history: Some(HistoryConfig {
            folder: settings.value::<PathBuf>("folder")?,
            spool: None,
            rules: vec![every_update()?],
        }),
        ..DeploymentPlan::default()
    };
    plan.engine.listen = vec![hosting::free_port().into()];
    let engine =
        Engine::from_plan_with(&plan, &Drivers::built_in(), Some(trunkline_history::open))?;
    let address = engine.local_addrs().first().copied();
    let url = url(address.ok_or("the engine listens nowhere")?);
    say(&format!("LISTENING {url}"));
    if !settings.value::<bool>("records")? {
        wait_for_end();
        std::process::exit(0);
    }
    crate::role::end_with_parent();
    let variables = (0..VARIABLES)
        .map(|index| engine.variable::<f64>(&name(index)))
        .collect::<Result<Vec<_>, _>>()?;
    let (signal, mut written) = (Signal::new(), 0);
    loop {
        let writes = (0..PER_CALL).map(|_| {
            let variable = &variables[written % VARIABLES];
            let value = signal.at(written);
            written += 1;
            (variable, value)
        });
        for result in engine.write_many(writes) {
            result?;
        }
    }
}
