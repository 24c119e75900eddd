//! `verify`, `repair` and `info` with the checksums beside a file.

use serde_json::{Value as Json, json};
use trunkline_tdms::{BodySum, SUMS_ENTRY_BYTES, SegmentSum, SumsId};

use super::{Files, check, read, tdms, waveforms};
use crate::rig::Output;

/// The checksums of three segments.
fn sums(bytes: &[u8], places: &[usize], id: u64) -> Vec<u8> {
    let id = SumsId::new(id);
    let mut sums = id.begin().to_vec();
    let ends = places[1..].iter().copied().chain([bytes.len()]);
    for (from, to) in places.iter().copied().zip(ends) {
        sums.extend(SegmentSum::of(from as u64, &bytes[from..to], BodySum::default()).entry(id));
    }
    sums
}

/// A file of three segments with its checksums: its path, its bytes, theirs, and where its segments
/// begin.
fn summed(files: &Files) -> (String, Vec<u8>, Vec<u8>, Vec<usize>) {
    let (bytes, _, places) = waveforms();
    let sums = sums(&bytes, &places, 7);
    let path = files.put("run.tdms", &bytes);
    files.put("run.tdms.sums", &sums);
    (path, bytes, sums, places)
}

fn rows(output: &Output) -> Vec<Json> {
    let lines = output.out.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Behaviour: B-70.
#[test]
fn a_bit_that_flips_in_a_value_is_found_with_its_segment() {
    let files = Files::new();
    let (path, mut bytes, _, places) = summed(&files);
    let sound = tdms(&["verify", &path, "--json"]);
    assert_eq!((sound.code, sound.out.as_str()), (Some(0), ""), "{sound:?}");
    let event: Json = serde_json::from_str(&sound.err).unwrap();
    check(&event, "tdms_event");
    assert_eq!(
        (&event["sums"], &event["segments_summed"]),
        (&json!(true), &json!(3))
    );
    // The last value of the second segment: without checksums it is just another value.
    bytes[places[2] - 1] ^= 0x10;
    files.put("run.tdms", &bytes);
    let found = tdms(&["verify", &path, "--json"]);
    assert_eq!(found.code, Some(8), "{found:?}");
    let rows = rows(&found);
    assert_eq!(rows.len(), 1, "{rows:?}");
    check(&rows[0], "tdms_finding");
    assert_eq!(rows[0]["byte"], places[1]);
    let what = rows[0]["what"].as_str().unwrap();
    assert!(what.starts_with("segment 2: "), "{what}");
    let event: Json = serde_json::from_str(&found.err).unwrap();
    assert_eq!(
        (&event["sums"], &event["segments_summed"]),
        (&json!(false), &json!(2))
    );
    // Nothing is cut off for it: the segment after it is right.
    let repaired = tdms(&["repair", &path, "--unsummed", "cut"]);
    assert_eq!(repaired.code, Some(8), "{repaired:?}");
    assert_eq!(read(&path), bytes);
    let info = tdms(&["info", &path]);
    assert_eq!(info.code, Some(0), "{info:?}");
    let info = tdms(&["info", "--json", &path]);
    let info: Json = serde_json::from_str(&info.out).unwrap();
    check(&info, "tdms_file");
    assert_eq!(info["sums"], true);
}

#[test]
fn unusable_checksums_are_reported_and_the_file_is_read() {
    let files = Files::new();
    let (path, bytes, good, places) = summed(&files);
    let foreign = {
        let (mut other, others_places) = (bytes.clone(), places.clone());
        for end in places[1..].iter().copied().chain([bytes.len()]) {
            other[end - 1] ^= 1;
        }
        sums(&other, &others_places, 8)
    };
    let mut stale = good.clone();
    stale[2 * SUMS_ENTRY_BYTES] ^= 1;
    for (sums, told) in [
        (foreign, "the checksums belong to another file"),
        (Vec::new(), "is not valid; nothing was compared"),
        (
            b"not a file of checksums at all".to_vec(),
            "(30 bytes) is not valid",
        ),
        (stale, "are damaged and cannot be compared"),
        (good[..good.len() - 5].to_vec(), "ends within an entry"),
    ] {
        files.put("run.tdms.sums", &sums);
        let found = tdms(&["verify", &path]);
        assert_eq!(found.code, Some(8), "{found:?}");
        assert!(found.out.contains(told), "{told}: {found:?}");
        // A sidecar alone makes no data go away.
        let repaired = tdms(&["repair", &path]);
        assert_eq!(repaired.code, Some(8), "{repaired:?}");
        assert_eq!(read(&path), bytes, "{told}");
        let read = tdms(&["cat", &path, "-t", "--channel", "daq/count"]);
        assert_eq!((read.code, read.out.lines().count()), (Some(0), 12));
    }
}

/// Behaviour: B-70.
#[test]
fn tail_without_checksums_is_cut_only_on_request() {
    let files = Files::new();
    let (path, bytes, good, places) = summed(&files);
    let short = &good[..3 * SUMS_ENTRY_BYTES];
    files.put("run.tdms.sums", short);
    for keep in [&[][..], &["--unsummed", "keep"]] {
        let kept = tdms(&[&["repair", &path], keep].concat());
        assert_eq!(kept.code, Some(8), "{kept:?}");
        assert_eq!(read(&path), bytes);
    }
    let dry = tdms(&["repair", &path, "--unsummed", "cut", "--dry-run", "--json"]);
    assert_eq!(dry.code, Some(8), "{dry:?}");
    let told: Json = serde_json::from_str(&dry.err).unwrap();
    check(&told, "tdms_event");
    assert_eq!(
        (&told["length"], &told["values_lost"], &told["bytes_lost"]),
        (
            &json!(places[2]),
            &json!(8),
            &json!(bytes.len() - places[2])
        )
    );
    let out = files.path("out.tdms");
    let copied = tdms(&["repair", &path, &out, "--unsummed", "cut"]);
    assert_eq!(copied.code, Some(0), "{copied:?}");
    assert_eq!(read(&out), bytes[..places[2]]);
    let cut = tdms(&["repair", &path, "--unsummed", "cut"]);
    assert_eq!(cut.code, Some(0), "{cut:?}");
    assert_eq!(read(&path), bytes[..places[2]]);
    assert_eq!(tdms(&["verify", &path]).code, Some(0));
}

/// Behaviour: B-70.
#[test]
fn wrong_tail_is_cut_off_with_its_checksum() {
    let files = Files::new();
    let (path, mut bytes, good, places) = summed(&files);
    // As after a loss of power: the header exists, and zeros for the values.
    let from = bytes.len() - 40;
    bytes[from..].fill(0);
    files.put("run.tdms", &bytes);
    let repaired = tdms(&["repair", &path]);
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    assert!(repaired.err.contains("8 readable values were removed"));
    assert_eq!(read(&path), bytes[..places[2]]);
    let sums = read(&files.path("run.tdms.sums"));
    assert_eq!(sums, good[..3 * SUMS_ENTRY_BYTES]);
    assert_eq!(tdms(&["verify", &path]).code, Some(0));
    let wrong = tdms(&["verify", &path, "--unsummed", "cut"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}
