//! Provides callers with the rights of roles and rules, and an authenticator that accepts everyone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_access::{
    Account, Action, Actions, Effect, Host, Place, Policy, Role, Rule, UserName, Who,
};
use trunkline_engine::{Caller, Principal, Rights};
use trunkline_proto::Fault;
use trunkline_proto::message::pair::{Pair, Paired};
use trunkline_serve::{Authenticator, Identity, LoginAnswer, LoginRequest};
use trunkline_types::{Moment, Pattern};

/// The account of every caller.
pub const USER: &str = "anna";

/// Returns the rights of a user with this role and these rules.
pub fn rights_of(role: Option<Role>, rules: &[(Effect, Actions, &str)]) -> Rights {
    let user = UserName::parse(USER).unwrap();
    let account = Account {
        name: user.clone(),
        role,
        groups: Vec::new(),
        disabled: false,
        place: Place::from("access.toml:1"),
    };
    let rules = rules.iter().map(|(effect, actions, pattern)| Rule {
        who: Who::User(user.clone()),
        pattern: Pattern::parse(pattern).unwrap(),
        effect: *effect,
        actions: *actions,
        place: Place::from("access.toml:2"),
    });
    let policy = Policy::new(vec![account], rules.collect()).unwrap();
    let subject = policy.subject(USER, Host::Local).unwrap();
    Rights::of(policy.subject_rules(&subject))
}

/// Returns the rights of a user without a role, to whom these actions are granted on these names.
pub fn granted(rules: &[(&[Action], &str)]) -> Rights {
    let rules: Vec<_> = rules
        .iter()
        .map(|(actions, pattern)| (Effect::Grant, Actions::of(actions), *pattern))
        .collect();
    rights_of(None, &rules)
}

/// Accepts every client at once, as an account with these rights.
pub struct Reception {
    pub rights: Rights,
    /// Accounts for which tokens were requested.
    pub paired: Mutex<Vec<String>>,
}

impl Reception {
    pub fn of(rights: &Rights) -> Arc<Self> {
        Arc::new(Self {
            rights: rights.clone(),
            paired: Mutex::default(),
        })
    }
}

impl Authenticator for Reception {
    fn authenticate(&self, _: LoginRequest<'_>, answer: LoginAnswer) {
        let identity = identity(USER, &self.rights, &answer);
        answer.send(Ok(identity));
    }

    fn pair(&self, _: &Caller, pair: &Pair, _: Moment) -> Result<Paired, Fault> {
        self.paired.lock().unwrap().push(pair.account.clone());
        Ok(Paired {
            token: "ABCD-EFGH".to_owned(),
            valid_for: Duration::from_secs(600),
        })
    }
}

/// Returns the identity of an account.
pub fn identity(account: &str, rights: &Rights, answer: &LoginAnswer) -> Identity {
    Identity {
        principal: Principal::Account(Arc::from(account)),
        rights: rights.clone(),
        account: account.to_owned(),
        role: String::new(),
        standing: answer.standing(),
        on_end: None,
    }
}
