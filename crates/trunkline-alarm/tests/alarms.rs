//! Tests that samples raise and clear alarms: limits, deadbands, delays and the other kinds of alarms.

use std::time::Duration;

use trunkline_alarm::condition::Input;
use trunkline_alarm::{Alarm, Event, Machine, State};
use trunkline_types::alarm::{
    Acknowledge, AlarmDefinition, AlarmKind, BitsNeeded, LimitLevel, Operand,
};
use trunkline_types::{Quality, Reason, Tick, Value};

const SECOND: Duration = Duration::from_secs(1);

/// An alarm, and the current time of its simulated clock.
struct Rig {
    alarm: Alarm,
    now: Tick,
}

impl Rig {
    fn new(kind: AlarmKind) -> Self {
        Self::with_definition(AlarmDefinition::new(kind))
    }

    fn with_definition(definition: AlarmDefinition) -> Self {
        Self {
            alarm: Alarm::new(&definition),
            now: Tick::from_nanos(1_000_000_000),
        }
    }

    fn wait(&mut self, time: Duration) -> State {
        self.now = self.now.saturating_add(time);
        self.alarm.poll(self.now);
        self.alarm.state()
    }

    fn sample(&mut self, value: Value) -> State {
        self.sample_with(value, Quality::GOOD)
    }

    fn sample_with(&mut self, value: Value, quality: Quality) -> State {
        self.alarm.update(Input::new(&value, quality), self.now);
        self.alarm.state()
    }

    fn f64(&mut self, value: f64) -> State {
        self.sample(Value::F64(value))
    }
}

fn limit(level: LimitLevel, limit: f64, deadband: f64) -> AlarmKind {
    AlarmKind::Limit {
        level,
        limit: Operand::Constant(limit),
        deadband,
    }
}

fn hi() -> AlarmDefinition {
    let mut alarm = AlarmDefinition::new(limit(LimitLevel::Hi, 80.0, 5.0));
    alarm.acknowledge = Acknowledge::Auto;
    alarm
}

use State::{Normal, Unacknowledged};

/// Behaviour: H-06, H-07.
#[test]
fn high_limit_clears_only_below_limit_minus_deadband() {
    let mut sut = Rig::with_definition(hi());
    // A value at the limit is not above it.
    for (value, expected) in [
        (80.0, Normal),
        (80.1, Unacknowledged),
        (79.0, Unacknowledged),
        (75.0, Unacknowledged),
        (74.9, Normal),
        (79.0, Normal),
    ] {
        assert_eq!(sut.f64(value), expected, "{value}");
    }
}

/// Behaviour: H-06, H-07.
#[test]
fn low_limit_clears_only_above_limit_plus_deadband() {
    let mut alarm = AlarmDefinition::new(limit(LimitLevel::LoLo, 10.0, 2.0));
    alarm.acknowledge = Acknowledge::Auto;
    let mut sut = Rig::with_definition(alarm);
    for (value, expected) in [
        (10.0, Normal),
        (9.9, Unacknowledged),
        (12.0, Unacknowledged),
        (12.1, Normal),
    ] {
        assert_eq!(sut.f64(value), expected, "{value}");
    }
}

#[test]
fn nan_and_bad_quality_do_not_clear_an_alarm() {
    let mut sut = Rig::with_definition(hi());
    assert_eq!(sut.f64(f64::NAN), Normal);
    assert_eq!(sut.f64(90.0), Unacknowledged);
    assert_eq!(sut.f64(f64::NAN), Unacknowledged);
    let failed = Quality::bad(Reason::SensorFailure);
    assert_eq!(sut.sample_with(Value::F64(0.0), failed), Unacknowledged);
    assert_eq!(sut.f64(f64::NEG_INFINITY), Normal);
}

#[test]
fn alarm_is_raised_after_its_on_delay_and_cleared_after_its_off_delay() {
    let mut alarm = hi();
    (alarm.on_delay, alarm.off_delay) = (5 * SECOND, 3 * SECOND);
    let mut sut = Rig::with_definition(alarm);
    assert_eq!(sut.f64(90.0), Normal);
    assert_eq!(
        sut.alarm.next_deadline(),
        Some(sut.now.saturating_add(5 * SECOND))
    );
    assert_eq!(sut.wait(4 * SECOND), Normal);
    // A short return to normal starts the delay again.
    assert_eq!(sut.f64(70.0), Normal);
    assert_eq!(sut.alarm.next_deadline(), None);
    assert_eq!(sut.f64(90.0), Normal);
    assert_eq!(sut.wait(4 * SECOND), Normal);
    assert_eq!(sut.wait(SECOND), Unacknowledged);
    assert_eq!(sut.f64(70.0), Unacknowledged);
    assert_eq!(sut.wait(3 * SECOND), Normal);
}

