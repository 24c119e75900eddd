//! Tests control of folders over sessions: who gets it, who learns of it, and how it ends.

use std::time::Duration;

use trunkline_client::request::{Control, FollowControl};
use trunkline_client::{ControlList, RequestId, Write, WriteOutcome};
use trunkline_engine::{Caller, Rights, Wakes};
use trunkline_proto::{Fault, FaultCode, FrameKind};
use trunkline_serve::ServeOptions;
use trunkline_types::{
    ControlEntry, ControlHolder, ControlLevel, ControlTerms, Folder, Moment, Value,
};

use crate::rig::access::granted;
use crate::rig::{Pair, World, client_options, f64_variable};

const OPERATOR: ControlTerms = ControlTerms {
    level: ControlLevel::Operator,
    holder: ControlHolder::Session,
    duration: None,
};
const SUPERVISOR: ControlTerms = ControlTerms {
    level: ControlLevel::Supervisor,
    ..OPERATOR
};

fn world() -> World {
    let names = ["level", "pump/on", "pump/speed"];
    World::with_library("boiler", names.map(f64_variable).to_vec())
}

fn take(sut: &mut Pair, folder: &str, terms: ControlTerms) -> Result<ControlEntry, Fault> {
    let request = sut.client.take_control(folder, terms).unwrap();
    sut.answer(request)
}

fn request(sut: &mut Pair, folder: &str) -> RequestId<Control> {
    sut.client.request_control(folder, OPERATOR).unwrap()
}

fn list(sut: &mut Pair, folder: &str, own: bool) -> ControlList {
    let request = sut.client.controls(folder, own).unwrap();
    sut.answer(request).unwrap()
}

/// Returns the code of the refusal of a write; `None` if it was applied.
fn write(sut: &mut Pair, name: &str) -> Option<FaultCode> {
    let variable = sut.variable(name);
    let batch = sut.client.write([Write::new(variable, Value::F64(1.5))]);
    sut.exchange();
    let outcomes = sut.client.take_outcomes(batch.unwrap()).unwrap();
    match &outcomes[..] {
        [WriteOutcome::Applied(_)] => None,
        [WriteOutcome::Refused(fault)] => Some(fault.code),
        other => panic!("{other:?}"),
    }
}

fn follow(sut: &mut Pair, known: u64) -> RequestId<FollowControl> {
    let follow = sut.client.follow_control(known).unwrap();
    sut.exchange();
    follow
}

fn followed(sut: &mut Pair, follow: RequestId<FollowControl>) -> Option<u64> {
    sut.exchange();
    sut.client.take(follow).map(|answer| answer.unwrap())
}

/// Behaviour: B-22.
#[test]
fn holder_learns_of_a_request_and_the_client_that_waits_of_its_grant() {
    let world = world();
    let (mut ana, mut bo) = (Pair::on(&world), Pair::on(&world));
    let held = take(&mut ana, "boiler", OPERATOR).unwrap();
    assert!(held.is_own && !held.is_waiting);
    assert_eq!(write(&mut bo, "boiler/level"), Some(FaultCode::Controlled));
    assert_eq!(write(&mut ana, "boiler/level"), None);
    let refused = take(&mut bo, "boiler/pump", OPERATOR).unwrap_err();
    assert_eq!(refused.code, FaultCode::Controlled);

    let seen_by_ana = list(&mut ana, "", true).revision;
    let holder = follow(&mut ana, seen_by_ana);
    assert_eq!(followed(&mut ana, holder), None);
    let requested = request(&mut bo, "boiler/pump");
    let waiting = bo.answer(requested).unwrap();
    assert!(waiting.is_waiting && waiting.is_own);
    let now = followed(&mut ana, holder).expect("another client asks");
    assert!(now > seen_by_ana);
    let own = list(&mut ana, "", true);
    assert_eq!(own.entries.len(), 2);
    assert_eq!(own.entries[1].number, waiting.number);

    let seen_by_bo = list(&mut bo, "", true).revision;
    let waits = follow(&mut bo, seen_by_bo);
    let release = ana.client.release_control("boiler").unwrap();
    ana.answer(release).unwrap();
    assert!(followed(&mut bo, waits).is_some());
    let own = list(&mut bo, "", true);
    assert_eq!(own.entries.len(), 1);
    assert!(!own.entries[0].is_waiting);
    assert_eq!(own.entries[0].number, waiting.number);
    assert_eq!(
        write(&mut ana, "boiler/pump/on"),
        Some(FaultCode::Controlled)
    );
    assert_eq!(write(&mut ana, "boiler/level"), None);
}

