//! The audit: it contains every client's write to an audited variable, every force and every order,
//! in sequence and within its bounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests may panic"
)]
#![cfg(not(shuttle))]

mod rig;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rig::{Bell, Rig, applied, at, define, done};
use trunkline_access::Action;
use trunkline_engine::{
    AUDIT_BEST_EFFORT_MAX, AUDIT_NOTES_MAX, AUDIT_REPEAT_PERIOD, AUDIT_WAIT_MAX, Answer, Attempt,
    AuditStorage, Caller, Consumer, GroupAttempt, GroupMember, NoAuditRoom, Principal, Provider,
    Refusal, Rights, SecurityEvent, SecurityNote, Ticket, Variable, Wake, Wakes, Write,
    WriteOutcome, WriteValue, WriteVerb,
};
use trunkline_types::WhyVerdict;
use trunkline_types::{
    Access, AuditAction, AuditEntry, AuditMode, AuditOutcome, DataType, Moment, Properties, Tick,
    Value,
};

fn audited() -> (Rig, Arc<Variable>) {
    Rig::of(properties())
}

fn properties() -> Properties {
    let mut properties = Properties::new(DataType::F64);
    properties.audit = AuditMode::Complete;
    properties
}

fn taken(rig: &Rig) -> Vec<AuditEntry> {
    rig.engine.audit().take(1, usize::MAX)
}

fn with_verb(rig: &Rig, x: &Variable, verb: WriteVerb, value: f64) -> WriteOutcome {
    let value = Value::F64(value);
    let mut write = Write::value(&value);
    write.verb = verb;
    done(rig.attempt(x, &write))
}

/// Returns the entries as `action old -> new: outcome`.
fn described(entries: &[AuditEntry]) -> Vec<String> {
    let described = |entry: &AuditEntry| {
        let (action, outcome) = (entry.action, entry.outcome.name());
        format!("{action} {} -> {}: {outcome}", entry.old, entry.new)
    };
    entries.iter().map(described).collect()
}

/// Behaviour: B-24.
#[test]
fn audit_has_caller_origin_values_time_and_outcome_of_each_write() {
    let (rig, x) = audited();
    rig.advance(Duration::from_secs(3));
    assert_eq!(rig.write(&x, 1.5), applied(1));
    rig.advance(Duration::from_secs(1));
    assert_eq!(with_verb(&rig, &x, WriteVerb::Set, 2.5), applied(2));
    let entries = taken(&rig);
    let expected = AuditEntry {
        number: 1,
        when: rig.wall().saturating_add_nanos(-1_000_000_000),
        monotonic: entries[0].monotonic,
        who: "local:1000".to_owned(),
        from: "this process".to_owned(),
        action: AuditAction::Put,
        name: "rig/x".to_owned(),
        data_type: "f64".to_owned(),
        old: String::new(),
        new: "1.5".to_owned(),
        outcome: AuditOutcome::Applied(at(1)),
        link: None,
    };
    assert_eq!(entries[0], expected);
    let [first, second] = [0, 1].map(|index| entries[index].monotonic);
    assert_eq!(second.since(first), Duration::from_secs(1));
    assert_eq!(entries[1].number, 2);
    assert_eq!(entries[1].when, rig.wall());
    assert_eq!(described(&entries[1..]), ["set 1.5 -> 2.5: applied"]);
    assert_eq!(taken(&rig), [], "each entry is taken once");
}

/// Behaviour: B-24, H-12.
#[test]
fn refusals_are_audited_with_the_rule_and_source_values_are_not() {
    let mut properties = properties();
    properties.range = Some((0.0, 10.0));
    let (rig, x) = Rig::of(properties);
    rig.publish(&x, 4.0);
    rig.write(&x, 11.0);
    let reader = Caller {
        rights: Rights::READ,
        ..Caller::local(9, 77)
    };
    let value = Value::F64(5.0);
    let denied = rig.attempt_as(&reader, &x, &Write::value(&value));
    assert_eq!(
        done(denied),
        WriteOutcome::Refused(Refusal::Denied {
            action: Action::Write
        })
    );
    let wrong = Value::Bool(true);
    rig.attempt(&x, &Write::value(&wrong));
    rig.attempt(&x, &Write::wire(&[1, 2, 3]));
    let mut stale = Write::value(&value);
    stale.expected = Some(at(9));
    rig.attempt(&x, &stale);
    let entries = taken(&rig);
    assert_eq!(
        described(&entries),
        [
            "put 4.0 -> 11.0: refused",
            "put 4.0 -> 5.0: refused",
            "put 4.0 -> (a value of another type): refused",
            "put 4.0 -> (3 bytes that are not a valid value): refused",
            "put 4.0 -> 5.0: refused",
        ]
    );
    assert_eq!(entries[1].who, "local:77");
    let AuditOutcome::Refused(rule) = &entries[0].outcome else {
        panic!("{:?}", entries[0]);
    };
    assert!(rule.contains("outside the range 0 to 10"), "{rule}");
    assert_eq!(x.ledger().refused, 5, "refusals are counted once");
}

