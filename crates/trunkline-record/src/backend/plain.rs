//! Runs plain system calls: one `pwrite` or `pread` after another, in a separate thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use super::{
    Backend, BackendKind, Completed, FallbackReason, LocalFile, Read, Span, Token, Wait, Write,
};
use crate::clock::monotonic;

/// The backend that works on every system.
#[derive(Debug)]
pub struct PlainWrites {
    local: LocalFile,
    /// Sends jobs to the thread; dropping the sender ends the thread.
    jobs_tx: Option<SyncSender<Job>>,
    completions_rx: Receiver<Completed>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Job {
    Write(Write),
    Read(Read),
    Sync(Token),
}

impl PlainWrites {
    pub fn new(local: LocalFile, writes_max: usize) -> io::Result<Self> {
        let (jobs_tx, jobs_rx) = sync_channel(writes_max + 1);
        // There is space for the completion of every job, so the thread never waits to send one.
        let (completions_tx, completions_rx) = sync_channel(writes_max + 2);
        let thread_file = local.file.try_clone()?;
        let thread = std::thread::Builder::new()
            .name("record-writes".to_owned())
            .spawn(move || run_jobs(&thread_file, &jobs_rx, &completions_tx))?;
        Ok(Self {
            local,
            jobs_tx: Some(jobs_tx),
            completions_rx,
            thread: Some(thread),
        })
    }

    fn enqueue(&self, job: Job) -> io::Result<()> {
        let sent = self.jobs_tx.as_ref().map(|jobs_tx| jobs_tx.try_send(job));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(io::Error::other(
                "more operations at once than the queue was created for",
            )),
        }
    }
}

fn run_jobs(file: &File, jobs_rx: &Receiver<Job>, completions_tx: &SyncSender<Completed>) {
    for job in jobs_rx {
        let (token, result) = match job {
            Job::Write(write) => (write.token, write_once(file, write)),
            Job::Read(read) => (read.token, read_once(file, read)),
            Job::Sync(token) => (token, file.sync_data().map(|()| 0)),
        };
        if completions_tx.send(Completed { token, result }).is_err() {
            return;
        }
    }
}

fn write_once(file: &File, write: Write) -> io::Result<usize> {
    let Span { start, bytes } = write.memory;
    // SAFETY: the memory is mapped until this completion has been returned, as the caller of
    // `submit` guarantees. If another program changes it meanwhile, the changed bytes are written.
    let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) };
    file.write_at(bytes, write.position)
}

fn read_once(file: &File, read: Read) -> io::Result<usize> {
    let Span { start, bytes } = read.memory;
    // SAFETY: the memory is mapped and exclusive until this completion has been returned, as the
    // caller of `submit_read` guarantees. It belongs to a ring or to staging, and was initialised
    // when it was allocated.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) };
    file.read_at(bytes, read.position)
}

impl Backend for PlainWrites {
    fn kind(&self) -> BackendKind {
        BackendKind::PlainWrites
    }

    fn local(&self) -> io::Result<&LocalFile> {
        Ok(&self.local)
    }

    unsafe fn register(&mut self, _: &[Span]) -> Option<FallbackReason> {
        None
    }

    unsafe fn submit(&mut self, write: Write) -> io::Result<()> {
        self.enqueue(Job::Write(write))
    }

    unsafe fn submit_read(&mut self, read: Read) -> io::Result<()> {
        self.enqueue(Job::Read(read))
    }

    fn submit_sync(&mut self, token: Token) -> io::Result<()> {
        self.enqueue(Job::Sync(token))
    }

    fn completed(&mut self, wait: Wait) -> io::Result<Option<Completed>> {
        let ended = || io::Error::other("the thread that writes and reads has ended");
        match wait {
            Wait::No => match self.completions_rx.try_recv() {
                Ok(completed) => Ok(Some(completed)),
                Err(TryRecvError::Empty) => Ok(None),
                Err(TryRecvError::Disconnected) => Err(ended()),
            },
            Wait::Until(time) => match self
                .completions_rx
                .recv_timeout(time.saturating_sub(monotonic()))
            {
                Ok(completed) => Ok(Some(completed)),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err(ended()),
            },
        }
    }
}

impl Drop for PlainWrites {
    fn drop(&mut self) {
        self.jobs_tx = None;
        if let Some(thread) = self.thread.take() {
            // The thread ends once it has done its jobs; it does not panic.
            let _ = thread.join();
        }
    }
}
