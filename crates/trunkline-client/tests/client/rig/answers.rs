//! The answers of the fake engine.

use std::collections::BTreeSet;
use std::time::Duration;

use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::find::{FoundVariable, NamesBuilder, NamesHead};
use trunkline_proto::message::info::{InfoAnswerBuilder, VariableInfo};
use trunkline_proto::message::list::AnswerHead;
use trunkline_proto::message::open::{OpenOptions, OpenedBuilder};
use trunkline_proto::message::outcome::WriteAnswer;
use trunkline_proto::message::provider::begin_provided;
use trunkline_proto::message::read::ReadingsBuilder;
use trunkline_proto::message::results::ResultsBuilder;
use trunkline_proto::message::why::{WhyAnswerBuilder, WhyStage, WhyStep, WhyVerdict};
use trunkline_proto::message::write::{WriteAnswersBuilder, WriteAnswersHead};
use trunkline_proto::{Fault, FaultCode, FrameKind};
use trunkline_types::Contract;

use super::engine::{FakeEngine, FakeSubscription};
use super::said::{Said, SaidWrite};

/// Maximum number of names in an answer to a search, so that searches have several pages.
const NAMES_PAGE: u64 = 100;

impl FakeEngine {
    /// Answers a frame as an engine does.
    pub fn answer(&mut self, said: &Said) {
        match said {
            Said::Hello(_) => match &self.refused {
                Some(refused) => refused.encode(&mut self.out),
                None => self.welcome.encode(&mut self.out),
            },
            // Tests answer these as they need it.
            Said::Goodbye(_)
            | Said::Watch { .. }
            | Said::Unwatch(_)
            | Said::Audit { .. }
            | Said::History { .. } => {}
            Said::Keepalive(keepalive) => self.confirm(keepalive.records_received),
            Said::Ack { records, grants } => {
                self.confirm(*records);
                for (subscription, more) in grants {
                    if let Some(subscription) = self.subscriptions.get_mut(subscription) {
                        subscription.granted += more;
                    }
                }
            }
            Said::Open { .. } => self.answer_open(said),
            Said::Subscribe { .. } => self.answer_subscribe(said),
            Said::Unsubscribe {
                request,
                subscription,
                handles,
                more,
            } => {
                match handles.is_empty() {
                    true => drop(self.subscriptions.remove(subscription)),
                    false => {
                        let entry = self.subscriptions.get_mut(subscription).unwrap();
                        entry.handles.retain(|handle| !handles.contains(handle));
                    }
                }
                self.answer_closed(*request, handles.len(), *more);
            }
            Said::Handles {
                kind,
                request,
                handles,
                more,
            } => {
                self.answer_handles(*kind, *request, handles, *more);
            }
            Said::Write(writes) | Said::Publish(writes) => self.answer_writes(writes),
            Said::Answers(_) | Said::Compare => {}
            Said::Provide { request, .. } => {
                let (lease, options) = (Duration::from_secs(3), OpenOptions::default());
                begin_provided(&mut self.out, *request, lease, options, 0).finish(false);
            }
            Said::Find {
                request, cursor, ..
            } => self.answer_find(*request, *cursor),
            Said::Why { request, .. } => {
                let mut answer = WhyAnswerBuilder::begin(&mut self.out, *request, &());
                let (stage, verdict) = (WhyStage::Library, WhyVerdict::Fault);
                answer.push(&WhyStep {
                    stage,
                    verdict,
                    sentence: "it is stopped",
                    next: "start it",
                });
                answer.finish(false);
            }
            Said::Engine { request } => {
                EngineInfo {
                    name: "fake".to_owned(),
                    ..EngineInfo::default()
                }
                .encode(*request, &mut self.out);
            }
        }
    }

    fn confirm(&mut self, records: u64) {
        assert!(
            records <= self.records_sent,
            "{records} of {} confirmed",
            self.records_sent
        );
        assert!(
            records >= self.records_confirmed,
            "a confirmation was taken back"
        );
        self.records_confirmed = records;
    }

    fn page(&mut self, request: u32, count: usize, more: bool) -> u32 {
        let first = self.pages.remove(&request).unwrap_or(0);
        if more {
            self.pages.insert(request, first + count as u32);
        }
        first
    }

    fn answer_open(&mut self, said: &Said) {
        let Said::Open {
            request,
            terms,
            names,
            more,
        } = said
        else {
            return;
        };
        let first = self.page(*request, names.len(), *more);
        let mut out = std::mem::take(&mut self.out);
        let mut subscribed = Vec::new();
        let mut answer = OpenedBuilder::begin(&mut out, *request, terms.options, first);
        for name in names {
            let found = match self.places.is_empty() {
                true => self
                    .variables
                    .iter()
                    .find(|v| v.name == *name)
                    .map(|v| v.handle),
                false => self.places.get(name).map(|place| 100 + *place as u32),
            };
            let Some(handle) = found else {
                answer.push_fault(Fault::from(FaultCode::UnknownName).as_ref());
                continue;
            };
            let mut value = Vec::new();
            let reading = self.record(handle, &mut value);
            let variable = self.variable(handle);
            let properties = Some(&variable.properties);
            answer.push(
                handle,
                &variable.data_type,
                variable.access,
                Some(&reading),
                properties,
            );
            subscribed.push(handle);
        }
        answer.finish(*more);
        self.out = out;
        if let Some(terms) = terms.subscribe {
            for handle in subscribed {
                self.subscribe(terms.subscription, terms.contract, handle);
                self.send_current(terms.subscription, handle);
            }
        }
    }

