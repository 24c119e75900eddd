//! Bounds that hold unless a connection negotiates others, and bounds that always hold.

use std::time::Duration;

use trunkline_types::wire::VALUE_BYTES_MAX;

/// Longest payload of a frame before the hello is done (F14). The hello itself always fits.
pub const HELLO_FRAME_MAX: u32 = 4096;
/// Time from connecting to the end of the hello.
pub const HELLO_DEADLINE: Duration = Duration::from_secs(5);
/// Longest payload of a frame after the hello, unless negotiated.
pub const FRAME_MAX_DEFAULT: u32 = 1 << 20;
/// The smallest `frame_max` a peer may ask for.
pub const FRAME_MAX_MIN: u32 = 4096;
/// The largest `frame_max` a peer may ask for.
pub const FRAME_MAX_MAX: u32 = 16 << 20;
/// Longest payload of a message that is sent in parts: the longest value, and a page before it.
pub const MESSAGE_MAX_DEFAULT: u32 = VALUE_BYTES_MAX as u32 + (1 << 20);
/// Time from a frame's first byte to its last.
pub const FRAME_DEADLINE: Duration = Duration::from_secs(5);
/// Items one session may have open.
pub const ITEMS_MAX_DEFAULT: u32 = 2_000_000;
/// Bytes that may wait in one session's subscriptions.
pub const QUEUE_BYTES_MAX_DEFAULT: usize = 64 << 20;
/// Bytes that the requests and items of all sessions may take, unless the host says otherwise.
pub const REQUEST_BYTES_MAX_DEFAULT: usize = 1 << 30;
/// Time from a frame of a request to the next one of the same request.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// Writes that may be on their way or parked without an answer.
pub const WRITE_CREDIT_COUNT: u32 = 4096;
/// Bytes of the values of those writes; a single write that is larger may be on its way alone.
pub const WRITE_CREDIT_BYTES: u32 = 1 << 20;
/// Update records a client lets the engine send before they are acknowledged.
pub const WINDOW_RECORDS_DEFAULT: u32 = 65_536;
/// Bytes of those records; a single record that is larger may be on its way alone.
pub const WINDOW_BYTES_DEFAULT: u32 = 4 << 20;
/// Interval between keep-alives of either side.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Silence after which a peer counts as dead.
pub const KEEPALIVE_DEADLINE: Duration = Duration::from_secs(3);
/// Longest sentence of a fault; longer ones are cut when they are encoded.
pub const SENTENCE_BYTES_MAX: usize = 1024;
/// Longest text in the hello, such as a user's name; longer ones are cut when they are encoded.
pub const HELLO_TEXT_BYTES_MAX: usize = 256;
/// Where a builder's caller ends a page of a bulk request or answer and begins the next frame.
pub const PAGE_BYTES: usize = 64 << 10;
/// Most items of one COMPARE; for those beyond, the engine goes through everything again.
pub const COMPARE_ITEMS_MAX: usize = 1000;
/// Most subscriptions that the answer to INFO lists for one variable.
pub const INFO_SUBSCRIPTIONS_MAX: usize = 1024;
/// Most sessions that the answer to INFO lists as subscribers of one variable.
pub const INFO_READERS_MAX: usize = 32;
/// Patterns that one session may watch at a time.
pub const WATCHES_MAX: usize = 1024;
/// Most conditions of one FIND.
pub const FIND_CONDITIONS_MAX: usize = 32;
/// Most libraries that the answer to ENGINE lists.
pub const ENGINE_LIBRARIES_MAX: usize = 1024;
