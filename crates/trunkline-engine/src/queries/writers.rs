//! Names the writers of variables. An update identifies its writer by a session number; operators
//! see the principal and origin of that session.

use std::collections::BTreeMap;

use crate::caller::Caller;
use crate::features::providers::ProviderTable;
use crate::sync::{Arc, Mutex};
use crate::variable::Variable;
use crate::write::View;

/// Maximum number of sessions remembered. Older sessions are shown only by their numbers.
const WRITERS_MAX: usize = 4096;

/// Names of the sessions that may have written, by number. A name is kept after the session's
/// connection has ended.
#[derive(Debug)]
pub struct WriterTable {
    names: Mutex<BTreeMap<u32, Arc<str>>>,
    providers: Arc<ProviderTable>,
}

pub type Writers<'e> = View<'e, WriterTable>;

impl WriterTable {
    pub(crate) fn new(providers: &Arc<ProviderTable>) -> Self {
        Self {
            names: Mutex::default(),
            providers: Arc::clone(providers),
        }
    }
}

impl Writers<'_> {
    /// Records the name of the caller's session.
    pub fn remember_name(&self, caller: &Caller) {
        let mut names = self.table.names.lock();
        names.insert(caller.session, Arc::from(caller.to_string()));
        if names.len() > WRITERS_MAX {
            names.pop_first();
        }
    }

    /// Returns the last writer of a variable as text; empty if the variable was never written. For
    /// a value from a device, it is the client whose value the device last accepted.
    pub fn last_writer(&self, variable: &Variable, reader: &Caller) -> String {
        let update = variable.update();
        let name = |session: u32| {
            let recorded = self.table.names.lock().get(&session).cloned();
            let name =
                recorded.map_or_else(|| format!("session {session}"), |name| name.to_string());
            match session == reader.session {
                true => format!("{name} (you)"),
                false => name,
            }
        };
        let provider = variable.provider_index();
        let provider = provider.map(|index| self.table.providers.get(index).0);
        match (update.sequence, update.writer, provider) {
            (0, ..) => String::new(),
            (_, 0, None) => "engine".to_owned(),
            (_, 0, Some(provider)) => match variable.lock().put_by() {
                Some(session) => format!("{} through I/O server {provider}", name(session)),
                None => format!("I/O server {provider}"),
            },
            (_, session, _) => name(session),
        }
    }
}
