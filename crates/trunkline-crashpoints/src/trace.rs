//! Runs the child, and stops it at every system call that touches a file.

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

/// The folder before one system call, and the steps that were done by then.
#[derive(Debug)]
pub struct Point {
    pub disk: Disk,
    pub done: usize,
}

/// The effect of a system call on the folder.
enum Effect {
    /// Something changes.
    Write,
    /// The file or folder of this descriptor is synced.
    Sync(u64),
    /// The child reports a step as done.
    Done,
    None,
}

/// Reports a step as done, from the child.
pub fn done() {
    let mut out = std::io::stdout();
    out.write_all(b".").expect("the parent reads it");
    out.flush().expect("the parent reads it");
}

/// Runs in the child: waits until it is traced, does the work, and ends.
pub(crate) fn be_traced(work: impl FnOnce()) {
    ptrace::traceme().expect("the parent has tried it");
    raise(Signal::SIGSTOP).expect("a process may stop itself");
    work();
}

/// Returns every point of the child's work in a new folder; `None` if tracing is not permitted.
pub(crate) fn points(folder: &Path, case: &str) -> Option<Vec<Point>> {
    fs::create_dir(folder).expect("there is room");
    let program = env::current_exe().expect("it runs");
    #[expect(clippy::zombie_processes, reason = "it is waited for by its number")]
    let child = Command::new(program)
        .env(FOLDER, folder)
        .env(CASE, case)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started again");
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
        folder: fs::canonicalize(folder).expect("it is there"),
        disk: Disk::default(),
        done: 0,
        points: Vec::new(),
    };
    tracer.run();
    // Its output is only counted.
    drop(child.stdout);
    Some(tracer.points)
}

struct Tracer {
    pid: Pid,
    folder: PathBuf,
    disk: Disk,
    done: usize,
    points: Vec<Point>,
}

impl Tracer {
    fn run(&mut self) {
        while self.to_next_stop() {
            let effect = self.effect();
            if matches!(effect, Effect::Write | Effect::Sync(_)) {
                self.add_point();
            }
            if !self.to_next_stop() {
                // The call that ends the process does not return.
                break;
            }
            match effect {
                Effect::Sync(descriptor) => self.synced(descriptor),
                Effect::Done => self.done += 1,
                Effect::Write | Effect::None => {}
            }
        }
        self.add_point();
    }

    fn add_point(&mut self) {
        self.disk.rescan(&self.folder);
        self.points.push(Point {
            disk: self.disk.clone(),
            done: self.done,
        });
    }

    /// Continues to the beginning or end of a system call. Returns false when the child has ended.
    fn to_next_stop(&self) -> bool {
        let mut signal = None;
        loop {
            ptrace::syscall(self.pid, signal).expect("the child is stopped");
            match waitpid(self.pid, None).expect("it is our child") {
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

    /// Returns the effect of the system call that begins.
    fn effect(&self) -> Effect {
        let registers = ptrace::getregs(self.pid).expect("the child is stopped");
        let (call, descriptor) = (registers.orig_rax as i64, registers.rdi);
        match call {
            libc::SYS_write if descriptor == 1 => Effect::Done,
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

    fn synced(&mut self, descriptor: u64) {
        let link = format!("/proc/{}/fd/{descriptor}", self.pid);
        let path = fs::read_link(link).expect("the child is stopped");
        self.disk.rescan(&self.folder);
        let Ok(inside) = path.strip_prefix(&self.folder) else {
            return;
        };
        match path.is_dir() {
            true => self.disk.sync_folder(inside),
            false => self.disk.sync_file(inside),
        }
    }
}

fn may_create(flags: u64) -> bool {
    flags as i32 & (libc::O_CREAT | libc::O_TRUNC) != 0
}
