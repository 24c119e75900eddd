//! What an endpoint takes from the machine that it is on: the time, and chance.

use std::io;
#[cfg(feature = "sim")]
use std::sync::Arc;
use std::time::Duration;

use trunkline_net::Clock;
use trunkline_proto::message::stream::Incarnation;
use trunkline_proto::stream::{Secret, lineage};
use trunkline_types::Tick;

use crate::journal::Lineage;

/// The machine that an endpoint, or a directory, is on.
#[derive(Clone, Default)]
pub(crate) enum Machine {
    /// This one.
    #[default]
    Real,
    /// One of a simulated world.
    #[cfg(feature = "sim")]
    Simulated(Arc<crate::sim::Process>),
}

impl Machine {
    pub(crate) fn now(&self) -> Tick {
        match self {
            Self::Real => Clock::new().now(),
            #[cfg(feature = "sim")]
            Self::Simulated(process) => process.now(),
        }
    }

    /// When a wait that begins now ends; `None`: never.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Option<Tick> {
        timeout.map(|timeout| self.now().saturating_add(timeout))
    }

    /// 128 bits that nobody can guess.
    ///
    /// # Errors
    /// The system gives none.
    pub(crate) fn random(&self) -> io::Result<[u8; 16]> {
        match self {
            Self::Real => {
                let mut bytes = [0; 16];
                let flags = rustix::rand::GetRandomFlags::empty();
                // So few bytes are never cut short.
                rustix::rand::getrandom(&mut bytes, flags)?;
                Ok(bytes)
            }
            #[cfg(feature = "sim")]
            Self::Simulated(process) => Ok(process.random()),
        }
    }

    /// A secret that nobody else has.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn secret(&self) -> io::Result<Secret> {
        let mut bytes = [0; 32];
        let (first, rest) = bytes.split_at_mut(16);
        first.copy_from_slice(&self.random()?);
        rest.copy_from_slice(&self.random()?);
        Ok(Secret(bytes))
    }

    /// Any number, to spread what would happen at once.
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Self::Real => fastrand::u64(..),
            #[cfg(feature = "sim")]
            Self::Simulated(process) => process.bits(),
        }
    }

    /// A lineage that no journal has.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new_lineage(&self) -> io::Result<Lineage> {
        Ok(lineage(Incarnation(self.random()?)))
    }
}
