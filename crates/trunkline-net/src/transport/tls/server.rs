//! The server's side: its certificates, and what it asks of clients.

use std::fmt;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme, version,
};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::sync::{Arc, Mutex, lock};
use crate::transport::tls::{TlsError, TlsIdentity, own_error, provider};

/// The certificates and the key of a server. They can be replaced while the server runs.
pub struct TlsServer {
    clients: ClientCertificates,
    config: Mutex<Arc<ServerConfig>>,
}

/// Whether a server asks its clients for certificates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientCertificates {
    Ignored,
    /// A client may send a certificate. It must have the private key, and nothing else about the
    /// certificate is checked: names, validity and issuer are not. The certificate is passed to the
    /// endpoint, which decides by its fingerprint.
    Accepted,
}

impl TlsServer {
    /// # Errors
    /// The certificates or the key cannot be used, or do not belong together.
    pub fn new(identity: TlsIdentity, clients: ClientCertificates) -> Result<Self, TlsError> {
        let config = Mutex::new(Arc::new(config_of(identity, clients)?));
        Ok(Self { clients, config })
    }

    /// Replaces the certificates and the key, for example when they are renewed. Handshakes that
    /// begin from now on use the new ones; existing connections continue.
    ///
    /// # Errors
    /// As for [`new`](Self::new). The old certificates then remain in use.
    pub fn replace(&self, identity: TlsIdentity) -> Result<(), TlsError> {
        let config = Arc::new(config_of(identity, self.clients)?);
        *lock(&self.config) = config;
        Ok(())
    }

    pub(super) fn current(&self) -> Arc<ServerConfig> {
        lock(&self.config).clone()
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer")
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

fn config_of(identity: TlsIdentity, clients: ClientCertificates) -> Result<ServerConfig, TlsError> {
    let certified = identity.certified()?;
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| own_error(&error))?;
    let builder = match clients {
        ClientCertificates::Ignored => builder.with_no_client_auth(),
        ClientCertificates::Accepted => {
            builder.with_client_cert_verifier(Arc::new(AnyCertificate { provider }))
        }
    };
    let mut config = builder.with_cert_resolver(certified);
    // Every connection makes a full handshake: a client proves its key each time, and renewed
    // certificates apply to every new connection.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// Accepts every certificate of a client that has its private key.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match ParsedCertificate::try_from(end_entity) {
            Ok(_) => Ok(ClientCertVerified::assertion()),
            Err(_) => Err(CertificateError::BadEncoding.into()),
        }
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
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
