//! Keeps the deployed libraries, the store and the I/O servers consistent.
//!
//! It handles one order (deploy, undeploy, start, stop) at a time: it checks the order against the
//! engine, stores the order, then carries it out. If the process is killed in between, the next
//! start finds the stored order and carries it out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use trunkline_engine::figures::{StoreCondition, StoreFigures};
use trunkline_engine::store::{
    Damage, RetainedValue, Store, StoreError, StoreErrorKind, StoredLibrary,
};
use trunkline_engine::{
    DeployError, Deployed, Deployment, Engine as Core, LibraryState, Retained, UnknownLibrary,
    Wakes,
};
use trunkline_io::IoServer;
use trunkline_net::Clock;
use trunkline_types::name::is_reserved;
use trunkline_types::{LibraryDefinition, Name, Properties, Reason, VariableDefinition};

use crate::alarms::AlarmLog;
use crate::audit::{AuditLog, LogLimits};
use crate::engine::StartError;
use crate::file_libraries::FileLibraries;
use crate::history::HistoryHost;
use crate::io_host::IoHost;
use crate::reload::Reloads;
use crate::retention::Retention;

/// The store, shared by orders and retained values.
pub(crate) type SharedStore = Arc<Mutex<Box<dyn Store>>>;

/// The reason why the engine refused an order for a library. A refused order changes nothing.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The library is malformed, or already deployed.
    #[error("{0}")]
    Deploy(#[from] DeployError),
    /// The engine has no library with this name.
    #[error("{0}")]
    Unknown(#[from] UnknownLibrary),
    /// The variables of the library have subscribers.
    #[error(
        "library {library} is in use by {subscriptions} subscription{}; end them, or undeploy it \
         with force", if *.subscriptions == 1 { "" } else { "s" }
    )]
    InUse {
        /// Name of the library.
        library: String,
        /// Number of subscriptions to the library's variables.
        subscriptions: usize,
    },
    /// The name is reserved for libraries of the engine itself.
    #[error(
        "the name {library} begins with `_`, which is reserved for the engine's own libraries; \
         choose another name"
    )]
    Reserved {
        /// Name of the library.
        library: String,
    },
    /// The order could not be stored.
    #[error("{0}; nothing was changed")]
    Store(#[from] StoreError),
}

