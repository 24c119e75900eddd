//! Stores the waiting updates of one recorded variable and builds its segments.

use trunkline_tdms::{ChannelId, Data, ObjectPath, TdmsType, Text, WriteError, Writer};
use trunkline_types::{DataType, Sample};

use super::columns::Columns;
use super::gaps::Gaps;
use super::layout::Layout;
use super::recording::RowKind;
use super::{CARRIED, DESCRIPTION, INITIAL, QUALITY, SERIES_ROW, TIME, TYPE, UNIT};

#[derive(Debug)]
pub(super) struct RecordedVariable {
    pub(super) group: ObjectPath,
    pub(super) data_type: DataType,
    row_kind: RowKind,
    layout: Layout,
    channels: Channels,
    unit: Text,
    description: Text,
    /// Updates that were accepted after the last segment was built.
    waiting: Columns,
    /// Updates in a segment that is not in the file yet; used only in a series.
    pending: Columns,
    pub(super) gaps: Gaps,
    /// Number of rows of the current file, including waiting rows.
    rows: u64,
    /// Number of rows in the current file.
    rows_in_file: u64,
    /// Number of durable rows of the current file.
    rows_on_disk: u64,
    /// Number of rows copied from the previous file.
    copied_rows: u64,
    /// Number of updates in all earlier files.
    series_row: u64,
    /// True if the first update predates the recording.
    pub(super) is_initial: bool,
    /// The last update in the current file; used only in a series.
    last_in_file: Option<Sample>,
    /// The last update in the pending segment; used only in a series.
    last_pending: Option<Sample>,
    /// The last waiting update; used only in a series.
    last_waiting: Option<Sample>,
}

#[derive(Debug)]
struct Channels {
    time: ChannelId,
    values: Vec<ChannelId>,
    /// `None` for stream elements, which have no quality.
    quality: Option<ChannelId>,
}

impl Channels {
    fn add(
        writer: &mut Writer,
        name: &Text,
        layout: &Layout,
        row_kind: RowKind,
    ) -> Result<Self, WriteError> {
        let time = writer.channel(name.clone(), TIME, TdmsType::Time)?;
        let columns = layout.columns.iter();
        let values =
            columns.map(|column| writer.channel(name.clone(), &*column.name, column.data_type));
        let values = values.collect::<Result<_, _>>()?;
        let quality = match row_kind {
            RowKind::Updates => Some(writer.channel(name.clone(), QUALITY, TdmsType::U32)?),
            RowKind::Elements => None,
        };
        Ok(Self {
            time,
            values,
            quality,
        })
    }
}

impl RecordedVariable {
    pub(super) fn new(
        group: ObjectPath,
        data_type: DataType,
        layout: Layout,
        row_kind: RowKind,
        writer: &mut Writer,
    ) -> Result<Self, WriteError> {
        let channels = Channels::add(writer, &group.name(), &layout, row_kind)?;
        writer.set(&group, TYPE, Text::from(data_type.to_string()))?;
        Ok(Self {
            waiting: Columns::of(&layout),
            pending: Columns::of(&layout),
            group,
            data_type,
            row_kind,
            layout,
            channels,
            unit: Text::default(),
            description: Text::default(),
            gaps: Gaps::default(),
            rows: 0,
            rows_in_file: 0,
            rows_on_disk: 0,
            copied_rows: 0,
            series_row: 0,
            is_initial: false,
            last_in_file: None,
            last_pending: None,
            last_waiting: None,
        })
    }

    /// Sets the unit and the description, if they have changed.
    pub(super) fn describe(
        &mut self,
        unit: &str,
        description: &str,
        writer: &mut Writer,
    ) -> Result<(), WriteError> {
        if self.unit.as_bytes() != unit.as_bytes() {
            self.unit = Text::from(unit);
            writer.set(&self.object_with_unit(), UNIT, self.unit.clone())?;
        }
        if self.description.as_bytes() != description.as_bytes() {
            self.description = Text::from(description);
            writer.set(&self.group, DESCRIPTION, self.description.clone())?;
        }
        Ok(())
    }

    /// Returns the path of the object that has the unit: the channel of values, or the group if
    /// values have parts.
    fn object_with_unit(&self) -> ObjectPath {
        match self.layout.value_column() {
            Some(column) => ObjectPath::channel(self.group.name(), &*column.name),
            None => self.group.clone(),
        }
    }

