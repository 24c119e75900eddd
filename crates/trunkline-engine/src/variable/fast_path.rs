//! The variables that the fast path of a write serves: numbers without rules.

use trunkline_types::{Access, AuditMode, DataType, Properties, Quality, Timestamp};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainUpdate {
    /// Its sequence within the epoch, from 1.
    pub sequence: u64,
    /// Time at which the value was measured; the Unix epoch if the variable has no timestamps.
    pub source_timestamp: Timestamp,
    pub engine_timestamp: Timestamp,
    pub quality: Quality,
    pub writer: u32,
    /// The value in wire form, little-endian, padded with zeros.
    pub word: u64,
}

/// Returns true if a variable with these properties is plain when it is deployed. Later changes are
/// in its flags and in the state that its lock guards.
pub(crate) fn is_plain(properties: &Properties) -> bool {
    let is_number = matches!(
        properties.data_type,
        DataType::F64 | DataType::F32 | DataType::I64 | DataType::I32 | DataType::Bool
    );
    is_number
        && properties.access == Access::ReadWrite
        && properties.range.is_none()
        && properties.deadband.user_percent == 0.0
        && properties.fifo == trunkline_types::Fifo::Off
        && properties.alias.is_empty()
        && !properties.single_writer
        && properties.audit == AuditMode::Off
}
