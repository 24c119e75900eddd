//! The end that `stream write` writes to: with one reader, or with several.

use std::collections::BTreeSet;
use std::time::Duration;

use trunkline::stream::{
    Closed, FanOutOptions, FanOutValueWriter, JournalError, Lacking, Left, Policy, Properties,
    StreamError, Until, ValueWriter,
};
use trunkline_types::Value;

use super::peers::{Endpoint, PeerEvent, has_wanted_it, readers_text};
use super::problem;
use super::write::Args;
use crate::{Context, Problem};

pub(super) enum WriterEndpoint {
    One(ValueWriter),
    Many(Spreading),
}

pub(super) struct Spreading {
    writer: FanOutValueWriter,
    known: BTreeSet<u64>,
    /// Elements not fetched by the reader that left last; they are kept while there is no other
    /// reader.
    unfetched: u64,
    tally: Tally,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    readers: u64,
    left: Left,
    lost: u64,
}

/// The remainder of a writer that was closed: what was not delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest {
    pub(super) left: Left,
    /// The reason why its journal still has the stream.
    pub(super) journal: Option<JournalError>,
    /// For an end with several readers: the number of readers so far, and of the elements they
    /// lost.
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
                created.map(|writer| Self::Many(Spreading::new(writer)))
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

    pub(super) fn write_bytes_with<E: From<StreamError>>(
        &mut self,
        most: usize,
        timeout: Duration,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        match self {
            Self::One(writer) => writer.write_bytes_with(most, Some(timeout), fill),
            Self::Many(many) => many.writer.write_bytes_with(most, Some(timeout), fill),
        }
    }

    /// Waits until everything is available to the readers.
    pub(super) fn flush(&mut self, timeout: Duration) -> Result<(), StreamError> {
        match self {
            Self::One(writer) => writer.flush(Until::Available, Some(timeout)),
            Self::Many(many) => many.writer.flush(Until::Available, Some(timeout)),
        }
    }

    /// Closes the end once everything is delivered, or after `timeout`.
    pub(super) fn close(self, timeout: Duration) -> Rest {
        match self {
            Self::One(writer) => Rest::of_one(writer.close(Some(timeout))),
            Self::Many(many) => many.end(|writer| writer.close(Some(timeout))),
        }
    }

    /// Closes the end at once, and tells its readers that this is not the end of the stream, and
    /// why.
    pub(super) fn abort(self, reason: &str) -> Rest {
        match self {
            Self::One(writer) => Rest::of_one(writer.abort_because(reason)),
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

    fn is_many(&self) -> bool {
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

impl Rest {
    fn of_one(closed: Closed) -> Self {
        let Closed {
            elements,
            in_doubt,
            journal,
        } = closed;
        Self {
            left: Left { elements, in_doubt },
            journal,
            ..Self::default()
        }
    }
}

impl Spreading {
    fn new(writer: FanOutValueWriter) -> Self {
        Self {
            writer,
            known: BTreeSet::new(),
            unfetched: 0,
            tally: Tally::default(),
        }
    }

    fn peer_events(&mut self) -> Vec<PeerEvent> {
        let mut events = Vec::new();
        // Asked first: a reader that leaves after this call is reported next time.
        let departed = self.writer.departed();
        let present = self.writer.readers();
        let there = present.iter().map(|reader| &reader.member);
        for member in departed.iter().map(|lacking| &lacking.member).chain(there) {
            if self.known.insert(member.number) {
                self.tally.readers += 1;
                // The output does not depend on which reader it is.
                events.push(PeerEvent::Connected {
                    member: member.clone(),
                    is_twin: false,
                });
            }
        }
        for lacking in departed {
            self.known.remove(&lacking.member.number);
            self.unfetched = lacking.left.elements;
            self.tally.take(&lacking);
            events.push(PeerEvent::ReaderLeft(lacking));
        }
        events
    }

    fn end(mut self, let_go: impl FnOnce(FanOutValueWriter) -> Vec<Lacking>) -> Rest {
        let mut events = self.peer_events();
        let kept = self.writer.properties().in_buffer;
        let Self {
            writer,
            known,
            unfetched,
            mut tally,
        } = self;
        if known.is_empty() {
            // Elements for which there was no reader.
            tally.left.elements += kept.saturating_sub(unfetched);
        }
        for lacking in let_go(writer) {
            tally.take(&lacking);
            events.push(PeerEvent::ReaderLeft(lacking));
        }
        Rest {
            left: tally.left,
            journal: None,
            readers: Some((tally.readers, tally.lost)),
            events,
        }
    }
}

impl Tally {
    fn take(&mut self, lacking: &Lacking) {
        self.lost += lacking.lost;
        if !lacking.fault.as_ref().is_some_and(has_wanted_it) {
            self.left.elements += lacking.left.elements;
            self.left.in_doubt += lacking.left.in_doubt;
        }
    }
}
