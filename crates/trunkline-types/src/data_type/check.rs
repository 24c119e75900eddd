//! Validation of data types.

use std::collections::HashSet;
use std::sync::Arc;

use crate::wire::VALUE_BYTES_MAX;

use super::{
    ARRAY_RANK_MAX, DataType, ENUM_LABELS_MAX, EnumType, LABEL_BYTES_MAX, STRUCT_DEPTH_MAX,
    STRUCT_FIELDS_MAX, StructType,
};

/// The reason why a variable cannot have a type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TypeError {
    #[error("an enum needs at least one label")]
    NoLabels,
    /// The enum has more than [`ENUM_LABELS_MAX`] labels.
    #[error("the enum has {count} labels; {ENUM_LABELS_MAX} is the limit")]
    TooManyLabels { count: usize },
    #[error("the label {label:?} appears twice in one enum")]
    DuplicateLabel { label: Arc<str> },
    /// A label or field name is longer than [`LABEL_BYTES_MAX`].
    #[error("a label or field name has {bytes} bytes; {LABEL_BYTES_MAX} is the limit")]
    LabelTooLong {
        /// Length of the label in bytes.
        bytes: usize,
    },
    /// The array has no dimension, or more than [`ARRAY_RANK_MAX`].
    #[error("an array has 1 to {ARRAY_RANK_MAX} dimensions, not {rank}")]
    Rank { rank: usize },
    #[error("a struct needs at least one field")]
    NoFields,
    /// The struct has more than [`STRUCT_FIELDS_MAX`] fields.
    #[error("the struct has {count} fields; {STRUCT_FIELDS_MAX} is the limit")]
    TooManyFields { count: usize },
    #[error("field {position} of a struct has no name")]
    UnnamedField {
        /// Position of the field, counted from 1.
        position: usize,
    },
    #[error("the field {name:?} appears twice in one struct")]
    DuplicateField { name: Arc<str> },
    /// Structs are nested more than [`STRUCT_DEPTH_MAX`] levels deep.
    #[error("structs are nested more than {STRUCT_DEPTH_MAX} deep")]
    TooDeep,
    /// The fixed lengths alone exceed the size limit of a value.
    #[error("the fixed lengths make values of {bytes} bytes; {VALUE_BYTES_MAX} is the limit")]
    TooLarge {
        /// Size in bytes of the type's smallest value in memory; saturates.
        bytes: u64,
    },
}

impl DataType {
    /// Checks that a variable can have this type: counts, names, nesting and fixed lengths are
    /// within their limits. The decoders and parsers of this crate return only types that pass this
    /// check.
    pub fn check(&self) -> Result<(), TypeError> {
        let bytes = self.check_within(0)?;
        if bytes > VALUE_BYTES_MAX as u64 {
            Err(TypeError::TooLarge { bytes })
        } else {
            Ok(())
        }
    }

    /// Checks everything except the total size, which it returns in bytes.
    fn check_within(&self, struct_depth: usize) -> Result<u64, TypeError> {
        match self {
            DataType::Enum(ty) => ty.check().map(|()| 4),
            DataType::Array(ty) => {
                if ty.shape.is_empty() || ty.shape.len() > ARRAY_RANK_MAX {
                    return Err(TypeError::Rank {
                        rank: ty.shape.len(),
                    });
                }
                let element = ty.element.fixed_size().unwrap_or(size_of::<Arc<str>>());
                let lengths = ty.shape.iter().map(|length| u64::from(length.unwrap_or(0)));
                // With a free dimension, the smallest value is empty, regardless of the other
                // lengths.
                Ok(if ty.shape.contains(&None) {
                    0
                } else {
                    lengths.fold(element as u64, u64::saturating_mul)
                })
            }
            DataType::Struct(ty) => {
                if struct_depth >= STRUCT_DEPTH_MAX {
                    return Err(TypeError::TooDeep);
                }
                ty.check_names()?;
                ty.fields.iter().try_fold(0_u64, |sum, (_, field)| {
                    Ok(sum.saturating_add(field.check_within(struct_depth + 1)?))
                })
            }
            scalar_or_waveform => Ok(scalar_or_waveform.fixed_size().unwrap_or(0) as u64),
        }
    }
}

impl EnumType {
    fn check(&self) -> Result<(), TypeError> {
        if self.labels.is_empty() {
            return Err(TypeError::NoLabels);
        }
        if self.labels.len() > ENUM_LABELS_MAX {
            return Err(TypeError::TooManyLabels {
                count: self.labels.len(),
            });
        }
        let mut seen = HashSet::with_capacity(self.labels.len());
        for label in &self.labels {
            check_length(label)?;
            if !seen.insert(label) {
                return Err(TypeError::DuplicateLabel {
                    label: Arc::clone(label),
                });
            }
        }
        Ok(())
    }
}

impl StructType {
    fn check_names(&self) -> Result<(), TypeError> {
        if self.fields.is_empty() {
            return Err(TypeError::NoFields);
        }
        if self.fields.len() > STRUCT_FIELDS_MAX {
            return Err(TypeError::TooManyFields {
                count: self.fields.len(),
            });
        }
        let mut seen = HashSet::with_capacity(self.fields.len());
        for (index, (name, _)) in self.fields.iter().enumerate() {
            check_length(name)?;
            if name.is_empty() {
                return Err(TypeError::UnnamedField {
                    position: index + 1,
                });
            }
            if !seen.insert(name) {
                return Err(TypeError::DuplicateField {
                    name: Arc::clone(name),
                });
            }
        }
        Ok(())
    }
}

fn check_length(name: &str) -> Result<(), TypeError> {
    if name.len() > LABEL_BYTES_MAX {
        return Err(TypeError::LabelTooLong { bytes: name.len() });
    }
    Ok(())
}
