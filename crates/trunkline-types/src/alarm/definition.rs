//! Defines alarms: the condition that raises an alarm, and how the alarm is handled.

use std::time::Duration;

use crate::definition::{DESCRIPTION_BYTES_MAX, TextFault, check_text};
use crate::name::NameError;
use crate::{DataType, Name};

/// Maximum number of alarms of one variable.
pub const ALARMS_MAX: usize = 32;
/// Maximum length of the name of an alarm or an area, in bytes.
pub const ALARM_NAME_BYTES_MAX: usize = 64;
/// Lowest and highest priority; 1000 is the most urgent (H-08).
pub const PRIORITY_RANGE: (u16, u16) = (1, 1000);
/// Maximum length of a delay, and of the time in which a rate of change is measured.
pub const DELAY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// One alarm of a variable.
#[derive(Clone, PartialEq, Debug)]
pub struct AlarmDefinition {
    /// The name, unique within the variable, such as `hi` in `boiler/level#alarm.hi.state`.
    pub name: String,
    pub kind: AlarmKind,
    pub enabled: bool,
    /// Time for which the condition must be met before the alarm is raised.
    pub on_delay: Duration,
    /// Time for which the condition must not be met before the alarm is cleared.
    pub off_delay: Duration,
    /// Priority from 1 to 1000; 1000 is the most urgent.
    pub priority: u16,
    /// Area of the plant; empty if there is none. Alarms of one area can be acknowledged together
    /// (H-10).
    pub area: String,
    pub acknowledge: Acknowledge,
    /// True if the alarm must be reset after the process has returned to normal.
    pub latched: bool,
    pub description: String,
    /// Instructions for the operator.
    pub help: String,
    /// Full name of a variable that suppresses the alarm while its value is true or a nonzero
    /// number. Empty if there is none.
    pub suppressed_by: String,
}

/// The kind of an alarm: the condition that raises it (H-06).
#[derive(Clone, PartialEq, Debug)]
pub enum AlarmKind {
    /// The value is beyond a limit. The alarm clears only when the value has returned inside the
    /// limit by at least `deadband` (H-07).
    Limit {
        level: LimitLevel,
        limit: Operand,
        /// In the units of the value; 0 or more.
        deadband: f64,
    },
    /// The value differs from a setpoint by more than `limit`.
    Deviation {
        setpoint: Operand,
        limit: f64,
        /// In the units of the value; 0 or more.
        deadband: f64,
    },
    /// The value changes by more than `change` within `time`.
    RateOfChange { change: f64, time: Duration },
    /// The value is one of `values`: 0 or 1 for a boolean, the codes of an enum, or integers.
    Discrete { values: Vec<i64> },
    /// Any or all of the bits in `select` are set in `value ^ invert` (H-09).
    Bits {
        needed: BitsNeeded,
        invert: u64,
        select: u64,
    },
    /// The quality of the variable is bad.
    BadQuality,
    /// The value is older than the `max_age` of the variable.
    Stale,
}

/// The four limits of a numeric variable: HI_HI > HI > LO > LO_LO.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LimitLevel {
    LoLo,
    Lo,
    Hi,
    HiHi,
}

impl LimitLevel {
    /// Returns true for the limits that raise an alarm when a value exceeds them.
    pub const fn is_high(self) -> bool {
        matches!(self, Self::Hi | Self::HiHi)
    }
}

/// A constant, or the value of another variable.
#[derive(Clone, PartialEq, Debug)]
pub enum Operand {
    Constant(f64),
    /// Full name of the other variable.
    Variable(String),
}

/// Selects whether any or all of the selected bits must be set to raise the alarm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BitsNeeded {
    Any,
    All,
}

/// The way in which an alarm is acknowledged (H-08).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Acknowledge {
    /// Automatically, once the process has returned to normal.
    Auto,
    /// By a user.
    #[default]
    User,
}

impl AlarmKind {
    /// Returns the name of the kind, which is also the default name of the alarm.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Limit { level, .. } => match level {
                LimitLevel::HiHi => "hi_hi",
                LimitLevel::Hi => "hi",
                LimitLevel::Lo => "lo",
                LimitLevel::LoLo => "lo_lo",
            },
            Self::Deviation { .. } => "deviation",
            Self::RateOfChange { .. } => "rate",
            Self::Discrete { .. } => "discrete",
            Self::Bits { .. } => "bits",
            Self::BadQuality => "bad_quality",
            Self::Stale => "stale",
        }
    }
}

