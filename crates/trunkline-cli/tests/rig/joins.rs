//! An engine on the network: programs on another machine join it, and what they may do follows the
//! accounts and rules of the engine.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use trunkline::proto::{Disconnect, FaultCode, Pair};
use trunkline::stream::directory::{ListError, list};
use trunkline::{
    CallError, Client, ClientSecurity, ConnectOptions, ConnectionState, Contexts, OpenOptions,
    SubscribeOptions, Write, WriteOutcome,
};
use trunkline_access::{Role, UserName};
use trunkline_identity::accounts::AccessFile;
use trunkline_net::Clock;
use trunkline_types::{Contract, Url, Value};

use crate::engine::{Engine, Launch, config, names, with_words_before};
use crate::figures::{is_full, record, seconds, size};
use crate::netns::Network;
use crate::process::{Running, command, finish};
use crate::{CUT_OFF, alone, until};

/// An engine with a security folder, and the contexts of a user on another machine.
struct Plant {
    engine: Engine,
    /// A client on the engine's machine, as its user.
    owner: Client,
    access: AccessFile,
    contexts: Contexts,
    _folder: TempDir,
}

impl Plant {
    /// `before` are the words before the command of the engine, which listens at `host`.
    fn start(before: Vec<String>, host: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| -> PathBuf { folder.path().join(name) };
        let mut init = command(&["init"]);
        init.arg(path("trunkline.toml")).args(["--host", host]);
        assert!(init.output().unwrap().status.success());
        let socket = path("engine.sock");
        let security = path("security");
        let section = format!("security = {:?}\n", security.to_str().unwrap());
        let engine = Engine::launch(Launch {
            before,
            environment: Vec::new(),
            listen: vec![format!("{host}:0"), format!("unix:{}", socket.display())],
            config: config(3, "f64", &section),
        });
        let owner = Client::connect(&format!("tl+unix://{}", socket.display())).unwrap();
        Self {
            engine,
            owner,
            access: AccessFile::new(security.join("access.toml")),
            contexts: Contexts::in_folder(path("contexts")),
            _folder: folder,
        }
    }

    fn url(&self) -> Url {
        Url::parse(&format!("tl+tcp://{}", self.engine.address)).unwrap()
    }

    fn token(&self, account: &str, role: &str) -> String {
        let pair = Pair {
            account: account.to_owned(),
            role: role.to_owned(),
            groups: Vec::new(),
        };
        self.owner.pair(&pair, CUT_OFF).unwrap().token
    }

    /// A client with the key of a context.
    fn client(&self, context: &str) -> Client {
        let context = self.contexts.get(context).unwrap();
        let security = ClientSecurity::of(&context).unwrap();
        let options = ConnectOptions {
            security: Some(security),
            spin: Duration::ZERO,
            ..ConnectOptions::to(&self.url())
        };
        Client::connect_with(&options).unwrap()
    }
}

/// Writes a variable, and returns the code of the refusal, or of the reason why the outcome is unknown: the
/// session can end while the write is on its way.
fn put(client: &Client, name: &str, value: f64) -> Result<(), FaultCode> {
    let opened = client.open(&[name], OpenOptions::default(), CUT_OFF);
    let opened = opened.unwrap().remove(0).map_err(|fault| fault.code)?;
    let write = Write::new(opened.variable, Value::F64(value));
    match client.write([write], CUT_OFF).unwrap().remove(0) {
        WriteOutcome::Applied(_) => Ok(()),
        WriteOutcome::Refused(fault) | WriteOutcome::Unknown(fault) => Err(fault.code),
        other => panic!("{other:?}"),
    }
}

fn account(name: &str) -> UserName {
    UserName::parse(name).unwrap()
}

