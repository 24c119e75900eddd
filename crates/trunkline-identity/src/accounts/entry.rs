//! An account with what proves its identity.

use trunkline_access::Account;
use zeroize::Zeroizing;

use crate::fingerprint::Fingerprint;
use crate::keys::PublicKey;
use crate::password::PasswordHash;

/// What proved the identity of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Credential {
    /// The signature of a key.
    Key(PublicKey),
    /// A client certificate with this public key.
    Certificate(Fingerprint),
    /// The password with this hash.
    Password(PasswordHash),
    /// The operating system, which reported this user id.
    Uid(u32),
}

impl Credential {
    /// Returns a fingerprint by which the credential is recognised, but from which it cannot be learnt.
    pub fn fingerprint(&self) -> Fingerprint {
        let text = Zeroizing::new(match self {
            Credential::Key(key) => format!("key {key}"),
            Credential::Certificate(fingerprint) => format!("certificate {fingerprint}"),
            Credential::Password(hash) => format!("password {hash}"),
            Credential::Uid(uid) => format!("uid {uid}"),
        });
        Fingerprint::of_spki(text.as_bytes())
    }
}

/// A `[[user]]` of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountEntry {
    /// Name, role and groups.
    pub account: Account,
    /// The public keys of the account.
    pub keys: Vec<PublicKey>,
    /// The public keys of its client certificates.
    pub certificates: Vec<Fingerprint>,
    /// The hash of its password.
    pub password: Option<PasswordHash>,
    /// The user ids that have this account on the engine's machine.
    pub uids: Vec<u32>,
    /// Line of the file, from 1.
    pub line: usize,
}

impl AccountEntry {
    /// Returns the credential of the account with this fingerprint.
    pub fn credential(&self, fingerprint: &Fingerprint) -> Option<Credential> {
        let keys = self.keys.iter().copied().map(Credential::Key);
        let certificates = self.certificates.iter().copied();
        let password = self.password.clone().map(Credential::Password);
        let uids = self.uids.iter().copied().map(Credential::Uid);
        keys.chain(certificates.map(Credential::Certificate))
            .chain(password)
            .chain(uids)
            .find(|credential| credential.fingerprint() == *fingerprint)
    }

    /// Returns true if the account has this credential.
    pub fn has(&self, credential: &Credential) -> bool {
        match credential {
            Credential::Key(key) => self.keys.contains(key),
            Credential::Certificate(fingerprint) => self.certificates.contains(fingerprint),
            Credential::Password(hash) => self.password.as_ref() == Some(hash),
            Credential::Uid(uid) => self.uids.contains(uid),
        }
    }
}