/// Carries out all changes of the libraries and I/O servers of an engine.
pub(crate) struct Deployments {
    core: Core,
    clock: Clock,
    /// Locked while an order is carried out.
    order_lock: Mutex<()>,
    store: Option<SharedStore>,
    retention: Option<Retention>,
    audit: AuditLog,
    alarms: AlarmLog,
    history: Option<HistoryHost>,
    io: Mutex<Vec<IoHost>>,
    /// The libraries of the configuration files, as they were last read.
    files: Mutex<FileLibraries>,
    /// Names of the libraries that I/O servers offer.
    published: Mutex<Vec<String>>,
    reloads: Reloads,
    /// Makes the program stop the engine; empty if the program does not accept such orders.
    stop_handler: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Deployments {
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn new(
        core: &Core,
        clock: Clock,
        store: Option<Box<dyn Store>>,
        audit: LogLimits,
        alarms: LogLimits,
        history: Option<HistoryHost>,
    ) -> std::io::Result<Self> {
        let store = store.map(|store| Arc::new(Mutex::new(store)));
        let retention = match &store {
            Some(store) => Some(Retention::start(core, clock, Arc::clone(store))?),
            None => None,
        };
        let audit_store = store.as_ref().map(|store| (Arc::clone(store), audit));
        let audit = AuditLog::start(core, clock, audit_store)?;
        audit.note_start();
        let alarm_store = store.as_ref().map(|store| (Arc::clone(store), alarms));
        let alarms = AlarmLog::start(core, clock, alarm_store)?;
        Ok(Self {
            core: core.clone(),
            clock,
            order_lock: Mutex::new(()),
            store,
            retention,
            audit,
            alarms,
            history,
            io: Mutex::new(Vec::new()),
            files: Mutex::default(),
            published: Mutex::default(),
            reloads: Reloads::default(),
            stop_handler: OnceLock::new(),
        })
    }

    /// Deploys a library. With `stored`, the next start of the engine deploys it again.
    pub(crate) fn deploy(
        &self,
        library: &LibraryDefinition,
        replace: bool,
        stored: bool,
    ) -> Result<Deployed, LibraryError> {
        let _order = lock(&self.order_lock);
        check_name(&library.name)?;
        self.core.libraries().check(library, replace)?;
        let retained = self.retained(&library.name)?;
        self.restore_alarms(&[library])?;
        if stored && let Some(store) = &self.store {
            let current = self.core.libraries().get(&library.name);
            lock(store).save_library(&StoredLibrary {
                definition: library.clone(),
                state: current.map_or(LibraryState::Running, |current| current.state),
            })?;
        }
        let deployed = self.deploy_now(library, replace, &retained)?;
        lock(&self.files).forget(&library.name);
        Ok(deployed)
    }

    /// Deploys a library that an I/O server offers.
    pub(crate) fn deploy_published(
        &self,
        library: &LibraryDefinition,
    ) -> Result<Deployed, LibraryError> {
        let deployed = self.deploy(library, false, false)?;
        lock(&self.published).push(library.name.clone());
        Ok(deployed)
    }

    /// Deploys the libraries of the configuration files, instead of those that the files had before:
    /// all of them or, after an error, none. They are not stored, because every start reads them from
    /// the files. A library that is no longer in the files is removed, unless the store has a library
    /// of that name, as at a start. Returns the changes of all libraries together, without handles.
    pub(crate) fn deploy_files(
        &self,
        libraries: &[LibraryDefinition],
    ) -> Result<Deployed, LibraryError> {
        let _order = lock(&self.order_lock);
        for LibraryDefinition { name, .. } in libraries {
            check_name(name)?;
            if lock(&self.published).contains(name) {
                let name = name.clone();
                return Err(DeployError::AlreadyDeployed { name }.into());
            }
        }
        let mut files = lock(&self.files);
        let removed = files.names_without(libraries);
        let stored = match &self.store {
            Some(store) if !removed.is_empty() => or_empty_if_full(lock(store).libraries())?,
            _ => Vec::new(),
        };
        let is_removed = |one: &StoredLibrary| removed.contains(&one.definition.name);
        let revived: Vec<StoredLibrary> = stored.into_iter().filter(is_removed).collect();
        let is_revived = |name: &String| revived.iter().any(|one| one.definition.name == *name);
        let undeploy: Vec<String> = removed
            .into_iter()
            .filter(|name| !is_revived(name))
            .collect();
        let new_files = FileLibraries::of(libraries, &files);
        let is_kept = |library: &&LibraryDefinition| {
            self.core.libraries().get(&library.name).is_some()
                && files.has_all_of(&library.name, &new_files)
        };
        let (kept, changed): (Vec<_>, Vec<_>) = libraries.iter().partition(is_kept);
        let mut deploy: Vec<&LibraryDefinition> = changed;
        deploy.extend(revived.iter().map(|one| &one.definition));
        let is_unchanged = |library: &LibraryDefinition, definition: &VariableDefinition| {
            files.contains(&library.name, definition)
        };
        let deployment = |retained| Deployment {
            deploy: &deploy,
            undeploy: &undeploy,
            is_unchanged: &is_unchanged,
            retained,
        };
        self.core.libraries().check_all(&deployment(&|_, _| None))?;
        // A variable that is created again starts with its newest value.
        if let Some(retention) = self.retention.as_ref().filter(|_| !deploy.is_empty()) {
            retention.flush();
        }
        let mut values = HashMap::new();
        for library in &deploy {
            values.extend(self.retained(&library.name)?);
        }
        self.restore_alarms(&deploy)?;
        let removed_variables: usize = undeploy.iter().map(|name| self.variables_of(name)).sum();
        let (now, wall) = self.clock.moment();
        let mut wakes = Wakes::new();
        let retained = retained_in(&values);
        let all = self
            .core
            .libraries()
            .deploy_all(&deployment(&retained), now, wall, &mut wakes);
        // Discards restored alarm states that this deployment did not use.
        self.core.alarms().restore(Vec::new());
        let all = all?;
        for StoredLibrary { definition, state } in &revived {
            if *state == LibraryState::Stopped {
                let name = &definition.name;
                self.core.libraries().stop(name, now, wall, &mut wakes)?;
            }
        }
        drop(wakes);
        *files = new_files;
        let unchanged = kept.iter().map(|library| library.variables.len());
        let mut total = Deployed {
            kept: unchanged.sum(),
            ..Deployed::default()
        };
        for deployed in &all {
            self.follow(&deployed.handles);
            total.added += deployed.added;
            total.changed += deployed.changed;
            total.kept += deployed.kept;
            total.removed += deployed.removed;
        }
        total.removed += removed_variables;
        Ok(total)
    }

    /// Deploys the stored libraries, except those whose names are already deployed. Returns the
    /// names of the skipped libraries.
    pub(crate) fn deploy_stored(&self) -> Result<Vec<String>, LibraryError> {
        let _order = lock(&self.order_lock);
        let Some(store) = &self.store else {
            return Ok(Vec::new());
        };
        let stored = or_empty_if_full(lock(store).libraries())?;
        let mut shadowed = Vec::new();
        for StoredLibrary { definition, state } in stored {
            if self.core.libraries().get(&definition.name).is_some() {
                shadowed.push(definition.name);
                continue;
            }
            let retained = self.retained(&definition.name)?;
            self.restore_alarms(&[&definition])?;
            self.deploy_now(&definition, false, &retained)?;
            if state == LibraryState::Stopped {
                let (now, wall) = self.clock.moment();
                self.core
                    .libraries()
                    .stop(&definition.name, now, wall, &mut Wakes::new())?;
            }
        }
        Ok(shadowed)
    }

    fn retained(&self, library: &str) -> Result<HashMap<String, RetainedValue>, StoreError> {
        let Some(store) = &self.store else {
            return Ok(HashMap::new());
        };
        let values = or_empty_if_full(lock(store).retained(library))?.into_iter();
        Ok(values.map(|value| (value.name.clone(), value)).collect())
    }

    /// Passes the stored alarm states of libraries to the engine before the libraries are deployed.
    /// Removes the states of alarms that the libraries no longer define.
    fn restore_alarms(&self, libraries: &[&LibraryDefinition]) -> Result<(), StoreError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let mut states = Vec::new();
        for library in libraries {
            if self.core.libraries().get(&library.name).is_some() {
                continue;
            }
            let mut store = lock(store);
            if !or_empty_if_full(store.alarms(&library.name))?.is_empty() {
                or_empty_if_full(store.keep_only_alarms(library))?;
            }
            states.extend(or_empty_if_full(store.alarms(&library.name))?);
        }
        self.core.alarms().restore(states);
        Ok(())
    }

