//! Everything that can be done with a file, whatever is in it.

use trunkline_tdms::{Limits, Mending, SumsId, TdmsFile, Unsummed, Version};

/// Opens a file and reads every channel once, if there is one: what costs least, for many files.
#[allow(dead_code, reason = "each test program uses its part")]
pub fn read(bytes: &[u8]) {
    let Ok(file) = TdmsFile::open(bytes) else {
        return;
    };
    for channel in file.channels() {
        let _ = channel.read(0, 1_000);
        for scaler in channel.scalers() {
            let _ = channel.read_scaler(scaler.scale_id, 0, 1_000);
        }
    }
}

/// Does everything with a file that a reader can.
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
            // In pieces that do not end where chunks do, and become longer.
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
        let _ = file.repair(Mending::Close);
        let _ = file.write_index(&mut std::io::sink());
        check_rewritten(&file);
    }
    let index = Some(bytes).map(|bytes| TdmsFile::open_indexed(bytes, bytes, Limits::default()));
    drop(index);
    // The bytes as checksums of themselves, as they are and behind a true begin.
    let sums = [&SumsId::new(1).begin(), bytes].concat();
    for sums in [bytes, &sums] {
        for unsummed in [Unsummed::Cut, Unsummed::Keep] {
            let _ = TdmsFile::open_summed(bytes, sums, unsummed, Limits::default());
        }
    }
}

/// A file that is written anew holds the same values.
fn check_rewritten(file: &TdmsFile<&[u8]>) {
    let mut anew = Vec::new();
    if file.rewrite(Version::V2, &mut anew).is_err() {
        return;
    }
    let Ok(anew) = TdmsFile::open(&anew) else {
        panic!("a file written anew cannot be opened");
    };
    assert!(anew.report().is_sound());
    for before in file.channels() {
        let Some(after) = anew.channel(before.path()) else {
            panic!("{} is gone", before.path());
        };
        assert_eq!(before.len(), after.len(), "{}", before.path());
        if let (Ok(before), Ok(after)) = (before.read(0, 1_000), after.read(0, 1_000)) {
            // As text, because no number that is none equals itself.
            assert_eq!(format!("{before:?}"), format!("{after:?}"));
        }
    }
}
