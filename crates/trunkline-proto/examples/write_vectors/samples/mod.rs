//! The golden frames: what goes into `vectors/frames.json`.

mod connection;
mod delivery;
mod groups;
mod questions;
mod streams;
mod variables;

use serde_json::{Value as Json, json};
use trunkline_proto::frame::Frame;

use super::fields::{fields, hex};

/// A golden frame.
pub struct Sample {
    /// Unique, as a file's name.
    pub name: String,
    /// What it shows.
    pub description: &'static str,
    /// The frame, header included.
    pub bytes: Vec<u8>,
}

/// Every golden frame; the same on every call.
pub fn all() -> Vec<Sample> {
    let mut samples = Vec::new();
    connection::add_all(&mut samples);
    variables::add_all(&mut samples);
    delivery::add_all(&mut samples);
    questions::add_all(&mut samples);
    groups::add_all(&mut samples);
    streams::add_all(&mut samples);
    samples
}

/// The text of `vectors/frames.json`: one line per frame.
pub fn document() -> String {
    let lines: Vec<String> = all()
        .iter()
        .map(|sample| entry(sample).to_string())
        .collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// One entry of the document.
pub fn entry(sample: &Sample) -> Json {
    let mut rest = sample.bytes.as_slice();
    let fields = match Frame::take_from(&mut rest) {
        Ok(Some(frame)) if rest.is_empty() => match fields(&frame) {
            Ok(fields) => fields,
            Err(error) => json!({ "error": error.to_string() }),
        },
        _ => json!({ "error": "not one whole frame" }),
    };
    json!({
        "name": sample.name,
        "description": sample.description,
        "hex": hex(&sample.bytes),
        "fields": fields,
    })
}

/// Adds the frame that `encode` writes.
fn add(
    samples: &mut Vec<Sample>,
    name: impl Into<String>,
    description: &'static str,
    encode: impl FnOnce(&mut Vec<u8>),
) {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    samples.push(Sample {
        name: name.into(),
        description,
        bytes,
    });
}
