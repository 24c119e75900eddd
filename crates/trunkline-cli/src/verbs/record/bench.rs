//! `record bench`: records simulated devices to files, at full speed or at a rate, and checks every
//! value.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use trunkline::record::regions::{NoRegion, Pages, PagesWanted};
use trunkline::record::{
    BackendChoice, CacheMode, FileReport, QueueOptions, RecordingError, TdmsLayout, TdmsRecording,
    tdms_queue,
};
use trunkline::tdms::{ObjectPath, TdmsFile, TdmsType};
use trunkline_card::{CardOptions, CardRing, DeviceCounts, SAMPLE_BYTES, SimCard, sample};

use super::disk::free_space_text;
use super::{problem, write_path};
use crate::arguments;
use crate::output::record::{JsonSchema, Serialize, json};
use crate::output::values::Amount;
use crate::problem::folder_reason;
use crate::terminal::escaped_path;
use crate::verbs::progress::Meter;
use crate::verbs::stream::units::{self, bytes_text, per_second, rate_text};
use crate::{CliError, Context, Exit, Problem, counted};

/// Rows per region: 1 MiB of one channel.
const REGION_ROWS: u64 = (1 << 20) / SAMPLE_BYTES as u64;

/// Number of regions in the memory of a device.
const REGIONS: usize = 16;

/// Maximum time for which the disk may stall.
const DISK_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which the progress is shown.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The finished recording of one device.
struct RecordedDevice {
    rows: u64,
    report: FileReport,
    pages: Pages,
    file: TemporaryFile,
}

/// A file that is removed on drop.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // The file may have been removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Measure how fast simulated devices can be recorded to a folder, and check every value
///
/// The command needs no engine. Each simulated device produces data as fast as the disk can store
/// it, or at --rate, and is recorded to its own file. Every value is checked before the file is
/// removed. The last line is `lost N`: the number of rows that were lost because the memory of a
/// device was full.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder for the recordings, which are removed afterwards
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,

    /// Number of simulated devices
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = arguments::number::<u16>(1..=64),
        allow_negative_numbers = true
    )]
    devices: u16,

    /// Bytes per second of each device, such as 500MB (default: as fast as possible)
    #[arg(long, value_name = "SIZE", value_parser = units::size, allow_hyphen_values = true)]
    rate: Option<u64>,

    /// End after this time, such as 30s or 1m (a bare number is seconds)
    #[arg(
        long = "for",
        value_name = "TIME",
        default_value = "5s",
        value_parser = arguments::positive_duration,
        allow_hyphen_values = true
    )]
    span: Duration,
}

