//! Encrypted connections: certificates, channels, ends, hostile peers.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use echo::certificates::{Authority, Certificate, self_signed};
use echo::{CUT_OFF, Caller, CallerLink, Echo, LOOPBACK, cut_off, noise};
use proptest::prelude::*;
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa, date_time_ymd};
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use trunkline_net::{
    ClientCertificates, Dialler, Link, LinkOptions, Notifier, Peer, Refusal, Server, ServerOptions,
    SessionFactory, TlsClient, TlsError, TlsIdentity, TlsServer, Trust,
};
use trunkline_proto::message::closing::Refused;
use trunkline_proto::{Channel, Disconnect, Endpoint, FaultCode, Negotiation};
use trunkline_types::{Tick, Timestamp};

/// What an endpoint was told, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Told {
    Connected,
    Channel(Channel),
    Input,
}

/// Echoes, and reports what it is told.
struct Watched(Echo, Sender<Told>);

impl Endpoint for Watched {
    fn handle_connected(&mut self, now: Tick, wall: Timestamp) {
        let _ = self.1.send(Told::Connected);
        self.0.handle_connected(now, wall);
    }
    fn handle_channel(&mut self, channel: &Channel) {
        let _ = self.1.send(Told::Channel(channel.clone()));
    }
    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]) {
        let _ = self.1.send(Told::Input);
        self.0.handle_input(now, wall, bytes);
    }
    fn wants_input(&self) -> bool {
        self.0.wants_input()
    }
    fn poll_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        self.0.poll_output(now, wall, budget, out)
    }
    fn poll_timeout(&self) -> Option<Tick> {
        None
    }
    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}
    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}
    fn wants_close(&self) -> Option<Disconnect> {
        self.0.wants_close()
    }
}

/// Its refusals are those of an engine.
struct Watching(Mutex<Sender<Told>>);

impl SessionFactory for Watching {
    fn open(&self, _: Peer, _: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        let told = self.0.lock().unwrap().clone();
        Ok(Box::new(Watched(Echo::default(), told)))
    }

    fn refusal(&self, _: Peer, refusal: Refusal, retry_after: Option<Duration>) -> Vec<u8> {
        let refused = Refused {
            code: FaultCode::Overloaded,
            versions: Negotiation::OURS.versions,
            retry_after,
            sentence: refusal.to_string(),
        };
        let mut bytes = Vec::new();
        refused.encode(&mut bytes);
        bytes
    }
}

struct Rig {
    server: Server,
    tls: Arc<TlsServer>,
    told: Receiver<Told>,
}

fn options() -> ServerOptions {
    ServerOptions {
        listen: vec![LOOPBACK.into()],
        handshakes_max: 1000,
        ..ServerOptions::default()
    }
}

fn serve(options: ServerOptions, identity: TlsIdentity) -> Rig {
    let tls = Arc::new(TlsServer::new(identity, ClientCertificates::Accepted).unwrap());
    let options = ServerOptions {
        tls: Some(tls.clone()),
        ..options
    };
    let (sender, told) = channel();
    let server = Server::bind(options, Arc::new(Watching(Mutex::new(sender)))).unwrap();
    Rig { server, tls, told }
}

/// An address that other machines can reach.
fn everywhere() -> ServerOptions {
    ServerOptions {
        listen: vec!["0.0.0.0:0".parse::<SocketAddr>().unwrap().into()],
        ..options()
    }
}

fn trusting(authority: &Authority) -> Arc<TlsClient> {
    let trust = Trust::Authorities(vec![authority.der.clone()]);
    Arc::new(TlsClient::new(trust, None).unwrap())
}

impl Rig {
    fn port(&self) -> u16 {
        self.server.local_addrs()[0].port()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.set_read_timeout(Some(CUT_OFF)).unwrap();
        stream
    }

    fn link(&self, host: &str, tls: Arc<TlsClient>) -> Arc<Link<Caller>> {
        self.link_of(host, tls, Caller::default())
    }

    fn link_of(&self, host: &str, tls: Arc<TlsClient>, caller: Caller) -> Arc<Link<Caller>> {
        let dialler = Dialler::tls(host, self.port(), tls);
        Link::start(dialler, caller, LinkOptions::default()).unwrap()
    }

    /// The channel of the next session.
    fn next_channel(&self) -> Channel {
        loop {
            if let Told::Channel(channel) = self.told.recv_timeout(CUT_OFF).unwrap() {
                return channel;
            }
        }
    }
}

