//! Moves elements of a stream from the ring into a recording, in whole regions. Elements that have
//! waited too long are moved without filling a region.

use std::time::Duration;

use trunkline_record::{Durability, QueueError, RecordError};
use trunkline_ring::{NoRegion, ReadRegion, RegionReader};

use super::Stopped;
use super::streams::RowsRecording;

/// Longest wait before the stop signal is checked: for elements, or for free space on the disk.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Longest time that the disk may stall while the ring is full.
const DISK_WAIT: Duration = Duration::from_secs(5);

/// Longest time that elements of a slow stream wait for a full region, if they fill at least one
/// block of the file. Fewer elements wait longer, because each write with its header takes up to
/// two blocks.
const AGE_MAX: Duration = Duration::from_secs(1);
const PARTIAL_BLOCK_AGE_MAX: Duration = Duration::from_secs(5);
const BLOCK_BYTES: u64 = 4096;

/// Moves elements from the ring to the recording. Waiting times are measured with the recording's
/// clock.
pub(super) struct RegionsOut<'a, R, F> {
    ring: &'a mut RegionReader,
    recording: &'a mut R,
    /// Maximum number of rows per region.
    rows: u64,
    /// Row in the ring at which the next region begins.
    next_row: u64,
    /// Smallest number of rows that fills whole blocks.
    block_rows: u64,
    /// Rows of the recording before this stream.
    rows_before: u64,
    /// Maximum number of rows of a region that begins within a block; 0 if every region must begin
    /// at a block boundary.
    unaligned_rows_max: u64,
    /// Time of the last write. The waiting time of elements counts from here.
    last_write: Duration,
    stopped: &'a Stopped,
    on_region: F,
}

impl<'a, R: RowsRecording, F: FnMut(&R)> RegionsOut<'a, R, F> {
    pub(super) fn new(
        ring: &'a mut RegionReader,
        recording: &'a mut R,
        region_rows: u64,
        stopped: &'a Stopped,
        on_region: F,
    ) -> Self {
        let row_bytes = ring.element_bytes().max(1);
        let copying = recording.copying();
        Self {
            rows: region_rows.clamp(1, ring.capacity()),
            next_row: 0,
            // The block size divided by the greatest common divisor of the block size and the row
            // size. The divisor is a power of two, as the block size is.
            block_rows: BLOCK_BYTES >> (row_bytes as u64).trailing_zeros().min(BLOCK_BYTES.ilog2()),
            rows_before: recording.rows(),
            unaligned_rows_max: copying.map_or(0, |copying| copying.segment_bytes / row_bytes)
                as u64,
            last_write: recording.now(),
            ring,
            recording,
            stopped,
            on_region,
        }
    }

    pub(super) fn recorded(&self) -> u64 {
        self.recording.rows().saturating_sub(self.rows_before)
    }

    pub(super) fn must_end(&self) -> bool {
        self.stopped.is_stopped()
    }

    /// Waits until all regions are in the file and their memory is back in the ring.
    pub(super) fn flush(&mut self) -> Result<(), RecordError> {
        self.recording.flush(Durability::InFile, DISK_WAIT)
    }

    /// Writes what is due after `elements` elements in total: whole regions, and elements that have
    /// waited too long.
    pub(super) fn write_due(&mut self, elements: u64) -> Result<(), RecordError> {
        if self.write_some(self.rows, u64::MAX)? || self.write_old(elements)? {
            self.last_write = self.recording.now();
        }
        self.recording.poll()?;
        (self.on_region)(self.recording);
        Ok(())
    }

    pub(super) fn write_rest(&mut self) -> Result<(), RecordError> {
        self.write_some(1, u64::MAX).map(|_| ())
    }

    /// Writes everything in the ring, and waits until it is in the file.
    pub(super) fn end(&mut self) -> Result<(), RecordError> {
        self.write_rest()?;
        self.flush()?;
        (self.on_region)(self.recording);
        Ok(())
    }

