//! What a client asks of an engine, and the answers.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::time::Duration;
use trunkline_proto::message::engine::{EngineInfo, LibraryInfo};
use trunkline_proto::message::find::{Find, FindCondition};
use trunkline_proto::message::handles::{Handles, HandlesBuilder, Unsubscribe};
use trunkline_proto::message::info::{
    InfoAnswer, InfoAnswerBuilder, ReaderInfo, SubscriptionInfo, VariableInfo,
};
use trunkline_proto::message::open::{
    Open, OpenBuilder, OpenOptions, OpenTerms, Opened, OpenedBuilder,
};
use trunkline_proto::message::provider::{begin_provider_request, decode_provider_request};
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::results::{Results, ResultsBuilder};
use trunkline_proto::message::subscribe::{Subscribe, SubscribeBuilder, SubscribeItem};
use trunkline_proto::message::watch::{
    Appeared, AppearedBuilder, AppearedVariable, Vanished, begin_vanished,
};
use trunkline_types::ledger::{SubscriptionLedger, UpstreamLedger};
use trunkline_types::{DataType, Properties, Timestamp};

use super::{
    access, all, data_type, fault, fault_ref, frame, handle, joined, number, record, terms, text,
    time,
};

proptest! {
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
    fn find(cursor: u64, limit: u32, pattern in text(),
        conditions in vec((text(), any::<u8>(), text()), 0..5)) {
        let mut out = Vec::new();
        let find = Find { cursor, limit, pattern: &pattern };
        let conditions: Vec<_> = conditions.iter().map(|(field, comparison, value)| {
            FindCondition { field, comparison: *comparison, value }
        }).collect();
        find.encode_with(conditions.iter().copied(), 1, &mut out);
        let read = frame(&out);
        let (found, read) = Find::decode(&read).unwrap();
        prop_assert_eq!((found, all(read)), (find, conditions));
    }

    #[test]
    fn watching(watch: u32, revision: u64, listed: bool,
        items in vec((handle(), text(), data_type(), access()), 0..8)) {
        let mut out = Vec::new();
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
    fn info(first: u32, name in text(), counters: [u64; 8], others: [u32; 4], time in time(),
        subscriptions in vec((terms(), any::<[u64; 9]>()), 0..5),
        texts in vec((text(), text(), any::<u32>()), 0..5), at in fault()) {
        let [offered, written, unchanged, superseded, refused, ..] = counters;
        // Fields that are swapped are found only if no two have the same value.
        let text = |field: &str| format!("{field} of {name}");
        let [sequence, subscribers, lease_left, writers_waiting] = others.map(u64::from);
        let info = VariableInfo {
            name: name.clone(), sequence, engine_timestamp: time, subscribers,
            upstream: UpstreamLedger {
                offered, written, unchanged, superseded, refused,
                unknown: counters[5], fifo_overflow: counters[6], upstream_lost: counters[7],
            },
            last_writer: text("writer"), audit: text("audit"), source_state: text("state"),
            held_by: text("holder"), lease_left: Duration::from_millis(lease_left),
            writers_waiting,
            properties: Properties::new(DataType::F64), forced: None,
            readers: texts.into_iter().map(|(from, transport, session)| ReaderInfo {
                session, from, transport, repaired: u64::from(session) % 5,
            }).collect(),
            subscriptions: subscriptions.into_iter().map(|(terms, n)| SubscriptionInfo {
                terms,
                ledger: SubscriptionLedger {
                    written: n[0], filtered: n[1], coalesced: n[2], dropped_queue: n[3],
                    dropped_overrun: n[4], dropped_disconnect: n[5], waiting: n[6],
                    sent_unconfirmed: n[7], received: n[8], repaired: n[8] % 3,
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
}
