//! Records and plays streams whose elements have a variable size or consist of several parts.

use std::io;
use std::mem::discriminant;
use std::time::Duration;

use trunkline_net::Clock;
use trunkline_record::{ElementSeries, Pace, Segments, VariableRecordError};
use trunkline_stream::{StreamError, ValueReader, ValueWriter};
use trunkline_types::wire::encoded_len;
use trunkline_types::{Tick, Timestamp};

use super::play_variables::{due, speed_of};
use super::{RecordingError, Stopped, StreamPlayed, StreamRecorded, UpdateSource};

/// Maximum number of elements taken from the stream at a time. Their bytes are limited by the
/// stream's buffer.
const ELEMENTS_MAX: usize = 4096;

/// Longest wait before the stop signal is checked: for elements, for space in the stream, or for
/// the time of the next element.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Pause between two attempts to write to a full disk.
const FULL_DISK_WAIT: Duration = Duration::from_millis(100);

/// Settings for recording the elements of a stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RecordElementsOptions {
    /// Interval at which received elements are written to the file. If the program is killed, it
    /// loses at most the elements of one interval.
    pub write_every: Duration,
    /// Interval at which the file is synced to survive a loss of power.
    pub sync_every: Duration,
    /// Elements per second, above 0, from which the times of elements are computed. With `None`,
    /// the time of an element is the moment at which it was taken from the stream.
    pub sample_rate: Option<f64>,
}

impl Default for RecordElementsOptions {
    fn default() -> Self {
        Self {
            write_every: Duration::from_secs(1),
            sync_every: Duration::from_secs(10),
            sample_rate: None,
        }
    }
}

/// Records elements of any type into a file or a series of files until the stream ends or the
/// recording is stopped. Calls `on_turn` after each attempt to read and to write. For elements of a
/// fixed size, [`record_stream`](super::record_stream) is faster.
///
/// While the disk is busy or full, the stream waits and nothing is lost. Elements taken from the
/// stream wait in memory. The memory in use is the limit of the recording, the same amount again
/// for a segment that the file has not accepted yet, and the stream's buffer.
///
/// # Errors
/// [`RecordingError::SampleRate`]: no element was taken. After any other error, the elements taken
/// before the error are written:
///
/// - [`RecordingError::Unwritten`]: some taken elements are not in the recording, because it was
///   stopped while the disk was full, or because the file accepts no more data.
/// - [`RecordingError::Variables`]: after [`VariableRecordError::Removed`], the contents of the
///   file are lost. After [`VariableRecordError::Sync`], all elements taken are in the file, but
///   may not survive a loss of power. After any other cause, all elements taken are in the
///   recording.
/// - [`RecordingError::Stream`]: all elements taken are in the recording, and it is synced.
/// - [`RecordingError::Both`]: several of these errors; that of the stream is last.
pub fn record_elements<S: Segments, O: FnMut(u32) -> io::Result<S>>(
    stream: &mut ValueReader,
    recording: &mut ElementSeries<S, O>,
    options: RecordElementsOptions,
    stopped: &Stopped,
    on_turn: impl FnMut(&ElementSeries<S, O>),
) -> Result<StreamRecorded, RecordingError> {
    let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
    if let Some(rate) = options.sample_rate.filter(|rate| !is_rate(*rate)) {
        return Err(RecordingError::SampleRate { rate });
    }
    let before = recording.progress().updates;
    let clock = Clock::new();
    let mut recorder = ElementRecorder {
        since: clock.now(),
        clock,
        recording,
        stopped,
        times: Times {
            rate: options.sample_rate,
            first: None,
            next: 0,
        },
        done: StreamRecorded::default(),
        on_turn,
    };
    let recorded = recorder.record(stream, options);
    // Writes the elements taken so far, whatever the reason for the end.
    let written = recorder.end();
    let (done, recording) = (recorder.done, recorder.recording);
    // Counts elements that the recording could not accept, and elements that still wait.
    let unaccepted = done
        .elements
        .saturating_sub(recording.progress().updates - before);
    let elements = unaccepted + recording.discard_waiting();
    let (recording_error, stream_error) = match recorded {
        Ok(()) => (None, None),
        Err(RecordingError::Variables(error)) => (Some(error), None),
        Err(error) => (None, Some(error)),
    };
    match combine_errors(written.err(), recording_error, stream_error, elements) {
        None => Ok(done),
        Some(error) => Err(error),
    }
}

