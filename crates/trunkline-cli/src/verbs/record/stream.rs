//! `record start --stream`: records a stream.

use std::path::Path;
use std::time::Duration;

use trunkline::record::regions::{Pages, PagesWanted, RegionMemory};
use trunkline::record::{
    BackendChoice, CacheMode, ElementSeries, FileReport, FreeSpaceState, MovedFile, QueueOptions,
    RecordElementsOptions, RecordError, RecordingError, SegmentFile, Stopped, StreamRecorded,
    TdmsLayout, TdmsRecording, TdmsSeries, VariableRecordError, check_elements, record_elements,
    record_stream, series_file, stopper, stream_layout, tdms_queue,
};
use trunkline::stream::{Options, ValueReader, element_bytes};
use trunkline::tdms::Waveform;
use trunkline_types::DataType;

use super::disk::free_space_text;
use super::notices::{self, Notices, RecorderState};
use super::peer::wait_for_peer;
use super::recorded::{Amounts, FileWritten, Recorded, cache, system_error};
use super::running::Running;
use super::start::Args;
use super::stream_file::{RecordedFiles, StreamFile, check_folder};
use super::{files_text, problem, start_problem, untrimmed_text, write_path};
use crate::terminal::{escaped, escaped_path};
use crate::verbs::progress::Meter;
use crate::verbs::stream;
use crate::verbs::stream::units::{bytes_text, per_second, rate_text};
use crate::{CliError, Context, Exit, Problem, counted};

/// Approximate size of a region in bytes. A region is written as a whole.
const REGION_BYTES: usize = 1 << 20;

const GROUP: &str = "stream";

/// Approximate limit, in bytes, of the elements that wait in memory if they vary in size or have
/// several parts.
const WAITING_BYTES: usize = 4 << 20;

/// Number of regions in memory.
const REGIONS: usize = 16;

/// Maximum time for which the disk may stall.
const FILE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn run(args: &Args, url: &str, context: &Context) -> Result<Exit, CliError> {
    let mut running = Running::begin(&args.file, context)?;
    let data_type = args.data_type();
    let mut recorder = Recorder {
        args,
        data_type: &data_type,
        url,
        path: &args.file,
        running: &mut running,
        context,
    };
    let recorded = match stream_layout(GROUP, "value", &data_type) {
        Ok(layout) => recorder.rows(layout),
        Err(_) => recorder.elements(),
    };
    running.end(recorded, context)
}

type Outcome = (Recorded, Exit);

struct Recorder<'a> {
    args: &'a Args,
    data_type: &'a DataType,
    url: &'a str,
    path: &'a Path,
    running: &'a mut Running,
    context: &'a Context,
}

