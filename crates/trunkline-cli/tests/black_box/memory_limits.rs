//! An engine that runs out of memory refuses large values and keeps running.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use trunkline::io::{Health, IoError, IoServer, ItemId, Scan, SendRefusal};
use trunkline::proto::{Fault, FaultCode};
use trunkline::types::{
    DataType, Fifo, LibraryDefinition, Properties, Quality, Scope, Tick, Timestamp, Value,
    VariableDefinition,
};
use trunkline::{
    CallError, Client, ConnectOptions, OpenOptions, Provider, ProviderOptions, VariableRef, Write,
    WriteOutcome,
};

use crate::rig::{CUT_OFF, Running, command};

/// Address space of the engine, in KiB: the program itself and a few dozen values. The program takes
/// about 750 MiB, most of which the C library reserves for its threads and never uses.
const ADDRESS_SPACE: u64 = 1200 << 10;
/// Size of a large value, which fits in one message.
const VALUE_BYTES: usize = 15 << 20;
/// Size of the values that are released one by one.
const STEP_BYTES: usize = 3 << 20;
/// More values than the address space has room for.
const VARIABLES: usize = 80;

/// An engine, its URL, and the folder of its configuration and its store.
struct Engine {
    running: Running,
    url: String,
    folder: tempfile::TempDir,
}

impl Engine {
    /// An engine under an address-space limit, with text variables and the configuration `extra`.
    fn limited(extra: &str, store: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = String::from("[library]\nname = \"rig\"\n");
        for index in 0..VARIABLES {
            config += &format!("\n[[variable]]\nname = \"text{index}\"\ntype = \"string\"\n");
        }
        config += "\n[[variable]]\nname = \"small\"\ntype = \"f64\"\n";
        config += extra;
        let file = folder.path().join("rig.toml");
        std::fs::write(&file, config).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -v \"$1\" && shift && exec \"$@\"", "sh"]);
        shell.arg(ADDRESS_SPACE.to_string());
        Self::start(shell, folder, store)
    }

    /// Restarts the engine without the limit.
    fn unlimited(self, store: Option<&str>) -> Self {
        self.running.signal("TERM");
        let (code, lines) = self.running.end();
        assert_eq!(code, Some(0), "{lines:?}");
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\"", "sh"]);
        Self::start(shell, self.folder, store)
    }

    fn start(mut shell: Command, folder: tempfile::TempDir, store: Option<&str>) -> Self {
        let serve = command(&["serve"]);
        let path = |name: &str| folder.path().join(name);
        shell.arg(serve.get_program()).arg("serve");
        shell.arg(path("rig.toml"));
        shell.args(["--listen", "127.0.0.1:0", "--store"]);
        shell.arg(store.map_or("none".into(), path));
        for (name, value) in serve.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let running = Running::spawn(&mut shell);
        let line = running.line_with("Listening on tl://");
        let url = line.split(' ').find(|word| word.starts_with("tl://"));
        let url = url.unwrap().to_owned();
        Self {
            running,
            url,
            folder,
        }
    }

    /// A small value is written as before.
    fn assert_goes_on(&mut self, client: &Client, small: VariableRef, number: f64) {
        let ended = self.running.child.try_wait().unwrap();
        assert_eq!(ended, None, "the engine has ended");
        let outcome = write(client, small, Value::F64(number));
        assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
    }
}

fn text(letter: char) -> Value {
    Value::String(String::from(letter).repeat(VALUE_BYTES).into())
}

fn write(client: &Client, variable: VariableRef, value: Value) -> WriteOutcome {
    let write = Write::new(variable, value);
    client.write(vec![write], CUT_OFF).unwrap().remove(0)
}

