//! Requirements on every I/O server, regardless of its data source. The crate of a driver runs
//! these tests too.

use std::collections::BTreeSet;

use trunkline_io::{Drivers, IoServer, ItemId, Scan, SendRefusal, Settings};
use trunkline_types::{Access, Name, Tick, Timestamp, Value};

const WALL: Timestamp = Timestamp::from_nanos(1_750_000_000_000_000_000);

/// Checks the driver `name`.
pub fn check(drivers: &Drivers, name: &str) {
    let mut sut = drivers.create(name, &Settings::new()).unwrap();
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
