//! Histories that are written directly, faster than the clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use trunkline::types::{
    DataType, LibraryDefinition, Moment, Tick, Timestamp, Value, VariableDefinition,
};
use trunkline_engine::history::History;
use trunkline_engine::{Caller, Engine as Core, EngineOptions, Variable, Wake, Wakes, Write};
use trunkline_history::FileHistory;

use super::{SECOND, Signal, every_update};
use crate::Outcome;

const DAY: i64 = 86_400 * SECOND;
/// The start of the day that is recorded.
pub(super) const MIDNIGHT: i64 = 20_000 * DAY;

struct Unheard;

impl Wake for Unheard {
    fn wake(&self) {}
}

/// A history without an engine that runs: time passes as fast as rows are recorded.
struct Recording {
    core: Core,
    history: FileHistory,
    variables: Vec<Arc<Variable>>,
    caller: Caller,
    begin: Instant,
}

impl Recording {
    fn begin(folder: &Path, library: &LibraryDefinition, at: i64) -> Outcome<Self> {
        let core = Core::new(EngineOptions::new("bench", 1));
        let at = Timestamp::from_nanos(at);
        let rules = vec![every_update()?];
        let history = FileHistory::open(folder, rules, &core, Box::new(Unheard), at)?;
        let begin = Instant::now();
        let handles = core.libraries().deploy(library, tick(begin), at)?;
        history.follow(&handles, at)?;
        let variables = handles.iter().filter_map(|handle| core.variable(*handle));
        Ok(Self {
            variables: variables.collect(),
            caller: Caller::local(1, 0),
            core,
            history,
            begin,
        })
    }

    fn write(&self, index: usize, value: f64, time: i64) {
        let value = Value::F64(value);
        let mut write = Write::value(&value);
        let stamp = Timestamp::from_nanos(time);
        write.source_timestamp = Some(stamp);
        let (now, wakes) = (tick(self.begin), &mut Wakes::new());
        let variable = &self.variables[index];
        let _done = self
            .core
            .try_write(&self.caller, now, stamp, variable, &write, wakes);
    }

    fn moment(&self, time: i64) -> Moment {
        Moment {
            now: tick(self.begin),
            wall: Timestamp::from_nanos(time),
        }
    }

    /// Records what was written, and moves closed segments to files.
    fn record(&self, time: i64) -> Outcome<()> {
        let moment = self.moment(time);
        self.history.record(moment)?;
        while self.history.maintain(moment.wall)? {}
        Ok(())
    }

    /// Moves everything to files.
    fn seal(&self, time: i64) -> Outcome<()> {
        let moment = self.moment(time);
        self.history.close_segment(moment)?;
        while self.history.maintain(moment.wall)? {}
        Ok(())
    }
}

fn tick(begin: Instant) -> Tick {
    Tick::from_nanos(begin.elapsed().as_nanos() as u64 + 1)
}

/// Records the samples of a day, as fast as possible. Returns their number.
pub(super) fn day(folder: &Path, hours: i64) -> Outcome<u64> {
    let mut variables = vec![VariableDefinition::new("fast", DataType::F64)];
    let slow = (0..1000).map(|n| VariableDefinition::new(format!("slow/v{n:04}"), DataType::F64));
    variables.extend(slow);
    let library = LibraryDefinition {
        name: "rig".to_owned(),
        description: String::new(),
        variables,
    };
    let recording = Recording::begin(folder, &library, MIDNIGHT)?;
    let (mut signal, mut written) = (Signal::new(), 0);
    let mut write = |index: usize, time: i64| {
        let value = signal.at(written as usize + 7919 * index);
        // A clock jitters by some microseconds.
        recording.write(index, value, time + (signal.random() % 4000) as i64);
        written += 1;
    };
    for second in 0..hours * 3600 {
        let time = MIDNIGHT + second * SECOND;
        for n in 0..100 {
            write(0, time + n * SECOND / 100);
        }
        if second >= (hours - 1) * 3600 {
            for index in 1..=1000 {
                write(index, time + index as i64 * 1000);
            }
        }
        if second % 300 == 0 || second >= (hours - 1) * 3600 {
            recording.record(time)?;
        }
    }
    recording.seal(MIDNIGHT + hours * 3600 * SECOND)?;
    Ok(written)
}

/// Rows take more bytes than this on the disk.
const ROW_BYTES_MIN: u64 = 6;
/// Seconds between two calls of the recorder.
const RECORD_EVERY: i64 = 100;

/// Records a library's variables of type f64 at 1 Hz until the history takes this number of bytes on the
/// disk, and ends before `until`. Values have 52 random bits, and times jitter by a millisecond, so
/// that nothing compresses well. Returns the bytes.
pub(super) fn bytes(
    folder: &Path,
    library: &LibraryDefinition,
    bytes: u64,
    until: i64,
) -> Outcome<u64> {
    let count = library.variables.len();
    let seconds = (bytes / ROW_BYTES_MIN / count as u64) as i64;
    let mut time = until - (seconds + RECORD_EVERY) * SECOND;
    let recording = Recording::begin(folder, library, time)?;
    let mut signal = Signal::new();
    loop {
        for _ in 0..RECORD_EVERY {
            for index in 0..count {
                let value = (signal.random() >> 12) as f64 / (1_u64 << 52) as f64;
                recording.write(index, value, time + (signal.random() % 1_000_000) as i64);
            }
            time += SECOND;
        }
        recording.record(time)?;
        let on_disk = || recording.history.figures().bytes;
        if on_disk() >= bytes || time >= until {
            // Rows take fewer bytes in a file than in the log.
            recording.seal(time)?;
            if on_disk() >= bytes || time >= until {
                return Ok(on_disk());
            }
        }
    }
}
