//! Tests that a client learns nothing of variables that it may not read (B-82).
//!
//! Two engines differ only in hidden variables. The same requests get the same answers from both,
//! except for numbers that count or identify all variables of an engine:
//!
//! - handles, and the cursors of FIND, FORCING and ALARMS, which are handles;
//! - the revision of names in APPEARED and VANISHED;
//! - the number of the last group in SNAPSHOT_ANSWER and GROUP_ANSWER;
//! - digests of records, which contain handles.
//!
//! They show how many variables or groups of variables an engine has had, but nothing else of them.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use trunkline_access::{Action, Actions, Effect, Role};
use trunkline_engine::{
    Caller, GroupAttempt, GroupMember, LeaseRequest, Rights, Wakes, Write, WriteVerb,
};
use trunkline_proto::FrameKind;
use trunkline_proto::message::alarm::{AlarmActBuilder, AlarmActHead, AlarmActItem, Alarms};
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::control::{Control, ControlVerb};
use trunkline_proto::message::find::{Find, FindBuilder, FindCondition};
use trunkline_proto::message::forcing::{Forcing, ForcingVerb};
use trunkline_proto::message::group::GroupWriteBuilder;
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::lease::{LeaseBuilder, LeaseHead, LeaseItem, LeaseVerb};
use trunkline_proto::message::open::{OpenBuilder, OpenOptions, OpenTerms};
use trunkline_proto::message::single::encode_empty;
use trunkline_proto::message::subscribe::{
    SubscribeBuilder, SubscribeHead, SubscribeItem, SubscribeTerms,
};
use trunkline_proto::message::watch::Watch;
use trunkline_proto::message::why::Why;
use trunkline_proto::message::write::{WriteBuilder, WriteOptions};
use trunkline_serve::ServeOptions;
use trunkline_types::alarm::{AlarmAction, AlarmDefinition, AlarmKind, LimitLevel, Operand};
use trunkline_types::{
    Access, Comparison, Contract, ControlLevel, ControlTerms, DataType, Folder, Moment, Value,
    VariableDefinition,
};

use crate::rig::access::{granted, rights_of};
use crate::rig::spoken::spoken;
use crate::rig::{Peer, World, define};

/// Number of variables in each library.
const VARIABLES: usize = 4;

/// A variable that the client names, or whose handle it guesses.
#[derive(Clone, Copy, Debug)]
enum Target {
    Own(usize),
    /// A variable that exists in one of the engines only. In the other, it is a name without a variable,
    /// or a handle that was never used.
    Hidden(usize),
    /// A field of such a variable.
    HiddenField(usize),
    /// Neither engine has it.
    Nothing,
}

type BeginHandles = for<'o> fn(&'o mut Vec<u8>, u32) -> HandlesBuilder<'o>;

/// What the client does.
#[derive(Clone, Debug)]
enum Request {
    Open(Vec<Target>, bool),
    OpenNumber(bool),
    Read(Vec<Target>),
    Info(Vec<Target>),
    Snapshot(Vec<Target>),
    Close(Vec<Target>),
    Refresh(Vec<Target>),
    Subscribe(Vec<Target>),
    Write(Vec<Target>, usize),
    Group(Vec<Target>),
    Lease(Vec<Target>, usize),
    Control(usize, usize, bool),
    Find(usize, u32, bool),
    Watch(usize),
    Why(Target),
    Engine,
    Alarms(usize, u32),
    Acknowledge(Vec<Target>),
    Forced(u32),
}

/// What happens to hidden variables, in one of the engines.
#[derive(Clone, Copy, Debug)]
enum Event {
    Deploy(usize),
    Undeploy(usize),
    Write(usize),
    Force(usize),
    Unforce(usize),
    Lease(usize),
    Control(usize, bool),
    EndControl,
    OpenField(usize),
    Group,
    Stop,
}

#[derive(Clone, Debug)]
enum Step {
    Ask(Request),
    Hidden(Event),
    /// Something happens to the client's own variables.
    Own(usize),
    OwnForced(usize, bool),
    Pass,
}

const PATTERNS: [&str; 9] = [
    "**",
    "own/*",
    "foreign/*",
    "*/v1",
    "**/v?",
    "foreign/**",
    "own/**",
    "foreign/v1#units",
    "**#units",
];

