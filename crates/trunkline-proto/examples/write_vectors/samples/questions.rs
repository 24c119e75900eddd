//! Find, info, why and the engine.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::alarm::{
    ActedAlarm, AlarmActBuilder, AlarmActHead, AlarmActItem, AlarmActedBuilder, AlarmPageBuilder,
    AlarmPageHead, Alarms,
};
use trunkline_proto::message::alarm_journal::{
    AlarmEntriesBuilder, AlarmEntriesHead, AlarmJournal,
};
use trunkline_proto::message::audit::{Audit, AuditPageBuilder, AuditPageHead};
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::control::{Control, ControlVerb, ControlledBuilder, ControlledHead};
use trunkline_proto::message::engine::{EngineInfo, LibraryInfo};
use trunkline_proto::message::find::{
    Comparison, Find, FindBuilder, FindCondition, FoundVariable, NamesBuilder, NamesHead,
};
use trunkline_proto::message::forcing::{
    ForcedBuilder, ForcedEntry, ForcedHead, Forcing, ForcingVerb,
};
use trunkline_proto::message::history::{
    HistoryBuilder, HistoryHead, HistoryPattern, HistoryRowsBuilder, HistoryRowsHead,
};
use trunkline_proto::message::info::{
    InfoAnswerBuilder, ReaderInfo, SubscriptionInfo, VariableInfo,
};
use trunkline_proto::message::library::{
    DeployBuilder, DeployHead, LibraryAfter, LibraryOrder, LibraryReport, LibraryVerb,
};
use trunkline_proto::message::list::AnswerHead;
use trunkline_proto::message::single::encode_empty;
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_proto::message::watch::{
    AppearedBuilder, AppearedHead, AppearedVariable, Listing, Unwatch, VanishedBuilder,
    VanishedHead, Watch,
};
use trunkline_proto::message::why::{Why, WhyAnswerBuilder, WhyStage, WhyStep, WhyVerdict};
use trunkline_proto::{Fault, FaultCode, FrameKind};
use trunkline_types::alarm::{
    AlarmAction, AlarmDefinition, AlarmEntry, AlarmEvent, AlarmKind, AlarmRecord, AlarmState,
    AlarmStatus, JournalEvent, LimitLevel, Operand,
};
use trunkline_types::audit::{AuditHash, AuditLink};
use trunkline_types::history::{
    Bucket, Grid, HistoryCursor, HistoryEvent, HistoryEventRow, HistoryForm, HistoryQuery,
    HistorySeries, Row, RowKey, Rows, SeriesData,
};
use trunkline_types::ledger::{SubscriptionLedger, WriteLedger};
use trunkline_types::{
    Access, AuditAction, AuditEntry, AuditOutcome, Contract, ControlEntry, ControlHolder,
    ControlLevel, DataType, Folder, Position, Properties, Quality, Reason, Tick, Value,
    VariableDefinition,
};

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
    add(
        samples,
        "find-conditions",
        "Variables of a unit with a range above 100",
        |out| {
            let find = Find {
                cursor: 0,
                limit: 0,
                pattern: "**",
            };
            let condition = |field, comparison: Comparison, value| FindCondition {
                field,
                comparison: comparison.number(),
                value,
            };
            let conditions = [
                condition("units", Comparison::Equal, "degC"),
                condition("range.high", Comparison::Above, "100"),
            ];
            let mut find = FindBuilder::begin(out, 32, &find);
            conditions.iter().for_each(|condition| find.push(condition));
            find.finish(false);
        },
    );
    add(samples, "names", "A page that is not the last", |out| {
        let mut names = NamesBuilder::begin(out, 30, &NamesHead::default());
        let found = |name, data_type, access| FoundVariable {
            name,
            data_type,
            access,
        };
        names.push(&found("boiler/level", DataType::F64, Access::ReadWrite));
        names.push(&found("boiler/pressure", DataType::F64, Access::ReadOnly));
        names.push(&found("boiler/alarm", DataType::Bool, Access::WriteOnly));
        names.finish_page(Some(3));
    });
    add(samples, "names-none", "Nothing matches", |out| {
        NamesBuilder::begin(out, 31, &NamesHead::default()).finish(false)
    });
    watch(samples);
    info(samples);
    why(samples);
    engine(samples);
    flush(samples);
    libraries(samples);
    audit(samples);
    alarms(samples);
    history(samples);
    forcing(samples);
    control(samples);
}

