//! Control of folders.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use rig::{Rig, applied, define, done};
use trunkline_access::{
    Account, Action, Actions, Effect, Host, Place, Policy, Role, Rule, SubjectRules, UserName, Who,
};
use trunkline_engine::{
    Caller, Consumer, ControlRefusal, GroupAttempt, GroupMember, LeaseRequest, Principal, Refusal,
    Rights, Variable, Wake, Wakes, Write, WriteOutcome, WriteVerb,
};
use trunkline_types::control::{
    CONTROL_OF_IDENTITY_MAX, CONTROL_WAITING_MAX, CONTROL_WAITING_OF_IDENTITY_MAX,
};
use trunkline_types::{
    AuditAction, AuditOutcome, ControlEntry, ControlHolder, ControlLevel, ControlTerms, DataType,
    FaultCode, Folder, Moment, Pattern, Properties, Value, WhyStage, WhyVerdict,
};

const OPERATOR: ControlTerms = ControlTerms {
    level: ControlLevel::Operator,
    holder: ControlHolder::Session,
    duration: None,
};
/// Outlives its session.
const FOR_A_DAY: ControlTerms = ControlTerms {
    holder: ControlHolder::Identity,
    duration: Some(Duration::from_secs(24 * 60 * 60)),
    ..OPERATOR
};
const SUPERVISOR: ControlTerms = ControlTerms {
    level: ControlLevel::Supervisor,
    ..OPERATOR
};

fn person(session: u32, name: &str) -> Caller {
    Caller {
        principal: Principal::Account(Arc::from(name)),
        origin: Arc::from(format!("terminal {session}")),
        ..Caller::local(session, 1000)
    }
}

/// The person whose only session has this number.
fn one(session: u32) -> Caller {
    person(session, &format!("person-{session}"))
}

fn folder(text: &str) -> Folder {
    Folder::parse(text).unwrap()
}

/// An engine with `boiler/level`, `boiler/pump/on` and `boiler/pump/speed`, and `rig/x`.
struct Plant {
    rig: Rig,
}

impl Plant {
    fn new() -> Self {
        let number = || Properties::new(DataType::F64);
        let rig = Rig::with(vec![define("x", number())]);
        let names = ["level", "pump/on", "pump/speed"];
        rig.deploy("boiler", names.map(|name| define(name, number())).to_vec());
        Self { rig }
    }

    fn moment(&self) -> Moment {
        self.rig.moment()
    }

    fn search(&self, caller: &Caller) {
        let control = self.rig.engine.control();
        while control.search(caller.session, 2, self.moment(), &mut Wakes::new()) {}
    }

    fn take(&self, who: &Caller, text: &str, terms: ControlTerms) -> Result<u64, ControlRefusal> {
        let (control, wakes) = (self.rig.engine.control(), &mut Wakes::new());
        let taken = control.take(who, &folder(text), terms, self.moment(), wakes);
        self.search(who);
        taken
    }

    fn request(
        &self,
        who: &Caller,
        text: &str,
        terms: ControlTerms,
    ) -> Result<u64, ControlRefusal> {
        let (control, wakes) = (self.rig.engine.control(), &mut Wakes::new());
        let requested = control.request(who, &folder(text), terms, self.moment(), wakes);
        self.search(who);
        requested
    }

    fn release(&self, who: &Caller, text: &str) -> Result<(), ControlRefusal> {
        let (control, wakes) = (self.rig.engine.control(), &mut Wakes::new());
        control.release(who, &folder(text), self.moment(), wakes)
    }

    fn give(&self, who: &Caller, text: &str, number: u64) -> Result<u64, ControlRefusal> {
        let (control, wakes) = (self.rig.engine.control(), &mut Wakes::new());
        control.give(who, &folder(text), number, self.moment(), wakes)
    }

    fn end(&self, who: &Caller) {
        let control = self.rig.engine.control();
        control.end_session(who.session, self.moment(), &mut Wakes::new());
    }

    /// Ends the control that these rules do not permit.
    fn change_rules(&self, rules: impl Fn(&str, Host) -> Option<SubjectRules>) {
        let control = self.rig.engine.control();
        control.end_unpermitted(rules, self.moment(), &mut Wakes::new());
    }

    fn write(&self, who: &Caller, name: &str) -> WriteOutcome {
        let variable = self.rig.variable(name);
        let value = Value::F64(f64::from(who.session));
        done(self.rig.attempt_as(who, &variable, &Write::value(&value)))
    }

    /// Returns true if the caller may write the variable; the refusal must be that of control.
    fn may_write(&self, who: &Caller, name: &str) -> bool {
        match self.write(who, name) {
            WriteOutcome::Refused(Refusal::Controlled(_)) => false,
            WriteOutcome::Applied(_) => true,
            other => panic!("{other:?}"),
        }
    }

    fn list(&self, who: &Caller) -> Vec<ControlEntry> {
        let control = self.rig.engine.control();
        let mut list = control.list(who, false, self.rig.now());
        loop {
            if let Some(entries) = control.continue_list(who, &mut list, 2) {
                return entries;
            }
        }
    }

