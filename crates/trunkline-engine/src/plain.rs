//! Numbers that have no rule, and nobody who wants to be told but subscribers of the newest value
//! and those who share one `all` feed: most of what a program keeps in its variables.
//!
//! Reading and writing them is what every read and write is, without what those look for and do not
//! find. Whoever is refused here goes the common way, [`Engine::try_write`](crate::Engine) and
//! [`Variable::update`], which says why or does more.

use trunkline_types::{
    Access, AuditMode, Clock, ClockSync, DataType, Properties, Quality, Timestamp, Value,
};

use crate::caller::Caller;
use crate::outbox::Wakes;
use crate::update::{Encoded, Update, word_of};
use crate::variable::Variable;

/// The newest update of a plain variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainUpdate {
    /// Its number, from 1.
    pub sequence: u64,
    /// When the value was measured; the Unix epoch where the variable carries no timestamps.
    pub source_timestamp: Timestamp,
    /// When the engine accepted it.
    pub engine_timestamp: Timestamp,
    /// How far it can be trusted.
    pub quality: Quality,
    /// The session that wrote it.
    pub writer: u32,
    /// The wire form of the value, little-endian, filled up with zeros.
    pub word: u64,
}

/// Bytes of a plain value in wire form.
fn word_bytes(data_type: &DataType) -> usize {
    data_type.fixed_size().unwrap_or(size_of::<u64>())
}

/// Whether such a variable is plain from the beginning: what may come later is in its flags and in
/// what its lock guards.
pub(crate) fn is_plain(properties: &Properties) -> bool {
    let is_number = matches!(
        properties.data_type,
        DataType::F64 | DataType::F32 | DataType::I64 | DataType::I32 | DataType::Bool
    );
    is_number
        && properties.access == Access::ReadWrite
        && properties.range.is_none()
        && properties.deadband.user_percent == 0.0
        && properties.fifo == trunkline_types::Fifo::Off
        && properties.alias.is_empty()
        && !properties.single_writer
        && properties.audit == AuditMode::Off
}

impl Variable {
    /// Whether [`write_plain`](Self::write_plain) is worth trying.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_plain_now()
    }

    /// Bytes of its value in wire form, where it [can be read](Self::read_plain) the short way.
    #[inline]
    pub fn plain_bytes(&self) -> usize {
        word_bytes(self.data_type())
    }

    /// Whether its updates carry timestamps.
    #[inline]
    pub fn has_timestamps(&self) -> bool {
        self.deployed().timestamps
    }

    /// A client's write of `value`, stamped `wall`, if it concerns nothing but the variable itself
    /// and subscribers under `latest` and of one `all` feed that has room: no rule, no other
    /// subscriber, no provider, no alias, nothing edited since. Returns its number; `None` when it
    /// was not written and is to be tried the common way.
    #[inline]
    pub fn write_plain(
        &self,
        caller: &Caller,
        wall: Timestamp,
        value: &Value,
        wakes: &mut Wakes,
    ) -> Option<u64> {
        if !self.is_plain_now() || !value.has_type(self.data_type()) {
            return None;
        }
        let (word, _) = word_of(value)?;
        self.write_word(caller, wall, word, wakes)
    }

    /// [`write_plain`](Self::write_plain) of a value in wire form, not yet checked. Booleans, of
    /// which not every byte is one, go the common way.
    #[inline]
    pub fn write_plain_wire(
        &self,
        caller: &Caller,
        wall: Timestamp,
        value: &[u8],
        wakes: &mut Wakes,
    ) -> Option<u64> {
        if !self.is_plain_now() {
            return None;
        }
        let word = match self.data_type() {
            DataType::F64 | DataType::I64 => u64::from_le_bytes(value.try_into().ok()?),
            DataType::F32 | DataType::I32 => u64::from(u32::from_le_bytes(value.try_into().ok()?)),
            _ => return None,
        };
        self.write_word(caller, wall, word, wakes)
    }

    /// Steps 1 to 4 of the write path, as far as a plain variable has them.
    #[inline]
    fn write_word(
        &self,
        caller: &Caller,
        wall: Timestamp,
        word: u64,
        wakes: &mut Wakes,
    ) -> Option<u64> {
        if !caller.rights.write || !self.is_visible_to(caller) {
            return None;
        }
        let properties = self.deployed();
        let (stamp, quality) = match properties.timestamps {
            true => (wall, STAMPED),
            false => (Timestamp::UNIX_EPOCH, UNSTAMPED),
        };
        let mut guard = self.lock();
        if !self.is_plain_now() {
            return None;
        }
        let state = &mut *guard;
        let sequence = match &mut state.extra {
            None => self.publish_word(stamp, quality, caller.session, word),
            Some(extra) if extra.is_feed_at_most() => {
                let publish = || self.publish_word(stamp, quality, caller.session, word);
                let update = Update {
                    sequence: 0,
                    source_timestamp: stamp,
                    engine_timestamp: stamp,
                    quality,
                    writer: caller.session,
                    value: Encoded::from_words(&[word, 0, 0], word_bytes(self.data_type())),
                };
                extra.interests.commit_short(update, wakes, publish)?
            }
            // Two feeds are about to become one: its subscribers have not joined yet.
            Some(extra) if extra.has_only_feeds() => return None,
            Some(_) => {
                // There is more to look at from now on, and no need to find that out again.
                self.set_attended(state);
                return None;
            }
        };
        state.offered += 1;
        self.mirror(state);
        state.announce_plain(wakes);
        Some(sequence)
    }

    /// The newest update if it can be read without a look at anything but its cell; `None`: read it
    /// the common way.
    #[inline]
    pub fn read_plain(&self, caller: &Caller) -> Option<PlainUpdate> {
        if !caller.rights.read || !self.is_visible_to(caller) || !self.is_plain_to_read() {
            return None;
        }
        self.read_word()
    }
}

/// What [`stamp`](crate::accept) says of a write without a timestamp of its own.
const STAMPED: Quality = Quality::GOOD;
const UNSTAMPED: Quality = Quality::GOOD.with_clock(Clock::Unknown, ClockSync::Unknown);
