//! Simulates the minimum that a stream with journals needs: two journals, a program on each side, and
//! the transport between them.

use std::sync::Arc;

use trunkline_stream::journal::disk::Disk;
use trunkline_stream::journal::sim_disk::{Crash, SimDisk};
use trunkline_stream::journal::{
    Bounds, Durability, JournalError, Owner, ReaderJournal, Secret, WriterJournal,
};

use crate::model::{Model, bytes};

/// Size of an element, in bytes.
pub const ELEMENT: u64 = 8;

/// An event of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The writing program writes this number of elements.
    Write(u64),
    /// At most this number of bytes pass to the reader.
    Pass(u64),
    SyncWriter,
    SyncReader,
    /// The writer learns which bytes are durable.
    Tell,
    /// The reading program reads and commits this number of elements.
    Read(u64),
}

/// The point at which one side crashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    pub of_writer: bool,
    /// The call to its disk that the crash interrupts, after `bytes` bytes were written.
    pub call: u64,
    pub bytes: u64,
    pub crash: Crash,
    /// The call of the next run in which the side crashes again, and the kind of that crash.
    pub again: Option<(u64, Crash)>,
}

pub struct Sides {
    pub writer: WriterJournal,
    pub reader: ReaderJournal,
}

pub struct World {
    pub disks: [SimDisk; 2],
    pub durability: Durability,
    pub bounds: Bounds,
    pub model: Model,
    pub crashes: u64,
    /// Calls to the disks may fail, without a crash.
    pub may_fail: bool,
    /// Contents of the reader's buffer.
    arrived: Vec<u8>,
    plan: Option<Plan>,
    total: u64,
}

pub fn owner(is_writer: bool) -> Owner {
    Owner {
        is_writer,
        element_bytes: ELEMENT as u32,
        url: "tl://localhost/x".to_owned(),
        lineage: [is_writer.into(); 8],
        secret: Secret([is_writer.into(); 32]),
    }
}

/// The files are small, so that a journal has many files.
pub const BOUNDS: Bounds = Bounds {
    bytes_max: 4096,
    segment_bytes: 200,
};

/// Returns the random steps of a seed.
pub fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let step = |_| match next(12) {
        0..4 => Step::Write(next(5) + 1),
        4..7 => Step::Pass((next(6) + 1) * ELEMENT),
        7 => Step::SyncWriter,
        8 => Step::SyncReader,
        9 => Step::Tell,
        _ => Step::Read(next(6) + 1),
    };
    (0..count).map(step).collect()
}

impl World {
    pub fn new(durability: Durability, plan: Option<Plan>) -> Self {
        let disks = [SimDisk::default(), SimDisk::default()];
        if let Some(plan) = plan {
            disks[usize::from(!plan.of_writer)].stop_at(plan.call, plan.bytes);
        }
        Self {
            disks,
            durability,
            bounds: BOUNDS,
            model: Model::default(),
            crashes: 0,
            may_fail: false,
            arrived: Vec::new(),
            plan,
            total: 0,
        }
    }

    fn disk(&self, of_writer: bool) -> Arc<dyn Disk> {
        Arc::new(self.disks[usize::from(!of_writer)].clone())
    }

    /// Runs the steps, then continues until everything is committed, with a crash where one is
    /// planned.
    pub fn run(&mut self, steps: &[Step]) {
        let write = |step: &Step| match step {
            Step::Write(count) => count * ELEMENT,
            _ => 0,
        };
        self.total = steps.iter().map(write).sum();
        let mut sides = self.open_both();
        for step in steps {
            self.step(&mut sides, *step);
        }
        let rest = [
            Step::SyncWriter,
            Step::Pass(u64::MAX),
            Step::SyncReader,
            Step::Tell,
            Step::Read(9),
        ];
        let mut rounds = 0;
        while self.model.committed < self.total {
            let missing = self.total - sides.writer.written();
            self.step(&mut sides, Step::Write(missing / ELEMENT));
            for step in rest {
                self.step(&mut sides, step);
            }
            rounds += 1;
            let Sides { writer, reader } = &sides;
            assert!(rounds < 100, "{:?} {writer:?} {reader:?}", self.model);
        }
        self.model.finish(self.total);
    }

    fn step(&mut self, sides: &mut Sides, step: Step) {
        let done = self.try_step(sides, step);
        if let Err(error) = done {
            let has_stopped = self.disks.iter().any(SimDisk::is_stopped);
            if has_stopped || !error.is_temporary() {
                assert!(has_stopped || self.may_fail, "{error}");
                *sides = self.open_both();
            }
        }
    }

