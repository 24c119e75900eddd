//! Client certificates: a certificate with its private key, with which a program proves its identity.

use std::fmt;
use std::path::Path;

use crate::authority::{AuthorityError, PrivateKey};
use crate::certificate::{CERTIFICATE_BYTES_MAX, Certificate, CertificateError};
use crate::files::{self, FileError, Secrecy, ShellWord};
use crate::keys::KEY_FILE_BYTES_MAX;
use crate::pem::{BLOCKS_MAX, CERTIFICATE, PemError};

/// Maximum size of a file of certificates, in bytes. Base64 is longer than DER.
const CHAIN_BYTES_MAX: usize = 2 * BLOCKS_MAX * CERTIFICATE_BYTES_MAX;

/// A client certificate and its private key.
pub struct ClientCertificate {
    certificate: Certificate,
    intermediates: Vec<Certificate>,
    key: PrivateKey,
}

/// An error of the files of a client certificate.
#[derive(Debug, thiserror::Error)]
pub enum ClientCertificateError {
    /// A file cannot be read, or others can access the private key.
    #[error(transparent)]
    File(#[from] FileError),
    /// The certificate cannot be read.
    #[error("{path}: {error}")]
    Certificate {
        /// The file, quoted as one shell word.
        path: String,
        /// The reason.
        error: CertificateError,
    },
    /// The private key cannot be read.
    #[error("{path}: {error}")]
    Key {
        /// The file, quoted as one shell word.
        path: String,
        /// The reason.
        error: AuthorityError,
    },
    /// The private key is that of another certificate.
    #[error(
        "the private key in {key} is not that of the certificate in {certificate}; specify the \
         files that were created together"
    )]
    OtherKey {
        /// The file of the certificate, quoted as one shell word.
        certificate: String,
        /// The file of the key, quoted as one shell word.
        key: String,
    },
}

/// Shows no key.
impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate")
            .field("certificate", &self.certificate.fingerprint())
            .finish_non_exhaustive()
    }
}

impl ClientCertificate {
    /// Loads a certificate, perhaps followed by those of its issuers, and its private key (PKCS #8),
    /// from PEM files.
    ///
    /// # Errors
    /// [`ClientCertificateError`], also if other users can access the private key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, ClientCertificateError> {
        let text = files::read(certificate, Secrecy::Public, CHAIN_BYTES_MAX)?;
        let shown = |path| ShellWord(path).to_string();
        let unreadable = |error| ClientCertificateError::Certificate {
            path: shown(certificate),
            error,
        };
        let mut chain = Certificate::all_from_pem(&text)
            .map_err(unreadable)?
            .into_iter();
        let nothing = || unreadable(PemError::Nothing(CERTIFICATE).into());
        let own = chain.next().ok_or_else(nothing)?;
        let text = files::read(key, Secrecy::Private, KEY_FILE_BYTES_MAX)?;
        let private = PrivateKey::from_pem(&text).map_err(|error| ClientCertificateError::Key {
            path: shown(key),
            error,
        })?;
        if private.fingerprint() != own.fingerprint() {
            return Err(ClientCertificateError::OtherKey {
                certificate: shown(certificate),
                key: shown(key),
            });
        }
        Ok(Self {
            certificate: own,
            intermediates: chain.collect(),
            key: private,
        })
    }

    /// Returns the certificate of the client itself.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Returns those certificates of its issuers that the file contains.
    pub fn intermediates(&self) -> &[Certificate] {
        &self.intermediates
    }

    /// Returns the private key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use trunkline_types::Timestamp;

    use super::*;
    use crate::authority::Authority;

    /// A folder with the files of two certificates, `a` and `b`.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            let authority =
                Authority::create(name, Timestamp::from_nanos(1_790_000_000_000_000_000)).unwrap();
            let path = |kind: &str| folder.path().join(format!("{name}.{kind}"));
            fs::write(path("crt"), authority.certificate().to_pem()).unwrap();
            fs::write(path("key"), &*authority.key().to_pem()).unwrap();
            fs::set_permissions(path("key"), Permissions::from_mode(0o600)).unwrap();
        }
        folder
    }

    #[test]
    fn certificate_and_key_are_loaded_if_they_belong_together() {
        let folder = folder();
        let load = |certificate: &str, key: &str| {
            ClientCertificate::load(&folder.path().join(certificate), &folder.path().join(key))
        };
        let sut = load("a.crt", "a.key").unwrap();
        assert!(sut.certificate().subject().ends_with(" a"));
        assert_eq!(sut.key().fingerprint(), sut.certificate().fingerprint());
        assert!(sut.intermediates().is_empty());
        let fault = |certificate: &str, key: &str| {
            let error = load(certificate, key).err();
            error.map_or_else(String::new, |error| error.to_string())
        };
        let other = fault("a.crt", "b.key");
        assert!(other.contains("is not that of the certificate"), "{other}");
        let swapped = fault("a.key", "a.key");
        assert!(
            swapped.contains("a.key") && swapped.contains("CERTIFICATE"),
            "{swapped}"
        );
        let swapped = fault("a.crt", "a.crt");
        assert!(swapped.contains("other users can access"), "{swapped}");
        let missing = fault("c.crt", "a.key");
        assert!(
            missing.contains("c.crt") && missing.contains("does not exist"),
            "{missing}"
        );
    }

    #[test]
    fn key_that_others_can_read_is_refused() {
        let folder = folder();
        let key = folder.path().join("a.key");
        fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
        let error = ClientCertificate::load(&folder.path().join("a.crt"), &key);
        assert!(matches!(
            error.err(),
            Some(ClientCertificateError::File(FileError::NotPrivate { .. }))
        ));
    }
}
