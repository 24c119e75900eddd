//! `docs/reference/access.md` says what the code does.

use trunkline_access::account::NAME_CHARS_MAX;
use trunkline_access::policy::{ACCOUNTS_MAX, GROUPS_MAX, RULES_MAX};
use trunkline_access::{Action, Role};

use crate::explanations;
use crate::notation::{policy, rules_of};
use crate::truth_table::CELLS;

fn page() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/access.md"
    );
    std::fs::read_to_string(path).unwrap()
}

/// Returns the rows of the table below a line, with the spaces around cells removed.
fn table(head: &str) -> Vec<String> {
    let page = page();
    let mut lines = page.lines().skip_while(|line| *line != head);
    assert_eq!(lines.next(), Some(head));
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.replace("| |", "||").replace("| |", "||"))
        .collect()
}

#[test]
fn table_of_actions_is_that_of_the_code() {
    let expected: Vec<String> = Action::ALL
        .iter()
        .map(|action| format!("| `{action}` | {} |", action.meaning()))
        .collect();
    assert_eq!(table("| Action | Meaning |"), expected);
}

#[test]
fn table_of_roles_is_that_of_the_code() {
    let expected: Vec<String> = Action::ALL
        .iter()
        .map(|action| {
            let cells = Role::ALL.map(|role| match role.actions().contains(*action) {
                true => " yes |",
                false => "|",
            });
            format!("| `{action}` |{}", cells.concat())
        })
        .collect();
    let head = Role::ALL.map(|role| format!(" `{role}` |")).concat();
    assert_eq!(table(&format!("| Action |{head}")), expected);
}

/// Behaviour: H-18.
#[test]
fn truth_table_is_the_one_that_is_tested() {
    let expected = CELLS
        .map(|(user, group, host, decision)| format!("| {user} | {group} | {host} | {decision} |"));
    assert_eq!(table("| User | Group | Host | Decision |"), expected);
}

#[test]
fn limits_are_those_of_the_code() {
    let page = page();
    let thousands = |count: usize| format!("{},{:03}", count / 1000, count % 1000);
    for row in [
        format!("| names of users and groups | 1 to {NAME_CHARS_MAX} printable characters"),
        format!("| accounts | at most {} |", thousands(ACCOUNTS_MAX)),
        format!("| groups of an account | at most {GROUPS_MAX} |"),
        format!("| rules | at most {} |", thousands(RULES_MAX)),
    ] {
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn explanation_is_the_one_that_is_tested() {
    assert!(page().contains(&format!("```text\n{}\n```", explanations::of_anna())));
}

#[test]
fn examples_have_the_effects_that_the_page_describes() {
    let page = page();
    let rules = |begins: &str| -> String {
        let blocks = page.split("```text\n").skip(1);
        let blocks = blocks.map(|block| block.split("\n```").next().unwrap());
        let mut found = blocks.filter(|block| block.contains(begins));
        let block = found
            .next()
            .unwrap_or_else(|| panic!("no example with {begins:?}"));
        let lines = block
            .lines()
            .filter(|line| line.starts_with("grant") || line.starts_with("deny"));
        lines.collect::<Vec<_>>().join("\n")
    };

    let safety = rules("boiler/safety/**");
    let safety = policy(&format!("user anna operator\nuser ben engineer\n{safety}"));
    let anna = rules_of(&safety, "anna", "local");
    let without_write = Role::Operator.actions().without(Action::Write.into());
    assert_eq!(anna.actions("boiler/safety/valve"), without_write);
    assert_eq!(anna.actions("boiler/level"), Role::Operator.actions());
    let ben = rules_of(&safety, "ben", "local");
    assert_eq!(ben.actions("boiler/safety/valve"), Role::Engineer.actions());

    let guests = rules("to group guests");
    let guests = policy(&format!("user visitor - guests\n{guests}"));
    let visitor = rules_of(&guests, "visitor", "local");
    assert_eq!(
        visitor.actions("boiler/level").to_string(),
        "read, subscribe"
    );
    assert_eq!(visitor.actions("boiler/recipe/steel").to_string(), "none");
    assert_eq!(visitor.actions("rack/level").to_string(), "none");
    let decision = visitor.decide("boiler/recipe/steel", Action::Subscribe);
    assert_eq!(decision.name(), "needs read");

    let office = rules("192.168.0.0/16");
    let office = policy(&format!("user anna operator\nuser eve admin\n{office}"));
    let actions = |user, host| rules_of(&office, user, host).actions("boiler/level");
    assert_eq!(actions("anna", "10.0.0.7"), Role::Operator.actions());
    assert_eq!(
        actions("anna", "192.168.3.4").to_string(),
        "read, subscribe, history"
    );
    assert!(!actions("eve", "192.168.3.4").contains(Action::Force));
    assert!(
        !rules_of(&office, "eve", "192.168.3.4")
            .engine_actions()
            .contains(Action::Administer)
    );

    let logger = rules("to user logger");
    let logger = policy(&format!("user logger -\n{logger}"));
    let logger = rules_of(&logger, "logger", "local");
    assert_eq!(
        logger.actions("boiler/level").to_string(),
        "read, subscribe"
    );
    assert_eq!(logger.actions("boiler/recipe/steel").to_string(), "none");
}
