//! A dial on its own, with simulated time.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::SyncSender;

use socket2::{Domain, Socket, Type};

use super::*;

fn start(dialler: &mut Dialler) -> Dial {
    let sleeper = Arc::new(Sleeper::new().unwrap());
    Dial::start(dialler, DialLimits::default(), Tick::ZERO, &sleeper)
}

fn to_addresses(addresses: impl IntoIterator<Item = SocketAddr>) -> Dial {
    let stage = Stage::addresses(addresses);
    Dial {
        limits: DialLimits::default(),
        protection: Protection::Owner(PortOwner::Anyone),
        near: None,
        stage,
        failures: Vec::new(),
        refusal: None,
    }
}

/// Advances until the dial has a result, without letting time pass.
fn decide(sut: &mut Dial, sleeper: &Sleeper) -> Result<Transport, Disconnect> {
    loop {
        match sut.advance(Tick::ZERO) {
            DialStep::Connected(transport) => return Ok(transport),
            DialStep::Failed(cause) => return Err(cause),
            DialStep::Wait(source, _) => {
                let source = source
                    .as_ref()
                    .map(|(source, interest)| (source, *interest));
                sleeper.sleep(source, Some(Duration::from_secs(60)));
            }
        }
    }
}

fn decided(mut sut: Dial) -> Result<Transport, Disconnect> {
    decide(&mut sut, &Sleeper::new().unwrap())
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Returns a port that nothing listens on.
fn refusing() -> SocketAddr {
    listener().1
}

#[test]
fn a_listening_port_is_reached() {
    let (_listener, address) = listener();
    let mut dialler = Dialler::tcp(address.ip().to_string(), address.port());
    let transport = decided(start(&mut dialler)).unwrap();
    assert_eq!(transport.peer, crate::Peer::Tcp(address));
    let channel = transport.peer.plain_channel();
    assert_eq!(channel.address, Some(address.ip()));
}

/// A container may have no /etc/hosts.
#[test]
fn localhost_needs_no_resolver() {
    let sleeper = Arc::new(Sleeper::new().unwrap());
    let stage = Stage::host(
        "Localhost",
        5850,
        DialLimits::default(),
        Tick::ZERO,
        &sleeper,
    );
    let Stage::Addresses { rest, .. } = stage else {
        panic!("the name is looked up");
    };
    let addresses: Vec<String> = rest.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["127.0.0.1:5850", "[::1]:5850"]);
}

#[test]
fn refused_port_is_reported_with_a_hint() {
    let address = refusing();
    let mut dialler = Dialler::tcp(address.ip().to_string(), address.port());
    let cause = decided(start(&mut dialler)).unwrap_err();
    assert_eq!(
        cause.to_string(),
        format!(
            "no program is listening there ({address}: connection refused); start the engine, or \
             check the port"
        )
    );
}

#[test]
fn every_address_is_tried_in_turn() {
    let (_listener, address) = listener();
    let transport = decided(to_addresses([refusing(), refusing(), address])).unwrap();
    assert_eq!(transport.peer, crate::Peer::Tcp(address));
}

#[test]
fn the_cause_of_every_attempt_is_kept() {
    let addresses = [refusing(), refusing()];
    let cause = decided(to_addresses(addresses)).unwrap_err().to_string();
    for address in addresses {
        assert!(
            cause.contains(&format!("{address}: connection refused")),
            "{cause}"
        );
    }
}

#[test]
fn an_address_that_does_not_answer_is_given_up() {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener
        .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
        .unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    // Once its queue is full, the system does not answer further connection requests.
    let mut queued = Vec::new();
    let mut sut = loop {
        let mut sut = to_addresses([address]);
        match sut.advance(Tick::ZERO) {
            DialStep::Wait(..) => break sut,
            DialStep::Connected(transport) => queued.push(transport),
            DialStep::Failed(cause) => panic!("{cause}"),
        }
    };
    let late = Tick::ZERO.saturating_add(DialLimits::default().connect);
    let DialStep::Failed(cause) = sut.advance(late) else {
        panic!("it is still tried")
    };
    assert_eq!(
        cause.to_string(),
        format!(
            "the connection failed ({address}: no answer in time); the machine does not answer: is \
             it on, and does the network reach it?"
        )
    );
}

#[test]
fn name_is_resolved() {
    let (_listener, address) = listener();
    let sleeper = Arc::new(Sleeper::new().unwrap());
    let mut dialler = Dialler::tcp("localhost", address.port());
    let mut sut = Dial::start(&mut dialler, DialLimits::default(), Tick::ZERO, &sleeper);
    let transport = decide(&mut sut, &sleeper).unwrap();
    assert_eq!(transport.peer, crate::Peer::Tcp(address));
}

