//! What arrives for an item: the local copy, what was missed before it, and how old it is.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Disconnect;
use trunkline_proto::message::lost::LostRecord;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_types::wire::{DecodeError, decode_whole};
use trunkline_types::{
    ArrayType, DataType, Lost, Position, Quality, Reading, Reason, Sample, Tick, Timestamp, Value,
};

use crate::request::malformed;

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
    /// It was stale when it was taken.
    is_stale: bool,
    /// When it arrived.
    pub(crate) at: Tick,
    /// How old it was then, by the engine's clock alone, in nanoseconds.
    age_ns: u64,
}

impl Received {
    /// It is given to the program now, and is this old, where that makes it stale.
    #[inline(always)]
    pub(crate) fn taken(&mut self, data_type: Option<&DataType>, stale: Option<Duration>) {
        if self.value.is_none() {
            self.value = Some(standing_in(data_type));
        }
        if let Some(age) = stale {
            self.is_stale = true;
            self.age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        }
    }

    /// How old it was when it was [`taken`](Self::taken), where that made it stale.
    pub(crate) fn stale_when_taken(&self) -> Option<Duration> {
        self.is_stale.then(|| Duration::from_nanos(self.age_ns))
    }
}

/// When and from where the records of a frame arrive: the same for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) now: Tick,
    pub(crate) epoch: u64,
    /// The engine's wall clock at its welcome, and how long ago that came.
    pub(crate) engine_wall: Timestamp,
    pub(crate) since_welcome: Duration,
}

impl Arrival {
    /// A reading that answers a request.
    ///
    /// # Errors
    /// The value is not one of this type.
    #[inline]
    pub(crate) fn reading(
        &self,
        record: &UpdateRecord<'_>,
        data_type: &DataType,
        max_age: Option<Duration>,
    ) -> Result<Reading, Disconnect> {
        let (mut age_ns, mut stale) = (0, None);
        let value = match record.value.map(|bytes| decode_whole(data_type, bytes)) {
            Some(Ok(value)) => value,
            Some(Err(error)) => return Err(not_valid(&error)),
            None => standing_in(Some(data_type)),
        };
        let is_said_to_be_stale = record.quality.has_reason(Reason::Stale);
        if is_said_to_be_stale || max_age.is_some() {
            if record.value.is_some() {
                age_ns = self.age_ns(record.engine_timestamp);
            }
            let age = Duration::from_nanos(age_ns);
            let is_old = is_said_to_be_stale || max_age.is_some_and(|max| age > max);
            stale = is_old.then_some(age);
        }
        Ok(Reading {
            sample: Sample {
                value,
                source_timestamp: record.source_timestamp,
                engine_timestamp: record.engine_timestamp,
                quality: record.quality,
            },
            position: Position {
                epoch: self.epoch,
                sequence: record.sequence,
            },
            lost: Lost::NONE,
            stale,
            own: record.own,
        })
    }

    /// An update record and its value as they arrive. `first` ones may have waited at the engine
    /// for long: their age is reckoned by the engine's clock alone.
    #[inline(always)]
    pub(crate) fn receive(
        &self,
        record: &UpdateRecord<'_>,
        value: Option<Value>,
        first: bool,
    ) -> Received {
        // What the engine says to be old, it has had for long, too.
        let is_old = first || record.quality.has_reason(Reason::Stale);
        let age_ns = match is_old && value.is_some() {
            true => self.age_ns(record.engine_timestamp),
            false => 0,
        };
        Received {
            value,
            source_timestamp: record.source_timestamp,
            engine_timestamp: record.engine_timestamp,
            quality: record.quality,
            position: Position {
                epoch: self.epoch,
                sequence: record.sequence,
            },
            own: record.own,
            is_stale: false,
            at: self.now,
            age_ns,
        }
    }

    /// How old at the engine is what was written there then.
    #[cold]
    fn age_ns(&self, written: Timestamp) -> u64 {
        let engine_now = i128::from(self.engine_wall.as_nanos());
        let engine_now = engine_now + self.since_welcome.as_nanos() as i128;
        let age = engine_now - i128::from(written.as_nanos());
        u64::try_from(age.max(0)).unwrap_or(u64::MAX)
    }
}

#[cold]
pub(crate) fn not_valid(error: &DecodeError) -> Disconnect {
    malformed(format!("a value is not valid: {error}"))
}

