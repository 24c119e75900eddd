//! The requests of the matrix. Each sends real frames about a variable, and returns the answer and
//! whether there was an effect.

use std::sync::Mutex;
use std::time::Duration;

use trunkline_engine::{Caller, Wakes};
use trunkline_proto::frame::split_oversized;
use trunkline_proto::message::alarm::{AlarmActBuilder, AlarmActHead, AlarmActItem, Alarms};
use trunkline_proto::message::alarm_journal::AlarmJournal;
use trunkline_proto::message::audit::Audit;
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::control::{Control, ControlVerb};
use trunkline_proto::message::convergence::{CompareBuilder, CompareHead, CompareItem};
use trunkline_proto::message::find::{Find, FindBuilder, FindCondition};
use trunkline_proto::message::forcing::{Forcing, ForcingVerb};
use trunkline_proto::message::group::GroupWriteBuilder;
use trunkline_proto::message::handles::{HandlesBuilder, UnsubscribeBuilder, UnsubscribeHead};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::history::{HistoryBuilder, HistoryHead, HistoryPattern};
use trunkline_proto::message::keepalive::{AckBuilder, AckHead, Keepalive};
use trunkline_proto::message::lease::{LeaseBuilder, LeaseHead, LeaseItem, LeaseVerb};
use trunkline_proto::message::library::{DeployBuilder, DeployHead, LibraryOrder, LibraryVerb};
use trunkline_proto::message::open::{OpenBuilder, OpenOptions, OpenTerms};
use trunkline_proto::message::pair::Pair;
use trunkline_proto::message::provider::{
    ProvideBuilder, ProvideHead, ProviderAnswer, ProviderAnswersBuilder, ProviderOutcome, ReadBack,
};
use trunkline_proto::message::single::encode_empty;
use trunkline_proto::message::subscribe::{
    SubscribeBuilder, SubscribeHead, SubscribeItem, SubscribeTerms,
};
use trunkline_proto::message::watch::{Unwatch, Watch};
use trunkline_proto::message::why::Why;
use trunkline_proto::message::write::{WriteBuilder, WriteOptions, WriteVerb};
use trunkline_proto::{FaultCode, FrameKind, FrameWriter};
use trunkline_types::alarm::{AlarmAction, AlarmState};
use trunkline_types::{Comparison, Contract, ControlLevel, ControlTerms, Folder, Moment, Value};

use super::Library;
use super::plant::{Plant, Seen, WRITTEN, with_another};

/// The value 1.0 of every variable `x`, as it appears in frames.
fn one() -> String {
    format!("{:?}", 1.0_f64.to_le_bytes())
}

fn written() -> [u8; 8] {
    WRITTEN.to_le_bytes()
}

// The session.

pub fn was_welcomed(plant: &mut Plant) -> Seen {
    assert!(plant.says("engine_name: \"sut\""), "{:?}", plant.spoken());
    plant.seen(false)
}

pub fn second_hello(plant: &mut Plant) -> Seen {
    plant.say(|_, out| Hello::default().encode(out));
    plant.seen(false)
}

pub fn goodbye(plant: &mut Plant) -> Seen {
    plant.say(|_, out| {
        let goodbye = Goodbye {
            code: FaultCode::ShuttingDown,
            retry_after: None,
            sentence: String::new(),
        };
        goodbye.encode(out);
    });
    plant.seen(false)
}

pub fn keepalive(plant: &mut Plant) -> Seen {
    plant.say(|_, out| {
        let keepalive = Keepalive {
            sent: 1,
            echo: 0,
            echo_held_ns: 0,
            records_received: 0,
            digest: 0,
        };
        keepalive.encode(out);
    });
    plant.seen(false)
}

pub fn ack(plant: &mut Plant) -> Seen {
    plant.say(|_, out| {
        let head = AckHead {
            records_received: 0,
        };
        AckBuilder::begin(out, 0, &head).finish(false);
    });
    plant.seen(false)
}

