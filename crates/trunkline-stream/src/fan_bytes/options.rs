//! Defines the options of endpoints with several peers.

use crate::options::Options;

/// The treatment of readers that are slower than the writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// The writer waits for the slowest reader; no reader loses anything.
    #[default]
    Slowest,
    /// The writer waits for no reader, and keeps at most this many elements for each reader. A reader
    /// that falls further behind loses the oldest elements. The reads of that reader report how many
    /// elements are missing and at which position.
    ///
    /// A reader that is disconnected or has no room loses all elements beyond this number. A reader
    /// behind a slow network loses elements only when the writer's buffer is full. A quota above the
    /// capacity of the buffer has the same effect as the capacity.
    Quota(u64),
}

/// Options of a writer with several readers.
///
/// The [`Options`] must not name a journal. They must not name a peer either, because the readers
/// dial. [`gone_after`](Options::gone_after) limits how long a reader may be disconnected before the
/// writer continues without that reader. With `None`, the writer waits without limit.
#[derive(Clone, Debug)]
pub struct FanOutOptions {
    pub options: Options,
    /// Treatment of slow readers.
    pub policy: Policy,
    /// Number of readers for which creation waits; 0 if creation does not wait. Each of these readers
    /// gets all elements.
    pub readers_min: usize,
    /// Maximum number of readers at a time; each needs a thread.
    pub readers_max: usize,
}

/// Options of a reader with several writers.
///
/// The [`Options`] must not name a journal. They must not name a peer either, because the writers
/// dial. Each writer has a buffer with the capacity in the options.
#[derive(Clone, Debug)]
pub struct FanInOptions {
    pub options: Options,
    /// Number of writers for which creation waits; 0 if creation does not wait.
    pub writers_min: usize,
    /// Maximum number of writers at a time; each needs a thread and a buffer.
    pub writers_max: usize,
}

/// Default for the maximum number of peers at a time.
const PEERS_MAX: usize = 64;

impl Default for FanOutOptions {
    fn default() -> Self {
        Self {
            options: Options::default(),
            policy: Policy::Slowest,
            readers_min: 1,
            readers_max: PEERS_MAX,
        }
    }
}

impl Default for FanInOptions {
    fn default() -> Self {
        Self {
            options: Options::default(),
            writers_min: 1,
            writers_max: PEERS_MAX,
        }
    }
}
