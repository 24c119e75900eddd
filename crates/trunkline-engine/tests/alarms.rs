//! Alarms of variables: evaluation at each update, operators' actions, readers of changes, and
//! restarts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use rig::{Bell, Rig, applied, define, library_of};
use trunkline_alarm::{ActionError, Event, State};
use trunkline_engine::{
    ALARM_CHANGES_MAX, AlarmReader, AlarmRefusal, AlarmSnapshot, Caller, Variable, Wakes,
    WriteOutcome,
};
use trunkline_types::alarm::{
    Acknowledge, AlarmAction, AlarmChange, AlarmDefinition, AlarmKind, AlarmStatus, LimitLevel,
    Operand, SavedAlarm,
};
use trunkline_types::{DataType, Deadband, Moment, Properties, Value};

const SECOND: Duration = Duration::from_secs(1);

fn limit(level: LimitLevel, limit: f64) -> AlarmDefinition {
    AlarmDefinition::new(AlarmKind::Limit {
        level,
        limit: Operand::Constant(limit),
        deadband: 0.0,
    })
}

fn hi() -> AlarmDefinition {
    limit(LimitLevel::Hi, 80.0)
}

fn with(alarms: &[AlarmDefinition]) -> Properties {
    Properties {
        alarms: alarms.to_vec(),
        ..Properties::new(DataType::F64)
    }
}

/// Returns an engine with the variable `rig/x`, which has these alarms.
fn rig(alarms: &[AlarmDefinition]) -> (Rig, Arc<Variable>) {
    let rig = Rig::new();
    rig.deploy("rig", vec![define("x", with(alarms))]);
    let x = rig.variable("rig/x");
    (rig, x)
}

/// Returns an engine with the variable `rig/x`, whose alarm limit is the value of `rig/max`.
fn rig_with_limit_variable() -> (Rig, Arc<Variable>, Arc<Variable>) {
    let mut alarm = hi();
    alarm.kind = AlarmKind::Limit {
        level: LimitLevel::Hi,
        limit: Operand::Variable("rig/max".to_owned()),
        deadband: 0.0,
    };
    let rig = Rig::with(vec![
        define("max", Properties::new(DataType::F64)),
        define("x", with(&[alarm])),
    ]);
    let (x, max) = (rig.variable("rig/x"), rig.variable("rig/max"));
    (rig, x, max)
}

/// Replaces the library `rig` with one that has the variable `rig/x`.
fn replace(rig: &Rig, properties: Properties) {
    let library = library_of("rig", vec![define("x", properties)]);
    let none = &|_: &_, _: &_| None;
    let (now, wall) = (rig.now(), rig.wall());
    let libraries = rig.engine.libraries();
    libraries
        .deploy_retained(&library, true, none, now, wall, &mut Wakes::new())
        .unwrap();
}

fn reader(rig: &Rig) -> AlarmReader {
    rig.engine.alarms().reader(Box::new(Bell::default()), false)
}

fn status(rig: &Rig, variable: &Variable) -> AlarmStatus {
    rig.engine.alarms().of_variable(variable).remove(0)
}

fn state(rig: &Rig, variable: &Variable) -> State {
    status(rig, variable).record.state
}

fn changes(reader: &AlarmReader) -> Vec<AlarmChange> {
    let (notes, lost) = reader.take(usize::MAX);
    assert_eq!(lost, 0);
    notes.iter().map(|note| note.change.clone()).collect()
}

fn act(
    rig: &Rig,
    caller: &Caller,
    variable: &Variable,
    action: AlarmAction,
) -> Result<State, AlarmRefusal> {
    let moment = Moment {
        now: rig.now(),
        wall: rig.wall(),
    };
    let asked = ("hi", action, "seen");
    let mut wakes = Wakes::new();
    let alarms = rig.engine.alarms();
    alarms.act(caller, variable.handle(), asked, moment, &mut wakes)
}

