//! Encodes the variables of a library; properties that several variables share are written only once.
//!
//! ```text
//! variable   path text | back varint | [properties]
//!            back  0: properties follow   n: same as the n-th latest properties written, 1 to 16
//! ```
//!
//! The encoder and the decoder both remember the latest 16 properties, so a list can be split anywhere
//! and sent in pieces.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::name::NAME_BYTES_MAX;
use crate::{Properties, VariableDefinition};

use super::{DecodeError, Reader, decode_properties, encode_properties, put_str, put_varint};

/// Number of properties that the encoder and the decoder remember.
const REMEMBERED_MAX: usize = 16;

/// Writes variables, each with its properties or a reference to equal properties written earlier.
#[derive(Debug, Default)]
pub struct VariablesEncoder {
    latest: VecDeque<Arc<Properties>>,
}

impl VariablesEncoder {
    pub fn put(&mut self, definition: &VariableDefinition, out: &mut Vec<u8>) {
        put_str(out, &definition.path);
        let properties = &definition.properties;
        let mut latest = self.latest.iter();
        match latest.position(|known| Arc::ptr_eq(known, properties) || known == properties) {
            Some(index) => put_varint(out, index.saturating_add(1) as u64),
            None => {
                put_varint(out, 0);
                encode_properties(properties, out);
                remember(&mut self.latest, Arc::clone(properties));
            }
        }
    }
}

/// Reads the output of [`VariablesEncoder`]. The decoded variables share their properties in the same
/// way as the encoded variables.
#[derive(Debug, Default)]
pub struct VariablesDecoder {
    latest: VecDeque<Arc<Properties>>,
}

impl VariablesDecoder {
    /// Reads a variable. Its path is validated at deployment, not here.
    pub fn take(&mut self, reader: &mut Reader<'_>) -> Result<VariableDefinition, DecodeError> {
        let path = reader.str(NAME_BYTES_MAX)?.to_owned();
        let offset = reader.offset();
        let back = reader.varint()?;
        let properties = match back.checked_sub(1) {
            None => {
                let properties = Arc::new(decode_properties(reader)?);
                remember(&mut self.latest, Arc::clone(&properties));
                properties
            }
            Some(index) => {
                let known = usize::try_from(index).ok();
                let known = known.and_then(|index| self.latest.get(index));
                Arc::clone(known.ok_or(DecodeError::Unexpected {
                    offset,
                    expected: "properties that were written before",
                    found: back,
                })?)
            }
        };
        Ok(VariableDefinition { path, properties })
    }
}

fn remember(latest: &mut VecDeque<Arc<Properties>>, properties: Arc<Properties>) {
    latest.push_front(properties);
    latest.truncate(REMEMBERED_MAX);
}
