//! Runs several writes and reads at a time with io_uring, from and into registered memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;

use super::{
    Backend, BackendKind, Completed, FallbackReason, LocalFile, Read, Span, Token, Wait, Write,
};
use crate::clock::monotonic;

/// Maximum size in bytes of memory that the kernel registers as one buffer.
const BUFFER_BYTES_MAX: usize = 1 << 30;

/// Timeout in milliseconds for polling the ring's descriptor when waiting through io_uring fails.
const POLL_TIMEOUT_MS: libc::c_int = 100;

pub struct Uring {
    ring: IoUring,
    local: LocalFile,
    registered_buffers: Vec<Span>,
    /// Number of operations whose completion has not been returned.
    in_flight: usize,
}

impl Uring {
    pub fn new(local: LocalFile, writes_max: usize) -> Result<Self, (LocalFile, FallbackReason)> {
        match ring_for(&local.file, writes_max) {
            Ok(ring) => Ok(Self {
                ring,
                local,
                registered_buffers: Vec::new(),
                in_flight: 0,
            }),
            Err(reason) => Err((local, reason)),
        }
    }

    /// Returns the index of the registered buffer that contains a span.
    fn buffer_index(&self, memory: Span) -> Option<u16> {
        let (start, end) = (
            memory.start.as_ptr().addr(),
            memory.start.as_ptr().addr() + memory.bytes,
        );
        let is_inside = |piece: &Span| {
            let first = piece.start.as_ptr().addr();
            start >= first && end <= first + piece.bytes
        };
        let piece = self.registered_buffers.iter().position(is_inside)?;
        u16::try_from(piece).ok()
    }

    fn begin(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        let too_many = || io::Error::other("more operations at once than the ring was created for");
        // SAFETY: the file stays registered while the ring exists. The caller guarantees that
        // the memory stays mapped until the completion is returned or this backend is dropped.
        // Dropping waits for all completions.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| too_many())?;
        self.in_flight += 1;
        self.submit_queued();
        Ok(())
    }

    /// Submits the queued entries to the kernel. Entries it does not accept now are submitted again
    /// when the next completion is requested; a persistent error is reported there.
    fn submit_queued(&mut self) {
        if !self.ring.submission().is_empty() {
            let _ = self.ring.submit();
        }
    }

    /// Waits for completions by polling the ring's descriptor. Used when the kernel refuses to wait
    /// through io_uring.
    fn wait_for_descriptor(&self) {
        let mut pollfd = libc::pollfd {
            fd: self.ring.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the pointer refers to one valid `pollfd`, and the count is 1. The result is
        // ignored because completions are checked in any case.
        unsafe { libc::poll(&raw mut pollfd, 1, POLL_TIMEOUT_MS) };
    }

    fn next_completion(&mut self) -> Option<Completed> {
        let entry = self.ring.completion().next()?;
        self.in_flight = self.in_flight.saturating_sub(1);
        let result = entry.result();
        Some(Completed {
            token: Token(entry.user_data()),
            result: usize::try_from(result)
                .map_err(|_| io::Error::from_raw_os_error(result.wrapping_neg())),
        })
    }
}

fn ring_for(file: &File, writes_max: usize) -> Result<IoUring, FallbackReason> {
    let to_fallback_reason = |error: io::Error| FallbackReason::of_uring(&error);
    // One additional entry is for a sync.
    let entries = u32::try_from(writes_max + 1).unwrap_or(u32::MAX);
    let ring = IoUring::new(entries).map_err(to_fallback_reason)?;
    if !ring.params().is_feature_ext_arg() {
        return Err(FallbackReason::TooOld);
    }
    let submitter = ring.submitter();
    submitter
        .register_files(&[file.as_raw_fd()])
        .map_err(to_fallback_reason)?;
    Ok(ring)
}

/// Splits memory into pieces that are short enough to be registered.
fn split_into_buffers(span: Span) -> impl Iterator<Item = Span> {
    let offsets = (0..span.bytes).step_by(BUFFER_BYTES_MAX);
    offsets.map(move |offset| span.part(offset, BUFFER_BYTES_MAX))
}

/// Returns true if the call should be retried at once.
fn is_transient(error: &io::Error) -> bool {
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

    unsafe fn register(&mut self, memory: &[Span]) -> Option<FallbackReason> {
        let pieces: Vec<Span> = memory
            .iter()
            .flat_map(|span| split_into_buffers(*span))
            .collect();
        let vectors: Vec<libc::iovec> = pieces
            .iter()
            .map(|span| libc::iovec {
                iov_base: span.start.as_ptr().cast(),
                iov_len: span.bytes,
            })
            .collect();
        // SAFETY: the memory stays mapped while this backend exists, as the caller
        // guarantees.
        match unsafe { self.ring.submitter().register_buffers(&vectors) } {
            Ok(()) => {
                self.registered_buffers = pieces;
                None
            }
            Err(error) => Some(FallbackReason::of_uring(&error)),
        }
    }

    unsafe fn submit(&mut self, write: Write) -> io::Result<()> {
        let start = write.memory.start.as_ptr().cast_const();
        // A longer write is shortened here; it completes as a short write.
        let bytes = write.memory.bytes.min(BUFFER_BYTES_MAX) as u32;
        let entry = match self.buffer_index(write.memory) {
            Some(buffer) => opcode::WriteFixed::new(Fixed(0), start, bytes, buffer)
                .offset(write.position)
                .build(),
            // The memory is not registered, or crosses the end of a registered buffer.
            None => opcode::Write::new(Fixed(0), start, bytes)
                .offset(write.position)
                .build(),
        };
        self.begin(&entry.user_data(write.token.0))
    }

    unsafe fn submit_read(&mut self, read: Read) -> io::Result<()> {
        let start = read.memory.start.as_ptr();
        // A longer read is shortened here; it completes as a short read.
        let bytes = read.memory.bytes.min(BUFFER_BYTES_MAX) as u32;
        let entry = match self.buffer_index(read.memory) {
            Some(buffer) => opcode::ReadFixed::new(Fixed(0), start, bytes, buffer)
                .offset(read.position)
                .build(),
            // The memory is not registered, or crosses the end of a registered buffer.
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
            if let Some(completed) = self.next_completion() {
                return Ok(Some(completed));
            }
            let Wait::Until(time) = wait else {
                self.submit_queued();
                return Ok(self.next_completion());
            };
            let remaining = time.saturating_sub(monotonic());
            if remaining.is_zero() || self.in_flight == 0 {
                return Ok(None);
            }
            let remaining = Timespec::from(remaining);
            let args = SubmitArgs::new().timespec(&remaining);
            match self.ring.submitter().submit_with_args(1, &args) {
                Ok(_) => {}
                // The timeout expired; the next iteration detects it.
                Err(error) if error.raw_os_error() == Some(Errno::TIME.raw_os_error()) => {}
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.next_completion().is_some() {
                continue;
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if is_transient(&error) => {}
                // Entries that were never submitted to the kernel never run.
                Err(_) if self.in_flight <= self.ring.submission().len() => break,
                // Submitted operations still access memory that is freed after this drop. Their
                // completions arrive even if waiting through io_uring fails.
                Err(_) => self.wait_for_descriptor(),
            }
        }
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring")
            .field("local", &self.local)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
