//! Options of an endpoint with several peers.

use crate::options::Options;

/// The treatment of readers that are slower than the writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// The writer waits for the slowest reader; no reader loses anything.
    #[default]
    Slowest,
    /// The writer waits for no reader. At most this many elements are kept for a reader; beyond
    /// that the reader loses the oldest, and its reads report how many are missing and where.
    ///
    /// A reader that is disconnected or has no room loses everything beyond this number. A reader
    /// behind a slow network loses elements only when the writer's buffer is full. A quota above
    /// the buffer's capacity acts like the capacity.
    Quota(u64),
}

/// Options of a writer with several readers.
///
/// The [`Options`] must not name a peer, because the readers dial, nor a journal.
/// [`gone_after`](Options::gone_after) limits how long a reader may be disconnected before the
/// others continue without it; with `None` the writer waits for it without limit.
#[derive(Clone, Debug)]
pub struct FanOutOptions {
    pub options: Options,
    /// Treatment of slow readers.
    pub policy: Policy,
    /// Number of readers that creation waits for. Each of them gets everything. 0: creation does
    /// not wait.
    pub readers_min: usize,
    /// Maximum number of readers at a time; each needs a thread.
    pub readers_max: usize,
}

/// Options of a reader with several writers.
///
/// The [`Options`] must not name a peer, because the writers dial, nor a journal. The capacity is
/// that of each writer's buffer.
#[derive(Clone, Debug)]
pub struct FanInOptions {
    pub options: Options,
    /// Number of writers that creation waits for. 0: creation does not wait.
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