    /// The holders and those who wait, by name: `boiler person-1, boiler? person-2`.
    fn shown(&self) -> String {
        let mut entries = self.list(&one(99));
        entries.sort_by_key(|entry| (entry.folder.clone(), entry.is_waiting, entry.since));
        let shown = entries.iter().map(|entry| {
            let mark = if entry.is_waiting { "?" } else { "" };
            let name = entry.by.strip_prefix("account:").unwrap();
            format!("{}{mark} {}", entry.folder, name.split(' ').next().unwrap())
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    fn advance(&self, seconds: u64) {
        self.rig.advance(Duration::from_secs(seconds));
    }
}

/// Behaviour: B-22.
#[test]
fn only_the_holder_of_a_folder_writes_and_is_named_to_others() {
    let (sut, ana, bo) = (Plant::new(), one(1), one(2));
    assert!(sut.rig.variable("boiler/level").is_plain());
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    assert_eq!(sut.write(&ana, "boiler/pump/on"), applied(1));
    let WriteOutcome::Refused(refusal) = sut.write(&bo, "boiler/pump/on") else {
        panic!("not refused");
    };
    assert_eq!(refusal.code(), FaultCode::Controlled);
    let sentence = refusal.to_string();
    for part in [
        "boiler",
        "account:person-1",
        "operator",
        "control request boiler",
    ] {
        assert!(sentence.contains(part), "{sentence}");
    }
    assert!(sut.may_write(&bo, "rig/x"));
    sut.release(&ana, "boiler").unwrap();
    assert!(sut.may_write(&bo, "boiler/pump/on"));
    sut.rig.poll();
    // The marks are gone, so writes use the fast path again.
    assert!(sut.rig.variable("boiler/level").is_plain());
    assert!(sut.rig.variable("boiler/pump/on").ledger().is_balanced());
    let refused = sut.release(&ana, "boiler").unwrap_err();
    assert_eq!(refused.code(), FaultCode::NotControlled);
}

/// Behaviour: B-22.
#[test]
fn overlapping_folders_of_the_same_level_exclude_each_other() {
    let (sut, ana, bo) = (Plant::new(), one(1), one(2));
    sut.take(&ana, "boiler/pump", OPERATOR).unwrap();
    for overlapping in ["boiler/pump", "boiler", "**", "boiler/pump/on"] {
        let refused = sut.take(&bo, overlapping, OPERATOR).unwrap_err();
        assert_eq!(refused.code(), FaultCode::Controlled, "{overlapping}");
        assert!(refused.to_string().contains("person-1"), "{refused}");
    }
    for other in ["boiler/level", "boiler/pump2", "rig"] {
        sut.take(&bo, other, OPERATOR).unwrap();
    }
    assert_eq!(
        sut.shown(),
        "boiler/level person-2, boiler/pump person-1, boiler/pump2 person-2, rig person-2"
    );
}

#[test]
fn supervisor_takes_over_from_operators_but_not_from_supervisors() {
    let (sut, ana, bo, cy) = (Plant::new(), one(1), one(2), one(3));
    sut.take(&ana, "boiler/pump", OPERATOR).unwrap();
    sut.take(&bo, "boiler/level", OPERATOR).unwrap();
    sut.take(&cy, "boiler", SUPERVISOR).unwrap();
    assert_eq!(sut.shown(), "boiler person-3");
    assert!(!sut.may_write(&ana, "boiler/pump/on") && sut.may_write(&cy, "boiler/pump/on"));
    let level = sut.take(&bo, "boiler/level", SUPERVISOR).unwrap_err();
    assert_eq!(level.code(), FaultCode::Controlled);
    // Nobody gets control back without asking for it.
    sut.release(&cy, "boiler").unwrap();
    assert_eq!(sut.shown(), "");
}

#[test]
fn holder_takes_more_or_other_terms_but_not_less() {
    let (sut, ana, bo) = (Plant::new(), one(1), one(2));
    sut.take(&ana, "boiler/pump", OPERATOR).unwrap();
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    assert_eq!(sut.shown(), "boiler person-1");
    let less = sut.take(&ana, "boiler/pump", SUPERVISOR).unwrap_err();
    assert!(matches!(less, ControlRefusal::Contained { .. }), "{less}");
    sut.take(&ana, "boiler", SUPERVISOR).unwrap();
    assert!(sut.take(&bo, "boiler", SUPERVISOR).is_err());
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    sut.take(&bo, "boiler", SUPERVISOR).unwrap();
}

const TEN: Duration = Duration::from_secs(10);

impl Plant {
    fn lease(&self, who: &Caller, name: &str) -> Result<(), FaultCode> {
        let (variable, request) = (self.rig.variable(name), LeaseRequest::acquire(TEN));
        let granted = self.rig.lease(who, variable.handle(), request);
        granted.map(|_| ()).map_err(|refusal| refusal.code())
    }

    fn renew(&self, who: &Caller, name: &str) -> Result<(), FaultCode> {
        let (variable, request) = (self.rig.variable(name), LeaseRequest::renew(TEN));
        let granted = self.rig.lease(who, variable.handle(), request);
        granted.map(|_| ()).map_err(|refusal| refusal.code())
    }

    /// Deploys `panel/speed`, an alias of `boiler/pump/speed`, and `far/speed`, an alias of that.
    fn deploy_aliases(&self) {
        for (library, target) in [("panel", "boiler/pump/speed"), ("far", "panel/speed")] {
            let properties = Properties {
                alias: target.to_owned(),
                ..Properties::new(DataType::F64)
            };
            self.rig.deploy(library, vec![define("speed", properties)]);
        }
    }
}

/// Behaviour: B-22.
#[test]
fn nobody_but_the_holder_leases_a_variable_of_a_controlled_folder() {
    let (sut, ana, bo) = (Plant::new(), one(1), one(2));
    sut.deploy_aliases();
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    for name in [
        "boiler/level",
        "boiler/pump/speed",
        "panel/speed",
        "far/speed",
    ] {
        assert_eq!(sut.lease(&bo, name), Err(FaultCode::Controlled), "{name}");
        assert_eq!(sut.renew(&bo, name), Err(FaultCode::Controlled), "{name}");
        assert!(sut.may_write(&ana, name), "{name}");
        assert_eq!(sut.lease(&ana, name), Ok(()), "{name}");
    }
    assert_eq!(sut.lease(&bo, "rig/x"), Ok(()));
    // The lease of the former holder remains until it ends.
    sut.release(&ana, "boiler").unwrap();
    assert_eq!(sut.lease(&bo, "boiler/level"), Err(FaultCode::Leased));
    sut.advance(10);
    assert_eq!(sut.lease(&bo, "boiler/level"), Ok(()));
}

/// Behaviour: B-22.
#[test]
fn control_ends_the_leases_of_others_and_keeps_its_own() {
    let sut = Plant::new();
    sut.deploy_aliases();
    let (screen, terminal, bo) = (person(1, "ana"), person(2, "ana"), one(3));
    let of_identity = ControlTerms {
        holder: ControlHolder::Identity,
        ..OPERATOR
    };
    for name in ["boiler/level", "panel/speed", "far/speed", "rig/x"] {
        sut.lease(&bo, name).unwrap();
    }
    sut.lease(&terminal, "boiler/pump/on").unwrap();
    sut.take(&screen, "boiler", of_identity).unwrap();
    for name in ["boiler/level", "panel/speed", "far/speed"] {
        assert!(sut.may_write(&screen, name), "{name}");
        assert_eq!(sut.renew(&bo, name), Err(FaultCode::Controlled), "{name}");
    }
    assert_eq!(sut.renew(&bo, "rig/x"), Ok(()));
    assert_eq!(sut.renew(&terminal, "boiler/pump/on"), Ok(()));
    sut.release(&screen, "boiler").unwrap();
    // As after its time, a lease that has ended cannot be renewed, because others may have written.
    assert_eq!(sut.renew(&bo, "boiler/level"), Err(FaultCode::NotLeased));
    assert_eq!(sut.lease(&bo, "boiler/level"), Ok(()));

    // The next holder ends the leases of the one before, whether it takes over or has waited.
    sut.take(&bo, "boiler", OPERATOR).unwrap();
    sut.lease(&bo, "boiler/pump/on").unwrap();
    sut.take(&one(4), "boiler", SUPERVISOR).unwrap();
    assert!(sut.may_write(&one(4), "boiler/pump/on"));
    sut.lease(&one(4), "boiler/pump/on").unwrap();
    sut.request(&bo, "boiler", OPERATOR).unwrap();
    sut.release(&one(4), "boiler").unwrap();
    sut.search(&bo);
    assert!(sut.may_write(&bo, "boiler/pump/on"));
}

#[test]
fn requests_are_granted_in_the_order_of_their_arrival() {
    let (sut, ana) = (Plant::new(), one(1));
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    for session in [2, 3, 4] {
        // A supervisor that asks does not take over either.
        let terms = [OPERATOR, SUPERVISOR][(session % 2) as usize];
        sut.request(&one(session), "boiler", terms).unwrap();
        sut.advance(1);
    }
    // Asking again changes the terms, not the place.
    sut.request(&one(2), "boiler", SUPERVISOR).unwrap();
    sut.release(&one(3), "boiler").unwrap();
    assert_eq!(
        sut.shown(),
        "boiler person-1, boiler? person-2, boiler? person-4"
    );
    sut.release(&ana, "boiler").unwrap();
    sut.search(&one(2));
    assert_eq!(sut.shown(), "boiler person-2, boiler? person-4");
    assert!(sut.may_write(&one(2), "boiler/level") && !sut.may_write(&ana, "boiler/level"));
    sut.end(&one(2));
    sut.search(&one(4));
    assert_eq!(sut.shown(), "boiler person-4");
}

#[test]
fn request_for_several_holders_waits_for_all_and_is_not_overtaken() {
    let (sut, ana, bo, cy, di) = (Plant::new(), one(1), one(2), one(3), one(4));
    sut.take(&ana, "boiler/pump", OPERATOR).unwrap();
    sut.take(&bo, "boiler/level", OPERATOR).unwrap();
    sut.request(&cy, "boiler", OPERATOR).unwrap();
    sut.request(&di, "boiler/pump", OPERATOR).unwrap();
    sut.release(&ana, "boiler/pump").unwrap();
    assert_eq!(
        sut.shown(),
        "boiler? person-3, boiler/level person-2, boiler/pump? person-4"
    );
    // Once the earlier request is withdrawn, the later one is granted.
    sut.end(&cy);
    sut.search(&di);
    assert_eq!(sut.shown(), "boiler/level person-2, boiler/pump person-4");
}

#[test]
fn holder_hands_over_to_the_client_of_its_choice() {
    let (sut, ana, bo, cy) = (Plant::new(), one(1), one(2), one(3));
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    sut.request(&bo, "boiler", OPERATOR).unwrap();
    let number = sut.request(&cy, "boiler/pump", OPERATOR).unwrap();
    assert!(sut.give(&bo, "boiler", number).is_err());
    let unknown = sut.give(&ana, "boiler", number + 1).unwrap_err();
    assert!(matches!(unknown, ControlRefusal::NoRequest { .. }));
    assert_eq!(sut.give(&ana, "boiler", number), Ok(number));
    sut.search(&cy);
    // The rest of the boiler is free again, but the earlier request needs all of it.
    assert_eq!(sut.shown(), "boiler? person-2, boiler/pump person-3");
    assert!(sut.may_write(&ana, "boiler/level") && !sut.may_write(&ana, "boiler/pump/on"));
}

#[test]
fn handing_over_changes_nothing_if_further_holders_are_in_the_way() {
    let (sut, ana, bo, cy) = (Plant::new(), one(1), one(2), one(3));
    sut.take(&ana, "boiler/pump", OPERATOR).unwrap();
    sut.take(&bo, "boiler/level", OPERATOR).unwrap();
    let number = sut.request(&cy, "boiler", OPERATOR).unwrap();
    let refused = sut.give(&ana, "boiler/pump", number).unwrap_err();
    assert!(refused.to_string().contains("person-2"), "{refused}");
    assert!(!sut.may_write(&bo, "boiler/pump/on"));
}

/// Behaviour: B-22.
#[test]
fn control_ends_on_time_without_polling_and_with_its_session() {
    let (sut, ana, bo) = (Plant::new(), one(1), one(2));
    let for_ten = ControlTerms {
        duration: Some(Duration::from_secs(10)),
        ..OPERATOR
    };
    sut.take(&ana, "boiler", for_ten).unwrap();
    let due = sut
        .rig
        .engine
        .poll(sut.rig.now(), sut.rig.wall(), &mut Wakes::new());
    sut.advance(9);
    assert!(!sut.may_write(&bo, "boiler/level"));
    sut.advance(1);
    assert_eq!(due, Some(sut.rig.now()));
    assert!(sut.may_write(&bo, "boiler/level"));
    assert!(sut.take(&bo, "boiler", OPERATOR).is_ok());
    sut.end(&bo);
    assert!(sut.may_write(&ana, "boiler/level"));
}

#[test]
fn control_of_an_identity_admits_its_sessions_and_outlives_them_for_its_time() {
    let sut = Plant::new();
    let (screen, terminal, other) = (person(1, "ana"), person(2, "ana"), one(3));
    let of_identity = ControlTerms {
        holder: ControlHolder::Identity,
        ..OPERATOR
    };
    sut.take(&screen, "boiler", of_identity).unwrap();
    assert!(sut.may_write(&terminal, "boiler/level") && !sut.may_write(&other, "boiler/level"));
    sut.end(&screen);
    assert!(sut.may_write(&other, "boiler/level"));

    let for_a_minute = ControlTerms {
        duration: Some(Duration::from_secs(60)),
        ..of_identity
    };
    let screen = person(4, "ana");
    sut.take(&screen, "boiler", for_a_minute).unwrap();
    sut.end(&screen);
    assert!(sut.may_write(&terminal, "boiler/level") && !sut.may_write(&other, "boiler/level"));
    // Any session of the identity releases it.
    sut.release(&terminal, "boiler").unwrap();
    assert!(sut.may_write(&other, "boiler/level"));

    // The control of a session excludes other sessions of the same identity.
    sut.take(&terminal, "boiler", OPERATOR).unwrap();
    assert!(!sut.may_write(&person(5, "ana"), "boiler/level"));
    let unknown = Caller {
        principal: Principal::Loopback,
        ..one(6)
    };
    let refused = sut.take(&unknown, "rig", of_identity).unwrap_err();
    assert!(matches!(refused, ControlRefusal::NoIdentity), "{refused}");
    assert!(sut.take(&unknown, "rig", OPERATOR).is_ok());
}

#[test]
fn request_ends_when_its_identity_gets_a_folder_around_it() {
    let sut = Plant::new();
    let (screen, terminal, other) = (person(1, "ana"), person(2, "ana"), one(3));
    let of_identity = ControlTerms {
        holder: ControlHolder::Identity,
        level: ControlLevel::Supervisor,
        ..OPERATOR
    };
    let consumer = sut.rig.consumer();
    let control = sut.rig.engine.control();
    sut.take(&other, "boiler/pump", OPERATOR).unwrap();
    sut.request(&terminal, "boiler/pump", OPERATOR).unwrap();
    let waiting = control.follow(&terminal, &consumer);
    sut.take(&screen, "boiler", of_identity).unwrap();
    assert_eq!(sut.shown(), "boiler ana");
    assert!(control.follow(&terminal, &consumer) > waiting);
    assert!(sut.may_write(&terminal, "boiler/pump/on"));
}

#[test]
fn variables_deployed_later_are_controlled_too() {
    let (sut, ana, bo) = (Plant::new(), one(1), one(2));
    sut.take(&ana, "oven", OPERATOR).unwrap();
    sut.rig
        .deploy("oven", vec![define("zone", Properties::new(DataType::F64))]);
    assert!(!sut.may_write(&bo, "oven/zone") && sut.may_write(&ana, "oven/zone"));
}

/// Behaviour: B-22, H-27.
#[test]
fn sources_forcing_and_requests_for_values_take_precedence() {
    let (sut, ana, bo) = (Plant::new(), one(1), one(2));
    let level = sut.rig.variable("boiler/level");
    sut.take(&ana, "boiler", SUPERVISOR).unwrap();
    assert_eq!(sut.rig.publish(&level, 5.0), applied(1));
    let value = Value::F64(7.0);
    let force = Write {
        verb: WriteVerb::Force,
        ..Write::value(&value)
    };
    let forced = done(sut.rig.attempt_as(&bo, &level, &force));
    assert_eq!(forced, applied(2));
    let fresh = done(
        sut.rig
            .attempt_as(&bo, &level, &Write::order(WriteVerb::Request)),
    );
    assert!(
        !matches!(fresh, WriteOutcome::Refused(Refusal::Controlled(_))),
        "{fresh:?}"
    );
}

/// Behaviour: B-23.
#[test]
fn group_with_a_controlled_member_is_refused_as_a_whole() {
    let (sut, ana, bo) = (Plant::new(), one(1), one(2));
    sut.take(&ana, "boiler/pump", OPERATOR).unwrap();
    let (level, on) = (
        sut.rig.variable("boiler/level"),
        sut.rig.variable("boiler/pump/on"),
    );
    let value = Value::F64(1.0);
    let members = [&level, &on].map(|variable| GroupMember {
        handle: variable.handle(),
        write: Write::value(&value),
    });
    let (now, wall) = (sut.rig.now(), sut.rig.wall());
    let groups = sut.rig.engine.groups();
    let attempt = groups.try_write(&bo, now, wall, &members, &mut Wakes::new());
    let GroupAttempt::Done(outcome) = attempt else {
        panic!("{attempt:?}");
    };
    assert_eq!(outcome.commit, None);
    assert_eq!((level.sequence(), on.sequence()), (0, 0));
}

/// Behaviour: B-22, H-20.
#[test]
fn alias_elsewhere_does_not_lead_around_control() {
    let (sut, ana, bo) = (Plant::new(), one(1), one(2));
    let alias = Properties {
        alias: "boiler/level".to_owned(),
        ..Properties::new(DataType::F64)
    };
    sut.rig.deploy("view", vec![define("level", alias)]);
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    let WriteOutcome::Refused(refusal) = sut.write(&bo, "view/level") else {
        panic!("not refused");
    };
    assert_eq!(refusal.code(), FaultCode::Controlled);
    assert!(matches!(
        sut.write(&ana, "view/level"),
        WriteOutcome::Applied(_)
    ));
    assert_eq!(sut.rig.variable("boiler/level").sequence(), 1);
}

fn with_rights(session: u32, actions: &[Action]) -> Caller {
    Caller {
        rights: Rights::Uniform(Actions::of(actions)),
        ..one(session)
    }
}

/// Behaviour: B-82.
#[test]
fn levels_need_rights_on_the_whole_folder() {
    let sut = Plant::new();
    let viewer = with_rights(1, &[Action::Read]);
    let operator = with_rights(2, &[Action::Read, Action::Write]);
    let engineer = with_rights(3, &[Action::Read, Action::Write, Action::Force]);
    for (who, terms, expected) in [
        (&viewer, OPERATOR, Some(FaultCode::Denied)),
        (&operator, SUPERVISOR, Some(FaultCode::Denied)),
        (&operator, OPERATOR, None),
        (&engineer, SUPERVISOR, None),
    ] {
        let taken = sut.take(who, "boiler", terms);
        assert_eq!(
            taken.err().map(|refusal| refusal.code()),
            expected,
            "{who} {terms:?}"
        );
        let requested = sut.request(who, "boiler", terms);
        assert_eq!(requested.is_err(), expected.is_some(), "{who} {terms:?}");
    }
}

/// Returns the rules of an account with this role and these rules, at a host.
fn rules_of(
    account: &str,
    host: Host,
    role: Option<Role>,
    rules: Vec<Rule>,
) -> Option<SubjectRules> {
    let account = Account {
        name: UserName::parse(account).unwrap(),
        role,
        groups: Vec::new(),
        disabled: false,
        place: Place::from("access.toml:1"),
    };
    let name = account.name.clone();
    let policy = Policy::new(vec![account], rules).unwrap();
    let subject = policy.subject(name.as_str(), host).unwrap();
    Some(policy.subject_rules(&subject))
}

/// Requests of accounts that have lost their rights wait until their sessions end, which may be later.
#[test]
fn request_of_an_account_that_lost_its_right_is_withdrawn_and_never_granted() {
    let (sut, ana, bo, cy) = (Plant::new(), one(1), one(2), one(3));
    sut.take(&ana, "boiler", FOR_A_DAY).unwrap();
    sut.request(&bo, "boiler", FOR_A_DAY).unwrap();
    sut.advance(1);
    sut.request(&cy, "boiler/pump", OPERATOR).unwrap();
    sut.change_rules(|account, host| {
        let role = match account {
            "person-3" => Role::Operator,
            "person-2" => Role::Viewer,
            _ => return None,
        };
        rules_of(account, host, Some(role), Vec::new())
    });
    sut.search(&cy);
    assert_eq!(sut.shown(), "boiler/pump person-3");
    let entries = sut.rig.engine.audit().take(1, 100);
    let withdrawn = entries
        .iter()
        .filter(|entry| entry.action == AuditAction::ControlRelease);
    let who: Vec<&str> = withdrawn.map(|entry| entry.who.as_str()).collect();
    assert_eq!(who, ["account:person-2"]);
    sut.end(&bo);
    assert_eq!(sut.shown(), "boiler/pump person-3");
}

#[test]
fn change_of_rules_ends_control_by_the_rules_for_the_host_of_its_holder() {
    let sut = Plant::new();
    let at = |session: u32, host: &str| Caller {
        host: host.parse().unwrap(),
        ..one(session)
    };
    let (near, far) = (at(1, "10.1.0.5"), at(2, "10.2.0.5"));
    sut.take(&near, "boiler", FOR_A_DAY).unwrap();
    sut.take(&far, "rig", FOR_A_DAY).unwrap();
    // Both accounts may write only from one network.
    let from_near = |account: &str, host| {
        let rule = Rule {
            who: Who::Host("10.1.0.0/16".parse().unwrap()),
            pattern: Pattern::parse("**").unwrap(),
            effect: Effect::Grant,
            actions: Actions::of(&[Action::Write]),
            place: Place::from("access.toml:2"),
        };
        rules_of(account, host, Some(Role::Viewer), vec![rule])
    };
    sut.change_rules(from_near);
    assert_eq!(sut.shown(), "boiler person-1");
    assert!(sut.may_write(&near, "boiler/level") && !sut.may_write(&far, "boiler/level"));
}

/// The folders that others control count for those who wait for them or take them over.
#[test]
fn folders_and_requests_of_one_identity_are_bounded_wherever_others_have_control() {
    let sut = Plant::new();
    let (share, folders) = (CONTROL_OF_IDENTITY_MAX as u32, 32_u32);
    let holder = person(1, "ana");
    for number in 0..folders {
        let text = format!("f/{number}");
        sut.take(&holder, &text, OPERATOR).unwrap();
    }
    let mut waiting = 0;
    for session in 2..share {
        let who = person(session, "ana");
        for number in 0..folders {
            let requested = sut.request(&who, &format!("f/{number}"), OPERATOR);
            waiting += u32::from(requested.is_ok());
        }
    }
    assert_eq!(folders + waiting, share);

    let sut = Plant::new();
    let mut taken = 0;
    for number in 0..2 * share {
        let operator = one(100 + number / 100);
        let text = format!("f/{number}");
        sut.take(&operator, &text, OPERATOR).unwrap();
        taken += u32::from(sut.take(&one(1), &text, SUPERVISOR).is_ok());
    }
    assert_eq!(taken, share);

    // A request of an identity for its own folder, behind that of another, counts as well.
    let sut = Plant::new();
    let of_identity = ControlTerms {
        holder: ControlHolder::Identity,
        ..OPERATOR
    };
    let folders = 40;
    for number in 0..folders {
        let text = format!("f/{number}");
        sut.take(&person(1, "ana"), &text, of_identity).unwrap();
        sut.request(&one(2), &text, OPERATOR).unwrap();
    }
    let mut own = folders;
    for session in 3..60 {
        for number in 0..folders {
            let requested = sut.request(&person(session, "ana"), &format!("f/{number}"), OPERATOR);
            own += u32::from(requested.is_ok());
        }
    }
    assert_eq!(own, share);
}

/// One account neither fills the queue of a folder, nor does its control pass through dozens of its
/// sessions, whether they ask for the folder, for folders in it or for one around it.
#[test]
fn one_identity_waits_for_a_folder_a_few_times_and_others_can_wait_as_well() {
    let sut = Plant::new();
    sut.take(&one(1), "boiler", OPERATOR).unwrap();
    let ask = |session: u32, text: &str| sut.request(&person(session, "ana"), text, OPERATOR);
    let max = CONTROL_WAITING_OF_IDENTITY_MAX as u32;
    for session in 10..10 + max {
        ask(session, ["boiler", "**"][session as usize % 2]).unwrap();
        // Asking again needs no further place.
        ask(session, ["boiler", "**"][session as usize % 2]).unwrap();
    }
    for text in ["boiler", "boiler/pump", "**"] {
        let refused = ask(99, text).unwrap_err();
        assert_eq!(refused.code(), FaultCode::LimitReached);
        assert!(
            refused.to_string().contains("already wait 4 times"),
            "{refused}"
        );
    }
    sut.request(&one(2), "boiler", OPERATOR).unwrap();
    (10..10 + max).for_each(|session| sut.end(&person(session, "ana")));

    // Requests for many folders do not fill the queue of the one around them.
    for number in 0..CONTROL_WAITING_MAX as u32 {
        ask(10 + number, &format!("boiler/{number}")).unwrap();
    }
    assert!(ask(99, "boiler").is_err());
    sut.request(&one(3), "boiler", OPERATOR).unwrap();
}

#[test]
fn queue_and_number_of_folders_are_bounded() {
    let (sut, ana) = (Plant::new(), one(1));
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    for session in 0..CONTROL_WAITING_MAX as u32 {
        sut.request(&one(100 + session), "boiler", OPERATOR)
            .unwrap();
    }
    let full = sut.request(&one(2), "boiler/pump", OPERATOR).unwrap_err();
    assert_eq!(full.code(), FaultCode::LimitReached);
    for number in 1..CONTROL_OF_IDENTITY_MAX {
        sut.take(&ana, &format!("f/{number}"), OPERATOR).unwrap();
    }
    let many = sut.take(&ana, "g", OPERATOR).unwrap_err();
    assert_eq!(many.code(), FaultCode::LimitReached);
    // Taking a folder again needs no room.
    assert!(sut.take(&ana, "f/1", OPERATOR).is_ok());
}

/// Behaviour: B-24.
#[test]
fn audit_records_who_took_gave_released_and_lost_control() {
    let (sut, ana, bo, cy) = (Plant::new(), one(1), one(2), one(3));
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    assert!(sut.take(&bo, "boiler", OPERATOR).is_err());
    let number = sut.request(&bo, "boiler", OPERATOR).unwrap();
    sut.give(&ana, "boiler", number).unwrap();
    sut.take(&cy, "boiler", SUPERVISOR).unwrap();
    sut.release(&cy, "boiler").unwrap();
    let entries = sut.rig.engine.audit().take(1, 100);
    let shown: Vec<String> = entries
        .iter()
        .map(|entry| {
            assert_eq!(entry.name, "boiler");
            let outcome = match &entry.outcome {
                AuditOutcome::Done => "done",
                AuditOutcome::Refused(rule) => {
                    assert!(rule.contains("person-1"), "{rule}");
                    "refused"
                }
                other => panic!("{other:?}"),
            };
            format!("{} {} {outcome}", entry.who, entry.action.name())
        })
        .collect();
    assert_eq!(
        shown,
        [
            "account:person-1 control take done",
            "account:person-2 request refused",
            "account:person-2 control request done",
            "account:person-1 control give done",
            "account:person-2 control take done",
            "engine control end done",
            "account:person-3 control take done",
            "account:person-3 control release done",
        ]
    );
    let action = |action: AuditAction| entries.iter().filter(move |one| one.action == action);
    let taken = action(AuditAction::ControlTake).next_back().unwrap();
    assert!(
        taken.new.contains("supervisor") && taken.new.contains("took over boiler from"),
        "{}",
        taken.new
    );
}

/// Behaviour: B-14.
#[test]
fn why_names_the_holder_and_blames_it_for_a_refused_write() {
    let (sut, ana, bo) = (Plant::new(), one(1), one(2));
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    sut.request(&one(3), "boiler", OPERATOR).unwrap();
    let step = |who: &Caller| {
        let (now, wall) = (sut.rig.now(), sut.rig.wall());
        let queries = sut.rig.engine.queries();
        let steps = queries.explain(who, "boiler/level", now, wall).into_iter();
        let mut of_rights = steps.filter(|step| step.stage == WhyStage::Rights);
        of_rights.find(|step| step.sentence.contains("controlled"))
    };
    assert_eq!(sut.write(&ana, "boiler/level"), applied(1));
    let note = step(&bo).unwrap();
    assert_eq!(note.verdict, WhyVerdict::Note);
    for part in ["folder boiler", "account:person-1", "1 request waits"] {
        assert!(note.sentence.contains(part), "{}", note.sentence);
    }
    assert!(step(&ana).unwrap().sentence.contains("controlled by you"));
    assert!(!sut.may_write(&bo, "boiler/level"));
    let fault = step(&bo).unwrap();
    assert_eq!(fault.verdict, WhyVerdict::Fault);
    assert!(
        fault.next.contains("trunkline control request boiler"),
        "{}",
        fault.next
    );
    sut.end(&one(3));
    sut.end(&ana);
    assert_eq!(step(&bo), None);
}

struct Counter(Arc<AtomicUsize>);

impl Wake for Counter {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn sessions_learn_of_grants_requests_and_losses() {
    let (sut, ana, bo, cy) = (Plant::new(), one(1), one(2), one(3));
    let wakes = Arc::new(AtomicUsize::new(0));
    let wake = || Box::new(Counter(Arc::clone(&wakes)));
    let consumer = Consumer::new(sut.rig.engine.clone(), wake());
    let control = sut.rig.engine.control();
    let revision = |who: &Caller| control.follow(who, &consumer);
    let before = revision(&ana);
    sut.take(&ana, "boiler", OPERATOR).unwrap();
    let granted = revision(&ana);
    assert!(granted > before && wakes.load(Ordering::Relaxed) > 0);
    sut.request(&bo, "boiler/pump", OPERATOR).unwrap();
    let asked = revision(&ana);
    assert!(asked > granted);
    // It is not woken by what does not concern it.
    let woken = wakes.load(Ordering::Relaxed);
    sut.take(&cy, "rig", OPERATOR).unwrap();
    assert_eq!(
        (revision(&ana), wakes.load(Ordering::Relaxed)),
        (asked, woken)
    );
    sut.take(&cy, "boiler", SUPERVISOR).unwrap();
    assert!(revision(&ana) > asked);
}

/// What a session does in the model. The sessions with odd numbers are of one identity, the others of
/// another.
#[derive(Clone, Debug)]
enum Act {
    Take(u32, usize, bool, bool, bool),
    Request(u32, usize, bool, bool),
    Release(u32, usize),
    Give(u32, usize),
    End(u32),
    Advance(u64),
    Poll,
    Deploy(bool),
    /// The identity of this session loses its rights. Its sessions do not know it yet.
    Disable(u32),
}

fn member(session: u32) -> Caller {
    person(session, ["even", "odd"][(session % 2) as usize])
}

const FOLDERS: [&str; 6] = ["**", "boiler", "boiler/pump", "boiler/level", "rig", "late"];
const NAMES: [&str; 5] = [
    "boiler/level",
    "boiler/pump/on",
    "boiler/pump/speed",
    "rig/x",
    "late/y",
];

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let (who, place) = (1..5_u32, 0..FOLDERS.len());
    let act = prop_oneof![
        4 => (who.clone(), place.clone(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(who, place, level, timed, identity)| {
                Act::Take(who, place, level, timed, identity)
            }),
        4 => (who.clone(), place.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(who, place, level, timed)| Act::Request(who, place, level, timed)),
        2 => (who.clone(), place.clone()).prop_map(|(who, place)| Act::Release(who, place)),
        2 => (who.clone(), place).prop_map(|(who, place)| Act::Give(who, place)),
        1 => who.clone().prop_map(Act::End),
        1 => who.prop_map(Act::Disable),
        1 => (1..20_u64).prop_map(Act::Advance),
        1 => Just(Act::Poll),
        1 => any::<bool>().prop_map(Act::Deploy),
    ];
    prop::collection::vec(act, 1..60)
}

impl Plant {
    /// Carries out an act of the model, and searches what it granted.
    fn act(&self, act: &Act) {
        let terms = |level: bool, timed: bool, identity: bool| ControlTerms {
            level: match level {
                true => ControlLevel::Supervisor,
                false => ControlLevel::Operator,
            },
            holder: match identity {
                true => ControlHolder::Identity,
                false => ControlHolder::Session,
            },
            duration: timed.then(|| Duration::from_secs(5)),
        };
        match *act {
            Act::Take(who, place, level, timed, identity) => {
                let _ = self.take(&member(who), FOLDERS[place], terms(level, timed, identity));
            }
            Act::Request(who, place, level, timed) => {
                let _ = self.request(&member(who), FOLDERS[place], terms(level, timed, timed));
            }
            Act::Release(who, place) => {
                let _ = self.release(&member(who), FOLDERS[place]);
            }
            Act::Give(who, place) => {
                let waiting = self.list(&one(99)).into_iter().find(|one| one.is_waiting);
                if let Some(waiting) = waiting {
                    let _ = self.give(&member(who), FOLDERS[place], waiting.number);
                }
            }
            Act::End(who) => self.end(&member(who)),
            Act::Advance(seconds) => self.advance(seconds),
            Act::Poll => self.rig.poll(),
            Act::Deploy(true) if self.rig.engine.libraries().get("late").is_none() => {
                let number = Properties::new(DataType::F64);
                self.rig.deploy("late", vec![define("y", number)]);
            }
            Act::Deploy(false) => {
                let (now, wall) = (self.rig.now(), self.rig.wall());
                let libraries = self.rig.engine.libraries();
                let _ = libraries.undeploy("late", now, wall, &mut Wakes::new());
            }
            Act::Deploy(true) => {}
            Act::Disable(who) => {
                let disabled = member(who).principal.to_string();
                let rules = |account: &str, host| match disabled.ends_with(&format!(":{account}")) {
                    true => None,
                    false => rules_of(account, host, Some(Role::Engineer), Vec::new()),
                };
                self.change_rules(rules);
                let mut entries = self.list(&one(99)).into_iter();
                assert!(entries.all(|entry| !entry.by.starts_with(&disabled)));
            }
        }
        self.search_all();
    }

    fn search_all(&self) {
        (1..5).for_each(|who| self.search(&member(who)));
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let entries = self.list(&one(99));
        let held: Vec<_> = entries.iter().filter(|one| !one.is_waiting).collect();
        for (at, first) in held.iter().enumerate() {
            for second in &held[at + 1..] {
                let overlap = first.folder.overlaps(&second.folder);
                prop_assert!(!overlap, "{first:?} {second:?}");
            }
        }
        for name in NAMES {
            let Ok(variable) = self.rig.engine.resolve(&one(99), name) else {
                continue;
            };
            let holder = held.iter().find(|entry| entry.folder.covers(name));
            self.check_writes(&variable, holder.copied())?;
        }
        self.check_requests()
    }

    /// Once what is due is done, a request waits only for a holder, or behind another request.
    fn check_requests(&self) -> Result<(), TestCaseError> {
        self.rig.poll();
        self.search_all();
        let entries = self.list(&one(99));
        for (at, waiting) in entries.iter().enumerate().filter(|(_, one)| one.is_waiting) {
            let mut others = entries.iter().enumerate().filter(|(place, _)| *place != at);
            let is_blocked = others.any(|(_, other)| other.folder.overlaps(&waiting.folder));
            prop_assert!(is_blocked, "{waiting:?} in {entries:?}");
        }
        Ok(())
    }

    /// Everybody may write a variable without a holder, otherwise the holder only: a session, or every
    /// session of an identity.
    fn check_writes(
        &self,
        variable: &Arc<Variable>,
        holder: Option<&ControlEntry>,
    ) -> Result<(), TestCaseError> {
        for who in (1..5).map(member) {
            let value = Value::F64(1.0);
            let written = done(self.rig.attempt_as(&who, variable, &Write::value(&value)));
            let is_permitted = holder.is_none_or(|entry| match entry.holder {
                ControlHolder::Session => entry.by == who.to_string(),
                ControlHolder::Identity => entry.by.starts_with(&format!("{} ", who.principal)),
            });
            match written {
                WriteOutcome::Applied(_) => prop_assert!(is_permitted, "{who} {holder:?}"),
                WriteOutcome::Refused(Refusal::Controlled(control)) => {
                    prop_assert!(!is_permitted, "{who}");
                    prop_assert_eq!(Some(&*control.by), holder.map(|entry| &*entry.by));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Behaviour: B-22.
    #[test]
    fn never_two_holders_overlap_and_no_other_client_writes(acts in acts()) {
        let sut = Plant::new();
        for act in acts {
            sut.act(&act);
            sut.check()?;
        }
        (1..5).for_each(|who| sut.end(&member(who)));
        sut.advance(100);
        sut.rig.poll();
        sut.rig.poll();
        prop_assert!(sut.list(&one(99)).is_empty());
        // Nothing is left behind: every variable is as before.
        prop_assert!(sut.rig.variable("boiler/level").is_plain());
    }
}
