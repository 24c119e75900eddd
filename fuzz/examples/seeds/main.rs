//! Writes the first inputs of the fuzz targets: `seeds FOLDER` fills `FOLDER/<target>/`.

mod alarms;
mod tdms;

#[path = "../../../crates/trunkline-tdms/tests/dump/mod.rs"]
mod dump;
#[path = "../../../crates/trunkline-tdms/tests/random_file/mod.rs"]
mod random_file;
#[path = "../../../crates/trunkline-tdms/tests/segments/mod.rs"]
mod segments;

use std::fs;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value as Json;
use trunkline_fuzz::GROUPS;
use trunkline_identity::Authority;
use trunkline_proto::FrameKind;
use trunkline_proto::message::watch::{
    AppearedBuilder, AppearedHead, AppearedVariable, Listing, VanishedBuilder, VanishedHead,
};
use trunkline_record::{Segments, VariableRecording};
use trunkline_types::text::parse_type;
use trunkline_types::wire::{encode_properties, encode_tagged};
use trunkline_types::{
    Access, DataType, Lost, Properties, Quality, Sample, Scaling, Timestamp, Value,
};

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "corpus".into()));
    for (index, frame) in vectors("frames.json")?.iter().enumerate() {
        let (number, bytes) = (frame["fields"]["number"].as_u64(), bytes(&frame["hex"]));
        let has = |kind: &FrameKind| Some(u64::from(kind.number())) == number;
        for (target, _) in GROUPS.iter().filter(|(_, kinds)| kinds.iter().any(has)) {
            write(&folder, target, &format!("vector-{index}"), &bytes)?;
        }
        // The first byte of this target's input determines how it is split.
        let uncut: Vec<u8> = [255].into_iter().chain(bytes.clone()).collect();
        write(&folder, "client", &format!("vector-{index}"), &uncut)?;
        // The first byte of this target's input determines the limits and how it is split.
        for control in [0_u8, 40, 5, 42, 255] {
            let input: Vec<u8> = [control].into_iter().chain(bytes.clone()).collect();
            write(
                &folder,
                "frame_buffer",
                &format!("vector-{index}-{control}"),
                &input,
            )?;
        }
    }
    write(&folder, "client", "listed-anew", &listed_anew())?;
    for (name, properties) in all_properties() {
        let mut bytes = Vec::new();
        encode_properties(&properties, &mut bytes);
        write(&folder, "properties", name, &bytes)?;
        let value = Value::default_of(&properties.data_type);
        let mut bytes = Vec::new();
        encode_tagged(&properties.data_type, &value, &mut bytes);
        write(&folder, "value", name, &bytes)?;
        write(&folder, "data_type", name, &bytes)?;
    }
    for (index, vector) in vectors("values.json")?.iter().enumerate() {
        let bytes = bytes(&vector["tagged_hex"]);
        write(&folder, "value", &format!("vector-{index}"), &bytes)?;
        write(&folder, "data_type", &format!("vector-{index}"), &bytes)?;
    }
    for (name, bytes) in alarms::seeds() {
        write(&folder, "alarms", &name, &bytes)?;
    }
    for (name, bytes) in tdms::seeds(&vectors_folder())? {
        for target in ["tdms", "tdms_recovery", "playing"] {
            write(&folder, target, &name, &bytes)?;
        }
    }
    write(&folder, "playing", "variables", &variables()?)?;
    identities(&folder)
}

/// A file of accounts and rules; an authority, its certificate as DER, a key and a token.
fn identities(folder: &Path) -> Result<()> {
    let key = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    let access = format!(
        "[[user]]\nname = \"anna\"\nrole = \"operator\"\ngroups = [\"shift-a\"]\nkeys = [\"{key}\"]\n\
         uids = [1000, 1001]\n\n[[rule]]\ngroup = \"shift-a\"\npattern = \"boiler/**\"\ndeny = [\"write\"]\n\n\
         [[rule]]\nhost = \"10.0.0.0/8\"\npattern = \"**\"\ngrant = \"all\"\n\n[[rule]]\neveryone = true\n\
         pattern = \"shown/*\"\ngrant = [\"read\", \"subscribe\"]\n"
    );
    write(folder, "access", "example", access.as_bytes())?;
    let authority = Authority::create("fuzz", Timestamp::from_nanos(1_790_000_000_000_000_000));
    let authority = authority.map_err(Error::other)?;
    let der = authority.certificate().der();
    let pem = authority.certificate().to_pem() + &authority.key().to_pem();
    write(folder, "certificates", "der", der)?;
    write(folder, "certificates", "pem", pem.as_bytes())?;
    write(folder, "certificates", "key", key.as_bytes())?;
    let token = b"0123-4567-89AB-CDEF-GHJK-MNPQ-RSTV-WXYZ";
    write(folder, "certificates", "token", token)
}

