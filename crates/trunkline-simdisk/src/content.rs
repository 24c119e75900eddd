//! Simulates the content of a file, and the part of the content that survives a power loss.

/// The unsynced data that survives a power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tear {
    /// Number of bytes of each file's unsynced writes that survive.
    pub bytes: u64,
    /// The state of the bytes after the surviving bytes.
    pub tail: Tail,
    /// The changes of file names that survive: bit i represents the i-th change since the last sync of the
    /// folder.
    pub names: u64,
}

/// The state of the bytes after a tear.
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
    /// Content at the last sync.
    synced: Vec<u8>,
    /// Changes since the last sync.
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

    /// Flips bits of a byte, as a failing disk does.
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

    /// Returns the bytes after a power loss. Calls `surviving` for each unsynced change with the number of
    /// bytes that the change wrote. `surviving` returns the number of these bytes that survive, or `None`
    /// if the change is lost.
    pub fn after_power_loss(&self, mut surviving: impl FnMut(usize) -> Option<usize>) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for change in &self.changes {
            let written = match change {
                Change::Write(_, piece) => piece.len(),
                Change::SetLength(_) => 0,
            };
            if let Some(surviving) = surviving(written) {
                change.apply(&mut bytes, surviving);
            }
        }
        bytes
    }

    /// Returns the bytes after a power loss that tore the unsynced writes.
    #[must_use]
    pub fn after(&self, tear: Tear) -> Vec<u8> {
        let mut remaining = Some(to_index(tear.bytes));
        let mut bytes = self.after_power_loss(|written| {
            let surviving = remaining?.min(written);
            remaining = remaining
                .filter(|_| surviving == written)
                .map(|bytes| bytes - surviving);
            Some(surviving)
        });
        let (torn_length, full_length) = (bytes.len(), self.bytes.len());
        if tear.tail != Tail::Truncated && torn_length < full_length {
            bytes.resize(full_length, 0);
            if tear.tail == Tail::Garbage {
                for (i, byte) in bytes.iter_mut().enumerate().skip(torn_length) {
                    *byte = (i as u8).wrapping_mul(167) ^ 0x5a;
                }
            }
        }
        bytes
    }
}

impl Change {
    /// Applies the change. Applies only the first `length_max` bytes of a write.
    fn apply(&self, bytes: &mut Vec<u8>, length_max: usize) {
        match self {
            Self::Write(offset, piece) => {
                put(bytes, *offset, &piece[..length_max.min(piece.len())])
            }
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