/// Folders that the client names. Other clients control and request hidden ones.
const FOLDERS: [&str; 7] = [
    "own",
    "own/v1",
    "foreign",
    "foreign/v1",
    "owned",
    "extra0",
    "**",
];

/// One of the two engines, and the client's session.
struct Side {
    world: World,
    peer: Peer,
    has_hidden: bool,
    /// Cursors that the engine has returned, by kind of frame.
    cursors: BTreeMap<&'static str, u64>,
    next: u32,
    next_write: u64,
}

fn variables() -> Vec<VariableDefinition> {
    let variable = |index: usize| {
        define(&format!("v{index}"), DataType::F64, |p| {
            p.units = "degC".to_owned();
            p.alarms = vec![AlarmDefinition::new(AlarmKind::Limit {
                level: LimitLevel::Hi,
                limit: Operand::Constant(10.0),
                deadband: 0.0,
            })];
        })
    };
    (0..VARIABLES).map(variable).collect()
}

/// Hidden variables have more than others: a number, an alias of one of its own variables, and other units.
fn hidden_variables() -> Vec<VariableDefinition> {
    let mut all = variables();
    all.push(define("number", DataType::F64, |p| {
        p.number = Some(20);
        p.units = "bar".to_owned();
    }));
    all.push(define("alias", DataType::F64, |p| {
        p.alias = "own/v0".to_owned();
    }));
    all
}

impl Side {
    fn new(rights: Rights, has_hidden: bool) -> Self {
        let world = World::new();
        if has_hidden {
            world.deploy("foreign", hidden_variables());
        }
        world.deploy("own", variables());
        if has_hidden {
            world.deploy("owned", variables());
        }
        (0..VARIABLES).for_each(|index| world.set(&format!("own/v{index}"), 1.0));
        world.permit(rights);
        let mut peer = Peer::with(&world, ServeOptions::default());
        peer.say(|out| Hello::default().encode(out));
        peer.said.clear();
        Self {
            world,
            peer,
            has_hidden,
            cursors: BTreeMap::new(),
            next: 0,
            next_write: 0,
        }
    }

    fn name(target: Target) -> String {
        match target {
            Target::Own(index) => format!("own/v{index}"),
            Target::Hidden(index) => format!("foreign/v{index}"),
            Target::HiddenField(index) => format!("foreign/v{index}#units"),
            Target::Nothing => "own/v77".to_owned(),
        }
    }

    /// The handle of a variable. Where it does not exist, a handle of a slot that was never used.
    fn handle(&self, target: Target) -> u32 {
        let found = self
            .world
            .engine()
            .resolve(&Caller::engine(), &Self::name(target));
        let unused = match target {
            Target::Own(index) | Target::Hidden(index) => index,
            Target::HiddenField(index) => 100 + index,
            Target::Nothing => 200,
        };
        found.map_or((1 << 20) + unused as u32, |variable| variable.handle())
    }

