//! Encodes values of a type that is known only at run time as elements.

use trunkline_proto::stream::ElementForm;
use trunkline_types::wire::decode_exact;
use trunkline_types::{DataType, Value};

use crate::element;
use crate::error::StreamError;

pub(super) struct ValueEncoder {
    pub(super) data_type: DataType,
    /// Any bytes of the right length are a valid element.
    takes_any_bytes: bool,
    scratch: Vec<u8>,
}

impl ValueEncoder {
    pub(super) fn new(data_type: &DataType) -> Self {
        Self {
            data_type: data_type.clone(),
            takes_any_bytes: element::takes_any_bytes(data_type),
            scratch: Vec::new(),
        }
    }

    /// Encodes values. Calls `check` with the length of each encoded value, including the length
    /// prefix.
    pub(super) fn encode(
        &mut self,
        form: ElementForm,
        values: &[Value],
        mut check: impl FnMut(usize) -> Result<(), StreamError>,
    ) -> Result<&[u8], StreamError> {
        self.scratch.clear();
        for value in values {
            if !value.has_type(&self.data_type) {
                return Err(self.wrong_type());
            }
            let start = self.scratch.len();
            element::put_value(form, value, &mut self.scratch);
            check(self.scratch.len() - start)?;
        }
        Ok(&self.scratch)
    }

    /// # Errors
    /// The bytes are not elements of the type.
    pub(super) fn check(&self, form: ElementForm, bytes: &[u8]) -> Result<(), StreamError> {
        let is_element = |bytes| decode_exact(&self.data_type, bytes).is_ok();
        match self.takes_any_bytes || element::split_elements(form, bytes).all(is_element) {
            true => Ok(()),
            false => Err(self.wrong_type()),
        }
    }

    /// Returns the number of elements of `size` bytes in `bytes`.
    ///
    /// # Errors
    /// The bytes are not complete elements of the type.
    pub(super) fn check_whole(
        &self,
        form: ElementForm,
        size: usize,
        bytes: &[u8],
    ) -> Result<usize, StreamError> {
        if !bytes.len().is_multiple_of(size) {
            return Err(self.wrong_type());
        }
        self.check(form, bytes)?;
        Ok(bytes.len() / size)
    }

    fn wrong_type(&self) -> StreamError {
        let data_type = self.data_type.clone();
        StreamError::Type { data_type }
    }
}
