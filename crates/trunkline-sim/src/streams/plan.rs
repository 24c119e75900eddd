//! Draws the plan of a stream from the seed.

use std::time::Duration;

use trunkline_stream::{Commit, Durability};
use trunkline_types::Tick;

use super::content::Kind;
use super::fault::{FAULTS, Fault};
use crate::link::{CAPACITY, Way};
use crate::rng::Rng;

/// The endpoints that connect to their peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialers {
    Writer,
    Reader,
    Both,
}

/// The working pattern of a program.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Mean pause between two calls.
    pub pause: Duration,
    /// Maximum number of elements per call.
    pub batch_max: u64,
    /// True if the program reads the connection itself, so that it runs after every turn and not only
    /// after changes.
    pub drives: bool,
    /// Mean time between the end of the endpoint and the creation of the next one.
    pub recreate_delay: Duration,
    /// Mean time after which the program closes or aborts its endpoint; `None`: never.
    pub close_interval: Option<Duration>,
    /// Probability of a short timeout for a call.
    pub short_timeout_chance: f64,
    /// Probability that the program ends its stream when a write times out, or soon after a fault of the
    /// connection, while earlier data is still in flight.
    pub give_up_chance: f64,
}

/// The plan of one endpoint.
#[derive(Clone, Debug)]
pub struct Side {
    /// Capacity of the buffer, in elements.
    pub capacity: usize,
    /// Size of the buffer in bytes, if elements vary in size.
    pub bytes_max: usize,
    /// True if the endpoint is registered with an engine of its machine, which outlives the process.
    pub has_engine: bool,
    /// Durability of the journal; `None`: no journal.
    pub journal: Option<Durability>,
    pub pace: Pace,
}

/// Everything that a seed determines in advance.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Kind of the elements.
    pub kind: Kind,
    /// The writer (0) and the reader (1).
    pub sides: [Side; 2],
    pub dialers: Dialers,
    /// True if both endpoints accept a successor of their peer.
    pub accepts_successor: bool,
    /// Time that an endpoint waits for a disconnected peer; `None`: no limit.
    pub gone_after: Option<Duration>,
    /// True to add checksums to the data; `None`: the endpoints decide.
    pub is_checked: Option<bool>,
    /// The event that marks a reader's elements as read.
    pub commit: Commit,
    /// Maximum duration of a sync.
    pub sync: Duration,
    /// Properties of a connection without faults.
    pub way: Way,
    /// Maximum time from the cause of a turn to the turn.
    pub scheduling: Duration,
    /// Maximum number of bytes that are read at once, in addition to the free space in the ring.
    pub read_max: usize,
    /// The faults, each with its mean interval.
    pub faults: Vec<(Fault, Duration)>,
    /// Duration of the phase with faults.
    pub fault_phase: Duration,
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.index(of.len())]
}

fn pace(rng: &mut Rng, capacity: usize, closes: bool) -> Pace {
    let batch_max = match rng.below(3) {
        0 => 1,
        1 => rng.magnitude(1.0, capacity as f64).round() as u64,
        _ => capacity as u64,
    };
    Pace {
        pause: Duration::from_secs_f64(rng.magnitude(0.004, 0.5)),
        batch_max: batch_max.clamp(1, 4000),
        drives: rng.chance(0.5),
        recreate_delay: Duration::from_secs_f64(rng.magnitude(0.01, 4.0)),
        close_interval: (closes && rng.chance(0.5))
            .then(|| Duration::from_secs_f64(rng.magnitude(2.0, 30.0))),
        short_timeout_chance: pick(rng, &[0.0, 0.3, 0.9]),
        give_up_chance: pick(rng, &[0.0, 0.0, 0.05, 0.3]),
    }
}

impl Plan {
    /// Returns the simplest plan: elements of 8 bytes over a perfect network.
    pub fn minimal(seed: u64) -> Self {
        let mut plan = Self::drawn(seed);
        plan.kind = Kind::Fixed(8);
        plan.accepts_successor = false;
        plan.gone_after = None;
        plan.faults.clear();
        plan.way = Way::perfect();
        plan.scheduling = Duration::ZERO;
        plan.read_max = CAPACITY;
        for side in &mut plan.sides {
            side.capacity = 100;
            side.journal = None;
            side.pace = Pace {
                pause: Duration::from_millis(20),
                batch_max: 40,
                drives: false,
                recreate_delay: Duration::from_millis(100),
                close_interval: None,
                short_timeout_chance: 0.0,
                give_up_chance: 0.0,
            };
        }
        plan
    }

