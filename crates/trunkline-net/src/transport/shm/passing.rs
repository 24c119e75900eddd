//! Passing a file from one process to another through a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Maximum number of descriptors accepted at once; a peer that sends more offers nothing.
const FILES_MAX: usize = 1;

/// Sends as many of `bytes` as there is room for, with the file attached to the first byte. A
/// program that does not check for the file never notices it, and the system closes it.
pub(crate) fn send_with(
    stream: &UnixStream,
    bytes: &[u8],
    file: BorrowedFd<'_>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    control.push(SendAncillaryMessage::ScmRights(&files));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut control,
        flags,
    )?)
}

/// Receives bytes and the file sent with them, if there is exactly one. Any others are closed, by
/// this program or, if it has no descriptor left for them, by the system.
pub(crate) fn receive_with(
    stream: &UnixStream,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(stream, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    let file = files.pop().filter(|_| files.is_empty());
    Ok((received.bytes, file))
}
