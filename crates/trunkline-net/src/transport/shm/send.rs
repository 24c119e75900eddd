//! The send half: writes to the socket first, then into the ring.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use trunkline_ring::{ByteProducer, Moved};

use super::mapping::Mapping;
use super::{Local, Side, Step, from_nonsense, passing};
use crate::sync::{Arc, Ordering, lock};
use crate::transport::SendHalf;
use crate::transport::halves::{StreamSocket, not_blocked};

pub(super) struct SharedSend {
    pub(super) local: Arc<Local>,
    pub(super) stage: SendStage,
}

pub(super) enum SendStage {
    /// Contains the file to send with the first bytes.
    Socket(Option<OwnedFd>),
    Ring {
        producer: ByteProducer,
        /// No byte has gone into the ring yet. The other end may be asleep on the socket without
        /// having announced it in the ring.
        first: bool,
    },
}

impl SendHalf for SharedSend {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        if let SendStage::Socket(offer) = &mut self.stage {
            match write_socket(&self.local, offer, bytes)? {
                Step::Moved(written) => return Ok(written),
                Step::Continue => self.enter_ring(),
            }
        }
        match &mut self.stage {
            SendStage::Socket(_) => Ok(None),
            SendStage::Ring { producer, first } => {
                let moved = push(producer, bytes).inspect_err(|_| {
                    // Ends the other half too, which reports the cause.
                    let _ = self.local.stream.shutdown(Shutdown::Both);
                })?;
                if moved.count > 0 && (moved.wake || std::mem::take(first)) {
                    self.local.ring_bell();
                }
                // Unlike a socket, a ring accepts bytes that will never be read; it must not wait
                // for a reader that is gone.
                match moved.count {
                    0 if self.local.gone.load(Ordering::Relaxed) => {
                        Err(ErrorKind::BrokenPipe.into())
                    }
                    0 => Ok(None),
                    count => Ok(Some(count)),
                }
            }
        }
    }

    fn try_write_with(&mut self, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<Option<usize>> {
        if !matches!(self.stage, SendStage::Socket(None)) {
            return Err(ErrorKind::Unsupported.into());
        }
        let mut over_socket = lock(&self.local.over_socket);
        let written = not_blocked(|| passing::send_with(&self.local.stream, bytes, file))?;
        over_socket.sent += written.unwrap_or(0) as u64;
        Ok(written)
    }

    fn finish(&mut self) {
        // Fails only if the connection is gone, which the other half reports.
        let _ = self.local.stream.finish();
    }
}

impl SharedSend {
    fn enter_ring(&mut self) {
        if let Some(mapping) = self.local.mapping.get() {
            self.stage = SendStage::Ring {
                producer: mapping.ring(self.local.outgoing()).producer(),
                first: true,
            };
        }
    }
}

/// Sends over the socket, unless both ends have the memory.
fn write_socket(local: &Local, offer: &mut Option<OwnedFd>, bytes: &[u8]) -> io::Result<Step> {
    let mut over_socket = lock(&local.over_socket);
    let is_accepted = |mapping: &Arc<Mapping>| mapping.is_accepted();
    if matches!(local.side, Side::Dialler { .. })
        && local.may_share()
        && local.mapping.get().is_some_and(is_accepted)
    {
        local.leave_socket(&mut over_socket);
    }
    if over_socket.left {
        return Ok(Step::Continue);
    }
    let written = not_blocked(|| match &offer {
        Some(file) => passing::send_with(&local.stream, bytes, file.as_fd()),
        None => local.stream.send(bytes),
    })?;
    if let Some(count) = written.filter(|count| *count > 0) {
        *offer = None;
        over_socket.sent += count as u64;
    }
    Ok(Step::Moved(written))
}

/// Puts bytes into a ring, or else requests a wake-up when there is room.
fn push(producer: &mut ByteProducer, bytes: &[u8]) -> io::Result<Moved> {
    loop {
        let moved = producer.push(bytes).map_err(from_nonsense)?;
        if moved.count > 0 || producer.wait_for_room().map_err(from_nonsense)? {
            return Ok(moved);
        }
    }
}
