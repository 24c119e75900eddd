//! Simulates the input rack: analog channels that deliver the raw signals of the plant's instruments.
//!
//! A channel is a 4 to 20 mA loop (linear, or the differential pressure of an orifice), a
//! thermocouple in millivolts, or a converter in counts. As with a real rack, the engine converts
//! the raw values to engineering units with the configured scaling. For an orifice, the scaling
//! includes the square root.

use trunkline_types::{DataType, Level, Quality, Reason, Scaling, Value};

use super::instruments::{Instruments, tube_temperature};
use super::parameters as p;
use super::plant::Plant;
use super::variable::{Source, Variable};

/// One channel of the rack.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// Returns the true value in engineering units.
    read: Read,
    /// Index of the channel in its group.
    index: usize,
    /// Lower end of the range, in engineering units.
    low: f64,
    /// Upper end of the range, in engineering units.
    high: f64,
    wiring: Wiring,
    /// Standard deviation of the noise, as a fraction of the range.
    noise: f64,
    /// Calibration offset, as a fraction of the range.
    offset: f64,
}

/// The kind of signal that a channel receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wiring {
    /// 4 to 20 mA, linear.
    Loop,
    /// 4 to 20 mA, proportional to the square of the flow.
    Orifice,
    /// Millivolts of a type K thermocouple, with the reference junction at 0 °C.
    Thermocouple,
    /// Counts of a 16-bit converter, 0 to 27,648.
    Counts,
    /// An input without a connected instrument.
    Spare,
}

/// A group of channels that measure the same quantity.
struct Group {
    count: usize,
    quantity: &'static str,
    units: &'static str,
    range: (f64, f64),
    wiring: Wiring,
    read: Read,
}

impl Channel {
    /// Returns the raw value with noise, and its quality.
    pub fn read(&self, plant: &Plant, instruments: &mut Instruments) -> (Value, Quality) {
        let span = self.high - self.low;
        let noise = self.noise * instruments.noise();
        let fraction = ((self.read)(plant, self.index) - self.low) / span + self.offset + noise;
        let is_in_range = (-0.0125..=1.03125).contains(&fraction);
        // NAMUR NE 43 limits the signal of a transmitter to 3.8 to 20.5 mA.
        let milliamperes = |fraction: f64| (4.0 + 16.0 * fraction).clamp(3.8, 20.5);
        let raw = match self.wiring {
            Wiring::Loop => Value::F64(milliamperes(fraction)),
            Wiring::Orifice => Value::F64(milliamperes(fraction * fraction.abs()).max(4.0)),
            Wiring::Thermocouple => {
                Value::F64(fraction.clamp(-0.0125, 1.03125) * thermocouple_millivolts(self.high))
            }
            Wiring::Counts => Value::U16((fraction.clamp(0.0, 1.0) * COUNTS_MAX).round() as u16),
            Wiring::Spare => return (Value::F64(0.0), Quality::bad(Reason::Inactive)),
        };
        let quality = if is_in_range {
            Quality::GOOD
        } else {
            Quality::new(Level::Uncertain, Reason::LimitsExceeded)
        };
        (raw, quality)
    }

    /// Returns true if an instrument is connected to the channel.
    pub fn is_wired(&self) -> bool {
        self.wiring != Wiring::Spare
    }

    fn scaling(&self) -> Option<Scaling> {
        let eng = [self.low, self.high];
        match self.wiring {
            Wiring::Loop => Some(Scaling::Linear {
                raw: [4.0, 20.0],
                eng,
            }),
            Wiring::Orifice => Some(Scaling::SquareRoot {
                raw: [4.0, 20.0],
                eng,
            }),
            Wiring::Thermocouple => Some(Scaling::Linear {
                raw: [0.0, thermocouple_millivolts(self.high)],
                eng,
            }),
            Wiring::Counts => Some(Scaling::Linear {
                raw: [0.0, COUNTS_MAX],
                eng,
            }),
            Wiring::Spare => None,
        }
    }
}

/// Returns the variables of the rack. `seed` determines the small calibration error of each
/// transmitter.
pub fn variables(seed: u64) -> Vec<Variable> {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0xAC4);
    let mut list = Vec::new();
    for group in GROUPS {
        for index in 0..group.count {
            let (low, high) = group.range;
            let orifice = group.wiring == Wiring::Orifice;
            let channel = Channel {
                read: group.read,
                index,
                low,
                high,
                wiring: group.wiring,
                noise: if orifice { 0.0008 } else { 0.0005 },
                // An orifice without flow has no calibration error.
                offset: if orifice {
                    0.0
                } else {
                    (rng.f64() - 0.5) * 0.003
                },
            };
            let number = if group.count > 1 {
                format!(" {}", index + 1)
            } else {
                String::new()
            };
            let description = format!("{}{number} ({})", group.quantity, wiring_text(group.wiring));
            let path = format!("ch{:03}", list.len() + 1);
            let source = Source::Channel(channel);
            let mut variable =
                Variable::new("rack1", path, DataType::F64, source).description(description);
            if let Some(scaling) = channel.scaling() {
                variable = variable
                    .units(group.units, decimal_places(high - low))
                    .range(low, high);
                variable.properties.scaling = Some(scaling);
                variable.properties.coerce = true;
            } else {
                variable = variable.units(group.units, 2);
            }
            list.push(variable);
        }
    }
    list
}

