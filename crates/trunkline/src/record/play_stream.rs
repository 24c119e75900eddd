//! Plays recordings into streams.

use std::time::Duration;

use trunkline_net::Clock;
use trunkline_record::{PacedDrain, TdmsPlayback};
use trunkline_stream::{StreamError, ValueWriter, element_bytes};
use trunkline_types::Tick;

use super::{RecordingError, Stopped};

/// Maximum number of rows passed to the stream at a time.
const ROWS_MAX: usize = 1 << 16;

/// Longest wait before the stop signal is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Counts of a recording played into a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StreamPlayed {
    /// Rows written to the stream.
    pub rows: u64,
    /// Number of rows that were due before they had been read from the file.
    pub underruns: u64,
    /// Delay of the last row, because the file was read too slowly or the stream was full.
    pub lateness: Duration,
    /// Number of played elements whose quality was not good when they were recorded; 0 for
    /// recordings of rows, which have no qualities. The stream does not carry the quality.
    pub not_good: u64,
    /// Number of gaps in the whole recording, played or not. A gap is a place where the recorder
    /// lost elements.
    pub gaps: u64,
    /// Number of elements lost in these gaps, if the recorder knew it.
    pub lost: u64,
    /// Number of gaps of unknown length.
    pub unknown_gaps: u64,
    /// True if everything was played; false if playing was stopped.
    pub is_complete: bool,
}

/// Plays a recording into a stream, each row at its recorded time, until the recording ends or
/// playing is stopped. The elements of the stream are the rows in their memory layout. Calls
/// `on_rows` after each attempt to write rows.
///
/// Each row is copied once, from the ring to the memory from which the stream sends. While the
/// stream is full, playing waits: nothing is lost, and all later rows are late by the same time.
///
/// # Errors
/// [`RecordingError`]: the stream contains the rows that were played before the error.
pub fn play_into_stream(
    playback: &mut TdmsPlayback,
    drain: &mut PacedDrain,
    stream: &mut ValueWriter,
    stopped: &Stopped,
    mut on_rows: impl FnMut(&StreamPlayed),
) -> Result<StreamPlayed, RecordingError> {
    let row_bytes = playback.recording().row_bytes();
    let stream_bytes = element_bytes(stream.data_type());
    if stream_bytes != Some(row_bytes) {
        return Err(RecordingError::RowSizeMismatch {
            data_type: stream.data_type().clone(),
            element_bytes: stream_bytes,
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
            .fold(0, |sum: u64, gap| sum.saturating_add(gap.lost)),
        ..StreamPlayed::default()
    };
    while !drain.is_over() && !stopped.is_stopped() {
        playback.fill()?;
        let written = stream.write_bytes_with(ROWS_MAX, Some(CHECK_INTERVAL), |space| {
            let rows = drain.take(elapsed(clock.now()), space)?;
            // The drain writes as many due rows as fit into the space.
            Ok::<_, RecordingError>(rows as usize * row_bytes)
        });
        let written = match written {
            Ok(written) => written as u64,
            // The stream is full. Rows that are due now are late until it has space.
            Err(RecordingError::Stream(error)) if is_timeout(&error) => {
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
        // The next row is not due yet, or has not been read yet.
        let now = elapsed(clock.now());
        let due = drain.next_due()?.map(|due| due.saturating_sub(now));
        match due.filter(|due| !due.is_zero()) {
            Some(due) if stopped.wait_for(due.min(CHECK_INTERVAL)) => break,
            Some(_) => {}
            None => playback.wait_for_one(CHECK_INTERVAL)?,
        }
    }
    done.is_complete = drain.is_over();
    Ok(done)
}

fn is_timeout(error: &StreamError) -> bool {
    matches!(error, StreamError::Timeout { .. })
}
