//! Converts the raw numbers of a device to engineering values, with the scales that properties
//! define.
//!
//! A channel, its group or the file may have properties `NI_Scale[k]_...`. Each scale converts the
//! result of another scale or the raw numbers; the last scale produces the engineering values. The
//! writer writes engineering values, so it writes no scales.

mod sensors;
// rustfmt would put each number of the tables on a separate line.
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
/// Maximum number of values scaled at a time.
const VALUES_MAX: usize = 4_096;
/// Maximum number of intermediate results that all steps have in memory.
const NUMBERS_MAX: usize = 64 * 1024;

#[derive(Clone, PartialEq, Debug)]
pub enum Scaling {
    /// No scaling. The raw numbers are the values.
    None,
    /// A chain of scales.
    Chain(ScaleChain),
    /// Scales that cannot be computed. Reading then returns the raw numbers.
    Unknown(ScaleError),
}

/// The reason why scales cannot be computed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ScaleError {
    #[error("scale {scale} has the kind {kind}, which is not supported")]
    UnknownKind {
        scale: u64,
        /// Name of the kind in the file.
        kind: Text,
    },
    #[error("the property {name} is missing or has an invalid value")]
    MissingProperty { name: String },
    #[error("scale {scale} depends on itself")]
    Cycle { scale: u64 },
    #[error("scale {scale} refers to a DAQmx scaler that the channel does not have")]
    NoScaler {
        /// Number of the scale, which is also the id of the scaler.
        scale: u32,
    },
    #[error("the table of scale {scale} is not monotonic")]
    NotMonotonic { scale: u64 },
}

/// The steps that compute scales, in the order of computation. The last step produces the result.
#[derive(Clone, PartialEq, Debug)]
pub struct ScaleChain {
    steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Debug)]
enum Step {
    /// The raw numbers of the channel.
    Raw,
    /// The numbers of the DAQmx scaler with this id.
    Scaler(u32),
    /// The unchanged result of another step.
    Same(usize),
    Linear {
        source: usize,
        slope: f64,
        intercept: f64,
    },
    Polynomial {
        source: usize,
        coefficients: Vec<f64>,
    },
    /// An interpolation between pairs of input and output, in ascending order of input.
    Table {
        source: usize,
        pairs: Vec<(f64, f64)>,
    },
    Sensor {
        source: usize,
        sensor: Sensor,
    },
    /// The sum of the results of two steps.
    Add(usize, usize),
    /// The second result minus the first result, in the order of the tools that write this scale.
    Subtract(usize, usize),
}

impl<R: ReadAt> Channel<'_, R> {
    /// Returns the scaling of the channel's values. The properties of the channel, its group or the
    /// file define it, in this order.
    pub fn scaling(&self) -> Scaling {
        let group = self.path().parent().unwrap_or(ObjectPath::File);
        let file = self.file();
        // Values that are not numbers are not scaled, even if their group defines scales.
        if !self.is_number() {
            return Scaling::None;
        }
        let candidates = [
            Some(self.properties()),
            file.properties(&group),
            file.properties(&ObjectPath::File),
        ];
        candidates
            .into_iter()
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

    /// Reads scaled values from number `start` on. Returns the number of values read. Without
    /// scales, or if the scales are not supported, the values are the raw numbers.
    ///
    /// # Errors
    /// [`ReadError`]. Strings, times and complex numbers have the wrong type.
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
            let count_max = (NUMBERS_MAX / chain.steps.len().max(1)).clamp(1, VALUES_MAX);
            let count_max = count_max.min(out.len() - done);
            let available = self.len().saturating_sub(at).min(count_max as u64) as usize;
            if available == 0 {
                break;
            }
            for (number, step) in chain.steps.iter().enumerate() {
                let (before, now) = results.split_at_mut(number);
                let Some(now) = now.first_mut() else { break };
                now.resize(available, 0.0);
                match step {
                    Step::Raw => {
                        self.read_numbers(at, now, None)?;
                    }
                    Step::Scaler(id) => {
                        self.read_numbers(at, now, Some(*id))?;
                    }
                    step => step.compute(before, now),
                }
            }
            let result = results.last().map_or(&[][..], Vec::as_slice);
            for (out, value) in out.iter_mut().skip(done).zip(result) {
                *out = *value;
            }
            done += available;
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
                source,
                slope,
                intercept,
            } => one(*source, now, &|x| slope * x + intercept),
            Self::Polynomial {
                source,
                coefficients,
            } => {
                let sum = |x| coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
                one(*source, now, &sum);
            }
            Self::Table { source, pairs } => one(*source, now, &|x| interpolate(pairs, x)),
            Self::Sensor { source, sensor } => one(*source, now, &|x| sensor.value(x)),
            Self::Add(a, b) => two(*a, *b, now, |a, b| a + b),
            Self::Subtract(a, b) => two(*a, *b, now, |a, b| b - a),
        }
    }
}

