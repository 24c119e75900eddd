//! `user` and `access`: the accounts and rules in a security folder, without a running engine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::accounts::Plant;
use crate::rig::{Output, command, finish};
use crate::schema;

const KEY: &str = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

/// A folder with a configuration and a security folder.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(Plant::prepare())
    }

    fn access(&self) -> PathBuf {
        self.0.path().join("security/access.toml")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.access()).unwrap()
    }

    fn write(&self, text: &str) {
        fs::write(self.access(), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finish(command(arguments).current_dir(self.0.path()), "")
    }

    /// The lines that a command prints with --json, which the schema of this name describes.
    #[track_caller]
    fn lines(&self, arguments: &[&str], schema: &str) -> Vec<Json> {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        let schema = &schema::documented()["$defs"][schema];
        let lines = output.out.lines().map(|line| {
            let line: Json = serde_json::from_str(line).unwrap();
            schema::check(&line, schema).unwrap_or_else(|error| panic!("{line}: {error}"));
            line
        });
        lines.collect()
    }

    #[track_caller]
    fn line(&self, arguments: &[&str], schema: &str) -> Json {
        let lines = self.lines(arguments, schema);
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines[0].clone()
    }

    /// The problem of a command that ends with this code.
    #[track_caller]
    fn problem(&self, arguments: &[&str], exit: i32) -> Json {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(output.code, Some(exit), "{arguments:?}: {output:?}");
        let line = output.err.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|_| panic!("{output:?}"))
    }
}

/// Behaviour: SV-12.
#[test]
fn account_goes_through_all_changes() {
    let folder = Folder::new();
    let before = folder.text();
    assert_eq!(folder.lines(&["user", "ls"], "account"), Vec::<Json>::new());
    let user = |arguments: &[&str]| folder.line(&[&["user"], arguments].concat(), "account");
    let added = user(&[
        "add", "anna", "--role", "operator", "--group", "shift-a", "--group", "b", "--uid", "1000",
        "--uid", "1001", "--key", KEY,
    ]);
    let mut expected = json!({
        "v": 1, "name": "anna", "role": "operator", "groups": ["shift-a", "b"], "keys": [KEY],
        "certificates": [], "password": false, "uids": [1000, 1001], "disabled": false,
        "place": added["place"],
    });
    assert_eq!(added, expected);
    assert!(
        added["place"].as_str().unwrap().starts_with("access.toml:"),
        "{added}"
    );
    expected["role"] = "viewer".into();
    assert_eq!(user(&["role", "anna", "viewer"]), expected);
    expected.as_object_mut().unwrap().remove("role");
    assert_eq!(user(&["role", "anna", "none"]), expected);
    expected["groups"] = json!(["guests"]);
    assert_eq!(user(&["groups", "anna", "guests"]), expected);
    expected["groups"] = json!([]);
    assert_eq!(user(&["groups", "anna", "--none"]), expected);
    expected["disabled"] = true.into();
    assert_eq!(user(&["disable", "anna"]), expected);
    expected["disabled"] = false.into();
    assert_eq!(user(&["enable", "anna"]), expected);
    expected["keys"] = json!([]);
    assert_eq!(user(&["key", "rm", "anna", KEY]), expected);
    let print = format!("sha256:{}", "0a".repeat(32));
    expected["certificates"] = json!([print]);
    assert_eq!(user(&["certificate", "add", "anna", &print]), expected);
    assert_eq!(user(&["info", "anna"]), expected);

    // A certificate in a file is the same as its fingerprint.
    let of_engine = user(&["certificate", "add", "anna", "security/engine.crt"]);
    let of_engine = of_engine["certificates"][1].as_str().unwrap().to_owned();
    assert_eq!(user(&["certificate", "rm", "anna", &of_engine]), expected);
    expected["certificates"] = json!([]);
    assert_eq!(user(&["certificate", "rm", "anna", &print]), expected);

    folder.line(
        &["access", "grant", "read", "rig/**", "--user", "anna"],
        "rule",
    );
    let removed = folder.line(&["user", "rm", "anna"], "account_removed");
    assert_eq!(removed, json!({ "v": 1, "name": "anna", "rules": 1 }));
    assert_eq!(folder.lines(&["user", "ls"], "account"), Vec::<Json>::new());
    assert_eq!(folder.lines(&["access", "ls"], "rule"), Vec::<Json>::new());
    assert!(
        folder.text().starts_with(before.trim_end()),
        "the comments are kept"
    );
}

