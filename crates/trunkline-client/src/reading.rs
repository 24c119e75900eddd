//! What arrives for an item: the local copy, what was missed before it, and how old it is.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::digest;
use trunkline_proto::message::lost::LostRecord;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_types::wire::encode_value;
use trunkline_types::{
    ArrayType, DataType, Lost, Position, Quality, Reading, Reason, Sample, Tick, Timestamp, Value,
};

/// Largest default value that is made for a variable without one.
const DEFAULT_BYTES_MAX: usize = 64 << 10;

/// An update as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// `None`: nothing was written yet. What stands for it is made when it is read: a hostile
    /// engine could have named a type whose default is large.
    pub(crate) value: Option<Value>,
    pub(crate) source_timestamp: Timestamp,
    pub(crate) engine_timestamp: Timestamp,
    pub(crate) quality: Quality,
    pub(crate) position: Position,
    pub(crate) own: bool,
    /// When it arrived.
    pub(crate) at: Tick,
    /// How old it was then, by the engine's clock alone.
    pub(crate) age: Duration,
}

impl Received {
    /// How old it is: its age at the engine and this end's own time since, never two wall clocks.
    pub(crate) fn age(&self, now: Tick) -> Duration {
        self.age.saturating_add(now.since(self.at))
    }

    /// `age`, when it is too old for a reading that may be no older than `max_age`, or the engine
    /// says that it is.
    pub(crate) fn too_old(&self, age: Duration, max_age: Option<Duration>) -> Option<Duration> {
        let is_old = max_age.is_some_and(|max| age > max) || self.quality.reason() == Reason::Stale;
        is_old.then_some(age)
    }

    /// The digest of it, as of the record in which it came.
    pub(crate) fn digest(&self, handle: u32) -> u64 {
        let mut bytes = Vec::new();
        let value = self.value.as_ref().map(|value| {
            encode_value(value, &mut bytes);
            bytes.as_slice()
        });
        digest::of_record(&UpdateRecord {
            handle,
            sequence: self.position.sequence,
            engine_timestamp: self.engine_timestamp,
            source_timestamp: self.source_timestamp,
            quality: self.quality,
            own: false,
            value,
        })
    }

    /// As the program gets it.
    pub(crate) fn to_reading(
        &self,
        data_type: &DataType,
        lost: Lost,
        stale: Option<Duration>,
    ) -> Reading {
        let value = match &self.value {
            Some(value) => value.clone(),
            None => default_of(data_type, &mut { DEFAULT_BYTES_MAX }),
        };
        Reading {
            sample: Sample {
                value,
                source_timestamp: self.source_timestamp,
                engine_timestamp: self.engine_timestamp,
                quality: self.quality,
            },
            position: self.position,
            lost,
            stale,
            own: self.own,
        }
    }
}

/// What stands for the value of a variable that nobody has written: its type's default, in which
/// arrays whose fixed lengths make it larger than `room` bytes are empty.
fn default_of(data_type: &DataType, room: &mut usize) -> Value {
    match data_type {
        DataType::Struct(ty) => Value::Struct(
            ty.fields
                .iter()
                .map(|(_, ty)| default_of(ty, room))
                .collect(),
        ),
        DataType::Array(ty) => {
            let lengths = ty.shape.iter().map(|length| length.unwrap_or(0) as usize);
            let element_bytes = ty.element.fixed_size().unwrap_or(16);
            let bytes = lengths.fold(element_bytes, usize::saturating_mul);
            if bytes <= *room {
                *room -= bytes;
                return Value::default_of(data_type);
            }
            let free = ArrayType {
                element: ty.element,
                shape: vec![None; ty.shape.len()],
            };
            Value::default_of(&DataType::Array(Arc::new(free)))
        }
        _ => Value::default_of(data_type),
    }
}

/// What an item has received last, and what the engine said was missed since.
#[derive(Debug, Default)]
pub(crate) struct Account {
    position: Option<Position>,
    told: Option<Box<Told>>,
}

/// Where updates went that nobody has told anything about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Remainder {
    /// Into newer ones, as the contract says.
    Coalesced,
    /// They were written while the item was not subscribed.
    Disconnect,
    /// Nobody knows: under this contract every update is delivered or told.
    Unknown,
}

/// Increments that belong to the item's next update.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    filtered: u64,
    queue: u64,
    overrun: u64,
    disconnect: u64,
    /// As an ENDED frame said; what LOST says about the same gap afterwards is part of it.
    ended: u64,
    /// Ended at this end: whatever is missing, an overrun is why.
    ended_here: bool,
    unknown: bool,
}

impl Account {
    /// The last update received.
    pub(crate) fn position(&self) -> Option<Position> {
        self.position
    }

