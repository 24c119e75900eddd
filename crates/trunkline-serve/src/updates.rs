//! Encodes the updates of subscriptions as UPDATES, LOST, ENDED and GONE frames.

use std::collections::BTreeSet;

use trunkline_engine::{Delivery, LARGE_BYTES, PlainUpdate, SharedRun, Sink, Update};
use trunkline_proto::frame::{HEADER_BYTES, part_bytes};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::ended::{EndReason, EndedBuilder, EndedHead, EndedItem};
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::lost::{LostBuilder, LostRecord};
use trunkline_proto::message::read::ReadingsBuilder;
use trunkline_proto::message::record::{RECORD_HEAD_BYTES_MAX, RunState, UpdateRecord};
use trunkline_proto::message::updates::run_header;
use trunkline_proto::{Fault, FaultCode, digest};
use trunkline_types::{Quality, Reason};

use crate::fault::out_of_memory;
use crate::window::Window;

/// Size in bytes at which a run is closed, so that a long run does not delay the frames that follow.
const RUN_BYTES: usize = 32 << 10;
/// Overhead of a message with a single value, in bytes.
const MESSAGE_HEAD_BYTES: usize = RECORD_HEAD_BYTES_MAX + 16;

/// Encodes updates as records for one session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordEncoder {
    /// Number of the session, to mark updates that the session itself wrote.
    session: u32,
    /// Maximum length of a value in a message of the connection, in bytes.
    value_max: usize,
    /// Maximum length of a frame of the connection, in bytes.
    frame_max: u32,
}

/// Appends deliveries to `out`, within the budget and the client's window.
pub(crate) struct UpdateSink<'a> {
    out: &'a mut Vec<u8>,
    end: usize,
    window: &'a mut Window,
    records: RecordEncoder,
    epoch: u64,
    run: Option<Run>,
    /// Handles of removed variables. They are reported after all other frames.
    gone: Vec<u32>,
}

/// A run of update records that is being written.
struct Run {
    subscription: u32,
    /// Position of the run's header in the output.
    start: usize,
    count: u32,
    state: RunState,
    /// Losses that happened before the updates of the run. A LOST frame before the run reports them.
    lost: Vec<LostRecord>,
    /// Handles of the run's items since its first loss; empty if the run reports no losses.
    items: BTreeSet<u32>,
}

impl RecordEncoder {
    pub(crate) fn new(session: u32, message_max: u32, frame_max: u32) -> Self {
        let value_max = (message_max as usize).saturating_sub(MESSAGE_HEAD_BYTES);
        Self {
            session,
            value_max,
            frame_max,
        }
    }

    /// Returns the number of output bytes that an update with a long value needs, including the
    /// headers of its parts. Returns `None` for a short value, for which no memory is reserved.
    pub(crate) fn room_for(self, update: &Update) -> Option<usize> {
        self.room_for_bytes(update.value.as_slice().len())
    }

    pub(crate) fn room_for_bytes(self, bytes: usize) -> Option<usize> {
        let room = bytes + part_bytes(bytes, self.frame_max) + MESSAGE_HEAD_BYTES + HEADER_BYTES;
        (bytes >= LARGE_BYTES).then_some(room)
    }

    /// Returns the encoder for an update, after reserving memory for a long value with `make_room`.
    /// If there is not enough memory, the encoder omits the value and sets a quality that shows this.
    pub(crate) fn within(self, update: &Update, make_room: impl FnOnce(usize) -> bool) -> Self {
        let has_room = self.room_for(update).is_none_or(make_room);
        let value_max = if has_room { self.value_max } else { 0 };
        Self { value_max, ..self }
    }

