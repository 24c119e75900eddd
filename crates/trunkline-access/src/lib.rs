//! Decides who may do what on an engine: names, identities and actions in, decisions out.
//!
//! ```text
//! Account, Rule ──> Policy ──┬─> SubjectRules ──> Actions     on a name, a library, the engine
//!   (access.toml)            │      │
//! user, host ────> Subject ──┘      └───────────> Decision    with the rule or the role that decides
//! ```
//!
//! A rule that denies overrides every grant; otherwise one grant suffices; otherwise the request is denied.
//! Rules have no order, and a rule with a longer pattern does not override one with a shorter pattern, so
//! each rule can be understood alone (decision 0066).
//!
//! The crate performs no I/O and reads no clock. It does not authenticate: it takes the user and the host as
//! given.
//!
//! # Layout
//! - [`action`]: the [`Action`]s, and [`Actions`], a set of them.
//! - [`role`]: the four [`Role`]s.
//! - [`host`]: [`Host`], the origin of a connection, and [`HostRange`], which a rule names.
//! - [`account`]: [`Account`], with the names of users and groups.
//! - [`rule`]: [`Rule`], and [`Who`] it applies to.
//! - [`policy`]: [`Policy`], the accounts and rules of an engine, checked.
//! - [`subject_rules`]: [`SubjectRules`], prepared for one caller or for several with equal rights.
//! - [`decision`]: [`Decision`], and [`Explanation`], the decisions on every action.

#![forbid(unsafe_code)]

pub mod account;
pub mod action;
pub mod decision;
pub mod host;
pub mod policy;
mod reach;
pub mod role;
pub mod rule;
pub mod subject_rules;

pub use account::{Account, GroupName, UserName};
pub use action::{Action, Actions};
pub use decision::{Decision, Explanation, GrantedBy};
pub use host::{Host, HostRange};
pub use policy::{InvalidPolicy, Policy, PolicyError, PolicyWarning, Subject, SubjectError};
pub use role::Role;
pub use rule::{Effect, Place, Rule, Who};
pub use subject_rules::SubjectRules;