/// Behaviour: SV-04, H-06, H-11.
#[test]
fn update_raises_and_clears_alarms_and_each_change_is_entered() {
    let (rig, x) = rig(&[hi(), limit(LimitLevel::HiHi, 90.0)]);
    let reader = reader(&rig);
    for value in [50.0, 85.0, 95.0, 96.0, 50.0] {
        rig.write(&x, value);
    }
    let seen = changes(&reader);
    let seen: Vec<_> = seen
        .iter()
        .map(|change| {
            let status = &change.status;
            (&*status.definition.name, change.event, status.record.value)
        })
        .collect();
    let expected = [
        ("hi", Event::Raise, Some(85.0)),
        ("hi_hi", Event::Raise, Some(95.0)),
        ("hi", Event::Clear, Some(85.0)),
        ("hi_hi", Event::Clear, Some(95.0)),
    ];
    assert_eq!(seen, expected);
    assert_eq!(state(&rig, &x), State::ReturnedUnacknowledged);
}

/// Behaviour: H-07.
#[test]
fn change_within_the_deadband_that_raises_an_alarm_is_committed() {
    let mut properties = with(&[hi()]);
    properties.deadband = Deadband {
        user_percent: 10.0,
        source_percent: 10.0,
    };
    let (rig, x) = Rig::of(properties);
    assert_eq!(rig.write(&x, 79.0), applied(1));
    assert_eq!(rig.write(&x, 79.5), WriteOutcome::Unchanged(1));
    assert_eq!(rig.write(&x, 80.5), applied(2));
    assert_eq!(state(&rig, &x), State::Unacknowledged);
    assert_eq!(rig.write(&x, 80.6), WriteOutcome::Unchanged(2));
}

/// Behaviour: H-08, H-11.
#[test]
fn operator_acknowledges_with_a_comment_and_the_journal_names_them() {
    let (rig, x) = rig(&[hi()]);
    let reader = reader(&rig);
    rig.write(&x, 85.0);
    let operator = Caller::local(7, 1000);
    let state = act(&rig, &operator, &x, AlarmAction::Acknowledge);
    assert_eq!(state, Ok(State::Acknowledged));
    let change = changes(&reader).pop().unwrap();
    assert_eq!(change.event, Event::Acknowledge);
    assert_eq!(change.who, "local:1000");
    assert_eq!(change.comment, "seen");
    assert_eq!(change.status.record.acknowledged_by, "local:1000");
    assert_eq!(change.status.record.acknowledged, Some(rig.wall()));
    let again = act(&rig, &operator, &x, AlarmAction::Acknowledge);
    let refused = ActionError::NothingToAcknowledge(State::Acknowledged);
    assert_eq!(again, Err(AlarmRefusal::State(refused)));
}

#[test]
fn unknown_alarm_is_refused_with_those_that_exist() {
    let (rig, x) = rig(&[limit(LimitLevel::Lo, 3.0)]);
    let refused = act(&rig, &rig.caller, &x, AlarmAction::Acknowledge);
    let error = refused.unwrap_err();
    assert_eq!(error.to_string(), "the variable has no alarm hi; it has lo");
}

#[test]
fn caller_without_the_right_to_write_cannot_act() {
    let (rig, x) = rig(&[hi()]);
    rig.write(&x, 85.0);
    let mut viewer = Caller::local(7, 1000);
    viewer.rights = trunkline_engine::Rights::READ;
    let refused = act(&rig, &viewer, &x, AlarmAction::Acknowledge);
    assert!(matches!(refused, Err(AlarmRefusal::Variable(_))));
    assert_eq!(state(&rig, &x), State::Unacknowledged);
}

#[test]
fn delayed_alarm_is_raised_by_poll_at_its_time() {
    let mut alarm = hi();
    alarm.on_delay = 5 * SECOND;
    let (rig, x) = rig(&[alarm]);
    rig.write(&x, 85.0);
    let due = rig.now().saturating_add(5 * SECOND);
    let next = rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
    assert_eq!(next, Some(due));
    rig.advance(4 * SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Normal);
    rig.advance(SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Unacknowledged);
    let next = rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
    assert_eq!(next, None);
}

