//! The two halves: each uses the socket first, then its ring.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use trunkline_ring::{ByteConsumer, ByteProducer, Moved};

use super::mapping::Mapping;
use super::{
    DOORBELLS_MAX, DOORBELLS_PER_READ, Local, Side, Step, corrupt_error, invalid_data, passing,
};
use crate::sync::{Arc, Ordering, lock};
use crate::transport::halves::{StreamSocket, not_blocked};
use crate::transport::{ReceiveHalf, SendHalf};

pub(super) struct SharedSend {
    pub(super) local: Arc<Local>,
    pub(super) stage: SendStage,
}

pub(super) enum SendStage {
    /// Uses the socket. Contains the file to send with the first bytes.
    Socket(Option<OwnedFd>),
    Ring {
        producer: ByteProducer,
        /// No byte has been put into the ring yet. The other end may be asleep on the socket
        /// without having announced it in the ring.
        is_first_write: bool,
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
            SendStage::Ring {
                producer,
                is_first_write,
            } => {
                let moved = push(producer, bytes).inspect_err(|_| {
                    // Ends the other half too, which reports the cause.
                    let _ = self.local.stream.shutdown(Shutdown::Both);
                })?;
                if moved.count > 0 && (moved.wake || std::mem::take(is_first_write)) {
                    self.local.ring_doorbell();
                }
                // Unlike a socket, a ring accepts bytes that will never be read; it must not wait
                // for a reader that is gone.
                match moved.count {
                    0 if self.local.peer_gone.load(Ordering::Relaxed) => {
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
                is_first_write: true,
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

/// Puts bytes into a ring. If there is no room, requests a wake-up when there is.
fn push(producer: &mut ByteProducer, bytes: &[u8]) -> io::Result<Moved> {
    loop {
        let moved = producer.push(bytes).map_err(corrupt_error)?;
        if moved.count > 0 || producer.wait_for_room().map_err(corrupt_error)? {
            return Ok(moved);
        }
    }
}

pub(super) struct SharedReceive {
    pub(super) local: Arc<Local>,
    /// Number of bytes of the stream that came over the socket.
    pub(super) received: u64,
    pub(super) stage: ReceiveStage,
}

pub(super) enum ReceiveStage {
    Socket,
    Ring {
        consumer: ByteConsumer,
        /// The socket has ended or failed: nothing follows the content of the ring.
        ended: Option<io::Result<()>>,
    },
}

impl ReceiveHalf for SharedReceive {
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if matches!(self.stage, ReceiveStage::Socket) {
            match self.read_socket(buffer)? {
                Step::Moved(count) => return Ok(count),
                Step::Continue => {}
            }
        }
        self.read_ring(buffer)
    }

    fn acknowledge(&mut self, hung_up: bool) {
        if let ReceiveStage::Ring { ended, .. } = &mut self.stage
            && ended.is_none()
        {
            *ended = read_doorbells(&self.local, hung_up);
            self.local.set_peer_gone(ended.is_some());
        }
    }

    fn glance(&mut self) -> Option<bool> {
        match &mut self.stage {
            ReceiveStage::Socket => None,
            ReceiveStage::Ring { consumer, ended } => Some(ended.is_some() || !consumer.is_empty()),
        }
    }

    fn arm(&mut self) -> bool {
        match &mut self.stage {
            ReceiveStage::Socket => false,
            // The next read reports invalid positions.
            ReceiveStage::Ring { consumer, ended } => {
                ended.is_some() || consumer.wait_for_bytes() != Ok(true)
            }
        }
    }
}

impl Drop for SharedReceive {
    fn drop(&mut self) {
        // Values that the other end stores from now on are not used.
        self.local.live.store(false, Ordering::Release);
    }
}

impl SharedReceive {
    fn read_socket(&mut self, buffer: &mut [u8]) -> io::Result<Step> {
        let local = &self.local;
        let expects_offer = local.side == Side::Acceptor && self.received == 0;
        let read = match expects_offer {
            true => {
                let mut file = None;
                let read = not_blocked(|| {
                    let (count, offered) = passing::receive_with(&local.stream, buffer)?;
                    file = offered;
                    Ok(count)
                })?;
                match read {
                    None | Some(0) => read,
                    Some(count) => {
                        take_offer(local, file)?;
                        // The system ends a read where a file was sent, but callers assume that a
                        // read which does not fill its buffer has taken everything. An error is
                        // reported again later.
                        let more = not_blocked(|| local.stream.receive(&mut buffer[count..]));
                        Some(count + more.ok().flatten().unwrap_or(0))
                    }
                }
            }
            false => not_blocked(|| local.receive_doorbells(buffer))?,
        };
        // The file arrived with the first bytes, and it must be answered before they are.
        let mapping = local.mapping.get();
        let Some(limit) = mapping.and_then(|mapping| mapping.over_socket(local.incoming())) else {
            if let (Side::Dialler { .. }, Some(1..), Some(mapping)) = (local.side, read, mapping)
                && !mapping.is_accepted()
                && local.may_share()
            {
                local.decline("the engine does not accept it".to_owned())?;
            }
            self.received += read.unwrap_or(0) as u64;
            return Ok(Step::Moved(read));
        };
        let Some(rest) = limit.checked_sub(self.received) else {
            return Err(invalid_data());
        };
        let count = read.unwrap_or(0) as u64;
        if count < rest || (rest > 0 && read.is_none()) {
            self.received += count;
            return Ok(Step::Moved(read));
        }
        // Any byte after the last byte of the stream is a doorbell.
        self.received = limit;
        // From here on this end may ring, and the other end must know that a doorbell is not a byte
        // of the stream.
        local.leave_socket(&mut lock(&local.over_socket));
        // An event may already have reported the end, and will not report it again.
        let ended = match read {
            Some(0) => Some(Ok(())),
            _ => read_doorbells(local, true),
        };
        local.set_peer_gone(ended.is_some());
        if let Some(mapping) = mapping {
            self.stage = ReceiveStage::Ring {
                consumer: mapping.ring(local.incoming()).consumer(),
                ended,
            };
        }
        // Below the length of the buffer, which is a usize.
        Ok(match rest as usize {
            0 => Step::Continue,
            rest => Step::Moved(Some(rest)),
        })
    }

    fn read_ring(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let ReceiveStage::Ring { consumer, ended } = &mut self.stage else {
            return Ok(None);
        };
        let moved = consumer.pop(buffer).map_err(corrupt_error)?;
        if moved.wake {
            self.local.ring_doorbell();
        }
        match (moved.count, &ended) {
            (0, None) => Ok(None),
            // The end was seen before this pop, so nothing follows.
            (0, Some(Ok(()))) => Ok(Some(0)),
            (0, Some(Err(error))) => Err(io::Error::new(error.kind(), error.to_string())),
            (count, _) => Ok(Some(count)),
        }
    }
}

/// Reads doorbells from the socket, and its end if it has been reached. Only a caller that knows of
/// the end must read up to it; otherwise the end is reported again.
fn read_doorbells(local: &Local, hung_up: bool) -> Option<io::Result<()>> {
    let mut doorbells = [0; DOORBELLS_PER_READ];
    for _ in 0..DOORBELLS_MAX / DOORBELLS_PER_READ {
        match not_blocked(|| local.receive_doorbells(&mut doorbells)) {
            Ok(None) => return None,
            Ok(Some(0)) => return Some(Ok(())),
            Ok(Some(count)) if count < DOORBELLS_PER_READ && !hung_up => return None,
            Ok(Some(_)) => {}
            // A process that was killed leaves a reset behind; the data it sent is still in the
            // ring.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Some(Ok(())),
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Err(invalid_data()))
}

/// Accepts or declines the offered file, for the acceptor.
fn take_offer(local: &Local, file: Option<OwnedFd>) -> io::Result<()> {
    let Some(file) = file else {
        return local.decline("the client does not offer it".to_owned());
    };
    match Mapping::accept(file) {
        Ok(mapping) => {
            let _first = local.mapping.set(mapping);
            Ok(())
        }
        Err(error) => local.decline(format!(
            "the memory that the client offers cannot be mapped: {error}"
        )),
    }
}
