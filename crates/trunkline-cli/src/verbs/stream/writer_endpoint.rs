//! The endpoint of `stream write`: a writer with one reader or several.

use std::collections::BTreeSet;
use std::time::Duration;

use trunkline::stream::{
    Closed, FanOutOptions, FanOutValueWriter, JournalError, Left, Policy, Properties, StreamError,
    Undelivered, Until, ValueWriter,
};
use trunkline_types::Value;

use super::peers::{Endpoint, PeerEvent, is_voluntary, readers_text};
use super::problem;
use super::write::Args;
use crate::{Context, Problem};

pub(super) enum WriterEndpoint {
    One(ValueWriter),
    Many(FanOut),
}

pub(super) struct FanOut {
    writer: FanOutValueWriter,
    /// Numbers of the readers that have connected and have not left.
    connected: BTreeSet<u64>,
    /// Number of elements that the last reader to leave had not received. They stay in the buffer
    /// while there is no other reader.
    unfetched: u64,
    tally: Tally,
}

/// Sums over all readers.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Number of readers that have connected.
    readers: u64,
    left: Left,
    lost: u64,
}

/// The result of closing a writer: the elements that were not delivered, and the last events of its
/// readers.
#[derive(Clone, Debug, Default)]
pub(super) struct CloseReport {
    pub(super) left: Left,
    /// The reason why the journal does not contain the end of the stream, or was not emptied.
    pub(super) journal_error: Option<JournalError>,
    /// With several readers, the number of readers that have connected, and the number of elements
    /// that they lost because they were too slow.
    pub(super) readers: Option<(u64, u64)>,
    pub(super) events: Vec<PeerEvent>,
}

impl WriterEndpoint {
    pub(super) fn create(args: &Args, context: &Context) -> Result<Self, Problem> {
        let end = &args.end;
        let mut options = end.options(args.to.as_deref(), context)?;
        options.is_checked = args.checksums.then_some(true).or(options.is_checked);
        let (url, data_type) = (end.own_url.as_str(), &end.buffer.data_type);
        let terminal = context.terminal.for_file_output();
        terminal.progress(&format!("{url} waits for a reader · press Ctrl-C to stop"));
        let created = match args.readers {
            None => ValueWriter::create(url, data_type, options).map(Self::One),
            Some(readers) => {
                let options = FanOutOptions {
                    options,
                    policy: args.quota.map_or(Policy::Slowest, Policy::Quota),
                    readers_min: readers,
                    readers_max: FanOutOptions::default().readers_max.max(readers),
                };
                let created = FanOutValueWriter::create(url, data_type, options);
                created.map(|writer| Self::Many(FanOut::new(writer)))
            }
        };
        created.map_err(|error| problem(&error))
    }

    pub(super) fn write_many(
        &mut self,
        values: &[Value],
        timeout: Duration,
    ) -> Result<(), StreamError> {
        match self {
            Self::One(writer) => writer.write_many(values, Some(timeout)),
            Self::Many(many) => many.writer.write_many(values, Some(timeout)),
        }
    }

    /// Writes at most `elements_max` elements in place: `fill` writes them into the buffer and
    /// returns the number of bytes. Returns the number of elements written.
    pub(super) fn write_bytes_with<E: From<StreamError>>(
        &mut self,
        elements_max: usize,
        timeout: Duration,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        match self {
            Self::One(writer) => writer.write_bytes_with(elements_max, Some(timeout), fill),
            Self::Many(many) => many
                .writer
                .write_bytes_with(elements_max, Some(timeout), fill),
        }
    }

    /// Waits until everything is available to the readers.
    pub(super) fn flush(&mut self, timeout: Duration) -> Result<(), StreamError> {
        match self {
            Self::One(writer) => writer.flush(Until::Available, Some(timeout)),
            Self::Many(many) => many.writer.flush(Until::Available, Some(timeout)),
        }
    }

