//! Records and plays streams with elements of variable size, or elements that consist of parts.

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

/// Maximum number of elements taken from the stream at a time. The stream's buffer bounds their
/// bytes.
const TAKEN_MAX: usize = 4096;

/// Longest wait (for elements, for room in the stream, or for the time of the next element) before
/// the stop signal is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Pause between two attempts to write to a full disk.
const FULL_DISK_WAIT: Duration = Duration::from_millis(100);

/// Settings for recording the elements of a stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RecordElementsOptions {
    /// Interval at which received elements are written to the file: the most that is lost if the
    /// program is killed.
    pub write_every: Duration,
    /// Interval at which the file is synced to survive a loss of power.
    pub sync_every: Duration,
    /// Elements per second, above 0, from which the times of elements are computed. `None`: each
    /// element gets the time at which it was taken from the stream.
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

/// Records elements of any type into a file or a series until the stream ends or the recording is
/// stopped. `on_turn` is called after each attempt to read and to write. Elements of a fixed size
/// are recorded faster by [`record_stream`](super::record_stream).
///
/// The stream waits while the disk is busy or full: nothing is lost. Elements taken from the stream
/// wait in memory. Memory use is the bytes that the recording allows, the same amount again for a
/// segment that the file has not accepted yet, and the stream's buffer.
///
/// # Errors
/// [`RecordingError::SampleRate`]: nothing was taken. After any other error, the elements taken
/// before are written:
///
/// - [`RecordingError::Unwritten`]: some taken elements are not in the recording, because it was
///   stopped while the disk was full, or because the file accepts no more data.
/// - [`RecordingError::Variables`]. With [`VariableRecordError::Removed`] the contents of the file
///   are lost. With [`VariableRecordError::Sync`] all elements taken are in the file, but may not
///   survive a loss of power. Otherwise all elements taken are in the recording.
/// - [`RecordingError::Stream`]: all elements taken are in the recording, and synced.
/// - [`RecordingError::Both`]: several of these, the stream's last.
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
    let mut turns = Turns {
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
    let recorded = turns.record(stream, options);
    // The elements taken so far are written, whatever the reason for the end.
    let written = turns.end();
    let (done, recording) = (turns.done, turns.recording);
    // Elements that the recording could not accept, and elements that are still waiting.
    let untaken = done
        .elements
        .saturating_sub(recording.progress().updates - before);
    let elements = untaken + recording.discard_waiting();
    let (of_recording, of_stream) = match recorded {
        Ok(()) => (None, None),
        Err(RecordingError::Variables(error)) => (Some(error), None),
        Err(error) => (None, Some(error)),
    };
    match together(written.err(), of_recording, of_stream, elements) {
        None => Ok(done),
        Some(error) => Err(error),
    }
}

/// Combines the errors of the last writes, of the recording before them, and of the stream. Errors
/// that cost elements or safety come first. `elements` is the number of elements that no file
/// contains.
fn together(
    at_end: Option<Box<VariableRecordError>>,
    before: Option<Box<VariableRecordError>>,
    of_stream: Option<RecordingError>,
    elements: u64,
) -> Option<RecordingError> {
    let mut of_file: Vec<_> = at_end.into_iter().chain(before).collect();
    // The last writes often fail in the same way as earlier ones.
    of_file.dedup_by_key(|error| discriminant(&**error));
    of_file.sort_by_key(|error| {
        !matches!(
            **error,
            VariableRecordError::Removed { .. } | VariableRecordError::Sync { .. }
        )
    });
    let unwritten = of_file.pop_if(|_| elements > 0).map(|source| {
        let source = match *source {
            // There are no more retries at this point.
            VariableRecordError::File(error) => error.into(),
            source => source.into(),
        };
        RecordingError::Unwritten { elements, source }
    });
    let of_file = of_file.into_iter().map(RecordingError::Variables);
    let all = of_file.chain(unwritten).chain(of_stream);
    all.rev().reduce(|second, first| RecordingError::Both {
        first: Box::new(first),
        second: Box::new(second),
    })
}

struct Turns<'a, S, O, F> {
    recording: &'a mut ElementSeries<S, O>,
    clock: Clock,
    since: Tick,
    stopped: &'a Stopped,
    times: Times,
    done: StreamRecorded,
    on_turn: F,
}

impl<S, O, F> Turns<'_, S, O, F>
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
        while !self.done.has_ended && !self.stopped.now() {
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
                // Continues to take elements while memory has room.
                Err(error) if error.is_disk_full() => {
                    if !self.recording.has_room() && self.stopped.within(FULL_DISK_WAIT) {
                        break;
                    }
                }
                written => written?,
            }
        }
        Ok(())
    }

    /// Takes the elements that have arrived; waits briefly for the first.
    fn take(&mut self, stream: &mut ValueReader) -> Result<(), RecordingError> {
        let values = match stream.read_up_to(TAKEN_MAX, Some(CHECK_INTERVAL)) {
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

    /// Writes and syncs everything. While the disk is full, it retries until stopped.
    fn end(&mut self) -> Result<(), Box<VariableRecordError>> {
        loop {
            let now = self.now();
            let finished = self.recording.finish(now);
            (self.on_turn)(self.recording);
            match finished {
                Err(error) if error.is_disk_full() && !self.stopped.within(FULL_DISK_WAIT) => {}
                finished => return finished.map_err(Box::new),
            }
        }
    }
}

struct Times {
    rate: Option<f64>,
    /// Time at which the first element was taken.
    first: Option<Timestamp>,
    next: u64,
}

impl Times {
    fn next(&mut self, taken_at: Timestamp) -> Timestamp {
        let Some(rate) = self.rate else {
            return taken_at;
        };
        let first = *self.first.get_or_insert(taken_at);
        let after = self.next as f64 / rate * 1e9;
        self.next += 1;
        Timestamp::from_nanos(first.as_nanos().saturating_add(after as i64))
    }
}

/// Plays the values of one variable into a stream of the same type, each value when it is due,
/// until they end or playing is stopped. The variable is given by its index in
/// [`UpdateSource::variables`]. `on_elements` is called after each attempt to write an
/// element. Plays recordings of [`record_elements`], and any other recorded variable.
///
/// A full stream delays playing: nothing is lost, and all later elements are late by the same time.
/// Unreadable text is left out and counted in the variable's `unreadable`. A stream carries neither
/// qualities nor gaps. Elements whose quality was not good are played like the others;
/// [`StreamPlayed`] counts these elements and the gaps.
///
/// # Errors
/// [`RecordingError::OtherElements`]. After any other error, the stream contains the elements
/// played before.
pub fn play_elements_into_stream(
    recorded: &mut impl UpdateSource,
    variable: usize,
    pace: Pace,
    stream: &mut ValueWriter,
    stopped: &Stopped,
    on_elements: impl FnMut(&StreamPlayed),
) -> Result<StreamPlayed, RecordingError> {
    let mut done = play_elements(recorded, variable, pace, stream, stopped, on_elements)?;
    // Some sources find the gaps while they are read.
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
    recorded.keep_only(variable);
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
            if stopped.within(early.min(CHECK_INTERVAL)) {
                return Ok(done);
            }
        }
        let mut was_full = false;
        loop {
            if stopped.now() {
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
