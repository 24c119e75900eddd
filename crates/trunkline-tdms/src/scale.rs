//! Scales: convert the raw numbers of a device to engineering values, as described by properties.
//!
//! A channel, its group or the file may have properties `NI_Scale[k]_...`. The result is the last
//! scale; each scale takes the result of another one or the raw numbers. Scales are only read: the
//! writer writes engineering values.

mod sensors;
// rustfmt would put each number of the tables on its own line.
#[rustfmt::skip]
mod thermocouple;

use std::collections::HashMap;

use self::sensors::Sensor;
use crate::channel::{Channel, ReadError};
use crate::path::ObjectPath;
use crate::property::{Properties, PropertyValue};
use crate::raw_index::Scaler;
use crate::read_at::ReadAt;
use crate::text::Text;

/// The source number that denotes the raw numbers.
const RAW: u64 = 0xffff_ffff;
/// Maximum number of values scaled at a time, and of numbers held by all steps together.
const PIECE: usize = 4_096;
const NUMBERS: usize = 64 * 1024;

#[derive(Clone, PartialEq, Debug)]
pub enum Scaling {
    /// No scaling; the numbers are the values.
    None,
    Chain(ScaleChain),
    /// Scales that cannot be computed. Reading returns the raw numbers.
    Unknown(ScaleError),
}

/// The reason why scales cannot be computed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ScaleError {
    #[error("scale {scale} is of the kind {kind}, which is not computed")]
    UnknownKind {
        scale: u64,
        /// The kind, as named in the file.
        kind: Text,
    },
    #[error("property {name} is missing or not a number")]
    MissingProperty { name: String },
    #[error("scale {scale} depends on itself")]
    Cycle { scale: u64 },
    #[error("scale {scale} refers to a DAQmx scaler that the channel does not have")]
    NoScaler {
        /// The scale's number, which is also the scaler's.
        scale: u32,
    },
    #[error("the table of scale {scale} is not monotonic")]
    NotMonotonic { scale: u64 },
}

/// Scales in the order of computation; the last one is the result.
#[derive(Clone, PartialEq, Debug)]
pub struct ScaleChain {
    steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Debug)]
enum Step {
    Raw,
    /// The numbers of a DAQmx scaler.
    Scaler(u32),
    /// The result of another step, unchanged.
    Same(usize),
    Linear {
        of: usize,
        slope: f64,
        intercept: f64,
    },
    Polynomial {
        of: usize,
        coefficients: Vec<f64>,
    },
    /// Pairs, ascending by the first number.
    Table {
        of: usize,
        pairs: Vec<(f64, f64)>,
    },
    Sensor {
        of: usize,
        sensor: Sensor,
    },
    Add(usize, usize),
    /// The second minus the first, in the order used by the tools that write this scale.
    Subtract(usize, usize),
}

impl<R: ReadAt> Channel<'_, R> {
    /// Returns the scaling of its values: by its own properties, or its group's, or the file's.
    pub fn scaling(&self) -> Scaling {
        let group = self.path().parent().unwrap_or(ObjectPath::File);
        let file = self.file();
        // Values that are not numbers are not scaled, whatever their group defines.
        if !self.is_number() {
            return Scaling::None;
        }
        let of = [
            Some(self.properties()),
            file.properties(&group),
            file.properties(&ObjectPath::File),
        ];
        of.into_iter()
            .flatten()
            .find_map(|properties| ScaleChain::of(properties).transpose())
            .map_or(Scaling::None, |chain| match chain {
                Ok(chain) => match chain.missing_scaler(self.scalers()) {
                    None => Scaling::Chain(chain),
                    Some(scale) => Scaling::Unknown(ScaleError::NoScaler { scale }),
                },
                Err(error) => Scaling::Unknown(error),
            })
    }

    /// Reads scaled values from number `start` on. Returns their number. Without a chain of scales,
    /// or if the scales are not supported, the values are the raw numbers.
    ///
    /// # Errors
    /// [`ReadError`]; strings, times and complex numbers are of the wrong type.
    pub fn read_scaled_into(
        &self,
        scaling: &Scaling,
        start: u64,
        out: &mut [f64],
    ) -> Result<usize, ReadError> {
        let Scaling::Chain(chain) = scaling else {
            return self.read_f64_into(start, out);
        };
        let mut done = 0;
        let mut results: Vec<Vec<f64>> = vec![Vec::new(); chain.steps.len()];
        while done < out.len() {
            let at = start + done as u64;
            let wanted = (NUMBERS / chain.steps.len().max(1)).clamp(1, PIECE);
            let wanted = wanted.min(out.len() - done);
            let there = self.len().saturating_sub(at).min(wanted as u64) as usize;
            if there == 0 {
                break;
            }
            for (number, step) in chain.steps.iter().enumerate() {
                let (before, now) = results.split_at_mut(number);
                let Some(now) = now.first_mut() else { break };
                now.resize(there, 0.0);
                match step {
                    Step::Raw => {
                        self.numbers(at, now, None)?;
                    }
                    Step::Scaler(id) => {
                        self.numbers(at, now, Some(*id))?;
                    }
                    step => step.compute(before, now),
                }
            }
            let result = results.last().map_or(&[][..], Vec::as_slice);
            for (out, value) in out.iter_mut().skip(done).zip(result) {
                *out = *value;
            }
            done += there;
        }
        Ok(done)
    }
}