/// The sentence with which a dial fails.
fn failure(rig: &Rig, host: &str, tls: Arc<TlsClient>) -> String {
    let cause = rig.link(host, tls).wait_disconnected();
    assert!(matches!(cause, Disconnect::Tls { .. }), "{cause:?}");
    assert!(cause.may_retry() && cause.retry_after().is_some());
    cause.to_string()
}

// ---- Certificates -------------------------------------------------------------------------------

#[test]
fn each_defect_of_a_certificate_has_its_sentence() {
    let authority = Authority::new("plant");
    let other = Authority::new("plant");
    let unlike = Authority::new("another plant");
    let usage = |usage| authority.issue_with(|params| params.extended_key_usages = vec![usage]);
    let cases: [(Certificate, &str); 7] = [
        (
            authority.issue_with(|params| params.not_after = date_time_ymd(2021, 1, 1)),
            "the certificate of localhost expired at 2021-01-01",
        ),
        (
            authority.issue_with(|params| params.not_before = date_time_ymd(2090, 1, 1)),
            "this machine's clock may be wrong",
        ),
        (
            authority.issue_with(|params| {
                params.subject_alt_names.remove(0);
            }),
            "the certificate is not for localhost but for 127.0.0.1",
        ),
        (
            other.issue(),
            "an authority that this program does not trust",
        ),
        (
            unlike.issue(),
            "an authority that this program does not trust",
        ),
        (
            usage(ExtendedKeyUsagePurpose::ClientAuth),
            "the certificate of localhost is not for a server",
        ),
        (
            authority.issue_with(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
            "the certificate of localhost is not for a server",
        ),
    ];
    for (certificate, expected) in cases {
        let rig = serve(options(), authority.identity_of(certificate));
        let sentence = failure(&rig, "localhost", trusting(&authority));
        assert!(sentence.contains(expected), "{sentence}");
        assert!(
            !rig.told
                .try_iter()
                .any(|told| matches!(told, Told::Channel(_) | Told::Input)),
            "the session saw nothing"
        );
    }
}

#[test]
fn name_and_address_of_a_certificate_are_both_accepted() {
    let authority = Authority::new("plant");
    let rig = serve(options(), authority.identity());
    for host in ["localhost", "127.0.0.1"] {
        let sut = rig.link(host, trusting(&authority));
        assert_eq!(sut.call(b"hello"), b"hello");
        assert_eq!(sut.transport().unwrap().name, "TLS");
    }
}

#[test]
fn a_certificate_of_itself_is_not_trusted() {
    let authority = Authority::new("plant");
    let rig = serve(options(), self_signed().alone());
    let sentence = failure(&rig, "localhost", trusting(&authority));
    assert!(sentence.contains("does not trust"), "{sentence}");
}

#[test]
fn unusable_certificates_are_reported_before_anything_listens() {
    let authority = Authority::new("plant");
    let refused = |identity| TlsServer::new(identity, ClientCertificates::Ignored).unwrap_err();
    let (one, two) = (authority.issue(), authority.issue());
    let mixed = TlsIdentity {
        chain: vec![one.der.clone()],
        key: two.key.clone(),
    };
    assert!(matches!(refused(mixed), TlsError::KeyMismatch { .. }));
    let broken = |chain: Vec<Vec<u8>>, key: &[u8]| TlsIdentity {
        chain,
        key: key.to_vec(),
    };
    assert_eq!(refused(broken(vec![], &one.key)), TlsError::NoCertificate);
    let no_key = broken(vec![one.der.clone()], b"no key");
    assert_eq!(refused(no_key), TlsError::BadKey);
    let long = broken(vec![one.der.clone(); 200], &one.key);
    assert!(matches!(refused(long), TlsError::ChainTooLong { .. }));
    let no_certificate = broken(vec![b"nonsense".to_vec()], &one.key);
    assert!(matches!(
        refused(no_certificate),
        TlsError::KeyMismatch { .. }
    ));
    let trust = |authorities| TlsClient::new(Trust::Authorities(authorities), None).unwrap_err();
    assert_eq!(trust(vec![]), TlsError::NoAuthority);
    assert!(matches!(
        trust(vec![b"nonsense".to_vec()]),
        TlsError::BadAuthority { .. }
    ));
}

#[test]
fn renewed_certificate_serves_new_connections_and_the_old_ones_continue() {
    let authority = Authority::new("plant");
    let (old, new) = (authority.issue(), authority.issue());
    let (old_der, new_der) = (old.der.clone(), new.der.clone());
    let rig = serve(options(), authority.identity_of(old));
    let (sender, told) = channel();
    let dial = || {
        let dialler = Dialler::tls("localhost", rig.port(), trusting(&authority));
        let endpoint = WatchedCaller(Caller::default(), sender.clone());
        Link::start(dialler, endpoint, LinkOptions::default()).unwrap()
    };
    let first = dial();
    let seen = told.recv_timeout(CUT_OFF).unwrap();
    assert_eq!(seen.peer_certificate.as_deref(), Some(&old_der[..]));
    rig.tls.replace(authority.identity_of(new)).unwrap();
    let second = dial();
    let seen = told.recv_timeout(CUT_OFF).unwrap();
    assert_eq!(seen.peer_certificate.as_deref(), Some(&new_der[..]));
    for link in [first, second] {
        link.with(|caller, _, _| caller.0.send(b"both"));
        let answer = link.wait_until(cut_off(), |caller, _| caller.0.received.pop_front());
        assert_eq!(answer.unwrap(), b"both");
    }
    let bad = TlsIdentity {
        chain: vec![],
        key: vec![],
    };
    assert!(rig.tls.replace(bad).is_err());
    assert_eq!(
        rig.link("localhost", trusting(&authority)).call(b"on"),
        b"on"
    );
}

/// A caller that reports its channel, and checks that it comes first.
struct WatchedCaller(Caller, Sender<Channel>);

impl Endpoint for WatchedCaller {
    fn handle_connected(&mut self, now: Tick, wall: Timestamp) {
        self.0.handle_connected(now, wall);
    }
    fn handle_channel(&mut self, channel: &Channel) {
        assert!(!self.0.connected, "it comes before the connection");
        let _ = self.1.send(channel.clone());
    }
    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]) {
        self.0.handle_input(now, wall, bytes);
    }
    fn poll_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        self.0.poll_output(now, wall, budget, out)
    }
    fn poll_timeout(&self) -> Option<Tick> {
        None
    }
    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}
    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        self.0.handle_disconnected(now, cause);
    }
    fn wants_close(&self) -> Option<Disconnect> {
        None
    }
    fn poll_dial(&self) -> Option<Tick> {
        self.0.poll_dial()
    }
}

