//! The reasons why an encrypted connection fails, as sentences.

use std::fmt;
use std::io::{self, ErrorKind};

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};
use rustls_pki_types::UnixTime;
use trunkline_types::Timestamp;

use crate::transport::tls::ends::WrongKey;

/// Maximum number of names of a certificate that a sentence lists.
const NAMES_MAX: usize = 8;

/// The reason why a TLS connection failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// An error of the protocol or of a certificate.
    Tls(Error),
    /// The first bytes of the peer are not TLS.
    NotTls { first_bytes: Vec<u8> },
    /// The stream ended during the handshake.
    EndedInHandshake,
    /// The stream ended without the message that announces its end.
    Truncated,
    /// The socket failed.
    Io { kind: ErrorKind, text: String },
}

impl Failure {
    /// Returns the reason in the view of a client that has dialled `host`.
    pub(crate) fn of_server(&self, host: &str) -> String {
        match self {
            Failure::Tls(Error::InvalidCertificate(error)) => certificate_sentence(error, host),
            failure => failure.to_string(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io {
            kind: error.kind(),
            text: error.to_string(),
        }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        let kind = match &failure {
            Failure::Tls(_) | Failure::NotTls { .. } => ErrorKind::InvalidData,
            Failure::EndedInHandshake | Failure::Truncated => ErrorKind::UnexpectedEof,
            Failure::Io { kind, .. } => *kind,
        };
        io::Error::new(kind, failure.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Tls(error) => f.write_str(&sentence(error)),
            Failure::NotTls { .. } => f.write_str(
                "the peer answers without encryption; check the host and the port, or connect \
                 without TLS if only programs of this machine use the port",
            ),
            Failure::EndedInHandshake => f.write_str(
                "the peer closed the connection while encryption was being set up; it may have \
                 been stopped, or it may not accept encrypted connections at this port",
            ),
            Failure::Truncated => f.write_str(
                "the encrypted stream ended without being closed; the peer was stopped or killed, \
                 or someone in between cut the connection",
            ),
            Failure::Io { text, .. } => f.write_str(text),
        }
    }
}

fn sentence(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate_sentence(error, "the peer"),
        Error::AlertReceived(alert) => alert_sentence(*alert),
        Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled,
        ) => "the peer offers only a version of TLS before 1.3, which is refused; update its program"
            .to_owned(),
        Error::PeerIncompatible(reason) => {
            format!("the two programs have no algorithm of TLS 1.3 in common ({reason:?})")
        }
        Error::InvalidMessage(reason) => {
            format!("the peer sent bytes that are not TLS ({reason:?}); its program is at fault")
        }
        Error::PeerMisbehaved(reason) => {
            format!("the peer violated TLS ({reason:?}); its program is at fault")
        }
        Error::DecryptError => {
            "received bytes were changed on their way; a network device or someone in between is at \
             fault"
                .to_owned()
        }
        error => format!("TLS failed ({error})"),
    }
}

fn alert_sentence(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    match alert {
        Alert::ProtocolVersion => {
            "the peer does not accept TLS 1.3, and older versions are refused; update its program"
                .to_owned()
        }
        Alert::UnknownCA | Alert::CertificateUnknown => {
            "the peer does not trust the authority of this end's certificate; make the authority \
             known there"
                .to_owned()
        }
        Alert::BadCertificate | Alert::UnsupportedCertificate | Alert::DecryptError => {
            "the peer does not accept this end's certificate; replace the certificate".to_owned()
        }
        Alert::CertificateExpired => {
            "this end's certificate has expired, or is not valid yet, by the peer's clock; renew it, \
             or set the peer's clock"
                .to_owned()
        }
        alert => format!("the peer ended the encrypted connection ({alert:?})"),
    }
}

fn certificate_sentence(error: &CertificateError, host: &str) -> String {
    match error {
        CertificateError::ExpiredContext { time, not_after } => format!(
            "the certificate of {host} expired at {}, and it is {} by this machine's clock; renew \
             the certificate, or set the clock",
            stamp(*not_after),
            stamp(*time)
        ),
        CertificateError::Expired => format!(
            "the certificate of {host} has expired by this machine's clock; renew the certificate, \
             or set the clock"
        ),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the certificate of {host} becomes valid at {}, and it is {} by this machine's clock; \
             this machine's clock may be wrong: set it",
            stamp(*not_before),
            stamp(*time)
        ),
        CertificateError::NotValidYet => format!(
            "the certificate of {host} is not valid yet by this machine's clock; this machine's \
             clock may be wrong: set it"
        ),
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            let names: Vec<&str> = presented.iter().map(|name| name_of(name)).collect();
            let more = if names.len() > NAMES_MAX { ", ..." } else { "" };
            format!(
                "the certificate is not for {host} but for {}{more}; connect to one of these \
                 names, or add {host} to the certificate",
                names[..names.len().min(NAMES_MAX)].join(", ")
            )
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the certificate is not for {host}; add this name to the certificate")
        }
        // Two authorities may have the same name; then only the signature differs.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "the certificate of {host} was issued by an authority that this program does not trust; \
             check the host, or join the engine again to learn its authority"
        ),
        CertificateError::Revoked => {
            format!("the certificate of {host} was revoked; replace the certificate")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            not_for_servers(host)
        }
        CertificateError::BadEncoding => {
            format!("the certificate of {host} cannot be read; replace the certificate")
        }
        CertificateError::ApplicationVerificationFailure => format!(
            "{host} does not have the authority that the joining token names; check the host, and \
             that the token is from this engine: someone in between may be pretending to be it"
        ),
        CertificateError::Other(other) if let Some(wrong) = other.0.downcast_ref::<WrongKey>() => {
            wrong.to_string()
        }
        // The certificate of an authority in place of an engine's.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            not_for_servers(host)
        }
        error => format!(
            "the certificate of {host} is not acceptable ({error}); replace the certificate"
        ),
    }
}

fn not_for_servers(host: &str) -> String {
    format!(
        "the certificate of {host} is not for a server; give the engine a certificate for server \
         authentication"
    )
}

/// Returns the name in a text such as `DnsName("engine")` or `IpAddress(10.0.0.1)`.
fn name_of(text: &str) -> &str {
    let inner = text.split_once('(').map_or(text, |(_, rest)| rest);
    inner.strip_suffix(')').unwrap_or(inner).trim_matches('"')
}

fn stamp(time: UnixTime) -> Timestamp {
    let nanos = i64::try_from(time.as_secs())
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000_000_000);
    Timestamp::from_nanos(nanos)
}
