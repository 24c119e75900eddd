//! W2: calls.

use trunkline_bench::Outcome;
use trunkline_bench::call_cost::cell::run;
use trunkline_bench::call_cost::{Operation, SCENARIO, VARIABLES, Variables, Verb};
use trunkline_bench::record::Row;
use trunkline_bench::role::Role;
use trunkline_bench::settings::Settings;

use crate::brokers::{Broker, Place, free_port, placement};
use crate::{mosquitto, nats, redis_server, zenoh_peer, zeromq};

/// The far end of systems whose server does not hold the values.
pub fn serve(settings: &Settings) -> Outcome<()> {
    let port = settings.value("port")?;
    match settings.value::<String>("system")?.as_str() {
        "zenoh" => zenoh_peer::serve(port, (0..VARIABLES).map(|n| format!("ch/{n}")).collect()),
        "zeromq" => zeromq::serve(port),
        "nats" => nats::serve(port),
        other => Err(format!("{other} has no far end of its own").into()),
    }
}

pub fn measure(system: &str, settings: &Settings, place: &str) -> Outcome<Vec<Row>> {
    let (calls, passes) = (settings.value("calls")?, settings.value("passes")?);
    let operations: String = settings.value("operations")?;
    // The server of NATS runs between the two ends.
    let of_broker = if system == "nats" {
        Place::Between
    } else {
        Place::FarEnd
    };
    let broker = Broker::start(system, of_broker)?;
    let port = broker
        .as_ref()
        .map_or_else(free_port, |broker| Ok(broker.port()))?;
    let role = match &broker {
        Some(_) if system != "nats" => None,
        _ => {
            let settings = Settings::default()
                .with("system", system)
                .with("port", port);
            let mut role = Role::start("call_cost-serve", &settings)?;
            role.expect("LISTENING")?;
            Some(role)
        }
    };
    let far = role
        .as_ref()
        .map(Role::pid)
        .or(broker.as_ref().map(Broker::pid));
    let far = far.ok_or("there is no far end")?;
    let mut near: Box<dyn Variables> = match system {
        "redis" => Box::new(redis_server::Keys::connect(port)?),
        "mosquitto" => Box::new(mosquitto::Retained::connect(port)),
        "nats" => Box::new(nats::Subjects::connect(port)?),
        "zenoh" => Box::new(zenoh_peer::Queries::connect(port)?),
        "zeromq" => Box::new(zeromq::Calls::connect(port)?),
        _ => return Err(format!("there is no system {system}").into()),
    };
    // So that gets return a value.
    near.put_all(0, VARIABLES)?;
    let mut rows = Vec::new();
    for name in operations.split(',') {
        let operation = Operation::named(name)?;
        if system == "mosquitto" && operation.verb == Verb::Get {
            continue;
        }
        let place = placement(place, broker.as_ref(), of_broker);
        let mut row = Row::new(SCENARIO, system, format!("op={name} calls={calls}"), &place);
        run(operation, calls, passes, near.as_mut(), far, &mut row)?;
        rows.push(row);
    }
    Ok(rows)
}

/// Reads a number from bytes.
pub fn number(bytes: &[u8]) -> Outcome<f64> {
    Ok(f64::from_le_bytes(
        bytes.try_into().map_err(|_| "a value of another length")?,
    ))
}
