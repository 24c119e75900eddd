//! The registry of drivers, their settings, and the requirements on every I/O server.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod conformance;

use trunkline_io::{Driver, DriverError, Drivers, IoError, Setting, Settings};

/// The drivers of a program that adds a driver of its own.
fn drivers() -> Drivers {
    Drivers::built_in().with(Driver {
        name: "press",
        description: "a press",
        make: |_| {
            Err(DriverError::NotUsable {
                driver: "press".into(),
                cause: IoError::Unreachable {
                    device: "the press".into(),
                    cause: "it is in another hall".into(),
                },
            })
        },
    })
}

fn error(name: &str, settings: &Settings) -> String {
    match drivers().create(name, settings) {
        Ok(_) => panic!("driver {name} was made"),
        Err(error) => error.to_string(),
    }
}

fn with(key: &str, value: Setting) -> Settings {
    [(key.to_owned(), value)].into_iter().collect()
}

#[test]
fn a_driver_is_added_to_those_that_are_built_in() {
    let names: Vec<&str> = drivers().iter().map(|driver| driver.name).collect();
    assert_eq!(names, ["host", "press"]);
    assert!(drivers().create("host", &Settings::new()).is_ok());
    assert!(error("press", &Settings::new()).contains("it is in another hall"));
}

#[test]
fn a_driver_replaces_one_of_the_same_name() {
    let sut = drivers().with(Driver {
        description: "another press",
        ..*drivers().iter().last().unwrap()
    });
    let descriptions: Vec<&str> = sut.iter().map(|driver| driver.description).collect();
    assert_eq!(descriptions.len(), 2);
    assert_eq!(descriptions[1], "another press");
}

#[test]
fn an_unknown_driver_is_refused_with_a_suggestion() {
    assert_eq!(
        error("Host", &Settings::new()),
        "there is no driver \"Host\"; did you mean \"host\"? (the drivers are: host, press)"
    );
    assert_eq!(
        error("modbus-tcp", &Settings::new()),
        "there is no driver \"modbus-tcp\"; the drivers are: host, press"
    );
}

#[test]
fn wrong_setting_is_refused_with_the_valid_values() {
    assert_eq!(
        error(
            "host",
            &with("disks", Setting::List(vec![Setting::Bool(true)]))
        ),
        "driver \"host\": setting \"disks\" must be true or false, not a list"
    );
}

#[test]
fn settings_are_read_by_their_type() {
    let settings: Settings = [
        ("on".to_owned(), Setting::Bool(true)),
        ("count".to_owned(), Setting::Integer(3)),
        ("share".to_owned(), Setting::Float(0.5)),
        ("name".to_owned(), Setting::String("x".into())),
    ]
    .into_iter()
    .collect();
    assert_eq!(settings.bool("on"), Ok(Some(true)));
    assert_eq!(settings.unsigned("count"), Ok(Some(3)));
    assert_eq!(settings.number("count"), Ok(Some(3.0)));
    assert_eq!(settings.number("share"), Ok(Some(0.5)));
    assert_eq!(settings.text("name"), Ok(Some("x")));
    assert_eq!(settings.text("none"), Ok(None));
    assert!(settings.bool("count").is_err());
    assert!(settings.number("name").is_err());
    assert!(settings.text("on").is_err());
    let unknown = settings.check_keys(&[]).unwrap_err().to_string();
    assert_eq!(unknown, "unknown setting \"count\"; valid settings: none");
    let list = Setting::List(vec![Setting::Integer(1), Setting::String("a".into())]);
    assert_eq!(list.to_string(), "[1, \"a\"]");
}

#[test]
fn host_server_meets_the_requirements_on_io_servers() {
    conformance::check(&Drivers::built_in(), "host");
}