#[test]
fn unchanged_or_coerced_write_is_audited_with_the_stored_value() {
    let mut properties = properties();
    properties.range = Some((0.0, 10.0));
    properties.coerce = true;
    properties.deadband.user_percent = 10.0;
    let (rig, x) = Rig::of(properties);
    rig.write(&x, 99.0);
    rig.write(&x, 5.0);
    rig.write(&x, 5.5);
    let entries = taken(&rig);
    assert_eq!(
        described(&entries),
        [
            "put  -> 10.0: applied",
            "put 10.0 -> 5.0: applied",
            "put 5.0 -> 5.5: unchanged"
        ]
    );
    assert_eq!(entries[2].outcome, AuditOutcome::Unchanged(at(2)));
}

/// Behaviour: B-24, H-27.
#[test]
fn forcing_is_audited_for_every_variable() {
    let (rig, x) = Rig::plain();
    rig.write(&x, 1.0);
    with_verb(&rig, &x, WriteVerb::Force, 7.0);
    rig.write(&x, 2.0);
    rig.attempt(&x, &Write::order(WriteVerb::Unforce));
    rig.attempt(&x, &Write::order(WriteVerb::Unforce));
    let (now, wall) = (rig.now(), rig.wall());
    let caller = Caller::local(4, 44);
    let mut wakes = Wakes::new();
    rig.engine
        .forcing()
        .set(&caller, false, now, wall, &mut wakes)
        .expect("no host stores the audit");
    with_verb(&rig, &x, WriteVerb::Force, 8.0);
    rig.engine
        .forcing()
        .clear(&caller, now, wall, &mut wakes)
        .expect("no host stores the audit");
    let entries = taken(&rig);
    assert_eq!(
        described(&entries),
        [
            "force 1.0 -> 7.0: applied",
            "unforce 7.0 -> 1.0: applied",
            "unforce 1.0 -> : refused",
            "forcing off  -> 0 variables: done",
            "force 1.0 -> 8.0: unchanged",
            "forcing clear  -> 1 variable: done",
        ]
    );
    assert_eq!(entries[3].who, "local:44");
}

/// A device that records the tickets of its requests.
#[derive(Default)]
struct Device(Mutex<Vec<Ticket>>);

impl Provider for Device {
    fn name(&self) -> Arc<str> {
        Arc::from("device")
    }

    fn send(&self, ticket: Ticket, _handle: u32, _raw: Value) {
        self.0.lock().unwrap().push(ticket);
    }

    fn request(&self, _ticket: Option<Ticket>, _handle: u32) {}

    fn error(&self) -> Option<String> {
        None
    }
}

/// Behaviour: B-24.
#[test]
fn writes_answered_by_a_device_are_audited_after_the_answer() {
    let (rig, x) = audited();
    let device = Arc::new(Device::default());
    let provider = Arc::clone(&device) as Arc<dyn Provider>;
    let id = rig.engine.providers().attach(provider, &[x.handle()]);
    rig.publish(&x, 1.0);
    let write = |value: f64| {
        let value = Value::F64(value);
        assert_eq!(rig.attempt(&x, &Write::value(&value)), Attempt::Pending);
    };
    let answer = |answer: Answer| {
        let ticket = device.0.lock().unwrap().remove(0);
        let (now, wall) = (rig.now(), rig.wall());
        let (engine, handle) = (&rig.engine, x.handle());
        engine
            .providers()
            .answer(ticket, handle, answer, now, wall, &mut Wakes::new());
    };
    write(2.0);
    assert_eq!(taken(&rig), [], "the device has not answered yet");
    // The device read back less than was requested.
    answer(Answer::Applied(Value::F64(1.9)));
    write(3.0);
    answer(Answer::Refused("locked".to_owned()));
    write(4.0);
    answer(Answer::Unknown("the line is noisy".to_owned()));
    write(5.0);
    rig.advance(Duration::from_secs(60));
    let mut wakes = Wakes::new();
    rig.engine.poll(rig.now(), rig.wall(), &mut wakes);
    write(6.0);
    let (now, wall) = (rig.now(), rig.wall());
    let gone = trunkline_types::Reason::ProviderGone;
    rig.engine
        .providers()
        .detach(id, gone, now, wall, &mut wakes);
    let value = Value::F64(7.0);
    rig.attempt(&x, &Write::value(&value));
    let entries = taken(&rig);
    assert_eq!(
        described(&entries),
        [
            "put 1.0 -> 1.9: applied",
            "put 1.9 -> 3.0: refused",
            "put 1.9 -> 4.0: unknown",
            "put 1.9 -> 5.0: unknown",
            "put 1.9 -> 6.0: unknown",
            "put 1.9 -> 7.0: refused",
        ]
    );
    assert_eq!(
        entries[0].who, "local:1000",
        "the entry names the writer, not the device"
    );
}

