//! `verify` and `repair`.

use serde_json::{Value as Json, json};
use trunkline_tdms::{TdmsFile, TdmsType, Text, Writer, WriterOptions};

use super::{Files, check, read, tdms, vector, waveforms};

#[test]
fn a_sound_file_is_found_to_be_so() {
    let files = Files::new();
    let (bytes, index, _) = waveforms();
    let path = files.put("run.tdms", &bytes);
    files.put("run.tdms_index", &index);
    let output = tdms(&["verify", &path]);
    assert_eq!(
        (output.code, output.out.as_str()),
        (Some(0), ""),
        "{output:?}"
    );
    let told = "no findings in 3 segments, 2 channels, 24 values";
    assert!(output.err.contains(told), "{output:?}");
    let output = tdms(&["verify", "--json", &path]);
    let event: Json = serde_json::from_str(&output.err).unwrap();
    check(&event, "tdms_event");
    assert_eq!(
        (&event["index"], &event["findings"]),
        (&json!(true), &json!(0))
    );
}

#[test]
fn each_finding_has_a_position_and_a_remedy() {
    let files = Files::new();
    let (mut bytes, mut index, places) = waveforms();
    bytes.truncate(bytes.len() - 5);
    index[40] ^= 1;
    let path = files.put("run.tdms", &bytes);
    files.put("run.tdms_index", &index);
    let output = tdms(&["verify", &path]);
    assert_eq!(output.code, Some(8), "{output:?}");
    let lines: Vec<&str> = output.out.lines().collect();
    let torn = format!(
        "{}\tthe file ends in the middle of data: 5 bytes are missing\t`trunkline tdms repair` removes the incomplete part",
        places[2]
    );
    assert_eq!(lines[0], torn);
    assert!(lines[1].starts_with("\tthe index file "), "{lines:?}");
    assert!(
        lines[1].ends_with("`trunkline tdms repair` rewrites it"),
        "{lines:?}"
    );
    let output = tdms(&["verify", "--json", &path]);
    let first: Json = serde_json::from_str(output.out.lines().next().unwrap()).unwrap();
    check(&first, "tdms_finding");
    assert_eq!(
        (&first["v"], &first["byte"]),
        (&json!(1), &json!(places[2]))
    );
}

