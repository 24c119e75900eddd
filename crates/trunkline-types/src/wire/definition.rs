//! Encodes the properties of a variable as fields that an older version can skip (B-51).
//!
//! ```text
//! varint length of all fields, then per field: varint id, varint length, bytes
//! ```
//!
//! A field with its default value is omitted; only the data type is always present.

use std::time::Duration;

use crate::audit::AuditMode;
use crate::definition::{Access, Deadband, Fifo, Properties, Scope};
use crate::time::duration_nanos;
use crate::{DataType, Scaling};

use super::alarm::{decode_alarms, encode_alarms};
use super::{
    DecodeError, Reader, VALUE_BYTES_MAX, decode_type, decode_value, encode_type, encode_value,
    put_bytes, put_f64, put_u8, put_u32, put_varint,
};

/// Appends the wire form of a variable's properties.
pub fn encode_properties(properties: &Properties, out: &mut Vec<u8>) {
    let Properties {
        data_type,
        description,
        units,
        range,
        coerce,
        precision,
        access,
        scope,
        scaling,
        deadband,
        fifo,
        timestamps,
        stall,
        max_age,
        initial,
        retain,
        number,
        single_writer,
        audit,
        source,
        alias,
        origin,
        alarms,
    } = properties;
    let mut fields = Fields::default();
    fields.put(DATA_TYPE, true, |out| encode_type(data_type, out));
    fields.text(DESCRIPTION, description);
    fields.text(UNITS, units);
    if let Some((low, high)) = *range {
        fields.put(RANGE, true, |out| put_pair(out, [low, high]));
    }
    fields.put(COERCE, *coerce, |_| ());
    if let Some(digits) = *precision {
        fields.put(PRECISION, true, |out| put_u8(out, digits));
    }
    fields.put(ACCESS, *access != Access::ReadWrite, |out| {
        put_u8(out, access_tag(*access))
    });
    fields.put(SCOPE, *scope != Scope::Network, |out| {
        put_u8(out, scope_tag(*scope))
    });
    if let Some(scaling) = scaling {
        fields.put(SCALING, true, |out| encode_scaling(scaling, out));
    }
    fields.put(DEADBAND, *deadband != Deadband::default(), |out| {
        put_pair(out, [deadband.user_percent, deadband.source_percent]);
    });
    fields.put(FIFO, *fifo != Fifo::Off, |out| encode_fifo(*fifo, out));
    fields.put(NO_TIMESTAMPS, !*timestamps, |_| ());
    fields.put(STALL, !stall.is_zero(), |out| {
        put_varint(out, duration_nanos(*stall))
    });
    if let Some(age) = *max_age {
        fields.put(MAX_AGE, true, |out| put_varint(out, duration_nanos(age)));
    }
    if let Some(initial) = initial {
        fields.put(INITIAL, true, |out| encode_value(initial, out));
    }
    fields.text(SOURCE, source);
    fields.text(ORIGIN, origin);
    fields.put(RETAIN, *retain, |_| ());
    if let Some(number) = *number {
        fields.put(NUMBER, true, |out| put_u32(out, number));
    }
    fields.put(SINGLE_WRITER, *single_writer, |_| ());
    fields.put(AUDIT, *audit != AuditMode::Off, |out| {
        put_u8(out, audit_tag(*audit));
    });
    fields.text(ALIAS, alias);
    fields.put(ALARMS, !alarms.is_empty(), |out| encode_alarms(alarms, out));
    fields.finish(out);
}

