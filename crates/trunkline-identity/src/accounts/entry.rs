//! An account with what proves its identity.

use trunkline_access::Account;

use crate::fingerprint::Fingerprint;
use crate::keys::PublicKey;
use crate::password::PasswordHash;

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
