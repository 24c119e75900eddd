//! Parses types written as text: `f64`, `enum(OFF, AUTO)`, `array(f64, 3, *)`, `struct(x: f64)`, `waveform(i16)`.

use std::sync::Arc;

use crate::data_type::{ENUM_LABELS_MAX, STRUCT_DEPTH_MAX, STRUCT_FIELDS_MAX, TypeError};
use crate::{ArrayType, DataType, ElementType, EnumType, StructType};

use super::clip;

/// The text is not a type. Positions are byte offsets from 0.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseTypeError {
    #[error("{word:?} is not a type{}", hint(word))]
    UnknownType {
        /// The word, shortened.
        word: String,
    },
    #[error("at byte {position}: expected {expected}")]
    Expected {
        /// Offset at which the text was expected.
        position: usize,
        /// Description of the expected text.
        expected: &'static str,
    },
    /// The type is written correctly, but a variable cannot have it.
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// Parses a type; white space between words is ignored.
///
/// # Errors
/// [`ParseTypeError`] names the expected text and its position, or the limit that is exceeded.
pub fn parse_type(text: &str) -> Result<DataType, ParseTypeError> {
    let mut parser = Parser { text, rest: text };
    let ty = parser.data_type(0)?;
    if !parser.rest.trim_start().is_empty() {
        return Err(parser.expected("the end of the type"));
    }
    ty.check()?;
    Ok(ty)
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Parser<'_> {
    fn data_type(&mut self, struct_depth: usize) -> Result<DataType, ParseTypeError> {
        let word = self.word();
        match word.as_str() {
            "enum" => self.enum_type(),
            "array" => self.array_type(),
            "struct" if struct_depth >= STRUCT_DEPTH_MAX => Err(TypeError::TooDeep.into()),
            "struct" => self.struct_type(struct_depth),
            "waveform" => {
                self.expect_char('(', "'(' and the type of a sample")?;
                let element = self.element()?;
                self.expect_char(')', "')'")?;
                Ok(DataType::Waveform(element))
            }
            "" => Err(self.expected("a type such as f64")),
            word => {
                let named = SCALARS.iter().find(|(name, _)| *name == word);
                let (_, ty) = named.ok_or_else(|| unknown(word))?;
                Ok(ty.clone())
            }
        }
    }

    fn enum_type(&mut self) -> Result<DataType, ParseTypeError> {
        self.expect_char('(', "'(' and the labels")?;
        let mut labels: Vec<Arc<str>> = Vec::new();
        loop {
            labels.push(self.label(&[',', ')'])?);
            if labels.len() > ENUM_LABELS_MAX {
                return Err(TypeError::TooManyLabels {
                    count: labels.len(),
                }
                .into());
            }
            if !self.has_next_item()? {
                return Ok(DataType::Enum(Arc::new(EnumType { labels })));
            }
        }
    }

    fn array_type(&mut self) -> Result<DataType, ParseTypeError> {
        self.expect_char('(', "'(' and the type of an element")?;
        let element = self.element()?;
        let mut shape = Vec::new();
        while self.has_next_item()? {
            shape.push(self.length()?);
            // Dimensions beyond the limit are also counted, so that the error can report their
            // number.
        }
        Ok(DataType::Array(Arc::new(ArrayType { element, shape })))
    }

    fn struct_type(&mut self, struct_depth: usize) -> Result<DataType, ParseTypeError> {
        self.expect_char('(', "'(' and the fields")?;
        let mut fields = Vec::new();
        loop {
            let name = self.label(&[':', ',', '(', ')'])?;
            self.expect_char(':', "':' and the field's type")?;
            fields.push((name, self.data_type(struct_depth + 1)?));
            if fields.len() > STRUCT_FIELDS_MAX {
                return Err(TypeError::TooManyFields {
                    count: fields.len(),
                }
                .into());
            }
            if !self.has_next_item()? {
                return Ok(DataType::Struct(Arc::new(StructType { fields })));
            }
        }
    }

    fn element(&mut self) -> Result<ElementType, ParseTypeError> {
        let word = self.word();
        let named = SCALARS.iter().find(|(name, _)| *name == word);
        match named.map(|(_, ty)| ElementType::of(ty)) {
            Some(Some(element)) => Ok(element),
            Some(None) => Err(self.expected("an element type; arrays of bytes do not exist")),
            None if COMPOSITE.contains(&word.as_str()) => Err(self.expected(
                "a scalar type; list the length of each dimension, as in array(f64, 3, 4)",
            )),
            None if word.is_empty() => Err(self.expected("an element type such as f64")),
            None => Err(unknown(&word)),
        }
    }

    fn length(&mut self) -> Result<Option<u32>, ParseTypeError> {
        self.skip_space();
        if let Some(rest) = self.rest.strip_prefix('*') {
            self.rest = rest;
            return Ok(None);
        }
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(digits);
        match number.parse() {
            Ok(length) => {
                self.rest = rest;
                Ok(Some(length))
            }
            Err(_) => Err(self.expected("a length from 0 to 4294967295, or * for any")),
        }
    }

    /// Reads a label or field name: in JSON quotes, or up to one of `ends`.
    fn label(&mut self, ends: &[char]) -> Result<Arc<str>, ParseTypeError> {
        self.skip_space();
        if self.rest.starts_with('"') {
            let mut strings = serde_json::Deserializer::from_str(self.rest).into_iter::<String>();
            let Some(Ok(label)) = strings.next() else {
                return Err(self.expected("a string in JSON quotes"));
            };
            self.rest = &self.rest[strings.byte_offset()..];
            return Ok(label.into());
        }
        let length = self.rest.find(ends).unwrap_or(self.rest.len());
        let (label, rest) = self.rest.split_at(length);
        if label.trim().is_empty() {
            return Err(self.expected("a name; write \"\" for an empty name"));
        }
        self.rest = rest;
        Ok(label.trim().into())
    }

    /// Returns true after a comma, false after the closing parenthesis.
    fn has_next_item(&mut self) -> Result<bool, ParseTypeError> {
        self.skip_space();
        if let Some(rest) = self.rest.strip_prefix(',') {
            self.rest = rest;
            return Ok(true);
        }
        self.expect_char(')', "',' or ')'").map(|()| false)
    }

    fn expect_char(
        &mut self,
        character: char,
        expected: &'static str,
    ) -> Result<(), ParseTypeError> {
        self.skip_space();
        match self.rest.strip_prefix(character) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.expected(expected)),
        }
    }

    fn word(&mut self) -> String {
        self.skip_space();
        let ends = |c: char| !c.is_alphanumeric() && c != '_';
        let length = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        word.to_owned()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn expected(&self, expected: &'static str) -> ParseTypeError {
        ParseTypeError::Expected {
            position: self.text.len() - self.rest.len(),
            expected,
        }
    }
}

