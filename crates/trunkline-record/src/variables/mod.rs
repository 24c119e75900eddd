//! Records timestamped updates of variables, and plays them back.
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
//! Stream elements that vary in size or have parts are recorded as updates of one variable. The
//! channel `time` then contains the times at which the recorder took the elements from the stream,
//! and there is no channel `quality`.

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
pub use self::series::{DiscardedVariableResults, EndedVariables, VariableSeries};

const TIME: &str = "time";
/// The channel of values, or the prefix of the names of channels with parts of the values.
const VALUE: &str = "value";
const QUALITY: &str = "quality";
/// The property of a group that contains the variable's type.
const TYPE: &str = "variable_type";
/// The property that contains the unit. It belongs to the channel of values, or to the group if
/// values have parts.
const UNIT: &str = "unit_string";
/// The property of a group that contains the variable's description.
const DESCRIPTION: &str = "description";
/// The property of a group that contains the number of updates at the beginning that were copied
/// from the previous file.
const CARRIED: &str = "carried_rows";
/// The property of a group that contains the number of updates that predate the recording.
const INITIAL: &str = "initial_rows";
/// The property of a group that contains the number of updates in earlier files.
const SERIES_ROW: &str = "series_row";
