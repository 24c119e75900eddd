//! Where processes run: comparisons are made with the same placement only.

use std::thread::available_parallelism;

use rustix::thread::{CpuSet, sched_setaffinity, set_name};

use crate::Outcome;

/// Which end of a scenario a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that asks, writes or measures.
    Near,
    /// The one that answers or takes.
    Far,
}

/// The name of the placement used: one process per CPU, its threads included.
pub const PLACEMENT: &str = "cross";

/// Puts this process, and the threads it starts from now on, on its end's CPU. With one CPU only,
/// both ends share it, and the row says so.
///
/// # Errors
/// The system refuses.
pub fn pin(end: End) -> Outcome<&'static str> {
    let cpus = available_parallelism()?.get();
    let mut set = CpuSet::new();
    set.set(match end {
        End::Near => 0,
        End::Far => usize::from(cpus > 1),
    });
    sched_setaffinity(None, &set)?;
    // For profilers, which name threads.
    set_name(match end {
        End::Near => c"near",
        End::Far => c"far",
    })?;
    Ok(if cpus > 1 { PLACEMENT } else { "same" })
}
