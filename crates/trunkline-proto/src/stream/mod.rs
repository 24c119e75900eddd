//! Streams: the two endpoints of a lossless, ordered, one-way flow of elements, without their I/O.
//!
//! ```text
//!  program        ring              link                        link              ring    program
//!  write --> [ kept | to send ] <-> WriterLink ---S_DATA---> ReaderLink <-> [ arrived ] --> read
//!                                              <--S_ACK----
//! ```
//!
//! A [`WriterLink`] and a [`ReaderLink`] hold positions, not bytes. They say which bytes of the
//! ring are to be sent behind a head that they write, and where in the ring the next received
//! bytes belong; nothing is copied here.
//!
//! What holds, whatever becomes of the connections:
//! - the writer keeps what the reader has not acknowledged, and sends it again from where the
//!   reader says it is;
//! - the writer never sends beyond the reader's credit, which is what has been read and the
//!   capacity of the reader's buffer;
//! - a position that goes back, an acknowledgement of what was never sent, bytes beyond the credit
//!   end the connection, and change nothing of the stream.
//!
//! # Order of calls
//!
//! ```text
//! active    poll_dial -> handle_dialled -\                                   /-> poll_dial
//! passive              handle_hello ------> handle_control / handle_payload -- handle_disconnected
//!                                          poll_output / handle_sent
//! ```
//!
//! After each `handle_*` call: `poll_output` until it has nothing more, then `wants_close`, then
//! `poll_timeout`. `now` never goes backwards.
//!
//! # Layout
//! - [`link`](Link): what both ends share: dialling, the hello, liveness, faults.
//! - [`writer`](Writer), [`reader`](Reader): the two ends.
//! - [`pairing`](Pair): how two ends that have met know each other again.
//! - `input`: bytes to frames, where the bytes of the stream are left to the driver.
//! - `drops`, `losses`: a writer that does not wait for a slow reader, and what that is told.
//! - [`directory`](Directory): the names of a machine's endpoints, and tickets to them.
//! - [`walk`](ElementWalk): where elements of varying length begin.

mod directory;
mod drops;
mod fault;
mod half;
mod incoming;
mod input;
mod link;
mod losses;
mod meeting;
mod options;
mod output;
mod pairing;
mod properties;
mod reader;
mod reader_link;
mod session;
mod walk;
mod writer;
mod writer_check;
mod writer_link;

pub use self::directory::{Answer, Directory, DirectoryLimits};
pub use self::fault::StreamFault;
pub use self::half::Half;
pub use self::link::{Accepted, Link, ReaderLink, WriterLink};
pub use self::meeting::lineage;
pub use self::options::{ElementForm, LinkOptions, Role};
pub use self::output::{Place, RingBytes};
pub use self::pairing::{Pair, Secret};
pub use self::reader::{Reader, StreamClose};
pub use self::walk::{ElementTooLong, ElementWalk};
pub use self::writer::{Left, Writer};
pub use crate::message::stream::{Incarnation, Until};
pub use session::REDIAL_MAX;

/// Most bytes of one S_DATA: what the reader checks as one, and what delays a keep-alive.
pub const DATA_BYTES_MAX: u64 = 256 << 10;
