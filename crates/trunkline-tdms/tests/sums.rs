//! Tests which damage checksum files detect, and how unusable checksum files are treated.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod dump;
mod random_file;

use proptest::prelude::*;
use trunkline_tdms::{
    Arrangement, BodySum, ChecksummedFile, Fault, Limits, ObjectPath, OpenError, RepairMode,
    SUMS_ENTRY_BYTES, SegmentSum, SumsCheck, SumsId, SumsState, TdmsFile, TdmsType,
    UncheckedSegments, Writer, WriterOptions,
};

use self::random_file::random_file;

/// Returns a file with this number of segments of ten values each, its checksums, and the positions
/// of its segments.
fn summed(segments: i32, id: u64) -> (Vec<u8>, Vec<u8>, Vec<usize>) {
    let mut writer = Writer::new(WriterOptions::default());
    let channel = writer.channel("g", "a", TdmsType::I32).unwrap();
    writer.set(&ObjectPath::File, "sums_id", id).unwrap();
    let (mut data, mut starts) = (Vec::new(), Vec::new());
    let id = SumsId::new(id);
    let mut sums = id.begin().to_vec();
    for segment in 0..segments {
        let values: Vec<i32> = (segment * 10..segment * 10 + 10).collect();
        let from = data.len();
        let values = [(channel, values.as_slice().into())];
        writer
            .write(&values, Arrangement::Contiguous, &mut data)
            .unwrap();
        let (head, tail) = data[from..].split_at(28);
        sums.extend(SegmentSum::of(from as u64, head, BodySum::default().with(tail)).entry(id));
        starts.push(from);
    }
    starts.push(data.len());
    (data, sums, starts)
}

fn check(data: &[u8], sums: &[u8]) -> SumsCheck {
    SumsCheck::of(data, sums).unwrap()
}

fn opened<'a>(
    data: &'a [u8],
    sums: &[u8],
    unchecked: UncheckedSegments,
) -> ChecksummedFile<&'a [u8]> {
    TdmsFile::open_verified(data, sums, unchecked, Limits::default()).unwrap()
}

fn values(file: &TdmsFile<&[u8]>) -> Vec<i32> {
    let Some(channel) = file.channel(&ObjectPath::channel("g", "a")) else {
        return Vec::new();
    };
    let mut values = vec![0; channel.len() as usize];
    channel.read_into(0, &mut values).unwrap();
    values
}

/// Behaviour: B-70.
#[test]
fn every_bit_that_flips_within_a_segment_is_reported_and_where() {
    let (mut data, sums, starts) = summed(12, 7);
    let whole = check(&data, &sums);
    assert!(whole.is_good(), "{whole:?}");
    assert_eq!((whole.segments, whole.verified_to), (12, data.len() as u64));
    for at in 0..data.len() {
        let segment = starts.iter().filter(|start| **start <= at).count() - 1;
        for bit in 0..8 {
            data[at] ^= 1 << bit;
            let found = check(&data, &sums);
            assert_eq!(found.findings.len(), 1, "byte {at}, bit {bit}");
            let position = starts[segment] as u64;
            assert_eq!(found.findings[0].position, position);
            // The first segment is reported too: the file refers to the checksums, or other
            // segments match.
            assert_eq!(found.state, SumsState::ThisFile);
            let bytes = (starts[segment + 1] - starts[segment]) as u64;
            assert_eq!(found.findings[0].fault, Fault::WrongSum { bytes });
            assert_eq!(found.first_mismatch, Some(position));
            assert_eq!((found.segments, found.verified_to), (11, position));
            data[at] ^= 1 << bit;
        }
    }
}

/// Behaviour: B-70.
#[test]
fn file_is_opened_and_cut_at_the_first_altered_segment() {
    let (whole, sums, starts) = summed(6, 7);
    // The damage is a page of zeros or a flipped bit.
    for damage in [0, 1] {
        for segment in 1..6 {
            let mut data = whole.clone();
            match damage {
                0 => data[starts[segment] + 40..starts[segment + 1]].fill(0),
                _ => data[starts[segment + 1] - 1] ^= 1,
            }
            for unchecked in [UncheckedSegments::Remove, UncheckedSegments::Keep] {
                let sut = opened(&data, &sums, unchecked);
                let expected: Vec<i32> = (0..segment as i32 * 10).collect();
                assert_eq!(values(&sut.file), expected);
                assert_eq!(sut.values_left_out, (6 - segment as u64) * 10);
                let report = sut.file.report();
                let bytes = (whole.len() - starts[segment]) as u64;
                assert_eq!(report.bytes_lost, bytes);
                let repair = sut.file.repair(RepairMode::Remove).unwrap().unwrap();
                assert_eq!(
                    (repair.length, repair.patch),
                    (starts[segment] as u64, None)
                );
                assert_eq!(repair.bytes_lost, bytes);
                assert!(matches!(repair.finding.fault, Fault::WrongSum { .. }));
            }
        }
    }
}

