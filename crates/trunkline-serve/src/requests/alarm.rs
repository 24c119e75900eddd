//! Pages of alarms, and operators' actions on alarms.

use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::alarm::{
    ActedAlarm, AlarmAct, AlarmActHead, AlarmActedBuilder, AlarmPageBuilder, AlarmPageHead, Alarms,
};
use trunkline_proto::message::list::AnswerHead;
use trunkline_proto::{Disconnect, Fault, Frame};
use trunkline_types::Pattern;
use trunkline_types::alarm::{AlarmAction, AlarmState, AlarmStatus};

use super::Rejection;
use super::orders::pattern_of;
use crate::context::{Context, Page, Progress, Request, SLICE};

/// Number of alarms examined for one page.
const EXAMINED_MAX: usize = 10 * SLICE;

#[derive(Debug)]
struct AlarmsRequest {
    request: u32,
    after: u32,
    limit: usize,
    filter: Filter,
}

/// Selects the alarms that a client requests.
#[derive(Debug)]
struct Filter {
    pattern: Option<Pattern>,
    area: String,
    priority_min: u32,
    /// Bit n represents the state with the number n; 0 selects all.
    states: u32,
}

impl Filter {
    fn selects(&self, alarm: &AlarmStatus) -> bool {
        let number = AlarmState::ALL
            .iter()
            .position(|one| *one == alarm.record.state);
        let state = number.map_or(0, |number| 1_u32 << number);
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.matches(&alarm.variable))
            && (self.area.is_empty() || self.area == alarm.definition.area)
            && u32::from(alarm.definition.priority) >= self.priority_min
            && (self.states == 0 || self.states & state != 0)
    }
}

pub(crate) fn handle_alarms(context: &mut Context, frame: &Frame<'_>) -> Result<(), Rejection> {
    let asked = Alarms::decode(frame)?;
    let pattern = pattern_of(asked.pattern)?;
    context.queue.push(AlarmsRequest {
        request: frame.request(),
        after: asked.after,
        limit: match asked.limit {
            0 => SLICE,
            limit => SLICE.min(limit as usize),
        },
        filter: Filter {
            pattern,
            area: asked.area.to_owned(),
            priority_min: asked.priority_min,
            states: asked.states,
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
        // A page contains either all alarms of a variable or none, because the next page begins
        // after that variable.
        let mut next = examined.last().map_or(0, |alarm| alarm.handle);
        if examined.len() < EXAMINED_MAX {
            next = 0;
        }
        let mut before = 0;
        for of_variable in examined.chunk_by(|a, b| a.handle == b.handle) {
            let is_full = page.len_bytes() >= PAGE_BYTES || page.count() as usize >= self.limit;
            if before != 0 && is_full {
                next = before;
                break;
            }
            let selected = of_variable
                .iter()
                .filter(|alarm| self.filter.selects(alarm));
            selected.for_each(|alarm| page.push(alarm));
            before = of_variable.first().map_or(0, |alarm| alarm.handle);
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
    /// For each alarm, the full name of the variable and the name of the alarm.
    items: Vec<(String, String)>,
}

pub(crate) fn handle_act(context: &mut Context, frame: &Frame<'_>) -> Result<(), Disconnect> {
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
                    let asked = (alarm.as_str(), *action, comment.as_str());
                    let (handle, wakes) = (variable.handle(), &mut context.wakes);
                    let acted = engine.alarms().act(caller, handle, asked, moment, wakes);
                    acted.map_err(|refusal| Fault::from(&refusal))
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
