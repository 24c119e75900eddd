//! The table of deployed aliases, and the check of a library that adds aliases.

use std::collections::{BTreeMap, HashMap};

use trunkline_types::alias::{AliasFault, check_chains, mismatch, target_of};
use trunkline_types::{LibraryDefinition, Name, Properties};

use super::Aliases;
use crate::sync::Mutex;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) handle: u32,
    /// Name of its target, whether or not the target is deployed.
    pub(super) target: Name,
}

#[derive(Debug, Default)]
pub struct AliasTable {
    pub(super) table: Mutex<BTreeMap<Name, Entry>>,
}

impl Aliases<'_> {
    /// Checks the aliases of libraries that are deployed together, each with the names of its
    /// variables, against all deployed ones, while the libraries `removed` are removed. An error names
    /// the faulty alias.
    pub(crate) fn check(
        &self,
        libraries: &[(&LibraryDefinition, Vec<Name>)],
        removed: &[String],
    ) -> Result<(), (String, AliasFault)> {
        let definitions = || {
            libraries
                .iter()
                .flat_map(|(library, names)| names.iter().zip(&library.variables))
        };
        let mut new = Vec::new();
        for (name, definition) in definitions() {
            let refuse = |fault| refused(name, fault);
            if let Some(target) = target_of(&definition.properties).map_err(refuse)? {
                new.push((name, target, &definition.properties));
            }
        }
        if new.is_empty() {
            // Removing aliases makes no chain longer.
            return Ok(());
        }
        let is_replaced = |name: &str| {
            let mut replaced = libraries.iter().map(|(library, _)| &library.name);
            replaced.any(|library| library == name) || removed.iter().any(|one| one == name)
        };
        let table = self.table.table.lock();
        let others = table
            .iter()
            .filter(|(name, _)| !is_replaced(name.library()));
        let mut targets: HashMap<&str, &str> = others
            .map(|(name, entry)| (name.as_str(), entry.target.as_str()))
            .collect();
        targets.extend(
            new.iter()
                .map(|(name, target, _)| (name.as_str(), target.as_str())),
        );
        check_chains(&targets)?;
        drop(table);
        let own: HashMap<&str, &Properties> = definitions()
            .map(|(name, definition)| (name.as_str(), &*definition.properties))
            .collect();
        for (name, target, properties) in new {
            let target_name = target.as_str();
            let wrong =
                match own.get(target_name) {
                    Some(of_target) => mismatch(properties, target_name, of_target),
                    None if is_replaced(target.library()) => None,
                    None => self.core.variables.find(target_name).and_then(|variable| {
                        mismatch(properties, target_name, &variable.properties())
                    }),
                };
            if let Some(wrong) = wrong {
                let sentence = wrong.sentence;
                return Err(refused(name, AliasFault::Mismatch { sentence }));
            }
        }
        Ok(())
    }
}

fn refused(name: &Name, fault: AliasFault) -> (String, AliasFault) {
    (name.as_str().to_owned(), fault)
}
