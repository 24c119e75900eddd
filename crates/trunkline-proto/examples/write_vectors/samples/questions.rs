//! Find, info, why and the engine.

use std::time::Duration;

use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::engine::{EngineInfo, LibraryInfo, encode_engine_request};
use trunkline_proto::message::find::{Find, NamesBuilder};
use trunkline_proto::message::forcing::{
    ForcedBuilder, ForcedEntry, ForcedHead, Forcing, ForcingVerb,
};
use trunkline_proto::message::info::{InfoAnswerBuilder, SubscriptionInfo, VariableInfo};
use trunkline_proto::message::library::{
    DeployBuilder, DeployHead, LibraryAfter, LibraryOrder, LibraryReport, LibraryVerb,
};
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_proto::message::why::{Why, WhyAnswerBuilder, WhyStage, WhyStep, WhyVerdict};
use trunkline_types::ledger::{SubscriptionLedger, UpstreamLedger};
use trunkline_types::{Access, Contract, DataType, Properties, Quality, Value, VariableDefinition};

use super::variables::{NOW, UNKNOWN_NAME, terms};
use super::{Sample, add};

pub(super) fn add_all(samples: &mut Vec<Sample>) {
    add(samples, "find", "The first page", |out| {
        Find {
            cursor: 0,
            limit: 1000,
            pattern: "boiler/**",
        }
        .encode(30, out);
    });
    add(samples, "names", "A page that is not the last", |out| {
        let mut names = NamesBuilder::begin(out, 30);
        names.push("boiler/level", &DataType::F64, Access::ReadWrite);
        names.push("boiler/pressure", &DataType::F64, Access::ReadOnly);
        names.push("boiler/alarm", &DataType::Bool, Access::WriteOnly);
        names.finish(3);
    });
    add(samples, "names-none", "Nothing matches", |out| {
        NamesBuilder::begin(out, 31).finish(0)
    });
    info(samples);
    why(samples);
    engine(samples);
    libraries(samples);
    forcing(samples);
}

fn info(samples: &mut Vec<Sample>) {
    add(
        samples,
        "info-answer",
        "A variable with two subscriptions, and a fault",
        |out| {
            let written = SubscriptionLedger {
                written: 812,
                received: 812,
                ..Default::default()
            };
            let lossy = SubscriptionLedger {
                written: 812,
                filtered: 100,
                coalesced: 200,
                dropped_queue: 10,
                dropped_overrun: 20,
                dropped_disconnect: 30,
                waiting: 2,
                sent_unconfirmed: 50,
                received: 400,
            };
            let flags = SubscribeFlags {
                only_changes: true,
                own_suppressed: false,
            };
            let sampled = SubscribeTerms {
                flags,
                ..terms(8, Contract::Last(1000))
            };
            let info = VariableInfo {
                name: "boiler/level".into(),
                properties: Properties {
                    units: "%".into(),
                    ..Properties::new(DataType::F64)
                },
                sequence: 812,
                engine_timestamp: NOW,
                upstream: UpstreamLedger {
                    offered: 1000,
                    written: 812,
                    unchanged: 150,
                    superseded: 8,
                    refused: 20,
                    unknown: 7,
                    fifo_overflow: 2,
                    upstream_lost: 1,
                },
                subscribers: 3,
                last_writer: "local:1000".into(),
                source_state: "scanning, last good 0.1 s ago".into(),
                subscriptions: vec![
                    SubscriptionInfo {
                        terms: terms(7, Contract::Latest),
                        ledger: written,
                    },
                    SubscriptionInfo {
                        terms: sampled,
                        ledger: lossy,
                    },
                ],
                forced: Some(ForcedEntry {
                    name: "boiler/level".to_owned(),
                    data_type: DataType::F64,
                    value: Value::F64(12.5),
                    by: "local:1000 (this process)".to_owned(),
                    since: NOW,
                    behind: Some((Value::F64(70.25), Quality::GOOD)),
                }),
            };
            let mut answer = InfoAnswerBuilder::begin(out, 12, 0);
            answer.push(&info);
            answer.push_fault(UNKNOWN_NAME);
            answer.finish(false);
        },
    );
}