    /// Writes elements that have waited too long without filling a region: whole blocks, or
    /// everything if the elements fill less than one block. Returns true if it wrote any elements.
    fn write_old(&mut self, elements: u64) -> Result<bool, RecordError> {
        let age = self.recording.now().saturating_sub(self.last_write);
        let waiting = elements.saturating_sub(self.recorded());
        if self.unaligned_rows_max == 0 || waiting == 0 || age < AGE_MAX {
            return Ok(false);
        }
        let in_blocks = waiting - waiting % self.block_rows;
        if in_blocks == 0 && age < PARTIAL_BLOCK_AGE_MAX {
            return Ok(false);
        }
        let most = if in_blocks == 0 { waiting } else { in_blocks };
        self.write_some(1, most)
    }

    /// Writes regions of at least `least` rows each, at most `most` rows in total. A region never
    /// extends beyond a multiple of `rows` rows. After a shorter region, the later ones therefore
    /// begin at block boundaries again. Returns true if it wrote any rows.
    fn write_some(&mut self, least: u64, most: u64) -> Result<bool, RecordError> {
        let rows = self.rows;
        let mut written = 0;
        while written < most {
            let row = self.next_row % self.ring.capacity().max(1);
            let rows_left = (rows - row % rows).min(most - written);
            let region_rows =
                match row.is_multiple_of(self.block_rows) || self.unaligned_rows_max == 0 {
                    true => rows_left,
                    false => rows_left.min(self.unaligned_rows_max),
                };
            let region = match least {
                1 => self.ring.acquire_available(region_rows),
                _ => self.ring.acquire(region_rows),
            };
            match region {
                Ok(region) => {
                    self.next_row = region.position() + region.elements();
                    written += region.elements();
                    self.write(region)?;
                }
                Err(NoRegion::AllLent { .. }) => self.flush()?,
                Err(_) => break,
            }
        }
        Ok(written > 0)
    }

