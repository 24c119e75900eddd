//! Engines with accounts: joining, roles and rules, revocation, passwords. Connections are encrypted.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value as Json;
use tempfile::TempDir;
use trunkline_net::Clock;

use crate::rig::{CUT_OFF, Output, RIG, Running, command, exit_code, finish};

const PASSWORD: &str = "correct horse battery staple";

/// An engine with a security folder, and a folder for each person and program that uses it.
pub struct Plant {
    pub folder: TempDir,
    _engine: Running,
    pub port: String,
}

impl Plant {
    pub fn start() -> Self {
        Self::serving(Self::prepare())
    }

    /// An engine with a folder that was prepared.
    pub fn serving(folder: TempDir) -> Self {
        let (engine, port) = start(folder.path());
        Self {
            folder,
            _engine: engine,
            port,
        }
    }

    /// A folder with a configuration and the security folder that it names.
    pub fn prepare() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let init = finish(
            command(&["init", "plant.toml"]).current_dir(folder.path()),
            "",
        );
        assert_eq!(init.code, Some(0), "{init:?}");
        let config = format!("[engine]\nsecurity = \"security\"\n{RIG}");
        fs::write(folder.path().join("plant.toml"), config).unwrap();
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The engine's port, with TLS if the person has a context for it.
    pub fn url(&self) -> String {
        format!("tl+tcp://127.0.0.1:{}", self.port)
    }

    /// A command on the engine's machine, by the engine's own user, without any context.
    pub fn own(&self, arguments: &[&str]) -> Output {
        self.own_with_input(arguments, "")
    }

    pub fn own_with_input(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = command(arguments);
        command
            .current_dir(self.folder.path())
            .env("TRUNKLINE_URL", self.url());
        finish(&mut command, input)
    }

    /// Like [`own`](Self::own), which must succeed.
    #[track_caller]
    pub fn manage(&self, arguments: &[&str]) -> String {
        let output = self.own(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        output.out
    }

    /// A person or program with contexts of its own.
    pub fn person(&self, name: &str) -> Person {
        Person {
            config: self.path(&format!("home-{name}")),
        }
    }

    /// Issues a joining token.
    #[track_caller]
    pub fn token(&self, arguments: &[&str]) -> String {
        let words = [&["pair", "--json"], arguments].concat();
        let paired: Json = serde_json::from_str(&self.manage(&words)).unwrap();
        paired["token"].as_str().unwrap().to_owned()
    }

    /// A person who has joined the engine, with this role or group.
    #[track_caller]
    pub fn joined(&self, name: &str, rights: &[&str]) -> Person {
        let token = self.token(&[&[name], rights].concat());
        let person = self.person(name);
        let joined = person.run(&["join", &self.url(), &token, "--name", "plant"]);
        assert_eq!(joined.code, Some(0), "{joined:?}");
        person
    }
}

fn start(folder: &Path) -> (Running, String) {
    let config = folder.join("plant.toml");
    let config = config.to_str().unwrap();
    let arguments = [
        "serve",
        config,
        "--listen",
        "127.0.0.1:0",
        "--store",
        "none",
    ];
    let engine = Running::start(&arguments);
    let line = engine.line_with("Listening on tl://127.0.0.1:");
    let (_, rest) = line.split_once("tl://127.0.0.1:").unwrap();
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (engine, port)
}

/// A person or a program with its own folder of contexts.
pub struct Person {
    config: PathBuf,
}

impl Person {
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("XDG_CONFIG_HOME", &self.config);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        finish(&mut self.command(arguments), "")
    }

    /// A file of the folder of contexts.
    pub fn file(&self, name: &str) -> PathBuf {
        self.config.join("trunkline/contexts").join(name)
    }

    /// Runs a command again and again until it ends with this code: the engine notices a change of
    /// the accounts by itself.
    #[track_caller]
    pub fn run_until(&self, arguments: &[&str], code: i32) -> Output {
        let cut_off = Clock::new().now().saturating_add(CUT_OFF);
        loop {
            let output = self.run(arguments);
            if output.code == Some(code) {
                return output;
            }
            assert!(
                Clock::new().now() < cut_off,
                "{arguments:?} does not end with {code}, but: {output:?}"
            );
        }
    }
}

