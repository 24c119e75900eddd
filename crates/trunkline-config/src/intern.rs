//! Interns properties, so that variables with equal properties share one allocation.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use trunkline_types::Properties;

/// Stores one copy of each distinct set of properties.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    hasher: RandomState,
    /// Properties by the hash of the fields that usually distinguish them.
    known: HashMap<u64, Vec<Arc<Properties>>>,
}

impl Interner {
    /// Returns the stored copy of these properties, and stores them if there is none.
    pub fn share(&mut self, properties: Properties) -> Arc<Properties> {
        let p = &properties;
        let hash =
            self.hasher
                .hash_one((&p.origin, &p.data_type, &p.source, &p.alias, &p.description));
        let known = self.known.entry(hash).or_default();
        if let Some(equal) = known.iter().find(|known| ***known == properties) {
            return Arc::clone(equal);
        }
        let shared = Arc::new(properties);
        known.push(Arc::clone(&shared));
        shared
    }
}