/// Compares a variable that is not subscribed. The engine must not send it again.
pub fn compare(plant: &mut Plant) -> Seen {
    let handle = plant.handle("x");
    plant.say(|_, out| {
        let head = CompareHead {
            records_received: 0,
        };
        let mut compare = CompareBuilder::begin(out, 0, &head);
        compare.push(&CompareItem {
            subscription: 1,
            handle,
            sequence: 0,
            digest: 0,
        });
        compare.finish(false);
    });
    plant.seen(plant.says(&one()))
}

pub fn unsubscribe(plant: &mut Plant) -> Seen {
    let handle = plant.handle("x");
    plant.say(|request, out| {
        let head = UnsubscribeHead { subscription: 1 };
        let mut unsubscribe = UnsubscribeBuilder::begin(out, request, &head);
        unsubscribe.push(&handle);
        unsubscribe.finish(false);
    });
    plant.seen(plant.says(plant.library()))
}

pub fn close(plant: &mut Plant) -> Seen {
    let handle = plant.handle("x");
    plant.say(|request, out| {
        let mut close = HandlesBuilder::close(out, request);
        close.push(&handle);
        close.finish(false);
    });
    plant.seen(plant.says(plant.library()))
}

pub fn unwatch(plant: &mut Plant) -> Seen {
    plant.say(|request, out| Unwatch { watch: 1 }.encode(request, out));
    plant.seen(plant.says(plant.library()))
}

pub fn flush(plant: &mut Plant) -> Seen {
    plant.say(|request, out| encode_empty(FrameKind::Flush, request, out));
    plant.seen(plant.says(plant.library()))
}

/// Answers an order of the engine that was never sent.
pub fn provider_answer(plant: &mut Plant) -> Seen {
    plant.say(|_, out| {
        let mut answers = ProviderAnswersBuilder::begin(out, 0, &());
        for ticket in 0..4 {
            let back = ReadBack {
                value: Some(&[0; 8]),
                ..ReadBack::default()
            };
            answers.push(&ProviderAnswer {
                ticket,
                outcome: ProviderOutcome::Applied(back),
            });
        }
        answers.finish(false);
    });
    let is_unchanged = ["x", "d"].map(|path| plant.number(path)) == [Some(1.0); 2];
    plant.seen(!is_unchanged)
}

pub fn not_from_clients(plant: &mut Plant) -> Seen {
    let kind = plant.kind;
    plant.say(|request, out| FrameWriter::begin(out, kind, request).finish(false));
    plant.seen(plant.says(plant.library()))
}

// Reading.

pub fn engine(plant: &mut Plant) -> Seen {
    plant.say(|request, out| encode_empty(FrameKind::Engine, request, out));
    let listed = format!("name: \"{}\"", plant.library());
    plant.seen(plant.says(&listed))
}

fn terms() -> SubscribeTerms {
    SubscribeTerms {
        subscription: 1,
        contract: Contract::Latest,
        flags: SubscribeFlags::NONE,
    }
}

fn recorded_terms() -> SubscribeTerms {
    let flags = SubscribeFlags {
        recorded: true,
        ..SubscribeFlags::NONE
    };
    SubscribeTerms { flags, ..terms() }
}

fn open_with(plant: &mut Plant, name: &str, subscribe: Option<SubscribeTerms>) {
    let terms = OpenTerms {
        options: OpenOptions {
            read: true,
            describe: true,
        },
        subscribe,
    };
    plant.say(|request, out| {
        let mut open = OpenBuilder::begin(out, request, &terms);
        open.push(&name.as_bytes());
        open.finish(false);
    });
}

pub fn open(plant: &mut Plant) -> Seen {
    let name = plant.name("x");
    open_with(plant, &name, None);
    let shows_all = plant.says(&one()) && plant.says("degC");
    plant.seen(shows_all)
}

pub fn open_subscribed(plant: &mut Plant) -> Seen {
    open_subscribed_with(plant, terms())
}

pub fn open_recorded(plant: &mut Plant) -> Seen {
    open_subscribed_with(plant, recorded_terms())
}

fn open_subscribed_with(plant: &mut Plant, terms: SubscribeTerms) -> Seen {
    let name = plant.name("x");
    open_with(plant, &name, Some(terms));
    plant.world.set(&name, WRITTEN);
    plant.peer.take();
    plant.seen(plant.peer.records() > 0)
}

