//! Open, subscribe, close, read and write.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::handles::{HandlesBuilder, UnsubscribeBuilder, UnsubscribeHead};
use trunkline_proto::message::open::{OpenBuilder, OpenOptions, OpenTerms, OpenedBuilder};
use trunkline_proto::message::outcome::{WouldBlock, WriteAnswer};
use trunkline_proto::message::read::ReadingsBuilder;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::results::ResultsBuilder;
use trunkline_proto::message::subscribe::{
    SubscribeBuilder, SubscribeHead, SubscribeItem, SubscribeTerms,
};
use trunkline_proto::message::write::{
    WriteAnswersBuilder, WriteAnswersHead, WriteBuilder, WriteOptions, WriteVerb,
};
use trunkline_proto::{FaultCode, FaultRef};
use trunkline_types::{
    Access, ArrayType, Contract, DataType, ElementType, EnumType, Position, Properties, Quality,
    Reason, StructType, Timestamp, Value,
};

use super::{Sample, add};

/// A time in 2026 that every vector counts from.
pub const NOW: Timestamp = Timestamp::from_nanos(1_790_000_000_000_000_000);

pub const UNKNOWN_NAME: FaultRef<'_> = FaultRef {
    code: FaultCode::UnknownName,
    sentence: "no variable is named boiler/levle; did you mean boiler/level?",
};

pub fn reading(handle: u32, sequence: u64, value: &[u8]) -> UpdateRecord<'_> {
    UpdateRecord {
        handle,
        sequence,
        engine_timestamp: NOW,
        source_timestamp: NOW,
        quality: Quality::GOOD,
        own: false,
        value: Some(value),
    }
}

pub fn terms(subscription: u32, contract: Contract) -> SubscribeTerms {
    SubscribeTerms {
        subscription,
        contract,
        flags: SubscribeFlags::NONE,
    }
}

pub(super) fn add_all(samples: &mut Vec<Sample>) {
    opens(samples);
    openeds(samples);
    subscribes(samples);
    results(samples);
    reads(samples);
    writes(samples);
    write_answers(samples);
}

fn opens(samples: &mut Vec<Sample>) {
    add(
        samples,
        "open",
        "Two names, nothing else asked for",
        |out| {
            let mut open = OpenBuilder::begin(out, 1, &OpenTerms::default());
            open.push(&&b"boiler/level"[..]);
            open.push(&&b"valves/feed%2Fmain/mode"[..]);
            open.finish(false);
        },
    );
    add(
        samples,
        "open-page",
        "One page of a longer request, with readings and properties",
        |out| {
            let options = OpenOptions {
                read: true,
                describe: true,
            };
            let mut open = OpenBuilder::begin(
                out,
                2,
                &OpenTerms {
                    options,
                    subscribe: None,
                },
            );
            open.push(&&b"boiler/level"[..]);
            open.push(&&b"boiler/pressure#units"[..]);
            open.finish(true);
        },
    );
    add(
        samples,
        "open-subscribe",
        "Opened and subscribed in one round trip",
        |out| {
            let contract = Contract::Sampled(Duration::from_millis(100));
            let flags = SubscribeFlags {
                only_changes: true,
                own_suppressed: true,
                recorded: false,
            };
            let subscribe = Some(SubscribeTerms {
                flags,
                ..terms(7, contract)
            });
            let terms = OpenTerms {
                options: OpenOptions::default(),
                subscribe,
            };
            let mut open = OpenBuilder::begin(out, 3, &terms);
            open.push(&&b"host/cpu/total"[..]);
            open.finish(false);
        },
    );
    add(
        samples,
        "open-not-utf8",
        "A name that is no UTF-8 is a fault of its own",
        |out| {
            let mut open = OpenBuilder::begin(out, 4, &OpenTerms::default());
            open.push(&&b"boiler/level"[..]);
            open.push(&&b"boiler/XX"[..]);
            open.finish(false);
            if let Some(last) = out.last_mut() {
                *last = 0xff;
            }
        },
    );
}

