//! Socket activation: the engine serves sockets that another program has opened and passes to it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::accounts::Plant;
use crate::rig::{Drained, Output, RIG, Running, command, exit_code, finish};

/// What a service manager does: moves its sockets to the descriptors from 3 on, describes them, and
/// becomes the program. The first argument has the kinds of the sockets: `stdin` is the standard input.
const MANAGER: &str = "
import fcntl, os, socket, sys
kinds, names, pid, *program = sys.argv[1:]
sockets = []
for kind in kinds.split():
    if kind == 'stdin':
        made = socket.socket(fileno=os.dup(0))
    elif kind == 'datagrams':
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(('127.0.0.1', 0))
    elif kind == 'idle':
        made = socket.socket()
        made.bind(('127.0.0.1', 0))
    elif kind == 'abstract':
        made = socket.socket(socket.AF_UNIX)
        made.bind(chr(0) + 'trunkline-test-%d' % os.getpid())
        made.listen()
    elif kind == 'pipe':
        made = os.fdopen(os.pipe()[0])
    elif kind == 'closed':
        made = None
    else:
        host, _, port = kind.rpartition(':')
        made = socket.socket()
        made.bind((host, int(port)))
        made.listen()
    sockets.append(made)
copies = [made and fcntl.fcntl(made.fileno(), fcntl.F_DUPFD_CLOEXEC, 100) for made in sockets]
for place, copy in enumerate(copies):
    if copy is None:
        os.closerange(3 + place, 4 + place)
    else:
        os.dup2(copy, 3 + place)
os.environ['LISTEN_FDS'] = str(len(copies))
os.environ['LISTEN_PID'] = pid or str(os.getpid())
if names:
    os.environ['LISTEN_FDNAMES'] = names
os.execv(program[0], program)
";

/// A folder with a configuration, for engines that get their sockets.
struct Rig(TempDir);

impl Rig {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plant.toml"), format!("{config}{RIG}")).unwrap();
        Self(folder)
    }

    /// The engine, started with sockets of these kinds.
    fn command(&self, kinds: &str, names: &str, more: &[&str]) -> Command {
        self.command_for(kinds, names, "", more)
    }

    fn command_for(&self, kinds: &str, names: &str, pid: &str, more: &[&str]) -> Command {
        let file = self.0.path().join("plant.toml");
        let serve = ["serve", file.to_str().unwrap(), "--store", "none"];
        let engine = command(&[&serve, more].concat());
        let mut manager = Command::new("python3");
        manager.args(["-c", MANAGER, kinds, names, pid]);
        manager.arg(engine.get_program()).args(engine.get_args());
        for (name, value) in engine.get_envs() {
            match value {
                Some(value) => manager.env(name, value),
                None => manager.env_remove(name),
            };
        }
        manager
    }

    fn refused(&self, kinds: &str, names: &str, more: &[&str]) -> Output {
        Drained::start(&mut self.command(kinds, names, more), Stdio::null()).end()
    }
}

fn get(url: &str) -> Output {
    finish(
        command(&["get", "rig/level", "-t"]).env("TRUNKLINE_URL", url),
        "",
    )
}

/// The URL of this scheme in the line of the addresses.
fn url(engine: &Running, scheme: &str) -> String {
    let line = engine.line_with("Listening on");
    let mut words = line.split(' ');
    words
        .find(|word| word.starts_with(scheme))
        .unwrap()
        .to_owned()
}

/// The socket is that of this test: it goes on listening when the engine has ended, so that connections
/// wait for the next engine.
#[test]
fn named_socket_takes_the_place_of_the_configured_address() {
    let rig = Rig::new("[engine]\nlisten = \"127.0.0.1:1\"\n");
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = own.local_addr().unwrap();
    for _ in 0..2 {
        let input = OwnedFd::from(own.try_clone().unwrap());
        let mut serve = rig.command("stdin", "listen", &[]);
        let mut engine = Running::spawn_reading(&mut serve, input.into());
        assert_eq!(url(&engine, "tl://"), format!("tl://{address}"));
        let read = get(&format!("tl+tcp://{address}"));
        assert_eq!((read.code, read.out.trim()), (Some(0), "72.4"), "{read:?}");
        engine.signal("TERM");
        assert_eq!(exit_code(&mut engine.child, "the engine"), Some(0));
        let waiting = TcpStream::connect(address).unwrap();
        own.accept().unwrap();
        drop(waiting);
    }
}

#[test]
fn socket_at_a_configured_address_is_used_instead_of_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.sock");
    let path = path.to_str().unwrap();
    let own = UnixListener::bind(path).unwrap();
    let rig = Rig::new(&format!(
        "[engine]\nlisten = [\"127.0.0.1:0\", \"unix:{path}\"]\n"
    ));
    let mut serve = rig.command("stdin", "", &[]);
    let mut engine =
        Running::spawn_reading(&mut serve, OwnedFd::from(own.try_clone().unwrap()).into());
    let line = engine.line_with("Listening on tl://127.0.0.1:");
    assert!(line.contains(&format!("tl+unix://{path}")), "{line}");
    let read = get(&format!("tl+unix://{path}"));
    assert_eq!((read.code, read.out.trim()), (Some(0), "72.4"), "{read:?}");
    engine.signal("TERM");
    assert_eq!(exit_code(&mut engine.child, "the engine"), Some(0));
    assert!(
        Path::new(path).exists(),
        "the file belongs to the service manager"
    );
}

