//! The engines that the user of this program has joined, and how to connect to them.
//!
//! ```text
//! ~/.config/trunkline/contexts/plant.toml    URL, account, certificate of the authority
//!                              plant.key     private key of the program, mode 0600
//!                              selected      name of the selected context
//! ```
//!
//! The folder is `trunkline` in `XDG_CONFIG_HOME` or in `~/.config`. A connection to the URL of a
//! context uses the context: it is encrypted, accepts only the engine of that authority, and logs in
//! with the key. A context can also name a key in another file, a client certificate with its private
//! key, or no key, for people who log in with a password.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toml_edit::DocumentMut;
use trunkline_client::{Credentials, LoginKey};
use trunkline_identity::Fingerprint;
use trunkline_identity::certificate::{Certificate, CertificateError};
use trunkline_identity::client_certificate::{ClientCertificate, ClientCertificateError};
use trunkline_identity::files::{self, FileError};
use trunkline_identity::keys::{KeyError, ProgramKey, PublicKey, login_signature};
use trunkline_identity::token::{JoinToken, TokenTextError};
use trunkline_net::{Dialler, TlsClient, TlsError, TlsIdentity, Trust};
use trunkline_proto::message::login::TokenSecret;
use trunkline_stream::{DIRECTORY_PORT, EngineSecurity, Options};
use trunkline_types::url::Transport;
use trunkline_types::{StreamUrl, Url};

use crate::client::{CallError, Client, ConnectError, ConnectOptions};

/// Longest name of a context, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Largest file of a context, in bytes.
const FILE_BYTES_MAX: usize = 64 << 10;

/// The contexts of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contexts {
    folder: PathBuf,
}

/// An engine that the user has joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Context {
    /// Name of the context, for people.
    pub name: String,
    /// Host and port of the engine.
    pub url: Url,
    /// Account of this program at the engine; empty if it is not known, because the key was not
    /// registered by a token.
    pub account: String,
    /// Role of the account when the program joined; empty without one.
    pub role: String,
    /// Certificate of the authority that issues the engine's certificates.
    pub authority: Certificate,
    /// File of the private key; `None` if a password is the only proof.
    pub key: Option<PathBuf>,
    /// File of a client certificate, with which the program logs in. The private key is then that of
    /// the certificate.
    pub certificate: Option<PathBuf>,
}

/// The name of a context, with its content or the reason why its file cannot be used.
pub type NamedContext = (String, Result<Context, ContextError>);

/// A context for an engine that the program has not joined with a token.
#[derive(Clone, Debug)]
pub struct NewContext<'a> {
    /// Name of the context.
    pub name: &'a str,
    /// Host and port of the engine.
    pub url: &'a Url,
    /// Account of the program at the engine; empty if it is not known.
    pub account: &'a str,
    /// Certificate of the authority that issues the engine's certificates.
    pub authority: Certificate,
    /// The key with which the program logs in.
    pub key: NewKey<'a>,
}

/// The key of a new context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewKey<'a> {
    /// A new key, in the folder of the contexts.
    Create,
    /// The key in this file, which stays where it is.
    File(&'a Path),
    /// A client certificate and its private key, in files that stay where they are.
    Certificate {
        /// File of the certificate, in PEM form.
        certificate: &'a Path,
        /// File of its private key, PKCS #8 in PEM form.
        key: &'a Path,
    },
    /// No key: a password is the only proof.
    None,
}

/// What an account at the engine must list, so that the engine accepts the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextProof {
    /// The public key.
    Key(PublicKey),
    /// The SHA-256 of the public key of the client certificate.
    Certificate(Fingerprint),
}

/// How a connection is encrypted, and how the client proves its identity.
#[derive(Clone, Debug)]
pub struct ClientSecurity {
    /// `None` for Unix sockets.
    tls: Option<Arc<TlsClient>>,
    credentials: Option<Credentials>,
}

