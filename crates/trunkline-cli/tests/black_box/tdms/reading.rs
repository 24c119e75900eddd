//! `info`, `cat` and `head`.

use serde_json::{Value as Json, json};

use trunkline_tdms::{Arrangement, ObjectPath, TdmsTime, TdmsType, Writer, WriterOptions};

use super::{Files, NEW_YEAR, check, mixture, tdms, vector, waveforms};
use crate::rig::finish;

fn lines(text: &str) -> Vec<Json> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn info_shows_the_content_of_a_file() {
    let files = Files::new();
    let (bytes, index, _) = waveforms();
    let path = files.put("run.tdms", &bytes);
    let plain = tdms(&["info", &path]);
    assert_eq!((plain.code, plain.err.as_str()), (Some(0), ""), "{plain:?}");
    let told: Vec<&str> = plain.out.lines().collect();
    assert!(
        told[0].ends_with("TDMS 2.0, 480 B, 3 segments, 1 group, 2 channels, 24 values")
            || told[0].contains("3 segments, 1 group, 2 channels, 24 values"),
        "{told:?}"
    );
    let volts = "daq/volts\tf64\t12\tV\t0.001\t2026-01-01T00:00:00.000000000Z";
    assert_eq!(told[1], volts);
    assert_eq!(told.len(), 3);
    let names = tdms(&["info", "-t", &path]);
    assert_eq!(names.out, "daq/volts\ndaq/count\n");
    let wide = tdms(&["info", "-a", &path]);
    assert!(wide.out.contains("/#dut\tA17\n"), "{wide:?}");
    assert!(
        wide.out.contains("daq/volts#wf_increment\t0.001\n"),
        "{wide:?}"
    );

    files.put("run.tdms_index", &index);
    let json = tdms(&["info", "--json", &path, "--channel", "**/volts"]);
    let object = &lines(&json.out)[0];
    check(object, "tdms_file");
    let keys = [
        "v",
        "version",
        "segments",
        "index",
        "findings",
        "bytes_lost",
    ];
    let found = keys.map(|key| object[key].clone());
    assert_eq!(
        found,
        [
            json!(1),
            json!(4713),
            json!(3),
            json!(true),
            json!(0),
            json!(0)
        ]
    );
    assert_eq!(object["bytes"], bytes.len());
    assert_eq!(object["properties"], json!({"dut": "A17"}));
    let channels = object["channels"].as_array().unwrap();
    assert_eq!(channels.len(), 1);
    assert_eq!(channels[0]["name"], "daq/volts");
    assert_eq!(channels[0]["path"], "/'daq'/'volts'");
    assert_eq!(channels[0]["values"], 12);
    assert_eq!(channels[0]["properties"]["unit_string"], "V");
    let csv = tdms(&["info", "-o", "csv", &path]);
    let header = "channel,type,values,unit,interval,begins,scaled\ndaq/volts,f64,12,V,";
    assert!(csv.out.starts_with(header), "{csv:?}");
}

