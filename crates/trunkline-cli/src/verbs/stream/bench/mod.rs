//! `stream bench`: measures the speed of a stream on this machine, and checks its content.
//!
//! ```text
//!   this process: reads, checks, prints
//!        ^
//!        |  bench/data, then bench/latency
//!   the writer: a process of the same program, or a thread
//! ```

mod content;
mod endpoints;

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use trunkline::stream::{Options, element_bytes};
use trunkline::{Engine, EngineOptions};
use trunkline_types::DataType;
use trunkline_types::wire::encoded_len;

use self::content::value_at;
use self::endpoints::{Plan, ReadResult, WriteResult};
use super::units::{bytes_text, per_second, size};
use super::{BufferArgs, PROGRAM, problem};
use crate::output::record::{self, JsonSchema, Serialize};
use crate::output::values::Amount;
use crate::{CliError, Context, Exit, Problem};

/// The connection between the two endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum BenchTransport {
    /// TCP, as between machines
    Tcp,
    /// Shared memory, as between programs on one machine; the command starts an engine for this
    Local,
}

/// Default capacity of a buffer, in elements of fixed size (NS-87).
const CAPACITY: u64 = 1_000_000;

/// Default capacity of a buffer, in elements of varying size. A smaller number is enough (NS-81).
const CAPACITY_VARYING: u64 = 100_000;

const CAPACITY_HELP: &str = "Size of the buffer in elements (default: 1000000, or 100000 if elements \
                             vary in size)";
const TYPE_HELP: &str =
    "Type of the elements, such as i32, string or 'struct(t: timestamp, volts: f64)'";

/// Port of the engine that the command starts. It only determines the name of the engine's Unix
/// socket; the engine opens no TCP port.
const ENGINE_PORT: u16 = 5850;

/// An endpoint gives up when its peer has been disconnected for this long.
const GONE_AFTER: Duration = Duration::from_secs(10);

/// Measure the throughput and latency of a stream on this machine, and check its content
///
/// The command needs no running engine. It sends elements whose content depends on their position,
/// and checks them. The last line is `lost N`: the number of elements that did not arrive, or
/// arrived with different content.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_args(|arg| match arg.get_id().as_str() {
    "capacity" => arg.help(CAPACITY_HELP),
    "data_type" => arg.help(TYPE_HELP),
    _ => arg,
}))]
pub(crate) struct Args {
    #[command(flatten)]
    buffer: BufferArgs,

    /// Bytes to send, such as 64MB
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1GB",
        value_parser = size,
        allow_hyphen_values = true
    )]
    bytes: u64,

    /// The connection between the two endpoints
    #[arg(long, value_name = "TRANSPORT", default_value = "tcp")]
    over: BenchTransport,

    /// Run both endpoints in one process instead of two
    #[arg(long)]
    threads: bool,

    /// Number of elements whose latency is measured one by one
    // NS-86.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        value_parser = crate::arguments::number::<u64>(0..=10_000_000),
        allow_negative_numbers = true
    )]
    samples: u64,

    /// For the writer's process: the URL of the reader
    #[arg(long, value_name = "URL", hide = true)]
    bench_writer: Option<String>,

    /// For the writer's process: the folder with the engine's socket
    #[arg(long, value_name = "PATH", hide = true)]
    bench_sockets: Option<PathBuf>,
}

