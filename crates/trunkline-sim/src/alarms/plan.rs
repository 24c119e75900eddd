//! Draws the plan of a run from the seed: variables with alarms, and the pace of all actions.

use std::sync::Arc;
use std::time::Duration;

use trunkline_types::alarm::{
    Acknowledge, AlarmDefinition, AlarmKind, BitsNeeded, LimitLevel, Operand,
};
use trunkline_types::{
    Contract, DataType, Deadband, LibraryDefinition, Properties, VariableDefinition,
};

use super::fault::{FAULTS, Fault};
use crate::rng::Rng;

/// The library of all variables.
pub const LIBRARY: &str = "plant";
/// Names of the variables that suppress alarms.
pub const CONDITIONS: [&str; 2] = ["condition0", "condition1"];
/// Names of the variables that provide limits and setpoints.
pub const OPERANDS: [&str; 2] = ["limit0", "limit1"];

/// The type of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Number,
    Switch,
    Bits,
}

/// A variable with alarms.
#[derive(Clone, Debug)]
pub struct VariablePlan {
    /// Name in the library.
    pub name: String,
    pub kind: Kind,
    /// Deadband in percent of the range, which is 0 to 100.
    pub deadband: f64,
    pub max_age: Option<Duration>,
    pub retain: bool,
    pub alarms: Vec<AlarmDefinition>,
}

/// The contract with which a subscriber follows the states of alarms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Follow {
    /// `all`: the subscription ends if more than this number of changes wait.
    All(u32),
    /// `last:n`: keeps this number of the newest changes.
    Last(u32),
}

impl Follow {
    fn drawn(rng: &mut Rng) -> Self {
        match rng.chance(0.7) {
            true => Self::All(pick(rng, &[3, 10, 1000])),
            false => Self::Last(pick(rng, &[1, 3, 20])),
        }
    }

    pub fn contract(self) -> Contract {
        match self {
            Self::All(elements) => Contract::All {
                elements,
                bytes: 1 << 20,
            },
            Self::Last(count) => Contract::Last(count),
        }
    }
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub variables: Vec<VariablePlan>,
    /// Mean time between two writes or operators' actions.
    pub pace: Duration,
    /// Maximum time between two polls of the engine's timers.
    pub poll_interval_max: Duration,
    /// Maximum number of entries of the journal.
    pub journal_entries: u64,
    /// Subscribers in the engine's process.
    pub followers: Vec<Follow>,
    /// Client programs that are connected to the engine.
    pub clients: Vec<Follow>,
    /// Mean time between two turns of a subscriber.
    pub turn_interval: Duration,
    /// The faults, each with its mean interval.
    pub faults: Vec<(Fault, Duration)>,
    /// Duration of the run before all faults end.
    pub length: Duration,
}

impl Plan {
    /// Draws a plan. Times are proportional to the pace, so every run has about the same number of actions.
    pub fn drawn(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x616c_6172_6d73);
        let pace = Duration::from_secs_f64(rng.magnitude(0.3, 12.0));
        let count = rng.range(1, 5);
        let variables = (0..count).map(|n| variable(n, &mut rng)).collect();
        let mut faults = Vec::new();
        for fault in FAULTS {
            let mean = pace.mul_f64(rng.magnitude(15.0, 150.0));
            if rng.chance(0.5) {
                faults.push((*fault, mean));
            }
        }
        let followers = (0..rng.range(1, 2)).map(|_| Follow::drawn(&mut rng));
        let followers = followers.collect();
        let clients = (0..rng.range(0, 2)).map(|_| Follow::drawn(&mut rng));
        let clients: Vec<Follow> = clients.collect();
        if clients.is_empty() {
            faults.retain(|(fault, _)| !matches!(fault, Fault::Cut | Fault::Silence));
        }
        Self {
            seed,
            variables,
            pace,
            poll_interval_max: Duration::from_millis(pick(&mut rng, &[20, 250, 250])),
            journal_entries: pick(&mut rng, &[20, 100, 100_000]),
            followers,
            clients,
            turn_interval: pace.mul_f64(rng.magnitude(0.3, 10.0)),
            faults,
            length: pace * 400,
        }
    }
}

/// Returns one of the values at random.
pub fn pick<T: Copy>(rng: &mut Rng, values: &[T]) -> T {
    values[rng.index(values.len())]
}

fn variable(number: u64, rng: &mut Rng) -> VariablePlan {
    let kind = pick(rng, &[Kind::Number, Kind::Number, Kind::Switch, Kind::Bits]);
    let max_age = Duration::from_secs(pick(rng, &[2, 10, 60]));
    let mut plan = VariablePlan {
        name: format!("v{number}"),
        kind,
        deadband: match kind {
            Kind::Number => pick(rng, &[0.0, 0.0, 5.0]),
            Kind::Switch | Kind::Bits => 0.0,
        },
        max_age: rng.chance(0.4).then_some(max_age),
        retain: rng.chance(0.3),
        alarms: Vec::new(),
    };
    for _ in 0..rng.range(1, 4) {
        add_alarm(&mut plan, rng);
    }
    plan
}

