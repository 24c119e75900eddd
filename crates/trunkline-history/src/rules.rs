//! Applies the configured history rules to variables and series.

use std::time::Duration;

use trunkline_types::history::{HistoryRule, HistorySettings};
use trunkline_types::name::is_reserved;

use crate::catalogue::{ENGINE_SERIES, Series};

/// Returns the settings of the first rule that matches the name of a variable; `None` if the variable is not
/// recorded.
pub(crate) fn settings_of(rules: &[HistoryRule], variable: &str) -> Option<HistorySettings> {
    let matches = |rule: &&HistoryRule| {
        // A pattern such as `**` does not match the engine's own variables, whose names begin with `_`.
        let is_own = is_reserved(variable) && !rule.pattern.as_str().starts_with('_');
        !is_own && rule.pattern.matches(variable)
    };
    rules.iter().find(matches)?.settings
}

/// Returns how long the rows of a series are kept; `None` means without limit. Events that concern all
/// variables are kept for the longest time in any rule.
pub(crate) fn keep_of(rules: &[HistoryRule], series: &Series) -> Option<Duration> {
    if series.id != ENGINE_SERIES {
        return settings_of(rules, &series.name)?.keep;
    }
    let settings = rules.iter().filter_map(|rule| rule.settings.as_ref());
    let keeps: Option<Vec<Duration>> = settings.map(|settings| settings.keep).collect();
    keeps?.into_iter().max()
}
