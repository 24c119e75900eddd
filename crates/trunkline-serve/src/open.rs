//! Opening, subscribing, reading and closing: lists in, results item by item.

use std::sync::Arc;

use trunkline_engine::{AccessError, SubscribeOptions, Variable, Wakes};
use trunkline_proto::message::handles::{Handles, Unsubscribe};
use trunkline_proto::message::open::{Open, OpenedBuilder};
use trunkline_proto::message::read::ReadingsBuilder;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::results::ResultsBuilder;
use trunkline_proto::message::subscribe::{Subscribe, SubscribeTerms};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame, FrameKind};
use trunkline_types::name::NameError;
use trunkline_types::{Contract, Position, Quality, Reason, Tick};

use crate::fault::{of_access, unknown_handle};
use crate::session::{Session, malformed};
use crate::updates::record;
use crate::work::{HandlesVerb, HandlesWork, Names, OpenWork, SLICE, SubscribeWork, Work};

/// Misses of one request for which the nearest name is looked for.
const SUGGESTIONS_MAX: u32 = 8;

impl Session {
    pub(crate) fn handle_open(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let open = Open::decode(frame).map_err(malformed)?;
        let terms = open.terms();
        let mut names = Names::default();
        for name in open {
            names.push(name.map_err(malformed)?);
        }
        let base = self.page(frame)?;
        let (request, more) = (frame.request(), frame.has_more());
        self.queue(Work::Open(OpenWork { request, terms, names, base, next: 0, misses: 0, more }));
        Ok(())
    }

    pub(crate) fn handle_subscribe(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let subscribe = Subscribe::decode(frame).map_err(malformed)?;
        let terms = subscribe.terms();
        let resume_epoch = subscribe.resume_epoch();
        let items = subscribe.collect::<Result<Vec<_>, _>>().map_err(malformed)?;
        let base = self.page(frame)?;
        let (request, more) = (frame.request(), frame.has_more());
        let next = 0;
        self.queue(Work::Subscribe(SubscribeWork {
            request,
            terms,
            resume_epoch,
            items,
            base,
            next,
            more,
        }));
        Ok(())
    }

    pub(crate) fn handle_handles(
        &mut self,
        frame: &Frame<'_>,
        kind: FrameKind,
    ) -> Result<(), Disconnect> {
        let (verb, handles) = match kind {
            FrameKind::Unsubscribe => {
                let unsubscribe = Unsubscribe::decode(frame).map_err(malformed)?;
                let subscription = unsubscribe.subscription;
                let whole = unsubscribe.is_whole();
                (HandlesVerb::Unsubscribe { subscription, whole }, unsubscribe.handles)
            }
            FrameKind::Read => (HandlesVerb::Read, Handles::decode(frame).map_err(malformed)?),
            FrameKind::Info => (HandlesVerb::Info, Handles::decode(frame).map_err(malformed)?),
            FrameKind::RequestValue => {
                (HandlesVerb::RequestValue, Handles::decode(frame).map_err(malformed)?)
            }
            _ => (HandlesVerb::Close, Handles::decode(frame).map_err(malformed)?),
        };
        let handles = handles.collect::<Result<Vec<_>, _>>().map_err(malformed)?;
        let base = self.page(frame)?;
        let (request, more) = (frame.request(), frame.has_more());
        self.queue(Work::Handles(HandlesWork { verb, request, handles, base, next: 0, more }));
        Ok(())
    }

    /// Opens the next slice of names. Returns whether it was the last.
    pub(crate) fn run_open(&mut self, work: &mut OpenWork, now: Tick, _wakes: &mut Wakes) -> bool {
        let end = (work.next + SLICE).min(work.names.len());
        let last = end == work.names.len();
        let engine = self.engine.clone();
        let first_index = work.base.wrapping_add(work.next as u32);
        let mut answers = std::mem::take(&mut self.answers);
        let options = work.terms.options;
        let mut frame = OpenedBuilder::begin(&mut answers, work.request, options, first_index);
        for index in work.next..end {
            let name = work.names.get(index).unwrap_or_default();
            let opened = self.open_one(&engine, name, work.terms.subscribe.as_ref(), now);
            match opened {
                Err(error) => {
                    let error = self.suggest(error, &mut work.misses);
                    frame.push_fault(of_access(&error).as_ref());
                }
                Ok(variable) => {
                    let readable = variable.check_readable(&self.caller).is_ok();
                    let update = options.read.then(|| variable.update());
                    let reading = update.as_ref().map(|update| match readable {
                        true => record(variable.handle(), update, self.caller.session),
                        false => UpdateRecord {
                            quality: Quality::bad(Reason::AccessDenied),
                            ..UpdateRecord::nothing_yet(variable.handle())
                        },
                    });
                    let properties = variable.properties();
                    frame.push(
                        variable.handle(),
                        &properties.data_type,
                        properties.access,
                        reading.as_ref(),
                        options.describe.then_some(&**properties),
                    );
                }
            }
        }
        frame.finish(work.more || !last);
        self.answers = answers;
        work.next = end;
        last
    }

