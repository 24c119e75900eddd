//! A file descriptor that one thread raises and another polls.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// Readable from [`raise`](Signal::raise) to [`clear`](Signal::clear). Raising it twice has the
/// same effect as raising it once.
///
/// Uses Linux's eventfd. On other systems a pair of connected sockets would do the same; nothing
/// outside this file depends on the choice.
#[derive(Debug)]
pub(crate) struct Signal {
    fd: OwnedFd,
}

impl Signal {
    /// Creates a cleared signal. Takes one file descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            fd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Makes the descriptor readable.
    pub(crate) fn raise(&self) {
        // The only possible error of a valid eventfd is a full counter; the descriptor is then
        // already readable.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable.
    pub(crate) fn clear(&self) {
        // The only possible error of a valid eventfd is an empty counter; the signal is then
        // already cleared.
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
