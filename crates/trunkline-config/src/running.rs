//! Compares the configuration that an engine uses with one that was read later.
//!
//! Every key of `[engine]` and `[engine.limits]` states in [`keys`](crate::keys) whether it can take
//! effect in a running engine. The comparison names each field of these sections, so a new key does
//! not compile without a decision.

use crate::keys::{Reload, Section};
use crate::plan::{DeploymentPlan, EngineConfig, HistoryConfig, IoConfig, Limits};

/// The configuration that a running engine uses, excluding its libraries.
#[derive(Clone, PartialEq, Debug)]
pub struct RunningConfig {
    /// Settings of the engine itself.
    pub engine: EngineConfig,
    io: Vec<IoConfig>,
    history: Option<HistoryConfig>,
}

/// The keys and sections that differ from the configuration in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigChanges {
    /// Those that take effect in the running engine. Keys of `[engine.limits]` begin with `limits.`.
    pub applied: Vec<String>,
    /// Those that take effect when the engine is started again.
    pub restart: Vec<String>,
}

impl RunningConfig {
    /// Returns the configuration of an engine that was started with this plan.
    pub fn of(plan: &DeploymentPlan) -> Self {
        Self {
            engine: plan.engine.clone(),
            io: plan.io.clone(),
            history: plan.history.clone(),
        }
    }

    /// Takes over the values of `plan` that take effect in a running engine, and keeps all others.
    /// Returns what differed. Libraries are not compared.
    pub fn adopt(&mut self, plan: &DeploymentPlan) -> ConfigChanges {
        let mut changes = ConfigChanges::default();
        self.engine.adopt(&plan.engine, &mut changes);
        let names = self.io.iter().chain(&plan.io).map(|io| io.name.as_str());
        let mut seen: Vec<&str> = Vec::new();
        for name in names {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let of = |all: &'_ [IoConfig]| all.iter().position(|io| io.name == name);
            let own = of(&self.io).and_then(|place| self.io.get(place));
            let new = of(&plan.io).and_then(|place| plan.io.get(place));
            let is_same = own
                .zip(new)
                .is_some_and(|(own, new)| own.has_settings_of(new));
            if !is_same {
                changes.restart.push(format!("[[io]] {name}"));
            }
        }
        let rules = |history: &Option<HistoryConfig>| {
            let rules = history.as_ref().map(|history| &history.rules);
            rules.cloned().unwrap_or_default()
        };
        if rules(&self.history) != rules(&plan.history) {
            changes.restart.push("[[history]]".to_owned());
        }
        changes
    }
}

impl IoConfig {
    /// Returns true if both create the same I/O server, wherever they are in the files.
    fn has_settings_of(&self, other: &Self) -> bool {
        let Self {
            name,
            driver,
            period,
            publish,
            settings,
            setting_places: _,
            origin: _,
        } = self;
        (name, driver, period, publish, settings)
            == (
                &other.name,
                &other.driver,
                &other.period,
                &other.publish,
                &other.settings,
            )
    }
}

/// Defines `adopt` of a section: it compares every field, whose name is that of its key. The fields
/// after the semicolon are sections of their own.
macro_rules! adopt {
    ($type:ident, $section:expr, $prefix:literal { $($field:ident,)* ; $($nested:ident)* }) => {
        impl $type {
            fn adopt(&mut self, new: &Self, changes: &mut ConfigChanges) {
                let Self { $($field,)* $($nested,)* } = self;
                $(adopt_one(
                    ($section, $prefix, stringify!($field)),
                    $field,
                    &new.$field,
                    changes,
                );)*
                $($nested.adopt(&new.$nested, changes);)*
            }

            /// The names of the keys that are compared.
            #[cfg(test)]
            const COMPARED: &[&str] = &[$(stringify!($field),)* $(stringify!($nested),)*];
        }
    };
}