    /// Lets a hidden variable change, if this engine has any.
    fn happen(&self, event: Event) {
        if !self.has_hidden {
            return;
        }
        let (engine, (now, wall)) = (self.world.engine(), self.world.time());
        let (caller, mut wakes) = (Caller::local(4000, 7), Wakes::new());
        let extra = |index: usize| format!("extra{index}");
        let hidden = |index: usize| {
            let name = format!("foreign/v{index}");
            engine.resolve(&Caller::engine(), &name).unwrap()
        };
        let value = Value::F64(50.0);
        let put = |index: usize, verb: WriteVerb| {
            let write = Write {
                verb,
                ..Write::value(&value)
            };
            engine.try_write(
                &caller,
                now,
                wall,
                &hidden(index),
                &write,
                &mut Wakes::new(),
            );
        };
        match event {
            Event::Deploy(index) => {
                if engine.libraries().get(&extra(index)).is_none() {
                    self.world.deploy(&extra(index), variables());
                }
            }
            Event::Undeploy(index) => {
                let _is_deployed =
                    engine
                        .libraries()
                        .undeploy(&extra(index), now, wall, &mut wakes);
            }
            Event::Write(index) => put(index, WriteVerb::Put),
            Event::Force(index) => put(index, WriteVerb::Force),
            Event::Unforce(index) => put(index, WriteVerb::Unforce),
            Event::Lease(index) => {
                let request = LeaseRequest::acquire(Duration::from_secs(60));
                let handle = hidden(index).handle();
                let moment = Moment { now, wall };
                let leases = engine.leases();
                let _lease = leases.request(&caller, moment, handle, request, &mut wakes);
            }
            Event::Control(place, supervises) => {
                let level = match supervises {
                    true => ControlLevel::Supervisor,
                    false => ControlLevel::Operator,
                };
                let terms = ControlTerms {
                    level,
                    ..ControlTerms::default()
                };
                let folder = Folder::parse(FOLDERS[2 + place % 4]).unwrap();
                let (control, moment) = (engine.control(), Moment { now, wall });
                let other = Caller::local(4001, 8);
                let _taken = control.take(&caller, &folder, terms, moment, &mut wakes);
                let _requested = control.request(&other, &folder, terms, moment, &mut wakes);
                while control.search(caller.session, 10, moment, &mut wakes) {}
            }
            Event::EndControl => {
                let (control, moment) = (engine.control(), Moment { now, wall });
                control.end_session(caller.session, moment, &mut wakes);
            }
            Event::OpenField(index) => {
                let name = format!("foreign/v{index}#units");
                engine.fields().open(&caller, &name, now, wall).unwrap();
            }
            Event::Group => {
                let members = [0, 1].map(|index| GroupMember {
                    handle: hidden(index).handle(),
                    write: Write::value(&value),
                });
                let groups = engine.groups();
                let attempt = groups.try_write(&caller, now, wall, &members, &mut wakes);
                assert!(matches!(attempt, GroupAttempt::Done(_)));
            }
            Event::Stop => {
                let libraries = engine.libraries();
                libraries.stop("foreign", now, wall, &mut wakes).unwrap();
                libraries.start("foreign", now, wall, &mut wakes).unwrap();
            }
        }
    }

    /// Carries out a step, and returns what the client hears, without numbers that may differ.
    fn step(&mut self, step: &Step) -> Vec<String> {
        self.peer.said.clear();
        match step {
            Step::Ask(request) => self.ask(request),
            Step::Hidden(event) => self.happen(*event),
            Step::Own(index) => {
                let value = self.world.sequence(&format!("own/v{index}")) as f64;
                self.world.set(&format!("own/v{index}"), value);
            }
            Step::OwnForced(index, is_forced) => {
                let value = Value::F64(3.0);
                let write = Write {
                    verb: match is_forced {
                        true => WriteVerb::Force,
                        false => WriteVerb::Unforce,
                    },
                    ..Write::value(&value)
                };
                self.world.try_write(&format!("own/v{index}"), &write);
            }
            Step::Pass => {
                self.world.advance(Duration::from_millis(700));
                self.peer.time_out();
            }
        }
        self.peer.take();
        let said = self.peer.frames(spoken);
        self.note_cursors(&said);
        said.iter()
            .map(|frame| self.without_numbers(frame))
            .collect()
    }

    fn note_cursors(&mut self, said: &[String]) {
        for frame in said {
            for (kind, key) in [
                ("NAMES", "next_cursor: Some("),
                ("ALARM_PAGE", "next: "),
                ("FORCED", "next_cursor: "),
            ] {
                if frame.starts_with(kind) {
                    let cursor = number_after(frame, key).map_or(0, |(number, _)| number);
                    self.cursors.insert(kind, cursor);
                }
            }
        }
    }

    /// Replaces each handle with the name of its variable, and numbers that count all variables with `#`.
    fn without_numbers(&self, frame: &str) -> String {
        let engine = self.world.engine();
        let name = |number: u64| {
            let variable = engine.variable(number as u32);
            variable.map_or_else(|| "#".to_owned(), |variable| variable.name().to_owned())
        };
        let mut frame = frame.to_owned();
        let keys: &[(&str, bool)] = &[
            ("handle: ", true),
            // The client itself has sent this handle, which it may not name.
            ("because of handle ", false),
            ("is variable ", true),
            ("next_cursor: Some(", false),
            ("revision: ", false),
            ("commit: ", false),
            ("commit: Some(", false),
            ("digest: ", false),
        ];
        for (key, is_handle) in keys {
            frame = replace_numbers(&frame, key, |number| match is_handle {
                true => name(number),
                false => "#".to_owned(),
            });
        }
        if frame.starts_with("CHECK") {
            let handles = frame.split("handles: [").skip(1);
            let counts = handles.map(|rest| rest.split(']').next().unwrap().split(',').count());
            frame = format!("CHECK of {} items", counts.sum::<usize>());
        }
        if frame.starts_with("VANISHED") {
            frame = replace_numbers(&frame, "\"", name);
        }
        if frame.starts_with("ALARM_PAGE") {
            frame = replace_numbers(&frame, "next: ", |next| u64::min(next, 1).to_string());
        }
        if frame.starts_with("FORCED") {
            let is_last = |next: u64| u64::min(next, 1).to_string();
            frame = replace_numbers(&frame, "next_cursor: ", is_last);
        }
        frame
    }

