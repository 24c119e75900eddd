//! The registry of drivers, their settings, and what every I/O server must do.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic anywhere")]

use std::collections::BTreeSet;

use trunkline_io::{IoServer, ItemId, Scan, SendRefusal, Setting, Settings, driver, drivers};
use trunkline_types::{Access, Name, Scaling, Tick, Timestamp, Value};

const WALL: Timestamp = Timestamp::from_nanos(1_750_000_000_000_000_000);

fn error(name: &str, settings: &Settings) -> String {
    match driver(name, settings) {
        Ok(_) => panic!("driver {name} was made"),
        Err(error) => error.to_string(),
    }
}

fn with(key: &str, value: Setting) -> Settings {
    [(key.to_owned(), value)].into_iter().collect()
}

#[test]
fn every_driver_of_the_registry_can_be_made() {
    let names: Vec<&str> = drivers().map(|(name, _)| name).collect();
    assert_eq!(names, ["host", "sim"]);
    for (name, description) in drivers() {
        assert!(driver(name, &Settings::new()).is_ok());
        assert!(!description.is_empty());
    }
}

#[test]
fn an_unknown_driver_is_refused_with_a_suggestion() {
    assert_eq!(
        error("Sim", &Settings::new()),
        "there is no driver \"Sim\", did you mean \"sim\"?; built in are: host, sim"
    );
    assert_eq!(
        error("modbus-tcp", &Settings::new()),
        "there is no driver \"modbus-tcp\"; built in are: host, sim"
    );
}

#[test]
fn a_wrong_setting_is_refused_with_what_it_takes() {
    assert_eq!(
        error("sim", &with("sed", Setting::Integer(3))),
        "driver \"sim\": unknown setting \"sed\", did you mean \"seed\"?; it takes: prefix, seed"
    );
    assert_eq!(
        error("sim", &with("seed", Setting::String("three".into()))),
        "driver \"sim\": setting \"seed\" must be a whole number, not text"
    );
    assert_eq!(
        error("sim", &with("seed", Setting::Integer(-3))),
        "driver \"sim\": setting \"seed\" = -3 is not possible: it must be 0 or more"
    );
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
    assert_eq!(unknown, "unknown setting \"count\"; it takes: no settings");
    let list = Setting::List(vec![Setting::Integer(1), Setting::String("a".into())]);
    assert_eq!(list.to_string(), "[1, \"a\"]");
}

/// What every I/O server must do, whatever it reads.
fn conformance(name: &str) {
    let mut sut = driver(name, &Settings::new()).unwrap();
    definitions_are_complete(&*sut, name);
    let count = sut
        .libraries(name)
        .iter()
        .map(|library| library.variables.len())
        .sum::<usize>();
    assert_eq!(sut.item("no such item"), None);

    let mut scan = Scan::new();
    let mut now = Tick::from_nanos(5_000_000_000);
    assert!(
        sut.scan(now, WALL, &mut scan).is_err(),
        "{name}: scanned before it was opened"
    );
    assert!(scan.is_empty());
    sut.open(now, WALL).unwrap();
    now = now.saturating_add(sut.period());
    sut.scan(now, WALL, &mut scan).unwrap();
    let published: BTreeSet<ItemId> = scan.iter().map(|published| published.item).collect();
    assert_eq!(
        published.len(),
        count,
        "{name}: the first scan publishes every item"
    );
    assert_eq!(scan.len(), count, "{name}: and each once");
    values_are_of_their_types(&*sut, name, &scan);

    for item in published {
        scan.clear();
        sut.request(item, now, WALL, &mut scan).unwrap();
        assert_eq!(scan.len(), 1, "{name}: a request publishes its item");
        assert_eq!(scan.iter().next().unwrap().item, item);
    }
    writes_are_taken_as_the_access_says(&mut *sut, name, now);
    let beyond = ItemId(u32::try_from(count).unwrap());
    assert!(sut.request(beyond, now, WALL, &mut scan).is_err());
    let refusal = sut.send(beyond, &Value::Bool(true), now, WALL).unwrap_err();
    assert!(matches!(refusal, SendRefusal::UnknownItem { .. }));
    assert_eq!(sut.health().scans, 1);
}

