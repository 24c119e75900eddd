//! Opening, subscribing and deploying.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use trunkline_proto::message::library::{Deploy, DeployBuilder, DeployHead};
use trunkline_proto::message::open::{OpenOptions, Opened, OpenedBuilder};
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::results::{Results, ResultsBuilder};
use trunkline_types::{DataType, Properties, VariableDefinition};

use super::{access, all, data_type, fault, fault_ref, frame, handle, joined, record};

proptest! {
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
}