pub fn open_field(plant: &mut Plant) -> Seen {
    let name = plant.name("x#units");
    open_with(plant, &name, None);
    // The length of the text precedes it.
    let units = format!("{:?}", b"degC").trim_matches(['[', ']']).to_owned();
    plant.seen(plant.says(&units))
}

fn with_handle(plant: &mut Plant, path: &str, begin: fn(&mut Vec<u8>, u32) -> HandlesBuilder<'_>) {
    let handle = plant.handle(path);
    plant.say(|request, out| {
        let mut frame = begin(out, request);
        frame.push(&handle);
        frame.finish(false);
    });
}

pub fn read(plant: &mut Plant) -> Seen {
    with_handle(plant, "x", |out, n| HandlesBuilder::read(out, n));
    plant.seen(plant.says(&one()))
}

pub fn info(plant: &mut Plant) -> Seen {
    with_handle(plant, "x", |out, n| HandlesBuilder::info(out, n));
    let name = plant.name("x");
    plant.seen(plant.says(&name))
}

pub fn snapshot(plant: &mut Plant) -> Seen {
    with_handle(plant, "x", |out, n| HandlesBuilder::snapshot(out, n));
    plant.seen(plant.says(&one()))
}

pub fn why(plant: &mut Plant) -> Seen {
    let name = plant.name("x");
    plant.say(|request, out| Why { name: &name }.encode(request, out));
    let found = format!("{name} is variable {}", plant.handle("x"));
    plant.seen(plant.says(&found))
}

pub fn subscribe(plant: &mut Plant) -> Seen {
    subscribe_with(plant, terms())
}

pub fn subscribe_recorded(plant: &mut Plant) -> Seen {
    subscribe_with(plant, recorded_terms())
}

fn subscribe_with(plant: &mut Plant, terms: SubscribeTerms) -> Seen {
    let (name, handle) = (plant.name("x"), plant.handle("x"));
    plant.say(|request, out| {
        let head = SubscribeHead {
            terms,
            resume_epoch: None,
        };
        let mut subscribe = SubscribeBuilder::begin(out, request, &head);
        subscribe.push(&SubscribeItem {
            handle,
            last_sequence: 0,
        });
        subscribe.finish(false);
    });
    plant.world.set(&name, WRITTEN);
    plant.peer.take();
    plant.seen(plant.peer.records() > 0)
}

pub fn find(plant: &mut Plant) -> Seen {
    let (pattern, name) = (plant.name("*"), plant.name("x"));
    plant.say(|request, out| {
        let find = Find {
            cursor: 0,
            limit: 0,
            pattern: &pattern,
        };
        find.encode(request, out);
    });
    plant.seen(plant.says(&name))
}

pub fn find_by_condition(plant: &mut Plant) -> Seen {
    let name = plant.name("x");
    plant.say(|request, out| {
        let find = Find {
            cursor: 0,
            limit: 0,
            pattern: "**",
        };
        let mut find = FindBuilder::begin(out, request, &find);
        find.push(&FindCondition {
            field: "units",
            comparison: Comparison::Equal.number(),
            value: "degC",
        });
        find.finish(false);
    });
    plant.seen(plant.says(&name))
}

fn watch_pattern(plant: &mut Plant) {
    let pattern = plant.name("**");
    plant.say(|request, out| {
        let watch = Watch {
            watch: 1,
            pattern: &pattern,
        };
        watch.encode(request, out);
    });
}

pub fn watch(plant: &mut Plant) -> Seen {
    watch_pattern(plant);
    let name = plant.name("x");
    plant.seen(plant.says(&name))
}

pub fn watch_later_names(plant: &mut Plant) -> Seen {
    watch_pattern(plant);
    plant.peer.said.clear();
    let (library, (now, wall)) = (with_another(plant.library()), plant.world.time());
    let mut wakes = Wakes::new();
    let engine = plant.world.engine();
    engine
        .libraries()
        .deploy_retained(&library, true, &|_, _| None, now, wall, &mut wakes)
        .unwrap();
    plant.peer.take();
    let name = plant.name("n");
    plant.seen(plant.says(&name))
}

