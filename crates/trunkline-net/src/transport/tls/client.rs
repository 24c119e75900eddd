//! The client's side: the authorities it trusts, its own certificate, and the handshake of a dial.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    PeerIncompatible, RootCertStore, SignatureScheme, version,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use sha2::{Digest, Sha256};

use crate::sync::Arc;
use crate::transport::Transport;
use crate::transport::tls::receive::TlsReceive;
use crate::transport::tls::send::TlsSend;
use crate::transport::tls::{
    Failure, Phase, Shared, TlsError, TlsIdentity, own_error, provider, transport_of,
};

/// The engines that a client accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Engines whose certificate was issued by one of these authorities, DER.
    Authorities(Vec<Vec<u8>>),
    /// The engine that presents the certificate of an authority whose public key (SPKI) has a
    /// SHA-256 that begins with these bytes. The engine's certificate must be issued by exactly this
    /// authority, directly or through certificates that the engine presents.
    AuthorityFingerprint([u8; 10]),
}

/// What a client needs for encrypted connections.
pub struct TlsClient {
    config: Arc<ClientConfig>,
    verifier: Arc<EngineVerifier>,
}

impl TlsClient {
    /// Creates a client that trusts `trust` and proves its identity with `identity`, if the engine
    /// asks for a certificate.
    ///
    /// # Errors
    /// There is no authority, or a certificate or key cannot be used.
    pub fn new(trust: Trust, identity: Option<TlsIdentity>) -> Result<Self, TlsError> {
        let provider = provider();
        let verifier = Arc::new(EngineVerifier::new(trust, provider.clone())?);
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| own_error(&error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone());
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder.with_client_cert_resolver(identity.certified()?),
        };
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            verifier,
        })
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").finish_non_exhaustive()
    }
}

/// Verifies an engine's certificate, and finds the authority that issued it.
#[derive(Debug)]
pub(super) struct EngineVerifier {
    trust: Trusted,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum Trusted {
    Authorities {
        store: RootCertStore,
        certificates: Vec<CertificateDer<'static>>,
    },
    Fingerprint([u8; 10]),
}

impl EngineVerifier {
    fn new(trust: Trust, provider: Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let trust = match trust {
            Trust::AuthorityFingerprint(fingerprint) => Trusted::Fingerprint(fingerprint),
            Trust::Authorities(authorities) => {
                let certificates: Vec<_> =
                    authorities.into_iter().map(CertificateDer::from).collect();
                let mut store = RootCertStore::empty();
                for authority in &certificates {
                    store
                        .add(authority.clone())
                        .map_err(|error| TlsError::BadAuthority {
                            reason: error.to_string(),
                        })?;
                }
                if store.is_empty() {
                    return Err(TlsError::NoAuthority);
                }
                Trusted::Authorities {
                    store,
                    certificates,
                }
            }
        };
        Ok(Self { trust, provider })
    }

    fn verify_issuer(
        &self,
        engine: &ParsedCertificate<'_>,
        presented: &[CertificateDer<'_>],
        store: &RootCertStore,
        now: UnixTime,
    ) -> Result<(), Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(engine, store, presented, now, algorithms)
    }

