//! INFO_ANSWER: everything known about variables, their ledger, and this session's subscriptions.
//!
//! ```text
//! INFO_ANSWER  first_index varint
//!              count x ( 0 varint | varint length | fields )
//!                      ( code varint | sentence text )           (refused)
//! fields   1 name text         2 properties (varint length, fields)        3 sequence varint
//!          4 engine_timestamp i64              5 upstream ledger: 8 varints
//!          6 subscribers varint                7 last_writer text          8 source_state text
//!          9 subscription (repeats):
//!            subscription u32 | contract | flags u8 | subscription ledger: 9 varints
//!         30 held_by text     31 lease_left ms varint     32 writers_waiting varint
//!         36 repaired (repeats, after 9): subscription u32 | count varint
//!         37 reader (repeats): session u32 | from text | transport text | repaired varint
//!         50 audit text
//!         35 forced: as an item of FORCED
//! ```
//!
//! The varints of a ledger are in the order of its identity in [`trunkline_types::ledger`].

use std::time::Duration;

use trunkline_types::ledger::{SubscriptionLedger, UpstreamLedger};
use trunkline_types::wire::{
    decode_properties, encode_properties, put_bytes, put_str, put_u8, put_u32, put_varint,
};
use trunkline_types::{DataType, Properties, Timestamp};

use super::fault::put_fault;
use super::forcing::{ForcedEntry, put_entry, read_entry};
use super::subscribe::{SubscribeTerms, put_terms, read_terms};
use super::typed::TypeRun;
use crate::decode::{Items, Payload};
use crate::limits::{INFO_READERS_MAX, INFO_SUBSCRIPTIONS_MAX};
use crate::tlv::{put_field, put_fixed, put_nested, put_number, put_text, read_fields};
use crate::{DecodeError, FaultRef, Frame, FrameKind, FrameWriter};

/// Everything that the engine knows about a variable, except its reading.
#[derive(Clone, PartialEq, Debug)]
pub struct VariableInfo {
    /// Its full name.
    pub name: String,
    /// The configuration of the variable.
    pub properties: Properties,
    /// Sequence of its last update; 0 if nothing was written yet.
    pub sequence: u64,
    /// Time at which that update was accepted.
    pub engine_timestamp: Timestamp,
    /// Counters of the writes offered to it.
    pub upstream: UpstreamLedger,
    /// Number of subscriptions to it, of all sessions.
    pub subscribers: u64,
    /// The client that wrote last; empty if none did.
    pub last_writer: String,
    /// State of its source; empty if it has none.
    pub source_state: String,
    /// The holder of a lease or the single writer, for people; empty if there is none.
    pub held_by: String,
    /// Remaining time of the lease, sent in ms; zero if the variable is not leased.
    pub lease_left: Duration,
    /// Writers that were refused because of the single writer and are waiting to take over.
    pub writers_waiting: u64,
    /// This session's subscriptions to it, at most 1,024.
    pub subscriptions: Vec<SubscriptionInfo>,
    /// Sessions that subscribe to it, at most 32; not only this client's.
    pub readers: Vec<ReaderInfo>,
    /// The place where the audit of its writes is stored; empty if they are not audited.
    pub audit: String,
    /// The forced value, who forced it, and the value that its source delivers meanwhile.
    pub forced: Option<ForcedEntry>,
}

/// A session that subscribes to a variable.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReaderInfo {
    /// Number of the session; 0 for the engine's own process.
    pub session: u32,
    /// Origin of the session.
    pub from: String,
    /// Transport of its connection, in a word or two.
    pub transport: String,
    /// Number of items sent to it again because it had something else, over all its subscriptions.
    pub repaired: u64,
}

/// One of this session's subscriptions to a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscriptionInfo {
    /// Number, contract and filters.
    pub terms: SubscribeTerms,
    /// Counters of its updates.
    pub ledger: SubscriptionLedger,
}

impl Default for VariableInfo {
    fn default() -> Self {
        Self {
            name: String::new(),
            properties: Properties::new(DataType::Bytes),
            sequence: 0,
            engine_timestamp: Timestamp::UNIX_EPOCH,
            upstream: UpstreamLedger::default(),
            subscribers: 0,
            last_writer: String::new(),
            source_state: String::new(),
            held_by: String::new(),
            lease_left: Duration::ZERO,
            writers_waiting: 0,
            subscriptions: Vec::new(),
            readers: Vec::new(),
            audit: String::new(),
            forced: None,
        }
    }
}

