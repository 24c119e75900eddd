//! Groups, snapshots and leases.
//!
//! A group or a lease request is sent in the order in which it was made, among writes and requests.
//! A group that was sent but not answered when the connection broke is not sent again: its members
//! end as unknown, as writes do. A lease ends with its connection, so a lease request is sent
//! again.

use std::time::Duration;

use trunkline_proto::message::group::{GROUP_MAX, GroupAnswer, GroupWriteBuilder};
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::lease::{LeaseBuilder, LeaseHead, LeaseItem, LeaseVerb, Leased};
use trunkline_proto::message::snapshot::decode_snapshot;
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::wire::encoded_len;
use trunkline_types::{Position, Tick, Timestamp};

use crate::answer::{Answer, Lease, Page};
use crate::client::ClientCore;
use crate::error::{RequestError, WriteError};
use crate::open::wrong_answer;
use crate::outcome::{GroupOutcome, WriteOutcome, of_answer};
use crate::page::{ReadList, ReadingPage};
use crate::request::{Request, RequestId, Verb, malformed};
use crate::variable::{VariableRef, Variables};
use crate::write::{Write, check_write};

/// Message bytes reserved for the overhead of a group.
const GROUP_BYTES: usize = 64;
/// Message bytes reserved for the overhead of each member.
const MEMBER_BYTES: usize = 64;

/// Writes that are carried out together or not at all.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) writes: Vec<Write>,
    pub(crate) try_only: bool,
}

/// The head of a snapshot, combined from its frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotSaid {
    pub(crate) is_consistent: bool,
    pub(crate) commit: u64,
    pub(crate) instant: Timestamp,
}

/// The terms of a lease request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    /// Acquire, renew or release.
    pub verb: LeaseVerb,
    /// The duration of the lease, 1 ms to 24 h. Ignored on release.
    pub duration: Duration,
    /// One position per variable, in order: a lease is granted only if the variable is still at
    /// that position. If empty, positions are not checked.
    pub expected: Vec<Position>,
}

impl LeaseTerms {
    /// Acquires leases for `duration`, or renews those already held.
    pub fn acquire(duration: Duration) -> Self {
        Self {
            verb: LeaseVerb::Acquire,
            duration,
            expected: Vec::new(),
        }
    }

    /// Renews leases already held. Refused if another client may have written since.
    pub fn renew(duration: Duration) -> Self {
        Self {
            verb: LeaseVerb::Renew,
            ..Self::acquire(duration)
        }
    }

    /// Releases leases.
    pub fn release() -> Self {
        Self {
            verb: LeaseVerb::Release,
            ..Self::acquire(Duration::ZERO)
        }
    }

    /// Grants leases only for variables that are still at these positions, given in order.
    #[must_use]
    pub fn expecting(mut self, positions: Vec<Position>) -> Self {
        self.expected = positions;
        self
    }
}

impl ClientCore {
    /// Writes all of these values or none, with one engine timestamp and one commit number.
    /// Subscribers of all of them receive them contiguously. Answered by [`Answer::Group`]. With
    /// `try_only`, a group that would have to wait for a subscriber is not written.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`] if the values exceed the limit on queued writes,
    /// [`WriteError::Group`] if there are no writes, or more than a group may have.
    pub fn write_group(
        &mut self,
        writes: Vec<Write>,
        try_only: bool,
    ) -> Result<RequestId, WriteError> {
        if writes.is_empty() || writes.len() > GROUP_MAX {
            return Err(WriteError::Group {
                writes: writes.len(),
                max: GROUP_MAX,
            });
        }
        self.check_writes(&writes)?;
        let items = writes.len();
        self.check_request(items).map_err(|error| match error {
            RequestError::Closed { cause } => WriteError::Closed { cause },
            _ => WriteError::OutcomesNotTaken {
                waiting: self.requests.count(),
            },
        })?;
        Ok(self.ask(items, Verb::Group(Group { writes, try_only })))
    }

    /// Asks for the values of variables at one instant, for up to 4,096 of them. With more, each
    /// value is consistent only by itself, and the answer says so. Answered by
    /// [`Answer::Snapshot`].
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn snapshot(&mut self, variables: &[VariableRef]) -> Result<RequestId, RequestError> {
        self.check_request(variables.len())?;
        let list = ReadList::new(variables, ReadingPage::new());
        Ok(self.ask(variables.len(), Verb::Snapshot { list, said: None }))
    }