#[test]
fn unresolved_name_is_reported_with_a_hint() {
    let sleeper = Arc::new(Sleeper::new().unwrap());
    let mut dialler = Dialler::tcp("no..such.host", 5850);
    let mut sut = Dial::start(&mut dialler, DialLimits::default(), Tick::ZERO, &sleeper);
    let cause = decide(&mut sut, &sleeper).err().unwrap().to_string();
    assert!(
        cause.starts_with("the host name \"no..such.host\" has no address"),
        "{cause}"
    );
    assert!(
        cause.ends_with("check the spelling, and that DNS resolves the name"),
        "{cause}"
    );
}

#[test]
fn a_resolver_that_does_not_answer_is_given_up() {
    let (_sender, answer): (SyncSender<_>, _) = sync_channel(1);
    let until = Tick::from_nanos(10);
    let stage = Stage::Lookup {
        host: "engine".to_owned(),
        answer,
        until,
    };
    let mut sut = Dial {
        limits: DialLimits::default(),
        protection: Protection::Owner(PortOwner::Anyone),
        near: None,
        stage,
        failures: Vec::new(),
        refusal: None,
    };
    assert!(matches!(sut.advance(Tick::ZERO), DialStep::Wait(None, at) if at == until));
    let DialStep::Failed(cause) = sut.advance(until) else {
        panic!("it still waits")
    };
    assert!(cause.to_string().contains("(no answer in time)"), "{cause}");
}

#[test]
fn error_of_the_pipe_closure_is_the_cause() {
    let mut dialler = Dialler::pipe(|| Err(ErrorKind::ConnectionRefused.into()));
    let cause = decided(start(&mut dialler)).unwrap_err();
    assert!(matches!(
        cause,
        Disconnect::Io {
            kind: ErrorKind::ConnectionRefused,
            ..
        }
    ));
}

/// A port at which a program of another user listens; `None` if this test may not become another user.
fn listener_of_other_user() -> Option<(TcpListener, SocketAddr)> {
    let listening = std::thread::spawn(|| {
        let uid = rustix::process::Uid::from_raw(65_534);
        // Applies to this thread alone, which ends; its sockets belong to that user.
        rustix::thread::set_thread_res_uid(uid, uid, uid).ok()?;
        Some(listener())
    });
    listening.join().unwrap()
}

/// Behaviour: B-80.
#[test]
fn engine_of_this_machine_is_not_a_program_of_any_user() {
    let (_listener, own) = listener();
    let mut dialler = Dialler::tcp(own.ip().to_string(), own.port()).for_engine();
    decided(start(&mut dialler)).unwrap();
    let Some((_listener, other)) = listener_of_other_user() else {
        println!("left out: this test may not become another user");
        return;
    };
    let mut dialler = Dialler::tcp(other.ip().to_string(), other.port());
    decided(start(&mut dialler)).unwrap();
    for (dialler, expects_engine) in [
        (dialler.for_engine(), true),
        (
            Dialler::tcp(other.ip().to_string(), other.port()).for_own_user(),
            false,
        ),
    ] {
        let mut dialler = dialler;
        let cause = decided(start(&mut dialler)).unwrap_err();
        assert_eq!(
            cause,
            Disconnect::OtherUser {
                address: other,
                uid: Some(65_534),
                own: unix::own_uid(),
                is_engine: expects_engine,
            }
        );
    }
}

/// Behaviour: B-80.
#[test]
fn only_root_decides_who_the_service_is() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("trunkline");
    assert_eq!(service_user(&folder), None);
    fs::create_dir(&folder).unwrap();
    let own = unix::own_uid();
    assert_eq!(service_user(&folder), (own == ROOT).then_some(ROOT));
    if own != ROOT {
        return println!("left out: this test is not root");
    }
    std::os::unix::fs::chown(&folder, Some(1234), None).unwrap();
    assert_eq!(service_user(&folder), Some(1234));
    let set_mode = |mode| fs::set_permissions(parent.path(), fs::Permissions::from_mode(mode));
    set_mode(0o777).unwrap();
    assert_eq!(service_user(&folder), None, "others can create it");
    set_mode(0o755).unwrap();
    let link = parent.path().join("link");
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    assert_eq!(service_user(&link), None, "a link");
    std::os::unix::fs::chown(parent.path(), Some(1234), None).unwrap();
    assert_eq!(service_user(&folder), None, "of another user");
}
