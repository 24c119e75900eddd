//! Reads standard input without read-ahead, so that no more is read than the stream can buffer.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{CliError, Problem};

/// Standard input, not buffered by this program.
#[derive(Debug)]
pub(super) struct Input(File);

impl Input {
    pub(super) fn new() -> Result<Self, CliError> {
        let file = io::stdin().as_fd().try_clone_to_owned();
        Ok(Self(file.map_err(failed)?.into()))
    }

    /// Waits for input or its end. Returns false after `timeout` or a signal.
    pub(super) fn is_ready(&self, timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).ok();
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Reads the available input. Returns 0 at its end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, CliError> {
        loop {
            match self.0.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(failed),
            }
        }
    }
}

fn failed(error: io::Error) -> CliError {
    let sentence = format!("standard input cannot be read: {error}");
    Problem::failed("input", sentence).into()
}
