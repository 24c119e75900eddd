//! Computes scales of sensors: thermocouples, resistance thermometers, thermistors and strain
//! gauges.
//!
//! The scales use these equations, with the parameters that NI's drivers write to a file:
//! - Thermocouple: the reference functions of NIST; see `thermocouple`.
//! - Resistance thermometer: the Callendar-Van Dusen equation (IEC 60751),
//!   `R(t) = R0 (1 + A t + B t^2 + C (t - 100) t^3)`. The last term applies only below 0 degrees.
//! - Thermistor: the Steinhart-Hart equation, `1 / T = A + B ln R + C (ln R)^3`.
//! - Strain gauge: the equation of the Wheatstone bridge,
//!   `Vout / Vex = R3 / (R3 + R4) - R2 / (R1 + R2)`, solved for the strain of each arrangement of
//!   gauges.

use super::thermocouple::{Piece, Thermocouple, from_code};
use super::{ChainBuilder, ScaleError};

const CURRENT_EXCITATION: u64 = 10_134;
const VOLTAGE_EXCITATION: u64 = 10_322;

/// Number of Newton steps after which a temperature below 0 degrees is exact. Each step doubles the
/// number of correct digits.
const NEWTON_STEPS: usize = 12;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Sensor {
    /// Converts microvolts to degrees Celsius, or degrees Celsius to microvolts.
    Thermocouple {
        of: &'static Thermocouple,
        to_microvolts: bool,
    },
    /// Converts volts to degrees Celsius.
    Rtd {
        current: f64,
        lead_ohms: f64,
        r0: f64,
        a: f64,
        b: f64,
        c: f64,
    },
    /// Converts volts to kelvin, minus an offset.
    Thermistor {
        excitation: Excitation,
        lead_ohms: f64,
        coefficients: [f64; 3],
        offset: f64,
    },
    /// Converts volts to strain.
    Strain {
        bridge: Bridge,
        initial: f64,
        excitation: f64,
        gauge_factor: f64,
        poisson: f64,
        gain: f64,
        /// Factor by which the lead wires reduce the reading.
        lead_factor: f64,
    },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Excitation {
    Current {
        amperes: f64,
    },
    /// A voltage divider that consists of a resistor with this resistance and the thermistor.
    Voltage {
        volts: f64,
        ohms: f64,
    },
}

/// The arrangement of strain gauges in the bridge.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Bridge {
    Full1,
    Full2,
    Full3,
    Half1,
    Half2,
    Quarter,
}

impl Sensor {
    pub(super) fn value(&self, x: f64) -> f64 {
        match self {
            Self::Thermocouple { of, to_microvolts } => match to_microvolts {
                true => 1_000.0 * millivolts(of, x),
                false => piecewise(of.celsius, x / 1_000.0),
            },
            Self::Rtd {
                current,
                lead_ohms,
                r0,
                a,
                b,
                c,
            } => rtd((x / current - lead_ohms) / r0, *a, *b, *c),
            Self::Thermistor {
                excitation,
                lead_ohms,
                coefficients: [a, b, c],
                offset,
            } => {
                let ohms = match excitation {
                    Excitation::Current { amperes } => x / amperes,
                    Excitation::Voltage { volts, ohms } => ohms / (volts / x - 1.0),
                };
                let ln = (ohms - lead_ohms).ln();
                (a + ln * (b + ln * ln * c)).recip() - offset
            }
            Self::Strain {
                bridge,
                initial,
                excitation,
                gauge_factor,
                poisson,
                gain,
                lead_factor,
            } => {
                let ratio = (x - initial) / excitation;
                let (g, nu) = (gauge_factor, poisson);
                match bridge {
                    Bridge::Full1 => -ratio * gain / g,
                    Bridge::Full2 => -2.0 * ratio * gain / (g * (1.0 + nu)),
                    Bridge::Full3 => -2.0 * ratio * gain / (g * ((1.0 + nu) + ratio * (1.0 - nu))),
                    Bridge::Half1 => {
                        let denominator = (1.0 + nu) + 2.0 * ratio * (1.0 - nu);
                        -4.0 * ratio * gain / (g * lead_factor * denominator)
                    }
                    Bridge::Half2 => -2.0 * ratio * gain / (g * lead_factor),
                    Bridge::Quarter => {
                        2.0 * gain * ((1.0 + 2.0 * ratio).recip() - 1.0) / (g * lead_factor)
                    }
                }
            }
        }
    }
}