/// Returns true if the value was written; panics unless a failure was caused by lack of memory.
fn is_written(outcome: WriteOutcome, what: &str) -> bool {
    match outcome {
        WriteOutcome::Applied(_) => true,
        // The engine had no memory for the message itself and closed the connection, which the
        // client re-established. The outcome of the write is unknown.
        WriteOutcome::Unknown(fault) if fault.code == FaultCode::TimedOut => {
            let sentence = fault.to_string();
            assert!(
                sentence.contains("there is no memory for"),
                "{what}: {sentence}"
            );
            false
        }
        WriteOutcome::Refused(fault) | WriteOutcome::Unknown(fault) => {
            assert_memory_full(&fault, what);
            false
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// Writes long values until the engine has no memory for the next one; returns how many were written.
fn fill(client: &Client, texts: &[VariableRef], value: &Value) -> usize {
    let mut texts = texts.iter();
    texts
        .position(|one| !is_written(write(client, *one, value.clone()), "a write"))
        .expect("more values than there is memory for")
}

/// Releases the memory of a value.
fn empty(client: &Client, text: VariableRef) {
    let outcome = write(client, text, Value::String("".into()));
    assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
}

/// Asserts that a fault reports lack of memory.
fn assert_memory_full(fault: &Fault, what: &str) {
    assert_eq!(fault.code, FaultCode::MemoryFull, "{what}: {fault}");
}

/// Like [`assert_memory_full`], for a call that failed as a whole.
fn assert_call_memory_full(error: &CallError, what: &str) {
    match error {
        CallError::Fault(fault) => assert_memory_full(fault, what),
        other => panic!("{what}: {other}"),
    }
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
fn large_value_without_memory_is_refused_and_the_engine_keeps_running() {
    let mut engine = Engine::limited("", None);
    let client = Client::connect(&engine.url).unwrap();
    let names: Vec<String> = (0..VARIABLES).map(|i| format!("rig/text{i}")).collect();
    let texts = open(&client, &names);
    let small = open(&client, &["rig/small".to_owned()])[0];
    let mut goes_on = |number: f64| engine.assert_goes_on(&client, small, number);

    // Written one by one until one is refused.
    let written = fill(&client, &texts, &text('a'));
    assert!(written > 10, "{written} written");
    goes_on(-1.0);

    // Group writes and all kinds of reads are answered, with or without memory.
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
            Err(error) => assert_call_memory_full(&error, "a group"),
        }
        goes_on(-2.0);
        match client.read(&texts[attempt..=attempt], CUT_OFF) {
            Ok(readings) => match &readings[0] {
                Ok(reading) => assert_eq!(reading.sample.value, text('a')),
                Err(fault) => assert_memory_full(fault, "a reading"),
            },
            Err(error) => assert_call_memory_full(&error, "a reading"),
        }
        goes_on(-3.0);
        match client.snapshot(&texts[attempt..=attempt], CUT_OFF) {
            Ok(snapshot) => match &snapshot.readings[0] {
                Ok(reading) => assert_eq!(reading.sample.value, text('a')),
                Err(fault) => assert_memory_full(fault, "a snapshot"),
            },
            Err(error) => assert_call_memory_full(&error, "a snapshot"),
        }
        goes_on(-4.0);
    }
    // Written values still exist, and released memory can be reused.
    for text in &texts[..written] {
        let outcome = write(&client, *text, Value::String("short".into()));
        assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
    }
    let outcome = write(&client, texts[0], text('c'));
    assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
    goes_on(-5.0);
}

/// Storing large values needs no extra memory; if the store has none, it reports this and retries.
///
/// Behaviour: B-06.
#[test]
fn retained_values_that_fill_the_memory_are_stored() {
    const RETAINED: usize = 8;
    let mut extra = String::new();
    for index in 0..RETAINED {
        extra += &format!("\n[[variable]]\nname = \"kept{index}\"\ntype = \"string\"\n");
        extra += "retain = true\n";
    }
    let store = Some("store.db");
    let mut engine = Engine::limited(&extra, store);
    let client = Client::connect(&engine.url).unwrap();
    let names = |stem: &str, count| (0..count).map(|i| format!("rig/{stem}{i}")).collect();
    let texts = open(&client, &Vec::<String>::from_iter(names("text", VARIABLES)));
    let kept: Vec<String> = names("kept", RETAINED);
    let refs = open(&client, &kept);
    let small = open(&client, &["rig/small".to_owned()])[0];

    let written = fill(&client, &texts, &text('a'));
    // Other values are emptied to make memory for the retained ones.
    let mut stay = texts[..written].iter();
    for variable in &refs {
        while !is_written(write(&client, *variable, text('k')), "a retained write") {
            let text = stay.next().expect("the memory of all others is enough");
            empty(&client, *text);
        }
        engine.assert_goes_on(&client, small, 1.0);
    }
    // They are stored while there is hardly any memory, or when there is some again.
    for text in stay {
        empty(&client, *text);
        engine.assert_goes_on(&client, small, 2.0);
    }
    drop(client);
    let engine = engine.unlimited(store);
    let client = Client::connect(&engine.url).unwrap();
    for variable in open(&client, &kept) {
        let reading = client
            .read(&[variable], CUT_OFF)
            .unwrap()
            .remove(0)
            .unwrap();
        assert_eq!(reading.sample.value, text('k'));
    }
}

/// A device that holds one text.
struct Device(Value);

impl IoServer for Device {
    fn libraries(&self, _name: &str) -> Vec<LibraryDefinition> {
        Vec::new()
    }

    fn item(&self, item: &str) -> Option<ItemId> {
        (item == "text").then_some(ItemId(0))
    }

    fn open(&mut self, _: Tick, _: Timestamp) -> Result<(), IoError> {
        Ok(())
    }

    fn scan(&mut self, _: Tick, _: Timestamp, scan: &mut Scan) -> Result<(), IoError> {
        scan.publish(ItemId(0), self.0.clone(), Quality::GOOD);
        Ok(())
    }

    fn request(
        &mut self,
        _: ItemId,
        now: Tick,
        wall: Timestamp,
        scan: &mut Scan,
    ) -> Result<(), IoError> {
        self.scan(now, wall, scan)
    }

    fn send(
        &mut self,
        _: ItemId,
        value: &Value,
        _: Tick,
        _: Timestamp,
    ) -> Result<Value, SendRefusal> {
        self.0 = value.clone();
        // Differs from the value sent, so the engine gets it back.
        match value {
            Value::String(text) => Ok(Value::String(format!("{text}!").into())),
            other => Ok(other.clone()),
        }
    }

    fn health(&self) -> Health {
        Health::default()
    }

    fn period(&self) -> Duration {
        Duration::from_secs(3600)
    }
}

/// A large value in transit to a provider and back is refused where there is no memory, in each
/// step of the way.
///
/// Behaviour: B-06.
#[test]
fn large_value_for_a_provider_is_refused_without_memory() {
    let extra = "\n[[variable]]\nname = \"sent\"\ntype = \"string\"\nsource = \"plant:text\"\n";
    let io = "\n[[io]]\nname = \"plant\"\ndriver = \"process\"\n";
    let mut engine = Engine::limited(&format!("{extra}{io}"), None);
    let client = Client::connect(&engine.url).unwrap();
    let connect = ConnectOptions::new(&engine.url).unwrap();
    let device = Box::new(Device(Value::String("begin".into())));
    let provider = Provider::start(&connect, &ProviderOptions::named("plant"), device).unwrap();
    let mut status = provider.status();
    while status.variables == 0 {
        status = provider.wait_status(&status).unwrap();
    }
    let names: Vec<String> = (0..VARIABLES).map(|i| format!("rig/text{i}")).collect();
    let texts = open(&client, &names);
    let others = open(&client, &["rig/small".to_owned(), "rig/sent".to_owned()]);
    let (small, sent) = (others[0], others[1]);

    let long = fill(&client, &texts, &text('a'));
    let (long, rest) = texts.split_at(long - 4);
    rest[..4].iter().for_each(|one| empty(&client, *one));
    let short = Value::String("a".repeat(STEP_BYTES).into());
    let short = fill(&client, rest, &short);
    // Each attempt has a little more memory than the one before, so every step fails once.
    let mut refusals = 0;
    for text_ref in rest[..short].iter().chain(long) {
        if is_written(write(&client, sent, text('p')), "a write to a provider") {
            break;
        }
        refusals += 1;
        engine.assert_goes_on(&client, small, f64::from(refusals));
        empty(&client, *text_ref);
    }
    assert!(refusals > 0, "there was memory for all steps");
    let reading = client.read(&[sent], CUT_OFF).unwrap().remove(0).unwrap();
    let Value::String(held) = reading.sample.value else {
        panic!("{:?}", reading.sample.quality);
    };
    assert_eq!(
        (held.len(), reading.sample.quality.is_good()),
        (VALUE_BYTES + 1, true)
    );
}

/// FIFOs of variables are made when their library is deployed; where there is no memory for all of
/// them the library is refused as a whole.
///
/// Behaviour: B-06.
#[test]
fn library_whose_fifos_do_not_fit_in_memory_is_refused() {
    let mut engine = Engine::limited("", None);
    let client = Client::connect(&engine.url).unwrap();
    let small = open(&client, &["rig/small".to_owned()])[0];
    let mut properties = Properties::new(DataType::F64);
    properties.scope = Scope::Process;
    // A word of value and one of timestamp: 512 MiB.
    let (capacity, length) = (1 << 25, 1);
    properties.fifo = Fifo::Multi { capacity, length };
    let properties = Arc::new(properties);
    let library = LibraryDefinition {
        name: "fifos".to_owned(),
        description: String::new(),
        variables: ["a", "b"]
            .map(|path| VariableDefinition {
                path: path.to_owned(),
                properties: Arc::clone(&properties),
            })
            .into(),
    };
    let error = client.deploy(library, false, CUT_OFF).unwrap_err();
    assert_call_memory_full(&error, "two FIFOs");
    engine.assert_goes_on(&client, small, 1.0);
}