    /// Starts the programs of both sides, for the first time or again.
    fn open_both(&mut self) -> Sides {
        for of_writer in [true, false] {
            if self.disks[usize::from(!of_writer)].is_stopped() {
                self.restart_disk(of_writer);
            }
        }
        loop {
            match self.try_open() {
                Ok(sides) => return sides,
                Err((of_writer, error)) => {
                    if self.disks[usize::from(!of_writer)].is_stopped() {
                        self.restart_disk(of_writer);
                    } else {
                        assert!(self.may_fail, "{error}");
                    }
                }
            }
        }
    }

    fn restart_disk(&mut self, of_writer: bool) {
        let Some(plan) = self.plan else {
            panic!("a disk has stopped");
        };
        self.crashes += 1;
        let disk = self.disks[usize::from(!of_writer)].after(plan.crash);
        if let Some((call, crash)) = plan.again {
            disk.stop_at(call, plan.bytes);
            self.plan = Some(Plan {
                again: None,
                crash,
                ..plan
            });
        }
        self.disks[usize::from(!of_writer)] = disk;
    }

    fn try_open(&mut self) -> Result<Sides, (bool, JournalError)> {
        let fails = |of_writer| {
            let of_this = |plan: Plan| plan.of_writer == of_writer && plan.crash != Crash::Killed;
            self.plan.is_some_and(of_this) && self.crashes > 0
        };
        let forgets = |of_writer| fails(of_writer) && self.durability == Durability::Process;
        let forgets = [forgets(true), forgets(false)];
        let (bounds, durability) = (self.bounds, self.durability);
        let opened = WriterJournal::open(self.disk(true), &owner(true), bounds, durability);
        let (writer, start) = opened.map_err(|error| (true, error))?;
        self.model
            .writer_is_back(start.kept, start.written, forgets[0]);
        // The program writes again the elements that are not in the journal.
        self.model.written = start.written;
        self.model.tried = start.written.max(self.model.tried);
        let opened = ReaderJournal::open(self.disk(false), &owner(false), bounds, durability);
        let (reader, restored) = opened.map_err(|error| (false, error))?;
        self.model
            .reader_is_back(restored.read, restored.arrived, &restored.bytes, forgets[1]);
        self.arrived = restored.bytes;
        assert!(restored.arrived >= start.kept, "the two ends do not meet");
        let is_ahead = restored.arrived > start.written && !forgets[0];
        assert!(!is_ahead, "the reader has what the writer does not know of");
        Ok(Sides { writer, reader })
    }

    fn try_step(&mut self, sides: &mut Sides, step: Step) -> Result<(), JournalError> {
        let Sides { writer, reader } = sides;
        let model = &mut self.model;
        match step {
            Step::Write(count) => {
                let from = writer.written();
                let to = (from + count * ELEMENT).min(self.total);
                let run = bytes(from, to);
                if run.is_empty() || !writer.has_room(run.len())? {
                    return Ok(());
                }
                model.tried = model.tried.max(to);
                writer.append(&run, (to - from) / ELEMENT)?;
                if self.durability == Durability::Process {
                    model.written = to;
                }
            }
            Step::SyncWriter => {
                if let Some(job) = writer.sync_job() {
                    writer.finish_sync(job.run())?;
                }
                assert!(writer.is_safe(writer.mark())?);
                model.written = writer.written();
            }
            Step::Pass(most) => {
                let mut remaining = most;
                while remaining > 0 {
                    let next = writer.next_bytes()?;
                    if next.is_empty() {
                        break;
                    }
                    let len = next.len().min(remaining as usize);
                    let piece = next[..len].to_vec();
                    let from = writer.position();
                    // Bytes that the reader already has.
                    let skipped = reader.arrived().saturating_sub(from).min(len as u64);
                    // The bytes arrive in pieces of complete elements, as a network may split them.
                    for piece in piece[skipped as usize..].chunks(3 * ELEMENT as usize) {
                        reader.append(piece)?;
                        self.arrived.extend_from_slice(piece);
                    }
                    writer.note_pushed(len);
                    remaining = remaining.saturating_sub(len as u64);
                }
            }
            Step::SyncReader => {
                if let Some(job) = reader.sync_job() {
                    reader.finish_sync(job.run())?;
                }
            }
            Step::Tell => {
                let durable = reader.durable();
                model.durable = model.durable.max(durable);
                writer.trim(durable, durable / ELEMENT)?;
            }
            Step::Read(count) => {
                let from = model.received.len() as u64;
                let to = (from + count * ELEMENT).min(reader.arrived());
                let taken: Vec<u8> = self.arrived.drain(..(to - from) as usize).collect();
                model.receive(from, &taken);
                model.commit_tried = model.commit_tried.max(to);
                reader.commit(to, to / ELEMENT)?;
                if self.durability == Durability::Disk
                    && let Some(job) = reader.sync_job()
                {
                    reader.finish_sync(job.run())?;
                }
                assert!(reader.is_safe(reader.mark())?);
                model.committed = to;
            }
        }
        Ok(())
    }
}
