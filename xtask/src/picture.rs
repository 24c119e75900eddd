//! The picture in README: a terminal in which commands run against the demo.
//!
//! The commands really run, each in a separate terminal that `script` provides, because
//! `trunkline` uses colours only there. The picture is SVG, drawn by the crate `anstyle-svg`.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::docs::newest_binary;
use crate::finding::Outcome;
use crate::tree::Tree;

/// The file written.
const PICTURE: &str = "docs/pictures/first-look.svg";

/// The commands, as a user types them.
const COMMANDS: &[&str] = &[
    "trunkline get boiler/level boiler/levle host/cpu/total",
    "trunkline put boiler/setpoint 75",
    "trunkline monitor boiler/level boiler/drum/pressure --count 4",
    "trunkline why boiler/level",
];

/// Runs the commands against `trunkline demo` and writes the picture.
pub(crate) fn run(tree: &Tree) -> Result<Outcome, String> {
    let binary = newest_binary(tree)?.ok_or("there is no trunkline binary; build it first")?;
    let folder = binary.parent().ok_or("the binary is in no folder")?;
    let _demo = Demo::start(&binary)?;
    let mut screen = String::new();
    for command in COMMANDS {
        let prompt = format!("\x1b[1;32m$\x1b[0m {command}\n");
        let output = in_terminal(folder, command)?;
        let _ = writeln!(screen, "{prompt}{}", output.replace("\r\n", "\n"));
    }
    let picture = anstyle_svg::Term::new().render_svg(screen.trim_end());
    let path = tree.root().join(PICTURE);
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(&path, picture))
        .map_err(|error| format!("cannot write {PICTURE}: {error}"))?;
    Ok(Outcome {
        notes: vec![format!("picture: wrote {PICTURE}")],
        findings: Vec::new(),
    })
}

/// A running demo, which ends when this is dropped.
struct Demo(Child);

impl Demo {
    /// Starts the demo and waits until it serves.
    fn start(binary: &Path) -> Result<Self, String> {
        let mut child = Command::new(binary)
            .arg("demo")
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the demo: {error}"))?;
        let output = child.stdout.take();
        let demo = Self(child);
        let mut lines = output
            .map(BufReader::new)
            .into_iter()
            .flat_map(BufRead::lines);
        match lines.any(|line| line.is_ok_and(|line| line.contains("press Ctrl-C to stop"))) {
            true => Ok(demo),
            false => Err("the demo ended before it served".to_owned()),
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // The demo may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command in a terminal of 100 columns. Returns its output.
fn in_terminal(folder: &Path, command: &str) -> Result<String, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("script")
        .args(["--quiet", "--command"])
        .arg(format!("stty cols 100 && {command}"))
        .arg("/dev/null")
        .env("PATH", format!("{}:{path}", folder.display()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run `script` of util-linux: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
