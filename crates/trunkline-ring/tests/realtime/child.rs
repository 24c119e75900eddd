//! A child process whose one thread may make no system call but the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::counting::allocations;
use crate::operations::{Operation, Step};

/// Repetitions of an operation under the filter.
const REPEATS: u32 = 20_000;

const STATUS_CLEAN: i32 = 0;
const STATUS_REFUSED: i32 = 10;
const STATUS_ALLOCATED: i32 = 11;
const STATUS_PANICKED: i32 = 12;

/// How the system schedules the thread under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Normal,
    /// Before every thread that is not real-time.
    Fifo,
}

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// No system call and no allocation.
    Clean,
    /// As `Clean`, but not on the kind of thread asked for, which was refused.
    Refused,
    /// It allocated.
    Allocated,
    /// It made a system call.
    Killed,
    /// Neither of these; the status of `waitpid`.
    Other(i32),
}

/// Runs an operation many times in a child process, under the filter.
pub(crate) fn run_filtered(policy: Policy, operation: Operation) -> Ended {
    // SAFETY: the child runs nothing but `work`, which never returns to the test that it is a copy
    // of; the allocator of the system survives a fork of a process with threads.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let work = std::panic::AssertUnwindSafe(|| work(policy, operation));
            let status = std::panic::catch_unwind(work).unwrap_or(STATUS_PANICKED);
            // SAFETY: ends the process without running what the test process has at exit.
            unsafe { libc::_exit(status) }
        }
        child => ended(wait_for(child)),
    }
}

fn wait_for(child: libc::pid_t) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: `child` belongs to this process and is not reaped yet, and `status` is valid for
        // writes.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited == child {
            return status;
        }
        let error = std::io::Error::last_os_error();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::Interrupted,
            "waitpid: {error}"
        );
    }
}

fn ended(status: i32) -> Ended {
    if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS {
        return Ended::Killed;
    }
    match libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)) {
        Some(STATUS_CLEAN) => Ended::Clean,
        Some(STATUS_REFUSED) => Ended::Refused,
        Some(STATUS_ALLOCATED) => Ended::Allocated,
        _ => Ended::Other(status),
    }
}

/// The child: returns its exit status. From the filter on it can only return.
fn work(policy: Policy, operation: Operation) -> i32 {
    let Operation {
        mut real_time,
        other_side,
        ..
    } = operation;
    if let Some(step) = other_side {
        run_beside(step);
    }
    let clean = match policy {
        Policy::Fifo if !become_real_time() => STATUS_REFUSED,
        _ => STATUS_CLEAN,
    };
    let filter = only_exit();
    seccompiler::apply_filter(&filter).expect("this system has seccomp");
    let before = allocations();
    for _ in 0..REPEATS {
        real_time();
    }
    let is_clean = allocations() == before;
    // What would be dropped here must not be: freeing may be a system call.
    std::mem::forget((real_time, filter));
    if is_clean { clean } else { STATUS_ALLOCATED }
}

/// Starts a thread that repeats `step` until the process ends, and waits for its first one.
fn run_beside(mut step: Step) {
    let is_running = Arc::new(AtomicBool::new(false));
    let says_so = Arc::clone(&is_running);
    thread::spawn(move || {
        loop {
            step();
            says_so.store(true, Ordering::Release);
            thread::yield_now();
        }
    });
    while !is_running.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

/// Makes this thread a `SCHED_FIFO` one; false where the system refuses.
fn become_real_time() -> bool {
    // SAFETY: `parameters` is a valid set of them, all zero but the lowest real-time priority.
    unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = libc::sched_get_priority_min(libc::SCHED_FIFO);
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0
    }
}

/// A filter that kills the process at any system call of this thread but the end of the process.
fn only_exit() -> BpfProgram {
    let allowed = [(libc::SYS_exit_group, vec![])].into_iter().collect();
    let architecture = std::env::consts::ARCH
        .try_into()
        .expect("seccomp knows this machine");
    SeccompFilter::new(
        allowed,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        architecture,
    )
    .and_then(TryInto::try_into)
    .expect("the filter is well formed")
}
