//! Reads, searches and queries.

use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::find::Names;
use trunkline_proto::message::info::InfoAnswer;
use trunkline_proto::message::read::Readings;
use trunkline_proto::message::results::Results;
use trunkline_proto::message::why::WhyAnswer;
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::{Condition, DataType, Tick};

use crate::answer::{Answer, Found, Page, Step};
use crate::client::ClientCore;
use crate::error::RequestError;
use crate::open::wrong_answer;
use crate::page::{ReadList, ReadingPage};
use crate::request::{Request, RequestId, Verb, malformed, next_answered};
use crate::variable::VariableRef;

impl ClientCore {
    /// Asks the engine for current readings, whether new or not. Answered by [`Answer::Readings`].
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn read(&mut self, variables: &[VariableRef]) -> Result<RequestId, RequestError> {
        self.check_request(variables.len())?;
        let (list, as_page) = (ReadList::new(variables, ReadingPage::new()), false);
        Ok(self.ask(variables.len(), Verb::Read { list, as_page }))
    }

    /// Same as [`read`](Self::read), but reuses the storage of `page` instead of allocating a
    /// reading per item. Answered by [`Answer::Page`].
    ///
    /// # Errors
    /// Same as for `read`; the page is lost in that case.
    pub fn read_page(
        &mut self,
        variables: &[VariableRef],
        page: ReadingPage,
    ) -> Result<RequestId, RequestError> {
        self.check_request(variables.len())?;
        let (list, as_page) = (ReadList::new(variables, page), true);
        Ok(self.ask(variables.len(), Verb::Read { list, as_page }))
    }

    /// Asks the sources of variables for fresh values, which arrive as updates. Answered by
    /// [`Answer::Requested`].
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn request_value(&mut self, variables: &[VariableRef]) -> Result<RequestId, RequestError> {
        self.check_request(variables.len())?;
        Ok(self.ask(
            variables.len(),
            Verb::RequestValue(Page::new(variables.to_vec())),
        ))
    }

    /// Asks for everything the engine knows about the variables. Answered by [`Answer::Info`].
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn info(&mut self, variables: &[VariableRef]) -> Result<RequestId, RequestError> {
        self.check_request(variables.len())?;
        Ok(self.ask(variables.len(), Verb::Info(Page::new(variables.to_vec()))))
    }

    /// Searches for names that match a pattern, and collects every page. Answered by
    /// [`Answer::Names`], with at most `limit` names if given, and never more than
    /// [`request_items_max`](crate::ClientOptions::request_items_max).
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn find(&mut self, pattern: &str, limit: Option<usize>) -> Result<RequestId, RequestError> {
        self.search(pattern, &[], limit)
    }

    /// Same as [`find`](Self::find), with conditions that must all hold.
    ///
    /// # Errors
    /// Same as for `find`.
    pub fn search(
        &mut self,
        pattern: &str,
        conditions: &[Condition],
        limit: Option<usize>,
    ) -> Result<RequestId, RequestError> {
        self.check_request(1)?;
        let limit = limit
            .unwrap_or(usize::MAX)
            .min(self.options.request_items_max);
        let (pattern, found) = (pattern.to_owned(), Vec::new());
        Ok(self.ask(
            1,
            Verb::Find {
                pattern,
                conditions: conditions.to_vec(),
                limit,
                cursor: 0,
                found,
            },
        ))
    }

    /// Asks why a variable does not deliver. Answered by [`Answer::Why`].
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn why(&mut self, name: &str) -> Result<RequestId, RequestError> {
        self.check_request(1)?;
        Ok(self.ask(
            1,
            Verb::Why {
                name: name.to_owned(),
            },
        ))
    }

    /// Asks for information about the engine itself. Answered by [`Answer::Engine`].
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn engine_info(&mut self) -> Result<RequestId, RequestError> {
        self.check_request(1)?;
        Ok(self.ask(1, Verb::Engine))
    }

    pub(crate) fn handle_readings(
        &mut self,
        now: Tick,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let readings = Readings::decode(frame)?;
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let taken = self.take_readings(now, &mut request, readings);
        self.settle_if(taken, id, request, frame)
    }

    pub(crate) fn take_readings(
        &self,
        now: Tick,
        request: &mut Request,
        readings: Readings<'_>,
    ) -> Result<(), Disconnect> {
        let arrival = self.connection.arrival(now)?;
        let (answered, sent) = (&mut request.answered, request.sent);
        let (Verb::Read { list, .. } | Verb::Snapshot { list, .. }) = &mut request.verb else {
            return Err(wrong_answer("READINGS"));
        };
        list.set_epoch(arrival.epoch);
        let mut index = readings.first_index();
        for reading in readings {
            let reading = reading?;
            let place = next_answered(answered, sent, index)?;
            index = index.saturating_add(1);
            let Some(variable) = list.answered(place) else {
                continue;
            };
            let variable = self.variables.get(variable);
            let data_type = variable.and_then(|v| v.data_type.as_ref());
            match (reading, data_type) {
                (Ok(record), Some(data_type)) => {
                    let max_age = variable.and_then(|v| v.max_age);
                    list.push(arrival.entry(&record, data_type, max_age)?);
                }
                // The program has closed the variable in the meantime.
                (Ok(_), None) => list.push_fault(FaultCode::UnknownHandle.into()),
                (Err(fault), _) => list.push_fault(fault.to_fault()),
            }
        }
        Ok(())
    }

