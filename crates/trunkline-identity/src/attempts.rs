//! Limits for failed logins with a password: a growing delay for each account and origin.
//!
//! There is no lock: whatever others do, a person gets in after at most [`DELAY_MAX`], from another origin at
//! once, and from this machine always. Guessing is limited to one attempt in that time for each account and
//! origin, and over all origins by the [verifier](crate::password::PasswordVerifier).
//!
//! The crate reads no clock: the caller passes the time.

use std::collections::HashMap;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use trunkline_types::Tick;

use crate::origin::{NetworkOrigin, Origin};

/// Number of attempts that are not delayed: mistyping is common.
pub const ATTEMPTS_FREE: u32 = 5;

/// Delay after the attempt number [`ATTEMPTS_FREE`]. Each further attempt doubles it.
pub const DELAY_MIN: Duration = Duration::from_secs(1);

/// Maximum delay.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

/// Time after the last attempt after which the attempts are forgotten.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// Maximum number of pairs of an account and an origin that are remembered.
///
/// If there are more, the origin with the most pairs loses its oldest one. So a peer that tries many names
/// displaces its own attempts, and not those of others.
pub const PAIRS_MAX: usize = 10_000;

/// Counts the attempts to log in.
#[derive(Debug, Default)]
pub struct LoginAttempts {
    origins: HashMap<NetworkOrigin, HashMap<AccountDigest, Attempts>>,
    /// Number of pairs in `origins`.
    pairs: usize,
}

/// The digest of an account's name. Names of any length take the same memory.
type AccountDigest = [u8; 32];

#[derive(Clone, Copy, Debug)]
struct Attempts {
    /// Attempts since the last success, including those in progress.
    count: u32,
    last: Tick,
}

/// An attempt that was permitted. It counts as failed until it is passed to [`LoginAttempts::succeeded`] or
/// [`LoginAttempts::withdrawn`], so attempts at the same time do not evade the limit.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "report the outcome of the attempt"]
pub struct Attempt {
    /// The account and the origin; `None` for attempts that are not limited.
    pair: Option<(NetworkOrigin, AccountDigest)>,
}

/// An attempt comes too early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("too many attempts to log in; try again in {} s", whole_seconds(*.after))]
pub struct TooEarly {
    /// Time after which an attempt is permitted; more than zero, at most [`DELAY_MAX`].
    pub after: Duration,
}

/// Rounds up to whole seconds.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    let has_rest = duration.subsec_nanos() > 0;
    duration.as_secs().saturating_add(u64::from(has_rest))
}

impl Attempts {
    /// Returns the time before which no further attempt is permitted.
    fn permitted_at(&self) -> Tick {
        let delay = match self.count.checked_sub(ATTEMPTS_FREE) {
            None => Duration::ZERO,
            Some(doublings) => {
                let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
                DELAY_MIN.saturating_mul(factor).min(DELAY_MAX)
            }
        };
        self.last.saturating_add(delay)
    }

    fn is_forgotten(&self, now: Tick) -> bool {
        now.since(self.last) >= FORGOTTEN_AFTER
    }
}

impl LoginAttempts {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins an attempt to log in as `account`, which need not exist: the limits are the same, so they do
    /// not reveal whether it exists.
    ///
    /// # Errors
    /// [`TooEarly`] with the remaining delay. The password must then not be verified; the attempt does not count.
    pub fn begin(&mut self, account: &str, origin: Origin, now: Tick) -> Result<Attempt, TooEarly> {
        let Origin::Network(origin) = origin else {
            return Ok(Attempt { pair: None });
        };
        let account = account_digest(account);
        let previous = self
            .find(origin, &account)
            .filter(|previous| !previous.is_forgotten(now));
        let permitted_at = previous.map_or(now, |previous| previous.permitted_at());
        if permitted_at > now {
            let after = permitted_at.since(now);
            return Err(TooEarly { after });
        }
        let attempts = Attempts {
            count: previous
                .map_or(0, |previous| previous.count)
                .saturating_add(1),
            last: now,
        };
        self.insert(origin, account, attempts, now);
        Ok(Attempt {
            pair: Some((origin, account)),
        })
    }

    /// The password was correct: forgets the attempts of this account from this origin.
    pub fn succeeded(&mut self, attempt: Attempt) {
        if let Some((origin, account)) = attempt.pair {
            self.remove(origin, &account);
        }
    }

    /// The password was not verified, because the engine was busy: the attempt does not count.
    pub fn withdrawn(&mut self, attempt: Attempt) {
        let Some((origin, account)) = attempt.pair else {
            return;
        };
        let entry = self
            .origins
            .get_mut(&origin)
            .and_then(|accounts| accounts.get_mut(&account));
        if let Some(entry) = entry {
            entry.count = entry.count.saturating_sub(1);
            if entry.count == 0 {
                self.remove(origin, &account);
            }
        }
    }

    /// Returns the number of pairs of an account and an origin that are remembered, at most [`PAIRS_MAX`].
    pub fn len(&self) -> usize {
        self.pairs
    }

    /// Returns true if no attempt is remembered.
    pub fn is_empty(&self) -> bool {
        self.pairs == 0
    }

    fn find(&self, origin: NetworkOrigin, account: &AccountDigest) -> Option<Attempts> {
        self.origins.get(&origin)?.get(account).copied()
    }

    fn insert(
        &mut self,
        origin: NetworkOrigin,
        account: AccountDigest,
        attempts: Attempts,
        now: Tick,
    ) {
        if self.find(origin, &account).is_none() {
            if self.pairs >= PAIRS_MAX {
                self.forget_old(now);
            }
            if self.pairs >= PAIRS_MAX {
                self.displace_one();
            }
            self.pairs = self.pairs.saturating_add(1);
        }
        let accounts = self.origins.entry(origin).or_default();
        accounts.insert(account, attempts);
    }

    fn remove(&mut self, origin: NetworkOrigin, account: &AccountDigest) {
        let Some(accounts) = self.origins.get_mut(&origin) else {
            return;
        };
        if accounts.remove(account).is_some() {
            self.pairs = self.pairs.saturating_sub(1);
        }
        if accounts.is_empty() {
            self.origins.remove(&origin);
        }
    }

    fn forget_old(&mut self, now: Tick) {
        self.origins.retain(|_, accounts| {
            accounts.retain(|_, attempts| !attempts.is_forgotten(now));
            !accounts.is_empty()
        });
        self.pairs = self.origins.values().map(HashMap::len).sum();
    }

    /// Removes the oldest pair of the origin with the most pairs.
    fn displace_one(&mut self) {
        let oldest = |accounts: &HashMap<AccountDigest, Attempts>| {
            let entry = accounts.iter().min_by_key(|(_, attempts)| attempts.last);
            entry.map(|(account, attempts)| (*account, attempts.last))
        };
        let most = self.origins.values().map(HashMap::len).max();
        let displaced = self
            .origins
            .iter()
            .filter(|(_, accounts)| Some(accounts.len()) == most)
            .filter_map(|(origin, accounts)| Some((*origin, oldest(accounts)?)))
            .min_by_key(|(_, (_, last))| *last);
        if let Some((origin, (account, _))) = displaced {
            self.remove(origin, &account);
        }
    }
}

fn account_digest(account: &str) -> AccountDigest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, account.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests;
