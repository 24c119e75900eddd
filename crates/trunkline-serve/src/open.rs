//! Opens and subscribes variables: names or handles in, results item by item.

use std::sync::Arc;

use trunkline_engine::{AccessError, Engine, Variable};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::open::{Open, OpenedBuilder};
use trunkline_proto::message::results::ResultsBuilder;
use trunkline_proto::message::subscribe::{Subscribe, SubscribeHead, SubscribeTerms};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::name::NameError;
use trunkline_types::{Contract, Position, Tick};

use crate::request_budget::{ITEM_BYTES, Use};
use crate::session::Session;
use crate::updates::Records;
use crate::work::{Names, OpenWork, Progress, SubscribeWork, Work};

/// Number of misses per request for which the nearest name is searched.
const SUGGESTIONS_MAX: u32 = 8;

/// The way in which the first reading of a subscription counts under `all`.
#[derive(Clone, Copy)]
enum First {
    /// In addition to the credit: the client knows that the reading is the first one.
    Beside,
    /// Within the credit, like every update: only the engine knows whether there is a first
    /// reading.
    Within(Option<Position>),
}

impl Session {
    pub(crate) fn handle_open(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let open = Open::decode(frame)?;
        let terms = *open.head();
        let mut names = Names::default();
        for name in open {
            names.push(name?);
        }
        let page = self.page(frame)?;
        self.work.push(Work::Open(OpenWork {
            page,
            terms,
            names,
            misses: 0,
        }));
        Ok(())
    }

    pub(crate) fn handle_subscribe(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let subscribe = Subscribe::decode(frame)?;
        let SubscribeHead {
            terms,
            resume_epoch,
        } = *subscribe.head();
        let items = subscribe.collect::<Result<Vec<_>, _>>()?;
        let page = self.page(frame)?;
        self.work.push(Work::Subscribe(SubscribeWork {
            page,
            terms,
            resume_epoch,
            items,
        }));
        Ok(())
    }

