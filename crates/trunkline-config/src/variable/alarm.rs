//! Reads `alarm = { hi = 80, lo = { limit = 20, priority = 700 } }` (H-06 to H-10).

use std::time::Duration;

use trunkline_types::alarm::{
    ALARM_NAME_BYTES_MAX, Acknowledge, AlarmDefinition, AlarmKind, BitsNeeded, DELAY_MAX,
    LimitLevel, Operand, PRIORITY_RANGE, check_alarms,
};
use trunkline_types::definition::DESCRIPTION_BYTES_MAX;
use trunkline_types::name::NAME_BYTES_MAX;
use trunkline_types::{DataType, Properties};

use crate::error::ConfigErrorKind as Kind;
use crate::fields::{Filled, Values};
use crate::keys::Section;
use crate::node::{Entry, Node, NodeKind, Table};

/// An alarm as written in a file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AlarmForm {
    /// The alarm without its deadband and without the values that are written as labels.
    definition: AlarmDefinition,
    /// Deadband in percent of the range, 0 to 100.
    deadband: f64,
    /// Values of a discrete alarm that are written as labels of an enum.
    labels: Vec<String>,
}

/// The alarm types by their names in a file.
const KINDS: &[(&str, AlarmType)] = &[
    ("hi_hi", AlarmType::Limit(LimitLevel::HiHi)),
    ("hi", AlarmType::Limit(LimitLevel::Hi)),
    ("lo", AlarmType::Limit(LimitLevel::Lo)),
    ("lo_lo", AlarmType::Limit(LimitLevel::LoLo)),
    ("deviation", AlarmType::Deviation),
    ("rate", AlarmType::Rate),
    ("discrete", AlarmType::Discrete),
    ("bits", AlarmType::Bits),
    ("bad_quality", AlarmType::BadQuality),
    ("stale", AlarmType::Stale),
];

/// An alarm type without its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AlarmType {
    Limit(LimitLevel),
    Deviation,
    Rate,
    Discrete,
    Bits,
    BadQuality,
    Stale,
}

impl AlarmType {
    /// Returns true if alarms of this type accept the key.
    fn accepts_key(self, key: &str) -> bool {
        match key {
            "limit" | "deadband" => matches!(self, Self::Limit(_) | Self::Deviation),
            "setpoint" => self == Self::Deviation,
            "change" | "time" => self == Self::Rate,
            "values" => self == Self::Discrete,
            "needed" | "invert" | "select" => self == Self::Bits,
            _ => true,
        }
    }
}

const ACKNOWLEDGE: &[(&str, Acknowledge)] =
    &[("user", Acknowledge::User), ("auto", Acknowledge::Auto)];
const NEEDED: &[(&str, BitsNeeded)] = &[("any", BitsNeeded::Any), ("all", BitsNeeded::All)];

/// Reads the alarms of a variable; each entry of the table is one.
pub(crate) fn read(values: &mut Values<'_, '_>, node: &Node) -> Option<Vec<AlarmForm>> {
    let table = values.table_with_any_keys("alarm", node)?;
    // Reads all entries before checking them, so that every error of the table is reported.
    let alarms: Vec<_> = table
        .entries
        .iter()
        .map(|entry| alarm(values, entry))
        .collect();
    alarms.into_iter().collect()
}

fn alarm(values: &mut Values<'_, '_>, entry: &Entry) -> Option<AlarmForm> {
    let (name, node) = (&entry.key, &entry.node);
    let type_by_name = KINDS.iter().find(|(kind, _)| kind == name);
    let type_by_name = type_by_name.map(|(_, alarm_type)| *alarm_type);
    let NodeKind::Table(_) = &node.kind else {
        return short_form(values, name, type_by_name, node);
    };
    let table = values.table(name, node, Section::Alarm)?;
    let alarm_type = match (table.node("kind"), type_by_name) {
        (Some(node), _) => values.choice("kind", node, KINDS)?,
        (None, Some(alarm_type)) => alarm_type,
        (None, None) => return missing(values, table, "kind"),
    };
    let mut entries = table.entries.iter();
    if let Some(entry) = entries.find(|entry| !alarm_type.accepts_key(&entry.key)) {
        let reason = format!("this kind of alarm has no key \"{}\"; remove it", entry.key);
        let name = name.clone();
        let kind = Kind::InvalidAlarm { name, reason };
        values.report.error(entry.key_place, kind);
        return None;
    }
    let mut labels = Vec::new();
    let kind = read_kind_keys(values, table, alarm_type, &mut labels);
    let mut definition = AlarmDefinition::new(AlarmKind::Stale);
    definition.name = name.clone();
    let is_valid = read_common_keys(values, table, &mut definition);
    let deadband = match table.node("deadband") {
        Some(node) => values.number_within("deadband", node, 0.0..=100.0)?,
        None => 0.0,
    };
    definition.kind = kind?;
    is_valid.then_some(AlarmForm {
        definition,
        deadband,
        labels,
    })
}

