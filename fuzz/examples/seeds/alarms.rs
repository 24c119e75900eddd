//! Alarms of every kind with some samples, for the target `alarms`.

use std::time::Duration;

use trunkline_types::alarm::{AlarmDefinition, AlarmKind, BitsNeeded, LimitLevel, Operand};
use trunkline_types::wire::encode_alarm;

pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let limit = |level| AlarmKind::Limit {
        level,
        limit: Operand::Constant(80.0),
        deadband: 2.0,
    };
    let kinds = [
        limit(LimitLevel::HiHi),
        limit(LimitLevel::Hi),
        limit(LimitLevel::Lo),
        limit(LimitLevel::LoLo),
        AlarmKind::Deviation {
            setpoint: Operand::Variable("a/b".to_owned()),
            limit: 3.0,
            deadband: 1.0,
        },
        AlarmKind::RateOfChange {
            change: 10.0,
            time: Duration::from_millis(100),
        },
        AlarmKind::Discrete { values: vec![1, 7] },
        AlarmKind::Bits {
            needed: BitsNeeded::All,
            invert: 2,
            select: 3,
        },
        AlarmKind::BadQuality,
        AlarmKind::Stale,
    ];
    let all = kinds.into_iter().flat_map(|kind| {
        [false, true].map(|is_delayed| {
            let mut alarm = AlarmDefinition::new(kind.clone());
            if is_delayed {
                (alarm.on_delay, alarm.off_delay) = (Duration::from_millis(9), Duration::from_secs(1));
                alarm.latched = true;
            }
            (format!("{}-{is_delayed}", kind.name()), input(&alarm))
        })
    });
    all.collect()
}

/// The length of the definition, the definition, and steps of nine bytes.
fn input(alarm: &AlarmDefinition) -> Vec<u8> {
    let mut bytes = vec![0];
    encode_alarm(alarm, &mut bytes);
    bytes[0] = u8::try_from(bytes.len() - 1).expect("it is short");
    let mut step = |kind: u8, number: u64| {
        bytes.push(kind);
        bytes.extend(number.to_le_bytes());
    };
    for number in [50.0, 90.0, 79.0, 10.0, f64::NAN] {
        step(0, f64::to_bits(number));
        step(2, 1 << 24);
        step(6, 2);
    }
    step(0xa0, 7);
    step(0xa8, 2 << 32 | 7);
    step(3 | 24, f64::to_bits(20.0));
    step(4, 1);
    step(5, 0);
    for event in 0..10 {
        step(7, event);
    }
    bytes
}
