//! Explains why a variable does not update: the first fault found is the cause.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rig::{Rig, define};
use trunkline_engine::{Caller, Provider, Rights, Ticket, Wakes, WriteOutcome};
use trunkline_types::{
    Access, DataType, Properties, Quality, Reason, Scaling, Value, VariableDefinition, WhyStage,
    WhyStep, WhyVerdict,
};

fn with(change: impl FnOnce(&mut Properties)) -> Rig {
    let mut properties = Properties::new(DataType::F64);
    change(&mut properties);
    Rig::with(vec![define("x", properties)])
}

fn walk(rig: &Rig, name: &str) -> Vec<WhyStep> {
    rig.engine
        .queries()
        .explain(&rig.caller, name, rig.now(), rig.wall())
}

fn cause(steps: &[WhyStep]) -> (WhyStage, &str) {
    let fault = steps
        .iter()
        .find(|step| step.verdict == WhyVerdict::Fault)
        .expect("a fault");
    assert!(!fault.next.is_empty(), "the fault has no remedy: {fault:?}");
    (fault.stage, &fault.sentence)
}

#[derive(Default)]
struct Plc {
    error: Mutex<Option<String>>,
}

impl Provider for Plc {
    fn name(&self) -> Arc<str> {
        Arc::from("plc")
    }
    fn send(&self, _ticket: Ticket, _handle: u32, _raw: Value) {}
    fn request(&self, _ticket: Option<Ticket>, _handle: u32) {}
    fn error(&self) -> Option<String> {
        self.error.lock().expect("no panic").clone()
    }
}

#[test]
fn walk_of_a_healthy_variable_is_ordered_and_finds_no_problem() {
    let rig = with(|_| {});
    rig.write(&rig.variable("rig/x"), 1.0);
    let steps = walk(&rig, "rig/x");
    assert!(
        steps.iter().all(|step| step.verdict == WhyVerdict::Ok),
        "{steps:?}"
    );
    let stages: Vec<WhyStage> = steps.iter().map(|step| step.stage).collect();
    let [source, quality, age] = [WhyStage::Source; 3];
    assert_eq!(
        stages,
        [
            WhyStage::Resolution,
            WhyStage::Library,
            WhyStage::Rights,
            source,
            quality,
            age,
            WhyStage::Filter,
            WhyStage::Buffer
        ]
    );
    assert!(steps.iter().all(|step| !step.sentence.is_empty()));
}

/// Behaviour: B-01.
#[test]
fn value_that_cannot_be_scaled_is_the_cause_also_after_a_redeployment() {
    let definition = || {
        let mut properties = Properties::new(DataType::F64);
        properties.scaling = Some(Scaling::SquareRoot {
            raw: [4.0, 20.0],
            eng: [0.0, 100.0],
        });
        vec![define("x", properties)]
    };
    let refused = |rig: &Rig| {
        rig.publish_raw(&rig.variable("rig/x"), 3.5);
        let steps = walk(rig, "rig/x");
        cause(&steps).1.to_owned()
    };
    let expected = refused(&Rig::with(definition()));
    assert!(expected.contains("; "), "{expected}");

    let rig = Rig::with(definition());
    let former = rig.variable("rig/x");
    for raw in [5.0, 6.0, 7.0] {
        rig.publish_raw(&former, raw);
    }
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
    rig.deploy("rig", definition());
    assert_eq!(refused(&rig), expected);
}

#[test]
fn walk_names_the_first_cause() {
    let rig = with(|_| {});
    let steps = walk(&rig, "rig/X");
    assert_eq!(cause(&steps).0, WhyStage::Resolution);
    assert_eq!(steps[0].next, "try rig/x");
    assert_eq!(cause(&walk(&rig, "rig/nonsense")).0, WhyStage::Resolution);
    assert_eq!(cause(&walk(&rig, "other/y")).0, WhyStage::Library);
    assert_eq!(
        cause(&walk(&rig, "rig/x")),
        (
            WhyStage::Source,
            "nothing has been written to it since the engine deployed it"
        )
    );

    let rig = with(|p| p.access = Access::WriteOnly);
    assert_eq!(cause(&walk(&rig, "rig/x")).0, WhyStage::Rights);

    let rig = with(|p| p.source = "plc:level".to_owned());
    let steps = walk(&rig, "rig/x");
    let (stage, sentence) = cause(&steps);
    assert_eq!(stage, WhyStage::Source);
    assert!(sentence.contains("plc:level"), "{sentence}");

    let rig = with(|p| p.max_age = Some(Duration::from_secs(2)));
    rig.write(&rig.variable("rig/x"), 1.0);
    rig.advance(Duration::from_secs(3));
    let steps = walk(&rig, "rig/x");
    let (stage, sentence) = cause(&steps);
    assert_eq!(stage, WhyStage::Source);
    assert!(
        sentence.contains("longer ago than its max_age"),
        "{sentence}"
    );

    let rig = with(|p| p.deadband.user_percent = 50.0);
    let x = rig.variable("rig/x");
    for value in [1.0, 2.0, 3.0] {
        rig.write(&x, value);
    }
    let steps = walk(&rig, "rig/x");
    assert_eq!(cause(&steps).0, WhyStage::Filter);
    assert!(
        steps.iter().any(|step| step.next.contains("50 %")),
        "{steps:?}"
    );

    let rig = with(|p| p.range = Some((0.0, 1.0)));
    let x = rig.variable("rig/x");
    rig.write(&x, 0.5);
    rig.write(&x, 5.0);
    rig.write(&x, 6.0);
    let steps = walk(&rig, "rig/x");
    let (stage, sentence) = cause(&steps);
    assert_eq!(
        (stage, sentence.contains("2 refused")),
        (WhyStage::Filter, true),
        "{sentence}"
    );
}

