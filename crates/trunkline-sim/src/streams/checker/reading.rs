//! Checks the calls of the reading program and their results.

use trunkline_stream::Properties;

use super::{Checker, Lineage, ReaderState};

impl Checker {
    /// Called when a reader was created. `peer` is the writer to which it is connected.
    pub fn reader_created(&mut self, own: Lineage, peer: Option<Lineage>, found: &Properties) {
        self.totals.ends += 1;
        let stream = peer.map(|peer| self.stream_of(peer));
        let before = self.readers.get(&own).copied();
        if let Some(reading) = before {
            self.totals.resumed += 1;
            let floor = if self.may_lose { 0 } else { reading.committed };
            let (total, attempted) = (found.total, reading.commit_attempted);
            if total < floor || total > attempted {
                self.fail(|| {
                    format!(
                        "I2: a reader continues at {total}, but {floor} to {attempted} were committed"
                    )
                });
            }
            let durable_counts = reading.stream.map(|stream| &self.stream(stream).durable);
            let durable = durable_counts
                .and_then(|counts| counts.get(&own))
                .copied()
                .unwrap_or(0);
            let arrived = total + found.in_buffer;
            if arrived < durable && !self.may_lose {
                self.fail(|| {
                    format!("I3: {arrived} elements remain, but {durable} were reported as durable")
                });
            }
        }
        let next = if self.journals[1] { found.total } else { 0 };
        let before = before.and_then(|before| before.stream);
        let reading = ReaderState {
            // A reader that has read nothing may have been connected to another writer before.
            stream: before.filter(|_| found.total > 0).or(stream).or(before),
            next,
            committed: next,
            commit_attempted: next,
            total: found.total,
            base: (self.journals[1] || !self.accepts_successor).then_some(0),
            found: stream.map_or(0, |stream| self.stream(stream).accepted),
            was_short: false,
        };
        // Without a journal, previous readers no longer exist.
        if !self.journals[1] {
            self.readers.clear();
        }
        // The stream is not finished until this reader has read all elements.
        if let Some(stream) = reading.stream {
            self.stream_mut(stream).finished = None;
        }
        self.readers.insert(own, reading);
    }

    pub fn reader(&self, own: Lineage) -> ReaderState {
        self.readers.get(&own).copied().unwrap_or_default()
    }

    /// Checks elements that the program has received. `peer` is the writer to which the reader is connected.
    pub fn deliver(&mut self, own: Lineage, peer: Option<Lineage>, bytes: &[u8], count: usize) {
        let mut reading = self.reader(own);
        let peer = peer.map(|peer| self.stream_of(peer));
        if reading.stream.is_none() {
            // The journal began before its program knew the peer, so the elements belong to the last stream.
            let last = (self.streams.len() as u64).checked_sub(1);
            reading.stream = peer.or(last);
        } else if reading.total == 0 && !self.accepts_successor {
            // The reader may have been connected to an earlier writer, which ended before the reader had read
            // an element.
            reading.stream = peer.or(reading.stream);
        }
        let kind = self.kind;
        let mut found_count = 0;
        for element in kind.each(bytes) {
            found_count += 1;
            if self.accepts_successor {
                self.follow(own, &mut reading, element);
            }
            let Some(stream) = reading.stream else {
                self.fail(|| "I1: an element belongs to no stream".to_owned());
                return;
            };
            let mut expected = std::mem::take(&mut self.scratch);
            expected.clear();
            kind.put(stream, reading.next, &mut expected);
            let is_right = expected == element;
            self.scratch = expected;
            let (next, attempted) = (reading.next, self.stream(stream).attempted_max);
            if !is_right {
                let found = kind.name(element);
                self.fail(|| format!("I2: element {next} of stream {stream} is wrong: {found:?}"));
                return;
            }
            if next >= attempted {
                self.fail(|| {
                    format!("I1: element {next} arrived, but only {attempted} were written")
                });
            }
            reading.next += 1;
        }
        if found_count != count {
            self.fail(|| format!("I2: the bytes hold {found_count} elements, not {count}"));
        }
        self.totals.delivered += count as u64;
        reading.total += count as u64;
        self.readers.insert(own, reading);
    }

