//! Decides who the clients of an engine are, and what they may do.
//!
//! ```text
//! HELLO ──> proof: user id | key | joining token | password | client certificate
//!             │
//!             └──> account ──> rules that apply to it ──> Rights
//! ```
//!
//! Proofs that need the disk or much time are checked on a thread of their own. When the file of
//! accounts changes, the sessions whose rights changed end, and their clients connect again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::thread;
use std::time::Duration;

use trunkline_access::{Action, Host, Policy, SubjectError, SubjectRules, UserName};
use trunkline_engine::{
    Caller, Engine as Core, Principal, Rights, RightsClass, SecurityEvent, SecurityNote, Wake,
    Wakes,
};
use trunkline_identity::accounts::{AccessFile, AccessFileError, Accounts, Credential};
use trunkline_identity::attempts::LoginAttempts;
use trunkline_identity::certificate::Certificate;
use trunkline_identity::folder::{EngineIdentity, FolderError, SecurityFolder};
use trunkline_identity::keys::{PublicKey, verify_login};
use trunkline_identity::origin::Origin;
use trunkline_identity::password::{Password, PasswordCheck, PasswordVerifier};
use trunkline_identity::token::{JoinGrant, PendingTokens, TOKEN_LIFETIME};

use trunkline_net::{ClientCertificates, Clock, TlsError, TlsIdentity, TlsServer};
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::pair::{Pair, Paired};
use trunkline_proto::{Channel, Fault, FaultCode};
use trunkline_serve::{
    Authenticator, Identity, LoginAnswer, LoginRefusal, LoginRequest, OnEnd, Standing,
};
use trunkline_types::{Moment, StreamUrl, Tick, Timestamp};

use crate::deployments::lock;

/// Time after which a client that is not known should try again. A person has to act before that
/// helps, so it is long.
const RETRY_UNKNOWN: Duration = Duration::from_secs(10);
/// Interval at which the files of the accounts and certificates are examined for changes.
const EXAMINED_EVERY: Duration = Duration::from_millis(500);
/// Interval at which the validity of the engine's certificate is examined.
const VALIDITY_EVERY: Duration = Duration::from_secs(3600);

