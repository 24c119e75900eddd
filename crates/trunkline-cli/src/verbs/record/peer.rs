//! Waits for the peer of a stream.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use trunkline::stream::StreamError;

use super::problem;
use crate::{CliError, Context};

const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Creates an endpoint of the stream `url`, and returns it when its peer is connected, or `None` when
/// `must_end` returns true. A note on the terminal says that the command is waiting.
pub(in crate::verbs) fn wait_for_peer<T: Send + 'static>(
    url: &str,
    create: impl FnOnce() -> Result<T, StreamError> + Send + 'static,
    must_end: impl Fn() -> bool,
    context: &Context,
) -> Result<Option<T>, CliError> {
    let (sender, receiver) = channel();
    // If the command ends first, this thread ends with the process.
    std::thread::Builder::new()
        .name("record-peer".to_owned())
        .spawn(move || {
            let _ = sender.send(create());
        })
        .map_err(|error| problem(&error.into()))?;
    let mut is_note_due = context.terminal.shows_progress();
    loop {
        match receiver.recv_timeout(CHECK_INTERVAL) {
            Ok(Ok(stream)) => return Ok(Some(stream)),
            Ok(Err(error)) => return Err(crate::verbs::stream::problem(&error).into()),
            Err(RecvTimeoutError::Timeout) if must_end() => return Ok(None),
            Err(RecvTimeoutError::Timeout) if is_note_due => {
                is_note_due = false;
                let line = format!("waiting for the peer of {url}; press Ctrl-C to stop");
                context.terminal.note(&line)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let error = std::io::Error::other("waiting for the peer of the stream failed");
                return Err(problem(&error.into()).into());
            }
        }
    }
}
