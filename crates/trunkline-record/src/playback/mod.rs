//! Plays a recording into a ring, from which a device, a stream or a program takes the rows.

mod drain;
mod error;
mod missing;
mod pace;
mod player;
mod recording;
mod series;
mod times;

pub use self::drain::PacedDrain;
pub use self::error::{GROUPS_LISTED_MAX, PlaybackError};
pub use self::missing::MissingPart;
pub(crate) use self::missing::count_with_noun;
pub use self::pace::{GapMode, Pace, Pacer};
pub use self::player::{PlayOptions, PlayProgress, TdmsPlayback};
pub(crate) use self::recording::open as open_recording;
pub use self::recording::{Gap, PlayedChannel, Recording, Selection};
pub(crate) use self::series::numbered_files;