    /// A LOST record.
    pub(crate) fn tell(&mut self, record: &LostRecord) {
        let told = self.told.get_or_insert_default();
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut told.filtered, record.filtered);
        add(&mut told.queue, record.queue);
        add(&mut told.overrun, record.overrun);
        add(&mut told.disconnect, record.disconnect);
        told.unknown |= record.unknown;
    }

    /// The subscription ended with so many updates undelivered.
    pub(crate) fn tell_end(&mut self, lost: u64) {
        let told = self.told.get_or_insert_default();
        told.ended = told.ended.saturating_add(lost);
    }

    /// The subscription ended because the program has too much waiting.
    pub(crate) fn tell_end_here(&mut self) {
        self.told.get_or_insert_default().ended_here = true;
    }

    /// The variable was replaced by another of its name: what lies between cannot be counted.
    pub(crate) fn replaced(&mut self) {
        if self.position.take().is_some() {
            self.told.get_or_insert_default().unknown = true;
        }
    }

    /// The item is put right: this is its last update, whatever it had. What was missed since the
    /// one before.
    pub(crate) fn repair(&mut self, position: Position, remainder: Remainder) -> Lost {
        self.update(position, remainder).unwrap_or_else(|| {
            self.position = Some(position);
            Lost::NONE
        })
    }

    /// An update has arrived. What was missed since the one before; `None` when the item has it
    /// already.
    ///
    /// Causes that were told are taken from the gap between the two sequences, and never exceed it;
    /// for what then remains the caller knows the cause.
    pub(crate) fn update(&mut self, position: Position, remainder: Remainder) -> Option<Lost> {
        let before = self.position;
        if before.is_some_and(|b| b.epoch == position.epoch && position.sequence <= b.sequence) {
            return None;
        }
        self.position = Some(position);
        let told = self.told.take().map(|told| *told);
        let (mut gap, unknown) = match before {
            None if told.is_none() => return Some(Lost::NONE),
            None => (u64::MAX, false),
            Some(before) if before.epoch != position.epoch => (u64::MAX, true),
            Some(before) => (position.sequence - before.sequence - 1, false),
        };
        let mut lost = Lost {
            unknown,
            ..Lost::NONE
        };
        let bounded = gap != u64::MAX;
        if let Some(told) = told {
            let mut part = |count: u64| {
                let count = count.min(gap);
                gap -= count;
                count
            };
            part(told.filtered);
            let everything = told.ended_here && bounded;
            lost.overrun = part(if everything { u64::MAX } else { told.ended });
            lost.queue = part(told.queue);
            lost.overrun += part(told.overrun);
            lost.disconnect = part(told.disconnect);
            // Ended here before its first reading: what it missed until now nobody has counted.
            lost.unknown |= told.unknown || (told.ended_here && !bounded);
        }
        if bounded && gap > 0 {
            match remainder {
                Remainder::Coalesced => lost.coalesced = gap,
                Remainder::Disconnect => lost.disconnect += gap,
                Remainder::Unknown => lost.unknown = true,
            }
        }
        Some(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sequence: u64) -> Position {
        Position { epoch: 1, sequence }
    }

    fn told(queue: u64, disconnect: u64) -> LostRecord {
        LostRecord {
            queue,
            disconnect,
            ..LostRecord::default()
        }
    }

    #[test]
    fn the_first_update_has_nothing_before_it() {
        assert_eq!(
            Account::default().update(at(17), Remainder::Coalesced),
            Some(Lost::NONE)
        );
    }

    #[test]
    fn what_an_item_missed_that_ended_before_its_first_reading_is_unknown() {
        let mut sut = Account::default();
        sut.tell_end_here();
        let lost = sut.update(at(17), Remainder::Disconnect).unwrap();
        assert_eq!(
            lost,
            Lost {
                unknown: true,
                ..Lost::NONE
            }
        );
    }

    #[test]
    fn what_was_not_told_was_coalesced() {
        let mut sut = Account::default();
        sut.update(at(1), Remainder::Coalesced);
        sut.tell(&told(2, 3));
        let lost = Lost {
            coalesced: 4,
            queue: 2,
            disconnect: 3,
            ..Lost::NONE
        };
        assert_eq!(sut.update(at(11), Remainder::Coalesced), Some(lost));
    }

    #[test]
    fn where_nothing_may_be_coalesced_an_unexplained_gap_is_unknown() {
        let mut sut = Account::default();
        sut.update(at(1), Remainder::Unknown);
        assert_eq!(
            sut.update(at(3), Remainder::Unknown)
                .map(|lost| lost.unknown),
            Some(true)
        );
        assert_eq!(sut.update(at(4), Remainder::Unknown), Some(Lost::NONE));
    }

    #[test]
    fn what_was_written_between_two_connections_is_told_as_that() {
        let mut sut = Account::default();
        sut.update(at(0), Remainder::Unknown);
        let lost = Lost {
            disconnect: 3,
            ..Lost::NONE
        };
        assert_eq!(sut.update(at(4), Remainder::Disconnect), Some(lost));
    }

    #[test]
    fn causes_never_exceed_the_gap() {
        let mut sut = Account::default();
        sut.update(at(1), Remainder::Unknown);
        sut.tell_end(5);
        sut.tell(&told(0, 7));
        let lost = Lost {
            overrun: 5,
            disconnect: 2,
            ..Lost::NONE
        };
        assert_eq!(sut.update(at(9), Remainder::Unknown), Some(lost));
    }

    #[test]
    fn after_an_end_at_this_end_the_whole_gap_is_the_overrun() {
        let mut sut = Account::default();
        sut.update(at(1), Remainder::Unknown);
        sut.tell_end_here();
        sut.tell(&told(0, 7));
        assert_eq!(
            sut.update(at(9), Remainder::Unknown),
            Some(Lost {
                overrun: 7,
                ..Lost::NONE
            })
        );
    }

    #[test]
    fn an_update_is_taken_once() {
        let mut sut = Account::default();
        sut.update(at(5), Remainder::Coalesced);
        assert_eq!(
            (
                sut.update(at(5), Remainder::Coalesced),
                sut.update(at(4), Remainder::Coalesced)
            ),
            (None, None)
        );
        assert_eq!(sut.update(at(6), Remainder::Coalesced), Some(Lost::NONE));
    }

    #[test]
    fn across_epochs_the_loss_is_unknown_never_zero() {
        let mut sut = Account::default();
        sut.update(at(5), Remainder::Coalesced);
        let position = Position {
            epoch: 2,
            sequence: 1,
        };
        let lost = sut.update(position, Remainder::Coalesced);
        assert_eq!(
            lost,
            Some(Lost {
                unknown: true,
                ..Lost::NONE
            })
        );
    }
}