/// Adds a random alarm, unless the variable has an alarm with the same name.
fn add_alarm(plan: &mut VariablePlan, rng: &mut Rng) {
    let alarm = alarm(plan, rng);
    if plan.alarms.iter().all(|known| known.name != alarm.name) {
        plan.alarms.push(alarm);
    }
}

/// Changes the alarms of a variable, as a new version of the library may.
pub fn change_alarms(plan: &mut VariablePlan, rng: &mut Rng) {
    match rng.below(4) {
        0 if plan.alarms.len() > 1 => {
            plan.alarms.remove(rng.index(plan.alarms.len()));
        }
        1 => add_alarm(plan, rng),
        2 => {
            let at = rng.index(plan.alarms.len());
            if let Some(known) = plan.alarms.get_mut(at) {
                known.priority = rng.range(1, 1000) as u16;
            }
        }
        _ => {
            let changed = alarm(plan, rng);
            let mut known = plan.alarms.iter_mut();
            if let Some(known) = known.find(|known| known.name == changed.name) {
                *known = changed;
            }
        }
    }
}

fn alarm(plan: &VariablePlan, rng: &mut Rng) -> AlarmDefinition {
    let kind = match (plan.kind, rng.below(10)) {
        (_, 0) => AlarmKind::BadQuality,
        (_, 1) => AlarmKind::Stale,
        (Kind::Number, drawn) => numeric(drawn, plan.deadband > 0.0, rng),
        (Kind::Switch, _) => AlarmKind::Discrete {
            values: vec![i64::from(rng.chance(0.7))],
        },
        (Kind::Bits, 2..5) => AlarmKind::Discrete {
            values: (0..rng.range(1, 3)).map(|_| rng.below(8) as i64).collect(),
        },
        (Kind::Bits, _) => AlarmKind::Bits {
            needed: pick(rng, &[BitsNeeded::Any, BitsNeeded::All]),
            invert: rng.below(8),
            select: rng.range(1, 7),
        },
    };
    let is_rate = matches!(kind, AlarmKind::RateOfChange { .. });
    let delay = |rng: &mut Rng| match is_rate || rng.chance(0.5) {
        // A rate has no delays, so that its state shows the checker the engine's condition.
        true => Duration::ZERO,
        false => Duration::from_millis(pick(rng, &[100, 1000, 5000, 60_000])),
    };
    let (on_delay, off_delay) = (delay(rng), delay(rng));
    AlarmDefinition {
        on_delay,
        off_delay,
        enabled: rng.chance(0.95),
        priority: rng.range(1, 1000) as u16,
        area: pick(rng, &["", "north", "south"]).to_owned(),
        acknowledge: pick(
            rng,
            &[Acknowledge::User, Acknowledge::User, Acknowledge::Auto],
        ),
        latched: rng.chance(0.3),
        suppressed_by: match rng.chance(0.25) {
            true => format!("{LIBRARY}/{}", pick(rng, &CONDITIONS)),
            false => String::new(),
        },
        ..AlarmDefinition::new(kind)
    }
}

fn numeric(drawn: u64, has_deadband: bool, rng: &mut Rng) -> AlarmKind {
    let deadband = pick(rng, &[0.0, 0.0, 2.0]);
    let mut operand = |constant: f64| match rng.chance(0.2) {
        true => Operand::Variable(format!("{LIBRARY}/{}", pick(rng, &OPERANDS))),
        false => Operand::Constant(constant),
    };
    let (level, limit) = match drawn {
        2 | 3 => (LimitLevel::Hi, 80.0),
        4 => (LimitLevel::HiHi, 90.0),
        5 => (LimitLevel::Lo, 20.0),
        6 => (LimitLevel::LoLo, 10.0),
        7 => {
            return AlarmKind::Deviation {
                setpoint: operand(50.0),
                limit: 30.0,
                deadband,
            };
        }
        _ if has_deadband => (LimitLevel::Hi, 80.0),
        _ => {
            return AlarmKind::RateOfChange {
                change: pick(rng, &[10.0, 40.0]),
                time: Duration::from_millis(pick(rng, &[500, 5000, 60_000])),
            };
        }
    };
    AlarmKind::Limit {
        level,
        limit: operand(limit),
        deadband,
    }
}

/// Returns the library with these variables, [`CONDITIONS`] and [`OPERANDS`].
pub fn library(variables: &[VariablePlan]) -> LibraryDefinition {
    let define = |path: &str, properties: Properties| VariableDefinition {
        path: path.to_owned(),
        properties: Arc::new(properties),
    };
    let planned = variables.iter().map(|plan| {
        let mut properties = Properties::new(match plan.kind {
            Kind::Number => DataType::F64,
            Kind::Switch => DataType::Bool,
            Kind::Bits => DataType::U32,
        });
        properties.deadband = Deadband {
            user_percent: plan.deadband,
            source_percent: plan.deadband,
        };
        properties.max_age = plan.max_age;
        properties.retain = plan.retain;
        properties.alarms.clone_from(&plan.alarms);
        define(&plan.name, properties)
    });
    let conditions = CONDITIONS.map(|name| define(name, Properties::new(DataType::Bool)));
    let operands = OPERANDS.map(|name| define(name, Properties::new(DataType::F64)));
    LibraryDefinition {
        name: LIBRARY.to_owned(),
        description: String::new(),
        variables: planned.chain(conditions).chain(operands).collect(),
    }
}
