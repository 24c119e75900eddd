//! Tests values that are read into memory that the reader allocates.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::io;

use trunkline_tdms::{
    Arrangement, ChannelAmount, ObjectPath, ReadAt, ReadError, TdmsFile, TdmsType, Writer,
    WriterOptions,
};

const CHANNEL: (&str, &str) = ("g", "c");

fn path() -> ObjectPath {
    ObjectPath::channel(CHANNEL.0, CHANNEL.1)
}

fn file_of(values: &[u16]) -> Vec<u8> {
    let mut writer = Writer::new(WriterOptions::default());
    let channel = writer.channel(CHANNEL.0, CHANNEL.1, TdmsType::U16).unwrap();
    let mut bytes = Vec::new();
    for piece in values.chunks(3) {
        let data = [(channel, piece.into())];
        writer
            .write(&data, Arrangement::Contiguous, &mut bytes)
            .unwrap();
    }
    bytes
}

#[test]
fn vector_has_exactly_the_existing_values() {
    let values: Vec<u16> = (10..20).collect();
    let bytes = file_of(&values);
    let file = TdmsFile::open(&bytes).unwrap();
    let channel = file.channel(&path()).unwrap();
    for (start, count) in [
        (0, 10),
        (0, u64::MAX),
        (2, 5),
        (9, 1),
        (9, 2),
        (10, 1),
        (50, 1),
    ] {
        let read: Vec<u16> = channel.read_vec(start, count).unwrap();
        let expected = values.iter().skip(start as usize);
        let expected: Vec<u16> = expected.take(count.min(10) as usize).copied().collect();
        assert_eq!(read, expected, "{count} from {start}");
    }
    let error = channel.read_vec::<f64>(0, 1).unwrap_err();
    assert!(matches!(error, ReadError::WrongType { .. }), "{error}");
}

/// A file of many values, whose source checks the memory that it fills.
#[cfg(target_os = "linux")]
mod pages {
    use std::cell::RefCell;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Number of values; they need more memory than an allocator keeps for later allocations.
    const VALUES: u64 = 8 << 20;

    struct Looking {
        header: Vec<u8>,
        /// The system's description of the mapping with the values, before the first is written.
        mapping: RefCell<Option<Vec<String>>>,
    }

    impl ReadAt for Looking {
        fn byte_len(&self) -> io::Result<u64> {
            Ok(self.header.len() as u64 + 8 * VALUES)
        }

        fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
            if let Some(header) = self.header.get(position as usize..)
                && !header.is_empty()
            {
                let count = header.len().min(buffer.len());
                buffer[..count].copy_from_slice(&header[..count]);
                return Ok(count);
            }
            let mut mapping = self.mapping.borrow_mut();
            mapping.get_or_insert_with(|| mapping_of(buffer));
            drop(mapping);
            buffer.fill(1);
            Ok(buffer.len())
        }
    }

    fn mapping_of(memory: &[u8]) -> Vec<String> {
        let middle = memory.as_ptr().addr() + memory.len() / 2;
        let has_middle = |line: &str| {
            let range = line.split_whitespace().next()?.split_once('-')?;
            let first = usize::from_str_radix(range.0, 16).ok()?;
            let end = usize::from_str_radix(range.1, 16).ok()?;
            Some((first..end).contains(&middle))
        };
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let lines = maps
            .lines()
            .skip_while(|line| has_middle(line) != Some(true));
        let of_this = lines.skip(1).take_while(|line| has_middle(line).is_none());
        of_this.map(str::to_owned).collect()
    }

    #[test]
    fn new_memory_is_in_large_pages_and_is_not_touched_before_it_is_read_into() {
        let mut writer = Writer::new(WriterOptions::default());
        let amount = ChannelAmount {
            channel: writer.channel(CHANNEL.0, CHANNEL.1, TdmsType::U64).unwrap(),
            count: VALUES,
            bytes: 0,
        };
        let mut header = Vec::new();
        let arrangement = Arrangement::Contiguous;
        writer.header(&[amount], arrangement, &mut header).unwrap();
        let source = Looking {
            header,
            mapping: RefCell::default(),
        };
        let file = TdmsFile::open(&source).unwrap();
        let values: Vec<u64> = file.channel(&path()).unwrap().read_vec(0, VALUES).unwrap();

        assert_eq!(values.len() as u64, VALUES);
        let ones = u64::from_le_bytes([1; 8]);
        assert!(values.iter().all(|value| *value == ones));
        let mapping = source.mapping.take().unwrap();
        let field = |name: &str| {
            let line = mapping.iter().find(|line| line.starts_with(name));
            line.unwrap_or_else(|| panic!("no {name} in {mapping:?}"))
        };
        assert_eq!(field("Rss:").split_whitespace().nth(1), Some("0"));
        if Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            assert!(
                field("VmFlags:")
                    .split_whitespace()
                    .any(|flag| flag == "hg")
            );
        } else {
            eprintln!("skipped in part, because this system has no large pages");
        }
    }
}
