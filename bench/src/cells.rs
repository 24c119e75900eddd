//! Starts cells and roles by name.

use trunkline::types::Contract;

use crate::Outcome;
use crate::call_cost::{self, Operation, Variables};
use crate::hosting::{self, Manner};
use crate::placement::{End, pin};
use crate::record::Row;
use crate::role::{Role, end_with_parent};
use crate::round_trip_grid::{self, Grid, Registers};
use crate::settings::Settings;
use crate::updates_to_one::{self, Stream};
use crate::{
    alarms, blocks, clients, footprint, history, in_process, recorder, same_host, streams, tdms,
};

/// Systems of every scenario.
pub const RAW: &str = "raw-tcp";
/// See [`RAW`].
pub const TRUNKLINE: &str = "trunkline";
/// Trunkline; both ends spin before they sleep.
pub const TRUNKLINE_SPINNING: &str = "trunkline-spinning";
/// Like that, over shared memory.
pub const TRUNKLINE_SHM: &str = "trunkline-shm";
/// Shared memory without spinning.
pub const TRUNKLINE_SHM_SLEEPING: &str = "trunkline-shm-sleeping";
/// Transports and ways to wait other than TCP with sleeping ends.
pub const LOCAL_TRANSPORTS: [&str; 3] = [TRUNKLINE_SPINNING, TRUNKLINE_SHM, TRUNKLINE_SHM_SLEEPING];
pub const TRUNKLINE_BATCHED: &str = "trunkline-batched";

/// Trunkline with `all` subscriptions.
pub const TRUNKLINE_ALL: &str = "trunkline-all";

/// Runs a role until the near end stops it.
pub fn run_role(name: &str, settings: &Settings) -> Outcome<()> {
    pin(End::Far)?;
    // These roles read their input themselves.
    match name {
        "engine" => return hosting::serve(settings),
        "same_host-engine" => return same_host::serve(settings),
        "history-engine" => return history::restart::serve(settings),
        "clients-engine" => return clients::serve(settings),
        "clients-stopped" => {
            // Clients are near ends; so are these.
            pin(End::Near)?;
            return clients::hold(settings);
        }
        _ => {}
    }
    end_with_parent();
    match name {
        "round_trip_grid-raw" => round_trip_grid::raw::echo(),
        "call_cost-raw" => call_cost::raw::serve(),
        "footprint-raw" => footprint::connect::serve_raw(settings.value("vars")?),
        "footprint-engine" => footprint::serve(settings),
        "footprint-restart" => footprint::restart::start(settings),
        "same_host-unix" => same_host::echo(),
        "blocks-raw" => blocks::taking::take_raw(settings),
        "stream_throughput-raw" => streams::throughput::read_raw(settings),
        "stream_throughput-trunkline" => streams::throughput::read_stream(settings),
        "drain-raw" => streams::drain::read_raw(settings),
        "drain-trunkline" => streams::drain::read_stream(settings),
        "stream_latency-raw" => streams::latency::echo_raw(settings),
        "stream_latency-trunkline" => streams::latency::echo_stream(settings),
        "blocks-trunkline" => blocks::taking::take_trunkline(settings),
        "updates_to_one-raw" => updates_to_one::raw::take_all(Stream::read(settings)?),
        "updates_to_one-trunkline" => {
            let url: String = settings.value("url")?;
            updates_to_one::trunkline::take_all(Stream::read(settings)?, &url)
        }
        _ => Err(format!("there is no role {name}").into()),
    }
}