    fn ask(&mut self, request: &Request) {
        self.next += 1;
        let number = self.next;
        let handles = |targets: &[Target]| -> Vec<u32> {
            targets.iter().map(|target| self.handle(*target)).collect()
        };
        let with_handles = |targets: &[Target], begin: BeginHandles| {
            let mut out = Vec::new();
            let mut frame = begin(&mut out, number);
            handles(targets)
                .iter()
                .for_each(|handle| frame.push(handle));
            frame.finish(false);
            out
        };
        let mut out = Vec::new();
        let value = 12.5_f64.to_le_bytes();
        match request {
            Request::Open(targets, subscribe) => {
                let terms = OpenTerms {
                    options: OpenOptions {
                        read: true,
                        describe: true,
                    },
                    subscribe: subscribe.then_some(terms()),
                };
                let mut open = OpenBuilder::begin(&mut out, number, &terms);
                for target in targets {
                    open.push(&Self::name(*target).as_bytes());
                }
                open.finish(false);
            }
            Request::OpenNumber(is_misspelled) => {
                let terms = OpenTerms::default();
                let mut open = OpenBuilder::begin(&mut out, number, &terms);
                let name: &[u8] = match is_misspelled {
                    true => b"foreign/v",
                    false => b":/20",
                };
                open.push(&name);
                open.finish(false);
            }
            Request::Read(targets) => {
                out = with_handles(targets, |out, n| HandlesBuilder::read(out, n))
            }
            Request::Info(targets) => {
                out = with_handles(targets, |out, n| HandlesBuilder::info(out, n))
            }
            Request::Snapshot(targets) => {
                out = with_handles(targets, |out, n| HandlesBuilder::snapshot(out, n))
            }
            Request::Close(targets) => {
                out = with_handles(targets, |out, n| HandlesBuilder::close(out, n))
            }
            Request::Refresh(targets) => {
                out = with_handles(targets, |out, n| HandlesBuilder::request_value(out, n));
            }
            Request::Subscribe(targets) => {
                let head = SubscribeHead {
                    terms: terms(),
                    resume_epoch: None,
                };
                let mut subscribe = SubscribeBuilder::begin(&mut out, number, &head);
                for handle in handles(targets) {
                    subscribe.push(&SubscribeItem {
                        handle,
                        last_sequence: 0,
                    });
                }
                subscribe.finish(false);
            }
            Request::Write(targets, verb) => {
                let verbs = [
                    WriteVerb::Put,
                    WriteVerb::Set,
                    WriteVerb::Send,
                    WriteVerb::Request,
                    WriteVerb::Force,
                    WriteVerb::Unforce,
                ];
                let options = WriteOptions {
                    verb: Ok(verbs[verb % verbs.len()]),
                    ..WriteOptions::default()
                };
                let mut write = WriteBuilder::begin(&mut out, self.next_write);
                for handle in handles(targets) {
                    write.push(handle, &options, &value);
                }
                write.finish();
                self.next_write += targets.len() as u64;
            }
            Request::Group(targets) => {
                let mut group = GroupWriteBuilder::begin(&mut out, number, false);
                for handle in handles(targets) {
                    group.push(handle, &WriteOptions::default(), &value);
                }
                group.finish();
            }
            Request::Lease(targets, verb) => {
                let verbs = [LeaseVerb::Acquire, LeaseVerb::Renew, LeaseVerb::Release];
                let head = LeaseHead {
                    verb: verbs[verb % verbs.len()],
                    duration: Duration::from_secs(60),
                    expected_epoch: None,
                };
                let mut lease = LeaseBuilder::begin(&mut out, number, &head);
                for handle in handles(targets) {
                    lease.push(&LeaseItem {
                        handle,
                        sequence: 0,
                    });
                }
                lease.finish(false);
            }
            Request::Control(verb, folder, supervises) => {
                let verbs = [
                    ControlVerb::List,
                    ControlVerb::Take,
                    ControlVerb::Request,
                    ControlVerb::Release,
                    ControlVerb::Give,
                    ControlVerb::Follow,
                ];
                let verb = verbs[verb % verbs.len()];
                let control = Control {
                    verb,
                    folder: FOLDERS[folder % FOLDERS.len()],
                    level: match supervises {
                        true => ControlLevel::Supervisor,
                        false => ControlLevel::Operator,
                    },
                    ..Control::default()
                };
                control.encode(number, &mut out);
            }
            Request::Find(pattern, limit, has_condition) => {
                let cursor = self.cursors.get("NAMES").copied().unwrap_or(0);
                let head = Find {
                    cursor,
                    limit: *limit,
                    pattern: PATTERNS[pattern % PATTERNS.len()],
                };
                let mut find = FindBuilder::begin(&mut out, number, &head);
                if *has_condition {
                    find.push(&FindCondition {
                        field: "units",
                        comparison: Comparison::Differs.number(),
                        value: "degC",
                    });
                }
                find.finish(false);
            }
            Request::Watch(pattern) => {
                let watch = Watch {
                    watch: number,
                    pattern: PATTERNS[pattern % PATTERNS.len()],
                };
                watch.encode(number, &mut out);
            }
            Request::Why(target) => {
                let name = Self::name(*target);
                Why { name: &name }.encode(number, &mut out);
            }
            Request::Engine => encode_empty(FrameKind::Engine, number, &mut out),
            Request::Alarms(pattern, limit) => {
                let after = self.cursors.get("ALARM_PAGE").copied().unwrap_or(0);
                let alarms = Alarms {
                    after: after as u32,
                    pattern: PATTERNS[pattern % 7],
                    limit: *limit,
                    ..Alarms::default()
                };
                alarms.encode(number, &mut out);
            }
            Request::Acknowledge(targets) => {
                let head = AlarmActHead::new(AlarmAction::Acknowledge, "");
                let mut act = AlarmActBuilder::begin(&mut out, number, &head);
                let names: Vec<String> = targets.iter().map(|one| Self::name(*one)).collect();
                for variable in &names {
                    act.push(&AlarmActItem {
                        variable,
                        alarm: "hi",
                    });
                }
                act.finish(false);
            }
            Request::Forced(limit) => {
                let cursor = self.cursors.get("FORCED").copied().unwrap_or(0);
                let forcing = Forcing {
                    verb: ForcingVerb::List,
                    cursor: cursor as u32,
                    limit: *limit,
                };
                forcing.encode(number, &mut out);
            }
        }
        self.peer.send(&out);
    }
}

