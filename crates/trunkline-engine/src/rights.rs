//! The rights of a caller, prepared for a check at each request.

use std::fmt;

use trunkline_access::{Action, Actions, Role, SubjectRules};
use trunkline_types::alarm::AlarmDefinition;
use trunkline_types::definition::{VARIABLES_MAX, slot_of};
use trunkline_types::history::{PermitName, PermittedNames};
use trunkline_types::name::HIDDEN_VARIABLE;
use trunkline_types::{Folder, Properties, StreamUrl};

use crate::sync::{Arc, AtomicU64, OnceLock, Ordering};

/// The actions that a caller may perform, on which variables.
#[derive(Clone)]
pub enum Rights {
    /// The same actions on every variable.
    Uniform(Actions),
    /// The rules decide for each name.
    ByName(Arc<RightsClass>),
}

/// The rules that apply to one subject, and what they permit on each variable. Sessions with the
/// same rules share a class.
pub struct RightsClass {
    rules: SubjectRules,
    /// The rules permit to read every variable.
    reads_all: bool,
    /// What the rules permit on the variable of each slot, in chunks that are allocated at their
    /// first use.
    chunks: Box<[OnceLock<Chunk>]>,
}

/// Returns the name of an I/O server in rules, such as `_io/plc`.
pub fn io_server(server: &str) -> String {
    format!("_io/{server}")
}

/// Returns the name in rules of the item that a variable has as its `source`: `_io/plc/d10` for the
/// source `plc:d10`.
pub fn io_item(source: &str) -> String {
    match source.split_once(':') {
        Some((server, item)) => format!("{}/{item}", io_server(server)),
        None => io_server(source),
    }
}

/// An entry has the handle of its variable in the upper half, so that an entry of an earlier
/// variable in the slot does not count, and the permitted actions in the lower. 0 is no entry,
/// because no handle is 0.
type Chunk = Box<[AtomicU64; CHUNK]>;

const CHUNK: usize = 1024;

impl Rights {
    /// Every action on every variable.
    pub const ALL: Rights = Rights::Uniform(Actions::ALL);
    /// The actions of a viewer: reads, subscriptions and the history of every variable.
    pub const READ: Rights = Rights::Uniform(Role::Viewer.actions());
    /// No action at all, before a peer has logged in.
    pub const NONE: Rights = Rights::Uniform(Actions::NONE);

    /// Prepares the rules of one subject.
    pub fn of(rules: SubjectRules) -> Self {
        match rules.uniform_actions() {
            // Actions on the engine as a whole need no right to read, so they can differ.
            Some(actions) if actions == rules.engine_actions() => Rights::Uniform(actions),
            Some(_) | None => Rights::ByName(Arc::new(RightsClass::new(rules))),
        }
    }

    /// Returns true if the caller may perform `action` on the variable with this handle and name.
    #[inline]
    pub(crate) fn permit(&self, action: Action, handle: u32, name: &str) -> bool {
        match self {
            Rights::Uniform(actions) => actions.contains(action),
            Rights::ByName(class) => class.actions_on(handle, name).contains(action),
        }
    }

    /// Returns true if the caller may perform `action` on the variables with this name, whether
    /// they exist or not.
    pub fn permit_name(&self, action: Action, name: &str) -> bool {
        match self {
            Rights::Uniform(actions) => actions.contains(action),
            Rights::ByName(class) => class.rules.actions(name).contains(action),
        }
    }

    /// Returns why the caller may, or may not, perform `action` on the variables with this name: the
    /// rule that decides, with its place. Returns `None` if no rule applies to the caller.
    pub fn reason(&self, action: Action, name: &str) -> Option<String> {
        match self {
            Rights::Uniform(_) => None,
            Rights::ByName(class) => Some(class.rules.decide(name, action).to_string()),
        }
    }

    /// Returns true if the caller may perform `action` on the stream with this URL, whether it exists
    /// or not.
    pub fn permit_stream(&self, action: Action, url: &StreamUrl) -> bool {
        match self {
            Rights::Uniform(actions) => actions.contains(action),
            Rights::ByName(class) => class.rules.stream_actions(url).contains(action),
        }
    }

    /// Returns true if the caller may perform `action` on a library.
    pub fn permit_library(&self, action: Action, library: &str) -> bool {
        match self {
            Rights::Uniform(actions) => actions.contains(action),
            Rights::ByName(class) => class.rules.library_actions(library).contains(action),
        }
    }

    /// Returns true if the caller may perform `action` on every variable of a folder, whether it
    /// exists or not.
    pub fn permit_folder(&self, action: Action, folder: &Folder) -> bool {
        match self {
            Rights::Uniform(actions) => actions.contains(action),
            Rights::ByName(class) => class.rules.folder_actions(folder).contains(action),
        }
    }

    /// Returns true if the caller may perform `action`, which concerns the engine as a whole.
    pub fn permit_on_engine(&self, action: Action) -> bool {
        match self {
            Rights::Uniform(actions) => actions.contains(action),
            Rights::ByName(class) => class.rules.engine_actions().contains(action),
        }
    }

    /// Returns true if the caller may take the items of an I/O server as the sources of variables, or
    /// provide them: `object` is [`io_server`] or [`io_item`].
    pub fn permit_io(&self, object: &str) -> bool {
        self.permit_name(Action::Configure, object)
    }

    /// Returns true if the caller may perform `action` on some name. A request for which this is
    /// false need not be looked at.
    pub fn permit_somewhere(&self, action: Action) -> bool {
        match self {
            Rights::Uniform(actions) => actions.contains(action),
            Rights::ByName(class) => class.rules.may_some(action),
        }
    }

