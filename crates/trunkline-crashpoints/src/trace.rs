//! Runs the child process, and stops it at every system call that changes or syncs a file.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::disk::Disk;
use crate::{CASE, FOLDER};

/// The state of the folder immediately before one system call.
#[derive(Debug)]
pub struct Point {
    pub disk: Disk,
    /// Number of steps that the child had completed.
    pub steps_done: usize,
}

/// The effect of a system call on the folder.
enum Effect {
    /// A file or a folder changes.
    Write,
    /// The file or folder of this descriptor is synced.
    Sync(u64),
    /// The child reports a completed step.
    StepDone,
    None,
}

/// Reports a completed step; called in the child.
pub fn report_step() {
    let mut out = std::io::stdout();
    out.write_all(b".").expect("the parent reads the pipe");
    out.flush().expect("the parent reads the pipe");
}

/// Runs in the child: waits until it is traced, does the work, and ends.
pub(crate) fn run_traced(work: impl FnOnce()) {
    ptrace::traceme().expect("tracing is permitted");
    raise(Signal::SIGSTOP).expect("a process may stop itself");
    work();
}

/// Runs the child in a new folder, and returns every point of its work; `None` if tracing is not permitted.
pub(crate) fn points(folder: &Path, case: &str) -> Option<Vec<Point>> {
    fs::create_dir(folder).expect("the disk has room");
    let program = env::current_exe().expect("the running program has a path");
    #[expect(
        clippy::zombie_processes,
        reason = "waitpid is called with its process id"
    )]
    let child = Command::new(program)
        .env(FOLDER, folder)
        .env(CASE, case)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let pid = Pid::from_raw(child.id() as i32);
    if !matches!(
        waitpid(pid, None),
        Ok(WaitStatus::Stopped(_, Signal::SIGSTOP))
    ) {
        return None;
    }
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(pid, options).ok()?;
    let mut tracer = Tracer {
        pid,
        folder: fs::canonicalize(folder).expect("the folder exists"),
        disk: Disk::default(),
        steps_done: 0,
        points: Vec::new(),
    };
    tracer.run();
    // The output is not read: the tracer has already counted the writes to this pipe.
    drop(child.stdout);
    Some(tracer.points)
}

struct Tracer {
    pid: Pid,
    folder: PathBuf,
    disk: Disk,
    steps_done: usize,
    points: Vec<Point>,
}

impl Tracer {
    fn run(&mut self) {
        while self.continue_to_next_stop() {
            let effect = self.effect();
            if matches!(effect, Effect::Write | Effect::Sync(_)) {
                self.add_point();
            }
            if !self.continue_to_next_stop() {
                // The child has ended, because the call that ends a process does not return.
                break;
            }
            match effect {
                Effect::Sync(descriptor) => self.record_sync(descriptor),
                Effect::StepDone => self.steps_done += 1,
                Effect::Write | Effect::None => {}
            }
        }
        self.add_point();
    }

    fn add_point(&mut self) {
        self.disk.rescan(&self.folder);
        self.points.push(Point {
            disk: self.disk.clone(),
            steps_done: self.steps_done,
        });
    }

    /// Continues the child to the next start or end of a system call. Returns false if the child has ended.
    fn continue_to_next_stop(&self) -> bool {
        let mut signal = None;
        loop {
            ptrace::syscall(self.pid, signal).expect("the child is stopped");
            match waitpid(self.pid, None).expect("the process is a child of this one") {
                WaitStatus::PtraceSyscall(_) => return true,
                WaitStatus::Stopped(_, other) => signal = Some(other),
                WaitStatus::Exited(_, status) => {
                    assert_eq!(status, 0, "the child could not do its work");
                    return false;
                }
                other => panic!("the child ended: {other:?}"),
            }
        }
    }

    /// Returns the effect of the system call that the child is about to make.
    fn effect(&self) -> Effect {
        let registers = ptrace::getregs(self.pid).expect("the child is stopped");
        let (call, descriptor) = (registers.orig_rax as i64, registers.rdi);
        match call {
            libc::SYS_write if descriptor == 1 => Effect::StepDone,
            libc::SYS_fsync | libc::SYS_fdatasync => Effect::Sync(descriptor),
            libc::SYS_write
            | libc::SYS_pwrite64
            | libc::SYS_writev
            | libc::SYS_pwritev
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_mkdir
            | libc::SYS_mkdirat
            | libc::SYS_rmdir
            | libc::SYS_unlink
            | libc::SYS_unlinkat
            | libc::SYS_rename
            | libc::SYS_renameat
            | libc::SYS_renameat2 => Effect::Write,
            libc::SYS_open if may_create(registers.rsi) => Effect::Write,
            libc::SYS_openat if may_create(registers.rdx) => Effect::Write,
            _ => Effect::None,
        }
    }

    fn record_sync(&mut self, descriptor: u64) {
        let link = format!("/proc/{}/fd/{descriptor}", self.pid);
        let path = fs::read_link(link).expect("the child is stopped");
        self.disk.rescan(&self.folder);
        let Ok(relative) = path.strip_prefix(&self.folder) else {
            return;
        };
        match path.is_dir() {
            true => self.disk.sync_folder(relative),
            false => self.disk.sync_file(relative),
        }
    }
}

fn may_create(flags: u64) -> bool {
    flags as i32 & (libc::O_CREAT | libc::O_TRUNC) != 0
}
