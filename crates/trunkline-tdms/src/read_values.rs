//! Reads values into a caller's slice, as strings, or in the type of the channel.

use std::ops::Range;

use crate::channel::{Channel, ReadError, Span};
use crate::data_type::TdmsType;
use crate::element::{ByteOrder, Element};
use crate::fault::{Fault, Finding};
use crate::read_at::ReadAt;
use crate::text::Text;
use crate::values::{Values, with_element};

/// Maximum number of bytes read from the source at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// The strings read so far, and the number of bytes that may still be read.
struct Strings {
    texts: Vec<Text>,
    bytes_remaining: u64,
    /// Ranges of unreadable strings, which are replaced with empty ones; `None` if an unreadable
    /// string is an error.
    unreadable: Option<Vec<Range<usize>>>,
}

impl<R: ReadAt> Channel<'_, R> {
    /// Reads values from number `start` on into `out`. Returns the number of values read.
    ///
    /// For a DAQmx channel with one scaler, the values are the numbers of that scaler. Reusing the
    /// same memory for several calls is fastest; for new memory, use [`read_vec`](Self::read_vec).
    ///
    /// # Errors
    /// [`ReadError`]. `T` must be the type of the values, without a unit.
    pub fn read_into<T: Element>(&self, start: u64, out: &mut [T]) -> Result<usize, ReadError> {
        self.fill(start, out, None)
    }

    /// Reads at most `count` values from number `start` on into new memory.
    ///
    /// Memory for many numbers uses huge pages if the system has them, and it is not filled with
    /// zeros first.
    pub fn read_vec<T: Element>(&self, start: u64, count: u64) -> Result<Vec<T>, ReadError> {
        self.fill_vec(start, count, None)
    }

    /// Reads at most `count` strings from number `start` on.
    ///
    /// # Errors
    /// [`ReadError`]. If the ends of strings are inconsistent, the remaining strings of the chunk
    /// cannot be read.
    pub fn read_strings(&self, start: u64, count: u64) -> Result<Vec<Text>, ReadError> {
        self.read_strings_within(start, count, u64::MAX)
    }

    /// Reads strings like [`read_strings`](Self::read_strings), but stops once the strings have
    /// `bytes_max` bytes in total. Returns at least one string if available is one, so memory use
    /// is bounded except for the longest string.
    pub fn read_strings_within(
        &self,
        start: u64,
        count: u64,
        bytes_max: u64,
    ) -> Result<Vec<Text>, ReadError> {
        self.check_type(self.data_type(), TdmsType::String)?;
        let mut out = Strings {
            texts: Vec::new(),
            bytes_remaining: bytes_max.max(1),
            unreadable: None,
        };
        self.visit(start, count, None, |span| {
            self.read_span_strings(&span, &mut out)
        })?;
        Ok(out.texts)
    }

    /// Reads strings like [`read_strings_within`](Self::read_strings_within), but replaces
    /// unreadable strings with empty ones. Returns the strings and the ranges of the replaced ones.
    ///
    /// # Errors
    /// [`ReadError`], but not [`ReadError::Damaged`].
    pub fn read_strings_lossy(
        &self,
        start: u64,
        count: u64,
        bytes_max: u64,
    ) -> Result<(Vec<Text>, Vec<Range<usize>>), ReadError> {
        self.check_type(self.data_type(), TdmsType::String)?;
        let mut out = Strings {
            texts: Vec::new(),
            bytes_remaining: bytes_max.max(1),
            unreadable: Some(Vec::new()),
        };
        self.visit(start, count, None, |span| {
            self.read_span_strings(&span, &mut out)
        })?;
        Ok((out.texts, out.unreadable.unwrap_or_default()))
    }

    /// Reads at most `count` values from number `start` on, in the type of the channel.
    pub fn read(&self, start: u64, count: u64) -> Result<Values, ReadError> {
        self.read_as(self.only_type()?, start, count, None)
    }

    /// Reads the values of one scaler of a DAQmx channel, like [`read`](Self::read).
    pub fn read_scaler(&self, scale_id: u32, start: u64, count: u64) -> Result<Values, ReadError> {
        let scaler = self.find_scaler(self.scalers(), scale_id)?;
        self.read_as(scaler.data_type, start, count, Some(scale_id))
    }

    /// Reads numbers of any type as 64-bit floats, without scales. Returns the number of values
    /// read.
    ///
    /// # Errors
    /// [`ReadError`]. Strings, times and complex numbers have the wrong type.
    pub fn read_f64_into(&self, start: u64, out: &mut [f64]) -> Result<usize, ReadError> {
        self.read_numbers(start, out, None)
    }

    pub(crate) fn read_numbers(
        &self,
        start: u64,
        out: &mut [f64],
        scale_id: Option<u32>,
    ) -> Result<usize, ReadError> {
        let count = out.len() as u64;
        let mut piece = Vec::new();
        let mut rest = out;
        let read = self.visit(start, count, scale_id, |span| {
            let data_type = span.data_type();
            let mut span = span;
            while span.count > 0 {
                let count = span.count.min((PIECE_BYTES / 16) as u64);
                let now = Span { count, ..span };
                with_element!(
                    data_type,
                    T => {
                        let mut values = vec![T::default(); count as usize];
                        self.read_span(&now, &mut values, &mut piece)?;
                        for (value, out) in values.into_iter().zip(rest.iter_mut()) {
                            // Either all values of a type are numbers, or none are.
                            let number = Element::to_f64(value);
                            *out = number.ok_or_else(|| self.wrong_type(data_type, TdmsType::F64))?;
                        }
                    },
                    return Err(self.wrong_type(data_type, TdmsType::F64))
                );
                rest = std::mem::take(&mut rest)
                    .get_mut(count as usize..)
                    .unwrap_or_default();
                span.first += count;
                span.count -= count;
            }
            Ok(())
        })?;
        Ok(read as usize)
    }

    pub(crate) fn wrong_type(&self, holds: TdmsType, asked: TdmsType) -> ReadError {
        let path = self.path().clone();
        ReadError::WrongType { path, holds, asked }
    }

    /// Returns the type of the values if the channel has only one type.
    pub(crate) fn only_type(&self) -> Result<TdmsType, ReadError> {
        match self.scalers() {
            [] => Ok(self.data_type()),
            [one] => Ok(one.data_type),
            all => Err(ReadError::SeveralScalers {
                path: self.path().clone(),
                scaler_count: all.len(),
            }),
        }
    }

    fn read_as(
        &self,
        data_type: TdmsType,
        start: u64,
        count: u64,
        scale_id: Option<u32>,
    ) -> Result<Values, ReadError> {
        with_element!(
            data_type,
            T => Ok(self.fill_vec::<T>(start, count, scale_id)?.into()),
            match data_type {
                TdmsType::String => Ok(Values::String(self.read_strings(start, count)?)),
                // Values of other types cannot be read; a channel with such a type has no values.
                _ => Ok(Values::Void),
            }
        )
    }

    fn check_type(&self, holds: TdmsType, asked: TdmsType) -> Result<(), ReadError> {
        match holds.without_unit() == asked {
            true => Ok(()),
            false => Err(self.wrong_type(holds, asked)),
        }
    }

    fn fill_vec<T: Element>(
        &self,
        start: u64,
        count: u64,
        scale_id: Option<u32>,
    ) -> Result<Vec<T>, ReadError> {
        let available = count.min(self.len().saturating_sub(start)) as usize;
        // The system provides zeroed memory for numbers page by page, when it is first used.
        let mut values = vec![T::default(); available];
        if let Some(bytes) = T::as_bytes_mut(&mut values) {
            trunkline_ring::advise_large_pages(bytes);
        }
        let read = self.fill(start, &mut values, scale_id)?;
        values.truncate(read);
        Ok(values)
    }

    fn fill<T: Element>(
        &self,
        start: u64,
        out: &mut [T],
        scale_id: Option<u32>,
    ) -> Result<usize, ReadError> {
        let mut piece = Vec::new();
        let count = out.len() as u64;
        let mut rest = out;
        let read = self.visit(start, count, scale_id, |span| {
            self.check_type(span.data_type(), T::TYPE)?;
            let all = std::mem::take(&mut rest);
            let (now, later) = all.split_at_mut((span.count as usize).min(all.len()));
            rest = later;
            self.read_span(&span, now, &mut piece)
        })?;
        if read == 0 && count > 0 && self.scalers().is_empty() && !self.is_empty() {
            self.check_type(self.data_type(), T::TYPE)?;
        }
        Ok(read as usize)
    }

    /// Reads the values of a span, which have a fixed size.
    fn read_span<T: Element>(
        &self,
        span: &Span<'_>,
        out: &mut [T],
        piece: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let stride = span.stride as usize;
        // As many values are read at a time as fit in a piece, and at least one.
        let per_piece = ((PIECE_BYTES - T::SIZE) / stride.max(1)) + 1;
        let mut position = span.position + span.first * span.stride;
        let bit = span.scaler.and_then(|scaler| scaler.bit);
        let has_memory_layout =
            stride == T::SIZE && span.order == ByteOrder::Little && bit.is_none();
        if has_memory_layout && let Some(bytes) = T::as_bytes_mut(out) {
            // The bytes are read directly into the caller's memory.
            return self
                .source()
                .read_exact_at(bytes, position)
                .map_err(|error| self.source_error(position, error));
        }
        for values in out.chunks_mut(per_piece) {
            let bytes = (values.len() - 1) * stride + T::SIZE;
            piece.resize(bytes, 0);
            self.source()
                .read_exact_at(piece, position)
                .map_err(|error| self.source_error(position, error))?;
            for (value, row) in values.iter_mut().zip(piece.chunks(stride.max(1))) {
                let bytes = row.get(..T::SIZE).unwrap_or_default();
                *value = T::decode(bytes, span.order);
                if let Some(shift) = bit {
                    *value = value.bit(shift);
                }
            }
            position += values.len() as u64 * span.stride;
        }
        Ok(())
    }

    /// Reads the strings of a span, which lies in one chunk.
    fn read_span_strings(&self, span: &Span<'_>, out: &mut Strings) -> Result<(), ReadError> {
        if out.bytes_remaining == 0 {
            return Ok(());
        }
        let table = span.position;
        let text = table + span.column.count * 4;
        let text_bytes = span.column.bytes.saturating_sub(span.column.count * 4);
        // Each string begins where the previous string ends.
        let (mut begin, mut at) = (0, span.first);
        if at > 0 {
            begin = self
                .read_string_ends(table, at - 1, 1, span.order)?
                .first()
                .copied()
                .unwrap_or(0);
        }
        let last = span.first + span.count;
        while at < last {
            let count = (last - at).min((PIECE_BYTES / 4) as u64);
            for (end, number) in self
                .read_string_ends(table, at, count, span.order)?
                .into_iter()
                .zip(at..)
            {
                let (from, to) = (u64::from(begin), u64::from(end));
                if to < from || to > text_bytes {
                    if let Some(unreadable) = &mut out.unreadable {
                        let (from, unreadable_count) = (out.texts.len(), (last - number) as usize);
                        out.texts.resize(from + unreadable_count, Text::default());
                        unreadable.push(from..from + unreadable_count);
                        return Ok(());
                    }
                    return Err(ReadError::Damaged {
                        path: self.path().clone(),
                        finding: Finding {
                            position: table + number * 4,
                            fault: Fault::BadStrings,
                        },
                    });
                }
                let mut bytes = vec![0; (to - from) as usize];
                self.source()
                    .read_exact_at(&mut bytes, text + from)
                    .map_err(|error| self.source_error(text + from, error))?;
                out.bytes_remaining = out.bytes_remaining.saturating_sub(to - from);
                out.texts.push(bytes.into());
                begin = end;
                if out.bytes_remaining == 0 {
                    return Ok(());
                }
            }
            at += count;
        }
        Ok(())
    }

    /// Reads string ends from the table at the beginning of a chunk.
    fn read_string_ends(
        &self,
        table: u64,
        first: u64,
        count: u64,
        order: ByteOrder,
    ) -> Result<Vec<u32>, ReadError> {
        let position = table + first * 4;
        let mut bytes = vec![0; count as usize * 4];
        self.source()
            .read_exact_at(&mut bytes, position)
            .map_err(|error| self.source_error(position, error))?;
        let ends = bytes.chunks_exact(4).map(|end| u32::decode(end, order));
        Ok(ends.collect())
    }
}

impl Span<'_> {
    pub(crate) fn data_type(&self) -> TdmsType {
        match self.scaler {
            Some(scaler) => scaler.data_type,
            None => self.column.data_type,
        }
    }
}