// ---- Joining ------------------------------------------------------------------------------------

#[test]
fn a_client_joins_by_the_fingerprint_of_the_authority_and_learns_it() {
    let authority = Authority::new("plant");
    let rig = serve(options(), authority.identity());
    let trust = Trust::AuthorityFingerprint(authority.fingerprint);
    let tls = Arc::new(TlsClient::new(trust, None).unwrap());
    let (sender, told) = channel();
    let endpoint = WatchedCaller(Caller::default(), sender);
    let dialler = Dialler::tls("localhost", rig.port(), tls);
    let _link = Link::start(dialler, endpoint, LinkOptions::default()).unwrap();
    let channel = told.recv_timeout(CUT_OFF).unwrap();
    assert_eq!(channel.authority.as_deref(), Some(&authority.der[..]));
    // From now on, the client trusts what it has learnt.
    let learnt = Trust::Authorities(vec![channel.authority.unwrap().to_vec()]);
    let tls = Arc::new(TlsClient::new(learnt, None).unwrap());
    assert_eq!(rig.link("localhost", tls).call(b"hello"), b"hello");
}

#[test]
fn joining_fails_unless_exactly_the_named_authority_issued_the_certificate() {
    let authority = Authority::new("plant");
    let impostor = Authority::new("plant");
    let old = Authority::valid("plant", [2010, 2015]);
    let leaf = authority.issue();
    let leaf_fingerprint = {
        use rcgen::PublicKeyData;
        use sha2::Digest;
        let key = rcgen::KeyPair::try_from(leaf.key.clone()).unwrap();
        let digest = sha2::Sha256::digest(key.subject_public_key_info());
        <[u8; 10]>::try_from(&digest[..10]).unwrap()
    };
    let identity = |certificate: Certificate, others: &[&Authority]| TlsIdentity {
        chain: [certificate.der]
            .into_iter()
            .chain(others.iter().map(|one| one.der.clone()))
            .collect(),
        key: certificate.key,
    };
    let repeated = {
        let mut repeated = authority.identity_of(leaf);
        repeated.chain.insert(1, repeated.chain[0].clone());
        repeated
    };
    let expired = authority.issue_with(|params| params.not_after = date_time_ymd(2021, 1, 1));
    let named = authority.fingerprint;
    let cases = [
        // Another engine, or someone in between.
        (
            identity(impostor.issue(), &[&impostor]),
            named,
            "the joining token names",
        ),
        // The authority is shown but did not issue the certificate.
        (
            identity(impostor.issue(), &[&authority]),
            named,
            "does not trust",
        ),
        (
            identity(impostor.issue(), &[&impostor, &authority]),
            named,
            "does not trust",
        ),
        // The authority is not shown.
        (
            identity(authority.issue(), &[]),
            named,
            "the joining token names",
        ),
        // The fingerprint of a certificate that is not an authority.
        (repeated, leaf_fingerprint, "does not trust"),
        (
            identity(old.issue(), &[&old]),
            old.fingerprint,
            "expired at 2015-01-01",
        ),
        (
            identity(expired, &[&authority]),
            named,
            "expired at 2021-01-01",
        ),
    ];
    for (identity, fingerprint, expected) in cases {
        let rig = serve(options(), identity);
        let trust = Trust::AuthorityFingerprint(fingerprint);
        let tls = Arc::new(TlsClient::new(trust, None).unwrap());
        let sentence = failure(&rig, "localhost", tls);
        assert!(sentence.contains(expected), "{sentence}");
    }
    let rig = serve(everywhere(), authority.identity());
    let trust = Trust::AuthorityFingerprint(named);
    let tls = Arc::new(TlsClient::new(trust, None).unwrap());
    let sentence = failure(&rig, "127.0.0.2", tls);
    assert!(sentence.contains("not for 127.0.0.2"), "{sentence}");
}