fn control(samples: &mut Vec<Sample>) {
    let (Ok(pump), Ok(all)) = (Folder::parse("boiler/pump"), Folder::parse("**")) else {
        return;
    };
    add(samples, "control", "A supervisor takes a folder", |out| {
        Control {
            verb: ControlVerb::Take,
            folder: "boiler/pump",
            level: ControlLevel::Supervisor,
            holder: ControlHolder::Identity,
            duration: Duration::from_secs(600),
            ..Control::default()
        }
        .encode(70, out);
    });
    add(samples, "control-give", "Control is handed over", |out| {
        Control {
            verb: ControlVerb::Give,
            folder: "boiler",
            number: 4000,
            ..Control::default()
        }
        .encode(71, out);
    });
    add(samples, "control-list", "A page of own folders", |out| {
        Control {
            number: 3000,
            own: true,
            ..Control::default()
        }
        .encode(72, out);
    });
    add(samples, "control-follow", "The next change", |out| {
        Control {
            verb: ControlVerb::Follow,
            revision: 5,
            ..Control::default()
        }
        .encode(73, out);
    });
    add(samples, "controlled", "A token and a request", move |out| {
        let head = ControlledHead::default();
        let mut controlled = ControlledBuilder::begin(out, 72, &head);
        let held = ControlEntry {
            number: 3000,
            folder: pump,
            is_waiting: false,
            level: ControlLevel::Supervisor,
            holder: ControlHolder::Identity,
            by: "account:ana (10.0.0.7:51344)".to_owned(),
            since: NOW,
            left: Some(Duration::from_millis(1500)),
            is_own: true,
        };
        controlled.push(&held);
        controlled.push(&ControlEntry {
            number: 4000,
            folder: all,
            is_waiting: true,
            level: ControlLevel::Operator,
            holder: ControlHolder::Session,
            by: "account:bo (10.0.0.8:40000)".to_owned(),
            left: None,
            is_own: false,
            ..held
        });
        let (revision, next) = (5, 4001);
        controlled.finish_page(&ControlledHead { revision, next });
    });
}

fn watch(samples: &mut Vec<Sample>) {
    add(samples, "watch", "A pattern is followed", |out| {
        Watch {
            watch: 2,
            pattern: "plant/**",
        }
        .encode(40, out);
    });
    add(
        samples,
        "appeared-listing",
        "The last names there are",
        |out| {
            let mut appeared = appeared(out, 40, 1003, Listing::Complete);
            appeared.push(&name(17, "plant/level", DataType::F64, Access::ReadWrite));
            appeared.push(&name(18, "plant/pressure", DataType::F64, Access::ReadOnly));
            appeared.finish(false);
        },
    );
    add(samples, "appeared", "A name that is new", |out| {
        let mut appeared = appeared(out, 0, 1005, Listing::Unchanged);
        appeared.push(&name(
            1004,
            "plant/pump/on",
            DataType::Bool,
            Access::ReadWrite,
        ));
        appeared.finish(false);
    });
    add(
        samples,
        "appeared-anew",
        "The listing starts over: the watch fell behind",
        |out| appeared(out, 0, 40_960, Listing::Restarted).finish(false),
    );
    add(samples, "vanished", "Two variables are no more", |out| {
        let head = VanishedHead {
            watch: 2,
            revision: 1005,
        };
        let mut vanished = VanishedBuilder::begin(out, 0, &head);
        vanished.push(&17);
        vanished.push(&18);
        vanished.finish(false);
    });
    add(samples, "unwatch", "The watch ends", |out| {
        Unwatch { watch: 2 }.encode(0, out);
    });
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
                repaired: 3,
                dropped_overrun: 20,
                dropped_disconnect: 30,
                waiting: 2,
                sent_unconfirmed: 50,
                received: 400,
            };
            let flags = SubscribeFlags {
                only_changes: true,
                own_suppressed: false,
                recorded: false,
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
                write_ledger: WriteLedger {
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
                held_by: "mixer (pid 4711 on hall-2)".into(),
                lease_left: Duration::from_millis(8250),
                writers_waiting: 2,
                audit: "the newest 100000 entries are stored in plant.db".into(),
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
                readers: vec![ReaderInfo {
                    session: 12,
                    from: "process 4711 of user 1000".into(),
                    transport: "shared memory".into(),
                    repaired: 1,
                }],
                forced: Some(ForcedEntry {
                    name: "boiler/level".to_owned(),
                    data_type: DataType::F64,
                    value: Value::F64(12.5),
                    by: "local:1000 (this process)".to_owned(),
                    since: NOW,
                    behind: Some((Value::F64(70.25), Quality::GOOD)),
                }),
            };
            let mut answer = InfoAnswerBuilder::begin(out, 12, &AnswerHead { first_index: 0 });
            answer.push(&Ok(info));
            answer.push(&Err(UNKNOWN_NAME));
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
        let mut answer = WhyAnswerBuilder::begin(out, 32, &());
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
        answer.finish(false);
    });
}

