//! The security folder of an engine.
//!
//! ```text
//! authority.crt    certificate of the authority                 mode 0644
//! authority.key    its private key, if the authority is private      0600
//! engine.crt       certificate of the engine                         0644
//! engine.key       its private key                                   0600
//! access.toml      accounts and rules                                0600
//! ```
//!
//! The key of the engine stays when its certificate is renewed. So a renewal replaces one file, and the two
//! files fit together after an interruption at any point.
//!
//! A folder without `authority.key` uses the certificates of another authority, for example that of a
//! company. Then `engine.crt` may contain certificates of intermediate authorities after that of the
//! engine, and the administrator of the authority renews the certificate.

use std::fs;
use std::path::{Path, PathBuf};

use trunkline_types::Timestamp;

use crate::authority::{Authority, AuthorityError, EngineSubject, PrivateKey};
use crate::certificate::{Certificate, CertificateError};
use crate::files::{self, Existing, FileError, Secrecy, ShellWord};
use crate::pem::{CERTIFICATE, PemError};

/// Names of the files.
pub const AUTHORITY_CERTIFICATE: &str = "authority.crt";
/// See [`AUTHORITY_CERTIFICATE`].
pub const AUTHORITY_KEY: &str = "authority.key";
/// See [`AUTHORITY_CERTIFICATE`].
pub const ENGINE_CERTIFICATE: &str = "engine.crt";
/// See [`AUTHORITY_CERTIFICATE`].
pub const ENGINE_KEY: &str = "engine.key";
/// See [`AUTHORITY_CERTIFICATE`].
pub const ACCESS: &str = "access.toml";

/// Maximum size of the file of a key or a certificate, in bytes.
const PEM_BYTES_MAX: usize = 256 << 10;

/// The content of a new `access.toml`.
const NEW_ACCESS: &str = include_str!("folder/access.toml");

/// A security folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecurityFolder {
    path: PathBuf,
}

/// What an engine needs to prove its identity to clients.
#[derive(Debug)]
pub struct EngineIdentity {
    /// The certificate of the engine.
    pub certificate: Certificate,
    /// Its private key.
    pub key: PrivateKey,
    /// The certificates between that of the engine and that of the authority, each the issuer of the one
    /// before it. A private authority has none.
    pub intermediates: Vec<Certificate>,
    /// The certificate of the authority. The engine sends it after the others, because a new client knows no
    /// more than its fingerprint.
    pub authority: Certificate,
}

/// An error of the security folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder does not exist.
    #[error("there is no security folder {}; create it with `trunkline init`", ShellWord(.0))]
    NoFolder(PathBuf),
    /// A file of the folder does not exist.
    #[error(
        "the security folder {} has no {file}; restore it from a backup, or remove the folder and run \
         `trunkline init`, after which every client must join again",
        ShellWord(folder)
    )]
    Incomplete {
        /// The folder.
        folder: PathBuf,
        /// The missing file.
        file: &'static str,
    },
    /// The folder for a new engine contains files.
    #[error(
        "{} already contains files, and nothing was changed; specify another folder, or remove \
         this one if no client uses its keys",
        ShellWord(.0)
    )]
    NotEmpty(PathBuf),
    /// A file or the folder cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The content of a file is wrong.
    #[error("{}: {error}", ShellWord(path))]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: AuthorityError,
    },
    /// A certificate or a key cannot be created.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The certificate of the engine is not by the authority of the folder.
    #[error(
        "{} was not issued by the authority in the same folder; restore both from the same backup, or \
         append the certificates of the authorities between them, each after the one that it issued",
        ShellWord(.0)
    )]
    OtherAuthority(PathBuf),
    /// The certificate of the engine can only be renewed by others.
    #[error(
        "{} was issued by an authority whose key is not in the same folder; replace it with a new \
         certificate of that authority",
        ShellWord(.0)
    )]
    NotOurAuthority(PathBuf),
}