/// The JSON line that `stream bench` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[schemars(title = "Trunkline stream bench, version 1")]
pub(crate) enum BenchEvent {
    /// The measurement.
    Bench {
        /// Type of the elements.
        #[serde(rename = "type")]
        data_type: String,
        /// Transport of the connection.
        transport: &'static str,
        /// 2: each endpoint has its own process; 1: both endpoints are threads of one process.
        #[schemars(range(min = 1))]
        processes: u8,
        /// Number of elements that arrived.
        elements: u64,
        /// Total size of these elements, in bytes.
        bytes: u64,
        /// Number of elements per call.
        chunk: usize,
        /// Capacity of each of the two buffers, in elements.
        capacity: usize,
        /// Time from connecting to the arrival of the last element, in seconds.
        seconds: Amount,
        /// Throughput in bytes per second.
        bytes_per_second: Amount,
        /// Throughput in elements per second.
        elements_per_second: Amount,
        /// CPU time of both endpoints together, in seconds per 10⁹ bytes; only with `--threads`.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpu_per_gb: Option<Amount>,
        /// CPU time of the writing process, in seconds per 10⁹ bytes; not with `--threads`.
        #[serde(skip_serializing_if = "Option::is_none")]
        writer_cpu_per_gb: Option<Amount>,
        /// CPU time of the reading process, in seconds per 10⁹ bytes; not with `--threads`.
        #[serde(skip_serializing_if = "Option::is_none")]
        reader_cpu_per_gb: Option<Amount>,
        /// Median latency in microseconds, from writing an element, which is flushed at once, to
        /// reading it. Null without samples.
        p50_us: Option<Amount>,
        /// 99th percentile of the latency, in microseconds. Null without samples.
        p99_us: Option<Amount>,
        /// Maximum latency, in microseconds. Null without samples.
        max_us: Option<Amount>,
        /// Number of elements that did not arrive, or arrived with content that differs from what
        /// was written.
        lost: u64,
    },
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    if let Some(base) = &args.bench_writer {
        let plan = plan(args, base.clone(), args.bench_sockets.clone())?;
        return write(&plan, context);
    }
    let directory = BenchDirectory::new(args.over)?;
    let plan = plan(args, directory.base.clone(), directory.sockets())?;
    let (written, received) = match args.threads {
        true => in_threads(&plan),
        false => in_processes(args, &plan, &directory),
    }?;
    show(args, &plan, written, &received, context)?;
    Ok(Exit::Lost.when(lost(&plan, &received) > 0))
}

fn lost(plan: &Plan, received: &ReadResult) -> u64 {
    plan.elements
        .saturating_sub(received.elements)
        .saturating_add(received.wrong)
}

/// Returns the size of an element in bytes, or of the first one if they vary in size.
fn element_size(data_type: &DataType) -> usize {
    let encoded = || encoded_len(&value_at(data_type, 0)) + 4;
    element_bytes(data_type).unwrap_or_else(encoded)
}

fn plan(args: &Args, base: String, sockets: Option<PathBuf>) -> Result<Plan, Problem> {
    let fixed = element_bytes(&args.buffer.data_type);
    let element_len = element_size(&args.buffer.data_type);
    let defaults = Options::default();
    let bytes_max = match args.buffer.buffer {
        Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
        None => defaults.bytes_max,
    };
    let capacity = args.buffer.capacity.unwrap_or(match fixed {
        Some(_) => CAPACITY,
        None => CAPACITY_VARYING,
    });
    let mut chunk = args.buffer.chunk(capacity)?;
    if fixed.is_none() {
        // A chunk takes at most a quarter of the buffer, so that the buffer holds several chunks.
        chunk = chunk.min((bytes_max / element_len / 4).max(1));
    }
    Ok(Plan {
        data_type: args.buffer.data_type.clone(),
        elements: (args.bytes / element_len as u64).max(1),
        chunk,
        latency_samples: args.samples,
        base,
        options: Options {
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX),
            bytes_max,
            timeout: Some(GONE_AFTER * 3),
            gone_after: Some(GONE_AFTER),
            directory_port: ENGINE_PORT,
            // With an engine, the other process finds this endpoint through the engine's socket.
            tcp_only: args.over == BenchTransport::Tcp && sockets.is_none(),
            sockets,
            program: PROGRAM.to_owned(),
            ..defaults
        },
    })
}

struct BenchDirectory {
    base: String,
    /// The engine that manages the names, if the URL has no port, and the folder of its socket.
    engine: Option<(Engine, TemporaryFolder)>,
}

