//! The addresses of a server, and its errors when it cannot listen.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use echo::{Caller, CallerLink, Echo, LOOPBACK};
use trunkline_net::{BindError, Dialler, Link, LinkOptions, Server, ServerOptions};

fn bind(address: SocketAddr, insecure: bool) -> Result<Server, BindError> {
    let options = ServerOptions {
        listen: vec![address.into()],
        insecure,
        ..ServerOptions::default()
    };
    Server::bind(options, Echo::factory())
}

#[test]
fn a_taken_port_is_named_with_what_to_do() {
    let taken = TcpListener::bind(LOOPBACK).unwrap();
    let address = taken.local_addr().unwrap();
    let error = bind(address, false).unwrap_err();
    assert!(matches!(error, BindError::PortInUse { .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "port {} on 127.0.0.1 is in use by another program; stop it or choose another port",
            address.port()
        )
    );
}

#[test]
fn reachable_address_is_refused_with_a_remedy() {
    let error = bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), false).unwrap_err();
    assert!(matches!(error, BindError::NotLoopback { .. }));
    assert_eq!(
        error.to_string(),
        "0.0.0.0:0 can be reached from other machines, and the engine has no certificates and \
         accounts; create them with `trunkline init` and set `security` in the configuration to \
         their folder, listen on 127.0.0.1 or [::1], or use --insecure (in a configuration: \
         insecure = true) if everyone on that network may read and write every variable"
    );
}

#[test]
fn every_spelling_of_a_reachable_address_is_refused() {
    for address in [
        "[::]:0",
        "192.0.2.1:0",
        "[::ffff:0.0.0.0]:0",
        "[2001:db8::1]:0",
        "0.0.0.0:0",
    ] {
        let error = bind(address.parse().unwrap(), false).unwrap_err();
        assert!(
            matches!(error, BindError::NotLoopback { .. }),
            "{address}: {error}"
        );
    }
}

#[test]
fn every_address_of_this_machine_alone_is_accepted() {
    for address in ["127.0.0.1:0", "127.1.2.3:0"] {
        assert!(bind(address.parse().unwrap(), false).is_ok(), "{address}");
    }
}

#[test]
fn an_insecure_server_listens_everywhere() {
    let server = bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), true).unwrap();
    let port = server.local_addrs()[0].port();
    let dialler = Dialler::tcp("127.0.0.1", port);
    let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    assert_eq!(link.call(b"hello"), b"hello");
}

#[test]
fn address_of_another_machine_is_reported_with_a_remedy() {
    let error = bind("192.0.2.1:0".parse().unwrap(), true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this machine does not have the address 192.0.2.1; choose an address of this machine"
    );
}

#[test]
fn several_addresses_are_served() {
    let options = ServerOptions {
        listen: vec![LOOPBACK.into(), LOOPBACK.into()],
        ..ServerOptions::default()
    };
    let server = Server::bind(options, Echo::factory()).unwrap();
    for address in server.local_addrs() {
        let dialler = Dialler::tcp(address.ip().to_string(), address.port());
        let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
        assert_eq!(link.call(b"hello"), b"hello");
    }
}

#[test]
fn a_server_without_an_address_serves_pipes() {
    let server = Server::bind(ServerOptions::default(), Echo::factory()).unwrap();
    let server = std::sync::Arc::new(server);
    let dialler = Dialler::pipe(move || server.accept_pipe());
    let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    assert_eq!(link.call(b"hello"), b"hello");
}
