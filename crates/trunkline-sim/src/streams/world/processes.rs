//! Starts, runs and kills the processes of the two machines.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use trunkline_stream::journal::Bounds;
use trunkline_stream::journal::sim_disk::Crash;
use trunkline_stream::sim::{self, Bell, Process};
use trunkline_types::Tick;

use super::{Running, World};
use crate::link::End;
use crate::streams::ctx::{self, Ctx, Exit};
use crate::streams::net::{Holder, Hosted};
use crate::streams::turn::Slot;
use crate::streams::{reading, writing};

impl World {
    /// Opens a session at the directory of a side, if the side is listening.
    pub(in crate::streams) fn session(&mut self, side: usize) -> Option<Holder> {
        let has_engine = self.plan().sides[side].has_engine;
        let machine = &self.sides[side];
        // Without an engine, the port is open while the process has an endpoint.
        let is_open = has_engine
            || machine
                .slots
                .iter()
                .any(|s| s.end.close_deadline().is_none());
        let host = machine.host.as_ref().filter(|_| is_open)?;
        let bell = Bell::default();
        let session = sim::session(host, &bell, self.now);
        Some(Holder::Session(Box::new(Hosted {
            session,
            bell,
            out: Vec::new(),
            due: Some(self.now),
        })))
    }

    pub(super) fn start(&mut self, side: usize) {
        let now = self.now;
        let process = Process::new(&self.clock, self.rng.bits());
        let has_engine = self.plan().sides[side].has_engine;
        if self.sides[side].host.is_none() || !has_engine {
            let host = sim::directory(&Process::new(&self.clock, self.rng.bits()));
            self.sides[side].host = Some(host);
        }
        let machine = &mut self.sides[side];
        if let Some(host) = &machine.host {
            process.set_host(host.clone());
        }
        let buffer = self.shared.plan.sides[side].bytes_max as u64
            + self.shared.plan.sides[side].capacity as u64 * 64;
        let bounds = Bounds {
            bytes_max: (buffer * 8).max(8192),
            segment_bytes: (buffer / 2).max(700),
        };
        process.set_disk(Arc::new(machine.disk.clone()), bounds);
        let ctx = Ctx::new(&self.shared, side, process.clone(), self.rng.fork());
        let program: Pin<Box<dyn Future<Output = Exit>>> = match side {
            0 => Box::pin(writing::run(ctx.clone())),
            _ => Box::pin(reading::run(ctx.clone())),
        };
        self.trace.log(now, || format!("side {side} starts"));
        machine.start_at = None;
        machine.runs_since = now;
        machine.paused_until = Tick::ZERO;
        machine.running = Some(Running {
            process,
            program: Some(program),
            ctx,
            known_endpoints: 0,
            exit: None,
        });
        self.poll(side);
    }

    /// Kills the process of a side.
    pub(in crate::streams) fn kill(&mut self, side: usize, crash: Crash) {
        let now = self.now;
        self.shared.checker.borrow_mut().killed(side);
        if let Some(reader) = &self.shared.ends.borrow()[side]
            && side == 1
        {
            let own = ctx::lineage(reader.incarnation());
            let found = reader.properties();
            self.shared.checker.borrow_mut().reader_gone(own, &found);
        }
        for slot in &self.sides[side].slots {
            slot.end.kill();
        }
        let how = if self.rng.chance(0.5) {
            End::Reset
        } else {
            End::Fin
        };
        let has_engine = self.plan().sides[side].has_engine;
        let numbers: Vec<u64> = self.conns.keys().copied().collect();
        for number in numbers {
            let Some(conn) = self.conns.get_mut(&number) else {
                continue;
            };
            for end in 0..2 {
                let belongs_to_side = match conn.holders[end] {
                    Holder::Slot(of, _) => of == side,
                    Holder::HandingOver => conn.to == side,
                    Holder::Session(_) => conn.to == side && !has_engine,
                    Holder::Closed => false,
                };
                if belongs_to_side {
                    conn.finish(end, now, how);
                }
            }
        }
        let machine = &mut self.sides[side];
        machine.slots.clear();
        if let Some(running) = machine.running.take() {
            running.process.forget();
        }
        machine.disk = machine.disk.after(crash);
        self.shared.ends.borrow_mut()[side] = None;
    }

    /// Polls the program of a side, and adds an endpoint that it has created.
    pub(in crate::streams) fn poll(&mut self, side: usize) {
        let now = self.now;
        let Some(running) = &mut self.sides[side].running else {
            return;
        };
        if let Some(program) = &mut running.program {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(exit) = program.as_mut().poll(&mut context) {
                running.program = None;
                running.exit = Some(exit);
                self.trace.note(0x6578_6974);
                self.trace
                    .log(now, || format!("side {side} is done: {exit:?}"));
            }
        }
        let (end, count) = running.process.ends();
        if let (Some(end), true) = (end, count != running.known_endpoints) {
            running.known_endpoints = count;
            self.shared.ends.borrow_mut()[side] = Some(end.clone());
            let number = self.number();
            let slot = Slot::new(number, end, now);
            self.sides[side].slots.push(slot);
        }
        let log_lines = std::mem::take(&mut *self.shared.log_lines.borrow_mut());
        for line in log_lines {
            self.trace.note_bytes(line.as_bytes());
            self.trace.log(now, || line);
        }
        let mut at = 0;
        while at < self.sides[side].slots.len() {
            if self.sides[side].slots[at].end.take_used() {
                self.send(side, at);
                self.plan_next(side, at);
            }
            if !self.remove_closed(side, at) {
                at += 1;
            }
        }
    }
}
