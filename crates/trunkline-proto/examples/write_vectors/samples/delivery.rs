//! Updates, losses, ends, and the provider's frames.

use std::time::Duration;

use trunkline_proto::message::convergence::{
    CheckBuilder, Chunk, CompareBuilder, CompareHead, CompareItem,
};
use trunkline_proto::message::ended::{EndReason, EndedBuilder, EndedHead, EndedItem};
use trunkline_proto::message::lost::{LostBuilder, LostRecord};
use trunkline_proto::message::open::OpenOptions;
use trunkline_proto::message::provider::{
    BoundVariable, ProvideBuilder, ProvideHead, ProviderAnswer, ProviderAnswersBuilder,
    ProviderBindBuilder, ProviderOutcome, ProviderRequestBuilder, ProviderRequestHead, ReadBack,
    begin_provided,
};
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::updates::UpdatesBuilder;
use trunkline_proto::{FaultCode, FaultRef};
use trunkline_types::{Access, Clock, ClockSync, DataType, Quality, Reason, Timestamp};

use super::variables::{NOW, UNKNOWN_NAME, reading};
use super::{Sample, add};

pub(super) fn add_all(samples: &mut Vec<Sample>) {
    updates(samples);
    losses(samples);
    ends(samples);
    provider(samples);
    convergence(samples);
}

fn convergence(samples: &mut Vec<Sample>) {
    add(
        samples,
        "check",
        "Two chunks: neighbours and a single one; one alone under another subscription",
        |out| {
            let mut frame = CheckBuilder::begin(out, 0, &());
            frame.push(&Chunk {
                subscription: 7,
                handles: vec![5, 6, 7, 300],
                digest: 0x0123_4567_89ab_cdef,
            });
            frame.push(&Chunk {
                subscription: 8,
                handles: vec![5],
                digest: 17,
            });
            frame.finish(false);
        },
    );
    add(
        samples,
        "compare",
        "One item that the client holds, and one of which it has nothing",
        |out| {
            let mut frame = compare(out);
            frame.push(&CompareItem {
                subscription: 7,
                handle: 6,
                sequence: 812,
                digest: 0xfedc_ba98_7654_3210,
            });
            frame.push(&CompareItem {
                subscription: 7,
                handle: 300,
                ..CompareItem::default()
            });
            frame.finish(false);
        },
    );
    add(
        samples,
        "compare-everything",
        "Everything is to be checked",
        |out| {
            compare(out).finish(false);
        },
    );
    add(
        samples,
        "repaired",
        "An update that the client has not got right",
        |out| {
            let mut frame = UpdatesBuilder::begin_repaired(out, 7);
            frame.push(&reading(6, 812, &1.5_f64.to_le_bytes()));
            frame.finish();
        },
    );
}

