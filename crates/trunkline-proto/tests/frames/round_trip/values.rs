//! Values and writes in transit, and their outcomes.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use trunkline_proto::message::group::{GroupWrite, GroupWriteBuilder};
use trunkline_proto::message::read::{Readings, ReadingsBuilder};
use trunkline_proto::message::snapshot::{SnapshotHead, begin_snapshot, decode_snapshot};
use trunkline_proto::message::updates::{Updates, UpdatesBuilder, run_header};
use trunkline_proto::message::write::{WriteBuilder, WriteOptions, WriteVerb, Writes};
use trunkline_types::{Position, Value};

use super::{
    all, bytes, fault, fault_ref, frame, handle, joined, number, quality, record, text, time,
};

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
                Ok(WriteVerb::Put), Ok(WriteVerb::Set), Ok(WriteVerb::Send), Ok(WriteVerb::Request),
                Ok(WriteVerb::Force), Ok(WriteVerb::Unforce), Err(200),
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
        request: u32, try_only: bool,
        items in vec((handle(), option::of(time()), bytes()), 1..10)
    ) {
        let mut out = Vec::new();
        let mut builder = GroupWriteBuilder::begin(&mut out, request, try_only);
        let mut expected = Vec::new();
        for ((handle, source_timestamp, value), place) in items.iter().zip(0_u64..) {
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
}
