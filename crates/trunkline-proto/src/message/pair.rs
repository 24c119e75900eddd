//! PAIR and PAIRED: a joining token for another program.

use std::time::Duration;

use super::fields::{Always, IfSet, Many, fields};
use super::form::{Varint, Whole, mapped};
use super::layout::FieldValue;
use super::single::single_frame;

/// Maximum number of groups of the account that a token creates.
pub const PAIR_GROUPS_MAX: usize = 64;

fields! {
    /// Asks for a joining token. The program that uses the token registers its key with the account.
    #[derive(Eq, Default)]
    pub struct Pair {
        /// Name of the account.
        1: pub account: String = Always<Whole>,
        /// Role of the account, if the engine creates it: viewer, operator, engineer or admin; empty
        /// for none. An account that exists keeps its role, and the role here must be empty.
        2: pub role: String = IfSet<Whole>,
        /// Groups of the account, if the engine creates it.
        3: pub groups: Vec<String> = Many<PAIR_GROUPS_MAX, Whole>,
    }
}

single_frame! { Pair, Pair }

fields! {
    /// The joining token.
    #[derive(Eq, Default)]
    pub struct Paired {
        /// The token, in the form that a person enters. It is a secret.
        1: pub token: String = Always<Whole>,
        /// The time for which the token is valid, in whole seconds.
        2: pub valid_for: Duration = Always<Seconds> as "valid_s",
    }
}

single_frame! { Paired, Paired }

/// Whole seconds as a varint.
#[derive(Debug)]
pub enum Seconds {}

mapped! {
    Seconds: Duration = Varint: u64, |time| time.as_secs(), Duration::from_secs, |time| {
        FieldValue::Number(time.as_secs())
    };
}