#[test]
fn rows_are_chosen_by_number_by_time_and_by_channel() {
    let files = Files::new();
    let path = files.put("run.tdms", &waveforms().0);
    let head = tdms(&["head", &path, "--count", "2"]);
    let expected = "time\tdaq/volts\tdaq/count\n2026-01-01 00:00:00.000000\t0.0\t0\n\
                    2026-01-01 00:00:00.001000\t0.5\t1\n";
    assert_eq!(
        (head.code, head.out.as_str()),
        (Some(0), expected),
        "{head:?}"
    );
    assert_eq!(tdms(&["head", &path]).out.lines().count(), 11);
    let rows = |arguments: &[&str]| -> Vec<String> {
        let only = ["cat", &path, "--channel", "daq/count", "-t"];
        let output = tdms(&[&only, arguments].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        output.out.lines().map(str::to_owned).collect()
    };
    assert_eq!(rows(&[]).len(), 12);
    let some = ["3", "4"];
    for bounds in [
        ["--from", "3", "--to", "5"],
        ["--from", "3ms", "--to", "5ms"],
        ["--from", "2.5ms", "--to", "4.5ms"],
        [
            "--from",
            "2026-01-01T00:00:00.003Z",
            "--to",
            "2026-01-01T00:00:00.005Z",
        ],
        ["--from", "3", "--count", "2"],
    ] {
        assert_eq!(rows(&bounds), some, "{bounds:?}");
    }
    for none in [
        ["--from", "12"],
        ["--to", "0"],
        ["--from", "1h"],
        ["--count", "0"],
    ] {
        assert!(rows(&none).is_empty(), "{none:?}");
    }
    for (bounds, told) in [
        (&["--from", "12"][..], "--from 12 is after the last row"),
        (
            &["--from", "1h"],
            "none of the 12 rows is selected: --from 1h is after the last row",
        ),
        (
            &["--from", "5", "--to", "2"],
            "--to 2 is not after --from 5",
        ),
        (&["--to", "0"], "no row is before --to 0"),
        (&["--count", "0"], ""),
        (&["--from", "11"], ""),
    ] {
        for form in ["plain", "csv", "jsonl"] {
            let said = tdms(&[&["cat", &path, "-o", form], bounds].concat());
            assert_eq!(said.code, Some(0), "{said:?}");
            assert!(said.err.contains(told), "{said:?}");
            assert_eq!(said.err.is_empty(), told.is_empty(), "{said:?}");
            assert_eq!(
                said.err.contains("no-rows"),
                form == "jsonl" && !told.is_empty()
            );
        }
    }
    let csv = tdms(&[
        "cat",
        &path,
        "-o",
        "csv",
        "--exclude",
        "*/count",
        "--to",
        "1",
    ]);
    assert_eq!(
        csv.out,
        "time,daq/volts\n2026-01-01T00:00:00.000000000Z,0.0\n"
    );
    let csv = tdms(&["cat", &path, "-o", "csv", "--time", "none", "--from", "11"]);
    assert_eq!(csv.out, "daq/volts,daq/count\n5.5,11\n");
    let table = tdms(&["head", &path, "-o", "table", "--count", "1"]);
    let first = "time                         daq/volts   daq/count";
    assert_eq!(table.out.lines().next(), Some(first), "{table:?}");
}

#[test]
fn json_rows_mark_special_values_and_omit_missing_ones() {
    let files = Files::new();
    let path = files.put("run.tdms", &mixture());
    let rows = lines(&tdms(&["cat", &path, "--json"]).out);
    assert_eq!(rows.len(), 3);
    rows.iter().for_each(|row| check(row, "tdms_row"));
    let values = json!({
        "g/plain": "one",
        "g/Dr. T's": 1.5,
        "x/y/a/b": true,
        "g/two\nlines": "2026-01-01T00:00:00.000000000Z",
        "g/100%": [1.0, -2.0],
        "/": u64::MAX,
    });
    assert_eq!(rows[0], json!({"v": 1, "row": 0, "values": values}));
    let values = json!({"g/plain": "", "g/Dr. T's": null, "x/y/a/b": false});
    let special = json!({"g/Dr. T's": "nan"});
    assert_eq!(
        rows[1],
        json!({"v": 1, "row": 1, "values": values, "special": special})
    );
    assert_eq!(rows[2]["special"], json!({"g/Dr. T's": "inf"}));
    assert_eq!(rows[2]["values"]["g/plain"], "a,\"b\"\nc");
    let array = tdms(&["cat", &path, "-o", "json", "--int-strings"]).out;
    let array: Json = serde_json::from_str(&array).unwrap();
    assert_eq!(array[0]["values"]["/"], u64::MAX.to_string());
    let waveform = files.put("w.tdms", &waveforms().0);
    let rows = lines(&tdms(&["cat", &waveform, "--json", "--from", "1", "--to", "2"]).out);
    assert_eq!(rows[0]["time"], "2026-01-01T00:00:00.001000000Z");
}

#[test]
fn names_with_quotes_slashes_and_line_breaks_are_shown_and_found() {
    let files = Files::new();
    let path = files.put("run.tdms", &mixture());
    let names = tdms(&["info", "-t", &path]);
    let expected = "g/plain\ng/Dr. T's\nx%2Fy/a%2Fb\ng/two\\nlines\ng/100%25\n/\n";
    assert_eq!(names.out, expected);
    for (wanted, header) in [
        ("g/Dr. T's", "g/Dr. T's"),
        ("/'g'/'Dr. T''s'", "g/Dr. T's"),
        ("x%2fy/*", "x/y/a/b"),
        ("x/y/a/b", "x/y/a/b"),
        ("/'x/y'/'a/b'", "x/y/a/b"),
        ("/'g'/'two\nlines'", "g/two\\nlines"),
        ("/''/''", "/"),
    ] {
        let output = tdms(&["head", &path, "-o", "plain", "--channel", wanted]);
        assert_eq!(output.out.lines().next(), Some(header), "{wanted}");
    }
    let csv = tdms(&["head", &path, "-o", "csv", "--channel", "/'g'/'two\nlines'"]);
    let header = "\"\"\"g/two\\nlines\"\"\"\n";
    assert!(csv.out.starts_with(header), "{csv:?}");
    for (wanted, code) in [("g/nope", 1), ("/'g'x", 2), ("g//x", 2)] {
        let output = tdms(&["head", &path, "--channel", wanted]);
        assert_eq!(
            (output.code, output.out.as_str()),
            (Some(code), ""),
            "{wanted}"
        );
        assert!(output.err.contains(wanted), "{output:?}");
    }
}

/// The name of a variable is that of one group.
#[test]
fn bare_variable_name_offers_all_its_channels() {
    let files = Files::new();
    let path = files.put("run.tdms", &mixture());
    for (wanted, hint) in [
        ("x/y", "did you mean x%2Fy/*?"),
        ("x/y/z", "lists the channels"),
    ] {
        let output = tdms(&["cat", &path, "--channel", wanted]);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.err.contains(hint), "{wanted}: {output:?}");
    }
    for offered in ["x%2Fy/*", "x/y/*/b", "x/y/a/*"] {
        let output = tdms(&["cat", &path, "--channel", offered]);
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}

#[test]
fn acquisition_data_is_read_according_to_its_scalers() {
    let output = tdms(&["cat", &vector("daqmx.tdms"), "-o", "csv"]);
    assert_eq!(output.out, "g/x,g/y\n1,-1\n2,-2\n");
    let info = tdms(&["info", &vector("daqmx.tdms")]);
    assert!(info.out.contains("g/x\tDAQmx i16\t2"), "{info:?}");
}

#[test]
fn time_range_is_refused_without_a_common_time_axis() {
    let files = Files::new();
    let path = files.put("run.tdms", &mixture());
    let output = tdms(&["cat", &path, "--from", "1s"]);
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("do not share a waveform"), "{output:?}");
    let output = tdms(&["cat", &path, "--from", "yesteryear"]);
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("is not a row"), "{output:?}");
}

