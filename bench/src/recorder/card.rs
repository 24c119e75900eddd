//! ZC-18: devices, each with a ring and a file. Their rate is raised until a ring overflows.
//!
//! As in W9, the rings are not filled: a device announces samples at its rate, and loses those for
//! which there is no room, like a DMA engine.

use std::time::{Duration, Instant};

use tempfile::TempDir;
use trunkline_record::TdmsRecording;
use trunkline_ring::NoRegion;

use super::ring::{LONG, OUTSTANDING, Ring, SAMPLE, Way, recording};
use super::{DEVICES, folder};
use crate::Outcome;
use crate::record::Row;
use crate::settings::Settings;
use crate::usage::process_cpu_ns;

/// Bytes of a region.
const CHUNK: usize = 1 << 20;
/// Memory of all rings together, in bytes, shared equally.
const RINGS: usize = 256 << 20;
/// Interval of polling.
const EVERY: Duration = Duration::from_micros(200);
/// Steps of the search for the highest rate.
const STEPS: u32 = 6;

/// A device and its recording.
struct Device {
    ring: Ring,
    copies: Option<Ring>,
    recording: TdmsRecording,
    /// Samples acquired, including lost ones.
    acquired: u64,
}

/// The result of one rate.
struct Trial {
    bytes: u64,
    elapsed: Duration,
    cpu_s: f64,
    lost: u64,
}

impl Device {
    /// Announces samples up to `due`; those without room are lost.
    fn acquire(&mut self, due: u64) -> Outcome<()> {
        let new = due.saturating_sub(self.acquired);
        let mut left = new;
        while left > 0 {
            // At most to the end of the memory.
            let taken = left.min(self.ring.filler.room()?);
            if taken == 0 {
                self.ring.filler.lose(left);
                break;
            }
            self.ring.filler.commit(taken);
            left -= taken;
        }
        self.acquired += new;
        Ok(())
    }

    /// Hands over available chunks without waiting.
    fn record(&mut self) -> Outcome<()> {
        let samples = (CHUNK / SAMPLE) as u64;
        self.recording.poll()?;
        while self.recording.progress().outstanding < OUTSTANDING {
            let region = match self.ring.reader.acquire(samples) {
                Ok(region) => region,
                Err(NoRegion::NotYet { .. } | NoRegion::AllLent { .. }) => break,
                Err(error) => return Err(error.into()),
            };
            let region = match &mut self.copies {
                Some(copies) => copies.copy(&region)?,
                None => region,
            };
            self.recording.write(region)?;
        }
        Ok(())
    }
}

/// Records devices for a time, each at `rate` bytes per second; `None`: as fast as there is room.
fn trial(
    folder: &TempDir,
    devices: usize,
    way: Way,
    rate: Option<f64>,
    time: Duration,
    row: &mut Row,
) -> Outcome<Trial> {
    let mut all = Vec::with_capacity(devices);
    for number in 0..devices {
        let ring = Ring::of(RINGS / devices, CHUNK)?;
        let copies = match way {
            // Room for the regions that are being written, and one that is being copied.
            Way::Copied => Some(Ring::of((OUTSTANDING + 2) * CHUNK, CHUNK)?),
            _ => None,
        };
        let memory = copies.as_ref().unwrap_or(&ring).memory.clone();
        let path = folder.path().join(format!("device{number}.tdms"));
        all.push(Device {
            recording: recording(&path, &memory, way, row)?,
            ring,
            copies,
            acquired: 0,
        });
    }
    let (start, cpu) = (Instant::now(), process_cpu_ns());
    // A loss ends the trial.
    while start.elapsed() < time && all.iter().all(|device| device.ring.filler.lost() == 0) {
        for device in &mut all {
            let due = match rate {
                Some(rate) => (start.elapsed().as_secs_f64() * rate / SAMPLE as f64) as u64,
                None => device.acquired + device.ring.filler.room()?,
            };
            device.acquire(due)?;
            if device.ring.filler.lost() > 0 {
                // Regions cannot contain a gap.
                break;
            }
            device.record()?;
        }
        std::thread::sleep(EVERY);
    }
    let (elapsed, cpu_ns) = (start.elapsed(), process_cpu_ns() - cpu);
    let mut bytes = 0;
    let mut lost = 0;
    for device in &mut all {
        bytes += device.recording.rows() * SAMPLE as u64;
        lost += device.ring.filler.lost();
        device.recording.close(LONG)?;
    }
    drop(all);
    for number in 0..devices {
        std::fs::remove_file(folder.path().join(format!("device{number}.tdms")))?;
    }
    Ok(Trial {
        bytes,
        elapsed,
        cpu_s: cpu_ns as f64 / 1e9,
        lost,
    })
}

/// Searches the highest rate without losses.
pub(super) fn cell(system: &str, way: Way, settings: &Settings, placement: &str) -> Outcome<Row> {
    let devices: usize = settings.value("devices")?;
    let time = Duration::from_millis(settings.value("ms")?);
    let mut row = Row::new(DEVICES, system, format!("devices={devices}"), placement);
    row.waiting = "sleeping".to_owned();
    let folder = folder()?;
    let fastest = trial(&folder, devices, way, None, time, &mut row)?;
    let fastest = fastest.bytes as f64 / fastest.elapsed.as_secs_f64() / devices as f64;
    let (mut good, mut bad) = (0.0, 1.2 * fastest);
    let mut best = None;
    for step in 0..STEPS {
        // The first step tries the expected rate.
        let rate = if step == 0 {
            0.9 * fastest
        } else {
            f64::midpoint(good, bad)
        };
        let tried = trial(&folder, devices, way, Some(rate), time, &mut row)?;
        if tried.lost == 0 {
            good = rate;
            best = Some(tried);
        } else {
            bad = rate;
        }
    }
    let Some(best) = best else {
        row.invalid
            .push("samples were lost at every rate".to_owned());
        return Ok(row);
    };
    let bytes = best.bytes as f64;
    // Only what was written counts: some samples are still in the rings.
    let written = bytes / 1e6 / best.elapsed.as_secs_f64();
    row.figure("mb_per_s_device", written / devices as f64);
    row.figure("mb_per_s", written);
    row.figure("mb_per_s_no_rate", fastest * devices as f64 / 1e6);
    row.figure("cpu_s_per_gb", best.cpu_s / (bytes / 1e9));
    row.figure(
        "cpu_percent",
        best.cpu_s / best.elapsed.as_secs_f64() * 100.0,
    );
    Ok(row)
}
