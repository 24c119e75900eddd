//! What the sources published, to stand beside what is measured here. The machines were of their
//! time: the figures are context, not a comparison.

use crate::w1::Kind;
use crate::w2::{Operation, Verb};

/// Mean round trip in ms and share never notified in %, by number of variables (1, 10, 50, 100,
/// 500).
type Cells = [(f64, f64); 5];

/// LM-28, by period (10, 50, 100, 200 ms).
const INTEGERS: [Cells; 4] = [
    [
        (1.128, 0.3),
        (1.698, 0.65),
        (5.244, 10.286),
        (6.789, 45.665),
        (213.97, 97.506),
    ],
    [
        (1.059, 0.0),
        (1.632, 0.23),
        (5.618, 11.664),
        (10.031, 11.149),
        (32.052, 52.274),
    ],
    [
        (1.086, 0.0),
        (1.681, 0.33),
        (5.636, 11.894),
        (9.551, 9.653),
        (36.188, 8.251),
    ],
    [
        (1.114, 0.0),
        (113.79, 0.0),
        (9.75, 0.0),
        (8.876, 9.431),
        (91.962, 5.178),
    ],
];

/// LM-29.
const REALS: [Cells; 4] = [
    [
        (1.139, 0.2),
        (1.863, 4.03),
        (5.616, 12.678),
        (7.575, 63.374),
        (182.5, 96.766),
    ],
    [
        (1.041, 0.0),
        (1.643, 0.27),
        (5.618, 11.664),
        (10.514, 10.836),
        (31.484, 52.196),
    ],
    [
        (1.05, 0.0),
        (1.786, 0.19),
        (6.04, 12.97),
        (10.815, 12.388),
        (40.626, 8.753),
    ],
    [
        (1.065, 0.0),
        (104.9, 0.0),
        (108.58, 0.0),
        (132.55, 0.0),
        (94.712, 6.234),
    ],
];

/// LM-30.
const STRINGS: [Cells; 4] = [
    [
        (1.212, 0.4),
        (1.979, 1.56),
        (5.238, 18.342),
        (7.581, 59.074),
        (184.23, 96.665),
    ],
    [
        (1.104, 0.0),
        (1.805, 1.53),
        (6.761, 10.324),
        (11.0, 11.598),
        (32.839, 58.584),
    ],
    [
        (2.194, 0.0),
        (2.609, 0.11),
        (6.436, 14.72),
        (10.87, 10.861),
        (41.921, 6.735),
    ],
    [
        (1.752, 0.0),
        (88.953, 0.0),
        (33.229, 21.954),
        (75.893, 21.854),
        (105.91, 7.039),
    ],
];

/// A cell of the published round-trip grid: mean in ms, share never notified in %.
pub fn round_trip(kind: Kind, period: usize, variables: usize) -> (f64, f64) {
    let grid = match kind {
        Kind::I32 => &INTEGERS,
        Kind::F32 => &REALS,
        Kind::String16 => &STRINGS,
    };
    grid[period][variables]
}

/// A row of the published Table 1, per 1000 calls (VS-11).
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// Kilobytes sent and received.
    pub kilobytes: f64,
    /// Messages sent and received.
    pub messages: f64,
    /// CPU seconds.
    pub cpu_s: f64,
    /// Elapsed seconds.
    pub elapsed_s: f64,
}

/// The row of an operation.
pub fn table_1(operation: Operation) -> Calls {
    let (kilobytes, messages, cpu_s, elapsed_s) = match (operation.verb, operation.synchronous) {
        (Verb::Put, true) => (44.0, 2000.0, 3.73, 8.88),
        (Verb::Put, false) => (28.0, 21.0, 0.54, 0.57),
        (Verb::Get, true) => (44.0, 2000.0, 4.31, 9.31),
        (Verb::Get, false) => (44.0, 32.0, 0.87, 1.14),
    };
    Calls {
        kilobytes,
        messages,
        cpu_s,
        elapsed_s,
    }
}

/// NS-86: controller and network, one way in us over TCP and over a stream.
pub const STREAM_LATENCY: [(&str, f64, f64); 3] = [
    ("PXI-8106, 1 Gb/s", 82.02, 347.90),
    ("cRIO-9024, 1 Gb/s", 268.13, 630.59),
    ("cRIO-9012, 100 Mb/s", 508.48, 1581.25),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::w2::OPERATIONS;

    #[test]
    fn cells_are_where_the_publication_has_them() {
        assert_eq!(round_trip(Kind::I32, 0, 4), (213.97, 97.506));
        assert_eq!(round_trip(Kind::F32, 3, 2), (108.58, 0.0));
        assert_eq!(round_trip(Kind::String16, 2, 1), (2.609, 0.11));
        // NS-86: 4.2, 2.4 and 3.1 times TCP.
        let times = STREAM_LATENCY.map(|(_, tcp, stream)| (stream / tcp * 10.0).round());
        assert_eq!(times, [42.0, 24.0, 31.0]);
        // VS-12: 15.6 and 8.2 times the elapsed time.
        let elapsed: Vec<f64> = OPERATIONS.map(|op| table_1(op).elapsed_s).to_vec();
        assert_eq!((elapsed[0] / elapsed[1] * 10.0).round(), 156.0);
        assert_eq!((elapsed[2] / elapsed[3] * 10.0).round(), 82.0);
    }
}