#[test]
fn displaced_holder_learns_of_it() {
    let world = world();
    let (mut ana, mut bo) = (Pair::on(&world), Pair::on(&world));
    take(&mut ana, "boiler", OPERATOR).unwrap();
    let revision = list(&mut ana, "", true).revision;
    let holder = follow(&mut ana, revision);
    take(&mut bo, "boiler/pump", SUPERVISOR).unwrap();
    assert!(followed(&mut ana, holder).is_some());
    assert!(list(&mut ana, "", true).entries.is_empty());
    assert_eq!(list(&mut ana, "boiler", false).entries.len(), 1);
    assert_eq!(
        write(&mut ana, "boiler/pump/on"),
        Some(FaultCode::Controlled)
    );
    let again = ana.client.release_control("boiler").unwrap();
    assert_eq!(
        ana.answer(again).unwrap_err().code,
        FaultCode::NotControlled
    );
}

/// Behaviour: B-22, B-13.
#[test]
fn control_ends_with_the_connection_and_the_next_session_follows_anew() {
    let world = world();
    let (mut ana, mut bo) = (Pair::on(&world), Pair::on(&world));
    take(&mut ana, "boiler", OPERATOR).unwrap();
    let revision = list(&mut ana, "", true).revision;
    let holder = follow(&mut ana, revision);
    ana.cut();
    assert_eq!(write(&mut bo, "boiler/level"), None);
    ana.connect();
    // The request is sent again, and answered at once.
    assert!(followed(&mut ana, holder).is_some());
    assert!(list(&mut ana, "", true).entries.is_empty());
}

/// The names that a client gives itself cannot look like another holder, or like what the engine says
/// about it.
#[test]
fn holder_cannot_forge_the_text_that_names_it() {
    let world = world();
    for (program, user, shown) in [
        ("hmi-2.1", "ann", "hmi-2.1, user ann, pid 7"),
        (
            "hmi, user eve, pid 1) or account:bo (10.0.0.2:1, hmi",
            "root",
            "\"hmi, user eve, pid 1) or account:bo (10.0.0.2:1, hmi\", user root, pid 7",
        ),
        (
            "hmi\", user \"eve\\",
            "process 1 of user 0",
            r#""hmi\", user \"eve\\", user "process 1 of user 0", pid 7"#,
        ),
        (
            "10.0.0.2",
            "\u{0430}nn",
            "\"10.0.0.2\", user \"\u{0430}nn\", pid 7",
        ),
    ] {
        let mut options = client_options();
        options.program = program.to_owned();
        options.user = user.to_owned();
        options.pid = 7;
        let mut ana = Pair::offline(&world, ServeOptions::default(), options);
        ana.connect();
        let held = take(&mut ana, "boiler", OPERATOR).unwrap();
        let expected = format!("loopback (127.0.0.1:50000, {shown})");
        assert_eq!(held.by, expected);
        let refused = take(&mut Pair::on(&world), "boiler", OPERATOR).unwrap_err();
        let named = format!("controlled by {expected}, operator, since");
        assert!(refused.sentence.contains(&named), "{}", refused.sentence);
        let release = ana.client.release_control("boiler").unwrap();
        ana.answer(release).unwrap();
    }
}

#[test]
fn second_follow_ends_the_first() {
    let mut sut = Pair::on(&world());
    let revision = list(&mut sut, "", true).revision;
    let first = follow(&mut sut, revision);
    let second = follow(&mut sut, revision);
    assert_eq!(followed(&mut sut, first), Some(revision));
    assert_eq!(followed(&mut sut, second), None);
}

