//! Simulates an acquisition card, for tests of recording and playback.
//!
//! A card has devices, each with its own ring and rate, like PCIe digitizers. Every sample encodes
//! its device and number, so a recording can be checked sample by sample for completeness, order
//! and gaps. [`SimDevice`] and [`SimOutput`] run in simulated time, for tests; a [`SimCard`]
//! runs devices in threads, in real time.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod content;
mod device;
mod output;
mod ring;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use trunkline_ring::{PagesWanted, RegionMemory};

pub use self::content::{SAMPLE_BYTES, WrongSample, check_samples, fill_samples, sample};
pub use self::device::{DeviceCounts, DeviceOptions, SimDevice};
pub use self::output::{OutputError, SimOutput};
pub use self::ring::CardRing;
use self::ring::Signal;

/// Maximum time for which an idle device sleeps. A stop takes effect within this time.
const SLEEP_MAX: Duration = Duration::from_millis(5);

/// Time for which a device with an unlimited rate sleeps if its ring is full.
const SLEEP_FULL: Duration = Duration::from_micros(50);

/// Configures a [`SimCard`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CardOptions {
    /// Number of devices, numbered from 0.
    pub devices: u16,
    /// Number of channels of a device; a row has one sample of [`SAMPLE_BYTES`] per channel.
    pub channels: usize,
    /// Capacity of a device's ring in rows.
    pub ring_rows: usize,
    /// Rows per transfer; the ring's capacity must be a multiple of this number.
    pub transfer_rows: u64,
    /// Rows per second of each device; 0 means as fast as the ring accepts rows.
    pub rate: u64,
    /// Rows, including lost ones, after which each device ends; `None` means that it runs until
    /// stopped.
    pub rows_max: Option<u64>,
    /// Maximum number of regions of a device that are lent at a time.
    pub lent_max: usize,
    /// The memory pages to use for the rings.
    pub pages: PagesWanted,
}

/// A card with running devices, each in its own thread. Dropping it stops them.
#[derive(Debug)]
pub struct SimCard {
    /// One sender per device; dropping it stops the device.
    stop_senders: Vec<Sender<()>>,
    threads: Vec<JoinHandle<DeviceCounts>>,
}

impl SimCard {
    /// Starts the devices and returns their rings, in device order.
    ///
    /// # Errors
    /// Fails if [`RegionMemory::for_recording`] or [`SimDevice::new`] fails, or if a thread cannot
    /// be started.
    pub fn start(options: &CardOptions) -> io::Result<(Self, Vec<CardRing>)> {
        let mut card = Self {
            stop_senders: Vec::new(),
            threads: Vec::new(),
        };
        let mut parts = Vec::new();
        for device in 0..options.devices {
            let (memory, filler, reader) = RegionMemory::for_recording(
                options.channels * SAMPLE_BYTES,
                options.ring_rows,
                options.pages,
                options.lent_max,
            )?;
            let device_options = DeviceOptions {
                device,
                rate: options.rate,
                transfer_rows: options.transfer_rows,
                rows_max: options.rows_max,
            };
            let device = SimDevice::new(filler, device_options)?;
            let signal = Arc::new(Signal::default());
            let ring = CardRing {
                memory,
                reader,
                signal: signal.clone(),
            };
            parts.push((device, signal, ring));
        }
        // Now that all memory is allocated, the devices start together.
        let mut rings = Vec::new();
        for (number, (device, signal, ring)) in parts.into_iter().enumerate() {
            let (stop_sender, stop_receiver) = channel();
            card.stop_senders.push(stop_sender);
            let thread = thread::Builder::new()
                .name(format!("card-{number}"))
                .spawn(move || run(device, &stop_receiver, &signal))?;
            card.threads.push(thread);
            rings.push(ring);
        }
        Ok((card, rings))
    }

    /// Returns true once every device has ended by itself.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Stops the devices and returns their final counts. Data already in the rings stays there.
    #[must_use]
    pub fn stop(mut self) -> Vec<DeviceCounts> {
        self.stop_senders.clear();
        let ended = self.threads.into_iter().map(JoinHandle::join);
        // The threads do not panic.
        ended.map(Result::unwrap_or_default).collect()
    }
}

fn run(mut device: SimDevice, stop_receiver: &Receiver<()>, signal: &Signal) -> DeviceCounts {
    while !device.counts().is_over {
        let now = monotonic();
        let mut sleep = Duration::ZERO;
        match device.run_until(now) {
            // The reader has written invalid positions, so the device cannot continue.
            Err(_) => break,
            Ok(0) => {
                let due = device.next_due();
                sleep = due.map_or(SLEEP_FULL, |due| due.saturating_sub(now).min(SLEEP_MAX));
            }
            Ok(_) if device.must_wake() => signal.wake(),
            Ok(_) => {}
        }
        if stop_receiver.recv_timeout(sleep) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    signal.end();
    device.counts()
}

/// Returns the time since an arbitrary point in the past.
fn monotonic() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}
