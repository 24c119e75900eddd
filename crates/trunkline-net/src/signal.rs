//! A file descriptor that one thread raises and another polls.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// Readable from [`raise`](Signal::raise) to [`clear`](Signal::clear). Raising it twice has the
/// effect of raising it once.
///
/// Uses Linux's eventfd. On other systems a pair of connected sockets would do the same; nothing
/// outside this file depends on the choice.
#[derive(Debug)]
pub(crate) struct Signal {
    fd: OwnedFd,
}

impl Signal {
    /// A lowered signal. Takes one file descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            fd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Makes the descriptor readable.
    pub(crate) fn raise(&self) {
        // The only error of a healthy eventfd is a full counter; then it is readable already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable.
    pub(crate) fn clear(&self) {
        // The only error of a healthy eventfd is an empty counter; then it is lowered already.
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
