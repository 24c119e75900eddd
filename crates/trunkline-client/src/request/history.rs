//! Queries the history. The answer to a query is one page.

use trunkline_proto::message::history::{
    HistoryBuilder, HistoryHead, HistoryPattern, HistoryRowsFrame,
};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};
use trunkline_types::history::{HistoryPage, HistoryQuery, HistorySeries, SeriesData};

use super::{Answering, Ending, Exchange, Next, Sending};
use crate::error::malformed;

/// Maximum size in bytes of the frames of one page. A page may contain a million buckets of one
/// variable.
const PAGE_BYTES_MAX: usize = 128 << 20;

#[derive(Debug)]
pub struct History {
    query: Box<HistoryQuery>,
    page: HistoryPage,
    /// Total size in bytes of the frames that have arrived.
    bytes: usize,
}

impl History {
    pub(crate) fn new(query: Box<HistoryQuery>) -> Self {
        Self {
            query,
            page: HistoryPage::default(),
            bytes: 0,
        }
    }
}

impl Exchange for History {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::HistoryRows);
    type End = Result<HistoryPage, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some((Features::HISTORY, "does not support the history; update it"))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let head = HistoryHead::of(&self.query);
        let mut frame = HistoryBuilder::begin(sending.out, sending.number, &head);
        for pattern in &self.query.patterns {
            let pattern = pattern.as_str();
            frame.push(&HistoryPattern { pattern });
        }
        frame.finish(false);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        self.bytes = self.bytes.saturating_add(answer.frame.payload().len());
        if self.bytes > PAGE_BYTES_MAX {
            let sentence = format!(
                "the engine sent a page of the history with more than {PAGE_BYTES_MAX} bytes"
            );
            return Err(malformed(sentence));
        }
        let mut frame = HistoryRowsFrame::decode(answer.frame)?;
        for series in &mut frame {
            append_series(&mut self.page.series, series?);
        }
        let head = frame.head();
        if head.next.is_some() && head.next == self.query.from {
            let sentence =
                "the engine sent a page of the history that continues where the query began";
            return Err(malformed(sentence.to_owned()));
        }
        if !answer.frame.has_more() {
            self.page.next.clone_from(&head.next);
            head.state.clone_into(&mut self.page.state);
            self.page.epoch = answer.parts.base.connection.epoch();
        }
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(Some(self.page))
    }

    fn restart(&mut self) {
        (self.page, self.bytes) = (HistoryPage::default(), 0);
    }
}

/// Appends a series, or the next part of the last series.
fn append_series(all: &mut Vec<HistorySeries>, series: HistorySeries) {
    let last = all.last_mut().filter(|last| {
        (&last.variable, &last.data_type, &last.units)
            == (&series.variable, &series.data_type, &series.units)
    });
    match (last.map(|last| &mut last.data), &series.data) {
        (Some(SeriesData::Rows(rows)), SeriesData::Rows(next)) => {
            rows.append(next, 0..next.len());
            for mark in next.events() {
                rows.push_event(*mark);
            }
        }
        (
            Some(SeriesData::Buckets { width, buckets }),
            SeriesData::Buckets {
                width: next_width,
                buckets: next,
            },
        ) if width == next_width => buckets.extend_from_slice(next),
        _ => all.push(series),
    }
}