/// A watch of the client that is listed, falls behind and is listed again, for the target `client`.
fn listed_anew() -> Vec<u8> {
    let mut bytes = vec![255];
    let mut page = |names: &[(u32, &str)], revision, listing| {
        let head = AppearedHead {
            watch: 1,
            revision,
            listing,
        };
        let mut frame = AppearedBuilder::begin(&mut bytes, 0, &head);
        for (handle, name) in names {
            frame.push(&AppearedVariable {
                handle: *handle,
                name,
                data_type: DataType::F64,
                access: Access::ReadWrite,
            });
        }
        frame.finish(false);
    };
    page(&[(1, "l/number"), (2, "l/gone")], 9, Listing::Complete);
    page(&[], 40, Listing::Restarted);
    page(&[(1, "l/number"), (2, "l/new")], 9, Listing::Complete);
    let head = VanishedHead {
        watch: 1,
        revision: 41,
    };
    let mut gone = VanishedBuilder::begin(&mut bytes, 0, &head);
    gone.push(&2);
    gone.finish(false);
    bytes
}

/// A recording of variables, of each kind of type.
fn variables() -> Result<Vec<u8>> {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let mut recording = VariableRecording::new(Memory(bytes.clone()), 1 << 20);
    for text in [
        "f64",
        "string",
        "bytes",
        "enum(off, on)",
        "array(i16, 2, 2)",
        "array(string, *)",
        "waveform(f32)",
        "struct(x: f64, tag: struct(id: u8, names: array(bool, 3)))",
    ] {
        let data_type = parse_type(text).map_err(Error::other)?;
        let id = recording.add(text, &data_type).map_err(Error::other)?;
        for row in 0..2 {
            let time = Timestamp::from_nanos(row);
            let sample = Sample {
                value: Value::default_of(&data_type),
                source_timestamp: time,
                engine_timestamp: time,
                quality: Quality::GOOD,
            };
            let taken = recording.take(id, &sample, &Lost::NONE);
            taken.map_err(Error::other)?;
        }
    }
    recording.finish().map_err(Error::other)?;
    let bytes = bytes.lock().map(|bytes| bytes.clone());
    Ok(bytes.unwrap_or_default())
}

/// A file in memory.
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Segments for Memory {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut file = self.0.lock().map_err(|_| Error::other("no file"))?;
        file.extend(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

fn vectors_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors")
}

/// The entries of a file in `vectors/`.
fn vectors(file: &str) -> Result<Vec<Json>> {
    let text = fs::read_to_string(vectors_folder().join(file))?;
    Ok(serde_json::from_str(&text)?)
}

fn all_properties() -> [(&'static str, Properties); 3] {
    let full = Properties {
        description: "Water in the drum".into(),
        units: "%".into(),
        range: Some((0.0, 100.0)),
        coerce: true,
        retain: true,
        precision: Some(1),
        scaling: Some(Scaling::Linear {
            raw: [0.0, 4095.0],
            eng: [0.0, 100.0],
        }),
        initial: Some(Value::F64(50.0)),
        source: "sim:drum.level".into(),
        origin: "boiler.toml:12".into(),
        ..Properties::new(DataType::F64)
    };
    let bits = Properties {
        scaling: Some(Scaling::BitField {
            invert: 1,
            select: 0xff,
        }),
        ..Properties::new(DataType::U32)
    };
    [
        ("plain", Properties::new(DataType::String)),
        ("full", full),
        ("bits", bits),
    ]
}

fn bytes(hex: &Json) -> Vec<u8> {
    let hex = hex.as_str().unwrap_or_default();
    let pairs = (0..hex.len())
        .step_by(2)
        .filter_map(|at| hex.get(at..at + 2));
    pairs
        .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
        .collect()
}

fn write(folder: &Path, target: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let folder = folder.join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}
