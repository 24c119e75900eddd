//! The restart of an engine with its libraries and stored values. Each start is a new process; the
//! file of the store is in the page cache.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use trunkline::{Engine, EngineOptions};

use super::{library, name, write_all};
use crate::Outcome;
use crate::record::Row;
use crate::role::{Role, say};
use crate::settings::Settings;
use crate::statistics::median;

/// Stores variables and their values once, then starts engines that load them.
pub fn measure(variables: usize, restarts: usize, row: &mut Row) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store.db");
    let (deploy, keep) = fill(variables, store.clone())?;
    row.figure("deploy_ms", deploy.as_secs_f64() * 1e3);
    row.figure("keep_ms", keep.as_secs_f64() * 1e3);
    let (mut of_engine, mut of_process, mut of_file) = (Vec::new(), Vec::new(), Vec::new());
    let settings = Settings::default()
        .with("vars", variables)
        .with("store", store.display());
    for _ in 0..restarts {
        let start = Instant::now();
        let mut far = Role::start("footprint-restart", &settings)?;
        let engine_ms: f64 = far.expect("STARTED")?.parse()?;
        of_process.push(start.elapsed().as_secs_f64() * 1e3);
        of_engine.push(engine_ms);
        let wrong: u64 = far.expect("WRONG")?.parse()?;
        row.require(wrong == 0, || {
            format!("{wrong} variables did not come back as they were")
        });
        drop(far);
        let start = Instant::now();
        let bytes = fs::read(&store)?;
        of_file.push(start.elapsed().as_secs_f64() * 1e3);
        row.figure("file_mib", bytes.len() as f64 / f64::from(1 << 20));
    }
    row.figure("start_ms", median(&of_engine).unwrap_or(0.0));
    row.figure("process_ms", median(&of_process).unwrap_or(0.0));
    row.figure("file_read_ms", median(&of_file).unwrap_or(0.0));
    row.figure("restarts", restarts as f64);
    Ok(())
}

fn options(store: PathBuf) -> EngineOptions {
    EngineOptions {
        store: Some(store),
        ..EngineOptions::default()
    }
}

/// Times of deploying and storing the library, and of storing the values at the end.
fn fill(variables: usize, store: PathBuf) -> Outcome<(Duration, Duration)> {
    let library = library(variables, "f64", true)?;
    let engine = Engine::start(options(store))?;
    let start = Instant::now();
    engine.deploy(&library)?;
    let deploy = start.elapsed();
    write_all(&engine, &library)?;
    let start = Instant::now();
    engine.shutdown(Duration::from_secs(1));
    Ok((deploy, start.elapsed()))
}

/// The process of one start: reports its time and the number of variables that differ from before.
pub fn start(settings: &Settings) -> Outcome<()> {
    let variables: usize = settings.value("vars")?;
    let start = Instant::now();
    let engine = Engine::start(options(settings.value("store")?))?;
    say(&format!("STARTED {}", start.elapsed().as_secs_f64() * 1e3));
    let mut wrong = variables.abs_diff(engine.variable_count());
    for index in 0..variables {
        let value = engine.variable::<f64>(&name(index)).map(|v| v.read());
        let is_right = matches!(value, Ok(Ok(held)) if held.value == index as f64);
        wrong += usize::from(!is_right);
    }
    say(&format!("WRONG {wrong}"));
    engine.shutdown(Duration::from_secs(1));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_for_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.db");
        fill(50, store.clone()).unwrap();
        let sut = Engine::start(options(store)).unwrap();
        assert_eq!(sut.variable_count(), 50);
        let held = sut.variable::<f64>(&name(49)).unwrap().read().unwrap();
        assert_eq!(held.value, 49.0);
    }
}
