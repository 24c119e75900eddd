//! Tests of the driver `sim`: its settings, and the requirements on every I/O server.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "../../trunkline-io/tests/conformance/mod.rs"]
mod conformance;

use trunkline_boiler::DRIVER;
use trunkline_io::{Drivers, Setting, Settings};
use trunkline_types::Scaling;

fn drivers() -> Drivers {
    Drivers::built_in().with(DRIVER)
}

fn error(key: &str, value: Setting) -> String {
    let settings: Settings = [(key.to_owned(), value)].into_iter().collect();
    match drivers().create("sim", &settings) {
        Ok(_) => panic!("{key} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sim_server_meets_the_requirements_on_io_servers() {
    conformance::check(&drivers(), "sim");
}

#[test]
fn wrong_setting_is_refused_with_the_valid_values() {
    assert_eq!(
        error("sed", Setting::Integer(3)),
        "driver \"sim\": unknown setting \"sed\"; did you mean \"seed\"? (valid settings: prefix, seed)"
    );
    assert_eq!(
        error("seed", Setting::String("three".into())),
        "driver \"sim\": setting \"seed\" must be a whole number, not text"
    );
    assert_eq!(
        error("seed", Setting::Integer(-3)),
        "driver \"sim\": setting \"seed\" cannot be -3: it must be 0 or more"
    );
}

#[test]
fn the_sim_shows_every_kind_of_scaling() {
    let sim = drivers().create("sim", &Settings::new()).unwrap();
    let libraries = sim.libraries("plant");
    let variables = libraries.iter().flat_map(|library| &library.variables);
    let scalings: Vec<Scaling> = variables.filter_map(|v| v.properties.scaling).collect();
    let has = |predicate: fn(&Scaling) -> bool| scalings.iter().any(predicate);
    assert!(has(|scaling| matches!(scaling, Scaling::Linear { .. })));
    assert!(has(|scaling| matches!(scaling, Scaling::SquareRoot { .. })));
    assert!(has(|scaling| matches!(scaling, Scaling::Invert)));
    assert!(has(|scaling| matches!(scaling, Scaling::BitField { .. })));
}
