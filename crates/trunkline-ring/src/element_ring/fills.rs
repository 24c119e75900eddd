//! Fill levels of a stream's two buffers when one ring is both.

/// Capacities of a stream's two buffers, where one ring between two programs is both of them.
///
/// No data is moved between the buffers. The fill levels are computed as if the writer's buffer
/// were emptied into the reader's as far as there is room, so
/// `transferred = min(written, read + reader)`. All numbers have the same unit, elements or bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedFills {
    /// Capacity of the writer's buffer.
    pub writer: u64,
    /// Capacity of the reader's buffer.
    pub reader: u64,
}

impl SharedFills {
    /// Capacity of the ring that serves as both buffers.
    pub const fn capacity(self) -> u64 {
        self.writer.saturating_add(self.reader)
    }

    /// Amount that has reached the reader's buffer since the beginning, if `written` was written
    /// and `read` was taken out.
    pub const fn transferred(self, written: u64, read: u64) -> u64 {
        let reach = read.saturating_add(self.reader);
        if written < reach { written } else { reach }
    }

    /// Amount in the writer's buffer.
    pub const fn in_writer(self, written: u64, read: u64) -> u64 {
        written.saturating_sub(self.transferred(written, read))
    }

    /// Amount in the reader's buffer.
    pub const fn in_reader(self, written: u64, read: u64) -> u64 {
        self.transferred(written, read).saturating_sub(read)
    }
}