// ---- Channels -----------------------------------------------------------------------------------

#[test]
fn both_ends_learn_the_same_binding_and_each_connection_has_its_own() {
    let authority = Authority::new("plant");
    let rig = serve(options(), authority.identity());
    let (sender, told) = channel();
    let mut bindings = Vec::new();
    for _ in 0..2 {
        let dialler = Dialler::tls("localhost", rig.port(), trusting(&authority));
        let endpoint = WatchedCaller(Caller::default(), sender.clone());
        let link = Link::start(dialler, endpoint, LinkOptions::default()).unwrap();
        let (client, server) = (told.recv_timeout(CUT_OFF).unwrap(), rig.next_channel());
        assert!(client.is_private && server.is_private);
        assert!(client.binding.is_some());
        assert_eq!(client.binding, server.binding);
        assert_eq!(server.peer_certificate, None);
        bindings.push(client.binding);
        drop(link);
    }
    assert_ne!(bindings[0], bindings[1]);
}

#[test]
fn a_session_learns_its_channel_before_the_first_input() {
    let authority = Authority::new("plant");
    let rig = serve(options(), authority.identity());
    for is_encrypted in [true, false] {
        let dialler = match is_encrypted {
            true => Dialler::tls("localhost", rig.port(), trusting(&authority)),
            false => Dialler::tcp("127.0.0.1", rig.port()),
        };
        let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
        assert_eq!(link.call(b"hello"), b"hello");
        let told: Vec<Told> = rig.told.try_iter().collect();
        let [Told::Connected, Told::Channel(channel), Told::Input, ..] = &told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(channel.is_private, is_encrypted);
        assert_eq!(channel.binding.is_some(), is_encrypted);
        let name = link.transport().unwrap().name;
        assert_eq!(name, if is_encrypted { "TLS" } else { "TCP" });
    }
}

#[test]
fn any_client_certificate_is_accepted_and_passed_on() {
    let authority = Authority::new("plant");
    let rig = serve(options(), authority.identity());
    let own = self_signed();
    let own_der = own.der.clone();
    let trust = Trust::Authorities(vec![authority.der.clone()]);
    let tls = TlsClient::new(trust, Some(own.alone())).unwrap();
    let link = rig.link("localhost", Arc::new(tls));
    assert_eq!(link.call(b"hello"), b"hello");
    let channel = rig.next_channel();
    assert_eq!(channel.peer_certificate.as_deref(), Some(&own_der[..]));
}