/// A line on standard output.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[schemars(title = "Result of `record bench`, version 1")]
pub(crate) enum BenchedEvent {
    /// The measurement.
    Benched {
        /// Number of simulated devices.
        #[schemars(range(min = 1))]
        devices: u16,
        /// Total size of the recorded values, in bytes.
        bytes: u64,
        /// Duration in seconds.
        seconds: Amount,
        /// Rate, in bytes per second.
        bytes_per_second: Amount,
        /// Number of rows that were lost because the memory of a device was full.
        lost: u64,
        /// Number of times that the memory of a device was full.
        overflows: u64,
    },
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let folder = args.folder.as_path();
    if let Some(rate) = args.rate.filter(|rate| *rate < SAMPLE_BYTES as u64) {
        let sentence = format!(
            "--rate {rate}: a sample has {SAMPLE_BYTES} bytes; give at least that many bytes per \
             second, or leave --rate out for the highest possible rate"
        );
        return Err(Problem::usage(sentence).into());
    }
    let options = CardOptions {
        devices: args.devices,
        channels: 1,
        // This makes 16 MiB for each device.
        ring_rows: REGION_ROWS as usize * REGIONS,
        transfer_rows: REGION_ROWS / 16,
        rate: args.rate.unwrap_or(0) / SAMPLE_BYTES as u64,
        rows_max: None,
        lent_max: REGIONS,
        pages: PagesWanted::LargestAvailable,
    };
    if !folder.is_dir() {
        let sentence = format!(
            "there is no folder {}; create it, or specify another one",
            escaped_path(folder)
        );
        return Err(Problem::failed("file", sentence).into());
    }
    let failed = |error: RecordingError| CliError::from(problem(&error));
    let paths: Vec<PathBuf> = (0..args.devices)
        .map(|device| folder.join(format!("bench{device}.tdms")))
        .collect();
    let (card, rings) = SimCard::start(&options).map_err(|error| failed(error.into()))?;
    context.interrupted.handle_presses(1);
    let started = context.clock.now();
    let end = started.saturating_add(args.span);
    let mut card = Some(card);
    let mut counts = Vec::new();
    let progress: Vec<Mutex<DeviceProgress>> = paths.iter().map(|_| Mutex::default()).collect();
    let mut meter = Meter::new(started);
    let devices = thread::scope(|scope| {
        let running = rings.into_iter().zip(&paths).zip(&progress);
        let running = running
            .map(|((ring, path), progress)| scope.spawn(move || record(ring, path, progress)))
            .collect::<Vec<_>>();
        let (_stopper, stopped) = trunkline::record::stopper();
        while !context.interrupted.is_pressed() && context.clock.now() < end {
            let remaining = end.since(context.clock.now());
            let _ = stopped.wait_for(remaining.min(POLL_INTERVAL));
            show(&progress, folder, &mut meter, context);
        }
        counts = card.take().map(SimCard::stop).unwrap_or_default();
        let panicked = |_| Err(io::Error::other("the thread of a recorder panicked").into());
        let ended = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(panicked));
        ended.collect::<Result<Vec<RecordedDevice>, RecordingError>>()
    });
    let elapsed = context.clock.now().since(started);
    let devices = devices.map_err(failed)?;
    if let Some(first) = devices.first() {
        write_path::report(&first.report, first.pages, context)?;
    }
    context.terminal.progress("checking every value");
    for (number, (device, counts)) in (0..).zip(devices.iter().zip(&counts)) {
        if !check(number, &device.file.0, counts, context)? {
            return Ok(Exit::Interrupted);
        }
    }
    let rows: u64 = devices.iter().map(|device| device.rows).sum();
    let lost: u64 = counts.iter().map(|counts| counts.lost).sum();
    let overflows: u64 = counts.iter().map(|counts| counts.overflows).sum();
    let bytes = rows * SAMPLE_BYTES as u64;
    if context.settings.is_json() {
        context.terminal.line(&json(&BenchedEvent::Benched {
            devices: args.devices,
            bytes,
            seconds: elapsed.into(),
            bytes_per_second: Amount(per_second(bytes, elapsed)),
            lost,
            overflows,
        }))?;
    } else {
        context.terminal.line(&format!(
            "{} of {} in {:.1} s: {}, {}",
            bytes_text(bytes as f64),
            counted(u64::from(args.devices), "device"),
            elapsed.as_secs_f64(),
            rate_text(per_second(bytes, elapsed)),
            counted(overflows, "overflow"),
        ))?;
        context.terminal.line(&format!("lost {lost}"))?;
    }
    Ok(match lost {
        _ if context.interrupted.is_pressed() => Exit::Interrupted,
        0 => Exit::Success,
        _ => Exit::Lost,
    })
}

/// Progress of a device's recording, for the thread that displays it.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceProgress {
    written: u64,
    waiting: u64,
}

fn show(progress: &[Mutex<DeviceProgress>], folder: &Path, meter: &mut Meter, context: &Context) {
    let (mut written, mut waiting) = (0, 0);
    for device in progress {
        let device = device.lock().unwrap_or_else(PoisonError::into_inner);
        written += device.written;
        waiting += device.waiting;
    }
    let Some(rate) = meter.rate(context.clock.now(), written, &context.terminal) else {
        return;
    };
    context.terminal.progress(&format!(
        "{} of {} · {} · queue {} · {}",
        bytes_text(written as f64),
        counted(progress.len() as u64, "device"),
        rate_text(rate),
        bytes_text(waiting as f64),
        // Any file in the folder gives the same answer.
        free_space_text(&folder.join("bench0.tdms"), rate),
    ));
}