#[test]
fn delay_continues_after_a_restart() {
    let mut alarm = hi();
    alarm.on_delay = 5 * SECOND;
    let mut before = Rig::with_definition(alarm.clone());
    before.f64(90.0);
    before.wait(2 * SECOND);
    let remaining = before.alarm.remaining_delay(before.now);
    assert_eq!(remaining, Some(3 * SECOND));
    let mut after = Rig::with_definition(alarm);
    after
        .alarm
        .restore(before.alarm.machine(), remaining, after.now);
    assert_eq!(after.f64(90.0), Normal);
    assert_eq!(after.wait(3 * SECOND), Unacknowledged);
}

#[test]
fn restored_alarm_keeps_its_state_until_the_first_sample_that_changes_it() {
    let mut before = Rig::with_definition(hi());
    before.f64(90.0);
    before.alarm.apply(Event::Acknowledge).unwrap();
    let mut after = Rig::with_definition(hi());
    after.alarm.restore(before.alarm.machine(), None, after.now);
    assert_eq!(after.wait(SECOND), State::Acknowledged);
    assert_eq!(after.f64(76.0), State::Acknowledged);
    assert_eq!(after.f64(70.0), Normal);
}

#[test]
fn deviation_is_measured_from_the_setpoint_on_both_sides() {
    let mut sut = Rig::new(AlarmKind::Deviation {
        setpoint: Operand::Constant(50.0),
        limit: 10.0,
        deadband: 2.0,
    });
    assert_eq!(sut.f64(60.0), Normal);
    assert_eq!(sut.f64(39.0), Unacknowledged);
    let input = Input::new(&Value::F64(39.0), Quality::GOOD);
    sut.alarm.set_operand(Some(40.0), Some(input), sut.now);
    assert_eq!(sut.alarm.state(), State::ReturnedUnacknowledged);
}

#[test]
fn limit_without_a_known_variable_keeps_the_state() {
    let mut sut = Rig::new(AlarmKind::Limit {
        level: LimitLevel::Hi,
        limit: Operand::Variable("plant/max".to_owned()),
        deadband: 0.0,
    });
    assert_eq!(sut.f64(1e300), Normal);
    let input = Input::new(&Value::F64(1e300), Quality::GOOD);
    sut.alarm.set_operand(Some(5.0), Some(input), sut.now);
    assert_eq!(sut.alarm.state(), Unacknowledged);
    sut.alarm.set_operand(None, Some(input), sut.now);
    assert_eq!(sut.f64(0.0), Unacknowledged);
}

/// Behaviour: H-06.
#[test]
fn rate_of_change_is_the_change_within_the_time() {
    let mut alarm = AlarmDefinition::new(AlarmKind::RateOfChange {
        change: 10.0,
        time: SECOND,
    });
    alarm.acknowledge = Acknowledge::Auto;
    let mut sut = Rig::with_definition(alarm);
    let step = Duration::from_millis(100);
    // The value rises by 8 per second.
    for number in 0..30 {
        assert_eq!(sut.f64(f64::from(number) * 0.8), Normal);
        sut.wait(step);
    }
    // The value now rises by 20 per second. In each step, the window loses 0.8 of the slow rise and gains 2 of
    // the fast rise.
    let mut raised_after = 0;
    for number in 1..10 {
        if sut.f64(23.2 + f64::from(number) * 2.0) == Unacknowledged {
            raised_after = number;
            break;
        }
        sut.wait(step);
    }
    assert_eq!(raised_after, 2);
    // Without a new sample, the alarm clears when the change has left the window.
    let next_deadline = sut.alarm.next_deadline().unwrap();
    assert!(next_deadline <= sut.now.saturating_add(SECOND));
    assert_eq!(sut.wait(2 * SECOND), Normal);
    assert_eq!(sut.alarm.next_deadline(), None);
}

/// A restart loses the earlier samples of a rate of change, so the alarm keeps its state until a sample
/// arrives.
#[test]
fn restored_rate_is_not_cleared_before_a_sample() {
    let mut sut = Rig::new(AlarmKind::RateOfChange {
        change: 10.0,
        time: SECOND,
    });
    let active = Machine::from_parts(Unacknowledged, [false; 3]).unwrap();
    sut.alarm.restore(active, None, sut.now);
    assert_eq!(sut.wait(10 * SECOND), Unacknowledged);
    assert_eq!(sut.f64(5.0), State::ReturnedUnacknowledged);
}