/// Presents a certificate without having its key.
#[derive(Debug)]
struct Thief(Arc<CertifiedKey>);

impl ResolvesClientCert for Thief {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
    fn has_certs(&self) -> bool {
        true
    }
}

#[test]
fn a_client_certificate_without_its_key_is_refused() {
    let authority = Authority::new("plant");
    let rig = serve(options(), authority.identity());
    let (stolen, other) = (self_signed(), self_signed());
    let key = PrivateKeyDer::try_from(other.key).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let stolen = CertifiedKey::new(vec![stolen.der.into()], key);
    let config =
        client_builder(&authority).with_client_cert_resolver(Arc::new(Thief(Arc::new(stolen))));
    let mut sut = Raw::connect(&rig, config);
    sut.send(b"let me in");
    let error = sut.read_some().unwrap_err();
    assert!(error.to_string().contains("Decrypt"), "{error}");
    assert!(!rig.told.try_iter().any(|told| told == Told::Input));
}

// ---- A peer that is driven by hand ---------------------------------------------------------------

fn client_builder(
    authority: &Authority,
) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(authority.der.clone()))
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
}

fn server_config(authority: &Authority) -> Arc<ServerConfig> {
    let certificate = authority.issue();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der.into()],
            PrivateKeyDer::try_from(certificate.key).unwrap(),
        );
    let mut config = config.unwrap();
    config.send_half_rtt_data = true;
    Arc::new(config)
}

/// A TLS connection over a blocking socket.
struct Raw {
    tls: rustls::Connection,
    stream: TcpStream,
}

impl Raw {
    fn connect(rig: &Rig, config: ClientConfig) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        Self::shake(tls.into(), rig.connect())
    }

    fn accept(listener: &TcpListener, config: Arc<ServerConfig>) -> Self {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(CUT_OFF)).unwrap();
        Self::shake(ServerConnection::new(config).unwrap().into(), stream)
    }

    fn shake(mut tls: rustls::Connection, mut stream: TcpStream) -> Self {
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).unwrap();
        }
        let mut raw = Self { tls, stream };
        raw.flush();
        raw
    }

    fn flush(&mut self) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.stream).unwrap();
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.tls.writer().write_all(bytes).unwrap();
        self.flush();
    }

    /// Reads the socket once. Returns the plaintext, which may be empty.
    fn read_some(&mut self) -> std::io::Result<Vec<u8>> {
        if self.tls.read_tls(&mut self.stream)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let state = self
            .tls
            .process_new_packets()
            .map_err(std::io::Error::other)?;
        let mut bytes = vec![0; state.plaintext_bytes_to_read()];
        self.tls.reader().read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn receive(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            bytes.extend(self.read_some().unwrap());
        }
        bytes
    }
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A link to a server that is driven by hand.
fn link_to_raw(authority: &Authority) -> (Arc<Link<Caller>>, Raw) {
    let (listener, port) = listener();
    let dialler = Dialler::tls("localhost", port, trusting(authority));
    let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    let raw = Raw::accept(&listener, server_config(authority));
    link.wait_connected();
    (link, raw)
}

#[test]
fn a_session_answers_a_request_for_new_keys_although_it_has_nothing_to_say() {
    let authority = Authority::new("plant");
    let rig = serve(options(), authority.identity());
    let mut sut = Raw::connect(&rig, client_builder(&authority).with_no_client_auth());
    for round in 0..50 {
        sut.tls.refresh_traffic_keys().unwrap();
        sut.flush();
        // The answer itself, without any data.
        assert_eq!(sut.read_some().unwrap(), b"", "round {round}");
        if round % 10 == 0 {
            sut.send(b"echo");
            assert_eq!(sut.receive(4), b"echo");
        }
    }
}

#[test]
fn a_link_answers_a_request_for_new_keys_although_nobody_waits() {
    let authority = Authority::new("plant");
    let (link, mut raw) = link_to_raw(&authority);
    for _ in 0..3 {
        raw.tls.refresh_traffic_keys().unwrap();
        raw.flush();
        assert_eq!(raw.read_some().unwrap(), b"");
    }
    raw.send(&[3, 0, 0, 0, b'y', b'e', b's']);
    assert_eq!(link.receive(), b"yes");
}