#[test]
fn address_that_the_configuration_does_not_name_is_refused() {
    let rig = Rig::new("[engine]\nlisten = \"127.0.0.1:1\"\n");
    let refused = rig.refused("127.0.0.1:0", "trunkline.socket", &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("does not name this address"),
        "{refused:?}"
    );
    assert!(
        refused.err.contains("FileDescriptorName=listen"),
        "{refused:?}"
    );
}

/// Behaviour: B-81.
#[test]
fn reachable_socket_needs_what_a_reachable_address_needs() {
    let rig = Rig::new("");
    let refused = rig.refused("0.0.0.0:0", "listen", &[]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.err.contains("trunkline init"), "{refused:?}");
    let mut serve = rig.command("0.0.0.0:0", "listen", &["--insecure"]);
    let engine = Running::spawn(&mut serve);
    let url = url(&engine, "tl://0.0.0.0:");
    let read = get(&url.replace("tl://0.0.0.0", "tl+tcp://127.0.0.1"));
    assert_eq!(read.code, Some(0), "{read:?}");
    engine.error_with("insecure: anyone who can reach 0.0.0.0:");
}

/// With accounts, a passed socket that other machines can reach is encrypted like an address, also for
/// programs of this machine.
///
/// Behaviour: B-81.
#[test]
fn reachable_socket_accepts_only_encrypted_connections() {
    let rig = Rig(Plant::prepare());
    let mut serve = rig.command("0.0.0.0:0 127.0.0.1:0", "listen:listen", &[]);
    let engine = Running::spawn(&mut serve);
    let line = engine.line_with("Listening on");
    let with = |scheme: &str| line.split([' ', ',']).find(|word| word.starts_with(scheme));
    let url = with("tl://0.0.0.0:").unwrap();
    let url = url.replace("tl://0.0.0.0", "tl+tcp://127.0.0.1");
    let loopback = with("tl://127.0.0.1:").unwrap();
    let refused = get(&url);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("encrypted"), "{refused:?}");
    let run = |arguments: &[&str]| {
        let mut command = command(arguments);
        command.env("XDG_CONFIG_HOME", rig.0.path().join("home"));
        let output = finish(&mut command, "");
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        output.out
    };
    let pair = ["pair", "press", "--role", "viewer", "--json", "--url"];
    let paired = run(&[&pair[..], &[loopback]].concat());
    let paired: serde_json::Value = serde_json::from_str(&paired).unwrap();
    run(&["join", &url, paired["token"].as_str().unwrap()]);
    let level = run(&["get", "rig/level", "-t", "--url", &url]);
    assert_eq!(level.trim(), "72.4");
}

#[test]
fn socket_named_http_serves_health_on_loopback_only() {
    let rig = Rig::new("[engine]\nlisten = \"127.0.0.1:0\"\n");
    let mut serve = rig.command("127.0.0.1:0", "http", &["--json"]);
    let engine = Running::spawn(&mut serve);
    let serving: serde_json::Value = serde_json::from_str(&engine.line()).unwrap();
    let http = serving["http"]
        .as_str()
        .unwrap()
        .trim_start_matches("http://");
    TcpStream::connect(http).unwrap();
    let refused = rig.refused("0.0.0.0:0", "http", &[]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    let refused = rig.refused("127.0.0.1:0 127.0.0.1:0", "http:http", &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("only one such socket"), "{refused:?}");
}

#[test]
fn descriptors_that_are_no_listening_sockets_are_refused() {
    let rig = Rig::new("");
    for (kinds, part) in [
        ("datagrams", "it is not a stream socket"),
        ("idle", "it does not listen"),
        ("abstract", "descriptor 3"),
        ("pipe", "descriptor 3"),
        ("closed", "it is not open"),
        ("127.0.0.1:0 idle", "descriptor 4"),
    ] {
        let names = vec!["listen"; kinds.split(' ').count()].join(":");
        let refused = rig.refused(kinds, &names, &[]);
        assert_eq!(refused.code, Some(1), "{kinds}: {refused:?}");
        assert!(refused.err.contains(part), "{kinds}: {refused:?}");
    }
    let refused = rig.refused("127.0.0.1:0", "listen:http", &[]);
    assert!(refused.err.contains("2 names for 1 sockets"), "{refused:?}");
}

/// The variables are for the process with the number in LISTEN_PID, such as the one that started this
/// one.
#[test]
fn sockets_of_another_process_are_left_alone() {
    let rig = Rig::new("[engine]\nlisten = \"127.0.0.1:0\"\n");
    let engine = Running::spawn(&mut rig.command_for("idle", "listen", "1", &[]));
    let read = get(&url(&engine, "tl://"));
    assert_eq!(read.code, Some(0), "{read:?}");
}