fn terms() -> SubscribeTerms {
    SubscribeTerms {
        subscription: 1,
        contract: Contract::Latest,
        flags: SubscribeFlags::NONE,
    }
}

/// Returns the number after the first occurrence of `key`, and the rest.
fn number_after<'t>(text: &'t str, key: &str) -> Option<(u64, &'t str)> {
    let (_, rest) = text.split_once(key)?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    Some((rest[..digits].parse().ok()?, &rest[digits..]))
}

/// Replaces each number that follows `key`.
fn replace_numbers(text: &str, key: &str, replace: impl Fn(u64) -> String) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(key) {
        let (before, after) = rest.split_at(at + key.len());
        done.push_str(before);
        let digits = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        let (number, behind) = after.split_at(digits);
        match number.parse() {
            Ok(number) => done.push_str(&replace(number)),
            Err(_) => done.push_str(number),
        }
        rest = behind;
    }
    done + rest
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        3 => (0..VARIABLES).prop_map(Target::Own),
        3 => (0..VARIABLES).prop_map(Target::Hidden),
        1 => (0..VARIABLES).prop_map(Target::HiddenField),
        1 => Just(Target::Nothing),
    ]
}

fn targets() -> impl Strategy<Value = Vec<Target>> {
    proptest::collection::vec(target(), 1..4)
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (targets(), any::<bool>())
            .prop_map(|(targets, subscribe)| Request::Open(targets, subscribe)),
        any::<bool>().prop_map(Request::OpenNumber),
        targets().prop_map(Request::Read),
        targets().prop_map(Request::Info),
        targets().prop_map(Request::Snapshot),
        targets().prop_map(Request::Close),
        targets().prop_map(Request::Refresh),
        targets().prop_map(Request::Subscribe),
        (targets(), 0..6_usize).prop_map(|(targets, verb)| Request::Write(targets, verb)),
        targets().prop_map(Request::Group),
        (targets(), 0..3_usize).prop_map(|(targets, verb)| Request::Lease(targets, verb)),
        (0..6_usize, 0..FOLDERS.len(), any::<bool>())
            .prop_map(|(verb, folder, level)| Request::Control(verb, folder, level)),
        (0..PATTERNS.len(), 0..6_u32, any::<bool>())
            .prop_map(|(pattern, limit, condition)| Request::Find(pattern, limit, condition)),
        (0..PATTERNS.len()).prop_map(Request::Watch),
        target().prop_map(Request::Why),
        Just(Request::Engine),
        (0..PATTERNS.len(), 0..6_u32).prop_map(|(pattern, limit)| Request::Alarms(pattern, limit)),
        targets().prop_map(Request::Acknowledge),
        (0..6_u32).prop_map(Request::Forced),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let index = 0..VARIABLES;
    prop_oneof![
        index.clone().prop_map(Event::Deploy),
        index.clone().prop_map(Event::Undeploy),
        index.clone().prop_map(Event::Write),
        index.clone().prop_map(Event::Force),
        index.clone().prop_map(Event::Unforce),
        index.clone().prop_map(Event::Lease),
        (index.clone(), any::<bool>()).prop_map(|(place, level)| Event::Control(place, level)),
        Just(Event::EndControl),
        index.prop_map(Event::OpenField),
        Just(Event::Group),
        Just(Event::Stop),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => request().prop_map(Step::Ask),
        4 => event().prop_map(Step::Hidden),
        1 => (0..VARIABLES).prop_map(Step::Own),
        1 => (0..VARIABLES, any::<bool>()).prop_map(|(index, on)| Step::OwnForced(index, on)),
        1 => Just(Step::Pass),
    ]
}

