//! The variables of a library in sequence; properties shared by several variables are written once.
//!
//! ```text
//! variable   path text | back varint | [properties]
//!            back  0: properties follow   n: same as the n-th latest properties written, 1 to 16
//! ```
//!
//! Both ends keep the latest 16 properties, so a list may be split anywhere and sent in pieces.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::name::NAME_BYTES_MAX;
use crate::{Properties, VariableDefinition};

use super::{DecodeError, Reader, decode_properties, encode_properties, put_str, put_varint};

/// Number of properties that both ends remember.
const TEMPLATES: usize = 16;

/// Writes variables, each with its properties or a reference to equal properties written earlier.
#[derive(Debug, Default)]
pub struct VariablesEncoder {
    latest: VecDeque<Arc<Properties>>,
}

impl VariablesEncoder {
    pub fn put(&mut self, definition: &VariableDefinition, out: &mut Vec<u8>) {
        put_str(out, &definition.path);
        let wanted = &definition.properties;
        let mut latest = self.latest.iter();
        match latest.position(|known| Arc::ptr_eq(known, wanted) || known == wanted) {
            Some(place) => put_varint(out, place.saturating_add(1) as u64),
            None => {
                put_varint(out, 0);
                encode_properties(wanted, out);
                remember(&mut self.latest, Arc::clone(wanted));
            }
        }
    }
}

/// Reads the output of [`VariablesEncoder`]; decoded variables share properties like the encoded
/// ones.
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
            Some(place) => {
                let known = usize::try_from(place).ok();
                let known = known.and_then(|place| self.latest.get(place));
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
    latest.truncate(TEMPLATES);
}