    /// Returns true if the caller may perform `action` on every variable, stream and library,
    /// whether it exists or not.
    pub fn permit_everywhere(&self, action: Action) -> bool {
        match self {
            Rights::Uniform(actions) => actions.contains(action),
            Rights::ByName(class) => class.rules.may_all(action),
        }
    }

    /// Returns true if the caller may read every variable. For any other caller, answers must not
    /// depend on the variables that it may not read (B-82).
    pub fn permit_all_reads(&self) -> bool {
        match self {
            Rights::Uniform(actions) => actions.contains(Action::Read),
            Rights::ByName(class) => class.reads_all,
        }
    }

    /// Returns the name for an answer to the caller: the name itself, or [`HIDDEN_VARIABLE`] if the
    /// caller may not read that variable (B-82).
    pub fn shown<'n>(&self, name: &'n str) -> &'n str {
        match self.hides(name) {
            false => name,
            true => HIDDEN_VARIABLE,
        }
    }

    /// Returns true if an answer to the caller must not contain the name (B-82).
    pub fn hides(&self, name: &str) -> bool {
        !self.permit_all_reads() && !self.permit_name(Action::Read, name)
    }

    /// Returns the properties for an answer to the caller: without the names of variables that the
    /// caller may not read.
    pub fn shown_properties(&self, properties: &Arc<Properties>) -> Arc<Properties> {
        match properties.names().any(|name| self.hides(name)) {
            false => Arc::clone(properties),
            true => {
                let mut shown = Properties::clone(properties);
                self.hide(shown.names_mut());
                Arc::new(shown)
            }
        }
    }

    /// Returns the definition of an alarm for an answer to the caller, as
    /// [`shown_properties`](Self::shown_properties) does.
    pub fn shown_alarm(&self, alarm: &Arc<AlarmDefinition>) -> Arc<AlarmDefinition> {
        match alarm.names().any(|name| self.hides(name)) {
            false => Arc::clone(alarm),
            true => {
                let mut shown = AlarmDefinition::clone(alarm);
                self.hide(shown.names_mut());
                Arc::new(shown)
            }
        }
    }

    fn hide<'n>(&self, names: impl Iterator<Item = &'n mut String>) {
        for name in names.filter(|name| self.hides(name)) {
            HIDDEN_VARIABLE.clone_into(name);
        }
    }

    /// Returns the names whose history, and whose entries in the alarm journal, the caller may
    /// query.
    pub fn names_with_history(&self) -> PermittedNames {
        match self {
            Rights::Uniform(actions) if actions.contains(Action::History) => {
                PermittedNames::default()
            }
            Rights::Uniform(_) => PermittedNames::by(Arc::new(NoName)),
            // The same rule for every query of the class, so that equal queries are equal.
            Rights::ByName(class) => PermittedNames::by(class.clone()),
        }
    }

    /// Returns the names whose entries in the audit trail the caller may read, provided that it may
    /// read the audit trail at all. The names of variables and libraries are told apart by their
    /// slashes.
    pub fn names_in_audit(&self) -> PermittedNames {
        match self {
            Rights::Uniform(actions) if actions.contains(Action::Audit) => {
                PermittedNames::default()
            }
            Rights::Uniform(_) => PermittedNames::by(Arc::new(NoName)),
            Rights::ByName(class) => PermittedNames::by(Arc::new(AuditedNames(class.clone()))),
        }
    }
}

/// Permits no name.
struct NoName;

/// Permits the names of variables and libraries whose entries in the audit trail may be read.
struct AuditedNames(Arc<RightsClass>);

impl PermitName for NoName {
    fn permits(&self, _: &str) -> bool {
        false
    }
}

impl PermitName for RightsClass {
    fn permits(&self, name: &str) -> bool {
        let actions = self.rules.actions(name);
        actions.contains(Action::History)
    }
}

impl PermitName for AuditedNames {
    fn permits(&self, name: &str) -> bool {
        let Self(class) = self;
        let actions = match name.contains('/') {
            true => class.rules.actions(name),
            false => class.rules.library_actions(name),
        };
        actions.contains(Action::Audit)
    }
}

impl RightsClass {
    fn new(rules: SubjectRules) -> Self {
        let chunks = VARIABLES_MAX.div_ceil(CHUNK);
        Self {
            reads_all: rules.may_all(Action::Read),
            rules,
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
        }
    }

    #[inline]
    fn actions_on(&self, handle: u32, name: &str) -> Actions {
        let slot = slot_of(handle) as usize;
        let chunk = self.chunks.get(slot / CHUNK).and_then(|chunk| chunk.get());
        // Relaxed: an entry is complete in itself.
        let entry = chunk.map_or(0, |chunk| chunk[slot % CHUNK].load(Ordering::Relaxed));
        match entry >> 32 == u64::from(handle) {
            true => Actions::from_bits(entry as u16),
            false => self.decide(handle, name),
        }
    }

    /// Evaluates the rules and records the result.
    #[cold]
    fn decide(&self, handle: u32, name: &str) -> Actions {
        let actions = self.rules.actions(name);
        let slot = slot_of(handle) as usize;
        if let Some(chunk) = self.chunks.get(slot / CHUNK) {
            let new = || Box::new(std::array::from_fn(|_| AtomicU64::new(0)));
            let entry = u64::from(handle) << 32 | u64::from(actions.bits());
            chunk.get_or_init(new)[slot % CHUNK].store(entry, Ordering::Relaxed);
        }
        actions
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rights::Uniform(actions) => f.debug_tuple("Uniform").field(actions).finish(),
            Rights::ByName(class) => class.fmt(f),
        }
    }
}

impl fmt::Debug for RightsClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RightsClass")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
