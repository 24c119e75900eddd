//! Checks of the writing program's calls and their results.

use trunkline_stream::{Left, Properties, Until};

use super::{Checker, Lineage};

impl Checker {
    /// Called when a writer was created, with the number of elements that it reports as
    /// written.
    pub fn writer_is_here(&mut self, lineage: Lineage, found: &Properties) -> u64 {
        self.totals.ends += 1;
        let is_known = self.known.contains_key(&lineage);
        let life = self.life_of(lineage);
        if !is_known && self.journals[0] {
            let lost = self.lives.iter().rev().skip(1).find(|other| !other.is_over);
            if let (Some(_), false) = (lost, self.may_lose) {
                self.violate(|| "I1: a journal began anew that had not ended".to_owned());
            }
        }
        let total = found.total;
        let may_lose = self.may_lose;
        let it = self.life_mut(life);
        let floor = if may_lose { 0 } else { it.accepted };
        let (accepted, tried) = (it.accepted, it.tried);
        if total < floor || total > tried {
            self.violate(|| {
                format!("I1: a writer goes on at {total} where {accepted} to {tried} were written")
            });
        }
        self.totals.resumed += u64::from(is_known);
        let it = self.life_mut(life);
        (it.accepted, it.tried) = (total, total);
        life
    }

    /// Called when the writing program begins a write.
    pub fn tries(&mut self, life: u64, count: u64) {
        let it = self.life_mut(life);
        it.tried += count;
        it.most = it.most.max(it.tried);
    }

    /// Called when the write was accepted.
    pub fn wrote(&mut self, life: u64, count: u64, found: &Properties) {
        self.totals.written += count;
        let it = self.life_mut(life);
        it.accepted += count;
        let accepted = it.accepted;
        self.look_at_writer(accepted, found);
        let reading = self.reader_of(life);
        let most = self.capacity[0] + self.capacity[1];
        if let (Some(reading), [false, false]) = (reading, self.journals)
            && !self.takes_successor
            && accepted > reading.next + most
        {
            self.violate(|| {
                format!(
                    "I4: {accepted} elements are written where {} are read and {most} may wait",
                    reading.next
                )
            });
        }
    }

    /// Called when the write was not accepted: checks that it moved nothing.
    pub fn wrote_not(&mut self, life: u64, found: &Properties) {
        self.totals.late += 1;
        let it = self.life_mut(life);
        it.tried = it.accepted;
        let accepted = it.accepted;
        self.look_at_writer(accepted, found);
    }

    fn look_at_writer(&mut self, accepted: u64, found: &Properties) {
        let (total, in_buffer) = (found.total, found.in_buffer);
        if total != accepted && found.fault.is_none() {
            self.violate(|| format!("I6: {total} elements are written, {accepted} were accepted"));
        }
        if in_buffer > self.capacity[0] && !self.journals[0] {
            self.violate(|| format!("I4: a writer's buffer holds {in_buffer} elements"));
        }
    }

    /// Called when a flush of the first `count` elements has completed. `reader`: the other end, if
    /// it exists.
    pub fn flushed(
        &mut self,
        life: u64,
        until: Until,
        count: u64,
        by: Lineage,
        reader: Option<&Properties>,
    ) {
        self.totals.flushed += 1;
        // A stream whose journal was not emptied may have had another reader before.
        let reading = self.readings.get(&by).copied();
        let reading = reading.filter(|reading| reading.life == Some(life));
        let it = self.life_mut(life);
        match until {
            Until::Sent => {}
            Until::Available => _ = it.received.insert(by, count),
            Until::Read => {}
            Until::Durable => _ = it.durable.insert(by, count),
        }
        let (Some(reading), Some(found)) = (reading, reader) else {
            return;
        };
        let Some(base) = reading.base else {
            return;
        };
        let there = match until {
            Until::Available => base + found.total + found.in_buffer,
            Until::Read if self.journals[1] => reading.commit_tried,
            Until::Read => reading.next,
            Until::Sent | Until::Durable => return,
        };
        if there < count {
            self.violate(|| {
                format!("I3: {count} elements are told as {until:?} where {there} are")
            });
        }
    }

    /// Called when the writer has gone, with its count of undelivered elements.
    pub fn writer_left(&mut self, life: u64, left: Left, in_order: bool) {
        let it = self.life_mut(life);
        it.is_over = true;
        it.left = Some((left, in_order));
        self.compare_ends(life);
    }

    /// Called when the program ends the stream.
    pub fn closing(&mut self, life: u64, in_order: bool) {
        let it = self.life_mut(life);
        it.is_closing = in_order;
        it.ending = Some(in_order);
        // A reader that is away learns this only when the next stream begins.
        self.has_failed |= !in_order && self.journals[0];
    }

    /// The reader of this stream that is furthest ahead.
    fn reader_of(&self, life: u64) -> Option<super::Reading> {
        let readings = self.readings.values();
        let of_life = readings.filter(|reading| reading.life == Some(life));
        of_life.max_by_key(|reading| reading.next).copied()
    }

    /// Called when all faults have ended. More than `most` elements might not pass in the remaining time:
    /// nothing limits a writer whose reader has not reported its start.
    pub fn healed(&mut self, most: u64) {
        for life in 0..self.lives.len() as u64 {
            let it = self.life(life);
            let next = self.reader_of(life).map_or(0, |reading| reading.next);
            let is_behind = !it.is_over && it.accepted.saturating_sub(next) > most;
            self.life_mut(life).behind_at = is_behind.then_some(next);
        }
    }

    /// Returns the number of elements written but not read.
    pub fn backlog(&self, life: u64) -> u64 {
        let reading = self.reader_of(life);
        let accepted = self.life(life).accepted;
        // A successor knows where it begins only once it has read something.
        let read = |reading: super::Reading| reading.base.map_or(reading.found, |_| reading.next);
        let read = reading.map_or(0, read);
        accepted.saturating_sub(read)
    }

    /// Called when the writer has gone without reporting undelivered elements.
    pub fn writer_gone(&mut self, life: u64) {
        let it = self.life_mut(life);
        it.is_over = true;
    }
}
