#![no_main]
//! Bytes split into frames: the same frames whether the bytes arrive at once or in parts.

use libfuzzer_sys::fuzz_target;
use trunkline_proto::{FrameBuffer, FrameError, FrameLimits};
use trunkline_types::Tick;

type Frames = Vec<(u8, u32, Vec<u8>, Vec<u8>)>;

/// The frames in `pieces`, and how it ended.
fn feed<'a>(
    limits: FrameLimits,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Frames, Option<FrameError>) {
    let mut sut = FrameBuffer::new(limits);
    let mut frames = Frames::new();
    for mut input in pieces {
        loop {
            match sut.next_frame(Tick::ZERO, &mut input) {
                Ok(Some(frame)) => frames.push((
                    frame.header().kind,
                    frame.request(),
                    frame.payload().to_vec(),
                    frame.extension().to_vec(),
                )),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(input.is_empty(), "all input is taken");
        let most = limits.frame_max as usize + limits.message_max as usize + 16;
        assert!(
            sut.buffered_bytes() <= most,
            "no more is kept than the limits allow"
        );
    }
    (frames, None)
}

fuzz_target!(|data: &[u8]| {
    let Some((control, data)) = data.split_first() else {
        return;
    };
    let limits = match control & 3 {
        0 => FrameLimits::HELLO,
        1 => FrameLimits {
            frame_max: 64,
            message_max: 200,
            ..FrameLimits::default()
        },
        _ => FrameLimits::default(),
    };
    let piece = usize::from(control >> 2) + 1;
    assert_eq!(
        feed(limits, data.chunks(piece)),
        feed(limits, std::iter::once(data))
    );
});