    /// Like [`record`](Self::record), but first reserves memory in `out` for a long value. Omits the
    /// value if there is not enough memory.
    pub(crate) fn record_in<'u>(
        self,
        out: &mut Vec<u8>,
        handle: u32,
        update: &'u Update,
    ) -> UpdateRecord<'u> {
        let records = self.within(update, |bytes| out.try_reserve_exact(bytes).is_ok());
        records.record(handle, update)
    }

    /// Converts an update to a record. Omits a value that is too long for the connection's messages
    /// and sets a quality that shows this, so that the client still learns of the update.
    pub(crate) fn record(self, handle: u32, update: &Update) -> UpdateRecord<'_> {
        if update.sequence == 0 {
            return UpdateRecord::nothing_yet(handle);
        }
        let value = update.value.as_slice();
        let fits = value.len() <= self.value_max;
        let own = update.writer == self.session;
        let quality = match fits {
            true => update.quality,
            false => Quality::bad(Reason::BufferTooSmall)
                .with_clock(update.quality.clock(), update.quality.clock_sync()),
        };
        UpdateRecord {
            handle,
            sequence: update.sequence,
            engine_timestamp: update.engine_timestamp,
            source_timestamp: update.source_timestamp,
            quality,
            own,
            value: fits.then_some(value),
        }
    }

    /// Like [`record`](Self::record), for an update on the fast path, whose value is passed
    /// separately. Returns `None` if the value is too long for the connection's messages.
    #[inline]
    pub(crate) fn plain_record<'v>(
        self,
        handle: u32,
        update: &PlainUpdate,
        value: &'v [u8],
    ) -> Option<UpdateRecord<'v>> {
        let own = update.writer == self.session;
        (value.len() <= self.value_max).then_some(UpdateRecord {
            handle,
            sequence: update.sequence,
            engine_timestamp: update.engine_timestamp,
            source_timestamp: update.source_timestamp,
            quality: update.quality,
            own,
            value: Some(value),
        })
    }

    /// Checks that an update which answers a request fits into the connection's messages and into
    /// the available memory. Returns the update, or the fault to send instead.
    pub(crate) fn check(
        self,
        update: Update,
        readings: &mut ReadingsBuilder<'_>,
    ) -> Result<Update, Fault> {
        let (bytes, max) = (update.value.as_slice().len(), self.value_max);
        if bytes <= max {
            return match self.room_for(&update) {
                Some(room) if !readings.make_room(room) => Err(out_of_memory(bytes)),
                _ => Ok(update),
            };
        }
        let sentence = format!(
            "the value has {bytes} bytes, more than the {max} that this client accepts; connect with \
             a larger message limit"
        );
        Err(Fault::new(FaultCode::TooLarge, sentence))
    }

    /// Returns the record of a variable that the caller may open but not read.
    pub(crate) fn not_readable(handle: u32) -> UpdateRecord<'static> {
        let quality = Quality::bad(Reason::AccessDenied);
        UpdateRecord {
            quality,
            ..UpdateRecord::nothing_yet(handle)
        }
    }
}

impl<'a> UpdateSink<'a> {
    pub(crate) fn new(
        out: &'a mut Vec<u8>,
        budget: usize,
        window: &'a mut Window,
        records: RecordEncoder,
        epoch: u64,
    ) -> Self {
        let end = out.len().saturating_add(budget);
        Self {
            out,
            end,
            window,
            records,
            epoch,
            run: None,
            gone: Vec::new(),
        }
    }

    /// Completes the output. Returns true if the sink stopped only because the byte budget was used
    /// up, so that there is more to send now.
    pub(crate) fn finish(mut self) -> bool {
        self.close_run();
        let is_full = !self.has_bytes();
        let mut gone = self.gone.iter().peekable();
        while gone.peek().is_some() {
            let mut frame = HandlesBuilder::gone(self.out);
            while let Some(handle) = gone.next_if(|_| frame.len_bytes() < PAGE_BYTES) {
                frame.push(handle);
                self.window.send_end(*handle);
            }
            frame.finish(false);
        }
        is_full && self.window.has_room()
    }

    fn has_bytes(&self) -> bool {
        self.out.len() + size_of::<u32>() * self.gone.len() < self.end
    }

    fn close_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        self.window.end_run();
        let body = run.start + HEADER_BYTES;
        let Some(bytes) = self.out.get(body..) else {
            return;
        };
        let header = run_header(run.subscription, run.count, bytes);
        if let Some(place) = self.out.get_mut(run.start..body) {
            place.copy_from_slice(&header);
        }
        if run.lost.is_empty() {
            return;
        }
        let mut before = Vec::new();
        let mut frame = LostBuilder::begin(&mut before, run.subscription, &());
        run.lost.iter().for_each(|lost| frame.push(lost));
        frame.finish(false);
        self.out.splice(run.start..run.start, before);
    }

    /// Returns the run for the next record of this subscription. Starts a new run if necessary.
    fn run_for(&mut self, subscription: u32, lost: LostRecord) -> &mut Run {
        let is_loss = !lost.is_nothing();
        let must_close = self.run.as_ref().is_some_and(|run| {
            run.subscription != subscription
                || self.out.len() - run.start > RUN_BYTES
                || (is_loss && !run.can_report_loss(lost.handle))
        });
        if must_close {
            self.close_run();
        }
        let out = &mut self.out;
        let run = self.run.get_or_insert_with(|| {
            let start = out.len();
            out.extend_from_slice(&[0; HEADER_BYTES]);
            let (state, lost, items) = (RunState::START, Vec::new(), BTreeSet::new());
            Run {
                subscription,
                start,
                count: 0,
                state,
                lost,
                items,
            }
        });
        if is_loss {
            run.lost.push(lost);
        }
        if !run.lost.is_empty() {
            run.items.insert(lost.handle);
        }
        run
    }
}

impl Run {
    /// Returns true if the LOST frame before this run can report a loss of the item. This is so if
    /// the run already reports other losses and contains no update of the item.
    fn can_report_loss(&self, handle: u32) -> bool {
        !self.lost.is_empty() && !self.items.contains(&handle)
    }
}

