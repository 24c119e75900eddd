//! The C# bindings, compiled and run by Mono.

use std::path::Path;
use std::process::Command;

use trunkline::Engine;

use crate::compiler::{Installed, expect_success, root};

fn is_missing(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_err()
}

/// Behaviour: API-03.
#[test]
fn csharp_examples_work() {
    if is_missing("mcs") || is_missing("mono") {
        println!("skipped, because mono-mcs and mono-runtime are not installed: examples/csharp");
        return;
    }
    let plan = trunkline::config::parse("boiler.toml", CONFIGURATION).unwrap();
    let engine = Engine::from_plan(&plan).unwrap();
    let url = format!("tl://{}", engine.local_addrs()[0]);
    let installed = Installed::new();
    let bindings = installed.path().join("Trunkline.dll");
    let mut compile = Command::new("mcs");
    compile
        .args(["-warnaserror", "-target:library"])
        .arg(format!("-out:{}", bindings.display()));
    expect_success(compile.arg(root().join("bindings/csharp/Trunkline.cs")));
    let run = |name: &str, arguments: &[&str]| {
        let source = root().join("examples/csharp").join(format!("{name}.cs"));
        let program = installed.path().join(format!("{name}.exe"));
        let mut compile = Command::new("mcs");
        compile
            .arg("-warnaserror")
            .arg(format!("-out:{}", program.display()));
        expect_success(
            compile
                .arg(format!("-reference:{}", bindings.display()))
                .arg(source),
        );
        expect_success(
            installed
                .command(Path::new("mono"))
                .arg(program)
                .args(arguments),
        )
    };
    let reading = run("live_reading", &[&url]);
    assert!(
        reading.starts_with("boiler/level = 70.4, quality 0x"),
        "{reading}"
    );
    let setpoint = run("setpoint", &[&url, "boiler/setpoint", "75"]);
    assert_eq!(setpoint, "boiler/setpoint = 75, confirmed\n");
    let batch = run("batch", &[&url]);
    assert!(batch.contains("setpoint 75, mode 0, level 70.4"), "{batch}");
    assert!(batch.contains("written together, commit "), "{batch}");
    let monitor = run("monitor", &[&url, "boiler/level", "all", "1"]);
    assert!(monitor.contains("70.4, update "), "{monitor}");
}

const CONFIGURATION: &str = r#"
[engine]
listen = ["127.0.0.1:0"]

[library]
name = "boiler"

[[variable]]
name = "level"
type = "f64"
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
"#;
