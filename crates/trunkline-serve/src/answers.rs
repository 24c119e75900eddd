//! Buffers the output frames that are not updates: answers, keep-alives and GOODBYE.

use std::collections::VecDeque;

use trunkline_proto::frame::split_oversized;

/// Maximum capacity in bytes of an empty buffer that is retained for reuse.
const RETAINED_BYTES_MAX: usize = 128 << 10;

/// Maximum size in bytes of a queued buffer to which more frames are appended.
const JOINED_BYTES_MAX: usize = 64 << 10;

/// Frames to send before any update.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Whole frames that have not been split into parts, in order.
    pub(crate) frames: Vec<u8>,
    /// Frames that did not fit into the output, already split into parts. A long answer stays in its
    /// buffer, because there may not be enough memory for a copy.
    waiting: VecDeque<Vec<u8>>,
    /// Total size of `waiting` in bytes.
    waiting_bytes: usize,
    /// Number of bytes already sent from the first waiting buffer.
    sent: usize,
}

impl Answers {
    /// Returns the number of unsent bytes.
    pub(crate) fn len(&self) -> usize {
        self.frames.len() + self.waiting_bytes - self.sent
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves at most `room` bytes to the end of `out`. Frames longer than `frame_max` are split
    /// into parts.
    pub(crate) fn send(&mut self, out: &mut Vec<u8>, mut room: usize, frame_max: u32) {
        split_oversized(&mut self.frames, 0, frame_max);
        if self.waiting.is_empty() && self.frames.len() <= room {
            out.append(&mut self.frames);
            if self.frames.capacity() > RETAINED_BYTES_MAX {
                self.frames = Vec::new();
            }
            return;
        }
        self.queue();
        while let Some(first) = self.waiting.front() {
            let unsent = first.get(self.sent..).unwrap_or_default();
            let part = unsent.get(..room).unwrap_or(unsent);
            out.extend_from_slice(part);
            self.sent += part.len();
            room -= part.len();
            if self.sent < first.len() {
                break;
            }
            self.waiting_bytes -= self.sent;
            self.sent = 0;
            self.waiting.pop_front();
        }
    }

    fn queue(&mut self) {
        self.waiting_bytes += self.frames.len();
        match self.waiting.back_mut() {
            Some(last) if last.len() + self.frames.len() <= JOINED_BYTES_MAX => {
                last.append(&mut self.frames);
            }
            _ if !self.frames.is_empty() => {
                self.waiting.push_back(std::mem::take(&mut self.frames));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_proto::message::why::Why;
    use trunkline_proto::{FrameBuffer, FrameLimits};
    use trunkline_types::Tick;

    fn names(bytes: &[u8]) -> Vec<String> {
        let limits = FrameLimits {
            frame_max: 100,
            ..FrameLimits::default()
        };
        let (mut frames, mut input) = (FrameBuffer::new(limits), bytes);
        let mut names = Vec::new();
        while let Some(frame) = frames.next_frame(Tick::ZERO, &mut input).unwrap() {
            names.push(Why::decode(&frame).unwrap().name.to_owned());
        }
        names
    }

    #[test]
    fn frames_are_sent_whole_with_any_amount_of_room() {
        let (mut sut, mut out) = (Answers::default(), Vec::new());
        let expected: Vec<String> = (0..20).map(|n| "x".repeat(40 * n)).collect();
        for name in &expected {
            Why { name }.encode(1, &mut sut.frames);
            sut.send(&mut out, 7, 100);
        }
        while !sut.is_empty() {
            let before = out.len();
            sut.send(&mut out, 13, 100);
            assert!((1..=13).contains(&(out.len() - before)));
        }
        assert_eq!(names(&out), expected);
    }

    #[test]
    fn memory_of_sent_frames_is_released() {
        let (mut sut, mut out) = (Answers::default(), Vec::new());
        let name = "x".repeat(60);
        Why { name: &name }.encode(1, &mut sut.frames);
        for _ in 0..100_000 {
            Why { name: &name }.encode(1, &mut sut.frames);
            sut.send(&mut out, 16 + 61, 100);
            out.clear();
        }
        let capacity: usize = sut.waiting.iter().map(Vec::capacity).sum();
        assert!(capacity < 256 << 10, "{capacity} bytes");
    }
}
