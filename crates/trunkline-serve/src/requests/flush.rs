//! Handles FLUSH, in throughput mode.

use trunkline_proto::message::single::{decode_empty, encode_empty};
use trunkline_proto::{Disconnect, FrameKind};

use crate::context::{Context, Progress, Request};
use crate::gate::Admitted;

#[derive(Debug)]
struct FlushRequest(u32);

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    decode_empty(frame)?;
    context.queue.push(FlushRequest(frame.request()));
    Ok(())
}

impl Request for FlushRequest {
    /// Answers the flush, and makes every session send its gathered output. All earlier requests have
    /// been carried out by then.
    fn run(&mut self, context: &mut Context) -> Progress {
        encode_empty(FrameKind::Flushed, self.0, &mut context.answers.frames);
        context.send_gathered = true;
        context.options.flushes.flush();
        Progress::Done
    }
}