#[test]
fn shelved_alarm_returns_at_its_time() {
    let (rig, x) = rig(&[hi()]);
    let reader = reader(&rig);
    rig.write(&x, 85.0);
    let shelve = AlarmAction::Shelve(60 * SECOND);
    assert_eq!(act(&rig, &rig.caller, &x, shelve), Ok(State::Shelved));
    let too_long = AlarmAction::Shelve(trunkline_engine::SHELVE_MAX * 2);
    assert_eq!(
        act(&rig, &rig.caller, &x, too_long),
        Err(AlarmRefusal::Time)
    );
    rig.advance(59 * SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Shelved);
    rig.advance(SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Unacknowledged);
    let last = changes(&reader).pop().unwrap();
    assert_eq!(last.event, Event::Unshelve);
}

#[test]
fn alarm_that_is_raised_while_it_is_shelved_shows_its_value_afterwards() {
    let (rig, x) = rig(&[hi()]);
    let shelve = AlarmAction::Shelve(60 * SECOND);
    act(&rig, &rig.caller, &x, shelve).unwrap();
    rig.write(&x, 85.0);
    let shelved = status(&rig, &x).record;
    assert_eq!((shelved.state, shelved.is_active), (State::Shelved, true));
    assert_eq!(
        shelved.comment, "seen",
        "the comment of the shelving is kept"
    );
    let figures = rig.engine.alarms().figures(rig.now());
    assert_eq!(
        (figures.active, figures.raised_recently),
        (1, 0),
        "nobody has acknowledged the alarm"
    );
    act(&rig, &rig.caller, &x, AlarmAction::Unshelve).unwrap();
    let shown = status(&rig, &x).record;
    assert_eq!(shown.state, State::Unacknowledged);
    assert_eq!(shown.value, Some(85.0));
}

#[test]
fn limit_follows_the_variable_that_it_names() {
    let mut alarm = hi();
    alarm.kind = AlarmKind::Limit {
        level: LimitLevel::Hi,
        limit: Operand::Variable("plant/max".to_owned()),
        deadband: 0.0,
    };
    let (rig, x) = rig(&[alarm]);
    rig.write(&x, 85.0);
    rig.poll();
    assert_eq!(
        state(&rig, &x),
        State::Normal,
        "the variable with the limit does not exist yet"
    );
    rig.deploy("plant", vec![define("max", Properties::new(DataType::F64))]);
    let max = rig.variable("plant/max");
    rig.poll();
    assert_eq!(state(&rig, &x), State::Normal, "the limit has no value yet");
    rig.write(&max, 80.0);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Unacknowledged);
    assert_eq!(status(&rig, &x).record.operand, Some(80.0));
    rig.write(&max, 90.0);
    rig.poll();
    assert_eq!(state(&rig, &x), State::ReturnedUnacknowledged);
}

#[test]
fn limit_is_known_before_the_first_value() {
    let (rig, x, max) = rig_with_limit_variable();
    rig.write(&max, 80.0);
    rig.poll();
    rig.write(&x, 85.0);
    assert_eq!(state(&rig, &x), State::Unacknowledged);
}

#[test]
fn condition_suppresses_the_alarm_by_design() {
    let mut alarm = hi();
    alarm.suppressed_by = "rig/stopped".to_owned();
    let rig = Rig::with(vec![
        define("stopped", Properties::new(DataType::Bool)),
        define("x", with(&[alarm])),
    ]);
    let (x, stopped) = (rig.variable("rig/x"), rig.variable("rig/stopped"));
    rig.write(&stopped, Value::Bool(true));
    rig.poll();
    rig.write(&x, 85.0);
    assert_eq!(state(&rig, &x), State::SuppressedByDesign);
    rig.write(&stopped, Value::Bool(false));
    rig.poll();
    assert_eq!(state(&rig, &x), State::Unacknowledged);
}

