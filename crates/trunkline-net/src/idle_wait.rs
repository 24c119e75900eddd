//! How a link's background thread waits while it is connected.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{Timespec, epoll};

use crate::sleeper::Sleeper;
use crate::sync::{Mutex, lock};
use crate::transport::Interest;
use crate::transport::{Source, SourceKind};

/// A wait whose wake-up conditions another thread can change during the wait, without ending it.
///
/// A separate epoll instance can do this; `poll` cannot. A thread that takes over the connection
/// stops arriving data from waking the sleeper. This costs one system call and no context switch.
pub(crate) struct IdleWait {
    epoll: OwnedFd,
    watched: Mutex<Option<Watched>>,
}

struct Watched {
    source: Source,
    flags: epoll::EventFlags,
}

/// Event data that identifies the cause of a wake-up.
const KICKED: u64 = 0;
const SOURCE: u64 = 1;

impl IdleWait {
    /// Creates a sleep that is also ended by kicks of `sleeper`. Takes one file descriptor.
    pub(crate) fn new(sleeper: &Sleeper) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(KICKED);
        epoll::add(&epoll, sleeper.signal(), data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            watched: Mutex::new(None),
        })
    }

    /// Makes events of `source` end the sleep, as kicks do. Keeps the descriptor of `source` open
    /// until the next call.
    pub(crate) fn watch(&self, source: Option<&Source>, interest: Interest) {
        let mut watched = lock(&self.watched);
        let flags = source.map_or(epoll::EventFlags::empty(), |s| flags(s.kind(), interest));
        let data = epoll::EventData::new_u64(SOURCE);
        if let Some(old) = &mut *watched {
            if source.is_some_and(|source| source.is_same(&old.source)) && !flags.is_empty() {
                if flags != old.flags {
                    // Fails only if memory is exhausted; the sleep then ends too often, or only at
                    // its time-out.
                    let _ = epoll::modify(&self.epoll, &old.source, data, flags);
                    old.flags = flags;
                }
                return;
            }
            let _ = epoll::delete(&self.epoll, &old.source);
            *watched = None;
        }
        if let Some(source) = source.filter(|_| !flags.is_empty())
            && epoll::add(&self.epoll, source, data, flags).is_ok()
        {
            let source = source.clone();
            *watched = Some(Watched { source, flags });
        }
    }

    /// Prevents events of the source from ending the sleep. A disconnection may still end it.
    pub(crate) fn mute(&self) {
        if let Some(watched) = &mut *lock(&self.watched) {
            watched.flags = epoll::EventFlags::empty();
            let data = epoll::EventData::new_u64(SOURCE);
            let _ = epoll::modify(&self.epoll, &watched.source, data, watched.flags);
        }
    }

    /// Sleeps. Returns true if the source ended the sleep. An operating system signal may end it
    /// early.
    pub(crate) fn sleep(&self, sleeper: &Sleeper, timeout: Option<Duration>) -> bool {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut events: [epoll::Event; 2] = [NO_EVENT; 2];
        let count = epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()).unwrap_or(0);
        let mut ready = false;
        for event in &events[..count] {
            match { event.data }.u64() {
                KICKED => sleeper.clear(),
                _ => ready = true,
            }
        }
        ready
    }
}

const NO_EVENT: epoll::Event = epoll::Event {
    flags: epoll::EventFlags::empty(),
    data: epoll::EventData::new_u64(KICKED),
};

fn flags(kind: SourceKind, interest: Interest) -> epoll::EventFlags {
    let Interest { read, write } = kind.events(interest);
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN, read);
    flags.set(epoll::EventFlags::OUT, write);
    flags
}