fn flush(samples: &mut Vec<Sample>) {
    add(samples, "flush", "Everything is to go now", |out| {
        encode_empty(FrameKind::Flush, 34, out)
    });
    add(samples, "flushed", "It goes", |out| {
        encode_empty(FrameKind::Flushed, 34, out)
    });
}

fn engine(samples: &mut Vec<Sample>) {
    add(samples, "engine", "Asks about the engine", |out| {
        encode_empty(FrameKind::Engine, 33, out)
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
            ..LibraryReport::default()
        }
        .encode(40, out);
    });
    add(
        samples,
        "order-reload",
        "The engine is to read its configuration again",
        |out| {
            let verb = LibraryVerb::ReloadEngine;
            LibraryOrder { verb, library: "" }.encode(43, out);
        },
    );
    add(samples, "report-reload", "What the reload changed", |out| {
        LibraryReport {
            added: 1,
            kept: 9,
            applied: vec!["audit_age".into(), "limits.sessions_max".into()],
            restart: vec!["listen".into(), "[[io]] plc1".into()],
            ..LibraryReport::default()
        }
        .encode(43, out);
    });
}

fn audit(samples: &mut Vec<Sample>) {
    add(
        samples,
        "audit",
        "What one user did, the newest first",
        |out| {
            Audit {
                from: Some(4711),
                since: Some(NOW),
                pattern: "boiler/**",
                who: "loopback",
                newest_first: true,
                limit: 100,
            }
            .encode(50, out);
        },
    );
    add(
        samples,
        "audit-all",
        "Everything, the oldest first",
        |out| {
            Audit::default().encode(51, out);
        },
    );
    add(
        samples,
        "audit-page",
        "A write, a refused write, an order and entries that are missing",
        |out| {
            let head = AuditPageHead {
                next: Some(4707),
                removed: 12,
                state: "the newest 100000 entries are stored in plant.db",
            };
            let mut page = AuditPageBuilder::begin(out, 50, &head);
            let entry = |number: u64, action: AuditAction, outcome: AuditOutcome| AuditEntry {
                number,
                when: NOW,
                who: "loopback".to_owned(),
                from: "127.0.0.1:50412, trunkline 0.1.0, pid 4242".to_owned(),
                action,
                name: "boiler/valve".to_owned(),
                data_type: "f64".to_owned(),
                old: "40.0".to_owned(),
                new: "42.5".to_owned(),
                outcome,
                monotonic: Tick::ZERO,
                link: None,
            };
            let position = Position {
                epoch: 3,
                sequence: 812,
            };
            let refused = "the variable is read-only".to_owned();
            let device = "the device is gone".to_owned();
            for (number, action, outcome) in [
                (4711, AuditAction::Put, AuditOutcome::Applied(position)),
                (4710, AuditAction::Set, AuditOutcome::Unchanged(position)),
                (4709, AuditAction::Put, AuditOutcome::Refused(refused)),
                (4708, AuditAction::Send, AuditOutcome::Unknown(device)),
            ] {
                page.push(&entry(number, action, outcome));
            }
            let empty = AuditEntry {
                name: String::new(),
                data_type: String::new(),
                old: String::new(),
                new: String::new(),
                ..entry(4707, AuditAction::Lost, AuditOutcome::Lost(7))
            };
            page.push(&empty);
            page.push(&AuditEntry {
                number: 4706,
                action: AuditAction::ForcingOn,
                new: "3 variables".to_owned(),
                outcome: AuditOutcome::Done,
                ..empty
            });
            page.finish(false);
        },
    );
    add(
        samples,
        "audit-page-chained",
        "A login, with the monotonic time and the link in the hash chain",
        |out| {
            let head = AuditPageHead {
                next: None,
                removed: 0,
                state: "",
            };
            let mut page = AuditPageBuilder::begin(out, 51, &head);
            let mut entry = AuditEntry {
                number: 1,
                when: NOW,
                monotonic: Tick::from_nanos(9_000_000_017),
                who: "ann".to_owned(),
                from: "10.0.0.7:50412".to_owned(),
                action: AuditAction::Login,
                name: String::new(),
                data_type: String::new(),
                old: String::new(),
                new: "account ann by key".to_owned(),
                outcome: AuditOutcome::Done,
                link: None,
            };
            entry.link = Some(AuditLink::new(AuditHash::ZERO, &entry));
            page.push(&entry);
            page.finish(false);
        },
    );
}

