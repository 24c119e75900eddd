//! The cells of the recorder.

use super::{CACHED, COLLECTED, COPIED, DEVICES, FIO, IN_PLACE, SCENARIO, SUMMED};
use crate::plan::{Cell, Extent};
use crate::settings::Settings;

/// The compared systems.
pub const SYSTEMS: [&str; 6] = [FIO, IN_PLACE, SUMMED, COPIED, CACHED, COLLECTED];
/// The recorder does not collect larger chunks: each is a segment.
const COLLECTED_MAX: u64 = 256 << 10;
/// The systems compared with devices.
pub const DEVICES_SYSTEMS: [&str; 2] = [IN_PLACE, COPIED];
/// Numbers of devices.
pub const DEVICES_COUNTS: [u64; 4] = [1, 2, 4, 8];

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

/// Returns the cells, by chunk size.
pub(crate) fn cells(extent: Extent) -> Vec<Cell> {
    let is_quick = extent == Extent::Quick;
    let chunks: &[u64] = if is_quick { &[1 << 20] } else { &CHUNKS };
    let settings = |chunk: &u64| {
        // About a second per cell: small chunks take longer.
        let bytes = match chunk {
            _ if is_quick => 64 << 20,
            ..=0x4000 => 256 << 20,
            ..=0x1_0000 => 1 << 30,
            _ => 4_u64 << 30,
        };
        let settings = Settings::default()
            .with("chunk", chunk)
            .with("bytes", bytes);
        let systems = match chunk {
            ..=COLLECTED_MAX => &SYSTEMS[..],
            _ => &SYSTEMS[..SYSTEMS.len() - 1],
        };
        (SCENARIO, systems, settings)
    };
    let counts: &[u64] = if is_quick { &[2] } else { &DEVICES_COUNTS };
    let devices = |count: &u64| {
        let settings = Settings::default()
            .with("devices", count)
            .with("ms", if is_quick { 100 } else { 1500 });
        (DEVICES, &DEVICES_SYSTEMS[..], settings)
    };
    let cells = chunks.iter().map(settings);
    cells.chain(counts.iter().map(devices)).collect()
}
