//! Groups of writes and snapshots of variables, each at one instant.

use trunkline_engine::{
    GROUP_MAX, GroupAttempt, GroupMember, GroupOutcome, Origin, Snapshot, Wakes, Write,
    WriteOutcome, WriteValue,
};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::group::{GroupAnswerBuilder, GroupHead, GroupWrite};
use trunkline_proto::message::handles::Handles;
use trunkline_proto::message::outcome::{WouldBlock, WriteAnswer};
use trunkline_proto::message::snapshot::{SnapshotHead, begin_snapshot};
use trunkline_proto::{Disconnect, Fault, FaultCode, FaultRef, Frame};
use trunkline_types::{Tick, Timestamp, WriteVerb};

use crate::fault::out_of_memory;
use crate::session::Session;
use crate::work::{OwnedWrite, Page, Progress, Work};
use crate::write_run::{Answer, with_wire};

/// A group that has arrived and is not yet answered.
#[derive(Debug)]
pub(crate) struct GroupWork {
    pub(crate) request: u32,
    pub(crate) try_only: bool,
    pub(crate) writes: Vec<OwnedWrite>,
}

/// One frame of a snapshot request.
#[derive(Debug)]
pub(crate) struct SnapshotWork {
    pub(crate) page: Page,
    pub(crate) handles: Vec<u32>,
    /// The values at one instant. `None` before they are taken, or if each page is taken
    /// separately.
    taken: Option<(Snapshot, Timestamp)>,
}

impl SnapshotWork {
    pub(crate) fn bytes(&self) -> usize {
        // Longer values are shared with the variables.
        self.handles.len() * (size_of::<u32>() + size_of::<trunkline_engine::Update>())
    }
}

impl Session {
    pub(crate) fn handle_group(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let request = frame.request();
        let group = GroupWrite::decode(frame)?;
        let count = frame.count() as usize;
        if count == 0 || count > GROUP_MAX {
            let sentence = format!("a group has 1 to {GROUP_MAX} variables, this one has {count}");
            self.put_fault(request, &Fault::new(FaultCode::TooLarge, sentence));
            return Ok(());
        }
        let try_only = group.try_only();
        let mut writes = Vec::with_capacity(count);
        for write in group {
            let write = write?;
            if let Err(fault) = self.check_extension(&write.options) {
                self.put_fault(request, &fault);
                return Ok(());
            }
            let mut value = Vec::new();
            if value.try_reserve_exact(write.value.len()).is_err() {
                self.put_fault(request, &out_of_memory(write.value.len()));
                return Ok(());
            }
            value.extend_from_slice(write.value);
            writes.push(OwnedWrite {
                id: write.write,
                handle: write.handle,
                options: write.options,
                value: value.into_boxed_slice(),
                is_published: false,
            });
        }
        self.work.push(Work::Group(GroupWork {
            request,
            try_only,
            writes,
        }));
        Ok(())
    }

    /// Writes the group, or parks it until a feed has room.
    pub(crate) fn run_group(
        &mut self,
        work: &GroupWork,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Progress {
        self.parked_until = None;
        let members: Vec<_> = work.writes.iter().map(member).collect();
        loop {
            let attempt = self
                .engine
                .try_write_group(&self.caller, now, wall, &members, wakes);
            match attempt {
                GroupAttempt::Done(outcome) => {
                    self.put_group(work.request, &outcome);
                    return Progress::Done;
                }
                GroupAttempt::WouldBlock { .. } if work.try_only => {
                    let head = GroupHead::default();
                    let out = &mut self.answers.frames;
                    let mut answer = GroupAnswerBuilder::begin(out, work.request, head);
                    for _ in &members {
                        answer.push(&WriteAnswer::NotTried(WouldBlock));
                    }
                    answer.finish();
                    return Progress::Done;
                }
                GroupAttempt::WouldBlock { until, handle } => {
                    let variable = self.engine.variable(handle);
                    if variable.is_some_and(|full| self.consumer.wait_for_room(&full)) {
                        self.parked_until = Some(until);
                        return Progress::Parked;
                    }
                    // The feed was drained in the meantime: there is room, or the subscription
                    // ended.
                }
            }
        }
    }

    fn put_group(&mut self, request: u32, ended: &GroupOutcome) {
        let head = GroupHead {
            commit: ended.commit,
            culprit: ended.culprit.and_then(|at| u32::try_from(at).ok()),
        };
        let mut answer = GroupAnswerBuilder::begin(&mut self.answers.frames, request, head);
        for outcome in &ended.outcomes {
            if let WriteOutcome::Refused(trunkline_engine::Refusal::Group { .. }) = outcome {
                // The same for all of them: the client adds the name of the culprit.
                let fault = FaultRef {
                    code: FaultCode::GroupRefused,
                    sentence: "",
                };
                answer.push(&WriteAnswer::Refused(fault));
            } else {
                with_wire(&Answer::Outcome(outcome.clone()), |wire| answer.push(wire));
            }
        }
        answer.finish();
    }

    pub(crate) fn handle_snapshot(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let handles = Handles::decode(frame)?.collect::<Result<Vec<_>, _>>()?;
        let page = self.page(frame)?;
        self.work.push(Work::Snapshot(SnapshotWork {
            page,
            handles,
            taken: None,
        }));
        Ok(())
    }

    /// Appends the next page of a snapshot.
    pub(crate) fn run_snapshot(&mut self, work: &mut SnapshotWork, wall: Timestamp) -> Progress {
        let SnapshotWork {
            page,
            handles,
            taken,
        } = work;
        let is_whole = page.base == 0 && !page.more && handles.len() <= GROUP_MAX;
        if is_whole && taken.is_none() {
            *taken = Some((self.engine.snapshot(&self.caller, handles), wall));
        }
        let range = page.range(handles.len());
        let (request, first) = (page.request, page.first_index());
        let looked;
        let (snapshot, instant, updates) = match taken {
            Some((snapshot, instant)) => {
                let updates = snapshot.updates.get(range.clone()).unwrap_or_default();
                (&*snapshot, *instant, updates)
            }
            None => {
                let slice = handles.get(range.clone()).unwrap_or_default();
                looked = self.engine.snapshot(&self.caller, slice);
                (&looked, wall, looked.updates.as_slice())
            }
        };
        let head = SnapshotHead {
            is_consistent: is_whole && snapshot.is_consistent,
            commit: snapshot.commit,
            instant,
        };
        let mut readings = begin_snapshot(&mut self.answers.frames, request, first, head);
        let slice = handles.get(range).unwrap_or_default();
        for (handle, update) in slice.iter().zip(updates) {
            page.next += 1;
            let update = update.clone().map_err(|error| Fault::from(&error));
            match update.and_then(|update| self.records.check(update, &mut readings)) {
                Ok(update) => readings.push(&self.records.record(*handle, &update)),
                Err(fault) => readings.push_fault(fault.as_ref()),
            }
            if readings.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        readings.finish(page.has_more(handles.len()));
        page.progress(handles.len())
    }
}

fn member(write: &OwnedWrite) -> GroupMember<'_> {
    let options = &write.options;
    // The engine refuses what clients may not request in a group, as it does everything else.
    let origin = match options.raw {
        true => Origin::SourceRaw,
        false => Origin::Client,
    };
    GroupMember {
        handle: write.handle,
        write: Write {
            value: WriteValue::Wire(&write.value),
            source_timestamp: options.source_timestamp,
            quality: options.quality,
            origin,
            verb: options.verb.unwrap_or(WriteVerb::Send),
            expected: options.expected,
            completion: None,
        },
    }
}
