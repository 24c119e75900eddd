//! Runs every operation on a file with arbitrary content.

use trunkline_tdms::{
    BodySum, LEAD_IN_BYTES, Limits, ReadAt, RepairMode, SegmentSum, SumsId, SumsState, TdmsFile,
    UncheckedSegments, Version,
};

/// Opens a file and reads every channel once. This is the fastest check, for many files.
#[allow(dead_code, reason = "each test program uses its part")]
pub fn read(bytes: &[u8]) {
    let Ok(file) = TdmsFile::open(bytes) else {
        // Bytes that are not a data file may be the index of one.
        let _ = TdmsFile::open_index(bytes, Limits::default());
        return;
    };
    for channel in file.channels() {
        let _ = channel.read(0, 1_000);
        for scaler in channel.scalers() {
            let _ = channel.read_scaler(scaler.scale_id, 0, 1_000);
        }
    }
}

/// Runs every operation that a reader has on a file.
pub fn exercise(bytes: &[u8]) {
    for is_salvaging in [false, true] {
        let limits = Limits {
            is_salvaging,
            ..Limits::default()
        };
        let Ok(file) = TdmsFile::open_with(bytes, limits) else {
            continue;
        };
        for channel in file.channels() {
            let _ = channel.chunks().take(1_000).count();
            // The pieces grow and do not end at chunk boundaries.
            let (mut at, mut piece) = (0, 7);
            while at < channel.len() {
                let read = channel.read(at, piece);
                for scaler in channel.scalers() {
                    let _ = channel.read_scaler(scaler.scale_id, at, piece);
                }
                let mut scaled = vec![0.0; piece as usize];
                let _ = channel.read_scaled_into(&channel.scaling(), at, &mut scaled);
                at += match read {
                    Ok(values) if !values.is_empty() => values.len() as u64,
                    _ => piece,
                };
                piece = (piece * 5).min(1_000);
            }
        }
        let _ = file.verify(Some(bytes));
        let _ = file.repair(RepairMode::Close);
        let _ = file.write_index(&mut std::io::sink());
        check_rewritten(&file);
    }
    let index = Some(bytes).map(|bytes| TdmsFile::open_indexed(bytes, bytes, Limits::default()));
    drop(index);
    // The bytes are used as checksums of themselves, unchanged and after a valid first line.
    let sums = [&SumsId::new(1).begin(), bytes].concat();
    for sums in [bytes, &sums] {
        for unchecked in [UncheckedSegments::Remove, UncheckedSegments::Keep] {
            let _ = TdmsFile::open_verified(bytes, sums, unchecked, Limits::default());
        }
    }
}

