//! TLS 1.3 over TCP.
//!
//! The two halves of a transport share one TLS connection, a state machine of `rustls`, behind a
//! lock that is held only to encrypt or decrypt. System calls happen outside of it.
//!
//! ```text
//!   receive half: socket -> ciphertext -> [ connection ] -> plaintext
//!   send half:    plaintext -> [ connection ] -> sealed -> socket
//! ```
//!
//! The receive half also makes the connection produce bytes: the messages of the handshake, alerts,
//! and answers to requests for new keys. It never sends them itself, because only the send half
//! knows what the socket has taken so far. It sets a mark, and the reader of a transport
//! flushes the send half afterwards ([`SendHalf::flush`](super::SendHalf::flush)).
//!
//! # Two ends of a stream
//! An engine hands a connection over to the program of an endpoint. Both ends of the TLS connection
//! then announce its end, with an alert. The engine passes the socket on, and the endpoints begin a
//! new TLS connection on it, in which each proves the key that the engine has told the other (`ends`).
//!
//! # Memory
//! For each connection at most:
//! - `CIPHERTEXT_MAX` bytes that were read and not decrypted yet, and one record in `rustls`,
//! - one record of plaintext, and during the handshake one message of up to 64 KiB in `rustls`,
//! - `SEALED_MAX` bytes of plaintext, encrypted, that the socket has not taken yet, and the messages
//!   of the handshake, whose size the own certificates determine.
//!
//! This also limits what a peer that has not proved anything yet can occupy.

mod accept;
mod client;
mod ends;
mod failure;
mod receive;
mod send;
mod server;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::ring::default_provider;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, InconsistentKeys};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroize;

use crate::sync::{Arc, AtomicBool, AtomicU8, Mutex, Ordering};
use crate::transport::Transport;
use crate::transport::tcp::tcp_transport;

pub(crate) use accept::{Security, accepted};
pub(crate) use client::{ClientHandshake, Shaken};
pub use client::{TlsClient, Trust};
pub use ends::{accept_end, public_key};
pub(crate) use failure::Failure;
pub use server::{ClientCertificates, TlsServer};

use receive::TlsReceive;
use send::TlsSend;

/// Maximum number of bytes of ciphertext per read.
const CIPHERTEXT_MAX: usize = 64 << 10;

/// Maximum number of bytes of plaintext that are encrypted at a time. The next bytes are encrypted
/// once the socket has taken these.
const SEALED_MAX: usize = 64 << 10;

/// Maximum size of a certificate chain in bytes. A handshake message of 64 KiB must have room for
/// it.
const CHAIN_MAX: usize = 48 << 10;

/// Number of bytes that distinguish TLS from frames of Trunkline.
const MARK_BYTES: usize = 3;

/// Returns true if a stream that begins with these bytes is TLS, or may be, judging by these bytes.
///
/// A TLS stream begins with the type of a record (0x16 in a client's) and its version (3, then 1 to
/// 4). The first byte alone does not suffice: a frame of Trunkline begins with its length, which may
/// be 22. The third byte of the length of an opening frame is always 0, because such frames are
/// short.
fn is_tls(bytes: &[u8], types: &RangeInclusive<u8>) -> bool {
    let [record, major, minor] = [0, 1, 2].map(|at| bytes.get(at));
    record.is_none_or(|record| types.contains(record))
        && major.is_none_or(|major| *major == 3)
        && minor.is_none_or(|minor| (1..=4).contains(minor))
}

/// The certificates of one end, with its private key, which is erased from memory when this is dropped.
pub struct TlsIdentity {
    /// DER: the certificate of the end itself, followed by those that lead to its authority. An
    /// engine also sends the authority's own certificate, so that a client that knows only its
    /// fingerprint can join.
    pub chain: Vec<Vec<u8>>,
    /// The private key of the first certificate. DER: PKCS#8, SEC1 or PKCS#1.
    pub key: Vec<u8>,
}

/// The reason why certificates or keys cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TlsError {
    #[error("there is no certificate; provide at least the certificate of this program")]
    NoCertificate,
    #[error(
        "the certificates have {bytes} bytes, and at most {CHAIN_MAX} are allowed; leave out those that the peer does not need"
    )]
    ChainTooLong { bytes: usize },
    #[error(
        "the private key cannot be read; it must be PKCS#8, SEC1 or PKCS#1, for ECDSA on P-256 or P-384, Ed25519 or RSA"
    )]
    BadKey,
    #[error(
        "the private key does not belong to the certificate ({reason}); use the files that were created together"
    )]
    KeyMismatch { reason: String },
    #[error(
        "the certificate of an authority cannot be read ({reason}); provide it as DER, version 3"
    )]
    BadAuthority { reason: String },
    #[error("there is no authority to trust; provide the certificate of at least one")]
    NoAuthority,
    #[error("TLS cannot be set up ({reason})")]
    Internal { reason: String },
}