/// Interpolates at `x` between pairs in ascending order. Outside the table, returns the value of
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
    /// Returns the id of a scaler that a step needs but `scalers` does not contain. A channel with
    /// several scalers has no raw numbers, for which the id is `u32::MAX`.
    fn missing_scaler(&self, scalers: &[Scaler]) -> Option<u32> {
        self.steps.iter().find_map(|step| match step {
            Step::Raw if scalers.len() > 1 => Some(u32::MAX),
            Step::Scaler(id) if !scalers.iter().any(|one| one.scale_id == *id) => Some(*id),
            _ => None,
        })
    }

    /// Returns the chain that properties define; `None` if they define no scales or state that the
    /// values are already scaled.
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
            steps_by_scale: HashMap::new(),
        }
        .build(count - 1)
        .map(Some)
    }
}

/// Creates the steps of scales, so that each step follows the steps of its sources.
struct ChainBuilder<'a> {
    properties: &'a Properties,
    steps: Vec<Step>,
    /// Index of the step of each scale; `None` while the steps of the scale's sources are being
    /// created.
    steps_by_scale: HashMap<u64, Option<usize>>,
}

impl ChainBuilder<'_> {
    fn build(mut self, last: u64) -> Result<ScaleChain, ScaleError> {
        // An explicit stack replaces recursion, because a file may chain any number of scales.
        let mut stack = vec![last];
        while let Some(&scale) = stack.last() {
            if matches!(self.steps_by_scale.get(&scale), Some(Some(_))) {
                stack.pop();
                continue;
            }
            let sources = self.sources(scale)?;
            let is_begun = self.steps_by_scale.insert(scale, None).is_some();
            let missing: Vec<u64> = sources
                .iter()
                .copied()
                .filter(|source| !matches!(self.steps_by_scale.get(source), Some(Some(_))))
                .collect();
            if missing.is_empty() {
                let step = self.step(scale, &sources)?;
                self.steps_by_scale.insert(scale, Some(self.steps.len()));
                self.steps.push(step);
                stack.pop();
            } else if is_begun || missing.iter().any(|m| self.steps_by_scale.contains_key(m)) {
                return Err(ScaleError::Cycle { scale });
            } else {
                stack.extend(missing);
            }
        }
        Ok(ScaleChain { steps: self.steps })
    }

    /// Returns the kind of a scale; `None` if the number refers to a DAQmx scaler.
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
        let source_step = |which: usize| {
            let source = sources
                .get(which)
                .and_then(|source| self.steps_by_scale.get(source));
            source.copied().flatten().unwrap_or(0)
        };
        let number = |field: &str| self.number(scale, field);
        let Some(kind) = self.kind(scale) else {
            return Ok(Step::Scaler(scale.try_into().unwrap_or(u32::MAX)));
        };
        Ok(match &*kind.to_str() {
            "Linear" => Step::Linear {
                source: source_step(0),
                slope: number("Linear_Slope")?,
                intercept: number("Linear_Y_Intercept")?,
            },
            "Polynomial" => {
                let size = "Polynomial_Coefficients_Size";
                let count = self.size(scale, size).unwrap_or(4);
                Step::Polynomial {
                    source: source_step(0),
                    coefficients: self.numbers(scale, "Polynomial_Coefficients", count)?,
                }
            }
            "Table" => Step::Table {
                source: source_step(0),
                pairs: self.table(scale)?,
            },
            "Add" => Step::Add(source_step(0), source_step(1)),
            "Subtract" => Step::Subtract(source_step(0), source_step(1)),
            kind => match self.sensor(scale, kind)? {
                Some(sensor) => Step::Sensor {
                    source: source_step(0),
                    sensor,
                },
                None => Step::Same(source_step(0)),
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

    /// Reads numbered properties. Stops at the first missing property, so a count that is too large
    /// does no harm.
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

/// Returns the highest number of all scales that have a kind.
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