    /// Acquires, renews or releases leases. Answered by [`Answer::Leases`].
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn lease(
        &mut self,
        variables: &[VariableRef],
        terms: LeaseTerms,
    ) -> Result<RequestId, RequestError> {
        self.check_request(variables.len())?;
        let page = Page::new(variables.to_vec());
        Ok(self.ask(variables.len(), Verb::Lease { page, terms }))
    }

    /// Checks a group before it is sent. Returns its final answer if it cannot be sent.
    pub(crate) fn check_group(&self, request: &Request) -> Option<Answer> {
        let Verb::Group(group) = &request.verb else {
            return None;
        };
        let message_max = self.connection.message_max();
        let check = |write: &Write| {
            let bytes = encoded_len(&write.value);
            check_write(&self.variables, write, bytes, message_max)
                .and_then(|_| self.check_understood(write))
        };
        let refused = group.writes.iter().enumerate();
        let mut refused = refused.filter_map(|(at, write)| Some((at, check(write).err()?)));
        let too_long = || {
            let member = |write: &Write| encoded_len(&write.value).saturating_add(MEMBER_BYTES);
            let bytes = group
                .writes
                .iter()
                .map(member)
                .fold(0, usize::saturating_add);
            (bytes.saturating_add(GROUP_BYTES) > message_max).then(|| {
                let sentence = format!(
                    "the group has {bytes} bytes; {message_max} is the limit, make several of it"
                );
                (0, Fault::new(FaultCode::TooLarge, sentence))
            })
        };
        let (culprit, fault) = refused.next().or_else(too_long)?;
        let mut outcomes: Vec<_> = group.writes.iter().map(|_| blamed("")).collect();
        if let Some(outcome) = outcomes.get_mut(culprit) {
            *outcome = WriteOutcome::Refused(fault);
        }
        let ended = GroupOutcome {
            commit: None,
            culprit: Some(culprit),
            outcomes,
        };
        Some(self.name_culprit(group, ended))
    }

    /// Adds the name of the culprit to the outcomes of the other members.
    fn name_culprit(&self, group: &Group, mut ended: GroupOutcome) -> Answer {
        let write = ended.culprit.and_then(|at| group.writes.get(at));
        let known = write.and_then(|write| self.variables.get(write.variable));
        if let Some(name) = known.map(|variable| &*variable.name) {
            for outcome in &mut ended.outcomes {
                if matches!(outcome, WriteOutcome::Refused(fault)
                    if fault.code == FaultCode::GroupRefused)
                {
                    *outcome = blamed(name);
                }
            }
        }
        Answer::Group(ended)
    }

    pub(crate) fn handle_group_answer(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let answer = GroupAnswer::decode(frame)?;
        let head = answer.head();
        let Some((id, request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let Verb::Group(group) = &request.verb else {
            self.requests.put_back(id, request);
            return Err(wrong_answer("GROUP_ANSWER"));
        };
        if frame.count() as usize != group.writes.len() {
            let (given, asked) = (frame.count(), group.writes.len());
            self.requests.put_back(id, request);
            let sentence = format!("a group of {asked} writes is answered with {given} outcomes");
            return Err(malformed(sentence));
        }
        let epoch = self.connection.session().map_or(0, |session| session.epoch);
        let mut outcomes = Vec::with_capacity(group.writes.len());
        for (outcome, write) in answer.zip(&group.writes) {
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.requests.put_back(id, request);
                    return Err(error.into());
                }
            };
            let outcome = of_answer(outcome, epoch);
            self.remember_own(write.variable, &outcome);
            outcomes.push(outcome);
        }
        let ended = GroupOutcome {
            commit: head.commit,
            culprit: head.culprit.map(|at| at as usize),
            outcomes,
        };
        let answer = self.name_culprit(group, ended);
        self.end_with(id, &request, answer);
        Ok(())
    }

    pub(crate) fn handle_snapshot_answer(
        &mut self,
        now: Tick,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let (head, readings) = decode_snapshot(frame)?;
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let taken = self.take_readings(now, &mut request, readings);
        if let Verb::Snapshot { said, .. } = &mut request.verb {
            let before = said.is_none_or(|said| said.is_consistent);
            *said = Some(SnapshotSaid {
                is_consistent: head.is_consistent && before,
                commit: head.commit,
                instant: head.instant,
            });
        }
        self.settle_if(taken, id, request, frame)
    }

