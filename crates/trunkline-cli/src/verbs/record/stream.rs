//! `record start --stream`: records a stream.

use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;
use trunkline::record::regions::{Pages, PagesWanted, RegionMemory};
use trunkline::record::{
    BackendWanted, Directness, Displaced, ElementSeries, FileReport, QueueOptions,
    RecordElementsOptions, RecordError, RecordingError, RoomState, SegmentFile, Stopped,
    StreamRecorded, TdmsLayout, TdmsRecording, TdmsSeries, VariableRecordError, check_elements,
    record_elements, record_stream, series_file, stopper, stream_layout, tdms_queue,
};
use trunkline::stream::{Options, ValueReader, element_bytes};
use trunkline::tdms::Waveform;

use super::disk::{SHOWN_EVERY, room_text};
use super::meeting::meet;
use super::notices::{self, Notices, Seen};
use super::running::{Ended, Figures, Running};
use super::start::Args;
use super::stream_file::{Came, StreamFile, check_folder};
use super::way::{cache, say_way};
use super::{files_text, not_begun, problem, put_failures, untrimmed_text};
use crate::exit::Exit;
use crate::interrupt::Interrupted;
use crate::output::counted;
use crate::output::json::Object;
use crate::problem::{Problem, Stop};
use crate::targets;
use crate::terminal::{plain, shown};
use crate::verbs::Context;
use crate::verbs::stream::units::{bytes_text, per_second, rate_text};

/// Approximate bytes of a region, which is written at once.
const REGION_BYTES: usize = 1 << 20;

/// The group in which a stream is recorded.
const GROUP: &str = "stream";

/// Bytes of elements waiting in memory, for elements that vary in size or have parts.
const WAITING_BYTES: usize = 4 << 20;

/// Regions of the ring.
const REGIONS: usize = 16;

/// Longest time for creating and closing the file.
const FILE_WAIT: Duration = Duration::from_secs(30);

pub(super) fn run(args: &Args, url: &str, context: &Context) -> Result<Exit, Stop> {
    let interrupted = Interrupted::new(&context.terminal)?;
    let mut running = Running::begin(&args.file, context)?;
    match recorded(args, url, &interrupted, &mut running, context) {
        Ok((text, object, exit)) => {
            running.end(&Ended {
                text: &text,
                object: &object,
                exit,
            });
            context.terminal.note(&match context.settings.is_json() {
                true => object.to_string(),
                false => text,
            })?;
            Ok(exit)
        }
        Err(stop) => {
            running.fail(&stop);
            Err(stop)
        }
    }
}

/// The result, for people and for programs.
type Outcome = (String, Json, Exit);

fn recorded(
    args: &Args,
    url: &str,
    interrupted: &Interrupted,
    running: &mut Running,
    context: &Context,
) -> Result<Outcome, Stop> {
    match stream_layout(GROUP, "value", &args.data_type) {
        Ok(layout) => rows_recorded(args, url, layout, interrupted, running, context),
        Err(_) => elements_recorded(args, url, interrupted, running, context),
    }
}