#[test]
fn redeployed_alarm_with_the_same_definition_keeps_its_state() {
    let (rig, x) = rig(&[hi(), limit(LimitLevel::Lo, 3.0)]);
    rig.write(&x, 85.0);
    act(&rig, &rig.caller, &x, AlarmAction::Acknowledge).unwrap();
    let replace = |alarms: &[AlarmDefinition]| replace(&rig, with(alarms));
    replace(&[hi(), limit(LimitLevel::Lo, 4.0)]);
    assert_eq!(state(&rig, &x), State::Acknowledged);
    let mut latched = hi();
    latched.latched = true;
    replace(&[latched]);
    assert_eq!(state(&rig, &x), State::Unacknowledged, "a new alarm");
    replace(&[]);
    assert_eq!(rig.engine.alarms().of_variable(&x), []);
    assert!(rig.engine.alarms().list(&rig.caller, None, 10).is_empty());
}

/// Behaviour: H-08.
#[test]
fn alarm_with_automatic_acknowledgement_is_normal_after_its_return() {
    let mut alarm = hi();
    alarm.acknowledge = Acknowledge::Auto;
    let (rig, x) = rig(&[alarm]);
    rig.write(&x, 85.0);
    rig.write(&x, 75.0);
    assert_eq!(state(&rig, &x), State::Normal);
}

#[test]
fn list_has_the_alarms_of_all_variables_in_pages() {
    let variables = (0..10).map(|number| {
        let path = format!("x{number}");
        define(&path, with(&[hi(), limit(LimitLevel::Lo, 3.0)]))
    });
    let rig = Rig::with(variables.collect());
    let alarms = rig.engine.alarms();
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let page = alarms.list(&rig.caller, after, 3);
        let Some(last) = page.last() else { break };
        after = Some(last.handle);
        names.extend(
            page.iter()
                .map(|one| format!("{} {}", one.variable, one.definition.name)),
        );
    }
    assert_eq!(names.len(), 20);
    assert_eq!((&*names[0], &*names[19]), ("rig/x0 hi", "rig/x9 lo"));
}

/// The fast path skips the alarms only while no alarm state can change.
#[test]
fn fast_path_serves_values_that_change_no_alarm() {
    let (rig, x) = rig(&[hi(), limit(LimitLevel::Lo, 3.0)]);
    let plain = |value: f64| {
        let mut wakes = Wakes::new();
        x.write_plain(&rig.caller, rig.wall(), &Value::F64(value), &mut wakes)
    };
    assert_eq!(
        plain(50.0),
        None,
        "the alarms have not evaluated a value yet"
    );
    rig.write(&x, 50.0);
    assert_eq!(plain(80.0), Some(2));
    assert_eq!(plain(80.1), None);
    assert_eq!(plain(f64::NAN), None);
    rig.write(&x, 81.0);
    assert_eq!(state(&rig, &x), State::Unacknowledged);
    assert_eq!(plain(80.1), Some(4));
    assert_eq!(plain(79.0), None);
}

/// Every reader gets each change since its creation once.
#[test]
fn readers_take_the_changes_each_at_its_own_pace() {
    let (rig, x) = rig(&[hi()]);
    rig.write(&x, 85.0);
    let (early, slow) = (reader(&rig), reader(&rig));
    assert!(early.is_idle());
    rig.write(&x, 75.0);
    assert_eq!(changes(&early).len(), 1);
    let late = reader(&rig);
    rig.write(&x, 85.0);
    assert_eq!(changes(&early).len(), 1);
    assert_eq!(changes(&late).len(), 1);
    assert!(early.is_idle() && !slow.is_idle());
    let (first, lost) = slow.take(1);
    assert_eq!((first[0].change.event, lost), (Event::Clear, 0));
    assert_eq!(changes(&slow)[0].event, Event::Raise);
    drop(early);
    rig.write(&x, 75.0);
    assert_eq!((changes(&slow).len(), changes(&late).len()), (1, 1));
}

