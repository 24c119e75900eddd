//! Types, names and descriptions.

use trunkline::types::{Access, DataType, json};
use trunkline::{OpenOptions, ReadingBuffer, Write};

use crate::place::{Place, TIMEOUT};

/// One value of each type as JSON writes it.
const VALUES: &[(&str, &str)] = &[
    ("bool", "true"),
    ("i8", "-128"),
    ("i16", "-32768"),
    ("i32", "-2147483648"),
    ("i64", "-9223372036854775808"),
    ("u8", "255"),
    ("u16", "65535"),
    ("u32", "4294967295"),
    ("u64", "18446744073709551615"),
    ("f32", "0.5"),
    ("f64", "72.41"),
    ("string", "\"Grüße / µm\""),
    ("bytes", "\"AAEC/w==\""),
    ("timestamp", "\"2026-11-20T21:39:04.123456789Z\""),
    ("enum", "\"AUTO\""),
    ("array", "[[1.0,2.0,3.0],[4.0,5.0,6.0]]"),
    ("struct", "{\"x\":1.5,\"ok\":true,\"label\":\"a\"}"),
    (
        "waveform",
        "{\"t0\":\"2026-11-20T21:39:04.000000005Z\",\"dt\":0.001,\"samples\":[1,-2,3],\"attributes\":{}}",
    ),
];

/// Behaviour: SP-07, API-02, B-30, NV-21, VS-04.
pub fn every_type_goes_there_and_back(place: &Place) {
    let names: Vec<String> = VALUES
        .iter()
        .map(|(name, _)| format!("all/{name}"))
        .collect();
    let opened = place
        .client
        .open(&names, OpenOptions::default(), TIMEOUT)
        .expect("an answer");
    let opened: Vec<_> = opened.into_iter().map(|o| o.expect("it exists")).collect();
    let writes = opened.iter().zip(VALUES).map(|(opened, (_, text))| {
        let document = serde_json::from_str(text).expect("JSON");
        let value = json::from_json(&document, &opened.data_type).expect("a value of the type");
        Write::new(opened.variable, value)
    });
    let outcomes = place.client.write(writes, TIMEOUT).expect("an answer");
    for outcome in outcomes {
        assert!(matches!(outcome, trunkline::WriteOutcome::Applied(position)
            if position.sequence == 1));
    }
    let variables: Vec<_> = opened.iter().map(|opened| opened.variable).collect();
    let readings = place.client.read(&variables, TIMEOUT).expect("an answer");
    let mut buffer = ReadingBuffer::new();
    for _ in 0..2 {
        let read = place.client.read_into(&variables, &mut buffer, TIMEOUT);
        read.expect("an answer");
        assert_eq!(buffer.to_readings(), readings);
    }
    for ((opened, reading), (name, text)) in opened.iter().zip(readings).zip(VALUES) {
        let reading = reading.expect("a reading");
        let written = json::to_json(&reading.sample.value, &opened.data_type).value;
        assert_eq!(written.to_string(), *text, "{name}");
        assert!(reading.sample.quality.is_good(), "{name}");
        assert!(reading.sample.engine_timestamp.is_plausible(), "{name}");
    }
}

/// Behaviour: B-30, API-02.
pub fn one_missing_name_does_not_hide_the_others(place: &Place) {
    let names = ["all/f64", "all/f65", "all/i32", "no library", "ALL/bool"];
    let opened = place
        .client
        .open(&names, OpenOptions::default(), TIMEOUT)
        .expect("an answer");
    assert!(opened[0].is_ok() && opened[2].is_ok());
    let sentence = opened[1]
        .as_ref()
        .expect_err("it does not exist")
        .to_string();
    assert!(sentence.contains("did you mean all/f64?"), "{sentence}");
    let sentence = opened[3].as_ref().expect_err("no name").to_string();
    assert!(sentence.contains("library/path"), "{sentence}");
    let sentence = opened[4].as_ref().expect_err("case matters").to_string();
    assert!(sentence.contains("did you mean all/bool?"), "{sentence}");
}

/// Behaviour: VS-04.
pub fn a_typed_handle_refuses_another_type_once(place: &Place) {
    let number = place
        .client
        .variable::<f64>("all/f64", TIMEOUT)
        .expect("it is f64");
    number.put(4.25, TIMEOUT).expect("an answer");
    assert_eq!(number.get(TIMEOUT), Ok(4.25));
    let wrong = place
        .client
        .variable::<bool>("all/f64", TIMEOUT)
        .expect_err("it is no bool");
    let sentence = wrong.to_string();
    assert!(
        sentence.contains("f64") && sentence.contains("bool"),
        "{sentence}"
    );
}

/// Behaviour: VS-10.
pub fn variables_are_found_and_described(place: &Place) {
    let found = place
        .client
        .find("all/*i*", None, TIMEOUT)
        .expect("an answer");
    let mut names: Vec<_> = found.iter().map(|found| found.name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "all/i16",
        "all/i32",
        "all/i64",
        "all/i8",
        "all/limited",
        "all/quiet",
        "all/string",
    ];
    assert!(
        expected.iter().all(|name| names.contains(name)),
        "{names:?}"
    );
    let limited = place.open("all/limited");
    assert_eq!(
        (limited.data_type, limited.access),
        (DataType::F64, Access::ReadWrite)
    );
    let properties = limited.properties.expect("it was asked for");
    assert_eq!(
        (properties.units.as_str(), properties.range),
        ("%", Some((0.0, 100.0)))
    );
    let info = place
        .client
        .info(&[limited.variable], TIMEOUT)
        .expect("an answer");
    let info = info[0].as_ref().expect("it exists");
    assert!(
        info.properties.origin.starts_with("library.toml:"),
        "{}",
        info.properties.origin
    );
    assert!(info.write_ledger.is_balanced());
}
