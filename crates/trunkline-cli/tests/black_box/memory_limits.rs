//! An engine whose system gives it no more memory: it refuses what is large and goes on.

use std::process::Command;

use trunkline::types::Value;
use trunkline::{Client, OpenOptions, VariableRef, Write, WriteOutcome};

use crate::rig::{CUT_OFF, Running, command};

/// Address space of the engine, in KiB: some tens of values beside the program itself.
const ADDRESS_SPACE: u64 = 900 << 10;
/// Of a value; one fits a message.
const VALUE_BYTES: usize = 15 << 20;
/// More values than the address space has room for.
const VARIABLES: usize = 80;

/// An engine under an address-space limit, and its URL.
fn limited() -> (Running, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = String::from("[library]\nname = \"rig\"\n");
    for index in 0..VARIABLES {
        config += &format!("\n[[variable]]\nname = \"text{index}\"\ntype = \"string\"\n");
    }
    config += "\n[[variable]]\nname = \"small\"\ntype = \"f64\"\n";
    let file = folder.path().join("rig.toml");
    std::fs::write(&file, config).unwrap();
    let serve = command(&["serve"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -v \"$1\" && shift && exec \"$@\"", "sh"])
        .arg(ADDRESS_SPACE.to_string())
        .arg(serve.get_program())
        .arg("serve")
        .arg(&file)
        .args(["--listen", "127.0.0.1:0", "--store", "none"]);
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let engine = Running::spawn(&mut shell);
    let line = engine.line_with("Listening on tl://");
    let url = line.split(' ').find(|word| word.starts_with("tl://"));
    (engine, url.unwrap().to_owned(), folder)
}

/// What an engine says that has no memory for something.
fn assert_memory_full(fault: &impl std::fmt::Display, what: &str) {
    let text = fault.to_string();
    assert!(text.contains("memory"), "{what}: {text}");
}

fn open(client: &Client, names: &[String]) -> Vec<VariableRef> {
    let opened = client.open(names, OpenOptions::default(), CUT_OFF).unwrap();
    opened
        .into_iter()
        .map(|one| one.unwrap().variable)
        .collect()
}

/// Behaviour: B-06.
#[test]
fn an_engine_without_memory_for_a_large_value_says_so_and_goes_on() {
    let (mut engine, url, _folder) = limited();
    let client = Client::connect(&url).unwrap();
    let names: Vec<String> = (0..VARIABLES).map(|i| format!("rig/text{i}")).collect();
    let texts = open(&client, &names);
    let small = open(&client, &["rig/small".to_owned()])[0];
    let text = |letter: char| Value::String(String::from(letter).repeat(VALUE_BYTES).into());
    let mut goes_on = |number: f64| {
        assert_eq!(
            engine.child.try_wait().unwrap(),
            None,
            "the engine has ended"
        );
        let write = Write::new(small, Value::F64(number));
        let outcomes = client.write(vec![write], CUT_OFF).unwrap();
        assert!(
            matches!(outcomes[0], WriteOutcome::Applied(_)),
            "{outcomes:?}"
        );
    };

    // Written one by one until one is refused.
    let mut written = 0;
    loop {
        let write = Write::new(texts[written], text('a'));
        let outcome = client.write(vec![write], CUT_OFF).unwrap().remove(0);
        match outcome {
            WriteOutcome::Applied(_) => written += 1,
            WriteOutcome::Refused(fault) | WriteOutcome::Unknown(fault) => {
                assert_memory_full(&fault, "a write");
                break;
            }
            other => panic!("{other:?}"),
        }
        goes_on(written as f64);
    }
    assert!((10..VARIABLES).contains(&written), "{written} written");
    goes_on(-1.0);

    // In a group, and read in every way: each is answered, whether there is memory or not.
    for attempt in 0..3 {
        let group = vec![Write::new(texts[VARIABLES - 1 - attempt], text('b'))];
        match client.write_group(group, CUT_OFF) {
            Ok(answer) => match &answer.outcomes[0] {
                WriteOutcome::Applied(_) => {}
                WriteOutcome::Refused(fault) | WriteOutcome::Unknown(fault) => {
                    assert_memory_full(fault, "a group");
                }
                other => panic!("{other:?}"),
            },
            Err(error) => assert_memory_full(&error, "a group"),
        }
        goes_on(-2.0);
        match client.read(&texts[attempt..=attempt], CUT_OFF) {
            Ok(readings) => match &readings[0] {
                Ok(reading) => assert_eq!(reading.sample.value, text('a')),
                Err(fault) => assert_memory_full(fault, "a reading"),
            },
            Err(error) => assert_memory_full(&error, "a reading"),
        }
        goes_on(-3.0);
        match client.snapshot(&texts[attempt..=attempt], CUT_OFF) {
            Ok(snapshot) => match &snapshot.readings[0] {
                Ok(reading) => assert_eq!(reading.sample.value, text('a')),
                Err(fault) => assert_memory_full(fault, "a snapshot"),
            },
            Err(error) => assert_memory_full(&error, "a snapshot"),
        }
        goes_on(-4.0);
    }
    // What was written is still there, and what is given back can be used again.
    for text in &texts[..written] {
        let write = Write::new(*text, Value::String("short".into()));
        let outcome = client.write(vec![write], CUT_OFF).unwrap().remove(0);
        assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
    }
    let write = Write::new(texts[0], text('c'));
    let outcome = client.write(vec![write], CUT_OFF).unwrap().remove(0);
    assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
    goes_on(-5.0);
}