/// Behaviour: SV-04.
#[test]
fn slow_reader_learns_how_many_changes_it_lost() {
    let (rig, x) = rig(&[hi()]);
    let (sut, other) = (reader(&rig), reader(&rig));
    let surplus = 10;
    for number in 0..ALARM_CHANGES_MAX + surplus {
        rig.write(&x, if number % 2 == 0 { 85.0 } else { 75.0 });
        if number % 1000 == 0 {
            assert_eq!(other.take(usize::MAX).1, 0);
        }
    }
    let (notes, lost) = sut.take(usize::MAX);
    assert_eq!((notes.len(), lost), (ALARM_CHANGES_MAX, surplus as u64));
    assert_eq!(sut.take(usize::MAX).1, 0, "the loss is reported once");
}

/// Returns the saved alarm states after the reader has saved all pending changes.
fn kept(rig: &Rig, reader: &AlarmReader) -> Vec<SavedAlarm> {
    let mut snapshots = rig.engine.alarms().unkept();
    let (notes, _) = reader.take(usize::MAX);
    snapshots.extend(notes.iter().map(|note| note.snapshot()));
    let mut newest: Vec<AlarmSnapshot> = Vec::new();
    for one in snapshots {
        let same = |known: &&mut AlarmSnapshot| known.kept.alarm == one.kept.alarm;
        match newest.iter_mut().find(same) {
            Some(known) if known.version < one.version => *known = one,
            Some(_) => {}
            None => newest.push(one),
        }
    }
    newest.into_iter().map(|one| one.kept).collect()
}

/// Runs an engine with `alarms`, and then, after `pause`, a second one that starts from the states
/// saved by the first. The second engine has its own reader.
fn restarted(
    alarms: &[AlarmDefinition],
    first: impl FnOnce(&Rig, &Variable),
    pause: Duration,
) -> (Rig, Arc<Variable>, AlarmReader) {
    let before = Rig::new();
    let keeper = before
        .engine
        .alarms()
        .reader(Box::new(Bell::default()), true);
    before.deploy("rig", vec![define("x", with(alarms))]);
    let x = before.variable("rig/x");
    first(&before, &x);
    let kept = kept(&before, &keeper);
    let after = Rig::new();
    after.set_wall(before.wall().saturating_add_nanos(pause.as_nanos() as i64));
    after.engine.alarms().restore(kept);
    let reader = reader(&after);
    after.deploy("rig", vec![define("x", with(alarms))]);
    let x = after.variable("rig/x");
    (after, x, reader)
}

/// Behaviour: SV-04, H-11.
#[test]
fn states_continue_after_a_restart_without_a_change() {
    let (rig, x, reader) = restarted(
        &[hi()],
        |rig, x| {
            rig.write(x, 85.0);
            act(rig, &rig.caller, x, AlarmAction::Acknowledge).unwrap();
        },
        SECOND,
    );
    let record = status(&rig, &x).record;
    assert_eq!(record.state, State::Acknowledged);
    assert_eq!((record.value, &*record.comment), (Some(85.0), "seen"));
    rig.write(&x, 90.0);
    assert!(
        changes(&reader).is_empty(),
        "the alarm was raised before the restart"
    );
    rig.write(&x, 75.0);
    assert_eq!(changes(&reader)[0].event, Event::Clear);
    assert_eq!(state(&rig, &x), State::Normal);
}

/// An initial value does not come from the process.
#[test]
fn initial_value_does_not_clear_an_alarm_of_an_earlier_run() {
    let mut properties = with(&[hi()]);
    properties.initial = Some(Value::F64(20.0));
    let before = Rig::new();
    let keeper = before
        .engine
        .alarms()
        .reader(Box::new(Bell::default()), true);
    before.deploy("rig", vec![define("x", properties.clone())]);
    let x = before.variable("rig/x");
    before.write(&x, 85.0);
    let kept = kept(&before, &keeper);
    let after = Rig::new();
    after.engine.alarms().restore(kept);
    after.deploy("rig", vec![define("x", properties)]);
    let x = after.variable("rig/x");
    assert_eq!(
        (x.sequence(), state(&after, &x)),
        (1, State::Unacknowledged)
    );
    after.write(&x, 20.0);
    assert_eq!(state(&after, &x), State::ReturnedUnacknowledged);
}

