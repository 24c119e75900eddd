//! An alarm of any definition, with any samples, times, actions and restarts: it never panics, and its
//! states are those that can be.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use trunkline_alarm::condition::Input;
use trunkline_alarm::{Alarm, Change, Event, Machine, State};
use trunkline_types::alarm::{AlarmDefinition, AlarmKind};
use trunkline_types::wire::{Reader, decode_alarm, encode_alarm};
use trunkline_types::{Quality, Tick, Value};

/// The first byte is the length of the definition; steps follow it.
fuzz_target!(|bytes: &[u8]| {
    let Some((length, bytes)) = bytes.split_first() else {
        return;
    };
    let (definition, mut steps) = bytes.split_at(usize::from(*length).min(bytes.len()));
    let Ok(definition) = decode_alarm(&mut Reader::new(definition)) else {
        return;
    };
    let mut again = Vec::new();
    encode_alarm(&definition, &mut again);
    let read = decode_alarm(&mut Reader::new(&again)).expect("what was written is read");
    let mut same = Vec::new();
    encode_alarm(&read, &mut same);
    assert_eq!(again, same);

    let mut alarm = Alarm::new(&definition);
    let mut now = Tick::from_nanos(1_000_000_000);
    while let Some((step, rest)) = steps.split_first() {
        let (number, rest) = match rest.split_first_chunk::<8>() {
            Some((number, rest)) => (*number, rest),
            None => return,
        };
        steps = rest;
        step_of(&mut alarm, &definition, &mut now, *step, number);
    }
});

fn step_of(
    alarm: &mut Alarm,
    definition: &AlarmDefinition,
    now: &mut Tick,
    step: u8,
    number: [u8; 8],
) {
    let bits = u64::from_le_bytes(number);
    let (before, machine) = (alarm.state(), alarm.machine());
    let change = match step % 8 {
        0 | 1 => {
            let value = match step >> 5 {
                0..4 => Value::F64(f64::from_le_bytes(number)),
                4 => Value::Bool(bits & 1 == 1),
                5 => Value::U64(bits),
                _ => Value::I64(bits.cast_signed()),
            };
            let quality = Quality::from_bits((bits >> 32) as u32 & u32::from(step & 8 != 0));
            let input = Input::new(&value, quality);
            let expected = alarm.would_change(input, *now);
            let delayed = alarm.remaining_delay(*now).is_some();
            // Numbers of the quiet range change nothing.
            let is_quiet = match (alarm.quiet_range(), input.number) {
                (Some((low, high)), Some(number)) => {
                    quality == Quality::GOOD && (low..=high).contains(&number)
                }
                _ => false,
            };
            let depends_on_quality =
                matches!(definition.kind, AlarmKind::BadQuality | AlarmKind::Stale);
            let change = alarm.update(input, *now);
            let has_changed =
                change.is_some() || alarm.remaining_delay(*now).is_some() != delayed;
            assert_eq!(has_changed, expected);
            assert!(!is_quiet || depends_on_quality || !has_changed, "{input:?}");
            change
        }
        2 => {
            *now = now.saturating_add(Duration::from_nanos(bits >> (step >> 3)));
            alarm.poll(*now)
        }
        3 => {
            let operand = (step & 8 != 0).then(|| f64::from_le_bytes(number));
            let input = Input::new(&Value::F64(f64::from_le_bytes(number)), Quality::GOOD);
            let input = (step & 16 != 0).then_some(input);
            alarm.set_operand(operand.filter(|number| !number.is_nan()), input, *now)
        }
        4 => alarm.set_suppressed(&Value::Bool(bits & 1 == 1)),
        5 => {
            // A restart.
            let (process, hidden) = machine.parts();
            let restored = Machine::from_parts(process, hidden).expect("it was a state");
            let left = alarm.remaining_delay(*now);
            *alarm = Alarm::new(definition);
            alarm.restore(restored, left, *now);
            assert_eq!(alarm.machine(), machine);
            None
        }
        _ => {
            let event = Event::ALL[bits as usize % Event::ALL.len()];
            match alarm.apply(event) {
                Ok(change) => change,
                Err(_) => {
                    assert_eq!(alarm.machine(), machine, "what is refused changes nothing");
                    None
                }
            }
        }
    };
    check(alarm, before, change, *now);
    assert!(definition.enabled || !matches!(step % 8, 0..3) || change.is_none());
}

fn check(alarm: &Alarm, before: State, change: Option<Change>, now: Tick) {
    let machine = alarm.machine();
    let (process, hidden) = machine.parts();
    assert_eq!(Machine::from_parts(process, hidden), Some(machine));
    assert_eq!(alarm.state().is_hidden(), hidden.contains(&true));
    match change {
        Some(change) => {
            assert_eq!((change.from, change.to), (before, alarm.state()));
            assert_eq!(change.is_active, machine.is_active());
        }
        None => assert_eq!(before, alarm.state()),
    }
    // A delay that is over has been followed, or is due.
    assert!(alarm.remaining_delay(now).is_none() || alarm.next_deadline().is_some() || !is_enabled(alarm));
}

/// An alarm that is not enabled is never due, and its quiet range has all numbers.
fn is_enabled(alarm: &Alarm) -> bool {
    alarm.quiet_range() != Some((f64::NEG_INFINITY, f64::INFINITY))
}