#[test]
fn repair_into_another_file_leaves_the_index_alone() {
    let files = Files::new();
    let (bytes, mut index, _) = waveforms();
    index[40] ^= 1;
    let path = files.put("run.tdms", &bytes);
    let beside = files.put("run.tdms_index", &index);
    let output = tdms(&["repair", &path, &files.path("out.tdms")]);
    assert!(output.err.contains("nothing to repair"), "{output:?}");
    assert_eq!(read(&beside), index);
    assert_eq!(files.names(), ["run.tdms", "run.tdms_index"]);
    // In place it is rewritten.
    let output = tdms(&["repair", &path]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_ne!(read(&beside), index);
}

#[test]
fn invalid_strings_are_found_by_reading_all_of_them() {
    let files = Files::new();
    let mut writer = Writer::new(WriterOptions::default());
    let texts = writer.channel("g", "s", TdmsType::String).unwrap();
    let mut bytes = Vec::new();
    let strings = ["one", "two"].map(Text::from);
    let data = [(texts, (&strings[..]).into())];
    let place = writer
        .write(&data, trunkline_tdms::Arrangement::Contiguous, &mut bytes)
        .unwrap();
    // The end of the second string.
    bytes[place.header_bytes as usize + 4] = 0xff;
    let path = files.put("run.tdms", &bytes);
    let output = tdms(&["verify", &path]);
    assert_eq!(output.code, Some(8));
    let byte = place.header_bytes + 4;
    assert!(output.out.starts_with(&format!("{byte}\t")), "{output:?}");
    let output = tdms(&["cat", &path]);
    assert_eq!(output.code, Some(8), "{output:?}");
    assert_eq!(output.out, "g/s\none\n\n");
    assert!(output.err.contains("1 value"), "{output:?}");
}

/// Behaviour: B-70.
#[test]
fn truncated_file_is_repaired_in_place_by_cutting_its_end() {
    let files = Files::new();
    let (bytes, index, places) = waveforms();
    for cut in (places[1] + 1..bytes.len()).step_by(7) {
        let whole = places.iter().rev().find(|place| **place <= cut).unwrap();
        let path = files.put("run.tdms", &bytes[..cut]);
        files.put("run.tdms_index", &index);
        if *whole == cut {
            continue;
        }
        let dry = tdms(&["repair", &path, "--dry-run", "--json"]);
        assert_eq!(dry.code, Some(8), "{dry:?}");
        assert_eq!(read(&path), bytes[..cut], "a dry run changes nothing");
        assert_eq!(read(&files.path("run.tdms_index")), index);
        let told: Json = serde_json::from_str(&dry.err).unwrap();
        check(&told, "tdms_event");
        let before = TdmsFile::open(&bytes[..cut]).unwrap();
        let could: u64 = before.channels().map(|channel| channel.len()).sum();
        let output = tdms(&["repair", &path]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let after = read(&path);
        let kept = files.path("run.tdms.cut");
        assert_eq!(read(&kept), bytes[*whole..cut], "cut at {cut}");
        std::fs::remove_file(kept).unwrap();
        assert_eq!(after, bytes[..*whole], "cut at {cut}");
        let file = TdmsFile::open(&after).unwrap();
        assert!(file.report().is_sound());
        let can: u64 = file.channels().map(|channel| channel.len()).sum();
        assert_eq!(told["bytes_lost"], cut - whole);
        assert_eq!(told["values_lost"], could - can, "cut at {cut}");
        assert_eq!(told["length"], *whole);
        assert_eq!(
            tdms(&["verify", &path]).code,
            Some(0),
            "with its index file"
        );
        let again = tdms(&["repair", &path]);
        assert_eq!(again.code, Some(0));
        assert!(again.err.contains("nothing to repair"), "{again:?}");
    }
}

#[test]
fn another_file_keeps_the_whole_chunks_of_the_last_segment() {
    let files = Files::new();
    let path = vector("five_segments.tdms");
    let before = read(&path);
    let out = files.path("whole.tdms");
    let output = tdms(&["repair", &path, &out]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.err.contains("0 readable values were removed"),
        "{output:?}"
    );
    assert_eq!(read(&path), before, "the file itself stays as it was");
    let after = read(&out);
    let file = TdmsFile::open(&after).unwrap();
    assert!(file.report().is_sound());
    let values = |file: &TdmsFile<&Vec<u8>>| -> Vec<u64> {
        file.channels().map(|channel| channel.len()).collect()
    };
    assert_eq!(values(&file), values(&TdmsFile::open(&before).unwrap()));
    let output = tdms(&["repair", &path, &out]);
    assert_eq!(output.code, Some(1), "it is there: {output:?}");
}

#[test]
fn file_without_a_whole_segment_is_left_unchanged() {
    let files = Files::new();
    let bytes = waveforms().0;
    let path = files.put("run.tdms", &bytes[..60]);
    let output = tdms(&["repair", &path]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.err.contains("a repair would remove the whole file"),
        "{output:?}"
    );
    assert_eq!(read(&path), bytes[..60]);
}

#[test]
fn contradictory_segment_is_not_read_and_is_cut_off() {
    let files = Files::new();
    let (mut bytes, _, places) = waveforms();
    // The metadata of the last segment would be longer than it.
    let at = places[2] + 20;
    bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    let path = files.put("run.tdms", &bytes);
    let output = tdms(&["cat", &path, "-t", "--channel", "daq/count"]);
    assert_eq!(
        (output.code, output.out.lines().count()),
        (Some(0), 8),
        "{output:?}"
    );
    assert!(
        output.err.contains(&format!("byte {}", places[2])),
        "{output:?}"
    );
    assert_eq!(tdms(&["verify", &path]).code, Some(8));
    assert_eq!(tdms(&["repair", &path]).code, Some(0));
    assert_eq!(read(&path), bytes[..places[2]]);
}