/// Behaviour: SV-04.
#[test]
fn delays_continue_after_a_restart() {
    let mut alarm = hi();
    alarm.on_delay = 10 * SECOND;
    let alarms = [alarm];
    let begin = |rig: &Rig, x: &Variable| {
        rig.write(x, 85.0);
    };
    let (rig, x, _reader) = restarted(&alarms, begin, 4 * SECOND);
    rig.advance(5 * SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Normal);
    rig.advance(SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Unacknowledged);
    assert_eq!(status(&rig, &x).record.value, None, "there is no value yet");

    let (rig, x, _reader) = restarted(&alarms, begin, 3600 * SECOND);
    rig.poll();
    assert_eq!(
        state(&rig, &x),
        State::Unacknowledged,
        "the delay has ended during the pause"
    );

    let ended = |rig: &Rig, x: &Variable| {
        rig.write(x, 85.0);
        rig.write(x, 75.0);
    };
    let (rig, x, _reader) = restarted(&alarms, ended, 3600 * SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Normal, "the off-delay has ended");
}

/// Behaviour: SV-04.
///
/// One sample ends the on-delay and begins the off-delay.
#[test]
fn off_delay_that_begins_as_the_on_delay_ends_continues_after_a_restart() {
    let mut alarm = hi();
    (alarm.on_delay, alarm.off_delay) = (10 * SECOND, 10 * SECOND);
    let begin = |rig: &Rig, x: &Variable| {
        rig.write(x, 85.0);
        rig.advance(10 * SECOND);
        rig.write(x, 75.0);
    };
    let (rig, x, _reader) = restarted(&[alarm], begin, 4 * SECOND);
    rig.advance(5 * SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Unacknowledged);
    rig.advance(SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::ReturnedUnacknowledged);
}

/// Setting the clock back must not prolong a delay.
#[test]
fn delay_does_not_grow_if_the_clock_was_set_back() {
    let mut alarm = hi();
    alarm.on_delay = 10 * SECOND;
    let begin = |rig: &Rig, x: &Variable| {
        rig.advance(5 * SECOND);
        rig.write(x, 85.0);
        rig.advance(5 * SECOND);
        rig.set_wall(rig.wall().saturating_add_nanos(-3_600_000_000_000));
    };
    let (rig, x, _reader) = restarted(&[alarm], begin, SECOND);
    rig.advance(10 * SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Unacknowledged);
}

#[test]
fn shelved_alarm_returns_after_a_restart() {
    let shelve = |rig: &Rig, x: &Variable| {
        rig.write(x, 85.0);
        let action = AlarmAction::Shelve(60 * SECOND);
        act(rig, &rig.caller, x, action).unwrap();
    };
    let (rig, x, _reader) = restarted(&[hi()], shelve, 20 * SECOND);
    rig.advance(39 * SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Shelved);
    rig.advance(SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Unacknowledged);
}

/// The saved state of a removed alarm must not apply to a later alarm with the same definition.
#[test]
fn removed_alarm_is_not_kept() {
    for is_raised in [false, true] {
        let rig = Rig::new();
        let keeper = rig.engine.alarms().reader(Box::new(Bell::default()), true);
        let two = [hi(), limit(LimitLevel::Lo, 20.0)];
        rig.deploy("rig", vec![define("x", with(&two))]);
        if is_raised {
            rig.write(&rig.variable("rig/x"), 85.0);
        }
        assert!(kept(&rig, &keeper).iter().all(|one| !one.is_gone()));
        replace(&rig, with(&two[1..]));
        let mut names: Vec<_> = kept(&rig, &keeper)
            .into_iter()
            .map(|one| (one.is_gone(), one.alarm))
            .collect();
        names.sort();
        assert_eq!(names, [(false, "lo".to_owned()), (true, "hi".to_owned())]);
        // A new alarm with the same name is a different alarm.
        replace(&rig, with(&two));
        assert!(kept(&rig, &keeper).iter().all(|one| !one.is_gone()));
        assert!(keeper.is_idle());
    }
}

