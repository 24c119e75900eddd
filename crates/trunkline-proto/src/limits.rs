//! The limits of the protocol: defaults, some of which are negotiated, and fixed limits.

use std::time::Duration;

use trunkline_types::wire::VALUE_BYTES_MAX;

/// Longest payload of a frame before the hello is complete (F14). The hello itself always fits.
pub const HELLO_FRAME_MAX: u32 = 4096;
/// Longest time from connecting to the end of the hello.
pub const HELLO_DEADLINE: Duration = Duration::from_secs(5);
/// Longest payload of a frame after the hello, unless negotiated.
pub const FRAME_MAX_DEFAULT: u32 = 1 << 20;
/// The smallest `frame_max` that a peer may request.
pub const FRAME_MAX_MIN: u32 = 4096;
/// The largest `frame_max` that a peer may request.
pub const FRAME_MAX_MAX: u32 = 16 << 20;
/// Longest payload of a message in parts: the longest value, and 1 MiB for the data before it.
pub const MESSAGE_MAX_DEFAULT: u32 = VALUE_BYTES_MAX as u32 + (1 << 20);
/// Longest time from a frame's first byte to its last.
pub const FRAME_DEADLINE: Duration = Duration::from_secs(5);
/// Maximum number of items that one session may have open.
pub const ITEMS_MAX_DEFAULT: u32 = 2_000_000;
/// Maximum number of bytes that may wait in one session's subscriptions.
pub const QUEUE_BYTES_MAX_DEFAULT: usize = 64 << 20;
/// Maximum number of bytes that the requests and items of all sessions may occupy, unless the host
/// program configures it.
pub const REQUEST_BYTES_MAX_DEFAULT: usize = 1 << 30;
/// Longest time between two frames of the same request.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// Maximum number of unanswered writes, whether in flight or queued at the engine.
pub const WRITE_CREDIT_COUNT: u32 = 4096;
/// Maximum total size of the values of these writes, in bytes; a single larger write may be in
/// flight alone.
pub const WRITE_CREDIT_BYTES: u32 = 1 << 20;
/// Maximum number of unacknowledged update records that a client lets the engine send.
pub const WINDOW_RECORDS_DEFAULT: u32 = 65_536;
/// Maximum total size of these records, in bytes; a single larger record may be in flight alone.
pub const WINDOW_BYTES_DEFAULT: u32 = 4 << 20;
/// Interval at which either side sends keep-alives.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Silence after which a peer is considered dead.
pub const KEEPALIVE_DEADLINE: Duration = Duration::from_secs(3);
/// Longest sentence of a fault in bytes; the encoder truncates longer sentences.
pub const SENTENCE_BYTES_MAX: usize = 1024;
/// Longest text in the hello in bytes, such as a user's name; the encoder truncates longer texts.
pub const HELLO_TEXT_BYTES_MAX: usize = 256;
/// Target size of a frame of a bulk request or answer, in bytes: once a frame has reached this
/// size, the caller of the builder begins the next frame.
pub const PAGE_BYTES: usize = 64 << 10;
/// Maximum number of items of one COMPARE; if there are more, the engine checks everything again.
pub const COMPARE_ITEMS_MAX: usize = 1000;
/// Maximum number of subscriptions that the answer to INFO lists for one variable.
pub const INFO_SUBSCRIPTIONS_MAX: usize = 1024;
/// Maximum number of sessions that the answer to INFO lists as subscribers of one variable.
pub const INFO_READERS_MAX: usize = 32;
/// Maximum number of patterns that one session may watch at a time.
pub const WATCHES_MAX: usize = 1024;
/// Maximum number of conditions of one FIND.
pub const FIND_CONDITIONS_MAX: usize = 32;
/// Maximum number of patterns of one HISTORY.
pub const HISTORY_PATTERNS_MAX: usize = 10_000;
/// Maximum number of libraries that the answer to ENGINE lists.
pub const ENGINE_LIBRARIES_MAX: usize = 1024;