fn openeds(samples: &mut Vec<Sample>) {
    let read = OpenOptions {
        read: true,
        describe: false,
    };
    let level = 72.5_f64.to_le_bytes();
    add(
        samples,
        "opened",
        "Three of one type, one of another, one unknown",
        |out| {
            let mut opened = OpenedBuilder::begin(out, 1, OpenOptions::default(), 0);
            for handle in [5, 6, 100] {
                opened.push(handle, &DataType::F64, Access::ReadWrite, None, None);
            }
            opened.push(
                3,
                &DataType::Enum(mode_type()),
                Access::ReadOnly,
                None,
                None,
            );
            opened.push_fault(UNKNOWN_NAME);
            opened.finish(false);
        },
    );
    add(
        samples,
        "opened-readings",
        "The second page, with current readings",
        |out| {
            let mut opened = OpenedBuilder::begin(out, 2, read, 1000);
            let record = reading(5, 812, &level);
            opened.push(5, &DataType::F64, Access::ReadWrite, Some(&record), None);
            opened.push(6, &DataType::F64, Access::ReadWrite, None, None);
            opened.push_fault(UNKNOWN_NAME);
            opened.finish(true);
        },
    );
    add(samples, "opened-described", "With properties", |out| {
        let options = OpenOptions {
            read: true,
            describe: true,
        };
        let mut opened = OpenedBuilder::begin(out, 2, options, 0);
        let properties = Properties {
            description: "Water in the drum".into(),
            units: "%".into(),
            range: Some((0.0, 100.0)),
            precision: Some(1),
            initial: Some(Value::F64(50.0)),
            source: "sim:drum.level".into(),
            ..Properties::new(DataType::F64)
        };
        let record = reading(5, 812, &level);
        let (ty, access) = (&properties.data_type, properties.access);
        opened.push(5, ty, access, Some(&record), Some(&properties));
        opened.finish(false);
    });
    add(
        samples,
        "opened-composite-types",
        "Array, struct and waveform",
        |out| {
            let mut opened = OpenedBuilder::begin(out, 5, OpenOptions::default(), 0);
            let array = ArrayType {
                element: ElementType::F32,
                shape: vec![Some(3), None],
            };
            let array = DataType::Array(Arc::new(array));
            let fields = vec![
                ("x".into(), DataType::F64),
                ("mode".into(), DataType::Enum(mode_type())),
            ];
            let structure = DataType::Struct(Arc::new(StructType { fields }));
            let waveform = DataType::Waveform(ElementType::I16);
            for (handle, ty) in [(1, array), (2, structure), (3, waveform)] {
                opened.push(handle, &ty, Access::WriteOnly, None, None);
            }
            opened.finish(false);
        },
    );
}

fn mode_type() -> Arc<EnumType> {
    Arc::new(EnumType {
        labels: vec!["OFF".into(), "MANUAL".into(), "AUTO".into()],
    })
}

