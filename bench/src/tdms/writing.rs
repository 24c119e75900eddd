//! R4: many small segments of 1,000 channels with 100 values each.

use std::fs::File;
use std::io::Write as _;

use trunkline_tdms::{Arrangement, Data, TdmsFile, TdmsType, Writer, WriterOptions};

use super::{Passes, RAW_FILE, WRITING, time};
use crate::Outcome;
use crate::cells::TRUNKLINE;
use crate::record::Row;
use crate::settings::Settings;
use crate::streams::disk;

const CHANNELS: usize = 1000;
const VALUES: usize = 100;
/// Segments of a file.
pub const SEGMENTS: usize = 50;

/// Measures one system: whole files created, written into the page cache and closed.
pub fn cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let segments: usize = settings.value("segments")?;
    let mut row = Row::new(WRITING, system, "what=segments".to_owned(), placement);
    row.waiting = "none".to_owned();
    let folder = disk::folder()?;
    let path = folder.path().join("written.tdms");
    let columns: Vec<Vec<f64>> = (0..CHANNELS)
        .map(|channel| {
            let values = (0..VALUES).map(|value| (channel * VALUES + value) as f64);
            values.collect()
        })
        .collect();
    let payload = (segments * CHANNELS * VALUES * 8) as u64;
    let passes = match system {
        RAW_FILE => Passes::of(time(settings)?, || {
            let mut file = File::create(&path)?;
            let mut segment = Vec::new();
            for _ in 0..segments {
                // Collected like a segment.
                segment.clear();
                for column in &columns {
                    segment.extend_from_slice(bytemuck::cast_slice(column));
                }
                file.write_all(&segment)?;
            }
            Ok(())
        })?,
        TRUNKLINE => Passes::of(time(settings)?, || {
            let mut file = File::create(&path)?;
            let mut writer = Writer::new(WriterOptions::default());
            let ids: Vec<_> = (0..CHANNELS)
                .map(|channel| writer.channel("g", format!("c{channel}"), TdmsType::F64))
                .collect::<Result<_, _>>()?;
            let data: Vec<(_, Data<'_>)> = ids
                .iter()
                .zip(&columns)
                .map(|(id, column)| (*id, column.as_slice().into()))
                .collect();
            let mut segment = Vec::new();
            for _ in 0..segments {
                segment.clear();
                writer.write(&data, Arrangement::Contiguous, &mut segment)?;
                file.write_all(&segment)?;
            }
            Ok(())
        })?,
        _ => return Err(format!("there is no system {system}").into()),
    };
    passes.enter(payload, &mut row);
    let values = (payload / 8 * passes.count) as f64;
    row.figure("values_per_s", values / passes.seconds);
    let length = std::fs::metadata(&path)?.len();
    row.figure("file_per_payload", length as f64 / payload as f64);
    if system == TRUNKLINE {
        let file = TdmsFile::open(File::open(&path)?)?;
        let all: u64 = file.channels().map(|channel| channel.len()).sum();
        row.require(file.report().is_sound() && all == payload / 8, || {
            "the file does not hold what was written".to_owned()
        });
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_many_segments_is_hardly_larger_than_its_values() {
        let settings = Settings::default().with("segments", 20).with("ms", 0);
        for system in super::super::SYSTEMS {
            let row = cell(system, &settings, "cross").unwrap();
            assert!(row.invalid.is_empty(), "{row:?}");
            let share = row.figures["file_per_payload"];
            assert!((1.0..=1.1).contains(&share), "{system}: {share}");
        }
    }
}
