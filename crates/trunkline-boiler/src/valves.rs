//! Defines the variables of the library `valves`.

use trunkline_types::{DataType, Value};

use super::commands::Target;
use super::valve::{CommandSource, Tag, Valve};
use super::variable::{Source, Variable};

pub fn variables() -> Vec<Variable> {
    Tag::ALL
        .into_iter()
        .enumerate()
        .flat_map(|(index, tag)| valve(index, tag))
        .collect()
}

fn valve(index: usize, tag: Tag) -> Vec<Variable> {
    let variable = |signal: &str, ty: DataType, read: fn(&Valve) -> Value, meaning: &str| {
        let path = format!("{}/{signal}", tag.name());
        Variable::new("valves", path, ty, Source::Valve(index, read))
            .description(format!("{}: {meaning}", tag.description()))
    };
    let mut list = vec![
        variable(
            "travel",
            DataType::F64,
            |valve| Value::F64(valve.travel),
            "position",
        )
        .units("%", 1)
        .range(0.0, 100.0),
        variable(
            "open",
            DataType::Bool,
            |valve| Value::Bool(valve.is_open()),
            "fully open",
        ),
        variable(
            "closed",
            DataType::Bool,
            |valve| Value::Bool(valve.is_closed()),
            "fully closed",
        ),
    ];
    let position: fn(&Valve) -> Value = |valve| Value::F64(valve.command);
    let percent = |meaning| {
        variable("command", DataType::F64, position, meaning)
            .units("%", 1)
            .range(0.0, 100.0)
    };
    match tag.command_source() {
        CommandSource::Controller => list.push(percent("position that its controller commands")),
        CommandSource::Hand => {
            list.push(percent("commanded position").settable(Target::Valve(tag)))
        }
        CommandSource::OnOff => {
            let read: fn(&Valve) -> Value = |valve| Value::Bool(valve.command > 50.0);
            let command = variable(
                "command",
                DataType::Bool,
                read,
                "true opens it, false closes it",
            );
            list.push(command.settable(Target::Valve(tag)));
        }
        CommandSource::Spring => {}
    }
    list
}
