use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use trunkline_access::{Action, Actions, Effect, GroupName, Host, Role, Rule, UserName, Who};
use trunkline_types::Pattern;

use super::*;
use crate::files::FileError;
use crate::fingerprint::Fingerprint;
use crate::keys::{ProgramKey, PublicKey};
use crate::password::{Password, PasswordCheck, PasswordHash, PasswordVerifier};
use crate::token::JoinGrant;

const KEY: &str = "ed25519:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
const CERTIFICATE: &str = "sha256:601a5b4f279593b17a7ab09e50eaad06cad0d1c1bfcab78e5ca87191b876d55c";
/// The hash of `correct horse battery`, with cheap parameters so that tests are fast.
const HASH: &str =
    "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

fn full() -> String {
    format!(
        "# Accounts of plant 7.\n\
         \n\
         # Shift leader.\n\
         [[user]]\n\
         name = \"anna\"\n\
         role = \"operator\" # since May\n\
         groups = [\"shift-a\", \"shift-b\"]\n\
         keys = [\"{KEY}\"]\n\
         certificates = [\"{CERTIFICATE}\"]\n\
         password = \"{HASH}\"\n\
         uid = 1000\n\
         \n\
         [[user]]\n\
         name = \"boris\"\n\
         uids = [1001, 1002]\n\
         \n\
         [[user]]\n\
         name = \"carla\"\n\
         role = \"admin\"\n\
         disabled = true\n\
         uid = 1003\n\
         \n\
         # Rules.\n\
         \n\
         [[rule]]\n\
         group = \"shift-a\"\n\
         pattern = \"boiler/**\"\n\
         deny = [\"write\", \"alarm\"]\n\
         \n\
         [[rule]]\n\
         user = \"boris\"\n\
         pattern = \"**\"\n\
         grant = [\"all\"]\n\
         \n\
         [[rule]]\n\
         role = \"viewer\"\n\
         pattern = \"**\"\n\
         grant = [\"stream\"]\n\
         \n\
         [[rule]]\n\
         host = \"192.0.2.0/24\"\n\
         pattern = \"**\"\n\
         deny = [\"administer\"]\n\
         \n\
         [[rule]]\n\
         everyone = true\n\
         pattern = \"demo/*\"\n\
         grant = [\"read\"]\n\
         # The end.\n"
    )
}

fn name(text: &str) -> UserName {
    text.parse().unwrap()
}

fn parse(text: &str) -> Result<Accounts, AccessErrors> {
    Accounts::parse("access.toml", text)
}

