//! Queries of the audit, which collect its pages.

use trunkline_proto::message::audit::{Audit as AuditFrame, AuditPageFrame};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};
use trunkline_types::{AuditPage, AuditQuery};

use super::{Answering, Ending, Exchange, Next, Sending};
use crate::error::malformed;

/// Maximum number of entries that one query collects. A further query returns the entries after
/// them.
pub const AUDIT_ENTRIES_MAX: usize = 100_000;

#[derive(Debug)]
pub struct Audit {
    query: Box<AuditQuery>,
    /// The first entry of the page requested now.
    from: Option<u64>,
    page: AuditPage,
}

impl Audit {
    pub(crate) fn new(query: Box<AuditQuery>) -> Self {
        Self {
            from: query.from,
            query,
            page: AuditPage::default(),
        }
    }

    fn missing(&self) -> usize {
        let limit = match self.query.limit {
            0 => AUDIT_ENTRIES_MAX,
            limit => AUDIT_ENTRIES_MAX.min(limit as usize),
        };
        limit.saturating_sub(self.page.entries.len())
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
            from: self.from,
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
        match next.filter(|_| self.missing() > 0 && !answer.frame.has_more()) {
            Some(next) if self.is_behind(next) => {
                self.from = Some(next);
                Ok(Next::Again)
            }
            Some(next) => Err(malformed(format!(
                "the audit goes on at {next}, where it was already"
            ))),
            None => Ok(Next::Settle),
        }
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(Some(self.page))
    }

    fn restart(&mut self) {
        // A restarted engine may number entries differently.
        (self.from, self.page) = (self.query.from, AuditPage::default());
    }
}