/// The object that a command with --json has printed on standard error.
#[track_caller]
fn problem(output: &Output) -> Json {
    let line = output.err.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|_| panic!("{output:?}"))
}

#[track_caller]
fn check_refused(output: &Output, exit: i32, code: &str, part: &str) {
    assert_eq!(output.code, Some(exit), "{output:?}");
    let problem = problem(output);
    assert_eq!(problem["code"], code, "{output:?}");
    let text = format!("{} {}", problem["message"], problem["hint"]);
    assert!(text.contains(part), "{part}: {output:?}");
}

/// Behaviour: B-81, SV-12.
///
/// A running `monitor` connects again after a change of the rights, by itself.
#[test]
fn role_decides_and_a_changed_role_applies_to_running_programs() {
    let plant = Plant::start();
    let press = plant.joined("press1", &["--role", "viewer"]);
    let listed: Json = serde_json::from_str(&press.run(&["ctx", "ls", "--json"]).out).unwrap();
    assert_eq!(listed["name"], "plant");
    assert_eq!(listed["account"], "press1");
    assert_eq!(listed["role"], "viewer");
    assert_eq!(listed["selected"], true);

    // The selected context names the engine: no URL is given.
    let get = press.run(&["get", "-t", "rig/setpoint"]);
    assert_eq!((get.code, get.out.trim()), (Some(0), "70.0"), "{get:?}");
    let monitor = Running::spawn(&mut press.command(&["monitor", "-t", "rig/setpoint"]));
    assert_eq!(monitor.line(), "70.0");
    let put = ["put", "--json", "rig/setpoint", "71"];
    check_refused(&press.run(&put), 5, "denied", "");
    let read = plant.manage(&["get", "-t", "rig/setpoint"]);
    assert_eq!(read.trim(), "70.0", "a refused write must change nothing");

    plant.manage(&["user", "role", "press1", "operator"]);
    press.run_until(&put, 0);
    assert_eq!(monitor.line_with("71.0"), "71.0");
    plant.manage(&["user", "role", "press1", "viewer"]);
    press.run_until(&put, 5);
}

/// Behaviour: B-81.
#[test]
fn disabled_account_loses_its_session_and_cannot_log_in() {
    let plant = Plant::start();
    let press = plant.joined("press1", &["--role", "operator"]);
    let monitor = ["monitor", "--json", "rig/setpoint"];
    let monitor = Running::spawn(&mut press.command(&monitor));
    monitor.line_with("\"value\"");

    plant.manage(&["user", "disable", "press1"]);
    let event = monitor.error_with("\"disconnected\"");
    assert!(
        event.contains("not-authenticated") || event.contains("disabled"),
        "{event}"
    );
    let get = ["get", "--json", "rig/setpoint"];
    let refused = press.run_until(&get, 3);
    check_refused(&refused, 3, "not-authenticated", "does not know the key");

    plant.manage(&["user", "enable", "press1"]);
    press.run_until(&get, 0);
    // The session that was ended comes back by itself.
    monitor.error_with("\"connected\"");
    plant.manage(&["user", "rm", "press1"]);
    press.run_until(&get, 3);
}

/// A key that is removed ends the session that it began, although the account and its rights stay.
#[test]
fn removed_key_ends_its_session() {
    let plant = Plant::start();
    let press = plant.joined("press1", &["--role", "operator"]);
    let monitor = ["monitor", "--json", "rig/setpoint"];
    let monitor = Running::spawn(&mut press.command(&monitor));
    monitor.line_with("\"value\"");

    let access = std::fs::read_to_string(plant.path("security/access.toml")).unwrap();
    let at = access.find("ed25519:").unwrap();
    let key = access[at..].split('"').next().unwrap();
    plant.manage(&["user", "key", "rm", "press1", key]);
    let event = monitor.error_with("\"disconnected\"");
    assert!(event.contains("was removed from its account"), "{event}");
    let refused = press.run_until(&["get", "--json", "rig/setpoint"], 3);
    check_refused(&refused, 3, "not-authenticated", "does not know the key");
}

