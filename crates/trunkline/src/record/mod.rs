//! Recording and playback. Connects the recorder of `trunkline-record`, which manages memory and
//! files, to streams and variables.
//!
//! ```text
//!   stream ----> record_stream ----> TDMS file ----> play_into_stream ----> stream
//!          \---> record_elements --> TDMS file ----> play_elements_into_stream
//!   variables -> VariableRecorder -> TDMS file ----> play_into_variables -> variables
//! ```
//!
//! A device, or a program that simulates one, fills a ring directly: see [`regions`].

mod descriptions;
mod elements;
mod error;
mod handed_over;
mod play_stream;
mod play_variables;
mod recorder;
mod recorder_thread;
mod regions_out;
mod stop;
mod streams;
mod unmatched;
mod update_source;

pub use trunkline_record::*;

pub use self::elements::{RecordElementsOptions, play_elements_into_stream, record_elements};
pub use self::error::RecordingError;
pub use self::handed_over::PlayFailure;
pub use self::play_stream::{StreamPlayed, play_into_stream};
pub use self::play_variables::{PlayVariablesOptions, VariablesPlayed, play_into_variables};
pub use self::recorder::{VariableRecorder, VariableRecorderOptions, VariableRecorderStatus};
pub use self::stop::{Stopped, Stopper, stopper};
pub use self::streams::{
    RowsRecording, StreamRecorded, receive_into_ring, record_stream, stream_layout,
};
pub use self::update_source::UpdateSource;

/// Rings of memory that a device fills, or from which it plays.
pub mod regions {
    pub use trunkline_ring::{
        NoRegion, Pages, PagesWanted, ReadRegion, RegionDrain, RegionFiller, RegionMemory,
        RegionReader, RegionWriter, WriteRegion,
    };
}