#[test]
fn data_that_comes_with_the_end_of_the_handshake_is_not_forgotten() {
    let authority = Authority::new("plant");
    for _ in 0..20 {
        let (listener, port) = listener();
        let dialler = Dialler::tls("localhost", port, trusting(&authority));
        let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut tls = ServerConnection::new(server_config(&authority)).unwrap();
        while !tls.wants_write() {
            tls.read_tls(&mut stream).unwrap();
            tls.process_new_packets().unwrap();
        }
        // A server may send data before the client has answered.
        tls.writer().write_all(&[5, 0, 0, 0]).unwrap();
        tls.writer().write_all(b"early").unwrap();
        let mut together = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut together).unwrap();
        }
        stream.write_all(&together).unwrap();
        assert_eq!(link.receive(), b"early");
    }
}

/// F18
#[test]
fn a_stream_that_is_cut_is_not_taken_for_its_end() {
    let authority = Authority::new("plant");
    let (link, mut raw) = link_to_raw(&authority);
    raw.send(&[3, 0, 0, 0, b'y', b'e', b's']);
    raw.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(link.receive(), b"yes");
    let cause = link.wait_disconnected();
    assert!(
        matches!(&cause, Disconnect::Io { kind: ErrorKind::UnexpectedEof, text } if text.contains("without being closed")),
        "{cause:?}"
    );
}

#[test]
fn announced_end_is_an_end() {
    let authority = Authority::new("plant");
    let (link, mut raw) = link_to_raw(&authority);
    raw.send(&[3, 0, 0, 0, b'b', b'y', b'e']);
    raw.tls.send_close_notify();
    raw.flush();
    assert_eq!(link.receive(), b"bye");
    assert_eq!(link.wait_disconnected(), Disconnect::PeerClosed);
    assert!(raw.receive_end(), "the link announces its end as well");
}

impl Raw {
    /// Returns true if the stream ends with an announcement.
    fn receive_end(&mut self) -> bool {
        loop {
            if self.tls.process_new_packets().unwrap().peer_has_closed() {
                return true;
            }
            match self.tls.read_tls(&mut self.stream) {
                Ok(count) if count > 0 => {}
                _ => return false,
            }
        }
    }
}

#[test]
fn a_session_announces_its_end_and_answers_a_peer_that_has_ended_first() {
    let authority = Authority::new("plant");
    let rig = serve(options(), authority.identity());
    let config = || client_builder(&authority).with_no_client_auth();
    let mut sut = Raw::connect(&rig, config());
    sut.send(Echo::CLOSE);
    assert_eq!(sut.receive(Echo::CLOSE.len()), Echo::CLOSE);
    assert!(sut.receive_end());
    let mut sut = Raw::connect(&rig, config());
    let message = noise(100_000);
    let mut read = Vec::new();
    sut.tls.writer().write_all(&message[..10_000]).unwrap();
    sut.tls.send_close_notify();
    sut.flush();
    while read.len() < 10_000 {
        read.extend(sut.read_some().unwrap());
    }
    assert!(read == message[..10_000]);
    assert!(sut.receive_end());
}

#[test]
fn changed_bytes_end_the_connection() {
    let authority = Authority::new("plant");
    let (link, mut raw) = link_to_raw(&authority);
    // Data that comes before them, in the same packet, is not lost.
    raw.tls
        .writer()
        .write_all(&[3, 0, 0, 0, b'y', b'e', b's'])
        .unwrap();
    raw.tls.writer().write_all(&[9; 100]).unwrap();
    let mut record = Vec::new();
    raw.tls.write_tls(&mut record).unwrap();
    *record.last_mut().unwrap() ^= 1;
    raw.stream.write_all(&record).unwrap();
    assert_eq!(link.receive(), b"yes");
    let cause = link.wait_disconnected().to_string();
    assert!(cause.contains("changed on their way"), "{cause}");
    // The other end is told, too.
    let error = raw.read_some().unwrap_err().to_string();
    assert!(error.contains("BadRecordMac"), "{error}");
}

// ---- Peers that do not speak TLS 1.3 --------------------------------------------------------------

/// A message with which a client offers TLS 1.2 and nothing newer.
fn old_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend([0, 2, 0xc0, 0x2b]);
    body.extend([1, 0]);
    let extensions: &[u8] = &[
        0, 10, 0, 4, 0, 2, 0, 23, // groups
        0, 11, 0, 2, 1, 0, // points
        0, 13, 0, 4, 0, 2, 4, 3, // signatures
    ];
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    let mut record = vec![0x16, 3, 1];
    record.extend((message.len() as u16).to_be_bytes());
    record.extend(message);
    record
}

