//! Other systems, measured with the loops, clocks and checks of the project's bench.
//!
//! `cell` and `role` have the same meaning as there: a cell is the near end of one scenario with
//! one system and prints its rows; a role is a far end. Each system is used through its public
//! interface, with the settings that its documentation recommends for speed; its file lists them.

mod brokers;
mod bus;
mod call_cost;
mod footprint;
mod iceoryx;
mod mosquitto;
mod nats;
mod redis_server;
mod round_trip_grid;
mod same_host;
mod stream_latency;
mod stream_throughput;
mod updates_to_one;
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
                "round_trip_grid" => round_trip_grid::measure(system, &settings, placement)?,
                "call_cost" => call_cost::measure(system, &settings, placement)?,
                "stream_throughput" => stream_throughput::measure(system, &settings, placement)?,
                "stream_latency" => stream_latency::measure(system, &settings, placement)?,
                "stream_paced" => stream_throughput::at_rates(system, &settings, placement)?,
                "updates_to_one" | "updates_to_many" => {
                    updates_to_one::measure(scenario, system, &settings, placement)?
                }
                "footprint" => footprint::measure(system, &settings, placement)?,
                "same_host" => same_host::measure(system, &settings, placement)?,
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
                "round_trip_grid-echo" => round_trip_grid::echo(&settings),
                "call_cost-serve" => call_cost::serve(&settings),
                "stream_throughput-take" => stream_throughput::take_all(&settings),
                "stream_throughput-take-memory" => stream_throughput::take_memory(&settings),
                "stream_latency-echo" => stream_latency::echo(&settings),
                "updates_to_one-take" => updates_to_one::take_all(&settings),
                "footprint-serve" => footprint::serve(&settings),
                "same_host-echo" => same_host::echo(&settings),
                _ => Err(format!("there is no role {name}").into()),
            }
        }
        _ => Err("use: cell SCENARIO SYSTEM [key=value ...]".into()),
    }
}
