//! Queries the audit trail, and collects all pages of the answer.

use trunkline_proto::message::audit::{Audit as AuditFrame, AuditPageFrame};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};
use trunkline_types::{AuditPage, AuditQuery};

use super::{Answering, Ending, Exchange, Next, Sending};
use crate::error::malformed;

/// Maximum number of entries that one query collects. The next query returns the following entries.
pub const AUDIT_ENTRIES_MAX: usize = 100_000;

/// The progress of a query that collects pages of numbered entries.
#[derive(Debug)]
pub(super) struct Paging {
    /// The first entry of the page that is requested now.
    pub(super) from: Option<u64>,
    newest_first: bool,
    limit: usize,
}

impl Paging {
    /// `limit` is the requested number of entries. 0 is no limit of the query itself.
    pub(super) fn new(from: Option<u64>, newest_first: bool, limit: u32) -> Self {
        Self {
            from,
            newest_first,
            limit: match limit {
                0 => AUDIT_ENTRIES_MAX,
                limit => AUDIT_ENTRIES_MAX.min(limit as usize),
            },
        }
    }

    /// Returns the number of entries that may follow after `count` entries.
    pub(super) fn remaining(&self, count: usize) -> usize {
        self.limit.saturating_sub(count)
    }

    /// Returns the next step after a frame of the answer. `next` is the start of the next page, and
    /// `count` is the number of entries collected so far.
    pub(super) fn next(
        &mut self,
        next: Option<u64>,
        count: usize,
        has_more: bool,
    ) -> Result<Next, Disconnect> {
        let Some(next) = next.filter(|_| self.remaining(count) > 0 && !has_more) else {
            return Ok(Next::Settle);
        };
        // The next page must continue beyond the current one, so that the query makes progress.
        let is_beyond = match (self.from, self.newest_first) {
            (None, _) => true,
            (Some(from), true) => next < from,
            (Some(from), false) => next > from,
        };
        if !is_beyond {
            let sentence = format!(
                "the engine sent a page of entries that continues at {next}, which the client \
                 already has"
            );
            return Err(malformed(sentence));
        }
        self.from = Some(next);
        Ok(Next::Again)
    }
}

#[derive(Debug)]
pub struct Audit {
    query: Box<AuditQuery>,
    paging: Paging,
    page: AuditPage,
}

impl Audit {
    pub(crate) fn new(query: Box<AuditQuery>) -> Self {
        Self {
            paging: Paging::new(query.from, query.newest_first, query.limit),
            query,
            page: AuditPage::default(),
        }
    }

    fn remaining(&self) -> usize {
        self.paging.remaining(self.page.entries.len())
    }
}

impl Exchange for Audit {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::AuditPage);
    type End = Result<AuditPage, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some((
            Features::AUDIT,
            "does not support the audit trail; update it",
        ))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let query = &self.query;
        AuditFrame {
            from: self.paging.from,
            since: query.since,
            pattern: query
                .pattern
                .as_ref()
                .map_or("", |pattern| pattern.as_str()),
            who: query.who.as_deref().unwrap_or_default(),
            newest_first: query.newest_first,
            limit: u32::try_from(self.remaining()).unwrap_or(u32::MAX),
        }
        .encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let page = AuditPageFrame::decode(answer.frame)?;
        let head = *page.head();
        let (next, removed, state) = (head.next, head.removed, head.state.to_owned());
        for entry in page {
            let entry = entry?;
            if self.remaining() == 0 {
                let sentence = "the engine sent more entries than requested";
                return Err(malformed(sentence.to_owned()));
            }
            self.page.entries.push(entry);
        }
        (self.page.next, self.page.removed, self.page.state) = (next, removed, state);
        let count = self.page.entries.len();
        self.paging.next(next, count, answer.frame.has_more())
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(Some(self.page))
    }

    fn restart(&mut self) {
        // A restarted engine may number entries differently.
        *self = Self::new(std::mem::take(&mut self.query));
    }
}
