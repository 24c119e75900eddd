//! The content of a file, and its durable part.

/// The unsynced data that survives a power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tear {
    /// Number of bytes of each file's unsynced writes that survive.
    pub bytes: u64,
    /// The state of the bytes after them.
    pub tail: Tail,
    /// The name changes that survive: bit i represents the i-th change since the folder was synced.
    pub names: u64,
}

/// The bytes after a tear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail {
    /// The file ends at the tear.
    Truncated,
    /// The file keeps its length, and the bytes are zero.
    Zeroed,
    /// The file keeps its length, and the bytes are arbitrary.
    Garbage,
}

/// The content of a file.
#[derive(Debug, Default)]
pub struct Content {
    bytes: Vec<u8>,
    /// The content at the last sync, and the changes since.
    synced: Vec<u8>,
    changes: Vec<Change>,
    /// Number of changes that are synced.
    synced_changes: usize,
}

#[derive(Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLength(u64),
}

impl Content {
    /// Creates a file with these bytes, all synced.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            synced: bytes.clone(),
            bytes,
            ..Self::default()
        }
    }

    /// Returns the bytes as programs see them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes `piece` at `offset`.
    pub fn write(&mut self, offset: u64, piece: &[u8]) {
        put(&mut self.bytes, offset, piece);
        self.changes.push(Change::Write(offset, piece.to_vec()));
    }

    /// Truncates the file, or extends it with zeros.
    pub fn set_length(&mut self, length: u64) {
        self.bytes.resize(to_index(length), 0);
        self.changes.push(Change::SetLength(length));
    }

    /// Flips bits of a byte, like a failing disk.
    pub fn flip_bits(&mut self, offset: u64, bits: u8) {
        for bytes in [&mut self.bytes, &mut self.synced] {
            if let Some(byte) = bytes.get_mut(to_index(offset)) {
                *byte ^= bits;
            }
        }
    }

    /// Makes all changes durable.
    pub fn sync(&mut self) {
        self.synced.clone_from(&self.bytes);
        self.synced_changes += self.changes.len();
        self.changes.clear();
    }

    /// Returns the number of changes so far.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.synced_changes + self.changes.len()
    }

    /// Makes the first `changes` changes durable.
    pub fn sync_to(&mut self, changes: usize) {
        let new = changes.saturating_sub(self.synced_changes);
        for change in self.changes.drain(..new.min(self.changes.len())) {
            change.apply(&mut self.synced, usize::MAX);
            self.synced_changes += 1;
        }
    }

    /// Returns the bytes after a power loss. For each unsynced change, `kept` is called with the
    /// number of bytes that the change wrote, and returns how many of them survive, or `None` if
    /// the change is lost.
    pub fn after_power_loss(&self, mut kept: impl FnMut(usize) -> Option<usize>) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for change in &self.changes {
            let written = match change {
                Change::Write(_, piece) => piece.len(),
                Change::SetLength(_) => 0,
            };
            if let Some(kept) = kept(written) {
                change.apply(&mut bytes, kept);
            }
        }
        bytes
    }

    /// Returns the bytes after a power loss that tore the unsynced writes.
    #[must_use]
    pub fn after(&self, tear: Tear) -> Vec<u8> {
        let mut remaining = Some(to_index(tear.bytes));
        let mut bytes = self.after_power_loss(|written| {
            let kept = remaining?.min(written);
            remaining = remaining
                .filter(|_| kept == written)
                .map(|bytes| bytes - kept);
            Some(kept)
        });
        let (torn, whole) = (bytes.len(), self.bytes.len());
        if tear.tail != Tail::Truncated && torn < whole {
            bytes.resize(whole, 0);
            if tear.tail == Tail::Garbage {
                for (i, byte) in bytes.iter_mut().enumerate().skip(torn) {
                    *byte = (i as u8).wrapping_mul(167) ^ 0x5a;
                }
            }
        }
        bytes
    }
}

impl Change {
    /// Applies the change. Of a write, only the first `kept` bytes are applied.
    fn apply(&self, bytes: &mut Vec<u8>, kept: usize) {
        match self {
            Self::Write(offset, piece) => put(bytes, *offset, &piece[..kept.min(piece.len())]),
            Self::SetLength(length) => bytes.resize(to_index(*length), 0),
        }
    }
}

/// Copies `piece` into `bytes` at `offset`, and extends `bytes` with zeros if necessary.
pub fn put(bytes: &mut Vec<u8>, offset: u64, piece: &[u8]) {
    let end = to_index(offset).saturating_add(piece.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[to_index(offset)..end].copy_from_slice(piece);
}

pub(crate) fn to_index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
