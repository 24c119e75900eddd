//! Reads rows, which contain one value of each of several channels.

use crate::channel::{Channel, ReadError};
use crate::data_type::TdmsType;
use crate::element::{ByteOrder, Element};
use crate::file::TdmsFile;
use crate::path::ObjectPath;
use crate::read_at::ReadAt;
use crate::values::with_element;

/// Maximum number of rows read at a time.
const PIECE_ROWS: usize = 4096;

/// Rows that are stored in one contiguous part of the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RowExtent {
    /// Position of the first row in the file.
    pub position: u64,
    pub rows: u64,
}

/// The position of a channel's value in a row in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RowPlace {
    /// Offset in bytes of the value in the row.
    pub offset: usize,
    /// Size of a row in bytes.
    pub row_bytes: usize,
}

impl<R: ReadAt> TdmsFile<R> {
    /// Returns the positions of the rows of these channels if the rows have the same layout in the
    /// file as in memory: one value of each channel in this order, little-endian, without padding.
    /// Such rows can be used without decoding.
    ///
    /// Returns `None` if any part of the file has another layout. This includes channels that are
    /// contiguous, in another order or interleaved with other channels, channels of different
    /// lengths, big-endian data, strings, and DAQmx data. Also returns `None` if there are more
    /// than `extents_max` extents.
    pub fn rows_in_place(
        &self,
        channels: &[ObjectPath],
        extents_max: usize,
    ) -> Option<Vec<RowExtent>> {
        let channels: Vec<Channel<'_, R>> = channels
            .iter()
            .map(|path| self.channel(path))
            .collect::<Option<_>>()?;
        let len = channels.first()?.len();
        let sizes = channels.iter().map(|channel| channel.data_type().size());
        let sizes: Vec<u64> = sizes.collect::<Option<_>>()?;
        let row_bytes: u64 = sizes.iter().sum();
        let mut extents: Vec<RowExtent> = Vec::new();
        let mut offset = 0;
        for (number, (channel, size)) in channels.iter().zip(sizes).enumerate() {
            let (mut at, mut fits) = (0, channel.len() == len && row_bytes > 0);
            let visited = channel.visit(0, len, None, |span| {
                let position = span.position + span.first * span.stride;
                let found = position.checked_sub(offset).map(|position| RowExtent {
                    position,
                    rows: span.count,
                });
                fits &= span.stride == row_bytes
                    && span.order == ByteOrder::Little
                    && span.scaler.is_none()
                    && match (number, found) {
                        (0, Some(found)) if extents.len() < extents_max => {
                            extents.push(found);
                            true
                        }
                        (0, _) => false,
                        (_, found) => extents.get(at).copied() == found,
                    };
                at += 1;
                Ok(())
            });
            if visited.ok() != Some(len) || !fits || at != extents.len() {
                return None;
            }
            offset += size;
        }
        Some(extents)
    }
}

impl<R: ReadAt> Channel<'_, R> {
    /// Reads values from number `start` on into their positions in `rows`, in little-endian order.
    /// Returns the number of values read. The other bytes of each row stay the same.
    ///
    /// # Errors
    /// [`ReadError`]. Strings cannot be stored in rows.
    pub fn read_into_rows(
        &self,
        start: u64,
        place: RowPlace,
        rows: &mut [u8],
    ) -> Result<u64, ReadError> {
        let holds = self.only_type()?;
        with_element!(
            holds,
            T => self.fill_rows(start, place, rows, |at, values: &mut [T]| {
                self.read_into(at, values)
            }),
            Err(self.wrong_type(holds, TdmsType::F64))
        )
    }

    /// Reads engineering values as 64-bit floats, like [`read_into_rows`](Self::read_into_rows).
    pub fn read_scaled_into_rows(
        &self,
        start: u64,
        place: RowPlace,
        rows: &mut [u8],
    ) -> Result<u64, ReadError> {
        let scaling = self.scaling();
        self.fill_rows(start, place, rows, |at, values: &mut [f64]| {
            self.read_scaled_into(&scaling, at, values)
        })
    }

    fn fill_rows<T: Element>(
        &self,
        start: u64,
        place: RowPlace,
        rows: &mut [u8],
        mut read: impl FnMut(u64, &mut [T]) -> Result<usize, ReadError>,
    ) -> Result<u64, ReadError> {
        let (mut values, mut bytes) = (vec![T::default(); PIECE_ROWS], Vec::new());
        let mut rows_done = 0;
        for piece in rows.chunks_mut(PIECE_ROWS * place.row_bytes.max(1)) {
            let row_count = piece.len() / place.row_bytes.max(1);
            let values = values.get_mut(..row_count).unwrap_or_default();
            let count = read(start + rows_done, values)?;
            for (value, row) in values
                .iter()
                .zip(piece.chunks_exact_mut(place.row_bytes.max(1)))
                .take(count)
            {
                bytes.clear();
                value.encode(&mut bytes);
                let target = row.get_mut(place.offset..place.offset + T::SIZE);
                if let Some(target) = target {
                    target.copy_from_slice(&bytes);
                }
            }
            rows_done += count as u64;
            if count < row_count {
                break;
            }
        }
        Ok(rows_done)
    }
}
