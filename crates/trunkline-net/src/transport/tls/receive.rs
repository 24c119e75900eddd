//! The half that receives and decrypts.

use std::io::{self, Read};
use std::ops::RangeInclusive;

use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, recv};
use rustls::{Connection, ServerConnection};
use trunkline_proto::Channel;

use crate::sync::{Arc, AtomicBool, Ordering, lock};
use crate::transport::halves::{StreamSocket, not_blocked};
use crate::transport::tls::client::EngineVerifier;
use crate::transport::tls::{
    CIPHERTEXT_MAX, Failure, MARK_BYTES, Phase, Shared, TlsServer, is_tls,
};
use crate::transport::{ChannelState, ReceiveHalf, Source};

/// Number of bytes per read while little arrives.
const CIPHERTEXT_FEW: usize = 4 << 10;

/// Number of reads of few bytes after which the large buffer is freed.
const FEW_READS: u8 = 16;

/// Maximum number of bytes discarded after a failure. Unread bytes would make the system discard
/// the alert that gives the other end the reason.
const DISCARDED_MAX: usize = 64 << 10;

/// Number of bytes derived for the binding, and their label (RFC 9266).
const BINDING_BYTES: usize = 32;
const BINDING_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// The record type with which a client begins: handshake.
const CLIENT_FIRST: RangeInclusive<u8> = 0x16..=0x16;
/// Record types with which a server may begin: change of cipher, alert, handshake.
const SERVER_FIRST: RangeInclusive<u8> = 0x14..=0x16;

pub(super) struct TlsReceive {
    shared: Arc<Shared>,
    mode: Mode,
    ciphertext: Ciphertext,
    /// Number of decrypted bytes that wait in the connection.
    plaintext: usize,
    /// The last read took everything that the socket had.
    is_socket_drained: bool,
    is_shaking: bool,
    /// The other end has announced its end.
    is_closed: bool,
    failed: Option<Failure>,
    /// Client only.
    verifier: Option<Arc<EngineVerifier>>,
    /// Client only: nothing has arrived yet.
    is_first: bool,
    channel: Option<Box<Channel>>,
}

enum Mode {
    Undecided {
        server: Arc<TlsServer>,
        is_tls_required: bool,
    },
    Plain {
        is_refused: bool,
    },
    Tls,
}

/// Bytes that were read from the socket and not passed to the connection yet.
#[derive(Default)]
struct Ciphertext {
    buffer: Vec<u8>,
    taken: usize,
    /// Reads in succession that took few bytes.
    few_reads: u8,
}

impl Ciphertext {
    fn unread(&self) -> &[u8] {
        self.buffer.get(self.taken..).unwrap_or_default()
    }

    /// Reads once; all earlier bytes must have been taken. Returns the number of bytes, and true if
    /// there was room for more.
    fn fill(&mut self, socket: &impl StreamSocket) -> io::Result<Option<(usize, bool)>> {
        let size = match self.buffer.capacity() {
            0 => CIPHERTEXT_FEW,
            capacity if self.few_reads >= FEW_READS && capacity > CIPHERTEXT_FEW => {
                self.buffer = Vec::new();
                CIPHERTEXT_FEW
            }
            // The last read filled the buffer.
            capacity if self.buffer.len() == capacity => CIPHERTEXT_MAX,
            capacity => capacity,
        };
        self.buffer.clear();
        self.taken = 0;
        self.buffer.reserve_exact(size);
        let read = not_blocked(|| Ok(rustix::io::read(socket, spare_capacity(&mut self.buffer))?))?;
        let Some(count) = read else {
            return Ok(None);
        };
        self.few_reads = match count <= CIPHERTEXT_FEW {
            true => self.few_reads.saturating_add(1),
            false => 0,
        };
        Ok(Some((count, count < self.buffer.capacity())))
    }
}

impl Read for Ciphertext {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.unread().read(to)?;
        self.taken += count;
        Ok(count)
    }
}

impl TlsReceive {
    pub(super) fn server(
        shared: Arc<Shared>,
        server: Arc<TlsServer>,
        is_tls_required: bool,
    ) -> Self {
        let mode = Mode::Undecided {
            server,
            is_tls_required,
        };
        Self::new(shared, mode, None)
    }

    pub(super) fn client(shared: Arc<Shared>, verifier: Arc<EngineVerifier>) -> Self {
        Self::new(shared, Mode::Tls, Some(verifier))
    }

    /// The half of an end that is dialled by another end.
    pub(super) fn end(shared: Arc<Shared>) -> Self {
        Self::new(shared, Mode::Tls, None)
    }

    fn new(shared: Arc<Shared>, mode: Mode, verifier: Option<Arc<EngineVerifier>>) -> Self {
        Self {
            shared,
            mode,
            ciphertext: Ciphertext::default(),
            plaintext: 0,
            is_socket_drained: false,
            is_shaking: true,
            is_closed: false,
            failed: None,
            is_first: verifier.is_some(),
            verifier,
            channel: None,
        }
    }

    pub(super) fn encrypted_mark(&self) -> Arc<AtomicBool> {
        self.shared.is_encrypted.clone()
    }

