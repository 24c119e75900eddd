//! Generates random numbers with SplitMix64, the only source of randomness in the simulation.
//!
//! The generator is part of this crate, so that a seed gives the same sequence with every version of
//! every library.

use std::time::Duration;

/// The random numbers of one seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns an independent sequence for a component, so that the component does not affect others.
    pub fn fork(&mut self) -> Rng {
        Rng(self.bits())
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns an index into a sequence of this length.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        ((self.bits() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }

    /// Returns a number from `low` to `high`, with every order of magnitude equally likely.
    pub fn magnitude(&mut self, low: f64, high: f64) -> f64 {
        let unit = (self.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        low * (high / low).powf(unit)
    }

    /// Returns a duration from `low` to `high` ms.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.range(low * 1000, high * 1000))
    }

    /// Returns an exponentially distributed wait, at most ten times the mean.
    pub fn wait(&mut self, mean: Duration) -> Duration {
        let unit = ((self.bits() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        mean.mul_f64((-unit.ln()).clamp(0.001, 10.0))
    }
}

/// Mixes the bits of a number.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
