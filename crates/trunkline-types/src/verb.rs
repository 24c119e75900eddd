//! Defines the actions that a client can request.

use std::time::Duration;

/// The action that a client requests with a write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum WriteVerb {
    /// Sends the value to the variable's provider, and stores it in the cell once the provider has
    /// accepted it. Without a provider, stores it in the cell directly.
    #[default]
    Put,
    /// Stores the value in the cell only, without asking the provider (LM-04).
    Set,
    /// Sends the cell's value to the provider (LM-06). The write itself has no value.
    Send,
    /// Asks the provider for a fresh value (LM-05). The write itself has no value.
    Request,
    /// Holds the variable at the value, overriding the source and other writers, until it is
    /// unforced (H-27).
    Force,
    /// Lets the variable show its source's value again. The write itself has no value.
    Unforce,
}

impl WriteVerb {
    /// Returns true if the write has a value.
    pub const fn has_value(self) -> bool {
        match self {
            WriteVerb::Put | WriteVerb::Set | WriteVerb::Force => true,
            WriteVerb::Send | WriteVerb::Request | WriteVerb::Unforce => false,
        }
    }
}

/// The action on a lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LeaseVerb {
    /// Take the lease, or renew it if the session already holds it.
    Acquire,
    /// Renew a lease that the session holds.
    Renew,
    /// Release the lease.
    Release,
}

/// A lease that was granted, renewed or released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Duration of the lease from now: the requested duration, limited to the allowed range; zero after
    /// a release. Sent in milliseconds.
    pub duration: Duration,
    /// Sequence of the variable's newest update, from which the holder continues.
    pub sequence: u64,
}