fn errors(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn accounts_are_found_by_key_certificate_user_and_name() {
    let sut = parse(&full()).unwrap();
    let found = |name: Option<&UserName>| name.map(|name| name.to_string());
    let anna = Some("anna".to_owned());
    assert_eq!(found(sut.by_key(&KEY.parse().unwrap())), anna);
    assert_eq!(
        found(sut.by_certificate(&CERTIFICATE.parse().unwrap())),
        anna
    );
    assert_eq!(found(sut.by_uid(1000)), anna);
    assert_eq!(found(sut.by_name("anna")), anna);
    assert_eq!(found(sut.by_uid(1002)), Some("boris".to_owned()));
    assert_eq!(found(sut.by_uid(1004)), None);
    assert_eq!(found(sut.by_name("Anna")), None);
    let other = ProgramKey::generate().unwrap().public();
    assert_eq!(found(sut.by_key(&other)), None);
    assert_eq!(found(sut.by_certificate(&Fingerprint::of_spki(b""))), None);
    let anna = &sut.entries()[0];
    assert_eq!(
        (anna.line, anna.account.place.as_str()),
        (4, "access.toml:4")
    );
    assert_eq!(anna.account.role, Some(Role::Operator));
    assert_eq!(anna.account.groups.len(), 2);
    assert_eq!(sut.entries()[1].account.role, None);
    assert_eq!(sut.entries()[1].uids, [1001, 1002]);
}

#[test]
fn disabled_account_is_found_by_nothing() {
    let text = full().replace("# since May\n", "\ndisabled = true\n");
    let sut = parse(&text).unwrap();
    assert_eq!(sut.by_key(&KEY.parse().unwrap()), None);
    assert_eq!(sut.by_certificate(&CERTIFICATE.parse().unwrap()), None);
    assert_eq!(sut.by_uid(1000), None);
    assert_eq!(sut.by_name("anna"), None);
    assert_eq!(
        check_password(&sut, "anna", "password"),
        PasswordCheck::Wrong
    );
    assert_eq!(sut.entries().len(), 3);
    assert!(sut.policy().subject("anna", Host::Local).is_err());
    let enabled = text.replace("disabled = true", "disabled = false");
    assert!(parse(&enabled).unwrap().by_uid(1000).is_some());
}

fn check_password(accounts: &Accounts, name: &str, password: &str) -> PasswordCheck {
    let verifier = PasswordVerifier::new();
    let password = Password::new(password.to_owned());
    verifier.verify(&password, accounts.password_candidate(name))
}

/// CR 1.7: one outcome for every failure.
#[test]
fn only_the_password_of_the_named_account_is_correct() {
    let sut = parse(&full()).unwrap();
    assert_eq!(
        check_password(&sut, "anna", "password"),
        PasswordCheck::Correct
    );
    for (name, password) in [
        ("anna", "passwore"),
        ("boris", "password"),
        ("boris", ""),
        ("carla", ""),
        ("nobody", "password"),
        ("", "password"),
    ] {
        assert_eq!(
            check_password(&sut, name, password),
            PasswordCheck::Wrong,
            "{name}"
        );
    }
    let none = parse("").unwrap();
    assert_eq!(
        check_password(&none, "anna", "password"),
        PasswordCheck::Wrong
    );
}

/// H-18: the rules decide as the policy does.
#[test]
fn rules_reach_the_policy_with_their_places() {
    let sut = parse(&full()).unwrap();
    let rules: Vec<String> = sut.policy().rules().map(Rule::to_string).collect();
    let expected = [
        "access.toml:25: deny write, alarm on boiler/** to group shift-a",
        "access.toml:30: grant all on ** to user boris",
        "access.toml:35: grant stream on ** to role viewer",
        "access.toml:40: deny administer on ** to host 192.0.2.0/24",
        "access.toml:45: grant read on demo/* to everyone",
    ];
    assert_eq!(rules, expected);
    assert!(
        sut.policy().warnings().is_empty(),
        "{:?}",
        sut.policy().warnings()
    );
}

/// B-81: no account exists that the administrator did not create.
#[test]
fn empty_file_has_no_accounts() {
    for text in ["", "\n# nothing\n", include_str!("../folder/access.toml")] {
        let sut = parse(text).unwrap();
        assert!(sut.entries().is_empty());
        assert_eq!(sut.policy().rules().len(), 0);
    }
}

#[test]
fn example_in_the_new_file_is_valid() {
    let example: String = include_str!("../folder/access.toml")
        .lines()
        .skip_while(|line| !line.starts_with("# [["))
        .map(|line| format!("{}\n", line.trim_start_matches('#').trim()))
        .collect();
    let sut = parse(&example).unwrap();
    assert_eq!((sut.entries().len(), sut.policy().rules().len()), (1, 1));
}

/// Every error, with its line.
#[test]
fn errors_state_the_line_and_the_remedy() {
    let user = "[[user]]\nname = \"anna\"\n";
    let rule = "\n[[rule]]\npattern = \"a/**\"\ngrant = [\"read\"]\n";
    let hash_like = "password = \"$argon2id$secret";
    let cases = [
        (
            "\n[user]\nname = \"anna\"".to_owned(),
            "access.toml:2: write [[user]] for each user",
        ),
        (
            "rule = 5".to_owned(),
            "access.toml:1: write [[rule]] for each rule",
        ),
        (
            "user = [{ name = \"anna\" }]".to_owned(),
            "access.toml:1: write [[user]] for each user",
        ),
        (
            format!("{user}\n[[users]]\n"),
            "access.toml:4: unknown key \"users\" in the file; did you mean user?",
        ),
        (
            format!("{user}keyz = []"),
            "access.toml:3: unknown key \"keyz\" in [[user]]; did you mean keys?",
        ),
        (
            format!("{user}email = \"a\""),
            "access.toml:3: unknown key \"email\" in [[user]]; the keys here are name, role, groups, keys, \
             certificates, password, uid, uids, disabled",
        ),
        (
            format!("{user}[user.extra]\nx = 1"),
            "access.toml:3: unknown key \"extra\" in [[user]]; the keys here are name, role, groups, keys, \
             certificates, password, uid, uids, disabled",
        ),
        (
            format!("{rule}everyone = true\nallow = []"),
            "access.toml:6: unknown key \"allow\" in [[rule]]; the keys here are user, group, role, host, \
             everyone, pattern, grant, deny",
        ),
        (
            "[[user]]\nrole = \"admin\"".to_owned(),
            "access.toml:1: the user has no name; add name = \"anna\"",
        ),
        (
            "[[user]]\nname = 5".to_owned(),
            "access.toml:2: name must be a text, not integer",
        ),
        (
            "[[user]]\nname = \"anna b\"".to_owned(),
            "access.toml:2: name: the name has white space (U+0020) at byte 4: write - or _ in its place",
        ),
        (
            format!("{user}role = \"operater\""),
            "access.toml:3: \"operater\" is not a role; did you mean operator?",
        ),
        (
            format!("{user}groups = \"a\""),
            "access.toml:3: groups must be a list of texts, not string",
        ),
        (
            format!("{user}groups = [\n  \"a\",\n  7,\n]"),
            "access.toml:5: groups must be a list of texts, not integer",
        ),
        (
            format!("{user}groups = [\n  \"a\",\n  \"\",\n]"),
            "access.toml:5: groups: the name is empty: write 1 to 64 characters",
        ),
        (
            format!("{user}keys = [\n\"{KEY}\",\n\"ssh-ed25519 AAAA\"]"),
            "access.toml:5: keys: a public key begins with `ed25519:`; copy the whole key",
        ),
        (
            format!("{user}certificates = [\"sha256:00\"]"),
            "access.toml:3: certificates: a fingerprint has 64 hexadecimal digits after `sha256:`; copy the whole \
             fingerprint",
        ),
        (
            format!("{user}password = \"correct horse battery\""),
            "access.toml:3: password: a password hash has a form such as \
             `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`; set the password again",
        ),
        (
            format!("{user}uid = -1"),
            "access.toml:3: uid: -1 is not a user id; write a number from 0 to 4294967294",
        ),
        (
            format!("{user}uids = [1, 4294967295]"),
            "access.toml:3: uids: 4294967295 is not a user id; write a number from 0 to 4294967294",
        ),
        (
            format!("{user}uid = \"anna\""),
            "access.toml:3: uid must be a number, not string",
        ),
        (
            format!("{user}[user.uid]\nx = 1"),
            "access.toml:3: uid must be a number, not table",
        ),
        (
            format!("{user}uid = 1\nuids = [2]"),
            "access.toml:1: the user has both uid and uids; list all of them in uids",
        ),
        (
            format!("{user}disabled = \"yes\""),
            "access.toml:3: disabled must be true or false, not string",
        ),
        (
            rule.to_owned(),
            "access.toml:2: the rule does not state to whom it applies; add one of user, group, \
             role, host or everyone = true",
        ),
        (
            format!("{rule}group = \"a\"\neveryone = true"),
            "access.toml:2: the rule has both group and everyone; write one rule for each",
        ),
        (
            format!("{rule}everyone = false"),
            "access.toml:2: everyone = false means nothing; remove it, or write everyone = true",
        ),
        (
            format!("{rule}everyone = 1"),
            "access.toml:5: everyone must be true or false, not integer",
        ),
        (
            format!("{rule}host = \"plant7\""),
            "access.toml:5: \"plant7\" is neither an address nor a network: write one such as 10.0.0.7, \
             10.0.0.0/8 or fd00::/8, or local for this machine; names of machines are not looked up",
        ),
        (
            format!("{rule}everyone = true\ndeny = [\"write\"]"),
            "access.toml:2: the rule has both grant and deny; write one rule for each",
        ),
        (
            "[[rule]]\neveryone = true\npattern = \"**\"".to_owned(),
            "access.toml:1: the rule neither grants nor denies; add grant = [\"read\"] or deny = [\"write\"]",
        ),
        (
            "[[rule]]\neveryone = true\ndeny = [\"read\"]".to_owned(),
            "access.toml:1: the rule has no pattern; add pattern = \"boiler/**\"",
        ),
        (
            rule.replace("[\"read\"]", "[\"raed\"]") + "everyone = true",
            "access.toml:4: \"raed\" is not an action; did you mean read?",
        ),
        (
            rule.replace("[\"read\"]", "[]") + "everyone = true",
            "access.toml:4: no action is given: write one or several, such as read, write; or all",
        ),
        (
            rule.replace("[\"read\"]", "\"read\"") + "everyone = true",
            "access.toml:4: grant must be a list of actions, not string",
        ),
        (
            rule.replace("[\"read\"]", "[\n\"read\", 1]") + "everyone = true",
            "access.toml:5: grant must be a list of actions, not integer",
        ),
        (
            format!("{rule}user = \"ana\"\n{user}"),
            "access.toml:2: the rule is for the user ana, but there is no such account; did you mean anna?",
        ),
        (
            format!("{user}\n{user}"),
            "access.toml:4: there is another account anna (access.toml:1); give each account its own name",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(&text), expected, "{text}");
    }
    let syntax = errors(&format!("{user}{hash_like}"));
    assert!(
        syntax.starts_with("access.toml:3: this is not valid TOML: "),
        "{syntax}"
    );
    assert!(
        !syntax.contains("secret"),
        "the message shows no hash: {syntax}"
    );
    let pattern = errors(&rule.replace("a/**", "a//b"));
    assert!(
        pattern.starts_with("access.toml:2: the rule does not state"),
        "{pattern}"
    );
    assert!(pattern.contains("\naccess.toml:3: pattern: "), "{pattern}");
}

#[test]
fn accounts_cannot_share_a_key_a_certificate_or_a_user_id() {
    let user = |name: &str, rest: &str| format!("[[user]]\nname = \"{name}\"\n{rest}\n");
    for (rest, what) in [
        (format!("keys = [\"{KEY}\"]"), format!("the key {KEY}")),
        (
            format!("certificates = [\"{CERTIFICATE}\"]"),
            format!("the certificate {CERTIFICATE}"),
        ),
        ("uid = 1000".to_owned(), "the user id 1000".to_owned()),
    ] {
        let text = user("anna", &rest) + &user("boris", &format!("{rest}\ndisabled = true"));
        let expected = format!(
            "access.toml:4: {what} is already listed at access.toml:1; remove one of them, because it must \
             identify one account"
        );
        assert_eq!(errors(&text), expected);
    }
    // Another text of the same certificate is the same certificate.
    let upper = format!("sha256:{}", CERTIFICATE[7..].to_uppercase());
    let text = user(
        "anna",
        &format!("certificates = [\"{CERTIFICATE}\", \"{upper}\"]"),
    );
    assert!(errors(&text).contains("is already listed at access.toml:1"));
    let text = user("anna", "uids = [7, 7]");
    assert!(errors(&text).contains("the user id 7 is already listed"));
}

#[test]
fn all_errors_are_reported_up_to_a_limit_in_the_order_of_lines() {
    let text = "[[rule]]\n[[user]]\nnam = \"a\"\n".repeat(10);
    let found = parse(&text).unwrap_err();
    assert_eq!(found.errors.len(), ERRORS_MAX);
    // Each rule lacks three things, each user has an unknown key and lacks a name.
    assert_eq!(found.omitted, 10 * 5 - ERRORS_MAX);
    let lines: Vec<usize> = found
        .errors
        .iter()
        .map(|error| error.place.as_ref().unwrap().as_str())
        .map(|place| place.split_once(':').unwrap().1.parse().unwrap())
        .collect();
    assert!(lines.is_sorted(), "{lines:?}");
    assert!(found.to_string().ends_with("\nand 30 more"), "{found}");
}

#[test]
fn limits_of_the_file_and_of_an_account_hold() {
    let long = format!("#{}", "x".repeat(FILE_BYTES_MAX));
    assert!(errors(&long).contains("more than 4194304 bytes"));
    assert!(parse(&long[1..FILE_BYTES_MAX].replace('x', " ")).is_ok());
    let uids: Vec<u32> = (0..=CREDENTIALS_MAX as u32).collect();
    let text = format!("[[user]]\nname = \"anna\"\nuids = {uids:?}");
    let expected = "access.toml:1: uids has 101 items; 100 is the limit";
    assert_eq!(errors(&text), expected);
    let deep = format!("x = {}", "[".repeat(100_000));
    assert!(errors(&deep).contains("not valid TOML"));
    let many: String = (0..10_001)
        .map(|i| format!("[[user]]\nname = \"u{i}\"\n"))
        .collect();
    assert!(errors(&many).contains("10000 is the limit"));
}

fn edited(text: &str, change: impl FnOnce(&mut AccessEdit)) -> String {
    let mut edit = AccessEdit::new("access.toml", text).unwrap();
    change(&mut edit);
    edit.finish().unwrap().0
}

#[test]
fn edits_keep_comments_and_order() {
    let text = full();
    let role = edited(&text, |edit| {
        edit.set_role(&name("anna"), Some(Role::Viewer)).unwrap()
    });
    assert_eq!(
        role,
        text.replace("\"operator\" # since May", "\"viewer\" # since May")
    );
    let no_role = edited(&text, |edit| edit.set_role(&name("anna"), None).unwrap());
    assert_eq!(
        no_role,
        text.replace("role = \"operator\" # since May\n", "")
    );
    let disabled = edited(&text, |edit| {
        edit.set_disabled(&name("boris"), true).unwrap()
    });
    assert_eq!(
        disabled,
        text.replace("1002]\n", "1002]\ndisabled = true\n")
    );
    let enabled = edited(&text, |edit| {
        edit.set_disabled(&name("carla"), false).unwrap()
    });
    assert_eq!(enabled, text.replace("disabled = true\n", ""));
    let group: GroupName = "night".parse().unwrap();
    let groups = edited(&text, |edit| {
        edit.set_groups(&name("anna"), &[group]).unwrap()
    });
    assert_eq!(
        groups,
        text.replace("[\"shift-a\", \"shift-b\"]", "[\"night\"]")
    );
    let nothing = edited(&text, |_| ());
    assert_eq!(nothing, text);
}

#[test]
fn credentials_are_added_and_removed() {
    let text = full();
    let anna = name("anna");
    let new = ProgramKey::generate().unwrap().public();
    let old: PublicKey = KEY.parse().unwrap();
    let added = edited(&text, |edit| edit.add_key(&anna, &new).unwrap());
    assert_eq!(added, text.replace(KEY, &format!("{KEY}\", \"{new}")));
    let back = edited(&added, |edit| edit.remove_key(&anna, &new).unwrap());
    assert_eq!(back, text);
    let certificate = Fingerprint::of_spki(b"");
    let added = edited(&text, |edit| {
        edit.add_certificate(&name("boris"), &certificate).unwrap()
    });
    let sut = parse(&added).unwrap();
    assert_eq!(sut.by_certificate(&certificate), Some(&name("boris")));
    let back = edited(&added, |edit| {
        edit.remove_certificate(&name("boris"), &certificate)
            .unwrap()
    });
    assert!(parse(&back).unwrap().by_certificate(&certificate).is_none());
    let hash: PasswordHash = HASH.replace("c29t", "d29t").parse().unwrap();
    let set = edited(&text, |edit| edit.set_password(&anna, Some(&hash)).unwrap());
    assert_eq!(set, text.replace(HASH, &hash.to_string()));
    let removed = edited(&text, |edit| edit.set_password(&anna, None).unwrap());
    assert!(!removed.contains("argon2id"));
    let uids = edited(&text, |edit| {
        edit.set_uids(&anna, &[7, 8]).unwrap();
        edit.set_uids(&name("boris"), &[9]).unwrap();
        edit.set_uids(&name("carla"), &[]).unwrap();
    });
    let sut = parse(&uids).unwrap();
    let found: Vec<&[u32]> = sut.entries().iter().map(|entry| &*entry.uids).collect();
    assert_eq!(found, [&[7, 8][..], &[9], &[]]);
    let mut edit = AccessEdit::new("access.toml", &text).unwrap();
    let again = edit.add_key(&anna, &old).unwrap_err();
    assert!(matches!(again, EditError::AlreadyThere { .. }), "{again}");
    let missing = edit.remove_key(&anna, &new).unwrap_err();
    assert!(matches!(missing, EditError::NotThere { .. }), "{missing}");
}

#[test]
fn accounts_are_added_and_removed_with_their_rules() {
    let text = full();
    let groups: Vec<GroupName> = vec!["night".parse().unwrap()];
    let added = edited(&text, |edit| {
        edit.add_account(&name("dora"), Some(Role::Engineer), &groups)
            .unwrap();
    });
    let table = "[[user]]\nname = \"dora\"\nrole = \"engineer\"\ngroups = [\"night\"]\n\n";
    assert_eq!(added, text.replace("# Rules.", &format!("{table}# Rules.")));
    let mut removed_rules = 0;
    let removed = edited(&text, |edit| {
        removed_rules = edit.remove_account(&name("boris")).unwrap()
    });
    assert_eq!(removed_rules, 1);
    assert!(
        !removed.contains("boris") && removed.contains("# Rules."),
        "{removed}"
    );
    assert_eq!(parse(&removed).unwrap().policy().rules().len(), 4);
    let removed = edited(&text, |edit| {
        assert_eq!(edit.remove_account(&name("anna")), Ok(0))
    });
    assert!(
        removed.starts_with("# Accounts of plant 7.\n\n[[user]]\nname = \"boris\""),
        "{removed}"
    );
    let mut edit = AccessEdit::new("access.toml", &text).unwrap();
    let exists = edit.add_account(&name("anna"), None, &[]).unwrap_err();
    assert_eq!(exists, EditError::AccountExists(name("anna")));
    let missing = edit
        .set_disabled(&name("ana"), true)
        .unwrap_err()
        .to_string();
    assert_eq!(missing, "there is no account ana; did you mean anna?");
    assert!(matches!(
        edit.remove_account(&name("zoe")),
        Err(EditError::NoAccount { .. })
    ));
}

fn rule(who: Who, pattern: &str, effect: Effect, actions: Actions) -> Rule {
    Rule {
        who,
        pattern: Pattern::parse(pattern).unwrap(),
        effect,
        actions,
        place: "new".into(),
    }
}

#[test]
fn every_form_of_a_rule_is_added_and_removed() {
    let text = full();
    let write = Actions::of(&[Action::Write]);
    for new in [
        rule(Who::User(name("anna")), "a/**", Effect::Grant, Actions::ALL),
        rule(
            Who::Group("shift-b".parse().unwrap()),
            "a/*",
            Effect::Deny,
            write,
        ),
        rule(Who::Role(Role::Admin), "a/b", Effect::Deny, write),
        rule(
            Who::Host("local".parse().unwrap()),
            "**",
            Effect::Grant,
            write,
        ),
        rule(
            Who::Host("fd00::/8".parse().unwrap()),
            "**",
            Effect::Grant,
            write,
        ),
        rule(
            Who::Everyone,
            "**",
            Effect::Grant,
            Actions::of(&[Action::Read, Action::Audit]),
        ),
    ] {
        let added = edited(&text, |edit| edit.add_rule(&new).unwrap());
        let sut = parse(&added).unwrap();
        let last = sut.policy().rules().next_back_rule();
        let place = last.place.clone();
        assert_eq!(
            last,
            Rule {
                place,
                ..new.clone()
            }
        );
        let again = AccessEdit::new("access.toml", &added)
            .unwrap()
            .add_rule(&new)
            .unwrap_err();
        assert!(matches!(again, EditError::RuleExists(_)), "{again}");
        let back = edited(&added, |edit| edit.remove_rule(&new).unwrap());
        assert_eq!(back, text);
        let missing = AccessEdit::new("access.toml", &text)
            .unwrap()
            .remove_rule(&new)
            .unwrap_err();
        assert!(matches!(missing, EditError::NoRule(_)), "{missing}");
    }
}

trait LastRule {
    fn next_back_rule(self) -> Rule;
}

impl<'a, I: Iterator<Item = &'a Rule>> LastRule for I {
    fn next_back_rule(self) -> Rule {
        self.last().unwrap().clone()
    }
}

/// B-81: a program joins with a token, and its key is stored under the name of the token.
#[test]
fn program_joins_a_new_or_an_existing_account() {
    let text = full();
    let key = ProgramKey::generate().unwrap().public();
    let grant = |account: &str| JoinGrant {
        account: name(account),
        role: Some(Role::Viewer),
        groups: Vec::new(),
    };
    let joined = edited(&text, |edit| {
        edit.join(&grant("hmi"), &key).unwrap();
        edit.join(&grant("hmi"), &key).unwrap();
    });
    let sut = parse(&joined).unwrap();
    assert_eq!(sut.by_key(&key), Some(&name("hmi")));
    assert_eq!(
        sut.policy().account("hmi").unwrap().role,
        Some(Role::Viewer)
    );
    let joined = edited(&text, |edit| edit.join(&grant("anna"), &key).unwrap());
    let sut = parse(&joined).unwrap();
    assert_eq!(
        sut.policy().account("anna").unwrap().role,
        Some(Role::Operator)
    );
    assert_eq!(sut.entries()[0].keys.len(), 2);
    // The account for which the token was issued was removed meanwhile.
    let for_existing = JoinGrant {
        role: None,
        ..grant("removed")
    };
    let mut edit = AccessEdit::new("access.toml", &text).unwrap();
    let refused = edit.join(&for_existing, &key).unwrap_err();
    assert!(matches!(refused, EditError::NoAccount { .. }), "{refused}");
    let mut edit = AccessEdit::new("access.toml", &text).unwrap();
    assert_eq!(
        edit.join(&grant("carla"), &key),
        Err(EditError::Disabled(name("carla")))
    );
    // The key of one account cannot join another one.
    edit.join(&grant("hmi"), &KEY.parse().unwrap()).unwrap();
    let refused = edit.finish().unwrap_err().to_string();
    assert!(
        refused.contains("is already listed at access.toml:4"),
        "{refused}"
    );
}

fn file(text: &str) -> (tempfile::TempDir, AccessFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.toml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    (folder, AccessFile::new(path))
}

fn mode(sut: &AccessFile) -> u32 {
    fs::metadata(sut.path()).unwrap().permissions().mode() & 0o777
}

#[test]
fn file_is_changed_atomically_and_stays_private() {
    let (folder, sut) = file(&full());
    let (count, accounts) = sut
        .edit(|edit| edit.remove_account(&name("boris")))
        .unwrap();
    assert_eq!((count, accounts.entries().len()), (1, 2));
    assert_eq!(mode(&sut), 0o600);
    assert_eq!(sut.load().unwrap().entries().len(), 2);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let before = fs::metadata(sut.path()).unwrap().modified().unwrap();
    sut.edit(|_| Ok(())).unwrap();
    let after = fs::metadata(sut.path()).unwrap().modified().unwrap();
    assert_eq!(before, after, "an edit without a change writes nothing");
}

#[test]
fn failed_change_leaves_the_file() {
    let (_folder, sut) = file(&full());
    let edit = sut.edit(|edit| {
        edit.set_disabled(&name("anna"), true)?;
        edit.set_disabled(&name("nobody"), true)
    });
    assert!(matches!(
        edit,
        Err(AccessFileError::Edit(EditError::NoAccount { .. }))
    ));
    let rejected = sut
        .edit(|edit| edit.set_uids(&name("anna"), &[1001]))
        .unwrap_err();
    let message = rejected.to_string();
    assert!(
        message.starts_with("nothing was changed, because"),
        "{message}"
    );
    assert!(
        message.contains("the user id 1001 is already listed"),
        "{message}"
    );
    assert_eq!(fs::read_to_string(sut.path()).unwrap(), full());
}

#[test]
fn changes_at_the_same_time_are_refused_and_lose_nothing() {
    let (folder, sut) = file(&full());
    let lock = fs::File::open(folder.path()).unwrap();
    lock.lock().unwrap();
    let refused = sut.edit(|_| Ok(())).unwrap_err();
    assert!(matches!(refused, AccessFileError::InUse(_)), "{refused}");
    drop(lock);
    // An editor saves the file while it is being changed.
    let by_hand = full().replace("anna", "anne");
    let refused = sut.edit(|edit| {
        fs::write(sut.path(), &by_hand).unwrap();
        edit.set_disabled(&name("anna"), true)
    });
    assert!(matches!(refused, Err(AccessFileError::Changed(_))));
    assert_eq!(fs::read_to_string(sut.path()).unwrap(), by_hand);
    sut.edit(|edit| edit.set_disabled(&name("anne"), true))
        .unwrap();
}

#[test]
fn unusable_files_are_refused() {
    let (folder, sut) = file("[[user]]\nnam = \"a\"\n");
    let path = sut.path().display();
    let message = sut.load().unwrap_err().to_string();
    assert!(
        message.starts_with(&format!(
            "{path} has errors:\naccess.toml:1: the user has no name"
        )),
        "{message}"
    );
    assert!(matches!(
        sut.edit(|_| Ok(())),
        Err(AccessFileError::Invalid { .. })
    ));
    fs::set_permissions(sut.path(), Permissions::from_mode(0o640)).unwrap();
    let refused = sut.load().unwrap_err();
    assert!(
        matches!(refused, AccessFileError::File(FileError::NotPrivate { .. })),
        "{refused}"
    );
    let missing = AccessFile::new(folder.path().join("none.toml"))
        .load()
        .unwrap_err();
    assert!(
        matches!(missing, AccessFileError::File(FileError::Missing(_))),
        "{missing}"
    );
    let (_folder, sut) = file(&format!("\u{feff}{}", full()));
    assert_eq!(sut.load().unwrap().entries().len(), 3);
    assert!(
        sut.edit(|edit| edit.set_disabled(&name("anna"), true))
            .is_ok()
    );
    let huge = fs::OpenOptions::new().write(true).open(sut.path()).unwrap();
    huge.set_len(1 << 40).unwrap();
    assert!(matches!(
        sut.load(),
        Err(AccessFileError::File(FileError::TooLarge { .. }))
    ));
}

/// Lines of an access file, valid and invalid.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "[[user]]",
            "[[rule]]",
            "[user]",
            "[[user.x]]",
            "name = \"anna\"",
            "name = \"boris\"",
            "role = \"admin\"",
            "role = 5",
            "groups = [\"a\", \"b\"]",
            "groups = [[]]",
            "uid = 7",
            "uids = [1,\n2]",
            "uid = -9223372036854775808",
            "disabled = true",
            "user = \"anna\"",
            "group = \"a\"",
            "everyone = true",
            "pattern = \"**\"",
            "pattern = \"a#b\"",
            "grant = [\"read\"]",
            "deny = [\"all\"]",
            "host = \"::1\"",
            "keys = [\"ed25519:\"]",
            "\u{feff}",
            "x.y.z = 1",
            "user = {}",
            "# c",
            "",
            "[",
        ])
        .prop_map(str::to_owned),
        "[a-z]{0,6} ?=? ?[\\[\"a-z0-9\\]]{0,6}",
        ".{0,8}",
    ]
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(lines in prop::collection::vec(line(), 0..20)) {
        let text = lines.join("\n");
        match parse(&text) {
            Ok(_) => {
                let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
                prop_assert_eq!(edited(text, |_| ()), text);
                // As saved by an editor of Windows.
                prop_assert!(parse(&text.replace('\n', "\r\n")).is_ok());
            }
            Err(errors) => {
                prop_assert!(!errors.errors.is_empty());
                prop_assert!(errors.errors.len() <= ERRORS_MAX);
                prop_assert!(!errors.to_string().is_empty());
            }
        }
    }

    #[test]
    fn no_bytes_cause_a_panic(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    /// A text in which every account, key and rule has its own comment: a change removes or moves no comment of
    /// another.
    #[test]
    fn edits_keep_the_comments_of_others(
        users in prop::collection::vec(0usize..4, 1..5),
        rules in 0usize..3,
        steps in prop::collection::vec((0usize..8, any::<prop::sample::Index>()), 1..6),
    ) {
        let mut text = "# file\n\n".to_owned();
        for (user, keys) in users.iter().enumerate() {
            text += &format!("# user {user}\n[[user]]\nname = \"u{user}\" # name {user}\nrole = \"viewer\" # role {user}\nkeys = [\n");
            for key in 0..*keys {
                text += &format!("  \"{}\", # key {user}.{key}\n", public(user, key));
            }
            text += "]\n\n";
        }
        for rule in 0..rules {
            text += &format!("# rule {rule}\n[[rule]]\nuser = \"u0\"\npattern = \"r{rule}/**\"\ngrant = [\"read\"]\n\n");
        }
        text += "# end\n";
        let mut edit = AccessEdit::new("access.toml", &text).unwrap();
        let mut removed_user = None;
        let mut removed_keys = Vec::new();
        for (step, (kind, index)) in steps.into_iter().enumerate() {
            let user = index.index(users.len());
            let target = name(&format!("u{user}"));
            if removed_user == Some(user) {
                continue;
            }
            match kind {
                0 => edit.set_role(&target, Some(Role::Admin)).unwrap(),
                1 => edit.set_disabled(&target, true).unwrap(),
                2 => edit.add_key(&target, &public(100 + step, 0)).unwrap(),
                3 => drop(edit.add_account(&name(&format!("new{step}")), None, &[])),
                4 if removed_user.is_none() => {
                    edit.remove_account(&target).unwrap();
                    removed_user = Some(user);
                }
                5 => {
                    let everyone = rule(Who::Everyone, "x/**", Effect::Deny, Actions::ALL);
                    let _ = edit.add_rule(&everyone);
                }
                6 if users[user] > 0 && edit.remove_key(&target, &public(user, 0)).is_ok() => {
                    removed_keys.push(user);
                }
                _ => edit.set_uids(&target, &[user as u32]).unwrap(),
            }
        }
        let (text, _) = edit.finish().unwrap();
        let has = |comment: String| text.contains(&format!("{comment}\n"));
        prop_assert!(has("# file".to_owned()) && has("# end".to_owned()), "{}", text);
        for (user, keys) in users.iter().enumerate() {
            let is_there = removed_user != Some(user);
            prop_assert_eq!(has(format!("# user {user}\n[[user]]")), is_there, "{}", text);
            prop_assert_eq!(has(format!("# role {user}")), is_there, "{}", text);
            for key in 0..*keys {
                let is_there = is_there && !(key == 0 && removed_keys.contains(&user));
                let line = format!("  \"{}\", # key {user}.{key}", public(user, key));
                prop_assert_eq!(has(line), is_there, "{}", text);
            }
        }
        for rule in 0..rules {
            let is_there = removed_user != Some(0);
            prop_assert_eq!(has(format!("# rule {rule}\n[[rule]]")), is_there, "{}", text);
        }
    }
}

/// Returns a key that is different for each pair of numbers.
fn public(user: usize, key: usize) -> PublicKey {
    let mut bytes = [9; 32];
    bytes[0] = user as u8;
    bytes[1] = key as u8;
    PublicKey::from_bytes(bytes).unwrap()
}