#[test]
fn contradictory_segment_is_cut_off_instead_of_refused() {
    let (mut data, sums, starts) = summed(6, 7);
    // The metadata is declared to be longer than the whole segment.
    data[starts[3] + 26] = 1;
    assert!(matches!(TdmsFile::open(&data), Err(OpenError::Refused(_))));
    let sut = opened(&data, &sums, UncheckedSegments::Keep);
    assert_eq!(values(&sut.file), (0..30).collect::<Vec<i32>>());
}

#[test]
fn segments_without_checksum_are_reported_and_omitted_on_request() {
    let (data, sums, starts) = summed(6, 7);
    for (entries, start) in starts.iter().enumerate().take(6).skip(1) {
        for cut in [0, 1, 23] {
            let kept = (entries + 1) * SUMS_ENTRY_BYTES + cut;
            let found = check(&data, &sums[..kept]);
            assert_eq!(found.state, SumsState::ThisFile);
            assert_eq!(found.verified_to, *start as u64);
            let bytes = (data.len() - start) as u64;
            assert_eq!(found.bytes_without_sum, bytes);
            assert_eq!(found.findings[0].fault, Fault::NoSum { bytes });
            let of_cut = Fault::TruncatedSums { bytes: cut as u64 };
            let is_cut = found.findings.iter().any(|finding| finding.fault == of_cut);
            assert_eq!(is_cut, cut > 0);
            let sut = opened(&data, &sums[..kept], UncheckedSegments::Remove);
            assert_eq!(values(&sut.file).len(), entries * 10);
            let sut = opened(&data, &sums[..kept], UncheckedSegments::Keep);
            assert_eq!(values(&sut.file).len(), 60);
            assert_eq!(sut.values_left_out, 0);
        }
    }
    // The file ends with zeros, as after a reservation that became visible.
    let mut long = data.clone();
    long.resize(data.len() + 5_000, 0);
    let found = check(&long, &sums);
    assert_eq!(found.findings[0].fault, Fault::NoSum { bytes: 5_000 });
    let repair = opened(&long, &sums, UncheckedSegments::Remove)
        .file
        .repair(RepairMode::Remove);
    assert_eq!(repair.unwrap().unwrap().length, data.len() as u64);
}

#[test]
fn unusable_checksums_omit_nothing() {
    let (data, sums, _) = summed(6, 7);
    let (_, other, _) = summed(6, 8);
    let mut no_begin = sums.clone();
    no_begin[3] ^= 1;
    let mut no_first = sums.clone();
    no_first[SUMS_ENTRY_BYTES] ^= 1;
    // These checksums belong to a file with another id, although every later segment is equal.
    for (sums, state) in [
        (other.as_slice(), SumsState::OtherFile),
        (&no_begin, SumsState::Unusable),
        (&no_first, SumsState::Unusable),
        (&sums[..SUMS_ENTRY_BYTES], SumsState::Unusable),
        (&[], SumsState::Unusable),
        (&data, SumsState::Unusable),
    ] {
        for unchecked in [UncheckedSegments::Remove, UncheckedSegments::Keep] {
            let sut = opened(&data, sums, unchecked);
            assert_eq!(sut.check.state, state);
            assert_eq!(sut.check.findings.len(), 1);
            assert_eq!(sut.check.bytes_without_sum, data.len() as u64);
            assert_eq!(values(&sut.file).len(), 60);
            assert!(sut.file.report().is_sound());
        }
    }
    // The checksum file begins like that of this file, but has entries of another file, which count
    // as damaged.
    let mixed = [
        &sums[..2 * SUMS_ENTRY_BYTES],
        &other[2 * SUMS_ENTRY_BYTES..],
    ]
    .concat();
    let found = check(&data, &mixed);
    assert_eq!(found.findings[0].fault, Fault::DamagedSums { entries: 5 });
    assert_eq!(found.segments, 1);
}