/// Reads `hi = 80` and `bad_quality = true`.
fn short_form(
    values: &mut Values<'_, '_>,
    name: &str,
    alarm_type: Option<AlarmType>,
    node: &Node,
) -> Option<AlarmForm> {
    let (kind, enabled) = match alarm_type {
        Some(AlarmType::Limit(level)) => {
            let limit = operand(values, name, node)?;
            (limit_kind(level, limit), true)
        }
        Some(AlarmType::BadQuality) => (AlarmKind::BadQuality, values.boolean(name, node)?),
        Some(AlarmType::Stale) => (AlarmKind::Stale, values.boolean(name, node)?),
        Some(AlarmType::Deviation | AlarmType::Rate | AlarmType::Discrete | AlarmType::Bits)
        | None => {
            return values.wrong_form(name, node, "a table such as { kind = \"hi\", limit = 80 }");
        }
    };
    Some(AlarmForm {
        definition: AlarmDefinition {
            enabled,
            ..AlarmDefinition::new(kind)
        },
        deadband: 0.0,
        labels: Vec::new(),
    })
}

fn limit_kind(level: LimitLevel, limit: Operand) -> AlarmKind {
    AlarmKind::Limit {
        level,
        limit,
        deadband: 0.0,
    }
}

fn missing<T>(values: &mut Values<'_, '_>, table: &Table, key: &'static str) -> Option<T> {
    let section = Section::Alarm.header();
    let kind = Kind::KeyMissing { section, key };
    values.report.error(table.place, kind);
    None
}

/// Reads the keys that only alarms of this type have. Adds the labels of a discrete alarm to
/// `labels`.
fn read_kind_keys(
    values: &mut Values<'_, '_>,
    table: &Table,
    alarm_type: AlarmType,
    labels: &mut Vec<String>,
) -> Option<AlarmKind> {
    let mut required = |key| match table.node(key) {
        Some(node) => Some(node),
        None => missing(values, table, key),
    };
    Some(match alarm_type {
        AlarmType::Limit(level) => {
            let node = required("limit")?;
            limit_kind(level, operand(values, "limit", node)?)
        }
        AlarmType::Deviation => {
            let (setpoint, limit) = (required("setpoint")?, required("limit")?);
            AlarmKind::Deviation {
                setpoint: operand(values, "setpoint", setpoint)?,
                limit: values.number("limit", limit)?,
                deadband: 0.0,
            }
        }
        AlarmType::Rate => {
            let (change, time) = (required("change")?, required("time")?);
            AlarmKind::RateOfChange {
                change: values.number("change", change)?,
                time: values.duration("time", time, Duration::ZERO..=DELAY_MAX)?,
            }
        }
        AlarmType::Discrete => {
            let node = required("values")?;
            AlarmKind::Discrete {
                values: discrete(values, node, labels)?,
            }
        }
        AlarmType::Bits => {
            let mut mask = |key, default| match table.node(key) {
                Some(node) => values
                    .integer(key, node, 0..=i64::MAX)
                    .map(|mask| mask as u64),
                None => Some(default),
            };
            AlarmKind::Bits {
                invert: mask("invert", 0)?,
                select: mask("select", u64::MAX)?,
                needed: match table.node("needed") {
                    Some(node) => values.choice("needed", node, NEEDED)?,
                    None => BitsNeeded::Any,
                },
            }
        }
        AlarmType::BadQuality => AlarmKind::BadQuality,
        AlarmType::Stale => AlarmKind::Stale,
    })
}

/// Reads a number, or the full name of a variable.
fn operand(values: &mut Values<'_, '_>, key: &str, node: &Node) -> Option<Operand> {
    match values.filled(node)? {
        Filled::Text(name) => {
            let is_valid = values.check_text(key, node.place, &name, NAME_BYTES_MAX);
            is_valid.then_some(Operand::Variable(name))
        }
        Filled::Integer(_) | Filled::Float(_) => values.number(key, node).map(Operand::Constant),
        Filled::Bool(_) | Filled::Other(_) => {
            values.wrong_form(key, node, "a number, or the full name of a variable")
        }
    }
}

