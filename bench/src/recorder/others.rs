//! Programs that record with other libraries: Python, with one call per chunk.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Task, Took};
use crate::Outcome;

/// Their systems.
pub const PROGRAMS: [&str; 2] = ["nptdms", "hdf5"];

/// Writes a file with one of them.
pub(super) fn write(system: &str, task: Task, path: &Path) -> Outcome<Took> {
    let peer = crate::peers::named(system).ok_or_else(|| format!("there is no system {system}"))?;
    let output = Command::new(peer.program()?)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/peers/python/recorder.py"
        ))
        .args([system.to_owned(), path.display().to_string()])
        .args([task.chunk.to_string(), task.bytes.to_string()])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let mut words = text.split_whitespace().map(str::parse::<f64>);
    let mut next = || words.next().ok_or("a figure is missing");
    let (elapsed, cpu_s) = (next()??, next()??);
    Ok(Took {
        elapsed: Duration::from_secs_f64(elapsed),
        cpu_s,
        file_bytes: std::fs::metadata(path)?.len(),
        copied: None,
    })
}
