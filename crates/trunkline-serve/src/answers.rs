//! Frames on their way out that are no updates: answers, keep-alives, the last word.

use std::collections::VecDeque;

use trunkline_proto::part::split_oversized;

/// A buffer that has grown beyond this is given back once it is empty.
const KEPT_BYTES_MAX: usize = 128 << 10;

/// Buffers up to this size are joined rather than kept one by one.
const JOINED_BYTES_MAX: usize = 64 << 10;

/// What is to be sent before any update.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Whole frames, as they are written.
    pub(crate) frames: Vec<u8>,
    /// Bytes that found no room, cut into parts already. A long answer stays where it was written:
    /// there may be no memory for another copy of it.
    waiting: VecDeque<Vec<u8>>,
    /// Bytes in it.
    waiting_bytes: usize,
    /// How many of the first of them have been sent since.
    sent: usize,
}

impl Answers {
    /// Bytes that are not sent.
    pub(crate) fn len(&self) -> usize {
        self.frames.len() + self.waiting_bytes - self.sent
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves at most `room` bytes to the end of `out`. Frames beyond `frame_max` are cut into
    /// parts.
    pub(crate) fn send(&mut self, out: &mut Vec<u8>, mut room: usize, frame_max: u32) {
        split_oversized(&mut self.frames, 0, frame_max);
        if self.waiting.is_empty() && self.frames.len() <= room {
            out.append(&mut self.frames);
            give_back(&mut self.frames);
            return;
        }
        self.queue();
        while let Some(first) = self.waiting.front() {
            let unsent = first.get(self.sent..).unwrap_or_default();
            let taken = unsent.get(..room).unwrap_or(unsent);
            out.extend_from_slice(taken);
            self.sent += taken.len();
            room -= taken.len();
            if self.sent < first.len() {
                break;
            }
            self.waiting_bytes -= self.sent;
            self.sent = 0;
            self.waiting.pop_front();
        }
    }

    /// The frames wait behind those that do already.
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

    /// Nobody will read them.
    pub(crate) fn discard(&mut self) {
        *self = Self::default();
    }
}

fn give_back(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
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
    fn frames_come_out_whole_however_little_room_there_is() {
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
    fn what_was_sent_is_not_kept() {
        let (mut sut, mut out) = (Answers::default(), Vec::new());
        let name = "x".repeat(60);
        Why { name: &name }.encode(1, &mut sut.frames);
        for _ in 0..100_000 {
            Why { name: &name }.encode(1, &mut sut.frames);
            sut.send(&mut out, 16 + 61, 100);
            out.clear();
        }
        let kept: usize = sut.waiting.iter().map(Vec::capacity).sum();
        assert!(kept < 256 << 10, "{kept} bytes");
    }
}
