//! Records the updates of variables, each with its time, and plays them back.
//!
//! ```text
//!   file
//!    +-- group "rig/pump1/pressure"    properties: type, description, gap_1_row ...
//!    |      +-- time      when each value was measured
//!    |      +-- value     several channels where values have parts: see `layout`
//!    |      +-- quality   packed, as in memory
//!    +-- group "rig/pump1/running"
//!           ...
//! ```
//!
//! Stream elements that vary in size or have parts are recorded as updates of one variable: `time`
//! is when the recorder took each element from the stream, and there is no `quality`.

mod attributes;
mod column_reader;
mod columns;
mod discovery;
mod elements;
mod error;
mod file;
mod gaps;
mod layout;
mod opened;
mod playing;
mod reading;
mod recorded;
mod recording;
mod series;
mod series_checker;

pub use self::elements::{ElementSeries, check_elements};
pub use self::error::{VariableProgress, VariableRecordError};
pub use self::file::{SegmentFile, Segments};
pub use self::playing::{PlayedUpdate, PlayedVariable, RecordedVariables};
pub use self::recording::{VariableId, VariableRecording};
pub use self::series::{EndedVariables, OmittedVariableFiles, VariableSeries};

const TIME: &str = "time";
/// The channel of values. The names of other channels with parts of the values begin with it.
const VALUE: &str = "value";
const QUALITY: &str = "quality";
/// The property of a group with the variable's type.
const TYPE: &str = "variable_type";
/// The property of a channel with the unit of its values; it belongs to the group if values have
/// parts.
const UNIT: &str = "unit_string";
/// The property of a group with the variable's description.
const DESCRIPTION: &str = "description";
/// The property of a group with the number of its first updates that were copied from the previous
/// file.
const CARRIED: &str = "carried_rows";
/// The property of a group with the number of its first updates that predate the recording.
const INITIAL: &str = "initial_rows";
/// The property of a group with the number of its updates in the previous files.
const SERIES_ROW: &str = "series_row";
