//! Queries and switches of forcing.

use trunkline_proto::message::forcing::{Forced, ForcingVerb};
use trunkline_proto::{Disconnect, Frame};

use crate::answer::{Answer, ForcedList};
use crate::client::ClientCore;
use crate::error::RequestError;
use crate::open::wrong_answer;
use crate::request::{RequestId, Verb, malformed};

impl ClientCore {
    /// Queries the forced variables, or switches forcing for the whole engine. Answered by
    /// [`Answer::Forced`], with every page of the list, but never more than
    /// [`request_items_max`](crate::ClientOptions::request_items_max) entries.
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn forcing(&mut self, verb: ForcingVerb) -> Result<RequestId, RequestError> {
        self.check_request(1)?;
        let (cursor, found) = (0, Vec::new());
        Ok(self.ask(
            1,
            Verb::Forcing {
                verb,
                cursor,
                found,
            },
        ))
    }

    pub(crate) fn handle_forced(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let forced = Forced::decode(frame)?;
        let head = *forced.head();
        let entries: Result<Vec<_>, _> = forced.collect();
        let entries = entries?;
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let max = self.options.request_items_max;
        let Verb::Forcing { cursor, found, .. } = &mut request.verb else {
            self.requests.put_back(id, request);
            return Err(wrong_answer("FORCED"));
        };
        found.extend(entries);
        found.truncate(max);
        match head.next_cursor {
            0 => {}
            next if next <= *cursor => {
                let sentence = format!("the list goes on at {next}, where it was already");
                self.requests.put_back(id, request);
                return Err(malformed(sentence));
            }
            next if found.len() < max => {
                *cursor = next;
                self.requests.ask_again(id, request);
                return Ok(());
            }
            _ => {}
        }
        let list = ForcedList {
            is_on: head.is_on,
            total: head.total,
            entries: std::mem::take(found),
        };
        self.end_with(id, &request, Answer::Forced(list));
        Ok(())
    }
}