/// A client certificate is the proof of an account: its role decides, and without its fingerprint the
/// session ends.
///
/// Behaviour: B-81.
#[test]
fn client_certificate_logs_in_until_it_is_removed() {
    let plant = Plant::start();
    // The certificate of another engine is as good as any: its names, issuer and use do not matter.
    let other = Plant::prepare();
    let file = |name: &str| {
        let path = other.path().join("security").join(name);
        path.to_str().unwrap().to_owned()
    };
    let (certificate, key) = (file("engine.crt"), file("engine.key"));
    let authority = plant.path("security/authority.crt");
    let mes = plant.person("mes");
    let add = |more: &[&str]| {
        let url = plant.url();
        let fixed = [
            "ctx",
            "add",
            "plant",
            "--json",
            "--url",
            &url,
            "--authority",
        ];
        let authority = [authority.to_str().unwrap()];
        mes.run(&[&fixed[..], &authority, more].concat())
    };
    let refused = add(&["--certificate", &certificate]);
    assert_eq!(refused.code, Some(2), "the key is missing: {refused:?}");
    let wrong = add(&[
        "--certificate",
        &certificate,
        "--key",
        &file("authority.key"),
    ]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(
        wrong.err.contains("is not that of the certificate"),
        "{wrong:?}"
    );
    let added = add(&["--certificate", &certificate, "--key", &key]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let added: Json = serde_json::from_str(&added.out).unwrap();
    let fingerprint = added["certificate"].as_str().unwrap().to_owned();
    assert!(fingerprint.starts_with("sha256:"), "{added}");
    let info: Json =
        serde_json::from_str(&mes.run(&["ctx", "info", "plant", "--json"]).out).unwrap();
    assert_eq!(info["certificate"], *fingerprint);
    assert_eq!(info["certificate_file"], *certificate);
    assert_eq!(info["key_file"], *key);

    let get = ["get", "--json", "rig/setpoint"];
    check_refused(
        &mes.run(&get),
        3,
        "not-authenticated",
        "does not know the certificate",
    );
    plant.manage(&["user", "add", "mes", "--role", "operator"]);
    plant.manage(&["user", "certificate", "add", "mes", &fingerprint]);
    mes.run_until(&get, 0);
    let monitor = Running::spawn(&mut mes.command(&["monitor", "--json", "rig/setpoint"]));
    monitor.line_with("\"value\"");
    let put = mes.run(&["put", "rig/setpoint", "33"]);
    assert_eq!(put.code, Some(0), "{put:?}");
    monitor.line_with("33");
    check_refused(&mes.run(&["engine", "reload", "--json"]), 5, "denied", "");
    let audit = plant.manage(&["audit", "--json"]);
    let entries = audit
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    let logins = entries.filter(|entry| entry["action"] == "login");
    let by_certificate = logins.filter(|entry| entry["new"].to_string().contains("certificate"));
    assert!(by_certificate.count() > 0, "{audit}");

    plant.manage(&["user", "certificate", "rm", "mes", &certificate]);
    let event = monitor.error_with("\"disconnected\"");
    assert!(event.contains("was removed from its account"), "{event}");
    let refused = mes.run_until(&get, 3);
    check_refused(
        &refused,
        3,
        "not-authenticated",
        "does not know the certificate",
    );

    // The key of the certificate must be private, as any other key.
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let open = mes.run(&get);
    assert_eq!(open.code, Some(1), "{open:?}");
    assert!(open.err.contains("other users can access"), "{open:?}");
}

/// Behaviour: B-81.
#[test]
fn token_works_once_and_a_wrong_one_not_at_all() {
    let plant = Plant::start();
    let token = plant.token(&["press1", "--role", "viewer"]);
    let other = |place: usize| {
        let mut text = token.clone().into_bytes();
        text[place] = if text[place] == b'7' { b'8' } else { b'7' };
        String::from_utf8(text).unwrap()
    };
    let thief = plant.person("thief");
    let join = |person: &Person, token: &str| {
        person.run(&["join", "--json", &plant.url(), token, "--name", "plant"])
    };
    // The first half is the secret, the second one is the fingerprint of the authority.
    check_refused(&join(&thief, &other(0)), 3, "not-authenticated", "");
    let last = token.len() - 1;
    let refused = join(&thief, &other(last));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert_ne!(
        problem(&refused)["code"],
        "not-authenticated",
        "{refused:?}"
    );
    assert_eq!(join(&thief, "7QF2-2M9D").code, Some(2));
    assert!(!thief.file("plant.key").exists(), "a useless key is left");

    let press = plant.person("press1");
    let joined = join(&press, &token);
    assert_eq!(joined.code, Some(0), "{joined:?}");
    check_refused(&join(&thief, &token), 3, "not-authenticated", "");
    assert!(!thief.file("plant.key").exists() && !thief.file("plant.toml").exists());
    let users = plant.manage(&["user", "info", "press1", "--json"]);
    let users: Json = serde_json::from_str(&users).unwrap();
    assert_eq!(users["keys"].as_array().unwrap().len(), 1, "{users}");
    assert_eq!(press.run(&["get", "rig/level"]).code, Some(0));
}

/// Behaviour: B-82.
///
/// A refusal names the action, unless the caller may not know that the name exists. Its
/// rule is found with `access check`.
#[test]
fn refusal_names_the_action_and_a_hidden_variable_does_not_exist() {
    let plant = Plant::start();
    let guest = plant.joined("visitor", &["--group", "guests"]);
    let get = |name: &str| guest.run(&["get", "--json", name]);
    check_refused(&get("rig/setpoint"), 1, "unknown-name", "rig/setpoint");
    plant.manage(&[
        "access",
        "grant",
        "read,write",
        "rig/**",
        "--group",
        "guests",
    ]);
    guest.run_until(&["get", "rig/setpoint"], 0);

    let denied = [
        "access",
        "deny",
        "write",
        "rig/setpoint",
        "--group",
        "guests",
        "--json",
    ];
    let rule: Json = serde_json::from_str(&plant.manage(&denied)).unwrap();
    let put = |name: &str| ["put", "--json", name, "10"].map(str::to_owned);
    let setpoint = put("rig/setpoint");
    let setpoint: Vec<&str> = setpoint.iter().map(String::as_str).collect();
    let refused = guest.run_until(&setpoint, 5);
    let place = rule["place"].as_str().unwrap();
    assert!(place.starts_with("access.toml:"), "{rule}");
    check_refused(&refused, 5, "denied", "`write`");
    let check = plant.own(&[
        "access",
        "check",
        "visitor",
        "rig/setpoint",
        "--action",
        "write",
    ]);
    assert_eq!(check.code, Some(5), "{check:?}");
    assert!(check.out.contains(place), "{check:?}");
    assert_eq!(guest.run(&["put", "rig/clamped", "10"]).code, Some(0));

    plant.manage(&["access", "deny", "read", "rig/level", "--everyone"]);
    let hidden = guest.run_until(&["get", "--json", "rig/level"], 1);
    let unknown = get("rig/levle");
    let words = |output: &Output, name: &str| {
        let problem = problem(output);
        (
            problem["code"].clone(),
            problem["message"].to_string().replace(name, "NAME"),
        )
    };
    assert_eq!(words(&hidden, "rig/level"), words(&unknown, "rig/levle"));
    assert!(!hidden.err.contains("access.toml"), "{hidden:?}");
    assert!(
        !unknown.err.contains("rig/level"),
        "no suggestion: {unknown:?}"
    );
    let unknown_write = guest.run(&["put", "--json", "rig/level", "1"]);
    assert_eq!(
        problem(&unknown_write)["code"],
        "unknown-name",
        "{unknown_write:?}"
    );
    let found = guest.run(&["find", "rig/**", "-t"]);
    assert!(found.out.contains("rig/setpoint"), "{found:?}");
    assert!(!found.out.contains("rig/level"), "{found:?}");
    // The engine's own user is not an account, so no rule applies to it.
    plant.manage(&["get", "rig/level"]);
}

/// Behaviour: H-18, SV-12.
///
/// The cells in which two of user, group and host contradict each other, at a
/// running engine.
#[test]
fn running_engine_decides_by_user_group_and_host() {
    let plant = Plant::start();
    let anna = plant.joined("anna", &["--role", "viewer"]);
    plant.manage(&["user", "groups", "anna", "shift-a", "shift-b"]);
    let put = ["put", "rig/setpoint", "50"];
    let rule = |effect: &str, who: [&str; 2]| {
        plant.manage(&["access", effect, "write", "rig/**", who[0], who[1]]);
    };
    let without = |effect: &str, who: [&str; 2]| {
        plant.manage(&["access", "rm", effect, "write", "rig/**", who[0], who[1]]);
    };
    let (user, group, host) = (
        ["--user", "anna"],
        ["--group", "shift-a"],
        ["--host", "local"],
    );
    anna.run_until(&put, 5);
    // An unspecified group does not take away what the user is granted.
    rule("grant", user);
    anna.run_until(&put, 0);
    // A denied group cannot be overridden for a member.
    rule("deny", group);
    anna.run_until(&put, 5);
    without("deny", group);
    anna.run_until(&put, 0);
    rule("deny", host);
    anna.run_until(&put, 5);
    without("deny", host);
    without("grant", user);
    rule("grant", group);
    anna.run_until(&put, 0);
    plant.manage(&["user", "groups", "anna", "shift-b"]);
    anna.run_until(&put, 5);
    rule("grant", host);
    anna.run_until(&put, 0);
}

/// An engine that knows a person from its start, who has a context without a key and logs in with a
/// password.
fn plant_with_password() -> (Plant, Person) {
    let folder = Plant::prepare();
    let run = |arguments: &[&str], input: &str| {
        let output = finish(command(arguments).current_dir(folder.path()), input);
        assert_eq!(output.code, Some(0), "{output:?}");
    };
    run(&["user", "add", "anna", "--role", "operator"], "");
    run(&["user", "password", "anna"], &format!("{PASSWORD}\n"));
    let plant = Plant::serving(folder);
    let anna = plant.person("anna");
    let authority = plant.path("security/authority.crt");
    let added = anna.run(&[
        "ctx",
        "add",
        "plant",
        "--url",
        &plant.url(),
        "--authority",
        authority.to_str().unwrap(),
        "--no-key",
        "--account",
        "anna",
    ]);
    assert_eq!(added.code, Some(0), "{added:?}");
    (plant, anna)
}

fn private_file(plant: &Plant, name: &str, text: &str) -> PathBuf {
    let path = plant.path(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// Behaviour: SV-12.
#[test]
fn person_logs_in_with_a_password_from_a_private_file() {
    let (plant, anna) = plant_with_password();
    let file = private_file(&plant, "password", &format!("{PASSWORD}\n"));
    let run = |arguments: &[&str], file: &Path| {
        let mut command = anna.command(arguments);
        finish(command.env("TRUNKLINE_PASSWORD_FILE", file), "")
    };
    let put = ["put", "--json", "rig/setpoint", "61"];
    // The engine may not know the new password yet.
    let cut_off = Clock::new().now().saturating_add(CUT_OFF);
    loop {
        let written = run(&put, &file);
        if written.code == Some(0) {
            break;
        }
        assert!(Clock::new().now() < cut_off, "{written:?}");
    }
    let audit = plant.manage(&["get", "--json", "rig/setpoint"]);
    assert!(audit.contains("61"), "{audit}");
    // The name can be given as well, and another name has another password.
    let other = run(&["get", "--json", "rig/level", "--account", "berta"], &file);
    check_refused(
        &other,
        3,
        "not-authenticated",
        "name or the password is wrong",
    );
    let wrong = private_file(&plant, "wrong", "correct horse battery\n");
    let refused = run(&put, &wrong);
    check_refused(&refused, 3, "not-authenticated", "");
    assert!(!refused.err.contains("horse"), "{refused:?}");

    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    check_refused(&run(&put, &file), 1, "password", "chmod 600");
    check_refused(
        &run(&put, &plant.path("none")),
        1,
        "password",
        "does not exist",
    );

    plant.manage(&["user", "password", "anna", "--remove"]);
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let cut_off = Clock::new().now().saturating_add(CUT_OFF);
    while run(&put, &file).code != Some(3) {
        assert!(Clock::new().now() < cut_off, "the password still works");
    }
}

/// Behaviour: B-80.
///
/// A password is never sent over a connection that others can read.
#[test]
fn password_needs_a_context_or_a_unix_socket() {
    let (plant, _anna) = plant_with_password();
    let file = private_file(&plant, "password", PASSWORD);
    let stranger = plant.person("stranger");
    let run = |url: &str| {
        let mut command = stranger.command(&["get", "--json", "rig/level"]);
        command
            .env("TRUNKLINE_PASSWORD_FILE", &file)
            .env("TRUNKLINE_ACCOUNT", "anna")
            .env("TRUNKLINE_URL", url);
        finish(&mut command, "")
    };
    check_refused(&run(&plant.url()), 1, "not-private", "trunkline ctx add");

    // An engine without accounts does not look at the password.
    let socket = plant.path("open.sock");
    let listen = format!("unix:{}", socket.display());
    let rig = plant.path("rig.toml");
    fs::write(&rig, RIG).unwrap();
    let open = Running::start(&[
        "serve",
        rig.to_str().unwrap(),
        "--listen",
        &listen,
        "--store",
        "none",
    ]);
    open.line_with("Listening on");
    let url = format!("tl+unix://{}", socket.display());
    check_refused(&run(&url), 1, "no-accounts", "--account");

    // One with accounts does.
    let socket = plant.path("plant.sock");
    let listen = format!("unix:{}", socket.display());
    let config = plant.path("plant.toml");
    let closed = Running::start(&[
        "serve",
        config.to_str().unwrap(),
        "--listen",
        &listen,
        "--store",
        "none",
    ]);
    closed.line_with("Listening on");
    let url = format!("tl+unix://{}", socket.display());
    let read = run(&url);
    assert_eq!(read.code, Some(0), "{read:?}");
    fs::write(&file, "wrong horse battery").unwrap();
    check_refused(&run(&url), 3, "not-authenticated", "");
}

/// A process with a terminal of its own, at which a person types.
struct Typing {
    child: std::process::Child,
    master: File,
    shown: Receiver<Vec<u8>>,
    text: String,
}

impl Typing {
    fn start(command: &Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let terminal = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        // The terminal becomes the one of the process, /dev/tty.
        let mut in_session = Command::new("setsid");
        in_session
            .args(["--ctty", "--wait"])
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => in_session.env(name, value),
                None => in_session.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            in_session.current_dir(folder);
        }
        let child = in_session.spawn().unwrap();
        drop(in_session);
        let master = File::from(master);
        let mut reader = master.try_clone().unwrap();
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            master,
            shown,
            text: String::new(),
        }
    }

    /// Waits until the terminal shows this, then types.
    fn answer(&mut self, prompt: &str, typed: &str) {
        while !self.text.contains(prompt) {
            let Ok(more) = self.shown.recv_timeout(CUT_OFF) else {
                panic!("no {prompt:?} in {:?}", self.text);
            };
            self.text += &String::from_utf8_lossy(&more);
        }
        self.master.write_all(typed.as_bytes()).unwrap();
    }

    /// The exit code, and all that the terminal has shown.
    fn end(mut self) -> (Option<i32>, String) {
        let code = exit_code(&mut self.child, "a process at a terminal");
        while let Ok(more) = self.shown.recv_timeout(CUT_OFF) {
            self.text += &String::from_utf8_lossy(&more);
        }
        (code, self.text)
    }
}

#[test]
fn terminal_asks_for_passwords_without_showing_them() {
    let (plant, anna) = plant_with_password();
    let new = "tractor piano window";
    let mut set = command(&["user", "password", "anna"]);
    set.current_dir(plant.folder.path());
    let mut at = Typing::start(&set);
    at.answer("New password of anna: ", &format!("{new}\r"));
    at.answer("The same password again: ", &format!("{new}\r"));
    let (code, shown) = at.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("piano"), "{shown}");

    // The second one has a typing error, and Ctrl-C ends the question.
    let mut at = Typing::start(&set);
    at.answer("New password of anna: ", "another password\r");
    at.answer("The same password again: ", "another pasword\r");
    let (code, shown) = at.end();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("differ"), "{shown}");
    let mut at = Typing::start(&set);
    at.answer("New password of anna: ", "half a pass\x03");
    let (code, shown) = at.end();
    assert_eq!(code, Some(130), "{shown}");
    assert!(!shown.contains("half"), "{shown}");

    // The engine may not know the new password yet.
    let cut_off = Clock::new().now().saturating_add(CUT_OFF);
    loop {
        let mut at = Typing::start(&anna.command(&["get", "-t", "rig/setpoint"]));
        at.answer("Password of anna: ", &format!("{new}X\x7f\r"));
        let (code, shown) = at.end();
        assert!(!shown.contains("piano"), "{shown}");
        if code == Some(0) {
            assert!(shown.contains("70.0"), "{shown}");
            break;
        }
        assert_eq!(code, Some(3), "{shown}");
        assert!(Clock::new().now() < cut_off, "{shown}");
    }
}

