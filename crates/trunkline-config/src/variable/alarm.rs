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
    /// The deadband is 0, and `Discrete` lacks the values that are labels.
    definition: AlarmDefinition,
    /// In percent of the range.
    deadband: f64,
    /// Labels of an enum.
    labels: Vec<String>,
}

/// The kinds by their names in a file, each with the form of its settings.
const KINDS: &[(&str, Form)] = &[
    ("hi_hi", Form::Limit(LimitLevel::HiHi)),
    ("hi", Form::Limit(LimitLevel::Hi)),
    ("lo", Form::Limit(LimitLevel::Lo)),
    ("lo_lo", Form::Limit(LimitLevel::LoLo)),
    ("deviation", Form::Deviation),
    ("rate", Form::Rate),
    ("discrete", Form::Discrete),
    ("bits", Form::Bits),
    ("bad_quality", Form::BadQuality),
    ("stale", Form::Stale),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Limit(LimitLevel),
    Deviation,
    Rate,
    Discrete,
    Bits,
    BadQuality,
    Stale,
}

impl Form {
    /// Returns true if this kind has the key.
    fn takes(self, key: &str) -> bool {
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
    let table = values.free_table("alarm", node)?;
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
    let by_name = KINDS.iter().find(|(kind, _)| kind == name);
    let by_name = by_name.map(|(_, form)| *form);
    let NodeKind::Table(_) = &node.kind else {
        return short_form(values, name, by_name, node);
    };
    let table = values.table(name, node, Section::Alarm)?;
    let form = match (table.node("kind"), by_name) {
        (Some(node), _) => values.choice("kind", node, KINDS)?,
        (None, Some(form)) => form,
        (None, None) => return missing(values, table, "kind"),
    };
    if let Some(entry) = table.entries.iter().find(|entry| !form.takes(&entry.key)) {
        let reason = format!("\"{}\" is not for this kind of alarm", entry.key);
        let name = name.clone();
        let kind = Kind::InvalidAlarm { name, reason };
        values.report.error(entry.key_place, kind);
        return None;
    }
    let mut labels = Vec::new();
    let kind = read_kind_keys(values, table, form, &mut labels);
    let mut definition = AlarmDefinition::new(AlarmKind::Stale);
    definition.name = name.clone();
    let is_read = read_common_keys(values, table, &mut definition);
    let deadband = match table.node("deadband") {
        Some(node) => values.number_within("deadband", node, 0.0..=100.0)?,
        None => 0.0,
    };
    definition.kind = kind?;
    is_read.then_some(AlarmForm {
        definition,
        deadband,
        labels,
    })
}

/// Reads `hi = 80` and `bad_quality = true`.
fn short_form(
    values: &mut Values<'_, '_>,
    name: &str,
    form: Option<Form>,
    node: &Node,
) -> Option<AlarmForm> {
    let (kind, enabled) = match form {
        Some(Form::Limit(level)) => {
            let limit = operand(values, name, node)?;
            (limit_kind(level, limit), true)
        }
        Some(Form::BadQuality) => (AlarmKind::BadQuality, values.boolean(name, node)?),
        Some(Form::Stale) => (AlarmKind::Stale, values.boolean(name, node)?),
        Some(Form::Deviation | Form::Rate | Form::Discrete | Form::Bits) | None => {
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

/// Reads the keys that differ from kind to kind. Puts labels of an enum into `labels`.
fn read_kind_keys(
    values: &mut Values<'_, '_>,
    table: &Table,
    form: Form,
    labels: &mut Vec<String>,
) -> Option<AlarmKind> {
    let mut needed = |key| match table.node(key) {
        Some(node) => Some(node),
        None => missing(values, table, key),
    };
    Some(match form {
        Form::Limit(level) => {
            let node = needed("limit")?;
            limit_kind(level, operand(values, "limit", node)?)
        }
        Form::Deviation => {
            let (setpoint, limit) = (needed("setpoint")?, needed("limit")?);
            AlarmKind::Deviation {
                setpoint: operand(values, "setpoint", setpoint)?,
                limit: values.number("limit", limit)?,
                deadband: 0.0,
            }
        }
        Form::Rate => {
            let (change, time) = (needed("change")?, needed("time")?);
            AlarmKind::RateOfChange {
                change: values.number("change", change)?,
                time: values.duration("time", time, Duration::ZERO..=DELAY_MAX)?,
            }
        }
        Form::Discrete => {
            let node = needed("values")?;
            AlarmKind::Discrete {
                values: discrete(values, node, labels)?,
            }
        }
        Form::Bits => {
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
        Form::BadQuality => AlarmKind::BadQuality,
        Form::Stale => AlarmKind::Stale,
    })
}

/// Reads a number, or the full name of a variable.
fn operand(values: &mut Values<'_, '_>, key: &str, node: &Node) -> Option<Operand> {
    match values.filled(node)? {
        Filled::Text(name) => {
            let is_short = values.check_text(key, node.place, &name, NAME_BYTES_MAX);
            is_short.then_some(Operand::Variable(name))
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

/// Reads the keys that every kind has. Returns false if an error was reported.
fn read_common_keys(
    values: &mut Values<'_, '_>,
    table: &Table,
    alarm: &mut AlarmDefinition,
) -> bool {
    let mut is_read = true;
    let mut set = |done: Option<()>| is_read &= done.is_some();
    let (lowest, highest) = PRIORITY_RANGE;
    for entry in &table.entries {
        let (key, node) = (entry.key.as_str(), &entry.node);
        let delay = Duration::ZERO..=DELAY_MAX;
        set(match key {
            "enabled" => values.boolean(key, node).map(|to| alarm.enabled = to),
            "latched" => values.boolean(key, node).map(|to| alarm.latched = to),
            "on_delay" => values
                .duration(key, node, delay)
                .map(|to| alarm.on_delay = to),
            "off_delay" => values
                .duration(key, node, delay)
                .map(|to| alarm.off_delay = to),
            "priority" => values
                .integer(key, node, i64::from(lowest)..=i64::from(highest))
                .map(|to| alarm.priority = to as u16),
            "acknowledge" => values
                .choice(key, node, ACKNOWLEDGE)
                .map(|to| alarm.acknowledge = to),
            "area" => values
                .text_within(key, node, ALARM_NAME_BYTES_MAX)
                .map(|to| alarm.area = to),
            "description" => values
                .text_within(key, node, DESCRIPTION_BYTES_MAX)
                .map(|to| alarm.description = to),
            "help" => values
                .text_within(key, node, DESCRIPTION_BYTES_MAX)
                .map(|to| alarm.help = to),
            "suppressed_by" => values
                .text_within(key, node, NAME_BYTES_MAX)
                .map(|to| alarm.suppressed_by = to),
            // Already read, or reported as unknown.
            _ => Some(()),
        });
    }
    is_read
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
                    values.push(code(label, &properties.data_type)?);
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

/// The code of a label.
fn code(label: &str, data_type: &DataType) -> Result<i64, String> {
    let labels = match data_type {
        DataType::Enum(known) => known.labels.as_slice(),
        _ => &[],
    };
    let code = labels.iter().position(|known| **known == *label);
    let code = code.and_then(|code| i64::try_from(code).ok());
    code.ok_or_else(|| format!("\"{label}\" is not a label of {data_type}"))
}
