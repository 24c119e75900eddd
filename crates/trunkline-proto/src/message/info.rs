//! INFO_ANSWER: all information about variables, with their ledger and this session's
//! subscriptions.
//!
//! The varints of a ledger are in the order of the terms of its identity in
//! [`trunkline_types::ledger`].

use std::time::Duration;

use trunkline_types::ledger::{SubscriptionLedger, WriteLedger};
use trunkline_types::wire::put_varint;
use trunkline_types::{DataType, Properties, Timestamp};

use super::fields::{Always, FieldForm, IfSet, Many, Maybe, fields};
use super::forcing::ForcedEntry;
use super::form::{
    Configuration, Elsewhere, Fixed, Flat, Form, Inner, Millis, Name, Nanos, Varint, Whole,
};
use super::layout::{FieldSink, FrameContext, record};
use super::list::{AnswerHead, list_frame};
#[cfg(test)]
use super::round_trip::Source;
use super::subscribe::SubscribeTerms;
use crate::decode::Payload;
use crate::limits::{INFO_READERS_MAX, INFO_SUBSCRIPTIONS_MAX};
use crate::tlv::put_sized;
use crate::{DecodeError, FaultRef};

/// All information that the engine has about a variable, except its reading.
#[derive(Clone, PartialEq, Debug)]
pub struct VariableInfo {
    /// Full name of the variable.
    pub name: String,
    /// The configuration of the variable.
    pub properties: Properties,
    /// Sequence of the last update; 0 if the variable has not been written yet.
    pub sequence: u64,
    /// Time at which the engine accepted the last update.
    pub engine_timestamp: Timestamp,
    /// Counters of the writes to the variable.
    pub write_ledger: WriteLedger,
    /// Number of subscriptions to the variable, from all sessions.
    pub subscribers: u64,
    /// The client that wrote last; empty if no client has written.
    pub last_writer: String,
    /// State of the source; empty if the variable has no source.
    pub source_state: String,
    /// The holder of the lease or the single writer, shown to users; empty if there is none.
    pub held_by: String,
    /// Remaining time of the lease, sent in ms; zero if the variable is not leased.
    pub lease_left: Duration,
    /// Number of refused writers that wait to become the single writer.
    pub writers_waiting: u64,
    /// This session's subscriptions to the variable, at most 1,024.
    pub subscriptions: Vec<SubscriptionInfo>,
    /// Sessions that subscribe to the variable, at most 32, including sessions of other clients.
    pub readers: Vec<ReaderInfo>,
    /// The location of the audit trail of the writes; empty if they are not audited.
    pub audit: String,
    /// The forced value, the principal that forced it, and the value that its source currently
    /// delivers.
    pub forced: Option<ForcedEntry>,
}

record! {
    /// A session that subscribes to a variable.
    #[derive(Eq, Default)]
    pub struct ReaderInfo {
        /// Number of the session; 0 for a subscription in the engine's own process.
        pub session: u32 = Fixed,
        /// Origin of the session.
        pub from: String = Name,
        /// Transport of the connection, in a word or two.
        pub transport: String = Name,
        /// Number of items in all subscriptions of the session that were resent because the client had
        /// a different value.
        pub repaired: u64 = Varint,
    }
}

record! {
    /// One of this session's subscriptions to a variable.
    #[derive(Copy, Eq)]
    pub struct SubscriptionInfo {
        /// Number, contract and filters.
        pub terms: SubscribeTerms = Inner,
        /// Counters of the updates of the subscription.
        pub ledger: SubscriptionLedger = Flat,
    }
}

impl Default for VariableInfo {
    fn default() -> Self {
        Self {
            name: String::new(),
            properties: Properties::new(DataType::Bytes),
            sequence: 0,
            engine_timestamp: Timestamp::UNIX_EPOCH,
            write_ledger: WriteLedger::default(),
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

fields! {
    sized impl VariableInfo {
        1: name = IfSet<Whole>,
        2: properties = Always<Configuration>,
        3: sequence = Always<Varint>,
        4: engine_timestamp = Always<Nanos>,
        5: write_ledger = Always<Inner> as "upstream",
        6: subscribers = Always<Varint>,
        7: last_writer = IfSet<Whole>,
        8: source_state = IfSet<Whole>,
        30: held_by = IfSet<Whole>,
        31: lease_left = IfSet<Millis> as "lease_left_ms",
        32: writers_waiting = IfSet<Varint>,
        9: subscriptions = Many<INFO_SUBSCRIPTIONS_MAX, Inner>,
        36: subscriptions = Repaired,
        35: forced = Maybe<Inner>,
        37: readers = Many<INFO_READERS_MAX, Inner>,
        50: audit = IfSet<Whole>,
    }
}

record! {
    impl WriteLedger {
        offered: u64 = Varint,
        written: u64 = Varint,
        unchanged: u64 = Varint,
        superseded: u64 = Varint,
        refused: u64 = Varint,
        unknown: u64 = Varint,
        fifo_overflow: u64 = Varint,
        upstream_lost: u64 = Varint,
    }
}

record! {
    impl SubscriptionLedger {
        written: u64 = Varint,
        filtered: u64 = Varint,
        coalesced: u64 = Varint,
        dropped_queue: u64 = Varint,
        repaired: u64 = Elsewhere,
        dropped_overrun: u64 = Varint,
        dropped_disconnect: u64 = Varint,
        waiting: u64 = Varint,
        sent_unconfirmed: u64 = Varint,
        received: u64 = Varint,
    }
}

/// The counters of repaired items, which could not be added to field 9.
enum Repaired {}

impl<'a> FieldForm<'a, Vec<SubscriptionInfo>> for Repaired {
    fn put(id: u64, subscriptions: &Vec<SubscriptionInfo>, out: &mut Vec<u8>) {
        let sent = subscriptions.iter().take(INFO_SUBSCRIPTIONS_MAX);
        for subscription in sent.filter(|subscription| subscription.ledger.repaired > 0) {
            let context = &mut FrameContext::default();
            put_varint(out, id);
            put_sized(out, |out| {
                Fixed::put(&subscription.terms.subscription, context, out);
                Varint::put(&subscription.ledger.repaired, context, out);
            });
        }
    }

    fn read(
        subscriptions: &mut Vec<SubscriptionInfo>,
        _: &mut FrameContext,
        field: &mut Payload<'a>,
    ) -> Result<(), DecodeError> {
        let (number, repaired) = (field.u32()?, field.varint()?);
        let mut subscriptions = subscriptions.iter_mut();
        if let Some(found) = subscriptions.find(|one| one.terms.subscription == number) {
            found.ledger.repaired = repaired;
        }
        Ok(())
    }

    fn show(_: &Vec<SubscriptionInfo>, _: &str, _: &mut dyn FieldSink) {}

    #[cfg(test)]
    fn sample(subscriptions: &mut Vec<SubscriptionInfo>, source: &mut Source<'a>) {
        for (number, subscription) in (0..).zip(subscriptions) {
            subscription.terms.subscription = number;
            subscription.ledger.repaired = source.number();
        }
    }
}

list_frame! {
    InfoAnswerFrame: InfoAnswer, InfoAnswer, InfoAnswerBuilder,
    head AnswerHead, item Result<VariableInfo, FaultRef<'a>>, empty_frame kept
}