adopt! {
    EngineConfig, Section::Engine, "" {
        name, store, audit_entries, audit_age, alarm_journal_entries, alarm_journal_age, history,
        history_spool, listen, http, http_hosts, local_socket, shared_memory, insecure, security,
        same_user, keep_alive, deadline, health, spin, log_level,
        ; limits
    }
}

adopt! {
    Limits, Section::Limits, "limits." {
        sessions_max, handshakes_max, connections_per_address, items_per_session_max,
        queue_bytes_per_session_max, queue_bytes_max, request_bytes_max, writes_per_session_max,
        write_bytes_per_session_max, variables_max,
        ;
    }
}

fn adopt_one<T: Clone + PartialEq>(
    (section, prefix, name): (Section, &str, &str),
    own: &mut T,
    new: &T,
    changes: &mut ConfigChanges,
) {
    if own == new {
        return;
    }
    let key = format!("{prefix}{name}");
    match section.key(name).and_then(|key| key.reload) {
        Some(Reload::AtOnce | Reload::NewConnections) => {
            own.clone_from(new);
            changes.applied.push(key);
        }
        Some(Reload::Restart) | None => changes.restart.push(key),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::load::{load, parse};

    /// A key that the comparison leaves out, or that is no key, would be lost without a word.
    #[test]
    fn every_key_is_compared_under_its_name() {
        for (section, compared) in [
            (Section::Engine, EngineConfig::COMPARED),
            (Section::Limits, Limits::COMPARED),
        ] {
            let mut keys: Vec<&str> = section.keys().map(|key| key.name).collect();
            let mut compared = compared.to_vec();
            keys.sort_unstable();
            compared.sort_unstable();
            assert_eq!(compared, keys, "{section:?}");
        }
    }

    /// The example has another value than the default for nearly every key.
    #[test]
    fn changed_keys_are_adopted_or_need_a_restart_as_the_table_says() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/config");
        let new = load(&[folder.join("all-keys.toml")]).unwrap();
        let mut sut = RunningConfig::of(&DeploymentPlan::default());
        let changes = sut.adopt(&new);
        for (section, prefix) in [(Section::Engine, ""), (Section::Limits, "limits.")] {
            for key in section.keys() {
                let name = format!("{prefix}{}", key.name);
                let is_applied = changes.applied.contains(&name);
                let needs_restart = changes.restart.contains(&name);
                match key.reload {
                    None => assert!(!is_applied && !needs_restart, "{name}"),
                    Some(Reload::Restart) => assert!(!is_applied, "{name}"),
                    Some(_) => assert!(!needs_restart, "{name}"),
                }
            }
        }
        assert!(changes.restart.contains(&"listen".to_owned()));
        assert!(changes.restart.contains(&"[[io]] plc1".to_owned()));
        assert!(changes.restart.contains(&"[[history]]".to_owned()));
        assert!(changes.applied.contains(&"limits.sessions_max".to_owned()));
        assert_eq!(sut.engine.limits.sessions_max, 200);
        assert_eq!(sut.engine.listen, EngineConfig::default().listen);
        // What needs a restart is named again until the restart.
        let again = sut.adopt(&new);
        assert_eq!(again.applied, Vec::<String>::new());
        assert_eq!(again.restart, changes.restart);
    }

    #[test]
    fn io_server_that_moved_within_the_file_is_unchanged() {
        let plan = |lines: &str, period: &str| {
            let text =
                format!("{lines}[[io]]\nname = \"a\"\ndriver = \"sim\"\nperiod = \"{period}\"\n");
            parse("plant.toml", &text).unwrap()
        };
        let mut sut = RunningConfig::of(&plan("", "1s"));
        let unchanged = sut.adopt(&plan("# a comment\n\n", "1s"));
        assert_eq!(unchanged, ConfigChanges::default());
        let restart = |changes: ConfigChanges| changes.restart;
        assert_eq!(restart(sut.adopt(&plan("", "2s"))), ["[[io]] a"]);
        let removed = sut.adopt(&parse("plant.toml", "").unwrap());
        assert_eq!(restart(removed), ["[[io]] a"]);
    }
}
