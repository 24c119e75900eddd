//! Defines waveforms: equally spaced samples of one physical quantity.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{ElementType, Elements, Timestamp, Value};

/// A waveform value: `samples[i]` was taken at `t0 + i * dt`.
#[derive(Clone, PartialEq, Debug)]
pub struct Waveform {
    /// Time of the first sample.
    pub t0: Timestamp,
    /// Interval between samples in seconds (TDMS `wf_increment`); 0 if unknown.
    pub dt: f64,
    /// The samples in the order in which they were taken.
    pub samples: Elements,
    /// Named scalars that accompany the samples, such as the channel's unit.
    pub attributes: BTreeMap<Arc<str>, Value>,
}

impl Waveform {
    /// Creates a waveform without samples that starts at the Unix epoch, with unknown interval.
    pub fn empty(element: ElementType) -> Self {
        Self {
            t0: Timestamp::UNIX_EPOCH,
            dt: 0.0,
            samples: Elements::zeros(element, 0),
            attributes: BTreeMap::new(),
        }
    }
}