/// Writes an INFO_ANSWER frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct InfoAnswerBuilder<'a> {
    frame: FrameWriter<'a>,
    fields: Vec<u8>,
}

impl<'a> InfoAnswerBuilder<'a> {
    /// Begins a frame at the end of `out`; its first item is item `first_index` of the request.
    pub fn begin(out: &'a mut Vec<u8>, request: u32, first_index: u32) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::InfoAnswer, request);
        put_varint(frame.payload(), u64::from(first_index));
        Self {
            frame,
            fields: Vec::new(),
        }
    }

    /// Appends the information about the next handle.
    pub fn push(&mut self, info: &VariableInfo) {
        self.fields.clear();
        put_info(&mut self.fields, info);
        let out = self.frame.payload();
        put_u8(out, 0);
        put_bytes(out, &self.fields);
        self.frame.count_item();
    }

    /// Appends the refusal of the next handle.
    pub fn push_fault(&mut self, fault: FaultRef<'_>) {
        put_fault(self.frame.payload(), fault);
        self.frame.count_item();
    }

    /// Number of items so far.
    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; set `more` if further frames of this answer follow.
    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

/// An INFO_ANSWER frame; iterates over the items.
#[derive(Clone, Debug)]
pub struct InfoAnswer<'a> {
    first_index: u32,
    items: Items<'a>,
}

impl<'a> InfoAnswer<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` items; errors in the items appear during
    /// iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::InfoAnswer)?;
        let first_index = payload.varint_u32("an index")?;
        Ok(Self {
            first_index,
            items: Items::new(payload, frame.count(), 2)?,
        })
    }

    /// Index of the frame's first item within the whole request.
    pub fn first_index(&self) -> u32 {
        self.first_index
    }
}

impl<'a> Iterator for InfoAnswer<'a> {
    type Item = Result<Result<VariableInfo, FaultRef<'a>>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items.next_with(|payload| {
            if let Some(code) = payload.status()? {
                return Ok(Err(payload.fault_sentence(code)?));
            }
            let length = payload.varint_u32("an item size in bytes")?;
            Ok(Ok(read_info(&mut payload.sub(length as usize)?)?))
        })
    }
}

fn put_info(out: &mut Vec<u8>, info: &VariableInfo) {
    put_text(out, 1, &info.name);
    put_nested(out, 2, |out| encode_properties(&info.properties, out));
    put_number(out, 3, info.sequence);
    put_fixed(out, 4, info.engine_timestamp.as_nanos());
    put_nested(out, 5, |out| {
        put_counters(out, &upstream_counters(&info.upstream))
    });
    put_number(out, 6, info.subscribers);
    put_text(out, 7, &info.last_writer);
    put_text(out, 8, &info.source_state);
    put_text(out, 30, &info.held_by);
    let left = u64::try_from(info.lease_left.as_millis()).unwrap_or(u64::MAX);
    for (id, number) in [(31, left), (32, info.writers_waiting)] {
        if number > 0 {
            put_number(out, id, number);
        }
    }
    let mut entry = Vec::new();
    for subscription in info.subscriptions.iter().take(INFO_SUBSCRIPTIONS_MAX) {
        entry.clear();
        put_terms(&mut entry, &subscription.terms);
        put_counters(&mut entry, &subscription_counters(&subscription.ledger));
        put_field(out, 9, &entry);
    }
    let repaired = info.subscriptions.iter().take(INFO_SUBSCRIPTIONS_MAX);
    for subscription in repaired.filter(|subscription| subscription.ledger.repaired > 0) {
        entry.clear();
        put_u32(&mut entry, subscription.terms.subscription);
        put_varint(&mut entry, subscription.ledger.repaired);
        put_field(out, 36, &entry);
    }
    if let Some(forced) = &info.forced {
        put_nested(out, 35, |out| {
            put_entry(out, &mut TypeRun::default(), forced)
        });
    }
    for reader in info.readers.iter().take(INFO_READERS_MAX) {
        entry.clear();
        put_u32(&mut entry, reader.session);
        put_str(&mut entry, &reader.from);
        put_str(&mut entry, &reader.transport);
        put_varint(&mut entry, reader.repaired);
        put_field(out, 37, &entry);
    }
    put_text(out, 50, &info.audit);
}