#[test]
fn changed_definition_starts_with_a_new_state() {
    let before = Rig::new();
    let keeper = before
        .engine
        .alarms()
        .reader(Box::new(Bell::default()), true);
    before.deploy("rig", vec![define("x", with(&[hi()]))]);
    before.write(&before.variable("rig/x"), 85.0);
    let kept = kept(&before, &keeper);
    assert_eq!(kept.len(), 1);
    let after = Rig::new();
    after.engine.alarms().restore(kept);
    let reader = reader(&after);
    after.deploy(
        "rig",
        vec![define("x", with(&[limit(LimitLevel::Hi, 70.0)]))],
    );
    assert_eq!(state(&after, &after.variable("rig/x")), State::Normal);
    let ended = changes(&reader);
    let ended: Vec<_> = ended
        .iter()
        .map(|one| (one.event, one.from, one.status.record.state))
        .collect();
    assert_eq!(
        ended,
        [(Event::Clear, State::Unacknowledged, State::Normal)],
        "the journal records the end of the alarm"
    );
}

#[test]
fn figures_count_states_and_the_alarms_of_ten_minutes() {
    let (rig, x) = rig(&[hi(), limit(LimitLevel::Lo, 3.0)]);
    let figures = || {
        let figures = rig.engine.alarms().figures(rig.now());
        let unacknowledged = figures.in_states(State::is_unacknowledged);
        let hidden = figures.in_states(State::is_hidden);
        (
            figures.active,
            unacknowledged,
            hidden,
            figures.raised_recently,
        )
    };
    assert_eq!(figures(), (0, 0, 0, 0));
    assert_eq!(
        rig.engine.alarms().figures(rig.now()).in_states(|_| true),
        2
    );
    rig.write(&x, 85.0);
    assert_eq!(figures(), (1, 1, 0, 1));
    rig.advance(300 * SECOND);
    rig.write(&x, 2.0);
    assert_eq!(figures(), (1, 2, 0, 2));
    act(&rig, &rig.caller, &x, AlarmAction::Shelve(SECOND)).unwrap();
    assert_eq!(figures(), (1, 1, 1, 2));
    rig.advance(310 * SECOND);
    assert_eq!(figures(), (1, 1, 1, 1));
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .unwrap();
    assert_eq!(figures(), (0, 0, 0, 1));
    rig.advance(600 * SECOND);
    assert_eq!(figures(), (0, 0, 0, 0));
}

/// Behaviour: B-14.
#[test]
fn why_explains_alarms_that_are_hidden_or_active() {
    let mut suppressed = limit(LimitLevel::Lo, 3.0);
    suppressed.suppressed_by = "rig/stopped".to_owned();
    let mut disabled = limit(LimitLevel::LoLo, 1.0);
    disabled.enabled = false;
    let rig = Rig::with(vec![
        define("stopped", Properties::new(DataType::Bool)),
        define("y", with(&[hi(), limit(LimitLevel::HiHi, 90.0)])),
        define("x", with(&[hi(), suppressed, disabled])),
    ]);
    let explained = |name: &str| {
        let queries = rig.engine.queries();
        let steps = queries.explain(&rig.caller, name, rig.now(), rig.wall());
        let mut steps = steps
            .into_iter()
            .filter(|step| step.sentence.contains("alarm"));
        steps.next().unwrap().sentence
    };
    assert_eq!(explained("rig/y"), "its 2 alarms are normal");
    rig.write(&rig.variable("rig/stopped"), Value::Bool(true));
    rig.poll();
    let x = rig.variable("rig/x");
    rig.write(&x, 85.0);
    assert_eq!(
        explained("rig/x#alarm.lo.state"),
        "its alarm hi is unacknowledged; its alarm lo is suppressed by rig/stopped; its alarm lo_lo is \
         not enabled in its configuration"
    );
    act(&rig, &rig.caller, &x, AlarmAction::Shelve(60 * SECOND)).unwrap();
    assert!(explained("rig/x").starts_with("its alarm hi is shelved until 2026-01-01T00:01:00"));
}

