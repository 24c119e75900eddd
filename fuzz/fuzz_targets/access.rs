#![no_main]
//! Files of accounts and rules: accounts, or errors with their lines. A change of a valid file keeps the rest.

use libfuzzer_sys::fuzz_target;
use trunkline_access::{Action, Host, UserName};
use trunkline_identity::{AccessEdit, Accounts};

const FILE: &str = "access.toml";

fuzz_target!(|text: &str| {
    let accounts = match Accounts::parse(FILE, text) {
        Ok(accounts) => accounts,
        Err(errors) => {
            assert!(!errors.to_string().is_empty());
            return;
        }
    };
    let policy = accounts.policy();
    for entry in accounts.entries() {
        if let Ok(subject) = policy.subject(entry.account.name.as_str(), Host::Local) {
            let rules = policy.subject_rules(&subject);
            for action in Action::ALL {
                // The decision and its explanation agree.
                let permitted = rules.actions("boiler/level").contains(*action);
                assert_eq!(
                    permitted,
                    rules.decide("boiler/level", *action).is_granted()
                );
            }
        }
    }
    let count = accounts.entries().len();
    let mut edit = AccessEdit::new(FILE, text).expect("the text is valid");
    let name = UserName::parse("fuzz").expect("the name is valid");
    if edit.add_account(&name, None, &[]).is_err() {
        return;
    }
    if let Ok((changed, accounts)) = edit.finish() {
        assert_eq!(accounts.entries().len(), count + 1);
        let mut edit = AccessEdit::new(FILE, &changed).expect("the changed text is valid");
        edit.remove_account(&name).expect("the account is there");
        let (_, accounts) = edit
            .finish()
            .expect("the text without the account is valid");
        assert_eq!(accounts.entries().len(), count);
    }
});