/// Records elements that are rows of plain values, directly from their memory.
fn rows_recorded(
    args: &Args,
    url: &str,
    mut layout: TdmsLayout,
    interrupted: &Interrupted,
    running: &mut Running,
    context: &Context,
) -> Result<Outcome, Stop> {
    let path = args.file.as_path();
    let row_bytes = element_bytes(&args.data_type).unwrap_or(1);
    // Whole blocks, so that regions are written without a copy.
    let rows = (REGION_BYTES / row_bytes).next_multiple_of(4096);
    let failed = |error: std::io::Error| problem(&error.into());
    let made = RegionMemory::to_record(
        row_bytes,
        rows * REGIONS,
        PagesWanted::LargestThereAre,
        REGIONS,
    );
    let (memory, mut filler, mut reader) = made.map_err(failed)?;
    let Some(mut stream) = met(args, url, interrupted, running, context)? else {
        return Ok(nobody_came(path, interrupted));
    };
    layout.waveform = args.sample_rate.map(|rate| Waveform {
        start: Some(context.clock.wall().into()),
        increment: rate.recip(),
        ..Waveform::default()
    });
    let queue_options = QueueOptions {
        has_sums: args.sums,
        ..QueueOptions::default()
    };
    let open = |number| {
        let path = series_file(path, number);
        tdms_queue(
            &path,
            BackendWanted::BestThereIs,
            Directness::IfPossible,
            queue_options,
            vec![memory.clone()],
        )
    };
    let (queue, report) = open(1).map_err(|error| not_begun(&error.into(), path))?;
    let recorder = Recorder {
        args,
        path,
        report: &report,
        pages: memory.pages(),
        interrupted,
        context,
    };
    let region_rows = rows as u64;
    let ends = (&mut filler, &mut reader);
    let not_started = |error: RecordError| Stop::from(problem(&error.into()));
    match args.rotation() {
        None => {
            let recording = TdmsRecording::start(queue, &layout, FILE_WAIT);
            let recording = recording.map_err(not_started)?;
            recorder.record(recording, running, |file, stopped, on_region| {
                record_stream(&mut stream, ends, file, region_rows, stopped, on_region)
            })
        }
        Some(rotation) => {
            let mut first = Some(queue);
            let open = |number| match first.take() {
                Some(queue) => Ok(queue),
                None => open(number).map(|(queue, _)| queue),
            };
            let series = TdmsSeries::start(open, layout, rotation, FILE_WAIT);
            recorder.record(
                series.map_err(not_started)?,
                running,
                |file, stopped, on_region| {
                    record_stream(&mut stream, ends, file, region_rows, stopped, on_region)
                },
            )
        }
    }
}

/// Records elements that vary in size or have parts, in the same channels as variables.
fn elements_recorded(
    args: &Args,
    url: &str,
    interrupted: &Interrupted,
    running: &mut Running,
    context: &Context,
) -> Result<Outcome, Stop> {
    let path = args.file.as_path();
    let of = (GROUP, &args.data_type);
    check_elements(of.0, of.1).map_err(|error| {
        Stop::from(Problem::new(
            Exit::Usage,
            "type",
            &plain(&error.to_string()),
        ))
    })?;
    let Some(mut stream) = met(args, url, interrupted, running, context)? else {
        return Ok(nobody_came(path, interrupted));
    };
    let open = |number| {
        let path = series_file(path, number);
        match args.sums {
            true => SegmentFile::create_summed(&path),
            false => SegmentFile::create(&path),
        }
    };
    let series = ElementSeries::start(open, args.rotation(), WAITING_BYTES, of, Duration::ZERO);
    let series = series.map_err(|error| match error {
        VariableRecordError::File(error) => not_begun(&error.into(), path),
        error => problem(&error.into()),
    })?;
    let recorder = Recorder {
        args,
        path,
        report: &SegmentFile::report(),
        pages: Pages::Ordinary,
        interrupted,
        context,
    };
    let options = RecordElementsOptions {
        sample_rate: args.sample_rate,
        ..RecordElementsOptions::default()
    };
    recorder.record(series, running, |file, stopped, on_turn| {
        record_elements(&mut stream, file, options, stopped, on_turn)
    })
}

/// Waits for the other end before the file is created: if it does not come, no file is left behind.
/// Returns `None` if the recording was to end before. Errors that do not depend on the other end
/// are reported without waiting.
fn met(
    args: &Args,
    url: &str,
    interrupted: &Interrupted,
    running: &Running,
    context: &Context,
) -> Result<Option<ValueReader>, Stop> {
    let path = args.file.as_path();
    let next = series_file(path, 2);
    let there = [
        Some(path),
        args.rotation().is_some().then_some(next.as_path()),
    ];
    if let Some(there) = there.into_iter().flatten().find(|path| path.exists()) {
        let error = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(not_begun(&error.into(), there).into());
    }
    check_folder(path).map_err(|error| not_begun(&error.into(), path))?;
    interrupted.end_in_order();
    let is_to_end = || interrupted.is_so() || running.is_told();
    create(args, url, is_to_end, context)
}

