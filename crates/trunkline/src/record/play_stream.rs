//! Recordings into streams.

use std::time::Duration;

use trunkline_net::Clock;
use trunkline_record::{PacedDrain, TdmsPlayback};
use trunkline_stream::{StreamError, ValueWriter, element_bytes};
use trunkline_types::Tick;

use super::{RecordingError, Stopped};

/// Rows that are given to the stream at a time.
const ROWS_MAX: usize = 1 << 16;

/// How long it is waited for something before it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What was played into a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StreamPlayed {
    /// Rows that went into the stream.
    pub rows: u64,
    /// How often a row was due and was not read from the file yet.
    pub underruns: u64,
    /// By how much the last row was later than it should have been: because it was not read yet, or
    /// because the stream was full.
    pub lateness: Duration,
    /// Elements in the stream that were not good when they were recorded. A stream has no quality.
    /// Rows have none either.
    pub not_good: u64,
    /// Places where the recording says that elements are missing: the recorder had lost them. They
    /// are of the whole recording, played or not.
    pub gaps: u64,
    /// Elements that are missing there, as far as the recorder knew.
    pub lost: u64,
    /// Gaps of which it did not know how many elements are missing.
    pub unknown_gaps: u64,
    /// Everything was played; otherwise it was stopped.
    pub is_complete: bool,
}

/// Plays a recording into a stream until it is over or stopped, each row when it is due; `on_rows`
/// is called after each attempt to give some. The stream's elements are the rows, as they lie in
/// memory.
///
/// A row is copied once, from the ring to where the stream sends it from. A stream that is full
/// holds playing up: nothing is lost, and all rows behind are later by as much.
///
/// # Errors
/// [`RecordingError`]: what was played before is in the stream.
pub fn play_into_stream(
    playback: &mut TdmsPlayback,
    drain: &mut PacedDrain,
    stream: &mut ValueWriter,
    stopped: &Stopped,
    mut on_rows: impl FnMut(&StreamPlayed),
) -> Result<StreamPlayed, RecordingError> {
    let row_bytes = playback.recording().row_bytes();
    let of_stream = element_bytes(stream.data_type());
    if of_stream != Some(row_bytes) {
        return Err(RecordingError::OtherRows {
            data_type: stream.data_type().clone(),
            element_bytes: of_stream,
            row_bytes,
        });
    }
    let clock = Clock::new();
    let since = clock.now();
    let elapsed = |now: Tick| now.since(since);
    let gaps = playback.recording().gaps();
    let mut done = StreamPlayed {
        gaps: gaps.len() as u64,
        lost: gaps
            .iter()
            .fold(0, |all: u64, gap| all.saturating_add(gap.lost)),
        ..StreamPlayed::default()
    };
    while !drain.is_over() && !stopped.now() {
        playback.fill()?;
        let written = stream.write_bytes_with(ROWS_MAX, Some(LOOK_EVERY), |space| {
            let rows = drain.take(elapsed(clock.now()), space)?;
            // As many as there is space for.
            Ok::<_, RecordingError>(rows as usize * row_bytes)
        });
        let written = match written {
            Ok(written) => written as u64,
            // Without room: what is due is late from now on, until there is some.
            Err(RecordingError::Stream(error)) if is_late(&error) => {
                drain.take(elapsed(clock.now()), &mut [])?
            }
            Err(error) => return Err(error),
        };
        done.rows += written;
        done.underruns = drain.underruns();
        done.lateness = drain.lateness();
        on_rows(&done);
        if written > 0 {
            continue;
        }
        // Either a row is not due yet, or not there yet.
        let now = elapsed(clock.now());
        let due = drain.next_due()?.map(|due| due.saturating_sub(now));
        match due.filter(|due| !due.is_zero()) {
            Some(due) if stopped.within(due.min(LOOK_EVERY)) => break,
            Some(_) => {}
            None => playback.wait_for_one(LOOK_EVERY)?,
        }
    }
    done.is_complete = drain.is_over();
    Ok(done)
}

fn is_late(error: &StreamError) -> bool {
    matches!(error, StreamError::Timeout { .. })
}
