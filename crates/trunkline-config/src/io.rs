//! Reads the `[[io]]` sections: the I/O servers to run. Each driver interprets its own settings later.

use std::time::Duration;

use trunkline_types::Setting;
use trunkline_types::name::check_segment;

use crate::error::ConfigErrorKind as Kind;
use crate::fields::Values;
use crate::keys::Section;
use crate::node::{Node, NodeKind, Table};
use crate::plan::IoConfig;
use crate::report::Report;
use crate::sections::required;

const PERIOD_MIN: Duration = Duration::from_micros(100);
const PERIOD_MAX: Duration = Duration::from_secs(86_400);

pub(crate) fn read(table: &Table, report: &mut Report) -> Option<IoConfig> {
    let name = required(table, Section::Io, "name", report)
        .and_then(|node| name(node, &mut Values::plain(report)));
    let driver = required(table, Section::Io, "driver", report)
        .and_then(|node| Values::plain(report).text("driver", node));
    let origin = report.format_origin(table.place);
    let mut values = Values::plain(report);
    let period = table
        .node("period")
        .and_then(|node| values.duration("period", node, PERIOD_MIN..=PERIOD_MAX));
    let publish = table
        .node("publish")
        .and_then(|node| values.boolean("publish", node));
    let mut io = IoConfig::new(name.unwrap_or_default(), driver.unwrap_or_default());
    io.period = period;
    io.publish = publish.unwrap_or(io.publish);
    io.origin = origin;
    for entry in table
        .entries
        .iter()
        .filter(|entry| Section::Io.key(&entry.key).is_none())
    {
        if let Some(setting) = setting(&entry.key, &entry.node, values.report) {
            io.settings.insert(entry.key.clone(), setting);
            let place = values.report.format_place(entry.key_place);
            io.setting_places.insert(entry.key.clone(), place);
        }
    }
    (!io.name.is_empty()).then_some(io)
}

fn name(node: &Node, values: &mut Values<'_, '_>) -> Option<String> {
    let name = values.text("name", node)?;
    let reason = match check_segment(&name) {
        Ok(()) if name.contains(':') => {
            "it cannot contain a colon, which ends the name in source = \"NAME:ITEM\"".to_owned()
        }
        Ok(()) => return Some(name),
        Err(error) => error.to_string(),
    };
    values
        .report
        .error(node.place, Kind::InvalidName { name, reason });
    None
}

fn setting(key: &str, node: &Node, report: &mut Report) -> Option<Setting> {
    Some(match &node.kind {
        NodeKind::Bool(value) => Setting::Bool(*value),
        NodeKind::Integer(value) => Setting::Integer(*value),
        NodeKind::Float(value) => Setting::Float(*value),
        NodeKind::Text(text) => Setting::String(text.clone()),
        NodeKind::List(nodes) => {
            let mut list = Vec::with_capacity(nodes.len());
            for node in nodes {
                list.push(setting(key, node, report)?);
            }
            Setting::List(list)
        }
        NodeKind::Time(_) | NodeKind::Table(_) => {
            let expected = "a number, text, true, false, or a list of those";
            return Values::plain(report).wrong_form(key, node, expected);
        }
    })
}