impl SecurityFolder {
    /// Creates the folder for a new engine, with an authority, a certificate of the engine, and an `access.toml`
    /// without accounts. `wall` is the time.
    ///
    /// After an error, none of the new files is left. The certificate of the engine is written last, so a
    /// folder that is incomplete after a power loss has no `engine.crt`.
    ///
    /// # Errors
    /// [`FolderError::NotEmpty`] if the folder contains anything: nothing is ever overwritten.
    pub fn create(
        path: &Path,
        subject: &EngineSubject,
        wall: Timestamp,
    ) -> Result<Self, FolderError> {
        let authority = Authority::create(&subject.name, wall)?;
        let key = PrivateKey::generate()?;
        let certificate = authority.issue(subject, &key, wall)?;
        files::create_folder(path)?;
        files::check_folder(path)?;
        let is_empty = fs::read_dir(path).and_then(|mut entries| entries.next().transpose());
        match is_empty {
            Ok(None) => {}
            Ok(Some(_)) => return Err(FolderError::NotEmpty(path.to_owned())),
            Err(error) => return Err(FileError::io(path)(error).into()),
        }
        let folder = Self {
            path: path.to_owned(),
        };
        let (authority_key, engine_key) = (authority.key().to_pem(), key.to_pem());
        let new = [
            (ACCESS, Secrecy::Private, NEW_ACCESS),
            (AUTHORITY_KEY, Secrecy::Private, authority_key.as_str()),
            (
                AUTHORITY_CERTIFICATE,
                Secrecy::Public,
                &authority.certificate().to_pem(),
            ),
            (ENGINE_KEY, Secrecy::Private, engine_key.as_str()),
            (ENGINE_CERTIFICATE, Secrecy::Public, &certificate.to_pem()),
        ];
        let mut written = Vec::new();
        for (name, secrecy, content) in new {
            let file = path.join(name);
            if let Err(error) = files::write(&file, content.as_bytes(), secrecy, Existing::Refuse) {
                // Another program may have written the file that exists; only those of this call are removed.
                for file in written {
                    let _ = fs::remove_file(file);
                }
                return Err(match error {
                    FileError::Exists(_) => FolderError::NotEmpty(path.to_owned()),
                    error => error.into(),
                });
            }
            written.push(file);
        }
        files::sync_folder(files::folder_of(path))?;
        Ok(folder)
    }

