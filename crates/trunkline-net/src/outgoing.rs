//! The send side of a connection: moves the endpoint's output into the transport.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use trunkline_proto::{Disconnect, EndKeys, Endpoint};
use trunkline_types::{Tick, Timestamp};
use zeroize::Zeroize;

use crate::transport::SendHalf;

/// The endpoint is asked for more output only while fewer bytes than this are waiting to be sent.
/// For a peer that stops reading, this crate therefore buffers at most this number of bytes plus
/// one frame. All other pending data remains in the endpoint, within the endpoint's own limits.
pub(crate) const OUTPUT_MAX: usize = 64 << 10;

/// Maximum time for sending the last bytes of a connection that is being closed.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// A buffer that has grown beyond this size is freed once it is no longer full.
const RETAINED_MAX: usize = 16 << 10;

/// A transport's send half and the data it has not taken yet. Never blocks.
///
/// Everything sent on a connection passes through here and through the endpoint, so the same lock
/// protects both if several threads send.
pub(crate) struct Outgoing {
    half: Box<dyn SendHalf>,
    buffer: Vec<u8>,
    sent: usize,
    /// The buffer may contain a login, which is erased once it is sent.
    may_have_login: bool,
    /// Frames with one descriptor each. They are sent between other frames, when the buffer is
    /// empty.
    frames_with_descriptor: VecDeque<(Vec<u8>, OwnedFd)>,
    blocked: bool,
    finished: bool,
    /// Time of the last write.
    last_write: Tick,
    /// Set once the connection is to close.
    close_by: Option<Tick>,
}

/// The result of a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flush {
    /// All output of the endpoint is in the transport.
    Done,
    /// The transport has no room.
    Blocked,
    /// The quantum is used up; other sessions come first.
    More,
}

impl Outgoing {
    pub(crate) fn new(half: Box<dyn SendHalf>) -> Self {
        Self {
            half,
            buffer: Vec::new(),
            sent: 0,
            may_have_login: true,
            frames_with_descriptor: VecDeque::new(),
            blocked: false,
            finished: false,
            last_write: Tick::ZERO,
            close_by: None,
        }
    }

    /// Sends pending data and the output of `endpoint`, until nothing is left, the transport is
    /// full, about `quantum` bytes have been sent, or `is_over` returns true.
    pub(crate) fn flush<E: Endpoint + ?Sized>(
        &mut self,
        endpoint: &mut E,
        now: Tick,
        wall: Timestamp,
        quantum: usize,
        mut is_over: impl FnMut() -> bool,
    ) -> io::Result<Flush> {
        if endpoint.direct().is_some() {
            return self.flush_direct(endpoint, now, wall);
        }
        let mut written = 0;
        loop {
            let unsent = self.unsent();
            let room = OUTPUT_MAX.saturating_sub(unsent).min(quantum);
            let more = room > 0 && endpoint.poll_output(now, wall, room, &mut self.buffer);
            let batch = self.unsent();
            if batch > 0 {
                self.last_write = now;
            }
            if !self.write()? {
                return Ok(Flush::Blocked);
            }
            written += batch;
            if !more && unsent < OUTPUT_MAX {
                if self.buffer.capacity() > RETAINED_MAX && written < RETAINED_MAX {
                    self.buffer = Vec::new();
                }
                return Ok(Flush::Done);
            }
            if written >= quantum || batch == 0 || is_over() {
                return Ok(Flush::More);
            }
        }
    }

    /// Like [`flush`](Self::flush), but for an endpoint that keeps output in its own memory. That
    /// output is sent from there, after the appended bytes.
    fn flush_direct<E: Endpoint + ?Sized>(
        &mut self,
        endpoint: &mut E,
        now: Tick,
        wall: Timestamp,
    ) -> io::Result<Flush> {
        loop {
            let has_region = endpoint.direct().is_some_and(|d| !d.region().is_empty());
            if !has_region && !self.write()? {
                return Ok(Flush::Blocked);
            }
            if !has_region {
                endpoint.poll_output(now, wall, OUTPUT_MAX, &mut self.buffer);
            }
            let Some(direct) = endpoint.direct() else {
                return Ok(Flush::Done);
            };
            let (first, second) = (&self.buffer[self.sent..], direct.region());
            let appended = first.len();
            if appended == 0 && second.is_empty() {
                self.blocked = false;
                self.clear();
                return Ok(Flush::Done);
            }
            self.last_write = now;
            let Some(count) = self.half.try_write_two(first, second)? else {
                self.blocked = true;
                return Ok(Flush::Blocked);
            };
            self.sent += count.min(appended);
            if self.unsent() == 0 {
                self.clear();
            }
            if count > appended {
                direct.handle_sent(now, count - appended);
            }
        }
    }

    /// Appends `bytes` to the pending data.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Sends a whole frame with a descriptor, after the pending data.
    pub(crate) fn pass_descriptor(&mut self, frame: Vec<u8>, file: OwnedFd) {
        self.frames_with_descriptor.push_back((frame, file));
    }

