//! What is deployed, what is stored and which I/O server delivers what, kept in step.
//!
//! One order at a time: it is checked against the engine, then stored, then carried out. Cut off in
//! between, the next start finds it stored and carries it out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trunkline_engine::store::{
    Damage, RetainedValue, Store, StoreError, StoreTrouble, StoredLibrary,
};
use trunkline_engine::{
    DeployError, Deployed, Engine as Core, LibraryState, Retained, UnknownLibrary, Wakes,
};
use trunkline_io::IoServer;
use trunkline_net::Clock;
use trunkline_types::name::is_reserved;
use trunkline_types::{LibraryDefinition, Name, Properties, Reason};

use crate::audit::{AuditLog, Keep};
use crate::engine::StartError;
use crate::io_host::IoHost;
use crate::retention::Retention;

/// A store that orders and the retention of values share.
pub(crate) type SharedStore = Arc<Mutex<Box<dyn Store>>>;

/// Why an order about a library was not carried out; nothing was changed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The library is malformed, or deployed already.
    #[error("{0}")]
    Deploy(#[from] DeployError),
    /// There is no such library.
    #[error("{0}")]
    Unknown(#[from] UnknownLibrary),
    /// Somebody is subscribed to its variables.
    #[error(
        "library {library} is in use by {subscriptions} subscription{}; end them, or undeploy it \
         with force", if *.subscriptions == 1 { "" } else { "s" }
    )]
    InUse {
        /// Its name.
        library: String,
        /// Subscriptions to its variables.
        subscriptions: usize,
    },
    /// The name is for the engine's own.
    #[error(
        "{library} begins with `_`, which is for the engine's own libraries; give it another name"
    )]
    Reserved {
        /// Its name.
        library: String,
    },
    /// It could not be stored.
    #[error("{0}; nothing was changed")]
    Store(#[from] StoreError),
}

/// Everything that changes what an engine hosts goes through it.
pub(crate) struct Keeper {
    core: Core,
    clock: Clock,
    /// Held by whoever carries out an order.
    order: Mutex<()>,
    store: Option<SharedStore>,
    retention: Option<Retention>,
    audit: AuditLog,
    io: Mutex<Vec<IoHost>>,
}

impl Keeper {
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn new(
        core: &Core,
        clock: Clock,
        store: Option<Box<dyn Store>>,
        audit: Keep,
    ) -> std::io::Result<Self> {
        let store = store.map(|store| Arc::new(Mutex::new(store)));
        let retention = match &store {
            Some(store) => Some(Retention::start(core, clock, Arc::clone(store))?),
            None => None,
        };
        let audited = store.as_ref().map(|store| (Arc::clone(store), audit));
        let audit = AuditLog::start(core, clock, audited)?;
        audit.note_start();
        Ok(Self {
            core: core.clone(),
            clock,
            order: Mutex::new(()),
            store,
            retention,
            audit,
            io: Mutex::new(Vec::new()),
        })
    }

    /// Deploys a library. With `stored` it is deployed again at the next start.
    pub(crate) fn deploy(
        &self,
        library: &LibraryDefinition,
        replace: bool,
        stored: bool,
    ) -> Result<Deployed, LibraryError> {
        let _order = lock(&self.order);
        check_name(&library.name)?;
        self.core.check_deploy(library, replace)?;
        let known = self.retained(&library.name)?;
        if stored && let Some(store) = &self.store {
            let before = self.core.library(&library.name);
            lock(store).save_library(&StoredLibrary {
                definition: library.clone(),
                state: before.map_or(LibraryState::Running, |before| before.state),
            })?;
        }
        self.deploy_now(library, replace, &known)
    }

    /// Deploys what was stored, unless a library of the same name is deployed already. Returns the
    /// names of those that are.
    pub(crate) fn deploy_stored(&self) -> Result<Vec<String>, LibraryError> {
        let _order = lock(&self.order);
        let Some(store) = &self.store else {
            return Ok(Vec::new());
        };
        let stored = unless_full(lock(store).libraries())?;
        let mut shadowed = Vec::new();
        for StoredLibrary { definition, state } in stored {
            if self.core.library(&definition.name).is_some() {
                shadowed.push(definition.name);
                continue;
            }
            let known = self.retained(&definition.name)?;
            self.deploy_now(&definition, false, &known)?;
            if state == LibraryState::Stopped {
                let (now, wall) = self.clock.moment();
                self.core
                    .stop_library(&definition.name, now, wall, &mut Wakes::new())?;
            }
        }
        Ok(shadowed)
    }

    fn retained(&self, library: &str) -> Result<HashMap<String, RetainedValue>, StoreError> {
        let Some(store) = &self.store else {
            return Ok(HashMap::new());
        };
        let values = unless_full(lock(store).retained(library))?.into_iter();
        Ok(values.map(|value| (value.name.clone(), value)).collect())
    }

    fn deploy_now(
        &self,
        library: &LibraryDefinition,
        replace: bool,
        known: &HashMap<String, RetainedValue>,
    ) -> Result<Deployed, LibraryError> {
        let (now, wall) = self.clock.moment();
        let mut wakes = Wakes::new();
        let retained = |name: &Name, properties: &Properties| {
            let value = known
                .get(name.as_str())
                .filter(|value| properties.retain && value.data_type == properties.data_type)?;
            Some(Retained {
                value: value.value.clone(),
                source_timestamp: value.source_timestamp,
            })
        };
        let core = &self.core;
        let deployed = core.deploy_retained(library, replace, &retained, now, wall, &mut wakes)?;
        drop(wakes);
        if let Some(retention) = &self.retention {
            retention.follow(core, &deployed.handles);
        }
        Ok(deployed)
    }

