//! From a ring of this process: Trunkline with and without a copy, and writes through the cache.

use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trunkline_record::{
    Backend, BackendWanted, Directness, QueueOptions, TdmsLayout, TdmsRecording, WriteQueue,
    open_file,
};
use trunkline_ring::{PagesWanted, ReadRegion, RegionFiller, RegionMemory, RegionReader};
use trunkline_tdms::TdmsType;

use super::{Task, Took};
use crate::Outcome;
use crate::record::Row;
use crate::usage::process_cpu_ns;

/// Bytes of a sample.
const SAMPLE: usize = 8;
/// Bytes of the ring, at least.
const RING: usize = 64 << 20;
/// Chunks that it has at least: one more than are outstanding is always free.
const CHUNKS: usize = OUTSTANDING + 4;
/// Writes at a time, as `fio` has.
const OUTSTANDING: usize = 8;
/// Longer than any disk takes.
const LONG: Duration = Duration::from_secs(120);

/// A ring whose memory holds samples already.
struct Ring {
    memory: Arc<RegionMemory>,
    filler: RegionFiller,
    reader: RegionReader,
    samples: u64,
}

impl Ring {
    fn full(task: Task) -> Outcome<Self> {
        let bytes = RING.max(CHUNKS * task.chunk).next_multiple_of(task.chunk);
        let samples = bytes / SAMPLE;
        let regions = bytes / task.chunk;
        let (memory, mut filler, mut reader) =
            RegionMemory::to_record(SAMPLE, samples, PagesWanted::LargestThereAre, regions + 1)?;
        for (number, sample) in filler
            .next(samples as u64)?
            .chunks_exact_mut(SAMPLE)
            .enumerate()
        {
            sample.copy_from_slice(&(number as u64).to_le_bytes());
        }
        filler.commit(samples as u64);
        drop(reader.acquire(samples as u64)?);
        Ok(Self {
            memory,
            filler,
            reader,
            samples: (task.chunk / SAMPLE) as u64,
        })
    }

    /// The device has the next chunk.
    fn next(&mut self) -> Outcome<ReadRegion> {
        if self.filler.room()? < self.samples {
            return Err("the ring is full, though fewer regions are lent".into());
        }
        self.filler.commit(self.samples);
        Ok(self.reader.acquire(self.samples)?)
    }

    /// A region of this ring with what another one's has.
    fn copy(&mut self, region: &ReadRegion) -> Outcome<ReadRegion> {
        if self.filler.push(region.bytes())? < self.samples {
            return Err("the ring is full, though fewer regions are lent".into());
        }
        Ok(self.reader.acquire(self.samples)?)
    }
}

fn recording(
    path: &Path,
    memory: &Arc<RegionMemory>,
    row: &mut Row,
) -> Outcome<TdmsRecording<Box<dyn Backend>>> {
    let options = QueueOptions {
        outstanding_max: NonZeroUsize::new(OUTSTANDING).unwrap_or(NonZeroUsize::MIN),
        wait: LONG,
        ..QueueOptions::default()
    };
    let opened = open_file(
        path,
        BackendWanted::Uring,
        Directness::Required,
        options.writes_max(),
    )?;
    let queue = WriteQueue::new(opened.backend, options, vec![memory.clone()]);
    if let Some(why) = queue.not_registered() {
        row.invalid.push(format!("memory is not registered: {why}"));
    }
    let layout = TdmsLayout {
        group: "bench".into(),
        channels: vec![("samples".into(), TdmsType::U64)],
    };
    Ok(TdmsRecording::start(queue, &layout, LONG)?)
}

/// Through the recorder, around the cache; with one copy first where it `is_copied`.
pub(super) fn record(task: Task, path: &Path, is_copied: bool, row: &mut Row) -> Outcome<Took> {
    let mut device = Ring::full(task)?;
    let mut copies = match is_copied {
        true => Some(Ring::full(task)?),
        false => None,
    };
    let memory = copies.as_ref().unwrap_or(&device).memory.clone();
    let mut recording = recording(path, &memory, row)?;
    let (start, cpu) = (Instant::now(), process_cpu_ns());
    for _ in 0..task.chunks() {
        let region = device.next()?;
        let region = match &mut copies {
            Some(copies) => copies.copy(&region)?,
            None => region,
        };
        recording.write(region)?;
    }
    let closed = recording.close(LONG)?;
    let progress = recording.progress();
    let by_hand = if is_copied { task.bytes } else { 0 };
    Ok(Took {
        elapsed: start.elapsed(),
        cpu_s: (process_cpu_ns() - cpu) as f64 / 1e9,
        file_bytes: closed.length,
        copied: Some(progress.bytes_copied + by_hand),
    })
}

/// A plain file through the system's cache.
pub(super) fn write_cached(task: Task, path: &Path) -> Outcome<Took> {
    let mut device = Ring::full(task)?;
    let mut file = File::create(path)?;
    let (start, cpu) = (Instant::now(), process_cpu_ns());
    for _ in 0..task.chunks() {
        file.write_all(device.next()?.bytes())?;
    }
    file.sync_data()?;
    Ok(Took {
        elapsed: start.elapsed(),
        cpu_s: (process_cpu_ns() - cpu) as f64 / 1e9,
        file_bytes: task.bytes,
        copied: None,
    })
}
