//! The fast path for numbers without rules, whose only subscribers are those of the newest value
//! and those that share one `all` feed. Most variables of a program are of this kind.
//!
//! These reads and writes are the ordinary ones without the steps that would find nothing to do.
//! When the fast path does not apply, the caller uses the ordinary path,
//! [`Engine::try_write`](crate::Engine) and [`Variable::update`], which also reports the reason of
//! a refusal.

use trunkline_types::{Clock, ClockSync, DataType, Quality, Timestamp, Value};

use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::update::{Encoded, PlainUpdate, Update, word_of};
use crate::variable::Variable;

/// Length of a plain value in wire form, in bytes.
fn word_bytes(data_type: &DataType) -> usize {
    data_type.fixed_size().unwrap_or(size_of::<u64>())
}

impl Variable {
    /// Returns true if [`write_plain`](Self::write_plain) is worth trying.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_plain_now()
    }

    /// Length of its value in wire form, in bytes, if the fast path [can read
    /// it](Self::read_plain).
    #[inline]
    pub fn plain_bytes(&self) -> usize {
        word_bytes(self.data_type())
    }

    #[inline]
    pub fn has_timestamps(&self) -> bool {
        self.deployed().timestamps
    }

    /// Writes `value` for a client, stamped with `wall`, and returns the sequence of the update.
    ///
    /// Applies only if the write involves nothing but the variable, `latest` subscribers and
    /// subscribers of one `all` feed that has room: no rule, no other subscriber, no provider, no
    /// alias and no edited configuration. Otherwise writes nothing and returns `None`; use the
    /// ordinary path then.
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

    /// Like [`write_plain`](Self::write_plain), for a value in wire form that is not yet checked.
    /// Booleans take the ordinary path, because not every byte is a valid one.
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
        #[expect(clippy::wildcard_enum_match_arm, reason = "it selects from types")]
        let word = match self.data_type() {
            DataType::F64 | DataType::I64 => u64::from_le_bytes(value.try_into().ok()?),
            DataType::F32 | DataType::I32 => u64::from(u32::from_le_bytes(value.try_into().ok()?)),
            _ => return None,
        };
        self.write_word(caller, wall, word, wakes)
    }

    /// Steps 1 to 4 of the write path, as far as they apply to a plain variable.
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
            Some(extra) if extra.subscribers.is_feed_at_most() => {
                let publish = || self.publish_word(stamp, quality, caller.session, word);
                let update = Update {
                    sequence: 0,
                    source_timestamp: stamp,
                    engine_timestamp: stamp,
                    quality,
                    writer: caller.session,
                    value: Encoded::from_words(&[word, 0, 0], word_bytes(self.data_type())),
                };
                extra.subscribers.commit_short(update, wakes, publish)?
            }
            // Two feeds are being merged into one whose subscribers have not joined yet.
            Some(extra) if extra.subscribers.has_only_feeds() => return None,
            Some(_) => {
                // Sets the flag, so that later writes skip this path without checking again.
                self.set_slow_path(state);
                return None;
            }
        };
        state.offered += 1;
        state.mirror(self);
        state.announce_plain(wakes);
        Some(sequence)
    }

    /// Returns the newest update if the cell alone holds all that a read needs, or `None` if the
    /// ordinary path must be used.
    #[inline]
    pub fn read_plain(&self, caller: &Caller) -> Option<PlainUpdate> {
        if !caller.rights.read || !self.is_visible_to(caller) || !self.is_plain_to_read() {
            return None;
        }
        self.read_word()
    }
}

/// The quality that [`stamp`](crate::write::accept) gives a write without a timestamp of its own.
const STAMPED: Quality = Quality::GOOD;
const UNSTAMPED: Quality = Quality::GOOD.with_clock(Clock::Unknown, ClockSync::Unknown);
