//! Output: answers first, then updates, through the gather buffer in throughput mode.

use trunkline_proto::Endpoint;
use trunkline_proto::limits::FRAME_DEADLINE;
use trunkline_types::{Tick, Timestamp};

use crate::context::{Effect, Progress, UNITS_MAX};
use crate::requests::write::{answer_completions, retry_parked};
use crate::updates::UpdateSink;

use super::Session;

impl Session {
    /// Same as `poll_output` without a buffer, but through the gather buffer.
    pub(super) fn gather_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(mut gathering) = self.gathering.take() else {
            return false;
        };
        let is_flush = gathering.take_flush();
        let produce = |room: usize, out: &mut Vec<u8>| self.poll_output(now, wall, room, out);
        let more = gathering.gather.poll_output(now, budget, out, produce);
        let is_credit = self.context.unanswered.take_returned(&self.context.options);
        let is_due = std::mem::take(&mut self.context.send_gathered) || is_flush || is_credit;
        if is_due || self.is_over() {
            gathering.gather.release(out);
        }
        self.gathering = Some(gathering);
        more
    }

    /// Carries out requests until none is left, the answers have reached `room` bytes, a write
    /// waits for room in a feed, or other sessions get their turn. Returns true if there is more to
    /// do at once.
    pub(super) fn run_requests(&mut self, room: usize) -> bool {
        let context = &mut self.context;
        retry_parked(context);
        let mut units = 0;
        while units < UNITS_MAX && context.answers.len() < room {
            let Some(mut queued) = context.queue.take() else {
                return false;
            };
            units += queued.request.units();
            // Other requests must see the writes made before them.
            let waits = !context.parked.is_empty() && queued.request.effect() != Effect::Writes;
            let progress = match waits {
                true => Progress::Parked,
                false => queued.request.run(context),
            };
            match progress {
                Progress::Done => context.queue.done(&queued),
                Progress::More => context.queue.put_back(queued),
                Progress::Parked => {
                    context.queue.put_back(queued);
                    return false;
                }
            }
        }
        !context.queue.is_empty()
    }

    /// Sends updates as far as there is room in `out` up to `end`. Returns true if there is more to
    /// send at once.
    pub(super) fn send_updates(&mut self, end: usize, out: &mut Vec<u8>) -> bool {
        let context = &mut self.context;
        let start = out.len();
        let room = end.saturating_sub(start);
        if room == 0 {
            return !context.consumer.is_idle();
        }
        if !context.window.has_room() {
            return false;
        }
        let (epoch, window) = (context.engine.epoch(), &mut context.window);
        let mut sink = UpdateSink::new(out, room, window, context.records, epoch);
        let left = context.consumer.drain(&mut sink, &mut context.wakes);
        let is_full = sink.finish();
        trunkline_proto::part::split_oversized(out, start, self.frame_max);
        self.put_answers_before(start, out);
        // Updates taken from a feed may have made the room that a parked write waits for.
        (left && is_full) || (self.context.parked_until.is_some() && out.len() > start)
    }

    /// Puts answers of providers that arrived while updates were taken before those updates,
    /// because the updates may include the result of the answered write.
    fn put_answers_before(&mut self, start: usize, out: &mut Vec<u8>) {
        answer_completions(&mut self.context);
        if !self.context.answers.is_empty() {
            let mut frames = Vec::new();
            self.context
                .answers
                .send(&mut frames, usize::MAX, self.frame_max);
            out.splice(start..start, frames);
        }
    }

    /// Restarts the peer's deadlines, because silence or half a frame is not the peer's fault while
    /// this end does not read.
    pub(super) fn excuse_peer(&mut self, now: Tick) {
        self.liveness.handle_received(now);
        self.excused_until = now.saturating_add(FRAME_DEADLINE);
    }
}
