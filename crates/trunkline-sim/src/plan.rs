//! Draws the plan of a run from the seed: the participants, their actions, and the faults.

use std::time::Duration;

use trunkline_proto::{Backoff, ThroughputMode};
use trunkline_types::{Contract, DataType};

use crate::fault::{FAULTS, Fault};
use crate::hostile::HostilePlan;
use crate::link::{CAPACITY, Way};
use crate::rng::Rng;
use crate::transient::TransientPlan;

/// The types of the simulated variables. Each value contains the number of the write that caused it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueKind {
    /// `f64`.
    Float,
    /// `u64`.
    Integer,
    /// Text of varying length.
    Text,
}

impl ValueKind {
    /// Returns the type of the variable.
    pub fn data_type(self) -> DataType {
        match self {
            ValueKind::Float => DataType::F64,
            ValueKind::Integer => DataType::U64,
            ValueKind::Text => DataType::String,
        }
    }
}

/// Returns the type of a variable. Transient variables are numbered after the permanent ones.
pub fn value_kind(plan: &Plan, variable: u32) -> ValueKind {
    let transient = [ValueKind::Float, ValueKind::Integer, ValueKind::Text];
    match plan.variables.get(variable as usize) {
        Some(variable) => variable.value_kind,
        None => transient[variable as usize % transient.len()],
    }
}

/// The plan of one variable.
#[derive(Clone, Debug)]
pub struct VariablePlan {
    pub value_kind: ValueKind,
    /// Maximum time that a writer waits for a full `all` subscription.
    pub stall: Duration,
    /// True if the value survives a restart of the engine, provided that there is a store.
    pub retain: bool,
}

/// The plan of one subscription of a program.
#[derive(Clone, Debug)]
pub struct SubscriptionPlan {
    pub contract: Contract,
    /// Numbers of the variables.
    pub variables: Vec<u32>,
}

/// The plan of one client program.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    pub subscriptions: Vec<SubscriptionPlan>,
    /// Time from the arrival of events until the program takes them.
    pub take_after: Duration,
    /// Maximum number of events that the program takes from one subscription at a time.
    pub take_max: usize,
    /// Mean time between writes; `None`: the program only reads.
    pub write_every: Option<Duration>,
    /// Maximum number of writes at a time.
    pub burst_max: u64,
    /// Maximum time between two attempts to connect.
    pub backoff_max: Duration,
    /// Number of records that the engine may send without confirmation.
    pub window_records: u32,
    /// True if the program reads the connection itself, and takes all events after each read.
    pub drives: bool,
    /// True if both ends gather data before they send it (throughput mode).
    pub uses_throughput: bool,
}

/// Repairs that are not violations (B-10).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Repairs {
    /// Every repair is a violation, because without a bug there is nothing to repair.
    #[default]
    Never,
    /// The engine may lose marks of pending updates. An update may then be late by a whole sweep.
    Marks,
    /// Update records may be lost in transit without a report, and the ledgers of both ends are not
    /// compared. All values must be correct 2 s after the faults have ended.
    Records,
}

/// Everything that a seed determines in advance.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Variables of the permanent library.
    pub variables: Vec<VariablePlan>,
    /// Libraries that are deployed and removed during the run; `None`: none.
    pub transient: Option<TransientPlan>,
    /// A hostile peer that leaves its requests unfinished; `None`: none.
    pub hostile: Option<HostilePlan>,
    pub programs: Vec<ProgramPlan>,
    /// Properties of a connection without faults.
    pub way: Way,
    /// Maximum time from the cause of a turn to the turn.
    pub scheduling: Duration,
    /// Maximum number of bytes that are read at once.
    pub read_max: usize,
    /// The faults, each with its mean interval.
    pub faults: Vec<(Fault, Duration)>,
    /// Duration of the phase with faults.
    pub fault_phase: Duration,
    /// Mean time between writes by the engine's own process; `None`: it does not write.
    pub produce_every: Option<Duration>,
    /// Maximum number of writes of the engine's own process at a time.
    pub burst_max: u64,
    pub has_store: bool,
    /// Rate in bytes per second of the line from the engine's machine. All connections take turns to
    /// send packets over this line; 0: no limit.
    pub uplink: u64,
    /// Repairs that are not violations.
    pub repairs: Repairs,
    /// True if every subscriber, including the witness, uses `latest`. Writes of numbers then use the
    /// fast path.
    pub is_latest_only: bool,
    /// Number of cycles of a chaos run, each with faults, their end, and a comparison 2 s later; 0: not
    /// a chaos run.
    pub cycles: u64,
}

