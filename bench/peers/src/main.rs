//! Other systems, measured by the loops, clocks and checks of the project's own bench.
//!
//! `cell` and `role` mean what they mean there: a cell is the near end of one scenario with one
//! system and prints its rows; a role is a far end. Each system is used by its public interface,
//! with the settings that its documentation names for speed; its file says which.

mod brokers;
mod bus;
mod iceoryx;
mod mosquitto;
mod nats;
mod redis_server;
mod w1;
mod w2;
mod w3;
mod w4;
mod w5;
mod w8;
mod w9;
mod zenoh_peer;
mod zeromq;

use std::process::ExitCode;

use trunkline_bench::Outcome;
use trunkline_bench::placement::{End, pin};
use trunkline_bench::role::end_with_parent;
use trunkline_bench::settings::Settings;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match carry_out(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(words: &[String]) -> Outcome<()> {
    match words {
        [verb, scenario, system, settings @ ..] if verb == "cell" => {
            let settings = Settings::parse(settings)?;
            let placement = pin(End::Near)?;
            let rows = match scenario.as_str() {
                "w1" => w1::measure(system, &settings, placement)?,
                "w2" => w2::measure(system, &settings, placement)?,
                "w3" => w3::measure(system, &settings, placement)?,
                "w4" => w4::measure(system, &settings, placement)?,
                "ns88" => w3::at_rates(system, &settings, placement)?,
                "w5" | "w6" => w5::measure(scenario, system, &settings, placement)?,
                "w8" => w8::measure(system, &settings, placement)?,
                "v9" => w9::measure(system, &settings, placement)?,
                _ => return Err(format!("no peer is measured in {scenario}").into()),
            };
            for row in rows {
                println!("{}", serde_json::to_string(&row)?);
            }
            Ok(())
        }
        [verb, name, settings @ ..] if verb == "role" => {
            let settings = Settings::parse(settings)?;
            pin(End::Far)?;
            end_with_parent();
            match name.as_str() {
                "w1-echo" => w1::echo(&settings),
                "w2-serve" => w2::serve(&settings),
                "w3-take" => w3::take_all(&settings),
                "w3-take-memory" => w3::take_memory(&settings),
                "w4-echo" => w4::echo(&settings),
                "w5-take" => w5::take_all(&settings),
                "w8-serve" => w8::serve(&settings),
                "w9-echo" => w9::echo(&settings),
                _ => Err(format!("there is no role {name}").into()),
            }
        }
        _ => Err("use: cell SCENARIO SYSTEM [key=value ...]".into()),
    }
}
