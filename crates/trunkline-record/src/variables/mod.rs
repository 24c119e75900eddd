//! Variables: recorded update by update, each with its time, and played as they came.
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
//! Elements of a stream that vary in size or have parts are recorded as updates of one variable:
//! `time` is when the recorder took each from the stream, and there is no `quality`.

mod attributes;
mod column_reader;
mod columns;
mod elements;
mod error;
mod file;
mod found;
mod gaps;
mod joined;
mod layout;
mod opened;
mod playing;
mod reading;
mod recorded;
mod recording;
mod series;

pub use self::elements::{ElementSeries, check_elements};
pub use self::error::{VariableProgress, VariableRecordError};
pub use self::file::{SegmentFile, Segments};
pub use self::playing::{PlayedUpdate, PlayedVariable, RecordedVariables};
pub use self::recording::{VariableId, VariableRecording};
pub use self::series::{EndedVariables, VariableSeries};

const TIME: &str = "time";
/// The channel of values; names of other channels with parts of values begin with it.
const VALUE: &str = "value";
const QUALITY: &str = "quality";
/// The property of a group that says the variable's type.
const TYPE: &str = "variable_type";
/// The property of a channel that says the unit of its values; of a group where they have parts.
const UNIT: &str = "unit_string";
/// The property of a group that says what the variable is.
const DESCRIPTION: &str = "description";
/// The property of a group that says how many of its first updates were taken over from the file
/// before.
const CARRIED: &str = "carried_rows";
/// The property of a group that says how many of its first updates were there before the recording.
const INITIAL: &str = "initial_rows";
/// The property of a group that says how many updates of it the files before have.
const SERIES_ROW: &str = "series_row";
