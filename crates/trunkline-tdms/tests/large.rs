//! Checks that files longer than memory are read without loading them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::cell::Cell;
use std::io;

use trunkline_tdms::{
    Arrangement, ChannelAmount, ObjectPath, ReadAt, TdmsFile, TdmsType, Writer, WriterOptions,
};

/// A file with computed data, in which each value is the number of the value.
struct Computed {
    header: Vec<u8>,
    values: u64,
    /// Number of bytes requested.
    asked: Cell<u64>,
}

impl ReadAt for Computed {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.header.len() as u64 + 8 * self.values)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.asked.set(self.asked.get() + buffer.len() as u64);
        let len = self.byte_len()?;
        let there = len.saturating_sub(position).min(buffer.len() as u64) as usize;
        for (byte, at) in buffer.iter_mut().take(there).zip(position..) {
            *byte = match self.header.get(at as usize) {
                Some(byte) => *byte,
                None => {
                    let at = at - self.header.len() as u64;
                    (at / 8).to_le_bytes()[(at % 8) as usize]
                }
            };
        }
        Ok(there)
    }
}

#[test]
fn any_value_of_a_file_of_a_terabyte_is_read_with_few_bytes() {
    for arrangement in [Arrangement::Contiguous, Arrangement::Interleaved] {
        let rows: u64 = 1 << 36;
        let mut writer = Writer::new(WriterOptions::default());
        let amounts = ["a", "b"].map(|name| ChannelAmount {
            channel: writer.channel("g", name, TdmsType::U64).unwrap(),
            count: rows,
            bytes: 0,
        });
        let mut header = Vec::new();
        writer.header(&amounts, arrangement, &mut header).unwrap();
        let source = Computed {
            header,
            values: 2 * rows,
            asked: Cell::new(0),
        };
        let file = TdmsFile::open(&source).unwrap();
        assert!(file.report().is_sound());
        let b = file.channel(&ObjectPath::channel("g", "b")).unwrap();
        assert_eq!(b.len(), rows);
        for start in [0, rows / 2 + 1, rows - 3] {
            let mut out = [0_u64; 3];
            assert_eq!(b.read_into(start, &mut out).unwrap(), 3);
            let expected = [0, 1, 2].map(|at| match arrangement {
                Arrangement::Contiguous => rows + start + at,
                Arrangement::Interleaved => 2 * (start + at) + 1,
            });
            assert_eq!(out, expected);
        }
        assert!(source.asked.get() < 1_000, "{} bytes", source.asked.get());
    }
}

#[test]
fn early_end_of_the_source_is_an_error_with_its_position() {
    let mut writer = Writer::new(WriterOptions::default());
    let channel = writer.channel("g", "a", TdmsType::U64).unwrap();
    let mut bytes = Vec::new();
    let data = [(channel, (&[1_u64, 2, 3]).into())];
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    /// A source that reports a length greater than its real length.
    struct Shrunk(Vec<u8>);
    impl ReadAt for Shrunk {
        fn byte_len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64 + 8)
        }

        fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
            self.0.read_at(buffer, position)
        }
    }
    bytes.truncate(bytes.len() - 8);
    let place = bytes.len() - 16;
    let file = TdmsFile::open(Shrunk(bytes)).unwrap();
    let a = file.channel(&ObjectPath::channel("g", "a")).unwrap();
    let error = a.read(0, 3).unwrap_err().to_string();
    let expected = format!("cannot read /'g'/'a' at byte {place}: unexpected end of file");
    assert_eq!(error, expected);
}
