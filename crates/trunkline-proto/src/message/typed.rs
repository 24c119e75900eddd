//! A variable's type and access, as encoded in OPENED, NAMES and PROVIDED.
//!
//! ```text
//! type    0                     the same as the item before in this frame
//!         1 | wire type         (a frame's first item always has one)
//! access  u8: 0 read and write, 1 read only, 2 write only
//! ```

use trunkline_types::wire::{decode_type, encode_type, put_u8};
use trunkline_types::{Access, DataType};

use super::form::{Form, Number};
use super::layout::Run;
use crate::DecodeError;
use crate::decode::Payload;

/// The type of the previous item, on either side.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeRun(Option<DataType>);

impl TypeRun {
    /// Appends a type, or the mark that it is the same as before.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, data_type: &DataType) {
        if self.0.as_ref() == Some(data_type) {
            put_u8(out, 0);
        } else {
            put_u8(out, 1);
            encode_type(data_type, out);
            self.0 = Some(data_type.clone());
        }
    }

    /// The last type put or read; there is one once an item has a type.
    pub(crate) fn last(&self) -> &DataType {
        self.0.as_ref().unwrap_or(&DataType::F64)
    }

    pub(crate) fn read(&mut self, payload: &mut Payload<'_>) -> Result<DataType, DecodeError> {
        match (payload.u8()?, &self.0) {
            (0, Some(previous)) => Ok(previous.clone()),
            (1, _) => {
                let data_type = payload.read(decode_type)?;
                self.0 = Some(data_type.clone());
                Ok(data_type)
            }
            (0, None) => Err(payload.unexpected("the type of the first item", 0)),
            (other, _) => Err(payload.unexpected("0 or 1 before a type", u64::from(other))),
        }
    }
}

pub(crate) fn put_access(out: &mut Vec<u8>, access: Access) {
    Number::put(&access, &mut Run::default(), out);
}

pub(crate) fn read_access(payload: &mut Payload<'_>) -> Result<Access, DecodeError> {
    Number::read(&mut Run::default(), payload)
}
