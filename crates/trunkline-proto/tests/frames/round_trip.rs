//! What is encoded is decoded, whatever it is.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use trunkline_proto::frame::Frame;
use trunkline_proto::message::audit::{Audit, AuditPageBuilder, AuditPageFrame, AuditPageHead};
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::ended::{EndReason, Ended, EndedBuilder, EndedHead, EndedItem};
use trunkline_proto::message::engine::{EngineInfo, LibraryInfo};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::find::{Find, FindCondition, FoundVariable, Names, NamesBuilder};
use trunkline_proto::message::forcing::{
    Forced, ForcedBuilder, ForcedEntry, ForcedHead, Forcing, ForcingVerb,
};
use trunkline_proto::message::group::{
    GroupAnswer, GroupAnswerBuilder, GroupHead, GroupWrite, GroupWriteBuilder,
};
use trunkline_proto::message::handles::{Handles, HandlesBuilder, Unsubscribe};
use trunkline_proto::message::hello::{Hello, Resume, Welcome};
use trunkline_proto::message::info::{
    InfoAnswer, InfoAnswerBuilder, SubscriptionInfo, VariableInfo,
};
use trunkline_proto::message::keepalive::{Ack, AckBuilder, Grant, Keepalive};
use trunkline_proto::message::lease::{
    Granted, Lease, LeaseBuilder, LeaseHead, LeaseVerb, Leased, LeasedBuilder,
};
use trunkline_proto::message::library::{
    Deploy, DeployBuilder, DeployHead, LibraryAfter, LibraryOrder, LibraryReport, LibraryVerb,
};
use trunkline_proto::message::lost::{LostBuilder, LostRecord, LostRecords};
use trunkline_proto::message::open::{Open, OpenBuilder, OpenOptions, OpenTerms};
use trunkline_proto::message::open::{Opened, OpenedBuilder};
use trunkline_proto::message::outcome::WriteOutcome;
use trunkline_proto::message::provider::{
    Provide, ProvideBuilder, ProviderAnswer, ProviderAnswers, ProviderAnswersBuilder, ProviderBind,
    ProviderBindBuilder, ProviderOutcome, ReadBack, begin_provider_request,
    decode_provider_request,
};
use trunkline_proto::message::read::{Readings, ReadingsBuilder};
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::results::{Results, ResultsBuilder};
use trunkline_proto::message::snapshot::{SnapshotHead, begin_snapshot, decode_snapshot};
use trunkline_proto::message::subscribe::{
    Subscribe, SubscribeBuilder, SubscribeItem, SubscribeTerms,
};
use trunkline_proto::message::updates::{Updates, UpdatesBuilder, run_header};
use trunkline_proto::message::watch::{
    Appeared, AppearedBuilder, AppearedVariable, Vanished, Watch, begin_vanished, decode_unwatch,
    encode_unwatch,
};
use trunkline_proto::message::why::{
    Why, WhyAnswer, WhyAnswerBuilder, WhyStage, WhyStep, WhyVerdict,
};
use trunkline_proto::message::write::{WriteBuilder, WriteOptions, WriteVerb, Writes};
use trunkline_proto::message::write_answers::{WriteAnswers, WriteAnswersBuilder};
use trunkline_proto::{FaultCode, FaultRef, Features, Throughput, VersionRange};
use trunkline_types::ledger::{SubscriptionLedger, UpstreamLedger};
use trunkline_types::{
    Access, AuditAction, AuditEntry, AuditOutcome, Contract, DataType, EnumType, Position,
    Properties, Quality, Timestamp, Value, VariableDefinition,
};

/// The one frame in `bytes`.
fn frame(bytes: &[u8]) -> Frame<'_> {
    let mut rest = bytes;
    let frame = Frame::take_from(&mut rest).unwrap().expect("a whole frame");
    assert!(rest.is_empty());
    frame
}

fn all<T, E: std::fmt::Debug>(items: impl Iterator<Item = Result<T, E>>) -> Vec<T> {
    items.map(Result::unwrap).collect()
}

/// Numbers near each other and far apart, as handles and sequences are.
fn handle() -> impl Strategy<Value = u32> {
    prop_oneof![0..50_u32, any::<u32>(), Just(u32::MAX)]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..200_u64, any::<u64>(), Just(u64::MAX)]
}

fn time() -> impl Strategy<Value = Timestamp> {
    let nanos = prop_oneof![
        any::<i64>(),
        1_790_000_000_000_000_000..1_790_000_000_000_100_000_i64,
        Just(i64::MAX),
        Just(i64::MIN)
    ];
    nanos.prop_map(Timestamp::from_nanos)
}

fn quality() -> impl Strategy<Value = Quality> {
    prop_oneof![
        Just(Quality::GOOD),
        any::<u32>().prop_map(Quality::from_bits)
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..20), vec(any::<u8>(), 120..140)]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/]{0,12}", any::<String>()]
}

fn code() -> impl Strategy<Value = FaultCode> {
    (1..=u16::MAX).prop_map(FaultCode::from_number)
}

fn fault() -> impl Strategy<Value = (FaultCode, String)> {
    (code(), "[ -~]{0,40}")
}

fn contract() -> impl Strategy<Value = Contract> {
    prop_oneof![
        Just(Contract::Latest),
        any::<u32>().prop_map(Contract::Last),
        any::<u32>().prop_map(Contract::First),
        (1..=u32::MAX, 1..=u32::MAX)
            .prop_map(|(elements, bytes)| Contract::All { elements, bytes }),
        any::<u64>().prop_map(|nanos| Contract::Sampled(Duration::from_nanos(nanos))),
    ]
}

