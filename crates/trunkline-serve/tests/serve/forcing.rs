//! Tests the list of forced variables over sessions: pages, permissions and content.

use trunkline_access::{Action, Actions};
use trunkline_client::{ForcedList, Write, WriteOutcome};
use trunkline_engine::Rights;
use trunkline_proto::message::forcing::ForcingVerb;
use trunkline_proto::{FaultCode, FrameKind};
use trunkline_types::{DataType, Scope, Value};

use crate::rig::{Pair, World, define, f64_variable};

fn list(sut: &mut Pair, verb: ForcingVerb) -> ForcedList {
    let request = sut.client.forcing(verb).unwrap();
    sut.answer(request).unwrap()
}

fn refused(sut: &mut Pair, verb: ForcingVerb) -> FaultCode {
    let request = sut.client.forcing(verb).unwrap();
    sut.answer(request).unwrap_err().code
}

fn force(sut: &mut Pair, names: &[String]) {
    let variables: Vec<_> = names.iter().map(|name| sut.variable(name)).collect();
    let writes = variables
        .iter()
        .map(|variable| Write::force(*variable, Value::F64(5.0)));
    let batch = sut.client.write(writes).unwrap();
    sut.exchange();
    for outcome in sut.client.take_outcomes(batch).unwrap() {
        assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
    }
}

/// Behaviour: H-27.
#[test]
fn list_is_sent_in_pages() {
    let names: Vec<String> = (0..1_500).map(|n| format!("v{n}")).collect();
    let variables = names.iter().map(|name| f64_variable(name)).collect();
    let mut sut = Pair::on(&World::with_library("rig", variables));
    let full: Vec<String> = names.iter().map(|name| format!("rig/{name}")).collect();
    force(&mut sut, &full);
    sut.traffic = Default::default();
    let found = list(&mut sut, ForcingVerb::List);
    assert_eq!((found.total, found.entries.len()), (1_500, 1_500));
    let pages = sut.traffic.to_client.kinds.iter();
    let pages = pages.filter(|kind| **kind == FrameKind::Forced.number());
    assert!(pages.count() > 1, "one page was enough");
    let off = list(&mut sut, ForcingVerb::Off);
    assert_eq!((off.is_on, off.total, off.entries.len()), (false, 1_500, 0));
    assert!(!list(&mut sut, ForcingVerb::List).is_on);
}

/// Every reader can see the list, but switching requires administration rights.
///
/// Behaviour: H-27.
#[test]
fn switching_forcing_requires_administration() {
    let world = World::with_library(
        "rig",
        vec![
            f64_variable("x"),
            define("own", DataType::F64, |p| p.scope = Scope::Process),
        ],
    );
    let mut sut = Pair::on(&world);
    force(&mut sut, &["rig/x".to_owned()]);
    let value = Value::F64(1.0);
    let mut hidden = trunkline_engine::Write::value(&value);
    hidden.verb = trunkline_engine::WriteVerb::Force;
    world.try_write("rig/own", &hidden);

    world.permit(Rights::READ);
    let mut reader = Pair::on(&world);
    let seen = list(&mut reader, ForcingVerb::List);
    assert_eq!(seen.total, 2, "one of them is for its own process only");
    assert_eq!(seen.entries.len(), 1);
    assert_eq!(seen.entries[0].name, "rig/x");
    for verb in [ForcingVerb::On, ForcingVerb::Off, ForcingVerb::Clear] {
        assert_eq!(refused(&mut reader, verb), FaultCode::Denied);
    }
    assert!(world.engine().forcing().is_on());

    world.permit(Rights::Uniform(
        Actions::ALL.without(Actions::of(&[Action::Read])),
    ));
    let mut blind = Pair::on(&world);
    assert_eq!(refused(&mut blind, ForcingVerb::List), FaultCode::Denied);
    assert_eq!(list(&mut blind, ForcingVerb::Clear).total, 2);
    assert!(world.engine().forcing().all().is_empty());
}