    /// Removes a library, here and in the store; `force`: whether somebody uses it or not.
    pub(crate) fn undeploy(&self, name: &str, force: bool) -> Result<usize, LibraryError> {
        let _order = lock(&self.order);
        check_name(name)?;
        let subscriptions = self.core.library_subscriptions(name)?;
        if subscriptions > 0 && !force {
            return Err(LibraryError::InUse {
                library: name.to_owned(),
                subscriptions,
            });
        }
        if let Some(store) = &self.store {
            lock(store).remove_library(name)?;
        }
        let (now, wall) = self.clock.moment();
        Ok(self.core.undeploy(name, now, wall, &mut Wakes::new())?)
    }

    /// Starts or stops a library. False when it was so already.
    pub(crate) fn set_state(&self, name: &str, state: LibraryState) -> Result<bool, LibraryError> {
        let _order = lock(&self.order);
        check_name(name)?;
        let core = &self.core;
        // A value of a stopped library is not retained any more.
        self.flush();
        if core.library_subscriptions(name).is_ok()
            && let Some(store) = &self.store
        {
            lock(store).set_state(name, state)?;
        }
        let (now, wall) = self.clock.moment();
        let mut wakes = Wakes::new();
        Ok(match state {
            LibraryState::Running => core.start_library(name, now, wall, &mut wakes)?,
            LibraryState::Stopped => core.stop_library(name, now, wall, &mut wakes)?,
        })
    }

    /// Has an I/O server deliver the variables whose `source` begins with its name, those that are
    /// deployed later included.
    ///
    /// # Errors
    /// A variable names an item that it does not have, or no thread is left.
    pub(crate) fn attach_io(
        &self,
        name: &str,
        server: Box<dyn IoServer>,
        period: Option<Duration>,
    ) -> Result<(), StartError> {
        let _order = lock(&self.order);
        for library in self.core.libraries() {
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

    /// Takes an I/O server out; its variables turn bad. False when there is none of that name.
    pub(crate) fn detach_io(&self, name: &str) -> bool {
        let host = {
            let mut io = lock(&self.io);
            let place = io.iter().position(|host| host.name() == name);
            place.map(|place| io.remove(place))
        };
        host.map(|host| host.stop(&self.core, Reason::ProviderGone))
            .is_some()
    }

    /// Stops every I/O server.
    pub(crate) fn stop_io(&self) {
        let hosts = std::mem::take(&mut *lock(&self.io));
        for host in hosts {
            host.stop(&self.core, Reason::Inactive);
        }
    }

    /// How a library is; `None` when it is not deployed.
    pub(crate) fn state_of(&self, name: &str) -> Option<LibraryState> {
        self.core.library(name).map(|library| library.state)
    }

    /// How many variables a library has.
    pub(crate) fn variables_of(&self, name: &str) -> usize {
        let library = self.core.library(name);
        library.map_or(0, |library| library.handles.len())
    }

    /// What is wrong with the store, if something is.
    pub(crate) fn store_trouble(&self) -> Option<StoreError> {
        let of_values = self.retention.as_ref()?.trouble();
        let trouble = of_values.or_else(|| self.audit.trouble());
        // While a step goes on nobody waits for its end: that step finds out as well.
        let is_free = |store: &SharedStore| store.try_lock().ok()?.check_place().err();
        trouble.or_else(|| is_free(self.store.as_ref()?))
    }

    /// What the store holds that is damaged and not used, in a sentence.
    pub(crate) fn damage_sentence(&self) -> Option<String> {
        let mut store = lock(self.store.as_ref()?);
        let damage = store.damage();
        (!damage.is_empty()).then(|| damage_sentence(&store.location(), &damage))
    }

    /// The state of the store in a word, and what is wrong with it.
    pub(crate) fn store_health(&self) -> (&'static str, String) {
        let Some(store) = &self.store else {
            return ("none", String::new());
        };
        if let Some(trouble) = self.store_trouble() {
            return ("failing", trouble.to_string());
        }
        let Ok(mut store) = store.try_lock() else {
            return ("good", String::new());
        };
        match store.damage() {
            damage if damage.is_empty() => ("good", String::new()),
            damage => ("damaged", damage_sentence(&store.location(), &damage)),
        }
    }

    /// Who did what.
    pub(crate) fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// Stores what has changed and what was noted since the last time.
    pub(crate) fn flush(&self) {
        self.audit.flush();
        if let Some(retention) = &self.retention {
            retention.flush();
        }
    }
}

/// On a full disk an engine starts without what its store would give: it serves, and says so.
fn unless_full<T: Default>(result: Result<T, StoreError>) -> Result<T, StoreError> {
    match result {
        Err(error) if error.trouble == StoreTrouble::Full => Ok(T::default()),
        result => result,
    }
}

/// What is damaged, in a sentence.
fn damage_sentence(location: &str, damage: &[Damage]) -> String {
    const NAMED_MAX: usize = 5;
    let mut names: Vec<String> = damage.iter().map(ToString::to_string).collect();
    if names.len() > NAMED_MAX {
        names.truncate(NAMED_MAX - 1);
        names.push(format!("{} more", damage.len() - names.len()));
    }
    format!(
        "the store {location} is damaged in part and uses the rest; not used, and kept in its \
         table `damaged`: {}; deploy or write them anew, and look at the disk",
        names.join(", ")
    )
}

/// What has changed since the last time is stored, also when nobody said that the engine stops.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.audit.note_stop();
        self.flush();
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

/// The item that a source names, if it is one of this I/O server.
fn item_of<'s>(source: &'s str, server: &str) -> Option<&'s str> {
    source.strip_prefix(server)?.strip_prefix(':')
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
