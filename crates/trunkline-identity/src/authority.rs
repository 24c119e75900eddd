//! The private authority of an engine, and the certificates that it issues.
//!
//! The private keys are erased from memory in their PKCS #8 form. `ring` keeps the expanded keys without erasing
//! them.

use std::fmt;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use trunkline_types::Timestamp;
use zeroize::{Zeroize, Zeroizing};

use crate::certificate::{Certificate, CertificateError, DAY, Validity, later};
use crate::fingerprint::Fingerprint;
use crate::host_name::HostName;
use crate::pem::{self, PRIVATE_KEY, PemError};
use crate::random::{self, RandomError};

/// Time for which an authority is valid: ten years.
pub const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3652 * DAY);

/// Time for which the certificate of an engine is valid: 90 days.
pub const ENGINE_LIFETIME: Duration = Duration::from_secs(90 * DAY);

/// Time before its creation from which a certificate is valid, because clocks are often wrong when a machine
/// starts for the first time.
pub const VALID_BEFORE: Duration = Duration::from_secs(DAY);

/// Names that each certificate of an engine has: a client on the same machine uses them.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Maximum number of names of a certificate of an engine.
pub const NAMES_MAX: usize = 100;

/// Maximum number of characters of the common name of a subject (RFC 5280, appendix A).
const COMMON_NAME_CHARS_MAX: usize = 64;

/// Length of a serial number, in bytes.
const SERIAL_BYTES: usize = 16;

/// A private ECDSA P-256 key of an authority or an engine.
pub struct PrivateKey(KeyPair);

/// An authority: its certificate, with its private key.
pub struct Authority {
    certificate: Certificate,
    key: PrivateKey,
}

/// What the certificate of an engine contains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineSubject {
    /// Name of the engine, for display.
    pub name: String,
    /// Host names and addresses by which clients reach the engine; `localhost` and the loopback addresses are
    /// added.
    pub host_names: Vec<HostName>,
}

/// An error of an authority.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The clock of this machine has never been set.
    #[error(
        "the clock of this machine shows a time before the year 2000; set the clock, then try again"
    )]
    ClockNotSet,
    /// The name of the engine is empty or has control characters.
    #[error("the name of the engine is empty or has control characters; choose another name")]
    Name,
    /// There are too many host names.
    #[error(
        "{count} host names are too many for a certificate; the maximum is {NAMES_MAX}; specify \
         fewer"
    )]
    TooManyNames {
        /// Their number, including the names that are added.
        count: usize,
    },
    /// The authority is not valid now, so no client would accept what it issues.
    #[error(
        "the authority `{subject}` is {}; {}",
        match .validity { Validity::Expired => "expired", Validity::Valid | Validity::NotYet => "not valid yet" },
        match .validity {
            Validity::Expired => "create a new security folder, and join the clients again",
            Validity::Valid | Validity::NotYet => "check the clock of this machine",
        }
    )]
    NotValid {
        /// Subject of the authority.
        subject: String,
        /// Why it is not valid.
        validity: Validity,
    },
    /// A private key cannot be read.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// A certificate cannot be read.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The certificate is not that of an authority.
    #[error(
        "the certificate may not sign other certificates; specify the certificate of an authority"
    )]
    NotAnAuthority,
    /// Key and certificate do not belong together.
    #[error(
        "the private key does not belong to the certificate; restore both from the same backup"
    )]
    OtherKey,
    /// The random generator of the system failed.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The library that makes certificates refused.
    #[error("the certificate cannot be created: {reason}; report this as a bug")]
    Refused {
        /// The reason, from the library.
        reason: String,
    },
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Refused {
            reason: error.to_string(),
        }
    }
}

impl PrivateKey {
    /// Generates a key.
    ///
    /// # Errors
    /// [`AuthorityError::Refused`] if the system lacks random bytes.
    pub fn generate() -> Result<Self, AuthorityError> {
        Ok(Self(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?))
    }

    /// Reads a key in PEM: an ECDSA key on P-256 or P-384, an Ed25519 key, or an RSA key.
    ///
    /// # Errors
    /// [`AuthorityError::Pem`] if the text is no such key in PKCS #8.
    pub fn from_pem(text: &str) -> Result<Self, AuthorityError> {
        let der = pem::first(text, PRIVATE_KEY)?;
        let der = PrivatePkcs8KeyDer::from(der.as_slice());
        let key = KeyPair::try_from(&der);
        match key {
            Ok(key) => Ok(Self(key)),
            Err(error) => Err(AuthorityError::Pem(PemError::Content {
                label: PRIVATE_KEY,
                reason: error.to_string(),
            })),
        }
    }

    /// Returns the key in PEM. The text is erased from memory when it is dropped.
    pub fn to_pem(&self) -> Zeroizing<String> {
        pem::encode(PRIVATE_KEY, self.0.serialized_der())
    }

    /// Returns the key in PKCS #8, for the TLS library.
    pub fn pkcs8(&self) -> &[u8] {
        self.0.serialized_der()
    }

    /// Returns the SHA-256 of the public key.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_spki(&self.0.subject_public_key_info())
    }
}

impl Drop for PrivateKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(hidden)")
    }
}

impl Authority {
    /// Creates an authority for the engine `name`, which is valid for [`AUTHORITY_LIFETIME`]. `wall` is the time.
    ///
    /// Its subject is `Trunkline authority of NAME`, cut to 64 characters; nothing depends on the subject.
    ///
    /// # Errors
    /// [`AuthorityError::ClockNotSet`] if `wall` is before 2000, because the authority would then be expired as
    /// soon as the clock is set; [`AuthorityError::Name`].
    pub fn create(name: &str, wall: Timestamp) -> Result<Self, AuthorityError> {
        check_name(name)?;
        let key = PrivateKey::generate()?;
        let subject = format!("Trunkline authority of {name}");
        let mut params = params(&subject, wall, AUTHORITY_LIFETIME)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let signed = params.self_signed(&key.0)?;
        Ok(Self {
            certificate: Certificate::from_der(signed.der())?,
            key,
        })
    }