fn terms() -> impl Strategy<Value = SubscribeTerms> {
    (any::<u32>(), contract(), any::<(bool, bool)>()).prop_map(|(subscription, contract, flags)| {
        let flags = SubscribeFlags {
            only_changes: flags.0,
            own_suppressed: flags.1,
        };
        SubscribeTerms {
            subscription,
            contract,
            flags,
        }
    })
}

fn data_type() -> impl Strategy<Value = DataType> {
    let labels = vec!["OFF".into(), "AUTO".into()];
    prop::sample::select(vec![
        DataType::F64,
        DataType::Bool,
        DataType::String,
        DataType::Enum(Arc::new(EnumType { labels })),
    ])
}

fn access() -> impl Strategy<Value = Access> {
    prop::sample::select(&[Access::ReadWrite, Access::ReadOnly, Access::WriteOnly])
}

/// An update record whose value is owned beside it.
fn record() -> impl Strategy<Value = (UpdateRecord<'static>, Option<Vec<u8>>)> {
    let fields = (
        handle(),
        number(),
        time(),
        time(),
        quality(),
        any::<(bool, bool)>(),
    );
    (fields, option::of(bytes())).prop_map(|(fields, value)| {
        let (handle, sequence, engine_timestamp, source, quality, (own, same)) = fields;
        let source_timestamp = if same { engine_timestamp } else { source };
        let record = UpdateRecord {
            handle,
            sequence,
            engine_timestamp,
            source_timestamp,
            quality,
            own,
            value: None,
        };
        (record, value)
    })
}

fn joined<'a>((record, value): &'a (UpdateRecord<'static>, Option<Vec<u8>>)) -> UpdateRecord<'a> {
    UpdateRecord {
        value: value.as_deref(),
        ..*record
    }
}

fn fault_ref((code, sentence): &(FaultCode, String)) -> FaultRef<'_> {
    FaultRef {
        code: *code,
        sentence,
    }
}

fn throughput() -> impl Strategy<Value = Throughput> {
    any::<(u32, u32)>().prop_map(|(bytes, micros)| Throughput {
        bytes,
        delay: Duration::from_micros(micros.into()),
    })
}

