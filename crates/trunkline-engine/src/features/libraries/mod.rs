//! Libraries: variables are deployed, started, stopped and undeployed as a unit (DP-01, DP-03,
//! DP-07, DP-16).
//!
//! One lock serializes these operations; writes never take it. The list of libraries has a separate
//! lock, because sessions read the list. That lock is never held while a whole library is
//! processed.

mod check;
mod deploy;
mod error;
mod lifetime;

pub use self::deploy::{Deployed, Deployment, Retained, RetainedValues};
pub use self::error::{DeployError, UnknownLibrary};
use crate::caller::Caller;
use crate::features::ages::AgeTable;
use crate::features::alarms::AlarmTable;
use crate::features::alias::AliasTable;
use crate::features::control::ControlTable;
use crate::features::fields::FieldTable;
use crate::features::forcing::ForcingTable;
use crate::features::leases::LeaseTable;
use crate::features::providers::ProviderTable;
use crate::features::realtime::Pump;
use crate::features::tables::TableList;
use crate::outcome::orders::LibraryState;
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::write::{SLICE, View};
use trunkline_types::Quality;
use trunkline_types::name::is_reserved;

#[derive(Clone, Debug, Default)]
pub struct Library {
    /// Name of the library: the first segment of its variables' names.
    pub name: String,
    pub description: String,
    pub state: LibraryState,
    pub handles: Vec<u32>,
    /// While stopped: the previous qualities of its variables, except good ones.
    before_stop: Vec<(u32, Quality)>,
}

pub type Libraries<'e> = View<'e, LibraryTable>;

/// The deployed libraries, and the features that are called when they change.
#[derive(Debug)]
pub struct LibraryTable {
    /// Held only for a lookup or a single step, never for a time that grows with the size of a
    /// library. Locked after [`EngineCore::changes`](crate::write::EngineCore).
    pub(crate) list: Mutex<Vec<Library>>,
    pub(crate) ages: Arc<AgeTable>,
    pub(crate) alarms: Arc<AlarmTable>,
    pub(crate) aliases: Arc<AliasTable>,
    pub(crate) control: Arc<ControlTable>,
    pub(crate) fields: Arc<FieldTable>,
    pub(crate) forcing: Arc<ForcingTable>,
    pub(crate) leases: Arc<LeaseTable>,
    pub(crate) providers: Arc<ProviderTable>,
    pub(crate) pump: Arc<Pump>,
    pub(crate) tables: Arc<TableList>,
}

impl Libraries<'_> {
    pub fn all(&self) -> Vec<Library> {
        self.table.list.lock().clone()
    }

    pub fn get(&self, name: &str) -> Option<Library> {
        let libraries = self.table.list.lock();
        let mut named = libraries.iter().filter(|library| library.name == name);
        named.next().cloned()
    }

    /// Returns the names of the deployed libraries.
    pub fn names(&self) -> Vec<String> {
        let libraries = self.table.list.lock();
        libraries.iter().map(|one| one.name.clone()).collect()
    }

    /// Counts the variables that `caller` may read among the next [`SLICE`] variables of a library,
    /// beginning with number `from`. Returns the count, and the number at which to continue; `None`
    /// at the end of the library, or if it is no longer deployed.
    pub fn count_readable(
        &self,
        caller: &Caller,
        library: &str,
        from: usize,
    ) -> (usize, Option<usize>) {
        let libraries = self.table.list.lock();
        let named = libraries.iter().find(|one| one.name == library);
        let rest = named.and_then(|one| one.handles.get(from..));
        let rest = rest.unwrap_or_default();
        let handles: Vec<u32> = rest.iter().take(SLICE).copied().collect();
        let has_more = rest.len() > handles.len();
        drop(libraries);
        let visible = handles
            .iter()
            .filter_map(|handle| self.core.visible(caller, *handle));
        (
            visible.count(),
            has_more.then(|| from.saturating_add(handles.len())),
        )
    }

    /// Returns the state and the description of a library; `None` if it is not deployed.
    pub fn describe(&self, library: &str) -> Option<(LibraryState, String)> {
        let libraries = self.table.list.lock();
        let named = libraries.iter().find(|one| one.name == library)?;
        Some((named.state, named.description.clone()))
    }

    /// Returns the number of deployed variables, except those of the engine's own libraries.
    pub fn variable_count(&self) -> usize {
        let libraries = self.table.list.lock();
        let counted = libraries
            .iter()
            .filter(|library| !is_reserved(&library.name));
        counted.map(|library| library.handles.len()).sum()
    }
}

fn index_of(libraries: &MutexGuard<'_, Vec<Library>>, name: &str) -> Result<usize, UnknownLibrary> {
    let place = libraries.iter().position(|library| library.name == name);
    place.ok_or_else(|| UnknownLibrary {
        name: name.to_owned(),
    })
}
