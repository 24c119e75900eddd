//! Deliveries to frames: runs of UPDATES, and beside them LOST, ENDED and GONE.

use trunkline_engine::{Delivery, EndedItem, Sink};
use trunkline_proto::frame::HEADER_BYTES;
use trunkline_proto::message::ended::{self, EndReason, EndedBuilder, EndedHead};
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::lost::{LostBuilder, LostRecord};
use trunkline_proto::message::record::{RunState, UpdateRecord};
use trunkline_proto::message::updates::run_header;
use trunkline_proto::part::split_oversized;

/// A run is closed when it has this many bytes, so that a long one does not hold up what follows.
const RUN_BYTES: usize = 32 << 10;

/// Writes deliveries at the end of `out`, at most about `budget` bytes and `window` records.
pub(crate) struct UpdateSink<'a> {
    out: &'a mut Vec<u8>,
    end: usize,
    window: usize,
    frame_max: u32,
    epoch: u64,
    /// The session these go to: its own updates are marked.
    session: u32,
    /// The run being written: its subscription, where its header will be, its records.
    run: Option<Run>,
    records: usize,
}

struct Run {
    subscription: u32,
    start: usize,
    count: u32,
    state: RunState,
}

impl<'a> UpdateSink<'a> {
    pub(crate) fn new(
        out: &'a mut Vec<u8>,
        budget: usize,
        window: usize,
        frame_max: u32,
        epoch: u64,
        session: u32,
    ) -> Self {
        let end = out.len().saturating_add(budget);
        Self { out, end, window, frame_max, epoch, session, run: None, records: 0 }
    }

    /// Closes the last run. Returns whether the sink stopped for want of bytes rather than of window.
    pub(crate) fn finish(mut self) -> bool {
        self.close_run();
        self.out.len() >= self.end && self.records < self.window
    }

    fn close_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        let Some(bytes) = self.out.get(run.start + HEADER_BYTES..) else { return };
        let header = run_header(run.subscription, run.count, bytes);
        if let Some(place) = self.out.get_mut(run.start..run.start + HEADER_BYTES) {
            place.copy_from_slice(&header);
        }
        split_oversized(self.out, run.start, self.frame_max);
    }

    /// Tells what an item missed, before the run that carries its next update.
    fn tell_lost(&mut self, delivery: &Delivery<'_>) {
        let record = LostRecord {
            handle: delivery.variable.handle(),
            filtered: delivery.filtered,
            queue: delivery.lost.queue,
            overrun: delivery.lost.overrun,
            disconnect: delivery.lost.disconnect,
            unknown: delivery.lost.unknown,
        };
        if record.is_nothing() {
            return;
        }
        self.close_run();
        let mut lost = LostBuilder::begin(self.out, delivery.subscription);
        lost.push(&record);
        lost.finish();
    }
}

impl Sink for UpdateSink<'_> {
    fn wants(&self) -> bool {
        self.out.len() < self.end && self.records < self.window
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.tell_lost(delivery);
        let ends = self.run.as_ref().is_some_and(|run| {
            run.subscription != delivery.subscription || self.out.len() - run.start > RUN_BYTES
        });
        if ends {
            self.close_run();
        }
        let run = self.run.get_or_insert_with(|| {
            let start = self.out.len();
            self.out.extend_from_slice(&[0; HEADER_BYTES]);
            let subscription = delivery.subscription;
            Run { subscription, start, count: 0, state: RunState::START }
        });
        let record = record(delivery.variable.handle(), delivery.update, self.session);
        run.state.put(self.out, &record);
        run.count += 1;
        self.records += 1;
    }

    fn overrun(&mut self, subscription: u32, items: &[EndedItem]) {
        self.close_run();
        let head = EndedHead {
            subscription,
            reason: EndReason::Overrun,
            epoch: self.epoch,
            sentence: "the subscriber fell behind the bound of its `all` subscription; \
                       take updates faster or ask for a larger bound",
        };
        let start = self.out.len();
        let mut frame = EndedBuilder::begin(self.out, &head);
        for item in items {
            frame.push(&ended::EndedItem {
                handle: item.handle,
                last_sequence: item.last.sequence,
                lost: item.lost,
            });
        }
        frame.finish();
        split_oversized(self.out, start, self.frame_max);
    }

    fn gone(&mut self, _subscription: u32, handle: u32) {
        self.close_run();
        let mut frame = HandlesBuilder::gone(self.out);
        frame.push(handle);
        frame.finish(false);
    }
}

/// An update as it stands in a frame.
pub(crate) fn record(
    handle: u32,
    update: &trunkline_engine::Update,
    session: u32,
) -> UpdateRecord<'_> {
    if update.sequence == 0 {
        return UpdateRecord::nothing_yet(handle);
    }
    UpdateRecord {
        handle,
        sequence: update.sequence,
        engine_timestamp: update.engine_timestamp,
        source_timestamp: update.source_timestamp,
        quality: update.quality,
        own: update.writer == session,
        value: Some(update.value.as_slice()),
    }
}
