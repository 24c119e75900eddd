//! Recording with other libraries: Python programs with one call per chunk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Task, Timing};
use crate::Outcome;
use crate::peers::named;

/// The Python interpreter that has these libraries.
fn python() -> Outcome<PathBuf> {
    let hdf5 = named("hdf5").ok_or("there is no system hdf5")?;
    Ok(hdf5.program()?)
}

/// Writes a file with one of these libraries.
pub(super) fn write(system: &str, task: Task, path: &Path) -> Outcome<Timing> {
    let peer = named(system).ok_or_else(|| format!("there is no system {system}"))?;
    // Fails if the library is not installed.
    peer.program()?;
    let output = Command::new(python()?)
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
    let mut next = || words.next().ok_or("a number is missing from the output");
    let (elapsed, cpu_s) = (next()??, next()??);
    Ok(Timing {
        elapsed: Duration::from_secs_f64(elapsed),
        cpu_s,
        file_bytes: std::fs::metadata(path)?.len(),
        copied: None,
    })
}