/// Behaviour: B-81.
///
/// The file contains a hash, never the password.
#[test]
fn password_is_read_from_standard_input_and_hashed() {
    let folder = Folder::new();
    folder.run(&["user", "add", "anna", "--role", "viewer"]);
    let set = |input: &str| {
        let arguments = ["user", "password", "anna", "--json"];
        finish(command(&arguments).current_dir(folder.0.path()), input)
    };
    let output = set("correct horse battery staple\nsecond line\n");
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.out.contains("\"password\":true"), "{output:?}");
    assert!(!format!("{output:?}").contains("horse"), "{output:?}");
    let text = folder.text();
    assert!(
        text.contains("$argon2id$") && !text.contains("horse"),
        "{text}"
    );
    let mode = fs::metadata(folder.access()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (input, part) in [
        ("", "no password on standard input"),
        ("\n", "at least 12"),
        ("too short\n", "at least 12"),
        // Longer ones could be stored, but not be sent.
        (&"a".repeat(257), "at most 256 bytes, or a shorter one"),
    ] {
        let output = set(input);
        assert_eq!(output.code, Some(1), "{output:?}");
        let is_long = input.len() > 256;
        assert!(is_long || output.err.contains(part), "{part}: {output:?}");
        assert_eq!(folder.text(), text);
    }
    let removed = folder.line(&["user", "password", "anna", "--remove"], "account");
    assert_eq!(removed["password"], false);
    let unknown = folder.problem(&["user", "password", "ana"], 1);
    assert_eq!(unknown["code"], "unknown-account");
    assert_eq!(unknown["hint"], "did you mean anna?");
}

/// Bad input gets a clear error and changes nothing.
#[test]
fn wrong_change_is_refused_and_changes_nothing() {
    let folder = Folder::new();
    folder.run(&["user", "add", "anna", "--role", "viewer", "--key", KEY]);
    folder.run(&["user", "add", "berta", "--role", "viewer", "--uid", "7"]);
    let text = folder.text();
    for (arguments, exit, code, part) in [
        (
            &["user", "add", "anna"][..],
            1,
            "account-exists",
            "another name",
        ),
        (
            &["user", "rm", "ana"],
            1,
            "unknown-account",
            "did you mean anna?",
        ),
        (&["user", "info", "carl"], 1, "unknown-account", "user ls"),
        (
            &["user", "role", "anna", "oprator"],
            2,
            "usage",
            "did you mean operator?",
        ),
        (&["user", "add", "an na"], 2, "usage", "white space"),
        (&["user", "groups", "anna"], 2, "usage", "GROUP"),
        (
            &["user", "key", "add", "berta", KEY],
            1,
            "access-file",
            "access.toml:",
        ),
        (
            &["user", "key", "add", "anna", KEY],
            1,
            "already-there",
            "anna",
        ),
        (
            &["user", "key", "rm", "berta", KEY],
            1,
            "not-there",
            "berta",
        ),
        (
            &["user", "key", "add", "anna", "ed25519:AAAA"],
            2,
            "usage",
            "32 bytes",
        ),
        (
            &["user", "key", "delete", "anna", KEY],
            2,
            "usage",
            "add, rm",
        ),
        (
            &["user", "add", "carl", "--uid", "7"],
            1,
            "access-file",
            "access.toml:",
        ),
        (
            &["user", "add", "carl", "--uid", "4294967295"],
            2,
            "usage",
            "0 to 4294967294",
        ),
        (
            &["user", "certificate", "add", "anna", "none.crt"],
            1,
            "certificate",
            "no such file",
        ),
        (
            &["user", "certificate", "add", "anna", "plant.toml"],
            1,
            "certificate",
            "plant.toml",
        ),
        (
            &["user", "certificate", "add", "anna", "sha256:12"],
            2,
            "usage",
            "64 hexadecimal",
        ),
        (
            &["access", "grant", "reed", "a/**", "--everyone"],
            2,
            "usage",
            "did you mean read?",
        ),
        (
            &["access", "grant", "read", "a//b", "--everyone"],
            2,
            "usage",
            "PATTERN",
        ),
        (&["access", "grant", "read", "a/**"], 2, "usage", "--user"),
        (
            &[
                "access",
                "grant",
                "read",
                "a/**",
                "--everyone",
                "--group",
                "g",
            ],
            2,
            "usage",
            "cannot",
        ),
        (
            &["access", "grant", "read", "a/**", "--host", "plant"],
            2,
            "usage",
            "not looked up",
        ),
        (
            &["access", "grant", "read", "a/b#units", "--everyone"],
            1,
            "access-file",
            "field",
        ),
        (
            &["access", "grant", "read", "a/**", "--user", "carl"],
            1,
            "access-file",
            "carl",
        ),
        (
            &["access", "rm", "grant", "read", "a/**", "--everyone"],
            1,
            "unknown-rule",
            "list",
        ),
        (&["access", "check", "carl"], 1, "unknown-account", "carl"),
        (&["access", "check", "anna", "a/*"], 2, "usage", "pattern"),
    ] {
        let problem = folder.problem(arguments, exit);
        assert_eq!(problem["code"], code, "{arguments:?}: {problem}");
        let shown = format!("{} {}", problem["message"], problem["hint"]);
        assert!(shown.contains(part), "{part}: {arguments:?}: {problem}");
        assert_eq!(folder.text(), text, "{arguments:?}");
    }
}