/// Behaviour: B-80, B-81, B-82, SV-12.
#[test]
fn program_on_another_machine_joins_and_its_rights_follow_the_accounts() {
    let _alone = alone();
    let Some(network) = Network::create("joining from another machine") else {
        return;
    };
    let plant = Plant::start(network.before(), &network.engine);
    let url = plant.url();

    // Without encryption there is no way in, whatever the program wants.
    let plain = Client::connect_with(&ConnectOptions {
        fail_fast: true,
        ..ConnectOptions::to(&url)
    });
    match plain.unwrap().wait_connected(CUT_OFF) {
        Err(CallError::NotConnected { cause }) => {
            let is_refused =
                matches!(&*cause, Disconnect::Refused { code, .. } if *code == FaultCode::Denied);
            assert!(is_refused, "{cause}");
        }
        other => panic!("{other:?}"),
    }

    // A token of another engine's form, a wrong one and a used one let nobody in.
    let token = plant.token("press", "viewer");
    let wrong = format!("{}{}", "0000-0000-0000-0000", &token[19..]);
    assert!(plant.contexts.join("wrong", &url, &wrong, CUT_OFF).is_err());
    let joined = plant.contexts.join("press", &url, &token, CUT_OFF).unwrap();
    assert_eq!((&*joined.account, &*joined.role), ("press", "viewer"));
    assert!(plant.contexts.join("again", &url, &token, CUT_OFF).is_err());
    assert_eq!(plant.contexts.all().unwrap().len(), 1);

    // Encryption without a login shows nothing either, not even the streams.
    let security = ClientSecurity::of(&joined).unwrap();
    let mut security = security.for_streams().unwrap();
    security.credentials = None;
    let address = plant.engine.address;
    let (host, port) = (address.ip().to_string(), address.port());
    match list(&host, port, None, None, Some(&security), CUT_OFF) {
        Err(ListError::Refused { code, .. }) => assert_eq!(code, FaultCode::NotAuthenticated),
        other => panic!("{other:?}"),
    }

    let client = plant.client("press");
    let all = names(3);
    let monitor = client
        .subscribe(&all, Contract::Latest, SubscribeOptions::default())
        .unwrap();
    assert_eq!(put(&client, &all[0], 1.0), Err(FaultCode::Denied));

    // The role changes while the program is connected.
    let role = |role| {
        let edited = plant
            .access
            .edit(|edit| edit.set_role(&account("press"), role));
        edited.unwrap();
    };
    role(Some(Role::Operator));
    until("the new role counts", || put(&client, &all[0], 2.0).ok());
    until("the monitor shows the write", || {
        let _ = monitor.next(Some(Duration::from_millis(5)));
        let reading = monitor.value(0)?;
        (reading.sample.value == Value::F64(2.0)).then_some(())
    });

    // A rule hides a variable, also from the subscription that has it.
    let text = std::fs::read_to_string(plant.access.path()).unwrap();
    let rule = "\n[[rule]]\nuser = \"press\"\npattern = \"rig/v0\"\ndeny = [\"read\"]\n";
    std::fs::write(plant.access.path(), format!("{text}{rule}")).unwrap();
    until("the variable is hidden", || {
        (put(&client, &all[0], 3.0) == Err(FaultCode::UnknownName)).then_some(())
    });
    assert_eq!(put(&client, &all[1], 3.0), Ok(()));
    let found = client.find("rig/**", None, CUT_OFF).unwrap();
    assert_eq!(found.len(), 2);

    // A disabled account ends the session, and the program says why it is not back.
    let edited = plant
        .access
        .edit(|edit| edit.set_disabled(&account("press"), true));
    edited.unwrap();
    until("the session ends", || match client.state() {
        ConnectionState::Connecting {
            last_failure: Some(cause),
            ..
        } => matches!(
            &*cause,
            Disconnect::Goodbye { code, .. } | Disconnect::Refused { code, .. }
                if *code == FaultCode::NotAuthenticated
        )
        .then_some(()),
        _ => None,
    });
    // The owner was never disturbed.
    assert_eq!(put(&plant.owner, &all[0], 4.0), Ok(()));
}