impl Plan {
    /// Returns the simplest plan: one engine, one client, the contract `latest`, and a perfect network.
    pub fn minimal(seed: u64) -> Self {
        let variables = vec![VariablePlan {
            value_kind: ValueKind::Float,
            stall: Duration::ZERO,
            retain: false,
        }];
        let subscriptions = vec![SubscriptionPlan {
            contract: Contract::Latest,
            variables: vec![0],
        }];
        Self {
            seed,
            variables,
            transient: None,
            hostile: None,
            programs: vec![ProgramPlan {
                subscriptions,
                take_after: Duration::from_millis(1),
                take_max: usize::MAX,
                write_every: Some(Duration::from_millis(500)),
                burst_max: 1,
                backoff_max: Duration::from_secs(1),
                window_records: 1 << 16,
                drives: false,
                uses_throughput: false,
            }],
            way: Way::perfect(),
            scheduling: Duration::ZERO,
            read_max: CAPACITY,
            faults: Vec::new(),
            fault_phase: Duration::from_secs(10),
            produce_every: Some(Duration::from_millis(100)),
            burst_max: 1,
            has_store: false,
            uplink: 0,
            repairs: Repairs::Never,
            is_latest_only: false,
            cycles: 0,
        }
    }

    /// Draws sizes, contracts, rates and a selection of faults from `seed`.
    pub fn drawn(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7472_756e_6b6c_696e);
        let count = rng.magnitude(1.0, 200.0).round() as usize;
        let has_store = rng.chance(0.5);
        let stalls = rng.chance(0.4);
        let variables: Vec<_> = (0..count).map(|_| variable(&mut rng, stalls)).collect();
        let programs = rng.magnitude(1.0, 8.0).round() as usize;
        let clients = (0..programs)
            .map(|_| program(&mut rng, count as u32))
            .collect::<Vec<_>>();
        let pieces = *pick(&mut rng, &[CAPACITY, CAPACITY, 1500, 100, 7]);
        let delay = Duration::from_secs_f64(rng.magnitude(0.000_05, 0.08));
        let way = Way {
            delay,
            jitter: delay.mul_f64(*pick(&mut rng, &[0.0, 0.2, 0.5])),
            rate: 0,
            piece_max: pieces,
            silent_until: trunkline_types::Tick::ZERO,
        };
        let scheduling = Duration::from_micros(*pick(&mut rng, &[0, 50, 1000, 20_000]));
        // A window that is used up within a round trip limits the rate. It must allow 20 records per
        // variable and second, so that 2 s are enough for all updates.
        let round_trip = (delay * 4 + scheduling * 4).as_secs_f64();
        let records = count as f64 * 20.0 + 400.0;
        let window_min = |gathered| 4 + (records * (round_trip + gathered)) as u32;
        let mut clients: Vec<ProgramPlan> = clients
            .into_iter()
            .map(|mut plan: ProgramPlan| {
                let gathered = match plan.uses_throughput {
                    true => ThroughputMode::DEFAULT.delay.as_secs_f64() * 2.0,
                    false => 0.0,
                };
                let window_min = window_min(gathered);
                plan.window_records = plan.window_records.max(window_min);
                for subscription in &mut plan.subscriptions {
                    if let Contract::All { elements, .. } = &mut subscription.contract {
                        *elements = (*elements).max(window_min);
                    }
                }
                plan
            })
            .collect();
        let mut faults = Vec::new();
        for fault in FAULTS {
            if rng.chance(0.4) {
                let mean = Duration::from_secs_f64(rng.magnitude(1.5, 40.0));
                faults.push((*fault, mean));
            }
        }
        let produce = rng.chance(0.8);
        let is_latest_only = rng.chance(0.2);
        for plan in clients.iter_mut().filter(|_| is_latest_only) {
            let subscriptions = &mut plan.subscriptions;
            subscriptions.retain(|subscription| subscription.contract == Contract::Latest);
        }
        let transient = rng.chance(0.5);
        let transient = transient.then(|| TransientPlan::drawn(&mut rng, is_latest_only));
        let hostile = rng.chance(0.3);
        let hostile = hostile.then(|| HostilePlan::drawn(&mut rng, &clients));
        Self {
            seed,
            variables,
            transient,
            hostile,
            programs: clients,
            way,
            scheduling,
            read_max: *pick(&mut rng, &[CAPACITY, CAPACITY, 4096, 333]),
            faults,
            fault_phase: rng.millis(20_000, 90_000),
            produce_every: produce.then(|| Duration::from_secs_f64(rng.magnitude(0.03, 3.0))),
            burst_max: rng.magnitude(1.0, 60.0) as u64,
            has_store,
            uplink: 0,
            repairs: Repairs::Never,
            is_latest_only,
            cycles: 0,
        }
    }

    /// Returns a plan with a saturated line (B-07). `follows` has the number of variables that each
    /// program follows. All variables change continuously.
    pub fn saturated(seed: u64, uplink: u64, follows: &[u32]) -> Self {
        let mut plan = Self::minimal(seed);
        let count = follows.iter().copied().max().unwrap_or(1);
        plan.variables = vec![plan.variables.remove(0); count as usize];
        let program = plan.programs.remove(0);
        plan.programs = follows
            .iter()
            .map(|follows| ProgramPlan {
                subscriptions: vec![SubscriptionPlan {
                    contract: Contract::Latest,
                    variables: (0..*follows).collect(),
                }],
                write_every: None,
                ..program.clone()
            })
            .collect();
        plan.uplink = uplink;
        plan.fault_phase = Duration::from_secs(30);
        plan.produce_every = Some(Duration::from_millis(5));
        plan.burst_max = u64::from(count) / 4;
        plan
    }

    /// Returns the plan of a chaos run (B-11): cycles of faults, their end, and a comparison 2 s later.
    pub fn chaos(seed: u64, cycles: u64) -> Self {
        let mut plan = Self::drawn(seed);
        plan.cycles = cycles;
        for program in &mut plan.programs {
            program.backoff_max = Backoff::CAP;
            program.take_after = program.take_after.min(Duration::from_millis(5));
            program.take_max = program.take_max.max(500);
        }
        plan
    }
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.index(from.len())]
}

