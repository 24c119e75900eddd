//! Unix sockets: made for one user, guarded, replaced, removed, and chosen where they suit.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use echo::{CUT_OFF, Caller, CallerLink, Echo, LOOPBACK, socket_in};
use socket2::{Domain, SockAddr, Socket, Type};
use tempfile::TempDir;
use trunkline_net::server::{Refusal, SessionFactory};
use trunkline_net::{BindError, Dialler, Link, LinkOptions, Notifier, Peer, Server, ServerOptions};
use trunkline_proto::Endpoint;
use trunkline_types::SocketPath;

fn bind(path: &SocketPath) -> Result<Server, BindError> {
    let options = ServerOptions {
        listen: vec![path.clone().into()],
        ..ServerOptions::default()
    };
    Server::bind(options, Echo::factory())
}

fn link(dialler: Dialler) -> Arc<Link<Caller>> {
    Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap()
}

fn folder() -> TempDir {
    TempDir::new().unwrap()
}

#[test]
fn socket_is_private_to_its_user_and_removed_with_its_server() {
    let folder = folder();
    let path = socket_in(&folder, "plant");
    let server = bind(&path).unwrap();
    let file = fs::symlink_metadata(path.as_path()).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let link = link(Dialler::Unix(path.clone()));
    assert_eq!(link.call(b"hello"), b"hello");
    let own = rustix::process::geteuid().as_raw();
    let pid = std::process::id();
    assert_eq!(link.peer(), Some(Peer::Unix { uid: own, pid }));
    server.shutdown(CUT_OFF);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn leftover_socket_is_replaced() {
    let folder = folder();
    let path = socket_in(&folder, "plant");
    drop(UnixListener::bind(path.as_path()).unwrap());
    fs::write(format!("{path}.lock"), "").unwrap();
    let _server = bind(&path).unwrap();
    assert_eq!(link(Dialler::Unix(path)).call(b"hello"), b"hello");
}

#[test]
fn socket_in_use_is_not_replaced() {
    let folder = folder();
    let path = socket_in(&folder, "plant");
    let server = bind(&path).unwrap();
    let error = bind(&path).unwrap_err();
    assert!(matches!(error, BindError::SocketInUse { .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "another program is listening on the socket {path}; stop it, or choose another path \
             with --listen"
        )
    );
    assert_eq!(link(Dialler::Unix(path.clone())).call(b"still"), b"still");
    server.shutdown(CUT_OFF);

    // One that knows nothing of lock files.
    let _foreign = UnixListener::bind(path.as_path()).unwrap();
    assert!(matches!(bind(&path), Err(BindError::SocketInUse { .. })));
    assert!(UnixStream::connect(path.as_path()).is_ok());
}

/// It is in use, whether or not its connections are accepted.
#[test]
fn socket_with_a_full_queue_counts_as_in_use_without_waiting() {
    let folder = folder();
    let path = socket_in(&folder, "plant");
    let address = SockAddr::unix(path.as_path()).unwrap();
    let foreign = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    foreign.bind(&address).unwrap();
    foreign.listen(0).unwrap();
    let mut callers = Vec::new();
    loop {
        let caller = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        caller.set_nonblocking(true).unwrap();
        if caller.connect(&address).is_err() {
            break;
        }
        callers.push(caller);
    }
    assert!(matches!(bind(&path), Err(BindError::SocketInUse { .. })));
}

#[test]
fn one_of_many_concurrent_starts_gets_the_socket() {
    let folder = folder();
    let path = socket_in(&folder, "plant");
    drop(UnixListener::bind(path.as_path()).unwrap());
    let starting: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            thread::spawn(move || bind(&path))
        })
        .collect();
    let started = starting.into_iter().map(|one| one.join().unwrap());
    let servers: Vec<Server> = started.flatten().collect();
    assert_eq!(servers.len(), 1);
    assert_eq!(link(Dialler::Unix(path)).call(b"hello"), b"hello");
}

