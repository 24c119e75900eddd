//! Explores schedules of the two halves of an encrypted connection in threads of their own. Everything
//! arrives once and in order, the end is announced behind it, nothing that the receive half has made the
//! connection produce stays unsent, and the halves never disagree about the phase.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p trunkline-net shuttle_`. `SHUTTLE_SCHEDULES` sets the number of
//! schedules of each test (300 by default: each has handshakes, over real sockets).

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use rcgen::{CertificateParams, KeyPair};
use shuttle::rand::Rng;
use shuttle::thread;
use trunkline_proto::EndKeys;

use super::receive::TlsReceive;
use super::send::TlsSend;
use super::*;
use crate::sync::lock;
use crate::transport::{ReceiveHalf, SendHalf};

/// Two keys, each with the public key of the other.
fn keys() -> [EndKeys; 2] {
    let seeds = [[1; 32], [2; 32]];
    let publics = seeds.map(|seed| public_key(&seed).unwrap());
    [0, 1].map(|at| EndKeys {
        own_seed: seeds[at].into(),
        peer: publics[1 - at],
    })
}

/// Two connected sockets.
fn sockets() -> [Arc<TcpStream>; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    [dialled, accepted].map(|socket| {
        socket.set_nonblocking(true).unwrap();
        socket.set_nodelay(true).unwrap();
        Arc::new(socket)
    })
}

/// One end of a connection. Its reader flushes the send half when the receive half asks for it, as the
/// driver of a link does.
#[derive(Clone)]
struct End {
    shared: Arc<Shared>,
    send: Arc<Mutex<TlsSend>>,
}

impl End {
    fn new(
        socket: &Arc<TcpStream>,
        connection: impl Into<rustls::Connection>,
    ) -> (Self, TlsReceive) {
        let connection = Some(connection.into());
        let shared = Arc::new(Shared::new(socket.clone(), Phase::Tls, connection));
        let end = Self {
            shared: shared.clone(),
            send: Arc::new(Mutex::new(TlsSend::client(shared.clone()))),
        };
        (end, TlsReceive::end(shared))
    }

    /// Two ends of one connection, before their handshake.
    fn pair() -> [(Self, TlsReceive); 2] {
        let [own, peer] = keys();
        let [dialled, accepted] = sockets();
        [
            Self::new(&dialled, ends::client(&own).unwrap()),
            Self::new(&accepted, ends::server(&peer).unwrap()),
        ]
    }

    fn flush(&self) {
        while !lock(&self.send).flush().unwrap() {
            thread::yield_now();
        }
    }

    /// Writes all of `bytes`, and yields whenever they are not taken.
    fn write(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = lock(&self.send).try_write(bytes).unwrap();
            match taken {
                Some(count) => bytes = &bytes[count..],
                None => thread::yield_now(),
            }
        }
        self.flush();
    }

    /// Asks the peer for new keys, which it answers with a message of its own.
    fn renew_keys(&self) {
        let mut guard = lock(&self.shared.connection);
        let connection = guard.as_mut().unwrap();
        if !connection.is_handshaking() {
            connection.refresh_traffic_keys().unwrap();
            self.shared.has_output.store(true, Ordering::Release);
        }
    }

    /// Reads until the announced end, or until `enough` bytes have arrived.
    fn read(&self, receive: &mut TlsReceive, enough: usize) -> Vec<u8> {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        while bytes.len() < enough {
            let read = receive.try_read(&mut buffer).unwrap();
            if receive.wants_flush() {
                self.flush();
            }
            match read {
                Some(0) => break,
                Some(count) => bytes.extend_from_slice(&buffer[..count]),
                None => thread::yield_now(),
            }
        }
        bytes
    }

    /// Nothing that the connection has produced waits.
    fn assert_all_is_sent(&self) {
        assert!(!self.shared.has_output.load(Ordering::Acquire));
        let guard = lock(&self.shared.connection);
        assert!(!guard.as_ref().unwrap().wants_write());
    }
}

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let schedules = std::env::var("SHUTTLE_SCHEDULES").ok();
    let schedules = schedules.map_or(300, |number| number.parse().expect("a number"));
    let test = std::sync::Arc::new(test);
    let again = test.clone();
    shuttle::check_random(move || test(), schedules);
    // One thread stands still at a few places, for as long as the others can do anything.
    shuttle::check_pct(move || again(), schedules, 3);
}

