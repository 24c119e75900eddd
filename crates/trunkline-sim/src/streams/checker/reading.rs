//! Checks of the reading program's calls and their results.

use trunkline_stream::Properties;

use super::{Checker, Lineage, Reading};

impl Checker {
    /// Called when a reader was created. `peer`: the writer that it is connected to.
    pub fn reader_is_here(&mut self, own: Lineage, peer: Option<Lineage>, found: &Properties) {
        self.totals.ends += 1;
        let life = peer.map(|peer| self.life_of(peer));
        let before = self.readings.get(&own).copied();
        if let Some(reading) = before {
            self.totals.resumed += 1;
            let floor = if self.may_lose { 0 } else { reading.committed };
            let (total, tried) = (found.total, reading.commit_tried);
            if total < floor || total > tried {
                self.violate(|| {
                    format!(
                        "I2: a reader goes on at {total} where {floor} to {tried} were committed"
                    )
                });
            }
            let told = reading.life.map(|life| &self.life(life).durable);
            let durable = told.and_then(|told| told.get(&own)).copied().unwrap_or(0);
            let there = total + found.in_buffer;
            if there < durable && !self.may_lose {
                self.violate(|| {
                    format!("I3: {there} elements are left where {durable} were told as durable")
                });
            }
        }
        let next = if self.journals[1] { found.total } else { 0 };
        let before = before.and_then(|before| before.life);
        let reading = Reading {
            // A reader that has read nothing yet may have been connected to another writer before.
            life: before.filter(|_| found.total > 0).or(life).or(before),
            next,
            committed: next,
            commit_tried: next,
            total: found.total,
            base: (self.journals[1] || !self.takes_successor).then_some(0),
            found: life.map_or(0, |life| self.life(life).accepted),
            was_short: false,
        };
        // Among readers without a journal, only the last one exists.
        if !self.journals[1] {
            self.readings.clear();
        }
        // Until this reader has read everything, no reader has.
        if let Some(life) = reading.life {
            self.life_mut(life).finished = None;
        }
        self.readings.insert(own, reading);
    }

    pub fn reading(&self, own: Lineage) -> Reading {
        self.readings.get(&own).copied().unwrap_or_default()
    }

    /// Checks elements that a reading program got. `peer`: their writer.
    pub fn deliver(&mut self, own: Lineage, peer: Option<Lineage>, bytes: &[u8], count: usize) {
        let mut reading = self.reading(own);
        let peer = peer.map(|peer| self.life_of(peer));
        if reading.life.is_none() {
            // The journal began before its program knew the peer; there is only one stream.
            let last = (self.lives.len() as u64).checked_sub(1);
            reading.life = peer.or(last);
        } else if reading.total == 0 && !self.takes_successor {
            // The reader may have been connected to an earlier writer that gave up before the reader knew it.
            reading.life = peer.or(reading.life);
        }
        let kind = self.kind;
        let mut seen = 0;
        for element in kind.each(bytes) {
            seen += 1;
            if self.takes_successor {
                self.follow(own, &mut reading, element);
            }
            let Some(life) = reading.life else {
                self.violate(|| "I1: an element comes from nobody".to_owned());
                return;
            };
            let mut expected = std::mem::take(&mut self.scratch);
            expected.clear();
            kind.put(life, reading.next, &mut expected);
            let is_right = expected == element;
            self.scratch = expected;
            let (next, tried) = (reading.next, self.life(life).most);
            if !is_right {
                let found = kind.name(element);
                self.violate(|| {
                    format!("I2: element {next} of stream {life} is another: {found:?}")
                });
                return;
            }
            if next >= tried {
                self.violate(|| format!("I1: element {next} comes where {tried} were written"));
            }
            reading.next += 1;
        }
        if seen != count {
            self.violate(|| format!("I2: {seen} elements lie where {count} are said to"));
        }
        self.totals.delivered += count as u64;
        reading.total += count as u64;
        self.readings.insert(own, reading);
    }

    /// Determines the stream of an element, if the stream may change.
    fn follow(&mut self, own: Lineage, reading: &mut Reading, element: &[u8]) {
        let Some((life, index)) = self.kind.name(element) else {
            return;
        };
        if self.lives.len() as u64 <= life {
            self.violate(|| format!("I2: an element of stream {life}, which is not there"));
            return;
        }
        let is_next = reading.life == Some(life) && reading.base.is_some();
        if is_next {
            return;
        }
        match reading.base {
            // The stream of a writer's successor begins with its first element.
            Some(_) if index == 0 => {}
            Some(_) => {
                self.violate(|| format!("I2: a successor's stream {life} begins at {index}"));
            }
            // A reader's successor begins after the elements that its predecessor certainly had.
            None => {
                let it = self.life(life);
                let others = it.received.iter().filter(|(by, _)| **by != own);
                let least = others.map(|(_, count)| *count).max().unwrap_or(0);
                let most = it.reached;
                if index < least || index > most {
                    self.violate(|| {
                        format!("I2: a successor begins at {index}, not from {least} to {most}")
                    });
                }
            }
        }
        self.life_mut(life).finished = None;
        reading.base = Some(index);
        (reading.life, reading.next) = (Some(life), index);
    }

    /// Checks a completed read: `got` of the `asked` elements.
    pub fn has_read(&mut self, own: Lineage, asked: Option<usize>, got: usize, found: &Properties) {
        let mut reading = self.reading(own);
        if reading.was_short && got > 0 && asked.is_some() {
            self.violate(|| "I6: a read goes on behind one that got fewer".to_owned());
        }
        reading.was_short = asked.is_some_and(|asked| got > 0 && got < asked);
        let (total, counted) = (found.total, reading.total);
        if total != counted {
            self.violate(|| format!("I6: {total} elements are read, the program got {counted}"));
        }
        let in_buffer = found.in_buffer;
        if in_buffer > self.capacity[1] && found.fault.is_none() {
            self.violate(|| format!("I4: a reader's buffer holds {in_buffer} elements"));
        }
        if got == 0 {
            self.totals.late += 1;
        }
        if let Some(life) = reading.life {
            let there = reading.base.unwrap_or(0) + total + in_buffer;
            if reading.base.is_some() {
                let it = self.life_mut(life);
                it.reached = it.reached.max(there);
            }
        }
        self.readings.insert(own, reading);
    }

    /// Records the position of a reader that is gone.
    pub fn reader_gone(&mut self, own: Lineage, found: &Properties) {
        let reading = self.reading(own);
        if self.takes_successor {
            // The position of a writer from which it has read nothing is unknown.
            let first = reading.life.map_or(0, |life| life + 1);
            for it in self.lives.iter_mut().skip(first as usize) {
                it.reached = it.tried;
            }
        }
        let Some(life) = reading.life else {
            return;
        };
        let capacity = self.capacity[1];
        let it = self.life_mut(life);
        // More may have arrived during the close; and a reader that has read nothing does not know
        // where it begins.
        let there = reading.base.map_or(it.tried, |base| {
            (base + found.total + found.in_buffer + capacity).min(it.tried)
        });
        it.reached = it.reached.max(there);
    }

    pub fn commits(&mut self, own: Lineage) {
        if let Some(reading) = self.readings.get_mut(&own) {
            reading.commit_tried = reading.next;
        }
    }

    pub fn committed(&mut self, own: Lineage) {
        if let Some(reading) = self.readings.get_mut(&own) {
            reading.committed = reading.commit_tried;
        }
    }
}