/// An error of the contexts of a user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// There is no place for the contexts.
    #[error(
        "there is no folder for contexts: neither XDG_CONFIG_HOME nor HOME contains an absolute path; \
         set one of them"
    )]
    NoFolder,
    /// There is no such context.
    #[error("there is no context {name}; `trunkline ctx ls` lists the contexts")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The name cannot be the name of a file.
    #[error(
        "{name:?} is not a name for a context; use 1 to {NAME_BYTES_MAX} letters, digits, and . _ - in \
         between"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The name is taken.
    #[error(
        "there is already a context {name}; choose another name with --name, or remove it with \
         `trunkline ctx rm {name}`"
    )]
    Exists {
        /// The name.
        name: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file of a context cannot be read, or other users can change it.
    #[error("{0}")]
    Trusted(#[from] FileError),
    /// The file `selected` does not contain the name of a context.
    #[error(
        "{} does not contain the name of a context; run `trunkline ctx select NAME`",
        path.display()
    )]
    Selected {
        /// The file.
        path: PathBuf,
    },
    /// The URL names no engine on a TCP port.
    #[error("{url} is not a host and port of an engine; use a URL such as tl://plant.example:5850")]
    Url {
        /// The URL.
        url: String,
    },
    /// A file has another content than expected.
    #[error("{} is not the file of a context ({reason}); remove the context and join again", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The private key cannot be used.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// The client certificate cannot be used.
    #[error("{0}")]
    Certificate(#[from] ClientCertificateError),
    /// The certificate of the authority cannot be used.
    #[error("{0}")]
    Tls(#[from] TlsError),
}

/// The reason why a program could not join an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The joining token is mistyped.
    #[error("{0}")]
    Token(#[from] TokenTextError),
    /// The context cannot be stored, or the URL names no engine on a TCP port.
    #[error("{0}")]
    Context(#[from] ContextError),
    /// The client cannot connect.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// The engine cannot be reached, or refused the token.
    #[error("{0}")]
    Refused(CallError),
    /// The certificate of the authority cannot be read.
    #[error("the engine's authority has a certificate that cannot be read: {0}")]
    Authority(#[from] CertificateError),
    /// The engine did not show its authority.
    #[error("the engine does not show the certificate of its authority; update the engine")]
    NoAuthority,
}

/// A key in a file, with which a client logs in.
struct FileKey(ProgramKey);

impl LoginKey for FileKey {
    fn public_key(&self) -> [u8; 32] {
        *self.0.public().as_bytes()
    }

    fn sign_login(&self, binding: &[u8; 32]) -> [u8; 64] {
        login_signature(&self.0, binding)
    }
}

impl ClientSecurity {
    /// Accepts only the engine of this context, and logs in with the key or the certificate of the
    /// context, if it has one.
    ///
    /// # Errors
    /// [`ContextError`] if the key or a certificate cannot be used.
    pub fn of(context: &Context) -> Result<Self, ContextError> {
        match (&context.key, &context.certificate) {
            (None, _) => Self::accepting(&context.authority),
            (Some(key), None) => {
                let key = ProgramKey::load(key)?;
                let security = Self::accepting(&context.authority)?;
                Ok(security.with(Credentials::Key(Arc::new(FileKey(key)))))
            }
            (Some(key), Some(certificate)) => {
                let client = ClientCertificate::load(certificate, key)?;
                let chain = [client.certificate()].into_iter();
                let identity = TlsIdentity {
                    chain: chain
                        .chain(client.intermediates())
                        .map(|one| one.der().to_vec())
                        .collect(),
                    key: client.key().pkcs8().to_vec(),
                };
                Self::trusting(&context.authority, Some(identity))
            }
        }
    }

    /// Accepts only the engine whose certificate this authority has issued, without a proof of the
    /// client's identity; see [`with`](Self::with).
    ///
    /// # Errors
    /// [`ContextError::Tls`] if the certificate is not one of an authority.
    pub fn accepting(authority: &Certificate) -> Result<Self, ContextError> {
        Self::trusting(authority, None)
    }

    fn trusting(
        authority: &Certificate,
        identity: Option<TlsIdentity>,
    ) -> Result<Self, ContextError> {
        let trust = Trust::Authorities(vec![authority.der().to_vec()]);
        Ok(Self {
            tls: Some(Arc::new(TlsClient::new(trust, identity)?)),
            credentials: None,
        })
    }

    /// Does not encrypt, for Unix sockets, which nobody else can read; see [`with`](Self::with). Over
    /// any other connection, the client sends no proof of its identity then.
    pub fn unencrypted() -> Self {
        Self {
            tls: None,
            credentials: None,
        }
    }

    /// Logs in with these credentials instead.
    #[must_use]
    pub fn with(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Returns the same for the streams to and from the engine's machine; `None` without encryption.
    pub fn for_streams(&self) -> Option<EngineSecurity> {
        Some(EngineSecurity {
            tls: Arc::clone(self.tls.as_ref()?),
            credentials: self.credentials.clone(),
        })
    }

    pub(crate) fn credentials(&self) -> Option<Credentials> {
        self.credentials.clone()
    }

    /// Returns how to reach an engine on a TCP port; `None` without encryption.
    pub(crate) fn dialler(&self, url: &Url) -> Option<Dialler> {
        let host = url.host.as_deref().unwrap_or("localhost");
        let tls = Arc::clone(self.tls.as_ref()?);
        Some(Dialler::tls(host, url.port_or_default(), tls))
    }
}

/// Returns the default options of an endpoint of a stream whose peer has the URL `peer`. If the user has
/// joined the engine of the peer's machine, the stream is encrypted, and the endpoint uses the user's key.
///
/// # Errors
/// [`ContextError`] if a context cannot be used. A URL that is not valid is an error when the endpoint is
/// created.
pub fn stream_options(peer: &str) -> Result<Options, ContextError> {
    let mut options = Options::to(peer);
    if let Ok(contexts) = Contexts::of_user()
        && let Some(engine) = engine_of_peer(peer)
        && let Some(context) = contexts.for_url(&engine)?
    {
        options.security = ClientSecurity::of(&context)?.for_streams();
    }
    Ok(options)
}

/// Returns the URL of the engine that knows the endpoint of a stream with the URL `peer`; `None` for this
/// machine, and for a URL that is not valid.
pub fn engine_of_peer(peer: &str) -> Option<Url> {
    let peer = StreamUrl::parse(peer).ok()?;
    if peer.host() == "localhost" {
        return None;
    }
    let host = match peer.host().contains(':') {
        true => format!("[{}]", peer.host()),
        false => peer.host().to_owned(),
    };
    let port = peer.port().unwrap_or(DIRECTORY_PORT);
    Url::parse(&format!("tl://{host}:{port}")).ok()
}

impl Contexts {
    /// Returns the contexts of the user of this program.
    ///
    /// # Errors
    /// [`ContextError::NoFolder`].
    pub fn of_user() -> Result<Self, ContextError> {
        let folder_in = |name: &str| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let config = folder_in("XDG_CONFIG_HOME")
            .or_else(|| Some(folder_in("HOME")?.join(".config")))
            .ok_or(ContextError::NoFolder)?;
        Ok(Self::in_folder(config.join("trunkline/contexts")))
    }

    /// Returns the contexts in a folder, which need not exist.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the names of all contexts with their content, ordered by name. A file that cannot be used
    /// does not affect the others.
    ///
    /// # Errors
    /// [`ContextError::File`] if the folder cannot be read.
    pub fn all(&self) -> Result<Vec<NamedContext>, ContextError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(&self.folder, error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry
                .map_err(|error| self.failed(&self.folder, error))?
                .file_name();
            let name = name.to_string_lossy();
            if let Some(name) = name.strip_suffix(".toml").filter(|name| is_name(name)) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        let read = |name: String| {
            let context = self.get(&name);
            (name, context)
        };
        Ok(names.into_iter().map(read).collect())
    }

    /// Returns the context with this name.
    ///
    /// # Errors
    /// [`ContextError`].
    pub fn get(&self, name: &str) -> Result<Context, ContextError> {
        let path = self.file(name, "toml")?;
        let text = match read(&path) {
            Ok(text) => text,
            Err(FileError::Missing(_)) => {
                let name = name.to_owned();
                return Err(ContextError::Unknown { name });
            }
            Err(error) => return Err(error.into()),
        };
        let wrong = |reason: String| ContextError::Content {
            path: path.clone(),
            reason,
        };
        let document: DocumentMut = text
            .parse()
            .map_err(|error: toml_edit::TomlError| wrong(error.message().to_owned()))?;
        let text = |key: &str| {
            let value = document.get(key).and_then(|item| item.as_str());
            value.ok_or_else(|| wrong(format!("it has no text {key}")))
        };
        let url = Url::parse(text("url")?).map_err(|error| wrong(error.to_string()))?;
        let authority = Certificate::from_pem(text("authority")?);
        let key = match document.contains_key("key") {
            false => Some(self.file(name, "key")?),
            true => Some(text("key")?)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
        };
        let certificate = match document.contains_key("certificate") {
            false => None,
            true if key.is_none() => {
                let reason = "it has a certificate without the key of the certificate";
                return Err(wrong(reason.to_owned()));
            }
            true => Some(PathBuf::from(text("certificate")?)),
        };
        Ok(Context {
            name: name.to_owned(),
            url,
            account: text("account")?.to_owned(),
            role: text("role").unwrap_or_default().to_owned(),
            authority: authority.map_err(|error| wrong(error.to_string()))?,
            key,
            certificate,
        })
    }

    /// Returns the path of the file of a context, which need not exist.
    ///
    /// # Errors
    /// [`ContextError::Name`].
    pub fn path(&self, name: &str) -> Result<PathBuf, ContextError> {
        self.file(name, "toml")
    }

    /// Returns the context of the engine at `url`, if there is one.
    ///
    /// A file that cannot be used matters only if it may be that of this engine: without its context,
    /// the connection would not be encrypted. A file that does not contain the URL of its engine may belong
    /// to any engine on another machine.
    ///
    /// # Errors
    /// [`ContextError`] of a file that cannot be used and may be that of this engine.
    pub fn for_url(&self, url: &Url) -> Result<Option<Context>, ContextError> {
        if !matches!(url.via, Transport::Best | Transport::Tcp) {
            return Ok(None);
        }
        let is_same = |other: &Url| {
            other.host == url.host && other.port_or_default() == url.port_or_default()
        };
        let (mut of_this, mut of_unknown) = (None, None);
        for (name, context) in self.all()? {
            match context {
                Ok(context) if is_same(&context.url) => return Ok(Some(context)),
                Ok(_) => {}
                Err(error) => {
                    let place = match self.stated_url(&name) {
                        Some(stated) if is_same(&stated) => &mut of_this,
                        Some(_) => continue,
                        None => &mut of_unknown,
                    };
                    place.get_or_insert(error);
                }
            }
        }
        let of_unknown = of_unknown.filter(|_| !is_this_machine(url));
        of_this.or(of_unknown).map_or(Ok(None), Err)
    }

    /// Returns the URL in the file of a context, even if the rest of the file cannot be used.
    fn stated_url(&self, name: &str) -> Option<Url> {
        let text = read(&self.file(name, "toml").ok()?).ok()?;
        // The whole file may not be TOML, so each line is read alone.
        let stated = text.lines().find_map(|line| {
            let document: DocumentMut = line.trim().parse().ok()?;
            Some(document.get("url")?.as_str()?.to_owned())
        });
        Url::parse(&stated?).ok()
    }

    /// Returns the name of the selected context; `None` if none is selected.
    ///
    /// # Errors
    /// [`ContextError::Trusted`] or [`ContextError::Selected`].
    pub fn selected(&self) -> Result<Option<String>, ContextError> {
        let path = self.folder.join("selected");
        match read(&path) {
            Ok(name) if is_name(name.trim()) => Ok(Some(name.trim().to_owned())),
            Ok(_) => Err(ContextError::Selected { path }),
            Err(FileError::Missing(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Selects a context, which commands then use by default; `None` selects none.
    ///
    /// # Errors
    /// [`ContextError`].
    pub fn select(&self, name: Option<&str>) -> Result<(), ContextError> {
        let path = self.folder.join("selected");
        let Some(name) = name else {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(self.failed(&path, error))
                }
                _ => Ok(()),
            };
        };
        self.get(name)?;
        self.write(&path, name, false)
    }

    /// Removes a context, and its key unless the key is in another folder. The account at the engine
    /// stays.
    ///
    /// # Errors
    /// [`ContextError`].
    pub fn remove(&self, name: &str) -> Result<(), ContextError> {
        let file = self.file(name, "toml")?;
        if !file.exists() {
            let name = name.to_owned();
            return Err(ContextError::Unknown { name });
        }
        if self
            .selected()
            .is_ok_and(|selected| selected.as_deref() == Some(name))
        {
            self.select(None)?;
        }
        for path in [self.file(name, "key")?, file] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.failed(&path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Stores a context for an engine whose authority is known. The first context is selected. The command
    /// does not contact the engine.
    ///
    /// Returns the key or the certificate that the engine must know; `None` without a key.
    ///
    /// # Errors
    /// [`ContextError`]. No context and no new key are then left.
    pub fn add(&self, new: &NewContext<'_>) -> Result<Option<ContextProof>, ContextError> {
        let &NewContext {
            name,
            url,
            account,
            ref authority,
            key,
        } = new;
        check_engine(url)?;
        let file = self.unused_file(name)?;
        ClientSecurity::accepting(authority)?;
        let key_file = self.file(name, "key")?;
        let absolute =
            |path: &Path| std::path::absolute(path).map_err(|error| self.failed(path, error));
        let (key, certificate, proof) = match key {
            NewKey::Create => {
                let public = ProgramKey::create(&key_file)?.public();
                let proof = ContextProof::Key(public);
                (Some(key_file.clone()), None, Some(proof))
            }
            NewKey::File(path) => {
                let proof = ContextProof::Key(ProgramKey::load(path)?.public());
                (Some(absolute(path)?), None, Some(proof))
            }
            NewKey::Certificate { certificate, key } => {
                let client = ClientCertificate::load(certificate, key)?;
                let proof = ContextProof::Certificate(client.certificate().fingerprint());
                let files = (absolute(key)?, absolute(certificate)?);
                (Some(files.0), Some(files.1), Some(proof))
            }
            NewKey::None => (None, None, None),
        };
        let context = Context {
            name: name.to_owned(),
            url: url.clone().without_name(),
            account: account.to_owned(),
            role: String::new(),
            authority: authority.clone(),
            key,
            certificate,
        };
        let stored = self.store(&file, &context);
        match (&stored, new.key) {
            (Err(_), NewKey::Create) => {
                // The error that is reported is the more important one.
                let _ = fs::remove_file(&key_file);
            }
            (Err(_), NewKey::File(_) | NewKey::Certificate { .. } | NewKey::None) | (Ok(()), _) => {
            }
        }
        stored?;
        self.select_if_none(name)?;
        Ok(proof)
    }

    /// Joins an engine with a joining token: creates a key, registers it with the engine, and stores
    /// the context under `name`. The first context is selected.
    ///
    /// The token contains the fingerprint of the engine's authority, so the client sends nothing to
    /// any other engine.
    ///
    /// # Errors
    /// [`JoinError`]. No context and no key are then left; the token is valid unless the engine
    /// accepted it.
    pub fn join(
        &self,
        name: &str,
        url: &Url,
        token: &str,
        timeout: Duration,
    ) -> Result<Context, JoinError> {
        let token = JoinToken::parse(token)?;
        check_engine(url)?;
        let file = self.unused_file(name)?;
        let key_file = self.file(name, "key")?;
        let key = ProgramKey::create(&key_file).map_err(ContextError::Key)?;
        let joined = self.register(name, url, &token, key, timeout);
        let stored = joined.and_then(|context| {
            self.store(&file, &context)?;
            Ok(context)
        });
        match stored {
            Ok(context) => {
                self.select_if_none(name)?;
                Ok(context)
            }
            Err(error) => {
                // The error that is reported is the more important one.
                let _ = fs::remove_file(&key_file);
                Err(error)
            }
        }
    }

    fn register(
        &self,
        name: &str,
        url: &Url,
        token: &JoinToken,
        key: ProgramKey,
        timeout: Duration,
    ) -> Result<Context, JoinError> {
        let trust = Trust::AuthorityFingerprint(*token.authority());
        let tls = TlsClient::new(trust, None).map_err(ContextError::Tls)?;
        let security = ClientSecurity {
            tls: Some(Arc::new(tls)),
            credentials: Some(Credentials::Token {
                secret: TokenSecret(*token.secret()),
                key: Arc::new(FileKey(key)),
            }),
        };
        let url = url.clone().without_name();
        let options = ConnectOptions {
            fail_fast: true,
            security: Some(security),
            ..ConnectOptions::to(&url)
        };
        let client = Client::connect_with(&options)?;
        let session = client.wait_connected(timeout).map_err(JoinError::Refused)?;
        let authority = client.authority().ok_or(JoinError::NoAuthority)?;
        Ok(Context {
            name: name.to_owned(),
            url,
            account: session.account.clone(),
            role: session.role.clone(),
            authority: Certificate::from_der(&authority)?,
            key: Some(self.file(name, "key")?),
            certificate: None,
        })
    }

    fn store(&self, file: &Path, context: &Context) -> Result<(), ContextError> {
        let mut document = DocumentMut::new();
        document["url"] = toml_edit::value(context.url.to_string());
        document["account"] = toml_edit::value(&context.account);
        document["role"] = toml_edit::value(&context.role);
        document["authority"] = toml_edit::value(context.authority.to_pem());
        match &context.key {
            None => document["key"] = toml_edit::value(""),
            Some(key) if *key == file.with_extension("key") => {}
            Some(key) => document["key"] = toml_edit::value(self.path_text(key)?),
        }
        if let Some(certificate) = &context.certificate {
            document["certificate"] = toml_edit::value(self.path_text(certificate)?);
        }
        self.write(file, &document.to_string(), true)
    }

    /// Returns a path as text for the file of a context.
    fn path_text<'p>(&self, path: &'p Path) -> Result<&'p str, ContextError> {
        path.to_str().ok_or_else(|| {
            let reason = "the path is not UTF-8 text; use another path";
            self.failed(path, io::Error::new(io::ErrorKind::InvalidFilename, reason))
        })
    }

    fn select_if_none(&self, name: &str) -> Result<(), ContextError> {
        match self.selected() {
            Ok(Some(_)) => Ok(()),
            Ok(None) | Err(ContextError::Selected { .. }) => self.select(Some(name)),
            Err(error) => Err(error),
        }
    }

    /// Returns the file for a new context.
    fn unused_file(&self, name: &str) -> Result<PathBuf, ContextError> {
        let file = self.file(name, "toml")?;
        match file.exists() {
            false => Ok(file),
            true => Err(ContextError::Exists {
                name: name.to_owned(),
            }),
        }
    }

    /// Returns the path of a file of the context `name`.
    fn file(&self, name: &str, extension: &str) -> Result<PathBuf, ContextError> {
        if !is_name(name) {
            let name = name.to_owned();
            return Err(ContextError::Name { name });
        }
        Ok(self.folder.join(format!("{name}.{extension}")))
    }

    /// Writes a file so that it has the old or the new content after an interruption.
    fn write(&self, path: &Path, text: &str, is_new: bool) -> Result<(), ContextError> {
        let write = || {
            let mut folders = fs::DirBuilder::new();
            folders.recursive(true).mode(0o700).create(&self.folder)?;
            let temporary = path.with_extension("new");
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            if is_new && path.exists() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(&temporary, path)
        };
        write().map_err(|error| self.failed(path, error))
    }

    fn failed(&self, path: &Path, error: io::Error) -> ContextError {
        let path = path.to_owned();
        ContextError::File { path, error }
    }
}

/// Returns true if a URL names an engine on this machine, over a loopback address.
fn is_this_machine(url: &Url) -> bool {
    let host = url.host.as_deref().unwrap_or("localhost");
    let host = host.trim_matches(['[', ']']);
    let address = host.parse::<IpAddr>().map(|address| address.to_canonical());
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Checks that a URL names an engine on a TCP port.
fn check_engine(url: &Url) -> Result<(), ContextError> {
    match url.host.is_some() && matches!(url.via, Transport::Best | Transport::Tcp) {
        true => Ok(()),
        false => Err(ContextError::Url {
            url: url.to_string(),
        }),
    }
}

/// Returns true if a text can be the name of a context, and thereby of a file.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.chars().all(is_plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Reads a file of a context. It decides which engine is trusted, so nobody else may change it.
fn read(path: &Path) -> Result<String, FileError> {
    Ok(files::read_trusted(path, FILE_BYTES_MAX)?.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    fn contexts(files: &[(&str, &str)]) -> (tempfile::TempDir, Contexts) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let contexts = Contexts::in_folder(folder.path().to_owned());
        (folder, contexts)
    }

    fn is_refused(sut: &Contexts, url: &str) -> bool {
        sut.for_url(&Url::parse(url).unwrap()).is_err()
    }

    #[test]
    fn unusable_file_matters_only_for_its_own_engine() {
        // The authority is missing, and the second line is not TOML.
        let text = "url = \"tl://plant.example:5850\"\naccount = \n";
        let (_folder, sut) = contexts(&[("plant.toml", text)]);
        assert!(is_refused(&sut, "tl://plant.example"));
        assert!(is_refused(&sut, "tl+tcp://plant.example:5850"));
        assert!(!is_refused(&sut, "tl://other.example"));
        assert!(!is_refused(&sut, "tl://plant.example:5851"));
        assert!(!is_refused(&sut, "tl://localhost"));
        assert!(!is_refused(&sut, "tl+unix:///run/plant.sock"));
        let all = sut.all().unwrap();
        assert_eq!(all.len(), 1);
        assert!(all[0].1.is_err());
    }

    /// Otherwise a damaged file would make a connection unencrypted.
    #[test]
    fn file_without_a_url_may_be_that_of_any_other_machine() {
        let (_folder, sut) = contexts(&[("plant.toml", "\u{0}")]);
        assert!(is_refused(&sut, "tl://plant.example"));
        assert!(is_refused(&sut, "tl://10.0.0.7:5850"));
        for own in ["tl://localhost:5851", "tl://127.0.0.1", "tl://[::1]"] {
            assert!(!is_refused(&sut, own), "{own}");
        }
    }

    /// Otherwise a command would go to another engine than the user means.
    #[test]
    fn selected_file_without_a_name_is_an_error() {
        for text in ["../../x", "", "a b"] {
            let (folder, sut) = contexts(&[("selected", text)]);
            let refused = sut.selected().unwrap_err().to_string();
            assert!(refused.contains("`trunkline ctx select NAME`"), "{refused}");
            fs::write(folder.path().join("selected"), "plant\n").unwrap();
            assert_eq!(sut.selected().unwrap().as_deref(), Some("plant"));
        }
    }

    /// The file contains the authority, so who changes it decides which engine is trusted.
    #[test]
    fn context_that_others_can_change_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let text = "url = \"tl://plant.example:5850\"\naccount = \"ann\"\n";
        let (folder, sut) = contexts(&[("plant.toml", text), ("selected", "plant")]);
        for (place, mode) in [("plant.toml", 0o666), ("selected", 0o662), ("", 0o777)] {
            let place = folder.path().join(place);
            let before = fs::metadata(&place).unwrap().permissions();
            fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
            let refused = match place.ends_with("selected") {
                true => sut.selected().unwrap_err(),
                false => sut.get("plant").unwrap_err(),
            };
            assert!(matches!(refused, ContextError::Trusted(_)), "{refused}");
            fs::set_permissions(&place, before).unwrap();
        }
    }
}