/// Reads properties written by [`encode_properties`]; fields with unknown ids are skipped.
///
/// # Errors
/// [`DecodeError`] if the data type is missing, a field with an id below 64 appears twice, or the
/// bytes of a field are malformed. The values are checked for consistency only at deployment.
pub fn decode_properties(reader: &mut Reader<'_>) -> Result<Properties, DecodeError> {
    let offset = reader.offset();
    // The initial value can be decoded only once the data type is known; the two fields may arrive
    // in any order.
    let mut properties = Properties::new(DataType::Bool);
    let mut data_type = None;
    let mut initial = None;
    decode_fields(reader, |id, field| {
        match id {
            DATA_TYPE => data_type = Some(decode_type(field)?),
            INITIAL => initial = Some(field.sub(field.remaining())?),
            _ => return decode_field(id, field, &mut properties),
        }
        Ok(true)
    })?;
    let Some(data_type) = data_type else {
        let expected = "a definition with a data type (field 1)";
        return Err(DecodeError::Unexpected {
            offset,
            expected,
            found: 0,
        });
    };
    if let Some(mut field) = initial {
        properties.initial = Some(decode_value(&data_type, &mut field)?);
        field.finish()?;
    }
    properties.data_type = data_type;
    Ok(properties)
}

/// Reads the total length of the fields, and then each field. `decode` reads one field and returns
/// false if the id of the field is unknown.
pub(super) fn decode_fields<'a>(
    reader: &mut Reader<'a>,
    mut decode: impl FnMut(u64, &mut Reader<'a>) -> Result<bool, DecodeError>,
) -> Result<(), DecodeError> {
    let length = reader.count("a definition size in bytes", DEFINITION_BYTES_MAX, 1)?;
    let mut fields = reader.sub(length)?;
    let mut seen_ids = 0_u64;
    while !fields.is_empty() {
        let offset = fields.offset();
        let id = fields.varint()?;
        let length = fields.count("a field size in bytes", DEFINITION_BYTES_MAX, 1)?;
        let mut field = fields.sub(length)?;
        let bit = if id < 64 { 1_u64 << id } else { 0 };
        if seen_ids & bit != 0 {
            return Err(DecodeError::Unexpected {
                offset,
                expected: "each field once",
                found: id,
            });
        }
        seen_ids |= bit;
        if decode(id, &mut field)? {
            field.finish()?;
        }
    }
    Ok(())
}

