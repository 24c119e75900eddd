//! The tokens that an engine has issued and that are not used yet.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use trunkline_access::{GroupName, Role, UserName};
use trunkline_types::Tick;

use super::{JoinToken, SECRET_BYTES};
use crate::attempts::whole_seconds;
use crate::fingerprint::Fingerprint;
use crate::origin::{NetworkOrigin, Origin};
use crate::random::{self, RandomError};

/// Time for which a token is valid.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(600);

/// Maximum number of tokens that are valid at a time.
pub const PENDING_MAX: usize = 100;

/// Maximum number of wrong tokens in [`WRONG_PERIOD`] of one peer on the network.
pub const JOINS_WRONG_MAX: usize = 10;

/// Maximum number of peers whose wrong tokens are remembered. One more displaces the peer whose last wrong token
/// is the oldest. So a peer with many addresses is limited less, but cannot lock out others; the 80 random bits
/// of a token protect it from guesses.
pub const WRONG_ORIGINS_MAX: usize = 256;

/// Period over which wrong tokens are counted.
pub const WRONG_PERIOD: Duration = Duration::from_secs(60);

/// The tokens that can be used, each with what it grants.
///
/// They are in memory only, as digests: a restart of the engine invalidates them, and the memory of the engine
/// does not contain them.
pub struct PendingTokens {
    authority: Fingerprint,
    /// Always all places, so that the time of a search does not depend on the number of tokens.
    places: [Option<Pending>; PENDING_MAX],
    /// Times of wrong tokens from the network, at most [`WRONG_ORIGINS_MAX`] entries.
    pub(super) wrong: HashMap<NetworkOrigin, WrongTokens>,
}

/// Times of the wrong tokens of one peer, oldest first, from 1 to [`JOINS_WRONG_MAX`].
pub(super) type WrongTokens = VecDeque<Tick>;

/// What a token grants to the program that uses it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinGrant {
    /// The account that gets the key of the program.
    pub account: UserName,
    /// The role, if the account does not exist yet. An existing account keeps its role.
    pub role: Option<Role>,
    /// The groups, if the account does not exist yet.
    pub groups: Vec<GroupName>,
}

struct Pending {
    secret: SecretDigest,
    expires: Tick,
    grant: JoinGrant,
}

type SecretDigest = [u8; 32];

/// What a token granted to the program that used it.
pub struct Joined {
    pending: Pending,
}

impl Joined {
    /// Returns what was passed to [`PendingTokens::issue`].
    pub fn grant(&self) -> &JoinGrant {
        &self.pending.grant
    }

    /// Returns what was passed to [`PendingTokens::issue`].
    pub fn into_grant(self) -> JoinGrant {
        self.pending.grant
    }
}

/// Why a token was not issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IssueError {
    /// [`PENDING_MAX`] tokens are pending.
    #[error(
        "{PENDING_MAX} joining tokens are unused, which is the maximum; use them, or try again in {} s, when \
         the first one expires",
        whole_seconds(*.after)
    )]
    TooMany {
        /// Time after which a token expires.
        after: Duration,
    },
    /// The random generator of the system failed.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// Why a token was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JoinError {
    /// The token was never issued, or is used or expired: the peer does not learn which.
    #[error(
        "the joining token is not valid: it is mistyped, older than {} minutes, or already used; ask for a \
         new one",
        TOKEN_LIFETIME.as_secs() / 60
    )]
    Invalid,
    /// Too many wrong tokens came from the peer's address. The token was not looked at.
    #[error(
        "too many wrong joining tokens came from this address; try again in {} s",
        whole_seconds(*.after)
    )]
    TooMany {
        /// Time after which a token is accepted.
        after: Duration,
    },
}

impl PendingTokens {
    /// Creates a table for the engine whose authority has the public key with this fingerprint.
    pub fn new(authority: Fingerprint) -> Self {
        Self {
            authority,
            places: [const { None }; PENDING_MAX],
            wrong: HashMap::new(),
        }
    }

    /// Names the authority in the tokens that are issued from now on. A pending token names the old one, so
    /// no client can use it with the new certificate.
    pub fn set_authority(&mut self, authority: Fingerprint) {
        self.authority = authority;
    }

    /// Issues a token, which is valid once, for [`TOKEN_LIFETIME`].
    ///
    /// # Errors
    /// [`IssueError`] if [`PENDING_MAX`] tokens are pending, or the system lacks random bytes.
    pub fn issue(&mut self, grant: JoinGrant, now: Tick) -> Result<JoinToken, IssueError> {
        self.forget_expired(now);
        let earliest = self
            .places
            .iter()
            .flatten()
            .map(|token| token.expires)
            .min();
        let Some(place) = self.places.iter_mut().find(|place| place.is_none()) else {
            let after = earliest.unwrap_or(now).since(now);
            return Err(IssueError::TooMany { after });
        };
        let secret = random::bytes::<SECRET_BYTES>()?;
        *place = Some(Pending {
            secret: secret_digest(&secret),
            expires: now.saturating_add(TOKEN_LIFETIME),
            grant,
        });
        Ok(JoinToken::new(&secret, &self.authority))
    }