impl Received {
    /// How old it is: its age at the engine and this end's own time since, never two wall clocks.
    pub(crate) fn age(&self, now: Tick) -> Duration {
        Duration::from_nanos(self.age_ns).saturating_add(now.since(self.at))
    }

    /// Whether the engine itself says that it is old.
    #[inline]
    pub(crate) fn is_said_to_be_stale(&self) -> bool {
        self.quality.has_reason(Reason::Stale)
    }

    /// `age`, when it is too old for a reading that may be no older than `max_age`, or the engine
    /// says that it is.
    pub(crate) fn too_old(&self, age: Duration, max_age: Option<Duration>) -> Option<Duration> {
        let is_old = max_age.is_some_and(|max| age > max) || self.is_said_to_be_stale();
        is_old.then_some(age)
    }

    /// As the program gets it, when it was [`taken`](Self::taken).
    #[inline(always)]
    pub(crate) fn into_reading(self, lost: Lost, stale: Option<Duration>) -> Reading {
        Reading {
            sample: Sample {
                value: self.value.unwrap_or(Value::Bool(false)),
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

    /// Itself; its value is taken out.
    pub(crate) fn take(&mut self) -> Self {
        let value = self.value.take();
        Self { value, ..*self }
    }

    /// What a reading was made of.
    pub(crate) fn of_reading(reading: Reading) -> Self {
        let Reading {
            sample,
            position,
            stale,
            own,
            ..
        } = reading;
        let mut received = Self {
            value: Some(sample.value),
            source_timestamp: sample.source_timestamp,
            engine_timestamp: sample.engine_timestamp,
            quality: sample.quality,
            position,
            own,
            is_stale: false,
            at: Tick::ZERO,
            age_ns: 0,
        };
        received.taken(None, stale);
        received
    }
}

/// What stands for the value of a variable that nobody has written.
#[cold]
fn standing_in(data_type: Option<&DataType>) -> Value {
    let data_type = data_type.unwrap_or(&DataType::Bool);
    default_of(data_type, &mut { DEFAULT_BYTES_MAX })
}

/// Its type's default, in which
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

/// Updates that were missed before a reading, by where they went. Nothing, or updates that were
/// coalesced, takes no memory beside it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Missed {
    coalesced: u64,
    /// All other causes.
    others: Option<Box<Lost>>,
}

impl Missed {
    pub(crate) const NOTHING: Missed = Missed {
        coalesced: 0,
        others: None,
    };

    pub(crate) fn of(lost: Lost) -> Self {
        let coalesced = lost.coalesced;
        let others = Lost {
            coalesced: 0,
            ..lost
        };
        Self {
            coalesced,
            others: (others != Lost::NONE).then(|| Box::new(others)),
        }
    }

    pub(crate) const fn coalesced(updates: u64) -> Self {
        Self {
            coalesced: updates,
            others: None,
        }
    }

    /// These, too.
    #[inline]
    pub(crate) fn add(&mut self, more: Missed) {
        self.coalesced = self.coalesced.saturating_add(more.coalesced);
        if let Some(more) = more.others {
            let before = self.others.get_or_insert_default();
            **before = before.plus(*more);
        }
    }

    #[inline]
    pub(crate) fn lost(&self) -> Lost {
        let others = self.others.as_deref().copied();
        Lost {
            coalesced: self.coalesced,
            ..others.unwrap_or(Lost::NONE)
        }
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

    /// An update has arrived. What was missed since the one before; `None` when the item has it
    /// already.
    ///
    /// Causes that were told are taken from the gap between the two sequences, and never exceed it;
    /// for what then remains the caller knows the cause.
    #[inline(always)]
    pub(crate) fn update(&mut self, position: Position, remainder: Remainder) -> Option<Missed> {
        // The usual case: the next one, and nothing was told.
        if let (None, Some(before)) = (&self.told, &mut self.position)
            && before.epoch == position.epoch
            && before.sequence.checked_add(1) == Some(position.sequence)
        {
            before.sequence = position.sequence;
            return Some(Missed::NOTHING);
        }
        self.update_after_gap(position, remainder)
    }

    fn update_after_gap(&mut self, position: Position, remainder: Remainder) -> Option<Missed> {
        let before = self.position;
        if before.is_some_and(|b| b.epoch == position.epoch && position.sequence <= b.sequence) {
            return None;
        }
        self.position = Some(position);
        let told = self.told.take().map(|told| *told);
        let (mut gap, unknown) = match before {
            None if told.is_none() => return Some(Missed::NOTHING),
            None => (u64::MAX, false),
            Some(before) if before.epoch != position.epoch => (u64::MAX, true),
            Some(before) => (position.sequence - before.sequence - 1, false),
        };
        #[cfg(feature = "planted")]
        if trunkline_types::planted::is(trunkline_types::planted::Bug::LostNotSettled)
            && remainder == Remainder::Disconnect
        {
            gap = gap.min(0);
        }
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
        Some(Missed::of(lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The account as the tests look at it.
    impl Account {
        fn lost_at(&mut self, position: Position, remainder: Remainder) -> Option<Lost> {
            self.update(position, remainder).map(|missed| missed.lost())
        }
    }

    fn at(sequence: u64) -> Position {
        Position { epoch: 1, sequence }
    }

    impl Received {
        /// A reading of a variable that nobody has written.
        pub(crate) fn of_nothing() -> Self {
            let record = UpdateRecord::nothing_yet(0);
            let arrival = Arrival {
                now: Tick::ZERO,
                epoch: 1,
                engine_wall: Timestamp::UNIX_EPOCH,
                since_welcome: Duration::ZERO,
            };
            arrival.receive(&record, None, true)
        }
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
            Account::default().lost_at(at(17), Remainder::Coalesced),
            Some(Lost::NONE)
        );
    }

    #[test]
    fn what_an_item_missed_that_ended_before_its_first_reading_is_unknown() {
        let mut sut = Account::default();
        sut.tell_end_here();
        let lost = sut.lost_at(at(17), Remainder::Disconnect).unwrap();
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
        sut.lost_at(at(1), Remainder::Coalesced);
        sut.tell(&told(2, 3));
        let lost = Lost {
            coalesced: 4,
            queue: 2,
            disconnect: 3,
            ..Lost::NONE
        };
        assert_eq!(sut.lost_at(at(11), Remainder::Coalesced), Some(lost));
    }

    #[test]
    fn where_nothing_may_be_coalesced_an_unexplained_gap_is_unknown() {
        let mut sut = Account::default();
        sut.lost_at(at(1), Remainder::Unknown);
        assert_eq!(
            sut.lost_at(at(3), Remainder::Unknown)
                .map(|lost| lost.unknown),
            Some(true)
        );
        assert_eq!(sut.lost_at(at(4), Remainder::Unknown), Some(Lost::NONE));
    }

    #[test]
    fn what_was_written_between_two_connections_is_told_as_that() {
        let mut sut = Account::default();
        sut.lost_at(at(0), Remainder::Unknown);
        let lost = Lost {
            disconnect: 3,
            ..Lost::NONE
        };
        assert_eq!(sut.lost_at(at(4), Remainder::Disconnect), Some(lost));
    }

    #[test]
    fn causes_never_exceed_the_gap() {
        let mut sut = Account::default();
        sut.lost_at(at(1), Remainder::Unknown);
        sut.tell_end(5);
        sut.tell(&told(0, 7));
        let lost = Lost {
            overrun: 5,
            disconnect: 2,
            ..Lost::NONE
        };
        assert_eq!(sut.lost_at(at(9), Remainder::Unknown), Some(lost));
    }

    #[test]
    fn after_an_end_at_this_end_the_whole_gap_is_the_overrun() {
        let mut sut = Account::default();
        sut.lost_at(at(1), Remainder::Unknown);
        sut.tell_end_here();
        sut.tell(&told(0, 7));
        assert_eq!(
            sut.lost_at(at(9), Remainder::Unknown),
            Some(Lost {
                overrun: 7,
                ..Lost::NONE
            })
        );
    }

    #[test]
    fn an_update_is_taken_once() {
        let mut sut = Account::default();
        sut.lost_at(at(5), Remainder::Coalesced);
        assert_eq!(
            (
                sut.lost_at(at(5), Remainder::Coalesced),
                sut.lost_at(at(4), Remainder::Coalesced)
            ),
            (None, None)
        );
        assert_eq!(sut.lost_at(at(6), Remainder::Coalesced), Some(Lost::NONE));
    }

    #[test]
    fn across_epochs_the_loss_is_unknown_never_zero() {
        let mut sut = Account::default();
        sut.lost_at(at(5), Remainder::Coalesced);
        let position = Position {
            epoch: 2,
            sequence: 1,
        };
        let lost = sut.lost_at(position, Remainder::Coalesced);
        assert_eq!(
            lost,
            Some(Lost {
                unknown: true,
                ..Lost::NONE
            })
        );
    }
}