    pub(crate) fn handle_requested(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let results = Results::decode(frame)?;
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let taken = take_requested(&mut request, results);
        self.settle_if(taken, id, request, frame)
    }

    pub(crate) fn handle_info(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let answer = InfoAnswer::decode(frame)?;
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let taken = take_info(&mut request, answer);
        self.settle_if(taken, id, request, frame)
    }

    pub(crate) fn handle_names(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let names = Names::decode(frame)?;
        let next = names.head().next_cursor;
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let taken = take_names(&mut request, names);
        if taken.is_err() {
            return self.settle_if(taken.map(|_| ()), id, request, frame);
        }
        let Verb::Find {
            limit,
            cursor,
            found,
            ..
        } = &mut request.verb
        else {
            return Ok(());
        };
        match next {
            // A page may be empty if the engine has searched for a long time without a match; the
            // cursor still advances.
            Some(next) if found.len() < *limit && next != *cursor => {
                *cursor = next;
                self.requests.ask_again(id, request);
            }
            Some(next) if found.len() < *limit => {
                let sentence = format!("the search goes on at {next}, where it was already");
                self.requests.put_back(id, request);
                return Err(malformed(sentence));
            }
            _ => {
                let found = std::mem::take(found);
                self.end_with(id, &request, Answer::Names(found));
            }
        }
        Ok(())
    }

    pub(crate) fn handle_why(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let answer = WhyAnswer::decode(frame)?;
        let Some((id, request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let steps: Result<Vec<Step>, _> = answer.map(|step| Ok(step?.to_step())).collect();
        match (steps, &request.verb) {
            (Ok(steps), Verb::Why { .. }) => {
                self.end_with(id, &request, Answer::Why(steps));
                Ok(())
            }
            (steps, _) => {
                self.requests.put_back(id, request);
                steps.and(Err(wrong_answer("WHY_ANSWER")))
            }
        }
    }

    pub(crate) fn handle_engine(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let info = EngineInfo::decode(frame)?;
        let Some((id, request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        if !matches!(request.verb, Verb::Engine) {
            self.requests.put_back(id, request);
            return Err(wrong_answer("ENGINE_ANSWER"));
        }
        self.end_with(id, &request, Answer::Engine(info));
        Ok(())
    }

    /// Handles the refusal of a whole request: every item without an answer gets this fault.
    pub(crate) fn handle_fault(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let fault: Fault = FaultMessage::decode(frame)?.fault.to_fault();
        let Some((id, request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        self.requests.refused(&request);
        self.end_request(id, request, Some(fault));
        Ok(())
    }

    /// Continues with a request whose frame was processed. On an error, puts the request back for
    /// the disconnect to handle.
    pub(crate) fn settle_if(
        &mut self,
        taken: Result<(), Disconnect>,
        id: u64,
        request: Request,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        match taken {
            Ok(()) => self.settle(id, request, frame),
            Err(cause) => {
                self.requests.put_back(id, request);
                Err(cause)
            }
        }
    }
}

fn take_requested(request: &mut Request, results: Results<'_>) -> Result<(), Disconnect> {
    let (first, count) = (results.first_index(), results.answered());
    if !matches!(request.verb, Verb::RequestValue(_)) {
        return Err(wrong_answer("REQUESTED"));
    }
    let answered = answer_run(request, first, count)?;
    let Verb::RequestValue(page) = &mut request.verb else {
        return Ok(());
    };
    for index in answered {
        if let Some(item) = page.asked(index) {
            page.set(item, Ok(()));
        }
    }
    for exception in results {
        let (index, fault) = exception?;
        if let Some(item) = page.asked(index) {
            page.set(item, Err(fault.to_fault()));
        }
    }
    Ok(())
}

/// Records that `count` items from `first` on are answered, and returns their indices.
pub(crate) fn answer_run(
    request: &mut Request,
    first: u32,
    count: u32,
) -> Result<std::ops::Range<u32>, Disconnect> {
    let end = first.checked_add(count);
    let (Some(end), true) = (end, first == request.answered) else {
        return Err(malformed(format!(
            "items from {first} on are answered where {} was next",
            request.answered
        )));
    };
    if end > request.sent {
        return Err(malformed(format!(
            "{end} items are answered where {} were asked for",
            request.sent
        )));
    }
    request.answered = end;
    Ok(first..end)
}

fn take_info(request: &mut Request, answer: InfoAnswer<'_>) -> Result<(), Disconnect> {
    let mut index = answer.head().first_index;
    for info in answer {
        let info = info?;
        let place = request.answer_item(index)?;
        index = index.saturating_add(1);
        let Verb::Info(page) = &mut request.verb else {
            return Err(wrong_answer("INFO_ANSWER"));
        };
        if let Some(item) = page.asked(place) {
            page.set(item, info.map_err(|fault| fault.to_fault()));
        }
    }
    Ok(())
}

fn take_names(request: &mut Request, names: Names<'_>) -> Result<(), Disconnect> {
    let Verb::Find { limit, found, .. } = &mut request.verb else {
        return Err(wrong_answer("NAMES"));
    };
    for name in names {
        let name = name?;
        if found.len() < *limit {
            let (data_type, access): (DataType, _) = (name.data_type, name.access);
            found.push(Found {
                name: name.name.to_owned(),
                data_type,
                access,
            });
        }
    }
    Ok(())
}