/// The algorithms, in the order of preference. AES comes first because processors support it.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        Arc::new(CryptoProvider {
            cipher_suites: vec![
                TLS13_AES_128_GCM_SHA256,
                TLS13_AES_256_GCM_SHA384,
                TLS13_CHACHA20_POLY1305_SHA256,
            ],
            ..default_provider()
        })
    });
    PROVIDER.clone()
}

impl TlsIdentity {
    /// Prepares the key for signatures.
    fn certified(mut self) -> Result<Arc<SingleCertAndKey>, TlsError> {
        let bytes = self.chain.iter().map(Vec::len).sum();
        if self.chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        if bytes > CHAIN_MAX {
            return Err(TlsError::ChainTooLong { bytes });
        }
        let key = PrivateKeyDer::try_from(&self.key[..]).map_err(|_| TlsError::BadKey)?;
        let key = any_supported_type(&key).map_err(|error| own_error(&error))?;
        let chain = std::mem::take(&mut self.chain).into_iter();
        let certified = CertifiedKey::new(chain.map(CertificateDer::from).collect(), key);
        match certified.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                Ok(Arc::new(certified.into()))
            }
            Err(error) => Err(own_error(&error)),
        }
    }
}

impl Drop for TlsIdentity {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl std::fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsIdentity")
            .field("certificates", &self.chain.len())
            .field("key", &"(hidden)")
            .finish()
    }
}

/// Converts an error of `rustls` about own certificates and keys.
fn own_error(error: &rustls::Error) -> TlsError {
    match error {
        rustls::Error::InconsistentKeys(_) | rustls::Error::InvalidCertificate(_) => {
            TlsError::KeyMismatch {
                reason: error.to_string(),
            }
        }
        rustls::Error::General(_) => TlsError::BadKey,
        error => TlsError::Internal {
            reason: error.to_string(),
        },
    }
}

/// What the two halves share.
struct Shared {
    socket: Arc<TcpStream>,
    phase: AtomicU8,
    /// `None` until the first bytes have shown that the peer speaks TLS.
    connection: Mutex<Option<rustls::Connection>>,
    /// The connection has produced bytes that the send half has not taken yet. Set by the receive
    /// half.
    has_output: AtomicBool,
    /// Replaces the connection when the other end has announced its end.
    next: Mutex<Option<rustls::Connection>>,
    /// The handshake is complete.
    is_encrypted: Arc<AtomicBool>,
}

/// How the bytes on the socket are to be understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing has arrived.
    Undecided,
    Plain,
    /// The peer does not speak TLS where it must. It is sent the reason, and nothing else.
    Refused,
    Tls,
}

impl Phase {
    const fn number(self) -> u8 {
        match self {
            Phase::Undecided => 0,
            Phase::Plain => 1,
            Phase::Refused => 2,
            Phase::Tls => 3,
        }
    }
}

impl Shared {
    fn new(socket: Arc<TcpStream>, phase: Phase, connection: Option<rustls::Connection>) -> Self {
        Self {
            socket,
            phase: AtomicU8::new(phase.number()),
            connection: Mutex::new(connection),
            has_output: AtomicBool::new(phase == Phase::Tls),
            next: Mutex::new(None),
            is_encrypted: Arc::new(AtomicBool::new(false)),
        }
    }

    fn phase(&self) -> Phase {
        let number = self.phase.load(Ordering::Acquire);
        [Phase::Plain, Phase::Refused, Phase::Tls]
            .into_iter()
            .find(|phase| phase.number() == number)
            .unwrap_or(Phase::Undecided)
    }

    /// Changes the phase, unless the other half has changed it meanwhile. Returns the phase that
    /// holds now.
    fn change(&self, from: Phase, to: Phase) -> Phase {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let changed = self
            .phase
            .compare_exchange(from.number(), to.number(), success, failure);
        match changed {
            Ok(_) => to,
            Err(_) => self.phase(),
        }
    }
}

/// Creates the transport of two halves of the same socket.
fn transport_of(
    stream: Arc<TcpStream>,
    peer: SocketAddr,
    user_timeout: Duration,
    receive: TlsReceive,
    send: TlsSend,
) -> io::Result<Transport> {
    let plain = tcp_transport(stream, peer, user_timeout)?;
    let is_encrypted = receive.encrypted_mark();
    Ok(Transport {
        peer: plain.peer,
        source: plain.source.encrypted(is_encrypted),
        receive: Box::new(receive),
        send: Box::new(send),
    })
}

#[cfg(test)]
#[cfg(shuttle)]
mod tests;
