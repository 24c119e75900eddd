//! Formats values for users.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::json::{SHAPE, needs_shape, special_text};
use crate::{DataType, Elements, Value, Waveform};

use super::escape::{escape, is_unprintable};
use super::parse::unquote;

/// Options of [`format_value`]. With the defaults, [`parse_value`](super::parse_value) can read back
/// the formatted value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FormatOptions {
    /// Digits of floating-point numbers; `None` writes the shortest form that reads back exactly.
    pub precision: Option<Digits>,
    /// Shows at most this number of array elements, waveform samples or bytes, followed by the
    /// total number.
    pub elide: Option<usize>,
    /// Writes integers in hexadecimal.
    pub hex: bool,
    /// Writes enums as numbers instead of labels.
    pub enum_number: bool,
}

/// The notation of a floating-point number and its number of digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Digits {
    /// The number of decimal places: `1234.50`.
    Fixed(u8),
    /// One digit before the decimal point, and this number of digits after it: `1.23e3`.
    Scientific(u8),
    /// The number of significant digits, without trailing zeros; scientific notation if the value
    /// is below 0.0001 or has more digits before its decimal point. Same as C's `%g`.
    Significant(u8),
}

impl Digits {
    fn format(self, value: f64, out: &mut String) {
        match self {
            Digits::Fixed(digits) => put(out, format_args!("{value:.*}", usize::from(digits))),
            Digits::Scientific(digits) => {
                put(out, format_args!("{value:.*e}", usize::from(digits)));
            }
            Digits::Significant(digits) => significant(value, i32::from(digits.max(1)), out),
        }
    }
}

fn significant(value: f64, digits: i32, out: &mut String) {
    // The exponent after rounding to this number of digits.
    let rounded = format!("{value:.*e}", (digits - 1) as usize);
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits).contains(&exponent) {
        let decimals = (digits - 1 - exponent) as usize;
        out.push_str(without_zeros(&format!("{value:.decimals$}")));
    } else {
        put(out, format_args!("{}e{exponent}", without_zeros(mantissa)));
    }
}

fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// Formats a value as text. Strings are written unchanged, or in JSON quotes if they are not printable
/// or could not be read back. Enums are written as labels, bytes as `0x00ff`, times as RFC 3339, and
/// arrays, structs and waveforms as JSON.
pub fn format_value(value: &Value, data_type: &DataType, options: &FormatOptions) -> String {
    let mut out = String::new();
    match (value, data_type) {
        (Value::String(text), _) => plain_text(text, &mut out),
        (Value::Bytes(bytes), _) => hex_bytes(bytes, options, &mut out),
        (Value::Timestamp(time), _) => put(&mut out, format_args!("{time}")),
        (Value::F32(v), _) if !v.is_finite() => put(&mut out, format_args!("{v}")),
        (Value::F64(v), _) if !v.is_finite() => put(&mut out, format_args!("{v}")),
        (Value::Enum(index), DataType::Enum(ty)) if !options.enum_number => {
            match ty.labels.get(*index as usize) {
                Some(label) => plain_text(label, &mut out),
                None => put(&mut out, format_args!("{index}")),
            }
        }
        _ => write_json(value, Some(data_type), options, &mut out),
    }
    out
}

/// Writes a value that is part of another value: as JSON, unless `options` shorten it.
fn write_json(value: &Value, ty: Option<&DataType>, options: &FormatOptions, out: &mut String) {
    match value {
        Value::Bool(v) => put(out, format_args!("{v}")),
        Value::I8(v) => integer(i128::from(*v), options, out),
        Value::I16(v) => integer(i128::from(*v), options, out),
        Value::I32(v) => integer(i128::from(*v), options, out),
        Value::I64(v) => integer(i128::from(*v), options, out),
        Value::U8(v) => integer(i128::from(*v), options, out),
        Value::U16(v) => integer(i128::from(*v), options, out),
        Value::U32(v) => integer(i128::from(*v), options, out),
        Value::U64(v) => integer(i128::from(*v), options, out),
        Value::F32(v) => match (special_text(f64::from(*v)), options.precision) {
            (Some(special), _) => quoted(special, out),
            (None, Some(digits)) => digits.format(f64::from(*v), out),
            (None, None) => put(out, format_args!("{v:?}")),
        },
        Value::F64(v) => float(*v, options, out),
        Value::String(text) => quoted(text, out),
        Value::Bytes(bytes) => quoted(&BASE64.encode(bytes), out),
        Value::Timestamp(time) => put(out, format_args!("\"{time}\"")),
        Value::Enum(index) => match ty {
            Some(DataType::Enum(ty)) if !options.enum_number => {
                match ty.labels.get(*index as usize) {
                    Some(label) => quoted(label, out),
                    None => put(out, format_args!("{index}")),
                }
            }
            _ => put(out, format_args!("{index}")),
        },
        Value::Array(array) if needs_shape(array.shape(), ty) => {
            put(out, format_args!("{{\"{SHAPE}\": {:?}}}", array.shape()));
        }
        Value::Array(array) => elements(array.elements(), array.shape(), options, out),
        Value::Struct(values) => {
            let fields = match ty {
                Some(DataType::Struct(ty)) => ty.fields.as_slice(),
                _ => &[],
            };
            out.push('{');
            for (index, value) in values.iter().enumerate() {
                separate(index, out);
                let field = fields.get(index);
                let name = field.map_or_else(|| index.to_string(), |(name, _)| name.to_string());
                quoted(&name, out);
                out.push_str(": ");
                write_json(value, field.map(|(_, ty)| ty), options, out);
            }
            out.push('}');
        }
        Value::Waveform(wave) => waveform(wave, options, out),
    }
}