    /// Writes a region. While the disk is full, retries until the recording must end. During this
    /// time nothing is taken from the stream, which stalls its writer.
    fn write(&mut self, mut region: ReadRegion) -> Result<(), RecordError> {
        loop {
            let refused = match self.recording.write(region) {
                Err(RecordError::Refused(refused)) => refused,
                done => return done,
            };
            let is_full = matches!(refused.error, QueueError::DiskFull { .. });
            (self.on_region)(self.recording);
            if !is_full || self.stopped.wait_for(CHECK_INTERVAL) {
                return Err(refused.into());
            }
            region = refused.region;
            self.recording.poll()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_record::{QueueOptions, SimDisk, TdmsLayout, TdmsRecording, WriteQueue};
    use trunkline_ring::{PagesWanted, RegionFiller, RegionMemory};
    use trunkline_tdms::{ObjectPath, TdmsFile, TdmsType};

    use super::super::stopper;
    use super::*;

    const WAIT: Duration = Duration::from_secs(60);
    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Rows of the smallest region that is written without a copy, and rows of a block.
    const REGION: u64 = (trunkline_record::COPY_BELOW_BYTES / 8) as u64;
    const BLOCK: u64 = BLOCK_BYTES / 8;

    /// A test setup. The value of each element is its number.
    struct Rig {
        disk: SimDisk,
        filler: RegionFiller,
        reader: RegionReader,
        recording: TdmsRecording,
    }

    fn rig(options: QueueOptions) -> Rig {
        let rows = 4 * REGION as usize;
        let memory = RegionMemory::for_recording(8, rows, PagesWanted::Ordinary, 16);
        let (memory, filler, reader) = memory.unwrap();
        let disk = SimDisk::new(1, BLOCK_BYTES as usize);
        let queue = WriteQueue::new(Box::new(disk.clone()), options, vec![memory]);
        let layout = TdmsLayout {
            timestamps: Vec::new(),
            group: "stream".into(),
            channels: vec![("value".into(), TdmsType::I64)],
            waveform: None,
        };
        let recording = TdmsRecording::start(queue, &layout, WAIT).unwrap();
        Rig {
            disk,
            filler,
            reader,
            recording,
        }
    }

    /// Pushes `count` elements.
    fn push(filler: &mut RegionFiller, count: u64) {
        let from = filler.written();
        let bytes: Vec<u8> = (from..from + count).flat_map(u64::to_le_bytes).collect();
        filler.push(&bytes).unwrap();
    }

    /// Checks that the file contains all pushed elements.
    fn check(rig: &mut Rig) {
        rig.recording.close(WAIT).unwrap();
        let file = rig.disk.file();
        let file = TdmsFile::open(&file[..]).unwrap();
        assert!(file.report().is_sound());
        let path = ObjectPath::channel("stream", "value");
        let channel = file.channel(&path).unwrap();
        let mut values = vec![0_i64; channel.len() as usize];
        channel.read_into(0, &mut values).unwrap();
        assert!(values.into_iter().eq(0..rig.filler.written() as i64));
    }

    #[test]
    fn whole_blocks_are_recorded_after_one_second_and_partial_blocks_after_five() {
        let mut rig = rig(QueueOptions::default());
        let (_stopper, stopped) = stopper();
        let ends = (&mut rig.reader, &mut rig.recording);
        let mut sut = RegionsOut::new(ends.0, ends.1, REGION, &stopped, |_| ());
        let mut recorded = 0;
        for (added, steps) in [
            (BLOCK - 1, [(0, 0), (4_999, 0), (1, BLOCK - 1)]),
            // The elements after the last whole block start a new wait.
            (2 * BLOCK + 3, [(999, 0), (1, 2 * BLOCK), (4_999, 0)]),
            (0, [(0, 0), (1, 3), (60_000, 0)]),
        ] {
            push(&mut rig.filler, added);
            for (elapsed, newly_recorded) in steps {
                rig.disk.pass(elapsed * MILLISECOND);
                sut.write_due(rig.filler.written()).unwrap();
                recorded += newly_recorded;
                assert_eq!(sut.recorded(), recorded, "{added} and {elapsed} ms");
            }
        }
        // Within one second, collected elements are in the file.
        for _ in 0..100 {
            rig.disk.pass(10 * MILLISECOND);
            sut.write_due(rig.filler.written()).unwrap();
        }
        assert_eq!(sut.recording.rows_in_file(), recorded);
        assert_eq!(sut.recording.progress().bytes_collected, 0);
        sut.end().unwrap();
        check(&mut rig);
    }

    /// Behaviour: ZC-13.
    #[test]
    fn regions_are_aligned_again_after_an_early_write() {
        let mut rig = rig(QueueOptions::default());
        let (_stopper, stopped) = stopper();
        let ends = (&mut rig.reader, &mut rig.recording);
        let mut sut = RegionsOut::new(ends.0, ends.1, REGION, &stopped, |_| ());
        push(&mut rig.filler, 100);
        rig.disk.pass(PARTIAL_BLOCK_AGE_MAX);
        sut.write_due(rig.filler.written()).unwrap();
        assert_eq!(sut.recorded(), 100);
        // From here on the stream is fast. Its elements fill the ring several times.
        for number in 1..=20 {
            push(&mut rig.filler, REGION);
            sut.write_due(rig.filler.written()).unwrap();
            sut.flush().unwrap();
            assert_eq!(sut.recorded(), number * REGION);
            // One more region is copied: it ends where the first region would have ended. All later
            // regions are whole.
            let progress = sut.recording.progress();
            assert_eq!(progress.regions_in_place, number - 1);
            assert_eq!(progress.regions_copied, 2);
            assert_eq!(progress.bytes_copied, REGION * 8);
        }
        sut.end().unwrap();
        check(&mut rig);
    }

    /// Behaviour: ZC-13.
    #[test]
    fn without_copies_elements_wait_for_a_full_region_or_the_end() {
        let mut rig = rig(QueueOptions {
            copying: None,
            ..QueueOptions::default()
        });
        let (_stopper, stopped) = stopper();
        let ends = (&mut rig.reader, &mut rig.recording);
        let mut sut = RegionsOut::new(ends.0, ends.1, REGION, &stopped, |_| ());
        push(&mut rig.filler, 2 * BLOCK + 3);
        rig.disk.pass(Duration::from_secs(3_600));
        sut.write_due(rig.filler.written()).unwrap();
        assert_eq!(sut.recorded(), 0);
        push(&mut rig.filler, REGION);
        sut.write_due(rig.filler.written()).unwrap();
        assert_eq!(sut.recorded(), REGION);
        sut.end().unwrap();
        check(&mut rig);
    }
}