/// Opens a file with its own index and its own checksums, unchanged and altered: the last bytes of
/// the file determine the position and the change.
#[allow(dead_code, reason = "each test program uses its part")]
pub fn exercise_with_companions(bytes: &[u8]) {
    let limits = Limits {
        is_salvaging: true,
        ..Limits::default()
    };
    let Ok(file) = TdmsFile::open_with(bytes, limits) else {
        return;
    };
    let Some([at_low, at_high, flip, cut]) = bytes.last_chunk::<4>().copied() else {
        return;
    };
    let at = usize::from(u16::from_le_bytes([at_low, at_high]));
    let flip = flip.max(1);
    let altered = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let left = bytes.len().saturating_sub(usize::from(cut) / 2);
        bytes.truncate(if cut % 2 == 0 { bytes.len() } else { left });
        let at = at % bytes.len().max(1);
        bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= flip);
        bytes
    };

    let mut index = Vec::new();
    file.write_index(&mut index).expect("memory takes it");
    let indexed = TdmsFile::open_indexed(bytes, index.as_slice(), limits);
    let indexed = indexed.expect("what opens does so with its index");
    assert_eq!(lengths(&file), lengths(&indexed));
    let _ = file.verify(Some(index.as_slice()));
    let index = altered(&index);
    let _ = TdmsFile::open_index(index.as_slice(), limits).map(|index| lengths(&index));
    if let Ok(indexed) = TdmsFile::open_indexed(bytes, index.as_slice(), limits) {
        for channel in indexed.channels() {
            let _ = channel.read(0, 1_000);
        }
    }
    let _ = file.verify(Some(index.as_slice()));

    let id = SumsId::new(1);
    let mut sums = id.begin().to_vec();
    let segments = segments(bytes);
    if segments.is_empty() {
        // There is nothing to compute checksums of.
        return;
    }
    for (from, to) in &segments {
        let sum = SegmentSum::of(*from as u64, &bytes[*from..*to], BodySum::default());
        sums.extend(sum.entry(id));
    }
    let open = |bytes, sums: &[u8], unchecked| {
        let opened = TdmsFile::open_verified(bytes, sums, unchecked, limits);
        opened.map(|opened| (lengths(&opened.file), opened.check))
    };
    let (summed, check) = open(bytes, &sums, UncheckedSegments::Keep).expect("as without them");
    assert_eq!(check.state, SumsState::ThisFile);
    assert!(check.first_mismatch.is_none());
    // In a damaged file, the walk that made these checksums and the search for sound segments may
    // find different segments.
    if file.report().is_sound() {
        assert_eq!(lengths(&file), summed);
    }
    let other = altered(&sums);
    for unchecked in [UncheckedSegments::Remove, UncheckedSegments::Keep] {
        let _ = open(bytes, &other, unchecked);
    }
    // A changed byte is detected in the segment that contains it.
    let mut damaged = bytes.to_vec();
    let at = at % bytes.len();
    damaged[at] ^= flip;
    let check = trunkline_tdms::SumsCheck::of(damaged.as_slice(), sums.as_slice());
    let check = check.expect("memory is read");
    match segments.iter().find(|(from, to)| (from..to).contains(&&at)) {
        Some((0, _)) if segments.len() == 1 => assert_eq!(check.state, SumsState::OtherFile),
        // Its bytes may refer to other checksums.
        Some((0, _)) if check.state == SumsState::OtherFile => {
            assert!(damaged.windows(7).any(|name| name == b"sums_id"));
        }
        Some((from, _)) => assert_eq!(check.first_mismatch, Some(*from as u64)),
        None => assert!(check.first_mismatch.is_none()),
    }
    for unchecked in [UncheckedSegments::Remove, UncheckedSegments::Keep] {
        let _ = open(&damaged, &sums, unchecked);
    }
}

/// Values of each channel.
fn lengths<R: ReadAt>(file: &TdmsFile<R>) -> Vec<u64> {
    file.channels().map(|channel| channel.len()).collect()
}

/// Returns the start and the end of each segment, according to the lead-ins.
fn segments(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (mut segments, mut at) = (Vec::new(), 0);
    while let Some(lead_in) = bytes.get(at..at + LEAD_IN_BYTES as usize) {
        let length = lead_in[12..20].try_into().map_or(0, u64::from_le_bytes);
        let end = length
            .saturating_add(LEAD_IN_BYTES)
            .saturating_add(at as u64);
        let end = end.min(bytes.len() as u64) as usize;
        segments.push((at, end));
        at = end;
    }
    segments
}

/// Checks that a rewritten file holds the same values.
fn check_rewritten(file: &TdmsFile<&[u8]>) {
    let mut anew = Vec::new();
    let Ok(done) = file.rewrite(Version::V2, &mut anew) else {
        return;
    };
    let Ok(anew) = TdmsFile::open(&anew) else {
        panic!("a rewritten file cannot be opened");
    };
    assert!(anew.report().is_sound());
    let left_out = &done.channels_left_out;
    for before in file.channels() {
        if left_out.iter().any(|(path, _)| path == before.path()) {
            continue;
        }
        let Some(after) = anew.channel(before.path()) else {
            panic!("{} is gone", before.path());
        };
        assert_eq!(before.len(), after.len(), "{}", before.path());
        if let (Ok(before), Ok(after)) = (before.read(0, 1_000), after.read(0, 1_000)) {
            // Compared as text, because NaN does not equal itself.
            assert_eq!(format!("{before:?}"), format!("{after:?}"));
        }
    }
}
