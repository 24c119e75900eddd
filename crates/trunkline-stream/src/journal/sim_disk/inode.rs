//! A file of a simulated disk: its content, and the durable part.

/// The unsynced data that is left after a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tear {
    /// Bytes of each file's unsynced writes that are left intact.
    pub bytes: u64,
    /// The state of the bytes after them.
    pub rest: Rest,
    /// The changes of names that are kept: bit i is the i-th change since the folder was synced.
    pub names: u64,
}

/// The bytes after a tear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// The file ends at the tear.
    Gone,
    /// The file keeps its length, and the bytes are zero.
    Zeroes,
    /// The file keeps its length, and the bytes are arbitrary.
    Nonsense,
}

#[derive(Debug, Default)]
pub(super) struct Inode {
    pub(super) bytes: Vec<u8>,
    /// The content at the last sync, and the writes since.
    pub(super) safe: Vec<u8>,
    pub(super) writes: Vec<Write>,
}

#[derive(Debug)]
pub(super) enum Write {
    At(u64, Vec<u8>),
    Truncate(u64),
}

pub(super) fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

fn put(bytes: &mut Vec<u8>, offset: u64, piece: &[u8]) {
    let end = at(offset).saturating_add(piece.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at(offset)..end].copy_from_slice(piece);
}

impl Inode {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        put(&mut self.bytes, offset, bytes);
        self.writes.push(Write::At(offset, bytes.to_vec()));
    }

    pub(super) fn after(&self, tear: Tear) -> Vec<u8> {
        let mut bytes = self.safe.clone();
        let mut left = tear.bytes;
        let mut writes = self.writes.iter();
        for write in writes.by_ref() {
            match write {
                Write::At(offset, piece) => {
                    let kept = left.min(piece.len() as u64);
                    put(&mut bytes, *offset, &piece[..at(kept)]);
                    left -= kept;
                    if kept < piece.len() as u64 {
                        break;
                    }
                }
                Write::Truncate(len) => bytes.truncate(at(*len)),
            }
        }
        let whole = self.bytes.len();
        if tear.rest != Rest::Gone && bytes.len() < whole {
            let torn = bytes.len();
            bytes.resize(whole, 0);
            if tear.rest == Rest::Nonsense {
                for (i, byte) in bytes.iter_mut().enumerate().skip(torn) {
                    *byte = (i as u8).wrapping_mul(167) ^ 0x5a;
                }
            }
        }
        bytes
    }
}
