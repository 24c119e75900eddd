//! The options of an end of a stream.

use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libc::size_t;
use trunkline::stream::{Commit, Durability, JournalOptions, Options};
use trunkline::types::DataType;
use trunkline::types::text::parse_type;

use crate::arguments::{Timeout, put, text};
use crate::errors::{Failure, tl_status};
use crate::{entry, handles};

/// Options for the ends of streams: `tl_stream_options_create`. They can be used for any number of ends,
/// and closed once these are created.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_stream_options = u64;

/// A journal survives the end of the program.
pub const TL_DURABILITY_PROCESS: i32 = 0;
/// A journal also survives a loss of power.
pub const TL_DURABILITY_DISK: i32 = 1;

/// Elements count as read when the program reads again or closes the reader.
pub const TL_COMMIT_BY_NEXT_READ: i32 = 0;
/// Elements count as read when the program calls `tl_stream_reader_commit`.
pub const TL_COMMIT_BY_PROGRAM: i32 = 1;

/// What an end of a stream needs besides its name, type and peer. The rest of [`Options`] depends on the
/// peer.
#[derive(Clone, Default)]
struct Chosen {
    capacity: usize,
    engine_port: u16,
    gone_after: Option<Duration>,
    is_insecure: bool,
    journal: Option<JournalOptions>,
}

#[derive(Default)]
pub(crate) struct StreamOptionsObject(Mutex<Chosen>);

/// Creates options: a buffer of 4096 elements, the engine of this machine at port 5850, no journal, and
/// no limit for how long the peer may be away. Close them with `tl_stream_options_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_options_create(options: *mut tl_stream_options) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe {
            put(
                "options",
                options,
                handles::add(StreamOptionsObject::default())?,
            )
        }
    })
}

/// Closes options.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_options_close(options: tl_stream_options) -> tl_status {
    entry(|| handles::remove::<StreamOptionsObject>(options).map(drop))
}

fn change(options: tl_stream_options, change: impl FnOnce(&mut Chosen)) -> Result<(), Failure> {
    let object = handles::find::<StreamOptionsObject>(options)?;
    change(&mut object.0.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(())
}

/// Sets the capacity of the buffer in elements; 0 is 4096.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_options_set_capacity(
    options: tl_stream_options,
    capacity: size_t,
) -> tl_status {
    entry(|| change(options, |chosen| chosen.capacity = capacity))
}

/// Sets the port of the engine of this machine, which keeps the names; 0 is 5850.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_options_set_engine_port(
    options: tl_stream_options,
    port: u16,
) -> tl_status {
    entry(|| change(options, |chosen| chosen.engine_port = port))
}

/// Sets the longest time in milliseconds that a peer may be disconnected before the stream is over, or
/// `TL_FOREVER`.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_options_set_gone_after(
    options: tl_stream_options,
    gone_after_ms: i32,
) -> tl_status {
    entry(|| {
        let limit = Timeout::of(gone_after_ms)?.0;
        change(options, |chosen| chosen.gone_after = limit)
    })
}

/// Permits connections with other machines that are not encrypted, if `is_permitted` is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn tl_stream_options_set_insecure(
    options: tl_stream_options,
    is_permitted: i32,
) -> tl_status {
    entry(|| change(options, |chosen| chosen.is_insecure = is_permitted != 0))
}

/// Gives the end a journal, with which the stream survives the end of the program. An end that is created
/// again with the same name and journal continues the stream.
///
/// `folder`, `folder_length`: folder of the journal, which no other end may use; it is created if it does
/// not exist.
///
/// `bytes_max`: limit of its size in bytes; 0 is 1 GiB. A writer whose journal is full waits, as for a
/// full buffer.
///
/// `durability`: one of `TL_DURABILITY_...`. `commit`: for a reader, one of `TL_COMMIT_...`.
///
/// Errors: `TL_ERROR_ARGUMENT` for another durability or commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_stream_options_set_journal(
    options: tl_stream_options,
    folder: *const c_char,
    folder_length: size_t,
    bytes_max: u64,
    durability: i32,
    commit: i32,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes a text, as documented.
        let mut journal = JournalOptions::at(unsafe { text("folder", folder, folder_length)? });
        if bytes_max > 0 {
            journal.bytes_max = bytes_max;
        }
        journal.durability = match durability {
            TL_DURABILITY_PROCESS => Durability::Process,
            TL_DURABILITY_DISK => Durability::Disk,
            other => {
                return Err(Failure::argument(format!(
                    "{other} is no durability; pass one of TL_DURABILITY_"
                )));
            }
        };
        journal.commit = match commit {
            TL_COMMIT_BY_NEXT_READ => Commit::ByNextRead,
            TL_COMMIT_BY_PROGRAM => Commit::ByProgram,
            other => {
                return Err(Failure::argument(format!(
                    "{other} is no commit; pass one of TL_COMMIT_"
                )));
            }
        };
        change(options, |chosen| chosen.journal = Some(journal))
    })
}

/// The name, type and options of an end, as the caller passed them.
pub(super) struct Request<'a> {
    pub(super) url: &'a str,
    pub(super) data_type: DataType,
    pub(super) options: Options,
}

/// A text of the caller: its address and its length.
pub(super) type Text = (*const c_char, size_t);

/// Where a function of the header gets the options from.
pub(super) enum Given {
    Options(tl_stream_options),
    Plain { capacity: size_t, engine_port: u16 },
}

impl Given {
    fn chosen(self) -> Result<Chosen, Failure> {
        Ok(match self {
            Given::Options(0) => Chosen::default(),
            Given::Options(options) => {
                let object = handles::find::<StreamOptionsObject>(options)?;
                let chosen = object.0.lock().unwrap_or_else(PoisonError::into_inner);
                chosen.clone()
            }
            Given::Plain {
                capacity,
                engine_port,
            } => Chosen {
                capacity,
                engine_port,
                ..Chosen::default()
            },
        })
    }
}

/// # Safety
/// The texts are as documented in the header.
pub(super) unsafe fn request<'a>(
    (url, url_length): Text,
    (element_type, type_length): Text,
    (peer, peer_length): Text,
    given: Given,
    timeout_ms: i32,
) -> Result<Request<'a>, Failure> {
    // SAFETY: the caller promises all texts.
    let (url, element_type, peer) = unsafe {
        (
            text("url", url, url_length)?,
            text("element_type", element_type, type_length)?,
            text("peer", peer, peer_length)?,
        )
    };
    let chosen = given.chosen()?;
    let mut options = match peer {
        "" => Options::default(),
        peer => trunkline::stream_options(peer).map_err(Failure::system)?,
    };
    options.timeout = Timeout::of(timeout_ms)?.0;
    if chosen.capacity > 0 {
        options.capacity = chosen.capacity;
    }
    if chosen.engine_port > 0 {
        options.directory_port = chosen.engine_port;
    }
    options.gone_after = chosen.gone_after;
    options.insecure |= chosen.is_insecure;
    options.journal = chosen.journal;
    Ok(Request {
        url,
        data_type: parse_type(element_type).map_err(Failure::syntax)?,
        options,
    })
}
