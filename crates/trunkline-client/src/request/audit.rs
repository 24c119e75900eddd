//! Queries of the audit. They collect its pages.

use trunkline_proto::message::audit::{Audit as AuditFrame, AuditPageFrame};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};
use trunkline_types::{AuditPage, AuditQuery};

use super::{Answering, Ending, Exchange, Next, Sending};
use crate::error::malformed;

/// Maximum number of entries collected by one query. Another query returns the following entries.
pub const AUDIT_ENTRIES_MAX: usize = 100_000;

/// The state of a query that collects pages of numbered entries.
#[derive(Debug)]
pub(super) struct Paging {
    /// The first entry of the page requested now.
    pub(super) from: Option<u64>,
    newest_first: bool,
    limit: usize,
}

impl Paging {
    /// `limit` is the number of entries wanted; 0 means all.
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

    /// Returns the number of entries still missing after `count`.
    pub(super) fn missing(&self, count: usize) -> usize {
        self.limit.saturating_sub(count)
    }

    /// Decides what follows an answered frame: `next` is the start of the next page, `count`
    /// entries have been collected.
    pub(super) fn next(
        &mut self,
        next: Option<u64>,
        count: usize,
        has_more: bool,
    ) -> Result<Next, Disconnect> {
        let Some(next) = next.filter(|_| self.missing(count) > 0 && !has_more) else {
            return Ok(Next::Settle);
        };
        // The next page must lie beyond the current one, so that the query makes progress.
        let is_beyond = match (self.from, self.newest_first) {
            (None, _) => true,
            (Some(from), true) => next < from,
            (Some(from), false) => next > from,
        };
        if !is_beyond {
            let sentence = format!("a page of entries goes on at {next}, where it was already");
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

    fn missing(&self) -> usize {
        self.paging.missing(self.page.entries.len())
    }
}

impl Exchange for Audit {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::AuditPage);
    type End = Result<AuditPage, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some((Features::AUDIT, "keeps no audit; update it"))
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
            limit: u32::try_from(self.missing()).unwrap_or(u32::MAX),
        }
        .encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let page = AuditPageFrame::decode(answer.frame)?;
        let head = *page.head();
        let (next, removed, state) = (head.next, head.removed, head.state.to_owned());
        for entry in page {
            let entry = entry?;
            if self.missing() == 0 {
                return Err(malformed("more entries than were asked for".to_owned()));
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
