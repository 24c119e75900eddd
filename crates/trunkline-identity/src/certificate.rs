//! Certificates: what this crate reads from them. It does not verify chains; the TLS library does.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use trunkline_types::Timestamp;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::fingerprint::Fingerprint;
use crate::host_name::HostName;
use crate::pem::{self, CERTIFICATE, PemError};

/// Time before the end of its validity at which a certificate is renewed.
pub const RENEWAL_BEFORE_END: Duration = Duration::from_secs(30 * DAY);

pub(crate) const DAY: u64 = 24 * 3600;

/// Maximum size of a certificate in DER, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 64 << 10;

/// A certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Vec<u8>,
    subject: String,
    not_before: Timestamp,
    not_after: Timestamp,
    fingerprint: Fingerprint,
    names: Vec<HostName>,
}

/// Whether a certificate is valid at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validity {
    /// Its time has not come: the clock of this machine is wrong, or that of the issuer was.
    NotYet,
    /// It is valid.
    Valid,
    /// Its time is over.
    Expired,
}

/// A certificate that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CertificateError {
    /// The text is not the PEM form of a certificate.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The certificate is larger than [`CERTIFICATE_BYTES_MAX`].
    #[error(
        "the certificate has more than {CERTIFICATE_BYTES_MAX} bytes; specify the correct file"
    )]
    TooLarge,
    /// The bytes are not an X.509 certificate.
    #[error("this is not an X.509 certificate ({reason}); copy the file again")]
    NotX509 {
        /// The reason, from the library that reads certificates.
        reason: String,
    },
    /// Bytes follow the certificate.
    #[error("bytes follow the certificate; copy the file again")]
    Trailing,
}

impl Certificate {
    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// [`CertificateError`] if there is none, or it cannot be read.
    pub fn from_pem(text: &str) -> Result<Self, CertificateError> {
        Self::from_der(&pem::first(text, CERTIFICATE)?)
    }

    /// Reads all certificates of a PEM text, in their order.
    ///
    /// # Errors
    /// [`CertificateError`] if there is none, one cannot be read, or the text has other blocks.
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, CertificateError> {
        let contents = pem::all(text, CERTIFICATE)?;
        let certificates = contents.iter().map(|content| Self::from_der(content));
        certificates.collect()
    }

    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// [`CertificateError`] if it cannot be read.
    pub fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        if der.len() > CERTIFICATE_BYTES_MAX {
            return Err(CertificateError::TooLarge);
        }
        let (rest, parsed) =
            X509Certificate::from_der(der).map_err(|error| CertificateError::NotX509 {
                reason: error.to_string(),
            })?;
        if !rest.is_empty() {
            return Err(CertificateError::Trailing);
        }
        let common_name = parsed.subject().iter_common_name().next();
        let subject = common_name.and_then(|name| name.as_str().ok());
        Ok(Self {
            der: der.to_owned(),
            subject: subject.unwrap_or_default().to_owned(),
            not_before: timestamp(&parsed.validity().not_before),
            not_after: timestamp(&parsed.validity().not_after),
            fingerprint: Fingerprint::of_spki(parsed.public_key().raw),
            names: names(&parsed)?,
        })
    }

    /// Returns the certificate in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the certificate in PEM.
    pub fn to_pem(&self) -> String {
        pem::encode(CERTIFICATE, &self.der).as_str().to_owned()
    }

    /// Returns the common name of the subject, for display only; empty if there is none.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the first moment at which the certificate is valid.
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// Returns the last moment at which the certificate is valid.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Returns the SHA-256 of the public key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the host names and addresses for which the certificate is valid, without patterns
    /// (`*.example`), which our authority does not issue.
    pub fn names(&self) -> &[HostName] {
        &self.names
    }

    /// Returns whether the certificate is valid at `wall`.
    pub fn validity(&self, wall: Timestamp) -> Validity {
        if wall < self.not_before {
            Validity::NotYet
        } else if wall > self.not_after {
            Validity::Expired
        } else {
            Validity::Valid
        }
    }

    /// Returns true if the certificate is not valid at `wall`, or for at most [`RENEWAL_BEFORE_END`] longer.
    pub fn needs_renewal(&self, wall: Timestamp) -> bool {
        match self.validity(wall) {
            Validity::NotYet | Validity::Expired => true,
            Validity::Valid => self.not_after <= later(wall, RENEWAL_BEFORE_END),
        }
    }

    /// Returns true if the public key of `issuer` verifies the signature of this certificate.
    pub(crate) fn is_signed_by(&self, issuer: &Certificate) -> bool {
        let parsed = X509Certificate::from_der(&self.der);
        let issuer = X509Certificate::from_der(&issuer.der);
        match (parsed, issuer) {
            (Ok((_, parsed)), Ok((_, issuer))) => {
                parsed.issuer() == issuer.subject()
                    && parsed.verify_signature(Some(issuer.public_key())).is_ok()
            }
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    /// Returns true if the certificate may sign others.
    pub(crate) fn is_authority(&self) -> bool {
        X509Certificate::from_der(&self.der).is_ok_and(|(_, parsed)| parsed.is_ca())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("subject", &self.subject)
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .field("fingerprint", &self.fingerprint)
            .field("names", &self.names)
            .finish()
    }
}

/// Returns the time that is `duration` after `time`; the end of the range instead of overflowing.
pub(crate) fn later(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

/// Converts a time; times out of range, such as the year 9999, become the end of the range.
fn timestamp(time: &ASN1Time) -> Timestamp {
    Timestamp::from_nanos(time.timestamp().saturating_mul(1_000_000_000))
}

fn names(parsed: &X509Certificate<'_>) -> Result<Vec<HostName>, CertificateError> {
    let extension = parsed.subject_alternative_name();
    let extension = extension.map_err(|error| CertificateError::NotX509 {
        reason: error.to_string(),
    })?;
    let names = extension
        .iter()
        .flat_map(|found| &found.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => HostName::parse(name).ok(),
            GeneralName::IPAddress(bytes) => address(bytes).map(HostName::Address),
            // TLS compares no other kinds with the name of a server.
            GeneralName::OtherName(..)
            | GeneralName::RFC822Name(_)
            | GeneralName::X400Address(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EDIPartyName(_)
            | GeneralName::URI(_)
            | GeneralName::RegisteredID(_)
            | GeneralName::Invalid(..) => None,
        });
    Ok(names.collect())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    let bytes = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(bytes).into())
}

#[cfg(test)]
mod tests;
