//! Lists alarms in pages, and handles operators' actions on alarms.

use trunkline_engine::{AlarmRefusal, AuditRoom, OrderNote, Refusal};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::alarm::{
    ActedAlarm, AlarmAct, AlarmActHead, AlarmActedBuilder, AlarmPageBuilder, AlarmPageHead, Alarms,
};
use trunkline_proto::message::list::AnswerHead;
use trunkline_proto::{Disconnect, Fault, FrameKind};
use trunkline_types::alarm::{AlarmAction, AlarmState, AlarmStatus};
use trunkline_types::{AuditAction, AuditOutcome, Pattern};

use super::Rejection;
use super::orders::parse_optional_pattern;
use crate::context::{Context, Page, Progress, Request, SLICE};
use crate::gate::{Admitted, RefusedRequest, note_refusal};

/// Maximum number of alarms to examine for one page.
const EXAMINED_MAX: usize = 10 * SLICE;

#[derive(Debug)]
struct AlarmsRequest {
    request: u32,
    after: u32,
    limit: usize,
    filter: Filter,
}

/// The conditions that an alarm must meet to be listed.
#[derive(Debug)]
struct Filter {
    pattern: Option<Pattern>,
    area: String,
    priority_min: u32,
    /// Bit mask of alarm states: bit n selects the state with number n; 0 selects all states.
    states: u32,
}

impl Filter {
    fn selects(&self, alarm: &AlarmStatus) -> bool {
        let number = AlarmState::ALL
            .iter()
            .position(|state| *state == alarm.record.state);
        let state = number.map_or(0, |number| 1_u32 << number);
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.matches(&alarm.variable))
            && (self.area.is_empty() || self.area == alarm.definition.area)
            && u32::from(alarm.definition.priority) >= self.priority_min
            && (self.states == 0 || self.states & state != 0)
    }
}

pub(crate) fn handle_alarms(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Rejection> {
    let alarms = Alarms::decode(frame)?;
    let pattern = parse_optional_pattern(alarms.pattern)?;
    context.queue.push(AlarmsRequest {
        request: frame.request(),
        after: alarms.after,
        limit: match alarms.limit {
            0 => SLICE,
            limit => SLICE.min(limit as usize),
        },
        filter: Filter {
            pattern,
            area: alarms.area.to_owned(),
            priority_min: alarms.priority_min,
            states: alarms.states,
        },
    });
    Ok(())
}

impl Request for AlarmsRequest {
    /// Appends one page of alarms.
    fn run(&mut self, context: &mut Context) -> Progress {
        let after = (self.after > 0).then_some(self.after);
        let alarms = context.engine.alarms();
        let examined = alarms.list(&context.caller, after, EXAMINED_MAX);
        let frames = &mut context.answers.frames;
        let mut page = AlarmPageBuilder::begin(frames, self.request, &AlarmPageHead::default());
        // The next page begins after a whole variable, so a page must not split the alarms of one.
        let mut next = examined.last().map_or(0, |alarm| alarm.handle);
        if examined.len() < EXAMINED_MAX {
            next = 0;
        }
        let mut previous = 0;
        for variable_alarms in examined.chunk_by(|a, b| a.handle == b.handle) {
            let is_full = page.len_bytes() >= PAGE_BYTES || page.count() as usize >= self.limit;
            if previous != 0 && is_full {
                next = previous;
                break;
            }
            let selected = variable_alarms
                .iter()
                .filter(|alarm| self.filter.selects(alarm));
            selected.for_each(|alarm| page.push(alarm));
            previous = variable_alarms.first().map_or(0, |alarm| alarm.handle);
        }
        page.finish_page(&AlarmPageHead { next });
        Progress::Done
    }

    fn bytes(&self) -> usize {
        let pattern = self.filter.pattern.as_ref();
        self.filter.area.len() + pattern.map_or(0, |pattern| pattern.as_str().len())
    }
}

#[derive(Debug)]
struct ActRequest {
    page: Page,
    action: AlarmAction,
    comment: String,
    /// Full name of the variable and name of the alarm, for each alarm to act on.
    items: Vec<(String, String)>,
}

pub(crate) fn handle_act(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    let act = AlarmAct::decode(frame)?;
    let head: AlarmActHead<'_> = *act.head();
    let (action, comment) = (head.action(), head.comment.to_owned());
    let items = act.map(|item| item.map(|item| (item.variable.to_owned(), item.alarm.to_owned())));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    let page = context.page(frame)?;
    context.queue.push(ActRequest {
        page,
        action,
        comment,
        items,
    });
    Ok(())
}

impl Request for ActRequest {
    fn run(&mut self, context: &mut Context) -> Progress {
        let Self {
            page,
            action,
            comment,
            items,
        } = self;
        let answer = AnswerHead {
            first_index: page.first_index(),
        };
        let frames = &mut context.answers.frames;
        let mut acted = AlarmActedBuilder::begin(frames, page.request, &answer);
        let (engine, caller, moment) = (&context.engine, &context.caller, context.moment);
        for (name, alarm) in page.slice(items) {
            page.next += 1;
            let result = match engine.resolve(caller, name) {
                Ok(variable) => {
                    let act = (alarm.as_str(), *action, comment.as_str());
                    let (handle, wakes) = (variable.handle(), &mut context.wakes);
                    let result = engine.alarms().act(caller, handle, act, moment, wakes);
                    if let Ok(state) = result {
                        let effect = match comment.is_empty() {
                            true => format!("{alarm}: {state}"),
                            false => format!("{alarm}: {state}; {comment}"),
                        };
                        let note = OrderNote {
                            action: audited(*action),
                            name: variable.name(),
                            effect: &effect,
                            outcome: AuditOutcome::Done,
                        };
                        // An operator must be able to act on alarms even if the audit trail is
                        // full, so the entry claims no room.
                        let (audit, room) = (engine.audit(), AuditRoom::default());
                        audit.note_order(caller, moment, note, &room, wakes);
                    }
                    if matches!(result, Err(AlarmRefusal::Variable(Refusal::Denied { .. }))) {
                        let request = RefusedRequest {
                            request: FrameKind::AlarmAct.name(),
                            name: variable.name(),
                        };
                        note_refusal(engine, caller, request, moment, &mut context.wakes);
                    }
                    result.map_err(|refusal| Fault::from(&refusal))
                }
                Err(error) => Err(Fault::from(&error)),
            };
            match result {
                Ok(state) => acted.push(&Ok(ActedAlarm { state })),
                Err(fault) => acted.push(&Err(fault.as_ref())),
            }
            if acted.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        acted.finish(page.has_more(items.len()));
        page.progress(items.len())
    }

    fn units(&self) -> usize {
        self.page.units(self.items.len())
    }

    fn bytes(&self) -> usize {
        let texts = self
            .items
            .iter()
            .map(|(name, alarm)| name.len() + alarm.len());
        texts.sum::<usize>() + self.items.len() * size_of::<(String, String)>() + self.comment.len()
    }
}

/// Returns the action in the audit trail.
fn audited(action: AlarmAction) -> AuditAction {
    match action {
        AlarmAction::Acknowledge => AuditAction::AlarmAcknowledge,
        AlarmAction::Reset => AuditAction::AlarmReset,
        AlarmAction::Shelve(_) => AuditAction::AlarmShelve,
        AlarmAction::Unshelve => AuditAction::AlarmUnshelve,
        AlarmAction::TakeOutOfService => AuditAction::AlarmDisable,
        AlarmAction::ReturnToService => AuditAction::AlarmEnable,
    }
}