    /// Determines the stream of an element. Endpoints with successors may change to another stream.
    fn follow(&mut self, own: Lineage, reading: &mut ReaderState, element: &[u8]) {
        let Some((stream, index)) = self.kind.name(element) else {
            return;
        };
        if self.streams.len() as u64 <= stream {
            self.fail(|| format!("I2: an element of stream {stream}, which does not exist"));
            return;
        }
        let is_next = reading.stream == Some(stream) && reading.base.is_some();
        if is_next {
            return;
        }
        match reading.base {
            // The stream of a writer's successor must begin with its first element.
            Some(_) if index == 0 => {}
            Some(_) => {
                self.fail(|| format!("I2: a successor's stream {stream} begins at {index}"));
            }
            // A reader's successor must begin after the elements that its predecessor has certainly received.
            None => {
                let record = self.stream(stream);
                let others = record.received.iter().filter(|(by, _)| **by != own);
                let first_min = others.map(|(_, count)| *count).max().unwrap_or(0);
                let first_max = record.reached;
                if index < first_min || index > first_max {
                    self.fail(|| {
                        format!(
                            "I2: a successor begins at {index}, not between {first_min} and \
                             {first_max}"
                        )
                    });
                }
            }
        }
        self.stream_mut(stream).finished = None;
        reading.base = Some(index);
        (reading.stream, reading.next) = (Some(stream), index);
    }

    /// Checks a completed read that has returned `got` elements.
    pub fn check_read(
        &mut self,
        own: Lineage,
        requested: Option<usize>,
        got: usize,
        found: &Properties,
    ) {
        let mut reading = self.reader(own);
        if reading.was_short && got > 0 && requested.is_some() {
            self.fail(|| {
                "I6: a read returns elements after a read that returned too few".to_owned()
            });
        }
        reading.was_short = requested.is_some_and(|requested| got > 0 && got < requested);
        let (total, counted) = (found.total, reading.total);
        if total != counted {
            self.fail(|| {
                format!(
                    "I6: the reader reports {total} elements as read, the program got {counted}"
                )
            });
        }
        let in_buffer = found.in_buffer;
        if in_buffer > self.capacity[1] && found.fault.is_none() {
            self.fail(|| format!("I4: a reader's buffer holds {in_buffer} elements"));
        }
        if got == 0 {
            self.totals.late += 1;
        }
        if let Some(stream) = reading.stream {
            let arrived = reading.base.unwrap_or(0) + total + in_buffer;
            if reading.base.is_some() {
                let record = self.stream_mut(stream);
                record.reached = record.reached.max(arrived);
            }
        }
        self.readers.insert(own, reading);
    }

    /// Records the position of a reader that no longer exists.
    pub fn reader_gone(&mut self, own: Lineage, found: &Properties) {
        let reading = self.reader(own);
        if self.accepts_successor {
            // The reader may have received elements of later streams without reading them.
            let first = reading.stream.map_or(0, |stream| stream + 1);
            for record in self.streams.iter_mut().skip(first as usize) {
                record.reached = record.attempted;
            }
        }
        let Some(stream) = reading.stream else {
            return;
        };
        let capacity = self.capacity[1];
        let record = self.stream_mut(stream);
        // More elements may have arrived while the reader was closed. If the reader has read nothing, its
        // first position is unknown.
        let arrived = reading.base.map_or(record.attempted, |base| {
            (base + found.total + found.in_buffer + capacity).min(record.attempted)
        });
        record.reached = record.reached.max(arrived);
    }

    pub fn commit_began(&mut self, own: Lineage) {
        if let Some(reading) = self.readers.get_mut(&own) {
            reading.commit_attempted = reading.next;
        }
    }

    pub fn committed(&mut self, own: Lineage) {
        if let Some(reading) = self.readers.get_mut(&own) {
            reading.committed = reading.commit_attempted;
        }
    }
}
