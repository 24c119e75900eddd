//! Defines the variables of the drum, steam, feed pump and feed tank.

use std::sync::Arc;

use trunkline_types::alarm::LimitLevel;
use trunkline_types::{DataType, StructType, Value};

use super::books::Account;
use super::commands::Target;
use super::instruments::Instrument;
use super::parameters as p;
use super::plant::Plant;
use super::rack::pump_current;
use super::valve::Tag;
use super::variable::{Variable, exact, instrument, measured, modes, total};

pub fn variables() -> Vec<Variable> {
    [drum(), steam(), feed(), tank()]
        .into_iter()
        .flatten()
        .collect()
}

fn drum() -> Vec<Variable> {
    let fields = [
        ("level", DataType::F64),
        ("pressure", DataType::F64),
        ("temperature", DataType::F64),
        ("ok", DataType::Bool),
    ];
    let fields = fields.map(|(name, ty)| (name.into(), ty)).into();
    let cluster = DataType::Struct(Arc::new(StructType { fields }));
    vec![
        measured("drum/pressure", Plant::pressure, 0.004)
            .units("bar", 2)
            .range(0.0, 16.0)
            .description("Drum pressure, absolute; the safety valve lifts at 12.5 bar")
            .limit_alarm(LimitLevel::HiHi, 12.3, 0.2, "Stop the burner")
            .limit_alarm(
                LimitLevel::Hi,
                11.5,
                0.2,
                "Lower boiler/steam/setpoint, or open a steam valve",
            ),
        measured("drum/water", |plant| plant.drum.liquid_mass, 0.0)
            .units("kg", 1)
            .description("Water in the drum"),
        measured("drum/steam", |plant| plant.drum.vapour_mass, 0.0)
            .units("kg", 3)
            .description("Steam in the drum"),
        measured(
            "drum/metal_temperature",
            |plant| plant.metal_temperature,
            0.1,
        )
        .units("°C", 1)
        .range(0.0, 400.0)
        .description("Mean temperature of tubes and brickwork"),
        exact("drum/deviation", DataType::I16, |plant| {
            let deviation = plant.level - plant.controls.level_setpoint;
            Value::I16((deviation / 100.0 * p::LEVEL_HEIGHT_MM).round() as i16)
        })
        .units("mm", 0)
        .description("Level above the setpoint"),
        exact("drum/conductivity", DataType::U16, |plant| {
            Value::U16(plant.conductivity.round() as u16)
        })
        .units("µS/cm", 0)
        .description("Conductivity of the boiler water; blow-down lowers it"),
        instrument("drum/state", cluster, Instrument::DrumState).description(
            "Level, pressure, temperature and whether the level is within limits, as one struct",
        ),
    ]
}

fn steam() -> Vec<Variable> {
    vec![
        measured("steam/flow", |plant| plant.flows.steam, 0.004)
            .units("kg/s", 3)
            .range(-0.1, 6.0)
            .description("Steam to the users"),
        exact("steam/setpoint", DataType::F64, |plant| {
            Value::F64(plant.controls.pressure_setpoint)
        })
        .units("bar", 2)
        .description("Setpoint of the drum pressure")
        .settable(Target::PressureSetpoint),
        exact("steam/demand", DataType::F64, |plant| {
            command_percent(plant, Tag::FV102)
        })
        .units("%", 1)
        .description("Main steam valve command, set by the users' demand")
        .settable(Target::Valve(Tag::FV102)),
        exact("steam/variation", DataType::F64, |plant| {
            Value::F64(plant.variation)
        })
        .units("%", 1)
        .description("Amplitude of the variation of the users' demand")
        .settable(Target::Variation),
        exact("steam/delivered", DataType::F64, |plant| {
            Value::F64(plant.books.mass(Account::SteamUser) / 1000.0)
        })
        .units("t", 3)
        .description("Steam delivered since the start"),
        measured("safety_valve/flow", |plant| plant.flows.safety, 0.0)
            .units("kg/s", 3)
            .description("Steam through the safety valve"),
        exact("safety_valve/lifted", DataType::Bool, |plant| {
            Value::Bool(!plant.valve(Tag::PSV109).is_closed())
        })
        .description("The safety valve is open"),
        exact("safety_valve/lifts", DataType::U32, |plant| {
            Value::U32(plant.lifts)
        })
        .description("Number of lifts of the safety valve"),
        measured("vent/flow", |plant| plant.flows.vent, 0.0)
            .units("kg/s", 3)
            .description("Steam through the roof vent XV110"),
    ]
}

