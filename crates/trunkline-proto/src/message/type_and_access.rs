//! A variable's type and access on the wire.
//!
//! ```text
//! type    0                     same type as the previous item of this frame
//!         1 | wire type         (a frame's first item always has one)
//! access  u8: 0 read and write, 1 read only, 2 write only
//! ```

use trunkline_types::wire::{decode_type, encode_type, put_u8};
use trunkline_types::{Access, DataType};

use super::form::{Form, Number};
use super::layout::Run;
use crate::DecodeError;
use crate::decode::Payload;

/// The type of the previous item, for the encoder and for the decoder.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreviousType(Option<DataType>);

impl PreviousType {
    /// Appends a type, or 0 if it is that of the previous item.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, data_type: &DataType) {
        if self.0.as_ref() == Some(data_type) {
            put_u8(out, 0);
        } else {
            put_u8(out, 1);
            encode_type(data_type, out);
            self.0 = Some(data_type.clone());
        }
    }

    /// The last type put or read; `None` before the first.
    pub(crate) fn last(&self) -> Option<&DataType> {
        self.0.as_ref()
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

#[cfg(test)]
mod tests {
    use trunkline_types::Value;

    use super::super::form::Typed;
    use super::*;
    use crate::{Frame, FrameKind, FrameWriter};

    #[test]
    fn value_is_refused_if_no_type_precedes_it() {
        let mut bytes = Vec::new();
        let mut writer = FrameWriter::begin(&mut bytes, FrameKind::Forced, 1);
        writer.payload().extend_from_slice(&1.5_f64.to_le_bytes());
        writer.finish(false);
        let frame = Frame::take_from(&mut &bytes[..]).unwrap().unwrap();
        let read = |run: &mut Run| {
            let mut payload = Payload::of(&frame, FrameKind::Forced).unwrap();
            <Typed as Form<'_, Value>>::read(run, &mut payload)
        };
        let mut run = Run::default();
        assert!(read(&mut run).is_err());
        run.types.put(&mut Vec::new(), &DataType::F64);
        assert_eq!(read(&mut run).unwrap(), Value::F64(1.5));
    }
}