pub fn alarms(plant: &mut Plant) -> Seen {
    plant.say(|request, out| Alarms::default().encode(request, out));
    let name = plant.name("x");
    plant.seen(plant.says(&name))
}

pub fn alarm_journal(plant: &mut Plant) -> Seen {
    plant.say(|request, out| AlarmJournal::default().encode(request, out));
    agrees_with_host(plant);
    let name = plant.name("x");
    plant.seen(plant.says(&name))
}

pub fn history(plant: &mut Plant) -> Seen {
    plant.say(|request, out| {
        let mut history = HistoryBuilder::begin(out, request, &HistoryHead::default());
        history.push(&HistoryPattern { pattern: "**" });
        history.finish(false);
    });
    agrees_with_host(plant);
    let name = plant.name("x");
    plant.seen(plant.says(&name))
}

pub fn audit(plant: &mut Plant) -> Seen {
    plant.say(|request, out| Audit::default().encode(request, out));
    agrees_with_host(plant);
    let name = plant.name("x");
    plant.seen(plant.says(&name))
}

// Writing.

fn write_with(plant: &mut Plant, path: &str, verb: WriteVerb, value: &[u8]) {
    let handle = plant.handle(path);
    let options = WriteOptions {
        verb: Ok(verb),
        ..WriteOptions::default()
    };
    plant.say(|_, out| {
        let mut write = WriteBuilder::begin(out, 1);
        write.push(handle, &options, value);
        write.finish();
    });
}

pub fn put(plant: &mut Plant) -> Seen {
    write_with(plant, "x", WriteVerb::Put, &written());
    plant.seen(plant.is_written("x"))
}

pub fn put_to_device(plant: &mut Plant) -> Seen {
    write_with(plant, "d", WriteVerb::Put, &written());
    plant.seen(has_received(plant, &plant.device.written))
}

pub fn set(plant: &mut Plant) -> Seen {
    write_with(plant, "x", WriteVerb::Set, &written());
    plant.seen(plant.is_written("x"))
}

pub fn send(plant: &mut Plant) -> Seen {
    write_with(plant, "d", WriteVerb::Send, &[]);
    plant.seen(has_received(plant, &plant.device.written))
}

pub fn request(plant: &mut Plant) -> Seen {
    write_with(plant, "d", WriteVerb::Request, &[]);
    plant.seen(has_received(plant, &plant.device.read))
}

pub fn force(plant: &mut Plant) -> Seen {
    write_with(plant, "x", WriteVerb::Force, &written());
    plant.seen(plant.is_written("x") && forced_names(plant).contains(&plant.name("x")))
}

pub fn unforce(plant: &mut Plant) -> Seen {
    write_with(plant, "f", WriteVerb::Unforce, &[]);
    plant.seen(!forced_names(plant).contains(&plant.name("f")))
}

/// Returns true if the device has received an order for the variable `d`. Panics if it has received
/// one for another variable.
fn has_received(plant: &Plant, orders: &Mutex<Vec<u32>>) -> bool {
    let orders = orders.lock().unwrap();
    let handle = plant.handle("d");
    assert!(orders.iter().all(|order| *order == handle), "{orders:?}");
    !orders.is_empty()
}

fn forced_names(plant: &Plant) -> Vec<String> {
    let engine = plant.world.engine();
    let all = engine.forcing().all();
    let names = all.iter().map(|forced| {
        let variable = engine.variable(forced.handle).expect("it is deployed");
        variable.name().to_owned()
    });
    names.collect()
}

pub fn write_in_parts(plant: &mut Plant) -> Seen {
    let handle = plant.handle("t");
    let text = "x".repeat(10_000);
    plant.say(|_, out| {
        let mut write = WriteBuilder::begin(out, 1);
        let value = Value::String(text.as_str().into());
        write.push_value(handle, &WriteOptions::default(), &value);
        write.finish();
        split_oversized(out, 0, 4096);
        let mut rest = out.as_slice();
        let first = trunkline_proto::Frame::take_from(&mut rest);
        assert_eq!(first.unwrap().unwrap().kind(), Some(FrameKind::Part));
    });
    let length = plant.variable("t").update().value.as_slice().len();
    plant.seen(length > text.len())
}