fn updates(samples: &mut Vec<Sample>) {
    add(
        samples,
        "updates-scan",
        "Neighbours of one scan: the shortest records",
        |out| {
            let mut updates = UpdatesBuilder::begin(out, 7);
            for handle in 5..9 {
                updates.push(&reading(handle, 812, &f64::from(handle).to_le_bytes()));
            }
            updates.finish();
        },
    );
    add(
        samples,
        "updates-all",
        "Consecutive updates of one variable",
        |out| {
            let mut updates = UpdatesBuilder::begin(out, 8);
            for step in 0..4_i64 {
                let value = (step as f64).to_le_bytes();
                let time = NOW.saturating_add_nanos(step * 1_000_000);
                let record = UpdateRecord {
                    engine_timestamp: time,
                    source_timestamp: time,
                    ..reading(5, 812 + step as u64, &value)
                };
                updates.push(&record);
            }
            updates.finish();
        },
    );
    add(
        samples,
        "updates-nothing-yet",
        "A variable that nobody has written",
        |out| {
            let mut updates = UpdatesBuilder::begin(out, 7);
            updates.push(&UpdateRecord::nothing_yet(12));
            updates.finish();
        },
    );
    add(
        samples,
        "updates-extremes",
        "The largest steps there are",
        |out| {
            let mut updates = UpdatesBuilder::begin(out, u32::MAX);
            let far = |handle, sequence, engine, source| UpdateRecord {
                engine_timestamp: Timestamp::from_nanos(engine),
                source_timestamp: Timestamp::from_nanos(source),
                quality: Quality::from_bits(u32::MAX),
                ..reading(handle, sequence, b"")
            };
            updates.push(&far(u32::MAX, u64::MAX, i64::MAX, i64::MIN));
            updates.push(&far(0, 0, i64::MIN, i64::MAX));
            updates.push(&far(u32::MAX, 1 << 63, -1, 0));
            updates.finish();
        },
    );
    add(
        samples,
        "updates-extension",
        "A record with an extension, to be skipped",
        |out| {
            let mut updates = UpdatesBuilder::begin(out, 7);
            updates.push(&reading(1, 0, b""));
            updates.finish();
            // Byte 16 is the record's flags; the extension stands before the value's length.
            if let (Some(flags), at) = (out.get_mut(16).copied(), out.len() - 1) {
                out[16] = flags | 128;
                out.splice(at..at, [3, 1, 1, 0]);
                out[0] += 4;
            }
        },
    );
    for bits in 0..128_u8 {
        let name = format!("updates-flags-{bits:02x}");
        let description = "Two records, the second with the flags that the name has in hexadecimal";
        add(samples, name, description, |out| {
            flag_combination(bits, out)
        });
    }
}

/// The bits are those of the record's flags.
fn flag_combination(bits: u8, out: &mut Vec<u8>) {
    let has = |bit: u8| bits & bit != 0;
    let first = reading(5, 812, b"\x01");
    let engine = if has(4) {
        NOW.saturating_add_nanos(-1500)
    } else {
        NOW
    };
    let record = UpdateRecord {
        handle: if has(1) { 6 } else { 900 },
        sequence: if has(2) { 811 } else { 812 },
        engine_timestamp: engine,
        source_timestamp: if has(8) {
            engine.saturating_add_nanos(-20_000)
        } else {
            engine
        },
        quality: if has(16) {
            Quality::uncertain(Reason::Retained).with_clock(Clock::Source, ClockSync::Synchronised)
        } else {
            Quality::GOOD
        },
        own: has(32),
        value: if has(64) { None } else { Some(b"\x02\x03") },
    };
    let mut updates = UpdatesBuilder::begin(out, 7);
    updates.push(&first);
    updates.push(&record);
    updates.finish();
}

fn losses(samples: &mut Vec<Sample>) {
    add(
        samples,
        "lost",
        "Each cause alone, then all together",
        |out| {
            let none = LostRecord {
                handle: 5,
                ..LostRecord::default()
            };
            let mut lost = LostBuilder::begin(out, 7, &());
            for record in [
                LostRecord {
                    filtered: 1,
                    ..none
                },
                LostRecord {
                    handle: 6,
                    queue: 127,
                    ..none
                },
                LostRecord {
                    handle: 7,
                    overrun: 128,
                    ..none
                },
                LostRecord {
                    handle: 900,
                    disconnect: 1 << 40,
                    ..none
                },
                LostRecord {
                    handle: 3,
                    unknown: true,
                    ..none
                },
                LostRecord {
                    handle: u32::MAX,
                    filtered: u64::MAX,
                    queue: 2,
                    overrun: 3,
                    disconnect: 4,
                    unknown: true,
                },
            ] {
                lost.push(&record);
            }
            lost.finish(false);
        },
    );
    add(
        samples,
        "lost-future-cause",
        "Flag 32 with its count is read as unknown",
        |out| {
            let mut lost = LostBuilder::begin(out, 7, &());
            lost.push(&LostRecord {
                handle: 5,
                queue: 9,
                ..LostRecord::default()
            });
            lost.finish(false);
            out[17] |= 32;
            out.push(4);
            out[0] += 1;
        },
    );
}

