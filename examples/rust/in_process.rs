//! Hosts variables in this program, in a control loop whose reads and writes take no lock, allocate nothing
//! and make no system call, and lets other programs read them.
//!
//! `cargo run -p trunkline --example in_process -- [STEPS]`

use trunkline::Engine;
use trunkline::realtime::RtRead;
use trunkline::types::Timestamp;

const CONFIGURATION: &str = r#"
[engine]
listen = ["127.0.0.1:0"]
store = "none"

[library]
name = "loop"

[[variable]]
name = "level"
type = "f64"
units = "%"
fifo = { kind = "multi", capacity = 10000 }

[[variable]]
name = "setpoint"
type = "f64"
range = [0, 100]
initial = 50
fifo = { kind = "single" }
"#;

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps: u32 = std::env::args()
        .nth(1)
        .map_or(Ok(1000), |steps| steps.parse())?;
    let plan = trunkline::config::parse("in_process.toml", CONFIGURATION)?;
    let engine = Engine::from_plan(&plan)?;
    println!(
        "other programs reach the variables at tl://{}",
        engine.local_addrs()[0]
    );

    // These allocate. What the loop does with them does not.
    let mut setpoint = engine.rt_reader("loop/setpoint")?;
    let mut level = engine.rt_writer("loop/level")?;
    let (mut wanted, mut value) = (50.0, 0.0);
    for _ in 0..steps {
        let reading = setpoint.read::<f64>();
        if reading.status == RtRead::Fresh {
            wanted = reading.value;
        }
        value += (wanted - value) / 10.0;
        level.write(value, Timestamp::from_nanos(0));
    }
    println!("level {value:.1} after {steps} steps");
    Ok(())
}
