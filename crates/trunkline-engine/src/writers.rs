//! Names of those who write: an update carries the number of a session, people are shown whose it
//! is.

use std::collections::BTreeMap;

use crate::caller::Caller;
use crate::engine::Engine;
use crate::sync::{Arc, Mutex};
use crate::variable::Variable;

/// Sessions that are remembered; beyond, the oldest is known by its number alone.
const WRITERS_MAX: usize = 4096;

/// The sessions that may have written, by number. They outlive their connections.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    names: Mutex<BTreeMap<u32, Arc<str>>>,
}

impl Engine {
    /// Remembers whose session this is.
    pub fn introduce(&self, caller: &Caller) {
        let mut names = self.writers().names.lock();
        names.insert(caller.session, Arc::from(caller.to_string()));
        if names.len() > WRITERS_MAX {
            names.pop_first();
        }
    }

    /// Who wrote a variable's value last, for people; empty where nothing was written. Of a
    /// device's values it is who had the device take one last.
    pub fn last_writer(&self, variable: &Variable, reader: &Caller) -> String {
        let update = variable.update();
        let name = |session: u32| {
            let known = self.writers().names.lock().get(&session).cloned();
            let name = known.map_or_else(|| format!("session {session}"), |name| name.to_string());
            match session == reader.session {
                true => format!("{name} (you)"),
                false => name,
            }
        };
        let provider = variable.provider_index();
        let provider = provider.map(|index| self.providers().get(index).0);
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