/// Reads the values of a discrete alarm: booleans, whole numbers, or labels of an enum.
fn discrete(
    values: &mut Values<'_, '_>,
    node: &Node,
    labels: &mut Vec<String>,
) -> Option<Vec<i64>> {
    const EXPECTED: &str = "a list of booleans, whole numbers or labels";
    let NodeKind::List(nodes) = &node.kind else {
        return values.wrong_form("values", node, EXPECTED);
    };
    let mut numbers = Vec::new();
    for node in nodes {
        match values.filled(node)? {
            Filled::Bool(value) => numbers.push(i64::from(value)),
            Filled::Integer(value) => numbers.push(value),
            Filled::Text(label) => labels.push(label),
            Filled::Float(_) | Filled::Other(_) => {
                return values.wrong_form("values", node, EXPECTED);
            }
        }
    }
    Some(numbers)
}

/// Reads the keys that alarms of every type have. Returns false if an error was reported.
fn read_common_keys(
    values: &mut Values<'_, '_>,
    table: &Table,
    alarm: &mut AlarmDefinition,
) -> bool {
    let mut is_valid = true;
    let mut note_result = |result: Option<()>| is_valid &= result.is_some();
    let (lowest, highest) = PRIORITY_RANGE;
    for entry in &table.entries {
        let (key, node) = (entry.key.as_str(), &entry.node);
        let delay = Duration::ZERO..=DELAY_MAX;
        note_result(match key {
            "enabled" => values.boolean(key, node).map(|value| alarm.enabled = value),
            "latched" => values.boolean(key, node).map(|value| alarm.latched = value),
            "on_delay" => values
                .duration(key, node, delay)
                .map(|value| alarm.on_delay = value),
            "off_delay" => values
                .duration(key, node, delay)
                .map(|value| alarm.off_delay = value),
            "priority" => values
                .integer(key, node, i64::from(lowest)..=i64::from(highest))
                .map(|value| alarm.priority = value as u16),
            "acknowledge" => values
                .choice(key, node, ACKNOWLEDGE)
                .map(|value| alarm.acknowledge = value),
            "area" => values
                .text_within(key, node, ALARM_NAME_BYTES_MAX)
                .map(|value| alarm.area = value),
            "description" => values
                .text_within(key, node, DESCRIPTION_BYTES_MAX)
                .map(|value| alarm.description = value),
            "help" => values
                .text_within(key, node, DESCRIPTION_BYTES_MAX)
                .map(|value| alarm.help = value),
            "suppressed_by" => values
                .text_within(key, node, NAME_BYTES_MAX)
                .map(|value| alarm.suppressed_by = value),
            // `read_kind_keys` reads the other keys, and `Values::table` has reported unknown ones.
            _ => Some(()),
        });
    }
    is_valid
}

/// Returns the alarms of a variable with these properties, or the reason why it cannot have them.
pub(crate) fn resolve(
    forms: &[AlarmForm],
    properties: &Properties,
) -> Result<Vec<AlarmDefinition>, String> {
    let span = properties.span();
    let alarms = forms.iter().map(|form| {
        let mut alarm = form.definition.clone();
        let percent = form.deadband;
        match &mut alarm.kind {
            AlarmKind::Limit { deadband, .. } | AlarmKind::Deviation { deadband, .. } => {
                *deadband = percent / 100.0 * span;
            }
            AlarmKind::Discrete { values } => {
                for label in &form.labels {
                    values.push(code_of_label(label, &properties.data_type)?);
                }
            }
            AlarmKind::RateOfChange { .. }
            | AlarmKind::Bits { .. }
            | AlarmKind::BadQuality
            | AlarmKind::Stale => {}
        }
        Ok(alarm)
    });
    let alarms: Vec<AlarmDefinition> = alarms.collect::<Result<_, String>>()?;
    check_alarms(&alarms, &properties.data_type).map_err(|fault| fault.to_string())?;
    Ok(alarms)
}

/// Returns the number that represents a label of an enum.
fn code_of_label(label: &str, data_type: &DataType) -> Result<i64, String> {
    let labels = match data_type {
        DataType::Enum(ty) => ty.labels.as_slice(),
        _ => &[],
    };
    let code = labels.iter().position(|known| **known == *label);
    let code = code.and_then(|code| i64::try_from(code).ok());
    code.ok_or_else(|| format!("\"{label}\" is not a label of {data_type}"))
}
