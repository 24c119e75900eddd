//! Evaluates the conditions of alarms.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_types::alarm::{AlarmKind, BitsNeeded, Operand};
use trunkline_types::{Level, Quality, Reason, Tick, Value};

/// The parts of a sample that conditions use. They are computed once for all alarms of a variable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Input {
    /// The value as a number; `None` for text, arrays and NaN.
    pub number: Option<f64>,
    /// The value if it is a boolean (0 or 1), the code of an enum, or an integer; `None` for other values.
    /// Integers above `i64::MAX` keep their bits.
    pub integer: Option<i64>,
    pub quality: Quality,
}

impl Input {
    pub fn new(value: &Value, quality: Quality) -> Self {
        let number = value.as_f64().filter(|number| !number.is_nan());
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these values matter")]
        let integer = match value {
            Value::Bool(value) => Some(i64::from(*value)),
            Value::I8(value) => Some(i64::from(*value)),
            Value::I16(value) => Some(i64::from(*value)),
            Value::I32(value) => Some(i64::from(*value)),
            Value::I64(value) => Some(*value),
            Value::U8(value) => Some(i64::from(*value)),
            Value::U16(value) => Some(i64::from(*value)),
            Value::U32(value) => Some(i64::from(*value)),
            Value::U64(value) => Some(*value as i64),
            Value::Enum(code) => Some(i64::from(*code)),
            _ => None,
        };
        Self {
            number,
            integer,
            quality,
        }
    }
}

/// The condition of one alarm, with the data that it needs from earlier samples.
///
/// NaN and values of bad quality do not describe the process. They affect only conditions on the quality and
/// the age of the value. A failure of the sensor therefore does not clear an alarm.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    test: Test,
    is_met: bool,
    /// True from a restart until the first sample. A restart loses the earlier samples of a rate of change, so
    /// the condition keeps its restored result until a sample arrives.
    is_restored: bool,
}

#[derive(Clone, PartialEq, Debug)]
enum Test {
    /// `limit` is `None` until the variable that provides it has a good value.
    Above {
        limit: Option<f64>,
        deadband: f64,
    },
    Below {
        limit: Option<f64>,
        deadband: f64,
    },
    Deviation {
        setpoint: Option<f64>,
        limit: f64,
        deadband: f64,
    },
    Rate {
        change: f64,
        window: Window,
    },
    Values(Vec<i64>),
    Bits {
        needed: BitsNeeded,
        invert: u64,
        select: u64,
    },
    BadQuality,
    Stale,
}

impl Condition {
    pub fn new(kind: &AlarmKind) -> Self {
        let constant = |operand: &Operand| match operand {
            Operand::Constant(value) => Some(*value),
            Operand::Variable(_) => None,
        };
        let test = match kind {
            AlarmKind::Limit {
                level,
                limit,
                deadband,
            } => {
                let (limit, deadband) = (constant(limit), *deadband);
                match level.is_high() {
                    true => Test::Above { limit, deadband },
                    false => Test::Below { limit, deadband },
                }
            }
            AlarmKind::Deviation {
                setpoint,
                limit,
                deadband,
            } => Test::Deviation {
                setpoint: constant(setpoint),
                limit: *limit,
                deadband: *deadband,
            },
            AlarmKind::RateOfChange { change, time } => Test::Rate {
                change: *change,
                window: Window::new(*time),
            },
            AlarmKind::Discrete { values } => Test::Values(values.clone()),
            AlarmKind::Bits {
                needed,
                invert,
                select,
            } => Test::Bits {
                needed: *needed,
                invert: *invert,
                select: *select,
            },
            AlarmKind::BadQuality => Test::BadQuality,
            AlarmKind::Stale => Test::Stale,
        };
        Self {
            test,
            is_met: false,
            is_restored: false,
        }
    }

    pub fn is_met(&self) -> bool {
        self.is_met
    }

    /// Restores the result of the condition after a restart.
    pub fn restore(&mut self, is_met: bool) {
        self.is_met = is_met;
        self.is_restored = true;
    }

    /// Sets the limit or setpoint if another variable provides it; `None` while that variable has no good
    /// value. The condition then keeps its result.
    pub fn set_operand(&mut self, value: Option<f64>) {
        match &mut self.test {
            Test::Above { limit, .. } | Test::Below { limit, .. } => *limit = value,
            Test::Deviation { setpoint, .. } => *setpoint = value,
            Test::Rate { .. }
            | Test::Values(_)
            | Test::Bits { .. }
            | Test::BadQuality
            | Test::Stale => {}
        }
    }

    /// Returns the limit, or the setpoint of a deviation; `None` if it is unknown or the condition has none.
    pub fn operand(&self) -> Option<f64> {
        match self.test {
            Test::Above { limit, .. } | Test::Below { limit, .. } => limit,
            Test::Deviation { setpoint, .. } => setpoint,
            Test::Rate { .. }
            | Test::Values(_)
            | Test::Bits { .. }
            | Test::BadQuality
            | Test::Stale => None,
        }
    }