    /// Returns the number of elements that can pass between the programs in 3 s. No more elements may
    /// wait at a time, so that 10 s are enough for all of them.
    pub fn backlog(&self) -> u64 {
        let syncs = match self.sides.iter().any(|side| side.journal.is_some()) {
            true => self.sync * 2,
            false => Duration::ZERO,
        };
        let round_trip = self.way.delay * 2 + self.way.jitter * 2 + self.scheduling * 6 + syncs;
        let round_trip = round_trip + Duration::from_millis(15);
        let longest = self.kind.longest() as u64;
        let buffer_elements = |side: &Side| match self.kind {
            Kind::Fixed(_) => side.capacity as u64,
            Kind::Variable(..) => (side.capacity as u64).min(side.bytes_max as u64 / longest),
        };
        let buffered_max = self.sides.iter().map(buffer_elements).min().unwrap_or(1);
        // Credit is granted a quarter of a buffer at a time, so at least half of it is usable.
        let per_round_trip = (buffered_max / 2).max(1);
        ((3.0 / round_trip.as_secs_f64()) as u64 * per_round_trip).max(1)
    }

    /// Returns the maximum time that a single element may take.
    pub fn element_time_max(&self) -> Duration {
        let turns = self.way.delay * 6 + self.way.jitter * 6 + self.scheduling * 12 + self.sync * 6;
        Duration::from_millis(500) + turns
    }

    /// Draws elements, buffers, programs, journals and a selection of faults from `seed`.
    pub fn drawn(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7374_7265_616d_7331);
        let accepts_successor = rng.chance(0.2);
        let kind = Kind::drawn(&mut rng, accepts_successor);
        let journaled = rng.below(20);
        let journals = match (journaled, accepts_successor) {
            (_, true) | (0..11, _) => [false, false],
            (11..18, _) => [true, true],
            (18, _) => [true, false],
            _ => [false, true],
        };
        let closes = rng.chance(0.4);
        let sides = journals.map(|has_journal| {
            let capacity = rng.magnitude(1.0, 3000.0).round() as usize;
            // The buffer has room for at least one element, but often not for the full capacity.
            let bytes_min = kind.longest();
            let bytes_max = bytes_min + (rng.magnitude(1.0, 40_000.0) as usize);
            let durability = pick(&mut rng, &[Durability::Process, Durability::Disk]);
            Side {
                capacity,
                bytes_max,
                has_engine: rng.chance(0.4),
                journal: has_journal.then_some(durability),
                pace: pace(&mut rng, capacity, closes),
            }
        });
        let delay = Duration::from_secs_f64(rng.magnitude(0.000_05, 0.06));
        let way = Way {
            delay,
            jitter: delay.mul_f64(pick(&mut rng, &[0.0, 0.2, 0.5])),
            rate: 0,
            piece_max: pick(&mut rng, &[CAPACITY, CAPACITY, 1500, 100, 7]),
            silent_until: Tick::ZERO,
        };
        let mut faults = Vec::new();
        for fault in FAULTS {
            let mean = Duration::from_secs_f64(rng.magnitude(1.5, 30.0));
            if rng.chance(0.4) {
                faults.push((*fault, mean));
            }
        }
        let is_checked = pick(&mut rng, &[None, Some(true), Some(false)]);
        let alters = faults.iter().any(|(fault, _)| *fault == Fault::Alter);
        Self {
            seed,
            kind,
            sides,
            dialers: pick(&mut rng, &[Dialers::Writer, Dialers::Reader, Dialers::Both]),
            accepts_successor,
            gone_after: pick(&mut rng, &[None, None, Some(2), Some(9)]).map(Duration::from_secs),
            // Without checksums, the endpoints could not detect altered data.
            is_checked: is_checked.filter(|checked| *checked || !alters),
            commit: pick(&mut rng, &[Commit::ByNextRead, Commit::ByProgram]),
            sync: Duration::from_secs_f64(rng.magnitude(0.000_1, 0.05)),
            way,
            scheduling: Duration::from_micros(pick(&mut rng, &[0, 50, 1000, 10_000])),
            read_max: pick(&mut rng, &[4096, 4096, 300, 5]),
            faults,
            fault_phase: Duration::from_secs_f64(rng.magnitude(10.0, 80.0)),
        }
    }
}