/// Combines the errors of the final writes, of the recording before them, and of the stream. Errors
/// that lose elements or endanger them come first. `elements` is the number of elements that no
/// file contains.
fn combine_errors(
    at_end: Option<Box<VariableRecordError>>,
    while_recording: Option<Box<VariableRecordError>>,
    stream_error: Option<RecordingError>,
    elements: u64,
) -> Option<RecordingError> {
    let mut file_errors: Vec<_> = at_end.into_iter().chain(while_recording).collect();
    // The final writes often fail for the same reason as earlier writes.
    file_errors.dedup_by_key(|error| discriminant(&**error));
    file_errors.sort_by_key(|error| {
        !matches!(
            **error,
            VariableRecordError::Removed { .. } | VariableRecordError::Sync { .. }
        )
    });
    let unwritten = file_errors.pop_if(|_| elements > 0).map(|source| {
        let source = match *source {
            // This error promises no further attempt, because none is made.
            VariableRecordError::File(error) => error.into(),
            source => source.into(),
        };
        RecordingError::Unwritten { elements, source }
    });
    let file_errors = file_errors.into_iter().map(RecordingError::Variables);
    let all = file_errors.chain(unwritten).chain(stream_error);
    all.rev().reduce(|second, first| RecordingError::Both {
        first: Box::new(first),
        second: Box::new(second),
    })
}

struct ElementRecorder<'a, S, O, F> {
    recording: &'a mut ElementSeries<S, O>,
    clock: Clock,
    since: Tick,
    stopped: &'a Stopped,
    times: Times,
    done: StreamRecorded,
    on_turn: F,
}