#[test]
fn key_that_others_can_read_is_not_used() {
    let plant = Plant::start();
    let press = plant.joined("press1", &["--role", "viewer"]);
    let key = press.file("plant.key");
    let mode = fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let refused = press.run(&["get", "--json", "rig/level"]);
    check_refused(&refused, 1, "context", "chmod 600");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(press.run(&["get", "rig/level"]).code, Some(0));
}

/// Behaviour: B-80.
#[test]
fn engine_does_not_start_with_accounts_that_others_can_change() {
    let folder = Plant::prepare();
    let access = folder.path().join("security/access.toml");
    let config = folder.path().join("plant.toml");
    let config = config.to_str().unwrap();
    let serve = [
        "serve",
        config,
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--store",
        "none",
    ];
    for (mode, path) in [(0o666, &access), (0o640, &access)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let refused = finish(&mut command(&serve), "");
        check_refused(&refused, 1, "security", "chmod 600");
    }
    fs::set_permissions(&access, Permissions::from_mode(0o600)).unwrap();
    let security = folder.path().join("security");
    fs::set_permissions(&security, Permissions::from_mode(0o777)).unwrap();
    check_refused(
        &finish(&mut command(&serve), ""),
        1,
        "security",
        "chmod go-w",
    );
    fs::set_permissions(&security, Permissions::from_mode(0o700)).unwrap();
    // A user who can write the configuration can name another folder.
    fs::set_permissions(config, Permissions::from_mode(0o666)).unwrap();
    let refused = finish(&mut command(&serve), "");
    check_refused(&refused, 1, "security", "plant.toml");
    fs::set_permissions(config, Permissions::from_mode(0o644)).unwrap();
    fs::write(&access, "[[user]]\nnmae = \"anna\"\n").unwrap();
    let refused = finish(&mut command(&serve), "");
    check_refused(&refused, 8, "security", "access.toml:2");
    fs::write(&access, "").unwrap();
    // The same folder is good again.
    start(folder.path());
}