/// Measures a cell with one system. The near end is this process.
pub fn run_cell(scenario: &str, system: &str, settings: &Settings) -> Outcome<Vec<Row>> {
    let placement = pin(End::Near)?;
    match scenario {
        round_trip_grid::SCENARIO => round_trip_grid_cells(system, settings, placement),
        call_cost::SCENARIO => call_cost_cells(system, settings, placement),
        updates_to_one::SCENARIO | updates_to_one::SEVERAL => {
            let stream = Stream::read(settings)?;
            let case = stream.case(scenario);
            let mut row = Row::new(scenario, system, case, placement);
            match system {
                RAW => updates_to_one::raw::write_all(stream, &mut row)?,
                TRUNKLINE => updates_to_one::trunkline::write_all(stream, false, &mut row)?,
                TRUNKLINE_BATCHED => updates_to_one::trunkline::write_all(stream, true, &mut row)?,
                _ => return Err(no_system(system)),
            }
            Ok(vec![row])
        }
        streams::THROUGHPUT => Ok(vec![streams::throughput::cell(
            system, settings, placement,
        )?]),
        streams::LATENCY => Ok(vec![streams::latency::cell(system, settings, placement)?]),
        streams::JOURNALS => Ok(vec![streams::journal::cell(system, settings, placement)?]),
        streams::SWEEP => streams::sweep::cells(system, settings, placement),
        streams::PACED => streams::paced::cells(system, settings, placement),
        blocks::FIFO | blocks::WAVEFORM => {
            Ok(vec![blocks::cell(scenario, system, settings, placement)?])
        }
        recorder::SCENARIO => Ok(vec![recorder::cell(system, settings, placement)?]),
        recorder::DEVICES => Ok(vec![recorder::devices_cell(system, settings, placement)?]),
        same_host::SCENARIO => Ok(vec![same_host::cell(system, settings, placement)?]),
        clients::IDLE | clients::CHANGES | clients::STALLED => {
            Ok(vec![clients::cell(scenario, settings, placement)?])
        }
        tdms::READING => Ok(vec![tdms::reading::cell(system, settings, placement)?]),
        tdms::WRITING => Ok(vec![tdms::writing::cell(system, settings, placement)?]),
        in_process::SCENARIO => in_process::measure(settings, placement),
        footprint::SCENARIO => Ok(vec![footprint_cell(system, settings, placement)?]),
        alarms::SCENARIO => Ok(vec![alarms::cell(settings, placement)?]),
        history::SCENARIO => Ok(vec![history::cell(system, settings, placement)?]),
        _ => Err(format!("there is no scenario {scenario}").into()),
    }
}

fn no_system(system: &str) -> Box<dyn std::error::Error> {
    format!("there is no system {system}").into()
}

/// How the ends of a system wait in W1 and W2.
fn manner(system: &str) -> Manner {
    let shared_memory = matches!(system, TRUNKLINE_SHM | TRUNKLINE_SHM_SLEEPING);
    match system {
        TRUNKLINE_SPINNING | TRUNKLINE_SHM => Manner {
            spin: trunkline::SPIN_DEFAULT,
            shared_memory,
        },
        _ => Manner {
            shared_memory,
            ..Manner::SLEEPING
        },
    }
}

/// Returns how rows of this system describe its waits.
fn note_manner(system: &str, row: &mut Row) {
    if !manner(system).spin.is_zero() {
        row.waiting = "spinning".to_owned();
    }
}

/// Starts the far end of W1 or W2. Returns it with its address.
fn far_end(system: &str, raw: &str, variables: usize, kind: &str) -> Outcome<(Role, String)> {
    let settings = Settings::default().with("n", variables).with("type", kind);
    let settings = manner(system).settings(settings);
    let role = match system {
        RAW => raw,
        TRUNKLINE | TRUNKLINE_ALL | TRUNKLINE_SPINNING | TRUNKLINE_SHM | TRUNKLINE_SHM_SLEEPING => {
            "engine"
        }
        _ => return Err(no_system(system)),
    };
    let mut far = Role::start(role, &settings)?;
    let address = far.expect("LISTENING")?;
    Ok((far, address))
}