/// Bytes that show their place.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[test]
fn shuttle_halves_in_two_threads_deliver_everything_and_the_end() {
    explore(|| {
        let pair = End::pair().map(|(end, mut receive)| {
            let (reader, writer) = (end.clone(), end.clone());
            let reading = thread::spawn(move || {
                let bytes = reader.read(&mut receive, 20_020);
                assert_eq!(bytes, pattern(20_020));
                receive
            });
            let writing = thread::spawn(move || {
                let bytes = pattern(20_020);
                for piece in [0..10, 10..20_010, 20_010..20_020] {
                    writer.renew_keys();
                    writer.write(&bytes[piece]);
                }
            });
            (end, reading, writing)
        });
        let pair = pair.map(|(end, reading, writing)| {
            writing.join().unwrap();
            (end, reading.join().unwrap())
        });
        pair.iter().for_each(|(end, _)| end.assert_all_is_sent());
        let threads = pair.map(|(end, mut receive)| {
            let writer = end.clone();
            let reading = thread::spawn(move || {
                let is_renewed = shuttle::rand::thread_rng().gen_bool(0.5);
                if is_renewed {
                    end.renew_keys();
                }
                assert_eq!(end.read(&mut receive, 1), b"");
                receive
            });
            let writing = thread::spawn(move || {
                lock(&writer.send).finish();
                writer.flush();
            });
            (reading, writing)
        });
        for (reading, writing) in threads {
            writing.join().unwrap();
            // Otherwise the driver of the link would flush for ever.
            assert!(!reading.join().unwrap().wants_flush());
        }
    });
}

#[test]
fn shuttle_next_connection_begins_behind_the_first_one() {
    explore(|| {
        let [(dialled, mut receive), (engine, mut engine_receive)] = End::pair();
        let [own, peer] = keys();
        let reader = dialled.clone();
        let reading = thread::spawn(move || reader.read(&mut receive, 5));
        let writing = thread::spawn(move || {
            dialled.write(b"first");
            lock(&dialled.send).continue_with(&own).unwrap();
            dialled.write(b"second");
        });

        // The engine passes the socket on, once the other end has ended its encryption.
        assert_eq!(engine.read(&mut engine_receive, 5), b"first");
        engine.write(b"ok");
        while !engine_receive.release().unwrap() {
            thread::yield_now();
        }
        while !lock(&engine.send).release().unwrap() {
            thread::yield_now();
        }
        let socket = engine.shared.socket.clone();
        drop((engine, engine_receive));
        let (accepted, mut receive) = End::new(&socket, ends::server(&peer).unwrap());
        let answering = accepted.clone();
        let answer = thread::spawn(move || answering.write(b"yes"));
        assert_eq!(accepted.read(&mut receive, 6), b"second");
        answer.join().unwrap();
        writing.join().unwrap();
        assert_eq!(reading.join().unwrap(), b"okyes");
    });
}

#[test]
fn shuttle_halves_agree_whether_a_connection_is_encrypted() {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().der().to_vec();
    explore(move || {
        let identity = TlsIdentity {
            chain: vec![certificate.clone()],
            key: key.serialize_der(),
        };
        let server = Arc::new(TlsServer::new(identity, ClientCertificates::Accepted).unwrap());
        let [dialled, accepted_socket] = sockets();
        let peer = dialled.local_addr().unwrap();
        let security = Security::Either(server);
        let Transport {
            mut receive,
            mut send,
            ..
        } = accepted(accepted_socket, peer, Duration::ZERO, &security).unwrap();

        let dialling = thread::spawn(move || {
            let [own, _] = keys();
            let mut hello = Vec::new();
            ends::client(&own).unwrap().write_tls(&mut hello).unwrap();
            for piece in hello.chunks(hello.len() - 2) {
                (&*dialled).write_all(piece).unwrap();
                thread::yield_now();
            }
            dialled
        });
        let writing = thread::spawn(move || send.try_write(b"busy").unwrap().is_some());
        let is_plain = loop {
            match receive.try_read(&mut [0; 16]) {
                Ok(None) => thread::yield_now(),
                Ok(Some(_)) => break true,
                // The server does not accept this hello.
                Err(_) => break false,
            }
        };
        // The writer speaks without encryption if and only if the reader does not decrypt.
        assert_eq!(writing.join().unwrap(), is_plain);
        drop(dialling.join().unwrap());
    });
}
