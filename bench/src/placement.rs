//! Placement of processes. Only results with the same placement are compared.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_name};

use crate::Outcome;

/// End of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that asks, writes or measures.
    Near,
    /// The end that answers or takes.
    Far,
}

/// Placement: one CPU per process, including its threads.
pub const PLACEMENT: &str = "cross";

/// Placement: both ends share the only CPU.
pub const SHARED: &str = "same";

/// Pins this thread, and threads and processes that it starts, to the CPU of its end: the first or
/// the second one that the system allows. With only one CPU both ends share it; the placement
/// tells.
pub fn pin(end: End) -> Outcome<&'static str> {
    // A far end inherits the single CPU of the near end, which started it: allow all of them first.
    unpin()?;
    let allowed = sched_getaffinity(None)?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let near = cpus.next().ok_or("the system allows no CPU")?;
    let far = cpus.next();
    let mut set = CpuSet::new();
    set.set(match end {
        End::Near => near,
        End::Far => far.unwrap_or(near),
    });
    sched_setaffinity(None, &set)?;
    // Named for profilers.
    set_name(match end {
        End::Near => c"near",
        End::Far => c"far",
    })?;
    Ok(if far.is_some() { PLACEMENT } else { SHARED })
}

/// Lets this thread, and what it starts, use every CPU: for a server between both ends.
pub fn unpin() -> Outcome<()> {
    let mut every = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| every.set(cpu));
    Ok(sched_setaffinity(None, &every)?)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Returns the placement of an end, and the CPUs that it may use.
    fn placed(end: End) -> (&'static str, Vec<usize>) {
        let placement = pin(end).unwrap();
        let allowed = sched_getaffinity(None).unwrap();
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        (placement, cpus.collect())
    }

    #[test]
    fn started_peer_gets_a_separate_cpu() {
        let ends = thread::spawn(|| {
            let near = placed(End::Near);
            let far = thread::spawn(|| placed(End::Far)).join().unwrap();
            (near, far)
        });
        let (near, far) = ends.join().unwrap();
        assert_eq!(near.0, far.0);
        assert_eq!((near.1.len(), far.1.len()), (1, 1));
        assert_eq!(near.1 != far.1, near.0 == PLACEMENT);
    }
}
