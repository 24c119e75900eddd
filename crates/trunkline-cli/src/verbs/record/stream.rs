//! `record start --stream`: a stream.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value as Json;
use trunkline::record::regions::{PagesWanted, RegionMemory};
use trunkline::record::{
    Backend, BackendWanted, Directness, Durability, FileReport, QueueOptions, RoomState,
    TdmsRecording, record_stream, stopper, stream_layout, tdms_queue,
};
use trunkline::stream::{Options, ValueReader, element_bytes};

use super::disk::{SHOWN_EVERY, room_text};
use super::running::{Ended, Figures, Running};
use super::{Args, not_begun, problem};
use crate::exit::Exit;
use crate::interrupt::Interrupted;
use crate::output::counted;
use crate::output::json::Object;
use crate::problem::{Problem, Stop};
use crate::targets;
use crate::verbs::Context;
use crate::verbs::stream::units::{bytes_text, per_second, rate_text};

/// Bytes of a region, about: what is written at a time.
const REGION_BYTES: usize = 1 << 20;

/// Regions of the ring.
const REGIONS: usize = 16;

/// How long making the file and closing it may take.
const FILE_WAIT: Duration = Duration::from_secs(30);

/// How long a writer is waited for before it is looked whether to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) fn run(args: &Args, url: &str, context: &Context) -> Result<Exit, Stop> {
    let path = args.path();
    let interrupted = Interrupted::new(&context.terminal)?;
    let mut running = Running::begin(&path, context)?;
    let layout = stream_layout("stream", "value", &args.data_type);
    let layout = layout.map_err(|error| problem(&error))?;
    let row_bytes = element_bytes(&args.data_type).unwrap_or(1);
    // Whole blocks, so that regions are written from where they lie.
    let rows = (REGION_BYTES / row_bytes).next_multiple_of(4096);
    let failed = |error: std::io::Error| problem(&error.into());
    let made = RegionMemory::to_record(
        row_bytes,
        rows * REGIONS,
        PagesWanted::LargestThereAre,
        REGIONS,
    );
    let (memory, mut filler, mut reader) = made.map_err(failed)?;
    // Before the file: where the other end does not come, no file is left behind. That one is there
    // already is told without waiting.
    if path.exists() {
        let there = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(failed(there).into());
    }
    interrupted.end_in_order();
    let is_to_end = || interrupted.is_so() || running.is_told();
    let Some(mut stream) = create(args, url, is_to_end, context)? else {
        let exit = match interrupted.is_so() {
            true => Exit::Interrupted,
            false => Exit::Done,
        };
        return nobody_came(running, &path, exit, context);
    };
    let (queue, report) = tdms_queue(
        &path,
        BackendWanted::BestThereIs,
        Directness::IfPossible,
        QueueOptions {
            has_sums: args.sums,
            ..QueueOptions::default()
        },
        vec![memory],
    )
    .map_err(|error| not_begun(&error.into(), &path))?;
    let start = TdmsRecording::start(queue, &layout, FILE_WAIT);
    let mut recording = start.map_err(|error| problem(&error.into()))?;
    say_backend(&report, context)?;
    let started = context.clock.now();
    let until = args.span.map(|span| started.saturating_add(span));
    let (stopper, stopped) = stopper();
    let mut stopper = Some(stopper);
    let mut shown = (started, 0);
    let ends = (&mut filler, &mut reader);
    let done = record_stream(
        &mut stream,
        ends,
        &mut recording,
        rows as u64,
        &stopped,
        |recording| {
            let now = context.clock.now();
            if interrupted.is_so() || running.is_told() || until.is_some_and(|until| until <= now) {
                stopper = None;
            }
            running.update(now, figures(recording));
            let elapsed = now.since(shown.0);
            if context.terminal.shows_progress() && elapsed >= SHOWN_EVERY {
                let progress = recording.progress();
                let rate = per_second(progress.written.saturating_sub(shown.1), elapsed);
                shown = (now, progress.written);
                context.terminal.progress(&format!(
                    "{} · {} · {} · queue {} · {}",
                    counted(recording.rows(), "element"),
                    bytes_text(progress.written as f64),
                    rate_text(rate),
                    progress.outstanding,
                    room(progress.room.state, &path, rate),
                ));
            }
        },
    );
    let closed = recording.close(FILE_WAIT);
    let done = done.map_err(|error| problem(&error))?;
    let closed = closed.map_err(|error| problem(&error.into()))?;
    if let Some(failure) = closed.failure {
        return Err(Problem::new(Exit::SomeFailed, "file", &failure.to_string()).into());
    }
    let elapsed = context.clock.now().since(started);
    let (progress, lost) = (recording.progress(), recording.lost());
    let mut object = Object::new();
    object.put("event", "recorded");
    object.put("file", path.display().to_string());
    object.put("elements", done.elements);
    object.put("lost", lost);
    object.put("bytes", closed.length);
    object.put("seconds", elapsed.as_secs_f64());
    let is_safe = closed.durability == Durability::OnDisk;
    object.put("durability", ["in-file", "on-disk"][usize::from(is_safe)]);
    object.put("backend", report.backend.to_string());
    object.put("is_direct", report.is_direct);
    object.put("bytes_copied", progress.bytes_copied);
    let object = object.into_json();
    let text = format!(
        "{} recorded in {} ({}) in {:.1} s: {}, lost {lost}; {}; {}, {}, {} copied on the way to \
         the file",
        counted(done.elements, "element"),
        path.display(),
        bytes_text(closed.length as f64),
        elapsed.as_secs_f64(),
        rate_text(per_second(done.bytes, elapsed)),
        match is_safe {
            true => "safe on the disk",
            false => "not all safe on the disk",
        },
        report.backend,
        cache(&report),
        bytes_text(progress.bytes_copied as f64),
    );
    let exit = match lost {
        0 => Exit::Done,
        _ => Exit::Lost,
    };
    finish(running, &text, &object, exit, context)
}

