//! What few variables are, as bits that are looked at without the variable's lock: gone, stopped,
//! forced, edited, guarded, audited, alias; plain; and by whom it is provided.

use trunkline_types::{AuditMode, Properties};

use crate::outcome::Refusal;
use crate::plain::is_plain;
use crate::sync::{Arc, Ordering};
use crate::variable::{State, Variable};

/// It was undeployed.
const GONE: u32 = 1 << 31;
/// Its library is stopped.
const STOPPED: u32 = 1 << 30;
/// It is held at a value.
const FORCED: u32 = 1 << 28;
/// Other properties hold than those it was deployed with.
pub(crate) const EDITED: u32 = 1 << 29;
/// It has a single writer, or is leased.
const GUARDED: u32 = 1 << 25;
/// What clients write is noted in the audit.
pub(crate) const AUDITED: u32 = 1 << 24;
/// It is a number without a rule; see [`plain`](crate::plain).
const PLAIN: u32 = 1 << 26;
/// It shows and writes another variable.
const ALIAS: u32 = 1 << 27;
/// A plain one that has, or had until its last subscriber went, more than the short way looks at.
const ATTENDED: u32 = 1 << 23;
/// The bits that name its provider.
const PROVIDER: u32 = (1 << 23) - 1;

/// The flags of a variable that was just made.
pub(crate) fn first_flags(properties: &Properties) -> u32 {
    let mut flags = 0;
    if properties.single_writer {
        flags |= GUARDED;
    }
    if properties.audit != AuditMode::Off {
        flags |= AUDITED;
    }
    if !properties.alias.is_empty() {
        flags |= ALIAS;
    }
    if is_plain(properties) {
        flags |= PLAIN;
    }
    flags
}

impl Variable {
    /// Whether it was undeployed.
    pub fn is_gone(&self) -> bool {
        // Acquire: pairs with the release in `set_gone`, so that what was published before it is
        // seen.
        self.flags.load(Ordering::Acquire) & GONE != 0
    }

    /// Whether its library is stopped: it keeps its value, and nobody writes it.
    pub fn is_stopped(&self) -> bool {
        self.flags.load(Ordering::Acquire) & STOPPED != 0
    }

    /// Whether it shows and writes another variable (H-20).
    #[inline]
    pub fn is_alias(&self) -> bool {
        // Relaxed: it is so from the beginning, and stays so.
        self.flags.load(Ordering::Relaxed) & ALIAS != 0
    }

    /// Whether it is forced (H-27).
    pub fn is_forced(&self) -> bool {
        self.flags.load(Ordering::Acquire) & FORCED != 0
    }

    /// Whether there may be somebody who alone may write it.
    #[inline]
    pub(crate) fn is_guarded(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & GUARDED != 0
    }

    /// Marks it as one that somebody alone may write, or no longer so. The caller holds the lock.
    pub(crate) fn set_guarded(&self, state: &State, guarded: bool) {
        match guarded {
            true => self.set(state, GUARDED),
            false => self.clear(state, GUARDED),
        }
    }

    /// Whether the writes of clients are noted in the audit (B-24).
    #[inline]
    pub(crate) fn is_audited(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & AUDITED != 0
    }

    /// Whether it is plain and nothing has come since: no provider, not forced, not edited, not
    /// stopped. It stays so for as long as the lock is held.
    #[inline]
    pub(crate) fn is_plain_now(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == PLAIN
    }

    /// Marks it as one with subscribers, or something else that a write has to look at. The caller
    /// holds the lock.
    pub(crate) fn set_attended(&self, state: &State) {
        self.set(state, ATTENDED);
    }

    /// One of those has gone: the short way is open again, where it was the last. The caller holds
    /// the lock.
    pub(crate) fn forget_attended(&self, state: &State) {
        if state.has_only_feeds() {
            self.clear(state, ATTENDED);
        }
    }

    /// Whether its cell is all there is to be looked at by who reads it.
    #[inline]
    pub(crate) fn is_plain_to_read(&self) -> bool {
        // Acquire: as in `is_gone`.
        self.flags.load(Ordering::Acquire) & (PLAIN | GONE | EDITED) == PLAIN
    }

    /// Whether nothing can be written to it. It stays so for as long as the lock is held.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (GONE | STOPPED | FORCED) != 0
    }

    /// Why nothing can be written to it, if so.
    pub(crate) fn blocked_by(&self, state: &State) -> Option<Refusal> {
        let flags = self.flags.load(Ordering::Relaxed);
        match state.forced().filter(|_| flags & FORCED != 0) {
            _ if flags & GONE != 0 => Some(Refusal::Gone),
            _ if flags & STOPPED != 0 => Some(Refusal::LibraryStopped),
            Some(forced) => Some(Refusal::Forced {
                by: Arc::clone(&forced.by),
            }),
            None => None,
        }
    }

    /// Marks it as undeployed. The caller holds the lock, so no write is between its check and
    /// commit.
    pub(crate) fn set_gone(&self, state: &State) {
        self.set(state, GONE);
        self.mirror(state);
    }

    /// Marks it as stopped, or no longer so. The caller holds the lock.
    pub(crate) fn set_stopped(&self, state: &State, stopped: bool) {
        match stopped {
            true => self.set(state, STOPPED),
            false => self.clear(state, STOPPED),
        }
    }

    /// Marks it as forced, or no longer so. The caller holds the lock.
    pub(crate) fn set_forced(&self, state: &State, forced: bool) {
        match forced {
            true => self.set(state, FORCED),
            false => self.clear(state, FORCED),
        }
    }

    pub(crate) fn set(&self, _state: &State, flag: u32) {
        self.flags.fetch_or(flag, Ordering::Release);
    }

    pub(crate) fn clear(&self, _state: &State, flag: u32) {
        self.flags.fetch_and(!flag, Ordering::Release);
    }

    pub(crate) fn provider_index(&self) -> Option<usize> {
        // Relaxed: a number that stands alone; what it names is found under the providers' own
        // lock.
        ((self.flags.load(Ordering::Relaxed) & PROVIDER) as usize).checked_sub(1)
    }

    pub(crate) fn set_provider(&self, index: Option<usize>) {
        let stored = index.map_or(0, |index| index as u32 + 1);
        let _previous = self
            .flags
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |flags| {
                Some(flags & !PROVIDER | stored & PROVIDER)
            });
    }
}