fn alarms(samples: &mut Vec<Sample>) {
    add(
        samples,
        "alarms",
        "The unacknowledged alarms of one area, from priority 500 on",
        |out| {
            Alarms {
                after: 17,
                pattern: "boiler/**",
                area: "drum",
                priority_min: 500,
                states: 0b01_1010,
                limit: 100,
            }
            .encode(52, out);
        },
    );
    add(samples, "alarms-all", "Every alarm", |out| {
        Alarms::default().encode(53, out);
    });
    add(
        samples,
        "alarm-page",
        "An alarm that was acknowledged, and one that never was raised",
        |out| {
            let limit = |level, limit| AlarmKind::Limit {
                level,
                limit,
                deadband: 2.0,
            };
            let high = AlarmDefinition {
                on_delay: Duration::from_secs(5),
                priority: 900,
                area: "drum".to_owned(),
                latched: true,
                help: "Close the feed valve".to_owned(),
                suppressed_by: "boiler/stopped".to_owned(),
                ..AlarmDefinition::new(limit(LimitLevel::HiHi, Operand::Constant(90.0)))
            };
            let low = Operand::Variable("boiler/level_min".to_owned());
            let low = AlarmDefinition::new(limit(LimitLevel::Lo, low));
            let mut page = AlarmPageBuilder::begin(out, 52, &AlarmPageHead::default());
            page.push(&AlarmStatus {
                handle: 3,
                variable: "boiler/level".to_owned(),
                definition: Arc::new(high),
                operand: Some(90.0),
                record: AlarmRecord {
                    state: AlarmState::Acknowledged,
                    is_active: true,
                    value: Some(93.5),
                    operand: Some(90.0),
                    raised: Some(NOW),
                    cleared: None,
                    acknowledged: Some(NOW),
                    acknowledged_by: "local:1000".to_owned(),
                    comment: "valve closed".to_owned(),
                    shelved_until: None,
                },
            });
            page.push(&AlarmStatus {
                handle: 3,
                variable: "boiler/level".to_owned(),
                definition: Arc::new(low),
                operand: None,
                record: AlarmRecord::default(),
            });
            page.finish_page(&AlarmPageHead { next: 3 });
        },
    );
    add(
        samples,
        "alarm-act",
        "Two alarms are shelved for an hour",
        |out| {
            let action = AlarmAction::Shelve(Duration::from_secs(3600));
            let head = AlarmActHead::new(action, "sensor is being replaced");
            let mut act = AlarmActBuilder::begin(out, 54, &head);
            for alarm in ["hi", "hi_hi"] {
                let variable = "boiler/level";
                act.push(&AlarmActItem { variable, alarm });
            }
            act.finish(false);
        },
    );
    add(
        samples,
        "alarm-acted",
        "One is shelved, the other is unknown",
        |out| {
            let mut acted = AlarmActedBuilder::begin(out, 54, &AnswerHead { first_index: 0 });
            let state = AlarmState::Shelved;
            acted.push(&Ok(ActedAlarm { state }));
            let sentence = "the variable has no alarm hi_hi; it has hi";
            let unknown = Fault::new(FaultCode::UnknownField, sentence);
            acted.push(&Err(unknown.as_ref()));
            acted.finish(false);
        },
    );
    add(
        samples,
        "alarm-journal",
        "The last 50 changes to unacknowledged of the area boiler in an hour",
        |out| {
            AlarmJournal {
                from: None,
                since: Some(NOW.saturating_add_nanos(-3_600_000_000_000)),
                until: Some(NOW),
                pattern: "boiler/**",
                area: "boiler",
                priority_min: 500,
                states: 1 << 1,
                newest_first: true,
                limit: 50,
            }
            .encode(55, out);
        },
    );
    add(
        samples,
        "alarm-entries",
        "An alarm is raised and acknowledged; changes are missing",
        |out| {
            let head = AlarmEntriesHead {
                next: Some(4_713),
                removed: 12,
                state: "the newest 1000000 entries are stored in plant.db",
            };
            let mut page = AlarmEntriesBuilder::begin(out, 55, &head);
            let entry = |number: u64, event: AlarmEvent, who: &str, state: AlarmState| AlarmEntry {
                number,
                when: NOW,
                event: JournalEvent::Alarm(event),
                variable: "boiler/level".to_owned(),
                alarm: "hi_hi".to_owned(),
                priority: 900,
                area: "boiler".to_owned(),
                description: "Level of the drum is very high".to_owned(),
                from: AlarmState::Unacknowledged,
                who: who.to_owned(),
                comment: if who.is_empty() { "" } else { "valve closed" }.to_owned(),
                record: AlarmRecord {
                    state,
                    is_active: true,
                    value: Some(91.5),
                    operand: Some(90.0),
                    raised: Some(NOW),
                    acknowledged_by: who.to_owned(),
                    ..AlarmRecord::default()
                },
            };
            page.push(&entry(
                4_710,
                AlarmEvent::Raise,
                "",
                AlarmState::Unacknowledged,
            ));
            let by = "local:1000";
            page.push(&entry(
                4_711,
                AlarmEvent::Acknowledge,
                by,
                AlarmState::Acknowledged,
            ));
            let lost = JournalEvent::Lost(3);
            page.push(&AlarmEntry::of_journal(4_712, NOW, lost, String::new()));
            page.finish(false);
        },
    );
}

