//! Writes groups and takes snapshots of variables of an engine in this process.

use std::ops::Deref;
use std::sync::Arc;

use trunkline_client::IntoValue;
use trunkline_engine::{
    AccessError, Caller, Engine as Core, GroupAttempt, GroupMember, Refusal, Wakes, Write,
    WriteOutcome,
};
use trunkline_net::Clock;
use trunkline_types::{Position, Sample, Value};

use super::Variable;
use super::subscription::Signal;
use super::write::moment;

/// A group of writes, of which the engine carries out all or none; see
/// [`Engine::write_group`](crate::Engine::write_group).
#[derive(Debug, Default)]
pub struct Group {
    members: Vec<Member>,
    /// The caller of the first variable that was added.
    caller: Option<Arc<LocalCaller>>,
    /// Index of the first variable that belongs to another engine than the first variable.
    mixed_index: Option<usize>,
}

#[derive(Debug)]
/// One write of a group.
struct Member {
    handle: u32,
    value: Value,
    expected: Option<Position>,
}

/// The result of a group that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenGroup {
    /// Commit number of the group; the first group of an engine has the number 1.
    pub commit: u64,
    /// Position of each variable after the write, in the order in which they were added.
    pub positions: Vec<Position>,
}

/// The reason why a group was not written.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{refusal}")]
pub struct GroupRefused {
    /// Index of the first refused write; `None` if the engine refused the group as a whole.
    pub refused_index: Option<usize>,
    /// The rule that refused the write, or the whole group.
    pub refusal: Refusal,
}

/// Samples of several variables, taken at one instant if [`is_consistent`](Self::is_consistent) is
/// true.
#[derive(Clone, PartialEq, Debug)]
pub struct SampleSet {
    /// True if all samples were taken at one instant. More than 4,096 variables are read one after
    /// another instead.
    pub is_consistent: bool,
    /// Commit number of the last group before the snapshot; 0 if there was no group.
    pub commit: u64,
    /// The sample and the position of each variable, in the order of the names.
    pub samples: Vec<Result<(Sample, Position), AccessError>>,
}

/// A caller in this process. Dropping it releases its leases.
#[derive(Debug)]
pub(super) struct LocalCaller {
    caller: Caller,
    core: Core,
    clock: Clock,
}

impl LocalCaller {
    pub(super) fn new(caller: Caller, core: Core, clock: Clock) -> Self {
        Self {
            caller,
            core,
            clock,
        }
    }
}

impl Deref for LocalCaller {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for LocalCaller {
    fn drop(&mut self) {
        let (leases, wakes) = (self.core.leases(), &mut Wakes::new());
        leases.end_session(self.caller.session, moment(self.clock), wakes);
    }
}

impl Member {
    fn as_group_member(&self) -> GroupMember<'_> {
        GroupMember {
            handle: self.handle,
            write: Write {
                expected: self.expected,
                ..Write::value(&self.value)
            },
        }
    }
}

impl Group {
    /// Returns an empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the write of a value.
    #[must_use]
    pub fn put<T: IntoValue>(self, variable: &Variable<T>, value: T) -> Self {
        self.add(variable, value.into_value(), None)
    }

    /// Adds a conditional write. The engine refuses the whole group if the variable is no longer at
    /// the position `expected`.
    #[must_use]
    pub fn put_if<T: IntoValue>(
        self,
        variable: &Variable<T>,
        value: T,
        expected: Position,
    ) -> Self {
        self.add(variable, value.into_value(), Some(expected))
    }

    fn add<T>(mut self, variable: &Variable<T>, value: Value, expected: Option<Position>) -> Self {
        let caller = self
            .caller
            .get_or_insert_with(|| Arc::clone(&variable.caller));
        if self.mixed_index.is_none() && !caller.core.is_same_as(&variable.core) {
            self.mixed_index = Some(self.members.len());
        }
        self.members.push(Member {
            handle: variable.variable.handle(),
            value,
            expected,
        });
        self
    }
}

