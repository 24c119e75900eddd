//! W8: time to the first full set.

use std::time::{Duration, Instant};

use trunkline_bench::Outcome;
use trunkline_bench::footprint::connect::FirstSet;
use trunkline_bench::footprint::{SCENARIO, name};
use trunkline_bench::record::Row;
use trunkline_bench::role::Role;
use trunkline_bench::settings::Settings;
use trunkline_bench::statistics::median;
use trunkline_bench::usage::{Usage, process_cpu_ns};

use crate::brokers::{Broker, Place, free_port, placement};
use crate::{mosquitto, redis_server, zenoh_peer, zeromq};

/// After a pass that takes longer than this, no further pass runs.
const PASS_MAX: Duration = Duration::from_secs(2);

/// Prefix of the names, which the queries of Zenoh match.
fn names(count: usize) -> Vec<String> {
    (0..count)
        .map(|index| name(index).replacen("bench", "ch", 1))
        .collect()
}

/// The far end of systems without a server that keeps values.
pub fn serve(settings: &Settings) -> Outcome<()> {
    let port = settings.value("port")?;
    match settings.value::<String>("system")?.as_str() {
        "zenoh" => zenoh_peer::serve(port, names(settings.value("vars")?)),
        "zeromq" => zeromq::serve_last_values(port),
        other => Err(format!("{other} has no far end of its own").into()),
    }
}

pub fn measure(system: &str, settings: &Settings, place: &str) -> Outcome<Vec<Row>> {
    let (what, variables): (String, usize) = (settings.value("what")?, settings.value("vars")?);
    let passes: usize = settings.value("passes")?;
    if what != "connect" {
        return Err(format!("peers are not measured in {what}").into());
    }
    let broker = Broker::start(system, Place::FarEnd)?;
    let port = broker
        .as_ref()
        .map_or_else(free_port, |broker| Ok(broker.port()))?;
    let names = names(variables);
    let role = match system {
        "redis" => redis_server::fill(port, &names).map(|()| None)?,
        "mosquitto" => mosquitto::fill(port, &names).map(|()| None)?,
        _ => {
            let settings = Settings::default();
            let settings = settings
                .with("system", system)
                .with("port", port)
                .with("vars", variables);
            let mut role = Role::start("footprint-serve", &settings)?;
            role.expect("LISTENING")?;
            Some(role)
        }
    };
    let far = role
        .as_ref()
        .map(Role::pid)
        .or(broker.as_ref().map(Broker::pid));
    let far = far.ok_or("there is no far end")?;
    let case = format!("what=connect vars={variables}");
    let mut row = Row::new(
        SCENARIO,
        system,
        case,
        &placement(place, broker.as_ref(), Place::FarEnd),
    );
    let (mut elapsed, mut near_cpu, mut far_cpu) = (Vec::new(), Vec::new(), Vec::new());
    let mut wrong = 0;
    for pass in 0..=passes {
        let mut set = FirstSet::new(variables);
        let far_before = Usage::of(far)?;
        let near_before = process_cpu_ns();
        let start = Instant::now();
        let ends = match system {
            "redis" => redis_server::first_set(port, &names, &mut set)?,
            "mosquitto" => mosquitto::first_set(port, &names, &mut set)?,
            "zenoh" => zenoh_peer::first_set(port, &names, &mut set)?,
            "zeromq" => zeromq::first_set(port, &names, &mut set)?,
            _ => return Err(format!("there is no system {system}").into()),
        };
        let time = start.elapsed();
        let near_ns = process_cpu_ns() - near_before;
        let far_ns = (Usage::of(far)? - far_before).cpu_ns;
        wrong += set.wrong;
        drop(ends);
        // The first pass has cold caches and is not counted, unless it is the only one.
        let is_long = time > PASS_MAX;
        if pass > 0 || is_long {
            elapsed.push(time.as_secs_f64() * 1e3);
            near_cpu.push(near_ns as f64 * 1e-6);
            far_cpu.push(far_ns as f64 * 1e-6);
        }
        if is_long {
            break;
        }
    }
    row.figure("elapsed_ms", median(&elapsed).unwrap_or(f64::NAN));
    row.figure("near_cpu_ms", median(&near_cpu).unwrap_or(f64::NAN));
    row.figure("far_cpu_ms", median(&far_cpu).unwrap_or(f64::NAN));
    row.figure("passes", elapsed.len() as f64);
    row.require(wrong == 0, || format!("{wrong} readings were wrong"));
    Ok(vec![row])
}

/// Returns the number at the end of a name.
pub fn index_of(name: &str) -> Outcome<usize> {
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    name[digits..]
        .parse()
        .map_err(|_| format!("`{name}` has no number").into())
}
