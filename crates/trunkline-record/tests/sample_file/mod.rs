//! Writes recordings with content made up by a test.

use std::path::Path;

use trunkline_tdms::{Arrangement, Data, TdmsType, Writer, WriterOptions};

/// Writes a file with one group `g` with the channels `a` and `b`. `set` may add properties.
pub fn write(path: &Path, rows: i64, arrangement: Arrangement, set: impl FnOnce(&mut Writer)) {
    let mut writer = Writer::new(WriterOptions::default());
    let a = writer.channel("g", "a", TdmsType::I64).unwrap();
    let b = writer.channel("g", "b", TdmsType::I16).unwrap();
    set(&mut writer);
    let numbers: Vec<i64> = (0..rows).collect();
    let shorts: Vec<i16> = (0..rows).map(|row| -(row as i16)).collect();
    let mut bytes = Vec::new();
    let data = [(a, Data::from(&numbers[..])), (b, Data::from(&shorts[..]))];
    writer.write(&data, arrangement, &mut bytes).unwrap();
    std::fs::write(path, bytes).unwrap();
}