    /// Appends an update, which must have the variable's type. In a series, the last update is kept
    /// for the next file. A stream element is not kept, because it belongs to only one file.
    pub(super) fn push(&mut self, sample: &Sample, is_series: bool) {
        self.gaps.record(self.rows);
        push(&mut self.waiting, &self.layout, sample);
        self.rows += 1;
        if is_series && self.row_kind == RowKind::Updates {
            self.last_waiting = Some(sample.clone());
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.times.is_empty()
    }

    /// Returns the number of rows of the current file, including waiting rows.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the waiting data of each channel. The qualities come last, so an update that has a
    /// quality is complete even in a truncated segment. A stream element is complete if all its
    /// channels contain it.
    pub(super) fn data(&self) -> impl Iterator<Item = (ChannelId, Data<'_>)> {
        let values = self.channels.values.iter().zip(&self.waiting.values);
        // An update may have no elements.
        let values = values.filter(|(_, values)| !values.is_empty());
        let values = values.filter_map(|(channel, values)| Some((*channel, values.as_data()?)));
        let times = (self.channels.time, Data::from(&*self.waiting.times));
        let qualities = self.channels.quality;
        let qualities = qualities.map(|channel| (channel, Data::from(&*self.waiting.qualities)));
        std::iter::once(times).chain(values).chain(qualities)
    }

    /// Moves the waiting updates to a segment that is not in the file yet.
    pub(super) fn begin_segment(&mut self, is_series: bool) {
        match is_series {
            // `pending` is empty, because the previous segment was written.
            true => std::mem::swap(&mut self.waiting, &mut self.pending),
            false => self.waiting.clear(),
        }
        self.last_pending = self.last_waiting.take();
    }

    /// Records that the pending segment is in the file.
    pub(super) fn mark_written(&mut self) {
        self.pending.clear();
        self.gaps.mark_written();
        self.rows_in_file = self.rows - self.waiting.times.len() as u64;
        if let Some(last) = self.last_pending.take() {
            self.last_in_file = Some(last);
        }
    }

    /// Discards the waiting updates.
    pub(super) fn discard_waiting(&mut self) {
        self.waiting.clear();
        self.pending.clear();
        self.rows = self.rows_in_file;
        (self.last_waiting, self.last_pending) = (None, None);
    }

    /// Records that the content of the file is durable.
    pub(super) fn mark_synced(&mut self) {
        self.rows_on_disk = self.rows_in_file;
    }

    /// Continues in a new file. The new file begins with the last value in the previous file, and
    /// with the updates that the previous file did not accept. Returns the number of rows of the
    /// previous file that are missing, for example because it was removed; `None` if the number is
    /// unknown.
    pub(super) fn continue_in(
        &mut self,
        writer: &mut Writer,
        is_removed: bool,
    ) -> Result<Option<u64>, WriteError> {
        self.channels = Channels::add(writer, &self.group.name(), &self.layout, self.row_kind)?;
        let text = Text::from(self.data_type.to_string());
        writer.set(&self.group, TYPE, text)?;
        if !self.unit.as_bytes().is_empty() {
            writer.set(&self.object_with_unit(), UNIT, self.unit.clone())?;
        }
        if !self.description.as_bytes().is_empty() {
            writer.set(&self.group, DESCRIPTION, self.description.clone())?;
        }
        let is_unsynced = !is_removed && self.rows_on_disk < self.rows_in_file;
        let missing = match (is_removed, is_unsynced) {
            // The last update is copied to the new file.
            (true, _) => {
                let new_rows = self.rows_in_file.saturating_sub(self.copied_rows);
                Some(new_rows.saturating_sub(u64::from(self.last_in_file.is_some())))
            }
            (false, true) => None,
            (false, false) => Some(0),
        };
        let mut waiting = Columns::of(&self.layout);
        let rows_in_file = self.rows_in_file;
        self.series_row += rows_in_file.saturating_sub(self.copied_rows);
        self.copied_rows = 0;
        if let Some(sample) = &self.last_in_file {
            push(&mut waiting, &self.layout, sample);
            self.copied_rows = 1;
        }
        waiting.append(&mut self.pending);
        waiting.append(&mut self.waiting);
        self.waiting = waiting;
        let last_pending = self.last_pending.take();
        self.last_waiting = self.last_waiting.take().or(last_pending);
        self.rows = self.waiting.times.len() as u64;
        (self.rows_in_file, self.rows_on_disk) = (0, 0);
        self.gaps
            .continue_in(rows_in_file, self.copied_rows, missing);
        writer.set(&self.group, SERIES_ROW, self.series_row)?;
        if self.copied_rows > 0 {
            writer.set(&self.group, CARRIED, self.copied_rows)?;
        } else if self.is_initial {
            // No file contains the initial update yet.
            writer.set(&self.group, INITIAL, 1_u64)?;
        }
        Ok(missing)
    }
}

fn push(columns: &mut Columns, layout: &Layout, sample: &Sample) {
    columns.times.push(sample.source_timestamp.into());
    columns.push(layout, &sample.value);
    columns.qualities.push(sample.quality.to_bits());
}
