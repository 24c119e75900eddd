//! Rows: one value of each of several channels, one after the other.

use crate::channel::{Channel, ReadError};
use crate::data_type::TdmsType;
use crate::element::{ByteOrder, Element};
use crate::file::TdmsFile;
use crate::path::ObjectPath;
use crate::read_at::ReadAt;
use crate::values::with_element;

/// Number of rows produced at a time.
const PIECE_ROWS: usize = 4096;

/// Rows that are stored in one piece of the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RowExtent {
    /// Position of the first row in the file.
    pub position: u64,
    pub rows: u64,
}

/// The place of a channel's value in a row in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RowPlace {
    /// Offset of the value in the row, in bytes.
    pub offset: usize,
    pub row_bytes: usize,
}

impl<R: ReadAt> TdmsFile<R> {
    /// Returns the positions of rows of these channels if their layout in the file equals that in
    /// memory: one value of each in this order, little-endian, without padding. Such rows can be
    /// used without decoding.
    ///
    /// Returns `None` if that does not hold throughout the file: channels that are contiguous,
    /// interleaved with others or in another order, big-endian data, strings, DAQmx data, different
    /// lengths; or if there are more than `extents_max` pieces.
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
    /// Reads values from number `start` on into their places in `rows`, little-endian. Returns
    /// their number. The rest of each row is unchanged.
    ///
    /// # Errors
    /// [`ReadError`]; strings cannot be stored in rows.
    pub fn read_into_rows(
        &self,
        start: u64,
        place: RowPlace,
        rows: &mut [u8],
    ) -> Result<u64, ReadError> {
        let holds = self.only_type()?;
        with_element!(
            holds,
            T => self.put_into_rows(start, place, rows, |at, values: &mut [T]| {
                self.read_into(at, values)
            }),
            Err(self.wrong_type(holds, TdmsType::F64))
        )
    }

    /// Same as [`read_into_rows`](Self::read_into_rows), with engineering values as 64-bit floats.
    pub fn read_scaled_into_rows(
        &self,
        start: u64,
        place: RowPlace,
        rows: &mut [u8],
    ) -> Result<u64, ReadError> {
        let scaling = self.scaling();
        self.put_into_rows(start, place, rows, |at, values: &mut [f64]| {
            self.read_scaled_into(&scaling, at, values)
        })
    }

    fn put_into_rows<T: Element>(
        &self,
        start: u64,
        place: RowPlace,
        rows: &mut [u8],
        mut read: impl FnMut(u64, &mut [T]) -> Result<usize, ReadError>,
    ) -> Result<u64, ReadError> {
        let (mut values, mut bytes) = (vec![T::default(); PIECE_ROWS], Vec::new());
        let mut done = 0;
        for piece in rows.chunks_mut(PIECE_ROWS * place.row_bytes.max(1)) {
            let wanted = piece.len() / place.row_bytes.max(1);
            let values = values.get_mut(..wanted).unwrap_or_default();
            let count = read(start + done, values)?;
            for (value, row) in values
                .iter()
                .zip(piece.chunks_exact_mut(place.row_bytes.max(1)))
                .take(count)
            {
                bytes.clear();
                value.encode(&mut bytes);
                let room = row.get_mut(place.offset..place.offset + T::SIZE);
                if let Some(room) = room {
                    room.copy_from_slice(&bytes);
                }
            }
            done += count as u64;
            if count < wanted {
                break;
            }
        }
        Ok(done)
    }
}