#[test]
fn damaged_checksum_does_not_affect_the_others() {
    let (data, sums, starts) = summed(6, 7);
    for entry in 2..=6 {
        for at in 0..SUMS_ENTRY_BYTES {
            let mut sums = sums.clone();
            sums[entry * SUMS_ENTRY_BYTES + at] ^= 0x10;
            let found = check(&data, &sums);
            assert_eq!(found.segments, 5);
            assert_eq!(found.first_mismatch, None);
            assert_eq!(found.verified_to, starts[entry - 1] as u64);
            assert_eq!(found.findings[0].fault, Fault::DamagedSums { entries: 1 });
            let bytes = (starts[entry] - starts[entry - 1]) as u64;
            assert_eq!(found.findings[1].fault, Fault::NoSum { bytes });
            assert_eq!(
                values(&opened(&data, &sums, UncheckedSegments::Keep).file).len(),
                60
            );
        }
    }
}

#[test]
fn a_file_that_has_lost_its_end_is_good_up_to_the_last_whole_segment() {
    let (data, sums, starts) = summed(4, 7);
    for len in starts[1]..data.len() {
        let whole = starts.iter().filter(|start| **start <= len).count() - 1;
        let found = check(&data[..len], &sums);
        assert_eq!(found.verified_to, starts[whole] as u64, "cut at {len}");
        let missing = (starts[whole + 1] - len) as u64;
        assert_eq!(
            found.findings[0].fault,
            Fault::ChecksumBeyondEnd { missing }
        );
        let sut = opened(&data[..len], &sums, UncheckedSegments::Remove);
        assert_eq!(values(&sut.file).len(), whole * 10);
    }
}

#[test]
fn entries_that_overlap_go_backwards_or_overflow_are_damaged() {
    let (data, sums, starts) = summed(3, 7);
    let id = SumsId::new(7);
    let hostile = [
        (0, 10),
        (starts[1] as u64 - 1, 50),
        (u64::MAX, 1),
        (starts[1] as u64, u64::MAX),
        (starts[1] as u64, 0),
    ];
    for (position, bytes) in hostile {
        let entry = SegmentSum {
            position,
            bytes,
            sum: 0,
        }
        .entry(id);
        let sums = [&sums[..2 * SUMS_ENTRY_BYTES], &entry].concat();
        let found = check(&data, &sums);
        assert_eq!(found.findings[0].fault, Fault::DamagedSums { entries: 1 });
        assert_eq!(found.verified_to, starts[1] as u64);
    }
    // An entry that covers more than the file contains does not cause a read.
    let entry = SegmentSum {
        position: u64::MAX - 1,
        bytes: 1,
        sum: 0,
    }
    .entry(id);
    let found = check(&data, &[&sums[..2 * SUMS_ENTRY_BYTES], &entry].concat());
    assert!(matches!(
        found.findings[1].fault,
        Fault::ChecksumBeyondEnd { .. }
    ));
}

