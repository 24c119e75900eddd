//! Defines the variables of the library `boiler`.

use std::sync::Arc;

use trunkline_types::alarm::LimitLevel;
use trunkline_types::{ArrayType, DataType, ElementType, Value};

use super::books::{Balance, ENERGY_UNITS, MASS_UNITS};
use super::commands::Target;
use super::instruments::{FLAME_MAP, Instrument, TUBES, status};
use super::parameters as p;
use super::plant::Plant;
use super::variable::{Variable, exact, instrument, measured, text, total};
use super::{fire_side, water_side};

pub fn variables() -> Vec<Variable> {
    let parts = [
        main_variables(),
        water_side::variables(),
        fire_side::variables(),
        balance_variables(),
        other_variables(),
    ];
    parts.into_iter().flatten().collect()
}

fn main_variables() -> Vec<Variable> {
    vec![
        measured("level", |plant| plant.level, 0.03)
            .units("%", 1)
            .range(0.0, 100.0)
            .description("Drum level; low water at 20 %, high water at 97 %")
            .limit_alarm(
                LimitLevel::HiHi,
                90.0,
                1.0,
                "Lower boiler/setpoint, and check the feed valve",
            )
            .limit_alarm(
                LimitLevel::Hi,
                76.0,
                0.5,
                "Lower boiler/setpoint, or open the blow-down",
            )
            .limit_alarm(
                LimitLevel::Lo,
                60.0,
                0.5,
                "Raise boiler/setpoint, and check the feed pump",
            )
            .limit_alarm(
                LimitLevel::LoLo,
                35.0,
                1.0,
                "Stop the burner before the water is low",
            ),
        exact("setpoint", DataType::F64, |plant| {
            Value::F64(plant.controls.level_setpoint)
        })
        .units("%", 1)
        .description("Setpoint of the drum level")
        .settable(Target::LevelSetpoint),
        exact("feed", DataType::F64, |plant| {
            Value::F64(plant.controls.feed)
        })
        .units("%", 1)
        .description("Feed valve command; setting it switches boiler/pump/mode from AUTO to MANUAL")
        .settable(Target::Feed),
        measured("temp", |plant| plant.drum.state.temperature, 0.05)
            .units("°C", 1)
            .range(0.0, 250.0)
            .description("Temperature of water and steam in the drum"),
        exact("name", DataType::String, |_| text("Boiler 1")).description("Name of the boiler"),
        exact("note", DataType::String, |plant| {
            Value::String(plant.controls.note.clone())
        })
        .description("Operator's note; up to 200 bytes")
        .settable(Target::Note),
        exact("message", DataType::String, |plant| {
            text(&plant.controls.message)
        })
        .description("The last event"),
        exact("events", DataType::U32, |plant| {
            Value::U32(plant.controls.events)
        })
        .description("Number of events"),
        exact("status", DataType::U32, |plant| Value::U32(status(plant))).description(
            "Bits: 0 low water, 1 high water, 2 high pressure, 3 tank low, 4 burner tripped, \
             5 burning, 6 pump runs, 7 safety valve open",
        ),
    ]
}

/// Returns the variables for the balance of mass and energy: the amounts received, delivered and
/// stored, and the error.
fn balance_variables() -> Vec<Variable> {
    vec![
        total("balance/mass_in", |plant| kilograms(plant.books.received()))
            .units("kg", 3)
            .description("Water, fuel and air received since the start"),
        total("balance/mass_out", |plant| {
            kilograms(plant.books.delivered())
        })
        .units("kg", 3)
        .description("Steam, water and flue gas delivered since the start"),
        total("balance/mass_stored", |plant| {
            kilograms(plant.books.stored())
        })
        .units("kg", 3)
        .description("Water and steam in the plant"),
        exact("balance/mass_error", DataType::I64, |plant| {
            Value::I64(i64::try_from(plant.books.imbalance().mass).unwrap_or(i64::MAX))
        })
        .units("ng", 0)
        .description(
            "Received minus delivered minus change of stored; 0 unless the books are wrong",
        ),
        total("balance/energy_in", |plant| {
            megajoules(plant.books.received())
        })
        .units("MJ", 3)
        .description("Energy received since the start"),
        total("balance/energy_out", |plant| {
            megajoules(plant.books.delivered())
        })
        .units("MJ", 3)
        .description("Energy delivered or lost since the start"),
        total("balance/energy_stored", |plant| {
            megajoules(plant.books.stored())
        })
        .units("MJ", 3)
        .description("Energy in water, steam and metal, from 0 °C"),
        exact("balance/energy_error", DataType::I64, |plant| {
            Value::I64(i64::try_from(plant.books.imbalance().energy).unwrap_or(i64::MAX))
        })
        .units("µJ", 0)
        .description(
            "Received minus delivered minus change of stored; 0 unless the books are wrong",
        ),
    ]
}

fn other_variables() -> Vec<Variable> {
    let tubes = ArrayType {
        element: ElementType::F64,
        shape: vec![Some(TUBES as u32)],
    };
    let (rows, columns) = FLAME_MAP;
    let map = ArrayType {
        element: ElementType::F32,
        shape: vec![Some(rows), Some(columns)],
    };
    vec![
        instrument(
            "tubes/temperature",
            DataType::Array(Arc::new(tubes)),
            Instrument::Tubes,
        )
        .units("°C", 1)
        .description("Wall temperatures along the tubes"),
        instrument(
            "furnace/map",
            DataType::Array(Arc::new(map)),
            Instrument::FlameMap,
        )
        .units("°C", 0)
        .description("Temperatures over the furnace's cross-section"),
        instrument(
            "vibration/waveform",
            DataType::Waveform(ElementType::F64),
            Instrument::Vibration,
        )
        .units("mm/s", 2)
        .description("Vibration of the feed pump: 1024 samples at 2048 Hz"),
        instrument(
            "vibration/effective",
            DataType::F64,
            Instrument::VibrationRms,
        )
        .units("mm/s", 2)
        .description("RMS value of the last vibration waveform"),
        instrument("telegram", DataType::Bytes, Instrument::Telegram).description(
            "Message of the controller's serial line: TL, counter u16, status u32, level i16 in 0.01 %, \
             pressure u16 in mbar, sum u16",
        ),
        exact("ambient", DataType::I8, |_| {
            Value::I8(p::AMBIENT_TEMPERATURE as i8)
        })
        .units("°C", 0)
        .description("Temperature of the boiler house, in whole degrees"),
        exact("sim/steps", DataType::U64, |plant| {
            Value::U64(plant.steps - plant.settled_at)
        })
        .description("Steps of 0.1 s since the start"),
        measured("sim/time", Plant::seconds, 0.0)
            .units("s", 1)
            .description("Plant time since the start"),
        instrument("sim/skipped", DataType::F64, Instrument::Skipped)
            .units("s", 1)
            .description("Plant time skipped because scans were late"),
    ]
}

fn kilograms(balance: Balance) -> f64 {
    balance.mass as f64 / MASS_UNITS
}

fn megajoules(balance: Balance) -> f64 {
    balance.energy as f64 / ENERGY_UNITS / 1e6
}