#[test]
fn property_can_be_given_and_taken_while_the_variable_is_deployed() {
    let (rig, x) = Rig::plain();
    let deploy = |properties: Properties| {
        let library = rig::library_of("rig", vec![define("x", properties)]);
        let (now, wall) = (rig.now(), rig.wall());
        let none = |_: &trunkline_types::Name, _: &Properties| None;
        rig.engine
            .libraries()
            .deploy_retained(&library, true, &none, now, wall, &mut Wakes::new())
            .expect("the library is valid");
    };
    rig.write(&x, 1.0);
    assert_eq!(taken(&rig), []);
    deploy(properties());
    rig.write(&x, 2.0);
    assert_eq!(described(&taken(&rig)), ["put 1.0 -> 2.0: applied"]);
    deploy(Properties::new(DataType::F64));
    rig.write(&x, 3.0);
    assert_eq!(taken(&rig), []);
}

#[test]
fn long_values_are_truncated_and_very_long_ones_become_a_length() {
    let mut of_text = Properties::new(DataType::String);
    of_text.audit = AuditMode::Complete;
    let (rig, text) = Rig::of(of_text);
    rig.write(&text, "ä".repeat(1000).as_str());
    rig.write(&text, "x".repeat(100_000).as_str());
    rig.write(&text, "short");
    let entries = taken(&rig);
    let new: Vec<&str> = entries.iter().map(|entry| entry.new.as_str()).collect();
    assert!(new[0].len() <= 256 && new[0].ends_with('…'), "{}", new[0]);
    assert!(new[1].starts_with("(10000"), "{}", new[1]);
    assert_eq!(new[2], "short");
    assert!(entries[2].old.starts_with("(10000"), "{}", entries[2].old);

    let mut of_bytes = Properties::new(DataType::Bytes);
    of_bytes.audit = AuditMode::Complete;
    let (rig, bytes) = Rig::of(of_bytes);
    rig.write(&bytes, Value::Bytes(vec![7; 100].into()));
    let new = &taken(&rig)[0].new;
    assert!(new.len() <= 256 && new.contains("100"), "{new}");
}

/// Fills the audit with writes of `x`, whose audit must be complete. Returns the number of writes.
fn fill(rig: &Rig, x: &Variable) -> usize {
    let mut written = 0;
    loop {
        let value = Value::F64(written as f64);
        match rig.attempt(x, &Write::value(&value)) {
            Attempt::WouldBlock { .. } => return written,
            _ => written += 1,
        }
        assert!(written <= AUDIT_NOTES_MAX, "no write had to wait");
    }
}

/// Behaviour: B-24.
#[test]
fn writer_waits_for_a_lagging_complete_audit_without_losses() {
    let (rig, x) = audited();
    rig.engine.audit().keep(Box::new(Bell::default()));
    let waker = Bell::default();
    let consumer = Consumer::new(rig.engine.clone(), Box::new(waker.clone()));
    let (mut written, mut waited, mut taken) = (0_usize, 0, 0);
    while written < 3 * AUDIT_NOTES_MAX {
        let value = Value::F64(written as f64);
        match rig.attempt(&x, &Write::value(&value)) {
            Attempt::WouldBlock { until } => {
                let wait = until.since(rig.now());
                assert!(wait > Duration::ZERO && wait < AUDIT_WAIT_MAX);
                assert!(consumer.wait_for_room(&x), "the host has taken no entry");
                let rung = waker.rings();
                // The host is slow, but still stores entries.
                rig.advance(AUDIT_WAIT_MAX - Duration::from_millis(1));
                let entries = rig.engine.audit().take(taken + 1, 5000);
                taken += entries.len() as u64;
                assert_eq!(waker.rings(), rung + 1, "the writer is woken");
                assert!(!consumer.wait_for_room(&x), "there is room again");
                waited += 1;
            }
            _ => written += 1,
        }
    }
    assert!(waited > 0, "no write had to wait");
    let (waiting, lost) = rig.engine.audit().waiting();
    assert_eq!((taken as usize + waiting, lost), (written, 0));
}