#[test]
fn older_versions_of_tls_are_refused_by_an_alert() {
    let authority = Authority::new("plant");
    for options in [options(), everywhere()] {
        let rig = serve(options, authority.identity());
        let mut sut = rig.connect();
        sut.write_all(&old_hello()).unwrap();
        let mut answer = Vec::new();
        sut.read_to_end(&mut answer).unwrap();
        // Alert, fatal, protocol_version.
        assert_eq!(
            (answer[0], &answer[5..]),
            (0x15, &[2, 70][..]),
            "{answer:?}"
        );
    }
}

#[test]
fn a_server_without_tls_1_3_is_refused_by_a_client() {
    let authority = Authority::new("plant");
    let (listener, port) = listener();
    let dialler = Dialler::tls("localhost", port, trusting(&authority));
    let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    // Alert, fatal, protocol_version.
    stream.write_all(&[0x15, 3, 3, 0, 2, 2, 70]).unwrap();
    let cause = link.wait_disconnected().to_string();
    assert!(cause.contains("does not accept TLS 1.3"), "{cause}");
}

#[test]
fn garbage_that_begins_like_tls_ends_the_connection_and_harms_nobody() {
    let authority = Authority::new("plant");
    for options in [options(), everywhere()] {
        let rig = serve(options, authority.identity());
        for garbage in [
            &b"\x16\x03\x01\xff\xff rubbish rubbish rubbish"[..],
            b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff",
            b"\x16\x03\x01\x00\x00\x16\x03\x01\x00\x00",
            b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        ] {
            let mut sut = rig.connect();
            sut.write_all(garbage).unwrap();
            // Nothing more: a message that is never complete.
            sut.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            let _ = sut.read_to_end(&mut answer);
            assert!(answer.is_empty() || answer[0] == 0x15, "{answer:?}");
        }
        assert!(!rig.told.try_iter().any(|told| told == Told::Input));
        // The session is counted as long as its link exists.
        let link = rig.link("localhost", trusting(&authority));
        assert_eq!(link.call(b"on"), b"on");
        assert_eq!(rig.server.counters().sessions, 1);
    }
}

fn sentence_of(bytes: &[u8]) -> String {
    let frame = trunkline_proto::frame::Frame::take_from(&mut &*bytes)
        .unwrap()
        .unwrap();
    Refused::decode(&frame).unwrap().sentence
}

#[test]
fn a_plain_peer_on_an_encrypted_port_is_told_the_reason() {
    let authority = Authority::new("plant");
    let rig = serve(everywhere(), authority.identity());
    let mut sut = rig.connect();
    // More than is read at once: unread bytes must not cost the peer the reason.
    sut.write_all(&noise(100_000)).unwrap();
    let mut answer = Vec::new();
    sut.read_to_end(&mut answer).unwrap();
    let sentence = sentence_of(&answer);
    assert!(
        sentence.contains("this port accepts only encrypted connections"),
        "{sentence}"
    );
    assert!(
        !rig.told
            .try_iter()
            .any(|told| matches!(told, Told::Input | Told::Channel(_)))
    );
    assert_eq!(rig.server.counters().refused, 1);
    assert_eq!(
        rig.link("localhost", trusting(&authority)).call(b"on"),
        b"on"
    );
}

#[test]
fn a_loopback_port_accepts_both_and_a_frame_of_any_length_is_not_taken_for_tls() {
    let authority = Authority::new("plant");
    let rig = serve(options(), authority.identity());
    let secure = rig.link("localhost", trusting(&authority));
    let dialler = Dialler::tcp("127.0.0.1", rig.port());
    let plain = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    for link in [&secure, &plain] {
        assert_eq!(link.call(b"hello"), b"hello");
    }
    // The first byte is the one of TLS, for a message of 22 bytes and for one of 22 + 3 * 256.
    for length in [22, 22 + 3 * 256] {
        let dialler = Dialler::tcp("127.0.0.1", rig.port());
        let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
        assert_eq!(link.call(&noise(length)), noise(length));
    }
    // Byte by byte.
    let mut sut = rig.connect();
    let mut message = vec![22, 3, 0, 0];
    message.extend(noise(22 + 3 * 256));
    for byte in &message[..8] {
        sut.write_all(&[*byte]).unwrap();
        assert_eq!(secure.call(b"meanwhile"), b"meanwhile");
    }
    sut.write_all(&message[8..]).unwrap();
    let mut answer = vec![0; message.len()];
    sut.read_exact(&mut answer).unwrap();
    assert_eq!(answer, message);
}

