//! The engine: the variables of one process, with all features.

pub mod alarms;

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use trunkline_types::{Moment, Tick, Timestamp};

use crate::delivery::outbox::Wakes;
use crate::features::ages::{AgeTable, Ages};
use crate::features::alarms::{AlarmTable, Alarms};
use crate::features::alias::{AliasHook, AliasTable};
use crate::features::audit::{Audit, AuditLog};
use crate::features::control::{Control, ControlTable};
use crate::features::fields::{FieldTable, Fields};
use crate::features::forcing::{Forcing, ForcingTable};
use crate::features::groups::{GroupTable, Groups};
use crate::features::leases::{LeaseTable, Leases};
use crate::features::libraries::{Libraries, LibraryTable};
use crate::features::providers::{PROVIDER_TIMEOUT_DEFAULT, ProviderTable, Providers};
use crate::features::realtime::{Pump, Realtime};
use crate::features::tables::{TableList, Tables};
use crate::queries::health::Health;
use crate::queries::writers::{WriterTable, Writers};
use crate::queries::{Queries, QueryTable};
use crate::subscriptions::Subscriptions;
use crate::sync::{Arc, Mutex};
pub use crate::write::engine_core::{SLICE, SUGGEST_MAX};
use crate::write::{EngineCore, Hook, View};

#[derive(Clone, Debug)]
pub struct EngineOptions {
    pub name: String,
    /// The epoch, which differs at every start of the engine; see `Start::epoch` in `store`.
    pub epoch: u64,
    pub provider_timeout: Duration,
    /// Maximum number of bytes queued for all subscribers together. Each update counts as the
    /// length of its value plus 64 bytes. With `usize::MAX`, queues are unlimited and not counted.
    pub queue_bytes_max: usize,
}

impl EngineOptions {
    /// Creates options for an engine named `name` in epoch `epoch`, with default limits.
    pub fn new(name: impl Into<String>, epoch: u64) -> Self {
        Self {
            name: name.into(),
            epoch,
            provider_timeout: PROVIDER_TIMEOUT_DEFAULT,
            queue_bytes_max: usize::MAX,
        }
    }
}

/// The variables of one process. Clones refer to the same engine.
///
/// The engine starts no thread, reads no clock and never blocks: `now` and `wall` are arguments,
/// and [`Engine::poll`] performs the tasks that are due. Operations other than naming and writing
/// variables belong to its features, such as [`Engine::leases`].
#[derive(Clone)]
pub struct Engine {
    core: Arc<EngineCore>,
    features: Arc<Features>,
}

struct Features {
    subscriptions: Arc<Subscriptions>,
    ages: Arc<AgeTable>,
    alarms: Arc<AlarmTable>,
    audit: Arc<AuditLog>,
    control: Arc<ControlTable>,
    fields: Arc<FieldTable>,
    forcing: Arc<ForcingTable>,
    groups: Arc<GroupTable>,
    leases: Arc<LeaseTable>,
    libraries: Arc<LibraryTable>,
    providers: Arc<ProviderTable>,
    queries: Arc<QueryTable>,
    realtime: Arc<Pump>,
    tables: Arc<TableList>,
    writers: Arc<WriterTable>,
}