fn waveform(waveform: &Waveform, options: &FormatOptions, out: &mut String) {
    put(out, format_args!("{{\"t0\": \"{}\", \"dt\": ", waveform.t0));
    // The interval is not in the variable's units, so the variable's precision does not apply.
    float(
        waveform.dt,
        &FormatOptions {
            precision: None,
            ..*options
        },
        out,
    );
    out.push_str(", \"samples\": ");
    elements(
        &waveform.samples,
        &[waveform.samples.len() as u32],
        options,
        out,
    );
    if !waveform.attributes.is_empty() {
        out.push_str(", \"attributes\": {");
        for (index, (name, value)) in waveform.attributes.iter().enumerate() {
            separate(index, out);
            quoted(name, out);
            let attribute = crate::json::attribute(value).to_string();
            put(out, format_args!(": {}", escape(&attribute)));
        }
        out.push('}');
    }
    out.push('}');
}

fn elements(elements: &Elements, shape: &[u32], options: &FormatOptions, out: &mut String) {
    let count = elements.len();
    if let Some(shown) = options.elide.filter(|shown| *shown < count) {
        out.push('[');
        for index in 0..shown {
            element(elements, index, options, out);
            out.push_str(", ");
        }
        let lengths = shape
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join("x");
        put(
            out,
            format_args!("… {lengths} {}]", elements.element_type()),
        );
    } else if count == 0 {
        out.push_str("[]");
    } else {
        nested(elements, shape, &mut 0, options, out);
    }
}

/// Writes one list per dimension; `next` is the index of the next element.
fn nested(
    elements: &Elements,
    shape: &[u32],
    next: &mut usize,
    options: &FormatOptions,
    out: &mut String,
) {
    let Some((length, inner_shape)) = shape.split_first() else {
        element(elements, *next, options, out);
        *next += 1;
        return;
    };
    out.push('[');
    for index in 0..*length as usize {
        separate(index, out);
        nested(elements, inner_shape, next, options, out);
    }
    out.push(']');
}

fn element(elements: &Elements, index: usize, options: &FormatOptions, out: &mut String) {
    if let Some(value) = elements.value_at(index) {
        write_json(&value, None, options, out);
    }
}

fn integer(value: i128, options: &FormatOptions, out: &mut String) {
    match options.hex {
        true if value < 0 => put(out, format_args!("-{:#x}", value.unsigned_abs())),
        true => put(out, format_args!("{value:#x}")),
        false => put(out, format_args!("{value}")),
    }
}

fn float(value: f64, options: &FormatOptions, out: &mut String) {
    match (special_text(value), options.precision) {
        (Some(special), _) => quoted(special, out),
        (None, Some(digits)) => digits.format(value, out),
        (None, None) => put(out, format_args!("{value:?}")),
    }
}

/// Writes text unquoted, unless it could be misread or contains unprintable characters.
fn plain_text(text: &str, out: &mut String) {
    if text.is_empty() || text.contains(is_unprintable) || unquote(text).is_some() {
        quoted(text, out);
    } else {
        out.push_str(text);
    }
}

/// Writes a JSON string in which every unprintable character is escaped.
fn quoted(text: &str, out: &mut String) {
    out.push_str(&escape(&serde_json::Value::from(text).to_string()));
}

fn hex_bytes(bytes: &[u8], options: &FormatOptions, out: &mut String) {
    let shown = options.elide.unwrap_or(bytes.len()).min(bytes.len());
    out.push_str("0x");
    bytes
        .iter()
        .take(shown)
        .for_each(|byte| put(out, format_args!("{byte:02x}")));
    if shown < bytes.len() {
        put(out, format_args!("… {} bytes", bytes.len()));
    }
}

fn separate(index: usize, out: &mut String) {
    if index > 0 {
        out.push_str(", ");
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = out.write_fmt(text);
}