    /// Opens a folder: checks the owners and permissions of the folder and of all files, and that keys and
    /// certificates belong together. `authority.key` may be missing. Certificates may be expired; [`SecurityFolder::renew`] replaces that of the
    /// engine.
    ///
    /// # Errors
    /// [`FolderError`] with the first problem. The engine must not start then.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        match files::check_folder(path) {
            Ok(()) => {}
            Err(FileError::Missing(path)) => return Err(FolderError::NoFolder(path)),
            Err(error) => return Err(error.into()),
        }
        let folder = Self {
            path: path.to_owned(),
        };
        // The largest permitted access.toml is read by the accounts; only its permissions matter here.
        folder.read(ACCESS, Secrecy::Private, crate::accounts::FILE_BYTES_MAX)?;
        match folder.authority() {
            Ok(_)
            | Err(FolderError::Incomplete {
                file: AUTHORITY_KEY,
                ..
            }) => {}
            Err(error) => return Err(error),
        }
        folder.engine()?;
        Ok(folder)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the paths of the files with the certificates and the key of the engine.
    pub fn engine_files(&self) -> [PathBuf; 3] {
        [ENGINE_CERTIFICATE, ENGINE_KEY, AUTHORITY_CERTIFICATE].map(|name| self.path.join(name))
    }

    /// Returns the path of the file of accounts and rules.
    pub fn access_file(&self) -> PathBuf {
        self.path.join(ACCESS)
    }

    /// Reads the certificate of the authority.
    ///
    /// # Errors
    /// [`FolderError`] if the file is missing, can be written by others, or has another content.
    pub fn authority_certificate(&self) -> Result<Certificate, FolderError> {
        self.certificate(AUTHORITY_CERTIFICATE)
    }

    /// Reads the authority with its private key. Drop it after use, so that the key does not stay in memory.
    ///
    /// # Errors
    /// [`FolderError`] if a file is missing, others can access the key, or the key belongs to another
    /// certificate.
    pub fn authority(&self) -> Result<Authority, FolderError> {
        let certificate = self.authority_certificate()?;
        let key = self.read(AUTHORITY_KEY, Secrecy::Private, PEM_BYTES_MAX)?;
        let authority = Authority::from_pem(&certificate.to_pem(), &key);
        authority.map_err(|error| {
            let name = match error {
                AuthorityError::NotAnAuthority => AUTHORITY_CERTIFICATE,
                _ => AUTHORITY_KEY,
            };
            self.content(name)(error)
        })
    }

    /// Reads the certificate and the key of the engine, and the certificate of the authority.
    ///
    /// # Errors
    /// [`FolderError`] if a file is missing or accessible by others, or if they do not belong together.
    pub fn engine(&self) -> Result<EngineIdentity, FolderError> {
        let authority = self.authority_certificate()?;
        if !authority.is_authority() {
            return Err(self.content(AUTHORITY_CERTIFICATE)(
                AuthorityError::NotAnAuthority,
            ));
        }
        let text = self.read(ENGINE_CERTIFICATE, Secrecy::Public, PEM_BYTES_MAX)?;
        let chain = Certificate::all_from_pem(&text);
        let chain = chain.map_err(|error| self.content(ENGINE_CERTIFICATE)(error.into()))?;
        let mut chain = chain.into_iter();
        let Some(certificate) = chain.next() else {
            let nothing = CertificateError::Pem(PemError::Nothing(CERTIFICATE));
            return Err(self.content(ENGINE_CERTIFICATE)(nothing.into()));
        };
        // Some authorities deliver their own certificate with the chain.
        let intermediates: Vec<_> = chain.filter(|one| *one != authority).collect();
        let key = self.read(ENGINE_KEY, Secrecy::Private, PEM_BYTES_MAX)?;
        let key = PrivateKey::from_pem(&key).map_err(self.content(ENGINE_KEY))?;
        if key.fingerprint() != certificate.fingerprint() {
            return Err(self.content(ENGINE_KEY)(AuthorityError::OtherKey));
        }
        let issued = [&certificate].into_iter().chain(&intermediates);
        let issuers = intermediates.iter().chain([&authority]);
        if !issued
            .zip(issuers)
            .all(|(one, issuer)| one.is_signed_by(issuer))
        {
            return Err(FolderError::OtherAuthority(
                self.path.join(ENGINE_CERTIFICATE),
            ));
        }
        Ok(EngineIdentity {
            certificate,
            key,
            intermediates,
            authority,
        })
    }

    /// Replaces the certificate of the engine, with the same key and names. `wall` is the time. Call it if
    /// [`Certificate::needs_renewal`] returns true.
    ///
    /// # Errors
    /// [`FolderError`]; the old certificate is then still there. [`FolderError::NotOurAuthority`] without
    /// `authority.key`.
    pub fn renew(&self, wall: Timestamp) -> Result<EngineIdentity, FolderError> {
        let old = self.engine()?;
        let authority = self.authority().map_err(|error| match error {
            FolderError::Incomplete {
                file: AUTHORITY_KEY,
                ..
            } => FolderError::NotOurAuthority(self.path.join(ENGINE_CERTIFICATE)),
            error => error,
        })?;
        let certificate = authority.renew(&old.certificate, &old.key, wall)?;
        let path = self.path.join(ENGINE_CERTIFICATE);
        let text = certificate.to_pem();
        files::write(&path, text.as_bytes(), Secrecy::Public, Existing::Replace)?;
        Ok(EngineIdentity { certificate, ..old })
    }

    fn certificate(&self, name: &'static str) -> Result<Certificate, FolderError> {
        let text = self.read(name, Secrecy::Public, PEM_BYTES_MAX)?;
        let certificate = Certificate::from_pem(&text);
        certificate.map_err(|error: CertificateError| self.content(name)(error.into()))
    }

    fn read(
        &self,
        name: &'static str,
        secrecy: Secrecy,
        max: usize,
    ) -> Result<zeroize::Zeroizing<String>, FolderError> {
        files::read(&self.path.join(name), secrecy, max).map_err(|error| match error {
            FileError::Missing(_) => FolderError::Incomplete {
                folder: self.path.clone(),
                file: name,
            },
            error => error.into(),
        })
    }

    fn content(&self, name: &'static str) -> impl Fn(AuthorityError) -> FolderError + '_ {
        move |error| FolderError::Content {
            path: self.path.join(name),
            error,
        }
    }
}

#[cfg(test)]
mod tests;