proptest! {
    /// Behaviour: B-70.
    #[test]
    fn any_flipped_bit_of_any_file_is_reported(
        seed in any::<u64>(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let mut data = random_file(seed).bytes;
        prop_assume!(!data.is_empty());
        let id = SumsId::new(seed);
        let begin = data.len() / 2;
        let mut sums = id.begin().to_vec();
        let (first, second) = data.split_at(begin);
        if begin > 0 {
            sums.extend(SegmentSum::of(0, first, BodySum::default()).entry(id));
        }
        sums.extend(SegmentSum::of(begin as u64, second, BodySum::default()).entry(id));
        prop_assert!(check(&data, &sums).is_good());
        let at = at.index(data.len());
        data[at] ^= 1_u8 << bit;
        prop_assert!(!check(&data, &sums).is_good());
    }

    #[test]
    fn any_bytes_may_be_checksums(
        data in prop::collection::vec(any::<u8>(), 0..200),
        sums in prop::collection::vec(any::<u8>(), 0..200),
        begins in any::<bool>(),
    ) {
        let mut sums = sums;
        if begins {
            sums.splice(0..0, SumsId::new(1).begin());
        }
        let found = check(&data, &sums);
        prop_assert!(found.verified_to <= data.len() as u64);
        prop_assert!(!found.is_good());
    }
}

#[test]
fn position_is_mapped_to_its_segment() {
    let (data, _, starts) = summed(3, 7);
    let file = TdmsFile::open(&data[..]).unwrap();
    let [first, second, third, end] = starts[..].try_into().unwrap();
    let ascending = [first, second - 1, second, third, end - 1, end].map(|at| at as u64);
    let expected = [Some(1), Some(1), Some(2), Some(3), Some(3), None];
    assert_eq!(file.segments_of(&ascending).unwrap(), expected);
    assert_eq!(file.segments_of(&[third as u64]).unwrap(), [Some(3)]);
    assert_eq!(file.segments_of(&[]).unwrap(), []);
    let nothing = TdmsFile::open(&[][..]).unwrap();
    assert_eq!(nothing.segments_of(&[0, 5]).unwrap(), [None, None]);
}

/// Behaviour: B-70.
#[test]
fn damaged_lead_in_does_not_hide_sound_segments() {
    let (whole, sums, starts) = summed(11, 7);
    let salvaging = Limits {
        is_salvaging: true,
        ..Limits::default()
    };
    for (segment, at) in starts.iter().copied().enumerate().take(11).skip(1) {
        // The test damages the tag and the length of the segment.
        for (byte, bit) in (0..4).chain(12..20).flat_map(|byte| [(byte, 0), (byte, 7)]) {
            let mut data = whole.clone();
            data[at + byte] ^= 1 << bit;
            let sut =
                TdmsFile::open_with_checksum_positions(data.as_slice(), &sums, salvaging).unwrap();
            let what = format!("segment {segment}, byte {byte}, bit {bit}");
            assert_eq!(values(&sut), (0..110).collect::<Vec<i32>>(), "{what}");
            let report = sut.report();
            // If the length is too short, the remaining part of the segment is also reported.
            assert_eq!(report.incomplete, None, "{what}");
            assert_eq!(report.findings[0].position, at as u64, "{what}");
            assert_eq!(report.findings[0].fault, Fault::DamagedLeadIn, "{what}");
            // The repair must remove nothing.
            assert_eq!(sut.repair(RepairMode::Remove).unwrap(), None, "{what}");
            if byte < 4 {
                // This also works without the checksums: the next segment is at the expected
                // position.
                let sut = TdmsFile::open_with(data.as_slice(), salvaging).unwrap();
                assert_eq!(values(&sut).len(), 110, "{what}");
            }
        }
    }
}

/// Behaviour: B-70.
#[test]
fn segments_after_an_unreadable_one_are_read_if_self_describing() {
    let salvaging = Limits {
        is_salvaging: true,
        ..Limits::default()
    };
    // Channels change from segment to segment, so each segment describes its own channels.
    let mut writer = Writer::new(WriterOptions::default());
    let channel = writer.channel("g", "a", TdmsType::I32).unwrap();
    let (mut data, mut starts) = (Vec::new(), Vec::new());
    for segment in 0..8_i32 {
        starts.push(data.len());
        let count = 10 + segment;
        let numbers: Vec<i32> = (0..count).map(|at| segment * 100 + at).collect();
        let values = [(channel, numbers.as_slice().into())];
        writer
            .write(&values, Arrangement::Contiguous, &mut data)
            .unwrap();
    }
    for segment in 2..7 {
        let mut damaged = data.clone();
        // The test damages the whole lead-in and the number of objects.
        damaged[starts[segment]..starts[segment] + 32].fill(0xa5);
        let sut = TdmsFile::open_with(damaged.as_slice(), salvaging).unwrap();
        let found = values(&sut);
        assert!(found.iter().all(|one| one / 100 != segment as i32));
        let report = sut.report();
        let skipped = (starts[segment + 1] - starts[segment]) as u64;
        assert_eq!((report.incomplete, report.bytes_skipped), (None, skipped));
        let bytes = skipped;
        assert_eq!(report.findings[0].fault, Fault::Garbage { bytes });
        // The damaged segment may have changed the list of channels, so segments that rely on it
        // are not read.
        assert!(found.len() >= (0..segment).map(|one| 10 + one).sum::<usize>());
    }
}
