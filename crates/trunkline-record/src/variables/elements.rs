//! Records stream elements that are not rows of plain values: text, bytes, arrays, waveforms, and
//! structs.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use trunkline_types::{DataType, Quality, Sample, Timestamp, Value};

use super::error::VariableRecordError;
use super::file::Segments;
use super::recording::{VariableId, layout_of};
use super::series::VariableSeries;
use crate::tdms_series::Rotation;

/// Records elements of a stream to one file or a series of files. Each element has the time at
/// which it was taken from the stream.
///
/// The elements are stored like the updates of one variable without a quality. The group has the
/// channel `time`, the channels of the values, which depend on the type, and the type as a
/// property. Each element is in exactly one file of a series. The property `series_row` of the
/// group contains the number of elements in earlier files.
///
/// A slow or full disk causes no loss, because [`take`](Self::take) keeps every element. While
/// [`has_room`](Self::has_room) returns false, the caller must not take elements from the stream.
/// Like [`VariableSeries`], this type has no clock.
#[derive(Debug)]
pub struct ElementSeries<S, O> {
    series: VariableSeries<S, O>,
    elements: VariableId,
}

impl<S: Segments, O: FnMut(u32) -> io::Result<S>> ElementSeries<S, O> {
    /// Begins the first file, in which the group `name` contains the elements. The other arguments
    /// are the same as for [`VariableSeries::start`].
    ///
    /// # Errors
    /// [`VariableRecordError::File`]: `open` failed. The errors of [`check_elements`]: no file is
    /// created.
    pub fn start(
        open: O,
        rotation: Option<Rotation>,
        waiting_bytes_max: usize,
        (name, data_type): (&str, &DataType),
        now: Duration,
    ) -> Result<Self, VariableRecordError> {
        check_elements(name, data_type)?;
        let mut series = VariableSeries::start_elements(open, rotation, waiting_bytes_max, now)?;
        let elements = series.add(name, data_type)?;
        Ok(Self { series, elements })
    }

    /// Returns true if the caller may take more elements from the stream. If not, a successful
    /// `write_out` frees memory.
    pub fn has_room(&self) -> bool {
        !self.series.is_at_limit()
    }

    /// Accepts an element and keeps it in memory until it is in a file, even beyond the memory
    /// limit.
    ///
    /// # Errors
    /// [`VariableRecordError::OtherType`], [`VariableRecordError::TooLong`]: the element is not
    /// recorded.
    pub fn take(&mut self, value: Value, time: Timestamp) -> Result<(), VariableRecordError> {
        let sample = Sample {
            value,
            source_timestamp: time,
            engine_timestamp: time,
            quality: Quality::GOOD,
        };
        self.series.accept_beyond_limit(self.elements, &sample)
    }
}

/// Provides the methods of [`VariableSeries`]. The updates in its progress are the elements.
impl<S, O> Deref for ElementSeries<S, O> {
    type Target = VariableSeries<S, O>;

    fn deref(&self) -> &Self::Target {
        &self.series
    }
}

impl<S, O> DerefMut for ElementSeries<S, O> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.series
    }
}

/// Checks that elements of a type can be recorded as the group `name`.
pub fn check_elements(name: &str, data_type: &DataType) -> Result<(), VariableRecordError> {
    layout_of(name, data_type).map(|_| ())
}