    /// Writes until the buffer is empty (true) or the transport is full (false).
    pub(crate) fn write(&mut self) -> io::Result<bool> {
        loop {
            while self.unsent() > 0 {
                match self.half.try_write(&self.buffer[self.sent..])? {
                    Some(count) => self.sent += count,
                    None => return Ok(self.block()),
                }
            }
            self.clear();
            let Some((frame, file)) = self.frames_with_descriptor.front() else {
                break;
            };
            match self.half.try_write_with(frame, file.as_fd())? {
                Some(count) => self.buffer.extend_from_slice(&frame[count..]),
                None => return Ok(self.block()),
            }
            self.frames_with_descriptor.pop_front();
        }
        if !self.half.flush()? {
            return Ok(self.block());
        }
        self.blocked = false;
        Ok(true)
    }

    fn block(&mut self) -> bool {
        self.blocked = true;
        self.compact();
        false
    }

    /// Returns true if the transport has taken everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.unsent() == 0 && self.frames_with_descriptor.is_empty()
    }

    /// Time of the last flush that had data to write.
    pub(crate) fn last_write(&self) -> Tick {
        self.last_write
    }

    /// Returns true if nothing can be sent before the transport has room again.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns true if a connection that is to close because of `cause` may close now: everything
    /// is sent, the peer is dead, nothing can be sent because encryption is not set up, or the time
    /// limit has passed.
    pub(crate) fn may_close(&mut self, cause: &Disconnect, flush: Flush, now: Tick) -> bool {
        if flush == Flush::Done || matches!(cause, Disconnect::Dead { .. }) || !self.half.is_open()
        {
            return true;
        }
        let limit = now.saturating_add(CLOSE_LIMIT);
        *self.close_by.get_or_insert(limit) <= now
    }

    /// The time limit for closing; `None` while the connection stays open.
    pub(crate) fn close_by(&self) -> Option<Tick> {
        self.close_by
    }

    /// Returns false while nothing can be sent because encryption is being set up.
    pub(crate) fn is_open(&self) -> bool {
        self.half.is_open()
    }

    /// Falls back to plaintext if encryption has not begun, to send the reason for a refusal.
    pub(crate) fn fall_back_to_plaintext(&mut self) {
        self.half.fall_back_to_plaintext();
    }

    /// Ends the encryption, so that another program can continue the connection. Returns false while
    /// there is no room for the notice of the end.
    pub(crate) fn release(&mut self) -> io::Result<bool> {
        let is_released = self.half.release()?;
        self.blocked = !is_released;
        Ok(is_released)
    }

    /// Continues the connection with the program that has the peer's key. Unsent data was for the
    /// former peer, and is dropped.
    pub(crate) fn continue_with(&mut self, keys: &EndKeys) -> io::Result<()> {
        self.clear();
        self.frames_with_descriptor.clear();
        self.half.continue_with(keys)
    }

    /// Informs the other end that no more data follows. Repeated calls have no effect.
    pub(crate) fn finish(&mut self) {
        if !std::mem::replace(&mut self.finished, true) {
            self.half.finish();
        }
    }

    /// Discards unsent data, because the other end is considered dead.
    pub(crate) fn abort(&mut self) {
        self.half.abort();
    }

    /// Empties the buffer. The first bytes of a connection may be a login with a password or a token.
    fn clear(&mut self) {
        if self.may_have_login && !self.buffer.is_empty() {
            self.may_have_login = false;
            self.buffer.zeroize();
        }
        self.buffer.clear();
        self.sent = 0;
    }

    fn unsent(&self) -> usize {
        self.buffer.len() - self.sent
    }

    /// Moves the unsent bytes to the front once more than half of the buffer has been sent.
    fn compact(&mut self) {
        if self.sent > self.buffer.len() / 2 {
            self.buffer.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct FinishCounter(Arc<AtomicUsize>);

    impl SendHalf for FinishCounter {
        fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
            Ok(Some(bytes.len()))
        }

        fn finish(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Behaviour: B-80.
    #[test]
    fn login_is_erased_once_it_is_sent() {
        let mut sut = Outgoing::new(Box::new(FinishCounter(Arc::default())));
        sut.push(b"correct horse battery staple");
        let place = sut.buffer.as_ptr() as u64;
        let mut memory = vec![0; sut.buffer.len()];
        let own = std::fs::File::open("/proc/self/mem").unwrap();
        own.read_exact_at(&mut memory, place).unwrap();
        assert_eq!(memory, b"correct horse battery staple");
        assert!(sut.write().unwrap());
        own.read_exact_at(&mut memory, place).unwrap();
        assert_eq!(memory, [0; 28]);
        assert_eq!(sut.buffer.as_ptr() as u64, place);
    }

    /// A socket reports its own shutdown like any other event. A thread that responded to each
    /// report by shutting it down again would loop until the other end closes.
    #[test]
    fn finished_connection_is_not_finished_again() {
        let finishes = Arc::new(AtomicUsize::new(0));
        let mut sut = Outgoing::new(Box::new(FinishCounter(finishes.clone())));
        sut.push(b"the last word");
        assert!(sut.write().unwrap());
        sut.finish();
        sut.finish();
        assert_eq!(finishes.load(Ordering::Relaxed), 1);
    }
}
