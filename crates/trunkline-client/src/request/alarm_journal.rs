//! Queries the alarm journal, and collects all pages of the answer.

use trunkline_proto::message::alarm_journal::{AlarmEntriesFrame, AlarmJournal as JournalFrame};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};
use trunkline_types::Pattern;
use trunkline_types::alarm::{AlarmJournalPage, AlarmJournalQuery};

use super::alarm::{MISSING, states_mask};
use super::audit::Paging;
use super::{Answering, Ending, Exchange, Next, Sending};
use crate::error::malformed;

#[derive(Debug)]
pub struct AlarmJournal {
    query: Box<AlarmJournalQuery>,
    paging: Paging,
    page: AlarmJournalPage,
}

impl AlarmJournal {
    pub(crate) fn new(query: Box<AlarmJournalQuery>) -> Self {
        Self {
            paging: Paging::new(query.from, query.newest_first, query.limit),
            query,
            page: AlarmJournalPage::default(),
        }
    }

    fn remaining(&self) -> usize {
        self.paging.remaining(self.page.entries.len())
    }
}

impl Exchange for AlarmJournal {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::AlarmEntries);
    type End = Result<AlarmJournalPage, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some((Features::ALARMS, MISSING))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let query = &self.query;
        JournalFrame {
            from: self.paging.from,
            since: query.since,
            until: query.until,
            pattern: query.pattern.as_ref().map_or("", Pattern::as_str),
            area: &query.area,
            priority_min: u32::from(query.priority_min),
            states: states_mask(&query.states),
            newest_first: query.newest_first,
            limit: u32::try_from(self.remaining()).unwrap_or(u32::MAX),
        }
        .encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let page = AlarmEntriesFrame::decode(answer.frame)?;
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
