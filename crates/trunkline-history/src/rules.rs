//! The rules of the configuration for a variable and its series.

use std::time::Duration;

use trunkline_types::history::{HistoryRule, HistorySettings};
use trunkline_types::name::is_reserved;

use crate::catalogue::{ENGINE_SERIES, Series};

/// Returns the settings of a variable: those of the first rule that matches its name.
pub(crate) fn settings_of(rules: &[HistoryRule], variable: &str) -> Option<HistorySettings> {
    let matches = |rule: &&HistoryRule| {
        // `**` does not include the engine's own variables.
        let is_own = is_reserved(variable) && !rule.pattern.as_str().starts_with('_');
        !is_own && rule.pattern.matches(variable)
    };
    rules.iter().find(matches)?.settings
}

/// Returns how long the rules keep the rows of a series; `None` means forever. Events that concern all
/// variables are kept as long as the rows that are kept longest.
pub(crate) fn keep_of(rules: &[HistoryRule], series: &Series) -> Option<Duration> {
    if series.id != ENGINE_SERIES {
        return settings_of(rules, &series.name)?.keep;
    }
    let settings = rules.iter().filter_map(|rule| rule.settings.as_ref());
    let keeps: Option<Vec<Duration>> = settings.map(|settings| settings.keep).collect();
    keeps?.into_iter().max()
}