proptest! {
    #[test]
    fn updates(subscription: u32, records in vec(record(), 1..12)) {
        let mut out = Vec::new();
        let mut builder = UpdatesBuilder::begin(&mut out, subscription);
        records.iter().for_each(|at| builder.push(&joined(at)));
        prop_assert_eq!(builder.count() as usize, records.len());
        builder.finish();
        let updates = Updates::decode(&frame(&out)).unwrap();
        prop_assert_eq!(updates.subscription(), subscription);
        prop_assert_eq!(all(updates), records.iter().map(joined).collect::<Vec<_>>());
        // A run that was written once and gets a header per subscriber is the same frame.
        let run = &out[16..];
        let header = run_header(subscription, records.len() as u32, run);
        prop_assert_eq!(&header[..], &out[..16]);
    }

    #[test]
    fn readings(request: u32, first: u32, items in vec(prop_oneof![
        record().prop_map(Ok), fault().prop_map(Err)
    ], 0..8), more: bool) {
        let mut out = Vec::new();
        let mut builder = ReadingsBuilder::begin(&mut out, request, first);
        for item in &items {
            match item {
                Ok(at) => builder.push(&joined(at)),
                Err(at) => builder.push_fault(fault_ref(at)),
            }
        }
        builder.finish(more);
        let frame = frame(&out);
        let readings = Readings::decode(&frame).unwrap();
        prop_assert_eq!((frame.request(), frame.has_more()), (request, more));
        prop_assert_eq!(readings.first_index(), first);
        let expected: Vec<_> =
            items.iter().map(|item| item.as_ref().map(joined).map_err(fault_ref)).collect();
        prop_assert_eq!(all(readings), expected);
    }

    #[test]
    fn writes(first: u64, items in vec((
        handle(), option::of(time()), option::of(quality()), any::<(bool, u8, bool)>(), bytes(),
        option::of(any::<(u64, u64)>()), any::<u32>()
    ), 1..10)) {
        let mut out = Vec::new();
        let mut builder = WriteBuilder::begin(&mut out, first);
        let mut expected = Vec::new();
        for (handle, source_timestamp, quality, (raw, verb, try_only), value, at, superseded)
            in &items {
            let verbs = [
                WriteVerb::Put, WriteVerb::Set, WriteVerb::Send, WriteVerb::Request,
                WriteVerb::Force, WriteVerb::Unforce, WriteVerb::Unknown(200),
            ];
            let verb = verbs[usize::from(*verb) % verbs.len()];
            let options = WriteOptions {
                source_timestamp: *source_timestamp, quality: *quality,
                raw: *raw, verb, try_only: *try_only, superseded: *superseded,
                expected: at.map(|(epoch, sequence)| Position { epoch, sequence }),
            };
            let write = builder.push(*handle, &options, value);
            expected.push((write, *handle, options, value.as_slice()));
        }
        builder.finish();
        let writes = Writes::decode(&frame(&out)).unwrap();
        prop_assert_eq!(writes.first_write(), first);
        let got = all(writes).into_iter().map(|w| (w.write, w.handle, w.options, w.value));
        let got: Vec<_> = got.collect();
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn groups(
        request: u32, try_only: bool, commit in number(), culprit in option::of(0..4096_u32),
        items in vec((handle(), option::of(time()), bytes(), number(), fault()), 1..10)
    ) {
        let mut out = Vec::new();
        let mut builder = GroupWriteBuilder::begin(&mut out, request, try_only);
        let mut expected = Vec::new();
        for ((handle, source_timestamp, value, ..), place) in items.iter().zip(0_u64..) {
            let options = WriteOptions {
                source_timestamp: *source_timestamp, ..WriteOptions::default()
            };
            builder.push(*handle, &options, value);
            expected.push((place, *handle, options, value.as_slice()));
        }
        builder.finish();
        let group = GroupWrite::decode(&frame(&out)).unwrap();
        prop_assert_eq!((group.try_only(), frame(&out).request()), (try_only, request));
        let got: Vec<_> = all(group).into_iter()
            .map(|w| (w.write, w.handle, w.options, w.value)).collect();
        prop_assert_eq!(got, expected);

        let head = GroupHead { commit: (commit > 0).then_some(commit), culprit };
        let outcomes: Vec<_> = items.iter().map(|(.., sequence, fault)| match sequence % 3 {
            0 => WriteOutcome::Applied { sequence: *sequence },
            1 => WriteOutcome::Unchanged { sequence: *sequence },
            _ => WriteOutcome::Refused(fault_ref(fault)),
        }).collect();
        out.clear();
        let mut builder = GroupAnswerBuilder::begin(&mut out, request, head);
        outcomes.iter().for_each(|outcome| builder.push(outcome));
        builder.finish();
        let answer = GroupAnswer::decode(&frame(&out)).unwrap();
        prop_assert_eq!(answer.head(), head);
        prop_assert_eq!(all(answer), outcomes);
    }

    #[test]
    fn snapshots(request: u32, first: u32, is_consistent: bool, commit in number(),
        instant in time(), faults in vec(fault(), 1..5)
    ) {
        let head = SnapshotHead { is_consistent, commit, instant };
        let mut out = Vec::new();
        let mut builder = begin_snapshot(&mut out, request, first, head);
        faults.iter().for_each(|fault| builder.push_fault(fault_ref(fault)));
        builder.finish(true);
        let bytes = frame(&out);
        let (got, readings) = decode_snapshot(&bytes).unwrap();
        prop_assert_eq!((got, readings.first_index()), (head, first));
        let expected: Vec<_> = faults.iter().map(|fault| Err(fault_ref(fault))).collect();
        prop_assert_eq!(all(readings), expected);
    }

    #[test]
    fn leases(request: u32, verb in 0..3_usize, millis: u32, epoch in option::of(number()),
        first: u32, items in vec((handle(), number(), option::of(fault())), 1..10)
    ) {
        let verb = [LeaseVerb::Acquire, LeaseVerb::Renew, LeaseVerb::Release][verb];
        let duration = Duration::from_millis(millis.into());
        let head = LeaseHead { verb, duration, expected_epoch: epoch };
        let mut out = Vec::new();
        let mut builder = LeaseBuilder::begin(&mut out, request, &head);
        items.iter().for_each(|(handle, sequence, _)| builder.push(*handle, *sequence));
        builder.finish(false);
        let lease = Lease::decode(&frame(&out)).unwrap();
        prop_assert_eq!(lease.head(), head);
        let expected: Vec<_> = items.iter()
            .map(|(handle, sequence, _)| (*handle, if epoch.is_some() { *sequence } else { 0 }))
            .collect();
        prop_assert_eq!(all(lease), expected);

        out.clear();
        let mut builder = LeasedBuilder::begin(&mut out, request, first);
        let mut expected = Vec::new();
        for (_, sequence, fault) in &items {
            match fault {
                Some(fault) => {
                    builder.push_fault(fault_ref(fault));
                    expected.push(Err(fault_ref(fault)));
                }
                None => {
                    let granted = Granted { duration, sequence: *sequence };
                    builder.push(&granted);
                    expected.push(Ok(granted));
                }
            }
        }
        builder.finish(true);
        let bytes = frame(&out);
        let leased = Leased::decode(&bytes).unwrap();
        prop_assert_eq!(leased.first_index(), first);
        prop_assert_eq!(all(leased), expected);
    }

    #[test]
    fn a_value_written_in_place_is_the_value_in_wire_form(
        handle in handle(), number: f64, text in text()
    ) {
        let values = [Value::F64(number), Value::String(text.as_str().into())];
        let (mut in_place, mut given) = (Vec::new(), Vec::new());
        let mut builder = WriteBuilder::begin(&mut in_place, 1);
        values.iter().for_each(|value| {
            builder.push_value(handle, &WriteOptions::default(), value);
        });
        builder.finish();
        let mut builder = WriteBuilder::begin(&mut given, 1);
        for value in &values {
            let mut wire = Vec::new();
            trunkline_types::wire::encode_value(value, &mut wire);
            builder.push(handle, &WriteOptions::default(), &wire);
        }
        builder.finish();
        prop_assert_eq!(in_place, given);
    }

    #[test]
    fn write_answers(first: u64, items in vec((0..6_u8, number(), fault()), 1..20)) {
        let outcomes: Vec<_> = items.iter().map(|(kind, sequence, fault)| match kind {
            0 => WriteOutcome::Applied { sequence: *sequence },
            1 => WriteOutcome::Unchanged { sequence: *sequence },
            2 => WriteOutcome::Superseded,
            3 => WriteOutcome::Refused(fault_ref(fault)),
            4 => WriteOutcome::WouldBlock,
            _ => WriteOutcome::Unknown(fault_ref(fault)),
        }).collect();
        let mut out = Vec::new();
        let mut builder = WriteAnswersBuilder::begin(&mut out, first);
        outcomes.iter().for_each(|outcome| builder.push(outcome));
        builder.finish();
        let answers = WriteAnswers::decode(&frame(&out)).unwrap();
        let ids = (0..).map(|index| first.wrapping_add(index));
        prop_assert_eq!(all(answers), ids.zip(outcomes).collect::<Vec<_>>());
    }

    #[test]
    fn lost(subscription: u32, items in vec((handle(), any::<[u64; 4]>(), any::<bool>()), 1..10)) {
        let records: Vec<LostRecord> = items.iter().map(|(handle, counts, unknown)| LostRecord {
            handle: *handle, filtered: counts[0], queue: counts[1], overrun: counts[2],
            disconnect: counts[3] % 3, unknown: *unknown,
        }).collect();
        let mut out = Vec::new();
        let mut builder = LostBuilder::begin(&mut out, subscription);
        records.iter().for_each(|record| builder.push(record));
        builder.finish();
        let lost = LostRecords::decode(&frame(&out)).unwrap();
        prop_assert_eq!(lost.subscription(), subscription);
        prop_assert_eq!(all(lost), records);
    }

    #[test]
    fn ended(subscription: u32, reason: u8, epoch: u64, sentence in "[ -~]{0,60}",
        items in vec((handle(), number(), number()), 1..6)) {
        let reason = EndReason::from_number(reason);
        let head = EndedHead { subscription, reason, epoch, sentence: &sentence };
        let items: Vec<EndedItem> = items.into_iter()
            .map(|(handle, last_sequence, lost)| EndedItem { handle, last_sequence, lost })
            .collect();
        let mut out = Vec::new();
        let mut builder = EndedBuilder::begin(&mut out, &head);
        items.iter().for_each(|item| builder.push(item));
        builder.finish();
        let ended = Ended::decode(&frame(&out)).unwrap();
        prop_assert_eq!(ended.head(), head);
        prop_assert_eq!(all(ended), items);
    }

    #[test]
    fn handles(request: u32, subscription: u32, list in vec(handle(), 0..20), more: bool) {
        let mut out = Vec::new();
        let mut builder = HandlesBuilder::read(&mut out, request);
        list.iter().for_each(|handle| builder.push(*handle));
        builder.finish(more);
        prop_assert_eq!(all(Handles::decode(&frame(&out)).unwrap()), list.clone());
        out.clear();
        let mut builder = HandlesBuilder::unsubscribe(&mut out, request, subscription);
        list.iter().for_each(|handle| builder.push(*handle));
        builder.finish(more);
        let message = Unsubscribe::decode(&frame(&out)).unwrap();
        prop_assert_eq!(message.subscription, subscription);
        prop_assert_eq!(message.is_whole(), list.is_empty());
        prop_assert_eq!(all(message.handles), list.clone());
        out.clear();
        let mut builder = begin_provider_request(&mut out, 1 << 40);
        list.iter().for_each(|handle| builder.push(*handle));
        builder.finish(more);
        let (ticket, handles) = decode_provider_request(&frame(&out)).unwrap();
        prop_assert_eq!((ticket, all(handles)), (1 << 40, list));
    }

    #[test]
    fn subscribe(request: u32, terms in terms(), epoch: Option<u64>,
        items in vec((handle(), number()), 0..12), more: bool) {
        let items: Vec<SubscribeItem> = items.into_iter().map(|(handle, sequence)| SubscribeItem {
            handle, last_sequence: if epoch.is_some() { sequence } else { 0 },
        }).collect();
        let mut out = Vec::new();
        let mut builder = SubscribeBuilder::begin(&mut out, request, &terms, epoch);
        items.iter().for_each(|item| builder.push(item));
        builder.finish(more);
        let subscribe = Subscribe::decode(&frame(&out)).unwrap();
        prop_assert_eq!((subscribe.terms(), subscribe.resume_epoch()), (terms, epoch));
        prop_assert_eq!(all(subscribe), items);
    }

    #[test]
    fn open(request: u32, read: bool, describe: bool, subscribe in option::of(terms()),
        names in vec(text(), 0..10), more: bool) {
        let terms = OpenTerms { options: OpenOptions { read, describe }, subscribe };
        let mut out = Vec::new();
        let mut builder = OpenBuilder::begin(&mut out, request, &terms);
        names.iter().for_each(|name| builder.push(name));
        builder.finish(more);
        let open = Open::decode(&frame(&out)).unwrap();
        prop_assert_eq!(open.terms(), terms);
        prop_assert_eq!(all(open), names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn opened(first: u32, read: bool, describe: bool, items in vec(prop_oneof![
        4 => (handle(), data_type(), access(), record(), "[a-z]{0,5}").prop_map(Ok),
        1 => fault().prop_map(Err),
    ], 0..10)) {
        let options = OpenOptions { read, describe };
        let properties = |ty: &DataType, units: &str| {
            Properties { units: units.into(), ..Properties::new(ty.clone()) }
        };
        let mut out = Vec::new();
        let mut builder = OpenedBuilder::begin(&mut out, 1, options, first);
        for item in &items {
            match item {
                Ok((handle, ty, access, record, units)) => {
                    let properties = properties(ty, units);
                    builder.push(*handle, ty, *access, Some(&joined(record)), Some(&properties));
                }
                Err(at) => builder.push_fault(fault_ref(at)),
            }
        }
        builder.finish(false);
        let opened = Opened::decode(&frame(&out)).unwrap();
        prop_assert_eq!((opened.options(), opened.first_index()), (options, first));
        for (got, item) in all(opened).into_iter().zip(&items) {
            match (got, item) {
                (Ok(got), Ok((handle, ty, access, record, units))) => {
                    prop_assert_eq!((got.handle, got.access), (*handle, *access));
                    prop_assert_eq!(&got.data_type, ty);
                    let reading = UpdateRecord { handle: *handle, ..joined(record) };
                    prop_assert_eq!(got.reading, read.then_some(reading));
                    prop_assert_eq!(got.properties, describe.then(|| properties(ty, units)));
                }
                (got, item) => {
                    prop_assert_eq!(got.err(), item.as_ref().err().map(fault_ref));
                }
            }
        }
    }

    #[test]
    fn results(
        request: u32, first in 0..1000_u32, items in vec(option::of(fault()), 0..20), more: bool
    ) {
        let mut out = Vec::new();
        let mut builder = ResultsBuilder::subscribed(&mut out, request, first);
        for item in &items {
            match item {
                None => builder.push_ok(),
                Some(at) => builder.push_fault(fault_ref(at)),
            }
        }
        builder.finish(more);
        let results = Results::decode(&frame(&out)).unwrap();
        prop_assert_eq!((results.first_index(), results.answered() as usize), (first, items.len()));
        let expected: Vec<_> = (first..).zip(&items)
            .filter_map(|(index, item)| Some((index, fault_ref(item.as_ref()?)))).collect();
        prop_assert_eq!(all(results), expected);
    }

    #[test]
    fn find_and_names(cursor: u64, limit: u32, pattern in text(), next: u64,
        conditions in vec((text(), any::<u8>(), text()), 0..5),
        items in vec((text(), data_type(), access()), 0..8)) {
        let mut out = Vec::new();
        let find = Find { cursor, limit, pattern: &pattern };
        let conditions: Vec<_> = conditions.iter().map(|(field, comparison, value)| {
            FindCondition { field, comparison: *comparison, value }
        }).collect();
        find.encode_with(conditions.iter().copied(), 1, &mut out);
        let read = frame(&out);
        let (found, read) = Find::decode(&read).unwrap();
        prop_assert_eq!((found, all(read)), (find, conditions));
        out.clear();
        let mut builder = NamesBuilder::begin(&mut out, 1);
        items.iter().for_each(|(name, ty, access)| builder.push(name, ty, *access));
        builder.finish(next);
        let names = Names::decode(&frame(&out)).unwrap();
        prop_assert_eq!(names.next_cursor(), (next != 0).then_some(next));
        let expected: Vec<_> = items.iter().map(|(name, ty, access)| FoundVariable {
            name, data_type: ty.clone(), access: *access,
        }).collect();
        prop_assert_eq!(all(names), expected);
    }

    #[test]
    fn watching(watch: u32, revision: u64, listed: bool, pattern in text(),
        items in vec((handle(), text(), data_type(), access()), 0..8)) {
        let mut out = Vec::new();
        let asked = Watch { watch, pattern: &pattern };
        asked.encode(1, &mut out);
        prop_assert_eq!(Watch::decode(&frame(&out)).unwrap(), asked);
        out.clear();
        encode_unwatch(watch, &mut out);
        prop_assert_eq!(decode_unwatch(&frame(&out)).unwrap(), watch);
        out.clear();
        let mut builder = AppearedBuilder::begin(&mut out, 1, watch, revision);
        items.iter().for_each(|(handle, name, ty, access)| {
            builder.push(*handle, name, ty, *access);
        });
        builder.finish(listed);
        let appeared = Appeared::decode(&frame(&out)).unwrap();
        prop_assert_eq!((appeared.watch(), appeared.revision()), (watch, revision));
        prop_assert_eq!(appeared.is_listed(), listed);
        let expected: Vec<_> = items.iter().map(|(handle, name, ty, access)| AppearedVariable {
            handle: *handle, name, data_type: ty.clone(), access: *access,
        }).collect();
        prop_assert_eq!(all(appeared), expected);
        out.clear();
        let mut builder = begin_vanished(&mut out, watch, revision);
        items.iter().for_each(|(handle, ..)| builder.push(*handle));
        builder.finish(false);
        let frame = frame(&out);
        let vanished = Vanished::decode(&frame).unwrap();
        prop_assert_eq!((vanished.watch, vanished.revision), (watch, revision));
        let handles: Vec<u32> = items.iter().map(|(handle, ..)| *handle).collect();
        prop_assert_eq!(all(vanished.handles), handles);
    }

    #[test]
    fn provider_bind(items in vec((handle(), data_type(), access(), "[ -~]{0,40}"), 1..20)) {
        let mut out = Vec::new();
        let mut builder = ProviderBindBuilder::begin(&mut out);
        for (handle, data_type, access, item) in &items {
            builder.push(*handle, data_type, *access, item);
        }
        builder.finish();
        let found: Vec<_> = all(ProviderBind::decode(&frame(&out)).unwrap()).into_iter()
            .map(|bound| (bound.handle, bound.data_type, bound.access, bound.item.to_owned()))
            .collect();
        prop_assert_eq!(found, items);
    }

    #[test]
    fn deploy(library in "[ -~]{0,40}", description in "[ -~]{0,40}", replace: bool, more: bool,
        variables in vec(("[ -~]{0,40}", data_type()), 0..20)) {
        let mut out = Vec::new();
        let head = DeployHead { library: &library, description: &description, replace };
        let mut builder = DeployBuilder::begin(&mut out, 1, &head);
        let variables: Vec<_> = variables.into_iter()
            .map(|(path, ty)| VariableDefinition::new(path, ty)).collect();
        variables.iter().for_each(|variable| builder.push(variable));
        builder.finish(more);
        let deploy = Deploy::decode(&frame(&out)).unwrap();
        prop_assert_eq!(deploy.head(), head);
        prop_assert_eq!(all(deploy), variables);
    }

    #[test]
    fn library_order_and_report(library in "[ -~]{0,40}", verb in 0..4_u8, after in 0..3_u8,
        numbers in any::<[u64; 4]>()) {
        let verb = match verb {
            0 => LibraryVerb::Undeploy { force: false },
            1 => LibraryVerb::Undeploy { force: true },
            2 => LibraryVerb::Start,
            _ => LibraryVerb::Stop,
        };
        let (mut out, order) = (Vec::new(), LibraryOrder { verb, library: &library });
        order.encode(1, &mut out);
        prop_assert_eq!(LibraryOrder::decode(&frame(&out)).unwrap(), order);
        out.clear();
        let after = [LibraryAfter::Undeployed, LibraryAfter::Running, LibraryAfter::Stopped]
            [usize::from(after)];
        let [added, changed, kept, removed] = numbers;
        let report = LibraryReport { after, added, changed, kept, removed };
        report.encode(1, &mut out);
        prop_assert_eq!(LibraryReport::decode(&frame(&out)).unwrap(), report);
    }

    #[test]
    fn audit(
        from in proptest::option::of(any::<u64>()), since in proptest::option::of(any::<i64>()),
        texts in ["[ -~]{0,40}", "[ -~]{0,40}"], newest_first: bool, limit: u32,
        next in proptest::option::of(1_u64..), removed: u64,
        items in vec((any::<(u64, i64, u8, u64, u64)>(), vec("[ -~]{0,20}", 7), 1..7_u8), 0..6),
    ) {
        let mut out = Vec::new();
        let [pattern, who] = &texts;
        let since = since.map(Timestamp::from_nanos);
        let audit = Audit { from, since, pattern, who, newest_first, limit };
        audit.encode(1, &mut out);
        prop_assert_eq!(Audit::decode(&frame(&out)).unwrap(), audit);
        out.clear();
        let entries: Vec<_> = items.into_iter().map(|((number, when, action, a, b), texts, kind)| {
            let [who, from, name, data_type, old, new, sentence] = texts.try_into().unwrap();
            let position = Position { epoch: a, sequence: b };
            let outcome = match kind {
                1 => AuditOutcome::Done,
                2 => AuditOutcome::Applied(position),
                3 => AuditOutcome::Unchanged(position),
                4 => AuditOutcome::Refused(sentence),
                5 => AuditOutcome::Unknown(sentence),
                _ => AuditOutcome::Lost(a),
            };
            AuditEntry {
                number, when: Timestamp::from_nanos(when), who, from,
                action: AuditAction::from_number(action), name, data_type, old, new, outcome,
            }
        }).collect();
        let head = AuditPageHead { next, removed, state: pattern };
        let mut builder = AuditPageBuilder::begin(&mut out, 1, &head);
        entries.iter().for_each(|entry| builder.push(entry));
        builder.finish(true);
        let page = frame(&out);
        prop_assert!(page.has_more());
        let page = AuditPageFrame::decode(&page).unwrap();
        prop_assert_eq!(page.head(), head);
        prop_assert_eq!(all(page), entries);
    }

    #[test]
    fn forcing_and_forced(verb in 0..4_u8, cursor: u32, limit: u32, is_on: bool, total: u32,
        entries in vec(("[ -~]{0,40}", any::<(i64, i64)>(), time(), quality(), any::<bool>()),
        0..6)) {
        let verb = [ForcingVerb::List, ForcingVerb::On, ForcingVerb::Off, ForcingVerb::Clear]
            [usize::from(verb)];
        let (mut out, forcing) = (Vec::new(), Forcing { verb, cursor, limit });
        forcing.encode(1, &mut out);
        prop_assert_eq!(Forcing::decode(&frame(&out)).unwrap(), forcing);
        out.clear();
        let entries: Vec<_> = entries.into_iter()
            .map(|(name, (value, behind), since, quality, is_known)| ForcedEntry {
                by: name.clone(), name, data_type: DataType::I64, value: Value::I64(value), since,
                behind: is_known.then_some((Value::I64(behind), quality)),
            }).collect();
        let head = ForcedHead { is_on, total, next_cursor: cursor };
        let mut builder = ForcedBuilder::begin(&mut out, 1);
        entries.iter().for_each(|entry| builder.push(entry));
        builder.finish(&head);
        let forced = Forced::decode(&frame(&out)).unwrap();
        prop_assert_eq!(forced.head(), head);
        prop_assert_eq!(all(forced), entries);
    }

    #[test]
    fn why(name in text(), items in vec((any::<(u8, u8)>(), "[ -~]{0,40}", "[ -~]{0,40}"), 0..6)) {
        let mut out = Vec::new();
        Why { name: &name }.encode(1, &mut out);
        prop_assert_eq!(Why::decode(&frame(&out)).unwrap(), Why { name: &name });
        out.clear();
        let steps: Vec<_> = items.iter().map(|((stage, verdict), sentence, next)| WhyStep {
            stage: WhyStage::from_number(*stage), verdict: WhyVerdict::from_number(*verdict),
            sentence, next,
        }).collect();
        let mut builder = WhyAnswerBuilder::begin(&mut out, 1);
        steps.iter().for_each(|step| builder.push(step));
        builder.finish();
        prop_assert_eq!(all(WhyAnswer::decode(&frame(&out)).unwrap()), steps);
    }

    #[test]
    fn hello(versions: (u8, u8), features: u64, texts in any::<[String; 3]>(), numbers: [u32; 5],
        resume: Option<(u64, u64)>, throughput in option::of(throughput())) {
        let [client_name, program, user] = texts.map(|text| text.chars().take(60).collect());
        let [pid, frame_max, message_max, window_records, window_bytes] = numbers;
        let hello = Hello {
            versions: VersionRange { min: versions.0, max: versions.1 },
            features: Features::from_bits(features),
            client_name, program, user, pid, frame_max, message_max, window_records, window_bytes,
            resume: resume.map(|(session, epoch)| Resume { session, epoch }),
            throughput,
        };
        let mut out = Vec::new();
        hello.encode(&mut out);
        prop_assert_eq!(Hello::decode(&frame(&out)).unwrap(), hello);
    }

    #[test]
    fn welcome(version: u8, features: u64, ids: (u64, [u8; 16], u64, bool), numbers: [u32; 7],
        wall: i64, names in ("[ -~]{0,256}", "[ -~]{0,256}"),
        throughput in option::of(throughput())) {
        let [frame_max, message_max, items_max, a, b, c, d] = numbers;
        let (epoch, engine_id, session, resumed) = ids;
        let welcome = Welcome {
            version, features: Features::from_bits(features), epoch, engine_id, session, resumed,
            frame_max, message_max, items_max, write_credit_count: a, write_credit_bytes: b,
            keepalive: Duration::from_millis(c.into()), deadline: Duration::from_millis(d.into()),
            wall: Timestamp::from_nanos(wall), engine_name: names.0, engine_version: names.1,
            throughput,
        };
        let mut out = Vec::new();
        welcome.encode(&mut out);
        prop_assert_eq!(Welcome::decode(&frame(&out)).unwrap(), welcome);
    }

    #[test]
    fn closings_and_faults(
        versions: (u8, u8), retry in option::of(1..=u32::MAX), at in fault(), request: u32
    ) {
        let retry_after = retry.map(|ms| Duration::from_millis(ms.into()));
        let (code, sentence) = at.clone();
        let versions = VersionRange { min: versions.0, max: versions.1 };
        let refused = Refused { code, versions, retry_after, sentence: sentence.clone() };
        let mut out = Vec::new();
        refused.encode(&mut out);
        prop_assert_eq!(Refused::decode(&frame(&out)).unwrap(), refused);
        out.clear();
        let goodbye = Goodbye { code, retry_after, sentence };
        goodbye.encode(&mut out);
        prop_assert_eq!(Goodbye::decode(&frame(&out)).unwrap(), goodbye);
        out.clear();
        let message = FaultMessage { request, fault: fault_ref(&at) };
        message.encode(&mut out);
        prop_assert_eq!(FaultMessage::decode(&frame(&out)).unwrap(), message);
    }

    #[test]
    fn signs_of_life(numbers: [u64; 5], grants in vec(any::<(u32, u64)>(), 0..5)) {
        let [sent, echo, echo_held_ns, records_received, digest] = numbers;
        let keepalive = Keepalive { sent, echo, echo_held_ns, records_received, digest };
        let mut out = Vec::new();
        keepalive.encode(&mut out);
        prop_assert_eq!(Keepalive::decode(&frame(&out)).unwrap(), keepalive);
        out.clear();
        let mut builder = AckBuilder::begin(&mut out, records_received);
        let grants: Vec<Grant> =
            grants.into_iter().map(|(subscription, more)| Grant { subscription, more }).collect();
        grants.iter().for_each(|grant| builder.push(*grant));
        builder.finish();
        let ack = Ack::decode(&frame(&out)).unwrap();
        prop_assert_eq!(ack.records_received(), records_received);
        prop_assert_eq!(all(ack), grants);
    }

    #[test]
    fn info(first: u32, name in text(), counters: [u64; 8], time in time(),
        subscriptions in vec((terms(), any::<[u64; 9]>()), 0..5), at in fault()) {
        let [offered, written, unchanged, superseded, refused, ..] = counters;
        let info = VariableInfo {
            name: name.clone(), sequence: written, engine_timestamp: time, subscribers: offered,
            upstream: UpstreamLedger {
                offered, written, unchanged, superseded, refused,
                unknown: counters[5], fifo_overflow: counters[6], upstream_lost: counters[7],
            },
            last_writer: name.clone(), audit: name.clone(), source_state: name.clone(),
            held_by: name, lease_left: Duration::from_millis(counters[1]),
            writers_waiting: counters[2],
            properties: Properties::new(DataType::F64), forced: None,
            subscriptions: subscriptions.into_iter().map(|(terms, n)| SubscriptionInfo {
                terms,
                ledger: SubscriptionLedger {
                    written: n[0], filtered: n[1], coalesced: n[2], dropped_queue: n[3],
                    dropped_overrun: n[4], dropped_disconnect: n[5], waiting: n[6],
                    sent_unconfirmed: n[7], received: n[8],
                },
            }).collect(),
        };
        let mut out = Vec::new();
        let mut builder = InfoAnswerBuilder::begin(&mut out, 1, first);
        builder.push(&info);
        builder.push_fault(fault_ref(&at));
        builder.finish(false);
        let answer = InfoAnswer::decode(&frame(&out)).unwrap();
        prop_assert_eq!(answer.first_index(), first);
        prop_assert_eq!(all(answer), vec![Ok(info), Err(fault_ref(&at))]);
    }

    #[test]
    fn engine(texts in any::<[String; 3]>(), numbers: [u64; 4], pid: u32, started: i64,
        libraries in vec((text(), text(), any::<u64>(), text()), 0..5)) {
        let [name, version, host] = texts;
        let [epoch, uptime, variables, sessions] = numbers;
        let info = EngineInfo {
            name, version, host, epoch, uptime: Duration::from_nanos(uptime), pid, variables,
            sessions,
            started: Timestamp::from_nanos(started),
            libraries: libraries.into_iter().map(|(name, state, variables, description)| {
                LibraryInfo { name, state, variables, description }
            }).collect(),
        };
        let mut out = Vec::new();
        info.encode(1, &mut out);
        prop_assert_eq!(EngineInfo::decode(&frame(&out)).unwrap(), info);
    }

    #[test]
    fn provider(lease: u32, provider in "[ -~]{0,40}", names in vec(text(), 0..5), items in vec((
        number(), 0..3_u8, fault(), option::of(time()), option::of(quality()), option::of(bytes())
    ), 1..6)) {
        let lease = Duration::from_millis(lease.into());
        let mut out = Vec::new();
        let mut builder = ProvideBuilder::begin(&mut out, 1, lease, &provider);
        names.iter().for_each(|name| builder.push(name));
        builder.finish(false);
        let provide = Provide::decode(&frame(&out)).unwrap();
        prop_assert_eq!((provide.lease(), provide.provider()), (lease, provider.as_str()));
        prop_assert_eq!(all(provide), names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
        out.clear();
        let answers: Vec<ProviderAnswer<'_>> = items.iter()
            .map(|(ticket, kind, fault, source_timestamp, quality, value)| ProviderAnswer {
                ticket: *ticket,
                outcome: match kind {
                    0 => ProviderOutcome::Applied(ReadBack {
                        source_timestamp: *source_timestamp, quality: *quality,
                        value: value.as_deref(),
                    }),
                    1 => ProviderOutcome::Refused(fault_ref(fault)),
                    _ => ProviderOutcome::Unknown(fault_ref(fault)),
                },
            }).collect();
        let mut builder = ProviderAnswersBuilder::begin(&mut out);
        answers.iter().for_each(|answer| builder.push(answer));
        builder.finish();
        prop_assert_eq!(all(ProviderAnswers::decode(&frame(&out)).unwrap()), answers);
    }
}

#[test]
fn builders_without_items_take_their_frame_back() {
    let mut out = b"kept".to_vec();
    UpdatesBuilder::begin(&mut out, 1).finish();
    LostBuilder::begin(&mut out, 1).finish();
    WriteBuilder::begin(&mut out, 1).finish();
    WriteAnswersBuilder::begin(&mut out, 1).finish();
    ProviderAnswersBuilder::begin(&mut out).finish();
    assert_eq!(out, b"kept");
}

#[test]
fn the_usual_update_costs_five_bytes_beside_its_value() {
    // Flags, sequence, engine time (two bytes for a microsecond step), value length.
    let record = |handle, ns| UpdateRecord {
        handle,
        sequence: 10 + u64::from(handle),
        engine_timestamp: Timestamp::from_nanos(ns),
        source_timestamp: Timestamp::from_nanos(ns),
        quality: Quality::GOOD,
        own: false,
        value: Some(&[0; 8]),
    };
    let mut out = Vec::new();
    let mut builder = UpdatesBuilder::begin(&mut out, 1);
    builder.push(&record(1, 1_000_000));
    let before = builder.len_bytes();
    builder.push(&record(2, 1_001_000));
    assert_eq!(builder.len_bytes() - before, 5 + 8);
    builder.finish();
}

#[test]
fn sentences_and_hello_texts_are_cut_at_a_character() {
    let long = "é".repeat(2000);
    let mut out = Vec::new();
    let fault = FaultRef {
        code: FaultCode::Internal,
        sentence: &long,
    };
    FaultMessage { request: 1, fault }.encode(&mut out);
    let message = FaultMessage::decode(&frame(&out)).unwrap();
    assert_eq!(message.fault.sentence, "é".repeat(512));
    out.clear();
    let hello = Hello {
        client_name: long.clone(),
        program: long.clone(),
        user: long,
        ..Hello::default()
    };
    hello.encode(&mut out);
    assert!(
        out.len() < 4096,
        "a hello fits into the limit before the hello"
    );
    assert_eq!(
        Hello::decode(&frame(&out)).unwrap().client_name,
        "é".repeat(128)
    );
}