fn definitions_are_complete(sut: &dyn IoServer, name: &str) {
    let mut items = BTreeSet::new();
    let mut names = BTreeSet::new();
    for library in sut.libraries(name) {
        assert!(!library.description.is_empty());
        for variable in &library.variables {
            let full = Name::join(&library.name, &variable.path).unwrap();
            assert!(names.insert(full.to_string()), "{full} is there twice");
            let properties = &variable.properties;
            assert!(
                !properties.description.is_empty(),
                "{full} has no description"
            );
            let item = properties.source.strip_prefix(&format!("{name}:")).unwrap();
            let item = sut
                .item(item)
                .unwrap_or_else(|| panic!("{full}: no item {item}"));
            assert!(items.insert(item), "{full} shares its item");
            if let Some((low, high)) = properties.range {
                assert!(low < high, "{full}: {low} to {high}");
            }
            if let Some(scaling) = &properties.scaling {
                scaling.check(&properties.data_type).unwrap();
            }
        }
    }
    let dense: BTreeSet<ItemId> = (0..items.len() as u32).map(ItemId).collect();
    assert_eq!(items, dense);
}

fn values_are_of_their_types(sut: &dyn IoServer, name: &str, scan: &Scan) {
    let libraries = sut.libraries(name);
    let definitions = libraries.iter().flat_map(|library| &library.variables);
    for definition in definitions {
        let properties = &definition.properties;
        let item = sut
            .item(properties.source.split_once(':').unwrap().1)
            .unwrap();
        let published = scan
            .iter()
            .find(|published| published.item == item)
            .unwrap();
        let Some(raw) = &published.value else {
            assert!(
                published.quality.is_bad(),
                "{}: no value and not bad",
                definition.path
            );
            continue;
        };
        let scaled = match &properties.scaling {
            None => raw.clone(),
            Some(scaling) => scaling.to_engineering(raw, &properties.data_type).unwrap(),
        };
        assert!(
            scaled.has_type(&properties.data_type),
            "{}: {scaled:?}",
            definition.path
        );
        let within = match (properties.range, scaled.as_f64()) {
            (Some((low, high)), Some(value)) => properties.coerce || (low..=high).contains(&value),
            _ => true,
        };
        assert!(
            within,
            "{}: {scaled:?} is outside its range",
            definition.path
        );
    }
}

fn writes_are_taken_as_the_access_says(sut: &mut dyn IoServer, name: &str, now: Tick) {
    for library in sut.libraries(name) {
        for variable in &library.variables {
            let properties = &variable.properties;
            let item = sut
                .item(properties.source.split_once(':').unwrap().1)
                .unwrap();
            let sent = sut.send(item, &Value::Bytes([1, 2].into()), now, WALL);
            match properties.access {
                Access::ReadOnly => {
                    assert!(
                        matches!(sent, Err(SendRefusal::ReadOnly { .. })),
                        "{sent:?}"
                    );
                }
                _ => assert!(
                    matches!(sent, Err(SendRefusal::WrongType { .. })),
                    "{sent:?}"
                ),
            }
        }
    }
}

#[test]
fn the_host_server_does_what_every_server_must() {
    conformance("host");
}

#[test]
fn the_sim_server_does_what_every_server_must() {
    conformance("sim");
}

#[test]
fn the_sim_shows_every_kind_of_scaling() {
    let sim = driver("sim", &Settings::new()).unwrap();
    let libraries = sim.libraries("plant");
    let variables = libraries.iter().flat_map(|library| &library.variables);
    let scalings: Vec<Scaling> = variables.filter_map(|v| v.properties.scaling).collect();
    let has = |of: fn(&Scaling) -> bool| scalings.iter().any(of);
    assert!(has(|scaling| matches!(scaling, Scaling::Linear { .. })));
    assert!(has(|scaling| matches!(scaling, Scaling::SquareRoot { .. })));
    assert!(has(|scaling| matches!(scaling, Scaling::Invert)));
    assert!(has(|scaling| matches!(scaling, Scaling::BitField { .. })));
}
