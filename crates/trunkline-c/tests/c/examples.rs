//! The examples, as a reader would use them: each in Rust, C and C#, with the same name and the same
//! effect. Those in Python are tested with the Python package.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use trunkline::types::{Contract, Value};
use trunkline::{Client, Engine, Event, OpenOptions, SubscribeOptions, Write, WriteOutcome};

use crate::compiler::{Installed, check, expect_success, root};
use crate::csharp::Bindings;

const LIMIT: Duration = Duration::from_secs(60);

const CONFIGURATION: &str = r#"
[engine]
listen = ["127.0.0.1:0"]

[library]
name = "boiler"

[[io]]
name = "tank"
driver = "process"

[[variable]]
name = "level"
type = "f64"
units = "%"
initial = 70.4

[[variable]]
name = "setpoint"
type = "f64"
range = [0, 100]
initial = 70

[[variable]]
name = "mode"
type = "enum(OFF, MANUAL, AUTO)"
initial = "OFF"

[[variable]]
name = "tank/level"
type = "f64"
source = "tank:level"

[[variable]]
name = "tank/setpoint"
type = "f64"
source = "tank:setpoint"
"#;

/// An example and its check, which is the same for every language.
type Example = (&'static str, fn(&Rig, &mut dyn FnMut() -> Command));

const EXAMPLES: [Example; 8] = [
    ("live_reading", live_reading),
    ("setpoint", setpoint),
    ("batch", batch),
    ("monitor", monitor),
    ("stream", stream),
    ("record_and_play", record_and_play),
    ("io_server", io_server),
    ("in_process", in_process),
];

/// Behaviour: API-02, API-03.
#[test]
fn c_examples_work() {
    let installed = Installed::new();
    for (name, check) in EXAMPLES {
        let program = installed.compile(&root().join(format!("examples/c/{name}.c")), "c99", &[]);
        check(&Rig::new(1), &mut || installed.command(&program));
    }
}

/// Behaviour: API-03.
#[test]
fn csharp_examples_work() {
    let Some(bindings) = Bindings::new("examples/csharp") else {
        return;
    };
    for (name, check) in EXAMPLES {
        let program = bindings.program(&root().join(format!("examples/csharp/{name}.cs")));
        let mut copy = || {
            let mut command = bindings.installed.command(Path::new("mono"));
            command.args(program.get_args());
            command
        };
        check(&Rig::new(1), &mut copy);
    }
}

/// Behaviour: API-03.
#[test]
fn rust_examples_work() {
    for (name, check) in EXAMPLES {
        let program = rust_example(name);
        // The name of the I/O server is before the number of orders.
        check(&Rig::new(2), &mut || Command::new(&program));
    }
}

/// Cargo builds the examples of all crates before it runs the tests of all crates.
fn rust_example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap();
    let program = built.join("examples").join(name);
    assert!(
        program.exists(),
        "{} is missing; run `cargo build --workspace --examples`",
        program.display()
    );
    program
}

/// An example in the folder of one language that the others do not have, or that has no check here, would
/// never run.
#[test]
fn every_language_has_the_same_examples() {
    let mut names = EXAMPLES.map(|(name, _)| name.to_owned());
    names.sort();
    for (folder, extension) in [("rust", "rs"), ("c", "c"), ("csharp", "cs")] {
        let files = std::fs::read_dir(root().join("examples").join(folder)).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let paths = paths.filter(|path| path.extension().is_some_and(|is| is == extension));
        let mut found: Vec<String> = paths
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        found.sort();
        assert_eq!(found, names, "examples/{folder}");
    }
}

#[test]
fn every_example_compiles_as_c_and_as_cpp() {
    let installed = Installed::new();
    for (name, _) in EXAMPLES {
        let path = root().join(format!("examples/c/{name}.c"));
        installed.compile(&path, "c11", &[]);
        let as_cpp = installed.path().join(name).with_extension("cpp");
        std::fs::copy(&path, &as_cpp).unwrap();
        installed.compile(&as_cpp, "c++17", &[]);
    }
}

/// An engine in this process.
struct Rig {
    engine: Engine,
    url: String,
    /// Position of the number of orders in the arguments of the I/O server.
    orders_at: usize,
}