fn why(samples: &mut Vec<Sample>) {
    add(samples, "why", "Asks about a variable", |out| {
        Why {
            name: "boiler/level",
        }
        .encode(32, out)
    });
    add(samples, "why-answer", "The source is at fault", |out| {
        let step = |stage, verdict, sentence, next| WhyStep {
            stage,
            verdict,
            sentence,
            next,
        };
        let mut answer = WhyAnswerBuilder::begin(out, 32);
        for step in [
            step(
                WhyStage::Resolution,
                WhyVerdict::Ok,
                "boiler/level is variable 5",
                "",
            ),
            step(
                WhyStage::Library,
                WhyVerdict::Note,
                "boiler was stopped 3 s ago",
                "",
            ),
            step(
                WhyStage::Source,
                WhyVerdict::Fault,
                "sim:drum.level has not delivered for 12 s",
                "start the library again",
            ),
            step(
                WhyStage::Unknown(99),
                WhyVerdict::Unknown(7),
                "from a newer version",
                "",
            ),
        ] {
            answer.push(&step);
        }
        answer.finish();
    });
}

fn engine(samples: &mut Vec<Sample>) {
    add(samples, "engine", "Asks about the engine", |out| {
        encode_engine_request(33, out)
    });
    add(samples, "engine-answer", "With two libraries", |out| {
        let library = |name: &str, state: &str, variables, description: &str| LibraryInfo {
            name: name.into(),
            state: state.into(),
            variables,
            description: description.into(),
        };
        let info = EngineInfo {
            name: "boiler house".into(),
            version: "0.1.0".into(),
            epoch: 42,
            uptime: Duration::from_secs(3600),
            pid: 812,
            variables: 230,
            sessions: 3,
            host: "rig7".into(),
            started: NOW,
            libraries: vec![
                library("boiler", "running", 200, "The boiler"),
                library("host", "stopped", 30, ""),
            ],
        };
        info.encode(33, out);
    });
}

fn libraries(samples: &mut Vec<Sample>) {
    add(
        samples,
        "deploy",
        "Three variables, of which two share their properties, and more to come",
        |out| {
            let head = DeployHead {
                library: "rig",
                description: "The test rig",
                replace: true,
            };
            let mut deploy = DeployBuilder::begin(out, 40, &head);
            deploy.push(&VariableDefinition::new("a", DataType::F64));
            deploy.push(&VariableDefinition::new("pump/run", DataType::Bool));
            deploy.push(&VariableDefinition::new("b", DataType::F64));
            deploy.finish(true);
        },
    );
    let order = |verb| LibraryOrder {
        verb,
        library: "rig",
    };
    let undeploy = LibraryVerb::Undeploy { force: true };
    add(samples, "order-undeploy", "Used or not", |out| {
        order(undeploy).encode(41, out)
    });
    add(samples, "order-stop", "A library is to stop", |out| {
        order(LibraryVerb::Stop).encode(42, out)
    });
    add(samples, "report", "What a DEPLOY came to", |out| {
        LibraryReport {
            after: LibraryAfter::Running,
            added: 3,
            changed: 2,
            kept: 1000,
            removed: 1,
        }
        .encode(40, out);
    });
}

fn forcing(samples: &mut Vec<Sample>) {
    add(
        samples,
        "forcing-list",
        "Which variables are forced?",
        |out| {
            Forcing {
                verb: ForcingVerb::List,
                cursor: 3,
                limit: 100,
            }
            .encode(50, out)
        },
    );
    add(
        samples,
        "forcing-off",
        "Forced values hold no more",
        |out| {
            Forcing {
                verb: ForcingVerb::Off,
                cursor: 0,
                limit: 0,
            }
            .encode(51, out)
        },
    );
    add(samples, "forced", "Two variables, and more follow", |out| {
        let mut forced = ForcedBuilder::begin(out, 50);
        forced.push(&ForcedEntry {
            name: "boiler/level".to_owned(),
            data_type: DataType::F64,
            value: Value::F64(12.5),
            by: "loopback (127.0.0.1:40000)".to_owned(),
            since: NOW,
            behind: Some((Value::F64(70.25), Quality::GOOD)),
        });
        forced.push(&ForcedEntry {
            name: "boiler/valve".to_owned(),
            data_type: DataType::Bool,
            value: Value::Bool(true),
            by: "local:1000 (this process)".to_owned(),
            since: NOW,
            behind: None,
        });
        forced.finish(&ForcedHead {
            is_on: true,
            total: 3,
            next_cursor: 9,
        });
    });
}