    /// Advances the handshake as far as possible without waiting. Returns true once it is complete.
    pub(super) fn shake(&mut self) -> Result<bool, Failure> {
        while self.is_shaking {
            if self.has_inside() {
                self.decrypt(&mut [], &mut [])?;
            } else if !self.fill()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read(&mut self, first: &mut [u8], second: &mut [u8]) -> Result<Option<usize>, Failure> {
        if let Mode::Undecided { .. } = self.mode
            && !self.decide()?
        {
            return Ok(None);
        }
        if let Mode::Plain { .. } = self.mode {
            let room = first.len() + second.len();
            let socket = &self.shared.socket;
            let read = match second.is_empty() {
                true => not_blocked(|| socket.receive(first))?,
                false => not_blocked(|| socket.receive_two([&mut *first, &mut *second]))?,
            };
            self.is_socket_drained = read.is_none_or(|count| count < room);
            return Ok(read);
        }
        loop {
            if self.has_inside() {
                let count = self.decrypt(first, second)?;
                if count > 0 {
                    return Ok(Some(count));
                }
                if self.is_closed && !self.begin_next() {
                    return Ok(Some(0));
                }
            }
            // Until the socket has nothing: the caller may not hear of its end a second time.
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Decides by the first bytes. Returns false if too few have arrived.
    fn decide(&mut self) -> Result<bool, Failure> {
        let Mode::Undecided {
            server,
            is_tls_required,
        } = &self.mode
        else {
            return Ok(true);
        };
        let mut first = [0; MARK_BYTES];
        let socket = &self.shared.socket;
        let Some(count) = not_blocked(|| Ok(recv(socket, &mut first, RecvFlags::PEEK)?.0))? else {
            return Ok(false);
        };
        let wanted = match first.get(..count).unwrap_or_default() {
            [] => Phase::Plain,
            bytes if is_tls(bytes, &CLIENT_FIRST) && count == MARK_BYTES => Phase::Tls,
            // The rest will be reported by another event.
            bytes if is_tls(bytes, &CLIENT_FIRST) => return Ok(false),
            _ if *is_tls_required => Phase::Refused,
            _ => Phase::Plain,
        };
        if wanted == Phase::Tls {
            let connection = ServerConnection::new(server.current()).map_err(Failure::Tls)?;
            *lock(&self.shared.connection) = Some(connection.into());
        }
        // The send half may have begun to speak without encryption meanwhile.
        let phase = self.shared.change(Phase::Undecided, wanted);
        self.mode = match phase {
            Phase::Tls => Mode::Tls,
            Phase::Refused => Mode::Plain { is_refused: true },
            Phase::Plain | Phase::Undecided => Mode::Plain { is_refused: false },
        };
        Ok(true)
    }

    /// Returns true if bytes, or the end, can be delivered without reading the socket.
    fn has_inside(&self) -> bool {
        self.plaintext > 0
            || self.is_closed
            || self.failed.is_some()
            || !self.ciphertext.unread().is_empty()
    }

    /// Reads ciphertext from the socket. Returns false if it has none.
    fn fill(&mut self) -> Result<bool, Failure> {
        match self.ciphertext.fill(&*self.shared.socket)? {
            None => {
                self.is_socket_drained = true;
                Ok(false)
            }
            Some((0, _)) if self.is_shaking => Err(Failure::EndedInHandshake),
            Some((0, _)) => Err(Failure::Truncated),
            Some((_, is_drained)) => {
                self.is_socket_drained = is_drained;
                let bytes = self.ciphertext.unread();
                let is_first = std::mem::take(&mut self.is_first);
                if is_first && !is_tls(bytes, &SERVER_FIRST) {
                    let first_bytes = bytes.to_vec();
                    return Err(Failure::NotTls { first_bytes });
                }
                Ok(true)
            }
        }
    }

    /// Replaces a connection that has ended with the next one, if there is one.
    fn begin_next(&mut self) -> bool {
        // Both locks, in this order, so that the send half never finds neither.
        let mut connection = lock(&self.shared.connection);
        let Some(next) = lock(&self.shared.next).take() else {
            return false;
        };
        *connection = Some(next);
        self.is_closed = false;
        self.is_shaking = true;
        self.verifier = None;
        self.shared.has_output.store(true, Ordering::Release);
        true
    }

    /// Decrypts into `first`, then into `second`. Returns the number of bytes, which is 0 if there is
    /// no complete record.
    fn decrypt(&mut self, first: &mut [u8], second: &mut [u8]) -> Result<usize, Failure> {
        if self.plaintext == 0
            && let Some(failure) = &self.failed
        {
            return Err(failure.clone());
        }
        let mut guard = lock(&self.shared.connection);
        let Some(connection) = guard.as_mut() else {
            return Ok(0);
        };
        let (room, split) = (first.len() + second.len(), first.len());
        let mut count = 0;
        let mut was_fed = false;
        loop {
            while self.plaintext > 0 && count < room {
                let target = match count < split {
                    true => &mut first[count..],
                    false => &mut second[count - split..],
                };
                match connection.reader().read(target) {
                    Ok(read) if read > 0 => {
                        count += read;
                        self.plaintext = self.plaintext.saturating_sub(read);
                    }
                    // Nothing is left.
                    Ok(_) | Err(_) => self.plaintext = 0,
                }
            }
            if self.plaintext > 0 || self.is_closed || self.ciphertext.unread().is_empty() {
                break;
            }
            was_fed = true;
            if let Err(failure) = feed(connection, &mut self.ciphertext) {
                self.failed = Some(failure);
                break;
            }
            let state = connection.process_new_packets();
            match state {
                Ok(state) => {
                    self.plaintext = state.plaintext_bytes_to_read();
                    self.is_closed = state.peer_has_closed();
                }
                Err(error) => {
                    self.failed = Some(Failure::Tls(error));
                    self.ciphertext = Ciphertext::default();
                    // Data that came before the error is still delivered. Its length is not known,
                    // so it is read until nothing is left.
                    self.plaintext = usize::MAX;
                }
            }
            if self.is_shaking && !connection.is_handshaking() {
                self.is_shaking = false;
                self.channel = Some(Box::new(channel(connection, self.verifier.as_deref())?));
                self.shared.is_encrypted.store(true, Ordering::Release);
            }
        }
        if was_fed && has_output(connection) {
            self.shared.has_output.store(true, Ordering::Release);
        }
        drop(guard);
        if let Some(failure) = &self.failed {
            discard(&*self.shared.socket);
            self.ciphertext = Ciphertext::default();
            if count == 0 {
                return Err(failure.clone());
            }
        }
        Ok(count)
    }
}

/// Passes a piece of ciphertext, of 4 KiB at most, to the connection.
fn feed(connection: &mut Connection, ciphertext: &mut Ciphertext) -> Result<(), Failure> {
    match connection.read_tls(ciphertext)? {
        0 => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
        _ => Ok(()),
    }
}

/// Returns true if the connection has bytes to send. While earlier ones wait, nothing is added: the
/// answers to any number of requests for new keys thus take the room of two.
fn has_output(connection: &mut Connection) -> bool {
    if !connection.wants_write() && !connection.is_handshaking() {
        // An answer waits for the next write, and an empty one suffices. A failed connection refuses
        // it, and has only its alert to send.
        let _ = io::Write::write(&mut connection.writer(), &[]);
    }
    connection.wants_write()
}

/// Describes a connection whose handshake is complete.
fn channel(connection: &Connection, verifier: Option<&EngineVerifier>) -> Result<Channel, Failure> {
    let binding = connection
        .export_keying_material([0; BINDING_BYTES], BINDING_LABEL, None)
        .map_err(Failure::Tls)?;
    let chain = connection.peer_certificates().unwrap_or_default();
    Ok(Channel {
        is_private: true,
        binding: Some(binding),
        peer_certificate: chain.first().map(|first| Arc::from(first.as_ref())),
        authority: verifier.and_then(|verifier| verifier.authority(chain)),
        ..Channel::default()
    })
}

fn discard(socket: &impl StreamSocket) {
    let mut buffer = [0; CIPHERTEXT_FEW];
    let mut discarded = 0;
    while discarded < DISCARDED_MAX {
        match not_blocked(|| socket.receive(&mut buffer)) {
            Ok(Some(count)) if count > 0 => discarded += count,
            Ok(_) | Err(_) => return,
        }
    }
}

impl ReceiveHalf for TlsReceive {
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(self.read(buffer, &mut [])?)
    }

    fn try_read_two(&mut self, first: &mut [u8], second: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(self.read(first, second)?)
    }

    fn release(&mut self) -> io::Result<bool> {
        if !matches!(self.mode, Mode::Tls) {
            return Ok(true);
        }
        let (mut scratch, mut discarded) = ([0; CIPHERTEXT_FEW], 0);
        while !self.is_closed {
            if self.has_inside() {
                discarded += self.decrypt(&mut scratch, &mut [])?;
            } else if !self.fill()? {
                return Ok(false);
            }
            if discarded > DISCARDED_MAX {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the peer does not stop sending, although its connection is handed over",
                ));
            }
        }
        // A correct peer has sent nothing behind the end. If it has, its next handshake lacks this.
        self.ciphertext = Ciphertext::default();
        Ok(true)
    }

    fn is_drained(&self, _: &Source, _: usize, _: usize) -> bool {
        self.is_socket_drained && !self.has_inside()
    }

    fn wants_flush(&self) -> bool {
        self.shared.has_output.load(Ordering::Acquire)
    }

    fn glance(&mut self) -> Option<bool> {
        self.has_inside().then_some(true)
    }

    fn channel(&mut self) -> ChannelState {
        match &self.mode {
            Mode::Undecided { .. } => ChannelState::Undecided,
            Mode::Plain { is_refused: true } => ChannelState::EncryptionMissing,
            Mode::Plain { is_refused: false } => ChannelState::Plain,
            Mode::Tls => match self.channel.take() {
                Some(channel) => ChannelState::Encrypted(channel),
                None => ChannelState::Undecided,
            },
        }
    }
}
