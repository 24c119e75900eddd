//! Alarms of a hosted engine: many of them at once, and a store that fails.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests may panic")]

use std::collections::HashMap;
use std::path::Path;

use trunkline::store::SqliteStore;
use trunkline::{Engine, EngineOptions};
use trunkline_types::alarm::{
    AlarmDefinition, AlarmEntry, AlarmEvent, AlarmJournalQuery, AlarmKind, AlarmState,
    JournalEvent, LimitLevel, Operand,
};
use trunkline_types::{DataType, LibraryDefinition, Properties, VariableDefinition};

fn plant(count: usize) -> LibraryDefinition {
    let alarm = |level, limit| {
        AlarmDefinition::new(AlarmKind::Limit {
            level,
            limit: Operand::Constant(limit),
            deadband: 0.0,
        })
    };
    let properties = std::sync::Arc::new(Properties {
        alarms: vec![alarm(LimitLevel::Hi, 80.0), alarm(LimitLevel::Lo, 20.0)],
        ..Properties::new(DataType::F64)
    });
    let variables = (0..count).map(|number| VariableDefinition {
        path: format!("v{number}"),
        properties: std::sync::Arc::clone(&properties),
    });
    LibraryDefinition {
        name: "plant".to_owned(),
        description: String::new(),
        variables: variables.collect(),
    }
}

fn start(path: &Path) -> Engine {
    let store = SqliteStore::open(path).expect("there is room");
    let options = EngineOptions::default();
    Engine::start_with_store(options, Some(Box::new(store))).expect("the engine starts")
}

fn journal(engine: &Engine) -> Vec<AlarmEntry> {
    let (mut query, mut entries) = (AlarmJournalQuery::default(), Vec::new());
    loop {
        let page = engine.alarm_journal(&query).expect("it can be read");
        entries.extend(page.entries);
        match page.next {
            Some(next) => query.from = Some(next),
            None => return entries,
        }
    }
}

/// If many alarms change at once, each is in the journal exactly once, and keeps its state after a
/// restart.
///
/// Behaviour: SV-04, H-11.
#[test]
fn ten_thousand_alarms_that_change_at_once_are_all_recorded() {
    const COUNT: usize = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let engine = start(&path);
    engine.deploy(&plant(COUNT)).unwrap();
    for number in 0..COUNT {
        let variable = engine.variable::<f64>(&format!("plant/v{number}")).unwrap();
        variable.write(90.0).unwrap();
        if number % 2 == 0 {
            variable.write(10.0).unwrap();
        }
    }
    let entries = journal(&engine);
    let numbers = entries.iter().map(|entry| entry.number);
    assert!(numbers.eq(1..=entries.len() as u64), "without a gap");
    let mut changes: HashMap<(String, &str), Vec<AlarmEvent>> = HashMap::new();
    for entry in &entries {
        let JournalEvent::Alarm(event) = entry.event else {
            panic!("{entry:?}");
        };
        let of_alarm = changes.entry((entry.variable.clone(), &entry.alarm));
        of_alarm.or_default().push(event);
    }
    assert_eq!(changes.len(), COUNT + COUNT / 2);
    for ((variable, alarm), events) in &changes {
        let number: usize = variable.strip_prefix("plant/v").unwrap().parse().unwrap();
        let expected = match (*alarm, number % 2) {
            ("hi", 0) => &[AlarmEvent::Raise, AlarmEvent::Clear][..],
            _ => &[AlarmEvent::Raise][..],
        };
        assert_eq!(events, expected, "{variable} {alarm}");
    }
    engine.shutdown(std::time::Duration::ZERO);
    drop(engine);
    let engine = start(&path);
    let again = journal(&engine);
    assert_eq!(again, entries, "nothing is lost, and nothing is doubled");
    let last = again.last().unwrap();
    assert_eq!(last.record.state, AlarmState::Unacknowledged);
}
