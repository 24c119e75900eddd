//! Streams: the two endpoints of a lossless, ordered, one-way flow of elements, without I/O.
//!
//! ```text
//!  program        ring              link                        link              ring    program
//!  write --> [ kept | to send ] <-> WriterLink ---S_DATA---> ReaderLink <-> [ arrived ] --> read
//!                                              <--S_ACK----
//! ```
//!
//! A [`WriterLink`] and a [`ReaderLink`] hold positions, not bytes. A writer's link specifies which
//! bytes of the ring to send after each frame head. A reader's link specifies the range of the ring
//! for the next received bytes. No bytes are copied here.
//!
//! These invariants hold even if connections are lost at any time:
//! - the writer keeps all bytes that the reader has not acknowledged, and resends them from the
//!   position that the reader reports;
//! - the writer never sends beyond the reader's credit, which is the position read plus the
//!   capacity of the reader's buffer;
//! - an invalid frame ends the connection, but does not change the stream: a position that
//!   decreases, an acknowledgement of bytes that were never sent, or bytes beyond the credit.
//!
//! # Order of calls
//!
//! ```text
//! active    poll_dial -> handle_dialled -\                                   /-> poll_dial
//! passive              handle_hello ------> handle_control / handle_payload -- handle_disconnected
//!                                          poll_output / handle_sent
//! ```
//!
//! After each `handle_*` call, call `poll_output` until it has no more output, then `wants_close`,
//! then `poll_timeout`. `now` never decreases.
//!
//! # Layout
//! - [`link`](Link): the part that both ends share: dialling, the hello, admission, liveness,
//!   faults.
//! - [`writer`](Writer), [`reader`](Reader): the state machines of the two ends.
//! - [`pairing`](Pair): how two ends that have met recognise each other.
//! - `input`: splits bytes into frames; the payload of S_DATA goes directly to the driver.
//! - `drops`, `losses`: writers that do not wait for slow readers, and the reader's record of lost
//!   elements.
//! - [`directory`](Directory): the names of a machine's endpoints, and tickets to them.
//! - [`walk`](ElementWalk): finds the boundaries of elements.

mod directory;
mod drops;
mod fault;
mod incoming;
mod input;
mod link;
mod link_role;
mod losses;
mod meeting;
mod options;
mod output;
mod pairing;
mod reader;
mod reader_link;
mod session;
mod walk;
mod writer;
mod writer_link;

pub use self::directory::{Answer, Directory, DirectoryLimits, Holder};
pub use self::fault::StreamFault;
pub use self::link::{Accepted, Link, ReaderLink, WriterLink};
pub use self::link_role::LinkRole;
pub use self::meeting::lineage;
pub use self::options::{ElementForm, LinkOptions, Role};
pub use self::output::{ByteRange, RingBytes};
pub use self::pairing::{Pair, Secret};
pub use self::reader::{Reader, StreamClose};
pub use self::walk::{ElementTooLong, ElementWalk};
pub use self::writer::{Left, Writer};
pub use crate::message::stream::{Incarnation, Until};
pub use session::REDIAL_MAX;

/// Maximum number of bytes in one S_DATA frame. The limit exists because the reader verifies the
/// bytes of a frame as one unit, and a keep-alive may have to wait for the whole frame.
pub const DATA_BYTES_MAX: u64 = 256 << 10;
