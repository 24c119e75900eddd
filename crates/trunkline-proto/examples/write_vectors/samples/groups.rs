//! Many variables at one instant, and leases.

use std::time::Duration;

use trunkline_proto::message::group::{GroupAnswerBuilder, GroupHead, GroupWriteBuilder};
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::lease::{
    Granted, LeaseBuilder, LeaseHead, LeaseItem, LeaseVerb, LeasedBuilder,
};
use trunkline_proto::message::list::AnswerHead;
use trunkline_proto::message::outcome::WriteAnswer;
use trunkline_proto::message::snapshot::{SnapshotHead, begin_snapshot};
use trunkline_proto::message::write::WriteOptions;
use trunkline_proto::{FaultCode, FaultRef};
use trunkline_types::{Position, Value};

use super::variables::{NOW, UNKNOWN_NAME, reading};
use super::{Sample, add};

pub(super) fn add_all(samples: &mut Vec<Sample>) {
    groups(samples);
    snapshots(samples);
    leases(samples);
}

fn groups(samples: &mut Vec<Sample>) {
    let plain = WriteOptions::default();
    add(
        samples,
        "group-write",
        "Two members, one only if it is still there",
        |out| {
            let mut group = GroupWriteBuilder::begin(out, 40, false);
            group.push_value(5, &plain, &Value::F64(72.5));
            let expected = Some(Position {
                epoch: 11,
                sequence: 812,
            });
            let options = WriteOptions { expected, ..plain };
            group.push_value(6, &options, &Value::Bool(true));
            group.finish();
        },
    );
    add(
        samples,
        "group-write-try",
        "A group that does not wait",
        |out| {
            let mut group = GroupWriteBuilder::begin(out, 41, true);
            group.push_value(5, &plain, &Value::F64(1.0));
            group.finish();
        },
    );
    add(samples, "group-answer", "A group that was written", |out| {
        let head = GroupHead {
            commit: Some(3),
            culprit: None,
        };
        let mut answer = GroupAnswerBuilder::begin(out, 40, &head);
        answer.push(&WriteAnswer::Applied(813));
        answer.push(&WriteAnswer::Unchanged(812));
        answer.finish(false);
    });
    add(
        samples,
        "group-answer-refused",
        "The second member was refused, and with it the first",
        |out| {
            let head = GroupHead {
                commit: None,
                culprit: Some(1),
            };
            let refused = |code, sentence| WriteAnswer::Refused(FaultRef { code, sentence });
            let mut answer = GroupAnswerBuilder::begin(out, 40, &head);
            answer.push(&refused(FaultCode::GroupRefused, ""));
            answer.push(&refused(
                FaultCode::Conflict,
                "it is at update 815 of epoch 11",
            ));
            answer.finish(false);
        },
    );
}

fn snapshots(samples: &mut Vec<Sample>) {
    add(
        samples,
        "snapshot",
        "Three variables at one instant",
        |out| {
            let mut snapshot = HandlesBuilder::snapshot(out, 42);
            [5, 6, 900]
                .into_iter()
                .for_each(|handle| snapshot.push(&handle));
            snapshot.finish(false);
        },
    );
    add(
        samples,
        "snapshot-answer",
        "Two readings of one instant, and a fault",
        |out| {
            let head = SnapshotHead {
                is_consistent: true,
                commit: 3,
                instant: NOW,
            };
            let mut answer = begin_snapshot(out, 42, 0, head);
            answer.push(&reading(5, 813, &72.5_f64.to_le_bytes()));
            answer.push(&reading(6, 812, &[1]));
            answer.push_fault(UNKNOWN_NAME);
            answer.finish(false);
        },
    );
}

fn leases(samples: &mut Vec<Sample>) {
    let duration = Duration::from_secs(10);
    add(
        samples,
        "lease",
        "Two variables for ten seconds, if they are where they were",
        |out| {
            let head = LeaseHead {
                verb: LeaseVerb::Acquire,
                duration,
                expected_epoch: Some(11),
            };
            let mut lease = LeaseBuilder::begin(out, 43, &head);
            lease.push(&LeaseItem {
                handle: 5,
                sequence: 813,
            });
            lease.push(&LeaseItem {
                handle: 6,
                sequence: 812,
            });
            lease.finish(false);
        },
    );
    add(samples, "lease-release", "Given back", |out| {
        let head = LeaseHead {
            verb: LeaseVerb::Release,
            duration: Duration::ZERO,
            expected_epoch: None,
        };
        let mut lease = LeaseBuilder::begin(out, 44, &head);
        lease.push(&LeaseItem {
            handle: 5,
            sequence: 0,
        });
        lease.finish(false);
    });
    add(samples, "leased", "One is granted, one is held", |out| {
        let mut leased = LeasedBuilder::begin(out, 43, &AnswerHead { first_index: 0 });
        leased.push(&Ok(Granted {
            duration,
            sequence: 813,
        }));
        leased.push(&Err(FaultRef {
            code: FaultCode::Leased,
            sentence: "the variable is leased by mixer (pid 4711 on hall-2) for 8 s more",
        }));
        leased.finish(false);
    });
}
