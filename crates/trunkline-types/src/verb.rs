//! The actions that a client asks for.

use std::time::Duration;

/// The action that a client asks for with a write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum WriteVerb {
    /// Sends the value to the variable's provider, and stores it in the cell once the provider has
    /// accepted it. Without a provider, stores it in the cell directly.
    #[default]
    Put,
    /// Stores the value in the cell only, without asking the provider (LM-04).
    Set,
    /// Sends the cell's value to the provider (LM-06). The write has no value of its own.
    Send,
    /// Asks the provider for a fresh value (LM-05). The write has no value of its own.
    Request,
    /// Holds the variable at the value, overriding the source and other writers, until it is
    /// unforced (H-27).
    Force,
    /// Lets the variable show its source's value again. The write has no value of its own.
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
    /// Take the lease; renews one that the session already holds.
    Acquire,
    /// Renew a lease that the session holds.
    Renew,
    /// Give the lease back.
    Release,
}

/// A lease that was granted, renewed or given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Duration from now, as requested but within the limits; zero after the lease was given back.
    /// Sent in ms.
    pub duration: Duration,
    /// Sequence of the variable's newest update, from which the holder continues.
    pub sequence: u64,
}
