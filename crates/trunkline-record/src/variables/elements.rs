//! Elements of a stream that are no rows of plain values: text, bytes, arrays, waveforms, and
//! structs of them.

use std::io;
use std::time::Duration;

use trunkline_types::{DataType, Quality, Sample, Timestamp, Value};

use super::error::{VariableProgress, VariableRecordError};
use super::file::Segments;
use super::recording::{VariableId, layout_of};
use super::series::{EndedVariables, VariableSeries};
use crate::place::Displaced;
use crate::queue::Room;
use crate::tdms_series::Rotation;

/// Records elements of a stream, each with the time at which it was taken from the stream, in one
/// file or a series.
///
/// They lie in the file as the updates of one variable do, without a quality: the channel `time`,
/// the channels of the values, which depend on the type, and the type itself as a property of the
/// group. Each element is in one file of a series, and `series_row` of the group says how many the
/// files before have.
///
/// No element is lost because the disk is slow or full: [`take`](Self::take) keeps each of them.
/// While there is [no room](Self::has_room), none is to be taken from the stream. It has no clock,
/// as [`VariableSeries`].
#[derive(Debug)]
pub struct ElementSeries<S, O> {
    series: VariableSeries<S, O>,
    elements: VariableId,
}

impl<S: Segments, O: FnMut(u32) -> io::Result<S>> ElementSeries<S, O> {
    /// Begins the first file, in which the elements are the group `name`. The other arguments are
    /// as for [`VariableSeries::start`].
    ///
    /// # Errors
    /// [`VariableRecordError::File`]: what `open` says. As [`check_elements`]: no file is made.
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

    /// Whether more elements may be taken. If not, [`write_out`](Self::write_out) makes room when
    /// the file takes something.
    pub fn has_room(&self) -> bool {
        !self.series.is_over_full()
    }

    /// Takes an element, which is kept in memory until a file has it, whether there is room or not.
    ///
    /// # Errors
    /// [`VariableRecordError::OtherType`], [`VariableRecordError::TooLong`]: it is not recorded.
    pub fn take(&mut self, value: Value, time: Timestamp) -> Result<(), VariableRecordError> {
        let sample = Sample {
            value,
            source_timestamp: time,
            engine_timestamp: time,
            quality: Quality::GOOD,
        };
        self.series.keep(self.elements, &sample)
    }

    /// As [`VariableSeries::write_out`].
    ///
    /// # Errors
    /// As there.
    pub fn write_out(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        self.series.write_out(now)
    }

    /// As [`VariableSeries::sync`].
    ///
    /// # Errors
    /// As there.
    pub fn sync(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        self.series.sync(now)
    }

    /// As [`VariableSeries::finish`].
    ///
    /// # Errors
    /// As there.
    pub fn finish(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        self.series.finish(now)
    }

    /// As [`VariableSeries::give_up_waiting`].
    pub fn give_up_waiting(&mut self) -> u64 {
        self.series.give_up_waiting()
    }

    /// How far it is, in all files; its updates are the elements.
    pub fn progress(&self) -> VariableProgress {
        self.series.progress()
    }

    /// As [`VariableSeries::number`].
    pub fn number(&self) -> u32 {
        self.series.number()
    }

    /// As [`VariableSeries::take_ended`].
    pub fn take_ended(&mut self) -> Option<EndedVariables> {
        self.series.take_ended()
    }

    /// As [`VariableSeries::displaced`].
    pub fn displaced(&self) -> Option<&Displaced> {
        self.series.displaced()
    }

    /// As [`VariableSeries::sums_displaced`].
    pub fn sums_displaced(&self) -> Option<&Displaced> {
        self.series.sums_displaced()
    }

    /// As [`VariableSeries::room`].
    pub fn room(&self) -> Room {
        self.series.room()
    }
}

/// Checks whether elements of a type can be recorded as the group `name`.
///
/// # Errors
/// [`VariableRecordError::Type`], [`VariableRecordError::TooManyParts`].
pub fn check_elements(name: &str, data_type: &DataType) -> Result<(), VariableRecordError> {
    layout_of(name, data_type).map(|_| ())
}