/// Shelving still ends on time after the library is replaced, even if the variable has no value
/// yet.
#[test]
fn shelf_ends_after_an_edit_of_a_variable_without_a_value() {
    let (rig, x) = rig(&[hi()]);
    act(&rig, &rig.caller, &x, AlarmAction::Shelve(60 * SECOND)).unwrap();
    let mut edited = with(&[hi()]);
    edited.description = "edited".to_owned();
    replace(&rig, edited);
    assert_eq!(state(&rig, &x), State::Shelved);
    rig.advance(60 * SECOND);
    rig.poll();
    assert_eq!(state(&rig, &x), State::Normal);
}

/// An alarm does not clear because the source of its limit has failed.
#[test]
fn limit_that_is_not_a_number_leaves_the_alarm_as_it_is() {
    let (rig, x, max) = rig_with_limit_variable();
    rig.write(&max, 80.0);
    rig.poll();
    rig.write(&x, 85.0);
    rig.write(&max, f64::NAN);
    rig.poll();
    rig.write(&x, 70.0);
    assert_eq!(state(&rig, &x), State::Unacknowledged);
    rig.write(&max, 80.0);
    rig.poll();
    assert_eq!(state(&rig, &x), State::ReturnedUnacknowledged);
}

/// The alarm of an alias is raised by a change within the alias's own deadband.
///
/// Behaviour: H-07, H-20.
#[test]
fn alias_commits_a_change_within_its_deadband_that_raises_its_alarm() {
    let mut shown = with(&[hi()]);
    shown.alias = "rig/x".to_owned();
    shown.deadband = Deadband {
        user_percent: 10.0,
        source_percent: 10.0,
    };
    shown.range = Some((0.0, 100.0));
    let rig = Rig::with(vec![
        define("x", Properties::new(DataType::F64)),
        define("shown", shown),
    ]);
    let (x, shown) = (rig.variable("rig/x"), rig.variable("rig/shown"));
    rig.write(&x, 79.0);
    rig.write(&x, 79.5);
    assert_eq!(shown.sequence(), 1);
    rig.write(&x, 80.5);
    assert_eq!(state(&rig, &shown), State::Unacknowledged);
}

/// Readers are notified that an alarm was removed.
///
/// Behaviour: H-11.
#[test]
fn alarm_that_is_removed_while_it_is_not_normal_is_entered_as_cleared() {
    let (rig, x) = rig(&[hi(), limit(LimitLevel::Lo, 3.0)]);
    let reader = reader(&rig);
    rig.write(&x, 85.0);
    assert_eq!(changes(&reader).len(), 1);
    let mut latched = hi();
    latched.latched = true;
    replace(&rig, with(&[latched]));
    let seen = changes(&reader);
    let seen: Vec<_> = seen
        .iter()
        .map(|one| (one.event, one.from, one.status.record.state))
        .collect();
    let expected = [
        (Event::Clear, State::Unacknowledged, State::Normal),
        (Event::Raise, State::Normal, State::Unacknowledged),
    ];
    assert_eq!(seen, expected);
    let (now, wall) = (rig.now(), rig.wall());
    let libraries = rig.engine.libraries();
    libraries
        .undeploy("rig", now, wall, &mut Wakes::new())
        .unwrap();
    let last = changes(&reader);
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].status.record.state, State::Normal);
}
