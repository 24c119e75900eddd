//! Writes values to the plant, and checks their limits and interlocks.

use trunkline_types::Value;

use super::controls::{BurnerMode, BurnerState, PumpMode, TripCause};
use super::parameters as p;
use super::plant::Plant;
use super::valve::{CommandSource, Tag};
use trunkline_io::SendRefusal;
use trunkline_io::server::type_name;

/// An item of the plant that an operator can set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Setpoint of the drum level.
    LevelSetpoint,
    /// Command to the feed valve. Setting it switches the level control to MANUAL.
    Feed,
    /// Setpoint of the drum pressure.
    PressureSetpoint,
    /// Setpoint of the feed tank level.
    TankSetpoint,
    /// Amplitude of the variation of the steam demand.
    Variation,
    /// Firing rate, which can be set if the burner is in MANUAL.
    Firing,
    PumpMode,
    BurnerMode,
    /// Clears a trip of the burner.
    BurnerReset,
    /// A manually operated valve.
    Valve(Tag),
    Note,
}

/// Returns the lowest and highest value of a target, or `None` if the target is not a number.
pub fn limits(target: Target) -> Option<(f64, f64)> {
    match target {
        Target::LevelSetpoint => Some((30.0, 85.0)),
        Target::PressureSetpoint => Some((6.0, 11.5)),
        Target::TankSetpoint => Some((30.0, 90.0)),
        Target::Variation => Some((0.0, 20.0)),
        Target::Firing => Some((p::FIRE_MIN, 100.0)),
        Target::Feed => Some((0.0, 100.0)),
        Target::Valve(tag) if tag.command_source() == CommandSource::Hand => Some((0.0, 100.0)),
        Target::PumpMode | Target::BurnerMode | Target::BurnerReset | Target::Note => None,
        Target::Valve(_) => None,
    }
}

/// Sets a target to a value, and returns its new value.
///
/// `item` and `units` are the name and the unit of the target, for the message of a refusal.
///
/// # Errors
/// [`SendRefusal`] for a wrong type, a value outside the limits, or an interlock. The plant is then
/// unchanged.
pub fn apply(
    plant: &mut Plant,
    target: Target,
    item: &str,
    units: &str,
    value: &Value,
) -> Result<Value, SendRefusal> {
    if let Some((low, high)) = limits(target) {
        let number = match value {
            Value::F64(number) => *number,
            other => return Err(wrong_type(item, "f64", other)),
        };
        // NaN is outside all limits.
        if !(low..=high).contains(&number) {
            let (item, units) = (item.into(), units.into());
            return Err(SendRefusal::OutOfRange {
                item,
                given: number,
                low,
                high,
                units,
            });
        }
        set_number(plant, target, item, number)?;
        return Ok(Value::F64(number));
    }
    match (target, value) {
        (Target::PumpMode, Value::Enum(mode)) => set_pump_mode(plant, item, *mode)?,
        (Target::BurnerMode, Value::Enum(mode)) => set_burner_mode(plant, item, *mode)?,
        (Target::BurnerReset, Value::Bool(reset)) => {
            if *reset {
                reset_burner(plant, item)?;
            }
            return Ok(Value::Bool(false));
        }
        (Target::Valve(tag), Value::Bool(open)) => {
            plant.valves[tag as usize].command = if *open { 100.0 } else { 0.0 };
        }
        (Target::Note, Value::String(note)) if note.len() <= NOTE_BYTES_MAX => {
            plant.controls.note = note.clone();
        }
        (Target::Note, Value::String(note)) => {
            let (given, high) = (note.len() as f64, NOTE_BYTES_MAX as f64);
            let (item, units) = (item.into(), "bytes".into());
            return Err(SendRefusal::OutOfRange {
                item,
                given,
                low: 0.0,
                high,
                units,
            });
        }
        (Target::Note, other) => return Err(wrong_type(item, "string", other)),
        (Target::PumpMode | Target::BurnerMode, other) => {
            return Err(wrong_type(item, "enum(OFF, MANUAL, AUTO)", other));
        }
        (_, other) => return Err(wrong_type(item, "bool", other)),
    }
    Ok(value.clone())
}