/// Returns the temperature at which a thermometer has `ratio` times its resistance at 0 degrees.
fn rtd(ratio: f64, a: f64, b: f64, c: f64) -> f64 {
    // This solves the equation for temperatures above 0 degrees, where it is quadratic.
    let above = (-a + (a * a - 4.0 * b * (1.0 - ratio)).sqrt()) / (2.0 * b);
    if ratio >= 1.0 || above.is_nan() {
        return above;
    }
    let mut t = above;
    for _ in 0..NEWTON_STEPS {
        let value = 1.0 + t * (a + t * (b + t * (t - 100.0) * c)) - ratio;
        let slope = a + t * (2.0 * b + t * (4.0 * t - 300.0) * c);
        t -= value / slope;
    }
    t
}

fn millivolts(of: &Thermocouple, celsius: f64) -> f64 {
    let polynomial = piecewise(of.millivolts, celsius);
    match of.exponential {
        Some([a, b, c]) if celsius >= 0.0 => {
            polynomial + a * (b * (celsius - c) * (celsius - c)).exp()
        }
        _ => polynomial,
    }
}

fn piecewise(pieces: &[Piece], x: f64) -> f64 {
    let piece = pieces.iter().find(|(end, _)| x < *end);
    piece.map_or(f64::NAN, |(_, coefficients)| {
        coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
    })
}

impl ChainBuilder<'_> {
    /// Returns the sensor of a scale; `None` if its kind is not a sensor.
    pub(super) fn sensor(&self, scale: u64, kind: &str) -> Result<Option<Sensor>, ScaleError> {
        let number = |field: &str| self.number(scale, &format!("{kind}_{field}"));
        let code = |field: &str| self.size(scale, &format!("{kind}_{field}"));
        let unknown = |field: &str| ScaleError::MissingProperty {
            name: super::field_name(scale, &format!("{kind}_{field}")),
        };
        // Of three lead wires, one is in the measured loop; of two lead wires, both are.
        let lead_ohms = |is_current: bool| -> Result<f64, ScaleError> {
            Ok(match code("Resistance_Configuration") {
                Some(3) => number("Lead_Wire_Resistance")?,
                Some(2) if is_current => 2.0 * number("Lead_Wire_Resistance")?,
                _ => 0.0,
            })
        };
        Ok(Some(match kind {
            "Thermocouple" => Sensor::Thermocouple {
                of: from_code(code("Thermocouple_Type").unwrap_or(10_072))
                    .ok_or_else(|| unknown("Thermocouple_Type"))?,
                to_microvolts: code("Scaling_Direction") == Some(1),
            },
            "RTD" => Sensor::Rtd {
                current: number("Current_Excitation")?,
                lead_ohms: lead_ohms(true)?,
                r0: number("R0_Nominal_Resistance")?,
                a: number("A")?,
                b: number("B")?,
                c: number("C")?,
            },
            "Thermistor" => {
                let value = number("Excitation_Value")?;
                let (excitation, is_current) = match code("Excitation_Type") {
                    Some(CURRENT_EXCITATION) => (Excitation::Current { amperes: value }, true),
                    Some(VOLTAGE_EXCITATION) => {
                        let ohms = number("R1_Reference_Resistance")?;
                        (Excitation::Voltage { volts: value, ohms }, false)
                    }
                    _ => return Err(unknown("Excitation_Type")),
                };
                Sensor::Thermistor {
                    excitation,
                    lead_ohms: lead_ohms(is_current)?,
                    coefficients: [number("A")?, number("B")?, number("C")?],
                    offset: number("Temperature_Offset")?,
                }
            }
            "Strain" => {
                let bridge = match code("Configuration") {
                    Some(10_183) => Bridge::Full1,
                    Some(10_184) => Bridge::Full2,
                    Some(10_185) => Bridge::Full3,
                    Some(10_188) => Bridge::Half1,
                    Some(10_189) => Bridge::Half2,
                    Some(10_271 | 10_272) => Bridge::Quarter,
                    _ => return Err(unknown("Configuration")),
                };
                let is_full = matches!(bridge, Bridge::Full1 | Bridge::Full2 | Bridge::Full3);
                let lead_factor = match is_full {
                    true => 1.0,
                    false => {
                        let ratio = number("Lead_Wire_Resistance")? / number("Gage_Resistance")?;
                        (1.0 + ratio).recip()
                    }
                };
                Sensor::Strain {
                    bridge,
                    initial: number("Initial_Bridge_Voltage")?,
                    excitation: number("Voltage_Excitation")?,
                    gauge_factor: number("Gage_Factor")?,
                    poisson: number("Poisson_Ratio")?,
                    gain: number("Bridge_Shunt_Calibration_Gain_Adjustment")?,
                    lead_factor,
                }
            }
            _ => return Ok(None),
        }))
    }
}
