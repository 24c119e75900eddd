//! An in-memory byte stream that behaves like a socket: it is bounded and non-blocking, and
//! different threads may use its two ends.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use crate::signal::Signal;
use crate::sync::{Mutex, lock};
use crate::transport::{Peer, ReceiveHalf, SendHalf, Source, SourceKind, Transport};

/// Default capacity in bytes of each direction.
pub const PIPE_CAPACITY: usize = 64 << 10;

/// Creates a connected pair of transports. Each direction has room for `capacity` bytes (at least
/// 1).
///
/// # Errors
/// No file descriptor is left; a pipe takes two.
pub fn pipe(capacity: usize) -> io::Result<(Transport, Transport)> {
    let signals = [Arc::new(Signal::new()?), Arc::new(Signal::new()?)];
    let [near, far] = &signals;
    let outward = Direction::new(capacity, near, far);
    let inward = Direction::new(capacity, far, near);
    let near = end(near, outward.clone(), inward.clone());
    let far = end(far, inward, outward);
    Ok((near, far))
}

/// One direction. Each end's signal is raised when its incoming direction becomes non-empty or
/// ends, and when its outgoing direction was full and has room again, or loses its reader.
struct Direction {
    state: Mutex<DirectionState>,
    capacity: usize,
    writer: Arc<Signal>,
    reader: Arc<Signal>,
}

#[derive(Default)]
struct DirectionState {
    bytes: VecDeque<u8>,
    /// The writer found no room and must be woken when there is room.
    writer_waits: bool,
    finished: bool,
    /// The receive half was dropped, so written bytes would never be read.
    reader_gone: bool,
}

struct PipeReceive(Arc<Direction>);

struct PipeSend(Arc<Direction>);

fn end(signal: &Arc<Signal>, outgoing: Arc<Direction>, incoming: Arc<Direction>) -> Transport {
    Transport {
        peer: Peer::Memory,
        source: Source::new(signal.clone(), SourceKind::Signal),
        receive: Box::new(PipeReceive(incoming)),
        send: Box::new(PipeSend(outgoing)),
    }
}

impl Direction {
    fn new(capacity: usize, writer: &Arc<Signal>, reader: &Arc<Signal>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            capacity: capacity.max(1),
            writer: writer.clone(),
            reader: reader.clone(),
        })
    }
}

impl ReceiveHalf for PipeReceive {
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut state = lock(&self.0.state);
        let count = buffer.len().min(state.bytes.len());
        if count == 0 && !state.finished {
            return Ok(None);
        }
        let (front, back) = state.bytes.as_slices();
        let from_front = count.min(front.len());
        buffer[..from_front].copy_from_slice(&front[..from_front]);
        buffer[from_front..count].copy_from_slice(&back[..count - from_front]);
        state.bytes.drain(..count);
        let must_wake_writer = count > 0 && std::mem::take(&mut state.writer_waits);
        // Unlocks first, so that the other end does not wake only to wait for the lock.
        drop(state);
        if must_wake_writer {
            self.0.writer.raise();
        }
        Ok(Some(count))
    }
}

impl Drop for PipeReceive {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.reader_gone = true;
        state.bytes = VecDeque::new();
        self.0.writer.raise();
    }
}

impl SendHalf for PipeSend {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let mut state = lock(&self.0.state);
        if state.reader_gone || state.finished {
            return Err(io::Error::from(ErrorKind::BrokenPipe));
        }
        let space = self.0.capacity - state.bytes.len();
        let count = space.min(bytes.len());
        if count == 0 {
            state.writer_waits = true;
            return Ok(None);
        }
        let was_empty = state.bytes.is_empty();
        state.bytes.extend(&bytes[..count]);
        drop(state);
        if was_empty {
            self.0.reader.raise();
        }
        Ok(Some(count))
    }

    fn finish(&mut self) {
        lock(&self.0.state).finished = true;
        self.0.reader.raise();
    }
}

impl Drop for PipeSend {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