/// The environment of recording a stream.
struct Recorder<'a> {
    args: &'a Args,
    path: &'a Path,
    report: &'a FileReport,
    pages: Pages,
    interrupted: &'a Interrupted,
    context: &'a Context,
}

impl Recorder<'_> {
    /// Calls `record`, which records into the file and calls its callback after each turn.
    fn record<F: StreamFile>(
        &self,
        mut file: F,
        running: &mut Running,
        record: impl FnOnce(
            &mut F,
            &Stopped,
            &mut dyn FnMut(&F),
        ) -> Result<StreamRecorded, RecordingError>,
    ) -> Result<Outcome, Stop> {
        let context = self.context;
        say_way(self.report, self.pages, context)?;
        let started = context.clock.now();
        let until = self.args.span.map(|span| started.saturating_add(span));
        let (stopper, stopped) = stopper();
        let mut stopper = Some(stopper);
        let mut shown = (started, 0);
        let mut notices = Notices::new("the stream waits; free some");
        let mut on_turn = |file: &F| {
            let now = context.clock.now();
            let is_over = until.is_some_and(|until| until <= now);
            if self.interrupted.is_so() || running.is_told() || is_over {
                stopper = None;
            }
            let figures = figures(file);
            running.update(now, figures);
            // If standard error is closed, the end of the command reports it.
            let _ = notices.say(&seen(file), self.path, now, context);
            let elapsed = now.since(shown.0);
            if context.terminal.shows_progress() && elapsed >= SHOWN_EVERY {
                let state = file.file_progress().room.state;
                let rate = per_second(figures.bytes.saturating_sub(shown.1), elapsed);
                shown = (now, figures.bytes);
                context.terminal.progress(&format!(
                    "{} · {} · {} · queue {} · {}",
                    counted(figures.rows, "element"),
                    bytes_text(figures.bytes as f64),
                    rate_text(rate),
                    bytes_text(figures.queue_bytes as f64),
                    room(state, self.path, rate),
                ));
            }
        };
        let done = record(&mut file, &stopped, &mut on_turn);
        let copied = file.file_progress().bytes_copied;
        let closed = file.end(FILE_WAIT);
        if self.args.rotation().is_none()
            && let [Some(found), _] = file.displaced()
            && found.is_removed()
        {
            let rows = counted(file.elements(), "element");
            let mut sentence = format!(
                "{found}, and {rows} that were in it are lost; record to another file, which no \
                 program removes"
            );
            match &done {
                // The first failure is that the file was removed.
                Err(RecordingError::Both { second, .. }) => {
                    sentence.push_str(&format!("; besides, {second}"));
                }
                Err(error @ RecordingError::Stream(_)) => {
                    sentence.push_str(&format!("; besides, {error}"));
                }
                _ => {}
            }
            return Err(Problem::new(Exit::Lost, "removed", &plain(&sentence)).into());
        }
        let done = done.map_err(|error| problem(&error))?;
        let came = closed.map_err(|error| problem(&error.into()))?;
        if let Some(failure) = &came.failure {
            let untrimmed = came.untrimmed.map(untrimmed_text);
            let sentence = [Some(failure.clone()), untrimmed].into_iter().flatten();
            let sentence = sentence.collect::<Vec<_>>().join("; ");
            return Err(Problem::new(Exit::SomeFailed, "file", &sentence).into());
        }
        let elapsed = context.clock.now().since(started);
        let (text, object) = self.sum_up(&done, &came, (copied, file.displaced()), elapsed);
        let exit = match came.lost {
            _ if file.displaced().iter().any(Option::is_some) => Exit::Lost,
            0 if came.troubles.is_empty() => Exit::Done,
            0 => Exit::SomeFailed,
            _ => Exit::Lost,
        };
        Ok((text, object, exit))
    }

    fn sum_up(
        &self,
        done: &StreamRecorded,
        came: &Came,
        (copied, displaced): (u64, [Option<&Displaced>; 2]),
        elapsed: Duration,
    ) -> (String, Json) {
        let mut object = Object::new();
        object.put("event", "recorded");
        object.put("file", self.path.display().to_string());
        if self.args.rotation().is_some() {
            object.put("files", came.files);
        }
        object.put("elements", done.elements);
        object.put("lost", came.lost);
        object.put("bytes", came.bytes);
        object.put("seconds", elapsed.as_secs_f64());
        object.put(
            "durability",
            ["on-disk", "in-file"][usize::from(came.is_unsafe)],
        );
        object.put("backend", self.report.backend.to_string());
        object.put("is_direct", self.report.is_direct);
        object.put("bytes_copied", copied);
        put_failures(&mut object, came.sync_failure, came.untrimmed);
        let mut troubles = came.troubles.clone();
        troubles.extend(came.untrimmed.map(untrimmed_text));
        if !came.troubles.is_empty() {
            object.put("trouble", came.troubles.join("; "));
        }
        let mut text = format!(
            "{} recorded in {} ({}) in {:.1} s: {}, lost {}; {}; {}, {}, {} copied on the way to \
             the file",
            counted(done.elements, "element"),
            files_text(self.path, came.files),
            bytes_text(came.bytes as f64),
            elapsed.as_secs_f64(),
            rate_text(per_second(done.bytes, elapsed)),
            came.lost,
            match came.is_unsafe {
                false => "flushed to disk",
                true => "not all flushed to disk",
            },
            self.report.backend,
            cache(self.report),
            bytes_text(copied as f64),
        );
        for trouble in troubles {
            text.push_str("; ");
            text.push_str(&trouble);
        }
        notices::sum_up(&displaced, &mut text, &mut object);
        (text, object.into_json())
    }
}