/// Behaviour: B-24.
#[test]
fn audited_actions_wait_for_a_full_audit_and_fail_without_a_store() {
    let properties_of = |audit| {
        let mut properties = Properties::new(DataType::F64);
        properties.audit = audit;
        properties
    };
    let mut alias = properties_of(AuditMode::Off);
    alias.alias = "rig/x".to_owned();
    let rig = Rig::with(vec![
        define("x", properties()),
        define("off", properties_of(AuditMode::Off)),
        define("effort", properties_of(AuditMode::BestEffort)),
        define("alias", alias),
    ]);
    let [x, off, effort, alias] =
        ["x", "off", "effort", "alias"].map(|path| rig.variable(&format!("rig/{path}")));
    rig.engine.audit().keep(Box::new(Bell::default()));
    assert_eq!(fill(&rig, &x), AUDIT_NOTES_MAX);
    let value = Value::F64(-1.0);
    let put = Write::value(&value);
    let force = Write {
        verb: WriteVerb::Force,
        ..Write::value(&value)
    };
    let waits = |variable: &Variable, write: &Write<'_>| {
        let attempt = rig.attempt(variable, write);
        assert!(matches!(attempt, Attempt::WouldBlock { .. }), "{attempt:?}");
    };
    let group = [GroupMember {
        handle: x.handle(),
        write: put.clone(),
    }];
    let wakes = &mut Wakes::new();
    let write_group = |wakes: &mut Wakes| {
        rig.engine
            .groups()
            .try_write(&rig.caller, rig.now(), rig.wall(), &group, wakes)
    };
    waits(&alias, &put);
    waits(&x, &force);
    waits(&off, &force);
    let attempt = write_group(wakes);
    assert!(
        matches!(attempt, GroupAttempt::WouldBlock { .. }),
        "{attempt:?}"
    );
    let clear = |wakes: &mut Wakes| {
        rig.engine
            .forcing()
            .clear(&rig.caller, rig.now(), rig.wall(), wakes)
    };
    assert!(matches!(clear(wakes), Err(NoAuditRoom::Wait(_))));
    // Best-effort entries and unaudited writes do not wait.
    assert_eq!(done(rig.attempt(&off, &put)), applied(1));
    assert_eq!(done(rig.attempt(&effort, &put)), applied(1));
    assert_eq!(done(rig.attempt(&effort, &force)), applied(2));
    assert_eq!(rig.engine.audit().waiting(), (AUDIT_NOTES_MAX, 2));

    rig.advance(AUDIT_WAIT_MAX);
    let full = WriteOutcome::Refused(Refusal::AuditFull);
    assert_eq!(done(rig.attempt(&x, &put)), full);
    assert_eq!(done(rig.attempt(&x, &force)), full);
    assert_eq!(done(rig.attempt(&off, &force)), full);
    let of_alias = done(rig.attempt(&alias, &put));
    assert!(
        matches!(of_alias, WriteOutcome::Refused(Refusal::Target { .. })),
        "{of_alias:?}"
    );
    let GroupAttempt::Done(ended) = write_group(wakes) else {
        panic!("the write is not refused");
    };
    assert_eq!((ended.commit, ended.outcomes), (None, vec![full]));
    assert_eq!(clear(wakes), Err(NoAuditRoom::Unstored));
    assert_eq!(rig.engine.audit().waiting(), (AUDIT_NOTES_MAX, 2));
    assert_eq!(
        x.sequence(),
        AUDIT_NOTES_MAX as u64,
        "no action was carried out"
    );
    assert!(x.ledger().is_balanced());

    assert_eq!(rig.engine.audit().take(1, 10).len(), 10);
    assert_eq!(clear(wakes), Ok(1));
    // A group has reserved room for each of its members, even when a best-effort entry finds none.
    let before = rig.engine.audit().waiting();
    let GroupAttempt::Done(ended) = write_group(wakes) else {
        panic!("the group is not written");
    };
    assert!(ended.commit.is_some());
    assert_eq!(rig.engine.audit().waiting(), (before.0 + 1, before.1));
    assert_eq!(
        done(rig.attempt(&alias, &put)),
        applied(AUDIT_NOTES_MAX as u64 + 2)
    );
}

