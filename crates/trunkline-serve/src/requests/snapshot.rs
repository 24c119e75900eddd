//! Handles SNAPSHOT: reads the values of several variables at one instant.

use trunkline_engine::{GROUP_MAX, Snapshot, Update};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::handles::Handles;
use trunkline_proto::message::snapshot::{SnapshotHead, begin_snapshot};
use trunkline_proto::{Disconnect, Fault};
use trunkline_types::Timestamp;

use crate::context::{Context, Page, Progress, Request};
use crate::gate::Admitted;

#[derive(Debug)]
struct SnapshotRequest {
    page: Page,
    handles: Vec<u32>,
    /// The values of all variables at one instant. `None` before the first slice, and for a request
    /// that is too long, of which each page has its own instant.
    whole: Option<(Snapshot, Timestamp)>,
}

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    let handles = Handles::decode(frame)?.collect::<Result<Vec<_>, _>>()?;
    let page = context.page(frame)?;
    context.queue.push(SnapshotRequest {
        page,
        handles,
        whole: None,
    });
    Ok(())
}

impl Request for SnapshotRequest {
    /// Appends the next page.
    fn run(&mut self, context: &mut Context) -> Progress {
        let Self {
            page,
            handles,
            whole,
        } = self;
        let wall = context.moment.wall;
        let is_whole = page.base == 0 && !page.more && handles.len() <= GROUP_MAX;
        if is_whole && whole.is_none() {
            *whole = Some((
                context.engine.groups().snapshot(&context.caller, handles),
                wall,
            ));
        }
        let range = page.range(handles.len());
        let (request, first) = (page.request, page.first_index());
        let page_snapshot;
        let (snapshot, instant, updates) = match whole {
            Some((snapshot, instant)) => {
                let updates = snapshot.updates.get(range.clone()).unwrap_or_default();
                (&*snapshot, *instant, updates)
            }
            None => {
                let slice = handles.get(range.clone()).unwrap_or_default();
                page_snapshot = context.engine.groups().snapshot(&context.caller, slice);
                (&page_snapshot, wall, page_snapshot.updates.as_slice())
            }
        };
        let head = SnapshotHead {
            is_consistent: is_whole && snapshot.is_consistent,
            commit: snapshot.commit,
            instant,
        };
        let mut readings = begin_snapshot(&mut context.answers.frames, request, first, head);
        let slice = handles.get(range).unwrap_or_default();
        for (handle, update) in slice.iter().zip(updates) {
            page.next += 1;
            let update = update.clone().map_err(|error| Fault::from(&error));
            match update.and_then(|update| context.records.check(update, &mut readings)) {
                Ok(update) => readings.push(&context.records.record(*handle, &update)),
                Err(fault) => readings.push_fault(fault.as_ref()),
            }
            if readings.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        readings.finish(page.has_more(handles.len()));
        page.progress(handles.len())
    }

    fn bytes(&self) -> usize {
        // Long values are not counted, because the variables share their memory.
        self.handles.len() * (size_of::<u32>() + size_of::<Update>())
    }
}