fn history(samples: &mut Vec<Sample>) {
    add(
        samples,
        "history",
        "The second page of an hour of two variables",
        |out| {
            let head = HistoryHead::of(&HistoryQuery {
                since: Some(NOW.saturating_add_nanos(-3_600_000_000_000)),
                until: Some(NOW),
                from: Some(HistoryCursor {
                    variable: "boiler/level".to_owned(),
                    series: 4,
                    after: Some(RowKey {
                        time: NOW.as_nanos() - 1_000_000_000,
                        epoch: 7,
                        sequence: 300,
                    }),
                    state: vec![1, 2, 3],
                }),
                limit: 1000,
                ..HistoryQuery::default()
            });
            let mut frame = HistoryBuilder::begin(out, 56, &head);
            for pattern in ["boiler/level", "boiler/valves/*"] {
                frame.push(&HistoryPattern { pattern });
            }
            frame.finish(false);
        },
    );
    add(
        samples,
        "history-buckets",
        "At most 500 buckets of everything that was recorded of a variable",
        |out| {
            let head = HistoryHead::of(&HistoryQuery {
                form: HistoryForm::Points(500),
                ..HistoryQuery::default()
            });
            let mut frame = HistoryBuilder::begin(out, 57, &head);
            let pattern = "boiler/level";
            frame.push(&HistoryPattern { pattern });
            frame.finish(false);
        },
    );
    add(
        samples,
        "history-interpolated",
        "A level at each second of a minute, between its rows",
        |out| {
            let step = NonZeroU64::new(1_000_000_000);
            let head = HistoryHead::of(&HistoryQuery {
                since: Some(NOW.saturating_add_nanos(-60_000_000_000)),
                until: Some(NOW),
                form: HistoryForm::Interpolated(Grid(step)),
                ..HistoryQuery::default()
            });
            let mut frame = HistoryBuilder::begin(out, 58, &head);
            let pattern = "boiler/level";
            frame.push(&HistoryPattern { pattern });
            frame.finish(false);
        },
    );
    add(
        samples,
        "history-total",
        "The coverage of an hour of all variables of a boiler",
        |out| {
            let head = HistoryHead::of(&HistoryQuery {
                since: Some(NOW.saturating_add_nanos(-3_600_000_000_000)),
                until: Some(NOW),
                form: HistoryForm::Total,
                durations: true,
                ..HistoryQuery::default()
            });
            let mut frame = HistoryBuilder::begin(out, 59, &head);
            let pattern = "boiler/**";
            frame.push(&HistoryPattern { pattern });
            frame.finish(false);
        },
    );
    history_rows(samples);
}