fn subscribes(samples: &mut Vec<Sample>) {
    let item = |handle, last_sequence| SubscribeItem {
        handle,
        last_sequence,
    };
    let contracts: [(&'static str, Contract); 5] = [
        ("subscribe-latest", Contract::Latest),
        ("subscribe-last", Contract::Last(1000)),
        ("subscribe-first", Contract::First(10)),
        ("subscribe-all", Contract::ALL),
        (
            "subscribe-sampled",
            Contract::Sampled(Duration::from_micros(250)),
        ),
    ];
    for (subscription, (name, contract)) in (1..).zip(contracts) {
        add(samples, name, "Handles ascending and descending", |out| {
            let mut frame = subscribe(out, 6, terms(subscription, contract), None);
            [5, 6, 100, 3]
                .into_iter()
                .for_each(|handle| frame.push(&item(handle, 0)));
            frame.finish(false);
        });
    }
    add(
        samples,
        "subscribe-resume",
        "Going on behind known positions, one page of more",
        |out| {
            let contract = Contract::All {
                elements: 5000,
                bytes: 1 << 20,
            };
            let flags = SubscribeFlags {
                only_changes: false,
                own_suppressed: true,
                recorded: false,
            };
            let terms = SubscribeTerms {
                flags,
                ..terms(9, contract)
            };
            let mut frame = subscribe(out, 7, terms, Some(42));
            frame.push(&item(5, 812));
            frame.push(&item(6, 0));
            frame.push(&item(4_000_000_000, u64::from(u32::MAX) + 1));
            frame.finish(true);
        },
    );
}

fn results(samples: &mut Vec<Sample>) {
    let limit = FaultRef {
        code: FaultCode::LimitReached,
        sentence: "2000000 items are open",
    };
    add(samples, "subscribed", "All four succeeded", |out| {
        let mut results = ResultsBuilder::subscribed(out, 6, 0);
        (0..4).for_each(|_| results.push_ok());
        results.finish(false);
    });
    add(
        samples,
        "subscribed-exceptions",
        "Two of five were refused; more follows",
        |out| {
            let mut results = ResultsBuilder::subscribed(out, 6, 2000);
            results.push_ok();
            results.push_fault(limit);
            results.push_ok();
            results.push_ok();
            results.push_fault(FaultRef {
                code: FaultCode::Denied,
                sentence: "",
            });
            results.finish(true);
        },
    );
    add(samples, "closed", "Two items closed", |out| {
        let mut results = ResultsBuilder::closed(out, 8, 0);
        (0..2).for_each(|_| results.push_ok());
        results.finish(false);
    });
    add(
        samples,
        "requested",
        "One source was asked, one is gone",
        |out| {
            let mut results = ResultsBuilder::requested(out, 9, 0);
            results.push_ok();
            results.push_fault(FaultRef {
                code: FaultCode::ProviderGone,
                sentence: "rack1 is gone",
            });
            results.finish(false);
        },
    );
}

const HANDLES: [u32; 5] = [5, 6, 7, 1_000_000, 0];

fn reads(samples: &mut Vec<Sample>) {
    type Begin = fn(&mut Vec<u8>) -> HandlesBuilder<'_>;
    let lists: [(&'static str, &'static str, Begin); 5] = [
        ("read", "Asks for readings", |out| {
            HandlesBuilder::read(out, 10)
        }),
        ("close", "Closes handles", |out| {
            HandlesBuilder::close(out, 11)
        }),
        ("info", "Asks for everything known", |out| {
            HandlesBuilder::info(out, 12)
        }),
        ("request-value", "Asks the sources", |out| {
            HandlesBuilder::request_value(out, 13)
        }),
        ("gone", "Variables are no more", |out| {
            HandlesBuilder::gone(out)
        }),
    ];
    for (name, description, begin) in lists {
        add(samples, name, description, |out| {
            let mut frame = begin(out);
            HANDLES.iter().for_each(|handle| frame.push(handle));
            frame.finish(name == "read");
        });
    }
    let whole = UnsubscribeHead { subscription: 7 };
    add(samples, "unsubscribe", "Ends some items", |out| {
        let mut frame = UnsubscribeBuilder::begin(out, 14, &whole);
        HANDLES.iter().for_each(|handle| frame.push(handle));
        frame.finish(false);
    });
    add(samples, "unsubscribe-whole", "Ends a subscription", |out| {
        UnsubscribeBuilder::begin(out, 15, &whole).finish(false);
    });
    add(
        samples,
        "readings",
        "A number, a text, nothing yet, and a fault",
        |out| {
            let mut readings = ReadingsBuilder::begin(out, 10, 0);
            readings.push(&reading(5, 812, &72.5_f64.to_le_bytes()));
            let quality = Quality::bad(Reason::SensorFailure);
            readings.push(&UpdateRecord {
                quality,
                ..reading(6, 3, b"\x04warm")
            });
            readings.push(&UpdateRecord::nothing_yet(7));
            let sentence = "valves/code can only be written";
            readings.push_fault(FaultRef {
                code: FaultCode::NotReadable,
                sentence,
            });
            readings.finish(false);
        },
    );
}

fn writes(samples: &mut Vec<Sample>) {
    let plain = WriteOptions::default();
    add(samples, "write", "Plain writes of several types", |out| {
        let mut write = WriteBuilder::begin(out, 1000);
        write.push_value(5, &plain, &Value::F64(72.5));
        write.push_value(6, &plain, &Value::Bool(true));
        write.push_value(3, &plain, &Value::Enum(2));
        write.push_value(9, &plain, &Value::String("ready".into()));
        write.finish();
    });
    add(
        samples,
        "write-options",
        "Every option, alone and together",
        |out| {
            let mut write = WriteBuilder::begin(out, u64::MAX);
            let value = 7_i32.to_le_bytes();
            let (source_timestamp, quality) =
                (Some(NOW), Some(Quality::uncertain(Reason::Estimated)));
            for options in [
                WriteOptions {
                    source_timestamp,
                    ..plain
                },
                WriteOptions { quality, ..plain },
                WriteOptions { raw: true, ..plain },
                WriteOptions {
                    verb: Ok(WriteVerb::Set),
                    ..plain
                },
                WriteOptions {
                    try_only: true,
                    ..plain
                },
                WriteOptions {
                    source_timestamp,
                    quality,
                    raw: true,
                    verb: Ok(WriteVerb::Set),
                    try_only: true,
                    ..plain
                },
            ] {
                write.push(5, &options, &value);
            }
            write.finish();
        },
    );
    add(
        samples,
        "write-orders",
        "What only an extension says: send, request, force, unforce, expected, superseded",
        |out| {
            let mut write = WriteBuilder::begin(out, 9);
            let of = |verb| WriteOptions {
                verb: Ok(verb),
                ..plain
            };
            for verb in [WriteVerb::Send, WriteVerb::Request, WriteVerb::Unforce] {
                write.push(5, &of(verb), &[]);
            }
            write.push_value(5, &of(WriteVerb::Force), &Value::F64(1.5));
            let options = WriteOptions {
                source_timestamp: Some(NOW),
                expected: Some(Position {
                    epoch: 12,
                    sequence: 345,
                }),
                superseded: 17,
                ..plain
            };
            write.push_value(6, &options, &Value::Bool(true));
            write.finish();
        },
    );
    add(samples, "publish", "A provider's values", |out| {
        let mut write = WriteBuilder::begin_publish(out, 1);
        let options = WriteOptions {
            source_timestamp: Some(NOW),
            raw: true,
            ..plain
        };
        write.push_value(5, &options, &Value::U16(4095));
        write.finish();
    });
    add(
        samples,
        "provider-write",
        "A write for the provider to carry out",
        |out| {
            let mut write = WriteBuilder::begin_provider_write(out, 77);
            write.push_value(5, &plain, &Value::F64(60.0));
            write.finish();
        },
    );
}

fn write_answers(samples: &mut Vec<Sample>) {
    add(
        samples,
        "write-answers",
        "All applied, at ascending sequences",
        |out| {
            let mut answers =
                WriteAnswersBuilder::begin(out, 0, &WriteAnswersHead { first_write: 1000 });
            (813..818).for_each(|sequence| answers.push(&WriteAnswer::Applied(sequence)));
            answers.finish(false);
        },
    );
    add(samples, "write-answers-outcomes", "Every outcome", |out| {
        let sentence = "120 is outside 0 to 100 %";
        let refused = FaultRef {
            code: FaultCode::OutOfRange,
            sentence,
        };
        let unknown = FaultRef {
            code: FaultCode::TimedOut,
            sentence: "",
        };
        let mut answers = WriteAnswersBuilder::begin(out, 0, &WriteAnswersHead { first_write: 5 });
        for outcome in [
            WriteAnswer::Applied(10),
            WriteAnswer::Unchanged(10),
            WriteAnswer::Superseded,
            WriteAnswer::Refused(refused),
            WriteAnswer::NotTried(WouldBlock),
            WriteAnswer::Unknown(unknown),
            WriteAnswer::Applied(1 << 63),
            WriteAnswer::Applied(2),
        ] {
            answers.push(&outcome);
        }
        answers.finish(false);
    });
}

fn subscribe(
    out: &mut Vec<u8>,
    request: u32,
    terms: SubscribeTerms,
    resume_epoch: Option<u64>,
) -> SubscribeBuilder<'_> {
    let head = SubscribeHead {
        terms,
        resume_epoch,
    };
    SubscribeBuilder::begin(out, request, &head)
}
