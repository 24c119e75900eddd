//! The items of one request, and their results, which arrive in pages.

use trunkline_proto::Fault;

use super::VariableRef;

/// The variables of a request, and the results so far.
#[derive(Debug)]
pub(crate) struct Page<T> {
    pub(crate) variables: Vec<VariableRef>,
    pub(crate) results: Vec<Option<Result<T, Fault>>>,
    /// The items sent: index within the request, and the handle if one is sent.
    pub(crate) asked: Vec<(u32, u32)>,
}

impl<T> Page<T> {
    pub(crate) fn of(variables: &[VariableRef]) -> Self {
        Self::new(variables.to_vec())
    }

    pub(crate) fn new(variables: Vec<VariableRef>) -> Self {
        let results = variables.iter().map(|_| None).collect();
        Self {
            variables,
            results,
            asked: Vec::new(),
        }
    }

    /// Selects the items to send: those for which `ask` returns a handle. Other items get their
    /// faults. Returns the number of items to send.
    pub(crate) fn ask(&mut self, mut ask: impl FnMut(VariableRef) -> Result<u32, Fault>) -> u32 {
        self.asked.clear();
        self.asked.reserve_exact(self.variables.len());
        let items = self.variables.iter().zip(&mut self.results).zip(0..);
        for ((variable, result), item) in items {
            *result = match ask(*variable) {
                Ok(handle) => {
                    self.asked.push((item, handle));
                    None
                }
                Err(fault) => Some(Err(fault)),
            };
        }
        self.asked.len() as u32
    }

    /// Returns the index within the request, and the variable, of the item with this index among
    /// the sent items.
    pub(crate) fn asked(&self, index: u32) -> Option<(u32, VariableRef)> {
        let (item, _) = *self.asked.get(index as usize)?;
        Some((item, *self.variables.get(item as usize)?))
    }

    pub(crate) fn set(&mut self, item: u32, result: Result<T, Fault>) {
        if let Some(place) = self.results.get_mut(item as usize) {
            *place = Some(result);
        }
    }

    pub(crate) fn answer(&mut self, index: u32, result: Result<T, Fault>) {
        if let Some((item, _)) = self.asked(index) {
            self.set(item, result);
        }
    }

    /// Returns the results; items without one get the fault `missing`.
    pub(crate) fn finish(self, missing: &Fault) -> Vec<Result<T, Fault>> {
        self.results
            .into_iter()
            .map(|r| r.unwrap_or_else(|| Err(missing.clone())))
            .collect()
    }
}
