//! Logins at a security folder, with changes of its accounts at the worst moment.

use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, Sender, channel};

use trunkline_access::{Action, Actions, Effect, Place, Role, Rule, Who};
use trunkline_engine::{EngineOptions, Wake};
use trunkline_identity::accounts::{AccessEdit, EditError};
use trunkline_identity::attempts::ATTEMPTS_FREE;
use trunkline_identity::authority::EngineSubject;
use trunkline_identity::keys::{ProgramKey, login_signature};
use trunkline_identity::token::JoinToken;
use trunkline_proto::Disconnect;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::login::{KeyProof, Password as HelloPassword, TokenSecret};
use trunkline_serve::AwaitedLogin;
use trunkline_types::{
    AuditAction, AuditEntry, ControlHolder, ControlLevel, ControlTerms, Folder, Pattern,
};

use super::*;

const UID: u32 = 4711;
const BINDING: [u8; 32] = [7; 32];
const HOST: [u8; 4] = [10, 1, 0, 5];

struct Bench {
    sut: Logins,
    core: Core,
    file: AccessFile,
    now: Tick,
    _folder: tempfile::TempDir,
}

struct SendWake(Sender<()>);

impl Wake for SendWake {
    fn wake(&self) {
        let _ = self.0.send(());
    }
}

fn name(text: &str) -> UserName {
    UserName::parse(text).unwrap()
}

fn for_a_day() -> ControlTerms {
    ControlTerms {
        level: ControlLevel::Operator,
        holder: ControlHolder::Identity,
        duration: Some(Duration::from_secs(24 * 60 * 60)),
    }
}

/// A client of the loopback interface, whose user the system reports.
fn local() -> Channel {
    Channel {
        is_private: true,
        uid: Some(UID),
        ..Channel::default()
    }
}

/// An encrypted connection from another machine.
fn distant() -> Channel {
    Channel {
        is_private: true,
        binding: Some(BINDING),
        address: Some(Ipv4Addr::from(HOST).into()),
        ..Channel::default()
    }
}

fn with_key(key: &ProgramKey) -> Hello {
    Hello {
        key: Some(KeyProof {
            public_key: *key.public().as_bytes(),
            signature: login_signature(key, &BINDING),
        }),
        ..Hello::default()
    }
}

impl Bench {
    /// An engine with the operator `bo`, whose user id the system reports.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("security");
        let subject = EngineSubject {
            name: "sut".to_owned(),
            host_names: Vec::new(),
        };
        let clock = Clock::new();
        let (now, wall) = clock.moment();
        let created = SecurityFolder::create(&path, &subject, wall).unwrap();
        let file = AccessFile::new(created.access_file());
        file.edit(|edit| {
            edit.add_account(&name("bo"), Some(Role::Operator), &[])?;
            edit.set_uids(&name("bo"), &[UID])
        })
        .unwrap();
        let core = Core::new(EngineOptions::new("sut", 1));
        let sut = Logins::open(&core, clock, UID + 1, false, Some(&path)).unwrap();
        Self {
            sut,
            core,
            file,
            now,
            _folder: folder,
        }
    }

    fn edit(&self, change: impl FnOnce(&mut AccessEdit) -> Result<(), EditError>) -> Accounts {
        self.file.edit(change).unwrap().1
    }

    fn moment(&self) -> Moment {
        let (_, wall) = Clock::new().moment();
        Moment {
            now: self.now,
            wall,
        }
    }

    /// Examines the files at the next time at which that is due.
    fn examine(&mut self) {
        self.now = self.now.saturating_add(EXAMINED_EVERY);
        self.sut.poll(self.moment());
    }

    fn caller(session: u32, channel: &Channel) -> Caller {
        Caller {
            host: channel.address.map_or(Host::Local, Host::Address),
            rights: Rights::NONE,
            remote: true,
            ..Caller::local(session, UID)
        }
    }

    fn begin(&self, caller: &Caller, channel: &Channel, hello: &Hello) -> Awaited {
        let (sender, woken) = self::channel();
        let request = LoginRequest {
            caller,
            channel,
            hello,
            moment: self.moment(),
        };
        let login = AwaitedLogin::begin(&self.sut, request, Arc::new(SendWake(sender)));
        Awaited { login, woken }
    }

    /// Logs in, and returns the session as a caller with its identity.
    fn log_in(
        &self,
        session: u32,
        channel: &Channel,
        hello: &Hello,
    ) -> Result<(Caller, Identity), LoginRefusal> {
        let caller = Self::caller(session, channel);
        let identity = self.begin(&caller, channel, hello).decision()?;
        let caller = Caller {
            principal: identity.principal.clone(),
            rights: identity.rights.clone(),
            ..caller
        };
        Ok((caller, identity))
    }

    fn take(&self, caller: &Caller, folder: &str) {
        let folder = Folder::parse(folder).unwrap();
        let (control, wakes) = (self.core.control(), &mut Wakes::new());
        control
            .take(caller, &folder, for_a_day(), self.moment(), wakes)
            .unwrap();
    }

    /// The folders that somebody controls.
    fn controlled(&self) -> Vec<String> {
        let (control, owner) = (self.core.control(), Caller::engine());
        let mut list = control.list(&owner, false, self.now);
        loop {
            if let Some(entries) = control.continue_list(&owner, &mut list, 100) {
                return entries.iter().map(|one| one.folder.to_string()).collect();
            }
        }
    }

    fn audit(&self) -> Vec<AuditEntry> {
        self.core.audit().take(1, 100)
    }

    fn issue(&self, account: &str) -> JoinToken {
        let pair = Pair {
            account: account.to_owned(),
            role: "viewer".to_owned(),
            groups: Vec::new(),
        };
        let paired = self.sut.pair(&Caller::engine(), &pair, self.moment());
        JoinToken::parse(&paired.unwrap().token).unwrap()
    }
}

