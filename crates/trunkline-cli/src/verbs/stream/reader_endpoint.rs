//! The endpoint of `stream read`: a reader with one writer or several.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trunkline::stream::{
    FanInOptions, FanInValueReader, Member, Properties, Run, StreamError, ValueReader,
};
use trunkline_types::Value;

use super::peers::{Endpoint, PeerEvent, error_of};
use super::problem;
use super::read::Args;
use crate::{Context, Exit, Problem, counted};

pub(super) enum ReaderEndpoint {
    One(ValueReader),
    Many(FanIn),
}

pub(super) struct FanIn {
    reader: FanInValueReader,
    /// Number of writers that must have ended before the stream ends. With 0, the stream never ends.
    writers_min: usize,
    ended: usize,
    /// Writers that have connected and have not ended, each with the number of elements read from it.
    connected: BTreeMap<u64, (Arc<Member>, u64)>,
    /// Events that `peer_events` has not returned yet, at most two per writer.
    events: Vec<PeerEvent>,
    /// Exit code of the command if a writer was lost.
    failed: Option<Exit>,
}

pub(super) struct Elements {
    /// The writer of these elements, if there can be several writers.
    pub(super) writer: Option<Arc<Member>>,
    pub(super) values: Vec<Value>,
}

impl ReaderEndpoint {
    pub(super) fn create(args: &Args, context: &Context) -> Result<Self, Problem> {
        let end = &args.end;
        let options = end.options(args.from.as_deref(), context)?;
        let (url, data_type) = (end.own_url.as_str(), &end.buffer.data_type);
        let terminal = context.terminal.for_file_output();
        terminal.progress(&format!("{url} waits for a writer · press Ctrl-C to stop"));
        let created = match args.writers {
            None => ValueReader::create(url, data_type, options).map(Self::One),
            Some(writers) => {
                let options = FanInOptions {
                    options,
                    writers_min: writers,
                    writers_max: FanInOptions::default().writers_max.max(writers),
                };
                let created = FanInValueReader::create(url, data_type, options);
                created.map(|reader| Self::Many(FanIn::new(reader, writers)))
            }
        };
        created.map_err(|error| problem(&error))
    }

    pub(super) fn available(&mut self) -> u64 {
        match self {
            Self::One(reader) => reader.available() as u64,
            Self::Many(many) => many.reader.writers().iter().map(|w| w.waiting).sum(),
        }
    }

    /// Waits for an element, and returns it with the available elements of the same writer, at most
    /// `elements_max` in total.
    pub(super) fn read_up_to(
        &mut self,
        elements_max: usize,
        timeout: Duration,
    ) -> Result<Elements, StreamError> {
        match self {
            Self::One(reader) => Ok(Elements {
                writer: None,
                values: reader.read_up_to(elements_max, Some(timeout))?,
            }),
            Self::Many(many) => many.read_up_to(elements_max, timeout),
        }
    }

    /// Returns the exit code if a writer was lost while others continued.
    pub(super) fn failed(&self) -> Option<Exit> {
        match self {
            Self::One(_) => None,
            Self::Many(many) => many.failed,
        }
    }

    /// Returns the number of writers that have ended, for an endpoint with several writers.
    pub(super) fn ended(&self) -> Option<u64> {
        match self {
            Self::One(_) => None,
            Self::Many(many) => Some(many.ended as u64),
        }
    }

    /// Confirms that the elements read have reached their destination.
    pub(super) fn commit(&mut self) -> Result<(), StreamError> {
        match self {
            Self::One(reader) => reader.commit(),
            // A reader with several writers has no journal.
            Self::Many(_) => Ok(()),
        }
    }

    pub(super) fn close(self) -> Result<(), StreamError> {
        match self {
            Self::One(reader) => reader.close(),
            Self::Many(many) => {
                many.reader.close();
                Ok(())
            }
        }
    }
}

impl Endpoint for ReaderEndpoint {
    fn properties(&self) -> Properties {
        match self {
            Self::One(reader) => reader.properties(),
            Self::Many(many) => many.reader.properties(),
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
            Self::Many(many) => {
                let writers = many.reader.writers().len() as u64;
                format!(" · {}", counted(writers, "writer"))
            }
        }
    }
}

impl FanIn {
    fn new(reader: FanInValueReader, writers_min: usize) -> Self {
        Self {
            reader,
            writers_min,
            ended: 0,
            connected: BTreeMap::new(),
            events: Vec::new(),
            failed: None,
        }
    }

    fn read_up_to(
        &mut self,
        elements_max: usize,
        timeout: Duration,
    ) -> Result<Elements, StreamError> {
        loop {
            match self.reader.read_run(elements_max, Some(timeout))? {
                Run::Elements { writer, elements } => {
                    self.entry_of(&writer).1 += elements.len() as u64;
                    return Ok(Elements {
                        writer: Some(writer),
                        values: elements,
                    });
                }
                Run::Ended { writer, end } => {
                    let (member, elements) = self.entry_of(&writer).clone();
                    self.connected.remove(&writer.number);
                    self.ended += 1;
                    if let Some(error) = error_of(&end) {
                        let exit = problem(&error).exit;
                        // A loss takes precedence over any other failure.
                        if exit == Exit::Lost || self.failed.is_none() {
                            self.failed = Some(exit);
                        }
                    }
                    self.events.push(PeerEvent::WriterEnded {
                        member,
                        elements,
                        end,
                    });
                    let is_over = self.writers_min > 0 && self.ended >= self.writers_min;
                    if is_over && self.reader.writers().is_empty() {
                        return Err(StreamError::Ended);
                    }
                }
            }
        }
    }

    fn entry_of(&mut self, member: &Arc<Member>) -> &mut (Arc<Member>, u64) {
        if !self.connected.contains_key(&member.number) {
            let mut others = self.connected.values();
            let has_same_name = others.any(|(other, _)| other.url == member.url);
            self.events.push(PeerEvent::Connected {
                member: member.clone(),
                has_same_name,
            });
        }
        let entry = self.connected.entry(member.number);
        entry.or_insert_with(|| (member.clone(), 0))
    }

    fn peer_events(&mut self) -> Vec<PeerEvent> {
        for present in self.reader.writers() {
            self.entry_of(&present.member);
        }
        std::mem::take(&mut self.events)
    }
}