/// Measures all periods for one number and type of variables on one connection. `periods` is a list
/// of `period:ticks`.
fn round_trip_grid_cells(system: &str, settings: &Settings, placement: &str) -> Outcome<Vec<Row>> {
    let periods: String = settings.value("periods")?;
    let mut rows = Vec::new();
    let mut first_tick = 0;
    let mut ends: Option<(Role, Box<dyn Registers>)> = None;
    for period in periods.split(',') {
        let (period, ticks) = period
            .split_once(':')
            .ok_or("write periods as period:ticks")?;
        let grid = Grid::read(&settings.clone().with("t", period).with("ticks", ticks))?;
        let (far, registers) = match &mut ends {
            Some(ends) => ends,
            None => {
                let kind = grid.kind.name();
                let (far, address) = far_end(system, "round_trip_grid-raw", grid.variables, kind)?;
                let registers: Box<dyn Registers> = match system {
                    RAW => Box::new(round_trip_grid::raw::Near::connect(&address, grid)?),
                    _ => Box::new(round_trip_grid::trunkline::Near::connect(
                        &address,
                        grid,
                        match system {
                            TRUNKLINE_ALL => Contract::ALL,
                            _ => Contract::Latest,
                        },
                        manner(system),
                    )?),
                };
                ends.insert((far, registers))
            }
        };
        let case = format!("n={} t={period} type={}", grid.variables, grid.kind.name());
        let mut row = Row::new(round_trip_grid::SCENARIO, system, case, placement);
        round_trip_grid::cell::run(&grid, first_tick, registers.as_mut(), far.pid(), &mut row)?;
        note_manner(system, &mut row);
        registers.finish()?;
        first_tick += grid.ticks + round_trip_grid::cell::WARM_UP_TICKS;
        rows.push(row);
    }
    Ok(rows)
}

/// Measures the listed operations on one connection.
fn call_cost_cells(system: &str, settings: &Settings, placement: &str) -> Outcome<Vec<Row>> {
    let (calls, passes) = (settings.value("calls")?, settings.value("passes")?);
    let operations: String = settings.value("operations")?;
    let (far, address) = far_end(system, "call_cost-raw", call_cost::VARIABLES, "f64")?;
    let mut near: Box<dyn Variables> = match system {
        RAW => Box::new(call_cost::raw::Near::connect(&address)?),
        _ => Box::new(call_cost::trunkline::Near::connect(
            &address,
            manner(system),
        )?),
    };
    // So that gets return a value.
    near.put_all(0, call_cost::VARIABLES)?;
    let mut rows = Vec::new();
    for name in operations.split(',') {
        let operation = Operation::named(name)?;
        let case = format!("op={name} calls={calls}");
        let mut row = Row::new(call_cost::SCENARIO, system, case, placement);
        call_cost::cell::run(operation, calls, passes, near.as_mut(), far.pid(), &mut row)?;
        note_manner(system, &mut row);
        rows.push(row);
    }
    Ok(rows)
}

/// Returns what the setting `what` asks for.
fn footprint_cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let (what, variables): (String, usize) = (settings.value("what")?, settings.value("vars")?);
    let mut case = format!("what={what} vars={variables}");
    let kind: String = settings.value_or("type", "f64".to_owned())?;
    if what == "memory" {
        case.push_str(&format!(" type={kind}"));
    }
    let mut row = Row::new(footprint::SCENARIO, system, case, placement);
    match (what.as_str(), system) {
        ("memory", footprint::memory::MAP) => footprint::memory::of_map(variables, &mut row)?,
        ("memory", TRUNKLINE) => footprint::memory::of_engine(variables, &kind, &mut row)?,
        ("items-in-process", TRUNKLINE) => footprint::items::in_process(variables, &mut row)?,
        ("items", TRUNKLINE) => footprint::items::measure(variables, &mut row)?,
        ("connect", RAW | TRUNKLINE) => {
            footprint::connect::measure(system, variables, settings.value("passes")?, &mut row)?;
        }
        ("restart", TRUNKLINE) => {
            footprint::restart::measure(variables, settings.value("restarts")?, &mut row)?;
        }
        ("memory" | "items" | "items-in-process" | "connect" | "restart", _) => {
            return Err(no_system(system));
        }
        _ => return Err(format!("footprint measures no {what}").into()),
    }
    Ok(row)
}
