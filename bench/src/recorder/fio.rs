//! `fio`, called as usual to measure the speed of a disk.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value as Json;

use super::{Task, Timing};
use crate::Outcome;

pub(super) fn write(task: Task, path: &Path) -> Outcome<Timing> {
    let output = Command::new("fio")
        .args([
            "--name=recorder",
            "--rw=write",
            "--ioengine=io_uring",
            "--iodepth=8",
        ])
        .args(["--direct=1", "--end_fsync=1", "--output-format=json"])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--bs={}", task.chunk))
        .arg(format!("--size={}", task.bytes))
        .output()
        .map_err(|error| format!("fio could not be started, its package is fio: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    took(&serde_json::from_slice(&output.stdout)?)
        .ok_or_else(|| "fio says nothing of its job".into())
}

/// The report of its only job: times in ms, CPU in percent of them.
fn took(report: &Json) -> Option<Timing> {
    let job = report["jobs"].get(0)?;
    let runtime_s = job["job_runtime"].as_f64()? / 1e3;
    let percent = job["usr_cpu"].as_f64()? + job["sys_cpu"].as_f64()?;
    Some(Timing {
        elapsed: Duration::from_secs_f64(runtime_s),
        cpu_s: runtime_s * percent / 100.0,
        file_bytes: job["write"]["io_bytes"].as_u64()?,
        copied: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_the_role_is_parsed() {
        let report = serde_json::json!({
            "jobs": [{
                "job_runtime": 2000, "usr_cpu": 2.5, "sys_cpu": 7.5, "write": { "io_bytes": 4096 },
            }],
        });
        let took = took(&report).unwrap();
        assert_eq!((took.elapsed.as_secs(), took.file_bytes), (2, 4096));
        assert!((took.cpu_s - 0.2).abs() < 1e-9);
        assert!(super::took(&serde_json::json!({ "jobs": [] })).is_none());
    }
}