/// Tells who waits, and who looks here.
fn finish(
    running: Running,
    text: &str,
    object: &Json,
    exit: Exit,
    context: &Context,
) -> Result<Exit, Stop> {
    running.end(&Ended { text, object, exit });
    context.terminal.note(&match context.settings.is_json() {
        true => object.to_string(),
        false => text.to_owned(),
    })?;
    Ok(exit)
}

/// It was to end before there was a writer: a file of no rows would be of no use.
fn nobody_came(running: Running, path: &Path, exit: Exit, context: &Context) -> Result<Exit, Stop> {
    let mut object = Object::new();
    object.put("event", "recorded");
    object.put("file", path.display().to_string());
    object.put("elements", 0);
    object.put("lost", 0);
    let text = format!(
        "nobody has written to the stream: nothing recorded, {} is not made",
        path.display()
    );
    finish(running, &text, &object.into_json(), exit, context)
}

fn figures<B: Backend>(recording: &TdmsRecording<B>) -> Figures {
    let progress = recording.progress();
    Figures {
        rows: recording.rows(),
        bytes: progress.written,
        queue_bytes: progress.accepted.saturating_sub(progress.written)
            + progress.bytes_collected as u64,
        lost: recording.lost(),
        ..Figures::default()
    }
}

/// The reading end, as soon as it has a writer; none where it was to end before.
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
    let (sender, receiver) = channel();
    let (url, data_type) = (url.to_owned(), args.data_type.clone());
    // When it was to end before, this goes with the process.
    std::thread::Builder::new()
        .name("record-meeting".to_owned())
        .spawn(move || {
            let _ = sender.send(ValueReader::create(&url, &data_type, options));
        })
        .map_err(|error| problem(&error.into()))?;
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(Ok(stream)) => return Ok(Some(stream)),
            Ok(Err(error)) => return Err(crate::verbs::stream::problem(&error).into()),
            Err(RecvTimeoutError::Timeout) if is_to_end() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let error = std::io::Error::other("the stream cannot be waited for");
                return Err(problem(&error.into()).into());
            }
        }
    }
}

fn cache(report: &FileReport) -> &'static str {
    match report.is_direct {
        true => "around the system's cache",
        false => "through the system's cache",
    }
}

/// How much room is left, and what a disk that is full does.
fn room(state: RoomState, path: &Path, bytes_per_second: f64) -> String {
    let left = room_text(path, bytes_per_second);
    match state {
        RoomState::Full => "disk full: the stream waits; free some".to_owned(),
        RoomState::Low => format!("disk nearly full: {left}"),
        _ => left,
    }
}

/// Says what it writes with, and why it is nothing better: never silently.
pub(super) fn say_backend(report: &FileReport, context: &Context) -> Result<(), Stop> {
    let cache = cache(report);
    if context.settings.is_json() {
        let mut object = Object::new();
        object.put("event", "recording");
        object.put("backend", report.backend.to_string());
        object.put("is_direct", report.is_direct);
        let why_not: Vec<String> = report.why_not.iter().map(ToString::to_string).collect();
        object.put("why_not", why_not);
        return context.terminal.note(&object.into_json().to_string());
    }
    let line = format!("recording with {}, {cache}", report.backend);
    context.terminal.note(&line)?;
    for why_not in &report.why_not {
        context.terminal.note(&format!("  because {why_not}"))?;
    }
    Ok(())
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
