//! Rare per-variable states, readable without the variable's lock: gone, stopped, forced, edited,
//! extended, audited, alias and plain; and the index of the provider.

use trunkline_types::{AuditMode, Properties};

use crate::delivery::subscribers::Subscribers;
use crate::sync::Ordering;
use crate::variable::fast_path::is_plain;
use crate::variable::{State, Variable};

const GONE: u32 = 1 << 31;
const STOPPED: u32 = 1 << 30;
const FORCED: u32 = 1 << 28;
pub(crate) const EDITED: u32 = 1 << 29;
/// The variable has [extensions](crate::variable::Extension).
const EXTENDED: u32 = 1 << 25;
/// Writes by clients are recorded in the audit.
pub(crate) const AUDITED: u32 = 1 << 24;
/// The variable is a number without rules; see [`plain`](crate::write::fast_path).
const PLAIN: u32 = 1 << 26;
/// The variable is an alias: it shows and writes another variable.
const ALIAS: u32 = 1 << 27;
/// Set on a plain variable that has subscribers that the fast path does not serve.
const SLOW_PATH: u32 = 1 << 23;
/// The bits that hold the index of the provider plus one.
const PROVIDER: u32 = (1 << 23) - 1;

pub(crate) fn first_flags(properties: &Properties) -> u32 {
    let mut flags = 0;
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
    pub fn is_gone(&self) -> bool {
        // Acquire: pairs with the release in `set_gone`, so that everything published before it is
        // visible.
        self.flags.load(Ordering::Acquire) & GONE != 0
    }

    /// Returns true if the variable's library is stopped. It keeps its value and refuses writes.
    pub fn is_stopped(&self) -> bool {
        self.flags.load(Ordering::Acquire) & STOPPED != 0
    }

    /// Returns true if the variable is an alias: it shows and writes another one (H-20).
    #[inline]
    pub fn is_alias(&self) -> bool {
        // Relaxed: the flag is set at creation and never changes.
        self.flags.load(Ordering::Relaxed) & ALIAS != 0
    }

    pub fn is_forced(&self) -> bool {
        self.flags.load(Ordering::Acquire) & FORCED != 0
    }

    /// Returns true if the variable has extensions. The result holds as long as the caller holds the
    /// lock.
    #[inline]
    pub(crate) fn is_extended(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & EXTENDED != 0
    }

    pub(crate) fn set_extended(&self, state: &State, extended: bool) {
        match extended {
            true => self.set(state, EXTENDED),
            false => self.clear(state, EXTENDED),
        }
    }

    /// Returns true if a write may have to be carried out in another way than by a commit.
    #[inline]
    pub(crate) fn is_hooked(&self, is_client: bool) -> bool {
        let flags = match is_client {
            true => ALIAS | AUDITED | PROVIDER,
            false => ALIAS,
        };
        // Relaxed: see `is_alias` and `provider_index`.
        self.flags.load(Ordering::Relaxed) & flags != 0
    }

    /// Returns true if something may refuse a write: the variable is gone, stopped or extended. The
    /// result holds as long as the caller holds the lock.
    #[inline]
    pub(crate) fn has_rules(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (GONE | STOPPED | EXTENDED) != 0
    }

    /// Returns true if writes by clients are recorded in the audit (B-24).
    #[inline]
    pub(crate) fn is_audited(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & AUDITED != 0
    }

    /// Returns true if the variable is plain and nothing has changed that: no provider, not forced,
    /// not edited, not stopped. The result holds as long as the caller holds the lock.
    #[inline]
    pub(crate) fn is_plain_now(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == PLAIN
    }

    /// Marks the variable as one with subscribers that the fast path does not serve. The caller holds
    /// the lock.
    pub(crate) fn set_slow_path(&self, state: &State) {
        self.set(state, SLOW_PATH);
    }

    /// Clears that mark, which opens the fast path again, if no such subscriber is left. The caller
    /// holds the lock.
    pub(crate) fn clear_slow_path(&self, state: &State) {
        if state.subscribers().is_none_or(Subscribers::has_only_feeds) {
            self.clear(state, SLOW_PATH);
        }
    }

    /// Returns true if a reader has nothing to consider except the cell.
    #[inline]
    pub(crate) fn is_plain_to_read(&self) -> bool {
        // Acquire: as in `is_gone`.
        self.flags.load(Ordering::Acquire) & (PLAIN | GONE | EDITED) == PLAIN
    }

    /// Returns true if every write is refused, also that of the source. The result holds as long as the caller holds the lock.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (GONE | STOPPED | FORCED) != 0
    }

    /// Marks the variable as undeployed. The caller holds the lock, so no write is between its
    /// check and its commit.
    pub(crate) fn set_gone(&self, state: &State) {
        self.set(state, GONE);
        state.mirror(self);
    }

    pub(crate) fn set_stopped(&self, state: &State, stopped: bool) {
        match stopped {
            true => self.set(state, STOPPED),
            false => self.clear(state, STOPPED),
        }
    }

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
        // Relaxed: the index orders no other data; the provider is looked up under the providers'
        // own lock.
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
