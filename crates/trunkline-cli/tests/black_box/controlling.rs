//! Control of folders: operators with accounts of their own, with real programs.

use serde_json::Value as Json;

use crate::accounts::{Person, Plant};
use crate::rig::{Output, Running, Served};

/// The object that a line of JSON contains.
#[track_caller]
fn object(line: &str) -> Json {
    serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))
}

#[track_caller]
fn check(output: &Output, code: i32) -> &Output {
    assert_eq!(output.code, Some(code), "{output:?}");
    output
}

fn put(person: &Person) -> Output {
    person.run(&["put", "--json", "rig/setpoint", "71"])
}

fn spawn(person: &Person, arguments: &[&str]) -> Running {
    Running::spawn(&mut person.command(&[&["control", "--json"], arguments].concat()))
}

/// Waits until the command reports this event.
#[track_caller]
fn event(running: &Running, name: &str) -> Json {
    object(&running.line_with(&format!("\"event\":\"{name}\"")))
}

/// Behaviour: B-22, B-24.
#[test]
fn one_of_two_operators_controls_a_folder_and_hands_it_over() {
    let plant = Plant::start();
    let (ana, bo) = (
        plant.joined("ana", &["--role", "operator"]),
        plant.joined("bo", &["--role", "operator"]),
    );
    let held = spawn(&ana, &["take", "rig"]);
    let granted = event(&held, "granted");
    assert_eq!(
        (&granted["folder"], &granted["level"]),
        (&"rig".into(), &"operator".into())
    );

    // Another command of the same account may write, and another account may not.
    check(&put(&ana), 0);
    let refused = put(&bo);
    check(&refused, 6);
    let problem = object(refused.err.lines().last().unwrap());
    assert_eq!(problem["code"], "controlled");
    let message = problem["message"].to_string();
    assert!(
        message.contains("account:ana") && message.contains("rig"),
        "{message}"
    );
    let why = bo.run(&["why", "rig/setpoint"]);
    assert!(
        check(&why, 8).out.contains("controlled by account:ana"),
        "{why:?}"
    );
    let taken = bo.run(&["control", "take", "rig"]);
    assert!(check(&taken, 6).err.contains("account:ana"), "{taken:?}");

    let waits = spawn(&bo, &["request", "rig"]);
    let waiting = event(&waits, "waiting");
    assert!(
        waiting["holders"][0].to_string().contains("account:ana"),
        "{waiting}"
    );
    let asked = event(&held, "asked");
    assert_eq!(asked["number"], waiting["number"]);
    assert!(asked["by"].to_string().contains("account:bo"), "{asked}");
    let listed = ana.run(&["control", "ls", "--json"]);
    let states: Vec<Json> = check(&listed, 0).out.lines().map(object).collect();
    assert_eq!(states.len(), 2, "{listed:?}");
    assert!(
        states
            .iter()
            .any(|one| one["state"] == "held" && one["own"] == true)
    );
    assert!(
        states
            .iter()
            .any(|one| one["state"] == "waiting" && one["own"] == false)
    );

    let given = ana.run(&["control", "give", "rig", "bo", "--json"]);
    assert_eq!(object(check(&given, 0).out.trim())["outcome"], "given");
    event(&waits, "granted");
    let ended = event(&held, "ended");
    assert!(
        ended["holders"][0].to_string().contains("account:bo"),
        "{ended}"
    );
    assert_eq!(held.end().0, Some(6));
    check(&put(&bo), 0);
    check(&put(&ana), 6);

    // Ctrl-C releases it.
    waits.signal("INT");
    event(&waits, "released");
    assert_eq!(waits.end().0, Some(0));
    check(&put(&ana), 0);
    let audit = plant.manage(&["audit", "--json"]);
    let actions: Vec<String> = audit
        .lines()
        .map(|line| object(line)["action"].as_str().unwrap().to_owned())
        .filter(|action| action.starts_with("control"))
        .collect();
    assert_eq!(
        actions,
        [
            "control take",
            "control request",
            "control give",
            "control take",
            "control release"
        ]
    );
}

#[test]
fn supervisor_takes_over_and_needs_the_right_to() {
    let plant = Plant::start();
    let (ana, chief) = (
        plant.joined("ana", &["--role", "operator"]),
        plant.joined("chief", &["--role", "engineer"]),
    );
    let supervise = [
        "control",
        "take",
        "rig",
        "--level",
        "supervisor",
        "--for",
        "10m",
    ];
    let denied = ana.run(&supervise);
    assert!(check(&denied, 5).err.contains("force"), "{denied:?}");
    let held = spawn(&ana, &["take", "rig"]);
    event(&held, "granted");
    check(&chief.run(&supervise), 0);
    assert_eq!(
        event(&held, "ended")["holders"].as_array().unwrap().len(),
        1
    );
    check(&put(&ana), 6);
    // The command has ended, and its control lasts.
    check(&put(&chief), 0);

    // Who may not write any more has no control either.
    plant.manage(&["user", "role", "chief", "viewer"]);
    ana.run_until(&["put", "rig/setpoint", "72"], 0);
}

/// A command without accounts, and what a person sees.
#[test]
fn control_for_a_time_belongs_to_the_user_and_is_shown() {
    let sut = Served::rig();
    let none = sut.run(&["control", "ls"]);
    assert!(
        check(&none, 0).err.contains("no folder is controlled"),
        "{none:?}"
    );
    let taken = sut.run(&["control", "take", "rig", "--for", "10m"]);
    assert_eq!(check(&taken, 0).out, "you control rig as operator\n");
    check(&sut.run(&["put", "rig/setpoint", "71"]), 0);
    let listed = sut.run(&["control", "ls", "rig", "-o", "csv"]);
    assert!(
        check(&listed, 0).out.contains("rig,held,operator,"),
        "{listed:?}"
    );
    let released = sut.run(&["control", "release", "rig"]);
    assert!(check(&released, 0).out.contains("released"), "{released:?}");
    let again = sut.run(&["control", "release", "rig"]);
    assert!(
        check(&again, 6).err.contains("neither control"),
        "{again:?}"
    );

    // A lock refuses even the commands of the same user.
    let locked = sut.spawn(&["control", "take", "rig", "--lock"]);
    locked.line_with("you control rig");
    check(&sut.run(&["put", "rig/setpoint", "71"]), 6);
    locked.signal("INT");
    assert_eq!(locked.end().0, Some(0));
    check(&sut.run(&["put", "rig/setpoint", "72"]), 0);

    for (folder, part) in [
        ("rig/setpoint", "rig/setpoint is a variable"),
        ("rig ", "\"rig \""),
        ("_engine", "begin with _"),
    ] {
        let refused = sut.run(&["control", "take", folder]);
        assert!(check(&refused, 6).err.contains(part), "{refused:?}");
    }
    let folder = sut.run(&["control", "take", "rig/*"]);
    assert!(
        check(&folder, 1).err.contains("is not a folder"),
        "{folder:?}"
    );
    let nobody = sut.run(&["control", "give", "rig", "bo"]);
    assert!(
        check(&nobody, 1).err.contains("is not waiting"),
        "{nobody:?}"
    );
}
