//! Checks the invariants of a stream with journals under any crashes, independently of the code under
//! test.

/// The reports to the two programs, and the actions of the programs. Positions are in bytes.
#[derive(Debug, Default)]
pub struct Model {
    /// Position up to which data was reported to the writing program as written.
    pub written: u64,
    /// Position up to which the writing program has tried to write.
    pub tried: u64,
    /// Position up to which data was reported to the writer as durable.
    pub durable: u64,
    /// Position up to which data was reported to the reading program as committed.
    pub committed: u64,
    /// Position up to which the reading program has tried to commit.
    pub commit_tried: u64,
    /// The bytes of the stream that the reading program has received, without repetitions.
    pub received: Vec<u8>,
}

/// Returns the byte of the stream at a position, which depends only on the position.
pub fn byte(position: u64) -> u8 {
    let mixed = position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8 ^ mixed as u8
}

/// Returns a range of the stream.
pub fn bytes(from: u64, to: u64) -> Vec<u8> {
    (from..to).map(byte).collect()
}

impl Model {
    /// Called when the writer has restarted. It continues at `written`, with the bytes from `kept` on.
    /// `forgets` is true if power failed and the writer's durability does not survive that.
    pub fn writer_is_back(&self, kept: u64, written: u64, forgets: bool) {
        assert!(kept <= written);
        assert!(
            kept <= self.durable,
            "{kept} bytes are gone from the writer, and {} are safe with the reader",
            self.durable
        );
        assert!(written <= self.tried, "what was never written is there");
        assert!(
            forgets || written >= self.written,
            "lost: {written} of the {} bytes that were written",
            self.written
        );
    }

    /// Called when the reader has restarted. `forgets` is true if power failed and the reader's commits
    /// do not survive that.
    pub fn reader_is_back(&mut self, read: u64, arrived: u64, left: &[u8], forgets: bool) {
        assert!(read <= arrived);
        assert!(
            arrived >= self.durable,
            "lost: {arrived} of the {} bytes that were said to be safe",
            self.durable
        );
        assert!(arrived <= self.tried, "what was never written has arrived");
        assert_eq!(left, bytes(read, arrived), "bytes {read} to {arrived}");
        assert!(read <= self.commit_tried, "what was not read is committed");
        assert!(forgets || read >= self.committed, "doubled: back at {read}");
        assert!(read <= self.received.len() as u64);
        // The program has all committed data, and gets the remaining data again.
        self.received.truncate(read as usize);
        self.committed = read;
    }

    /// Called when the reading program has received these bytes.
    pub fn receive(&mut self, from: u64, received: &[u8]) {
        assert_eq!(from, self.received.len() as u64, "lost or doubled");
        self.received.extend_from_slice(received);
    }

    /// Checks at the end that the reading program has everything.
    pub fn finish(&self, total: u64) {
        assert_eq!(self.received, bytes(0, total));
    }
}