#[test]
fn obstructing_file_is_named_and_not_modified() {
    let folder = folder();
    let path = socket_in(&folder, "plant");
    fs::write(path.as_path(), "precious").unwrap();
    let error = bind(&path).unwrap_err();
    assert!(matches!(error, BindError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read(path.as_path()).unwrap(), b"precious");

    let missing = SocketPath::parse(&format!("{}/no/such.sock", folder.path().display())).unwrap();
    let error = bind(&missing).unwrap_err().to_string();
    assert!(
        error.contains("folder of the socket") && error.contains("create it"),
        "{error}"
    );
}

#[test]
fn the_socket_of_a_later_server_is_not_removed() {
    let folder = folder();
    let path = socket_in(&folder, "plant");
    let first = bind(&path).unwrap();
    fs::remove_file(path.as_path()).unwrap();
    let _other = UnixListener::bind(path.as_path()).unwrap();
    first.shutdown(CUT_OFF);
    assert!(UnixStream::connect(path.as_path()).is_ok());
}

#[test]
fn missing_socket_is_reported_with_a_hint() {
    let folder = folder();
    let path = socket_in(&folder, "plant");
    let cause = link(Dialler::Unix(path.clone())).wait_disconnected();
    assert_eq!(
        cause.to_string(),
        format!(
            "no program is listening there ({path}: the socket does not exist); start the engine, or \
             check the path"
        )
    );
    drop(UnixListener::bind(path.as_path()).unwrap());
    let cause = link(Dialler::Unix(path)).wait_disconnected().to_string();
    assert!(
        cause.contains("an engine that was killed left it behind"),
        "{cause}"
    );
}

/// Refuses peers with a reason.
struct Doorkeeper;

impl SessionFactory for Doorkeeper {
    fn open(&self, _: Peer, _: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        Ok(Box::new(Echo::default()))
    }

    fn refusal(&self, _: Peer, refusal: Refusal, _: Option<Duration>) -> Vec<u8> {
        refusal.to_string().into_bytes()
    }
}

/// Needs a process that may become another user; elsewhere the rule itself is tested.
#[test]
fn program_of_another_user_is_refused_at_both_ends() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this user cannot become another one");
        return;
    }
    let folder = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = socket_in(&folder, "plant");
    let options = ServerOptions {
        listen: vec![path.clone().into()],
        ..ServerOptions::default()
    };
    let server = Server::bind(options, Arc::new(Doorkeeper)).unwrap();
    // Even if the mode of the file permits every user.
    fs::set_permissions(path.as_path(), fs::Permissions::from_mode(0o666)).unwrap();
    let private = folder.path().join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o755)).unwrap();
    let closed = format!("{}/other.sock", private.display());
    let closed = SocketPath::parse(&closed).unwrap();
    let other_user = thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
        let mut said = String::new();
        let mut stream = UnixStream::connect(path.as_path()).unwrap();
        stream.read_to_string(&mut said).unwrap();
        // Nor may it make a socket where it may not write.
        let denied = bind(&closed).unwrap_err();
        // A link's own threads are of the same user as the one that starts them.
        let cause = link(Dialler::Unix(path)).wait_disconnected();
        (said, cause.to_string(), denied)
    });
    let (said, cause, denied) = other_user.join().unwrap();
    assert!(
        said.starts_with(
            "the engine's Unix socket is for programs of user 0, and this one runs as user 65534; "
        ),
        "{said}"
    );
    assert!(
        cause.contains("the socket belongs to user 0, but this program runs as user 65534"),
        "{cause}"
    );
    assert_eq!(server.counters().accepted, 0);
    let denied = denied.to_string();
    assert!(
        denied.starts_with("this user has no permission to create the socket "),
        "{denied}"
    );
}

fn near(folder: &TempDir, listen: SocketAddr) -> Server {
    let options = ServerOptions {
        listen: vec![listen.into()],
        near: Some(folder.path().to_owned()),
        ..ServerOptions::default()
    };
    Server::bind(options, Echo::factory()).unwrap()
}

fn near_dialler(folder: &TempDir, port: u16) -> Dialler {
    let socket = socket_in(folder, &port.to_string());
    Dialler::near(socket, "127.0.0.1", port)
}

#[test]
fn local_port_is_reached_through_its_socket() {
    let folder = folder();
    let server = near(&folder, LOOPBACK);
    let address = server.local_addrs()[0];
    let socket = socket_in(&folder, &address.port().to_string());
    assert_eq!(server.local_sockets(), std::slice::from_ref(&socket));

    let by_socket = link(near_dialler(&folder, address.port()));
    assert_eq!(by_socket.call(b"hello"), b"hello");
    assert!(matches!(by_socket.peer(), Some(Peer::Unix { .. })));

    // Without the socket, or with one that is not answered, a client notices no difference.
    fs::remove_file(socket.as_path()).unwrap();
    for left_behind in [false, true] {
        if left_behind {
            drop(UnixListener::bind(socket.as_path()).unwrap());
        }
        let by_port = link(near_dialler(&folder, address.port()));
        assert_eq!(by_port.call(b"hello"), b"hello");
        assert_eq!(by_port.peer(), Some(Peer::Tcp(address)));
    }
}

#[test]
fn an_address_that_is_not_127_0_0_1_has_no_socket() {
    let folder = folder();
    let server = near(&folder, "127.1.2.3:0".parse().unwrap());
    assert!(server.local_sockets().is_empty());
}

#[test]
fn port_without_a_socket_is_served() {
    let folder = folder();
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        near: Some(folder.path().join("missing")),
        ..ServerOptions::default()
    };
    let server = Server::bind(options, Echo::factory()).unwrap();
    assert!(server.local_sockets().is_empty());
    let port = server.local_addrs()[0].port();
    assert_eq!(link(Dialler::tcp("127.0.0.1", port)).call(b"x"), b"x");
}

/// Another user who may write in the folder has put a link in place of the lock file.
#[test]
fn a_lock_file_that_is_a_link_is_not_followed() {
    let folder = folder();
    let path = socket_in(&folder, "plant");
    let (lock, other) = (format!("{path}.lock"), folder.path().join("other"));
    for content in [None, Some("what somebody keeps")] {
        if let Some(content) = content {
            fs::write(&other, content).unwrap();
        }
        std::os::unix::fs::symlink(&other, &lock).unwrap();
        let error = bind(&path).unwrap_err();
        assert!(matches!(error, BindError::SocketIo { .. }), "{error}");
        assert!(error.to_string().contains("plant"), "{error}");
        // Nothing was made or changed after it, and no socket was left behind.
        assert_eq!(fs::read_to_string(&other).ok().as_deref(), content);
        assert!(!path.as_path().exists());
        assert!(fs::symlink_metadata(&lock).unwrap().is_symlink());
        fs::remove_file(&lock).unwrap();
    }
    let _server = bind(&path).unwrap();
    assert_eq!(link(Dialler::Unix(path)).call(b"hello"), b"hello");
}

/// A lock on another user's file could be removed by that user.
#[test]
fn a_lock_file_of_another_user_is_refused() {
    let folder = folder();
    let path = socket_in(&folder, "plant");
    let lock = format!("{path}.lock");
    fs::write(&lock, "").unwrap();
    if std::os::unix::fs::chown(&lock, Some(65_534), None).is_err() {
        println!("skipped, because this test may not give a file to another user");
        return;
    }
    let error = bind(&path).unwrap_err();
    assert!(matches!(error, BindError::SocketIo { .. }), "{error}");
    assert!(!path.as_path().exists());
}
