//! Reloads the configuration of a running engine: the order, its handler, and what came of it.
//!
//! The program that runs the engine reads the files, because only it knows where they are and what
//! its command line adds. [`Engine::reload`] then applies them: completely or, after an error, not at
//! all.

use std::fmt;
use std::sync::{Mutex, OnceLock};

use trunkline_config::{DeploymentPlan, RunningConfig};
use trunkline_engine::{ReloadedKeys, Report};
use trunkline_types::{AuditAction, FaultCode};

use crate::deployments::{LibraryError, lock};
use crate::engine::Engine;

/// What a reload of the configuration changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reloaded {
    /// Number of variables that are new, or whose type, scope or FIFO has changed.
    pub added: usize,
    /// Number of variables that remain, with changed properties.
    pub changed: usize,
    /// Number of variables that remain as they were.
    pub kept: usize,
    /// Number of variables that were removed.
    pub removed: usize,
    /// The changed keys of the configuration that take effect, such as `audit_age`.
    pub applied: Vec<String>,
    /// The changed keys and sections that take effect when the engine is started again, such as
    /// `listen` and `[[io]] plc1`.
    pub restart: Vec<String>,
}

/// The reason why the configuration was not reloaded. It is unchanged. Accounts and certificates are
/// not part of it: the engine uses changed ones shortly after their files have changed, whatever becomes
/// of a reload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The configuration has an error, or cannot be applied.
    #[error("{0}")]
    Configuration(String),
    /// The program that runs the engine does not accept such orders.
    #[error(
        "this engine has no configuration files that it can read again; start the program that runs it \
         again"
    )]
    NotSupported,
}

impl ReloadError {
    pub(crate) fn code(&self) -> FaultCode {
        match self {
            Self::Configuration(_) => FaultCode::BadConfiguration,
            Self::NotSupported => FaultCode::NotSupported,
        }
    }
}

impl From<LibraryError> for ReloadError {
    fn from(error: LibraryError) -> Self {
        Self::Configuration(error.to_string())
    }
}

impl Reloaded {
    pub(crate) fn into_report(self) -> Report {
        Report {
            added: self.added,
            changed: self.changed,
            kept: self.kept,
            removed: self.removed,
            keys: ReloadedKeys {
                applied: self.applied,
                restart: self.restart,
            },
            ..Report::default()
        }
    }
}

/// Shows what changed as text: `3 added, 1 removed; audit_age; needs a restart: listen`.
impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clone().into_report().fmt(f)
    }
}

type Handler = Box<dyn Fn() -> Result<Reloaded, ReloadError> + Send + Sync>;

/// The reloads of an engine.
#[derive(Default)]
pub(crate) struct Reloads {
    /// Reads the files and applies them; empty if the program does not accept such orders.
    handler: OnceLock<Handler>,
    /// Held during a reload, so that two do not mix.
    turn: Mutex<()>,
    state: Mutex<ReloadState>,
}

/// What the engine reports about its configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ReloadState {
    /// Why the last reload was refused; `None` if it was not.
    pub(crate) fault: Option<String>,
    /// The changed keys that wait for a restart.
    pub(crate) restart: Vec<String>,
}

impl Reloads {
    /// Only the first handler has an effect.
    pub(crate) fn set_handler(&self, handler: Handler) {
        let _already = self.handler.set(handler);
    }

    /// Reads the files again and applies them.
    pub(crate) fn run(&self) -> Result<Reloaded, ReloadError> {
        let handler = self.handler.get().ok_or(ReloadError::NotSupported)?;
        let _turn = lock(&self.turn);
        let result = handler();
        let mut state = lock(&self.state);
        match &result {
            Ok(reloaded) => {
                *state = ReloadState {
                    fault: None,
                    restart: reloaded.restart.clone(),
                };
            }
            Err(ReloadError::Configuration(sentence)) => state.fault = Some(sentence.clone()),
            Err(ReloadError::NotSupported) => {}
        }
        drop(state);
        result
    }