/// A recording of variables: `rig/level`, of which row `n` was at n / 2 s in the new year, except
/// for row 0, which is an hour older; and `rig/shape`, whose values are two for each time.
fn recording(more: &[i64]) -> Vec<u8> {
    let mut writer = Writer::new(WriterOptions::default());
    let time = |millis: i64| TdmsTime::from(NEW_YEAR.saturating_add_nanos(millis * 1_000_000));
    let mut times: Vec<TdmsTime> = (0..10).map(|row| time(500 * row)).collect();
    times[0] = time(-3_600_000);
    times.extend(more.iter().map(|millis| time(*millis)));
    let numbers: Vec<i64> = (0..times.len() as i64).collect();
    let mut data = Vec::new();
    let level = ["time", "value"].map(|name| {
        let data_type = [TdmsType::I64, TdmsType::Time][usize::from(name == "time")];
        writer.channel("rig/level", name, data_type).unwrap()
    });
    data.push((level[0], (&times[..]).into()));
    data.push((level[1], (&numbers[..]).into()));
    let before = ObjectPath::group("rig/level");
    writer.set(&before, "initial_rows", 1_u64).unwrap();
    let at = writer.channel("rig/shape", "time", TdmsType::Time).unwrap();
    let of = writer.channel("rig/shape", "value", TdmsType::I64).unwrap();
    let counts = writer.channel("rig/shape", "value.count", TdmsType::U32);
    let (shape_times, counts_of) = (&times[..2], [0_u32, 2]);
    data.push((at, shape_times.into()));
    data.push((of, (&numbers[..2]).into()));
    data.push((counts.unwrap(), (&counts_of[..]).into()));
    let mut bytes = Vec::new();
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    bytes
}