/// Sessions that end while waiting for a full audit take no memory, even if the host never takes
/// another entry.
///
/// Behaviour: B-24.
#[test]
fn sessions_that_end_while_waiting_for_a_full_audit_are_released() {
    struct Waiter {
        _kept: Arc<()>,
    }
    impl Wake for Waiter {
        fn wake(&self) {}
    }

    let (rig, x) = audited();
    rig.engine.audit().keep(Box::new(Bell::default()));
    assert_eq!(fill(&rig, &x), AUDIT_NOTES_MAX);
    let kept = Arc::new(());
    for _ in 0..10 {
        let _kept = Arc::clone(&kept);
        let waiter = Box::new(Waiter { _kept });
        let consumer = Consumer::new(rig.engine.clone(), waiter);
        assert!(consumer.wait_for_room(&x));
        // At most this session and the previous one.
        assert!(Arc::strong_count(&kept) <= 3);
    }
    assert_eq!(rig.engine.audit().take(1, 10).len(), 10);
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// Claimed room that is not used is released.
#[test]
fn room_of_an_unaudited_write_is_released() {
    let (rig, x) = audited();
    rig.engine.audit().keep(Box::new(Bell::default()));
    let room = rig
        .engine
        .audit()
        .claim(AUDIT_NOTES_MAX, rig.now())
        .expect("the audit is empty");
    let value = Value::F64(1.0);
    assert!(matches!(
        rig.attempt(&x, &Write::value(&value)),
        Attempt::WouldBlock { .. }
    ));
    drop(room);
    assert_eq!(done(rig.attempt(&x, &Write::value(&value))), applied(1));
}

/// Behaviour: B-24.
#[test]
fn lost_best_effort_entries_are_counted_at_their_position() {
    let mut properties = properties();
    properties.audit = AuditMode::BestEffort;
    let (rig, x) = Rig::of(properties);
    let bell = Bell::default();
    rig.engine.audit().keep(Box::new(bell.clone()));
    for number in 0..AUDIT_BEST_EFFORT_MAX + 7 {
        rig.write(&x, number as f64);
    }
    assert_eq!(
        bell.rings(),
        1,
        "the host is woken for the first entry only"
    );
    assert_eq!(rig.engine.audit().waiting(), (AUDIT_BEST_EFFORT_MAX, 7));
    assert_eq!(x.sequence(), (AUDIT_BEST_EFFORT_MAX + 7) as u64);
    let mut entries = rig.engine.audit().take(1, 10);
    rig.write(&x, -1.0);
    while let more @ [_, ..] = &*rig.engine.audit().take(entries.len() as u64 + 1, 999) {
        entries.extend_from_slice(more);
    }
    let numbers = entries.iter().map(|entry| entry.number);
    assert!(
        numbers.eq(1..=AUDIT_BEST_EFFORT_MAX as u64 + 2),
        "without a gap"
    );
    let [.., last, lost, after] = &*entries else {
        panic!("{} entries", entries.len());
    };
    assert_eq!(last.new, format!("{}.0", AUDIT_BEST_EFFORT_MAX - 1));
    assert_eq!(lost.action, AuditAction::Lost);
    assert_eq!(lost.outcome, AuditOutcome::Lost(7));
    assert_eq!(after.new, "-1.0");

    // The loss is reported even if no entry follows it.
    for number in 0..AUDIT_BEST_EFFORT_MAX + 3 {
        rig.write(&x, number as f64);
    }
    assert_eq!(taken(&rig).len(), AUDIT_BEST_EFFORT_MAX);
    let [lost] = &*taken(&rig) else {
        panic!("expected one entry that reports the loss");
    };
    assert_eq!(lost.outcome, AuditOutcome::Lost(3));
    assert_eq!(rig.engine.audit().waiting(), (0, 0));
}

/// Each update of an audited variable has one entry. Its old value is the new value of the previous
/// entry, with any number of concurrent writers.
///
/// Behaviour: B-24.
#[test]
fn audit_entries_of_racing_writers_follow_update_order() {
    const THREADS: u32 = 4;
    const WRITES: u32 = 2_000;
    let mut of_counter = Properties::new(DataType::U64);
    of_counter.audit = AuditMode::Complete;
    of_counter.access = Access::ReadWrite;
    let (rig, x) = Rig::of(of_counter);
    let (engine, now, wall) = (rig.engine.clone(), rig.now(), rig.wall());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (engine, x) = (&engine, &x);
            scope.spawn(move || {
                let mut caller = Caller::local(thread + 1, thread);
                caller.principal = Principal::Local(thread);
                for number in 0..WRITES {
                    let bytes = (u64::from(thread) << 32 | u64::from(number)).to_le_bytes();
                    let mut write = Write::wire(&bytes);
                    if number % 2 == 1 {
                        // Each write, applied or refused, has exactly one entry.
                        write.expected = Some(at(x.sequence()));
                    }
                    let attempt =
                        engine.try_write(&caller, now, wall, x, &write, &mut Wakes::new());
                    assert!(matches!(attempt, Attempt::Done(_)));
                }
            });
        }
    });
    let entries = taken(&rig);
    assert_eq!(entries.len(), (THREADS * WRITES) as usize);
    let (mut value, mut sequence) = (String::new(), 0);
    let mut of_whom: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in &entries {
        assert_eq!(entry.old, value);
        if let AuditOutcome::Applied(position) = &entry.outcome {
            sequence += 1;
            assert_eq!(position.sequence, sequence);
            value = entry.new.clone();
        } else {
            assert_eq!(entry.outcome.name(), "refused");
        }
        // The entries of one writer are in the order of its writes.
        let number = entry.new.parse::<u64>().unwrap() & 0xffff_ffff;
        let next = of_whom.entry(&entry.who).or_default();
        assert_eq!(number, *next);
        *next += 1;
    }
    assert_eq!(sequence, x.sequence());
    assert_eq!(x.ledger().refused, entries.len() as u64 - sequence);
}

