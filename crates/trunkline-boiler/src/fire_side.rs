//! Defines the variables of the burner, the flue and the protections.

use trunkline_types::{DataType, Scaling, Value};

use super::books::Account;
use super::commands::Target;
use super::controls::TripCause;
use super::instruments::{Instrument, status};
use super::plant::Plant;
use super::rack::{carbon_monoxide, draught};
use super::variable::{Variable, exact, instrument, labels, measured, modes, text, total};

pub fn variables() -> Vec<Variable> {
    [burner(), protection()].into_iter().flatten().collect()
}

fn burner() -> Vec<Variable> {
    vec![
        exact("burner/mode", modes(), |plant| {
            Value::Enum(plant.controls.burner_mode as u32)
        })
        .description(
            "OFF; MANUAL: boiler/burner/firing sets the firing rate; AUTO: pressure control",
        )
        .settable(Target::BurnerMode),
        exact(
            "burner/state",
            labels(&["OFF", "PURGE", "IGNITION", "RUN", "TRIP"]),
            |plant| Value::Enum(plant.controls.burner as u32),
        )
        .description("State of the burner's sequence"),
        exact("burner/step", DataType::U8, |plant| {
            Value::U8(plant.controls.burner as u8)
        })
        .description("Number of the state, as the burner's controller reports it"),
        exact("burner/firing", DataType::F64, |plant| {
            Value::F64(plant.controls.firing)
        })
        .units("%", 1)
        .range(0.0, 100.0)
        .description("Firing rate; can be set in MANUAL")
        .settable(Target::Firing),
        exact("burner/reset", DataType::Bool, |_| Value::Bool(false))
            .description(
                "Set to true to clear a trip after its cause is removed; always reads false",
            )
            .settable(Target::BurnerReset),
        exact("burner/flame", DataType::Bool, |plant| {
            Value::Bool(plant.flows.fuel > 0.0)
        })
        .description("The burner has a flame"),
        exact("burner/trip_cause", DataType::String, |plant| {
            text(match plant.controls.trip {
                None => "",
                Some(TripCause::LowWater) => "low water",
                Some(TripCause::HighPressure) => "high pressure",
            })
        })
        .description("Cause of the burner's trip; empty without a trip"),
        exact("burner/starts", DataType::U32, |plant| {
            Value::U32(plant.controls.burner_starts)
        })
        .description("Number of starts of the burner"),
        instrument(
            "burner/last_start",
            DataType::Timestamp,
            Instrument::LastStart,
        )
        .description("Time of the last start of the burner"),
        measured("burner/fuel", |plant| plant.flows.fuel, 0.0003)
            .units("kg/s", 4)
            .range(-0.01, 0.25)
            .description("Natural gas to the burner"),
        measured("burner/air", |plant| plant.flows.air, 0.01)
            .units("kg/s", 2)
            .range(-0.1, 6.0)
            .description("Combustion air"),
        total("burner/fuel_total", |plant| {
            -plant.books.mass(Account::Fuel)
        })
        .units("kg", 2)
        .description("Natural gas burned since the start"),
        measured(
            "burner/heat",
            |plant| plant.flows.combustion_power / 1e6,
            0.0,
        )
        .units("MW", 3)
        .description("Heat of combustion"),
        exact("control/pressure/error", DataType::F64, |plant| {
            Value::F64(plant.controls.pressure.error)
        })
        .units("bar", 3)
        .description("Setpoint minus drum pressure"),
        exact("control/pressure/output", DataType::F64, |plant| {
            Value::F64(plant.controls.pressure.output)
        })
        .units("%", 1)
        .description("Output of the pressure control"),
        measured("flue/heat", |plant| plant.flows.flue_heat / 1e6, 0.0)
            .units("MW", 3)
            .description("Heat that leaves with the flue gas"),
        measured(
            "flue/temperature",
            |plant| plant.flows.flue_temperature,
            0.3,
        )
        .units("°C", 1)
        .range(0.0, 600.0)
        .description("Temperature of the flue gas"),
        exact("flue/oxygen", DataType::F32, |plant| {
            Value::F32(plant.oxygen() as f32)
        })
        .units("%", 2)
        .description("Oxygen in the dry flue gas"),
        exact("flue/carbon_monoxide", DataType::F32, |plant| {
            Value::F32(carbon_monoxide(plant) as f32)
        })
        .units("ppm", 1)
        .description("Carbon monoxide in the flue gas"),
        exact("flue/draught", DataType::I32, |plant| {
            Value::I32(draught(plant).round() as i32)
        })
        .units("Pa", 0)
        .description("Pressure in the furnace relative to the boiler house"),
        measured("efficiency", Plant::efficiency, 0.0)
            .units("%", 1)
            .range(0.0, 100.0)
            .description(
                "Heat to the water divided by heat of combustion; valid in steady operation",
            ),
    ]
}

fn protection() -> Vec<Variable> {
    let mut chain = exact("protection/chain", DataType::Bool, |plant| {
        Value::Bool(plant.controls.low_water || plant.controls.high_pressure)
    })
    .description(
        "The safety chain is closed; its relay reports the opposite, which scaling inverts",
    );
    chain.properties.scaling = Some(Scaling::Invert);
    let mut trips = exact("protection/trips", DataType::U32, |plant| {
        Value::U32(status(plant))
    })
    .description("Protection bits of boiler/status, selected by a mask");
    trips.properties.scaling = Some(Scaling::BitField {
        invert: 0,
        select: 0x1f,
    });
    vec![
        chain,
        trips,
        exact("protection/low_water", DataType::Bool, |plant| {
            Value::Bool(plant.controls.low_water)
        })
        .description("Drum level below 20 %: trips the burner"),
        exact("protection/high_water", DataType::Bool, |plant| {
            Value::Bool(plant.controls.high_water)
        })
        .description("Drum level above 97 %: closes the feed valve until it is below 90 %"),
        exact("protection/high_pressure", DataType::Bool, |plant| {
            Value::Bool(plant.controls.high_pressure)
        })
        .description("Drum pressure above 13.5 bar: trips the burner"),
        exact("protection/tank_low", DataType::Bool, |plant| {
            Value::Bool(plant.controls.tank_low)
        })
        .description("Feed tank below 5 %: stops the feed pump until it is above 10 %"),
    ]
}