pub fn group(plant: &mut Plant) -> Seen {
    let handle = plant.handle("x");
    plant.say(|request, out| {
        let mut group = GroupWriteBuilder::begin(out, request, false);
        group.push(handle, &WriteOptions::default(), &written());
        group.finish();
    });
    plant.seen(plant.is_written("x"))
}

fn lease_with(plant: &mut Plant, verb: LeaseVerb) -> Seen {
    let handle = plant.handle("x");
    plant.say(|request, out| {
        let head = LeaseHead {
            verb,
            duration: Duration::from_secs(60),
            expected_epoch: None,
        };
        let mut lease = LeaseBuilder::begin(out, request, &head);
        lease.push(&LeaseItem {
            handle,
            sequence: 0,
        });
        lease.finish(false);
    });
    let (engine, (now, _)) = (plant.world.engine(), plant.world.time());
    let holder = engine.leases().holder_of(&plant.variable("x"), now);
    // Without a lease, it cannot be renewed or released.
    plant.seen_with(&[FaultCode::NotLeased], holder.is_some())
}

pub fn acquire(plant: &mut Plant) -> Seen {
    lease_with(plant, LeaseVerb::Acquire)
}

/// Renews a lease, if the client can acquire one.
pub fn renew(plant: &mut Plant) -> Seen {
    lease_with(plant, LeaseVerb::Acquire);
    lease_with(plant, LeaseVerb::Renew)
}

/// Releases a lease, if the client can acquire one.
pub fn release(plant: &mut Plant) -> Seen {
    let acquired = lease_with(plant, LeaseVerb::Acquire);
    let released = lease_with(plant, LeaseVerb::Release);
    Seen {
        has_effect: acquired.has_effect && !released.has_effect,
        ..released
    }
}

/// Sends a request about control of the library. Another client has control first, if `is_held`.
fn control_with(plant: &mut Plant, is_held: bool, verb: ControlVerb, level: ControlLevel) {
    let folder = plant.library();
    if is_held {
        let (now, wall) = plant.world.time();
        let engine = plant.world.engine();
        let (terms, folder) = (ControlTerms::default(), Folder::parse(folder).unwrap());
        let (other, moment) = (Caller::local(4000, 7), Moment { now, wall });
        let control = engine.control();
        let taken = control.take(&other, &folder, terms, moment, &mut Wakes::new());
        taken.unwrap();
        while control.search(other.session, 10, moment, &mut Wakes::new()) {}
    }
    let control = Control {
        verb,
        folder: match verb {
            ControlVerb::List | ControlVerb::Follow => "",
            _ => folder,
        },
        level,
        number: 1,
        ..Control::default()
    };
    plant.say(|request, out| control.encode(request, out));
}

/// Returns true if the client controls the library.
fn has_control(plant: &Plant) -> bool {
    let (engine, (now, _)) = (plant.world.engine(), plant.world.time());
    let entries = engine.control().list(&Caller::engine(), false, now);
    let mut entries = entries;
    let caller = Caller::engine();
    let entries = engine.control().continue_list(&caller, &mut entries, 1000);
    let mut entries = entries.unwrap().into_iter();
    entries.any(|entry| {
        let is_other = entry.by.contains("local:7");
        !is_other && entry.folder.path() == plant.library()
    })
}

pub fn control_list(plant: &mut Plant) -> Seen {
    control_with(plant, true, ControlVerb::List, ControlLevel::Operator);
    let shown = format!("Folder({})", plant.library());
    plant.seen(plant.says(&shown))
}

pub fn control_take(plant: &mut Plant) -> Seen {
    control_with(plant, false, ControlVerb::Take, ControlLevel::Operator);
    plant.seen(has_control(plant))
}

/// Takes control from an operator.
pub fn control_supervise(plant: &mut Plant) -> Seen {
    control_with(plant, true, ControlVerb::Take, ControlLevel::Supervisor);
    plant.seen(has_control(plant))
}