    /// Opens the next slice of names.
    pub(crate) fn run_open(&mut self, work: &mut OpenWork, now: Tick) -> Progress {
        let engine = self.engine.clone();
        let mut answers = std::mem::take(&mut self.answers.frames);
        let (options, total) = (work.terms.options, work.names.len());
        let (request, first) = (work.page.request, work.page.first_index());
        let mut frame = OpenedBuilder::begin(&mut answers, request, options, first);
        for index in work.page.range(total) {
            work.page.next += 1;
            let name = work.names.get(index).unwrap_or_default();
            let subscribe = work.terms.subscribe.as_ref();
            match self.open_one(&engine, name, subscribe, &mut work.misses, now) {
                Err(fault) => frame.push_fault(fault.as_ref()),
                Ok(variable) => {
                    let properties = variable.properties();
                    let handle = variable.handle();
                    let update = options.read.then(|| self.readable(&variable).ok());
                    let reading = update.as_ref().map(|update| match update {
                        Some(update) => {
                            let records = self.records.within(update, |room| frame.make_room(room));
                            records.record(handle, update)
                        }
                        None => Records::not_readable(handle),
                    });
                    frame.push(
                        handle,
                        &properties.data_type,
                        properties.access,
                        reading.as_ref(),
                        options.describe.then_some(&**properties),
                    );
                }
            }
            if frame.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        frame.finish(work.page.has_more(total));
        self.answers.frames = answers;
        work.page.progress(total)
    }

    fn open_one(
        &mut self,
        engine: &Engine,
        name: &[u8],
        terms: Option<&SubscribeTerms>,
        misses: &mut u32,
        now: Tick,
    ) -> Result<Arc<Variable>, Fault> {
        let found = std::str::from_utf8(name)
            .map_err(|_| AccessError::InvalidName(NameError::NotUtf8))
            .and_then(|name| engine.open_name(&self.caller, name, now, self.last_seen.1));
        let variable = found.map_err(|error| Fault::from(&self.suggest(error, misses)))?;
        let kept = self.consumer.keep_field(variable);
        let variable = kept.map_err(|error| Fault::from(&error))?;
        if let Some(terms) = terms {
            self.subscribe_one(&variable, terms, First::Beside, now)?;
        }
        Ok(variable)
    }

    /// Adds the nearest existing name to the error, for the first few misses of a request. The
    /// search reads through tens of thousands of names.
    fn suggest(&self, error: AccessError, misses: &mut u32) -> AccessError {
        let AccessError::UnknownName {
            name,
            suggestion: None,
        } = error
        else {
            return error;
        };
        *misses += 1;
        let suggestion = match *misses <= SUGGESTIONS_MAX {
            true => self.engine.suggest(&self.caller, &name),
            false => None,
        };
        AccessError::UnknownName { name, suggestion }
    }

    fn subscribe_one(
        &mut self,
        variable: &Arc<Variable>,
        terms: &SubscribeTerms,
        first: First,
        now: Tick,
    ) -> Result<(), Fault> {
        let SubscribeTerms {
            subscription,
            contract,
            flags,
        } = *terms;
        if flags.own_suppressed {
            let sentence = "this engine cannot leave a session's own updates out; take them, they \
                            are marked as its own";
            return Err(Fault::new(FaultCode::NotSupported, sentence));
        }
        let items = self.consumer.item_count();
        if items >= self.options.items_max as usize {
            return Err(Fault::from(&AccessError::Limit {
                what: "the number of items of one session",
                max: u64::from(self.options.items_max),
                hint: "close subscriptions or open another connection",
            }));
        }
        self.charge_item(items)?;
        let is_new = !self.consumer.has_subscription(subscription);
        let resume = match first {
            First::Within(position) => position,
            First::Beside => None,
        };
        let wanted = trunkline_engine::Subscribe {
            subscription,
            contract,
            only_changes: flags.only_changes,
            resume,
        };
        self.consumer
            .subscribe(&self.caller, variable, wanted)
            .map_err(|error| Fault::from(&error))?;
        match contract {
            Contract::All { elements, .. } => {
                // The client has room for the bound it named, and grants more later.
                let room = if is_new { u64::from(elements) } else { 0 };
                let is_added = self.consumer.item_count() > items;
                let beside = is_added && matches!(first, First::Beside);
                let more = room + u64::from(beside);
                if more > 0 {
                    self.consumer.grant(subscription, more);
                }
            }
            Contract::Sampled(_) => {
                self.sampled_due = Some(self.sampled_due.map_or(now, |due| due.min(now)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the budget for one more item than `items`. It is kept until the session ends, because
    /// the memory of an ended item is reused for the next one.
    fn charge_item(&mut self, items: usize) -> Result<(), Fault> {
        let bytes = items.saturating_add(1).saturating_mul(ITEM_BYTES);
        if bytes <= self.account.taken(Use::Items) {
            return Ok(());
        }
        self.account.set(Use::Items, bytes)
    }

    /// Returns the filters of an existing subscription.
    pub(crate) fn flags_of(&self, subscription: u32) -> SubscribeFlags {
        let only_changes = self.consumer.only_changes(subscription);
        SubscribeFlags {
            only_changes: only_changes.unwrap_or(false),
            ..SubscribeFlags::NONE
        }
    }

    /// Subscribes the next slice of handles.
    pub(crate) fn run_subscribe(&mut self, work: &mut SubscribeWork, now: Tick) -> Progress {
        let engine = self.engine.clone();
        let total = work.items.len();
        let (request, first) = (work.page.request, work.page.first_index());
        if first == 0 {
            self.consumer.begin_request();
        }
        let mut answers = std::mem::take(&mut self.answers.frames);
        let mut results = ResultsBuilder::subscribed(&mut answers, request, first);
        for item in work.page.slice(&work.items) {
            work.page.next += 1;
            let resume = work
                .resume_epoch
                .filter(|_| item.last_sequence > 0)
                .map(|epoch| Position {
                    epoch,
                    sequence: item.last_sequence,
                });
            let result = match engine.visible(&self.caller, item.handle) {
                None => Err(Fault::from(&engine.no_variable(item.handle))),
                Some(variable) => {
                    self.subscribe_one(&variable, &work.terms, First::Within(resume), now)
                }
            };
            match result {
                Ok(()) => results.push_ok(),
                Err(fault) => results.push_fault(fault.as_ref()),
            }
            if results.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        results.finish(work.page.has_more(total));
        self.answers.frames = answers;
        work.page.progress(total)
    }
}
