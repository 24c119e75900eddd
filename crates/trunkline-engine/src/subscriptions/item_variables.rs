//! The variables of a consumer's items.
//!
//! An item keeps its variable alive, so that queued updates can be delivered after the variable is
//! gone, when its slot may belong to another variable. References are stored apart from the items,
//! of which there may be two million, because a reference is as long as everything else that a
//! delivery reads.

use crate::sync::Arc;
use crate::variable::Variable;

/// References in a chunk. A chunk is allocated as a whole.
const CHUNK: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct ItemVariables {
    chunks: Vec<Vec<Option<Arc<Variable>>>>,
    len: usize,
}

impl ItemVariables {
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Arc<Variable>> {
        let index = index as usize;
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)?.as_ref()
    }

    pub(crate) fn put(&mut self, index: u32, variable: &Arc<Variable>) {
        let index = index as usize;
        let (chunk, place) = (index / CHUNK, index % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        let Some(chunk) = self.chunks.get_mut(chunk) else {
            return;
        };
        if chunk.len() <= place {
            // A consumer with one item needs no full chunk; one with many has full chunks.
            match place {
                0 => {}
                _ => chunk.reserve_exact(CHUNK - chunk.len()),
            }
            chunk.resize_with(place + 1, || None);
        }
        if let Some(known) = chunk.get_mut(place) {
            self.len += usize::from(known.is_none());
            *known = Some(Arc::clone(variable));
        }
    }

    /// Removes a variable, and frees all memory if it was the last one.
    pub(crate) fn take(&mut self, index: u32) -> Option<Arc<Variable>> {
        let index = index as usize;
        let chunk = self.chunks.get_mut(index / CHUNK)?;
        let taken = chunk.get_mut(index % CHUNK)?.take()?;
        self.len -= 1;
        if self.len == 0 {
            self.chunks = Vec::new();
        }
        Some(taken)
    }
}