fn unknown(word: &str) -> ParseTypeError {
    ParseTypeError::UnknownType { word: clip(word) }
}

/// Suggests a type of Trunkline for a type name that other systems use or that is misspelled.
fn hint(word: &str) -> String {
    let lower = word.to_lowercase();
    let name = match lower.as_str() {
        "double" | "float64" | "real" | "lreal" | "number" => "f64",
        "float" | "single" | "float32" => "f32",
        "int" | "integer" | "long" | "dint" | "int32" => "i32",
        "int16" | "short" => "i16",
        "int64" | "lint" => "i64",
        "int8" | "sbyte" => "i8",
        "uint" | "ulong" | "udint" | "uint32" | "dword" => "u32",
        "uint16" | "ushort" | "word" => "u16",
        "uint64" => "u64",
        "uint8" | "byte" => "u8",
        "boolean" | "bit" => "bool",
        "str" | "text" => "string",
        "blob" | "binary" => "bytes",
        "time" | "datetime" | "date" => "timestamp",
        "cluster" | "record" => "struct",
        "list" | "vector" => "array",
        other => {
            let names = SCALARS.iter().map(|(name, _)| *name);
            let near = names.chain(COMPOSITE);
            let near = near
                .map(|name| (strsim::osa_distance(other, name), name))
                .min();
            match near {
                Some((distance, name)) if distance <= 2 && other.len() > distance => name,
                _ => return format!("; write one of {LIST}"),
            }
        }
    };
    format!("; did you mean {name}?")
}

const LIST: &str = "bool, i8 to i64, u8 to u64, f32, f64, string, bytes, timestamp, enum(...), \
                    array(...), struct(...), waveform(...)";

const COMPOSITE: [&str; 4] = ["enum", "array", "struct", "waveform"];

const SCALARS: [(&str, DataType); 14] = [
    ("bool", DataType::Bool),
    ("i8", DataType::I8),
    ("i16", DataType::I16),
    ("i32", DataType::I32),
    ("i64", DataType::I64),
    ("u8", DataType::U8),
    ("u16", DataType::U16),
    ("u32", DataType::U32),
    ("u64", DataType::U64),
    ("f32", DataType::F32),
    ("f64", DataType::F64),
    ("string", DataType::String),
    ("bytes", DataType::Bytes),
    ("timestamp", DataType::Timestamp),
];