impl Step {
    fn compute(&self, before: &[Vec<f64>], now: &mut [f64]) {
        let of = |at: usize| before.get(at).into_iter().flatten().copied();
        let one = |at: usize, now: &mut [f64], f: &dyn Fn(f64) -> f64| {
            now.iter_mut().zip(of(at)).for_each(|(to, x)| *to = f(x));
        };
        let two = |a: usize, b: usize, now: &mut [f64], f: fn(f64, f64) -> f64| {
            let pairs = of(a).zip(of(b));
            now.iter_mut()
                .zip(pairs)
                .for_each(|(to, (a, b))| *to = f(a, b));
        };
        match self {
            Self::Raw | Self::Scaler(_) => {}
            Self::Same(at) => one(*at, now, &|x| x),
            Self::Linear {
                of,
                slope,
                intercept,
            } => one(*of, now, &|x| slope * x + intercept),
            Self::Polynomial { of, coefficients } => {
                let sum = |x| coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
                one(*of, now, &sum);
            }
            Self::Table { of, pairs } => one(*of, now, &|x| interpolate(pairs, x)),
            Self::Sensor { of, sensor } => one(*of, now, &|x| sensor.value(x)),
            Self::Add(a, b) => two(*a, *b, now, |a, b| a + b),
            Self::Subtract(a, b) => two(*a, *b, now, |a, b| b - a),
        }
    }
}

/// Interpolates at `x` between pairs in ascending order; outside the table, returns the value of
/// the nearer end.
fn interpolate(pairs: &[(f64, f64)], x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let after = pairs.partition_point(|pair| pair.0 <= x);
    let before = after.checked_sub(1).and_then(|at| pairs.get(at));
    match (before, pairs.get(after)) {
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) / (b.0 - a.0) * (x - a.0),
        (Some(end), None) | (None, Some(end)) => end.1,
        (None, None) => f64::NAN,
    }
}

impl ScaleChain {
    /// Returns a scaler that a step needs but `scalers` does not contain. A channel with several
    /// scalers has no raw numbers.
    fn missing_scaler(&self, scalers: &[Scaler]) -> Option<u32> {
        self.steps.iter().find_map(|step| match step {
            Step::Raw if scalers.len() > 1 => Some(u32::MAX),
            Step::Scaler(id) if !scalers.iter().any(|one| one.scale_id == *id) => Some(*id),
            _ => None,
        })
    }

    /// Returns the chain that properties describe; `None` if they describe none, or state that it
    /// has been applied.
    pub fn of(properties: &Properties) -> Result<Option<Self>, ScaleError> {
        let count = match get(properties, "NI_Number_Of_Scales") {
            Some(count) => count.as_u64().unwrap_or(0),
            None => highest_scale(properties).map_or(0, |highest| highest + 1),
        };
        let status = get(properties, "NI_Scaling_Status").and_then(PropertyValue::as_text);
        if count == 0 || status.is_some_and(|status| *status == "scaled") {
            return Ok(None);
        }
        ChainBuilder {
            properties,
            steps: Vec::new(),
            step_of: HashMap::new(),
        }
        .build(count - 1)
        .map(Some)
    }
}

/// Creates the steps of scales, each after its sources.
struct ChainBuilder<'a> {
    properties: &'a Properties,
    steps: Vec<Step>,
    /// The step of each source; `None` while its own sources are being created.
    step_of: HashMap<u64, Option<usize>>,
}