/// The reason why an engine cannot use its security folder.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// The folder or one of its certificates and keys.
    #[error("{0}")]
    Folder(#[from] FolderError),
    /// The accounts and rules.
    #[error("{0}")]
    Access(#[from] AccessFileError),
    /// The certificates cannot be used for TLS.
    #[error("the certificates of the security folder cannot be used: {0}")]
    Tls(#[from] TlsError),
    /// The system has no random numbers.
    #[error("the system provides no random numbers: {0}")]
    Random(String),
}

/// Decides about the logins of an engine.
pub(crate) struct Logins {
    /// The user of the engine, who may do everything.
    uid: u32,
    /// Clients on other machines need no proof.
    is_insecure: bool,
    security: Option<Arc<Security>>,
    sessions: Arc<Mutex<OpenSessions>>,
    journal: Journal,
    /// Prepares a thread that checks a proof.
    thread: fn() -> thread::Builder,
}

/// Records security events in the audit trail.
#[derive(Clone)]
struct Journal {
    core: Core,
    clock: Clock,
}

/// What the security folder contains.
struct Security {
    folder: SecurityFolder,
    file: AccessFile,
    tls: Arc<TlsServer>,
    accounts: RwLock<Arc<Accounts>>,
    tokens: Mutex<PendingTokens>,
    attempts: Mutex<LoginAttempts>,
    verifier: PasswordVerifier,
    examined: Mutex<Examined>,
}

/// The last examination of the files.
struct Examined {
    accounts: Option<Version>,
    certificates: Vec<Option<Version>>,
    files_due: Tick,
    validity_due: Tick,
    /// Why the changed accounts are not used.
    accounts_error: Option<String>,
    /// Why the changed certificate is not used, or why it cannot be renewed.
    certificate_error: Option<String>,
    /// End of the validity of the engine's certificate or its authority, whichever is earlier.
    valid_until: Timestamp,
}

/// Tells whether a file has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

/// The sessions of clients with accounts, and the rights that they share.
#[derive(Default)]
struct OpenSessions {
    sessions: Vec<OpenSession>,
    /// Maximum number of sessions of one account.
    of_account_max: usize,
    classes: HashMap<SubjectRules, Weak<RightsClass>>,
}

struct OpenSession {
    caller: Caller,
    peer: String,
    account: UserName,
    credential: Credential,
    rules: SubjectRules,
    standing: Weak<Standing>,
}

/// For a client without a session. The directory of streams examines its standing.
struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// What a client has proved.
enum Proof {
    /// It runs as the engine's user or as the system administrator.
    Owner,
    Account(UserName, Credential),
    /// Nothing; the engine was started as insecure.
    Nothing,
}

impl Logins {
    /// Returns true if the account of this client may use the stream with the rights that it has now.
    pub(crate) fn permits_stream(&self, caller: &Caller, url: &StreamUrl) -> bool {
        let Principal::Account(name) = &caller.principal else {
            return true;
        };
        let (Ok(account), Some(security)) = (UserName::parse(name), &self.security) else {
            return false;
        };
        let rules = rules_of(security.accounts().policy(), &account, caller.host);
        rules.is_ok_and(|rules| rules.stream_actions(url).contains(Action::Stream))
    }

    /// Returns with what and from where the client of a session has logged in, for
    /// [`readmit`](Self::readmit); `None` if the session has ended.
    pub(crate) fn login_of(&self, standing: &Arc<Standing>) -> Option<String> {
        let sessions = lock(&self.sessions);
        let mut all = sessions.sessions.iter();
        let session = all.find(|one| std::ptr::eq(one.standing.as_ptr(), Arc::as_ptr(standing)))?;
        let credential = session.credential.fingerprint();
        Some(format!("{credential} {}", session.caller.host))
    }

    /// Accepts a client that an engine of this machine accepted before a restart, as long as its account may use
    /// the stream with this URL. `identity` is its principal; `login` is from [`login_of`](Self::login_of).
    /// Returns the client and its standing, which has ended if the account may not use the stream.
    pub(crate) fn readmit(
        &self,
        url: &StreamUrl,
        identity: &str,
        login: &str,
    ) -> (Caller, Arc<Standing>) {
        let standing = Arc::new(Standing::of_guest(Arc::new(NoWake)));
        let mut caller = Caller {
            principal: Principal::Unauthenticated,
            rights: Rights::NONE,
            remote: true,
            origin: Arc::from("a program that connected before the engine was restarted"),
            ..Caller::local(0, 0)
        };
        let mut sessions = lock(&self.sessions);
        let mut open = || {
            let account = UserName::parse(identity.strip_prefix("account:")?).ok()?;
            let (credential, host) = login.split_once(' ')?;
            caller.principal = Principal::Account(Arc::from(account.as_str()));
            caller.host = host.parse().ok()?;
            let accounts = self.security.as_ref()?.accounts();
            let credential = accounts.credential(&account, &credential.parse().ok()?)?;
            let rules = rules_of(accounts.policy(), &account, caller.host).ok()?;
            let is_permitted = rules.stream_actions(url).contains(Action::Stream);
            is_permitted.then(|| OpenSession {
                caller: caller.clone(),
                peer: host.to_owned(),
                account,
                credential,
                rules,
                standing: Arc::downgrade(&standing),
            })
        };
        match open() {
            Some(session) => sessions.sessions.push(session),
            None => {
                let cause = "the rights of this account were changed while the engine did not run";
                let revoked = SecurityEvent::SessionRevoked { cause };
                self.journal
                    .note(&caller, &caller.host.to_string(), revoked);
                standing.end(Goodbye {
                    code: FaultCode::RightsChanged,
                    retry_after: None,
                    sentence: cause.to_owned(),
                });
            }
        }
        (caller, standing)
    }

    /// Sets the limit of the engine's sessions. An account may have half of them.
    pub(crate) fn set_sessions_max(&self, sessions_max: usize) {
        lock(&self.sessions).of_account_max = (sessions_max / 2).max(1);
    }

    /// Opens the security folder, if there is one.
    ///
    /// # Errors
    /// [`SecurityError`]; the engine must not start.
    pub(crate) fn open(
        core: &Core,
        clock: Clock,
        uid: u32,
        is_insecure: bool,
        folder: Option<&PathBuf>,
    ) -> Result<Self, SecurityError> {
        let (now, wall) = clock.moment();
        let moment = Moment { now, wall };
        let security = folder
            .map(|path| Security::open(path, moment))
            .transpose()?;
        Ok(Self {
            uid,
            is_insecure,
            security: security.map(Arc::new),
            sessions: Arc::new(Mutex::new(OpenSessions {
                of_account_max: usize::MAX,
                ..OpenSessions::default()
            })),
            journal: Journal {
                core: core.clone(),
                clock,
            },
            thread: || thread::Builder::new().name("trunkline-login".to_owned()),
        })
    }

    /// The certificates for encrypted connections.
    pub(crate) fn tls(&self) -> Option<Arc<TlsServer>> {
        Some(Arc::clone(&self.security.as_ref()?.tls))
    }

    /// The engine has a security folder.
    pub(crate) fn has_accounts(&self) -> bool {
        self.security.is_some()
    }

    /// Clients on other machines need neither encryption nor an identity.
    pub(crate) fn is_insecure(&self) -> bool {
        self.is_insecure
    }

    /// Why the accounts or the certificate cannot be used or renewed now; `None` if they can.
    pub(crate) fn error(&self) -> Option<String> {
        let security = self.security.as_ref()?;
        let examined = lock(&security.examined);
        let errors = [&examined.accounts_error, &examined.certificate_error];
        let errors: Vec<&str> = errors.into_iter().flatten().map(String::as_str).collect();
        (!errors.is_empty()).then(|| errors.join("; "))
    }

    /// Returns the end of the validity of the engine's certificate or its authority, whichever is
    /// earlier; `None` without certificates.
    pub(crate) fn valid_until(&self) -> Option<Timestamp> {
        let security = self.security.as_ref()?;
        Some(lock(&security.examined).valid_until)
    }

    /// Reads the file of accounts again if it was changed, and renews the certificate if it is due.
    /// Ends the sessions and the control whose rights have changed. Returns the time of the next examination.
    pub(crate) fn poll(&self, moment: Moment) -> Option<Tick> {
        let security = self.security.as_ref()?;
        let (next, new) = security.examine(moment);
        if let Some(accounts) = new {
            let change = "accounts and rules were read again from the changed file";
            let changed = SecurityEvent::AccessChanged {
                change,
                refused: None,
            };
            self.journal.note(&Caller::engine(), "engine", changed);
            lock(&self.sessions).end_changed(&accounts, &self.journal);
            // Control for a time outlives its session.
            self.journal.end_unpermitted_control(&accounts, moment);
        }
        Some(next)
    }

    /// The engine, whose audit trail gets refused requests.
    pub(crate) fn engine(&self) -> &Core {
        &self.journal.core
    }

    /// Reads the accounts and certificates again now if they were changed.
    ///
    /// # Errors
    /// A sentence, if the changed accounts cannot be used.
    pub(crate) fn examine_now(&self) -> Result<(), String> {
        let Some(security) = &self.security else {
            return Ok(());
        };
        let (now, wall) = self.journal.clock.moment();
        lock(&security.examined).files_due = now;
        self.poll(Moment { now, wall });
        match &lock(&security.examined).accounts_error {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Checks the proof in a HELLO. Returns `None` if `answer` gets the result later.
    fn check(
        &self,
        request: &LoginRequest<'_>,
        answer: LoginAnswer,
    ) -> Option<(Result<Proof, LoginRefusal>, LoginAnswer)> {
        let LoginRequest {
            caller,
            channel,
            hello,
            moment,
        } = request;
        if !caller.remote {
            return Some((Ok(Proof::Owner), answer));
        }
        let security = match &self.security {
            Some(security) => security,
            None => return Some((self.without_proof(channel, None), answer)),
        };
        if let Some(key) = &hello.key {
            let verified = verified_key(key.public_key, channel, &key.signature);
            let public = match verified {
                Ok(public) => public,
                Err(refusal) => return Some((Err(refusal), answer)),
            };
            let Some(token) = &hello.token else {
                let accounts = security.accounts();
                let account = accounts.by_key(&public).cloned();
                let proof = account.map(|account| Proof::Account(account, Credential::Key(public)));
                let proof = proof.ok_or_else(unknown_key);
                return Some((proof, answer));
            };
            let joined = {
                let mut tokens = lock(&security.tokens);
                tokens.join(&token.0, origin_of(channel), moment.now)
            };
            let joined = match joined {
                Ok(joined) => joined,
                Err(error) => {
                    let refusal = refusal(FaultCode::NotAuthenticated, error.to_string());
                    return Some((Err(refusal), answer));
                }
            };
            let (of_thread, facts) = (Arc::clone(security), self.facts(request));
            let failed = facts.on_thread((self.thread)(), answer, joined, move |joined| {
                let security = of_thread;
                let edited = security
                    .file
                    .edit(|edit| edit.join(joined.grant(), &public));
                match edited {
                    Ok(((), accounts)) => {
                        security.use_joined(accounts);
                        let account = joined.into_grant().account;
                        Ok(Proof::Account(account, Credential::Key(public)))
                    }
                    Err(error) => {
                        lock(&security.tokens).put_back(joined);
                        let sentence = format!("the engine cannot register the key: {error}");
                        Err(refusal(FaultCode::StoreFailed, sentence))
                    }
                }
            });
            return failed.map(|(answer, joined)| {
                lock(&security.tokens).put_back(joined);
                (Err(busy()), answer)
            });
        }
        if !hello.account.is_empty() {
            if !channel.is_private {
                let sentence = "a password must not be sent over a connection that is not \
                                encrypted; use a new password, and connect with TLS";
                let refusal = refusal(FaultCode::NotAuthenticated, sentence);
                return Some((Err(refusal), answer));
            }
            let name = hello.account.clone();
            let attempt = {
                let mut attempts = lock(&security.attempts);
                attempts.begin(&name, origin_of(channel), moment.now)
            };
            let attempt = match attempt {
                Ok(attempt) => attempt,
                Err(early) => {
                    let refusal = LoginRefusal {
                        fault: Fault::new(FaultCode::NotAuthenticated, early.to_string()),
                        retry_after: Some(early.after),
                    };
                    return Some((Err(refusal), answer));
                }
            };
            let password = Password::new(hello.password.reveal().to_owned());
            let (of_thread, facts) = (Arc::clone(security), self.facts(request));
            let failed = facts.on_thread((self.thread)(), answer, attempt, move |attempt| {
                let security = of_thread;
                let accounts = security.accounts();
                let candidate = accounts.password_candidate(&name);
                let check = security.verifier.verify(&password, candidate);
                let mut attempts = lock(&security.attempts);
                match check {
                    PasswordCheck::Correct => attempts.succeeded(attempt),
                    PasswordCheck::Wrong => {}
                    PasswordCheck::Busy => attempts.withdrawn(attempt),
                }
                drop(attempts);
                match check {
                    // The account may have been disabled meanwhile, or have another password:
                    // `identity` checks that.
                    PasswordCheck::Correct => accounts
                        .by_name(&name)
                        .and_then(|account| {
                            let password = accounts.password_of(account)?;
                            Some(Proof::Account(account.clone(), password))
                        })
                        .ok_or_else(wrong_password),
                    PasswordCheck::Wrong => Err(wrong_password()),
                    PasswordCheck::Busy => Err(busy()),
                }
            });
            return failed.map(|(answer, attempt)| {
                lock(&security.attempts).withdrawn(attempt);
                (Err(busy()), answer)
            });
        }
        if let Some(certificate) = &channel.peer_certificate {
            let account = Certificate::from_der(certificate).ok().and_then(|parsed| {
                let accounts = security.accounts();
                let fingerprint = parsed.fingerprint();
                let account = accounts.by_certificate(&fingerprint)?.clone();
                Some(Proof::Account(
                    account,
                    Credential::Certificate(fingerprint),
                ))
            });
            let proof = account.ok_or_else(|| {
                let sentence = "the engine does not know the certificate of this program; ask its \
                                administrator to add the certificate to an account";
                refusal(FaultCode::NotAuthenticated, sentence)
            });
            return Some((proof, answer));
        }
        Some((self.without_proof(channel, Some(security)), answer))
    }

    /// Decides about a client that has proved nothing: the system may know its user.
    fn without_proof(
        &self,
        channel: &Channel,
        security: Option<&Arc<Security>>,
    ) -> Result<Proof, LoginRefusal> {
        let is_local = channel.address.is_none_or(is_loopback);
        if !is_local {
            if self.is_insecure {
                return Ok(Proof::Nothing);
            }
            let sentence = "this engine serves only programs that have joined it: get a joining token \
                            with `trunkline pair` on the engine's machine, then run `trunkline join`";
            return Err(refusal(FaultCode::NotAuthenticated, sentence));
        }
        match channel.uid {
            Some(uid) if uid == self.uid || uid == 0 => Ok(Proof::Owner),
            Some(uid) => {
                let account = security.and_then(|one| one.accounts().by_uid(uid).cloned());
                let proof = account.map(|account| Proof::Account(account, Credential::Uid(uid)));
                proof.ok_or_else(|| {
                    let sentence = format!(
                        "user {uid} of this machine has no account on this engine; ask its \
                         administrator to add `uids = [{uid}]` to an account"
                    );
                    refusal(FaultCode::NotAuthenticated, sentence)
                })
            }
            None if self.is_insecure => Ok(Proof::Nothing),
            None => {
                let sentence = "the system does not report to the engine which user runs this \
                                program; connect over the engine's Unix socket, or join the engine \
                                with `trunkline join`";
                Err(refusal(FaultCode::NotAuthenticated, sentence))
            }
        }
    }

    fn facts(&self, request: &LoginRequest<'_>) -> LoginFacts {
        let LoginRequest {
            caller,
            channel,
            hello,
            ..
        } = request;
        let stated = match () {
            () if hello.token.is_some() => ("", "joining token"),
            () if hello.key.is_some() => ("", "key"),
            () if !hello.account.is_empty() => (hello.account.as_str(), "password"),
            () if channel.peer_certificate.is_some() => ("", "certificate"),
            () => ("", "user id"),
        };
        LoginFacts {
            caller: (*caller).clone(),
            uid: channel.uid,
            peer: peer_of(channel),
            stated_account: stated.0.to_owned(),
            method: stated.1,
            journal: self.journal.clone(),
            security: self.security.clone(),
            sessions: Arc::clone(&self.sessions),
        }
    }
}

/// What is needed to accept a client whose proof was checked.
struct LoginFacts {
    /// The client as the transport knows it.
    caller: Caller,
    uid: Option<u32>,
    /// The client without what differs between its connections, for the audit trail.
    peer: String,
    /// The account that the client states; empty if its proof identifies the account.
    stated_account: String,
    /// How the client proves its identity.
    method: &'static str,
    journal: Journal,
    security: Option<Arc<Security>>,
    sessions: Arc<Mutex<OpenSessions>>,
}

impl LoginFacts {
    /// Checks a proof on a thread of its own. Returns the answer and `proof` if there is no thread.
    fn on_thread<T: Send + 'static>(
        self,
        thread: thread::Builder,
        answer: LoginAnswer,
        proof: T,
        check: impl FnOnce(T) -> Result<Proof, LoginRefusal> + Send + 'static,
    ) -> Option<(LoginAnswer, T)> {
        // The closure is lost if the thread cannot be started, so what must remain waits outside.
        let place = Arc::new(Mutex::new(Some((answer, proof))));
        let in_thread = Arc::clone(&place);
        let run = move || {
            let taken = lock(&in_thread).take();
            if let Some((answer, proof)) = taken {
                self.answer(check(proof), answer);
            }
        };
        match thread.spawn(run) {
            Ok(_) => None,
            Err(_) => lock(&place).take(),
        }
    }

    /// Sends the identity that a proof gives, or the refusal.
    fn answer(&self, proof: Result<Proof, LoginRefusal>, answer: LoginAnswer) {
        let identity = proof.and_then(|proof| self.identity(proof, answer.standing()));
        match &identity {
            Ok(identity) if identity.account.is_empty() => {}
            Ok(identity) => {
                let caller = Caller {
                    principal: identity.principal.clone(),
                    ..self.caller.clone()
                };
                let accepted = SecurityEvent::LoginAccepted {
                    account: &identity.account,
                    method: self.method,
                };
                self.journal.note(&caller, &self.peer, accepted);
            }
            Err(refusal) => {
                let refused = SecurityEvent::LoginRefused {
                    account: &self.stated_account,
                    method: self.method,
                    rule: &refusal.fault.sentence,
                };
                self.journal.note(&self.caller, &self.peer, refused);
            }
        }
        answer.send(identity);
    }

    /// Returns what records the end of a session of this account.
    fn on_end(&self, account: &UserName, standing: &Arc<Standing>) -> OnEnd {
        let caller = Caller {
            principal: Principal::Account(Arc::from(account.as_str())),
            ..self.caller.clone()
        };
        let (journal, peer) = (self.journal.clone(), self.peer.clone());
        let (security, standing) = (self.security.clone(), Arc::clone(standing));
        OnEnd(Arc::new(move |cause: &str| {
            journal.note(&caller, &peer, SecurityEvent::SessionEnded { cause });
            // The session may have taken control after the change that ended it.
            if standing.goodbye().is_some()
                && let Some(security) = &security
            {
                let (now, wall) = journal.clock.moment();
                journal.end_unpermitted_control(&security.accounts(), Moment { now, wall });
            }
        }))
    }

    fn identity(&self, proof: Proof, standing: Arc<Standing>) -> Result<Identity, LoginRefusal> {
        let (account, credential) = match proof {
            Proof::Owner | Proof::Nothing => {
                let principal = match self.uid {
                    Some(uid) => Principal::Local(uid),
                    None => self.caller.principal.clone(),
                };
                return Ok(Identity {
                    principal,
                    rights: Rights::ALL,
                    account: String::new(),
                    role: String::new(),
                    standing,
                    on_end: None,
                });
            }
            Proof::Account(account, credential) => (account, credential),
        };
        // The lock of the sessions is taken first, so that a change of the accounts after this look at
        // them finds the session.
        let mut sessions = lock(&self.sessions);
        let accounts = self.security.as_ref().map(|security| security.accounts());
        let rules = accounts
            .as_ref()
            .filter(|accounts| accounts.accepts(&account, &credential))
            .and_then(|accounts| rules_of(accounts.policy(), &account, self.caller.host).ok());
        let Some(rules) = rules else {
            return Err(unknown_key());
        };
        let role = rules.role().map_or("", |role| role.name()).to_owned();
        let rights = sessions.rights(&rules);
        let principal = Principal::Account(Arc::from(account.as_str()));
        sessions
            .sessions
            .retain(|one| one.standing.strong_count() > 0);
        sessions.check_room(&account)?;
        sessions.sessions.push(OpenSession {
            caller: Caller {
                principal: principal.clone(),
                ..self.caller.clone()
            },
            peer: self.peer.clone(),
            account: account.clone(),
            credential,
            rules,
            standing: Arc::downgrade(&standing),
        });
        let on_end = self.on_end(&account, &standing);
        Ok(Identity {
            principal,
            rights,
            account: account.to_string(),
            role,
            standing,
            on_end: Some(on_end),
        })
    }
}

impl Journal {
    /// Ends the control to which its holders have no right any more.
    fn end_unpermitted_control(&self, accounts: &Accounts, moment: Moment) {
        let policy = accounts.policy();
        let rules = |account: &str, host: Host| {
            let subject = policy.subject(account, host).ok()?;
            Some(policy.subject_rules(&subject))
        };
        let control = self.core.control();
        control.end_unpermitted(rules, moment, &mut Wakes::new());
    }

    fn note(&self, caller: &Caller, peer: &str, event: SecurityEvent<'_>) {
        let (now, wall) = self.clock.moment();
        let note = SecurityNote { peer, event };
        let mut wakes = Wakes::new();
        let moment = Moment { now, wall };
        self.core
            .audit()
            .note_security(caller, note, moment, &mut wakes);
    }
}

impl Authenticator for Logins {
    fn authenticate(&self, request: LoginRequest<'_>, answer: LoginAnswer) {
        if let Some((proof, answer)) = self.check(&request, answer) {
            self.facts(&request).answer(proof, answer);
        }
    }

    fn pair(&self, caller: &Caller, pair: &Pair, moment: Moment) -> Result<Paired, Fault> {
        let Some(security) = &self.security else {
            let sentence = "this engine has no accounts; create its security folder with \
                            `trunkline init`, and set `security` in the configuration to its path";
            return Err(Fault::new(FaultCode::NotSupported, sentence));
        };
        let grant = security.grant(pair)?;
        let change = format!("joining token issued for account {}", grant.account);
        let issued = lock(&security.tokens).issue(grant, moment.now);
        let refused = issued.as_ref().err().map(ToString::to_string);
        let changed = SecurityEvent::AccessChanged {
            change: &change,
            refused: refused.as_deref(),
        };
        self.journal
            .note(caller, &caller.principal.to_string(), changed);
        let token =
            issued.map_err(|error| Fault::new(FaultCode::LimitReached, error.to_string()))?;
        Ok(Paired {
            token: token.to_text().to_string(),
            valid_for: TOKEN_LIFETIME,
        })
    }
}

impl Security {
    fn open(path: &Path, moment: Moment) -> Result<Self, SecurityError> {
        let folder = SecurityFolder::open(path)?;
        let mut engine = folder.engine()?;
        let mut certificate_error = None;
        if engine.certificate.needs_renewal(moment.wall) {
            match folder.renew(moment.wall) {
                Ok(renewed) => engine = renewed,
                // The engine still serves its own machine until the certificate is replaced.
                Err(error @ FolderError::NotOurAuthority(_)) => {
                    certificate_error = Some(not_renewed(&error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let certificates = versions_of(&folder);
        let file = AccessFile::new(folder.access_file());
        let version = version_of(file.path());
        let accounts = file.load()?;
        let tokens = PendingTokens::new(engine.authority.fingerprint());
        let tls = TlsServer::new(tls_identity(&engine), ClientCertificates::Accepted)?;
        let verifier = PasswordVerifier::new();
        Ok(Self {
            folder,
            file,
            tls: Arc::new(tls),
            accounts: RwLock::new(Arc::new(accounts)),
            tokens: Mutex::new(tokens),
            attempts: Mutex::default(),
            verifier,
            examined: Mutex::new(Examined {
                accounts: version,
                certificates,
                files_due: moment.now,
                validity_due: moment.now.saturating_add(VALIDITY_EVERY),
                accounts_error: None,
                certificate_error,
                valid_until: valid_until(&engine),
            }),
        })
    }

    fn accounts(&self) -> Arc<Accounts> {
        let accounts = self.accounts.read();
        Arc::clone(&accounts.unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    fn set_accounts(&self, accounts: Accounts) -> Arc<Accounts> {
        let accounts = Arc::new(accounts);
        let mut current = self.accounts.write();
        let current = current.as_deref_mut();
        if let Ok(current) = current {
            *current = Arc::clone(&accounts);
        }
        accounts
    }

    /// Uses the accounts that a join has written. The file may have changed since then, and these changes
    /// may be in use already, so it is read again.
    fn use_joined(&self, accounts: Accounts) {
        let mut examined = lock(&self.examined);
        self.set_accounts(accounts);
        examined.accounts = None;
    }

    /// Checks what a token is to grant.
    fn grant(&self, pair: &Pair) -> Result<JoinGrant, Fault> {
        let bad = |sentence: String| Fault::new(FaultCode::BadRequest, sentence);
        let account = UserName::parse(&pair.account).map_err(|error| bad(error.to_string()))?;
        let role = match pair.role.as_str() {
            "" => None,
            role => Some(role.parse().map_err(|error| bad(format!("{error}")))?),
        };
        let groups = pair.groups.iter().map(|group| group.parse());
        let groups = groups
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| bad(format!("{error}")))?;
        let accounts = self.accounts();
        let existing = accounts.policy().account(account.as_str());
        match existing {
            Some(existing) if existing.disabled => {
                let sentence = format!("the account {account} is disabled; enable it first");
                Err(bad(sentence))
            }
            Some(_) if role.is_some() || !groups.is_empty() => {
                let sentence = format!(
                    "the account {account} exists already, and a token adds a key to it: leave out the \
                     role and the groups, or choose another name"
                );
                Err(bad(sentence))
            }
            Some(_) => Ok(JoinGrant {
                account,
                role: None,
                groups: Vec::new(),
            }),
            None if role.is_none() && groups.is_empty() => {
                let sentence = format!(
                    "there is no account {account}; specify the role of the new account: viewer, \
                     operator, engineer or admin"
                );
                Err(bad(sentence))
            }
            None => Ok(JoinGrant {
                account,
                role,
                groups,
            }),
        }
    }

    /// Examines the files if that is due. Returns the next time, and the accounts if they changed.
    fn examine(&self, moment: Moment) -> (Tick, Option<Arc<Accounts>>) {
        let mut examined = lock(&self.examined);
        let mut changed = None;
        if examined.files_due <= moment.now {
            examined.files_due = moment.now.saturating_add(EXAMINED_EVERY);
            let certificates = versions_of(&self.folder);
            if certificates != examined.certificates {
                match self.use_changed_certificate() {
                    Ok(valid_until) => {
                        examined.valid_until = valid_until;
                        examined.certificate_error = None;
                    }
                    Err(error) => {
                        let text = format!("the changed certificate is not used: {error}");
                        examined.certificate_error = Some(text);
                    }
                }
                examined.certificates = certificates;
            }
            let version = version_of(self.file.path());
            if version != examined.accounts {
                match self.file.load() {
                    Ok(accounts) => {
                        changed = Some(self.set_accounts(accounts));
                        examined.accounts_error = None;
                    }
                    Err(error) => {
                        let text = format!("the changed accounts and rules are not used: {error}");
                        examined.accounts_error = Some(text);
                    }
                }
                examined.accounts = version;
            }
        }
        if examined.validity_due <= moment.now {
            examined.validity_due = moment.now.saturating_add(VALIDITY_EVERY);
            match self.renew_if_due(moment.wall) {
                Ok(None) => {}
                Ok(Some(valid_until)) => {
                    examined.valid_until = valid_until;
                    examined.certificate_error = None;
                    examined.certificates = versions_of(&self.folder);
                }
                Err(error) => examined.certificate_error = Some(not_renewed(&error)),
            }
        }
        let next = examined.files_due.min(examined.validity_due);
        (next, changed)
    }

    /// Renews the certificate if that is due. Returns the end of the new validity.
    fn renew_if_due(&self, wall: Timestamp) -> Result<Option<Timestamp>, SecurityError> {
        if !self.folder.engine()?.certificate.needs_renewal(wall) {
            return Ok(None);
        }
        let engine = self.folder.renew(wall)?;
        self.tls.replace(tls_identity(&engine))?;
        Ok(Some(valid_until(&engine)))
    }

    /// Uses the certificate that somebody has put into the folder. Returns the end of its validity.
    fn use_changed_certificate(&self) -> Result<Timestamp, SecurityError> {
        let engine = self.folder.engine()?;
        self.tls.replace(tls_identity(&engine))?;
        lock(&self.tokens).set_authority(engine.authority.fingerprint());
        Ok(valid_until(&engine))
    }
}

impl OpenSessions {
    /// Refuses a session beyond the limit of its account, so that no account can take all sessions.
    fn check_room(&self, account: &UserName) -> Result<(), LoginRefusal> {
        let max = self.of_account_max;
        let open = self.sessions.iter().filter(|one| one.account == *account);
        if open.count() < max {
            return Ok(());
        }
        let sentence = format!(
            "{account} has {max} open sessions, the maximum for an account, which is half of sessions_max; close \
             some, or use one account per program"
        );
        Err(LoginRefusal {
            fault: Fault::new(FaultCode::Overloaded, sentence),
            retry_after: Some(Duration::from_secs(1)),
        })
    }

    /// Returns the rights that these rules give. Sessions with equal rules share them.
    fn rights(&mut self, rules: &SubjectRules) -> Rights {
        if let Some(class) = self.classes.get(rules).and_then(Weak::upgrade) {
            return Rights::ByName(class);
        }
        self.classes.retain(|_, class| class.strong_count() > 0);
        let rights = Rights::of(rules.clone());
        if let Rights::ByName(class) = &rights {
            self.classes.insert(rules.clone(), Arc::downgrade(class));
        }
        rights
    }

    /// Ends the sessions whose rights are no longer those with which they began, and those whose
    /// credential was removed.
    fn end_changed(&mut self, accounts: &Accounts, journal: &Journal) {
        self.sessions.retain(|session| {
            let Some(standing) = session.standing.upgrade() else {
                return false;
            };
            let goodbye = match rules_of(accounts.policy(), &session.account, session.caller.host) {
                Ok(_) if !accounts.accepts(&session.account, &session.credential) => Goodbye {
                    code: FaultCode::NotAuthenticated,
                    retry_after: Some(RETRY_UNKNOWN),
                    sentence:
                        "the key or password of this session was removed from its account; ask \
                               the engine's administrator"
                            .to_owned(),
                },
                Ok(rules) if rules == session.rules => return true,
                Ok(_) => Goodbye {
                    code: FaultCode::RightsChanged,
                    retry_after: None,
                    sentence: "the rights of this account were changed".to_owned(),
                },
                Err(_) => Goodbye {
                    code: FaultCode::NotAuthenticated,
                    retry_after: Some(RETRY_UNKNOWN),
                    sentence:
                        "this account was removed or disabled; ask the engine's administrator"
                            .to_owned(),
                },
            };
            let revoked = SecurityEvent::SessionRevoked {
                cause: &goodbye.sentence,
            };
            journal.note(&session.caller, &session.peer, revoked);
            standing.end(goodbye);
            false
        });
    }
}

/// Returns the rules that apply to an account.
fn rules_of(policy: &Policy, account: &UserName, host: Host) -> Result<SubjectRules, SubjectError> {
    let subject = policy.subject(account.as_str(), host)?;
    Ok(policy.subject_rules(&subject))
}

fn verified_key(
    public_key: [u8; 32],
    channel: &Channel,
    signature: &[u8; 64],
) -> Result<PublicKey, LoginRefusal> {
    let Some(binding) = &channel.binding else {
        let sentence =
            "a key proves nothing over a connection that is not encrypted; connect with TLS";
        return Err(refusal(FaultCode::NotAuthenticated, sentence));
    };
    let refuse = |sentence: String| refusal(FaultCode::NotAuthenticated, sentence);
    let public = PublicKey::from_bytes(public_key).map_err(|error| refuse(error.to_string()))?;
    match verify_login(&public, binding, signature) {
        Ok(()) => Ok(public),
        Err(error) => Err(refuse(error.to_string())),
    }
}

fn refusal(code: FaultCode, sentence: impl Into<String>) -> LoginRefusal {
    LoginRefusal {
        fault: Fault::new(code, sentence),
        retry_after: Some(RETRY_UNKNOWN),
    }
}

fn unknown_key() -> LoginRefusal {
    let sentence = "the engine does not know the key of this program; get a joining token with `trunkline \
                    pair` on the engine's machine, then run `trunkline join`";
    refusal(FaultCode::NotAuthenticated, sentence)
}

/// The same sentence for an unknown account, so that it does not reveal which accounts exist.
fn wrong_password() -> LoginRefusal {
    let sentence = "the name or the password is wrong; check both";
    refusal(FaultCode::NotAuthenticated, sentence)
}

fn busy() -> LoginRefusal {
    let sentence = "the engine checks as many logins as it can; try again in a moment";
    LoginRefusal {
        fault: Fault::new(FaultCode::Overloaded, sentence),
        retry_after: Some(Duration::from_secs(1)),
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn origin_of(channel: &Channel) -> Origin {
    channel.address.map_or(Origin::Local, Origin::of)
}

/// Describes a peer without what differs between its connections.
fn peer_of(channel: &Channel) -> String {
    match (channel.address, channel.uid) {
        (_, Some(uid)) => format!("local:{uid}"),
        (Some(address), None) => address.to_canonical().to_string(),
        (None, None) => "this program".to_owned(),
    }
}

fn valid_until(engine: &EngineIdentity) -> Timestamp {
    let authority = engine.authority.not_after();
    engine.certificate.not_after().min(authority)
}

fn tls_identity(engine: &EngineIdentity) -> TlsIdentity {
    TlsIdentity {
        chain: [&engine.certificate]
            .into_iter()
            .chain(&engine.intermediates)
            .chain([&engine.authority])
            .map(|certificate| certificate.der().to_vec())
            .collect(),
        key: engine.key.pkcs8().to_vec(),
    }
}

fn not_renewed(error: &dyn std::error::Error) -> String {
    format!("the certificate of the engine cannot be renewed: {error}")
}

/// Returns the versions of the engine's certificates and key. They change when somebody replaces them.
fn versions_of(folder: &SecurityFolder) -> Vec<Option<Version>> {
    let files = folder.engine_files();
    files.iter().map(|path| version_of(path)).collect()
}

/// Returns `None` if the file cannot be examined, for example because it does not exist.
fn version_of(path: &Path) -> Option<Version> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some(Version {
        inode: metadata.ino(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        size: metadata.size(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests;
