//! The half that encrypts and sends.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::TcpStream;

use rustls::Connection;
use trunkline_proto::EndKeys;

use crate::sync::{Arc, MutexGuard, Ordering, lock};
use crate::transport::SendHalf;
use crate::transport::halves::{StreamSocket, not_blocked};
use crate::transport::tls::{Failure, Phase, SEALED_MAX, Shared, ends};

/// A buffer that has grown beyond this size is freed after [`FEW_BATCHES`] batches for which a smaller
/// one suffices.
const RETAINED_MAX: usize = 16 << 10;
const FEW_BATCHES: u8 = 16;

pub(super) struct TlsSend {
    shared: Arc<Shared>,
    /// The last phase seen. `Plain` and `Tls` are final.
    phase: Phase,
    /// This end may speak first, without encryption, because the peer need not speak TLS.
    may_speak_first: bool,
    /// Encrypted bytes, in order, and the number of those that the socket has taken.
    sealed: Vec<u8>,
    sent: usize,
    /// Small batches in succession.
    few_batches: u8,
    end: End,
    /// The next connection has been prepared, and may not have begun.
    is_changing: bool,
}

/// How far the end of the stream is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Open,
    /// The socket is closed for sending once it has taken everything.
    Finishing,
    Finished,
    Aborted,
    /// Only the end of the encryption is still to be sent.
    Releasing,
    /// Another program has the socket.
    Released,
}

impl TlsSend {
    pub(super) fn server(shared: Arc<Shared>, is_tls_required: bool) -> Self {
        Self::new(shared, Phase::Undecided, !is_tls_required)
    }

    pub(super) fn client(shared: Arc<Shared>) -> Self {
        Self::new(shared, Phase::Tls, false)
    }

    fn new(shared: Arc<Shared>, phase: Phase, may_speak_first: bool) -> Self {
        Self {
            shared,
            phase,
            may_speak_first,
            sealed: Vec::new(),
            sent: 0,
            few_batches: 0,
            end: End::Open,
            is_changing: false,
        }
    }

    /// Returns true while the connection has been ended for the next one, which has not begun.
    fn is_between(&mut self) -> bool {
        self.is_changing = self.is_changing && lock(&self.shared.next).is_some();
        self.is_changing
    }

    fn socket(&self) -> &TcpStream {
        &self.shared.socket
    }

    fn phase(&mut self) -> Phase {
        if matches!(self.phase, Phase::Undecided | Phase::Refused) {
            self.phase = self.shared.phase();
        }
        self.phase
    }

    /// Sends everything that is encrypted, and what the receive half has made the connection
    /// produce. Returns false if the socket has no room.
    pub(super) fn push(&mut self) -> io::Result<bool> {
        if self.end == End::Finished {
            // The socket takes nothing more. Answers to a peer that still sends are dropped.
            self.shared.has_output.store(false, Ordering::Release);
            return Ok(true);
        }
        loop {
            if !self.push_sealed()? {
                return Ok(false);
            }
            // Pairs with the receive half, which sets the mark after it has used the connection.
            if !self.shared.has_output.swap(false, Ordering::AcqRel) {
                break;
            }
            if let Some(connection) = lock(&self.shared.connection).as_mut() {
                take_output(connection, &mut self.sealed);
            }
        }
        if self.end == End::Finishing {
            self.end = End::Finished;
            // Fails only if the connection is gone, which the other half reports.
            let _ = self.socket().finish();
        }
        Ok(true)
    }

    fn push_sealed(&mut self) -> io::Result<bool> {
        if self.sealed.is_empty() {
            return Ok(true);
        }
        while let Some(rest) = self.sealed.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match not_blocked(|| self.shared.socket.send(rest))? {
                Some(count) => self.sent += count,
                None => return Ok(false),
            }
        }
        self.few_batches = match self.sealed.len() < RETAINED_MAX {
            true => self.few_batches.saturating_add(1),
            false => 0,
        };
        self.sent = 0;
        self.sealed.clear();
        if self.sealed.capacity() > RETAINED_MAX && self.few_batches >= FEW_BATCHES {
            self.sealed = Vec::new();
        }
        Ok(true)
    }

    /// Announces the end of the connection, behind everything that was sent.
    fn end_encryption(&mut self) {
        if let Some(connection) = lock(&self.shared.connection).as_mut() {
            connection.send_close_notify();
            take_output(connection, &mut self.sealed);
        }
    }

    /// Encrypts as much as is sent at a time.
    fn seal(&mut self, first: &[u8], second: &[u8]) -> io::Result<Option<usize>> {
        let mut guard: MutexGuard<'_, _> = lock(&self.shared.connection);
        let Some(connection) = guard.as_mut().filter(|one| !one.is_handshaking()) else {
            return Ok(None);
        };
        let first = &first[..first.len().min(SEALED_MAX)];
        let second = &second[..second.len().min(SEALED_MAX - first.len())];
        let mut writer = connection.writer();
        let count = match (first, second) {
            (one, []) | ([], one) => writer.write(one)?,
            _ => writer.write_vectored(&[IoSlice::new(first), IoSlice::new(second)])?,
        };
        take_output(connection, &mut self.sealed);
        Ok((count > 0).then_some(count))
    }
}

