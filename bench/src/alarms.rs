//! Many alarms that change at once: the time until a client has every change, and until every
//! change is in the stored journal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use trunkline::types::alarm::{
    AlarmDefinition, AlarmJournalQuery, AlarmKind, JournalEvent, LimitLevel, Operand,
};
use trunkline::types::{Contract, DataType, LibraryDefinition, Properties, VariableDefinition};
use trunkline::{Engine, EngineOptions, Event, SubscribeOptions};

use crate::Outcome;
use crate::hosting::{Manner, free_port, name, url};
use crate::record::Row;
use crate::settings::Settings;

/// Name of the scenario in results.
pub const SCENARIO: &str = "alarms";
/// Alarms of the engine; four of each variable.
pub const ALARMS: usize = 100_000;
/// Alarms that change at once.
pub const CHANGING: usize = 10_000;

/// The variable with the number of the newest entry of the journal.
const JOURNAL: &str = "_engine/alarms/journal";
const TIMEOUT: Duration = Duration::from_secs(60);

/// Writes variables so that one alarm of each is raised, and follows the journal with a client.
pub fn cell(settings: &Settings, placement: &str) -> Outcome<Row> {
    let (alarms, changing): (usize, usize) =
        (settings.value("alarms")?, settings.value("changing")?);
    let case = format!("alarms={alarms} changing={changing}");
    let mut row = Row::new(SCENARIO, crate::cells::TRUNKLINE, case, placement);
    let folder = tempfile::tempdir()?;
    let engine = Engine::start(EngineOptions {
        listen: vec![free_port().into()],
        store: Some(folder.path().join("store.db")),
        ..EngineOptions::default()
    })?;
    let start = Instant::now();
    engine.deploy(&library(alarms / 4))?;
    row.figure("deploy_ms", milliseconds(start));
    let address = engine.local_addrs().first().copied();
    let address = address.ok_or("the engine listens nowhere")?;
    let client = Manner::SLEEPING.client(&url(address))?;
    let options = SubscribeOptions::default();
    let journal = client.subscribe(&[JOURNAL], Contract::Latest, options)?;
    let variables = (0..changing)
        .map(|index| engine.variable::<f64>(&name(index)))
        .collect::<Result<Vec<_>, _>>()?;
    let write_all = |value: f64| -> Outcome<f64> {
        let start = Instant::now();
        for variable in &variables {
            variable.write(value)?;
        }
        Ok(milliseconds(start))
    };
    // The first values are evaluated; those after them change nothing.
    write_all(50.0)?;
    row.figure("quiet_writes_ms", write_all(51.0)?);
    let start = Instant::now();
    row.figure("writes_ms", write_all(85.0)?);
    let mut query = AlarmJournalQuery {
        from: Some(1),
        ..AlarmJournalQuery::default()
    };
    let (mut told, mut lost) = (0, 0);
    while told < changing {
        match journal.next(Some(TIMEOUT)) {
            Some(Event::Reading { .. }) => {}
            Some(_) => continue,
            None => return Err(format!("{told} of {changing} changes arrived").into()),
        }
        loop {
            let page = client.alarm_journal(query.clone(), TIMEOUT)?;
            for entry in &page.entries {
                query.from = Some(entry.number + 1);
                match entry.event {
                    JournalEvent::Alarm(_) => told += 1,
                    JournalEvent::Lost(count) => lost += count,
                    JournalEvent::Removed(_) | JournalEvent::Other(_) => {}
                }
            }
            match page.next {
                Some(next) => query.from = Some(next),
                None => break,
            }
        }
    }
    row.figure("told_ms", milliseconds(start));
    row.figure("lost", lost as f64);
    row.require(lost == 0 && told == changing, || {
        format!("{told} of {changing} changes arrived, {lost} are lost")
    });
    Ok(row)
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// A library of numbers with four limits each.
fn library(count: usize) -> LibraryDefinition {
    let limits = [
        (LimitLevel::HiHi, 90.0),
        (LimitLevel::Hi, 80.0),
        (LimitLevel::Lo, 20.0),
        (LimitLevel::LoLo, 10.0),
    ];
    let alarm = |(level, limit)| {
        AlarmDefinition::new(AlarmKind::Limit {
            level,
            limit: Operand::Constant(limit),
            deadband: 0.0,
        })
    };
    let properties = Arc::new(Properties {
        alarms: limits.map(alarm).to_vec(),
        ..Properties::new(DataType::F64)
    });
    let mut library = crate::hosting::library(count, DataType::F64, Duration::ZERO);
    for variable in &mut library.variables {
        *variable = VariableDefinition {
            path: variable.path.clone(),
            properties: Arc::clone(&properties),
        };
    }
    library
}