    /// Closes the endpoint once everything is delivered, or after `timeout`.
    pub(super) fn close(self, timeout: Duration) -> CloseReport {
        match self {
            Self::One(writer) => CloseReport::of_one(writer.close(Some(timeout))),
            Self::Many(many) => many.end(|writer| writer.close(Some(timeout))),
        }
    }

    /// Closes the endpoint immediately, and informs its readers why the stream is incomplete.
    pub(super) fn abort(self, reason: &str) -> CloseReport {
        match self {
            Self::One(writer) => CloseReport::of_one(writer.abort_because(reason)),
            Self::Many(many) => many.end(|writer| writer.abort_because(reason)),
        }
    }
}

impl Endpoint for WriterEndpoint {
    fn properties(&self) -> Properties {
        match self {
            Self::One(writer) => writer.properties(),
            Self::Many(many) => many.writer.properties(),
        }
    }

    fn allows_many_peers(&self) -> bool {
        matches!(self, Self::Many(_))
    }

    fn peer_events(&mut self) -> Vec<PeerEvent> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Many(many) => many.peer_events(),
        }
    }

    fn peers(&mut self) -> String {
        match self {
            Self::One(_) => String::new(),
            Self::Many(many) => readers_text(&many.writer.readers()),
        }
    }
}

impl CloseReport {
    fn of_one(closed: Closed) -> Self {
        let Closed {
            elements,
            in_doubt,
            journal_error,
        } = closed;
        Self {
            left: Left { elements, in_doubt },
            journal_error,
            ..Self::default()
        }
    }
}

impl FanOut {
    fn new(writer: FanOutValueWriter) -> Self {
        Self {
            writer,
            connected: BTreeSet::new(),
            unfetched: 0,
            tally: Tally::default(),
        }
    }

    fn peer_events(&mut self) -> Vec<PeerEvent> {
        let mut events = Vec::new();
        // Call `departed` before `readers`, so that a reader that leaves between the two calls is reported
        // by the next `peer_events`.
        let departed = self.writer.departed();
        let present = self.writer.readers();
        let present = present.iter().map(|reader| &reader.member);
        let departed_members = departed.iter().map(|undelivered| &undelivered.member);
        for member in departed_members.chain(present) {
            if self.connected.insert(member.number) {
                self.tally.readers += 1;
                // Readers may have the same name, because they need not be distinguished: all of them
                // get the same elements.
                events.push(PeerEvent::Connected {
                    member: member.clone(),
                    has_same_name: false,
                });
            }
        }
        for undelivered in departed {
            self.connected.remove(&undelivered.member.number);
            self.unfetched = undelivered.left.elements;
            self.tally.add(&undelivered);
            events.push(PeerEvent::ReaderLeft(undelivered));
        }
        events
    }

    fn end(mut self, close: impl FnOnce(FanOutValueWriter) -> Vec<Undelivered>) -> CloseReport {
        let mut events = self.peer_events();
        let in_buffer = self.writer.properties().in_buffer;
        let Self {
            writer,
            connected,
            unfetched,
            mut tally,
        } = self;
        if connected.is_empty() {
            // Count the elements written since the last reader left, because no reader reports them as
            // missing. The elements that this reader had not received were counted when it left.
            tally.left.elements += in_buffer.saturating_sub(unfetched);
        }
        for undelivered in close(writer) {
            tally.add(&undelivered);
            events.push(PeerEvent::ReaderLeft(undelivered));
        }
        CloseReport {
            left: tally.left,
            journal_error: None,
            readers: Some((tally.readers, tally.lost)),
            events,
        }
    }
}

impl Tally {
    fn add(&mut self, undelivered: &Undelivered) {
        self.lost += undelivered.lost;
        // A reader that was destroyed by its own program does not need the remaining elements.
        if !undelivered.fault.as_ref().is_some_and(is_voluntary) {
            self.left.elements += undelivered.left.elements;
            self.left.in_doubt += undelivered.left.in_doubt;
        }
    }
}
