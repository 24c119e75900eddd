//! A simulated acquisition card: the test bench of recording and playing.
//!
//! A card has devices, each with a ring of its own and a rate, as PCIe digitizers have. Every
//! sample says which it is, so whatever is recorded can be checked value by value, whole, in order
//! and with its gaps. [`SimDevice`] and [`SimOutput`] run in whatever time they are given, which is
//! how tests use them; a [`SimCard`] runs devices in threads, in real time.

mod content;
mod device;
mod output;
mod ring;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_ring::{PagesWanted, RegionMemory};

pub use self::content::{SAMPLE_BYTES, WrongSample, check_samples, fill_samples, sample};
pub use self::device::{DeviceCounts, DeviceOptions, SimDevice};
pub use self::output::{OutputError, SimOutput};
pub use self::ring::CardRing;
use self::ring::Meeting;
use crate::clock::monotonic;

/// How long a device that has nothing to do sleeps at most: it is stopped within that.
const NAP_MAX: Duration = Duration::from_millis(5);

/// How long a device sleeps whose ring is full, when it is to go as fast as it can.
const NAP_FULL: Duration = Duration::from_micros(50);

/// What a card is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CardOptions {
    /// Devices, numbered from 0.
    pub devices: u16,
    /// Channels of a device: samples of [`SAMPLE_BYTES`] in a row.
    pub channels: usize,
    /// Rows that fit into a device's ring.
    pub ring_rows: usize,
    /// Rows that come at a time; the ring is whole transfers.
    pub transfer_rows: u64,
    /// Rows per second of each; 0: as fast as there is room.
    pub rate: u64,
    /// Each ends after so many rows, lost ones too; none: when the card is stopped.
    pub rows_max: Option<u64>,
    /// Regions of a device that may be lent at a time.
    pub lent_max: usize,
    /// Pages of the rings.
    pub pages: PagesWanted,
}

/// A card whose devices run, each in a thread. Dropping it stops them.
#[derive(Debug)]
pub struct SimCard {
    /// One for each device, which stops when it is dropped.
    running: Vec<Sender<()>>,
    threads: Vec<JoinHandle<DeviceCounts>>,
}

impl SimCard {
    /// Starts the devices, and gives out their rings, in their order.
    ///
    /// # Errors
    /// As of [`RegionMemory::create`] and [`SimDevice::new`]; there is no thread to be had.
    pub fn start(options: &CardOptions) -> io::Result<(Self, Vec<CardRing>)> {
        let mut card = Self {
            running: Vec::new(),
            threads: Vec::new(),
        };
        let mut made = Vec::new();
        for device in 0..options.devices {
            let (memory, filler, reader) = RegionMemory::to_record(
                options.channels * SAMPLE_BYTES,
                options.ring_rows,
                options.pages,
                options.lent_max,
            )?;
            let of_device = DeviceOptions {
                device,
                rate: options.rate,
                transfer_rows: options.transfer_rows,
                rows_max: options.rows_max,
            };
            let device = SimDevice::new(filler, of_device)?;
            let meeting = Arc::new(Meeting::default());
            let ring = CardRing {
                memory,
                reader,
                meeting: meeting.clone(),
            };
            made.push((device, meeting, ring));
        }
        // All memory is there: the devices start together.
        let mut rings = Vec::new();
        for (number, (device, meeting, ring)) in made.into_iter().enumerate() {
            let (running, stopped) = channel();
            card.running.push(running);
            let thread = thread::Builder::new()
                .name(format!("card-{number}"))
                .spawn(move || run(device, &stopped, &meeting))?;
            card.threads.push(thread);
            rings.push(ring);
        }
        Ok((card, rings))
    }

    /// Whether every device has acquired all it was to.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Stops the devices; how far each has come. What they have put into their rings stays there.
    #[must_use]
    pub fn stop(mut self) -> Vec<DeviceCounts> {
        self.running.clear();
        let ended = self.threads.into_iter().map(JoinHandle::join);
        // They do not panic.
        ended.map(Result::unwrap_or_default).collect()
    }
}

fn run(mut device: SimDevice, stopped: &Receiver<()>, meeting: &Meeting) -> DeviceCounts {
    while !device.counts().is_over {
        let now = monotonic();
        let mut nap = Duration::ZERO;
        match device.run_until(now) {
            // Who records has written nonsense: there is nobody to acquire for.
            Err(_) => break,
            Ok(0) => {
                let due = device.next_due();
                nap = due.map_or(NAP_FULL, |due| due.saturating_sub(now).min(NAP_MAX));
            }
            Ok(_) if device.must_wake() => meeting.wake(),
            Ok(_) => {}
        }
        if stopped.recv_timeout(nap) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    meeting.end();
    device.counts()
}