fn variable(rng: &mut Rng, stalls: bool) -> VariablePlan {
    let stall = match stalls && rng.chance(0.5) {
        true => rng.millis(50, 2000),
        false => Duration::ZERO,
    };
    VariablePlan {
        value_kind: *pick(
            rng,
            &[ValueKind::Float, ValueKind::Integer, ValueKind::Text],
        ),
        stall,
        retain: rng.chance(0.5),
    }
}

fn program(rng: &mut Rng, variables: u32) -> ProgramPlan {
    let mut subscriptions = Vec::new();
    let contracts = [
        Contract::Latest,
        Contract::Last(rng.range(2, 40) as u32),
        Contract::First(rng.range(2, 40) as u32),
        Contract::All {
            elements: rng.magnitude(2.0, 2000.0) as u32,
            bytes: rng.magnitude(200.0, 200_000.0) as u32,
        },
        Contract::Sampled(rng.millis(10, 900)),
    ];
    for contract in contracts {
        let probability = match contract {
            Contract::Latest => 0.72,
            _ => 0.45,
        };
        if !rng.chance(probability) {
            continue;
        }
        let selects_all = rng.chance(0.5);
        let chosen: Vec<u32> = (0..variables)
            .filter(|_| selects_all || rng.chance(0.3))
            .collect();
        if !chosen.is_empty() {
            subscriptions.push(SubscriptionPlan {
                contract,
                variables: chosen,
            });
        }
    }
    let writes = rng.chance(0.6);
    ProgramPlan {
        subscriptions,
        take_after: Duration::from_secs_f64(rng.magnitude(0.000_1, 0.3)),
        take_max: rng.magnitude(5.0, 5000.0) as usize,
        write_every: writes.then(|| Duration::from_secs_f64(rng.magnitude(0.05, 5.0))),
        burst_max: rng.magnitude(1.0, 60.0) as u64,
        backoff_max: Duration::from_secs_f64(rng.magnitude(0.2, 10.0)),
        window_records: rng.magnitude(4.0, 65_536.0) as u32,
        drives: rng.chance(0.3),
        uses_throughput: rng.chance(0.1),
    }
}