impl AlarmKind {
    /// Returns the full name of the variable whose value is the limit or the setpoint.
    pub fn variable(&self) -> Option<&String> {
        match self.operand()? {
            Operand::Variable(name) => Some(name),
            Operand::Constant(_) => None,
        }
    }

    fn operand(&self) -> Option<&Operand> {
        match self {
            Self::Limit { limit: operand, .. }
            | Self::Deviation {
                setpoint: operand, ..
            } => Some(operand),
            Self::RateOfChange { .. }
            | Self::Discrete { .. }
            | Self::Bits { .. }
            | Self::BadQuality
            | Self::Stale => None,
        }
    }

    fn operand_mut(&mut self) -> Option<&mut Operand> {
        match self {
            Self::Limit { limit: operand, .. }
            | Self::Deviation {
                setpoint: operand, ..
            } => Some(operand),
            Self::RateOfChange { .. }
            | Self::Discrete { .. }
            | Self::Bits { .. }
            | Self::BadQuality
            | Self::Stale => None,
        }
    }
}

impl AlarmDefinition {
    /// Returns the full names of the other variables on which the alarm depends.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let suppressing = Some(&self.suppressed_by).filter(|name| !name.is_empty());
        (self.kind.variable().into_iter().chain(suppressing)).map(String::as_str)
    }

    /// As [`names`](Self::names), to change them.
    pub fn names_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let suppressing = Some(&mut self.suppressed_by).filter(|name| !name.is_empty());
        let operand = self.kind.operand_mut().and_then(|operand| match operand {
            Operand::Variable(name) => Some(name),
            Operand::Constant(_) => None,
        });
        operand.into_iter().chain(suppressing)
    }

    /// Returns an alarm with the defaults: enabled, no delays, priority 500, no area, acknowledged
    /// by a user, not latched.
    pub fn new(kind: AlarmKind) -> Self {
        Self {
            name: kind.name().to_owned(),
            kind,
            enabled: true,
            on_delay: Duration::ZERO,
            off_delay: Duration::ZERO,
            priority: 500,
            area: String::new(),
            acknowledge: Acknowledge::default(),
            latched: false,
            description: String::new(),
            help: String::new(),
            suppressed_by: String::new(),
        }
    }
}

/// The reason why a variable cannot have an alarm.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum AlarmFault {
    #[error("the variable has {count} alarms; {ALARMS_MAX} is the limit")]
    TooMany { count: usize },
    #[error("alarm {name:?}: a name must have 1 to {ALARM_NAME_BYTES_MAX} letters, digits, - or _")]
    Name { name: String },
    #[error("the variable has two alarms named {name}; give one of them another name")]
    Twice { name: String },
    #[error("alarm {name}: the priority must be a number from 1 (lowest) to 1000 (highest)")]
    Priority { name: String },
    #[error("alarm {name}: a delay must be at most 7 days")]
    Delay { name: String },
    #[error("alarm {name}: the time of a rate of change must be longer than 0 and at most 7 days")]
    Time { name: String },
    #[error("alarm {name}: the {what} must be {requirement}")]
    Number {
        name: String,
        what: &'static str,
        requirement: &'static str,
    },
    #[error(
        "alarm {name}: this kind of alarm is for {needed}, but the variable has the type {data_type}"
    )]
    Type {
        name: String,
        needed: &'static str,
        data_type: DataType,
    },
    #[error(
        "alarm {higher} ({higher_limit}) must have a higher limit than alarm {lower} ({lower_limit})"
    )]
    Order {
        higher: String,
        higher_limit: f64,
        lower: String,
        lower_limit: f64,
    },
    #[error("alarm {name}: list at least one value")]
    NoValues { name: String },
    #[error("alarm {name}: select at least one bit")]
    NoBits { name: String },
    #[error("alarm {name}: {fault}")]
    Variable { name: String, fault: NameError },
    #[error("alarm {name}: the {what} {fault}")]
    Text {
        name: String,
        what: &'static str,
        fault: TextFault,
    },
}

