//! Simulates a writer and a reader with journals, and their programs, without threads and sockets.

mod programs;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use trunkline_net::StreamMemory;
use trunkline_proto::Endpoint;
use trunkline_proto::message::stream::{Incarnation, ReaderState, Until, WriterState};
use trunkline_proto::stream::{LinkOptions, ReaderLink, Role, WriterLink};
use trunkline_ring::{ElementConsumer, RingShape, RingStart};
use trunkline_types::{DataType, Tick, Timestamp};

use super::model::Model;
use crate::end::syncing::Syncs;
use crate::end::{EndpointRole, ReaderEnd, ReaderStore, StreamEndpoint, WriterEnd, WriterStore};
use crate::error::StreamError;
use crate::journal::disk::Disk;
use crate::journal::sim_disk::{Crash, SimDisk};
use crate::journal::{
    Bounds, Durability, Lineage, Owner, Pair, ReaderJournal, Secret, WriterJournal,
};

pub(super) const ELEMENT: u64 = 8;
/// Capacity of each buffer, in elements. The tests write far more elements while disconnected.
pub(super) const CAPACITY: u64 = 6;
const URLS: [&str; 2] = ["tl://localhost/writer", "tl://localhost/reader"];
pub(super) const BOUNDS: Bounds = Bounds {
    bytes_max: 4096,
    segment_bytes: 200,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Writes this many elements.
    Write(u64),
    /// Reads this many elements.
    Read(u64),
    Commit,
    /// Exchanges data until nothing is left to exchange.
    Run,
    /// Cuts the connection.
    Cut,
    /// Syncs the journal of this side.
    Sync(usize),
}

/// A planned crash of one side, at its disk's call with number `call`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) side: usize,
    pub(super) call: u64,
    pub(super) crash: Crash,
}

pub(super) struct WriterSide {
    pub(super) end: StreamEndpoint<WriterEnd>,
    pub(super) _wakes: Receiver<()>,
}

pub(super) struct ReaderSide {
    pub(super) end: StreamEndpoint<ReaderEnd>,
    pub(super) ring: ElementConsumer,
    pub(super) _wakes: Receiver<()>,
}

pub(super) struct World {
    pub(super) now: Tick,
    pub(super) disks: [SimDisk; 2],
    pub(super) durability: Durability,
    pub(super) plan: Option<Plan>,
    pub(super) lives: u8,
    pub(super) writer: Option<WriterSide>,
    pub(super) reader: Option<ReaderSide>,
    pub(super) is_connected: bool,
    pub(super) model: Model,
    pub(super) total: u64,
    pub(super) crashes: u64,
}

pub(super) fn owner(side: usize) -> Owner {
    Owner {
        is_writer: side == 0,
        element_bytes: ELEMENT as u32,
        url: URLS[side].to_owned(),
        lineage: [side as u8 + 1; 8],
        secret: Secret([side as u8 + 1; 32]),
    }
}

fn memory(start: RingStart) -> Arc<StreamMemory> {
    let shape = RingShape::fixed(ELEMENT as usize, CAPACITY as usize).unwrap();
    StreamMemory::create(shape, start, false).unwrap()
}

impl World {
    pub(super) fn new(durability: Durability, plan: Option<Plan>) -> Self {
        let world = Self {
            now: Tick::from_nanos(1),
            disks: [SimDisk::default(), SimDisk::default()],
            durability,
            plan,
            lives: 0,
            writer: None,
            reader: None,
            is_connected: false,
            model: Model::default(),
            total: 0,
            crashes: 0,
        };
        if let Some(plan) = plan {
            world.disks[plan.side].stop_at(plan.call, 13);
        }
        world
    }

    fn options(
        &mut self,
        side: usize,
        lineage: Lineage,
        secret: Secret,
        pair: Option<Pair>,
    ) -> LinkOptions {
        self.lives += 1;
        let mut incarnation = [self.lives; 16];
        incarnation[8..].copy_from_slice(&lineage);
        LinkOptions {
            role: [Role::Active, Role::Passive][side],
            peer_url: [URLS[1], ""][side].to_owned(),
            incarnation: Incarnation(incarnation),
            has_journal: true,
            secret,
            pair,
            peer_lineage: pair.map(|pair| pair.lineage),
            freed_at: Until::Durable,
            ..LinkOptions::fixed(URLS[side], DataType::U64, ELEMENT as u32, CAPACITY)
        }
    }

    pub(super) fn disk(&self, side: usize) -> Arc<dyn Disk> {
        Arc::new(self.disks[side].clone())
    }

    /// Starts every side that is not running.
    pub(super) fn start(&mut self) {
        while self.try_start().is_err() {
            self.crash();
        }
    }

