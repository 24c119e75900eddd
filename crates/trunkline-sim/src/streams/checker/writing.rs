//! Checks the calls of the writing program and their results.

use trunkline_stream::{Left, Properties, Until};

use super::{Checker, Lineage};

impl Checker {
    /// Called when a writer was created. Checks the number of elements that it reports as written, and
    /// returns the number of its stream.
    pub fn writer_created(&mut self, lineage: Lineage, found: &Properties) -> u64 {
        self.totals.ends += 1;
        let is_known = self.known.contains_key(&lineage);
        let stream = self.stream_of(lineage);
        if !is_known && self.journals[0] {
            let lost = self
                .streams
                .iter()
                .rev()
                .skip(1)
                .find(|other| !other.is_over);
            if let (Some(_), false) = (lost, self.may_lose) {
                self.fail(|| "I1: a journal that had not ended was replaced".to_owned());
            }
        }
        let total = found.total;
        let may_lose = self.may_lose;
        let record = self.stream_mut(stream);
        let floor = if may_lose { 0 } else { record.accepted };
        let (accepted, attempted) = (record.accepted, record.attempted);
        if total < floor || total > attempted {
            self.fail(|| {
                format!(
                    "I1: a writer continues at {total}, but {accepted} to {attempted} were written"
                )
            });
        }
        self.totals.resumed += u64::from(is_known);
        let record = self.stream_mut(stream);
        (record.accepted, record.attempted) = (total, total);
        stream
    }

    /// Called when the writing program begins a write.
    pub fn write_began(&mut self, stream: u64, count: u64) {
        let record = self.stream_mut(stream);
        record.attempted += count;
        record.attempted_max = record.attempted_max.max(record.attempted);
    }

    /// Called when a write was accepted.
    pub fn write_accepted(&mut self, stream: u64, count: u64, found: &Properties) {
        self.totals.written += count;
        let record = self.stream_mut(stream);
        record.accepted += count;
        let accepted = record.accepted;
        self.check_writer(accepted, found);
        let reading = self.reader_of(stream);
        let waiting_max = self.capacity[0] + self.capacity[1];
        if let (Some(reading), [false, false]) = (reading, self.journals)
            && !self.accepts_successor
            && accepted > reading.next + waiting_max
        {
            self.fail(|| {
                format!(
                    "I4: {accepted} elements are written, {} are read, and only {waiting_max} may wait",
                    reading.next
                )
            });
        }
    }

    /// Called when a write was not accepted. Checks that it has moved no elements.
    pub fn write_failed(&mut self, stream: u64, found: &Properties) {
        self.totals.late += 1;
        let record = self.stream_mut(stream);
        record.attempted = record.accepted;
        let accepted = record.accepted;
        self.check_writer(accepted, found);
    }

    fn check_writer(&mut self, accepted: u64, found: &Properties) {
        let (total, in_buffer) = (found.total, found.in_buffer);
        if total != accepted && found.fault.is_none() {
            self.fail(|| format!("I6: the writer reports {total} elements as written, but {accepted} were accepted"));
        }
        if in_buffer > self.capacity[0] && !self.journals[0] {
            self.fail(|| format!("I4: a writer's buffer holds {in_buffer} elements"));
        }
    }

    /// Called when a flush of the first `count` elements has completed. `by` is the lineage of the reader,
    /// and `reader` has its properties if the reader exists and is connected.
    pub fn flushed(
        &mut self,
        stream: u64,
        until: Until,
        count: u64,
        by: Lineage,
        reader: Option<&Properties>,
    ) {
        self.totals.flushed += 1;
        // Ignore a reader of another stream.
        let reading = self.readers.get(&by).copied();
        let reading = reading.filter(|reading| reading.stream == Some(stream));
        let record = self.stream_mut(stream);
        match until {
            Until::Sent => {}
            Until::Available => _ = record.received.insert(by, count),
            Until::Read => {}
            Until::Durable => _ = record.durable.insert(by, count),
        }
        let (Some(reading), Some(found)) = (reading, reader) else {
            return;
        };
        let Some(base) = reading.base else {
            return;
        };
        let reached = match until {
            Until::Available => base + found.total + found.in_buffer,
            Until::Read if self.journals[1] => reading.commit_attempted,
            Until::Read => reading.next,
            Until::Sent | Until::Durable => return,
        };
        if reached < count {
            self.fail(|| {
                format!("I3: {count} elements are reported as {until:?}, but {reached} are")
            });
        }
    }

    /// Called when the writer has ended. `left` has its counts of undelivered elements.
    pub fn writer_left(&mut self, stream: u64, left: Left, in_order: bool) {
        let record = self.stream_mut(stream);
        record.is_over = true;
        record.left = Some((left, in_order));
        self.compare_ends(stream);
    }

    /// Called when the program ends the stream.
    pub fn close_began(&mut self, stream: u64, in_order: bool) {
        let record = self.stream_mut(stream);
        record.is_closing = in_order;
        record.ending = Some(in_order);
        // A reader that is not connected learns of an abort only when the next stream begins.
        self.has_failed |= !in_order && self.journals[0];
    }

    /// Returns the reader of this stream with the highest position.
    fn reader_of(&self, stream: u64) -> Option<super::ReaderState> {
        let readers = self.readers.values();
        let of_stream = readers.filter(|reading| reading.stream == Some(stream));
        of_stream.max_by_key(|reading| reading.next).copied()
    }

    /// Called when all faults have ended. Notes the streams with a backlog of more than `backlog_max`
    /// elements, which may not pass in the remaining time. The backlog can be longer than planned if a
    /// reader has not reported where it begins.
    pub fn healed(&mut self, backlog_max: u64) {
        for stream in 0..self.streams.len() as u64 {
            let record = self.stream(stream);
            let next = self.reader_of(stream).map_or(0, |reading| reading.next);
            let is_behind = !record.is_over && record.accepted.saturating_sub(next) > backlog_max;
            self.stream_mut(stream).behind_at = is_behind.then_some(next);
        }
    }

    /// Returns the number of elements written but not read.
    pub fn backlog(&self, stream: u64) -> u64 {
        let reading = self.reader_of(stream);
        let accepted = self.stream(stream).accepted;
        // The first position of a successor is unknown until it has read an element.
        let read =
            |reading: super::ReaderState| reading.base.map_or(reading.found, |_| reading.next);
        let read = reading.map_or(0, read);
        accepted.saturating_sub(read)
    }

    /// Called when the writer has ended without reporting undelivered elements.
    pub fn writer_gone(&mut self, stream: u64) {
        let record = self.stream_mut(stream);
        record.is_over = true;
    }
}
