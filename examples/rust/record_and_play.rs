//! Records variables into a TDMS file, and plays the file back into them.
//!
//! `cargo run -p trunkline --example record_and_play -- [URL [FILE]]`

use std::path::Path;
use std::thread;
use std::time::Duration;

use trunkline::Client;
use trunkline::record::{
    Pace, PlayVariablesOptions, RecordedVariables, VariableRecorder, VariableRecorderOptions,
    play_into_variables, stopper,
};
use trunkline::types::Pattern;

const TIMEOUT: Duration = Duration::from_secs(5);

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "tl:///".to_owned());
    let path = arguments.next().unwrap_or_else(|| "run1.tdms".to_owned());

    let client = Client::connect(&url)?;
    let setpoint = client.variable::<f64>("boiler/setpoint", TIMEOUT)?;
    let options = VariableRecorderOptions::default();
    let patterns = [Pattern::parse("boiler/**")?];
    let recorder = VariableRecorder::start(&client, &patterns, &[], Path::new(&path), options)?;
    while !recorder.status().is_following {
        thread::park_timeout(Duration::from_millis(10));
    }
    // From here on, no update is missed.
    for number in 0..100_i32 {
        setpoint.put(f64::from(number) / 2.0, TIMEOUT)?;
    }
    let recorded = recorder.stop();
    if let Some(error) = recorded.error {
        return Err(error.into());
    }
    let progress = recorded.progress;
    println!(
        "recorded {} updates of {} variables, {} lost",
        progress.updates, progress.variables, progress.lost
    );

    let mut recording = RecordedVariables::open_series(Path::new(&path))?;
    let options = PlayVariablesOptions {
        pace: Pace::Full,
        ..PlayVariablesOptions::default()
    };
    let (_stopper, stopped) = stopper();
    let same = |name: &str| Some(name.to_owned());
    let played = play_into_variables(&client, &mut recording, same, options, &stopped, |_| ())?;
    println!(
        "played {} updates, {} failed",
        played.updates, played.failed
    );
    Ok(())
}