fn read_info(fields: &mut Payload<'_>) -> Result<VariableInfo, DecodeError> {
    let mut info = VariableInfo::default();
    read_fields(fields, |id, field| {
        match id {
            1 => info.name = field.whole_text()?.to_owned(),
            2 => info.properties = field.read(decode_properties)?,
            3 => info.sequence = field.varint()?,
            4 => info.engine_timestamp = Timestamp::from_nanos(field.i64()?),
            5 => info.upstream = read_upstream(field)?,
            6 => info.subscribers = field.varint()?,
            7 => info.last_writer = field.whole_text()?.to_owned(),
            8 => info.source_state = field.whole_text()?.to_owned(),
            9 if info.subscriptions.len() == INFO_SUBSCRIPTIONS_MAX => {
                return Err(field.unexpected("at most 1024 subscriptions", 1025));
            }
            9 => {
                let terms = read_terms(field)?;
                info.subscriptions.push(SubscriptionInfo {
                    terms,
                    ledger: read_ledger(field)?,
                });
            }
            30 => info.held_by = field.whole_text()?.to_owned(),
            31 => info.lease_left = Duration::from_millis(field.varint()?),
            32 => info.writers_waiting = field.varint()?,
            36 => {
                let (number, repaired) = (field.u32()?, field.varint()?);
                let mut known = info.subscriptions.iter_mut();
                let found = known.find(|known| known.terms.subscription == number);
                if let Some(subscription) = found {
                    subscription.ledger.repaired = repaired;
                }
            }
            37 if info.readers.len() == INFO_READERS_MAX => {
                return Err(field.unexpected("at most 32 readers", 33));
            }
            37 => info.readers.push(ReaderInfo {
                session: field.u32()?,
                from: field.text(usize::MAX)?.to_owned(),
                transport: field.text(usize::MAX)?.to_owned(),
                repaired: field.varint()?,
            }),
            50 => info.audit = field.whole_text()?.to_owned(),
            35 => info.forced = Some(read_entry(field, &mut TypeRun::default())?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(info)
}

fn put_counters(out: &mut Vec<u8>, counters: &[u64]) {
    counters
        .iter()
        .for_each(|counter| put_varint(out, *counter));
}

fn upstream_counters(ledger: &UpstreamLedger) -> [u64; 8] {
    let UpstreamLedger {
        offered,
        written,
        unchanged,
        superseded,
        refused,
        unknown,
        fifo_overflow,
        upstream_lost,
    } = *ledger;
    [
        offered,
        written,
        unchanged,
        superseded,
        refused,
        unknown,
        fifo_overflow,
        upstream_lost,
    ]
}

fn read_upstream(field: &mut Payload<'_>) -> Result<UpstreamLedger, DecodeError> {
    Ok(UpstreamLedger {
        offered: field.varint()?,
        written: field.varint()?,
        unchanged: field.varint()?,
        superseded: field.varint()?,
        refused: field.varint()?,
        unknown: field.varint()?,
        fifo_overflow: field.varint()?,
        upstream_lost: field.varint()?,
    })
}

fn subscription_counters(ledger: &SubscriptionLedger) -> [u64; 9] {
    [
        ledger.written,
        ledger.filtered,
        ledger.coalesced,
        ledger.dropped_queue,
        ledger.dropped_overrun,
        ledger.dropped_disconnect,
        ledger.waiting,
        ledger.sent_unconfirmed,
        ledger.received,
    ]
}

fn read_ledger(field: &mut Payload<'_>) -> Result<SubscriptionLedger, DecodeError> {
    Ok(SubscriptionLedger {
        written: field.varint()?,
        filtered: field.varint()?,
        coalesced: field.varint()?,
        dropped_queue: field.varint()?,
        dropped_overrun: field.varint()?,
        dropped_disconnect: field.varint()?,
        waiting: field.varint()?,
        sent_unconfirmed: field.varint()?,
        received: field.varint()?,
        repaired: 0,
    })
}