/// Decodes one field into `properties`; returns false if the id is unknown.
fn decode_field(
    id: u64,
    field: &mut Reader<'_>,
    properties: &mut Properties,
) -> Result<bool, DecodeError> {
    match id {
        DESCRIPTION => properties.description = text(field)?,
        UNITS => properties.units = text(field)?,
        RANGE => {
            let [low, high] = pair(field)?;
            properties.range = Some((low, high));
        }
        COERCE => properties.coerce = true,
        PRECISION => properties.precision = Some(field.u8()?),
        ACCESS => properties.access = decode_access(field)?,
        SCOPE => properties.scope = decode_scope(field)?,
        SCALING => properties.scaling = Some(decode_scaling(field)?),
        DEADBAND => {
            let [user_percent, source_percent] = pair(field)?;
            properties.deadband = Deadband {
                user_percent,
                source_percent,
            };
        }
        FIFO => properties.fifo = decode_fifo(field)?,
        NO_TIMESTAMPS => properties.timestamps = false,
        STALL => properties.stall = Duration::from_nanos(field.varint()?),
        MAX_AGE => properties.max_age = Some(Duration::from_nanos(field.varint()?)),
        SOURCE => properties.source = text(field)?,
        ORIGIN => properties.origin = text(field)?,
        RETAIN => properties.retain = true,
        NUMBER => properties.number = Some(field.u32()?),
        SINGLE_WRITER => properties.single_writer = true,
        AUDIT => properties.audit = decode_audit(field)?,
        ALIAS => properties.alias = text(field)?,
        ALARMS => properties.alarms = decode_alarms(field)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The fields of a definition, in wire form.
#[derive(Default)]
pub(super) struct Fields {
    bytes: Vec<u8>,
    /// Buffer for the content of one field.
    content: Vec<u8>,
}

impl Fields {
    pub(super) fn put(&mut self, id: u64, present: bool, encode: impl FnOnce(&mut Vec<u8>)) {
        if present {
            self.content.clear();
            encode(&mut self.content);
            put_varint(&mut self.bytes, id);
            put_bytes(&mut self.bytes, &self.content);
        }
    }

    pub(super) fn text(&mut self, id: u64, text: &str) {
        self.put(id, !text.is_empty(), |out| {
            out.extend_from_slice(text.as_bytes())
        });
    }

    /// Appends the total length of the fields, and then the fields.
    pub(super) fn finish(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.bytes);
    }
}

pub(super) fn text(field: &mut Reader<'_>) -> Result<String, DecodeError> {
    field.rest_str().map(str::to_owned)
}

fn put_pair(out: &mut Vec<u8>, pair: [f64; 2]) {
    pair.iter().for_each(|number| put_f64(out, *number));
}

fn pair(field: &mut Reader<'_>) -> Result<[f64; 2], DecodeError> {
    Ok([field.f64()?, field.f64()?])
}

fn encode_scaling(scaling: &Scaling, out: &mut Vec<u8>) {
    match *scaling {
        Scaling::Linear { raw, eng } => {
            put_u8(out, 1);
            put_pair(out, raw);
            put_pair(out, eng);
        }
        Scaling::SquareRoot { raw, eng } => {
            put_u8(out, 2);
            put_pair(out, raw);
            put_pair(out, eng);
        }
        Scaling::Invert => put_u8(out, 3),
        Scaling::BitField { invert, select } => {
            put_u8(out, 4);
            put_u32(out, invert);
            put_u32(out, select);
        }
    }
}

fn decode_scaling(field: &mut Reader<'_>) -> Result<Scaling, DecodeError> {
    match tag(field)? {
        (_, 1) => Ok(Scaling::Linear {
            raw: pair(field)?,
            eng: pair(field)?,
        }),
        (_, 2) => Ok(Scaling::SquareRoot {
            raw: pair(field)?,
            eng: pair(field)?,
        }),
        (_, 3) => Ok(Scaling::Invert),
        (_, 4) => Ok(Scaling::BitField {
            invert: field.u32()?,
            select: field.u32()?,
        }),
        (offset, found) => Err(unexpected(offset, "a scaling, 1 to 4", found)),
    }
}

fn encode_fifo(fifo: Fifo, out: &mut Vec<u8>) {
    match fifo {
        Fifo::Off => put_u8(out, 0),
        Fifo::Single { length } => {
            put_u8(out, 1);
            put_u32(out, length);
        }
        Fifo::Multi { capacity, length } => {
            put_u8(out, 2);
            put_u32(out, capacity);
            put_u32(out, length);
        }
    }
}

fn decode_fifo(field: &mut Reader<'_>) -> Result<Fifo, DecodeError> {
    match tag(field)? {
        (_, 0) => Ok(Fifo::Off),
        (_, 1) => Ok(Fifo::Single {
            length: field.u32()?,
        }),
        (_, 2) => Ok(Fifo::Multi {
            capacity: field.u32()?,
            length: field.u32()?,
        }),
        (offset, found) => Err(unexpected(offset, "a FIFO kind, 0 to 2", found)),
    }
}

fn access_tag(access: Access) -> u8 {
    match access {
        Access::ReadWrite => 0,
        Access::ReadOnly => 1,
        Access::WriteOnly => 2,
    }
}

fn decode_access(field: &mut Reader<'_>) -> Result<Access, DecodeError> {
    match tag(field)? {
        (_, 0) => Ok(Access::ReadWrite),
        (_, 1) => Ok(Access::ReadOnly),
        (_, 2) => Ok(Access::WriteOnly),
        (offset, found) => Err(unexpected(offset, "an access type, 0 to 2", found)),
    }
}

fn audit_tag(audit: AuditMode) -> u8 {
    match audit {
        AuditMode::Off => 0,
        AuditMode::BestEffort => 1,
        AuditMode::Complete => 2,
    }
}

fn decode_audit(field: &mut Reader<'_>) -> Result<AuditMode, DecodeError> {
    match tag(field)? {
        (_, 0) => Ok(AuditMode::Off),
        (_, 1) => Ok(AuditMode::BestEffort),
        (_, 2) => Ok(AuditMode::Complete),
        (offset, found) => Err(unexpected(offset, "an audit mode, 0 to 2", found)),
    }
}

fn scope_tag(scope: Scope) -> u8 {
    match scope {
        Scope::Network => 0,
        Scope::Process => 1,
    }
}

fn decode_scope(field: &mut Reader<'_>) -> Result<Scope, DecodeError> {
    match tag(field)? {
        (_, 0) => Ok(Scope::Network),
        (_, 1) => Ok(Scope::Process),
        (offset, found) => Err(unexpected(offset, "a scope, 0 or 1", found)),
    }
}

pub(super) fn tag(field: &mut Reader<'_>) -> Result<(usize, u8), DecodeError> {
    let offset = field.offset();
    Ok((offset, field.u8()?))
}

pub(super) fn unexpected(offset: usize, expected: &'static str, found: u8) -> DecodeError {
    DecodeError::Unexpected {
        offset,
        expected,
        found: u64::from(found),
    }
}

/// Maximum size of a definition in bytes. It allows an initial value of the maximum size and as many
/// bytes for the other fields.
pub(super) const DEFINITION_BYTES_MAX: usize = VALUE_BYTES_MAX * 2;

const DATA_TYPE: u64 = 1;
const DESCRIPTION: u64 = 2;
const UNITS: u64 = 3;
const RANGE: u64 = 4;
const COERCE: u64 = 5;
const PRECISION: u64 = 6;
const ACCESS: u64 = 7;
const SCOPE: u64 = 8;
const SCALING: u64 = 9;
const DEADBAND: u64 = 10;
const FIFO: u64 = 11;
const NO_TIMESTAMPS: u64 = 12;
const STALL: u64 = 13;
const MAX_AGE: u64 = 14;
const INITIAL: u64 = 15;
const SOURCE: u64 = 16;
const ORIGIN: u64 = 17;
const RETAIN: u64 = 18;
const NUMBER: u64 = 24;
const SINGLE_WRITER: u64 = 19;
const AUDIT: u64 = 30;
const ALIAS: u64 = 21;
const ALARMS: u64 = 31;

#[cfg(test)]
mod documented {
    use super::*;

    const PAGE: &str = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/protocol.md"
    ));

    /// The id of each field, and the text at the start of its row in the table.
    const FIELDS: [(u64, &str); 23] = [
        (DATA_TYPE, "data type"),
        (DESCRIPTION, "description"),
        (UNITS, "units"),
        (RANGE, "range"),
        (COERCE, "coerce"),
        (PRECISION, "precision"),
        (ACCESS, "access"),
        (SCOPE, "scope"),
        (SCALING, "scaling"),
        (DEADBAND, "deadband"),
        (FIFO, "FIFO"),
        (NO_TIMESTAMPS, "no timestamps"),
        (STALL, "stall"),
        (MAX_AGE, "greatest age"),
        (INITIAL, "initial value"),
        (SOURCE, "source"),
        (ORIGIN, "where it was configured"),
        (RETAIN, "retain"),
        (SINGLE_WRITER, "single writer"),
        (ALIAS, "alias"),
        (NUMBER, "register number"),
        (AUDIT, "audit"),
        (ALARMS, "alarms"),
    ];

    #[test]
    fn the_protocol_page_has_the_id_of_each_field() {
        let mark = "<!-- checked: trunkline-types, wire::definition -->";
        let (_, table) = PAGE.split_once(mark).expect("the table is marked");
        let rows: Vec<&str> = table
            .trim_start()
            .lines()
            .take_while(|line| line.starts_with('|'))
            .skip(2)
            .collect();
        assert_eq!(rows.len(), FIELDS.len(), "{rows:?}");
        for (row, (id, name)) in rows.iter().zip(FIELDS) {
            let prefix = format!("| {id} | {name}");
            assert!(
                row.starts_with(&prefix),
                "{row} does not begin with {prefix}"
            );
        }
    }
}
