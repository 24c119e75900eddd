//! The client's variables. A name identifies a variable across reconnections, and a handle
//! identifies it within a connection.

pub(crate) mod convert;
pub(crate) mod local;
pub(crate) mod page;
pub(crate) mod reading;
pub(crate) mod reading_buffer;

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{Access, DataType, Name};

use crate::table::{Few, Key, NameMap, NumberMap, Slab};

/// A variable that was opened by name. It stays valid across reconnections until it has been closed
/// as often as it was opened. After that it refers to no variable, even if the name is opened
/// again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VariableRef(Key);

impl VariableRef {
    pub(crate) const NOBODY: VariableRef = VariableRef(Key::NOBODY);
}

#[derive(Debug, Default)]
pub(crate) struct Variables {
    slots: Slab<Variable>,
    by_name: NameMap<Key>,
    by_handle: NumberMap<u32, Key>,
}

#[derive(Debug)]
/// A variable that the program uses.
pub(crate) struct Variable {
    pub(crate) name: Arc<str>,
    /// Number of openings, subscription items and unsent writes that use the variable.
    pub(crate) users: u32,
    /// Number of openings among `users`. Only openings are closed at the engine.
    opened: u32,
    pub(crate) handle: Option<u32>,
    /// The type when the variable was last opened.
    pub(crate) data_type: Option<DataType>,
    pub(crate) access: Access,
    pub(crate) max_age: Option<Duration>,
    pub(crate) fault: Option<Box<Fault>>,
    /// The items that subscribe to the variable, each with remote subscription and item index.
    pub(crate) items: Few<(u32, u32)>,
}

impl Variable {
    /// Returns the fault for an item whose variable has no handle.
    pub(crate) fn no_handle(&self) -> Fault {
        self.fault.as_deref().map_or_else(not_open, Fault::clone)
    }
}

impl Variables {
    pub(crate) fn reserve(&mut self, names: usize) {
        self.slots.reserve(names);
        self.by_name.reserve(names);
    }

    pub(crate) fn reserve_handles(&mut self, handles: usize) {
        self.by_handle.reserve(handles);
    }

    /// Returns the variable with this name, and counts one more user.
    pub(crate) fn acquire(&mut self, name: &str) -> VariableRef {
        // Both ends use the canonical form of a name, so that two spellings mean the same variable.
        // An invalid name is sent unchanged, and the engine answers with the reason why it is
        // invalid.
        let canonical = Name::canonical(name);
        let name = canonical.as_deref().unwrap_or(name);
        if let Some(key) = self.by_name.get(name) {
            if let Some(variable) = self.slots.get_mut(*key) {
                variable.users += 1;
            }
            return VariableRef(*key);
        }
        let name: Arc<str> = Arc::from(name);
        let key = self.slots.insert(Variable {
            name: Arc::clone(&name),
            users: 1,
            opened: 0,
            handle: None,
            data_type: None,
            access: Access::ReadWrite,
            max_age: None,
            fault: None,
            items: Few::None,
        });
        self.by_name.insert(name, key);
        VariableRef(key)
    }

    pub(crate) fn retain(&mut self, variable: VariableRef) {
        if let Some(variable) = self.slots.get_mut(variable.0) {
            variable.users += 1;
        }
    }

    /// Removes one user, and the variable with its last user.
    pub(crate) fn release(&mut self, variable: VariableRef) {
        let Some(entry) = self.slots.get_mut(variable.0) else {
            return;
        };
        entry.users = entry.users.saturating_sub(1);
        if entry.users > 0 {
            return;
        }
        let Some(entry) = self.slots.remove(variable.0) else {
            return;
        };
        self.by_name.remove(&entry.name);
        self.drop_handle(entry.handle, variable.0);
        if self.slots.len() == 0 {
            self.by_name = NameMap::default();
            self.by_handle = NumberMap::default();
        }
    }

    /// Counts a successful opening. Only the last close is sent to the engine.
    pub(crate) fn count_opening(&mut self, variable: VariableRef) {
        if let Some(variable) = self.slots.get_mut(variable.0) {
            variable.opened += 1;
        }
    }

    /// Closes one opening. Returns the handle if the variable must be closed at the engine, because
    /// it has no other user.
    ///
    /// # Errors
    /// A fault if the variable is not open.
    pub(crate) fn close_opening(&mut self, variable: VariableRef) -> Result<Option<u32>, Fault> {
        let entry = match self.slots.get_mut(variable.0) {
            Some(entry) if entry.opened > 0 => entry,
            _ => return Err(not_open()),
        };
        entry.opened -= 1;
        let is_last = entry.users == 1;
        let handle = entry.handle.filter(|_| is_last);
        self.release(variable);
        Ok(handle)
    }

    pub(crate) fn get(&self, variable: VariableRef) -> Option<&Variable> {
        self.slots.get(variable.0)
    }

    pub(crate) fn get_mut(&mut self, variable: VariableRef) -> Option<&mut Variable> {
        self.slots.get_mut(variable.0)
    }

    /// Returns the variable's handle on this connection.
    ///
    /// # Errors
    /// The fault for the item that needs the handle.
    pub(crate) fn handle(&self, variable: VariableRef) -> Result<u32, Fault> {
        let entry = self.get(variable).ok_or_else(not_open)?;
        entry.handle.ok_or_else(|| entry.no_handle())
    }

    pub(crate) fn opened(
        &mut self,
        variable: VariableRef,
        handle: u32,
        data_type: &DataType,
        access: Access,
    ) {
        let Some(entry) = self.slots.get_mut(variable.0) else {
            return;
        };
        let before = entry.handle.replace(handle);
        entry.access = access;
        entry.fault = None;
        if entry.data_type.as_ref() != Some(data_type) {
            entry.data_type = Some(data_type.clone());
        }
        if before != Some(handle) {
            self.drop_handle(before, variable.0);
            self.by_handle.insert(handle, variable.0);
        }
    }

    /// Records that the engine could not open the variable, or has removed it.
    pub(crate) fn refused(&mut self, variable: VariableRef, fault: &Fault) {
        let Some(entry) = self.slots.get_mut(variable.0) else {
            return;
        };
        entry.fault = Some(Box::new(fault.clone()));
        let before = entry.handle.take();
        self.drop_handle(before, variable.0);
    }

    pub(crate) fn of_handle(&self, handle: u32) -> Option<VariableRef> {
        self.by_handle.get(&handle).map(|key| VariableRef(*key))
    }

    pub(crate) fn forget_handles(&mut self) {
        self.by_handle = NumberMap::default();
        for variable in self.slots.values_mut() {
            variable.handle = None;
        }
    }

    /// Returns the variables that have been opened or subscribed, and whose items satisfy
    /// `matches`.
    pub(crate) fn opened_or_subscribed(
        &self,
        matches: impl Fn(&[(u32, u32)]) -> bool,
    ) -> Vec<VariableRef> {
        let is_match = |variable: &Variable| {
            (variable.data_type.is_some() || !variable.items.is_empty())
                && matches(variable.items.as_slice())
        };
        self.slots
            .iter()
            .filter_map(|(key, variable)| is_match(variable).then_some(VariableRef(key)))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    fn drop_handle(&mut self, handle: Option<u32>, key: Key) {
        if let Some(handle) = handle
            && self.by_handle.get(&handle) == Some(&key)
        {
            self.by_handle.remove(&handle);
        }
    }
}

pub(crate) fn not_open() -> Fault {
    let sentence = "the variable is not open; open it by its name before you use it";
    Fault::new(FaultCode::UnknownHandle, sentence)
}
