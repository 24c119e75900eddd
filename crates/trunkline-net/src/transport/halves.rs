//! The two halves of a socket's byte stream, for any kind of socket.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendFlags, Shutdown};
use socket2::SockRef;

use crate::transport::shm::passing;
use crate::transport::{ReceiveHalf, SendHalf};

/// A connected, non-blocking stream socket.
pub(crate) trait StreamSocket: AsFd + Send + Sync {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self, buffer)?)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self, bytes, SendFlags::NOSIGNAL)?)
    }

    fn receive_two(&self, [first, second]: [&mut [u8]; 2]) -> io::Result<usize> {
        let mut buffers = [IoSliceMut::new(first), IoSliceMut::new(second)];
        Ok(rustix::io::readv(self, &mut buffers)?)
    }

    fn send_two(&self, [first, second]: [&[u8]; 2]) -> io::Result<usize> {
        let pieces = [IoSlice::new(first), IoSlice::new(second)];
        Ok(rustix::io::writev(self, &pieces)?)
    }

    /// Sends `bytes`, with a descriptor attached to the first byte.
    fn send_with(&self, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
        let _ = (bytes, file);
        Err(ErrorKind::Unsupported.into())
    }

    /// Closes the stream for sending.
    fn finish(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self, Shutdown::Write)?)
    }

    /// Closes the stream and discards unsent data.
    fn abort(&self) -> io::Result<()>;
}

pub(crate) struct SocketReceive<S>(pub(crate) Arc<S>);

pub(crate) struct SocketSend<S>(pub(crate) Arc<S>);

impl<S: StreamSocket> ReceiveHalf for SocketReceive<S> {
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        not_blocked(|| self.0.receive(buffer))
    }

    fn try_read_two(&mut self, first: &mut [u8], second: &mut [u8]) -> io::Result<Option<usize>> {
        not_blocked(|| self.0.receive_two([first, second]))
    }
}

impl<S: StreamSocket> SendHalf for SocketSend<S> {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        not_blocked(|| self.0.send(bytes))
    }

    fn try_write_two(&mut self, first: &[u8], second: &[u8]) -> io::Result<Option<usize>> {
        not_blocked(|| self.0.send_two([first, second]))
    }

    fn try_write_with(&mut self, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<Option<usize>> {
        not_blocked(|| self.0.send_with(bytes, file))
    }

    fn finish(&mut self) {
        // Fails only if the connection is gone, which the other half reports.
        let _ = self.0.finish();
    }

    fn abort(&mut self) {
        // As above.
        let _ = self.0.abort();
    }
}

impl StreamSocket for TcpStream {
    /// Makes the system reset the connection when the socket is closed. If the line is broken in
    /// one direction, an orderly end would wait behind bytes that are never acknowledged.
    fn abort(&self) -> io::Result<()> {
        SockRef::from(self).set_linger(Some(Duration::ZERO))
    }
}

impl StreamSocket for UnixStream {
    fn send_with(&self, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
        passing::send_with(self, bytes, file)
    }

    /// Does nothing special: between two processes of one machine no data is lost, so an orderly
    /// end arrives at once.
    fn abort(&self) -> io::Result<()> {
        self.finish()
    }
}

/// Repeats `operation` while signals interrupt it; returns `None` if it would block.
pub(crate) fn not_blocked(
    mut operation: impl FnMut() -> io::Result<usize>,
) -> io::Result<Option<usize>> {
    loop {
        match operation() {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
