//! The checker: it stands outside the product and knows only what programs wrote, read and were
//! told.
//!
//! - I1, I2: what a reader gets is what was accepted, in order, each once, and as it was written.
//! - I3: what counts as received, read or durable is.
//! - I4: buffers hold no more than they may.
//! - I5: after the heal everything arrives, and every end is told what became of it.
//! - I6: a call that was not done in time, or failed, moved nothing; the count of what is left
//!   behind is right.

use std::collections::BTreeMap;

use trunkline_stream::{Left, Properties, Until};
use trunkline_types::Tick;

use super::content::Kind;
use super::plan::Plan;

/// What stays the same through the lives of an endpoint.
pub type Lineage = [u8; 8];

/// What was checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Elements that were accepted.
    pub written: u64,
    /// Elements that were read, and compared with what was written.
    pub delivered: u64,
    /// Calls that were not done in time, and moved nothing.
    pub late: u64,
    /// Flushes that were done, each compared with the other end.
    pub flushed: u64,
    /// Ends that were created.
    pub ends: u64,
    /// Readers that were told that their stream is over.
    pub over: u64,
    /// Counts of what was left behind that were compared.
    pub lefts: u64,
    /// Of the ends, those that went on from a journal.
    pub resumed: u64,
    /// Streams of which everything was there after the heal.
    pub compared: u64,
}

/// A stream, as its writer has it.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// Elements that were written for sure, and those that may have been.
    pub accepted: u64,
    pub tried: u64,
    /// The most that ever were.
    most: u64,
    /// Told as received, by which reader, and as durable.
    received: BTreeMap<Lineage, u64>,
    durable: u64,
    /// What its writer left behind, and whether it closed in order.
    left: Option<(Left, bool)>,
    /// How far a reader got, and whether it had everything that came.
    finished: Option<u64>,
    /// The writer is gone for good.
    is_over: bool,
    /// The program has closed it: a journal takes no more.
    pub is_closing: bool,
    /// It has ended it, in order or not.
    is_ending: bool,
    /// How far it has come at any reader.
    reached: u64,
    /// How far its reader was at the heal, where more was left than passes in the time there is.
    behind_at: Option<u64>,
}

/// What a reader is at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    pub life: Option<u64>,
    pub next: u64,
    committed: u64,
    commit_tried: u64,
    /// What the end has told in all that it read, in this life of it.
    total: u64,
    /// The index of its first element.
    base: Option<u64>,
    /// Elements that were written when it came.
    found: u64,
    /// A call got fewer than it asked for.
    was_short: bool,
}

#[derive(Debug)]
pub struct Checker {
    pub violation: Option<String>,
    kind: Kind,
    takes_successor: bool,
    /// Where the journals are.
    journals: [bool; 2],
    /// What a return survives is a loss of power too.
    on_disk: [bool; 2],
    capacity: [u64; 2],
    lives: Vec<Life>,
    known: BTreeMap<Lineage, u64>,
    readings: BTreeMap<Lineage, Reading>,
    /// A process was killed, or a program has ended its end.
    pub is_disturbed: bool,
    /// What was confirmed may be gone.
    pub may_lose: bool,
    /// What had arrived may be gone again.
    has_torn: bool,
    /// A disk has failed, so that a journal that was to be emptied may not be; or a stream was
    /// given up while the other end was away.
    pub has_failed: bool,
    /// A single element, and by when it is to be read.
    probe: Option<(u64, Tick)>,
    pub totals: Totals,
    scratch: Vec<u8>,
}

impl Checker {
    pub fn new(plan: &Plan) -> Self {
        let on_disk =
            |side: &super::plan::Side| side.journal == Some(trunkline_stream::Durability::Disk);
        Self {
            violation: None,
            kind: plan.kind,
            takes_successor: plan.takes_successor,
            journals: [0, 1].map(|side| plan.sides[side].journal.is_some()),
            on_disk: [0, 1].map(|side| on_disk(&plan.sides[side])),
            capacity: [0, 1].map(|side| plan.sides[side].capacity as u64),
            lives: Vec::new(),
            known: BTreeMap::new(),
            readings: BTreeMap::new(),
            is_disturbed: false,
            may_lose: false,
            has_torn: false,
            has_failed: false,
            probe: None,
            totals: Totals::default(),
            scratch: Vec::new(),
        }
    }

