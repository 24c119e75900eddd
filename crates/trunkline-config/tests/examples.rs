//! The examples and the default configuration are valid and match their comments.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use trunkline_config::keys::{SECTIONS, Section};
use trunkline_config::{DeploymentPlan, EngineConfig, default_config_text, load, parse};
use trunkline_types::VariableDefinition;
use trunkline_types::history::HistorySettings;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/config")
        .join(name)
}

fn plan(name: &str) -> DeploymentPlan {
    load(&[example(name)]).unwrap_or_else(|errors| panic!("{errors}"))
}

fn variable<'a>(plan: &'a DeploymentPlan, path: &str) -> &'a VariableDefinition {
    let mut all = plan.libraries.iter().flat_map(|library| &library.variables);
    all.find(|variable| variable.path == path)
        .unwrap_or_else(|| panic!("no {path}"))
}

#[test]
fn default_configuration_states_the_defaults() {
    let plan = parse("trunkline.toml", default_config_text()).unwrap();
    assert_eq!(plan.engine, EngineConfig::default());
    assert_eq!(plan.variable_count(), 0);
    assert_eq!(plan.io.len(), 1);
    assert_eq!(plan.history, None);
    let shown = [Section::Engine, Section::Limits, Section::History];
    for key in shown.into_iter().flat_map(Section::keys) {
        assert!(
            default_config_text().contains(key.name),
            "{} is not shown",
            key.name
        );
    }
}

#[test]
fn default_configuration_works_without_its_comments() {
    let text: Vec<&str> = default_config_text()
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with('[') || rest.contains(" = ") => rest,
            _ => line,
        })
        .collect();
    let plan = parse("trunkline.toml", &text.join("\n")).unwrap();
    assert_eq!(plan.engine.name.as_deref(), Some("plant"));
    assert_eq!(variable(&plan, "level").properties.units, "%");
    let history = plan.history.unwrap();
    assert_eq!(history.folder.to_str(), Some("plant.history"));
    let settings = history.rules.iter().map(|rule| rule.settings);
    assert!(settings.eq([None, Some(HistorySettings::default())]));
}

#[test]
fn minimal_example_makes_a_library_named_after_its_file() {
    let plan = plan("minimal.toml");
    assert_eq!(plan.libraries[0].name, "minimal");
    assert_eq!(plan.variable_count(), 2);
}

#[test]
fn rack_example_makes_many_variables_from_few_lines() {
    let plan = plan("rack.toml");
    assert_eq!(plan.variable_count(), 500 + 2 + 5 * 3);
    let channel = variable(&plan, "rack2/ch250");
    assert_eq!(channel.properties.description, "Rack 2, terminal 32");
    assert_eq!(channel.properties.units, "V");
    assert_eq!(variable(&plan, "rack2/ch009").properties.units, "mV");
    assert_eq!(variable(&plan, "rack2/ch010").properties.units, "V");
    assert_eq!(
        variable(&plan, "tank/south").properties.range,
        Some((0.0, 55.0))
    );
    assert_eq!(
        variable(&plan, "valves/FV203/travel").properties.range,
        Some((0.0, 31.5))
    );
    let names: Vec<_> = plan
        .sources
        .iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["rack.toml", "valves.csv"]);
}

#[test]
fn example_of_every_key_loads_and_leaves_none_out() {
    let plan = plan("all-keys.toml");
    assert_eq!(plan.variable_count(), 10 + 4 + 2 + 4 * 2);
    let history = plan.history.unwrap();
    assert_eq!(history.folder, example("all-keys.history"));
    assert_eq!(history.spool, Some(example("all-keys.spool")));
    assert_eq!(history.rules.len(), 3);
    let text = fs::read_to_string(example("all-keys.toml")).unwrap();
    let is_written = |name: &str| {
        let section = text.contains(&format!("[{name}]")) || text.contains(&format!(".{name}]"));
        // `alarm.hi = 80` is an entry in the table `alarm`.
        let entry = text.contains(&format!("\n{name}."));
        section || entry || text.contains(&format!("{name} ="))
    };
    for section in SECTIONS {
        for key in section.keys() {
            assert!(
                is_written(key.name),
                "{} of {} is missing",
                key.name,
                section.header()
            );
        }
    }
}

#[test]
fn whole_directory_of_examples_loads_at_once() {
    let plan = load(&[example("")]).unwrap_or_else(|errors| panic!("{errors}"));
    let names: Vec<_> = plan
        .libraries
        .iter()
        .map(|library| library.name.as_str())
        .collect();
    assert_eq!(names, ["boiler", "minimal", "plant"]);
}
