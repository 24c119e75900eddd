//! The cells of the recorder.

use super::{CACHED, COPIED, FIO, IN_PLACE, SCENARIO};
use crate::plan::{Cell, Extent};
use crate::settings::Settings;

/// Those compared.
pub const SYSTEMS: [&str; 4] = [FIO, IN_PLACE, COPIED, CACHED];

/// Bytes of a chunk.
pub const CHUNKS: [u64; 7] = [
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
];

/// One size of chunks after the other.
pub(crate) fn cells(extent: Extent) -> Vec<Cell> {
    let is_quick = extent == Extent::Quick;
    let chunks: &[u64] = if is_quick { &[1 << 20] } else { &CHUNKS };
    let settings = |chunk: &u64| {
        // About a second each: small chunks take longer.
        let bytes = match chunk {
            _ if is_quick => 64 << 20,
            ..=0x4000 => 256 << 20,
            ..=0x1_0000 => 1 << 30,
            _ => 4_u64 << 30,
        };
        let settings = Settings::default()
            .with("chunk", chunk)
            .with("bytes", bytes);
        (SCENARIO, &SYSTEMS[..], settings)
    };
    chunks.iter().map(settings).collect()
}
