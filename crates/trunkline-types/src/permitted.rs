//! Restricts the answer to a query to the names that its author may see (B-82).

use std::fmt;
use std::sync::Arc;

/// The names that a reader may query. The default is every name.
#[derive(Clone, Default)]
pub struct PermittedNames(Option<Arc<dyn PermitName>>);

/// Decides which names a reader may query.
pub trait PermitName: Send + Sync {
    fn permits(&self, name: &str) -> bool;
}

impl PermittedNames {
    /// Creates a selection by a rule. Two selections are equal if they have the same rule.
    pub fn by(rule: Arc<dyn PermitName>) -> Self {
        Self(Some(rule))
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|rule| rule.permits(name))
    }
}

impl PartialEq for PermittedNames {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

impl fmt::Debug for PermittedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            None => "every name",
            Some(_) => "by rule",
        })
    }
}
