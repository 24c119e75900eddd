//! Variables: recorded update by update, each with its time, and played as they came.
//!
//! ```text
//!   file
//!    +-- group "rig/pump1/pressure"    properties: type, gap_1_row, gap_1_lost ...
//!    |      +-- time      when each value was measured
//!    |      +-- value
//!    |      +-- quality   packed, as in memory
//!    +-- group "rig/pump1/running"
//!           ...
//! ```

mod file;
mod playing;
mod recording;
mod values;

pub use self::file::{SegmentFile, Segments};
pub use self::playing::{PlayedUpdate, PlayedVariable, RecordedVariables};
pub use self::recording::{VariableId, VariableProgress, VariableRecordError, VariableRecording};

const TIME: &str = "time";
const VALUE: &str = "value";
const QUALITY: &str = "quality";
/// The property of a group that says the variable's type.
const TYPE: &str = "variable_type";