#[test]
fn file_that_cannot_be_used_is_left_as_it_is() {
    let folder = Folder::new();
    folder.write("[[user]]\nname = \"anna\"\nrole = \"boss\"\ngruops = []\n");
    let problem = folder.problem(&["user", "add", "berta"], 8);
    assert_eq!(problem["code"], "access-file");
    let message = problem["message"].as_str().unwrap();
    assert!(
        message.contains("access.toml:3") && message.contains("access.toml:4"),
        "{message}"
    );
    assert!(folder.text().contains("gruops"));
    folder.write("");
    fs::set_permissions(folder.access(), Permissions::from_mode(0o644)).unwrap();
    let problem = folder.problem(&["user", "ls"], 1);
    assert!(problem.to_string().contains("chmod 600"), "{problem}");
}

#[test]
fn folder_is_found_by_option_configuration_or_place() {
    let folder = Folder::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let all = [&["user", "ls", "--json"], arguments].concat();
        finish(command(&all).current_dir(elsewhere.path()), "")
    };
    let path = |name: &str| folder.0.path().join(name).to_str().unwrap().to_owned();
    let missing = run(&[]);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.err.contains("no-security") && missing.err.contains("--config"),
        "{missing:?}"
    );
    assert_eq!(run(&["--security", &path("security")]).code, Some(0));
    assert_eq!(run(&["--config", &path("plant.toml")]).code, Some(0));
    let both = [
        "--config",
        &path("plant.toml"),
        "--security",
        &path("security"),
    ];
    assert_eq!(run(&both).code, Some(2));
    let without = path("without.toml");
    fs::write(&without, "[engine]\nname = \"x\"\n").unwrap();
    let refused = run(&["--config", &without]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("names no security folder"),
        "{refused:?}"
    );
    fs::write(&without, "[engine]\nnmae = \"x\"\n").unwrap();
    assert_eq!(run(&["--config", &without]).code, Some(8));
}

