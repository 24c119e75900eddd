//! Simulates the programs of the writer and the reader.

use crate::end::journal_tests::model;
use crate::end::journal_tests::world::{CAPACITY, ELEMENT, Step, World};
use crate::error::StreamError;
use crate::journal::Durability;
use crate::journal::sim_disk::SimDisk;

impl World {
    pub(in crate::end::journal_tests) fn write(&mut self, count: u64) -> Result<(), StreamError> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let from = writer.end.inner.store.as_ref().unwrap().written_elements() * ELEMENT;
        let to = (from + count * ELEMENT).min(self.total);
        if to == from {
            return Ok(());
        }
        self.model.tried = self.model.tried.max(to);
        let run = model::bytes(from, to);
        let Some(mark) = writer.end.write(&run, (to - from) / ELEMENT)? else {
            return Ok(());
        };
        // In half of the calls, the disk is synced later.
        if count.is_multiple_of(2) {
            self.sync(0);
        }
        if let Some(writer) = self.writer.as_ref()
            && writer.end.is_written(mark)?
            && writer.end.inner.store.as_ref().unwrap().written_elements() * ELEMENT >= to
        {
            self.model.written = self.model.written.max(to);
        }
        Ok(())
    }

    pub(in crate::end::journal_tests) fn read(&mut self, count: u64) {
        let Some(reader) = &mut self.reader else {
            return;
        };
        let (_, available) = reader.ring.available().unwrap();
        let count = count.min(available);
        let from = reader.ring.read_position();
        let [bytes, _] = reader
            .ring
            .region_at(from, (count * ELEMENT) as usize)
            .unwrap();
        self.model.receive(from, bytes);
        reader.ring.release(count * ELEMENT, count);
    }

    pub(in crate::end::journal_tests) fn commit(&mut self) -> Result<(), StreamError> {
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let (position, elements) = (reader.ring.read_position(), reader.ring.read_elements());
        self.model.commit_tried = self.model.commit_tried.max(position);
        let life = self.lives;
        let mark = reader.end.commit(position, elements)?;
        if self.durability == Durability::Disk {
            self.sync(1);
        }
        if let Some(reader) = self.reader.as_ref().filter(|_| self.lives == life) {
            assert!(reader.end.is_committed(mark)?);
            self.model.committed = position;
        }
        Ok(())
    }

    pub(in crate::end::journal_tests) fn step(&mut self, step: Step) {
        let done = match step {
            Step::Write(count) => self.write(count),
            Step::Read(count) => {
                self.read(count);
                Ok(())
            }
            Step::Commit => self.commit(),
            Step::Run => {
                self.run();
                Ok(())
            }
            Step::Cut => {
                self.cut();
                Ok(())
            }
            Step::Sync(side) => {
                self.sync(side);
                Ok(())
            }
        };
        match done {
            Ok(()) => {}
            Err(StreamError::Journal(error)) if error.is_temporary() => {}
            // If no side has crashed, both programs end and start again.
            Err(StreamError::Journal(_)) => self.restart(),
            Err(error) => panic!("{error}"),
        }
        self.crash();
    }

    pub(in crate::end::journal_tests) fn restart(&mut self) {
        if self.disks.iter().any(SimDisk::is_stopped) {
            return;
        }
        self.cut();
        (self.writer, self.reader) = (None, None);
        while self.try_start().is_err() {}
    }

    fn state(&self) -> String {
        let Some((w, r)) = self.writer.as_ref().zip(self.reader.as_ref()) else {
            return "one side is not running".to_owned();
        };
        let (w, r) = (&w.end, &r.end);
        let store = w.inner.store.as_ref().unwrap();
        format!(
            "writer: {} elements, visible {}, at hand {}, link written {} handed {} freed {} credit \
             {}; reader: arrived {:?} end {:?} up {} {}",
            store.written_elements(),
            store.visible(),
            store.in_ring(),
            w.link.written(),
            w.link.handed(),
            w.link.freed(),
            w.link.credit(),
            r.link.ready(),
            r.link.last_disconnect(),
            w.link.is_connected(),
            r.link.is_connected(),
        )
    }

    /// Runs all steps, then repeats rounds until everything is committed.
    pub(in crate::end::journal_tests) fn play(&mut self, steps: &[Step]) {
        let written = |step: &Step| match step {
            Step::Write(count) => count * ELEMENT,
            _ => 0,
        };
        self.total = steps.iter().map(written).sum();
        self.start();
        for step in steps {
            self.step(*step);
        }
        let mut rounds = 0;
        while self.model.committed < self.total {
            for step in [
                Step::Write(CAPACITY),
                Step::Sync(0),
                Step::Run,
                Step::Sync(1),
                Step::Run,
                Step::Read(CAPACITY),
                Step::Commit,
            ] {
                self.step(step);
            }
            let writer = self.writer.as_ref();
            if writer.and_then(|w| w.end.journal_error()).is_some() {
                self.restart();
            }
            rounds += 1;
            assert!(rounds < 200, "no progress: {}", self.state());
        }
        self.model.finish(self.total);
    }
}
