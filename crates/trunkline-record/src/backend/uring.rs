//! io_uring: several writes and reads at a time, from and into registered memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;

use super::{Backend, BackendKind, Completed, LocalFile, Read, Span, Token, Wait, WhyNot, Write};
use crate::clock::monotonic;

/// Longest piece of memory that the kernel registers as one buffer.
const PIECE_MAX: usize = 1 << 30;

/// Longest sleep, in milliseconds, before looking again for completions when waiting in the ring
/// fails.
const LOOK_AGAIN_MS: libc::c_int = 100;

pub struct Uring {
    ring: IoUring,
    local: LocalFile,
    registered: Vec<Span>,
    /// Operations begun whose completion has not been taken.
    running: usize,
}

impl Uring {
    pub fn new(local: LocalFile, writes_max: usize) -> Result<Self, (LocalFile, WhyNot)> {
        match ring_for(&local.file, writes_max) {
            Ok(ring) => Ok(Self {
                ring,
                local,
                registered: Vec::new(),
                running: 0,
            }),
            Err(why_not) => Err((local, why_not)),
        }
    }

    /// Returns the index of the registered piece that contains a span.
    fn piece_of(&self, memory: Span) -> Option<u16> {
        let (start, end) = (
            memory.start.as_ptr().addr(),
            memory.start.as_ptr().addr() + memory.bytes,
        );
        let is_inside = |piece: &Span| {
            let first = piece.start.as_ptr().addr();
            start >= first && end <= first + piece.bytes
        };
        let piece = self.registered.iter().position(is_inside)?;
        u16::try_from(piece).ok()
    }

    fn begin(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        let too_many = || io::Error::other("more writes were begun than were said to be");
        // SAFETY: the file is registered for as long as the ring lives. The memory stays mapped
        // until the completion has been returned or this backend has been dropped, which waits for
        // it, as the caller guarantees.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| too_many())?;
        self.running += 1;
        self.hand_over();
        Ok(())
    }

    /// Submits the queued entries to the kernel. Entries it does not accept now are submitted again
    /// when the next completion is requested; a persistent error is reported there.
    fn hand_over(&mut self) {
        if !self.ring.submission().is_empty() {
            let _ = self.ring.submit();
        }
    }

    /// Waits for completions by polling the descriptor, when the kernel refuses to wait in the
    /// ring.
    fn wait_for_descriptor(&self) {
        let mut ring = libc::pollfd {
            fd: self.ring.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one open descriptor. The result is ignored because completions are checked in any
        // case.
        unsafe { libc::poll(&raw mut ring, 1, LOOK_AGAIN_MS) };
    }

    fn take(&mut self) -> Option<Completed> {
        let entry = self.ring.completion().next()?;
        self.running = self.running.saturating_sub(1);
        let result = entry.result();
        Some(Completed {
            token: Token(entry.user_data()),
            result: usize::try_from(result)
                .map_err(|_| io::Error::from_raw_os_error(result.wrapping_neg())),
        })
    }
}

fn ring_for(file: &File, writes_max: usize) -> Result<IoUring, WhyNot> {
    let not = |error: io::Error| WhyNot::of_uring(&error);
    // One more entry for a sync.
    let entries = u32::try_from(writes_max + 1).unwrap_or(u32::MAX);
    let ring = IoUring::new(entries).map_err(not)?;
    if !ring.params().is_feature_ext_arg() {
        return Err(WhyNot::TooOld);
    }
    let submitter = ring.submitter();
    submitter.register_files(&[file.as_raw_fd()]).map_err(not)?;
    Ok(ring)
}

/// Splits memory into pieces that can be registered.
fn in_pieces(span: Span) -> impl Iterator<Item = Span> {
    let begins = (0..span.bytes).step_by(PIECE_MAX);
    begins.map(move |at| span.part(at, PIECE_MAX))
}

/// Returns true if the call is worth repeating at once.
fn is_passing(error: &io::Error) -> bool {
    let error = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(error, Some(Errno::INTR | Errno::AGAIN | Errno::BUSY))
}

impl Backend for Uring {
    fn kind(&self) -> BackendKind {
        BackendKind::Uring
    }

    fn local(&self) -> io::Result<&LocalFile> {
        Ok(&self.local)
    }

    unsafe fn register(&mut self, memory: &[Span]) -> Option<WhyNot> {
        let pieces: Vec<Span> = memory.iter().flat_map(|span| in_pieces(*span)).collect();
        let vectors: Vec<libc::iovec> = pieces
            .iter()
            .map(|span| libc::iovec {
                iov_base: span.start.as_ptr().cast(),
                iov_len: span.bytes,
            })
            .collect();
        // SAFETY: the memory stays mapped for as long as this backend lives, as the caller
        // guarantees.
        match unsafe { self.ring.submitter().register_buffers(&vectors) } {
            Ok(()) => {
                self.registered = pieces;
                None
            }
            Err(error) => Some(WhyNot::of_uring(&error)),
        }
    }

    unsafe fn submit(&mut self, write: Write) -> io::Result<()> {
        let start = write.memory.start.as_ptr().cast_const();
        // The rest is reported as a short write.
        let bytes = write.memory.bytes.min(PIECE_MAX) as u32;
        let entry = match self.piece_of(write.memory) {
            Some(piece) => opcode::WriteFixed::new(Fixed(0), start, bytes, piece)
                .offset(write.position)
                .build(),
            // Not registered, or crosses the end of a registered piece.
            None => opcode::Write::new(Fixed(0), start, bytes)
                .offset(write.position)
                .build(),
        };
        self.begin(&entry.user_data(write.token.0))
    }

    unsafe fn submit_read(&mut self, read: Read) -> io::Result<()> {
        let start = read.memory.start.as_ptr();
        // The rest is reported as a short read.
        let bytes = read.memory.bytes.min(PIECE_MAX) as u32;
        let entry = match self.piece_of(read.memory) {
            Some(piece) => opcode::ReadFixed::new(Fixed(0), start, bytes, piece)
                .offset(read.position)
                .build(),
            // Not registered, or crosses the end of a registered piece.
            None => opcode::Read::new(Fixed(0), start, bytes)
                .offset(read.position)
                .build(),
        };
        self.begin(&entry.user_data(read.token.0))
    }

    fn submit_sync(&mut self, token: Token) -> io::Result<()> {
        let entry = opcode::Fsync::new(Fixed(0))
            .flags(FsyncFlags::DATASYNC)
            .build()
            .user_data(token.0);
        self.begin(&entry)
    }

    fn completed(&mut self, wait: Wait) -> io::Result<Option<Completed>> {
        loop {
            if let Some(completed) = self.take() {
                return Ok(Some(completed));
            }
            let Wait::Until(time) = wait else {
                self.hand_over();
                return Ok(self.take());
            };
            let left = time.saturating_sub(monotonic());
            if left.is_zero() || self.running == 0 {
                return Ok(None);
            }
            let left = Timespec::from(left);
            let args = SubmitArgs::new().timespec(&left);
            match self.ring.submitter().submit_with_args(1, &args) {
                Ok(_) => {}
                // The timeout expired; the next iteration detects it.
                Err(error) if error.raw_os_error() == Some(Errno::TIME.raw_os_error()) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        while self.running > 0 {
            if self.take().is_some() {
                continue;
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                // Entries never submitted to the kernel never run.
                Err(_) if self.running <= self.ring.submission().len() => break,
                // The other operations still access memory that is freed after this drop; their
                // completions arrive even if waiting fails.
                Err(_) => self.wait_for_descriptor(),
            }
        }
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring")
            .field("local", &self.local)
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}