/// Moves what the connection has to send to the end of `sealed`.
fn take_output(connection: &mut Connection, sealed: &mut Vec<u8>) {
    if !connection.is_handshaking() {
        // An answer to a request for new keys waits for the next write, and an empty one suffices. A
        // failed connection refuses it, and has only its alert to send.
        let _ = connection.writer().write(&[]);
    }
    while connection.wants_write() {
        // Writing to memory cannot fail.
        if !connection.write_tls(sealed).is_ok_and(|count| count > 0) {
            break;
        }
    }
}

impl SendHalf for TlsSend {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.try_write_two(bytes, &[])
    }

    fn try_write_two(&mut self, first: &[u8], second: &[u8]) -> io::Result<Option<usize>> {
        if self.phase() == Phase::Undecided && self.may_speak_first {
            self.phase = self.shared.change(Phase::Undecided, Phase::Plain);
        }
        let is_between = self.is_between();
        match self.phase {
            Phase::Undecided | Phase::Refused => Ok(None),
            Phase::Plain if second.is_empty() => not_blocked(|| self.shared.socket.send(first)),
            Phase::Plain => not_blocked(|| self.shared.socket.send_two([first, second])),
            Phase::Tls if self.end != End::Open => Err(ErrorKind::BrokenPipe.into()),
            Phase::Tls if is_between => {
                self.push()?;
                Ok(None)
            }
            Phase::Tls => {
                if !self.push()? {
                    return Ok(None);
                }
                let count = self.seal(first, second)?;
                // The bytes are taken even if the socket has no room for all of them: `flush`
                // sends the rest.
                self.push_sealed()?;
                Ok(count)
            }
        }
    }

    fn flush(&mut self) -> io::Result<bool> {
        match self.phase() {
            Phase::Tls => self.push(),
            Phase::Undecided | Phase::Plain | Phase::Refused => Ok(true),
        }
    }

    fn is_open(&self) -> bool {
        match self.shared.phase() {
            Phase::Undecided => self.may_speak_first,
            Phase::Plain | Phase::Refused => true,
            Phase::Tls if self.is_changing && lock(&self.shared.next).is_some() => false,
            Phase::Tls => lock(&self.shared.connection)
                .as_ref()
                .is_some_and(|connection| !connection.is_handshaking()),
        }
    }

    fn release(&mut self) -> io::Result<bool> {
        if self.phase() != Phase::Tls || self.end == End::Released {
            return Ok(true);
        }
        if self.end == End::Open {
            self.end_encryption();
            self.end = End::Releasing;
        }
        if !self.push_sealed()? {
            return Ok(false);
        }
        self.end = End::Released;
        self.shared.is_encrypted.store(false, Ordering::Release);
        Ok(true)
    }

    fn continue_with(&mut self, keys: &EndKeys) -> io::Result<()> {
        if self.phase() != Phase::Tls || self.end != End::Open || self.is_between() {
            return Err(ErrorKind::Unsupported.into());
        }
        let next = ends::client(keys).map_err(Failure::Tls)?;
        // Set first: the receive half must find it when the other end answers.
        *lock(&self.shared.next) = Some(next.into());
        self.is_changing = true;
        self.end_encryption();
        self.push_sealed()?;
        Ok(())
    }

    fn fall_back_to_plaintext(&mut self) {
        for phase in [Phase::Undecided, Phase::Refused] {
            self.phase = self.shared.change(phase, Phase::Plain);
        }
    }

    fn finish(&mut self) {
        if self.end != End::Open {
            return;
        }
        self.end = End::Finishing;
        if self.phase() == Phase::Tls
            && let Some(connection) = lock(&self.shared.connection).as_mut()
            && !connection.is_handshaking()
        {
            // Does nothing after an alert.
            connection.send_close_notify();
            self.shared.has_output.store(true, Ordering::Release);
        }
        // If there is no room, `flush` completes it. If the connection is gone, the other half
        // reports that.
        let _ = self.push();
    }

    fn abort(&mut self) {
        self.end = End::Aborted;
        // As above.
        let _ = self.socket().abort();
    }
}

impl Drop for TlsSend {
    fn drop(&mut self) {
        // Without this, the other end could not tell an end from a cut.
        if self.phase() == Phase::Tls {
            self.finish();
        }
    }
}