    fn deploy_now(
        &self,
        library: &LibraryDefinition,
        replace: bool,
        retained_values: &HashMap<String, RetainedValue>,
    ) -> Result<Deployed, LibraryError> {
        let (now, wall) = self.clock.moment();
        let mut wakes = Wakes::new();
        let retained = retained_in(retained_values);
        let core = &self.core;
        let deployed = core
            .libraries()
            .deploy_retained(library, replace, &retained, now, wall, &mut wakes);
        // Discards restored alarm states that this deployment did not use.
        core.alarms().restore(Vec::new());
        let deployed = deployed?;
        drop(wakes);
        self.follow(&deployed.handles);
        Ok(deployed)
    }

    /// Starts to store and to record the values of variables, as their properties require.
    fn follow(&self, handles: &[u32]) {
        if let Some(retention) = &self.retention {
            retention.follow(&self.core, handles);
        }
        if let Some(history) = &self.history {
            history.follow(handles);
        }
    }

    /// Removes a library from the engine and from the store; with `force` even if it has
    /// subscribers.
    pub(crate) fn undeploy(&self, name: &str, force: bool) -> Result<usize, LibraryError> {
        let _order = lock(&self.order_lock);
        check_name(name)?;
        let subscriptions = self.core.libraries().subscriptions(name)?;
        if subscriptions > 0 && !force {
            return Err(LibraryError::InUse {
                library: name.to_owned(),
                subscriptions,
            });
        }
        // Paused so that no alarm state of the library is stored after the library was removed from
        // the store.
        let paused = self.alarms.pause();
        if let Some(store) = &self.store {
            lock(store).remove_library(name)?;
        }
        let (now, wall) = self.clock.moment();
        let mut wakes = Wakes::new();
        let removed = self.core.libraries().undeploy(name, now, wall, &mut wakes);
        drop(paused);
        lock(&self.files).forget(name);
        Ok(removed?)
    }

