//! The cost of encryption: a link and its server over TCP, with and without TLS. Nothing spins.
//!
//! - `round-trip`: 8 bytes there and back, one call after the other; both ends sleep at every message.
//! - `bulk`: calls of 10,000 bytes in one direction. The far end confirms every [`CONFIRMED`] of them,
//!   and at most [`AHEAD_MAX`] calls are not confirmed.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use trunkline::types::{Tick, Timestamp};
use trunkline_net::{
    ClientCertificates, Clock, Dialler, Link, LinkOptions, Notifier, Peer, Server, ServerOptions,
    TlsClient, TlsIdentity, TlsServer, Trust,
};
use trunkline_proto::{Disconnect, Endpoint};

use super::{Cell, Contender, Timed};
use crate::Outcome;
use crate::hosting::free_port;
use crate::placement::{End, pin};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    RoundTrip,
    Bulk,
}

pub(super) const CASES: [Case; 2] = [Case::RoundTrip, Case::Bulk];

const HOST: &str = "127.0.0.1";
/// Bytes of each bulk call.
const BULK_BYTES: usize = 10_000;
const ROUND_TRIP_BYTES: usize = 8;
/// Calls per confirmation.
const CONFIRMED: u64 = 100;
/// Calls that are not confirmed yet.
const AHEAD_MAX: u64 = 400;
/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(10);

impl Case {
    fn bytes(self) -> usize {
        match self {
            Case::RoundTrip => ROUND_TRIP_BYTES,
            Case::Bulk => BULK_BYTES,
        }
    }

    /// Calls per answer.
    fn per_answer(self) -> u64 {
        match self {
            Case::RoundTrip => 1,
            Case::Bulk => CONFIRMED,
        }
    }
}

/// Returns both systems; the threads of the servers have the CPU of the far end.
pub(super) fn cell(case: Case) -> Outcome<Cell> {
    let (identity, trust) = certificates()?;
    let tls = Arc::new(TlsServer::new(identity, ClientCertificates::Accepted)?);
    let client = Arc::new(TlsClient::new(trust, None)?);
    let far = thread::spawn(move || -> io::Result<_> {
        // If this fails, the two ends share a CPU.
        let _ = pin(End::Far);
        Ok((start(case, None)?, start(case, Some(tls))?))
    });
    let (plain, encrypted) = far.join().map_err(|_| "the far end panicked")??;
    let plain_dialler = Dialler::tcp(HOST, port(&plain)?);
    let dialler = Dialler::tls(HOST, port(&encrypted)?, client);
    let name = match case {
        Case::RoundTrip => "round-trip",
        Case::Bulk => "bulk",
    };
    Ok(Cell {
        case: format!("op={name} bytes={}", case.bytes()),
        waiting: "sleeping",
        contenders: vec![
            contender("link-tcp", case, plain, plain_dialler)?,
            contender("link-tls", case, encrypted, dialler)?,
        ],
    })
}

fn port(server: &Server) -> Outcome<u16> {
    let address = server
        .local_addrs()
        .first()
        .ok_or("a server without a port")?;
    Ok(address.port())
}

fn contender(
    system: &'static str,
    case: Case,
    server: Server,
    dialler: Dialler,
) -> Outcome<Contender> {
    let options = LinkOptions {
        spin: Duration::ZERO,
        ..LinkOptions::default()
    };
    let link = Link::start(dialler, Caller::default(), options)?;
    let mut sent = 0_u64;
    let mut call = move |is_last: bool| {
        // The server ends with the link.
        let _server = &server;
        link.with(|caller, _, _| caller.unsent += case.bytes());
        sent += 1;
        let ahead = match (case, is_last) {
            (Case::RoundTrip, _) | (Case::Bulk, true) => 0,
            (Case::Bulk, false) => AHEAD_MAX,
        };
        let expected = sent.saturating_sub(ahead) / case.per_answer();
        let until = Some(Clock::new().now().saturating_add(PATIENCE));
        let answer = link.wait_until(until, |caller, _| {
            (caller.answers >= expected).then_some(caller.answers)
        });
        answer.is_some_and(|answers| answers <= sent / case.per_answer())
    };
    Ok(Contender::new(system, move |count| {
        let start = Instant::now();
        let right = (1..=count).filter(|number| call(*number == count)).count();
        Timed {
            elapsed: start.elapsed(),
            wrong: count - right as u64,
        }
    }))
}

fn start(case: Case, tls: Option<Arc<TlsServer>>) -> io::Result<Server> {
    let options = ServerOptions {
        listen: vec![free_port().into()],
        spin: Duration::ZERO,
        tls,
        ..ServerOptions::default()
    };
    let answer_after = case.bytes() * case.per_answer() as usize;
    let factory = move |_: Peer, _: Notifier| {
        Ok(Box::new(Answerer {
            answer_after,
            received: 0,
            answers: 0,
        }) as Box<dyn Endpoint>)
    };
    Server::bind(options, Arc::new(factory)).map_err(io::Error::other)
}

/// An authority and a certificate of this machine.
fn certificates() -> Outcome<(TlsIdentity, Trust)> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let authority = params.self_signed(&authority_key)?.der().to_vec();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate()?;
    let own = CertificateParams::new(vec![HOST.to_owned()])?.signed_by(&key, &issuer)?;
    let identity = TlsIdentity {
        chain: vec![own.der().to_vec(), authority.clone()],
        key: key.serialize_der(),
    };
    Ok((identity, Trust::Authorities(vec![authority])))
}

/// Sends `unsent` bytes, and counts the answers, which have 8 bytes.
#[derive(Default)]
struct Caller {
    unsent: usize,
    received: u64,
    answers: u64,
}

impl Endpoint for Caller {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
        self.received += bytes.len() as u64;
        self.answers = self.received / ROUND_TRIP_BYTES as u64;
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, budget: usize, out: &mut Vec<u8>) -> bool {
        let count = self.unsent.min(budget);
        out.resize(out.len() + count, 7);
        self.unsent -= count;
        self.unsent > 0
    }

    fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}

    fn wants_close(&self) -> Option<Disconnect> {
        None
    }

    fn poll_dial(&self) -> Option<Tick> {
        Some(Tick::ZERO)
    }
}

/// Answers with 8 bytes after each `answer_after` bytes.
struct Answerer {
    answer_after: usize,
    received: usize,
    answers: usize,
}

impl Endpoint for Answerer {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
        self.received += bytes.len();
        self.answers += self.received / self.answer_after;
        self.received %= self.answer_after;
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        for _ in 0..std::mem::take(&mut self.answers) {
            out.extend([1; ROUND_TRIP_BYTES]);
        }
        false
    }

    fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}

    fn wants_close(&self) -> Option<Disconnect> {
        None
    }
}