/// Behaviour: H-18.
#[test]
fn rules_are_added_listed_and_removed() {
    let folder = Folder::new();
    folder.run(&["user", "add", "anna", "--group", "guests"]);
    let rule = |arguments: &[&str]| folder.line(&[&["access"], arguments].concat(), "rule");
    let granted = rule(&["grant", "read,subscribe", "rig/**", "--group", "guests"]);
    assert_eq!(granted["effect"], "grant");
    assert_eq!(granted["actions"], json!(["read", "subscribe"]));
    assert_eq!(granted["pattern"], "rig/**");
    assert_eq!(granted["group"], "guests");
    for who in [
        ["--user", "anna"],
        ["--role", "viewer"],
        ["--host", "10.0.0.0/8"],
    ] {
        let denied = rule(&["deny", "all", "rig/level", who[0], who[1]]);
        assert_eq!(denied["effect"], "deny");
        assert_eq!(denied[who[0].trim_start_matches('-')], who[1], "{denied}");
        assert_eq!(denied["actions"].as_array().unwrap().len(), 11, "{denied}");
    }
    assert_eq!(
        rule(&["deny", "write", "**", "--everyone"])["everyone"],
        true
    );
    let all = folder.lines(&["access", "ls"], "rule");
    assert_eq!(all.len(), 5);
    // The place is the line of the file at which the rule is.
    let lines: Vec<String> = folder.text().lines().map(str::to_owned).collect();
    for rule in &all {
        let place = rule["place"].as_str().unwrap();
        let line: usize = place.strip_prefix("access.toml:").unwrap().parse().unwrap();
        assert_eq!(lines[line - 1], "[[rule]]", "{rule}");
    }
    let twice = folder.problem(&["access", "deny", "write", "**", "--everyone"], 1);
    assert_eq!(twice["code"], "rule-exists");
    let mut removed = all[0].clone();
    removed.as_object_mut().unwrap().remove("place");
    assert_eq!(
        rule(&[
            "rm",
            "grant",
            "read,subscribe",
            "rig/**",
            "--group",
            "guests"
        ]),
        removed
    );
    assert_eq!(folder.lines(&["access", "ls"], "rule").len(), 4);

    let warned = folder.run(&["access", "grant", "read", "rig/**", "--group", "guest"]);
    assert_eq!(warned.code, Some(0));
    assert!(
        warned
            .err
            .contains("no account is in it; did you mean guests?"),
        "{warned:?}"
    );
}

/// Behaviour: H-18.
///
/// Every cell of the table of user, group and host.
#[test]
fn check_decides_every_combination_of_user_group_and_host() {
    const EFFECTS: [&str; 3] = ["grant", "", "deny"];
    let folder = Folder::new();
    for user in EFFECTS {
        for group in EFFECTS {
            for host in EFFECTS {
                let mut text = "[[user]]\nname = \"anna\"\ngroups = [\"shift-a\"]\n\n\
                                [[rule]]\neveryone = true\npattern = \"**\"\ngrant = [\"read\"]\n"
                    .to_owned();
                let rules = [
                    ("user = \"anna\"", user),
                    ("group = \"shift-a\"", group),
                    ("host = \"10.0.0.0/8\"", host),
                ];
                for (who, effect) in rules.iter().filter(|(_, effect)| !effect.is_empty()) {
                    text +=
                        &format!("[[rule]]\n{who}\npattern = \"rig/**\"\n{effect} = [\"write\"]\n");
                }
                folder.write(&text);
                let all = [user, group, host];
                let expected = match (all.contains(&"deny"), all.contains(&"grant")) {
                    (true, _) => ("denied", 5),
                    (false, true) => ("granted", 0),
                    (false, false) => ("not-granted", 5),
                };
                let check = folder.run(&[
                    "access",
                    "check",
                    "anna",
                    "rig/level",
                    "--action",
                    "write",
                    "--host",
                    "10.0.0.7",
                    "--json",
                ]);
                let line: Json = serde_json::from_str(&check.out).unwrap();
                let decided = (line["decision"].as_str().unwrap(), check.code.unwrap());
                assert_eq!(
                    decided, expected,
                    "user {user}, group {group}, host {host}: {check:?}"
                );
            }
        }
    }
}