#[test]
fn a_client_of_an_unencrypted_port_is_told_so() {
    let authority = Authority::new("plant");
    let (listener, port) = listener();
    let dialler = Dialler::tls("localhost", port, trusting(&authority));
    let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"HTTP/1.1 400 Bad Request").unwrap();
    let cause = link.wait_disconnected().to_string();
    assert!(cause.contains("answers without encryption"), "{cause}");
}

#[test]
fn an_encrypting_client_reads_the_refusal_of_an_engine_at_its_limit() {
    let authority = Authority::new("plant");
    let limits = ServerOptions {
        sessions_max: 1,
        ..options()
    };
    let rig = serve(limits, authority.identity());
    let first = rig.link("localhost", trusting(&authority));
    assert_eq!(first.call(b"hello"), b"hello");
    let cause = rig
        .link("localhost", trusting(&authority))
        .wait_disconnected();
    let Disconnect::Refused {
        sentence,
        retry_after,
        ..
    } = &cause
    else {
        panic!("{cause:?}")
    };
    assert!(sentence.contains("1 sessions are open"), "{sentence}");
    assert!(retry_after.is_some());
}

/// Anyone on the way can send a refusal without encryption, so it must not stop a client for good.
#[test]
fn an_unencrypted_refusal_does_not_stop_a_client_for_good() {
    let authority = Authority::new("plant");
    let (listener, port) = listener();
    let dialler = Dialler::tls("localhost", port, trusting(&authority));
    let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let refused = Refused {
        code: FaultCode::Denied,
        versions: Negotiation::OURS.versions,
        retry_after: None,
        sentence: "go away".to_owned(),
    };
    let mut bytes = Vec::new();
    refused.encode(&mut bytes);
    stream.write_all(&bytes).unwrap();
    assert!(link.wait_disconnected().may_retry());
}

// ---- Load ---------------------------------------------------------------------------------------

#[test]
fn two_hundred_clients_get_through_few_handshakes_at_a_time() {
    let authority = Authority::new("plant");
    let limits = ServerOptions {
        handshakes_max: 16,
        ..options()
    };
    let rig = serve(limits, authority.identity());
    let tls = trusting(&authority);
    let links: Vec<_> = (0..200)
        .map(|_| rig.link_of("localhost", tls.clone(), Caller::redialling()))
        .collect();
    thread::scope(|scope| {
        for link in &links {
            scope.spawn(|| assert_eq!(link.call(b"hello"), b"hello"));
        }
    });
    assert_eq!(rig.server.counters().sessions, 200);
    assert_eq!(rig.server.counters().handshakes, 0);
}

/// A step of both ends at once.
#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    /// The client takes no input for a while.
    Hold,
    Resume,
    Receive,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![
        0..64usize,
        0..20_000usize,
        16_300..16_500usize,
        0..300_000usize
    ];
    let step = prop_oneof![
        4 => size.prop_map(Step::Send),
        1 => Just(Step::Hold),
        1 => Just(Step::Resume),
        2 => Just(Step::Receive),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn bytes_of_any_sizes_come_back_whole_in_both_directions_at_once(steps in steps()) {
        let authority = Authority::new("plant");
        let rig = serve(options(), authority.identity());
        let link = rig.link("localhost", trusting(&authority));
        link.wait_connected();
        let (mut expected, mut taken) = (Vec::new(), 0);
        for step in steps {
            match step {
                Step::Send(size) => {
                    let message = noise(size);
                    link.send(&message);
                    expected.push(message);
                }
                Step::Hold => link.with(|caller, _, _| caller.hungry = false),
                Step::Resume => link.with(|caller, _, _| caller.hungry = true),
                Step::Receive if taken < expected.len() => {
                    link.with(|caller, _, _| caller.hungry = true);
                    prop_assert!(link.receive() == expected[taken]);
                    taken += 1;
                }
                Step::Receive => {}
            }
        }
        link.with(|caller, _, _| caller.hungry = true);
        for message in &expected[taken..] {
            prop_assert!(&link.receive() == message);
        }
    }
}