#[test]
fn control_is_handed_over_to_a_request() {
    let world = world();
    let (mut ana, mut bo) = (Pair::on(&world), Pair::on(&world));
    take(&mut ana, "boiler", OPERATOR).unwrap();
    let requested = request(&mut bo, "boiler");
    let waiting = bo.answer(requested).unwrap();
    let give = ana.client.give_control("boiler", waiting.number).unwrap();
    let given = ana.answer(give).unwrap();
    assert!(!given.is_own);
    assert_eq!(given.number, waiting.number);
    bo.exchange();
    assert_eq!(write(&mut bo, "boiler/level"), None);
    assert_eq!(write(&mut ana, "boiler/level"), Some(FaultCode::Controlled));
}

/// The folder of a large library is searched in slices, and the answer comes after the last.
#[test]
fn take_of_many_variables_is_confirmed_when_all_are_marked() {
    let names: Vec<String> = (0..5_000).map(|n| format!("v{n}")).collect();
    let world = World::with_library("rig", names.iter().map(|name| f64_variable(name)).collect());
    let (mut ana, mut bo) = (Pair::on(&world), Pair::on(&world));
    take(&mut ana, "**", OPERATOR).unwrap();
    for name in ["rig/v0", "rig/v2500", "rig/v4999"] {
        assert_eq!(write(&mut bo, name), Some(FaultCode::Controlled), "{name}");
        assert_eq!(write(&mut ana, name), None, "{name}");
    }
}

#[test]
fn list_is_sent_in_pages() {
    let world = world();
    let mut sut = Pair::on(&world);
    let long = "x".repeat(200);
    let (engine, (now, wall)) = (world.engine(), world.time());
    let moment = Moment { now, wall };
    // One identity may have 128 folders.
    for number in 0..500_u32 {
        let other = Caller::local(5_000 + number / 100, 2_000 + number / 100);
        let folder = Folder::parse(&format!("{long}/{number}")).unwrap();
        let control = engine.control();
        let taken = control.take(&other, &folder, OPERATOR, moment, &mut Wakes::new());
        taken.unwrap();
        while control.search(other.session, 100, moment, &mut Wakes::new()) {}
    }
    sut.traffic = Default::default();
    let found = list(&mut sut, "", false);
    assert_eq!(found.entries.len(), 500);
    let pages = sut.traffic.to_client.count(FrameKind::Controlled);
    assert!(pages > 1, "one page was enough");
    assert_eq!(list(&mut sut, &format!("{long}/7"), false).entries.len(), 1);
}

/// Behaviour: B-82.
#[test]
fn reader_of_one_variable_sees_the_control_around_it_only() {
    let world = world();
    world.deploy("rig", vec![f64_variable("x")]);
    world.deploy("drum", vec![f64_variable("level")]);
    let mut ana = Pair::on(&world);
    for folder in ["boiler/pump", "drum", "rig"] {
        take(&mut ana, folder, OPERATOR).unwrap();
    }
    world.permit(granted(&[(
        &[trunkline_access::Action::Read],
        "boiler/pump/on",
    )]));
    let mut guest = Pair::on(&world);
    let shown = |sut: &mut Pair| -> Vec<String> {
        let entries = list(sut, "", false).entries;
        entries.iter().map(|one| one.folder.to_string()).collect()
    };
    assert_eq!(shown(&mut guest), ["boiler/pump"]);
    let refused = take(&mut guest, "rig", OPERATOR).unwrap_err();
    assert_eq!(refused.code, FaultCode::Denied);
    assert!(
        !refused.sentence.contains("controlled by"),
        "{}",
        refused.sentence
    );
    world.permit(Rights::NONE);
    let mut stranger = Pair::on(&world);
    assert!(shown(&mut stranger).is_empty());
}