/// Returns the refusal of a group that was not written. The engine then refuses every member, so
/// other outcomes do not occur.
fn refusal_of(outcome: Option<WriteOutcome>) -> Refusal {
    match outcome {
        Some(WriteOutcome::Refused(refusal)) => refusal,
        None
        | Some(
            WriteOutcome::Applied(_)
            | WriteOutcome::Unchanged(_)
            | WriteOutcome::Superseded
            | WriteOutcome::Unknown(_),
        ) => Refusal::NotGroupable {
            why: "the engine did not write the group and gave no reason; report this as a defect",
        },
    }
}

impl Group {
    /// Returns the index of the first variable that does not belong to the engine `core`.
    fn foreign_index(&self, core: &Core) -> Option<usize> {
        let is_foreign = |caller: &Arc<LocalCaller>| !caller.core.is_same_as(core);
        match self.caller.as_ref().is_some_and(is_foreign) {
            true => Some(0),
            false => self.mixed_index,
        }
    }

    /// Writes the group; see [`Engine::write_group`](crate::Engine::write_group). `caller` returns
    /// the caller for an empty group, whose variables provide none.
    pub(crate) fn write(
        &self,
        core: &Core,
        clock: Clock,
        caller: impl FnOnce() -> Caller,
    ) -> Result<WrittenGroup, GroupRefused> {
        if let Some(index) = self.foreign_index(core) {
            return Err(GroupRefused {
                refused_index: Some(index),
                refusal: Refusal::NotGroupable {
                    why: "the variable belongs to another engine; open it from the engine that \
                          writes the group",
                },
            });
        }
        let fallback;
        let caller: &Caller = match &self.caller {
            Some(caller) => caller,
            None => {
                fallback = caller();
                &fallback
            }
        };
        let members: Vec<_> = self.members.iter().map(Member::as_group_member).collect();
        let (signal, consumer) = Signal::of_consumer(core);
        loop {
            let (now, wall) = clock.moment();
            let mut wakes = Wakes::new();
            let attempt = core
                .groups()
                .try_write(caller, now, wall, &members, &mut wakes);
            wakes.send();
            match attempt {
                GroupAttempt::WouldBlock { until, handle } => {
                    let blocked_variable = core.variable(handle);
                    if blocked_variable.is_some_and(|blocked| consumer.wait_for_room(&blocked)) {
                        signal.wait(Some(until.since(clock.now())));
                    }
                }
                GroupAttempt::Done(ended) => {
                    let Some(commit) = ended.commit else {
                        let index = ended.refused_member.unwrap_or(0);
                        let refusal = refusal_of(ended.outcomes.into_iter().nth(index));
                        // The engine refuses each write of a group that is too large.
                        let is_whole = matches!(refusal, Refusal::GroupTooLarge { .. });
                        return Err(GroupRefused {
                            refused_index: ended.refused_member.filter(|_| !is_whole),
                            refusal,
                        });
                    };
                    let position = |outcome| {
                        let sequence = match outcome {
                            WriteOutcome::Applied(sequence) | WriteOutcome::Unchanged(sequence) => {
                                sequence
                            }
                            WriteOutcome::Superseded
                            | WriteOutcome::Refused(_)
                            | WriteOutcome::Unknown(_) => 0,
                        };
                        Position {
                            epoch: core.epoch(),
                            sequence,
                        }
                    };
                    let positions = ended.outcomes.into_iter().map(position).collect();
                    return Ok(WrittenGroup { commit, positions });
                }
            }
        }
    }
}

impl SampleSet {
    pub(crate) fn read<N: AsRef<str>>(core: &Core, caller: &Caller, names: &[N]) -> Self {
        let resolve = |name: &N| core.resolve(caller, name.as_ref());
        let found: Vec<_> = names.iter().map(resolve).collect();
        let handles: Vec<u32> = found.iter().flatten().map(|one| one.handle()).collect();
        let snapshot = core.groups().snapshot(caller, &handles);
        let mut updates = snapshot.updates.into_iter();
        let sample = |variable: Result<Arc<_>, AccessError>| {
            let variable: Arc<trunkline_engine::Variable> = variable?;
            let update = updates.next().unwrap_or(Err(AccessError::Gone))?;
            let position = Position {
                epoch: core.epoch(),
                sequence: update.sequence,
            };
            Ok((variable.sample_of(&update), position))
        };
        Self {
            is_consistent: snapshot.is_consistent,
            commit: snapshot.commit,
            samples: found.into_iter().map(sample).collect(),
        }
    }
}
