//! Proves and stores the identities of programs and people.
//!
//! ```text
//! program   key          ProgramKey ── login_signature ──> verify_login ──┐
//!           certificate  (the TLS library) ──> Fingerprint ───────────────┤
//!           token        JoinToken ──> PendingTokens ──> AccessEdit::join │
//! person    password     Password ──> LoginAttempts ──> PasswordVerifier ─┼──> Accounts ──> user name
//! local     user id      (the system) ────────────────────────────────────┘        └──────> Policy
//!
//! engine    SecurityFolder: Authority, EngineIdentity, AccessFile
//! ```
//!
//! The crate opens no socket and starts no thread. It reads no clock: the time is an argument, as a
//! [`Tick`](trunkline_types::Tick) for periods and as a [`Timestamp`](trunkline_types::Timestamp) for the
//! validity of certificates. It reads and writes the files that a caller names. What a user may do is decided by
//! `trunkline-access`.
//!
//! Secrets are erased from memory when they are dropped, and no format shows them. Copies made by the
//! libraries `ring` and `toml_edit` are not erased.
//!
//! # Layout
//! - [`keys`]: keys of programs, and the proof of a key on one connection.
//! - [`password`], [`attempts`]: passwords of people, with bounded cost and growing delays.
//! - [`token`]: joining tokens.
//! - [`authority`], [`certificate`], [`fingerprint`], [`host_name`]: the certificates of engines.
//! - [`client_certificate`]: those of clients, with their private keys.
//! - [`folder`]: the security folder; [`accounts`]: its file `access.toml`; [`files`]: their permissions.
//! - [`origin`]: the origin of a peer, for limits.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod attempts;
pub mod authority;
pub mod certificate;
pub mod client_certificate;
pub mod files;
pub mod fingerprint;
pub mod folder;
pub mod host_name;
pub mod keys;
pub mod origin;
pub mod password;
pub mod pem;
pub mod random;
pub mod token;

pub use accounts::{AccessEdit, AccessFile, Accounts};
pub use attempts::LoginAttempts;
pub use authority::{Authority, EngineSubject, PrivateKey};
pub use certificate::Certificate;
pub use client_certificate::ClientCertificate;
pub use fingerprint::Fingerprint;
pub use folder::{EngineIdentity, SecurityFolder};
pub use host_name::HostName;
pub use keys::{ProgramKey, PublicKey, login_signature, verify_login};
pub use origin::Origin;
pub use password::{Password, PasswordCheck, PasswordHash, PasswordVerifier};
pub use token::{JoinGrant, JoinToken, PendingTokens};