impl Rig {
    fn new(orders_at: usize) -> Self {
        let plan = trunkline::config::parse("boiler.toml", CONFIGURATION).unwrap();
        let engine = Engine::from_plan(&plan).unwrap();
        Self {
            url: format!("tl://{}", engine.local_addrs()[0]),
            engine,
            orders_at,
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.url).unwrap()
    }

    fn port(&self) -> String {
        self.engine.local_addrs()[0].port().to_string()
    }
}

fn live_reading(rig: &Rig, program: &mut dyn FnMut() -> Command) {
    let printed = expect_success(program().arg(&rig.url));
    assert!(
        printed.starts_with("boiler/level = 70.4, quality "),
        "{printed}"
    );
}

fn setpoint(rig: &Rig, program: &mut dyn FnMut() -> Command) {
    let printed = expect_success(program().args([&rig.url, "boiler/setpoint", "75"]));
    assert_eq!(printed, "boiler/setpoint = 75, confirmed\n");
    let refused = program()
        .args([&rig.url, "boiler/setpoint", "101"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(
        message.contains("boiler/setpoint") && message.contains("range"),
        "{message}"
    );
}

fn batch(rig: &Rig, program: &mut dyn FnMut() -> Command) {
    let printed = expect_success(program().arg(&rig.url));
    assert!(printed.contains("written together, commit "), "{printed}");
    let setpoint = rig.engine.variable::<f64>("boiler/setpoint").unwrap();
    assert_eq!(setpoint.read().unwrap().value, 68.0);
}

fn monitor(rig: &Rig, program: &mut dyn FnMut() -> Command) {
    let printed = expect_success(program().args([&rig.url, "boiler/level", "all", "1"]));
    assert!(printed.contains("70.4, update "), "{printed}");
}

fn stream(rig: &Rig, program: &mut dyn FnMut() -> Command) {
    let mut start = |role: &str| {
        let mut command = program();
        command.args([role, &rig.port()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        move || {
            let output = child.wait_with_output().unwrap();
            check(&command, &output);
            String::from_utf8(output.stdout).unwrap()
        }
    };
    let (reader, writer) = (start("read"), start("write"));
    assert_eq!(writer(), "0 samples not delivered\n");
    assert_eq!(reader(), "100000 samples, sum 4999950000\n");
}

fn record_and_play(rig: &Rig, program: &mut dyn FnMut() -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run1.tdms");
    let printed = expect_success(program().args([&rig.url, file.to_str().unwrap()]));
    assert!(printed.contains(" 0 lost\n"), "{printed}");
    assert!(
        printed.contains("played ") && printed.contains(" 0 failed\n"),
        "{printed}"
    );
    assert!(file.exists());
}

fn io_server(rig: &Rig, program: &mut dyn FnMut() -> Command) {
    let mut command = program();
    let arguments = [&rig.url, "tank", "2"];
    let arguments = if rig.orders_at == 1 {
        vec![arguments[0], arguments[2]]
    } else {
        arguments.to_vec()
    };
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let server = command.spawn().unwrap();
    let client = rig.client();
    let names = ["boiler/tank/setpoint"];
    let values = client
        .subscribe(&names, Contract::ALL, SubscribeOptions::default())
        .unwrap();
    let wait_for = |wanted: f64| loop {
        match values.next(Some(LIMIT)).expect("the I/O server delivers") {
            Event::Reading { reading, .. }
                if reading.sample.quality.is_good()
                    && reading.sample.value == Value::F64(wanted) =>
            {
                break;
            }
            _ => {}
        }
    };
    wait_for(50.0);
    let opened = client
        .open(&names, OpenOptions::default(), LIMIT)
        .unwrap()
        .remove(0)
        .unwrap();
    let write = |value: f64| {
        let write = Write::new(opened.variable, Value::F64(value));
        client.write([write], LIMIT).unwrap().remove(0)
    };
    // The device stores whole numbers.
    assert!(matches!(write(63.4), WriteOutcome::Applied(_)));
    wait_for(63.0);
    match write(150.0) {
        WriteOutcome::Refused(fault) => assert!(fault.sentence.contains("0 to 100"), "{fault}"),
        other => panic!("{other:?}"),
    }
    check(&command, &server.wait_with_output().unwrap());
}

fn in_process(_: &Rig, program: &mut dyn FnMut() -> Command) {
    let printed = expect_success(program().arg("1000"));
    assert!(
        printed.contains("level 50.0 after 1000 steps\n"),
        "{printed}"
    );
}