    /// Uses a token: it is not valid any more. `secret` is its [secret part](JoinToken::secret).
    ///
    /// The search compares all places, in a time that depends neither on the secret nor on the tokens.
    ///
    /// # Errors
    /// [`JoinError::Invalid`] for a wrong token; [`JoinError::TooMany`] if [`JOINS_WRONG_MAX`] wrong tokens
    /// came from the same origin in the last [`WRONG_PERIOD`]. Peers on this machine are not limited.
    pub fn join(
        &mut self,
        secret: &[u8; SECRET_BYTES],
        origin: Origin,
        now: Tick,
    ) -> Result<Joined, JoinError> {
        if let Origin::Network(origin) = origin {
            self.check_limit(origin, now)?;
        }
        if let Some(pending) = self.find(secret, now).and_then(Option::take) {
            return Ok(Joined { pending });
        }
        if let Origin::Network(origin) = origin {
            self.note_wrong(origin, now);
        }
        Err(JoinError::Invalid)
    }

    /// Makes a token valid again, until its original time, because the account could not be saved.
    pub fn put_back(&mut self, joined: Joined) {
        // The place that the token had may be taken; then there are others, or the table is full and the
        // program needs a new token.
        if let Some(place) = self.places.iter_mut().find(|place| place.is_none()) {
            *place = Some(joined.pending);
        }
    }

    /// Returns the number of tokens that can be used, at most [`PENDING_MAX`].
    pub fn len(&self, now: Tick) -> usize {
        let tokens = self.places.iter().flatten();
        tokens.filter(|token| token.expires > now).count()
    }

    /// Returns true if no token can be used.
    pub fn is_empty(&self, now: Tick) -> bool {
        self.len(now) == 0
    }

    /// Invalidates the tokens whose grant fulfils a condition, such as those for an account that is removed.
    /// Returns their number.
    pub fn revoke(&mut self, is_revoked: impl Fn(&JoinGrant) -> bool) -> usize {
        let mut count: usize = 0;
        for place in &mut self.places {
            if place.take_if(|token| is_revoked(&token.grant)).is_some() {
                count = count.saturating_add(1);
            }
        }
        count
    }

    fn check_limit(&mut self, origin: NetworkOrigin, now: Tick) -> Result<(), JoinError> {
        let Some(times) = self.wrong.get_mut(&origin) else {
            return Ok(());
        };
        times.retain(|time| now.since(*time) < WRONG_PERIOD);
        match times.front() {
            Some(oldest) if times.len() >= JOINS_WRONG_MAX => {
                let after = oldest.saturating_add(WRONG_PERIOD).since(now);
                Err(JoinError::TooMany { after })
            }
            Some(_) => Ok(()),
            None => {
                self.wrong.remove(&origin);
                Ok(())
            }
        }
    }

    fn note_wrong(&mut self, origin: NetworkOrigin, now: Tick) {
        let last = |times: &WrongTokens| times.back().copied().unwrap_or_default();
        if self.wrong.len() >= WRONG_ORIGINS_MAX && !self.wrong.contains_key(&origin) {
            self.wrong
                .retain(|_, times| now.since(last(times)) < WRONG_PERIOD);
        }
        if self.wrong.len() >= WRONG_ORIGINS_MAX && !self.wrong.contains_key(&origin) {
            let oldest = self.wrong.iter().min_by_key(|(_, times)| last(times));
            if let Some(oldest) = oldest.map(|(origin, _)| *origin) {
                self.wrong.remove(&oldest);
            }
        }
        self.wrong.entry(origin).or_default().push_back(now);
    }

    /// Returns the place of a valid token with this secret.
    ///
    /// Without a match the result is the first place, without its token's being taken: the steps are the same.
    fn find(&mut self, secret: &[u8; SECRET_BYTES], now: Tick) -> Option<&mut Option<Pending>> {
        let secret = secret_digest(secret);
        let mut found = Choice::from(0);
        let mut found_at = 0u32;
        for (index, place) in (0..).zip(&self.places) {
            // No secret has this digest, as far as anyone can compute.
            let (candidate, expires) = match place {
                Some(token) => (&token.secret, token.expires),
                None => (&[0; 32], Tick::ZERO),
            };
            let is_valid = Choice::from(u8::from(expires > now));
            let is_found = candidate.ct_eq(&secret) & is_valid;
            found_at.conditional_assign(&index, is_found);
            found |= is_found;
        }
        let place = self.places.get_mut(found_at as usize);
        place.filter(|_| found.into())
    }

    fn forget_expired(&mut self, now: Tick) {
        for place in &mut self.places {
            place.take_if(|token| token.expires <= now);
        }
    }
}

impl fmt::Debug for PendingTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.places.iter().flatten().count();
        write!(f, "PendingTokens({count} of {PENDING_MAX})")
    }
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Joined").field(&self.pending.grant).finish()
    }
}

fn secret_digest(secret: &[u8; SECRET_BYTES]) -> SecretDigest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, secret).as_ref());
    bytes
}
