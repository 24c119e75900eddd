//! ALARMS and ALARM_PAGE list the alarms of variables; ALARM_ACT and ALARM_ACTED carry out
//! operators' actions on alarms.
//!
//! These frames are used only if both ends have the feature ALARMS. An ALARMS frame is answered
//! with one page. If `next` of the page is not 0, there may be more alarms: set `after` of the
//! ALARMS frame for the next page to that number. A page may be empty although more pages follow.
//! In ALARM_ACTED each alarm has its own result: the state after the action, or the reason why the
//! action was refused.

use std::sync::Arc;
use std::time::Duration;

use trunkline_types::Timestamp;
use trunkline_types::alarm::{
    AlarmAction, AlarmDefinition, AlarmKind, AlarmRecord, AlarmState, AlarmStatus,
};
use trunkline_types::wire::{decode_alarm, encode_alarm, put_f64};

use super::fields::{Always, IfSet, Mark, Maybe, fields};
use super::form::{Fixed, Millis, Name, Nanos, Number, Text, Varint, Whole, forms, numbered};
use super::layout::{Field, FieldSink, FieldValue, FrameContext, Record, record};
use super::list::{AnswerHead, list_frame};
#[cfg(test)]
use super::round_trip::Source;
use super::single::single_frame;
use crate::decode::Payload;
use crate::limits::SENTENCE_BYTES_MAX;
use crate::{DecodeError, FaultRef};

fields! {
    /// Asks for a page of alarms.
    #[derive(Copy, Eq, Default)]
    pub struct Alarms<'a> {
        /// The number `next` of the previous page; 0 for the first page.
        1: pub after: u32 = IfSet<Varint>,
        /// Selects alarms of variables with a matching name; empty for all. The engine checks the
        /// pattern.
        2: pub pattern: &'a str = IfSet<Whole>,
        /// Selects alarms of this area; empty for all.
        3: pub area: &'a str = IfSet<Whole>,
        /// Selects alarms of this priority or higher.
        4: pub priority_min: u32 = IfSet<Varint>,
        /// Selects alarms in one of these states: bit n represents the state with the number n. 0
        /// selects all.
        5: pub states: u32 = IfSet<Varint>,
        /// Maximum number of alarms in the page; 0 lets the engine choose.
        6: pub limit: u32 = IfSet<Varint>,
    }
}

single_frame! { Alarms, Alarms<'a> }

record! {
    #[derive(Copy, Eq, Default)]
    pub struct AlarmPageHead {
        /// The number `after` of the request for the next page; 0 if this is the last page.
        pub next: u32 = Fixed,
    }
}

list_frame! {
    AlarmPageForm: AlarmPage, AlarmPageFrame, AlarmPageBuilder,
    head AlarmPageHead, item AlarmStatus, empty_frame kept
}

impl AlarmPageBuilder<'_> {
    /// Completes the frame and sets the final head.
    pub fn finish_page(mut self, head: &AlarmPageHead) {
        self.set_head(head);
        self.finish(false);
    }
}

/// A floating-point number, 8 bytes.
#[derive(Debug)]
pub(super) enum Real {}
/// The definition of an alarm, as in the properties of its variable.
#[derive(Debug)]
enum Definition {}

forms! {
    Real: f64, 8,
        |out, number, _| put_f64(out, *number),
        |payload, _| payload.read(|reader| reader.f64()),
        |number, name, to| to.field(name, FieldValue::Real(*number)),
        |source, _| source.number() as f64;
    Definition: Arc<AlarmDefinition>, 1,
        |out, definition, _| encode_alarm(definition, out),
        |payload, _| payload.read(decode_alarm).map(Arc::new),
        |definition, name, to| to.field(name, FieldValue::Text(&definition.name)),
        |source, _| {
            let area = source.text().into();
            Arc::new(AlarmDefinition { area, ..AlarmDefinition::new(AlarmKind::Stale) })
        };
}

numbered! {
    AlarmState, "an alarm state, 0 to 8" {
        Normal = 0, "normal";
        Unacknowledged = 1, "unacknowledged";
        Acknowledged = 2, "acknowledged";
        ReturnedUnacknowledged = 3, "returned-unacknowledged";
        LatchedUnacknowledged = 4, "latched-unacknowledged";
        LatchedAcknowledged = 5, "latched-acknowledged";
        Shelved = 6, "shelved";
        SuppressedByDesign = 7, "suppressed-by-design";
        OutOfService = 8, "out-of-service";
    }
}

fields! {
    /// An [`AlarmStatus`] on the wire, with the text borrowed from the frame.
    #[derive(Default)]
    struct StatusFields<'a> (sized) {
        1: pub handle: u32 = Always<Varint>,
        2: pub variable: &'a str = IfSet<Whole>,
        3: pub definition: Option<Arc<AlarmDefinition>> = Maybe<Definition>,
        4: pub state: AlarmState = Always<Number>,
        5: pub is_active: bool = Mark as "active",
        /// The current limit or setpoint.
        6: pub operand: Option<f64> = Maybe<Real>,
        /// The value when the alarm was last raised.
        7: pub value: Option<f64> = Maybe<Real>,
        8: pub raised: Option<Timestamp> = Maybe<Nanos>,
        9: pub cleared: Option<Timestamp> = Maybe<Nanos>,
        10: pub acknowledged: Option<Timestamp> = Maybe<Nanos>,
        11: pub acknowledged_by: &'a str = IfSet<Whole>,
        12: pub comment: &'a str = IfSet<Whole>,
        13: pub shelved_until: Option<Timestamp> = Maybe<Nanos>,
        /// The limit or the setpoint when the alarm was raised.
        14: pub raised_operand: Option<f64> = Maybe<Real>,
    }
}