#[test]
fn rows_of_a_variable_are_chosen_by_its_times() {
    let files = Files::new();
    let path = files.put("run.tdms", &recording(&[]));
    let rows = |path: &str, bounds: &[&str]| {
        let cat = ["cat", path, "-o", "csv", "--channel", "rig%2Flevel/value"];
        let output = tdms(&[&cat[..], bounds].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        let rows = output.out.lines().skip(1);
        rows.map(|row| row.parse().unwrap()).collect::<Vec<u64>>()
    };
    // The first is row 1, half a second into the year: row 0 is earlier.
    for (bounds, expected) in [
        (&["--from", "1s", "--to", "2s"][..], 3..5),
        (&["--from", "0s"], 1..10),
        (&["--to", "500ms"], 0..2),
        (&["--from", "2026-01-01T00:00:04Z"], 8..10),
        (&["--from", "2026-01-01T00:00:03.999999999Z"], 8..10),
        (&["--from", "2026-01-01T00:00:04.000000001Z"], 9..10),
        (
            &[
                "--from",
                "2025-12-31T12:00:00Z",
                "--to",
                "2026-01-01T00:00:01Z",
            ],
            0..2,
        ),
        (&["--from", "1s", "--count", "1"], 3..4),
        (&["--from", "4", "--to", "2.5s"], 4..6),
        (&["--from", "1h"], 10..10),
        (&["--from", "3s", "--to", "1s"], 7..7),
    ] {
        let expected: Vec<u64> = expected.collect();
        assert_eq!(rows(&path, bounds), expected, "{bounds:?}");
    }
    // If times go back, all rows between the first and the last of the range.
    let back = files.put("back.tdms", &recording(&[1_000, 9_000]));
    assert_eq!(rows(&back, &["--from", "4s", "--to", "5s"]), [9, 10]);
    assert_eq!(rows(&back, &["--from", "5s"]), [11]);
    let out = files.path("out.csv");
    let one = ["--channel", "rig%2Flevel/*", "--from", "4s"];
    let converted = tdms(&[&["convert", &path, &out], &one[..]].concat());
    assert_eq!(converted.code, Some(0), "{converted:?}");
    let written = std::fs::read_to_string(&out).unwrap();
    assert_eq!(written.lines().count(), 2, "{written}");

    for (channel, said) in [
        ("**", "choose one with --channel, such as 'rig%2Flevel/*'"),
        (
            "rig%2Fshape/*",
            "rig/shape/value does not have one value for each time",
        ),
    ] {
        let output = tdms(&["cat", &path, "--from", "1s", "--channel", channel]);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.err.contains(said), "{output:?}");
    }
    let counts = ["--channel", "rig%2Fshape/value.count", "--from", "0s"];
    let output = tdms(&[&["cat", &path, "-o", "csv"], &counts[..]].concat());
    assert_eq!(output.out.lines().last(), Some("2"), "{output:?}");
}

#[test]
fn unclosed_file_is_read_and_reported() {
    let path = vector("five_segments.tdms");
    let output = tdms(&["cat", &path, "-o", "csv"]);
    assert_eq!(output.code, Some(0));
    assert_eq!(output.out.lines().count(), 11);
    assert!(
        output
            .err
            .contains("byte 356: the segment was never closed"),
        "{output:?}"
    );
    assert!(output.err.contains("tdms verify"), "{output:?}");
    let output = tdms(&["info", "--json", &path]);
    let note: Json = serde_json::from_str(output.err.lines().next().unwrap()).unwrap();
    assert_eq!(note["code"], "finding");
    let object = &lines(&output.out)[0];
    assert_eq!(
        (&object["findings"], &object["bytes_lost"]),
        (&json!(1), &json!(5))
    );
}

#[test]
fn index_file_alone_describes_its_data_file() {
    let files = Files::new();
    let path = files.put("run.tdms_index", &waveforms().1);
    let output = tdms(&["info", "-t", &path]);
    assert_eq!(
        (output.code, output.out.as_str()),
        (Some(0), "daq/volts\ndaq/count\n")
    );
}

#[test]
fn reader_that_stops_early_is_not_an_error() {
    let files = Files::new();
    let path = files.put("run.tdms", &waveforms().0);
    let script = format!(
        "{} tdms cat '{path}' -o csv | head -n 1; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_trunkline")
    );
    let out = finish(std::process::Command::new("bash").args(["-c", &script]), "").out;
    assert!(out.ends_with("\n0\n"), "{out}");
}
