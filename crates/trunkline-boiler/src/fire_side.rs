//! The variables of the burner, flue and protections.

use trunkline_types::{DataType, Scaling, Value};

use super::books::Account;
use super::commands::Target;
use super::controls::TripCause;
use super::instruments::{Instrument, status};
use super::plant::Plant;
use super::rack::{carbon_monoxide, draught};
use super::variable::{Variable, instrument, known, labels, measured, modes, text, total};

pub fn variables() -> Vec<Variable> {
    [burner(), protection()].into_iter().flatten().collect()
}

fn burner() -> Vec<Variable> {
    vec![
        known("burner/mode", modes(), |plant| {
            Value::Enum(plant.controls.burner_mode as u32)
        })
        .about("OFF; MANUAL: boiler/burner/firing sets the fire; AUTO: pressure control")
        .sets(Target::BurnerMode),
        known(
            "burner/state",
            labels(&["OFF", "PURGE", "IGNITION", "RUN", "TRIP"]),
            |plant| Value::Enum(plant.controls.burner as u32),
        )
        .about("State of the burner's sequence"),
        known("burner/step", DataType::U8, |plant| {
            Value::U8(plant.controls.burner as u8)
        })
        .about("The same as a number, as the burner's controller reports it"),
        known("burner/firing", DataType::F64, |plant| {
            Value::F64(plant.controls.firing)
        })
        .units("%", 1)
        .range(0.0, 100.0)
        .about("Fire, of full fire; can be set in MANUAL")
        .sets(Target::Firing),
        known("burner/reset", DataType::Bool, |_| Value::Bool(false))
            .about("Set true to clear a trip once its cause is gone; reads false")
            .sets(Target::BurnerReset),
        known("burner/flame", DataType::Bool, |plant| {
            Value::Bool(plant.flows.fuel > 0.0)
        })
        .about("There is a flame"),
        known("burner/trip_cause", DataType::String, |plant| {
            text(match plant.controls.trip {
                None => "",
                Some(TripCause::LowWater) => "low water",
                Some(TripCause::HighPressure) => "high pressure",
            })
        })
        .about("What tripped the burner; empty when nothing did"),
        known("burner/starts", DataType::U32, |plant| {
            Value::U32(plant.controls.burner_starts)
        })
        .about("Number of starts of the burner"),
        instrument(
            "burner/last_start",
            DataType::Timestamp,
            Instrument::LastStart,
        )
        .about("When the burner last started"),
        measured("burner/fuel", |plant| plant.flows.fuel, 0.0003)
            .units("kg/s", 4)
            .range(-0.01, 0.25)
            .about("Natural gas to the burner"),
        measured("burner/air", |plant| plant.flows.air, 0.01)
            .units("kg/s", 2)
            .range(-0.1, 6.0)
            .about("Combustion air"),
        total("burner/fuel_total", |plant| {
            -plant.books.mass(Account::Fuel)
        })
        .units("kg", 2)
        .about("Natural gas burned since the start"),
        measured(
            "burner/heat",
            |plant| plant.flows.combustion_power / 1e6,
            0.0,
        )
        .units("MW", 3)
        .about("Heat of combustion"),
        known("control/pressure/error", DataType::F64, |plant| {
            Value::F64(plant.controls.pressure.error)
        })
        .units("bar", 3)
        .about("Setpoint minus drum pressure"),
        known("control/pressure/output", DataType::F64, |plant| {
            Value::F64(plant.controls.pressure.output)
        })
        .units("%", 1)
        .about("Output of the pressure control"),
        measured("flue/heat", |plant| plant.flows.flue / 1e6, 0.0)
            .units("MW", 3)
            .about("Heat that leaves with the flue gas"),
        measured(
            "flue/temperature",
            |plant| plant.flows.flue_temperature,
            0.3,
        )
        .units("°C", 1)
        .range(0.0, 600.0)
        .about("Temperature of the flue gas"),
        known("flue/oxygen", DataType::F32, |plant| {
            Value::F32(plant.oxygen() as f32)
        })
        .units("%", 2)
        .about("Oxygen in the dry flue gas"),
        known("flue/carbon_monoxide", DataType::F32, |plant| {
            Value::F32(carbon_monoxide(plant) as f32)
        })
        .units("ppm", 1)
        .about("Carbon monoxide in the flue gas"),
        known("flue/draught", DataType::I32, |plant| {
            Value::I32(draught(plant).round() as i32)
        })
        .units("Pa", 0)
        .about("Pressure in the furnace against the boiler house"),
        measured("efficiency", Plant::efficiency, 0.0)
            .units("%", 1)
            .range(0.0, 100.0)
            .about("Heat to the water over heat of combustion; meaningful in steady fire"),
    ]
}

fn protection() -> Vec<Variable> {
    let mut chain = known("protection/chain", DataType::Bool, |plant| {
        Value::Bool(plant.controls.low_water || plant.controls.high_pressure)
    })
    .about("The safety chain is closed; its relay reports the opposite, which scaling inverts");
    chain.properties.scaling = Some(Scaling::Invert);
    let mut trips = known("protection/trips", DataType::U32, |plant| {
        Value::U32(status(plant))
    })
    .about("The bits of boiler/status that protect, selected by a mask");
    trips.properties.scaling = Some(Scaling::BitField {
        invert: 0,
        select: 0x1f,
    });
    vec![
        chain,
        trips,
        known("protection/low_water", DataType::Bool, |plant| {
            Value::Bool(plant.controls.low_water)
        })
        .about("Drum level below 20 %: trips the burner"),
        known("protection/high_water", DataType::Bool, |plant| {
            Value::Bool(plant.controls.high_water)
        })
        .about("Drum level above 97 %: closes the feed valve until it is below 90 %"),
        known("protection/high_pressure", DataType::Bool, |plant| {
            Value::Bool(plant.controls.high_pressure)
        })
        .about("Drum pressure above 13.5 bar: trips the burner"),
        known("protection/tank_low", DataType::Bool, |plant| {
            Value::Bool(plant.controls.tank_low)
        })
        .about("Feed tank below 5 %: stops the feed pump until it is above 10 %"),
    ]
}
