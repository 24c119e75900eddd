//! Acquiring, renewing and releasing leases.

use trunkline_engine::LeaseRequest;
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::lease::{Lease, LeaseHead, LeasedBuilder};
use trunkline_proto::{Disconnect, Fault, Frame};
use trunkline_types::{Position, Tick};

use crate::session::Session;
use crate::work::{Page, Progress, Work};

/// One frame of a LEASE request.
#[derive(Debug)]
pub(crate) struct LeaseWork {
    page: Page,
    head: LeaseHead,
    /// Handles, with the sequences expected.
    pub(crate) items: Vec<(u32, u64)>,
}

impl Session {
    pub(crate) fn handle_lease(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let lease = Lease::decode(frame)?;
        let head = lease.head();
        let items = lease.collect::<Result<Vec<_>, _>>()?;
        let page = self.page(frame)?;
        self.work.push(Work::Lease(LeaseWork { page, head, items }));
        Ok(())
    }

    /// Handles the next slice of a list of leases.
    pub(crate) fn run_lease(&mut self, work: &mut LeaseWork, now: Tick) -> Progress {
        let LeaseWork { page, head, items } = work;
        let (request, first) = (page.request, page.first_index());
        let mut leased = LeasedBuilder::begin(&mut self.answers.frames, request, first);
        for (handle, sequence) in page.slice(items) {
            page.next += 1;
            let order = LeaseRequest {
                verb: head.verb,
                duration: head.duration,
                expected: head.expected_epoch.map(|epoch| Position {
                    epoch,
                    sequence: *sequence,
                }),
            };
            match self.engine.lease(&self.caller, now, *handle, order) {
                Ok(granted) => leased.push(&granted),
                Err(refusal) => leased.push_fault(Fault::from(&refusal).as_ref()),
            }
            if leased.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        leased.finish(page.has_more(items.len()));
        page.progress(items.len())
    }
}