#[test]
fn memory_of_a_rate_of_change_is_bounded() {
    let mut sut = Rig::new(AlarmKind::RateOfChange {
        change: 1e9,
        time: SECOND,
    });
    for number in 0..100_000_u32 {
        sut.f64(f64::from(number));
        sut.now = sut.now.saturating_add(Duration::from_micros(37));
    }
    let text = format!("{:?}", sut.alarm);
    assert!(text.matches("Bucket {").count() <= 65, "{text}");
}

/// Behaviour: H-06, H-09.
#[test]
fn discrete_values_and_bits_raise_alarms() {
    let mut on_false = Rig::new(AlarmKind::Discrete { values: vec![0] });
    assert_eq!(on_false.sample(Value::Bool(true)), Normal);
    assert_eq!(on_false.sample(Value::Bool(false)), Unacknowledged);
    let mut faults = Rig::new(AlarmKind::Discrete { values: vec![2, 3] });
    assert_eq!(faults.sample(Value::Enum(1)), Normal);
    assert_eq!(faults.sample(Value::Enum(3)), Unacknowledged);

    let bits = |needed, invert| {
        [0b000, 0b001, 0b010, 0b110].map(|bits| {
            let mut sut = Rig::new(AlarmKind::Bits {
                needed,
                invert,
                select: 0b110,
            });
            sut.sample(Value::U32(bits)) == Unacknowledged
        })
    };
    assert_eq!(bits(BitsNeeded::Any, 0), [false, false, true, true]);
    assert_eq!(bits(BitsNeeded::All, 0), [false, false, false, true]);
    assert_eq!(bits(BitsNeeded::Any, 0b110), [true, true, true, false]);
    assert_eq!(bits(BitsNeeded::All, 0b110), [true, true, false, false]);
}

/// Behaviour: H-06.
#[test]
fn bad_quality_and_age_raise_alarms_of_every_type() {
    let mut sut = Rig::new(AlarmKind::BadQuality);
    let text = || Value::String("open".into());
    assert_eq!(sut.sample(text()), Normal);
    let failed = Quality::bad(Reason::DeviceFailure);
    assert_eq!(sut.sample_with(text(), failed), Unacknowledged);
    let mut sut = Rig::new(AlarmKind::Stale);
    assert_eq!(sut.f64(1.0), Normal);
    let old = Quality::uncertain(Reason::Stale);
    assert_eq!(sut.sample_with(Value::F64(1.0), old), Unacknowledged);
}

#[test]
fn suppressing_variable_hides_the_alarm() {
    let mut sut = Rig::with_definition(hi());
    sut.alarm.set_suppressed(&Value::Bool(true));
    assert_eq!(sut.f64(90.0), State::SuppressedByDesign);
    assert_eq!(sut.alarm.set_suppressed(&Value::String("x".into())), None);
    sut.alarm.set_suppressed(&Value::F64(0.0));
    assert_eq!(sut.alarm.state(), Unacknowledged);
}

#[test]
fn disabled_alarm_never_changes() {
    let mut alarm = hi();
    alarm.enabled = false;
    let mut sut = Rig::with_definition(alarm);
    assert_eq!(sut.f64(90.0), Normal);
    assert_eq!(
        sut.alarm.quiet_range(),
        Some((f64::NEG_INFINITY, f64::INFINITY))
    );
}

mod quiet {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A value in the quiet range changes nothing. A value outside the range changes the state.
        #[test]
        fn value_changes_the_state_only_outside_the_quiet_range(
            values in proptest::collection::vec(-30.0..30.0_f64, 1..40),
            deadband in 0.0..6.0_f64,
            level in 0..4_usize,
        ) {
            let level = [LimitLevel::LoLo, LimitLevel::Lo, LimitLevel::Hi, LimitLevel::HiHi][level];
            let mut alarm = AlarmDefinition::new(limit(level, 10.0, deadband));
            alarm.acknowledge = Acknowledge::Auto;
            let mut sut = Rig::with_definition(alarm);
            for value in values {
                let (low, high) = sut.alarm.quiet_range().unwrap();
                let before = sut.alarm.state();
                let after = sut.f64(value);
                prop_assert_eq!(before == after, (low..=high).contains(&value));
            }
        }
    }
}

/// The sample arrives after the delay has passed, but before the alarm is polled.
#[test]
fn expired_delay_takes_effect_before_a_later_sample() {
    let mut definition = hi();
    definition.on_delay = SECOND;
    let mut rig = Rig::with_definition(definition);
    rig.f64(81.0);
    rig.now = rig.now.saturating_add(SECOND);
    assert_eq!(rig.f64(70.0), State::Unacknowledged);
    assert_eq!(rig.alarm.next_deadline(), Some(rig.now));
    assert_eq!(rig.wait(Duration::ZERO), State::Normal);
}