/// Behaviour: B-82.
#[test]
fn check_explains_each_action_with_its_rule_and_place() {
    let folder = Folder::new();
    folder.write(
        "[[user]]\nname = \"anna\"\nrole = \"operator\"\ngroups = [\"shift-a\"]\n\n\
         [[rule]]\ngroup = \"shift-a\"\npattern = \"rig/**\"\ndeny = [\"write\"]\n\n\
         [[rule]]\nuser = \"anna\"\npattern = \"rig/level\"\ngrant = [\"force\"]\n",
    );
    let check = |arguments: &[&str]| {
        folder.lines(
            &[&["access", "check", "anna"], arguments].concat(),
            "permission",
        )
    };
    let on = |lines: &[Json], action: &str| {
        let line = lines.iter().find(|line| line["action"] == action).unwrap();
        let place = line["place"].as_str().unwrap_or_default().to_owned();
        (line["decision"].as_str().unwrap().to_owned(), place)
    };
    let decided = |word: &str, place: &str| (word.to_owned(), place.to_owned());
    let level = check(&["rig/level"]);
    assert_eq!(level.len(), 11);
    assert_eq!(on(&level, "read"), decided("granted", ""));
    assert_eq!(on(&level, "write"), decided("denied", "access.toml:6"));
    assert_eq!(on(&level, "force"), decided("granted", "access.toml:11"));
    assert_eq!(on(&level, "administer"), decided("not-granted", ""));
    let library = check(&["rig"]);
    assert_eq!(on(&library, "write"), decided("denied", "access.toml:6"));
    // The grant covers only one name of the library.
    assert_eq!(on(&library, "force"), decided("not-granted", ""));
    let everywhere = check(&[]);
    assert_eq!(on(&everywhere, "read"), decided("granted", ""));
    assert_eq!(
        on(&everywhere, "write"),
        decided("by-name", "access.toml:6")
    );
    assert_eq!(
        on(&everywhere, "force"),
        decided("by-name", "access.toml:11")
    );
    let table = folder.run(&["access", "check", "anna", "rig/level", "-o", "table"]);
    assert!(
        table
            .err
            .contains("anna (operator, groups shift-a) from local on rig/level:"),
        "{table:?}"
    );
    assert!(
        table
            .out
            .contains("access.toml:6: deny write on rig/** to group shift-a"),
        "{table:?}"
    );
    folder.run(&["user", "disable", "anna"]);
    let disabled = folder.problem(&["access", "check", "anna", "--action", "read"], 5);
    assert_eq!(disabled["code"], "account-disabled");
}

/// Behaviour: SV-12.
#[test]
fn table_of_roles_is_that_of_the_reference() {
    let folder = Folder::new();
    let rows = folder.lines(&["access", "roles"], "action");
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/access.md"
    );
    let page = fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("## Roles").unwrap();
    for row in &rows {
        let action = row["action"].as_str().unwrap();
        let line = table
            .lines()
            .find(|line| line.starts_with(&format!("| `{action}` |")))
            .unwrap();
        let cells: Vec<bool> = line
            .split('|')
            .skip(2)
            .take(4)
            .map(|cell| cell.trim() == "yes")
            .collect();
        let roles = ["viewer", "operator", "engineer", "admin"].map(|role| row[role] == true);
        assert_eq!(cells, roles, "{action}");
    }
    assert_eq!(rows.len(), 11);
}

#[test]
fn tables_are_for_people() {
    let folder = Folder::new();
    let added = folder.run(&["user", "add", "anna", "--role", "operator", "-o", "table"]);
    assert!(added.out.starts_with("NAME"), "{added:?}");
    assert!(added.err.contains("trunkline pair anna"), "{added:?}");
    folder.run(&[
        "user", "add", "logger", "--group", "g", "--uid", "7", "--key", KEY,
    ]);
    folder.run(&["user", "disable", "logger"]);
    let listed = folder.run(&["user", "ls", "-o", "plain"]);
    assert_eq!(
        listed.out,
        "anna\toperator\nlogger\t\tg\t1 key, uid 7\tdisabled\n"
    );
    let listed = folder.run(&["user", "ls", "-o", "csv"]);
    assert!(
        listed.out.starts_with("name,role,groups,login,state\n"),
        "{listed:?}"
    );
    let info = folder.run(&["user", "info", "logger", "-o", "plain"]);
    assert!(info.out.contains(&format!("key\t{KEY}\n")), "{info:?}");
}
