//! The sleep of a thread that drives a link.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::signal::Signal;
use crate::transport::{Interest, Source, SourceKind};

/// Sleeps until a transport may continue, the time-out passes, or another thread kicks the sleeper.
///
/// It is level-triggered and holds no state of the transport. Two threads, each with its own
/// sleeper, may therefore sleep on the same transport, and one can take over from the other without
/// waiting for it.
pub(crate) struct Sleeper {
    kicked: Signal,
}

impl Sleeper {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            kicked: Signal::new()?,
        })
    }

    /// Ends the current sleep, or the next one.
    pub(crate) fn kick(&self) {
        self.kicked.raise();
    }

    /// Returns the descriptor that kicks make readable, for use in another kind of sleep; call
    /// [`clear`](Self::clear) afterwards.
    pub(crate) fn signal(&self) -> impl AsFd + '_ {
        &self.kicked
    }

    pub(crate) fn clear(&self) {
        self.kicked.clear();
    }

    /// Sleeps. Returns true if the transport ended the sleep. An operating system signal may end it
    /// early.
    pub(crate) fn sleep(
        &self,
        source: Option<(&Source, Interest)>,
        timeout: Option<Duration>,
    ) -> bool {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let kicked = PollFd::from_borrowed_fd(self.kicked.as_fd(), PollFlags::IN);
        let source = source.and_then(|(source, interest)| {
            let flags = flags(source.kind(), interest);
            (!flags.is_empty()).then(|| PollFd::from_borrowed_fd(source.as_fd(), flags))
        });
        let (kicked, ready) = match source {
            None => {
                let mut fds = [kicked];
                let _ = poll(&mut fds, timeout.as_ref());
                (!fds[0].revents().is_empty(), false)
            }
            Some(source) => {
                let mut fds = [source, kicked];
                let _ = poll(&mut fds, timeout.as_ref());
                (!fds[1].revents().is_empty(), !fds[0].revents().is_empty())
            }
        };
        if kicked {
            self.kicked.clear();
        }
        ready
    }
}

fn flags(kind: SourceKind, interest: Interest) -> PollFlags {
    let Interest { read, write } = kind.events(interest);
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, read);
    flags.set(PollFlags::OUT, write);
    flags
}