    /// The first one counts.
    pub fn violate(&mut self, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    pub fn life(&self, life: u64) -> &Life {
        &self.lives[life as usize]
    }

    fn life_mut(&mut self, life: u64) -> &mut Life {
        &mut self.lives[life as usize]
    }

    /// The life of a writer of this lineage.
    pub fn life_of(&mut self, lineage: Lineage) -> u64 {
        if let Some(life) = self.known.get(&lineage) {
            return *life;
        }
        let life = self.lives.len() as u64;
        self.lives.push(Life::default());
        self.known.insert(lineage, life);
        life
    }

    /// A writing end is there, and says how many elements it has written.
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

    /// A call of the writing program begins.
    pub fn tries(&mut self, life: u64, count: u64) {
        let it = self.life_mut(life);
        it.tried += count;
        it.most = it.most.max(it.tried);
    }

    /// It was accepted.
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

    /// It was not, and is not to have moved anything.
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

    /// A flush of the first `count` elements was done. `reader`: the end at the other side, if it
    /// is there.
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
            Until::Durable => it.durable = it.durable.max(count),
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

    /// The writer has gone, and says what it leaves behind.
    pub fn writer_left(&mut self, life: u64, left: Left, in_order: bool) {
        let it = self.life_mut(life);
        it.is_over = true;
        it.left = Some((left, in_order));
        self.compare_ends(life);
    }

    /// The program ends the stream.
    pub fn closing(&mut self, life: u64, in_order: bool) {
        let it = self.life_mut(life);
        it.is_closing = in_order;
        it.is_ending = true;
        // A reader that is not there then is told when the next stream comes.
        self.has_failed |= !in_order && self.journals[0];
    }

    /// Of its readers the one that is ahead.
    fn reader_of(&self, life: u64) -> Option<Reading> {
        let readings = self.readings.values();
        let of_life = readings.filter(|reading| reading.life == Some(life));
        of_life.max_by_key(|reading| reading.next).copied()
    }

    /// From now on everything is as it is without a fault. More than `most` elements may not pass
    /// in the time that there is: nobody holds back a writer whose reader has not said where it
    /// begins.
    pub fn healed(&mut self, most: u64) {
        for life in 0..self.lives.len() as u64 {
            let it = self.life(life);
            let next = self.reader_of(life).map_or(0, |reading| reading.next);
            let is_behind = !it.is_over && it.accepted.saturating_sub(next) > most;
            self.life_mut(life).behind_at = is_behind.then_some(next);
        }
    }

    /// Elements that were written and not read.
    pub fn backlog(&self, life: u64) -> u64 {
        let reading = self.reader_of(life);
        let accepted = self.life(life).accepted;
        // A successor does not know where it begins before it has read something.
        let read = |reading: Reading| reading.base.map_or(reading.found, |_| reading.next);
        let read = reading.map_or(0, read);
        accepted.saturating_sub(read)
    }

    /// The writer has gone without a word.
    pub fn writer_gone(&mut self, life: u64) {
        let it = self.life_mut(life);
        it.is_over = true;
    }

    /// A reading end is there. `peer`: the writer that it is connected with.
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
            let durable = reading.life.map_or(0, |life| self.life(life).durable);
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
            // One that has read nothing yet may have been connected with another one before.
            life: before.filter(|_| found.total > 0).or(life).or(before),
            next,
            committed: next,
            commit_tried: next,
            total: found.total,
            base: (self.journals[1] || !self.takes_successor).then_some(0),
            found: life.map_or(0, |life| self.life(life).accepted),
            was_short: false,
        };
        // Of readers without a journal only the last one is there.
        if !self.journals[1] {
            self.readings.clear();
        }
        // Until it has, nobody has had everything that comes.
        if let Some(life) = reading.life {
            self.life_mut(life).finished = None;
        }
        self.readings.insert(own, reading);
    }

    pub fn reading(&self, own: Lineage) -> Reading {
        self.readings.get(&own).copied().unwrap_or_default()
    }

    /// A reading program has got elements. `peer`: whose they are.
    pub fn deliver(&mut self, own: Lineage, peer: Option<Lineage>, bytes: &[u8], count: usize) {
        let mut reading = self.reading(own);
        let peer = peer.map(|peer| self.life_of(peer));
        if reading.life.is_none() {
            // Of a journal that was begun before its program was told: there is one stream only.
            let last = (self.lives.len() as u64).checked_sub(1);
            reading.life = peer.or(last);
        } else if reading.total == 0 && !self.takes_successor {
            // One that it was connected with before may have given up before it knew.
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

    /// Whose an element is, where that may change.
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
            // A successor of the writer begins with its first.
            Some(_) if index == 0 => {}
            Some(_) => {
                self.violate(|| format!("I2: a successor's stream {life} begins at {index}"));
            }
            // A successor of the reader begins behind what the one before had for sure.
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

    /// A call of a reading program has ended: `asked` for so many, it got `got`.
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

    /// A process is gone. Of a reader that its program did not have yet nobody knows how far it
    /// was.
    pub fn killed(&mut self, side: usize) {
        if side == 1 && self.takes_successor {
            self.lives
                .iter_mut()
                .for_each(|life| life.reached = life.tried);
        }
    }

    /// How far everything had come at a reader that is no more.
    pub fn reader_gone(&mut self, own: Lineage, found: &Properties) {
        let reading = self.reading(own);
        let Some(life) = reading.life else {
            return;
        };
        let capacity = self.capacity[1];
        let it = self.life_mut(life);
        // More may have come while it was closed; and who has read nothing does not know where it
        // begins.
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

    /// Both journals were removed: what comes is another stream.
    pub fn wiped(&mut self) {
        self.is_disturbed = true;
        self.may_lose = false;
        self.known.clear();
        self.readings.clear();
        self.lives.iter_mut().for_each(|life| life.is_over = true);
    }

    /// A machine has lost power: what need not have been safe may be gone.
    pub fn power_failed(&mut self, side: usize) {
        self.has_torn |= side == 1;
        if !self.on_disk[side] {
            self.may_lose = true;
        }
    }

    /// A reader has everything that came, and is told that no more does: `ended` in order, or with
    /// so many bytes missing, or for another reason.
    pub fn reader_over(&mut self, own: Lineage, ended: Option<u64>) {
        self.totals.over += 1;
        let reading = self.reading(own);
        let Some(life) = reading.life else {
            return;
        };
        let has_failed = self.has_failed && self.journals[0];
        let it = self.life_mut(life);
        if reading.base.is_none() {
            return;
        }
        it.finished = Some(reading.next);
        let (next, accepted, tried) = (reading.next, it.accepted, it.tried);
        let is_closed = it.left.is_some() || it.is_ending;
        match ended {
            // A journal that its disk does not let be emptied goes on in another life.
            Some(0) if has_failed => {}
            Some(0) if !(accepted..=tried).contains(&next) || !is_closed => {
                self.violate(|| {
                    format!("I1: the stream ends at {next} where {accepted} were written")
                });
            }
            Some(missing) if missing > 0 && next >= tried => {
                self.violate(|| format!("I6: {missing} bytes are told as missing, and none are"));
            }
            _ => {}
        }
        self.compare_ends(life);
    }

    /// What the writer left behind is what the reader lacks.
    fn compare_ends(&mut self, life: u64) {
        let it = self.life(life);
        let (Some((left, in_order)), Some(next)) = (it.left, it.finished) else {
            return;
        };
        let (accepted, tried) = (it.accepted, it.tried);
        if accepted != tried || self.has_torn || self.has_failed {
            return;
        }
        self.totals.lefts += 1;
        let most = accepted.saturating_sub(left.elements - left.in_doubt.min(left.elements));
        let least = accepted.saturating_sub(left.elements);
        if left.elements > accepted || !(least..=most).contains(&next) {
            self.violate(|| {
                format!(
                    "I6: {left:?} of {accepted} elements are told as left (in order: {in_order}), \
                     and the reader has {next}"
                )
            });
        }
    }

    /// The element that was written last is to be read by then.
    pub fn probe(&mut self, life: u64, by: Tick) {
        self.probe = Some((self.life(life).accepted, by));
    }

    /// Whether it is waited for.
    pub fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Whether it was not.
    pub fn look_at_probe(&mut self, now: Tick) {
        let Some((count, by)) = self.probe else {
            return;
        };
        let is_read = self.readings.values().any(|reading| reading.next >= count);
        if is_read {
            self.probe = None;
        } else if now > by {
            self.violate(|| "I5: a single element is late, and nothing is wrong".to_owned());
        }
    }

    /// After the heal: everything is there.
    pub fn compare(&mut self, own: Lineage, life: u64) {
        let reading = self.reading(own);
        self.totals.compared += 1;
        let it = self.life(life);
        let accepted = it.accepted;
        if reading.base.is_none() {
            return;
        }
        if it.behind_at.is_some_and(|before| reading.next > before) {
            return;
        }
        let has_other = reading.life != Some(life) && accepted > 0;
        if has_other || (accepted > 0 && reading.next != accepted) {
            self.violate(|| {
                format!(
                    "I5: {} of {accepted} elements of stream {life} were read 10 s after the heal",
                    reading.next
                )
            });
        }
    }
}