impl<'a> StatusFields<'a> {
    fn of(status: &'a AlarmStatus) -> Self {
        let AlarmStatus {
            handle,
            variable,
            definition,
            operand,
            record,
        } = status;
        let AlarmRecord {
            state,
            is_active,
            value,
            operand: raised_operand,
            raised,
            cleared,
            acknowledged,
            acknowledged_by,
            comment,
            shelved_until,
        } = record;
        Self {
            handle: *handle,
            variable,
            definition: Some(Arc::clone(definition)),
            state: *state,
            is_active: *is_active,
            operand: *operand,
            value: *value,
            raised: *raised,
            cleared: *cleared,
            acknowledged: *acknowledged,
            acknowledged_by,
            comment,
            shelved_until: *shelved_until,
            raised_operand: *raised_operand,
        }
    }

    fn to_status(&self) -> AlarmStatus {
        // `of` always sets the definition. If a peer omits it, the alarm is treated as a `Stale`
        // alarm with defaults.
        let definition = self.definition.clone();
        AlarmStatus {
            handle: self.handle,
            variable: self.variable.to_owned(),
            definition: definition
                .unwrap_or_else(|| Arc::new(AlarmDefinition::new(AlarmKind::Stale))),
            operand: self.operand,
            record: AlarmRecord {
                state: self.state,
                is_active: self.is_active,
                value: self.value,
                operand: self.raised_operand,
                raised: self.raised,
                cleared: self.cleared,
                acknowledged: self.acknowledged,
                acknowledged_by: self.acknowledged_by.to_owned(),
                comment: self.comment.to_owned(),
                shelved_until: self.shelved_until,
            },
        }
    }
}

impl<'a> Record<'a> for AlarmStatus {
    const FIELDS: &'static [Field] = StatusFields::FIELDS;

    fn bytes_min(context: &FrameContext) -> usize {
        StatusFields::bytes_min(context)
    }

    fn put(&self, context: &mut FrameContext, out: &mut Vec<u8>) {
        StatusFields::of(self).put(context, out);
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        StatusFields::read(context, payload).map(|fields| fields.to_status())
    }

    fn show(&self, to: &mut dyn FieldSink) {
        StatusFields::of(self).show(to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        StatusFields::sample(source, context).to_status()
    }
}

/// An [`AlarmAction`] without the duration of shelving.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AlarmVerb {
    Acknowledge,
    Reset,
    Shelve,
    Unshelve,
    TakeOutOfService,
    ReturnToService,
}

numbered! {
    AlarmVerb, "an alarm action, 1 to 6" {
        Acknowledge = 1, "acknowledge";
        Reset = 2, "reset";
        Shelve = 3, "shelve";
        Unshelve = 4, "unshelve";
        TakeOutOfService = 5, "take-out-of-service";
        ReturnToService = 6, "return-to-service";
    }
}

record! {
    #[derive(Copy, Eq)]
    pub struct AlarmActHead<'a> {
        pub verb: AlarmVerb = Number,
        /// The time for which the alarms are shelved, sent in ms; ignored for other verbs.
        pub time: Duration = Millis as "time_ms",
        /// The operator's comment; may be empty.
        pub comment: &'a str = Text<SENTENCE_BYTES_MAX>,
    }
}

impl<'a> AlarmActHead<'a> {
    pub fn new(action: AlarmAction, comment: &'a str) -> Self {
        let (verb, time) = match action {
            AlarmAction::Acknowledge => (AlarmVerb::Acknowledge, Duration::ZERO),
            AlarmAction::Reset => (AlarmVerb::Reset, Duration::ZERO),
            AlarmAction::Shelve(time) => (AlarmVerb::Shelve, time),
            AlarmAction::Unshelve => (AlarmVerb::Unshelve, Duration::ZERO),
            AlarmAction::TakeOutOfService => (AlarmVerb::TakeOutOfService, Duration::ZERO),
            AlarmAction::ReturnToService => (AlarmVerb::ReturnToService, Duration::ZERO),
        };
        Self {
            verb,
            time,
            comment,
        }
    }

    pub fn action(&self) -> AlarmAction {
        match self.verb {
            AlarmVerb::Acknowledge => AlarmAction::Acknowledge,
            AlarmVerb::Reset => AlarmAction::Reset,
            AlarmVerb::Shelve => AlarmAction::Shelve(self.time),
            AlarmVerb::Unshelve => AlarmAction::Unshelve,
            AlarmVerb::TakeOutOfService => AlarmAction::TakeOutOfService,
            AlarmVerb::ReturnToService => AlarmAction::ReturnToService,
        }
    }
}

record! {
    #[derive(Copy, Eq)]
    pub struct AlarmActItem<'a> {
        /// Full name of the variable.
        pub variable: &'a str = Name,
        /// Name of the alarm.
        pub alarm: &'a str = Name,
    }
}

list_frame! {
    AlarmActForm: AlarmAct, AlarmAct, AlarmActBuilder,
    head AlarmActHead<'a>, item AlarmActItem<'a>, empty_frame kept
}

record! {
    #[derive(Copy, Eq)]
    pub struct ActedAlarm {
        /// The state after the action.
        pub state: AlarmState = Number,
    }
}

list_frame! {
    AlarmActedForm: AlarmActed, AlarmActed, AlarmActedBuilder,
    head AnswerHead, item Result<ActedAlarm, FaultRef<'a>>, empty_frame kept
}