/// Checks the alarms of a variable of type `data_type`.
///
/// # Errors
/// The first [`AlarmFault`] in the order of the alarms.
pub fn check_alarms(alarms: &[AlarmDefinition], data_type: &DataType) -> Result<(), AlarmFault> {
    if alarms.len() > ALARMS_MAX {
        let count = alarms.len();
        return Err(AlarmFault::TooMany { count });
    }
    for (index, alarm) in alarms.iter().enumerate() {
        check_alarm(alarm, data_type)?;
        if alarms[..index].iter().any(|other| other.name == alarm.name) {
            let name = alarm.name.clone();
            return Err(AlarmFault::Twice { name });
        }
    }
    check_order(alarms)
}

fn check_alarm(alarm: &AlarmDefinition, data_type: &DataType) -> Result<(), AlarmFault> {
    let name = || alarm.name.clone();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !(1..=ALARM_NAME_BYTES_MAX).contains(&alarm.name.len())
        || !alarm.name.chars().all(is_allowed)
    {
        return Err(AlarmFault::Name { name: name() });
    }
    let (lowest, highest) = PRIORITY_RANGE;
    if !(lowest..=highest).contains(&alarm.priority) {
        return Err(AlarmFault::Priority { name: name() });
    }
    if alarm.on_delay.max(alarm.off_delay) > DELAY_MAX {
        return Err(AlarmFault::Delay { name: name() });
    }
    for (what, text, max) in [
        ("area", &alarm.area, ALARM_NAME_BYTES_MAX),
        ("description", &alarm.description, DESCRIPTION_BYTES_MAX),
        ("help text", &alarm.help, DESCRIPTION_BYTES_MAX),
    ] {
        check_text(text, max).map_err(|fault| AlarmFault::Text {
            name: name(),
            what,
            fault,
        })?;
    }
    for variable in alarm.names() {
        Name::parse(variable).map_err(|fault| AlarmFault::Variable {
            name: name(),
            fault,
        })?;
    }
    check_kind(alarm, data_type)
}

fn check_kind(alarm: &AlarmDefinition, data_type: &DataType) -> Result<(), AlarmFault> {
    let name = || alarm.name.clone();
    let number = |what, value: f64, is_valid: bool, requirement| match value.is_finite() && is_valid
    {
        true => Ok(()),
        false => Err(AlarmFault::Number {
            name: name(),
            what,
            requirement,
        }),
    };
    let constant = |operand: &Operand| match operand {
        Operand::Constant(value) => *value,
        Operand::Variable(_) => 0.0,
    };
    let needed = match &alarm.kind {
        AlarmKind::Limit {
            limit, deadband, ..
        } => {
            number("limit", constant(limit), true, "a finite number")?;
            number("deadband", *deadband, *deadband >= 0.0, "0 or more")?;
            (!data_type.is_numeric()).then_some("numbers")
        }
        AlarmKind::Deviation {
            setpoint,
            limit,
            deadband,
        } => {
            number("setpoint", constant(setpoint), true, "a finite number")?;
            number("limit", *limit, *limit > 0.0, "greater than 0")?;
            let is_valid = (0.0..*limit).contains(deadband);
            number(
                "deadband",
                *deadband,
                is_valid,
                "0 or more and less than the limit",
            )?;
            (!data_type.is_numeric()).then_some("numbers")
        }
        AlarmKind::RateOfChange { change, time } => {
            number("change", *change, *change > 0.0, "greater than 0")?;
            if time.is_zero() || *time > DELAY_MAX {
                return Err(AlarmFault::Time { name: name() });
            }
            (!data_type.is_numeric()).then_some("numbers")
        }
        AlarmKind::Discrete { values } => {
            if values.is_empty() {
                return Err(AlarmFault::NoValues { name: name() });
            }
            let is_discrete =
                is_integer(data_type) || matches!(data_type, DataType::Bool | DataType::Enum(_));
            (!is_discrete).then_some("booleans, enums and integers")
        }
        AlarmKind::Bits { select, .. } => {
            if *select == 0 {
                return Err(AlarmFault::NoBits { name: name() });
            }
            (!is_integer(data_type)).then_some("integers")
        }
        AlarmKind::BadQuality | AlarmKind::Stale => None,
    };
    match needed {
        Some(needed) => Err(AlarmFault::Type {
            name: name(),
            needed,
            data_type: data_type.clone(),
        }),
        None => Ok(()),
    }
}