impl Recorder<'_> {
    /// Records elements that are rows of plain values. They are written directly from the memory into
    /// which they are read.
    fn rows(&mut self, mut layout: TdmsLayout) -> Result<Outcome, CliError> {
        let (args, path) = (self.args, self.path);
        let row_bytes = element_bytes(self.data_type).unwrap_or(1);
        // A region that consists of whole disk blocks is written without a copy.
        let rows = (REGION_BYTES / row_bytes).next_multiple_of(4096);
        let pages = PagesWanted::LargestAvailable;
        let regions = RegionMemory::for_recording(row_bytes, rows * REGIONS, pages, REGIONS);
        let (memory, mut filler, mut reader) = regions.map_err(|error| problem(&error.into()))?;
        let Some(mut stream) = self.wait_for_writer()? else {
            return Ok(self.no_writer_connected());
        };
        layout.waveform = args.sample_rate.map(|rate| Waveform {
            start: Some(self.context.clock.wall().into()),
            increment: rate.recip(),
            ..Waveform::default()
        });
        let queue_options = QueueOptions {
            has_sums: args.sums,
            ..QueueOptions::default()
        };
        let open = |number| {
            tdms_queue(
                &series_file(path, number),
                BackendChoice::BestAvailable,
                CacheMode::PreferDirect,
                queue_options,
                vec![memory.clone()],
            )
        };
        let (queue, report) = open(1).map_err(|error| start_problem(&error.into(), path))?;
        let report_and_pages = (&report, memory.pages());
        let region_rows = rows as u64;
        let region_ends = (&mut filler, &mut reader);
        let not_started = |error: RecordError| CliError::from(problem(&error.into()));
        let Some(rotation) = args.rotation() else {
            let file = TdmsRecording::start(queue, &layout, FILE_TIMEOUT).map_err(not_started)?;
            return self.record(file, report_and_pages, |file, stopped, on_region| {
                record_stream(
                    &mut stream,
                    region_ends,
                    file,
                    region_rows,
                    stopped,
                    on_region,
                )
            });
        };
        let mut first = Some(queue);
        let open = |number| match first.take() {
            Some(queue) => Ok(queue),
            None => open(number).map(|(queue, _)| queue),
        };
        let series =
            TdmsSeries::start(open, layout, rotation, FILE_TIMEOUT).map_err(not_started)?;
        self.record(series, report_and_pages, |file, stopped, on_region| {
            record_stream(
                &mut stream,
                region_ends,
                file,
                region_rows,
                stopped,
                on_region,
            )
        })
    }

    /// Records elements of variable size or with several parts, in the channel layout of variables.
    fn elements(&mut self) -> Result<Outcome, CliError> {
        let (args, path) = (self.args, self.path);
        check_elements(GROUP, self.data_type)
            .map_err(|error| Problem::new(Exit::Usage, "type", escaped(&error.to_string())))?;
        let Some(mut stream) = self.wait_for_writer()? else {
            return Ok(self.no_writer_connected());
        };
        let open = |number| {
            let path = series_file(path, number);
            match args.sums {
                true => SegmentFile::create_summed(&path),
                false => SegmentFile::create(&path),
            }
        };
        let series = ElementSeries::start(
            open,
            args.rotation(),
            WAITING_BYTES,
            (GROUP, self.data_type),
            Duration::ZERO,
        );
        let series = series.map_err(|error| match error {
            VariableRecordError::File(error) => start_problem(&error.into(), path),
            error => problem(&error.into()),
        })?;
        let options = RecordElementsOptions {
            sample_rate: args.sample_rate,
            ..RecordElementsOptions::default()
        };
        let report_and_pages = (&SegmentFile::report(), Pages::Ordinary);
        self.record(series, report_and_pages, |file, stopped, on_step| {
            record_elements(&mut stream, file, options, stopped, on_step)
        })
    }

    /// Waits for the writer before the file is created, so that no file is left behind if no writer
    /// connects. Returns `None` if the recording must end before a writer connects. Errors that do
    /// not depend on the writer are reported without waiting.
    fn wait_for_writer(&self) -> Result<Option<ValueReader>, CliError> {
        let (args, path, context) = (self.args, self.path, self.context);
        let next = args.rotation().map(|_| series_file(path, 2));
        let paths = [Some(path), next.as_deref()];
        if let Some(existing) = paths.into_iter().flatten().find(|path| path.exists()) {
            let error = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(start_problem(&error.into(), existing).into());
        }
        check_folder(path).map_err(|error| start_problem(&error.into(), path))?;
        context.interrupted.handle_presses(1);
        let options = Options {
            insecure: args.insecure,
            ..stream::options(args.from.as_deref(), context)?
        };
        let (url, data_type) = (self.url.to_owned(), self.data_type.clone());
        let create = move || ValueReader::create(&url, &data_type, options);
        let must_end = || context.interrupted.is_pressed() || self.running.is_stop_requested();
        wait_for_peer(self.url, create, must_end, context)
    }

    /// Returns the result of a recording that ended before a writer connected. There is no file,
    /// because a file without rows would be useless.
    fn no_writer_connected(&self) -> Outcome {
        let text = format!(
            "no writer connected to the stream: nothing was recorded, and {} was not created",
            escaped_path(self.path)
        );
        let amounts = Amounts::Elements {
            files: None,
            elements: 0,
            lost: 0,
        };
        let recorded = Recorded::without_file(self.path.display().to_string(), amounts, text);
        let is_interrupted = self.context.interrupted.is_pressed();
        (recorded, Exit::Interrupted.when(is_interrupted))
    }

    /// Calls `record`, which records to the file and calls its callback after each step.
    fn record<F: StreamFile>(
        &mut self,
        mut file: F,
        (report, pages): (&FileReport, Pages),
        record: impl FnOnce(
            &mut F,
            &Stopped,
            &mut dyn FnMut(&F),
        ) -> Result<StreamRecorded, RecordingError>,
    ) -> Result<Outcome, CliError> {
        let (context, path) = (self.context, self.path);
        write_path::report(report, pages, context)?;
        let started = context.clock.now();
        let end = self.args.span.map(|span| started.saturating_add(span));
        let (stopper, stopped) = stopper();
        let mut stopper = Some(stopper);
        let mut meter = Meter::new(started);
        let mut notices = Notices::new("the stream waits; free some space");
        let running = &mut *self.running;
        let mut on_step = |file: &F| {
            let now = context.clock.now();
            let is_over = end.is_some_and(|end| end <= now);
            if context.interrupted.is_pressed() || running.is_stop_requested() || is_over {
                stopper = None;
            }
            let figures = file.figures();
            running.update(now, figures);
            // If standard error is closed, the end of the command reports it.
            let _ = notices.report(&recorder_state(file), path, now, context);
            if let Some(rate) = meter.rate(now, figures.bytes, &context.terminal) {
                context.terminal.progress(&format!(
                    "{} · {} · {} · queue {} · {}",
                    counted(figures.rows, "element"),
                    bytes_text(figures.bytes as f64),
                    rate_text(rate),
                    bytes_text(figures.queue_bytes as f64),
                    disk_text(file.free_space().state, path, rate),
                ));
            }
        };
        let outcome = record(&mut file, &stopped, &mut on_step);
        let copied = file.bytes_copied();
        let closed = file.end(FILE_TIMEOUT);
        if self.args.rotation().is_none()
            && let [Some(found), _] = file.moved_files()
            && found.is_removed()
        {
            let rows = counted(file.figures().rows, "element");
            // The first error reports that the file was removed.
            let second = match &outcome {
                Err(RecordingError::Both { second, .. }) => format!("; also, {second}"),
                Err(error @ RecordingError::Stream(_)) => format!("; also, {error}"),
                _ => String::new(),
            };
            let sentence = format!(
                "{found}, and its contents ({rows}) are lost; record to a file that no other program \
                 removes{second}"
            );
            return Err(Problem::new(Exit::Lost, "removed", escaped(&sentence)).into());
        }
        let recorded_stream = outcome.map_err(|error| problem(&error))?;
        let files = closed.map_err(|error| problem(&error.into()))?;
        if let Some(failure) = &files.failure {
            let untrimmed = files.untrimmed.map(untrimmed_text);
            let sentence = [Some(failure.clone()), untrimmed].into_iter().flatten();
            let sentence = sentence.collect::<Vec<_>>().join("; ");
            return Err(Problem::failed("file", sentence).into());
        }
        let elapsed = context.clock.now().since(started);
        let moved_files = file.moved_files();
        let recorded = self.sum_up(
            &recorded_stream,
            &files,
            report,
            (copied, moved_files),
            elapsed,
        );
        let exit = match files.lost {
            _ if moved_files.iter().any(Option::is_some) => Exit::Lost,
            0 => Exit::Failed.when(!files.errors.is_empty()),
            _ => Exit::Lost,
        };
        Ok((recorded, exit))
    }

    fn sum_up(
        &self,
        stream: &StreamRecorded,
        files: &RecordedFiles,
        report: &FileReport,
        (copied, moved_files): (u64, [Option<&MovedFile>; 2]),
        elapsed: Duration,
    ) -> Recorded {
        let mut text = format!(
            "{} recorded in {} ({}) in {:.1} s: {}, lost {}; {}; {}, {}, {} copied in memory \
             before writing",
            counted(stream.elements, "element"),
            files_text(self.path, files.count),
            bytes_text(files.bytes as f64),
            elapsed.as_secs_f64(),
            rate_text(per_second(stream.bytes, elapsed)),
            files.lost,
            match files.is_unsafe {
                false => "flushed to disk",
                true => "not all flushed to disk",
            },
            report.backend,
            cache(report.is_direct),
            bytes_text(copied as f64),
        );
        let untrimmed = files.untrimmed.map(untrimmed_text);
        for error in files.errors.iter().chain(&untrimmed) {
            text.push_str("; ");
            text.push_str(error);
        }
        let amounts = Amounts::Elements {
            files: self.args.rotation().map(|_| files.count),
            elements: stream.elements,
            lost: files.lost,
        };
        Recorded {
            written: Some(FileWritten {
                bytes: files.bytes,
                seconds: elapsed.into(),
                durability: ["on-disk", "in-file"][usize::from(files.is_unsafe)],
                backend: report.backend.to_string(),
                is_direct: report.is_direct,
                bytes_copied: copied,
            }),
            sync_failure: files.sync_failure.map(system_error),
            untrimmed: files.untrimmed.map(system_error),
            error: (!files.errors.is_empty()).then(|| files.errors.join("; ")),
            displaced: notices::moved_texts(moved_files),
            ..Recorded::without_file(self.path.display().to_string(), amounts, text)
        }
    }
}

fn recorder_state(file: &impl StreamFile) -> RecorderState<'_> {
    let [moved_file, moved_sums_file] = file.moved_files();
    RecorderState {
        moved_file,
        moved_sums_file,
        free_space: file.free_space(),
        error: None,
        is_connected: None,
        lost: file.figures().lost,
    }
}

fn disk_text(state: FreeSpaceState, path: &Path, bytes_per_second: f64) -> String {
    let free = free_space_text(path, bytes_per_second);
    match state {
        FreeSpaceState::Full => "disk full: the stream waits; free some space".to_owned(),
        FreeSpaceState::Low => format!("disk nearly full: {free}"),
        _ => free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_or_nearly_full_disk_is_shown_with_the_progress() {
        let text = |state| disk_text(state, Path::new("here.tdms"), 0.0);
        let full = "disk full: the stream waits; free some space";
        assert_eq!(text(FreeSpaceState::Full), full);
        let (low, enough) = (text(FreeSpaceState::Low), text(FreeSpaceState::Enough));
        assert!(low.starts_with("disk nearly full: ") && low.ends_with(" left"));
        assert!(enough.ends_with(" left") && !enough.contains("full"));
    }
}
