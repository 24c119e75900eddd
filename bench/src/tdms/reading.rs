//! R3: a whole channel read into memory, and slices of one.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use tempfile::TempDir;
use trunkline_tdms::{
    Arrangement, Channel, Data, ObjectPath, ReadAt, TdmsFile, TdmsType, Writer, WriterOptions,
};

use super::{Passes, RAW_FILE, READING, time};
use crate::Outcome;
use crate::cells::TRUNKLINE;
use crate::record::Row;
use crate::settings::Settings;
use crate::streams::disk;

/// All values of the only channel.
pub const WHOLE: &str = "whole";
/// All values of the only channel, into memory allocated for each pass, as npTDMS does.
pub const FRESH: &str = "fresh";
/// All values of four interleaved channels.
pub const INTERLEAVED: &str = "interleaved";
/// Slices of the only channel.
pub const SLICES: &str = "slices";
pub const WHATS: [&str; 4] = [WHOLE, FRESH, INTERLEAVED, SLICES];

/// Values of f64 in a segment: 1 MiB.
const PER_SEGMENT: usize = 1 << 17;
const CHANNELS: usize = 4;
/// Values per slice, and slices per pass.
const SLICE: usize = 1000;
const SLICES_A_PASS: u64 = 1000;
/// Bytes per raw read.
const PIECE_BYTES: usize = 1 << 20;

/// A file and the positions of its values.
struct Specimen {
    _folder: TempDir,
    path: PathBuf,
    channels: usize,
    /// Values of all channels.
    values: usize,
    /// Offsets at which the values of each segment begin.
    places: Vec<u64>,
}

impl Specimen {
    /// Creates a file whose value `n`, row by row, is `n`.
    fn new(what: &str, segments: usize) -> Outcome<Self> {
        let folder = disk::folder()?;
        let path = folder.path().join("specimen.tdms");
        let file = File::create(&path)?;
        let channels = if what == INTERLEAVED { CHANNELS } else { 1 };
        let mut writer = Writer::new(WriterOptions::default());
        let ids: Vec<_> = (0..channels)
            .map(|at| writer.channel("g", name(at), TdmsType::F64))
            .collect::<Result<_, _>>()?;
        let (mut next, mut places) = (0, Vec::new());
        for _ in 0..segments {
            let mut columns = vec![Vec::with_capacity(PER_SEGMENT / channels); channels];
            for at in 0..PER_SEGMENT {
                columns[at % channels].push((next + at) as f64);
            }
            next += PER_SEGMENT;
            let columns = ids.iter().zip(&columns);
            let data: Vec<(_, Data<'_>)> = columns
                .map(|(id, column)| (*id, column.as_slice().into()))
                .collect();
            let arrangement = match channels {
                1 => Arrangement::Contiguous,
                _ => Arrangement::Interleaved,
            };
            let mut bytes = Vec::new();
            let place = writer.write(&data, arrangement, &mut bytes)?;
            file.write_all_at(&bytes, place.position)?;
            places.push(place.position + place.header_bytes);
        }
        Ok(Self {
            _folder: folder,
            path,
            channels,
            values: next,
            places,
        })
    }

    fn bytes(&self) -> u64 {
        self.values as u64 * 8
    }
}

fn name(channel: usize) -> String {
    format!("c{channel}")
}

/// A file that counts the bytes read.
struct Watched {
    file: File,
    bytes: Cell<u64>,
}

impl ReadAt for Watched {
    fn byte_len(&self) -> io::Result<u64> {
        self.file.byte_len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let read = ReadAt::read_at(&self.file, buffer, position)?;
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }
}

/// Measures one system.
pub fn cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let what: String = settings.value("what")?;
    let mut row = Row::new(READING, system, format!("what={what}"), placement);
    row.waiting = "none".to_owned();
    let specimen = Specimen::new(&what, settings.value("segments")?)?;
    match (system, what.as_str()) {
        (RAW_FILE, SLICES) => raw_slices(&specimen, settings, &mut row)?,
        (RAW_FILE, _) => raw(&specimen, settings, &mut row)?,
        (TRUNKLINE, SLICES) => slices(&specimen, settings, &mut row)?,
        (TRUNKLINE, _) => whole(&specimen, settings, &mut row)?,
        _ => return Err(format!("there is no system {system}").into()),
    }
    Ok(row)
}

/// Returns true if each pass reads into newly allocated memory. Otherwise all passes share memory,
/// whose pages exist after the first, unmeasured pass.
fn is_fresh(settings: &Settings) -> Outcome<bool> {
    Ok(settings.value::<String>("what")? == FRESH)
}