fn feed() -> Vec<Variable> {
    vec![
        exact("pump/mode", modes(), |plant| {
            Value::Enum(plant.controls.pump_mode as u32)
        })
        .description("Feed pump: OFF; MANUAL: boiler/feed moves the valve; AUTO: level control")
        .settable(Target::PumpMode),
        exact("pump/running", DataType::Bool, |plant| {
            Value::Bool(plant.controls.pump_runs)
        })
        .description("The feed pump runs"),
        measured("pump/speed", |plant| plant.pump_speed * 2950.0, 0.0)
            .units("1/min", 0)
            .range(0.0, 3000.0)
            .description("Speed of the feed pump"),
        measured("pump/current", pump_current, 0.05)
            .units("A", 1)
            .range(-1.0, 60.0)
            .description("Motor current of the feed pump"),
        measured("pump/power", |plant| plant.flows.pump_power / 1000.0, 0.0)
            .units("kW", 2)
            .description("Shaft power of the feed pump"),
        measured("pump/pressure", Plant::discharge_pressure, 0.02)
            .units("bar", 2)
            .range(0.0, 40.0)
            .description("Discharge pressure of the feed pump, absolute"),
        exact("pump/starts", DataType::U32, |plant| {
            Value::U32(plant.controls.pump_starts)
        })
        .description("Number of starts of the feed pump"),
        exact("pump/hours", DataType::F32, |plant| {
            Value::F32((plant.pump_seconds / 3600.0) as f32)
        })
        .units("h", 3)
        .description("Running time of the feed pump"),
        measured("feedwater/flow", |plant| plant.flows.feed, 0.006)
            .units("kg/s", 3)
            .range(-0.1, 8.0)
            .description("Feed water to the drum"),
        measured(
            "feedwater/temperature",
            |plant| plant.tank_temperature,
            0.05,
        )
        .units("°C", 1)
        .range(0.0, 150.0)
        .description("Temperature of the feed water"),
        measured("blowdown/flow", |plant| plant.flows.blow_down, 0.0)
            .units("kg/s", 3)
            .description("Water blown down through FV105"),
        exact("control/level/error", DataType::F64, |plant| {
            Value::F64(plant.controls.level.error)
        })
        .units("%", 2)
        .description("Setpoint minus level"),
        exact("control/level/output", DataType::F64, |plant| {
            Value::F64(plant.controls.level.output)
        })
        .units("%", 1)
        .description("Output of the level control"),
        exact("control/level/integral", DataType::F64, |plant| {
            Value::F64(plant.controls.level.integral)
        })
        .units("%", 2)
        .description("Integral part of the level control"),
    ]
}

fn tank() -> Vec<Variable> {
    vec![
        measured("tank/level", Plant::tank_level, 0.03)
            .units("%", 1)
            .range(0.0, 110.0)
            .description("Feed tank level; the feed pump stops at 5 %"),
        exact("tank/setpoint", DataType::F64, |plant| {
            Value::F64(plant.controls.tank_setpoint)
        })
        .units("%", 1)
        .description("Setpoint of the feed tank level")
        .settable(Target::TankSetpoint),
        measured("tank/temperature", |plant| plant.tank_temperature, 0.05)
            .units("°C", 1)
            .range(0.0, 150.0)
            .description("Temperature in the feed tank"),
        measured("tank/make_up", |plant| plant.flows.make_up, 0.002)
            .units("kg/s", 3)
            .range(-0.1, 4.0)
            .description("Make-up water to the feed tank"),
        measured("tank/condensate", |plant| plant.flows.condensate, 0.002)
            .units("kg/s", 3)
            .range(-0.1, 5.0)
            .description("Condensate that returns from the users"),
        total("tank/make_up_total", |plant| {
            -plant.books.mass(Account::MakeUp)
        })
        .units("kg", 1)
        .description("Make-up water since the start"),
        measured("tank/heating", |plant| plant.flows.heating, 0.001)
            .units("kg/s", 3)
            .range(-0.1, 1.0)
            .description("Steam that heats the feed tank"),
    ]
}

fn command_percent(plant: &Plant, tag: Tag) -> Value {
    Value::F64(plant.valve(tag).command)
}
