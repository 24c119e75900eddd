//! Audit queries: collects the pages of the engine's audit.

use trunkline_proto::message::audit::{Audit, AuditPageFrame};
use trunkline_proto::{Disconnect, Frame};
use trunkline_types::{AuditEntry, AuditPage, AuditQuery};

use crate::answer::Answer;
use crate::client::ClientCore;
use crate::error::RequestError;
use crate::open::wrong_answer;
use crate::request::{Request, RequestId, Verb, malformed};

/// Maximum number of entries that one query collects. A further query returns the entries after
/// them.
pub const AUDIT_ENTRIES_MAX: usize = 100_000;

/// An audit query, and the entries received so far.
#[derive(Debug)]
pub(crate) struct Asked {
    query: AuditQuery,
    /// The first entry of the page requested now.
    from: Option<u64>,
    found: Vec<AuditEntry>,
}

impl Asked {
    /// Starts again from the beginning, because a restarted engine may number entries differently.
    pub(crate) fn restart(&mut self) {
        self.from = self.query.from;
        self.found = Vec::new();
    }

    fn limit(&self) -> usize {
        match self.query.limit {
            0 => AUDIT_ENTRIES_MAX,
            limit => AUDIT_ENTRIES_MAX.min(limit as usize),
        }
    }

    fn missing(&self) -> usize {
        self.limit().saturating_sub(self.found.len())
    }

    /// Returns true if the page at `next` lies beyond the one requested, so that the query
    /// progresses.
    fn is_behind(&self, next: u64) -> bool {
        match (self.from, self.query.newest_first) {
            (None, _) => true,
            (Some(from), true) => next < from,
            (Some(from), false) => next > from,
        }
    }

    pub(crate) fn send(&self, number: u32, out: &mut Vec<u8>) {
        let pattern = self.query.pattern.as_ref();
        Audit {
            from: self.from,
            since: self.query.since,
            pattern: pattern.map_or("", |pattern| pattern.as_str()),
            who: self.query.who.as_deref().unwrap_or_default(),
            newest_first: self.query.newest_first,
            limit: u32::try_from(self.missing()).unwrap_or(u32::MAX),
        }
        .encode(number, out);
    }
}

impl ClientCore {
    /// Queries the audit. Collects every page, up to the query's limit or [`AUDIT_ENTRIES_MAX`];
    /// `next` in the answer is where the following entries begin. Answered by [`Answer::Audit`].
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn audit(&mut self, query: AuditQuery) -> Result<RequestId, RequestError> {
        self.check_request(1)?;
        let asked = Asked {
            from: query.from,
            query,
            found: Vec::new(),
        };
        Ok(self.ask(1, Verb::Audit(Box::new(asked))))
    }

    pub(crate) fn handle_audit_page(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let page = AuditPageFrame::decode(frame)?;
        let head = *page.head();
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let asked = match take_entries(&mut request, page) {
            Ok(asked) => asked,
            Err(cause) => {
                self.requests.put_back(id, request);
                return Err(cause);
            }
        };
        if frame.has_more() {
            self.requests.put_back(id, request);
            return Ok(());
        }
        match head.next.filter(|_| asked.missing() > 0) {
            Some(next) if asked.is_behind(next) => {
                asked.from = Some(next);
                self.requests.ask_again(id, request);
            }
            Some(next) => {
                let sentence = format!("the audit goes on at {next}, where it was already");
                self.requests.put_back(id, request);
                return Err(malformed(sentence));
            }
            None => {
                let page = AuditPage {
                    entries: std::mem::take(&mut asked.found),
                    next: head.next,
                    removed: head.removed,
                    state: head.state.to_owned(),
                };
                self.end_with(id, &request, Answer::Audit(page));
            }
        }
        Ok(())
    }
}

fn take_entries<'r>(
    request: &'r mut Request,
    page: AuditPageFrame<'_>,
) -> Result<&'r mut Asked, Disconnect> {
    let Verb::Audit(asked) = &mut request.verb else {
        return Err(wrong_answer("AUDIT_PAGE"));
    };
    for entry in page {
        let entry = entry?;
        if asked.missing() == 0 {
            return Err(malformed("more entries than were asked for".to_owned()));
        }
        asked.found.push(entry);
    }
    Ok(asked)
}