/// A list of controlled folders has none that only looks like another one, or that has nothing to control.
#[test]
fn folder_without_a_variable_that_the_client_may_read_is_refused() {
    let world = world();
    let mut names = vec![f64_variable("motor"), f64_variable("motor/speed")];
    names.extend((0..5_000).map(|number| f64_variable(&format!("v/{number}"))));
    world.deploy("rig", names);
    world.deploy("_io", vec![f64_variable("x")]);
    let mut sut = Pair::on(&world);
    for (folder, code, part) in [
        ("nosuch", FaultCode::BadRequest, "a folder \"nosuch\""),
        ("boiler ", FaultCode::BadRequest, "a folder \"boiler \""),
        ("Boiler", FaultCode::BadRequest, "trunkline find"),
        ("b\u{43e}iler", FaultCode::BadRequest, "trunkline find"),
        ("boiler/pum", FaultCode::BadRequest, "trunkline find"),
        (
            "boiler/level",
            FaultCode::BadRequest,
            "boiler/level is a variable",
        ),
        (
            "boiler/level/x",
            FaultCode::BadRequest,
            "boiler/level is a variable",
        ),
        ("_io", FaultCode::BadName, "does not begin with _"),
        ("_engine", FaultCode::BadName, "does not begin with _"),
    ] {
        let refused = take(&mut sut, folder, OPERATOR).unwrap_err();
        assert_eq!(refused.code, code, "{folder}: {refused}");
        assert!(refused.sentence.contains(part), "{folder}: {refused}");
        let requested = request(&mut sut, folder);
        assert_eq!(sut.answer(requested).unwrap_err().code, code, "{folder}");
    }
    // A folder may have the name of a variable.
    for folder in ["boiler/pump", "rig/motor", "rig/v", "**"] {
        take(&mut sut, folder, OPERATOR).unwrap();
        let release = sut.client.release_control(folder).unwrap();
        sut.answer(release).unwrap();
    }
    // Rights are checked first.
    let (read, write) = (
        trunkline_access::Action::Read,
        trunkline_access::Action::Write,
    );
    world.permit(granted(&[(&[read, write], "boiler/**")]));
    let mut operator = Pair::on(&world);
    for (folder, code) in [
        ("rig/motor", FaultCode::Denied),
        ("nosuch", FaultCode::Denied),
        ("_io", FaultCode::Denied),
        ("boiler/nosuch", FaultCode::BadRequest),
    ] {
        let refused = take(&mut operator, folder, OPERATOR).unwrap_err();
        assert_eq!(refused.code, code, "{folder}: {refused}");
    }
    take(&mut operator, "boiler/pump", OPERATOR).unwrap();
}

/// Control of a folder remains while its library is replaced by undeploying and deploying it.
#[test]
fn control_remains_when_the_library_is_undeployed() {
    let world = world();
    let (mut ana, mut bo) = (Pair::on(&world), Pair::on(&world));
    take(&mut ana, "boiler", OPERATOR).unwrap();
    let (engine, (now, wall)) = (world.engine(), world.time());
    let libraries = engine.libraries();
    let undeployed = libraries.undeploy("boiler", now, wall, &mut Wakes::new());
    undeployed.unwrap();
    assert_eq!(list(&mut bo, "boiler", true).entries.len(), 0);
    assert_eq!(list(&mut ana, "boiler", true).entries.len(), 1);
    world.deploy("boiler", vec![f64_variable("level")]);
    assert_eq!(write(&mut bo, "boiler/level"), Some(FaultCode::Controlled));
    assert_eq!(write(&mut ana, "boiler/level"), None);
    let release = ana.client.release_control("boiler").unwrap();
    ana.answer(release).unwrap();
    assert_eq!(write(&mut bo, "boiler/level"), None);
}

#[test]
fn wildcards_and_unknown_requests_are_refused_in_a_sentence() {
    let mut sut = Pair::on(&world());
    for folder in ["", "boiler/*", "**/pump", "boiler/level#units"] {
        let refused = take(&mut sut, folder, OPERATOR).unwrap_err();
        assert_eq!(refused.code, FaultCode::BadName, "{folder}: {refused}");
    }
    take(&mut sut, "boiler", OPERATOR).unwrap();
    let give = sut.client.give_control("boiler", 77).unwrap();
    assert_eq!(sut.answer(give).unwrap_err().code, FaultCode::BadRequest);
}

#[test]
fn control_for_a_time_is_limited_to_a_day() {
    let world = world();
    let mut sut = Pair::on(&world);
    let terms = ControlTerms {
        duration: Some(Duration::from_secs(10 * 24 * 3600)),
        ..OPERATOR
    };
    let held = take(&mut sut, "boiler", terms).unwrap();
    assert_eq!(held.left, Some(Duration::from_secs(24 * 3600)));
}
