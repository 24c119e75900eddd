//! Waits for the other end of a stream, until interrupted.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use trunkline::stream::StreamError;

use super::problem;
use crate::{CliError, Context};

const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Returns an end of the stream `url` once it is connected to the other one; `None` if the command
/// was to end before. On a terminal it shows that it waits.
pub(in crate::verbs) fn meet<T: Send + 'static>(
    url: &str,
    create: impl FnOnce() -> Result<T, StreamError> + Send + 'static,
    must_end: impl Fn() -> bool,
    context: &Context,
) -> Result<Option<T>, CliError> {
    let (sender, receiver) = channel();
    // If the command ends before, this thread ends with the process.
    std::thread::Builder::new()
        .name("record-meeting".to_owned())
        .spawn(move || {
            let _ = sender.send(create());
        })
        .map_err(|error| problem(&error.into()))?;
    let mut has_said = !context.terminal.shows_progress();
    loop {
        match receiver.recv_timeout(CHECK_INTERVAL) {
            Ok(Ok(stream)) => return Ok(Some(stream)),
            Ok(Err(error)) => return Err(crate::verbs::stream::problem(&error).into()),
            Err(RecvTimeoutError::Timeout) if must_end() => return Ok(None),
            Err(RecvTimeoutError::Timeout) if !has_said => {
                has_said = true;
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
