//! Where processes run: comparisons are made with the same placement only.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_name};

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

/// Where both ends have to share the only CPU.
pub const SHARED: &str = "same";

/// Puts this thread, and what it starts from now on, on its end's CPU: the first one that the
/// system allows, or the second. With one CPU only, both ends share it, and the row says so.
pub fn pin(end: End) -> Outcome<&'static str> {
    // A far end is started by the near one and inherits its single CPU: ask for all of them first.
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
    // For profilers, which name threads.
    set_name(match end {
        End::Near => c"near",
        End::Far => c"far",
    })?;
    Ok(if far.is_some() { PLACEMENT } else { SHARED })
}

/// Lets this thread, and what it starts from now on, use every CPU: for a program that stands
/// between both ends.
pub fn unpin() -> Outcome<()> {
    let mut every = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| every.set(cpu));
    Ok(sched_setaffinity(None, &every)?)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Placement of an end, and the CPUs it may use.
    fn placed(end: End) -> (&'static str, Vec<usize>) {
        let placement = pin(end).unwrap();
        let allowed = sched_getaffinity(None).unwrap();
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        (placement, cpus.collect())
    }

    #[test]
    fn an_end_that_the_other_starts_gets_a_cpu_of_its_own() {
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
