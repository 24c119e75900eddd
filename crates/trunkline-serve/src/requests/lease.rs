//! Handles LEASE: acquires, renews and releases leases.

use trunkline_engine::LeaseRequest;
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::lease::{Lease, LeaseHead, LeaseItem, LeasedBuilder};
use trunkline_proto::message::list::AnswerHead;
use trunkline_proto::{Disconnect, Fault};
use trunkline_types::Position;

use crate::context::{Context, Page, Progress, Request};
use crate::gate::Admitted;

#[derive(Debug)]
struct LeaseRequests {
    page: Page,
    head: LeaseHead,
    items: Vec<LeaseItem>,
}

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    let lease = Lease::decode(frame)?;
    let head = *lease.head();
    let items = lease.collect::<Result<Vec<_>, _>>()?;
    let page = context.page(frame)?;
    context.queue.push(LeaseRequests { page, head, items });
    Ok(())
}

impl Request for LeaseRequests {
    fn run(&mut self, context: &mut Context) -> Progress {
        let Self { page, head, items } = self;
        let moment = context.moment;
        let first_index = page.first_index();
        let answer = AnswerHead { first_index };
        let frames = &mut context.answers.frames;
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
            match context.engine.leases().request(
                &context.caller,
                moment,
                item.handle,
                order,
                &mut context.wakes,
            ) {
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

    fn units(&self) -> usize {
        self.page.units(self.items.len())
    }

    fn bytes(&self) -> usize {
        size_of::<LeaseItem>() * self.items.len()
    }
}
