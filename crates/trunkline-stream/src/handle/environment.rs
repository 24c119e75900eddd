//! Provides the time and random numbers for endpoints.

use std::io;
#[cfg(feature = "sim")]
use std::sync::Arc;
use std::time::Duration;

use trunkline_net::Clock;
use trunkline_proto::EndSeed;
use trunkline_proto::message::stream::Incarnation;
use trunkline_proto::stream::{Secret, lineage};
use trunkline_types::Tick;

use crate::journal::Lineage;

/// The source of time and random numbers for an endpoint or a directory.
#[derive(Clone, Default)]
pub(crate) enum Environment {
    #[default]
    Real,
    #[cfg(feature = "sim")]
    Simulated(Arc<dyn SimulatedEnvironment>),
}

/// The source of time and random numbers in a simulation.
#[cfg(feature = "sim")]
pub(crate) trait SimulatedEnvironment: Send + Sync {
    fn now(&self) -> Tick;

    /// Returns 64 pseudorandom bits.
    fn bits(&self) -> u64;
}

impl Environment {
    pub(crate) fn now(&self) -> Tick {
        match self {
            Self::Real => Clock::new().now(),
            #[cfg(feature = "sim")]
            Self::Simulated(environment) => environment.now(),
        }
    }

    /// Returns the deadline of a wait that begins now; `None` if there is no timeout.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Option<Tick> {
        timeout.map(|timeout| self.now().saturating_add(timeout))
    }

    /// Returns 128 unpredictable bits.
    pub(crate) fn random(&self) -> io::Result<[u8; 16]> {
        match self {
            Self::Real => {
                let mut bytes = [0; 16];
                let flags = rustix::rand::GetRandomFlags::empty();
                // The system never returns fewer bytes for a request of this size.
                rustix::rand::getrandom(&mut bytes, flags)?;
                Ok(bytes)
            }
            #[cfg(feature = "sim")]
            Self::Simulated(environment) => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&environment.bits().to_le_bytes());
                bytes[8..].copy_from_slice(&environment.bits().to_le_bytes());
                Ok(bytes)
            }
        }
    }

    pub(crate) fn secret(&self) -> io::Result<Secret> {
        Ok(Secret(*self.end_seed()?))
    }

    /// Returns the seed of an endpoint's key.
    pub(crate) fn end_seed(&self) -> io::Result<EndSeed> {
        let mut bytes = EndSeed::default();
        let (first, rest) = bytes.split_at_mut(16);
        first.copy_from_slice(&self.random()?);
        rest.copy_from_slice(&self.random()?);
        Ok(bytes)
    }

    /// Returns an arbitrary number, which spreads events that would otherwise coincide.
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Self::Real => fastrand::u64(..),
            #[cfg(feature = "sim")]
            Self::Simulated(environment) => environment.bits(),
        }
    }

    /// Returns a random lineage, which differs from the lineage of every journal.
    pub(crate) fn new_lineage(&self) -> io::Result<Lineage> {
        Ok(lineage(Incarnation(self.random()?)))
    }
}
