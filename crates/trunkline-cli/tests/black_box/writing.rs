//! `put`: old and new, types, refusals.

use serde_json::Value as Json;

use crate::rig::Served;

#[test]
fn put_prints_the_old_and_new_value_and_the_confirmation() {
    let rig = Served::rig();
    let output = rig.run(&["put", "-o", "table", "rig/setpoint", "75"]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    let (change, remark) = output.out.trim_end().split_once("   (").unwrap();
    assert_eq!(change, "rig/setpoint   70.0 → 75.0 %");
    assert!(
        remark.starts_with("confirmed by ") && remark.ends_with(" ms)"),
        "{remark}"
    );
    let plain = rig.run(&["put", "rig/setpoint", "60"]);
    assert_eq!(plain.out, "rig/setpoint\t75.0\t60.0\t%\n");
    assert_eq!(rig.run(&["get", "-t", "rig/setpoint"]).out, "60.0\n");
}

#[test]
fn new_value_is_the_one_stored_by_the_engine() {
    let rig = Served::rig();
    let output = rig.run(&["put", "rig/clamped", "-5"]);
    assert_eq!(output.out, "rig/clamped\t-\t0.0\n");
}

/// Behaviour: B-30.
#[test]
fn pairs_are_sent_together_and_fail_individually() {
    let rig = Served::rig();
    let output = rig.run(&[
        "put",
        "rig/level=1",
        "rig/mode=SIDEWAYS",
        "rig/sealed=1",
        "rig/setpoint=500",
        "rig/pump/on=off",
    ]);
    assert_eq!(
        output.code,
        Some(6),
        "all failures are refusals: {}",
        output.err
    );
    assert_eq!(
        output.out,
        "rig/level\t72.4\t1.0\t%\nrig/pump/on\ttrue\tfalse\n"
    );
    for part in [
        "is not one of OFF, AUTO, HAND",
        "read-only",
        "outside the range 0 to 100",
    ] {
        assert!(output.err.contains(part), "{part}: {}", output.err);
    }
    let mixed = rig.run(&["put", "rig/mode=SIDEWAYS", "rig/x=1"]);
    assert_eq!(mixed.code, Some(1));
}

#[test]
fn a_value_that_does_not_fit_is_refused_before_it_is_sent() {
    let rig = Served::rig();
    for (name, value) in [
        ("rig/level", "high"),
        ("rig/empty", "1.5"),
        ("rig/pump/on", "maybe"),
    ] {
        let output = rig.run(&["put", name, value]);
        assert_eq!(output.code, Some(6), "{name}");
        assert!(output.err.contains(value), "{}", output.err);
    }
    let info = rig.run(&["info", "rig/level", "--json"]);
    let info: Json = serde_json::from_str(&info.out).unwrap();
    assert_eq!(info["writes"]["refused"], 0, "the engine never heard of it");
}

#[test]
fn a_change_within_the_deadband_is_unchanged() {
    let rig = Served::rig();
    // The first is an update in any case: its quality differs from that of an initial value.
    assert_eq!(rig.run(&["put", "rig/coarse", "50"]).code, Some(0));
    let output = rig.run(&["put", "-o", "table", "rig/coarse", "51"]);
    assert_eq!(output.code, Some(0));
    assert_eq!(
        output.out,
        "rig/coarse   50.0 → 50.0   (unchanged: the value is within the deadband)\n"
    );
    let json = rig.run(&["put", "--json", "rig/coarse", "52"]);
    let json: Json = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (&json["outcome"], &json["value"]),
        (&"unchanged".into(), &50.0.into())
    );
}

#[test]
fn value_is_read_from_standard_input() {
    let rig = Served::rig();
    let name = "rig/Storage Line Control";
    let output = rig.run_with_input(&["put", name, "-"], "shut  now\n");
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert_eq!(rig.run(&["get", "-t", name]).out, "shut  now\n");
}

#[test]
fn put_with_no_wait_returns_without_confirmation() {
    let rig = Served::rig();
    let follower = rig.spawn(&["monitor", "-t", "rig/setpoint", "--count", "2"]);
    assert_eq!(follower.line(), "70.0");
    let output = rig.run(&["put", "--no-wait", "--json", "rig/setpoint", "33"]);
    let json: Json = serde_json::from_str(&output.out).unwrap();
    assert_eq!(
        (output.code, &json["outcome"]),
        (Some(0), &Json::from("sent"))
    );
    assert!(json.get("seq").is_none(), "nobody told its number: {json}");
    assert_eq!(follower.line(), "33.0");
    let plain = rig.run(&["put", "--no-wait", "rig/setpoint", "34"]);
    assert_eq!(plain.out, "rig/setpoint\t33.0\t34.0\t%\n");
}

