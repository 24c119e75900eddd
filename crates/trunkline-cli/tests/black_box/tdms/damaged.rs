//! Files with damage in the middle, and their handling.

use std::os::unix::fs::PermissionsExt;

use trunkline_tdms::{Arrangement, Data, ObjectPath, TdmsType, Text, Writer, WriterOptions};

use super::{Files, read, tdms, waveforms};

/// Behaviour: B-71.
#[test]
fn damaged_tag_loses_no_data_and_repair_cuts_nothing() {
    let files = Files::new();
    let (mut bytes, _, places) = waveforms();
    bytes[places[1]] ^= 1;
    let path = files.put("run.tdms", &bytes);
    let csv = tdms(&["cat", &path, "-o", "csv"]);
    // The names, and all rows.
    assert_eq!(csv.out.lines().count(), 1 + 12, "{csv:?}");
    assert!(
        csv.err.contains("lead-in of a segment is damaged"),
        "{csv:?}"
    );
    let repaired = tdms(&["repair", &path]);
    assert_eq!(repaired.code, Some(8), "{repaired:?}");
    assert_eq!(read(&path), bytes);
    let out = files.path("anew.tdms");
    assert_eq!(tdms(&["defrag", &path, &out]).code, Some(8));
    assert_eq!(tdms(&["verify", &out]).code, Some(0));
    let anew = tdms(&["cat", &out, "-o", "csv"]);
    assert_eq!(anew.out, csv.out);
}

