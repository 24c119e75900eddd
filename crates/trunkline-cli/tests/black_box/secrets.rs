//! Secrets stay where they belong: nothing that an engine shows, logs, stores or backs up has one.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::accounts::Plant;
use crate::rig::{CUT_OFF, Output, Running, command, exit_code, finish};

const PASSWORD: &str = "violet anchor quarry 4711";
const WRONG: &str = "violet anchor quarry 4712";

/// The base64 of the private key in a PEM file: the line that is not the same for every key.
fn key_in(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("PRIVATE KEY"), "{}", path.display());
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    let longest = lines.max_by_key(|line| line.len()).unwrap();
    longest[longest.len() / 2..].to_owned()
}

/// The content of all files below a folder.
fn content(folder: &Path, into: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => content(&path, into),
            false => into.push((path.display().to_string(), fs::read(&path).unwrap())),
        }
    }
}

/// An engine with the most detailed log logs programs in by key, token, certificate and password, and
/// refuses some.
#[test]
fn no_output_log_store_or_backup_has_a_secret() {
    let folder = Plant::prepare();
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let socket = text("e.sock");
    let config = fs::read_to_string(path("plant.toml")).unwrap();
    let engine_keys = format!(
        "[engine]\nhttp = \"127.0.0.1:0\"\nstore = \"plant.db\"\nhistory = \"plant.history\"\n\
         listen = [\"127.0.0.1:0\", \"unix:{socket}\"]\n"
    );
    let history = "\n[[history]]\nvariables = \"**\"\n";
    let config = config.replace("[engine]\n", &engine_keys) + history;
    fs::write(path("plant.toml"), config).unwrap();

    let serve = command(&["serve", "plant.toml", "--log-level", "trace", "--json"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" 2> engine.log", "sh"]);
    shell.arg(serve.get_program()).args(serve.get_args());
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let mut engine = Running::spawn(shell.current_dir(folder.path()));
    let first = engine.line();
    let serving: Json = serde_json::from_str(&first).unwrap();
    let tcp = serving["listen"][0]
        .as_str()
        .unwrap()
        .replace("tl://", "tl+tcp://");
    let http = serving["http"]
        .as_str()
        .unwrap()
        .trim_start_matches("http://");

    let mut shown: Vec<(String, Vec<u8>)> = vec![("serve".to_owned(), first.into_bytes())];
    let mut keep = |what: &[&str], output: &Output| {
        let all = format!("{}{}", output.out, output.err);
        shown.push((what.join(" "), all.into_bytes()));
    };
    let run = |home: &str, url: &str, arguments: &[&str], input: &str| {
        let mut command = command(arguments);
        command
            .current_dir(folder.path())
            .env("XDG_CONFIG_HOME", path(home))
            .env("TRUNKLINE_URL", url);
        finish(&mut command, input)
    };
    let unix = format!("tl+unix://{socket}");
    let own = |arguments: &[&str], input: &str| {
        let output = run("own", &unix, arguments, input);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        output
    };

    // A password, right and wrong.
    own(&["user", "add", "anna", "--role", "operator"], "");
    own(&["user", "password", "anna"], PASSWORD);
    for (file, password) in [("right", PASSWORD), ("wrong", WRONG)] {
        fs::write(path(file), password).unwrap();
        fs::set_permissions(path(file), Permissions::from_mode(0o600)).unwrap();
    }
    let login = ["get", "rig/level", "--account", "anna", "--json"];
    let with = |file: &str| {
        let mut command = command(&login);
        command
            .current_dir(folder.path())
            .env("XDG_CONFIG_HOME", path("anna"))
            .env("TRUNKLINE_URL", &unix)
            .env("TRUNKLINE_PASSWORD_FILE", file);
        finish(&mut command, "")
    };
    let end = trunkline_net::Clock::new().now().saturating_add(CUT_OFF);
    while with("right").code != Some(0) {
        assert!(
            trunkline_net::Clock::new().now() < end,
            "{:?}",
            with("right")
        );
    }
    let refused = with("wrong");
    assert_eq!(refused.code, Some(3), "{refused:?}");
    keep(&["wrong password"], &refused);

    // Tokens: a used one, a wrong one, and one that still waits.
    let token = || {
        let paired = own(&["pair", "press", "--role", "viewer", "--json"], "");
        let paired: Json = serde_json::from_str(&paired.out).unwrap();
        paired["token"].as_str().unwrap().to_owned()
    };
    let used = token();
    let joined = run("press", &tcp, &["join", &tcp, &used, "--name", "plant"], "");
    assert_eq!(joined.code, Some(0), "{joined:?}");
    keep(&["join"], &joined);
    keep(
        &["join again"],
        &run("thief", &tcp, &["join", &tcp, &used, "--json"], ""),
    );
    let own_token = {
        let paired = own(&["pair", "other", "--role", "viewer", "--json"], "");
        let paired: Json = serde_json::from_str(&paired.out).unwrap();
        paired["token"].as_str().unwrap().to_owned()
    };

    // What anyone can see, and what administrators can.
    for arguments in [
        &["get", "_engine/**", "--json"][..],
        &["engine", "info", "--json"],
        &["engine", "reload", "--json"],
        &["limits"],
        &["user", "ls", "--json"],
        &["user", "info", "anna", "--json"],
        &["user", "info", "press"],
        &["access", "ls", "--json"],
        &["audit", "--json"],
        &["audit", "export"],
        &["why", "rig/level"],
        &["info", "rig/level", "--json"],
    ] {
        keep(arguments, &own(arguments, ""));
    }
    for arguments in [
        &["ctx", "ls", "--json"][..],
        &["ctx", "info", "plant", "--json"],
    ] {
        keep(arguments, &run("press", &tcp, arguments, ""));
    }
    let configured = [
        "[[io]]\nname = \"plc\" # ",
        "\noptions = { password = \"",
        "\", db_pass = \"",
        "\" }\naddress = \"opc://user:",
        "@host\"\nserver = \"host=db pwd=",
        "\"\nheaders = [\"Authorization: Bearer ",
        "\"]\n",
    ];
    fs::write(path("io.toml"), configured.join(PASSWORD)).unwrap();
    let support = [
        "support",
        "help.txt",
        "--config",
        "plant.toml",
        "--config",
        "io.toml",
    ];
    keep(&support, &own(&support, ""));
    let mode = fs::metadata(path("help.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let help = fs::read_to_string(path("help.txt")).unwrap();
    for expected in [
        "==== trunkline engine info\n",
        "of 5 answered",
        "_engine/sessions",
        "==== /proc/meminfo\n",
        "engine.security = \"security\"\n",
        "io[0].options.password = (left out)\n",
        "io[0].headers[0] = (left out)\n",
    ] {
        assert!(help.contains(expected), "{expected} in {help}");
    }
    shown.push(("help.txt".to_owned(), help.into_bytes()));
    for page in ["/metrics", "/readyz", "/healthz"] {
        let mut stream = TcpStream::connect(http).unwrap();
        stream.set_read_timeout(Some(CUT_OFF)).unwrap();
        write!(stream, "GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        shown.push((page.to_owned(), answer));
    }
    let backup = ["backup", "create", "copy", "plant.toml"];
    let copied = run("own", &unix, &backup, "");
    assert_eq!(copied.code, Some(0), "{copied:?}");
    content(&path("copy"), &mut shown);
    engine.signal("TERM");
    assert_eq!(exit_code(&mut engine.child, "the engine"), Some(0));
    shown.push(("log".to_owned(), fs::read(path("engine.log")).unwrap()));
    shown.push(("store".to_owned(), fs::read(path("plant.db")).unwrap()));

    let accounts = fs::read_to_string(path("security/access.toml")).unwrap();
    let hash = accounts
        .split('"')
        .find(|part| part.starts_with("$argon2id$"));
    let secrets = [
        ("the password", PASSWORD.to_owned()),
        ("a wrong password", WRONG.to_owned()),
        ("the hash of the password", hash.unwrap().to_owned()),
        ("a used token", used),
        ("a token", own_token),
        (
            "the key of the engine",
            key_in(&path("security/engine.key")),
        ),
        (
            "the key of the authority",
            key_in(&path("security/authority.key")),
        ),
        (
            "the key of a program",
            key_in(&path("press/trunkline/contexts/plant.key")),
        ),
    ];
    for (what, bytes) in &shown {
        for (name, secret) in &secrets {
            assert!(secret.len() >= 20, "{name} is too short to be found");
            let is_there = bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes());
            assert!(!is_there, "{what} has {name}");
        }
    }
    // The search finds what is there: the audit names the account, and the backup has its files.
    let has = |what: &str, part: &str| {
        let found = shown.iter().filter(|(name, _)| name.contains(what));
        let mut texts = found.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned());
        texts.any(|text| text.contains(part))
    };
    assert!(has("audit --json", "anna") && has("log", "listening"));
    assert!(
        shown
            .iter()
            .any(|(name, bytes)| name.contains("copy") && bytes.len() > 1000)
    );
}