#[test]
fn explain_shows_where_the_entries_are_stored() {
    let (rig, x) = audited();
    rig.write(&x, 1.0);
    let audit = || {
        let steps = rig
            .engine
            .queries()
            .explain(&rig.caller, "rig/x", rig.now(), rig.wall());
        let found = steps
            .into_iter()
            .find(|step| step.sentence.contains("audited"));
        found.expect("it is audited")
    };
    assert_eq!(audit().verdict, WhyVerdict::Note);
    rig.engine.audit().set_storage(AuditStorage {
        is_lasting: true,
        sentence: Arc::from("entries are stored in x.db"),
    });
    let step = audit();
    assert_eq!(step.verdict, WhyVerdict::Ok);
    assert_eq!(step.sentence, "it is audited: entries are stored in x.db");
}

#[test]
fn waiting_write_is_audited_only_when_it_ends() {
    let mut properties = properties();
    properties.stall = Duration::from_secs(1);
    let (rig, x) = Rig::of(properties);
    let mut consumer = rig.consumer();
    let bound = trunkline_types::Contract::All {
        elements: 1,
        bytes: 0,
    };
    rig.subscribe(&mut consumer, 1, bound, &x);
    rig.write(&x, 1.0);
    let bytes = 2.0_f64.to_le_bytes();
    let mut write = Write::wire(&bytes);
    write.value = WriteValue::Wire(&bytes);
    assert!(matches!(
        rig.attempt(&x, &write),
        Attempt::WouldBlock { .. }
    ));
    assert_eq!(described(&taken(&rig)), ["put  -> 1.0: applied"]);
    rig.advance(Duration::from_secs(2));
    assert_eq!(done(rig.attempt(&x, &write)), applied(2));
    assert_eq!(described(&taken(&rig)), ["put 1.0 -> 2.0: applied"]);
}

/// Notes a security event of a peer.
fn note(rig: &Rig, caller: &Caller, peer: &str, event: SecurityEvent<'_>) {
    let moment = moment(rig);
    let note = SecurityNote { peer, event };
    let audit = rig.engine.audit();
    audit.note_security(caller, note, moment, &mut Wakes::new());
}

fn moment(rig: &Rig) -> Moment {
    Moment {
        now: rig.now(),
        wall: rig.wall(),
    }
}

/// Lets the counts become due.
fn note_repeats(rig: &Rig) -> Option<Tick> {
    let audit = rig.engine.audit();
    audit.note_repeats(moment(rig), &mut Wakes::new())
}

fn wrong_password(account: &str) -> SecurityEvent<'_> {
    SecurityEvent::LoginRefused {
        account,
        method: "password",
        rule: "the password is wrong",
    }
}

