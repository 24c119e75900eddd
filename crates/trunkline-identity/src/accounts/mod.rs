//! The accounts and rules of an engine: the file `access.toml`.
//!
//! ```toml
//! [[user]]
//! name = "anna"
//! role = "operator"                      # viewer, operator, engineer or admin
//! groups = ["shift-a"]
//! keys = ["ed25519:BASE64"]              # public keys
//! certificates = ["sha256:HEX"]          # public keys of client certificates
//! password = "$argon2id$..."             # a hash
//! uid = 1000                             # or uids = [1000, 1001]: users of this machine
//! disabled = true
//!
//! [[rule]]
//! group = "shift-a"                      # or user, role, host, or everyone = true
//! pattern = "boiler/**"
//! deny = ["write"]                       # or grant
//! ```
//!
//! # Layout
//! - [`Accounts`]: identifies users, for logins; with the [`Policy`](trunkline_access::Policy) for
//!   rights.
//! - [`Accounts::parse`]: the text to accounts, with every error and its line.
//! - [`AccessEdit`]: changes that keep comments and order.
//! - [`AccessFile`]: the file on disk.

mod edit;
mod entry;
mod error;
mod file;
mod lookup;
mod reader;
mod toml_text;

pub use edit::{AccessEdit, EditError};
pub use entry::{AccountEntry, Credential};
pub use error::{AccessError, AccessErrorKind, AccessErrors, ERRORS_MAX};
pub use file::{AccessFile, AccessFileError, FILE_BYTES_MAX};
pub use lookup::Accounts;

/// Maximum number of keys, of certificates and of user ids of an account.
pub const CREDENTIALS_MAX: usize = 100;

#[cfg(test)]
mod tests;