    pub(crate) fn state(&self) -> ReloadState {
        lock(&self.state).clone()
    }
}

impl Engine {
    /// Accepts orders to reload the configuration, of clients and by
    /// [`order_reload`](Self::order_reload). Such an order calls `handler`, which reads the files and
    /// passes them to [`reload`](Self::reload). Without a handler, the orders are refused. Only the
    /// first call of this function has an effect.
    pub fn accept_reload_orders(
        &self,
        handler: impl Fn(&Engine) -> Result<Reloaded, ReloadError> + Send + Sync + 'static,
    ) {
        // The handler must not keep the engine running.
        let engine = self.downgrade();
        let handler = move || {
            let engine = engine.upgrade();
            let engine = engine.ok_or(ReloadError::NotSupported)?;
            handler(&engine)
        };
        let reloads = self.inner.deployments.reloads();
        reloads.set_handler(Box::new(handler));
    }

    /// Returns why the last reload of the configuration was refused; `None` if it was not.
    pub fn configuration_fault(&self) -> Option<String> {
        self.inner.deployments.reloads().state().fault
    }

    /// Orders a reload of the configuration in the name of this process, as after a signal. The audit trail
    /// records it as an order of a client.
    ///
    /// # Errors
    /// [`ReloadError`]; the configuration is unchanged.
    pub fn order_reload(&self) -> Result<Reloaded, ReloadError> {
        let deployments = &self.inner.deployments;
        let room = deployments.audit().room();
        let room = room.map_err(|error| ReloadError::Configuration(error.to_string()))?;
        let result = deployments.reloads().run();
        let outcome = match &result {
            Ok(reloaded) => Ok(reloaded.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let audit = deployments.audit();
        audit.note(&self.caller(), AuditAction::ReloadOrder, "", outcome, &room);
        result
    }

    /// Applies a configuration that was read again: the libraries of the files, and the keys that can
    /// take effect in a running engine. Variables whose definitions are unchanged keep their handles,
    /// values and subscribers. I/O servers, listeners and the history stay as they
    /// are; the result names what differs. Also reads the accounts and certificates again.
    ///
    /// Only for engines that were started from configuration files.
    ///
    /// # Errors
    /// [`ReloadError`]; the configuration is unchanged.
    pub fn reload(&self, plan: &DeploymentPlan) -> Result<Reloaded, ReloadError> {
        let inner = &self.inner;
        let mut running = lock(&inner.running);
        let running: &mut RunningConfig = running.as_mut().ok_or(ReloadError::NotSupported)?;
        // Changed accounts would be used soon anyway, so they are not taken back if a library is refused.
        let examined = inner.logins.examine_now();
        examined.map_err(ReloadError::Configuration)?;
        let deployed = inner.deployments.deploy_files(&plan.libraries)?;
        let changes = running.adopt(plan);
        self.apply_settings(&running.engine);
        Ok(Reloaded {
            added: deployed.added,
            changed: deployed.changed,
            kept: deployed.kept,
            removed: deployed.removed,
            applied: changes.applied,
            restart: changes.restart,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn refused_reload_is_a_fault_until_one_succeeds() {
        let sut = Reloads::default();
        assert_eq!(sut.run(), Err(ReloadError::NotSupported));
        assert_eq!(sut.state(), ReloadState::default());
        let results = Mutex::new(vec![
            Ok(Reloaded::default()),
            Err(ReloadError::Configuration(
                "plant.toml:3:1 wrong".to_owned(),
            )),
            Ok(Reloaded {
                restart: vec!["listen".to_owned()],
                ..Reloaded::default()
            }),
        ]);
        sut.set_handler(Box::new(move || lock(&results).pop().unwrap()));
        sut.run().unwrap();
        sut.run().unwrap_err();
        let state = sut.state();
        assert_eq!(state.fault.as_deref(), Some("plant.toml:3:1 wrong"));
        assert_eq!(
            state.restart,
            ["listen"],
            "what waits for a restart still waits"
        );
        sut.run().unwrap();
        assert_eq!(sut.state(), ReloadState::default());
    }
}