/// Returns the entries as `action name new: outcome`.
fn security(entries: &[AuditEntry]) -> Vec<String> {
    let described = |entry: &AuditEntry| {
        let (action, name, new) = (entry.action, &entry.name, &entry.new);
        format!("{action} {name} {new}: {}", entry.outcome)
    };
    entries.iter().map(described).collect()
}

/// Behaviour: B-24.
#[test]
fn each_kind_of_security_event_has_its_own_entry() {
    let (rig, _) = audited();
    let caller = Caller::local(7, 1000);
    for event in [
        SecurityEvent::LoginAccepted {
            account: "ann",
            method: "key",
        },
        wrong_password("bob"),
        SecurityEvent::RequestRefused {
            request: "write",
            name: "rig/x",
            rule: "no rule grants write",
        },
        SecurityEvent::AccessChanged {
            change: "rule 3 added",
            refused: None,
        },
        SecurityEvent::AccessChanged {
            change: "rule 4 added",
            refused: Some("only an admin may change rules"),
        },
        SecurityEvent::ConfigurationChanged {
            change: "listen",
            refused: None,
        },
        SecurityEvent::SessionRevoked {
            cause: "the account ann was removed",
        },
        SecurityEvent::SessionEnded {
            cause: "closed by the client",
        },
        SecurityEvent::StreamRegistered {
            name: "daq/raw",
            refused: None,
        },
        SecurityEvent::StreamConnected {
            name: "daq/raw",
            refused: None,
        },
        SecurityEvent::StreamConnected {
            name: "daq/raw",
            refused: Some("the ticket is not valid"),
        },
    ] {
        note(&rig, &caller, "local:1000", event);
    }
    let entries = taken(&rig);
    assert_eq!(
        security(&entries),
        [
            "login  account ann by key: done",
            "login  account bob by password: refused: the password is wrong",
            "request rig/x write: refused: no rule grants write",
            "access change  rule 3 added: done",
            "access change  rule 4 added: refused: only an admin may change rules",
            "configure  listen: done",
            "revoke  the account ann was removed: done",
            "logout  closed by the client: done",
            "stream register daq/raw : done",
            "stream connect daq/raw : done",
            "stream connect daq/raw : refused: the ticket is not valid",
        ]
    );
    assert!(entries.iter().all(|entry| entry.who == "local:1000"));
    assert!(entries.iter().all(|entry| entry.from == "this process"));
}

/// An attack with wrong passwords adds a few entries, and every attempt is counted.
///
/// Behaviour: B-24.
#[test]
fn ten_thousand_wrong_passwords_of_a_peer_add_an_entry_per_minute() {
    let (rig, _) = audited();
    let caller = Caller::local(7, 1000);
    for attempt in 0..10_000 {
        note(
            &rig,
            &caller,
            "10.0.0.7",
            wrong_password(&format!("user{attempt}")),
        );
        // A hundred attempts per second: 100 s.
        rig.advance(Duration::from_millis(10));
        note_repeats(&rig);
    }
    rig.advance(Duration::from_secs(60));
    note_repeats(&rig);
    let entries = taken(&rig);
    assert_eq!(entries.len(), 3, "{:?}", security(&entries));
    assert_eq!(entries[0].new, "account user0 by password");
    let counts = entries[1..].iter().map(|entry| {
        let (count, _) = entry
            .new
            .split_once(" more since ")
            .expect("it has a count");
        count.parse::<u64>().expect("it is a number")
    });
    assert_eq!(counts.sum::<u64>(), 9_999);
    assert!(
        entries[2]
            .new
            .ends_with("the last: account user9999 by password")
    );
    // After a minute without attempts, the peer is forgotten.
    rig.advance(Duration::from_secs(60));
    assert_eq!(note_repeats(&rig), None);
    assert_eq!(taken(&rig), []);
}