fn wiring_text(wiring: Wiring) -> &'static str {
    match wiring {
        Wiring::Loop => "4 to 20 mA",
        Wiring::Orifice => "orifice, 4 to 20 mA",
        Wiring::Thermocouple => "thermocouple type K",
        Wiring::Counts => "0 to 27648 counts",
        Wiring::Spare => "input open",
    }
}

/// Returns the number of decimal places that are needed to show a thousandth of the span.
fn decimal_places(span: f64) -> u8 {
    match span {
        s if s >= 500.0 => 0,
        s if s >= 50.0 => 1,
        s if s >= 5.0 => 2,
        _ => 3,
    }
}

/// Returns the voltage of a type K thermocouple at the upper end of its range, 400 or 1200 °C, in mV
/// (IEC 60584-1). The model is linear from 0 °C to that point.
fn thermocouple_millivolts(celsius: f64) -> f64 {
    if celsius > 400.0 { 48.838 } else { 16.397 }
}

/// Counts of the converter at the upper end of the range.
const COUNTS_MAX: f64 = 27_648.0;

#[rustfmt::skip]
const GROUPS: &[Group] = &[
    current(3, "Drum level", "%", (0.0, 100.0), |plant, _| plant.level),
    current(3, "Drum pressure", "bar", (0.0, 16.0), |plant, _| plant.pressure()),
    orifice(2, "Steam flow", 5.0, |plant, _| plant.flows.steam),
    orifice(2, "Feed water flow", 8.0, |plant, _| plant.flows.feed),
    orifice(1, "Make-up water flow", 4.0, |plant, _| plant.flows.make_up),
    orifice(1, "Condensate flow", 4.0, |plant, _| plant.flows.condensate),
    orifice(1, "Heating steam flow", 0.6, |plant, _| plant.flows.heating),
    orifice(1, "Fuel flow", 0.2, |plant, _| plant.flows.fuel),
    orifice(1, "Combustion air flow", 5.0, |plant, _| plant.flows.air),
    orifice(1, "Blow-down flow", 1.0, |plant, _| plant.flows.blow_down),
    thermocouples(2, "Steam temperature", 400.0, |plant, _| plant.drum.state.temperature),
    thermocouples(16, "Tube wall temperature", 400.0, tube_temperature),
    thermocouples(6, "Drum shell temperature", 400.0, shell),
    thermocouples(4, "Flue gas temperature", 400.0, flue),
    thermocouples(2, "Furnace temperature", 1200.0, furnace),
    current(3, "Feed tank temperature", "°C", (0.0, 150.0), tank_layer_temperature),
    current(2, "Feed tank level", "%", (0.0, 100.0), |plant, _| plant.tank_level()),
    current(1, "Feed water temperature", "°C", (0.0, 150.0), |plant, _| feed_temperature(plant)),
    current(1, "Pump suction pressure", "bar", (0.0, 4.0), suction),
    current(1, "Pump discharge pressure", "bar", (0.0, 40.0), |plant, _| plant.discharge_pressure()),
    current(1, "Pump motor current", "A", (0.0, 60.0), |plant, _| pump_current(plant)),
    current(2, "Pump bearing temperature", "°C", (0.0, 150.0), bearing),
    current(1, "Fan motor current", "A", (0.0, 60.0), |plant, _| fan_current(plant)),
    current(2, "Fan bearing temperature", "°C", (0.0, 150.0), fan_bearing),
    current(1, "Combustion air pressure", "mbar", (0.0, 60.0), |plant, _| air_pressure(plant)),
    current(1, "Fuel gas pressure", "mbar", (0.0, 400.0), |plant, _| fuel_pressure(plant)),
    current(1, "Fuel gas temperature", "°C", (-20.0, 60.0), |_, _| p::AMBIENT_TEMPERATURE - 8.0),
    current(1, "Oxygen in flue gas", "%", (0.0, 25.0), |plant, _| plant.oxygen()),
    current(1, "Carbon monoxide in flue gas", "ppm", (0.0, 500.0), |plant, _| carbon_monoxide(plant)),
    current(1, "Furnace draught", "Pa", (-100.0, 100.0), |plant, _| draught(plant)),
    current(1, "Boiler water conductivity", "µS/cm", (0.0, 6000.0), |plant, _| plant.conductivity),
    current(1, "Header pressure", "bar", (0.0, 16.0), |_, _| p::HEADER_PRESSURE),
    current(1, "Condensate temperature", "°C", (0.0, 150.0), |_, _| p::CONDENSATE_TEMPERATURE),
    current(2, "Boiler house temperature", "°C", (-20.0, 60.0), |_, _| p::AMBIENT_TEMPERATURE),
    counts(10, "Valve position", "%", (0.0, 100.0), |plant, index| plant.valves[index].travel),
    spare(4),
];

