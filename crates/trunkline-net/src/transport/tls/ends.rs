//! Encryption between two ends of a stream, each of which knows the public key of the other.
//!
//! The keys are Ed25519 keys that each endpoint creates for one run. There are no certificates: both
//! ends present their raw public keys (RFC 7250), and accept exactly one. The key exchange of TLS 1.3
//! is different for each connection, so a key that leaks later does not decrypt what was recorded.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    Error, OtherError, PeerIncompatible, ServerConfig, ServerConnection, SignatureScheme, version,
};
use rustls_pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use trunkline_proto::EndKeys;
use trunkline_types::Tick;
use zeroize::Zeroizing;

use crate::clock::Clock;
use crate::sync::Arc;
use crate::transport::Transport;
use crate::transport::tls::receive::TlsReceive;
use crate::transport::tls::send::TlsSend;
use crate::transport::tls::{Failure, Phase, Shared, TlsError, own_error, provider, transport_of};

/// What precedes the seed in the PKCS#8 form of an Ed25519 private key (RFC 8410).
const PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// What precedes the key in the SPKI form of an Ed25519 public key (RFC 8410).
const SPKI_HEAD: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Maximum number of bytes that [`accept_end`] reads for the caller.
const FIRST_BYTES_MAX: usize = 128 << 10;

/// Number of bytes per read of [`accept_end`].
const READ_BYTES: usize = 4 << 10;

/// Returns the Ed25519 public key that belongs to a seed of 32 random bytes.
///
/// # Errors
/// [`TlsError::BadKey`] if the library does not support such keys.
pub fn public_key(seed: &[u8; 32]) -> Result<[u8; 32], TlsError> {
    let certified = certified_key(seed).map_err(|error| own_error(&error))?;
    let spki = certified.cert.first().map(|spki| spki.as_ref());
    let public = spki.and_then(|spki| spki.strip_prefix(&SPKI_HEAD));
    let public = public.and_then(|public| public.try_into().ok());
    public.ok_or(TlsError::BadKey)
}

/// Accepts the encryption of an end that has dialled, on a socket that another process has handed
/// over, and reads from it until `is_complete` returns true for the bytes that were read. Returns the
/// transport and these bytes. Blocks the calling thread until then, or until `deadline`.
///
/// # Errors
/// The dialling end does not prove the peer's key, closes the connection, or is too slow; or the
/// socket cannot be used.
pub fn accept_end(
    socket: OwnedFd,
    user_timeout: Duration,
    keys: &EndKeys,
    deadline: Tick,
    is_complete: impl Fn(&[u8]) -> bool,
) -> io::Result<(Transport, Vec<u8>)> {
    let stream = TcpStream::from(socket);
    let peer = stream.peer_addr()?;
    let stream = Arc::new(stream);
    let connection = server(keys).map_err(Failure::Tls)?;
    let shared = Arc::new(Shared::new(
        stream.clone(),
        Phase::Tls,
        Some(connection.into()),
    ));
    let receive = TlsReceive::end(shared.clone());
    let mut transport = transport_of(stream, peer, user_timeout, receive, TlsSend::client(shared))?;
    let mut bytes = Vec::new();
    let mut buffer = [0; READ_BYTES];
    let clock = Clock::new();
    loop {
        let read = transport.receive.try_read(&mut buffer);
        // Called after a failure as well: an alert gives the other end the reason.
        let is_flushed = transport.send.flush();
        match read? {
            Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Some(count) => {
                bytes.extend_from_slice(&buffer[..count]);
                if is_complete(&bytes) {
                    return Ok((transport, bytes));
                }
                if bytes.len() > FIRST_BYTES_MAX {
                    return Err(ErrorKind::InvalidData.into());
                }
                continue;
            }
            None => {}
        }
        let mut events = PollFlags::IN;
        if !is_flushed? {
            events |= PollFlags::OUT;
        }
        let left = deadline.since(clock.now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut polled = [PollFd::from_borrowed_fd(transport.source.as_fd(), events)];
        retry_on_intr(|| poll(&mut polled, Some(&timeout)))?;
    }
}

/// Begins a connection to the end with the peer's key.
pub(super) fn client(keys: &EndKeys) -> Result<ClientConnection, Error> {
    let peer = Arc::new(OnlyKey::new(&keys.peer));
    let own = AlwaysResolvesClientRawPublicKeys::new(certified_key(&keys.own_seed)?);
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(peer)
        .with_client_cert_resolver(Arc::new(own));
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    // Nobody looks at the name: the key identifies the peer.
    let name = ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into());
    ClientConnection::new(Arc::new(config), name)
}

/// Awaits a connection from the end with the peer's key.
pub(super) fn server(keys: &EndKeys) -> Result<ServerConnection, Error> {
    let peer = Arc::new(OnlyKey::new(&keys.peer));
    let own = AlwaysResolvesServerRawPublicKeys::new(certified_key(&keys.own_seed)?);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_client_cert_verifier(peer)
        .with_cert_resolver(Arc::new(own));
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    ServerConnection::new(Arc::new(config))
}

fn certified_key(seed: &[u8; 32]) -> Result<Arc<CertifiedKey>, Error> {
    let pkcs8 = Zeroizing::new([&PKCS8_HEAD[..], seed].concat());
    let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(&pkcs8[..]))?;
    let spki = key.public_key();
    let spki = spki.ok_or_else(|| Error::General("no public key".to_owned()))?;
    let raw = CertificateDer::from(spki.as_ref().to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![raw], key)))
}

/// The peer has presented another key than the engine has named.
#[derive(Debug, thiserror::Error)]
#[error(
    "the peer does not have the key that the engine named for it, so it only pretends to be the other \
     endpoint; the connection is not used"
)]
pub(super) struct WrongKey;

/// Accepts one public key, and nothing else.
#[derive(Debug)]
struct OnlyKey {
    spki: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl OnlyKey {
    fn new(public: &[u8; 32]) -> Self {
        Self {
            spki: [&SPKI_HEAD[..], public].concat(),
            provider: provider(),
        }
    }

    fn check(
        &self,
        presented: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
    ) -> Result<(), Error> {
        match presented.as_ref() == self.spki && others.is_empty() {
            true => Ok(()),
            false => Err(CertificateError::Other(OtherError(Arc::new(WrongKey))).into()),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = SubjectPublicKeyInfoDer::from(presented.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &spki, signature, algorithms)
    }
}

impl ServerCertVerifier for OnlyKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity, intermediates)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for OnlyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity, intermediates)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