impl<S, O, F> ElementRecorder<'_, S, O, F>
where
    S: Segments,
    O: FnMut(u32) -> io::Result<S>,
    F: FnMut(&ElementSeries<S, O>),
{
    fn now(&self) -> Duration {
        self.clock.now().since(self.since)
    }

    /// Records until the stream ends or the recording is stopped.
    fn record(
        &mut self,
        stream: &mut ValueReader,
        options: RecordElementsOptions,
    ) -> Result<(), RecordingError> {
        let (mut write_at, mut sync_at) = (options.write_every, options.sync_every);
        while !self.done.has_ended && !self.stopped.is_stopped() {
            if self.recording.has_room() {
                self.take(stream)?;
            }
            let now = self.now();
            let written = if now >= sync_at {
                write_at = now.saturating_add(options.write_every);
                sync_at = now.saturating_add(options.sync_every);
                self.recording.sync(now)
            } else if now >= write_at || !self.recording.has_room() {
                write_at = now.saturating_add(options.write_every);
                self.recording.write_out(now)
            } else {
                Ok(())
            };
            (self.on_turn)(self.recording);
            match written {
                // A full disk does not stop the recorder from taking elements while memory has
                // space.
                Err(error) if error.is_disk_full() => {
                    if !self.recording.has_room() && self.stopped.wait_for(FULL_DISK_WAIT) {
                        break;
                    }
                }
                written => written?,
            }
        }
        Ok(())
    }

    /// Takes the elements that have arrived. Waits briefly for the first element.
    fn take(&mut self, stream: &mut ValueReader) -> Result<(), RecordingError> {
        let values = match stream.read_up_to(ELEMENTS_MAX, Some(CHECK_INTERVAL)) {
            Ok(values) => values,
            Err(StreamError::Timeout { .. }) => return Ok(()),
            Err(StreamError::Ended) => {
                self.done.has_ended = true;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.done.elements += values.len() as u64;
        let taken_at = self.clock.wall();
        for value in values {
            self.done.bytes += encoded_len(&value) as u64;
            let time = self.times.next(taken_at);
            self.recording.take(value, time)?;
        }
        Ok(())
    }

    /// Writes and syncs everything. While the disk is full, repeats this until stopped.
    fn end(&mut self) -> Result<(), Box<VariableRecordError>> {
        loop {
            let now = self.now();
            let finished = self.recording.finish(now);
            (self.on_turn)(self.recording);
            match finished {
                Err(error) if error.is_disk_full() && !self.stopped.wait_for(FULL_DISK_WAIT) => {}
                finished => return finished.map_err(Box::new),
            }
        }
    }
}

/// Computes the times of elements.
struct Times {
    rate: Option<f64>,
    /// Time at which the first element was taken.
    first: Option<Timestamp>,
    /// Index of the next element.
    next: u64,
}

impl Times {
    fn next(&mut self, taken_at: Timestamp) -> Timestamp {
        let Some(rate) = self.rate else {
            return taken_at;
        };
        let first = *self.first.get_or_insert(taken_at);
        let offset = self.next as f64 / rate * 1e9;
        self.next += 1;
        Timestamp::from_nanos(first.as_nanos().saturating_add(offset as i64))
    }
}

/// Plays the values of one variable into a stream of the same type, each value at its recorded
/// time, until the values end or playing is stopped. `variable` is the index in
/// [`UpdateSource::variables`]. Calls `on_elements` after each attempt to write an element. Plays
/// recordings of [`record_elements`], and any other recorded variable.
///
/// While the stream is full, playing waits: nothing is lost, and all later elements are late by the
/// same time. Unreadable text is omitted and counted in the variable's `unreadable`. A stream
/// carries neither qualities nor gaps: elements with a bad or uncertain quality are played like all
/// others, and [`StreamPlayed`] counts these elements and the gaps.
///
/// # Errors
/// [`RecordingError::OtherElements`]: nothing was played. After any other error, the stream
/// contains the elements that were played before the error.
pub fn play_elements_into_stream(
    recorded: &mut impl UpdateSource,
    variable: usize,
    pace: Pace,
    stream: &mut ValueWriter,
    stopped: &Stopped,
    on_elements: impl FnMut(&StreamPlayed),
) -> Result<StreamPlayed, RecordingError> {
    let mut done = play_elements(recorded, variable, pace, stream, stopped, on_elements)?;
    // Some sources detect gaps only while they are read.
    if let Some(known) = recorded.variables().get(variable) {
        done.gaps = known.gaps;
        done.lost = known.lost;
        done.unknown_gaps = known.unknown_gaps;
    }
    Ok(done)
}

fn play_elements(
    recorded: &mut impl UpdateSource,
    variable: usize,
    pace: Pace,
    stream: &mut ValueWriter,
    stopped: &Stopped,
    mut on_elements: impl FnMut(&StreamPlayed),
) -> Result<StreamPlayed, RecordingError> {
    let speed = speed_of(pace)?;
    let known = recorded.variables().get(variable);
    if let Some(known) = known.filter(|known| known.data_type != *stream.data_type()) {
        return Err(RecordingError::OtherElements {
            recorded: known.data_type.clone(),
            stream: stream.data_type().clone(),
        });
    }
    recorded.select_only(variable);
    let clock = Clock::new();
    let since = clock.now();
    let late = |due, speed: Option<f64>| match speed {
        Some(_) => clock.now().since(since).saturating_sub(due),
        None => Duration::ZERO,
    };
    let mut done = StreamPlayed::default();
    while let Some(element) = recorded.next_update()? {
        let due = due(element.after, speed).saturating_add(done.lateness);
        loop {
            let early = due.saturating_sub(clock.now().since(since));
            if early.is_zero() {
                break;
            }
            on_elements(&done);
            if stopped.wait_for(early.min(CHECK_INTERVAL)) {
                return Ok(done);
            }
        }
        let mut was_full = false;
        loop {
            if stopped.is_stopped() {
                return Ok(done);
            }
            match stream.write(&element.value, Some(CHECK_INTERVAL)) {
                Ok(()) => break,
                Err(StreamError::Timeout { .. }) => was_full = true,
                Err(error) => return Err(error.into()),
            }
            on_elements(&StreamPlayed {
                lateness: done.lateness + late(due, speed),
                ..done
            });
        }
        done.rows += 1;
        done.not_good += u64::from(!element.quality.is_good());
        if was_full {
            done.lateness += late(due, speed);
        }
        on_elements(&done);
    }
    done.is_complete = true;
    Ok(done)
}