/// The rights of clients from which `foreign`, `owned` and `extra` are hidden.
fn restricted(which: usize) -> Rights {
    let all = Actions::ALL;
    match which % 4 {
        0 => granted(&[(Action::ALL, "own/**")]),
        1 => granted(&[(&[Action::Read, Action::Subscribe], "own/**")]),
        2 => rights_of(
            Some(Role::Engineer),
            &[
                (Effect::Deny, all, "foreign/**"),
                (Effect::Deny, Actions::of(&[Action::Read]), "owned/**"),
                (Effect::Deny, Actions::of(&[Action::Read]), "extra*/**"),
            ],
        ),
        _ => rights_of(None, &[]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// Behaviour: B-82.
    /// Failure mode: F17.
    #[test]
    fn answers_do_not_depend_on_hidden_variables(
        which in 0..4_usize,
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let (mut with, mut without) =
            (Side::new(restricted(which), true), Side::new(restricted(which), false));
        for step in &steps {
            let (here, there) = (with.step(step), without.step(step));
            prop_assert_eq!(here, there, "{:?}", step);
        }
    }
}

/// The test would notice a hidden variable: the rights of a viewer show it.
#[test]
fn readers_of_everything_see_the_difference() {
    let rights = || rights_of(Some(Role::Viewer), &[]);
    let requests = [
        Request::Open(vec![Target::Hidden(1)], false),
        Request::Read(vec![Target::Hidden(1)]),
        Request::Why(Target::Hidden(1)),
        Request::Find(0, 0, false),
        Request::Engine,
        Request::Alarms(0, 0),
        Request::Watch(0),
        Request::Control(0, 6, false),
    ];
    for request in requests {
        let (mut with, mut without) = (Side::new(rights(), true), Side::new(rights(), false));
        with.happen(Event::Control(0, false));
        let step = Step::Ask(request);
        assert_ne!(with.step(&step), without.step(&step), "{step:?}");
    }
}

/// A page that ends with the last variable that the client may read has no next page, although hidden
/// variables follow.
///
/// Behaviour: B-82.
#[test]
fn full_page_before_hidden_variables_is_the_last() {
    let limit = VARIABLES as u32;
    for which in 0..4 {
        for request in [
            Request::Find(0, limit, false),
            Request::Find(6, limit, false),
            Request::Find(0, 1, false),
            Request::Alarms(0, limit),
            Request::Forced(limit),
        ] {
            let sides = [true, false].map(|has_hidden| {
                let mut side = Side::new(restricted(which), has_hidden);
                for index in 0..VARIABLES {
                    side.step(&Step::OwnForced(index, true));
                    side.step(&Step::Hidden(Event::Force(index)));
                }
                // With a limit of 1, the last page is the fourth.
                let step = Step::Ask(request.clone());
                (0..VARIABLES).map(|_| side.step(&step)).collect::<Vec<_>>()
            });
            assert_eq!(sides[0], sides[1], "{request:?} of {which}");
        }
    }
}

/// The definition of a variable can name variables that a client may not read. No answer names them.
///
/// Behaviour: B-82.
#[test]
fn answers_do_not_name_the_hidden_variables_of_a_definition() {
    let restricted = granted(&[(&[Action::Read, Action::Write, Action::Subscribe], "own/**")]);
    assert_eq!(names_in_answers(restricted), Vec::<String>::new());
    // The same answers contain the names for those who may read them.
    let named = names_in_answers(Rights::ALL);
    for kind in ["INFO_ANSWER", "WHY_ANSWER", "ALARM_PAGE", "WRITE_ANSWERS"] {
        let is_named = named.iter().any(|frame| frame.starts_with(kind));
        assert!(is_named, "{kind} in {named:#?}");
    }
}

/// Asks for everything about variables whose definitions name variables of the library `secret`. Returns
/// the answers that contain one of the names.
fn names_in_answers(rights: Rights) -> Vec<String> {
    let world = World::new();
    let secret = |path: &str| define(path, DataType::F64, |p| p.access = Access::ReadOnly);
    world.deploy("secret", vec![secret("limit"), secret("going")]);
    let alias =
        |path: &str, target: &str| define(path, DataType::F64, |p| p.alias = target.to_owned());
    let suppressed = AlarmDefinition {
        name: "suppressed".to_owned(),
        suppressed_by: "secret/limit".to_owned(),
        ..AlarmDefinition::new(AlarmKind::BadQuality)
    };
    let limited = AlarmDefinition::new(AlarmKind::Limit {
        level: LimitLevel::Hi,
        limit: Operand::Variable("secret/limit".to_owned()),
        deadband: 0.0,
    });
    let own = vec![
        alias("alias", "secret/limit"),
        alias("of alias", "own/alias"),
        alias("unbound", "secret/going"),
        define("level", DataType::F64, |p| {
            p.alarms = vec![limited, suppressed]
        }),
    ];
    world.deploy("own", own);
    world.undeploy("secret");
    world.deploy("secret", vec![secret("limit")]);
    world.publish("secret/limit", &Value::F64(1.0));
    world.set("own/level", 5.0);
    world.advance(Duration::from_secs(1));
    let names = ["own/alias", "own/of alias", "own/unbound", "own/level"];
    let handles = names.map(|name| world.handle(name));
    world.permit(rights);

    let mut peer = Peer::with(&world, ServeOptions::default());
    peer.say(|out| Hello::default().encode(out));
    let push_all = |mut frame: HandlesBuilder<'_>| {
        handles.iter().for_each(|handle| frame.push(handle));
        frame.finish(false);
    };
    // The writes are refused: by the target, and because there is none. WHY reports that later. In the last
    // round, the target has a fault.
    for write in 1..4 {
        if write == 3 {
            let (now, wall) = world.time();
            let engine = world.engine();
            let libraries = engine.libraries();
            libraries
                .stop("secret", now, wall, &mut Wakes::new())
                .unwrap();
        }
        peer.say(|out| {
            let mut frame = WriteBuilder::begin(out, write * 10);
            for handle in &handles[..3] {
                frame.push(*handle, &WriteOptions::default(), &5.0_f64.to_le_bytes());
            }
            frame.finish();
        });
        peer.say(|out| push_all(HandlesBuilder::info(out, 1)));
        peer.say(|out| push_all(HandlesBuilder::read(out, 2)));
        for name in names {
            peer.say(|out| Why { name }.encode(3, out));
        }
        peer.say(|out| Alarms::default().encode(4, out));
        peer.say(|out| encode_empty(FrameKind::Engine, 5, out));
    }
    let frames = peer.frames(spoken).into_iter();
    frames.filter(|frame| frame.contains("secret")).collect()
}
