//! Formats the content of a file as text, in the format of the Python script for npTDMS.
//!
//! ```text
//! o PATH               an object, then what belongs to it; sorted
//! p NAME KIND:VALUE    a property: i whole, f float, s text, b truth, t time, c complex
//! d TYPE COUNT VALUES  its values: their bytes, little-endian; strings with commas between
//! s ID TYPE COUNT VALUES  the same of one DAQmx scaler
//! ```
//! Names, texts and bytes are in hexadecimal. Floats of properties are widened to 64 bits.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use trunkline_tdms::{ObjectPath, PropertyValue, ReadAt, TdmsFile, Text, Values};

/// Objects by path.
#[derive(Default, Clone, PartialEq, Debug)]
pub struct Dump(BTreeMap<Vec<u8>, Lines>);

/// Properties by name, and lines of values.
type Lines = (BTreeMap<Vec<u8>, String>, Vec<String>);

impl Dump {
    pub fn object(&mut self, path: &ObjectPath) {
        self.0.entry(path.to_bytes()).or_default();
    }

    pub fn property(&mut self, path: &ObjectPath, name: &Text, value: &PropertyValue) {
        let entry = self.0.entry(path.to_bytes()).or_default();
        entry
            .0
            .insert(name.as_bytes().to_vec(), property_text(value));
    }

    pub fn values(&mut self, path: &ObjectPath, values: &Values) {
        if values.is_empty() {
            return;
        }
        let line = format!("d {}", values_text(values));
        self.0.entry(path.to_bytes()).or_default().1.push(line);
    }

    pub fn scaler(&mut self, path: &ObjectPath, id: u32, values: &Values) {
        let line = format!("s {id} {}", values_text(values));
        self.0.entry(path.to_bytes()).or_default().1.push(line);
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        for (path, (properties, lines)) in &self.0 {
            let _ = writeln!(out, "o {}", hex(path));
            for (name, value) in properties {
                let _ = writeln!(out, "p {} {value}", hex(name));
            }
            for line in lines {
                let _ = writeln!(out, "{line}");
            }
        }
        out
    }
}

/// Returns the whole content of a file, as this crate reads it.
pub fn dump_of<R: ReadAt>(file: &TdmsFile<R>) -> Result<Dump, trunkline_tdms::ReadError> {
    let mut dump = Dump::default();
    for path in file.paths() {
        dump.object(path);
        for (name, value) in file.properties(path).into_iter().flatten() {
            dump.property(path, name, value);
        }
    }
    for channel in file.channels() {
        if channel.scalers().is_empty() {
            let values = channel.read(0, u64::MAX)?;
            assert_eq!(values.len() as u64, channel.len(), "{}", channel.path());
            dump.values(channel.path(), &values);
        }
        let mut scalers = channel.scalers().to_vec();
        scalers.sort_by_key(|scaler| scaler.scale_id);
        for scaler in scalers {
            let values = channel.read_scaler(scaler.scale_id, 0, u64::MAX)?;
            dump.scaler(channel.path(), scaler.scale_id, &values);
        }
    }
    Ok(dump)
}

pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len() + 1);
    out.push('x');
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

fn property_text(value: &PropertyValue) -> String {
    let float = |v: f64| match v.is_nan() {
        true => "nan".to_owned(),
        false => format!("{:016x}", v.to_bits()),
    };
    match value {
        PropertyValue::Void => "void:".into(),
        PropertyValue::I8(v) => format!("i:{v}"),
        PropertyValue::I16(v) => format!("i:{v}"),
        PropertyValue::I32(v) => format!("i:{v}"),
        PropertyValue::I64(v) => format!("i:{v}"),
        PropertyValue::U8(v) => format!("i:{v}"),
        PropertyValue::U16(v) => format!("i:{v}"),
        PropertyValue::U32(v) => format!("i:{v}"),
        PropertyValue::U64(v) => format!("i:{v}"),
        PropertyValue::F32(v) => format!("f:{}", float(f64::from(*v))),
        PropertyValue::F64(v) => format!("f:{}", float(*v)),
        PropertyValue::String(v) => format!("s:{}", hex(v.as_bytes())),
        PropertyValue::Bool(v) => format!("b:{}", u8::from(*v)),
        PropertyValue::Time(v) => format!("t:{}:{}", v.seconds, v.fraction),
        PropertyValue::ComplexF32(v) => {
            format!("c:{}:{}", float(f64::from(v[0])), float(f64::from(v[1])))
        }
        PropertyValue::ComplexF64(v) => format!("c:{}:{}", float(v[0]), float(v[1])),
        other => format!("{other:?}"),
    }
}

fn values_text(values: &Values) -> String {
    let (name, bytes) = match values {
        Values::String(strings) => {
            let all: Vec<String> = strings.iter().map(|s| hex(s.as_bytes())).collect();
            return format!("str {} {}", strings.len(), all.join(","));
        }
        Values::I8(v) => ("i1", flat(v, |v| v.to_le_bytes())),
        Values::I16(v) => ("i2", flat(v, |v| v.to_le_bytes())),
        Values::I32(v) => ("i4", flat(v, |v| v.to_le_bytes())),
        Values::I64(v) => ("i8", flat(v, |v| v.to_le_bytes())),
        Values::U8(v) => ("u1", flat(v, |v| v.to_le_bytes())),
        Values::U16(v) => ("u2", flat(v, |v| v.to_le_bytes())),
        Values::U32(v) => ("u4", flat(v, |v| v.to_le_bytes())),
        Values::U64(v) => ("u8", flat(v, |v| v.to_le_bytes())),
        Values::F32(v) => ("f4", flat(v, |v| v.to_le_bytes())),
        Values::F64(v) => ("f8", flat(v, |v| v.to_le_bytes())),
        Values::Extended(v) => ("f10", flat(v, |v| v.0)),
        Values::Bool(v) => ("b1", flat(v, |v| [u8::from(v)])),
        Values::Time(v) => (
            "time",
            v.iter()
                .flat_map(|t| [t.fraction.to_le_bytes(), t.seconds.to_le_bytes()].concat())
                .collect(),
        ),
        Values::ComplexF32(v) => ("c8", flat(&v.concat(), |v| v.to_le_bytes())),
        Values::ComplexF64(v) => ("c16", flat(&v.concat(), |v| v.to_le_bytes())),
        other => panic!("{other:?}"),
    };
    format!("{name} {} {}", values.len(), hex(&bytes))
}

fn flat<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|v| bytes(*v)).collect()
}