    /// Starts or stops a library. Returns false if it was already in that state.
    pub(crate) fn set_state(&self, name: &str, state: LibraryState) -> Result<bool, LibraryError> {
        let _order = lock(&self.order_lock);
        check_name(name)?;
        let core = &self.core;
        // Stores the values now, because the store does not retain the values of a stopped library.
        self.flush();
        if core.libraries().subscriptions(name).is_ok()
            && let Some(store) = &self.store
        {
            lock(store).set_state(name, state)?;
        }
        let (now, wall) = self.clock.moment();
        let mut wakes = Wakes::new();
        Ok(match state {
            LibraryState::Running => core.libraries().start(name, now, wall, &mut wakes)?,
            LibraryState::Stopped => core.libraries().stop(name, now, wall, &mut wakes)?,
        })
    }

    /// Makes an I/O server deliver the variables whose `source` begins with its name, including
    /// variables that are deployed later.
    ///
    /// # Errors
    /// A variable names an item that the server does not have, or the system cannot start another
    /// thread.
    pub(crate) fn attach_io(
        &self,
        name: &str,
        server: Box<dyn IoServer>,
        period: Option<Duration>,
    ) -> Result<(), StartError> {
        let _order = lock(&self.order_lock);
        for library in self.core.libraries().all() {
            for handle in library.handles {
                let Some(variable) = self.core.variable(handle) else {
                    continue;
                };
                let source = &variable.properties().source;
                let item = item_of(source, name);
                if let Some(item) = item.filter(|item| server.item(item).is_none()) {
                    return Err(StartError::UnknownItem {
                        variable: variable.name().to_owned(),
                        server: name.to_owned(),
                        item: item.to_owned(),
                    });
                }
            }
        }
        let host = IoHost::start(&self.core, name, server, period)?;
        lock(&self.io).push(host);
        Ok(())
    }

    /// Removes an I/O server; its variables become bad. Returns false if no server has that name.
    pub(crate) fn detach_io(&self, name: &str) -> bool {
        let host = {
            let mut io = lock(&self.io);
            let index = io.iter().position(|host| host.name() == name);
            index.map(|index| io.remove(index))
        };
        host.map(|host| host.stop(&self.core, Reason::ProviderGone))
            .is_some()
    }

    pub(crate) fn stop_io(&self) {
        let hosts = std::mem::take(&mut *lock(&self.io));
        for host in hosts {
            host.stop(&self.core, Reason::Inactive);
        }
    }

    /// Returns the state of a library; `None` if it is not deployed.
    pub(crate) fn state_of(&self, name: &str) -> Option<LibraryState> {
        self.core.libraries().get(name).map(|library| library.state)
    }

    pub(crate) fn variables_of(&self, name: &str) -> usize {
        let library = self.core.libraries().get(name);
        library.map_or(0, |library| library.handles.len())
    }

    /// Returns the current failure of the store, if any.
    pub(crate) fn store_error(&self) -> Option<StoreError> {
        let retention_error = self.retention.as_ref()?.error();
        let error = retention_error.or_else(|| self.audit.error());
        let error = error.or_else(|| self.alarms.error());
        // Skips a store that is in use now: the step that uses it detects the same failure.
        let location_error = |store: &SharedStore| store.try_lock().ok()?.check_place().err();
        error.or_else(|| location_error(self.store.as_ref()?))
    }