/// Reads the bytes of the values, segment by segment.
fn raw(specimen: &Specimen, settings: &Settings, row: &mut Row) -> Outcome<()> {
    let file = File::open(&specimen.path)?;
    let is_fresh = is_fresh(settings)?;
    let mut values = vec![0.0_f64; specimen.values];
    let passes = Passes::of(time(settings)?, || {
        if is_fresh {
            // Drops the old one first, so that two never exist.
            drop(std::mem::take(&mut values));
            values = vec![0.0; specimen.values];
            trunkline_ring::advise_large_pages(bytemuck::cast_slice_mut(&mut values));
        }
        let segments = values.chunks_mut(PER_SEGMENT).zip(&specimen.places);
        for (segment, place) in segments {
            let pieces = bytemuck::cast_slice_mut(segment).chunks_mut(PIECE_BYTES);
            for (piece, at) in pieces.zip(0..) {
                FileExt::read_exact_at(&file, piece, place + at * PIECE_BYTES as u64)?;
            }
        }
        Ok(())
    })?;
    passes.enter(specimen.bytes(), row);
    let are_right = values.iter().zip(0_u32..).all(|(v, n)| *v == f64::from(n));
    row.require(are_right, || "other values were read".to_owned());
    Ok(())
}

fn channel<R: ReadAt>(file: &TdmsFile<R>, at: usize) -> Outcome<Channel<'_, R>> {
    let path = ObjectPath::channel("g", name(at));
    Ok(file.channel(&path).ok_or("a channel is missing")?)
}

/// Opens the file and reads every channel.
fn whole(specimen: &Specimen, settings: &Settings, row: &mut Row) -> Outcome<()> {
    let per_channel = specimen.values / specimen.channels;
    let is_fresh = is_fresh(settings)?;
    let mut columns = vec![vec![0.0_f64; per_channel]; specimen.channels];
    let passes = Passes::of(time(settings)?, || {
        let file = TdmsFile::open(File::open(&specimen.path)?)?;
        for (at, column) in columns.iter_mut().enumerate() {
            let channel = channel(&file, at)?;
            if is_fresh {
                // Drops the old one first, so that two never exist.
                drop(std::mem::take(column));
                *column = channel.read_vec(0, per_channel as u64)?;
            } else {
                channel.read_into(0, column)?;
            }
        }
        Ok(())
    })?;
    passes.enter(specimen.bytes(), row);
    let stride = specimen.channels;
    let mut all = columns.iter().enumerate().flat_map(|(first, column)| {
        let values = column.iter().enumerate();
        values.map(move |(n, value)| *value == (n * stride + first) as f64)
    });
    row.require(all.all(|is_right| is_right), || {
        "other values were read".to_owned()
    });
    Ok(())
}

/// Generates starts of slices all over the file, never the same twice in a row.
fn starts(values: usize) -> impl FnMut() -> usize {
    let room = (values - SLICE) as u64;
    let mut state: u64 = 1;
    move || {
        // Knuth's constants for 64 bits; the upper half varies.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 32) % (room + 1)) as usize
    }
}

fn enter_slices(passes: &Passes, row: &mut Row) {
    let slices = passes.count * SLICES_A_PASS;
    passes.enter(SLICES_A_PASS * SLICE as u64 * 8, row);
    row.figure("us_per_slice", passes.seconds * 1e6 / slices as f64);
}

fn raw_slices(specimen: &Specimen, settings: &Settings, row: &mut Row) -> Outcome<()> {
    let file = File::open(&specimen.path)?;
    let mut values = [0.0_f64; SLICE];
    let mut next = starts(specimen.values);
    let first = specimen.places.first().copied().unwrap_or(0);
    let passes = Passes::of(time(settings)?, || {
        for _ in 0..SLICES_A_PASS {
            let place = first + next() as u64 * 8;
            FileExt::read_exact_at(&file, bytemuck::cast_slice_mut(&mut values), place)?;
        }
        Ok(())
    })?;
    enter_slices(&passes, row);
    Ok(())
}

fn slices(specimen: &Specimen, settings: &Settings, row: &mut Row) -> Outcome<()> {
    let file = TdmsFile::open(Watched {
        file: File::open(&specimen.path)?,
        bytes: Cell::new(0),
    })?;
    let channel = channel(&file, 0)?;
    let mut values = [0.0_f64; SLICE];
    let mut next = starts(specimen.values);
    let (mut wrong, mut wanted) = (0_u64, 0_u64);
    let before = file.source().bytes.get();
    let passes = Passes::of(time(settings)?, || {
        for _ in 0..SLICES_A_PASS {
            let start = next();
            channel.read_into(start as u64, &mut values)?;
            wanted += SLICE as u64 * 8;
            wrong += u64::from(values[0] != start as f64);
            wrong += u64::from(values[SLICE - 1] != (start + SLICE - 1) as f64);
        }
        Ok(())
    })?;
    enter_slices(&passes, row);
    let read = file.source().bytes.get() - before;
    row.figure("bytes_read_per_byte", read as f64 / wanted as f64);
    row.require(wrong == 0, || format!("{wrong} other values were read"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_systems_read_everything_and_slices_only_their_part() {
        for what in WHATS {
            for system in super::super::SYSTEMS {
                let settings = Settings::default()
                    .with("what", what)
                    .with("segments", 2)
                    .with("ms", 0);
                let row = cell(system, &settings, "cross").unwrap();
                assert!(row.invalid.is_empty(), "{row:?}");
                assert!(row.figures["mb_per_s"] > 0.0);
                if (system, what) == (TRUNKLINE, SLICES) {
                    assert_eq!(row.figures["bytes_read_per_byte"], 1.0);
                }
            }
        }
        assert!(cell("nobody", &Settings::default().with("what", WHOLE), "cross").is_err());
    }
}