/// Waits for another client.
pub fn control_request(plant: &mut Plant) -> Seen {
    control_with(plant, true, ControlVerb::Request, ControlLevel::Operator);
    plant.seen(has_control(plant))
}

pub fn control_release(plant: &mut Plant) -> Seen {
    control_with(plant, true, ControlVerb::Release, ControlLevel::Operator);
    let is_changed = has_control(plant) || plant.says("local:7");
    plant.seen_with(&[FaultCode::NotControlled], is_changed)
}

pub fn control_give(plant: &mut Plant) -> Seen {
    control_with(plant, true, ControlVerb::Give, ControlLevel::Operator);
    let is_changed = has_control(plant) || plant.says("local:7");
    plant.seen_with(&[FaultCode::NotControlled], is_changed)
}

pub fn control_follow(plant: &mut Plant) -> Seen {
    control_with(plant, true, ControlVerb::Follow, ControlLevel::Operator);
    plant.seen(plant.says("local:7"))
}

pub fn request_value(plant: &mut Plant) -> Seen {
    with_handle(plant, "d", |out, n| HandlesBuilder::request_value(out, n));
    plant.seen(has_received(plant, &plant.device.read))
}

fn provide_plc(plant: &mut Plant) {
    let name = format!("{}-plc", plant.library());
    plant.say(|request, out| {
        let head = ProvideHead {
            lease: Duration::from_secs(10),
            provider: &name,
        };
        ProvideBuilder::begin(out, request, &head).finish(false);
    });
}

pub fn provide(plant: &mut Plant) -> Seen {
    provide_plc(plant);
    let bound = format!("handle: {},", plant.handle("p"));
    let is_bound = plant
        .spoken()
        .iter()
        .any(|frame| frame.starts_with("PROVIDER_BIND") && frame.contains(&bound));
    plant.seen(is_bound)
}

/// Publishes the variable, after an attempt to become its provider.
pub fn publish(plant: &mut Plant) -> Seen {
    provide_plc(plant);
    let handle = plant.handle("p");
    plant.say(|_, out| {
        let mut publish = WriteBuilder::begin_publish(out, 1);
        publish.push(handle, &WriteOptions::default(), &written());
        publish.finish();
    });
    plant.seen(plant.is_written("p"))
}

pub fn acknowledge(plant: &mut Plant) -> Seen {
    let name = plant.name("x");
    let state = |plant: &Plant| {
        let engine = plant.world.engine();
        let alarms = engine.alarms().of_variable(&plant.variable("x"));
        alarms.first().map(|alarm| alarm.record.state)
    };
    assert_eq!(state(plant), Some(AlarmState::Unacknowledged));
    plant.say(|request, out| {
        let head = AlarmActHead::new(AlarmAction::Acknowledge, "seen");
        let mut act = AlarmActBuilder::begin(out, request, &head);
        act.push(&AlarmActItem {
            variable: &name,
            alarm: "hi",
        });
        act.finish(false);
    });
    plant.seen(state(plant) == Some(AlarmState::Acknowledged))
}

// Orders.

/// Checks that the host, which checks the rights again, agrees with the session.
fn agrees_with_host(plant: &Plant) {
    let orders = plant.host.orders.lock().unwrap();
    assert!(orders.iter().all(Result::is_ok), "{orders:?}");
}

fn is_deployed(plant: &Plant) -> bool {
    let engine = plant.world.engine();
    engine.libraries().get(plant.library()).is_some()
}

fn has_another(plant: &Plant) -> bool {
    let engine = plant.world.engine();
    let name = plant.name("n");
    engine
        .resolve(&trunkline_engine::Caller::engine(), &name)
        .is_ok()
}

