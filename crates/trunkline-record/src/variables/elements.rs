//! Records stream elements that are not rows of plain values: text, bytes, arrays, waveforms, and
//! structs of them.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use trunkline_types::{DataType, Quality, Sample, Timestamp, Value};

use super::error::VariableRecordError;
use super::file::Segments;
use super::recording::{VariableId, layout_of};
use super::series::VariableSeries;
use crate::tdms_series::Rotation;

/// Records elements of a stream, each with the time at which it was taken from the stream, in one
/// file or a series.
///
/// They are stored like the updates of one variable without a quality: the channel `time`, the
/// channels of the values, which depend on the type, and the type itself as a property of the
/// group. Each element is in one file of a series. The property `series_row` of the group holds the
/// number of elements in the previous files.
///
/// No element is lost because the disk is slow or full: [`take`](Self::take) keeps each of them.
/// While there is [no room](Self::has_room), the caller must not take elements from the stream.
/// Like [`VariableSeries`], it has no clock.
#[derive(Debug)]
pub struct ElementSeries<S, O> {
    series: VariableSeries<S, O>,
    elements: VariableId,
}

impl<S: Segments, O: FnMut(u32) -> io::Result<S>> ElementSeries<S, O> {
    /// Begins the first file, in which the group `name` holds the elements. The other arguments are
    /// the same as for [`VariableSeries::start`].
    ///
    /// # Errors
    /// [`VariableRecordError::File`]: the error of `open`. The errors of [`check_elements`], in
    /// which case no file is created.
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

    /// Returns true if more elements may be taken. If not, `write_out` makes room as soon as the
    /// file accepts data.
    pub fn has_room(&self) -> bool {
        !self.series.is_at_limit()
    }

    /// Accepts an element and keeps it in memory until it is in a file, even if there is no room.
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

/// The other methods are those of [`VariableSeries`]; the updates in its progress are the elements.
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
