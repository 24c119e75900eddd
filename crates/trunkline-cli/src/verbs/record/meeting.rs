//! Waiting for the other end of a stream, until it is to end.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use trunkline::stream::StreamError;

use super::problem;
use crate::problem::Stop;
use crate::verbs::Context;

/// How long the other end is waited for before it is looked whether to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An end of the stream `url`, as soon as it has its other one; none where it was to end before.
/// On a terminal it says that it waits.
///
/// # Errors
/// What `create` comes to; it does not come within the time that this was given.
pub(in crate::verbs) fn meet<T: Send + 'static>(
    url: &str,
    create: impl FnOnce() -> Result<T, StreamError> + Send + 'static,
    is_to_end: impl Fn() -> bool,
    context: &Context,
) -> Result<Option<T>, Stop> {
    let (sender, receiver) = channel();
    // When it was to end before, this goes with the process.
    std::thread::Builder::new()
        .name("record-meeting".to_owned())
        .spawn(move || {
            let _ = sender.send(create());
        })
        .map_err(|error| problem(&error.into()))?;
    let mut has_said = !context.terminal.shows_progress();
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(Ok(stream)) => return Ok(Some(stream)),
            Ok(Err(error)) => return Err(crate::verbs::stream::problem(&error).into()),
            Err(RecvTimeoutError::Timeout) if is_to_end() => return Ok(None),
            Err(RecvTimeoutError::Timeout) if !has_said => {
                has_said = true;
                let line = format!("waiting for the other end of {url}; Ctrl-C ends it");
                context.terminal.note(&line)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let error = std::io::Error::other("the stream cannot be waited for");
                return Err(problem(&error.into()).into());
            }
        }
    }
}