struct Awaited {
    login: AwaitedLogin,
    woken: Receiver<()>,
}

impl Awaited {
    fn decision(self) -> Result<Identity, LoginRefusal> {
        loop {
            if let Some(decision) = self.login.take() {
                return decision;
            }
            self.woken.recv().unwrap();
        }
    }
}

/// A session learns only at its next turn that its rights have changed. What it takes before does not
/// outlive it.
///
/// Behaviour: B-22.
#[test]
fn control_that_a_session_takes_after_its_rights_have_changed_ends_with_it() {
    let mut bench = Bench::new();
    let (bo, identity) = bench.log_in(1, &local(), &Hello::default()).unwrap();
    bench.take(&bo, "boiler");
    bench.edit(|edit| edit.set_role(&name("bo"), Some(Role::Viewer)));
    bench.examine();
    assert_eq!(bench.controlled(), [""; 0]);
    assert!(identity.standing.goodbye().is_some());
    bench.take(&bo, "boiler");
    let OnEnd(end) = identity.on_end.unwrap();
    end(&Disconnect::ClosedLocally.to_string());
    assert_eq!(bench.controlled(), [""; 0]);
}

/// Behaviour: B-22.
#[test]
fn control_by_a_rule_for_a_host_lasts_while_the_rule_does() {
    let mut bench = Bench::new();
    let key = ProgramKey::generate().unwrap();
    let rule = Rule {
        who: Who::Host("10.1.0.0/16".parse().unwrap()),
        pattern: Pattern::parse("**").unwrap(),
        effect: Effect::Grant,
        actions: Actions::of(&[Action::Write]),
        place: Place::from(""),
    };
    bench.edit(|edit| {
        edit.add_account(&name("ana"), Some(Role::Viewer), &[])?;
        edit.add_key(&name("ana"), &key.public())?;
        edit.add_rule(&rule)
    });
    bench.examine();
    let (ana, identity) = bench.log_in(1, &distant(), &with_key(&key)).unwrap();
    bench.take(&ana, "boiler");
    // Neither the change of another account nor the end of the session ends it.
    bench.edit(|edit| edit.set_role(&name("bo"), Some(Role::Engineer)));
    bench.examine();
    assert!(identity.standing.goodbye().is_none());
    assert_eq!(bench.controlled(), ["boiler"]);
    bench.edit(|edit| edit.remove_rule(&rule));
    bench.examine();
    assert_eq!(bench.controlled(), [""; 0]);
}

