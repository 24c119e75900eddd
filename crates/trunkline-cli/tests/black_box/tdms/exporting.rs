//! `convert` and `defrag`.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{DataType, TimeUnit};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use trunkline_tdms::{
    Arrangement, Data, ObjectPath, TdmsFile, TdmsType, Values, Writer, WriterOptions,
};

use super::{Files, NEW_YEAR, check, mixture, read, tdms, vector, waveforms};
use crate::rig::{Drained, command};

fn arrow(path: &str) -> Vec<RecordBatch> {
    let reader = FileReader::try_new(File::open(path).unwrap(), None).unwrap();
    reader.map(Result::unwrap).collect()
}

fn parquet(path: &str) -> Vec<RecordBatch> {
    let file = File::open(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    reader.build().unwrap().map(Result::unwrap).collect()
}

#[test]
fn arrow_and_parquet_have_the_types_and_values_of_the_file() {
    let files = Files::new();
    let path = files.put("run.tdms", &waveforms().0);
    for (name, read) in [
        ("run.arrow", arrow as fn(&str) -> Vec<RecordBatch>),
        ("run.parquet", parquet),
    ] {
        let out = files.path(name);
        let output = tdms(&["convert", &path, &out]);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(output.out, "");
        assert!(output.err.contains("12 rows of 2 channels"), "{output:?}");
        let batches = read(&out);
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 12);
        let batch = &batches[0];
        let time = batch.column_by_name("time").unwrap();
        let of = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        assert_eq!(time.data_type(), &of);
        let time = time.as_primitive::<TimestampNanosecondType>();
        assert_eq!(time.value(11), NEW_YEAR.as_nanos() + 11_000_000);
        let volts = batch.column_by_name("daq/volts").unwrap();
        assert_eq!(volts.as_primitive::<Float64Type>().value(11), 5.5);
        let count = batch.column_by_name("daq/count").unwrap();
        assert_eq!(count.as_primitive::<Int32Type>().value(3), 3);
        let schema = batch.schema();
        let unit = schema.field_with_name("daq/volts").unwrap().metadata();
        assert_eq!(unit["unit_string"], "V", "{name}");
    }
    let reader = FileReader::try_new(File::open(files.path("run.arrow")).unwrap(), None);
    assert_eq!(reader.unwrap().schema().metadata()["dut"], "A17");
}

#[test]
fn channels_without_values_have_no_column_and_are_reported() {
    let files = Files::new();
    let mut writer = Writer::new(WriterOptions::default());
    let some = writer.channel("g", "some", TdmsType::F64).unwrap();
    let none = ObjectPath::channel("g", "none");
    writer.set(&none, "unit_string", "V").unwrap();
    let mut bytes = Vec::new();
    let data = [(some, Data::from(&[1.5_f64]))];
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    let path = files.put("run.tdms", &bytes);
    let orders = [
        &["convert", &path, "-", "--as", "csv"][..],
        &["cat", &path, "-o", "csv"],
    ];
    for order in orders {
        let output = tdms(order);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.out.starts_with("g/some\n1.5"), "{output:?}");
        let said = "the output omits 1 channel without values";
        assert!(output.err.contains(said), "{output:?}");
    }
}