    /// Describes, in one sentence, contents of the store that are damaged and therefore not used.
    pub(crate) fn damage_sentence(&self) -> Option<String> {
        let mut store = lock(self.store.as_ref()?);
        let damage = store.damage();
        (!damage.is_empty()).then(|| damage_sentence(&store.location(), &damage))
    }

    /// Returns the condition of the store, and its failure or damage as a sentence.
    pub(crate) fn store_figures(&self) -> StoreFigures {
        let Some(store) = &self.store else {
            return StoreFigures::default();
        };
        let failure = self.store_error();
        let mut store = store.try_lock().ok();
        let disk = store.as_mut().and_then(|store| store.disk_space());
        let with = |condition, error| StoreFigures {
            condition,
            error,
            disk,
        };
        if let Some(error) = failure {
            return with(StoreCondition::Failing, error.to_string());
        }
        let Some(mut store) = store else {
            return with(StoreCondition::Good, String::new());
        };
        match store.damage() {
            damage if damage.is_empty() => with(StoreCondition::Good, String::new()),
            damage => {
                let sentence = damage_sentence(&store.location(), &damage);
                with(StoreCondition::Damaged, sentence)
            }
        }
    }

    /// Sets what an order to stop the engine calls. Only the first call has an effect.
    pub(crate) fn set_stop_handler(&self, handler: Box<dyn Fn() + Send + Sync>) {
        let _already = self.stop_handler.set(handler);
    }

    pub(crate) fn stop_handler(&self) -> Option<&(dyn Fn() + Send + Sync)> {
        Some(&**self.stop_handler.get()?)
    }

    pub(crate) fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    pub(crate) fn audit(&self) -> &AuditLog {
        &self.audit
    }

    pub(crate) fn alarms(&self) -> &AlarmLog {
        &self.alarms
    }

    pub(crate) fn history(&self) -> Option<&HistoryHost> {
        self.history.as_ref()
    }

    /// Stores changed values, audit notes, and changes of alarms.
    pub(crate) fn flush(&self) {
        self.audit.flush();
        self.alarms.flush();
        if let Some(retention) = &self.retention {
            retention.flush();
        }
        if let Some(history) = &self.history {
            history.flush();
        }
    }
}

/// Returns a lookup in values of variables, by full name.
fn retained_in(
    values: &HashMap<String, RetainedValue>,
) -> impl Fn(&Name, &Properties) -> Option<Retained> {
    |name, properties| {
        let value = values
            .get(name.as_str())
            .filter(|value| properties.retain && value.data_type == properties.data_type)?;
        Some(Retained {
            value: value.value.clone(),
            source_timestamp: value.source_timestamp,
        })
    }
}

/// Replaces the error of a full disk with an empty result. The engine then starts without the
/// contents of its store, and reports the error.
fn or_empty_if_full<T: Default>(result: Result<T, StoreError>) -> Result<T, StoreError> {
    match result {
        Err(error) if error.kind == StoreErrorKind::Full => Ok(T::default()),
        result => result,
    }
}

fn damage_sentence(location: &str, damage: &[Damage]) -> String {
    const NAMED_MAX: usize = 5;
    let mut names: Vec<String> = damage.iter().map(ToString::to_string).collect();
    if names.len() > NAMED_MAX {
        names.truncate(NAMED_MAX - 1);
        names.push(format!("{} more", damage.len() - names.len()));
    }
    format!(
        "part of the store {location} is damaged; the damaged entries are not used and are in its \
         table `damaged`: {}; deploy or write them again, and check the disk",
        names.join(", ")
    )
}

/// Stores pending changes, even if the engine was dropped without being stopped.
impl Drop for Deployments {
    fn drop(&mut self) {
        self.audit.note_stop();
        self.flush();
        if let Some(history) = &self.history {
            history.close();
        }
    }
}

fn check_name(library: &str) -> Result<(), LibraryError> {
    match is_reserved(library) {
        false => Ok(()),
        true => Err(LibraryError::Reserved {
            library: library.to_owned(),
        }),
    }
}

/// Returns the item that a source names, if the source belongs to this I/O server.
pub(crate) fn item_of<'s>(source: &'s str, server: &str) -> Option<&'s str> {
    source.strip_prefix(server)?.strip_prefix(':')
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