/// A join returns the accounts that it wrote after the file was changed and read again.
#[test]
fn late_join_does_not_bring_back_a_disabled_account() {
    let mut bench = Bench::new();
    let key = ProgramKey::generate().unwrap();
    let of_join = bench.edit(|edit| {
        edit.add_account(&name("mia"), Some(Role::Viewer), &[])?;
        edit.add_key(&name("mia"), &key.public())
    });
    bench.edit(|edit| edit.set_disabled(&name("bo"), true));
    bench.examine();
    let security = bench.sut.security.clone().unwrap();
    security.use_joined(of_join);
    bench.examine();
    assert!(bench.log_in(1, &local(), &Hello::default()).is_err());
    assert!(bench.log_in(2, &distant(), &with_key(&key)).is_ok());
}

/// A thread whose stack no machine can provide.
fn no_thread() -> thread::Builder {
    thread::Builder::new().stack_size(1 << 60)
}

#[test]
fn joining_token_and_attempts_are_not_lost_if_no_thread_can_be_started() {
    let mut bench = Bench::new();
    let key = ProgramKey::generate().unwrap();
    let token = bench.issue("mia");
    let join = Hello {
        token: Some(TokenSecret(*token.secret())),
        ..with_key(&key)
    };
    let with_password = Hello {
        account: "bo".to_owned(),
        password: HelloPassword::new("a wrong password".to_owned()).unwrap(),
        ..Hello::default()
    };
    let thread = std::mem::replace(&mut bench.sut.thread, no_thread);
    for hello in [&join, &with_password] {
        for _ in 0..2 * ATTEMPTS_FREE {
            let refused = bench.log_in(1, &distant(), hello).unwrap_err();
            assert_eq!(refused.fault.code, FaultCode::Overloaded, "{refused:?}");
        }
    }
    bench.sut.thread = thread;
    let (_, joined) = bench.log_in(2, &distant(), &join).unwrap();
    assert_eq!(joined.account, "mia");
    assert!(bench.log_in(3, &distant(), &join).is_err());
}

/// Behaviour: B-24.
#[test]
fn login_that_nobody_awaits_any_more_has_an_end_in_the_audit() {
    let bench = Bench::new();
    let channel = local();
    let caller = Bench::caller(1, &channel);
    let awaited = bench.begin(&caller, &channel, &Hello::default());
    awaited.woken.recv().unwrap();
    drop(awaited);
    let actions: Vec<AuditAction> = bench.audit().iter().map(|one| one.action).collect();
    assert_eq!(actions, [AuditAction::Login, AuditAction::Logout]);
    // The decision comes after the connection has ended.
    let key = ProgramKey::generate().unwrap();
    let token = bench.issue("mia");
    let join = Hello {
        token: Some(TokenSecret(*token.secret())),
        ..with_key(&key)
    };
    let Awaited { login, woken } = bench.begin(&caller, &distant(), &join);
    drop(login);
    // The wake is dropped with the place of the decision.
    while woken.recv().is_ok() {}
    let actions: Vec<AuditAction> = bench.audit().iter().map(|one| one.action).collect();
    let expected = [
        AuditAction::AccessChange,
        AuditAction::Login,
        AuditAction::Logout,
    ];
    assert_eq!(actions, expected);
}

/// Failure mode: F2.
#[test]
fn one_account_gets_at_most_half_of_the_sessions() {
    let mut sut = Bench::new();
    sut.sut.set_sessions_max(7);
    let key = ProgramKey::generate().unwrap();
    sut.edit(|edit| {
        edit.add_account(&name("ann"), Some(Role::Viewer), &[])?;
        edit.add_key(&name("ann"), &key.public())
    });
    sut.examine();
    let log_in = |session| sut.log_in(session, &local(), &Hello::default());
    let mut sessions: Vec<_> = (1..=3).map(|session| log_in(session).unwrap()).collect();
    let refused = log_in(4).unwrap_err();
    assert_eq!(refused.fault.code, FaultCode::Overloaded);
    assert!(refused.retry_after.is_some());
    assert!(
        refused.fault.sentence.contains("bo has 3 open sessions"),
        "{refused:?}"
    );
    // Other accounts are not affected, and a session that ends makes room.
    let ann = sut.log_in(5, &distant(), &with_key(&key)).unwrap();
    sessions.pop();
    let again = log_in(6).unwrap();
    assert!(log_in(7).is_err());
    drop((ann, again));
}
