//! Defines the types of values in a file.

use std::fmt;

use trunkline_types::DataType;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TdmsType {
    /// No values. Channels that never had data have this type.
    Void,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    /// An x87 extended-precision number of 10 bytes, which is read but never written.
    Extended,
    /// A number like [`TdmsType::F32`], with the unit in the property `unit_string`. It is read but
    /// never written.
    F32WithUnit,
    /// A number like [`TdmsType::F64`], with the unit in the property `unit_string`. It is read but
    /// never written.
    F64WithUnit,
    /// A number like [`TdmsType::Extended`], with the unit in the property `unit_string`. It is
    /// read but never written.
    ExtendedWithUnit,
    String,
    /// A Boolean of one byte, 0 or 1.
    Bool,
    /// A point in time of 16 bytes.
    Time,
    /// A complex number of two 32-bit floats: the real and the imaginary part.
    ComplexF32,
    /// A complex number of two 64-bit floats: the real and the imaginary part.
    ComplexF64,
    /// Values that an acquisition driver packed; the channel's scalers describe them. Never
    /// written.
    Daqmx,
    /// A type that this crate does not read, such as fixed-point numbers, with the type code.
    Unknown(u32),
}

/// The type code, type, size in bytes and name of each known type.
const CODES: [(u32, TdmsType, u32, &str); 21] = [
    (0x00, TdmsType::Void, 0, "void"),
    (0x01, TdmsType::I8, 1, "i8"),
    (0x02, TdmsType::I16, 2, "i16"),
    (0x03, TdmsType::I32, 4, "i32"),
    (0x04, TdmsType::I64, 8, "i64"),
    (0x05, TdmsType::U8, 1, "u8"),
    (0x06, TdmsType::U16, 2, "u16"),
    (0x07, TdmsType::U32, 4, "u32"),
    (0x08, TdmsType::U64, 8, "u64"),
    (0x09, TdmsType::F32, 4, "f32"),
    (0x0a, TdmsType::F64, 8, "f64"),
    (0x0b, TdmsType::Extended, 10, "f80"),
    (0x19, TdmsType::F32WithUnit, 4, "f32 with unit"),
    (0x1a, TdmsType::F64WithUnit, 8, "f64 with unit"),
    (0x1b, TdmsType::ExtendedWithUnit, 10, "f80 with unit"),
    (0x20, TdmsType::String, 0, "string"),
    (0x21, TdmsType::Bool, 1, "bool"),
    (0x44, TdmsType::Time, 16, "timestamp"),
    (0x0008_000c, TdmsType::ComplexF32, 8, "complex f32"),
    (0x0010_000d, TdmsType::ComplexF64, 16, "complex f64"),
    (0xffff_ffff, TdmsType::Daqmx, 0, "DAQmx"),
];

impl TdmsType {
    pub fn from_code(code: u32) -> Self {
        let found = CODES.iter().find(|row| row.0 == code);
        found.map_or(Self::Unknown(code), |row| row.1)
    }

    pub fn code(self) -> u32 {
        match self {
            Self::Unknown(code) => code,
            known => known.row().map_or(0, |row| row.0),
        }
    }

    /// Returns the size of one value in bytes; `None` if values have no fixed size or the size is
    /// unknown.
    pub fn size(self) -> Option<u64> {
        match self {
            Self::String | Self::Daqmx | Self::Unknown(_) => None,
            known => known.row().map(|row| u64::from(row.2)),
        }
    }

    /// Returns the type without a unit. Values are read with this type.
    pub fn without_unit(self) -> Self {
        match self {
            Self::F32WithUnit => Self::F32,
            Self::F64WithUnit => Self::F64,
            Self::ExtendedWithUnit => Self::Extended,
            other => other,
        }
    }

    /// Returns the type of variables with the same values; `None` if there is no such type.
    pub fn of_variable(self) -> Option<DataType> {
        Some(match self.without_unit() {
            Self::Bool => DataType::Bool,
            Self::I8 => DataType::I8,
            Self::I16 => DataType::I16,
            Self::I32 => DataType::I32,
            Self::I64 => DataType::I64,
            Self::U8 => DataType::U8,
            Self::U16 => DataType::U16,
            Self::U32 => DataType::U32,
            Self::U64 => DataType::U64,
            Self::F32 => DataType::F32,
            Self::F64 => DataType::F64,
            Self::String => DataType::String,
            Self::Time => DataType::Timestamp,
            _ => return None,
        })
    }

    fn row(self) -> Option<&'static (u32, Self, u32, &'static str)> {
        CODES.iter().find(|row| row.1 == self)
    }
}

impl fmt::Display for TdmsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Some(row) => f.write_str(row.3),
            None if self.code() == 0x4f => f.write_str("fixed point (0x4f)"),
            None => write!(f, "type 0x{:x}", self.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_codes_round_trip() {
        for code in (0..0x200).chain([0x0008_000c, 0x0010_000d, u32::MAX]) {
            let data_type = TdmsType::from_code(code);
            assert_eq!(data_type.code(), code);
            assert!(!data_type.to_string().is_empty());
        }
        assert_eq!(TdmsType::from_code(0x4f).to_string(), "fixed point (0x4f)");
        assert_eq!(TdmsType::Extended.size(), Some(10));
        assert_eq!(TdmsType::String.size(), None);
    }

    #[test]
    fn variable_types_have_the_same_names() {
        let by_name = |data_type: &TdmsType| {
            let data_type = data_type.of_variable()?;
            Some(data_type.to_string())
        };
        for (_, data_type, _, name) in CODES {
            let expected = match data_type {
                TdmsType::F32WithUnit => Some("f32"),
                TdmsType::F64WithUnit => Some("f64"),
                TdmsType::Void
                | TdmsType::Daqmx
                | TdmsType::Extended
                | TdmsType::ExtendedWithUnit
                | TdmsType::ComplexF32
                | TdmsType::ComplexF64 => None,
                _ => Some(name),
            };
            assert_eq!(by_name(&data_type).as_deref(), expected, "{name}");
        }
        assert_eq!(by_name(&TdmsType::Unknown(0x4f)), None);
    }
}