    fn open_one<'e>(
        &mut self,
        engine: &'e trunkline_engine::Engine,
        name: &[u8],
        terms: Option<&SubscribeTerms>,
        now: Tick,
    ) -> Result<&'e Arc<Variable>, AccessError> {
        let name = std::str::from_utf8(name)
            .map_err(|_| AccessError::InvalidName(NameError::NotUtf8))?;
        let variable = engine.resolve(&self.caller, name)?;
        if let Some(terms) = terms {
            self.subscribe_one(variable, terms, None, now)?;
        }
        Ok(variable)
    }

    /// The nearest name there is, for the first few misses of a request: looking for it reads through
    /// tens of thousands of names.
    fn suggest(&self, error: AccessError, misses: &mut u32) -> AccessError {
        let AccessError::UnknownName { name, suggestion: None } = error else { return error };
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
        resume: Option<Position>,
        now: Tick,
    ) -> Result<(), AccessError> {
        if self.consumer.item_count() >= self.options.items_max as usize {
            return Err(AccessError::Limit {
                what: "the number of items of one session",
                max: u64::from(self.options.items_max),
                hint: "close subscriptions or open another connection",
            });
        }
        let options = SubscribeOptions { only_changes: terms.flags.only_changes };
        let SubscribeTerms { subscription, contract, .. } = *terms;
        let is_new = !self.consumer.has_subscription(subscription);
        self.consumer.subscribe(
            &self.caller,
            subscription,
            contract,
            options,
            variable,
            resume,
        )?;
        match contract {
            // The client has room for the bound it named, and says when it has more.
            Contract::All { elements, .. } if is_new => {
                self.consumer.grant(subscription, u64::from(elements));
            }
            Contract::Sampled(_) => {
                self.sampled_due = Some(self.sampled_due.map_or(now, |due| due.min(now)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Subscribes the next slice of handles. Returns whether it was the last.
    pub(crate) fn run_subscribe(&mut self, work: &mut SubscribeWork, now: Tick) -> bool {
        let end = (work.next + SLICE).min(work.items.len());
        let last = end == work.items.len();
        let engine = self.engine.clone();
        let first_index = work.base.wrapping_add(work.next as u32);
        let mut answers = std::mem::take(&mut self.answers);
        let mut results = ResultsBuilder::subscribed(&mut answers, work.request, first_index);
        for item in work.items.get(work.next..end).unwrap_or_default() {
            let resume = work
                .resume_epoch
                .filter(|_| item.last_sequence > 0)
                .map(|epoch| Position { epoch, sequence: item.last_sequence });
            let result = match engine.visible(&self.caller, item.handle) {
                None => Err(unknown_handle(item.handle)),
                Some(variable) => self
                    .subscribe_one(variable, &work.terms, resume, now)
                    .map_err(|error| of_access(&error)),
            };
            match result {
                Ok(()) => results.push_ok(),
                Err(fault) => results.push_fault(fault.as_ref()),
            }
        }
        results.finish(work.more || !last);
        self.answers = answers;
        work.next = end;
        last
    }

    /// The next slice of a list of handles. Returns whether it was the last.
    pub(crate) fn run_handles(&mut self, work: &mut HandlesWork, wakes: &mut Wakes) -> bool {
        let end = (work.next + SLICE).min(work.handles.len());
        let last = end == work.handles.len();
        let slice = work.handles.get(work.next..end).unwrap_or_default();
        let first_index = work.base.wrapping_add(work.next as u32);
        let more = work.more || !last;
        match work.verb {
            HandlesVerb::Read => self.read(work.request, first_index, slice, more),
            HandlesVerb::Info => self.info(work.request, first_index, slice, more),
            HandlesVerb::RequestValue => {
                self.request_values(work.request, first_index, slice, more);
            }
            HandlesVerb::Unsubscribe { subscription, whole } => {
                let handles = (!whole).then_some(slice);
                self.consumer.unsubscribe(subscription, handles, wakes);
                self.closed(work.request, first_index, slice.len(), more);
            }
            HandlesVerb::Close => {
                for handle in slice {
                    for (subscription, _) in self.consumer.subscriptions_of(*handle) {
                        self.consumer.unsubscribe(subscription, Some(&[*handle]), wakes);
                    }
                }
                self.closed(work.request, first_index, slice.len(), more);
            }
        }
        work.next = end;
        last
    }

    fn closed(&mut self, request: u32, first_index: u32, count: usize, more: bool) {
        let mut results = ResultsBuilder::closed(&mut self.answers, request, first_index);
        for _ in 0..count {
            results.push_ok();
        }
        results.finish(more);
    }

    fn read(&mut self, request: u32, first_index: u32, handles: &[u32], more: bool) {
        let engine = &self.engine;
        let mut readings = ReadingsBuilder::begin(&mut self.answers, request, first_index);
        for handle in handles {
            let variable = engine.visible(&self.caller, *handle);
            let checked = match variable {
                None => Err(unknown_handle(*handle)),
                Some(variable) if variable.is_gone() => Err(of_access(&AccessError::Gone)),
                Some(variable) => match variable.check_readable(&self.caller) {
                    Ok(()) => Ok(variable),
                    Err(error) => Err(of_access(&error)),
                },
            };
            match checked {
                Ok(variable) => {
                    let update = variable.update();
                    readings.push(&record(*handle, &update, self.caller.session));
                }
                Err(fault) => readings.push_fault(fault.as_ref()),
            }
        }
        readings.finish(more);
    }

    fn request_values(&mut self, request: u32, first_index: u32, handles: &[u32], more: bool) {
        let mut results = ResultsBuilder::requested(&mut self.answers, request, first_index);
        for handle in handles {
            if self.engine.visible(&self.caller, *handle).is_none() {
                results.push_fault(unknown_handle(*handle).as_ref());
            } else if !self.caller.rights.write {
                results.push_fault(of_access(&AccessError::Denied).as_ref());
            } else if self.engine.request(*handle) {
                results.push_ok();
            } else {
                let sentence = "nobody provides this variable: its value changes when it is written";
                results.push_fault(Fault::new(FaultCode::ProviderGone, sentence).as_ref());
            }
        }
        results.finish(more);
    }
}
