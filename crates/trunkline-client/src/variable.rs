//! The variables that the client knows: by name over reconnects, by handle within a connection.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{Access, DataType, Name};

use crate::table::{Few, Key, NameMap, NumberMap, Slab};

/// A variable that was opened by name. Stays valid over reconnects, until it is closed as often as
/// it was opened; afterwards it is nobody's, also when the name is opened again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VariableRef(Key);

impl VariableRef {
    /// Of no variable.
    pub(crate) const NOBODY: VariableRef = VariableRef(Key::NOBODY);
}

/// All variables in use.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    slots: Slab<Variable>,
    by_name: NameMap<Key>,
    by_handle: NumberMap<u32, Key>,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: Arc<str>,
    /// Openings, items of subscriptions and unsent writes that need it.
    users: u32,
    /// Openings among them. Only these are closed at the engine.
    opened: u32,
    /// Its handle on this connection.
    pub(crate) handle: Option<u32>,
    /// Its type when it was last opened.
    pub(crate) data_type: Option<DataType>,
    pub(crate) access: Access,
    pub(crate) max_age: Option<Duration>,
    /// Why it has no handle.
    pub(crate) fault: Option<Box<Fault>>,
    /// Where it is subscribed: wire subscription and item.
    pub(crate) items: Few<(u32, u32)>,
}

impl Variables {
    /// So many names may be new.
    pub(crate) fn reserve(&mut self, names: usize) {
        self.slots.reserve(names);
        self.by_name.reserve(names);
    }

    /// So many handles will be.
    pub(crate) fn reserve_handles(&mut self, handles: usize) {
        self.by_handle.reserve(handles);
    }

    /// The variable of this name, with one more user.
    pub(crate) fn acquire(&mut self, name: &str) -> VariableRef {
        // In canonical form, so that two spellings of one variable are one here, as at the engine.
        // What is no name goes to the engine as it is, which says why.
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

    /// One more user.
    pub(crate) fn retain(&mut self, variable: VariableRef) {
        if let Some(variable) = self.slots.get_mut(variable.0) {
            variable.users += 1;
        }
    }

    /// One user less; with the last one it is forgotten.
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

    /// An opening succeeded: it is closed at the engine when the last opening is.
    pub(crate) fn count_opening(&mut self, variable: VariableRef) {
        if let Some(variable) = self.slots.get_mut(variable.0) {
            variable.opened += 1;
        }
    }

    /// Closes one opening. The handle, when it was the last and nothing else needs the variable.
    ///
    /// # Errors
    /// A fault when it is not open.
    pub(crate) fn close_opening(&mut self, variable: VariableRef) -> Result<Option<u32>, Fault> {
        let entry = match self.slots.get_mut(variable.0) {
            Some(entry) if entry.opened > 0 => entry,
            _ => return Err(not_open()),
        };
        entry.opened -= 1;
        let last = entry.users == 1;
        let handle = entry.handle.filter(|_| last);
        self.release(variable);
        Ok(handle)
    }

    pub(crate) fn get(&self, variable: VariableRef) -> Option<&Variable> {
        self.slots.get(variable.0)
    }

    pub(crate) fn get_mut(&mut self, variable: VariableRef) -> Option<&mut Variable> {
        self.slots.get_mut(variable.0)
    }

    /// The variable's handle on this connection, or why it has none.
    ///
    /// # Errors
    /// A fault for the item that needed it.
    pub(crate) fn handle(&self, variable: VariableRef) -> Result<u32, Fault> {
        let Some(entry) = self.get(variable) else {
            return Err(not_open());
        };
        match (entry.handle, &entry.fault) {
            (Some(handle), _) => Ok(handle),
            (None, Some(fault)) => Err((**fault).clone()),
            (None, None) => Err(not_open()),
        }
    }

    /// The engine has opened it.
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

    /// The engine could not open it, or it is gone.
    pub(crate) fn refused(&mut self, variable: VariableRef, fault: &Fault) {
        let Some(entry) = self.slots.get_mut(variable.0) else {
            return;
        };
        entry.fault = Some(Box::new(fault.clone()));
        let before = entry.handle.take();
        self.drop_handle(before, variable.0);
    }

    /// The variable with this handle on this connection.
    pub(crate) fn of_handle(&self, handle: u32) -> Option<VariableRef> {
        self.by_handle.get(&handle).map(|key| VariableRef(*key))
    }

    /// The connection is gone, and every handle with it.
    pub(crate) fn forget_handles(&mut self) {
        self.by_handle = NumberMap::default();
        for variable in self.slots.values_mut() {
            variable.handle = None;
        }
    }

    /// The variables that were opened or subscribed before, whose items are as `wanted`.
    pub(crate) fn known(&self, wanted: impl Fn(&[(u32, u32)]) -> bool) -> Vec<VariableRef> {
        let is_known = |variable: &Variable| {
            (variable.data_type.is_some() || !variable.items.is_empty())
                && wanted(variable.items.as_slice())
        };
        self.slots
            .iter()
            .filter_map(|(key, v)| is_known(v).then_some(VariableRef(key)))
            .collect()
    }

    /// Variables in use.
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

fn not_open() -> Fault {
    let sentence = "the variable is not open; open it by its name before it is used";
    Fault::new(FaultCode::UnknownHandle, sentence)
}
