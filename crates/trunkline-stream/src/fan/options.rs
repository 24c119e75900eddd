//! What an endpoint with several peers is created with.

use crate::options::Options;

/// What becomes of a reader that is slower than the writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// The writer waits for the slowest: nobody loses anything.
    #[default]
    Slowest,
    /// The writer waits for nobody. So many elements may wait for a reader; of more it loses the
    /// oldest, and its reads are told how many are missing and where.
    ///
    /// A reader that is away, or has no room, loses what is beyond this number; one that the
    /// network is too slow for not before the writer's buffer is full. More than the buffer holds
    /// is what the buffer holds.
    Quota(u64),
}

/// What a writing end with several readers is created with.
///
/// Of the [`Options`] it names no peer, as it is its readers that dial, and has no journal.
/// [`gone_after`](Options::gone_after) says how long a reader may be away before the others go on
/// without it; with `None` it is waited for, for ever.
#[derive(Clone, Debug)]
pub struct FanOutOptions {
    /// As of any endpoint.
    pub options: Options,
    /// What becomes of slow readers.
    pub policy: Policy,
    /// Creation waits for so many readers. Each of them gets everything. With 0 it waits for none.
    pub readers_min: usize,
    /// No more are let in at a time; each takes a thread.
    pub readers_max: usize,
}

/// What a reading end with several writers is created with.
///
/// Of the [`Options`] it names no peer, as it is its writers that dial, and has no journal. The
/// capacity is that of the buffer of each writer.
#[derive(Clone, Debug)]
pub struct FanInOptions {
    /// As of any endpoint.
    pub options: Options,
    /// Creation waits for so many writers. With 0 it waits for none.
    pub writers_min: usize,
    /// No more are let in at a time; each takes a thread and a buffer.
    pub writers_max: usize,
}

/// Peers at a time where nothing else is said.
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