fn record(
    mut ring: CardRing,
    path: &Path,
    progress: &Mutex<DeviceProgress>,
) -> Result<RecordedDevice, RecordingError> {
    let (queue, report) = tdms_queue(
        path,
        BackendChoice::BestAvailable,
        CacheMode::PreferDirect,
        QueueOptions {
            wait: DISK_TIMEOUT,
            ..QueueOptions::default()
        },
        vec![ring.memory.clone()],
    )
    .map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{}: {}", escaped_path(path), folder_reason(&error)),
        )
    })?;
    let file = TemporaryFile(path.to_owned());
    let layout = TdmsLayout {
        timestamps: Vec::new(),
        group: "card".into(),
        channels: vec![("in0".into(), TdmsType::I64)],
        waveform: None,
    };
    let mut recording = TdmsRecording::start(queue, &layout, DISK_TIMEOUT)?;
    loop {
        match ring.next(REGION_ROWS, Duration::from_millis(100)) {
            Ok(Some(region)) => recording.write(region)?,
            Ok(None) => break,
            Err(NoRegion::NotYet { .. } | NoRegion::AllLent { .. }) => recording.poll()?,
            Err(error) => return Err(error.into()),
        }
        let recorded = recording.progress();
        *progress.lock().unwrap_or_else(PoisonError::into_inner) = DeviceProgress {
            written: recorded.written,
            waiting: recorded.accepted.saturating_sub(recorded.written),
        };
    }
    let closed = recording.close(DISK_TIMEOUT)?;
    if let Some(failure) = closed.failure {
        return Err(io::Error::other(failure).into());
    }
    Ok(RecordedDevice {
        rows: recording.rows(),
        report,
        pages: ring.memory.pages(),
        file,
    })
}

/// Checks every value of a device's file. Returns false if interrupted.
fn check(
    device: u16,
    path: &Path,
    counts: &DeviceCounts,
    context: &Context,
) -> Result<bool, CliError> {
    let altered = |problem: String| {
        let message = format!("{}: {problem}", escaped_path(path));
        CliError::from(Problem::from_message("altered", message))
    };
    let failed = |error: &dyn std::fmt::Display| {
        let sentence = format!("{} cannot be checked: {error}", escaped_path(path));
        CliError::from(Problem::failed("file", sentence))
    };
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let file = TdmsFile::open(file).map_err(|error| failed(&error))?;
    let channel = file.channel(&ObjectPath::channel("card", "in0"));
    let channel = channel.ok_or_else(|| altered("the file has no channel".to_owned()))?;
    let number = |name: String| {
        let properties = file.properties(&ObjectPath::group("card"));
        properties.and_then(|all| all.get(name.as_bytes())?.as_u64())
    };
    let mut gaps = (1_u64..).map_while(|gap| {
        let row = number(format!("gap_{gap}_row"))?;
        Some((row, number(format!("gap_{gap}_lost"))?))
    });
    let (mut gap, mut missing) = (gaps.next(), 0);
    let mut values = vec![0_i64; 1 << 16];
    let mut row = 0;
    while row < channel.len() {
        if context.interrupted.is_pressed() {
            return Ok(false);
        }
        let count = channel.read_into(row, &mut values);
        let count = count.map_err(|error| failed(&error))?;
        for value in values.iter().take(count) {
            if let Some((_, lost)) = gap.filter(|(gap_row, _)| *gap_row == row) {
                missing += lost;
                gap = gaps.next();
            }
            if *value != sample(device, row + missing) {
                return Err(altered(format!(
                    "row {row} is {value:#x}, which is not the value of the device"
                )));
            }
            row += 1;
        }
    }
    let acquired = channel.len() + counts.lost;
    match acquired == counts.acquired {
        true => Ok(true),
        false => Err(altered(format!(
            "{acquired} rows were recorded or reported as lost, but {} were acquired",
            counts.acquired
        ))),
    }
}