    /// Returns the presented authority with the expected fingerprint.
    fn joined_authority<'a>(
        &self,
        fingerprint: &[u8; 10],
        presented: &'a [CertificateDer<'a>],
        now: UnixTime,
    ) -> Result<&'a CertificateDer<'a>, Error> {
        let found = presented
            .iter()
            .find(|certificate| has_fingerprint(certificate, fingerprint));
        let authority = found.ok_or(CertificateError::ApplicationVerificationFailure)?;
        // The certificate of an authority is refused as that of a server, for this reason alone. The
        // same check covers the validity of the authority itself.
        let store = store_of(authority)?;
        match self.verify_issuer(&ParsedCertificate::try_from(authority)?, &[], &store, now) {
            Err(error) if is_authority(&error) => Ok(authority),
            Err(error) => Err(error),
            Ok(()) => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    /// Returns the authority that issued the certificate at the start of `chain`, which was verified.
    pub(super) fn authority(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<[u8]>> {
        let (engine, presented) = chain.split_first()?;
        let found = match &self.trust {
            Trusted::Fingerprint(fingerprint) => presented
                .iter()
                .find(|certificate| has_fingerprint(certificate, fingerprint))?,
            Trusted::Authorities { certificates, .. } if certificates.len() == 1 => {
                certificates.first()?
            }
            Trusted::Authorities { certificates, .. } => {
                let engine = ParsedCertificate::try_from(engine).ok()?;
                certificates.iter().find(|authority| {
                    store_of(authority).is_ok_and(|store| {
                        self.verify_issuer(&engine, presented, &store, UnixTime::now())
                            .is_ok()
                    })
                })?
            }
        };
        Some(Arc::from(found.as_ref()))
    }
}

/// Returns true if a certificate was refused as a server's because it is an authority's.
fn is_authority(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            other.to_string().contains("CaUsedAsEndEntity")
        }
        _ => false,
    }
}

fn has_fingerprint(certificate: &CertificateDer<'_>, fingerprint: &[u8; 10]) -> bool {
    ParsedCertificate::try_from(certificate).is_ok_and(|parsed| {
        let digest = Sha256::digest(parsed.subject_public_key_info().as_ref());
        digest.starts_with(fingerprint)
    })
}

fn store_of(authority: &CertificateDer<'_>) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    store.add(authority.clone().into_owned())?;
    Ok(store)
}

impl ServerCertVerifier for EngineVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let engine = ParsedCertificate::try_from(end_entity)?;
        match &self.trust {
            Trusted::Authorities { store, .. } => {
                self.verify_issuer(&engine, intermediates, store, now)?;
            }
            Trusted::Fingerprint(fingerprint) => {
                let authority = self.joined_authority(fingerprint, intermediates, now)?;
                self.verify_issuer(&engine, intermediates, &store_of(authority)?, now)?;
            }
        }
        verify_server_name(&engine, server_name)?;
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
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// The handshake on a new connection to an engine. Never blocks.
pub(crate) struct ClientHandshake {
    stream: Arc<TcpStream>,
    peer: SocketAddr,
    receive: TlsReceive,
    send: TlsSend,
}

/// The result of a step of a handshake.
pub(crate) enum Shaken {
    Done,
    /// Call again when something has arrived, or when there is room if `is_blocked`.
    Wait {
        is_blocked: bool,
    },
}

impl ClientHandshake {
    /// Begins a handshake with the engine at `host`, a name or an IP address.
    ///
    /// # Errors
    /// A sentence: no certificate can be for such a name.
    pub(crate) fn new(
        stream: Arc<TcpStream>,
        peer: SocketAddr,
        host: &str,
        client: &TlsClient,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("no certificate can be for the name \"{host}\"; check it"))?;
        let connection = ClientConnection::new(client.config.clone(), name)
            .map_err(|error| Failure::Tls(error).to_string())?;
        let shared = Arc::new(Shared::new(
            stream.clone(),
            Phase::Tls,
            Some(connection.into()),
        ));
        Ok(Self {
            stream,
            peer,
            receive: TlsReceive::client(shared.clone(), client.verifier.clone()),
            send: TlsSend::client(shared),
        })
    }

    /// Advances as far as possible without waiting.
    pub(crate) fn advance(&mut self) -> Result<Shaken, Failure> {
        self.send.push()?;
        let shaken = self.receive.shake();
        // Called after a failure as well: an alert gives the other end the reason.
        let pushed = self.send.push();
        match shaken? {
            true => Ok(Shaken::Done),
            false => Ok(Shaken::Wait {
                is_blocked: !pushed?,
            }),
        }
    }

    /// Returns the transport, after the handshake is complete.
    pub(crate) fn into_transport(self, user_timeout: Duration) -> std::io::Result<Transport> {
        let Self {
            stream,
            peer,
            receive,
            send,
        } = self;
        transport_of(stream, peer, user_timeout, receive, send)
    }
}
