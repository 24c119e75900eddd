//! The checker: it stands outside the product and knows only what programs wrote, read and were
//! told.
//!
//! - I1, I2: what a reader gets is what was accepted, in order, each once, and as it was written.
//! - I3: what counts as received, read or durable is.
//! - I4: buffers hold no more than they may.
//! - I5: after the heal everything arrives, and every end is told what became of it.
//! - I6: a call that was not done in time, or failed, moved nothing; the count of what is left
//!   behind is right.
//! - I7: a directory keeps few bytes for a peer, whatever it asks and whether or not it reads.
//! - I8: an end admits nobody in its peer's name without the secret of the pair.

mod reading;
mod writing;

use std::collections::BTreeMap;

use trunkline_stream::Left;
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
    /// Told as received and as durable, by which reader: a stream whose journal was not emptied may
    /// have another one later.
    received: BTreeMap<Lineage, u64>,
    durable: BTreeMap<Lineage, u64>,
    /// What its writer left behind, and whether it closed in order.
    left: Option<(Left, bool)>,
    /// How far a reader got, and whether it had everything that came.
    finished: Option<u64>,
    /// The writer is gone for good.
    is_over: bool,
    /// The program has closed it: a journal takes no more.
    pub is_closing: bool,
    /// It has ended it: in order, or not.
    ending: Option<bool>,
    /// How far it has come at any reader.
    reached: u64,
    /// How far its reader was at the heal, where more was left than passes in the time there is.
    behind_at: Option<u64>,
}

/// Why a reader gets no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEnd {
    /// The writer closed in order.
    Ended,
    /// The writer aborted, or gave up while it closed.
    Aborted {
        /// Bytes that the writer accepted and the reader did not get.
        missing: u64,
    },
    /// Something else.
    Fault,
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

    /// A process is gone. Of a reader that its program did not have yet nobody knows how far it
    /// was.
    pub fn killed(&mut self, side: usize) {
        if side == 1 && self.takes_successor {
            self.lives
                .iter_mut()
                .for_each(|life| life.reached = life.tried);
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

    /// A reader has read everything that arrived, and its stream ends for this reason. `peer` is
    /// the writer that it was connected to last.
    pub fn reader_over(&mut self, own: Lineage, peer: Option<Lineage>, end: StreamEnd) {
        self.totals.over += 1;
        let mut reading = self.reading(own);
        let peer = peer.map(|peer| self.life_of(peer));
        let may_be_another = self.takes_successor || reading.total == 0;
        if may_be_another && peer.is_some() && peer != reading.life {
            // A successor of the writer, or the first that meets the reader, of which nothing has
            // been read.
            reading.life = peer;
            (reading.next, reading.base) = (0, reading.base.map(|_| 0));
        }
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
        let ending = it.ending;
        let is_whole = (accepted..=tried).contains(&next);
        match end {
            // A journal that its disk does not let be emptied goes on in another life.
            StreamEnd::Ended | StreamEnd::Aborted { missing: 0 } if has_failed => {}
            StreamEnd::Ended | StreamEnd::Aborted { missing: 0 } if !is_whole => {
                self.violate(|| {
                    format!("I1: the stream ends at {next} where {accepted} were written")
                });
            }
            StreamEnd::Ended if ending != Some(true) => {
                self.violate(|| {
                    format!("I1: a reader sees an orderly end, but the writer's end was {ending:?}")
                });
            }
            StreamEnd::Aborted { .. } if ending.is_none() => {
                self.violate(|| "I1: a stream is aborted that nobody has ended".to_owned());
            }
            StreamEnd::Aborted { missing } if missing > 0 && next >= tried => {
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
