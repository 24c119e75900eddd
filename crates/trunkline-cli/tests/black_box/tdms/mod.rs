//! `trunkline tdms`: files of measured values, without an engine.

mod damaged;
mod exporting;
mod hostile;
mod large;
mod mending;
mod reading;
mod summing;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tempfile::TempDir;
use trunkline_tdms::{
    Arrangement, ObjectPath, TdmsTime, TdmsType, Text, Waveform, Writer, WriterOptions, index_of,
};
use trunkline_types::Timestamp;

use crate::rig::{Output, run};
use crate::schema;

/// 2026-01-01T00:00:00Z.
const NEW_YEAR: Timestamp = Timestamp::from_nanos(1_767_225_600_000_000_000);

/// A folder with the files of one test.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        path.to_str().unwrap().to_owned()
    }

    fn put(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The names in the folder.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

fn tdms(arguments: &[&str]) -> Output {
    run(&[&["tdms"], arguments].concat())
}

/// Asserts that a line matches the documentation.
fn check(line: &Json, name: &str) {
    let schema = &schema::documented()["$defs"][name];
    schema::check(line, schema).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
}

fn read(path: &str) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// A file of the worked examples.
fn vector(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/tdms");
    folder.join(name).to_str().unwrap().to_owned()
}

/// Two channels of one waveform in three segments of four rows; and where each segment begins.
///
/// Row `n` has the voltage n / 2 and the count n, at n ms in the new year.
pub fn waveforms() -> (Vec<u8>, Vec<u8>, Vec<usize>) {
    let mut writer = Writer::new(WriterOptions::default());
    let volts = writer.channel("daq", "volts", TdmsType::F64).unwrap();
    let count = writer.channel("daq", "count", TdmsType::I32).unwrap();
    let waveform = Waveform {
        start: Some(NEW_YEAR.into()),
        increment: 0.001,
        ..Waveform::default()
    };
    for name in ["volts", "count"] {
        for (key, value) in waveform.to_properties() {
            let path = ObjectPath::channel("daq", name);
            writer.set(&path, key, value).unwrap();
        }
    }
    let path = ObjectPath::channel("daq", "volts");
    writer.set(&path, "unit_string", "V").unwrap();
    writer.set(&ObjectPath::File, "dut", "A17").unwrap();
    let (mut bytes, mut index, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for segment in 0..3_i32 {
        let rows: Vec<i32> = (4 * segment..4 * segment + 4).collect();
        let halves: Vec<f64> = rows.iter().map(|n| f64::from(*n) / 2.0).collect();
        places.push(bytes.len());
        let data = [(volts, (&halves[..]).into()), (count, (&rows[..]).into())];
        let place = writer
            .write(&data, Arrangement::Contiguous, &mut bytes)
            .unwrap();
        let header = &bytes[places[places.len() - 1]..][..place.header_bytes as usize];
        index.extend(index_of(header));
    }
    (bytes, index, places)
}

/// Channels of every kind of cell, with names that are hard to write.
fn mixture() -> Vec<u8> {
    let mut writer = Writer::new(WriterOptions::default());
    let names = ["plain", "Dr. T's", "a/b", "two\nlines", "100%", ""];
    let texts = writer.channel("g", names[0], TdmsType::String).unwrap();
    let floats = writer.channel("g", names[1], TdmsType::F64).unwrap();
    let flags = writer.channel("x/y", names[2], TdmsType::Bool).unwrap();
    let times = writer.channel("g", names[3], TdmsType::Time).unwrap();
    let pairs = writer.channel("g", names[4], TdmsType::ComplexF64).unwrap();
    let large = writer.channel("", names[5], TdmsType::U64).unwrap();
    let strings = ["one", "", "a,\"b\"\nc"].map(Text::from);
    let times_of = [TdmsTime::from(NEW_YEAR)];
    let data = [
        (texts, (&strings[..]).into()),
        (floats, (&[1.5, f64::NAN, f64::INFINITY][..]).into()),
        (flags, (&[true, false][..]).into()),
        (times, (&times_of[..]).into()),
        (pairs, (&[[1.0, -2.0]][..]).into()),
        (large, (&[u64::MAX][..]).into()),
    ];
    let mut bytes = Vec::new();
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    bytes
}
