//! The golden frames of `vectors/frames.json` are what this crate writes and reads.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use trunkline_proto::FrameKind;
use trunkline_proto::frame::{EXT, Frame};

use crate::reencode::reencode;
use crate::{fields, samples};

fn file() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/frames.json");
    std::fs::read_to_string(path).expect("vectors/frames.json is in the tree")
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

#[test]
fn the_file_is_what_the_example_writes() {
    let advice =
        "run `cargo run -p trunkline-proto --example write_vectors` if the change is meant";
    for (line, expected) in file().lines().zip(samples::document().lines()) {
        assert_eq!(line, expected, "{advice}");
    }
    assert!(file() == samples::document(), "{advice}");
}

#[test]
fn every_frame_of_the_file_decodes_to_its_fields() {
    let entries: Vec<Json> = serde_json::from_str(&file()).unwrap();
    for entry in &entries {
        let name = entry["name"].as_str().unwrap();
        let bytes = bytes(entry["hex"].as_str().unwrap());
        let mut rest = bytes.as_slice();
        let frame = Frame::take_from(&mut rest).unwrap().expect("a whole frame");
        assert!(rest.is_empty(), "{name}");
        assert_eq!(fields::fields(&frame).unwrap(), entry["fields"], "{name}");
    }
}

#[test]
fn every_kind_has_a_golden_frame() {
    let entries: Vec<Json> = serde_json::from_str(&file()).unwrap();
    let names: BTreeSet<&str> = entries
        .iter()
        .map(|entry| entry["fields"]["kind"].as_str().unwrap())
        .collect();
    for kind in FrameKind::ALL {
        assert!(names.contains(kind.name()), "{kind} has no golden frame");
    }
    let unique: BTreeSet<&str> = entries
        .iter()
        .map(|e| e["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        unique.len(),
        entries.len(),
        "two golden frames have one name"
    );
}

#[test]
fn decoded_samples_are_re_encoded_identically() {
    // Parts that only a newer version understands are skipped, so they are not re-encoded.
    let skipped = [
        "hello-unknown-fields",
        "updates-extension",
        "lost-future-cause",
    ];
    for sample in samples::all() {
        let mut rest = sample.bytes.as_slice();
        let frame = Frame::take_from(&mut rest).unwrap().expect("a whole frame");
        let mut again = Vec::new();
        let Some(result) = reencode(&frame, &mut again) else {
            continue;
        };
        result.unwrap();
        let name = sample.name.as_str();
        if frame.header().flags & EXT == 0 && !skipped.contains(&name) && name != "open-not-utf8" {
            assert_eq!(again, sample.bytes, "{name}");
        }
    }
}

/// Behaviour: B-51.
#[test]
fn any_frame_may_carry_an_extension_of_unknown_fields() {
    let mut extension = Vec::new();
    trunkline_proto::tlv::put_text(&mut extension, 1, "from a newer version");
    trunkline_proto::tlv::put_number(&mut extension, 700, 7);
    for sample in samples::all() {
        let mut rest = sample.bytes.as_slice();
        let frame = Frame::take_from(&mut rest).unwrap().expect("a whole frame");
        if frame.header().flags & EXT != 0 || frame.kind().is_none() {
            continue;
        }
        let mut payload = frame.payload().to_vec();
        payload.extend_from_slice(&extension);
        payload.extend_from_slice(&(extension.len() as u32).to_le_bytes());
        let mut header = frame.header();
        header.flags |= EXT;
        let extended = Frame::new(header, &payload).unwrap();
        let mut expected = fields::fields(&frame).unwrap();
        let mut got = fields::fields(&extended).unwrap();
        assert_eq!(
            got["extension"].take(),
            fields::hex(&extension),
            "{}",
            sample.name
        );
        got.as_object_mut().unwrap().remove("extension");
        expected.as_object_mut().unwrap().remove("extension");
        assert_eq!(got, expected, "{}", sample.name);
    }
}

/// Behaviour: B-51.
#[test]
fn update_record_may_carry_an_extension() {
    let with = samples::all()
        .into_iter()
        .find(|sample| sample.name == "updates-extension")
        .unwrap();
    let fields = samples::entry(&with)["fields"].take();
    assert_eq!(fields["items"][0]["handle"], 1);
    assert_eq!(fields["items"][0]["value"], "");
}