#[test]
fn shorter_channels_are_null_after_their_end() {
    let files = Files::new();
    let path = files.put("run.tdms", &mixture());
    for (name, read) in [
        ("run.feather", arrow as fn(&str) -> Vec<RecordBatch>),
        ("run.parquet", parquet),
    ] {
        let out = files.path(name);
        let output = tdms(&["convert", &path, &out]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let batch = &read(&out)[0];
        let column = |name: &str| batch.column_by_name(name).unwrap().clone();
        let nulls = |name: &str| column(name).null_count();
        assert_eq!(batch.num_rows(), 3);
        assert_eq!(nulls("g/plain"), 0);
        assert_eq!(column("g/plain").as_string::<i32>().value(2), "a,\"b\"\nc");
        assert_eq!(nulls("x/y/a/b"), 1);
        assert!(!column("x/y/a/b").as_boolean().value(1));
        assert_eq!(nulls("g/two\nlines"), 2);
        assert_eq!(column("/").as_primitive::<UInt64Type>().value(0), u64::MAX);
        let pairs = column("g/100%");
        let im = pairs.as_struct().column_by_name("im").unwrap().clone();
        assert_eq!(im.as_primitive::<Float64Type>().value(0), -2.0, "{name}");
        assert_eq!(im.null_count(), 2);
    }
}

#[test]
fn text_is_written_to_files_and_standard_output() {
    let files = Files::new();
    let path = files.put("run.tdms", &waveforms().0);
    let out = files.path("run.csv");
    let part = ["--from", "10", "--channel", "*/count"];
    let output = tdms(&[&["convert", &path, &out][..], &part].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let expected = "time,daq/count\n2026-01-01T00:00:00.010000000Z,10\n\
                    2026-01-01T00:00:00.011000000Z,11\n";
    assert_eq!(String::from_utf8(read(&out)).unwrap(), expected);
    let mode = std::fs::metadata(&out).unwrap().mode();
    let other = std::fs::metadata(&path).unwrap().mode();
    assert_eq!(mode, other, "as any new file");
    let output = tdms(&[&["convert", &path, "-", "--as", "csv"][..], &part].concat());
    assert_eq!(output.out, expected);
    let output = tdms(&[&["convert", &path, "-", "--as", "jsonl"][..], &part].concat());
    assert!(
        output.out.starts_with("{\"v\":1,\"row\":10,\"time\":"),
        "{output:?}"
    );
    let mut child = command(&["tdms", "convert", &path, "-", "--as", "arrow"]);
    let (_, stream, _) = Drained::start(&mut child, Stdio::null()).end_raw();
    let batches: Vec<_> = StreamReader::try_new(&stream[..], None).unwrap().collect();
    assert_eq!(batches[0].as_ref().unwrap().num_rows(), 12);
    for nothing in [["convert", &path, "x.txt"], ["convert", &path, "-"]] {
        let output = tdms(&nothing);
        assert_eq!(output.code, Some(2));
        assert!(output.err.contains("--as"), "{output:?}");
    }
}

#[test]
fn existing_file_is_replaced_only_with_force() {
    let files = Files::new();
    let path = files.put("run.tdms", &waveforms().0);
    let out = files.put("out.csv", b"mine");
    for verb in [["convert", &path, &out], ["defrag", &path, &out]] {
        let output = tdms(&verb);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.err.contains("--force"), "{output:?}");
        assert_eq!(read(&out), b"mine");
    }
    assert_eq!(tdms(&["convert", &path, &out, "--force"]).code, Some(0));
    assert!(read(&out).starts_with(b"time,"));
    // Not even so.
    let output = tdms(&["defrag", &path, &path, "--force"]);
    assert_eq!(output.code, Some(2));
    assert_eq!(read(&path), waveforms().0);
    let output = tdms(&["convert", &path, &files.path("no/out.csv")]);
    assert_eq!(output.code, Some(1));
    assert_eq!(
        files.names(),
        ["out.csv", "run.tdms"],
        "nothing else is left"
    );
    // A device is written to, and stays one.
    let output = tdms(&["convert", &path, "/dev/null", "--as", "csv", "--force"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let full = tdms(&["convert", &path, "/dev/full", "--as", "csv"]);
    assert_eq!(full.code, Some(1));
    assert!(full.err.contains("cannot be written"), "{full:?}");
}

/// The values of the channel `daq/count` of a file, its version and its segments.
fn counted(path: &str) -> (Values, Option<u32>, u64) {
    let file = TdmsFile::open(File::open(path).unwrap()).unwrap();
    assert!(file.report().is_sound());
    let dut = file.properties(&ObjectPath::File).unwrap();
    assert_eq!(dut[b"dut".as_slice()].as_text().unwrap().to_str(), "A17");
    let channel = file.channel(&ObjectPath::channel("daq", "count")).unwrap();
    let report = file.report();
    (
        channel.read(0, 100).unwrap(),
        report.version,
        report.segments,
    )
}

#[test]
fn files_are_written_in_either_version_and_in_one_segment() {
    let files = Files::new();
    let path = files.put("run.tdms", &waveforms().0);
    let all = Values::I32((0..12).collect());
    let (old, new) = (files.path("old.tdms"), files.path("new.tdms"));
    assert_eq!(
        tdms(&["convert", &path, &old, "--as", "tdms1"]).code,
        Some(0)
    );
    assert_eq!(counted(&old), (all.clone(), Some(4712), 1));
    // It keeps the version, and the index file of the previous file is removed.
    files.put("again.tdms_index", b"TDSh");
    let again = files.path("again.tdms");
    let output = tdms(&["defrag", &old, &again]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(counted(&again), (all.clone(), Some(4712), 1));
    assert!(!files.names().contains(&"again.tdms_index".to_owned()));
    assert_eq!(tdms(&["convert", &again, &new]).code, Some(0));
    assert_eq!(counted(&new), (all, Some(4713), 1));
    for verb in ["convert", "defrag"] {
        let output = tdms(&[verb, &path, &new, "--force", "--json"]);
        check(&serde_json::from_str(&output.err).unwrap(), "tdms_event");
    }
    let out = files.path("new.csv");
    let output = tdms(&["convert", &path, &out, "--json"]);
    check(&serde_json::from_str(&output.err).unwrap(), "tdms_event");
    let output = tdms(&["convert", &path, &new, "--force", "--channel", "daq/*"]);
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("written completely"), "{output:?}");
}

/// The content of the files in a folder according to npTDMS, an independent reader; `make nptdms`
/// installs it.
fn judged(folder: &Path, names: &[&str]) -> Vec<String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let script = "../trunkline-tdms/tests/nptdms_judge.py";
    let judge = std::process::Command::new(target.join("nptdms/bin/python"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
        .arg("read")
        .arg(folder)
        .output()
        .expect("run `make nptdms`, which installs npTDMS in the target folder");
    let said = String::from_utf8_lossy(&judge.stderr);
    assert!(judge.status.success(), "{said}");
    let dumps = names.iter().map(|name| folder.join(format!("{name}.dump")));
    dumps
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

/// Behaviour: ZC-28.
#[test]
fn nptdms_reads_the_same_from_every_rewritten_file() {
    let files = Files::new();
    let run = files.put("run.tdms", &waveforms().0);
    let old = files.path("old.tdms");
    let output = tdms(&["convert", &run, &old, "--as", "tdms1"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let short = files.path("short.tdms");
    assert_eq!(tdms(&["defrag", &run, &short]).code, Some(0));
    let new = files.path("new.tdms");
    assert_eq!(tdms(&["convert", &old, &new]).code, Some(0));
    // The last segment is truncated, and loses its incomplete chunk.
    let bytes = waveforms().0;
    let torn = files.put("torn.cut", &bytes[..bytes.len() - 8]);
    let whole = files.path("whole.tdms");
    assert_eq!(tdms(&["repair", &torn, &whole]).code, Some(0));
    let folder = files.folder.path();
    let found = judged(folder, &["run", "old", "short", "new", "whole"]);
    assert!(found[0].contains("d i4 12 "), "{}", found[0]);
    for other in &found[1..4] {
        assert_eq!(*other, found[0]);
    }
    assert!(found[4].contains("d i4 8 "), "{}", found[4]);
}

#[test]
fn a_file_that_is_not_whole_is_converted_and_ends_with_8() {
    let files = Files::new();
    let out = files.path("out.tdms");
    let output = tdms(&["defrag", &vector("five_segments.tdms"), &out]);
    assert_eq!(output.code, Some(8), "{output:?}");
    let file = TdmsFile::open(File::open(&out).unwrap()).unwrap();
    assert!(file.report().is_sound());
    assert_eq!(
        file.channels().map(|channel| channel.len()).sum::<u64>(),
        18
    );
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let files = Files::new();
    let path = files.put("run.tdms", &waveforms().0);
    let output = tdms(&["convert", &path, &files.path("a.csv")]);
    assert!(
        !output.err.contains('\r') && !output.err.contains('\u{1b}'),
        "{output:?}"
    );
}