fn is_integer(data_type: &DataType) -> bool {
    data_type.is_numeric() && !data_type.is_float()
}

/// Checks HI_HI > HI > LO > LO_LO for constant limits of enabled alarms (H-07).
fn check_order(alarms: &[AlarmDefinition]) -> Result<(), AlarmFault> {
    let limits = alarms.iter().filter_map(|alarm| match &alarm.kind {
        AlarmKind::Limit {
            level,
            limit: Operand::Constant(limit),
            ..
        } if alarm.enabled => Some((*level, *limit, &alarm.name)),
        _ => None,
    });
    let mut limits: Vec<_> = limits.collect();
    limits.sort_by_key(|(level, ..)| *level);
    for pair in limits.windows(2) {
        let [
            (low_level, lower_limit, lower),
            (high_level, higher_limit, higher),
        ] = pair
        else {
            continue;
        };
        // Several alarms of the same level may have different limits.
        if low_level < high_level && lower_limit >= higher_limit {
            return Err(AlarmFault::Order {
                higher: (*higher).clone(),
                higher_limit: *higher_limit,
                lower: (*lower).clone(),
                lower_limit: *lower_limit,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(level: LimitLevel, limit: f64) -> AlarmDefinition {
        AlarmDefinition::new(AlarmKind::Limit {
            level,
            limit: Operand::Constant(limit),
            deadband: 0.0,
        })
    }

    /// Behaviour: H-07.
    #[test]
    fn limits_that_contradict_each_other_are_refused() {
        let sut = |lo, hi| {
            let alarms = [limit(LimitLevel::Hi, hi), limit(LimitLevel::Lo, lo)];
            check_alarms(&alarms, &DataType::F64)
        };
        assert_eq!(sut(10.0, 90.0), Ok(()));
        let error = sut(90.0, 90.0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "alarm hi (90) must have a higher limit than alarm lo (90)"
        );
        let [mut hi, lo] = [limit(LimitLevel::Hi, 1.0), limit(LimitLevel::Lo, 2.0)];
        hi.enabled = false;
        assert_eq!(check_alarms(&[hi, lo], &DataType::F64), Ok(()));
    }

    /// Behaviour: H-08.
    #[test]
    fn numbers_outside_their_range_are_refused() {
        let sut = |change: fn(&mut AlarmDefinition)| {
            let mut alarm = limit(LimitLevel::Hi, 1.0);
            change(&mut alarm);
            check_alarms(&[alarm], &DataType::F64)
                .unwrap_err()
                .to_string()
        };
        assert!(sut(|a| a.priority = 0).contains("from 1 (lowest) to 1000"));
        assert!(sut(|a| a.priority = 1001).contains("from 1 (lowest) to 1000"));
        assert!(sut(|a| a.on_delay = DELAY_MAX * 2).contains("at most 7 days"));
        assert!(sut(|a| a.name = "a/b".to_owned()).contains("letters, digits"));
        assert!(sut(|a| a.name = String::new()).contains("letters, digits"));
        let nan = sut(|a| {
            a.kind = AlarmKind::Limit {
                level: LimitLevel::Hi,
                limit: Operand::Constant(f64::NAN),
                deadband: 0.0,
            };
        });
        assert_eq!(nan, "alarm hi: the limit must be a finite number");
    }

    /// Behaviour: H-06, H-09.
    #[test]
    fn alarm_kind_is_refused_for_an_unsuitable_type() {
        let bits = AlarmDefinition::new(AlarmKind::Bits {
            needed: BitsNeeded::Any,
            invert: 0,
            select: 6,
        });
        assert_eq!(
            check_alarms(std::slice::from_ref(&bits), &DataType::U32),
            Ok(())
        );
        let error = check_alarms(&[bits], &DataType::F64).unwrap_err();
        assert_eq!(
            error.to_string(),
            "alarm bits: this kind of alarm is for integers, but the variable has the type f64"
        );
        let bad = AlarmDefinition::new(AlarmKind::BadQuality);
        assert_eq!(
            check_alarms(std::slice::from_ref(&bad), &DataType::String),
            Ok(())
        );
        let twice = check_alarms(&[bad.clone(), bad], &DataType::String);
        assert!(matches!(twice, Err(AlarmFault::Twice { .. })));
    }
}
