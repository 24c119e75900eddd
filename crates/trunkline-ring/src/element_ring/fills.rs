//! What is in either buffer when one ring is both.

/// Capacities of a stream's two buffers, where one ring between two programs is both of them.
///
/// Nothing is moved from the one to the other. What would have been is computed: the writer's
/// buffer is emptied into the reader's as far as that has room, so
/// `transferred = min(written, read + reader)`. All in one unit, elements or bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedFills {
    /// Capacity of the writer's buffer.
    pub writer: u64,
    /// Capacity of the reader's buffer.
    pub reader: u64,
}

impl SharedFills {
    /// Capacity of the ring that is both.
    #[must_use]
    pub const fn capacity(self) -> u64 {
        self.writer.saturating_add(self.reader)
    }

    /// What has reached the reader's buffer of `written` since the beginning, when `read` of it has
    /// been taken out.
    #[must_use]
    pub const fn transferred(self, written: u64, read: u64) -> u64 {
        let reach = read.saturating_add(self.reader);
        if written < reach { written } else { reach }
    }

    /// What lies in the writer's buffer.
    #[must_use]
    pub const fn in_writer(self, written: u64, read: u64) -> u64 {
        written.saturating_sub(self.transferred(written, read))
    }

    /// What lies in the reader's buffer.
    #[must_use]
    pub const fn in_reader(self, written: u64, read: u64) -> u64 {
        self.transferred(written, read).saturating_sub(read)
    }
}