/// Returns the result of a recording that ended before there was a writer: a file without rows
/// would be useless.
fn nobody_came(path: &Path, interrupted: &Interrupted) -> Outcome {
    let exit = match interrupted.is_so() {
        true => Exit::Interrupted,
        false => Exit::Done,
    };
    let mut object = Object::new();
    object.put("event", "recorded");
    object.put("file", path.display().to_string());
    object.put("elements", 0);
    object.put("lost", 0);
    let text = format!(
        "no writer has connected to the stream: nothing recorded, {} is not created",
        shown(path)
    );
    (text, object.into_json(), exit)
}

fn figures(file: &impl StreamFile) -> Figures {
    let progress = file.file_progress();
    Figures {
        rows: file.elements(),
        bytes: progress.bytes,
        queue_bytes: progress.queue_bytes,
        lost: file.lost(),
        ..Figures::default()
    }
}

fn seen(file: &impl StreamFile) -> Seen<'_> {
    let [displaced, sums_displaced] = file.displaced();
    Seen {
        displaced,
        sums_displaced,
        room: file.file_progress().room,
        trouble: None,
        is_connected: None,
        lost: file.lost(),
    }
}

/// Returns the reading end once it has a writer; `None` if the command was to end before.
fn create(
    args: &Args,
    url: &str,
    is_to_end: impl Fn() -> bool,
    context: &Context,
) -> Result<Option<ValueReader>, Stop> {
    let engine = targets::engine(&context.settings)?;
    let options = Options {
        peer: args.from.clone(),
        timeout: context.settings.patience(),
        directory_port: engine.port_or_default(),
        program: concat!("trunkline ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..Options::default()
    };
    let (at, data_type) = (url.to_owned(), args.data_type.clone());
    let create = move || ValueReader::create(&at, &data_type, options);
    meet(url, create, is_to_end, context)
}

/// Describes the free space, and the effect of a full disk.
fn room(state: RoomState, path: &Path, bytes_per_second: f64) -> String {
    let left = room_text(path, bytes_per_second);
    match state {
        RoomState::Full => "disk full: the stream waits; free some".to_owned(),
        RoomState::Low => format!("disk nearly full: {left}"),
        _ => left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_full_or_nearly_is_said_where_the_progress_is() {
        let text = |state| room(state, Path::new("here.tdms"), 0.0);
        let full = "disk full: the stream waits; free some";
        assert_eq!(text(RoomState::Full), full);
        let (low, enough) = (text(RoomState::Low), text(RoomState::Enough));
        assert!(low.starts_with("disk nearly full: ") && low.ends_with(" left"));
        assert!(enough.ends_with(" left") && !enough.contains("full"));
    }
}