/// Behaviour: B-80.
///
/// Loopback needs no ceremony; other addresses need accounts, or the word insecure.
#[test]
fn address_beyond_the_machine_needs_a_security_folder() {
    let folder = Plant::prepare();
    let bare = folder.path().join("bare.toml");
    fs::write(&bare, format!("[engine]\nlisten = [\"0.0.0.0:0\"]\n{RIG}")).unwrap();
    let bare = bare.to_str().unwrap();
    let refused = finish(
        &mut command(&["serve", "--json", bare, "--store", "none"]),
        "",
    );
    assert_eq!(refused.code, Some(8), "{refused:?}");
    assert!(refused.err.contains("trunkline init"), "{refused:?}");
    let insecure = Running::start(&[
        "serve",
        bare,
        "--insecure",
        "--listen",
        "0.0.0.0:0",
        "--store",
        "none",
    ]);
    insecure.error_with("insecure");
    let config = folder.path().join("plant.toml");
    let config = config.to_str().unwrap();
    let safe = Running::start(&["serve", config, "--listen", "0.0.0.0:0", "--store", "none"]);
    safe.line_with("Listening on");
    safe.signal("TERM");
    let errors = safe.errors();
    assert!(
        !errors.iter().any(|line| line.contains("insecure:")),
        "{errors:?}"
    );
}

/// Behaviour: B-80.
#[test]
fn user_without_contexts_or_home_reaches_the_engine_on_this_machine() {
    let plant = Plant::start();
    let get = ["get", "-t", "rig/setpoint"];
    let empty = plant.path("empty");
    fs::create_dir(&empty).unwrap();
    for home in [Some(&empty), None] {
        let mut command = command(&get);
        command
            .env_remove("XDG_CONFIG_HOME")
            .env("TRUNKLINE_URL", format!("tl://127.0.0.1:{}", plant.port));
        match home {
            Some(home) => command.env("HOME", home),
            None => command.env_remove("HOME"),
        };
        let read = finish(&mut command, "");
        assert_eq!((read.code, read.out.trim()), (Some(0), "70.0"), "{read:?}");
    }
    let mut ctx = command(&["ctx", "--json"]);
    ctx.env_remove("XDG_CONFIG_HOME").env_remove("HOME");
    check_refused(&finish(&mut ctx, ""), 1, "context", "HOME");
}
