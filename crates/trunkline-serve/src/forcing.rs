//! Queries and switches of forcing (H-27).

use trunkline_engine::{ForcedVariable, NoAuditRoom, Variable, Wakes};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::forcing::{
    ForcedBuilder, ForcedEntry, ForcedHead, Forcing, ForcingVerb,
};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::{Tick, Timestamp};

use crate::fault::audit_unstored;
use crate::session::Session;
use crate::work::{Progress, SLICE, Work};

impl Session {
    pub(crate) fn handle_forcing(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let request = frame.request();
        let forcing = Forcing::decode(frame)?;
        self.work.push(Work::Forcing { request, forcing });
        Ok(())
    }

    pub(crate) fn run_forcing(
        &mut self,
        request: u32,
        forcing: Forcing,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Progress {
        let rights = self.caller.rights;
        let is_permitted = match forcing.verb {
            ForcingVerb::List => rights.read,
            ForcingVerb::On | ForcingVerb::Off | ForcingVerb::Clear => rights.administer,
        };
        if !is_permitted {
            let sentence = "you may not do this with the list of forced variables; ask the \
                            engine's administrator for the right to";
            self.put_fault(request, &Fault::new(FaultCode::Denied, sentence));
            return Progress::Done;
        }
        self.parked_until = None;
        let engine = &self.engine;
        let changed = match forcing.verb {
            ForcingVerb::List => {
                self.list_forced(request, forcing);
                return Progress::Done;
            }
            ForcingVerb::On => engine.set_forcing(&self.caller, true, now, wall, wakes),
            ForcingVerb::Off => engine.set_forcing(&self.caller, false, now, wall, wakes),
            ForcingVerb::Clear => engine.clear_forcing(&self.caller, now, wall, wakes),
        };
        let concerned = match changed {
            Ok(concerned) => concerned,
            Err(NoAuditRoom::Wait(until)) => {
                return match self.consumer.wait_for_audit() {
                    true => {
                        self.parked_until = Some(until);
                        Progress::Parked
                    }
                    // There may be room now, so the request is tried again at once.
                    false => Progress::More,
                };
            }
            Err(NoAuditRoom::Unstored) => {
                self.put_fault(request, &audit_unstored());
                return Progress::Done;
            }
        };
        let head = ForcedHead {
            is_on: engine.is_forcing(),
            total: concerned as u32,
            next_cursor: 0,
        };
        ForcedBuilder::begin(&mut self.answers.frames, request, &head).finish(false);
        Progress::Done
    }

    /// Appends one page: at most as many entries as requested, and no more than fit into one frame.
    fn list_forced(&mut self, request: u32, forcing: Forcing) {
        let limit = match forcing.limit {
            0 => SLICE,
            limit => SLICE.min(limit as usize),
        };
        let page = self.engine.forced_page(&self.caller, forcing.cursor, limit);
        let mut next_cursor = page.next.unwrap_or(0);
        let mut builder =
            ForcedBuilder::begin(&mut self.answers.frames, request, &ForcedHead::default());
        for forced in page.variables {
            if builder.len_bytes() >= PAGE_BYTES {
                next_cursor = forced.handle;
                break;
            }
            if let Some(variable) = self.engine.variable(forced.handle) {
                builder.push(&entry(&variable, forced));
            }
        }
        builder.finish_page(&ForcedHead {
            is_on: page.is_on,
            total: page.total as u32,
            next_cursor,
        });
    }
}

pub(crate) fn entry(variable: &Variable, forced: ForcedVariable) -> ForcedEntry {
    ForcedEntry {
        name: variable.name().to_owned(),
        data_type: variable.data_type().clone(),
        value: forced.value,
        by: forced.by.to_string(),
        since: forced.since,
        behind: forced.behind,
    }
}