    fn subscribe(&mut self, id: u32, contract: Contract, handle: u32) {
        let granted = match contract {
            Contract::All { elements, .. } => u64::from(elements),
            _ => 0,
        };
        let entry = self
            .subscriptions
            .entry(id)
            .or_insert_with(|| FakeSubscription {
                handles: BTreeSet::new(),
                granted,
            });
        assert!(
            entry.handles.insert(handle),
            "{handle} is subscribed twice under {id}"
        );
    }

    fn answer_subscribe(&mut self, said: &Said) {
        let Said::Subscribe {
            request,
            terms,
            resume,
            items,
            more,
        } = said
        else {
            return;
        };
        let first = self.page(*request, items.len(), *more);
        let mut out = std::mem::take(&mut self.out);
        let mut answer = ResultsBuilder::subscribed(&mut out, *request, first);
        let mut subscribed = Vec::new();
        for (handle, last) in items {
            if !self.places.is_empty() || self.variables.iter().any(|v| v.handle == *handle) {
                answer.push_ok();
                subscribed.push((*handle, *last));
            } else {
                answer.push_fault(Fault::from(FaultCode::UnknownHandle).as_ref());
            }
        }
        answer.finish(*more);
        self.out = out;
        for (handle, last) in subscribed {
            self.subscribe(terms.subscription, terms.contract, handle);
            let sequence = self.variable(handle).sequence;
            let known = last > 0 && *resume == Some(self.welcome.epoch);
            if !known || sequence != last {
                if known && sequence > last.saturating_add(1) {
                    super::lost(&mut self.out, terms.subscription, handle, |lost| {
                        lost.disconnect = sequence - last - 1;
                    });
                }
                self.send_current(terms.subscription, handle);
            }
        }
    }

    fn answer_closed(&mut self, request: u32, count: usize, more: bool) {
        let first = self.page(request, count, more);
        let mut answer = ResultsBuilder::closed(&mut self.out, request, first);
        (0..count).for_each(|_| answer.push_ok());
        answer.finish(more);
    }

    fn answer_handles(&mut self, kind: FrameKind, request: u32, handles: &[u32], more: bool) {
        if kind == FrameKind::Close {
            return self.answer_closed(request, handles.len(), more);
        }
        let first = self.page(request, handles.len(), more);
        let mut out = std::mem::take(&mut self.out);
        match kind {
            FrameKind::Read => {
                let mut answer = ReadingsBuilder::begin(&mut out, request, first);
                for handle in handles {
                    let mut value = Vec::new();
                    answer.push(&self.record(*handle, &mut value));
                }
                answer.finish(more);
            }
            FrameKind::RequestValue => {
                let mut answer = ResultsBuilder::requested(&mut out, request, first);
                let fault = Fault::from(FaultCode::ProviderGone);
                handles
                    .iter()
                    .for_each(|_| answer.push_fault(fault.as_ref()));
                answer.finish(more);
            }
            FrameKind::Info => {
                let head = AnswerHead { first_index: first };
                let mut answer = InfoAnswerBuilder::begin(&mut out, request, &head);
                for handle in handles {
                    let name = self.variable(*handle).name.clone();
                    answer.push(&Ok(VariableInfo {
                        name,
                        ..VariableInfo::default()
                    }));
                }
                answer.finish(more);
            }
            other => panic!("{other} from a client"),
        }
        self.out = out;
    }

    /// Carries out writes, and answers them with one frame.
    pub fn answer_writes(&mut self, writes: &[SaidWrite]) {
        let sequences: Vec<u64> = writes
            .iter()
            .map(|write| {
                let variable = self.variable(write.handle);
                variable.sequence += 1;
                variable.sequence
            })
            .collect();
        let mut answer = WriteAnswersBuilder::begin(
            &mut self.out,
            0,
            &WriteAnswersHead {
                first_write: writes[0].number,
            },
        );
        for sequence in sequences {
            answer.push(&WriteAnswer::Applied(sequence));
        }
        answer.finish(false);
    }

    fn answer_find(&mut self, request: u32, cursor: u64) {
        let mut answer = NamesBuilder::begin(&mut self.out, request, &NamesHead::default());
        let page = self
            .variables
            .iter()
            .skip(cursor as usize)
            .take(NAMES_PAGE as usize);
        page.for_each(|v| {
            answer.push(&FoundVariable {
                name: &v.name,
                data_type: v.data_type.clone(),
                access: v.access,
            });
        });
        let next = cursor + NAMES_PAGE;
        answer.finish_page((next < self.variables.len() as u64).then_some(next));
    }
}
