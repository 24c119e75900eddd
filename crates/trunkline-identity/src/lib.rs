//! Proves and stores the identities of programs and persons.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod attempts;
pub mod authority;
pub mod certificate;
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
