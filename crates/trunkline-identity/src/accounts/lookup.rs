//! Finds the account of a caller that has proved its identity.

use std::collections::HashMap;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use trunkline_access::{Policy, UserName};

use super::entry::{AccountEntry, Credential};
use super::error::AccessErrors;
use super::reader::{Content, read};
use crate::fingerprint::Fingerprint;
use crate::keys::PublicKey;
use crate::password::{PasswordCandidate, PasswordHash};

/// The accounts of an engine, and its rules as a [`Policy`].
///
/// Lookups return only accounts that are not disabled. An account may be disabled while a login is verified,
/// so look it up again afterwards.
#[derive(Debug)]
pub struct Accounts {
    entries: Vec<AccountEntry>,
    policy: Arc<Policy>,
    /// Indices of accounts that are not disabled.
    by_key: HashMap<PublicKey, usize>,
    by_certificate: HashMap<Fingerprint, usize>,
    by_uid: HashMap<u32, usize>,
    by_name: HashMap<UserName, usize>,
    passwords: Passwords,
}

/// What a search for a password needs: a place for each account, and one at the end for none.
#[derive(Debug)]
struct Passwords {
    places: Vec<PasswordPlace>,
    /// The hash for the case that there is no place, which does not occur.
    none: PasswordHash,
}

#[derive(Debug)]
struct PasswordPlace {
    name: NameDigest,
    /// 1 if the account has a password and is not disabled, otherwise 0.
    is_usable: u8,
    /// The hash; for accounts without one, another hash of equal cost, which matches no password.
    hash: PasswordHash,
}

type NameDigest = [u8; 32];

impl Accounts {
    /// Reads the text of accounts and rules. `file` is its name in messages.
    ///
    /// # Errors
    /// [`AccessErrors`], with every error up to a limit and its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, AccessErrors> {
        let Content { entries, policy } = read(file, text)?;
        let enabled = || {
            let entries = entries.iter().enumerate();
            entries.filter(|(_, entry)| !entry.account.disabled)
        };
        let by_key =
            enabled().flat_map(|(index, entry)| entry.keys.iter().map(move |key| (*key, index)));
        let by_certificate = enabled()
            .flat_map(|(index, entry)| entry.certificates.iter().map(move |print| (*print, index)));
        let by_uid =
            enabled().flat_map(|(index, entry)| entry.uids.iter().map(move |uid| (*uid, index)));
        let by_name = enabled().map(|(index, entry)| (entry.account.name.clone(), index));
        Ok(Self {
            by_key: by_key.collect(),
            by_certificate: by_certificate.collect(),
            by_uid: by_uid.collect(),
            by_name: by_name.collect(),
            passwords: Passwords::new(&entries),
            policy: Arc::new(policy),
            entries,
        })
    }

    /// Returns all accounts in the order of the file, also those that are disabled.
    pub fn entries(&self) -> &[AccountEntry] {
        &self.entries
    }

    /// Returns the accounts and rules that determine rights.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Returns the account that has a public key. The caller has [verified](crate::keys::verify_login) the
    /// signature.
    pub fn by_key(&self, key: &PublicKey) -> Option<&UserName> {
        self.name(self.by_key.get(key))
    }

    /// Returns the account that has a client certificate with this public key. The TLS library has verified that
    /// the peer has the private key.
    pub fn by_certificate(&self, fingerprint: &Fingerprint) -> Option<&UserName> {
        self.name(self.by_certificate.get(fingerprint))
    }

    /// Returns the account of a user of this machine. The system has reported the user id.
    pub fn by_uid(&self, uid: u32) -> Option<&UserName> {
        self.name(self.by_uid.get(&uid))
    }

    /// Returns the account with this name.
    ///
    /// The time reveals whether it exists, so do not call this for a peer that has not proved an identity:
    /// see [`Accounts::password_candidate`].
    pub fn by_name(&self, name: &str) -> Option<&UserName> {
        self.name(self.by_name.get(name))
    }

    /// Returns true if the account exists, is not disabled, and has this credential. Call it for a session
    /// when the accounts change: a credential that was removed must end the sessions that it began.
    pub fn accepts(&self, account: &UserName, credential: &Credential) -> bool {
        let entry = self.by_name.get(account.as_str());
        let entry = entry.and_then(|index| self.entries.get(*index));
        entry.is_some_and(|entry| entry.has(credential))
    }

    /// Returns the credential of an account with this fingerprint. A disabled account has none.
    pub fn credential(&self, account: &UserName, fingerprint: &Fingerprint) -> Option<Credential> {
        let entry = self.entries.get(*self.by_name.get(account.as_str())?)?;
        entry.credential(fingerprint)
    }

    /// Returns the password that a successful login with a password has proved.
    pub fn password_of(&self, account: &UserName) -> Option<Credential> {
        let entry = self.entries.get(*self.by_name.get(account.as_str())?)?;
        entry.password.clone().map(Credential::Password)
    }

    /// Returns what a password for this name is compared with, whether or not there is such an account.
    ///
    /// The search compares all accounts, in a time that depends neither on the name, except on its length, nor
    /// on whether there is such an account.
    pub fn password_candidate(&self, name: &str) -> PasswordCandidate<'_> {
        self.passwords.find(name)
    }

    fn name(&self, index: Option<&usize>) -> Option<&UserName> {
        let entry = self.entries.get(*index?)?;
        Some(&entry.account.name)
    }
}

impl Passwords {
    fn new(entries: &[AccountEntry]) -> Self {
        let place = |entry: &AccountEntry| {
            let password = entry.password.as_ref().filter(|_| !entry.account.disabled);
            PasswordPlace {
                name: name_digest(entry.account.name.as_str()),
                is_usable: u8::from(password.is_some()),
                hash: password.cloned().unwrap_or_else(PasswordHash::dummy),
            }
        };
        let none = PasswordPlace {
            name: [0; 32],
            is_usable: 0,
            hash: PasswordHash::dummy(),
        };
        Self {
            places: entries.iter().map(place).chain([none]).collect(),
            none: PasswordHash::dummy(),
        }
    }

    fn find(&self, name: &str) -> PasswordCandidate<'_> {
        let name = name_digest(name);
        let last = self.places.len().saturating_sub(1);
        let mut found_at = u32::try_from(last).unwrap_or(u32::MAX);
        let mut is_known = Choice::from(0);
        for (index, place) in (0..).zip(&self.places) {
            let is_found = place.name.ct_eq(&name) & Choice::from(place.is_usable);
            found_at.conditional_assign(&index, is_found);
            is_known |= is_found;
        }
        let place = self.places.get(found_at as usize);
        PasswordCandidate::new(place.map_or(&self.none, |place| &place.hash), is_known)
    }
}

fn name_digest(name: &str) -> NameDigest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, name.as_bytes()).as_ref());
    bytes
}