    pub(super) fn try_start(&mut self) -> Result<(), StreamError> {
        if self.writer.is_none() {
            let (journal, start) =
                WriterJournal::open(self.disk(0), &owner(0), BOUNDS, self.durability)?;
            self.model.writer_is_back(start.kept, start.written, false);
            let options = self.options(0, start.lineage, start.secret, start.peer);
            let begin = RingStart {
                position: start.kept,
                elements: start.kept_elements,
            };
            let memory = memory(begin);
            let ring = || memory.element_memory().starting_at(begin);
            let (wake, wakes) = sync_channel(1);
            let mut inner = WriterEnd::new(ring().consumer());
            let form = options.form;
            let store = WriterStore::new(journal, ring().producer(), form, start.peer, false, wake);
            inner.store = Some(store);
            let at = WriterState {
                kept: start.kept,
                kept_elements: start.kept_elements,
                written: start.written,
            };
            let link = WriterLink::restored_writer(options, at, self.now);
            self.writer = Some(WriterSide {
                end: StreamEndpoint::new(link, inner, None, None, None),
                _wakes: wakes,
            });
        }
        if self.reader.is_none() {
            let (journal, start) =
                ReaderJournal::open(self.disk(1), &owner(1), BOUNDS, self.durability)?;
            self.model
                .reader_is_back(start.read, start.arrived, &start.bytes, false);
            let options = self.options(1, start.lineage, start.secret, start.peer);
            let begin = RingStart {
                position: start.read,
                elements: start.read_elements,
            };
            let memory = memory(begin);
            let ring = || memory.element_memory().starting_at(begin);
            let mut producer = ring().producer();
            let elements = start.arrived_elements - start.read_elements;
            assert!(producer.push(&start.bytes, elements).unwrap());
            let (wake, wakes) = sync_channel(1);
            let mut inner = ReaderEnd::new(producer);
            inner.store = Some(ReaderStore::new(journal, start.peer, wake));
            let at = ReaderState {
                arrived: start.arrived,
                arrived_elements: start.arrived_elements,
                read: start.read,
                durable: start.arrived,
                ..ReaderState::default()
            };
            let link = ReaderLink::restored_reader(options, at, start.read_elements, self.now);
            self.reader = Some(ReaderSide {
                end: StreamEndpoint::new(link, inner, None, None, None),
                ring: ring().consumer(),
                _wakes: wakes,
            });
        }
        Ok(())
    }

    /// Removes the side whose disk has stopped, and restarts it from the content of the disk.
    fn crash(&mut self) {
        let Some(plan) = self.plan.filter(|plan| self.disks[plan.side].is_stopped()) else {
            return;
        };
        self.cut();
        match plan.side {
            0 => self.writer = None,
            _ => self.reader = None,
        }
        self.disks[plan.side] = self.disks[plan.side].after(plan.crash);
        self.crashes += 1;
        self.start();
    }

    pub(super) fn cut(&mut self) {
        let gone = || trunkline_proto::Disconnect::PeerClosed;
        if let Some(side) = &mut self.writer {
            side.end.handle_disconnected(self.now, gone());
        }
        if let Some(side) = &mut self.reader {
            side.end.handle_disconnected(self.now, gone());
        }
        self.is_connected = false;
    }

    /// Returns the bytes that an endpoint sends now.
    fn output<S: EndpointRole>(end: &mut StreamEndpoint<S>, now: Tick) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            let more = end.poll_output(now, Timestamp::UNIX_EPOCH, 1 << 20, &mut out);
            if let Some(direct) = end.direct() {
                let region = direct.region().to_vec();
                direct.handle_sent(now, region.len());
                out.extend(region);
            }
            if !more {
                return out;
            }
        }
    }

    /// Exchanges data between both ends for a while.
    pub(super) fn run(&mut self) {
        for _ in 0..12 {
            self.now = self.now.saturating_add(Duration::from_millis(2));
            let (Some(writer), Some(reader)) = (&mut self.writer, &mut self.reader) else {
                return;
            };
            let now = self.now;
            let (w, r) = (&mut writer.end, &mut reader.end);
            if w.link.is_closed() {
                return;
            }
            if !self.is_connected {
                w.poll_ring();
                w.transport += 1;
                w.forget_output();
                w.link.handle_dialled(now, w.transport, None);
                let hello = Self::output(w, now);
                let admitted = r.admit(now, &hello, false, &None);
                assert!(
                    admitted.is_ok(),
                    "{:?}",
                    String::from_utf8_lossy(&admitted.unwrap_err())
                );
                self.is_connected = true;
            }
            let wall = Timestamp::UNIX_EPOCH;
            w.handle_timeout(now, wall);
            r.handle_timeout(now, wall);
            let to_writer = Self::output(r, now);
            w.handle_input(now, wall, &to_writer);
            let to_reader = Self::output(w, now);
            r.handle_input(now, wall, &to_reader);
            assert_eq!((w.link.fault(), r.link.fault()), (None, None));
            let durable = w.link.position(Until::Durable);
            self.model.durable = self.model.durable.max(durable);
            if w.wants_close().is_some() || r.wants_close().is_some() {
                // A journal cannot be written, and the other endpoint has been notified.
                self.cut();
            }
            self.crash();
        }
    }

    pub(super) fn sync(&mut self, side: usize) {
        fn sync<S: Syncs>(end: &mut StreamEndpoint<S>) {
            if let Some(job) = end.inner.sync_job() {
                end.inner.finish_sync(job.run());
                end.poll_ring();
            }
        }
        match (side, &mut self.writer, &mut self.reader) {
            (0, Some(writer), _) => sync(&mut writer.end),
            (_, _, Some(reader)) => sync(&mut reader.end),
            _ => {}
        }
        self.crash();
    }
}