impl ChainBuilder<'_> {
    fn build(mut self, last: u64) -> Result<ScaleChain, ScaleError> {
        // An explicit stack: a file may chain as many scales as it has properties.
        let mut open = vec![last];
        while let Some(&scale) = open.last() {
            if matches!(self.step_of.get(&scale), Some(Some(_))) {
                open.pop();
                continue;
            }
            let sources = self.sources(scale)?;
            let is_begun = self.step_of.insert(scale, None).is_some();
            let missing: Vec<u64> = sources
                .iter()
                .copied()
                .filter(|source| !matches!(self.step_of.get(source), Some(Some(_))))
                .collect();
            if missing.is_empty() {
                let step = self.step(scale, &sources)?;
                self.step_of.insert(scale, Some(self.steps.len()));
                self.steps.push(step);
                open.pop();
            } else if is_begun || missing.iter().any(|m| self.step_of.contains_key(m)) {
                return Err(ScaleError::Cycle { scale });
            } else {
                open.extend(missing);
            }
        }
        Ok(ScaleChain { steps: self.steps })
    }

    /// Returns the kind of a scale; `None` if the number is that of a DAQmx scaler.
    fn kind(&self, scale: u64) -> Option<&Text> {
        get(self.properties, &format!("NI_Scale[{scale}]_Scale_Type"))?.as_text()
    }

    fn sources(&self, scale: u64) -> Result<Vec<u64>, ScaleError> {
        let Some(kind) = self.kind(scale).filter(|_| scale != RAW) else {
            return Ok(Vec::new());
        };
        let source = |field: &str| {
            let value = get(self.properties, &field_name(scale, field));
            value.map_or(Some(RAW), PropertyValue::as_u64)
        };
        let one = |kind: &str| Ok(vec![source(&format!("{kind}_Input_Source")).unwrap_or(RAW)]);
        match &*kind.to_str() {
            kind @ ("Linear" | "Polynomial" | "Table" | "AdvancedAPI" | "Thermocouple" | "RTD"
            | "Thermistor" | "Strain") => one(kind),
            kind @ ("Add" | "Subtract") => {
                let operand = |side: &str| {
                    let field = format!("{kind}_{side}_Operand_Input_Source");
                    source(&field).unwrap_or(RAW)
                };
                Ok(vec![operand("Left"), operand("Right")])
            }
            _ => Err(ScaleError::UnknownKind {
                scale,
                kind: kind.clone(),
            }),
        }
    }

    fn step(&self, scale: u64, sources: &[u64]) -> Result<Step, ScaleError> {
        if scale == RAW {
            return Ok(Step::Raw);
        }
        let at = |which: usize| {
            let source = sources
                .get(which)
                .and_then(|source| self.step_of.get(source));
            source.copied().flatten().unwrap_or(0)
        };
        let number = |field: &str| self.number(scale, field);
        let Some(kind) = self.kind(scale) else {
            return Ok(Step::Scaler(scale.try_into().unwrap_or(u32::MAX)));
        };
        Ok(match &*kind.to_str() {
            "Linear" => Step::Linear {
                of: at(0),
                slope: number("Linear_Slope")?,
                intercept: number("Linear_Y_Intercept")?,
            },
            "Polynomial" => {
                let size = "Polynomial_Coefficients_Size";
                let count = self.size(scale, size).unwrap_or(4);
                Step::Polynomial {
                    of: at(0),
                    coefficients: self.numbers(scale, "Polynomial_Coefficients", count)?,
                }
            }
            "Table" => Step::Table {
                of: at(0),
                pairs: self.table(scale)?,
            },
            "Add" => Step::Add(at(0), at(1)),
            "Subtract" => Step::Subtract(at(0), at(1)),
            kind => match self.sensor(scale, kind)? {
                Some(sensor) => Step::Sensor { of: at(0), sensor },
                None => Step::Same(at(0)),
            },
        })
    }

    fn table(&self, scale: u64) -> Result<Vec<(f64, f64)>, ScaleError> {
        let values = |field: &str| {
            let size = format!("{field}_Size");
            let count = self.size(scale, &size).ok_or(ScaleError::MissingProperty {
                name: field_name(scale, &size),
            })?;
            self.numbers(scale, field, count)
        };
        let before = values("Table_Pre_Scaled_Values")?;
        let after = values("Table_Scaled_Values")?;
        let mut pairs: Vec<_> = before.iter().copied().zip(after.iter().copied()).collect();
        let rises = |pairs: &[(f64, f64)]| pairs.windows(2).all(|two| two[0].0 < two[1].0);
        if !rises(&pairs) {
            pairs.reverse();
        }
        match before.len() == after.len() && rises(&pairs) && !pairs.is_empty() {
            true => Ok(pairs),
            false => Err(ScaleError::NotMonotonic { scale }),
        }
    }

    fn size(&self, scale: u64, field: &str) -> Option<u64> {
        get(self.properties, &field_name(scale, field))?.as_u64()
    }

    /// Reads numbered properties. Stops at the first missing one, so that a count that is too large
    /// is harmless.
    fn numbers(&self, scale: u64, field: &str, count: u64) -> Result<Vec<f64>, ScaleError> {
        (0..count)
            .map(|at| self.number(scale, &format!("{field}[{at}]")))
            .collect()
    }

    fn number(&self, scale: u64, field: &str) -> Result<f64, ScaleError> {
        let name = field_name(scale, field);
        let value = get(self.properties, &name).and_then(PropertyValue::as_f64);
        value.ok_or(ScaleError::MissingProperty { name })
    }
}

fn field_name(scale: u64, field: &str) -> String {
    format!("NI_Scale[{scale}]_{field}")
}

fn get<'a>(properties: &'a Properties, name: &str) -> Option<&'a PropertyValue> {
    properties.get(name.as_bytes())
}

/// Returns the highest number of a scale that has a kind.
fn highest_scale(properties: &Properties) -> Option<u64> {
    let numbers = properties.keys().filter_map(|name| {
        let name = std::str::from_utf8(name.as_bytes()).ok()?;
        let rest = name.strip_prefix("NI_Scale[")?;
        rest.strip_suffix("]_Scale_Type")?.parse::<u32>().ok()
    });
    numbers.max().map(u64::from)
}

#[cfg(test)]
mod tests;