    /// Returns the interval `low <= number <= high` of numbers that do not change the result of the condition;
    /// `None` if the result depends on more than the number.
    pub fn quiet_range(&self) -> Option<(f64, f64)> {
        const ANY_NUMBER: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
        match self.test {
            Test::Above { limit, deadband } => Some(match (limit, self.is_met) {
                (None, _) => ANY_NUMBER,
                (Some(limit), false) => (f64::NEG_INFINITY, limit),
                (Some(limit), true) => (limit - deadband, f64::INFINITY),
            }),
            Test::Below { limit, deadband } => Some(match (limit, self.is_met) {
                (None, _) => ANY_NUMBER,
                (Some(limit), false) => (limit, f64::INFINITY),
                (Some(limit), true) => (f64::NEG_INFINITY, limit + deadband),
            }),
            // These conditions depend only on the quality.
            Test::BadQuality | Test::Stale => Some(ANY_NUMBER),
            Test::Deviation { .. } | Test::Rate { .. } | Test::Values(_) | Test::Bits { .. } => {
                None
            }
        }
    }

    /// Evaluates a sample, and returns true if the condition is now met.
    pub fn update(&mut self, input: Input, now: Tick) -> bool {
        let is_bad = input.quality.level() == Level::Bad;
        let (number, integer) = match is_bad {
            true => (None, None),
            false => (input.number, input.integer),
        };
        self.is_restored = false;
        let was_met = self.is_met;
        let is_met = match &mut self.test {
            Test::BadQuality => Some(is_bad),
            Test::Stale => Some(input.quality.reason() == Reason::Stale),
            Test::Above { limit, deadband } => {
                compare(number, *limit, |number, limit| match was_met {
                    false => number > limit,
                    true => number >= limit - *deadband,
                })
            }
            Test::Below { limit, deadband } => {
                compare(number, *limit, |number, limit| match was_met {
                    false => number < limit,
                    true => number <= limit + *deadband,
                })
            }
            Test::Deviation {
                setpoint,
                limit,
                deadband,
            } => compare(number, *setpoint, |number, setpoint| {
                let deviation = (number - setpoint).abs();
                match was_met {
                    false => deviation > *limit,
                    true => deviation >= *limit - *deadband,
                }
            }),
            Test::Rate { change, window } => {
                if let Some(number) = number {
                    window.add(number, now);
                }
                Some(window.spread(now) > *change)
            }
            Test::Values(values) => integer.map(|integer| values.contains(&integer)),
            Test::Bits {
                needed,
                invert,
                select,
            } => integer.map(|integer| {
                let bits = (integer as u64 ^ *invert) & *select;
                match needed {
                    BitsNeeded::Any => bits != 0,
                    BitsNeeded::All => bits == *select,
                }
            }),
        };
        self.is_met = is_met.unwrap_or(was_met);
        self.is_met
    }

    /// Returns the time at which the result can change without a new sample.
    pub fn next_deadline(&self) -> Option<Tick> {
        match &self.test {
            Test::Rate { window, .. } if self.is_met => window.next_expiry(),
            _ => None,
        }
    }

    /// Evaluates the condition at `now` without a new sample, and returns true if it is met.
    pub fn poll(&mut self, now: Tick) -> bool {
        if let (Test::Rate { change, window }, false) = (&mut self.test, self.is_restored) {
            self.is_met = window.spread(now) > *change;
        }
        self.is_met
    }
}

/// Compares the value with an operand. Returns `None` if either is unknown.
fn compare(
    number: Option<f64>,
    operand: Option<f64>,
    is_met: impl FnOnce(f64, f64) -> bool,
) -> Option<bool> {
    Some(is_met(number?, operand?))
}

/// Number of buckets into which the time of a rate of change is divided. A change is always detected if it
/// took at most 63/64 of this time, and never detected if it took longer than this time.
const BUCKETS: u32 = 64;

/// The smallest and largest values within the last `time`, in a bounded number of buckets.
#[derive(Clone, PartialEq, Debug)]
struct Window {
    time: Duration,
    /// Duration of one bucket.
    bucket_length: Duration,
    /// Buckets that contain values, oldest first.
    buckets: VecDeque<Bucket>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Bucket {
    start: Tick,
    lowest: f64,
    highest: f64,
}

impl Window {
    fn new(time: Duration) -> Self {
        Self {
            time,
            bucket_length: time / BUCKETS,
            buckets: VecDeque::new(),
        }
    }

    fn add(&mut self, number: f64, now: Tick) {
        self.remove_expired(now);
        match self.buckets.back_mut() {
            Some(bucket) if now.since(bucket.start) < self.bucket_length => {
                bucket.lowest = bucket.lowest.min(number);
                bucket.highest = bucket.highest.max(number);
            }
            _ => self.buckets.push_back(Bucket {
                start: now,
                lowest: number,
                highest: number,
            }),
        }
    }

    /// Removes the buckets before the window. The window does not include the last value before its start,
    /// because a constant value is not a change.
    fn remove_expired(&mut self, now: Tick) {
        while self
            .buckets
            .front()
            .is_some_and(|bucket| now.since(bucket.start) > self.time)
        {
            self.buckets.pop_front();
        }
    }

    /// Returns the difference between the largest and the smallest value in the window.
    fn spread(&mut self, now: Tick) -> f64 {
        self.remove_expired(now);
        let lowest = self.buckets.iter().map(|bucket| bucket.lowest);
        let highest = self.buckets.iter().map(|bucket| bucket.highest);
        let spread =
            highest.fold(f64::NEG_INFINITY, f64::max) - lowest.fold(f64::INFINITY, f64::min);
        spread.max(0.0)
    }

    /// Returns the time at which the oldest bucket leaves the window.
    fn next_expiry(&self) -> Option<Tick> {
        let nanosecond = Duration::from_nanos(1);
        let oldest = self.buckets.front()?;
        Some(oldest.start.saturating_add(self.time + nanosecond))
    }
}