impl BenchDirectory {
    fn new(over: BenchTransport) -> Result<Self, CliError> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Problem::failed("system", format!("{what}: {error}"))
        };
        if over == BenchTransport::Tcp {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
            let address = listener.and_then(|listener| listener.local_addr());
            let address = address.map_err(|error| failed("no TCP port can be opened", &error))?;
            return Ok(Self {
                base: format!("tl://localhost:{}/bench", address.port()),
                engine: None,
            });
        }
        let folder = TemporaryFolder::new().map_err(|error| {
            failed("a folder for the engine's socket cannot be created", &error)
        })?;
        let socket = folder.0.join(format!("{ENGINE_PORT}.sock"));
        let listen = format!("unix:{}", socket.display()).parse();
        let listen =
            listen.map_err(|error| failed("the engine's socket has no valid path", &error))?;
        let options = EngineOptions {
            name: "bench".to_owned(),
            listen: vec![listen],
            health: Duration::ZERO,
            ..EngineOptions::default()
        };
        let engine =
            Engine::start(options).map_err(|error| failed("the engine cannot start", &error))?;
        Ok(Self {
            base: "tl://localhost/bench reader".to_owned(),
            engine: Some((engine, folder)),
        })
    }

    fn sockets(&self) -> Option<PathBuf> {
        self.engine.as_ref().map(|(_, folder)| folder.0.clone())
    }
}

/// A folder that is removed on drop.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> std::io::Result<Self> {
        let parent =
            trunkline_net::near::prepare_socket_folder().unwrap_or_else(std::env::temp_dir);
        let path = parent.join(format!("bench-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // If this fails, the files are left behind in a temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn in_threads(plan: &Plan) -> Result<(WriteResult, ReadResult), CliError> {
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| endpoints::write(plan));
        let received = endpoints::read(plan);
        let written = writer.join();
        let received = match (received, &written) {
            (Ok(received), _) => received,
            // The reader has failed because there is no writer.
            (Err(_), Ok(Err(error))) => return Err(problem(error).into()),
            (Err(error), _) => return Err(problem(&error).into()),
        };
        match written {
            Ok(Ok(written)) => Ok((written, received)),
            // The error of the reader is reported instead.
            Ok(Err(_)) if received.error.is_some() => Ok((WriteResult::default(), received)),
            Ok(Err(error)) => Err(problem(&error).into()),
            Err(_) => Err(broken_writer("its thread panicked")),
        }
    })
}

fn broken_writer(how: &str) -> CliError {
    let sentence = format!("the writer did not finish: {how}");
    Problem::failed("writer", sentence).into()
}

/// The writer's process, which is killed on drop.
struct WriterProcess(Child);

impl Drop for WriterProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn in_processes(
    args: &Args,
    plan: &Plan,
    directory: &BenchDirectory,
) -> Result<(WriteResult, ReadResult), CliError> {
    let child = writer_command(args, plan, directory.sockets().as_deref())
        .and_then(|mut command| command.spawn())
        .map_err(|error| broken_writer(&error.to_string()))?;
    let mut writer = WriterProcess(child);
    let received = endpoints::read(plan).map_err(|error| problem(&error))?;
    let mut report = String::new();
    if let (Some(out), None) = (&mut writer.0.stdout, &received.error) {
        out.read_to_string(&mut report)
            .map_err(|error| broken_writer(&error.to_string()))?;
    }
    match write_result(&report) {
        Some(written) => Ok((written, received)),
        None if received.error.is_some() => Ok((WriteResult::default(), received)),
        None => Err(broken_writer("standard error gives the reason")),
    }
}

