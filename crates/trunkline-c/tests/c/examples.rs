//! The examples, as a reader would use them: several programs, one engine.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use trunkline::types::{Contract, Value};
use trunkline::{Client, Engine, Event, OpenOptions, SubscribeOptions, Write, WriteOutcome};

use crate::compiler::{Installed, check, expect_success, root};

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

/// An engine in this process, and the installed library.
struct Rig {
    engine: Engine,
    url: String,
    installed: Installed,
}

impl Rig {
    fn new() -> Self {
        let plan = trunkline::config::parse("boiler.toml", CONFIGURATION).unwrap();
        let engine = Engine::from_plan(&plan).unwrap();
        Self {
            url: format!("tl://{}", engine.local_addrs()[0]),
            engine,
            installed: Installed::new(),
        }
    }

    fn compile(&self, name: &str) -> PathBuf {
        let source = root().join("examples/c").join(format!("{name}.c"));
        self.installed.compile(&source, "c99", &[])
    }

    fn run(&self, name: &str, arguments: &[&str]) -> String {
        let program = self.compile(name);
        expect_success(self.installed.command(&program).args(arguments))
    }

    fn client(&self) -> Client {
        Client::connect(&self.url).unwrap()
    }

    fn port(&self) -> String {
        self.engine.local_addrs()[0].port().to_string()
    }
}

#[test]
fn every_example_compiles_as_c_and_as_cpp() {
    let rig = Rig::new();
    let mut count = 0;
    for file in std::fs::read_dir(root().join("examples/c")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "c") {
            for standard in ["c99", "c11"] {
                rig.installed.compile(&path, standard, &[]);
            }
            let as_cpp = rig
                .installed
                .path()
                .join(path.file_name().unwrap())
                .with_extension("cpp");
            std::fs::copy(&path, &as_cpp).unwrap();
            rig.installed.compile(&as_cpp, "c++17", &[]);
            count += 1;
        }
    }
    assert_eq!(count, 8);
}

/// Behaviour: API-03.
#[test]
fn live_reading() {
    let rig = Rig::new();
    let printed = rig.run("live_reading", &[&rig.url]);
    assert!(
        printed.starts_with("boiler/level = 70.4, quality 0x"),
        "{printed}"
    );
}

/// Behaviour: API-03.
#[test]
fn setpoint() {
    let rig = Rig::new();
    let printed = rig.run("setpoint", &[&rig.url, "boiler/setpoint", "75"]);
    assert_eq!(printed, "boiler/setpoint = 75, confirmed\n");
    let program = rig.compile("setpoint");
    let mut command = rig.installed.command(&program);
    let refused = command
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

/// Behaviour: API-02, API-03.
#[test]
fn batch() {
    let rig = Rig::new();
    let printed = rig.run("batch", &[&rig.url]);
    assert!(
        printed.contains("variable 0: status 0, value 70\n"),
        "{printed}"
    );
    assert!(printed.contains("written together, commit "), "{printed}");
    assert_eq!(
        rig.engine
            .variable::<f64>("boiler/setpoint")
            .unwrap()
            .read()
            .unwrap()
            .value,
        68.0
    );
}

/// Behaviour: API-03.
#[test]
fn monitor() {
    let rig = Rig::new();
    let printed = rig.run("monitor", &[&rig.url, "boiler/level", "all", "1"]);
    assert!(printed.contains("70.4, update "), "{printed}");
}

/// Behaviour: API-03.
#[test]
fn stream() {
    let rig = Rig::new();
    let program = rig.compile("stream");
    let start = |role: &str| -> Child {
        let mut command = rig.installed.command(&program);
        command
            .args([role, &rig.port()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let (reader, writer) = (start("read"), start("write"));
    let written = writer.wait_with_output().unwrap();
    check(&rig.installed.command(&program), &written);
    let read = reader.wait_with_output().unwrap();
    check(&rig.installed.command(&program), &read);
    assert_eq!(
        String::from_utf8(read.stdout).unwrap(),
        "100000 samples, sum 4999950000\n"
    );
    assert_eq!(
        String::from_utf8(written.stdout).unwrap(),
        "0 samples not delivered\n"
    );
}

/// Behaviour: API-03.
#[test]
fn record_and_play() {
    let rig = Rig::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run1.tdms");
    let printed = rig.run("record_and_play", &[&rig.url, file.to_str().unwrap()]);
    assert!(printed.contains(" 0 lost\n"), "{printed}");
    assert!(
        printed.contains("played ") && printed.contains(" 0 failed\n"),
        "{printed}"
    );
    assert!(file.exists());
}

/// Behaviour: API-03.
#[test]
fn io_server() {
    let rig = Rig::new();
    let program = rig.compile("io_server");
    let mut command = rig.installed.command(&program);
    let server = command
        .args([&rig.url, "2"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
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
        WriteOutcome::Refused(fault) => {
            assert!(fault.sentence.contains("from 0 to 100"), "{fault}")
        }
        other => panic!("{other:?}"),
    }
    check(
        &rig.installed.command(&program),
        &server.wait_with_output().unwrap(),
    );
}

/// Behaviour: API-03.
#[test]
fn in_process() {
    let rig = Rig::new();
    let printed = rig.run("in_process", &["1000"]);
    assert!(
        printed.contains("level 50.0 after 1000 steps\n"),
        "{printed}"
    );
}

/// An example that is in the folder and has no test here would never run.
#[test]
fn every_example_is_run() {
    let source = include_str!("examples.rs");
    for file in std::fs::read_dir(root().join("examples/c")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap();
        let is_c = path
            .extension()
            .is_some_and(|extension| extension == Path::new("c"));
        assert!(
            !is_c || source.contains(&format!("\nfn {name}()")),
            "{name}"
        );
    }
}