impl Engine {
    pub fn new(options: EngineOptions) -> Self {
        let EngineOptions {
            name,
            epoch,
            provider_timeout,
            queue_bytes_max,
        } = options;
        let ages: Arc<AgeTable> = Arc::default();
        let alarms: Arc<AlarmTable> = Arc::default();
        let aliases: Arc<AliasTable> = Arc::default();
        let audit: Arc<AuditLog> = Arc::default();
        let leases = Arc::new(LeaseTable::new(&audit));
        let control = Arc::new(ControlTable::new(&audit, &leases));
        let tables: Arc<TableList> = Arc::default();
        let fields = Arc::new(FieldTable::new(&tables));
        let providers = Arc::new(ProviderTable::new(provider_timeout));
        let forcing = Arc::new(ForcingTable::new(&audit, &providers));
        // A write calls the features' hooks in this order.
        let hooks: Vec<Box<dyn Hook>> = vec![
            Box::new(Arc::clone(&audit)),
            Box::new(AliasHook),
            Box::new(Arc::clone(&forcing)),
            Box::new(Arc::clone(&providers)),
            Box::new(Arc::clone(&fields)),
        ];
        let core = Arc::new(EngineCore::new(name, epoch, queue_bytes_max, hooks));
        let subscriptions = Arc::new(Subscriptions::new(&core));
        let writers = Arc::new(WriterTable::new(&providers));
        let pump = Arc::new(Pump::new());
        let libraries = Arc::new(LibraryTable {
            list: Mutex::new(Vec::new()),
            ages: Arc::clone(&ages),
            alarms: Arc::clone(&alarms),
            aliases,
            control: Arc::clone(&control),
            fields: Arc::clone(&fields),
            forcing: Arc::clone(&forcing),
            leases: Arc::clone(&leases),
            providers: Arc::clone(&providers),
            pump: Arc::clone(&pump),
            tables: Arc::clone(&tables),
        });
        let queries = Arc::new(QueryTable {
            audit: Arc::clone(&audit),
            control: Arc::clone(&control),
            leases: Arc::clone(&leases),
            libraries: Arc::clone(&libraries),
            providers: Arc::clone(&providers),
            subscriptions: Arc::clone(&subscriptions),
            writers: Arc::clone(&writers),
        });
        let groups = Arc::new(GroupTable::new(&audit));
        let features = Features {
            subscriptions,
            ages,
            alarms,
            audit,
            control,
            fields,
            forcing,
            groups,
            leases,
            libraries,
            providers,
            queries,
            realtime: pump,
            tables,
            writers,
        };
        Self {
            core,
            features: Arc::new(features),
        }
    }

    /// Returns true if both refer to the same engine.
    pub fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// Performs the tasks that are due, in slices: provider time-outs, values that have become too
    /// old, expired leases and control, expired state of lost sessions, and updates of the tables of last
    /// values. Returns the time of the next call.
    pub fn poll(&self, now: Tick, wall: Timestamp, wakes: &mut Wakes) -> Option<Tick> {
        let moment = Moment { now, wall };
        self.core.wall_clock.check(now, wall);
        let next_stale = self.ages().mark_stale(moment, SLICE, wakes);
        let next_answer = match self.providers().poll(moment, wakes) {
            Some(due) if due <= now => return Some(now),
            due => due,
        };
        if self.tables().advance(SLICE) {
            return Some(now);
        }
        let next_lease_end = self.leases().expire(moment, SLICE, wakes);
        let next_control = self.control().poll(moment, SLICE, wakes);
        let next_alarm = self.alarms().poll(moment, SLICE, wakes);
        let next_session_end = self.features.subscriptions.poll(now, SLICE, wakes);
        [
            next_stale,
            next_alarm,
            next_answer,
            next_control,
            next_lease_end,
            next_session_end,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn view<'e, T>(&'e self, table: &'e Arc<T>) -> View<'e, T> {
        View {
            core: &self.core,
            table,
        }
    }

    fn ages(&self) -> Ages<'_> {
        self.view(&self.features.ages)
    }

    pub fn alarms(&self) -> Alarms<'_> {
        self.view(&self.features.alarms)
    }

    pub fn audit(&self) -> Audit<'_> {
        self.view(&self.features.audit)
    }

    pub fn control(&self) -> Control<'_> {
        self.view(&self.features.control)
    }

    pub fn fields(&self) -> Fields<'_> {
        self.view(&self.features.fields)
    }

    pub fn forcing(&self) -> Forcing<'_> {
        self.view(&self.features.forcing)
    }

    pub fn groups(&self) -> Groups<'_> {
        self.view(&self.features.groups)
    }

    pub fn health(&self) -> Health<'_> {
        self.view(&self.features.subscriptions)
    }

    pub fn leases(&self) -> Leases<'_> {
        self.view(&self.features.leases)
    }

    pub fn libraries(&self) -> Libraries<'_> {
        self.view(&self.features.libraries)
    }

    pub fn providers(&self) -> Providers<'_> {
        self.view(&self.features.providers)
    }

    pub fn queries(&self) -> Queries<'_> {
        self.view(&self.features.queries)
    }

    pub fn realtime(&self) -> Realtime<'_> {
        self.view(&self.features.realtime)
    }

    pub fn tables(&self) -> Tables<'_> {
        self.view(&self.features.tables)
    }

    pub fn writers(&self) -> Writers<'_> {
        self.view(&self.features.writers)
    }
}

impl Deref for Engine {
    type Target = EngineCore;

    fn deref(&self) -> &EngineCore {
        &self.core
    }
}

/// Lets an engine be passed to [`Consumer::new`](crate::Consumer::new).
impl From<Engine> for Arc<Subscriptions> {
    fn from(engine: Engine) -> Self {
        Arc::clone(&engine.features.subscriptions)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}