fn writer_command(args: &Args, plan: &Plan, sockets: Option<&Path>) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["stream", "bench", "--bench-writer", &plan.base])
        .args(["--type", &args.buffer.data_type.to_string()])
        .args(["--chunk", &plan.chunk.to_string()])
        .args(["--capacity", &plan.options.capacity.to_string()])
        .args(["--buffer", &plan.options.bytes_max.to_string()])
        .args(["--samples", &plan.latency_samples.to_string()])
        .args(["--bytes", &args.bytes.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if let Some(sockets) = sockets {
        command.arg("--bench-sockets").arg(sockets);
    }
    Ok(command)
}

/// Runs this process as the writer, and reports the result to the reader's process.
fn write(plan: &Plan, context: &Context) -> Result<Exit, CliError> {
    let written = endpoints::write(plan).map_err(|error| problem(&error))?;
    let report = json!({ "cpu": written.cpu.as_secs_f64(), "left": written.remaining });
    context.terminal.line(&report.to_string())?;
    Ok(Exit::Success)
}

fn write_result(report: &str) -> Option<WriteResult> {
    let report: Json = serde_json::from_str(report).ok()?;
    Some(WriteResult {
        cpu: Duration::try_from_secs_f64(report["cpu"].as_f64()?).ok()?,
        remaining: report["left"].as_u64()?,
    })
}

/// Returns a percentile of sorted durations.
fn percentile(times: &[Duration], percent: usize) -> Option<Duration> {
    times
        .get(times.len().saturating_mul(percent) / 100)
        .or(times.last())
        .copied()
}

fn show(
    args: &Args,
    plan: &Plan,
    written: WriteResult,
    received: &ReadResult,
    context: &Context,
) -> Result<(), CliError> {
    let bytes = received
        .elements
        .saturating_mul(element_size(&plan.data_type) as u64);
    let gigabytes = (bytes as f64 / 1e9).max(1e-9);
    // CPU time is measured per process, so it cannot be divided between two threads.
    let (writing, reading) = (written.cpu.as_secs_f64(), received.cpu.as_secs_f64());
    let elements_per_second = per_second(received.elements, received.elapsed);
    let bytes_per_second = per_second(bytes, received.elapsed);
    let times = [50, 99, 100].map(|percent| percentile(&received.latencies, percent));
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let (lost, terminal) = (lost(plan, received), &context.terminal);
    if context.settings.is_json() {
        let [p50_us, p99_us, max_us] = times.map(|time| time.map(|time| Amount(micros(time))));
        let both = args.threads.then_some(Amount(reading / gigabytes));
        let each = |seconds: f64| (!args.threads).then_some(Amount(seconds / gigabytes));
        return terminal.line(&record::json(&BenchEvent::Bench {
            data_type: plan.data_type.to_string(),
            transport: received.transport,
            processes: if args.threads { 1 } else { 2 },
            elements: received.elements,
            bytes,
            chunk: plan.chunk,
            capacity: plan.options.capacity,
            seconds: received.elapsed.into(),
            bytes_per_second: Amount(bytes_per_second),
            elements_per_second: Amount(elements_per_second),
            cpu_per_gb: both,
            writer_cpu_per_gb: each(writing),
            reader_cpu_per_gb: each(reading),
            p50_us,
            p99_us,
            max_us,
            lost,
        }));
    }
    let processes = ["2 processes", "2 threads"][usize::from(args.threads)];
    terminal.line(&format!(
        "{} over {}, {processes}: {} in calls of {}, buffers of {} elements",
        plan.data_type,
        received.transport,
        bytes_text(bytes as f64),
        plan.chunk,
        plan.options.capacity,
    ))?;
    terminal.line(&format!(
        "throughput   {:.0} MB/s   {elements_per_second:.0} elements/s",
        bytes_per_second / 1e6,
    ))?;
    let (writing, reading) = (writing / gigabytes, reading / gigabytes);
    terminal.line(&match args.threads {
        true => format!("processor    {reading:.3} s/GB, both ends together"),
        false => format!("processor    {writing:.3} s/GB writing   {reading:.3} s/GB reading"),
    })?;
    if let [Some(p50), Some(p99), Some(max)] = times.map(|time| time.map(micros)) {
        terminal.line(&format!(
            "latency      p50 {p50:.1} µs   p99 {p99:.1} µs   max {max:.1} µs, of a flushed element"
        ))?;
    }
    if let Some(error) = &received.error {
        terminal.problem(&problem(error), 0)?;
    }
    if received.wrong > 0 {
        terminal.line(&format!("wrong {}", received.wrong))?;
    }
    terminal.line(&format!("lost {lost}"))
}
