//! Queries alarms, and carries out the actions of operators on them.

use trunkline_proto::message::alarm::{
    AlarmActBuilder, AlarmActHead, AlarmActItem, AlarmActed, AlarmPageFrame, Alarms as AlarmsFrame,
};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};
use trunkline_types::Pattern;
use trunkline_types::alarm::{AlarmAction, AlarmState, AlarmStatus};

use super::{Answering, Ending, Exchange, Next, Prepared, Sending};
use crate::error::malformed;
use crate::parts::Parts;

/// Maximum number of alarms that one query collects.
pub const ALARMS_MAX: usize = 1_000_000;

pub(super) const MISSING: &str = "does not support alarms; update it";

/// Selects the alarms of a query. The default selects all alarms.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AlarmQuery {
    /// Only alarms of variables with matching names.
    pub pattern: Option<Pattern>,
    /// Only alarms of this area. All areas if empty.
    pub area: String,
    /// Only alarms of at least this priority.
    pub priority_min: u16,
    /// Only alarms in one of these states. All states if empty.
    pub states: Vec<AlarmState>,
}

/// Queries alarms, and collects all pages of the answer.
#[derive(Debug)]
pub struct Alarms {
    query: Box<AlarmQuery>,
    after: u32,
    found: Vec<AlarmStatus>,
}

impl Alarms {
    pub(crate) fn new(query: Box<AlarmQuery>) -> Self {
        Self {
            query,
            after: 0,
            found: Vec::new(),
        }
    }
}

/// Returns the states as a bit mask. Bit n is the state with the number n.
pub(super) fn states_mask(states: &[AlarmState]) -> u32 {
    let bits = states.iter().map(|state| 1 << state.number());
    bits.fold(0, |all, bit: u32| all | bit)
}

impl Exchange for Alarms {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::AlarmPage);
    type End = Result<Vec<AlarmStatus>, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some((Features::ALARMS, MISSING))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let query = &self.query;
        AlarmsFrame {
            after: self.after,
            pattern: query.pattern.as_ref().map_or("", Pattern::as_str),
            area: &query.area,
            priority_min: u32::from(query.priority_min),
            states: states_mask(&query.states),
            limit: 0,
        }
        .encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let page = AlarmPageFrame::decode(answer.frame)?;
        let next = page.head().next;
        for alarm in page {
            let alarm = alarm?;
            if self.found.len() < ALARMS_MAX {
                self.found.push(alarm);
            }
        }
        match next {
            0 => Ok(Next::Settle),
            next if next <= self.after => Err(malformed(format!(
                "the engine sent a page of alarms that continues at {next}, which the client \
                 already has"
            ))),
            next if self.found.len() < ALARMS_MAX => {
                self.after = next;
                Ok(Next::Again)
            }
            _ => Ok(Next::Settle),
        }
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(Some(self.found))
    }

    fn restart(&mut self) {
        // A restarted engine numbers its variables differently.
        (self.after, self.found) = (0, Vec::new());
    }
}

/// The name of an alarm.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
/// Identifies an alarm.
pub struct AlarmName {
    /// Full name of the variable.
    pub variable: String,
    /// Name of the alarm, unique within the variable.
    pub alarm: String,
}

impl From<&AlarmStatus> for AlarmName {
    fn from(status: &AlarmStatus) -> Self {
        Self {
            variable: status.variable.clone(),
            alarm: status.definition.name.clone(),
        }
    }
}

/// Applies one action to alarms.
#[derive(Debug)]
pub struct ActOnAlarms {
    pub(crate) action: AlarmAction,
    pub(crate) comment: String,
    pub(crate) alarms: Vec<AlarmName>,
    pub(crate) results: Vec<Result<AlarmState, Fault>>,
}

impl Exchange for ActOnAlarms {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::AlarmActed);
    const CHECK_HINT: &'static str = "check with `trunkline alarm ls`";
    type End = Result<Vec<Result<AlarmState, Fault>>, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some((Features::ALARMS, MISSING))
    }

    fn changes_engine(&self) -> bool {
        true
    }

    fn prepare(&mut self, _: &mut Parts) -> Prepared {
        // The client checked the number of items when the request was made.
        Prepared::Items(u32::try_from(self.alarms.len()).unwrap_or(u32::MAX))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let head = AlarmActHead::new(self.action, &self.comment);
        let mut frame = AlarmActBuilder::begin(sending.out, sending.number, &head);
        let unsent = self.alarms.get(*sending.sent as usize..);
        for AlarmName { variable, alarm } in unsent.unwrap_or_default() {
            if frame.len_bytes() >= sending.page {
                break;
            }
            frame.push(&AlarmActItem { variable, alarm });
            *sending.sent += 1;
        }
        frame.finish(*sending.sent < sending.total);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let acted = AlarmActed::decode(answer.frame)?;
        let mut index = acted.head().first_index;
        for result in acted {
            let result = result?;
            answer.item(&mut index)?;
            let state = result.map(|acted| acted.state);
            self.results.push(state.map_err(|fault| fault.to_fault()));
        }
        Ok(Next::Settle)
    }

    fn end(mut self, ending: Ending<'_>) -> Self::End {
        let missing = ending.missing();
        self.results.resize(self.alarms.len(), Err(missing));
        Ok(self.results)
    }

    fn unknown(&self, fault: &Fault) -> Option<Self::End> {
        Some(Ok(vec![Err(fault.clone()); self.alarms.len()]))
    }
}