#[test]
fn the_same_name_twice_is_written_twice_in_order() {
    let rig = Served::rig();
    let output = rig.run(&["put", "rig/level=1", "rig/level=2"]);
    assert_eq!(output.code, Some(0));
    assert_eq!(rig.run(&["get", "-t", "rig/level"]).out, "2.0\n");
}

#[test]
fn invalid_patterns_and_files_are_refused_with_their_position() {
    let rig = Served::rig();
    let pattern = rig.run(&["put", "rig/*", "1"]);
    assert_eq!(pattern.code, Some(1));
    assert!(
        pattern.err.contains("patterns are not accepted here"),
        "{}",
        pattern.err
    );
    let file = rig.file("bad.csv", "name,value\nrig/level,\"1\n");
    let output = rig.run(&["put", "--csv", &file]);
    assert_eq!(output.code, Some(2));
    assert!(
        output.err.contains("bad.csv:2: a quote is not closed"),
        "{}",
        output.err
    );
    for arguments in [
        &["put"][..],
        &["put", "rig/level"],
        &["put", "rig/level", "1", "2"],
    ] {
        assert_eq!(rig.run(arguments).code, Some(2), "{arguments:?}");
    }
}

/// Behaviour: SP-07.
#[test]
fn every_type_passes_from_configuration_through_put_to_get() {
    let values = [
        ("bool", "true", "true", "true"),
        ("i8", "-128", "-128", "-128"),
        ("i16", "-32768", "-32768", "-32768"),
        ("i32", "-2147483648", "-2147483648", "-2147483648"),
        (
            "i64",
            "-9223372036854775808",
            "-9223372036854775808",
            "-9223372036854775808",
        ),
        ("u8", "0xff", "255", "255"),
        ("u16", "65535", "65535", "65535"),
        ("u32", "4294967295", "4294967295", "4294967295"),
        (
            "u64",
            "18446744073709551615",
            "18446744073709551615",
            "18446744073709551615",
        ),
        ("f32", "0.1", "0.1", "0.1"),
        ("f64", "NaN", "NaN", "null"),
        (
            "string",
            "Ω says \"hi\"",
            "Ω says \"hi\"",
            "\"Ω says \\\"hi\\\"\"",
        ),
        ("bytes", "0x00ff", "0x00ff", "\"AP8=\""),
        (
            "timestamp",
            "2026-11-20T21:39:04.5Z",
            "2026-11-20T21:39:04.500000000Z",
            "\"2026-11-20T21:39:04.500000000Z\"",
        ),
        ("enum(OFF, AUTO)", "1", "AUTO", "\"AUTO\""),
        (
            "array(f64, 2, *)",
            "[[1,2],[3,4]]",
            "[[1.0, 2.0], [3.0, 4.0]]",
            "[[1.0,2.0],[3.0,4.0]]",
        ),
        (
            "struct(x: f64, ok: bool)",
            "{\"x\": 1.5, \"ok\": true}",
            "{\"x\": 1.5, \"ok\": true}",
            "{\"x\":1.5,\"ok\":true}",
        ),
        (
            "waveform(i16)",
            "{\"t0\":\"2026-11-20T21:39:04Z\",\"dt\":0.001,\"samples\":[1,-2],\"attributes\":{\"n\":3}}",
            "{\"t0\": \"2026-11-20T21:39:04.000000000Z\", \"dt\": 0.001, \"samples\": [1, -2], \
             \"attributes\": {\"n\": 3}}",
            "{\"t0\":\"2026-11-20T21:39:04.000000000Z\",\"dt\":0.001,\"samples\":[1,-2],\
             \"attributes\":{\"n\":3}}",
        ),
    ];
    let mut config = "[library]\nname = \"types\"\n".to_owned();
    for (index, (ty, ..)) in values.iter().enumerate() {
        config.push_str(&format!(
            "[[variable]]\nname = \"v{index:02}\"\ntype = '{ty}'\n"
        ));
    }
    let rig = Served::start(&config);
    for (index, (ty, typed, shown, json)) in values.iter().enumerate() {
        let name = format!("types/v{index:02}");
        let put = rig.run(&["put", &name, typed]);
        assert_eq!(put.code, Some(0), "{ty}: {}", put.err);
        assert_eq!(
            rig.run(&["get", "-t", &name]).out,
            format!("{shown}\n"),
            "{ty}"
        );
        let line = rig.run(&["get", "--json", &name]).out;
        assert!(line.contains(&format!("\"value\":{json},")), "{ty}: {line}");
        let told: Json = serde_json::from_str(&line).unwrap();
        assert_eq!(told["type"], Json::from(*ty), "{line}");
    }
    let special = rig.run(&["get", "--json", "types/v10"]).out;
    assert!(special.contains("\"special\":\"nan\""), "{special}");
    let bytes = rig.run(&["get", "--json", "types/v12"]).out;
    assert!(bytes.contains("\"enc\":\"base64\""), "{bytes}");
}