/// The commands of the page about streams, on two machines. The link is cut while elements are on their
/// way, and one account has no right to streams.
///
/// Behaviour: B-80, B-82, NS-66.
#[test]
fn stream_between_two_machines_needs_only_a_joined_engine() {
    let _alone = alone();
    let Some(network) = Network::create("a stream between two machines") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut init = command(&["init"]);
    init.arg(path("trunkline.toml"))
        .args(["--host", &network.engine]);
    assert!(init.output().unwrap().status.success());
    std::fs::create_dir(path("run")).unwrap();
    let socket = path("engine.sock");
    let runtime = ("XDG_RUNTIME_DIR".to_owned(), path("run"));
    let engine = Engine::launch(Launch {
        before: network.before(),
        environment: vec![runtime],
        listen: vec![
            format!("{}:0", network.engine),
            // Nobody else is in the namespace, so the port is free.
            "127.0.0.1:5850".to_owned(),
            format!("unix:{socket}"),
        ],
        config: format!("[engine]\nsecurity = {:?}\n", path("security")),
    });
    let owner = Client::connect(&format!("tl+unix://{socket}")).unwrap();
    let url = format!("tl://{}", engine.address);
    // A command on the other machine, by the user of these contexts.
    let away = |contexts: &str, arguments: &[&str]| {
        let mut away = command(arguments);
        away.env("XDG_CONFIG_HOME", path(contexts))
            .env("XDG_RUNTIME_DIR", path("nothing"));
        away
    };
    let join = |contexts: &str, account: &str, role: &str| {
        let pair = Pair {
            account: account.to_owned(),
            role: role.to_owned(),
            groups: Vec::new(),
        };
        let token = owner.pair(&pair, CUT_OFF).unwrap().token;
        let joined = finish(&mut away(contexts, &["join", &url, &token]), "");
        assert_eq!(joined.code, Some(0), "{joined:?}");
    };
    let reader = [
        "stream",
        "read",
        "archive/in",
        "--type",
        "i32",
        "--count",
        "1000",
    ];
    let mut reader = with_words_before(&network.before(), command(&reader));
    let reader = Running::spawn(reader.env("XDG_RUNTIME_DIR", path("run")));
    let peer = format!("{url}/archive/in");
    let write = ["stream", "write", "daq/out", "--to", &peer, "--type", "i32"];

    // Without joining, nothing is sent.
    let refused = finish(&mut away("nobody", &write), "1\n");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("would not be encrypted"),
        "{refused:?}"
    );
    assert!(refused.err.contains("trunkline join"), "{refused:?}");
    // A viewer sees the stream, and may not use it.
    join("viewer", "screen", "viewer");
    let refused = finish(&mut away("viewer", &write), "1\n");
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(
        refused
            .err
            .contains("you have no permission to use the stream archive/in"),
        "{refused:?}"
    );
    // The first context is the selected one, so its engine is the default.
    let listed = finish(&mut away("viewer", &["stream", "ls", "--json"]), "");
    assert!(
        listed.out.contains("tl://localhost/archive/in"),
        "{listed:?}"
    );

    join("engineer", "daq", "engineer");
    let short = [
        "stream",
        "write",
        "daq/out",
        "--to",
        "archive/in",
        "--type",
        "i32",
    ];
    let mut writer = away("engineer", &short);
    let mut writer = Running::spawn_reading(&mut writer, Stdio::piped());
    let mut input = writer.child.stdin.take().unwrap();
    let mut next = 0;
    for is_cut in [false, true, false] {
        let count = if is_cut { 500 } else { 250 };
        network.link(!is_cut);
        for element in next..next + count {
            writeln!(input, "{element}").unwrap();
        }
        if is_cut {
            writer.error_with("lost");
            network.link(true);
        }
        for element in next..next + count {
            assert_eq!(reader.line(), element.to_string());
        }
        next += count;
    }
    drop(input);
    assert_eq!(writer.end().0, Some(0));
    assert_eq!(reader.end().0, Some(0));
}

/// R10: every encrypted client is back after the engine was killed.
#[test]
fn encrypted_clients_are_back_after_the_engine_was_killed() {
    let _alone = alone();
    let mut plant = Plant::start(Vec::new(), "127.0.0.1");
    let url = plant.url();
    let token = plant.token("crowd", "viewer");
    plant.contexts.join("crowd", &url, &token, CUT_OFF).unwrap();
    let count = size(20, 1000);
    let clients: Vec<Client> = (0..count).map(|_| plant.client("crowd")).collect();
    let connect = |epoch: u64| {
        for client in &clients {
            until("the client is connected to the new engine", || {
                let session = client.wait_connected(CUT_OFF).ok()?;
                (session.epoch != epoch).then_some(())
            });
        }
    };
    connect(0);
    let before: Arc<_> = clients[0].wait_connected(CUT_OFF).unwrap();
    plant.engine.kill();
    let clock = Clock::new();
    let start = clock.now();
    plant.engine.start_again();
    connect(before.epoch);
    if is_full() {
        record(
            &format!("R10, {count} TLS clients"),
            "all connected and logged in again after a kill",
            &seconds(clock.now().since(start)),
            "30 s",
        );
    }
}