    /// Reads an authority from the PEM texts of its certificate and its key.
    ///
    /// # Errors
    /// [`AuthorityError`] if a text cannot be read, the certificate is not that of an authority, or the key is
    /// another one.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let certificate = Certificate::from_pem(certificate)?;
        let key = PrivateKey::from_pem(key)?;
        if !certificate.is_authority() {
            return Err(AuthorityError::NotAnAuthority);
        }
        if certificate.fingerprint() != key.fingerprint() {
            return Err(AuthorityError::OtherKey);
        }
        Ok(Self { certificate, key })
    }

    /// Returns the certificate of the authority.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Returns the key of the authority.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Issues a certificate for the key of an engine, which is valid for [`ENGINE_LIFETIME`], but not longer than
    /// the authority. `wall` is the time.
    ///
    /// # Errors
    /// [`AuthorityError`] if the authority is not valid at `wall`, or the subject cannot be used.
    pub fn issue(
        &self,
        subject: &EngineSubject,
        key: &PrivateKey,
        wall: Timestamp,
    ) -> Result<Certificate, AuthorityError> {
        check_name(&subject.name)?;
        match self.certificate.validity(wall) {
            Validity::Valid => {}
            validity @ (Validity::NotYet | Validity::Expired) => {
                return Err(AuthorityError::NotValid {
                    subject: self.certificate.subject().to_owned(),
                    validity,
                });
            }
        }
        let lifetime = self.certificate.not_after().nanos_since(wall);
        let lifetime = Duration::from_nanos(lifetime.unsigned_abs()).min(ENGINE_LIFETIME);
        let mut params = params(&subject.name, wall, lifetime)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.subject_alt_names = alternative_names(&subject.host_names)?;
        let authority = CertificateDer::from(self.certificate.der());
        let issuer = Issuer::from_ca_cert_der(&authority, &self.key.0)?;
        let signed = params.signed_by(&key.0, &issuer)?;
        Ok(Certificate::from_der(signed.der())?)
    }

    /// Issues a certificate with the names of `old` for the same key. `wall` is the time.
    ///
    /// # Errors
    /// [`AuthorityError::OtherKey`] if `key` is not that of `old`; otherwise as [`Authority::issue`].
    pub fn renew(
        &self,
        old: &Certificate,
        key: &PrivateKey,
        wall: Timestamp,
    ) -> Result<Certificate, AuthorityError> {
        if old.fingerprint() != key.fingerprint() {
            return Err(AuthorityError::OtherKey);
        }
        let subject = EngineSubject {
            name: old.subject().to_owned(),
            host_names: old.names().to_vec(),
        };
        self.issue(&subject, key, wall)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("certificate", &self.certificate)
            .finish()
    }
}

fn check_name(name: &str) -> Result<(), AuthorityError> {
    match name.trim().is_empty() || name.chars().any(char::is_control) {
        true => Err(AuthorityError::Name),
        false => Ok(()),
    }
}

/// Returns the parts that all certificates have.
fn params(
    subject: &str,
    wall: Timestamp,
    lifetime: Duration,
) -> Result<CertificateParams, AuthorityError> {
    if !wall.is_plausible() {
        return Err(AuthorityError::ClockNotSet);
    }
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    let subject: String = subject.chars().take(COMMON_NAME_CHARS_MAX).collect();
    name.push(DnType::CommonName, subject);
    params.distinguished_name = name;
    params.serial_number = Some(serial_number()?);
    let since_1970 = Duration::from_nanos(wall.as_nanos().unsigned_abs());
    let at = |offset: Duration| rcgen::date_time_ymd(1970, 1, 1) + offset;
    params.not_before = at(since_1970.saturating_sub(VALID_BEFORE));
    // Certificates have no fractions of seconds.
    params.not_after = at(later(wall, lifetime)
        .as_nanos()
        .try_into()
        .map_or(since_1970, Duration::from_nanos));
    Ok(params)
}

/// Returns a random serial number. By default, the library derives it from the key, so that a renewed
/// certificate would have the number of the old one.
fn serial_number() -> Result<SerialNumber, RandomError> {
    let mut bytes = random::bytes::<SERIAL_BYTES>()?;
    // A serial number is positive, and its first byte is not zero.
    if let Some(first) = bytes.first_mut() {
        *first = (*first & 0x7f) | 0x40;
    }
    Ok(SerialNumber::from_slice(&*bytes))
}

/// Returns the host names and the local names, each once.
fn alternative_names(host_names: &[HostName]) -> Result<Vec<SanType>, AuthorityError> {
    let local = LOCAL_NAMES
        .iter()
        .filter_map(|name| HostName::parse(name).ok());
    let mut names: Vec<HostName> = Vec::new();
    for name in host_names.iter().cloned().chain(local) {
        if !names.contains(&name) {
            names.push(name);
        }
        if names.len() > NAMES_MAX {
            let count = host_names.len().saturating_add(LOCAL_NAMES.len());
            return Err(AuthorityError::TooManyNames { count });
        }
    }
    names
        .into_iter()
        .map(|name| {
            Ok(match name {
                HostName::Dns(name) => SanType::DnsName(name.as_str().try_into()?),
                HostName::Address(address) => SanType::IpAddress(address),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