    pub(crate) fn handle_leased(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let leased = Leased::decode(frame)?;
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let epoch = self.connection.session().map_or(0, |session| session.epoch);
        let taken = take_leased(epoch, &mut request, leased);
        self.settle_if(taken, id, request, frame)
    }
}

fn take_leased(epoch: u64, request: &mut Request, leased: Leased<'_>) -> Result<(), Disconnect> {
    let mut index = leased.head().first_index;
    for granted in leased {
        let granted = granted?;
        let place = request.answer_item(index)?;
        index = index.saturating_add(1);
        let Verb::Lease { page, .. } = &mut request.verb else {
            return Err(wrong_answer("LEASED"));
        };
        if let Some(item) = page.asked(place) {
            let lease = granted.map(|granted| Lease {
                duration: granted.duration,
                position: Position {
                    epoch,
                    sequence: granted.sequence,
                },
            });
            page.set(item, lease.map_err(|fault| fault.to_fault()));
        }
    }
    Ok(())
}

impl Group {
    /// Returns the outcome of the group if every write in it has this outcome.
    pub(crate) fn ended(&self, outcome: WriteOutcome) -> GroupOutcome {
        GroupOutcome {
            commit: None,
            culprit: None,
            outcomes: vec![outcome; self.writes.len()],
        }
    }
}

/// Returns the outcome of a member that was not written because of another member.
fn blamed(name: &str) -> WriteOutcome {
    let fault = match name {
        "" => Fault::from(FaultCode::GroupRefused),
        name => {
            let sentence = format!("not written: the whole group was refused because of {name}");
            Fault::new(FaultCode::GroupRefused, sentence)
        }
    };
    WriteOutcome::Refused(fault)
}

/// Appends a GROUP_WRITE frame.
pub(crate) fn send_group(group: &Group, number: u32, variables: &Variables, out: &mut Vec<u8>) {
    let mut frame = GroupWriteBuilder::begin(out, number, group.try_only);
    for write in &group.writes {
        // The handle was checked before. The engine refuses an invalid handle, and the group with
        // it.
        let handle = variables.handle(write.variable).unwrap_or(u32::MAX);
        if write.options.has_value() {
            frame.push_value(handle, &write.options, &write.value);
        } else {
            frame.push(handle, &write.options, &[]);
        }
    }
    frame.finish();
}

/// Appends the next SNAPSHOT frame. A snapshot of one instant fits in a single frame.
pub(crate) fn send_snapshot(
    asked: &[(u32, u32)],
    number: u32,
    sent: &mut u32,
    page: usize,
    out: &mut Vec<u8>,
) {
    let page = if asked.len() <= GROUP_MAX {
        usize::MAX
    } else {
        page
    };
    let mut frame = HandlesBuilder::snapshot(out, number);
    for (_, handle) in asked.get(*sent as usize..).unwrap_or_default() {
        if frame.len_bytes() >= page {
            break;
        }
        frame.push(handle);
        *sent += 1;
    }
    frame.finish((*sent as usize) < asked.len());
}

/// Appends the next LEASE frame.
pub(crate) fn send_lease(
    asked: &[(u32, u32)],
    terms: &LeaseTerms,
    epoch: u64,
    number: u32,
    sent: &mut u32,
    page: usize,
    out: &mut Vec<u8>,
) {
    let head = LeaseHead {
        verb: terms.verb,
        duration: terms.duration,
        expected_epoch: (!terms.expected.is_empty()).then_some(epoch),
    };
    let mut frame = LeaseBuilder::begin(out, number, &head);
    for (item, handle) in asked.get(*sent as usize..).unwrap_or_default() {
        if frame.len_bytes() >= page {
            break;
        }
        let expected = terms.expected.get(*item as usize);
        frame.push(&LeaseItem {
            handle: *handle,
            sequence: expected.map_or(0, |at| at.sequence),
        });
        *sent += 1;
    }
    frame.finish((*sent as usize) < asked.len());
}

/// Checks that the expected position belongs to this epoch.
pub(crate) fn check_expected(terms: &LeaseTerms, item: usize, epoch: u64) -> Result<(), Fault> {
    match terms.expected.get(item) {
        None if terms.expected.is_empty() => Ok(()),
        Some(at) if at.epoch == epoch => Ok(()),
        _ => {
            let sentence = "the position is of another start of the engine; read the variable \
                            again, then decide";
            Err(Fault::new(FaultCode::Conflict, sentence))
        }
    }
}