#[test]
fn walk_asks_the_provider() {
    let rig = with(|p| p.source = "plc:level".to_owned());
    let x = rig.variable("rig/x");
    let plc = Arc::new(Plc::default());
    let id = rig
        .engine
        .providers()
        .attach(Arc::clone(&plc) as Arc<_>, &[x.handle()]);
    rig.publish(&x, 1.0);
    assert!(
        walk(&rig, "rig/x")
            .iter()
            .all(|step| step.verdict == WhyVerdict::Ok)
    );
    assert!(
        rig.engine
            .queries()
            .source_state(&rig.caller, &x)
            .contains("plc")
    );

    *plc.error.lock().expect("no panic") = Some("line 3 is broken".to_owned());
    let bad = Quality::bad(Reason::DeviceFailure);
    rig.engine
        .providers()
        .set_source_quality(id, bad, rig.now(), rig.wall(), &mut Wakes::new());
    let steps = walk(&rig, "rig/x");
    let (stage, sentence) = cause(&steps);
    assert_eq!(stage, WhyStage::Source);
    assert!(sentence.contains("line 3 is broken"), "{sentence}");
    let quality = steps
        .iter()
        .find(|step| step.sentence.starts_with("its value is"))
        .expect("the step exists");
    assert_eq!(quality.verdict, WhyVerdict::Fault);

    let reason = Reason::ProviderGone;
    rig.engine
        .providers()
        .detach(id, reason, rig.now(), rig.wall(), &mut Wakes::new());
    let steps = walk(&rig, "rig/x");
    let (stage, sentence) = cause(&steps);
    assert_eq!(stage, WhyStage::Source);
    assert!(sentence.contains("plc is not running"), "{sentence}");
}

#[test]
fn walk_shows_the_rights_of_the_caller() {
    let rig = Rig::with(vec![VariableDefinition::new("x", DataType::F64)]);
    rig.write(&rig.variable("rig/x"), 1.0);
    let mut reader = Caller::local(2, 1000);
    reader.rights = Rights::READ;
    let rights = |caller: &Caller| {
        let steps = rig
            .engine
            .queries()
            .explain(caller, "rig/x", rig.now(), rig.wall());
        steps
            .into_iter()
            .find(|step| step.stage == WhyStage::Rights)
            .expect("the step exists")
    };
    assert!(rights(&rig.caller).sentence.contains("read and write"));
    assert_eq!(rights(&reader).verdict, WhyVerdict::Note);
    assert!(rights(&reader).sentence.contains("not write"));
    // B-82: a variable that may not be read does not exist.
    let mut nobody = reader.clone();
    nobody.rights = Rights::NONE;
    let explain = |caller: &Caller, name: &str| {
        let queries = rig.engine.queries();
        let steps = queries.explain(caller, name, rig.now(), rig.wall());
        steps.into_iter().map(|step| step.stage).collect::<Vec<_>>()
    };
    assert_eq!(explain(&nobody, "rig/x"), explain(&nobody, "rig/missing"));
    assert_eq!(
        rig.engine
            .queries()
            .source_state(&rig.caller, &rig.variable("rig/x")),
        ""
    );
}

/// Before the process has connected, its variables are not written, and the walk explains how to
/// start it.
#[test]
fn walk_explains_how_to_start_the_expected_process() {
    let rig = with(|p| p.source = "plc:level".to_owned());
    let x = rig.variable("rig/x");
    let (now, wall) = (rig.now(), rig.wall());
    let mut wakes = Wakes::new();
    rig.engine
        .providers()
        .expect_source("plc", now, wall, &mut wakes);
    rig.engine
        .providers()
        .expect_source("plc", now, wall, &mut wakes);
    assert_eq!(
        x.sample().quality,
        Quality::bad(Reason::ProviderGone).without_value()
    );
    let outcome = rig.write(&x, 1.0);
    assert!(
        matches!(&outcome, WriteOutcome::Refused(refusal) if refusal.to_string().contains("plc")),
        "{outcome:?}"
    );
    let steps = walk(&rig, "rig/x");
    assert_eq!(
        cause(&steps),
        (WhyStage::Source, "I/O server plc is not running")
    );
    let next = &steps
        .iter()
        .find(|step| step.verdict == WhyVerdict::Fault)
        .unwrap()
        .next;
    assert_eq!(
        next,
        "start its program, or a built-in driver with: trunkline io run DRIVER --name plc"
    );
    // A variable that is deployed later also belongs to the process.
    let mut properties = Properties::new(DataType::F64);
    properties.source = "plc:flow".to_owned();
    let later = rig.deploy("more", vec![define("y", properties)]);
    let y = rig.engine.variable(later[0]).unwrap();
    assert!(y.is_provided());
    assert_eq!(
        y.sample().quality,
        Quality::bad(Reason::ProviderGone).without_value()
    );
    // The process connects under its name, and gets both variables.
    let id = rig
        .engine
        .providers()
        .attach_source(Arc::new(Plc::default()))
        .unwrap();
    assert_eq!((x.provider(), y.provider()), (Some(id), Some(id)));
}