fn ends(samples: &mut Vec<Sample>) {
    let ended = |out: &mut Vec<u8>, reason, sentence| {
        let head = EndedHead {
            reason,
            epoch: 42,
            sentence,
        };
        let mut ended = EndedBuilder::begin(out, 8, &head);
        ended.push(&EndedItem {
            handle: 5,
            last_sequence: 812,
            lost: 65_536,
        });
        ended.push(&EndedItem {
            handle: 6,
            last_sequence: 0,
            lost: 0,
        });
        ended.finish(false);
    };
    add(
        samples,
        "ended-overrun",
        "The bound of `all` was reached",
        |out| {
            ended(
                out,
                EndReason::Overrun,
                "65536 updates waited, which is the bound",
            );
        },
    );
    add(samples, "ended-gone", "The variables are gone", |out| {
        ended(out, EndReason::Gone, "")
    });
    add(samples, "ended-denied", "The right was withdrawn", |out| {
        ended(
            out,
            EndReason::Denied,
            "operators may no longer read boiler/**",
        );
    });
}

fn provider(samples: &mut Vec<Sample>) {
    let lease = Duration::from_millis(3000);
    add(samples, "provide", "Offers two variables", |out| {
        let provider = "rack1 driver";
        let head = ProvideHead { lease, provider };
        let mut provide = ProvideBuilder::begin(out, 20, &head);
        provide.push(&&b"rack1/ai0"[..]);
        provide.push(&&b"rack1/ai1"[..]);
        provide.finish(false);
    });
    add(
        samples,
        "provided",
        "One is granted, one is unknown",
        |out| {
            let mut provided = begin_provided(out, 20, lease, OpenOptions::default(), 0);
            provided.push(40, &DataType::F64, Access::ReadOnly, None, None);
            provided.push_fault(UNKNOWN_NAME);
            provided.finish(false);
        },
    );
    add(
        samples,
        "provider-bind",
        "Two variables of one type, and one of another",
        |out| {
            let bound = |handle, data_type, access, item| BoundVariable {
                handle,
                data_type,
                access,
                item,
            };
            let mut bind = ProviderBindBuilder::begin(out, 0, &());
            bind.push(&bound(7, DataType::F64, Access::ReadOnly, "drum.level"));
            bind.push(&bound(8, DataType::F64, Access::ReadWrite, "drum.setpoint"));
            bind.push(&bound(2, DataType::Bool, Access::ReadWrite, "pump.run"));
            bind.finish(false);
        },
    );
    add(
        samples,
        "provider-request",
        "Asks for two fresh values",
        |out| {
            let head = ProviderRequestHead { first_ticket: 78 };
            let mut request = ProviderRequestBuilder::begin(out, 0, &head);
            request.push(&40);
            request.push(&41);
            request.finish(false);
        },
    );
    add(
        samples,
        "provider-answer",
        "Applied with and without read-back, refused, unknown",
        |out| {
            let value = 60.0_f64.to_le_bytes();
            let back = ReadBack {
                source_timestamp: Some(NOW),
                quality: Some(Quality::GOOD),
                value: Some(&value),
            };
            let interlock = FaultRef {
                code: FaultCode::ProviderRefused,
                sentence: "interlock 3",
            };
            let late = FaultRef {
                code: FaultCode::TimedOut,
                sentence: "no answer within 2 s",
            };
            let mut answers = ProviderAnswersBuilder::begin(out, 0, &());
            for (ticket, outcome) in [
                (77, ProviderOutcome::Applied(back)),
                (78, ProviderOutcome::Applied(ReadBack::default())),
                (79, ProviderOutcome::Refused(interlock)),
                (3, ProviderOutcome::Unknown(late)),
            ] {
                answers.push(&ProviderAnswer { ticket, outcome });
            }
            answers.finish(false);
        },
    );
}

fn compare(out: &mut Vec<u8>) -> CompareBuilder<'_> {
    let records_received = 1024;
    CompareBuilder::begin(out, 0, &CompareHead { records_received })
}