type Read = fn(&Plant, usize) -> f64;

const fn current(
    count: usize,
    quantity: &'static str,
    units: &'static str,
    range: (f64, f64),
    read: Read,
) -> Group {
    Group {
        count,
        quantity,
        units,
        range,
        wiring: Wiring::Loop,
        read,
    }
}

const fn counts(
    count: usize,
    quantity: &'static str,
    units: &'static str,
    range: (f64, f64),
    read: Read,
) -> Group {
    Group {
        count,
        quantity,
        units,
        range,
        wiring: Wiring::Counts,
        read,
    }
}

/// Returns orifice channels for flows from 0 to `range_max` kg/s.
const fn orifice(count: usize, quantity: &'static str, range_max: f64, read: Read) -> Group {
    Group {
        count,
        quantity,
        units: "kg/s",
        range: (0.0, range_max),
        wiring: Wiring::Orifice,
        read,
    }
}

/// Returns thermocouple channels for temperatures from 0 to `range_max` °C.
const fn thermocouples(count: usize, quantity: &'static str, range_max: f64, read: Read) -> Group {
    Group {
        count,
        quantity,
        units: "°C",
        range: (0.0, range_max),
        wiring: Wiring::Thermocouple,
        read,
    }
}

/// Returns inputs that are not wired.
const fn spare(count: usize) -> Group {
    let (wiring, range) = (Wiring::Spare, (0.0, 20.0));
    Group {
        count,
        quantity: "Spare",
        units: "mA",
        range,
        wiring,
        read: |_, _| 0.0,
    }
}

fn shell(plant: &Plant, index: usize) -> f64 {
    plant.drum.state.temperature - 1.0 - 0.6 * index as f64
}

fn flue(plant: &Plant, index: usize) -> f64 {
    plant.flows.flue_temperature - 3.0 * index as f64
}

/// Temperature at a furnace sensor, °C. It is lower than the flame temperature, because the gas
/// between flame and sensor radiates heat.
fn furnace(plant: &Plant, index: usize) -> f64 {
    let flame = plant.flows.flame_temperature;
    p::AMBIENT_TEMPERATURE + (flame - p::AMBIENT_TEMPERATURE) * (0.52 - 0.03 * index as f64)
}

/// Temperature of the feed water, °C. The pipe from the tank loses some heat.
fn feed_temperature(plant: &Plant) -> f64 {
    plant.tank_temperature - 0.4
}

fn tank_layer_temperature(plant: &Plant, index: usize) -> f64 {
    plant.tank_temperature - 0.5 * index as f64
}

/// Suction pressure of the pump, bar. It includes the water column, because the tank is above the pump.
fn suction(plant: &Plant, _: usize) -> f64 {
    p::TANK_PRESSURE + 0.3 + 0.002 * plant.tank_level()
}

/// Motor current of the feed pump, A.
pub fn pump_current(plant: &Plant) -> f64 {
    let magnetizing_current = if plant.controls.pump_runs { 9.0 } else { 0.0 };
    magnetizing_current * plant.pump_speed + plant.flows.pump_power / 600.0
}

fn fan_current(plant: &Plant) -> f64 {
    if plant.flows.air > 0.0 {
        8.0 + 1.2 * plant.flows.air * plant.flows.air
    } else {
        0.0
    }
}

/// Pressure of the combustion air, mbar. It rises with the square of the flow.
fn air_pressure(plant: &Plant) -> f64 {
    2.6 * plant.flows.air * plant.flows.air
}

/// Pressure of the fuel gas, mbar. It falls with the square of the flow.
fn fuel_pressure(plant: &Plant) -> f64 {
    300.0 - 1200.0 * plant.flows.fuel * plant.flows.fuel
}

fn bearing(plant: &Plant, index: usize) -> f64 {
    p::AMBIENT_TEMPERATURE + 12.0 * plant.pump_speed + 2.0 * plant.flows.feed + 3.0 * index as f64
}

fn fan_bearing(plant: &Plant, index: usize) -> f64 {
    p::AMBIENT_TEMPERATURE + 5.0 * plant.flows.air + 2.0 * index as f64
}

/// Carbon monoxide in the flue gas, ppm. It is higher at a low firing rate, where mixing is poor.
pub fn carbon_monoxide(plant: &Plant) -> f64 {
    match plant.flows.fuel / p::FUEL_MAX {
        firing_rate if firing_rate > 0.0 => 15.0 + 60.0 * (1.0 - firing_rate).powi(3),
        _ => 0.0,
    }
}

/// Pressure in the furnace relative to the boiler house, Pa; negative under suction.
pub fn draught(plant: &Plant) -> f64 {
    -12.0 - 6.0 * plant.flows.air
}
