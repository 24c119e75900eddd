//! Connections that end and are re-established.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::net::SocketAddr;
use std::time::Duration;

use trunkline::proto::{Disconnect, FaultCode};
use trunkline::types::{Contract, DataType, LibraryDefinition, VariableDefinition};
use trunkline::{Client, Engine, EngineOptions, Event, SubscribeOptions};

/// Limit that only a hanging test reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

fn engine(listen: SocketAddr) -> Engine {
    let options = EngineOptions {
        listen: vec![listen.into()],
        ..EngineOptions::default()
    };
    let engine = Engine::start(options).expect("the port is free");
    let library = LibraryDefinition {
        name: "rig".into(),
        description: String::new(),
        variables: vec![VariableDefinition::new("level", DataType::F64)],
    };
    engine.deploy(&library).expect("a plain library");
    engine
}

/// Behaviour: B-01, B-03.
#[test]
fn subscription_survives_an_engine_restart_and_reports_unknowns() {
    let first = engine("127.0.0.1:0".parse().expect("an address"));
    let address = first.local_addrs()[0];
    let client = Client::connect(&format!("tl://{address}")).expect("a client");
    let updates = client
        .subscribe(
            &["rig/level"],
            Contract::Last(100),
            SubscribeOptions::default(),
        )
        .expect("a subscription");
    first
        .variable::<f64>("rig/level")
        .expect("the variable exists")
        .write(1.0)
        .expect("applied");
    let mut epochs = Vec::new();
    let mut engine_now = Some(first);
    let mut causes = 0;
    let reading = loop {
        match updates.next(Some(TIMEOUT)).expect("an event") {
            Event::Connected { epoch, .. } => epochs.push(epoch),
            Event::Reading { reading, .. } if epochs.len() == 1 => {
                if reading.position.sequence == 1
                    && let Some(engine) = engine_now.take()
                {
                    engine.shutdown(Duration::from_secs(1));
                }
            }
            Event::Disconnected {
                cause,
                reconnecting,
            } => {
                let is_goodbye = |cause: &Disconnect| {
                    let expected = FaultCode::ShuttingDown;
                    matches!(cause, Disconnect::Goodbye { code, .. } if *code == expected)
                };
                assert!(is_goodbye(&cause), "it was said goodbye to: {cause}");
                assert!(reconnecting, "it comes back by itself");
                causes += 1;
                let stale = updates.value(0).expect("the last value is kept");
                assert!(stale.stale.is_some(), "and is never shown as live");
                let second = engine(address);
                let level = second
                    .variable::<f64>("rig/level")
                    .expect("the variable exists");
                level.write(2.0).expect("applied");
                engine_now = Some(second);
            }
            Event::Reading { reading, .. } if reading.position.sequence > 0 => break reading,
            _ => {}
        }
    };
    assert_eq!(
        (epochs.len(), causes),
        (2, 1),
        "connection changes come in the same queue"
    );
    assert_ne!(epochs[0], epochs[1]);
    assert_eq!(reading.position.epoch, epochs[1]);
    assert_eq!(
        reading.lost.count(),
        None,
        "across epochs the number is unknown, never 0"
    );
}

/// Behaviour: SP-04, SP-01, SP-02.
#[test]
fn the_same_program_works_whether_a_variable_is_single_process_or_hosted() {
    for scope in ["process", "network"] {
        let text = format!(
            "[engine]\nlisten = [\"127.0.0.1:0\"]\n[library]\nname = \"rig\"\n\
             [[variable]]\nname = \"level\"\ntype = \"f64\"\nscope = \"{scope}\"\n"
        );
        let plan = trunkline::config::parse("rig.toml", &text).expect("the configuration is valid");
        let engine = Engine::from_plan(&plan).expect("an engine");
        let client = engine.client().expect("a client");
        let level = client
            .variable::<f64>("rig/level", TIMEOUT)
            .expect("the variable exists");
        let direct = engine
            .variable::<f64>("rig/level")
            .expect("the variable exists");
        level.put(2.5, TIMEOUT).expect("an answer");
        let held = direct.read().expect("it is readable");
        assert_eq!(held.value, 2.5);
        assert!(held.engine_timestamp.is_plausible());
        direct.write(3.5).expect("applied");
        assert_eq!(level.get(TIMEOUT), Ok(3.5));

        let outside = Client::connect(&format!("tl://{}", engine.local_addrs()[0]));
        let seen = outside
            .expect("a client")
            .variable::<f64>("rig/level", TIMEOUT);
        assert_eq!(
            seen.is_ok(),
            scope == "network",
            "the scope decides who sees it"
        );
    }
}