impl Sink for UpdateSink<'_> {
    fn wants(&self) -> bool {
        self.has_bytes() && self.window.has_room()
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let handle = delivery.variable.handle();
        let lost = LostRecord {
            handle,
            filtered: delivery.filtered,
            queue: delivery.lost.queue,
            overrun: delivery.lost.overrun,
            disconnect: delivery.lost.disconnect,
            unknown: delivery.lost.unknown,
        };
        let mut record = self.records.record_in(self.out, handle, delivery.update);
        if delivery.update.sequence == 0 {
            // The client counts missed updates from here.
            record.sequence = delivery.variable.base_sequence();
        }
        let mut state = self.run_for(delivery.subscription, lost).state;
        let before = self.out.len();
        state.put(self.out, &record);
        let bytes = self.out.len() - before;
        let record_digest = digest::of_position(handle, record.sequence);
        self.window.send(bytes, record_digest);
        if let Some(run) = &mut self.run {
            run.state = state;
            run.count += 1;
        }
    }

    fn deliver_all(
        &mut self,
        subscription: u32,
        updates: &mut dyn Iterator<Item = (u32, &Update)>,
    ) {
        let mut next = updates.next();
        while let Some((handle, _)) = next {
            let nothing_lost = LostRecord {
                handle,
                ..LostRecord::default()
            };
            let run = self.run_for(subscription, nothing_lost);
            let mut state = run.state;
            // A run that reports losses must note each item, so `run_for` is called for each record.
            let is_single = !run.lost.is_empty();
            let run_end = run.start + RUN_BYTES;
            let (records_left, bytes_left) = self.window.room();
            let end = self.end.saturating_sub(size_of::<u32>() * self.gone.len());
            let before = self.out.len();
            let (mut count, mut digest, mut bytes) = (0_u32, 0_u64, 0);
            while let Some((handle, update)) = next.take() {
                let record = self.records.record_in(self.out, handle, update);
                state.put(self.out, &record);
                count += 1;
                digest = digest.wrapping_add(digest::of_position(handle, record.sequence));
                bytes = self.out.len() - before;
                let is_full = self.out.len() >= end
                    || u64::from(count) >= records_left
                    || bytes as u64 >= bytes_left;
                if is_full {
                    break;
                }
                next = updates.next();
                if is_single || self.out.len() > run_end {
                    break;
                }
            }
            self.window.send_run(count, bytes, digest);
            if let Some(run) = &mut self.run {
                run.state = state;
                run.count += count;
            }
        }
    }

    fn encode(
        &mut self,
        updates: &mut dyn Iterator<Item = (u32, &Update)>,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let (mut state, mut digest) = (RunState::START, 0_u64);
        for (handle, update) in updates {
            if update.value.as_slice().len() >= LARGE_BYTES {
                // Each session must encode a long value itself, because only some of them may have
                // enough memory.
                return None;
            }
            let record = UpdateRecord {
                handle,
                sequence: update.sequence,
                engine_timestamp: update.engine_timestamp,
                source_timestamp: update.source_timestamp,
                quality: update.quality,
                // `takes` refuses a shared run that contains updates of this session.
                own: false,
                value: Some(update.value.as_slice()),
            };
            state.put(out, &record);
            digest = digest.wrapping_add(digest::of_position(handle, record.sequence));
        }
        Some(digest)
    }

    fn takes(&self, run: &SharedRun) -> bool {
        self.has_bytes()
            && self.window.has_room_for(run.count())
            && run.value_max() <= self.records.value_max
            && !run.is_of(self.records.session)
    }

    fn deliver_run(&mut self, subscription: u32, run: &SharedRun) {
        self.close_run();
        let header = run_header(subscription, run.count(), run.bytes());
        self.out.extend_from_slice(&header);
        self.out.extend_from_slice(run.bytes());
        self.window
            .send_run(run.count(), run.bytes().len(), run.digest());
        self.window.end_run();
    }

    fn overrun(&mut self, subscription: u32, items: &[EndedItem]) {
        self.close_run();
        let head = EndedHead {
            reason: EndReason::Overrun,
            epoch: self.epoch,
            sentence: "the `all` subscription reached its bound, because the subscriber took \
                       updates too slowly; take them faster, or request a larger bound",
        };
        let mut items = items.iter().peekable();
        while items.peek().is_some() {
            let mut frame = EndedBuilder::begin(self.out, subscription, &head);
            while let Some(item) = items.next_if(|_| frame.len_bytes() < PAGE_BYTES) {
                frame.push(item);
                self.window.send_end(item.handle);
            }
            frame.finish(false);
        }
    }

    fn gone(&mut self, _subscription: u32, handle: u32) {
        self.gone.push(handle);
    }
}
