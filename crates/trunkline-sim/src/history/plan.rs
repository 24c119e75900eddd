//! The plan of a run, drawn from its seed before anything runs.

use std::sync::Arc;
use std::time::Duration;

use trunkline_types::history::{HistoryRule, HistorySettings};
use trunkline_types::{DataType, LibraryDefinition, Pattern, Properties, VariableDefinition};

use super::fault::{FAULTS, Fault};
use crate::rng::Rng;

/// The library of all variables.
pub const LIBRARY: &str = "plant";
/// The time for which rows of `short` variables are kept.
pub const KEEP: Duration = Duration::from_secs(3 * 3600);

/// The variable that a program follows from its first update on, in full.
pub const FOLLOWED: &str = "plant/followed";

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Types of the variables, by their names in the library. Those that begin with `short` are kept
    /// for [`KEEP`] only, and those that begin with `never` are not recorded.
    pub variables: Vec<(String, DataType)>,
    /// Mean time between two actions.
    pub pace: Duration,
    /// The shares of a commit, a closed segment, a move to files, and a query, in percent.
    pub shares: [u64; 4],
    pub faults: Vec<(Fault, Duration)>,
    pub length: Duration,
    /// Time from the beginning until a program follows [`FOLLOWED`]; `None`: no program does. If one does, no
    /// clock is stepped, because the program relies on the times of updates.
    pub follows_after: Option<Duration>,
}

impl Plan {
    /// Draws a plan. Times are proportional to the pace, so a run with few actions is longer.
    pub fn drawn(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x6869_7374_6f72_7900);
        let pace = Duration::from_secs_f64(rng.magnitude(0.5, 60.0));
        let count = rng.range(1, 4);
        let variables = (0..count).map(|n| {
            let kind = pick(&mut rng, &["v", "v", "short", "never"]);
            (format!("{kind}{n}"), data_type(&mut rng))
        });
        let mut variables: Vec<_> = variables.collect();
        variables.push(("v".to_owned(), DataType::F64));
        let length = pace * 300;
        let follows_after = rng
            .chance(0.6)
            .then(|| length.mul_f64(rng.magnitude(0.001, 0.9)));
        if follows_after.is_some() {
            variables.push(("followed".to_owned(), DataType::F64));
        }
        let mut faults = Vec::new();
        for fault in FAULTS {
            let mean = pace.mul_f64(rng.magnitude(15.0, 100.0));
            let is_possible = match fault {
                Fault::Clock => follows_after.is_none(),
                Fault::Cut | Fault::Silence | Fault::KillBeforeAnswer => follows_after.is_some(),
                Fault::Kill
                | Fault::PowerLoss
                | Fault::Restart
                | Fault::Full
                | Fault::Redeploy
                | Fault::Damage => true,
            };
            if rng.chance(0.5) && is_possible {
                faults.push((*fault, mean));
            }
        }
        Self {
            seed,
            variables,
            pace,
            shares: [
                rng.range(5, 25),
                rng.range(1, 10),
                rng.range(2, 15),
                rng.range(3, 10),
            ],
            faults,
            length,
            follows_after,
        }
    }
}

/// Returns one of these values at random.
pub fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.index(of.len())]
}

/// Returns a type whose values are all recorded exactly.
pub fn data_type(rng: &mut Rng) -> DataType {
    match rng.below(6) {
        0 | 1 => DataType::F64,
        2 => DataType::I64,
        3 => DataType::Bool,
        4 => DataType::U16,
        _ => DataType::String,
    }
}

pub fn rules() -> Vec<HistoryRule> {
    let exact = HistorySettings::default();
    let rule = |pattern: &str, settings| HistoryRule {
        pattern: Pattern::parse(pattern).unwrap_or_else(|_| unreachable!("{pattern} is a pattern")),
        settings,
    };
    let short = HistorySettings {
        keep: Some(KEEP),
        ..exact
    };
    vec![
        rule("plant/never*", None),
        rule("plant/short*", Some(short)),
        rule("**", Some(exact)),
    ]
}

pub fn library(variables: &[(String, DataType)]) -> LibraryDefinition {
    let variables = variables
        .iter()
        .map(|(name, data_type)| VariableDefinition {
            path: name.clone(),
            properties: Arc::new(Properties::new(data_type.clone())),
        });
    LibraryDefinition {
        name: LIBRARY.to_owned(),
        description: String::new(),
        variables: variables.collect(),
    }
}
