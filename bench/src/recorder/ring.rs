//! Recording from a ring of this process: Trunkline with and without a copy, and writes through the
//! page cache.

use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trunkline_record::{
    BackendChoice, CacheMode, Copying, QueueOptions, TdmsLayout, TdmsRecording, tdms_queue,
};
use trunkline_ring::{PagesWanted, ReadRegion, RegionFiller, RegionMemory, RegionReader};
use trunkline_tdms::TdmsType;

use super::{Task, Timing};
use crate::Outcome;
use crate::record::Row;
use crate::usage::process_cpu_ns;

/// Bytes of a sample.
pub(super) const SAMPLE: usize = 8;
/// Minimum bytes of the ring.
const RING: usize = 64 << 20;
/// Minimum chunks of the ring: one more than the outstanding ones is always free.
const CHUNKS: usize = OUTSTANDING + 4;
/// Outstanding writes, like `fio`.
pub(super) const OUTSTANDING: usize = 8;
/// Longer than any disk takes.
pub(super) const LONG: Duration = Duration::from_secs(120);

/// How chunks reach the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Written in place.
    InPlace,
    /// Copied into another ring first, and written from there.
    Copied,
    /// Copied by the recorder; several chunks form a segment.
    Collected,
    /// Written in place, with a checksum file.
    WithChecksums,
}

/// A ring whose memory already contains samples.
pub(super) struct Ring {
    pub(super) memory: Arc<RegionMemory>,
    pub(super) filler: RegionFiller,
    pub(super) reader: RegionReader,
    samples: u64,
}

impl Ring {
    fn full(task: Task) -> Outcome<Self> {
        Self::of(RING.max(CHUNKS * task.chunk), task.chunk)
    }

    /// Creates a ring of at least the given size in bytes.
    pub(super) fn of(bytes: usize, chunk: usize) -> Outcome<Self> {
        let bytes = bytes.next_multiple_of(chunk);
        let samples = bytes / SAMPLE;
        let regions = bytes / chunk;
        let (memory, mut filler, mut reader) = RegionMemory::for_recording(
            SAMPLE,
            samples,
            PagesWanted::LargestAvailable,
            regions + 1,
        )?;
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
            samples: (chunk / SAMPLE) as u64,
        })
    }

    /// Adds the next chunk, like a device.
    fn next(&mut self) -> Outcome<ReadRegion> {
        if self.filler.room()? < self.samples {
            return Err("the ring is full, though fewer regions are lent".into());
        }
        self.filler.commit(self.samples);
        Ok(self.reader.acquire(self.samples)?)
    }

    /// Copies a region of another ring into a region of this one.
    pub(super) fn copy(&mut self, region: &ReadRegion) -> Outcome<ReadRegion> {
        if self.filler.push(region.bytes())? < self.samples {
            return Err("the ring is full, though fewer regions are lent".into());
        }
        Ok(self.reader.acquire(self.samples)?)
    }
}

/// Creates a recording that bypasses the page cache.
pub(super) fn recording(
    path: &Path,
    memory: &Arc<RegionMemory>,
    way: Way,
    row: &mut Row,
) -> Outcome<TdmsRecording> {
    let is_collected = way == Way::Collected;
    let options = QueueOptions {
        outstanding_max: NonZeroUsize::new(OUTSTANDING).unwrap_or(NonZeroUsize::MIN),
        wait: LONG,
        copying: is_collected.then(|| Copying {
            below_bytes: usize::MAX,
            ..Copying::default()
        }),
        has_sums: way == Way::WithChecksums,
        ..QueueOptions::default()
    };
    let (queue, _) = tdms_queue(
        path,
        BackendChoice::Uring,
        CacheMode::RequireDirect,
        options,
        vec![memory.clone()],
    )?;
    if let Some(why) = queue.registration_failure() {
        row.invalid.push(format!("memory is not registered: {why}"));
    }
    let layout = TdmsLayout {
        timestamps: Vec::new(),
        group: "bench".into(),
        channels: vec![("samples".into(), TdmsType::U64)],
        waveform: None,
    };
    Ok(TdmsRecording::start(queue, &layout, LONG)?)
}

/// Records with Trunkline, bypassing the page cache.
pub(super) fn record(task: Task, path: &Path, way: Way, row: &mut Row) -> Outcome<Timing> {
    let mut device = Ring::full(task)?;
    let mut copies = match way {
        Way::Copied => Some(Ring::full(task)?),
        _ => None,
    };
    let memory = copies.as_ref().unwrap_or(&device).memory.clone();
    let mut recording = recording(path, &memory, way, row)?;
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
    let by_hand = if way == Way::Copied { task.bytes } else { 0 };
    Ok(Timing {
        elapsed: start.elapsed(),
        cpu_s: (process_cpu_ns() - cpu) as f64 / 1e9,
        file_bytes: closed.length,
        copied: Some(progress.bytes_copied + by_hand),
    })
}

/// Writes a plain file through the page cache.
pub(super) fn write_cached(task: Task, path: &Path) -> Outcome<Timing> {
    let mut device = Ring::full(task)?;
    let mut file = File::create(path)?;
    let (start, cpu) = (Instant::now(), process_cpu_ns());
    for _ in 0..task.chunks() {
        file.write_all(device.next()?.bytes())?;
    }
    file.sync_data()?;
    Ok(Timing {
        elapsed: start.elapsed(),
        cpu_s: (process_cpu_ns() - cpu) as f64 / 1e9,
        file_bytes: task.bytes,
        copied: None,
    })
}
