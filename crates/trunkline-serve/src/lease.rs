//! Acquiring, renewing and releasing leases.

use trunkline_engine::LeaseRequest;
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::lease::{Lease, LeaseHead, LeaseItem, LeasedBuilder};
use trunkline_proto::message::list::AnswerHead;
use trunkline_proto::{Disconnect, Fault, Frame};
use trunkline_types::{Position, Tick};

use crate::session::Session;
use crate::work::{Page, Progress, Work};

/// One frame of a LEASE request.
#[derive(Debug)]
pub(crate) struct LeaseWork {
    page: Page,
    head: LeaseHead,
    pub(crate) items: Vec<LeaseItem>,
}

impl Session {
    pub(crate) fn handle_lease(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let lease = Lease::decode(frame)?;
        let head = *lease.head();
        let items = lease.collect::<Result<Vec<_>, _>>()?;
        let page = self.page(frame)?;
        self.work.push(Work::Lease(LeaseWork { page, head, items }));
        Ok(())
    }

    /// Handles the next slice of a list of leases.
    pub(crate) fn run_lease(&mut self, work: &mut LeaseWork, now: Tick) -> Progress {
        let LeaseWork { page, head, items } = work;
        let first_index = page.first_index();
        let answer = AnswerHead { first_index };
        let frames = &mut self.answers.frames;
        let mut leased = LeasedBuilder::begin(frames, page.request, &answer);
        for item in page.slice(items) {
            page.next += 1;
            let order = LeaseRequest {
                verb: head.verb,
                duration: head.duration,
                expected: head.expected_epoch.map(|epoch| Position {
                    epoch,
                    sequence: item.sequence,
                }),
            };
            match self.engine.lease(&self.caller, now, item.handle, order) {
                Ok(granted) => leased.push(&Ok(granted)),
                Err(refusal) => leased.push(&Err(Fault::from(&refusal).as_ref())),
            }
            if leased.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        leased.finish(page.has_more(items.len()));
        page.progress(items.len())
    }
}
