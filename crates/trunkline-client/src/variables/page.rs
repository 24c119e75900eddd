//! The variables of one request, and their results, which arrive in several frames.

use trunkline_proto::Fault;

use super::VariableRef;

/// The variables of a request, and the results that have arrived.
#[derive(Debug)]
pub(crate) struct Page<T> {
    pub(crate) variables: Vec<VariableRef>,
    pub(crate) results: Vec<Option<Result<T, Fault>>>,
    /// The items sent, each with its index in the request, and its handle if one is sent.
    pub(crate) sent: Vec<(u32, u32)>,
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
            sent: Vec::new(),
        }
    }

    /// Selects the items to send: those for which `ask` returns a handle. All other items get the
    /// fault that `ask` returns. Returns the number of items to send.
    pub(crate) fn ask(&mut self, mut ask: impl FnMut(VariableRef) -> Result<u32, Fault>) -> u32 {
        self.sent.clear();
        self.sent.reserve_exact(self.variables.len());
        let items = self.variables.iter().zip(&mut self.results).zip(0..);
        for ((variable, result), item) in items {
            *result = match ask(*variable) {
                Ok(handle) => {
                    self.sent.push((item, handle));
                    None
                }
                Err(fault) => Some(Err(fault)),
            };
        }
        self.sent.len() as u32
    }

    /// Returns the sent item with this index among the sent items: its index in the request, and
    /// its variable.
    pub(crate) fn sent(&self, index: u32) -> Option<(u32, VariableRef)> {
        let (item, _) = *self.sent.get(index as usize)?;
        Some((item, *self.variables.get(item as usize)?))
    }

    pub(crate) fn set(&mut self, item: u32, result: Result<T, Fault>) {
        if let Some(slot) = self.results.get_mut(item as usize) {
            *slot = Some(result);
        }
    }

    pub(crate) fn answer(&mut self, index: u32, result: Result<T, Fault>) {
        if let Some((item, _)) = self.sent(index) {
            self.set(item, result);
        }
    }

    /// Returns the results. Items without a result get the fault `missing`.
    pub(crate) fn finish(self, missing: &Fault) -> Vec<Result<T, Fault>> {
        self.results
            .into_iter()
            .map(|result| result.unwrap_or_else(|| Err(missing.clone())))
            .collect()
    }
}