/// Behaviour: B-71.
#[test]
fn bytes_cut_off_by_repair_are_kept() {
    let files = Files::new();
    let (bytes, _, places) = waveforms();
    let torn = &bytes[..places[2] + 60];
    let path = files.put("run.tdms", torn);
    let repaired = tdms(&["repair", &path]);
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    let cut = files.path("run.tdms.cut");
    assert!(repaired.err.contains("run.tdms.cut"), "{repaired:?}");
    assert_eq!([read(&path), read(&cut)].concat(), torn);
    // A second time it is not written over.
    std::fs::write(&path, torn).unwrap();
    let again = tdms(&["repair", &path]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert_eq!(read(&path), torn);
    // Zeros, as a recorder that was killed leaves them, are not worth a file.
    let mut long = bytes[..places[2]].to_vec();
    long.resize(long.len() + 5_000, 0);
    let path = files.put("killed.tdms", &long);
    assert_eq!(tdms(&["repair", &path]).code, Some(0));
    assert!(!files.names().contains(&"killed.tdms.cut".to_owned()));
}

/// Three segments with a number and a string in each row; the table of the second is damaged.
fn damaged_strings() -> Vec<u8> {
    let mut writer = Writer::new(WriterOptions::default());
    let number = writer.channel("g", "n", TdmsType::I32).unwrap();
    let text = writer.channel("g", "s", TdmsType::String).unwrap();
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for segment in 0..3_i32 {
        let texts = ["a", "b"].map(|end| Text::from(format!("{segment}{end}")));
        let numbers = [segment; 2];
        let data = [(number, (&numbers).into()), (text, Data::String(&texts))];
        writer
            .write(&data, Arrangement::Contiguous, &mut bytes)
            .unwrap();
        ends.push(bytes.len());
    }
    // The end of the last string of the second segment: before four bytes of text.
    bytes[ends[1] - 4 - 1] = 0x7f;
    bytes
}

/// Behaviour: B-71.
#[test]
fn one_bad_table_of_strings_leaves_everything_else() {
    let files = Files::new();
    let path = files.put("run.tdms", &damaged_strings());
    let csv = tdms(&["cat", &path, "-o", "csv"]);
    assert_eq!(csv.out, "g/n,g/s\n0,0a\n0,0b\n1,1a\n1,\n2,2a\n2,2b\n");
    assert_eq!(csv.code, Some(8), "{csv:?}");
    assert!(
        csv.err.contains("1 value") && csv.err.contains("--exclude"),
        "{csv:?}"
    );
    let out = files.path("run.parquet");
    assert_eq!(tdms(&["convert", &path, &out]).code, Some(8));
    let anew = files.path("anew.tdms");
    let defragged = tdms(&["defrag", &path, &anew]);
    assert_eq!(defragged.code, Some(8), "{defragged:?}");
    assert_eq!(tdms(&["verify", &anew]).code, Some(0));
    let repaired = tdms(&["repair", &path]);
    assert_eq!(repaired.code, Some(8), "{repaired:?}");
    assert!(!repaired.err.contains("nothing to repair"), "{repaired:?}");
    let without = tdms(&["defrag", &path, &anew, "--force", "--exclude", "g/s"]);
    assert_eq!(without.code, Some(0), "{without:?}");
}

#[test]
fn a_file_is_written_through_a_link_and_keeps_its_mode() {
    let files = Files::new();
    let (bytes, _, _) = waveforms();
    let path = files.put("run.tdms", &bytes);
    let old = files.put("old.csv", b"old");
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = files.path("link.csv");
    std::os::unix::fs::symlink("old.csv", &link).unwrap();
    let converted = tdms(&["convert", &path, &link, "--force"]);
    assert_eq!(converted.code, Some(0), "{converted:?}");
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(read(&old).starts_with(b"time,"));
    let mode = std::fs::metadata(&old).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn recorded_variables_are_exported_by_name_with_quality_texts() {
    let files = Files::new();
    let mut writer = Writer::new(WriterOptions::default());
    let group = ObjectPath::group("boiler/level");
    writer.set(&group, "variable_type", "string").unwrap();
    let value = writer
        .channel("boiler/level", "value", TdmsType::String)
        .unwrap();
    let quality = writer
        .channel("boiler/level", "quality", TdmsType::U32)
        .unwrap();
    let texts = ["=1+1", "-5"].map(Text::from);
    let good = trunkline_types::Quality::GOOD.to_bits();
    let qualities = [good, good];
    let data = [
        (value, Data::String(&texts)),
        (quality, (&qualities).into()),
    ];
    let mut bytes = Vec::new();
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    let path = files.put("run.tdms", &bytes);
    let csv = tdms(&["cat", &path, "-o", "csv"]);
    // A JSON string in the quotes of CSV; a number is not a formula.
    let expected = "boiler/level/value,boiler/level/quality\n\"\"\"=1+1\"\"\",good\n-5,good\n";
    assert_eq!(csv.out, expected, "{csv:?}");
    let csv = tdms(&["cat", &path, "-o", "csv", "--spreadsheet"]);
    assert!(csv.out.ends_with("'=1+1,good\n'-5,good\n"), "{csv:?}");
    let raw = tdms(&["cat", &path, "-o", "csv", "--raw"]);
    assert!(
        raw.out.contains(&format!("\"\"\"=1+1\"\"\",{good}\n")),
        "{raw:?}"
    );
}

#[test]
fn damaged_index_is_reported_and_ignored() {
    let files = Files::new();
    let (bytes, mut index, _) = waveforms();
    let path = files.put("run.tdms", &bytes);
    let sound = tdms(&["cat", &path, "-o", "csv"]);
    let middle = index.len() / 2;
    index[middle] ^= 0x40;
    files.put("run.tdms_index", &index);
    let told = tdms(&["cat", &path, "-o", "csv"]);
    assert_eq!((told.code, told.out), (sound.code, sound.out));
    assert!(told.err.contains("run.tdms_index"), "{}", told.err);
}

#[test]
fn timestamps_of_a_stream_are_times() {
    let files = Files::new();
    let mut writer = Writer::new(WriterOptions::default());
    let when = writer.channel("stream", "value", TdmsType::I64).unwrap();
    let path = ObjectPath::channel("stream", "value");
    writer.set(&path, "value_type", "timestamp").unwrap();
    let data = [(when, (&[1_767_225_600_000_000_001_i64]).into())];
    let mut bytes = Vec::new();
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    let path = files.put("run.tdms", &bytes);
    let csv = tdms(&["cat", &path, "-o", "csv"]);
    assert_eq!(csv.out, "stream/value\n2026-01-01T00:00:00.000000001Z\n");
    let raw = tdms(&["cat", &path, "-o", "csv", "--raw"]);
    assert_eq!(raw.out, "stream/value\n1767225600000000001\n");
}