/// An attack from many addresses is limited as a whole, and other kinds of events are not affected.
#[test]
fn wrong_passwords_of_many_peers_are_counted_together() {
    let (rig, _) = audited();
    let caller = Caller::local(7, 1000);
    for minute in 0..10 {
        for peer in 0..1_000 {
            let peer = format!("10.{minute}.{}.{}", peer / 256, peer % 256);
            note(&rig, &caller, &peer, wrong_password("root"));
        }
        rig.advance(Duration::from_secs(60));
        note_repeats(&rig);
    }
    let accepted = SecurityEvent::LoginAccepted {
        account: "ann",
        method: "key",
    };
    note(&rig, &caller, "10.0.0.7", accepted);
    let entries = taken(&rig);
    let mut attempts = 0;
    for entry in &entries {
        attempts += match entry.new.split_once(" more of other peers since ") {
            Some((count, _)) => count.parse::<u64>().expect("it is a number"),
            None => u64::from(matches!(entry.outcome, AuditOutcome::Refused(_))),
        };
    }
    assert_eq!(attempts, 10_000);
    assert!((70..=85).contains(&entries.len()), "{}", entries.len());
    let last = security(&entries[entries.len() - 1..]);
    assert_eq!(last, ["login  account ann by key: done"]);
}

/// An account that opens streams without end adds as few entries as an attack with wrong passwords.
///
/// Behaviour: B-24.
#[test]
fn streams_that_an_account_opens_without_end_are_counted_together() {
    let (rig, _) = audited();
    let caller = Caller::local(7, 1000);
    let names = (0..10_000).map(|number| format!("daq/{number}"));
    for (number, name) in names.enumerate() {
        let refused = (number % 2 == 1).then_some("another endpoint has this name");
        for event in [
            SecurityEvent::StreamRegistered {
                name: &name,
                refused,
            },
            SecurityEvent::StreamConnected {
                name: &name,
                refused: None,
            },
            // One stream whose connection breaks again and again.
            SecurityEvent::StreamConnected {
                name: "daq/0",
                refused: None,
            },
        ] {
            note(&rig, &caller, "account:daq", event);
        }
        rig.advance(Duration::from_millis(10));
        note_repeats(&rig);
    }
    rig.advance(Duration::from_secs(60));
    note_repeats(&rig);
    let entries = taken(&rig);
    assert!((120..=140).contains(&entries.len()), "{}", entries.len());
    let events = entries
        .iter()
        .map(|entry| match entry.new.split_once(" more") {
            Some((count, _)) => count.parse::<u64>().expect("it is a number"),
            None => 1,
        });
    assert_eq!(events.sum::<u64>(), 30_000);
    let broken = entries.iter().filter(|entry| entry.name == "daq/0");
    let broken: Vec<_> = broken.map(|entry| entry.new.as_str()).collect();
    let is_count = |text: &&str| text.contains(" more since ") && !text.contains("the last");
    assert!(broken.iter().any(is_count), "{broken:?}");
}

#[test]
fn refused_requests_are_counted_by_session_and_kind() {
    let (rig, _) = audited();
    let caller = Caller::local(7, 1000);
    let refused = |request| SecurityEvent::RequestRefused {
        request,
        name: "rig/x",
        rule: "no rule permits it",
    };
    for _ in 0..500 {
        note(&rig, &caller, "session 7", refused("WRITE"));
        note(&rig, &caller, "session 7", refused("ALARM_ACT"));
        note(&rig, &caller, "session 8", refused("WRITE"));
    }
    assert_eq!(taken(&rig).len(), 3);
    let due = note_repeats(&rig).expect("there are counts");
    assert_eq!(due.since(rig.now()), AUDIT_REPEAT_PERIOD);
    let audit = rig.engine.audit();
    audit.note_all_repeats(moment(&rig), &mut Wakes::new());
    let entries = taken(&rig);
    assert_eq!(entries.len(), 3);
    for entry in &entries {
        assert!(entry.new.starts_with("499 more since "), "{}", entry.new);
        assert_eq!(entry.name, "rig/x");
    }
}

/// A full disk is visible, and does not stop the control by variables with a best-effort audit.
///
/// Behaviour: B-24.
#[test]
fn full_best_effort_audit_refuses_nothing_and_is_reported() {
    let mut properties = properties();
    properties.audit = AuditMode::BestEffort;
    let (rig, x) = Rig::of(properties);
    rig.engine.audit().keep(Box::new(Bell::default()));
    let total = AUDIT_BEST_EFFORT_MAX + 1_000;
    for number in 1..=total {
        assert_eq!(rig.write(&x, number as f64), applied(number as u64));
    }
    let figures = rig.engine.audit().figures();
    assert!(figures.is_full);
    assert!(figures.waiting <= AUDIT_BEST_EFFORT_MAX);
    assert_eq!(figures.waiting as u64 + figures.lost, total as u64);
    taken(&rig);
    let figures = rig.engine.audit().figures();
    assert!(!figures.is_full && figures.lost > 0, "{figures:?}");
}
