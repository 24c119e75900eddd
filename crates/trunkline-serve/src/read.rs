//! Requests about lists of handles: reading, closing, unsubscribing, and requesting fresh values.

use std::collections::BTreeMap;

use trunkline_engine::{AccessError, Update, Variable, Wakes};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::handles::{Handles, Unsubscribe};
use trunkline_proto::message::list::{List, ListFrame};
use trunkline_proto::message::read::ReadingsBuilder;
use trunkline_proto::message::results::ResultsBuilder;
use trunkline_proto::{DecodeError, Disconnect, Fault, FaultCode, Frame, FrameKind};

use crate::session::Session;
use crate::work::{HandlesVerb, HandlesWork, Page, Progress, Work};

/// Collects the handles of a frame.
fn collect<F>(list: List<'_, F>) -> Result<Vec<u32>, DecodeError>
where
    F: for<'a> ListFrame<Item<'a> = u32>,
{
    // The capacity is bounded by the frame's length, which was checked.
    let mut handles = Vec::with_capacity(list.left() as usize);
    for handle in list {
        handles.push(handle?);
    }
    Ok(handles)
}

impl Session {
    pub(crate) fn handle_handles(
        &mut self,
        frame: &Frame<'_>,
        kind: FrameKind,
    ) -> Result<(), Disconnect> {
        let (verb, handles) = match kind {
            FrameKind::Unsubscribe => {
                let unsubscribe = Unsubscribe::decode(frame)?;
                let verb = HandlesVerb::Unsubscribe {
                    subscription: unsubscribe.head().subscription,
                    whole: unsubscribe.left() == 0,
                };
                (verb, collect(unsubscribe)?)
            }
            FrameKind::Read => (HandlesVerb::Read, collect(Handles::decode(frame)?)?),
            FrameKind::Info => (HandlesVerb::Info, collect(Handles::decode(frame)?)?),
            FrameKind::RequestValue => {
                (HandlesVerb::RequestValue, collect(Handles::decode(frame)?)?)
            }
            _ => (HandlesVerb::Close, collect(Handles::decode(frame)?)?),
        };
        let page = self.page(frame)?;
        self.work.push(Work::Handles(HandlesWork {
            page,
            verb,
            handles,
        }));
        Ok(())
    }

    /// Handles the next slice of a list of handles.
    pub(crate) fn run_handles(&mut self, work: &mut HandlesWork, wakes: &mut Wakes) -> Progress {
        let HandlesWork {
            page,
            verb,
            handles,
        } = work;
        match *verb {
            HandlesVerb::Read => self.read(page, handles),
            HandlesVerb::Info => self.info(page, handles),
            HandlesVerb::RequestValue => self.request_values(page, handles),
            HandlesVerb::Unsubscribe {
                subscription,
                whole: true,
            } => {
                // Later requests of this session wait; other sessions get their turns in between.
                if !self.consumer.unsubscribe_some(subscription, wakes) {
                    return Progress::More;
                }
                self.answer_closed(page, handles);
            }
            HandlesVerb::Unsubscribe {
                subscription,
                whole: false,
            } => {
                let slice = self.answer_closed(page, handles);
                self.consumer.unsubscribe(subscription, Some(slice), wakes);
            }
            HandlesVerb::Close => {
                let slice = self.answer_closed(page, handles);
                self.close_handles(slice, wakes);
            }
        }
        page.progress(handles.len())
    }

    /// Answers the next slice, in which nothing can fail.
    fn answer_closed<'h>(&mut self, page: &mut Page, handles: &'h [u32]) -> &'h [u32] {
        let (request, first) = (page.request, page.first_index());
        let slice = page.slice(handles);
        page.next += slice.len();
        let mut results = ResultsBuilder::closed(&mut self.answers.frames, request, first);
        for _ in slice {
            results.push_ok();
        }
        results.finish(page.has_more(handles.len()));
        slice
    }

    /// Removes variables from every subscription.
    fn close_handles(&mut self, handles: &[u32], wakes: &mut Wakes) {
        let mut closing: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for handle in handles {
            for (subscription, _) in self.consumer.subscriptions_of(*handle) {
                closing.entry(subscription).or_default().push(*handle);
            }
        }
        for (subscription, handles) in closing {
            self.consumer
                .unsubscribe(subscription, Some(&handles), wakes);
        }
        for handle in handles {
            self.consumer.drop_field(*handle);
        }
    }

    fn read(&mut self, page: &mut Page, handles: &[u32]) {
        let (request, first) = (page.request, page.first_index());
        let mut answers = std::mem::take(&mut self.answers.frames);
        let mut following = std::mem::take(&mut self.handles);
        let followed = following.follow();
        let mut readings = ReadingsBuilder::begin(&mut answers, request, first);
        for handle in page.slice(handles) {
            page.next += 1;
            let variable = followed.visible(&self.caller, *handle);
            if let Some(variable) = variable
                && let Some(update) = variable.read_plain(&self.caller)
            {
                let (word, bytes) = (update.word.to_le_bytes(), variable.plain_bytes());
                let value = word.get(..bytes).unwrap_or(&word);
                if let Some(record) = self.records.plain_record(*handle, &update, value) {
                    readings.push(&record);
                    if readings.len_bytes() >= PAGE_BYTES {
                        break;
                    }
                    continue;
                }
            }
            let update = match variable {
                None => Err(Fault::from(&self.engine.no_variable(*handle))),
                Some(variable) if variable.is_gone() => Err(Fault::from(&AccessError::Gone)),
                Some(variable) => self.readable(variable).map_err(|error| Fault::from(&error)),
            };
            match update.and_then(|update| self.records.check(update, &mut readings)) {
                Ok(update) => readings.push(&self.records.record(*handle, &update)),
                Err(fault) => readings.push_fault(fault.as_ref()),
            }
            if readings.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        readings.finish(page.has_more(handles.len()));
        drop(followed);
        self.handles = following;
        self.answers.frames = answers;
    }

    /// Returns the variable's current update.
    ///
    /// # Errors
    /// The caller may not read it.
    pub(crate) fn readable(&self, variable: &Variable) -> Result<Update, AccessError> {
        variable.check_readable(&self.caller)?;
        Ok(variable.update())
    }

    fn request_values(&mut self, page: &mut Page, handles: &[u32]) {
        let (request, first) = (page.request, page.first_index());
        let mut results = ResultsBuilder::requested(&mut self.answers.frames, request, first);
        for handle in page.slice(handles) {
            page.next += 1;
            if self.engine.visible(&self.caller, *handle).is_none() {
                let error = self.engine.no_variable(*handle);
                results.push_fault(Fault::from(&error).as_ref());
            } else if !self.caller.rights.write {
                results.push_fault(Fault::from(&AccessError::Denied).as_ref());
            } else if self.engine.request(*handle) {
                results.push_ok();
            } else {
                let sentence =
                    "nobody provides this variable: its value changes when it is written";
                results.push_fault(Fault::new(FaultCode::ProviderGone, sentence).as_ref());
            }
            if results.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        results.finish(page.has_more(handles.len()));
    }
}
