//! Describes the properties, the readers and the write ledger of a variable in words.

use trunkline::proto::{ReaderInfo, VariableInfo};
use trunkline_types::alarm::{AlarmDefinition, AlarmKind, Operand};
use trunkline_types::ledger::WriteLedger;
use trunkline_types::{Fifo, Properties, Scaling, Scope};

use crate::verbs::find::access_name;

pub(super) fn range(properties: &Properties) -> String {
    let Some((low, high)) = properties.range else {
        return String::new();
    };
    match properties.coerce {
        true => format!("{low} to {high}, values outside are coerced"),
        false => format!("{low} to {high}"),
    }
}

pub(super) fn access(properties: &Properties) -> String {
    let access = access_name(properties.access);
    match properties.scope {
        Scope::Network => access.to_owned(),
        Scope::Process => format!("{access}, only in the engine's own process"),
    }
}

pub(super) fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Network => "network",
        Scope::Process => "process",
    }
}

pub(super) fn held_by(info: &VariableInfo) -> String {
    let waiting = match info.writers_waiting {
        0 => String::new(),
        1 => "; 1 writer waiting".to_owned(),
        waiting => format!("; {waiting} writers waiting"),
    };
    match (info.held_by.as_str(), info.properties.single_writer) {
        ("", false) => String::new(),
        ("", true) => {
            format!("none yet: the first client to write becomes the single writer{waiting}")
        }
        (holder, _) if info.lease_left.is_zero() => format!("{holder}, its single writer{waiting}"),
        (holder, _) => format!("{holder}, lease ends in {:?}{waiting}", info.lease_left),
    }
}

pub(super) fn read_by(readers: &[ReaderInfo]) -> String {
    let describe = |reader: &ReaderInfo| {
        let session = match (reader.session, reader.from.as_str()) {
            (0, "") => "the engine's own process".to_owned(),
            (session, from) => format!("session {session} ({from})"),
        };
        let over = match reader.transport.as_str() {
            "" => String::new(),
            transport => format!(" over {transport}"),
        };
        let repaired = match reader.repaired {
            0 => String::new(),
            count => format!(", {count} repaired"),
        };
        format!("{session}{over}{repaired}")
    };
    readers.iter().map(describe).collect::<Vec<_>>().join("; ")
}

pub(super) fn source(info: &VariableInfo) -> String {
    match (info.properties.source.as_str(), info.source_state.as_str()) {
        ("", "") => "none: only clients write it".to_owned(),
        ("", state) => state.to_owned(),
        (source, "") => source.to_owned(),
        (source, state) => format!("{source}, {state}"),
    }
}

pub(super) fn writes(ledger: &WriteLedger) -> String {
    let (offered, written) = (ledger.offered, ledger.written);
    let (unchanged, refused) = (ledger.unchanged, ledger.refused);
    let mut text =
        format!("{offered} = {written} applied + {unchanged} unchanged + {refused} refused");
    for (count, outcome) in [
        (ledger.superseded, "superseded"),
        (ledger.unknown, "unknown"),
        (ledger.fifo_overflow, "lost in the FIFO"),
        (ledger.upstream_lost, "lost before they arrived"),
    ] {
        if count > 0 {
            text.push_str(&format!(" + {count} {outcome}"));
        }
    }
    text
}

pub(super) fn scaling(scaling: &Scaling) -> String {
    let curve = |name: &str, raw: &[f64; 2], eng: &[f64; 2]| {
        let ([from, to], [low, high]) = (raw, eng);
        format!("{name}, {from} to {to} becomes {low} to {high}")
    };
    match scaling {
        Scaling::Linear { raw, eng } => curve("linear", raw, eng),
        Scaling::SquareRoot { raw, eng } => curve("square root", raw, eng),
        Scaling::Invert => "inverted".to_owned(),
        Scaling::BitField { invert, select } => {
            format!("bits, {select:#x} selected, {invert:#x} inverted")
        }
    }
}

/// Describes an alarm by its name and condition, such as `hi above 80`.
pub(super) fn alarm(alarm: &AlarmDefinition) -> String {
    let operand = |operand: &Operand| match operand {
        Operand::Constant(value) => value.to_string(),
        Operand::Variable(name) => name.clone(),
    };
    let name = &alarm.name;
    match &alarm.kind {
        AlarmKind::Limit { level, limit, .. } => match level.is_high() {
            true => format!("{name} above {}", operand(limit)),
            false => format!("{name} below {}", operand(limit)),
        },
        AlarmKind::Deviation {
            setpoint, limit, ..
        } => format!("{name} more than {limit} from {}", operand(setpoint)),
        AlarmKind::RateOfChange { change, time } => {
            format!("{name} by more than {change} in {time:?}")
        }
        AlarmKind::Discrete { .. }
        | AlarmKind::Bits { .. }
        | AlarmKind::BadQuality
        | AlarmKind::Stale => name.clone(),
    }
}

pub(super) fn deadband(properties: &Properties) -> String {
    let deadband = properties.deadband;
    match (deadband.user_percent, deadband.source_percent) {
        (user, source) if user == 0.0 && source == 0.0 => String::new(),
        (user, source) => format!("{user} % for clients, {source} % for its source"),
    }
}

pub(super) fn fifo(fifo: Fifo) -> String {
    match fifo {
        Fifo::Off => String::new(),
        Fifo::Single { length } => format!("one value of length {length}"),
        Fifo::Multi { capacity, length } => format!("{capacity} values of length {length}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_is_shown_as_a_sum() {
        let plain = WriteLedger {
            offered: 5,
            written: 3,
            unchanged: 1,
            refused: 1,
            ..Default::default()
        };
        assert_eq!(writes(&plain), "5 = 3 applied + 1 unchanged + 1 refused");
        let rare = WriteLedger {
            offered: 7,
            fifo_overflow: 2,
            ..plain
        };
        assert_eq!(
            writes(&rare),
            "7 = 3 applied + 1 unchanged + 1 refused + 2 lost in the FIFO"
        );
    }
}