fn set_number(
    plant: &mut Plant,
    target: Target,
    item: &str,
    number: f64,
) -> Result<(), SendRefusal> {
    let controls = &mut plant.controls;
    match target {
        Target::LevelSetpoint => controls.level_setpoint = number,
        Target::PressureSetpoint => controls.pressure_setpoint = number,
        Target::TankSetpoint => controls.tank_setpoint = number,
        Target::Variation => plant.variation = number,
        Target::Valve(tag) => plant.valves[tag as usize].command = number,
        Target::Feed => {
            if controls.pump_mode == PumpMode::Off {
                let rule = "the feed pump is OFF; set boiler/pump/mode to MANUAL first";
                return Err(interlock(item, rule.into()));
            }
            if controls.pump_mode == PumpMode::Auto {
                controls.pump_mode = PumpMode::Manual;
                controls.record_event("Level control in MANUAL: an operator set the feed".into());
            }
            controls.feed = number;
        }
        Target::Firing => {
            if controls.burner_mode != BurnerMode::Manual {
                let rule = "the pressure controller sets the firing rate unless the burner is in \
                            MANUAL; set boiler/burner/mode to MANUAL first";
                return Err(interlock(item, rule.into()));
            }
            controls.firing = number;
        }
        Target::PumpMode | Target::BurnerMode | Target::BurnerReset | Target::Note => {}
    }
    Ok(())
}

fn set_pump_mode(plant: &mut Plant, item: &str, mode: u32) -> Result<(), SendRefusal> {
    let mode = match mode {
        0 => PumpMode::Off,
        1 => PumpMode::Manual,
        2 => PumpMode::Auto,
        other => return Err(unknown_label(item, other)),
    };
    if mode != PumpMode::Off && plant.controls.tank_low {
        let level = plant.tank_level();
        let rule = format!(
            "the level of the feed tank is {level:.1} %, too low for the pump; wait until it is {} %",
            p::TANK_LOW_RESET
        );
        return Err(interlock(item, rule));
    }
    if plant.controls.pump_mode != mode {
        plant.controls.pump_mode = mode;
        plant.controls.record_event(match mode {
            PumpMode::Off => "Feed pump OFF".into(),
            PumpMode::Manual => "Level control in MANUAL".into(),
            PumpMode::Auto => "Level control in AUTO".into(),
        });
    }
    Ok(())
}

fn set_burner_mode(plant: &mut Plant, item: &str, mode: u32) -> Result<(), SendRefusal> {
    let mode = match mode {
        0 => BurnerMode::Off,
        1 => BurnerMode::Manual,
        2 => BurnerMode::Auto,
        other => return Err(unknown_label(item, other)),
    };
    let is_running = !matches!(plant.controls.burner, BurnerState::Off | BurnerState::Trip);
    if mode != BurnerMode::Off && !is_running {
        if plant.level < p::LOW_WATER {
            let rule = format!(
                "the burner cannot start at a drum level of {:.1} %, below the low water limit of {} \
                 %; raise the level first",
                plant.level,
                p::LOW_WATER
            );
            return Err(interlock(item, rule));
        }
        if plant.controls.burner == BurnerState::Trip {
            let rule = "the burner has tripped; set boiler/burner/reset to true first";
            return Err(interlock(item, rule.into()));
        }
    }
    if plant.controls.burner_mode != mode {
        plant.controls.burner_mode = mode;
        plant.controls.record_event(match mode {
            BurnerMode::Off => "Burner OFF".into(),
            BurnerMode::Manual => "Pressure control in MANUAL".into(),
            BurnerMode::Auto => "Pressure control in AUTO".into(),
        });
    }
    Ok(())
}

fn reset_burner(plant: &mut Plant, item: &str) -> Result<(), SendRefusal> {
    let (level, pressure) = (plant.level, plant.pressure());
    let rule = match plant.controls.trip {
        Some(TripCause::LowWater) if level < p::LOW_WATER_RESET => format!(
            "the drum level is {level:.1} %; a trip for low water can be reset above {} %",
            p::LOW_WATER_RESET
        ),
        Some(TripCause::HighPressure) if pressure > p::HIGH_PRESSURE_RESET => format!(
            "the drum pressure is {pressure:.2} bar; a trip for high pressure can be reset below {} bar",
            p::HIGH_PRESSURE_RESET
        ),
        _ => {
            plant.controls.reset();
            return Ok(());
        }
    };
    Err(interlock(item, rule))
}

fn wrong_type(item: &str, expected: &str, given: &Value) -> SendRefusal {
    let (item, expected) = (item.into(), expected.into());
    SendRefusal::WrongType {
        item,
        expected,
        given: type_name(given),
    }
}

fn unknown_label(item: &str, number: u32) -> SendRefusal {
    let (item, given) = (item.into(), f64::from(number));
    SendRefusal::OutOfRange {
        item,
        given,
        low: 0.0,
        high: 2.0,
        units: "(number of a label)".into(),
    }
}

fn interlock(item: &str, rule: String) -> SendRefusal {
    SendRefusal::Interlock {
        item: item.into(),
        rule,
    }
}

/// Maximum length of a note, in bytes.
const NOTE_BYTES_MAX: usize = 200;