fn deploy_with(plant: &mut Plant, replace: bool, frames: usize) -> Seen {
    let library = with_another(plant.library());
    let count = library.variables.len().div_ceil(frames);
    let request = plant.request();
    plant.peer.said.clear();
    let chunks: Vec<_> = library.variables.chunks(count).collect();
    for (index, variables) in chunks.iter().enumerate() {
        plant.peer.say(|out| {
            let head = DeployHead {
                library: &library.name,
                description: "",
                replace,
            };
            let mut deploy = DeployBuilder::begin(out, request, &head);
            variables.iter().for_each(|variable| deploy.push(variable));
            deploy.finish(index + 1 < chunks.len());
        });
    }
    plant.peer.take();
    agrees_with_host(plant);
    assert_eq!(plant.spoken().len(), 1, "one answer: {:?}", plant.spoken());
    plant.seen(has_another(plant))
}

/// Deploys a library that is not deployed.
pub fn deploy(plant: &mut Plant) -> Seen {
    plant.world.undeploy(plant.library());
    deploy_with(plant, false, 1)
}

pub fn replace(plant: &mut Plant) -> Seen {
    deploy_with(plant, true, 1)
}

pub fn deploy_in_frames(plant: &mut Plant) -> Seen {
    deploy_with(plant, true, 3)
}

fn order(plant: &mut Plant, verb: LibraryVerb) {
    let library = plant.library();
    plant.say(|request, out| LibraryOrder { verb, library }.encode(request, out));
    agrees_with_host(plant);
}

pub fn start(plant: &mut Plant) -> Seen {
    let (now, wall) = plant.world.time();
    let engine = plant.world.engine();
    for library in Library::ALL {
        let stopped = engine
            .libraries()
            .stop(library.name(), now, wall, &mut Wakes::new());
        stopped.unwrap();
    }
    order(plant, LibraryVerb::Start);
    plant.seen(!plant.variable("x").is_stopped())
}

pub fn stop(plant: &mut Plant) -> Seen {
    order(plant, LibraryVerb::Stop);
    plant.seen(plant.variable("x").is_stopped())
}

pub fn undeploy(plant: &mut Plant) -> Seen {
    order(plant, LibraryVerb::Undeploy { force: true });
    plant.seen(!is_deployed(plant))
}

pub fn stop_engine(plant: &mut Plant) -> Seen {
    order_engine(plant, LibraryVerb::StopEngine)
}

pub fn reload_engine(plant: &mut Plant) -> Seen {
    order_engine(plant, LibraryVerb::ReloadEngine)
}

fn order_engine(plant: &mut Plant, verb: LibraryVerb) -> Seen {
    plant.say(|request, out| LibraryOrder { verb, library: "" }.encode(request, out));
    agrees_with_host(plant);
    let is_ordered = !plant.host.orders.lock().unwrap().is_empty();
    plant.seen(is_ordered)
}

pub fn pair(plant: &mut Plant) -> Seen {
    plant.say(|request, out| {
        let pair = Pair {
            account: "ben".to_owned(),
            role: String::new(),
            groups: Vec::new(),
        };
        pair.encode(request, out);
    });
    let is_paired = *plant.reception.paired.lock().unwrap() == ["ben"];
    plant.seen(is_paired)
}

fn forcing(plant: &mut Plant, verb: ForcingVerb) {
    plant.say(|request, out| {
        let forcing = Forcing {
            verb,
            cursor: 0,
            limit: 0,
        };
        forcing.encode(request, out);
    });
}

pub fn forcing_list(plant: &mut Plant) -> Seen {
    forcing(plant, ForcingVerb::List);
    let name = plant.name("f");
    plant.seen(plant.says(&name))
}

pub fn forcing_off(plant: &mut Plant) -> Seen {
    forcing(plant, ForcingVerb::Off);
    plant.seen(!plant.world.engine().forcing().is_on())
}

pub fn forcing_on(plant: &mut Plant) -> Seen {
    let (now, wall) = plant.world.time();
    let (engine, caller) = (plant.world.engine(), trunkline_engine::Caller::engine());
    let off = engine
        .forcing()
        .set(&caller, false, now, wall, &mut Wakes::new());
    assert!(off.is_ok());
    forcing(plant, ForcingVerb::On);
    plant.seen(engine.forcing().is_on())
}

pub fn forcing_clear(plant: &mut Plant) -> Seen {
    forcing(plant, ForcingVerb::Clear);
    plant.seen(forced_names(plant).is_empty())
}