fn history_rows(samples: &mut Vec<Sample>) {
    let row = |ms: i64, sequence| RowKey {
        time: NOW.as_nanos() + ms * 1_000_000,
        epoch: 7,
        sequence,
    };
    let series = |name: &str, data_type, units: &str, data| HistorySeries {
        variable: name.to_owned(),
        data_type,
        units: units.to_owned(),
        data,
    };
    add(
        samples,
        "history-rows",
        "Three levels, two updates that are missing before the last of them, and a text",
        |out| {
            let mut levels = Rows::new(Some(8));
            for (key, quality, level) in [
                (row(0, 301), Quality::GOOD, 91.5_f64),
                (row(10, 302), Quality::GOOD, 91.25),
                (row(40, 305), Quality::bad(Reason::SensorFailure), 12.0),
            ] {
                levels.push(&Row {
                    key,
                    delay: 1000,
                    quality,
                    value: &level.to_le_bytes(),
                });
            }
            levels.push_event(HistoryEventRow {
                key: row(40, 304),
                event: HistoryEvent::Lost(Some(2)),
            });
            let mut texts = Rows::new(None);
            texts.push(&Row {
                key: row(5, 12),
                delay: 0,
                quality: Quality::GOOD,
                value: b"\x04open",
            });
            let head = HistoryRowsHead {
                next: Some(HistoryCursor {
                    variable: "boiler/valve".to_owned(),
                    series: 5,
                    after: None,
                    state: vec![4],
                }),
                state: "the history is in plant.history",
            };
            let mut page = HistoryRowsBuilder::begin(out, 56, &head);
            let levels = SeriesData::Rows(levels);
            page.push(&series("boiler/level", DataType::F64, "%", levels));
            let texts = SeriesData::Rows(texts);
            page.push(&series("boiler/state", DataType::String, "", texts));
            page.finish(false);
        },
    );
    add(
        samples,
        "history-rows-buckets",
        "A bucket of two numbers, and one in which everything was bad",
        |out| {
            let width = 1_u64 << 30;
            let start = NOW.as_nanos() & !(width as i64 - 1);
            let mut first = Bucket::new(start);
            first.add(91.5);
            first.add(91.25);
            first.hold(91.375, 900_000_000);
            let second = Bucket {
                bad: 3,
                lost: 2,
                ..Bucket::new(start + width as i64)
            };
            let buckets = vec![first, second];
            let data = SeriesData::Buckets { width, buckets };
            let mut page = HistoryRowsBuilder::begin(out, 57, &HistoryRowsHead::default());
            page.push(&series("boiler/level", DataType::F64, "%", data));
            page.finish(false);
        },
    );
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
        let mut forced = ForcedBuilder::begin(out, 50, &ForcedHead::default());
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
        forced.finish_page(&ForcedHead {
            is_on: true,
            total: 3,
            next_cursor: 9,
        });
    });
}

fn appeared(
    out: &mut Vec<u8>,
    request: u32,
    revision: u64,
    listing: Listing,
) -> AppearedBuilder<'_> {
    let head = AppearedHead {
        watch: 2,
        revision,
        listing,
    };
    AppearedBuilder::begin(out, request, &head)
}

fn name(
    handle: u32,
    name: &'static str,
    data_type: DataType,
    access: Access,
) -> AppearedVariable<'static> {
    AppearedVariable {
        handle,
        name,
        data_type,
        access,
    }
}
