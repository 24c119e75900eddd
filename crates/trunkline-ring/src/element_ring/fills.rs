//! Fill levels of a stream's two buffers when one ring serves as both.

/// Capacities of a stream's two buffers, when one ring between two programs serves as both.
///
/// No data is moved between the buffers. The fill levels are computed as if the content of the
/// writer's buffer were moved into the reader's buffer whenever there is room:
/// `transferred = min(written, read + reader)`. All numbers have the same unit, elements or bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedFills {
    /// Capacity of the writer's buffer.
    pub writer: u64,
    /// Capacity of the reader's buffer.
    pub reader: u64,
}

impl SharedFills {
    /// Returns the capacity of the ring that serves as both buffers.
    pub const fn capacity(self) -> u64 {
        self.writer.saturating_add(self.reader)
    }

    /// Returns the amount that has reached the reader's buffer since the beginning, given the
    /// amounts `written` and `read` since the beginning.
    pub const fn transferred(self, written: u64, read: u64) -> u64 {
        let reach = read.saturating_add(self.reader);
        if written < reach { written } else { reach }
    }

    /// Returns the amount in the writer's buffer.
    pub const fn in_writer(self, written: u64, read: u64) -> u64 {
        written.saturating_sub(self.transferred(written, read))
    }

    /// Returns the amount in the reader's buffer.
    pub const fn in_reader(self, written: u64, read: u64) -> u64 {
        self.transferred(written, read).saturating_sub(read)
    }
}
