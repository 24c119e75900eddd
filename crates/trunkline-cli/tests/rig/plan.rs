//! Faults at bytes to come, drawn from a seed before anything is sent.

use std::collections::VecDeque;

use fastrand::Rng;

use crate::proxy::Cut;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    ToEngine,
    ToClient,
}

/// The treatment of a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The connection ends before it.
    Cut(Cut),
    /// It arrives as another one.
    Alter,
    /// Nothing passes through this connection again, silently.
    Vanish,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Planned {
    /// Position in the elements, in bytes.
    at: u64,
    fault: Fault,
    /// It is a byte of the other direction, at this distance after those that direction has carried
    /// by then.
    back: Option<u64>,
}

/// Faults in the order of their bytes.
#[derive(Debug, Default)]
pub struct Plan {
    /// The way of the elements.
    way: Option<Way>,
    next: VecDeque<Planned>,
    /// Bytes so far on the elements' way.
    carried: u64,
    /// A due fault of the other direction, at this distance in bytes.
    back: Option<(u64, Fault)>,
    /// The faults so far: connections cut, bytes altered, connections that stall.
    pub cuts: u64,
    pub altered: u64,
    pub vanished: u64,
}

impl Plan {
    /// `count` faults in the first `bytes` of the elements' way, `vanishing` of which are silence.
    pub fn draw(way: Way, count: u64, vanishing: u64, bytes: u64, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut places: Vec<u64> = (0..count).map(|_| random.u64(..bytes)).collect();
        places.sort_unstable();
        let mut next: VecDeque<Planned> = VecDeque::new();
        for (number, place) in (0..).zip(places) {
            // Once in a while in the greeting of the connection that comes after the last one.
            let at = match (number % 16, next.back()) {
                (15, Some(before)) => before.at + random.u64(..600),
                _ => place,
            };
            // Spread evenly, from the first on.
            let vanishes = number * vanishing / count != (number + 1) * vanishing / count;
            let fault = match random.u8(..10) {
                _ if vanishes => Fault::Vanish,
                0..4 => Fault::Cut(Cut::Close),
                4..7 => Fault::Cut(Cut::Reset),
                7 => Fault::Cut(Cut::HalfClose),
                _ => Fault::Alter,
            };
            let back = (random.u8(..5) == 0).then(|| random.u64(..300));
            next.push_back(Planned { at, fault, back });
        }
        Self {
            way: Some(way),
            next,
            ..Self::default()
        }
    }

    /// Nothing but counting.
    pub fn count(way: Way) -> Self {
        Self {
            way: Some(way),
            ..Self::default()
        }
    }

    /// Bytes so far on the elements' way.
    pub fn carried(&self) -> u64 {
        self.carried
    }

    /// The number of faults so far.
    pub fn done(&self) -> u64 {
        self.cuts + self.altered + self.vanished
    }

    /// Bytes go that way: the first fault among them, which is done to them, and how many are
    /// before it.
    pub fn pass(&mut self, way: Way, bytes: &mut [u8]) -> Option<(usize, Fault)> {
        let count = bytes.len() as u64;
        let (before, fault) = match self.way {
            Some(elements) if elements == way => {
                let from = self.carried;
                self.carried += count;
                let due = self.next.front().filter(|next| next.at < from + count)?;
                let Planned { at, fault, back } = *due;
                if back.is_some() && self.back.is_some() {
                    // One after the other.
                    return None;
                }
                self.next.pop_front();
                if let Some(back) = back {
                    self.back = Some((back, fault));
                    return None;
                }
                // Data after it is not carried, or not again.
                let before = at.saturating_sub(from).min(count - 1);
                (before, fault)
            }
            Some(_) => match self.back {
                Some((left, fault)) if left < count => {
                    self.back = None;
                    (left, fault)
                }
                Some((left, fault)) => {
                    self.back = Some((left - count, fault));
                    return None;
                }
                None => return None,
            },
            None => return None,
        };
        match fault {
            Fault::Cut(_) => self.cuts += 1,
            Fault::Vanish => self.vanished += 1,
            Fault::Alter => {
                self.altered += 1;
                // Below the count, which is a length.
                bytes[before as usize] ^= 1 << (before % 8);
            }
        }
        Some((before as usize, fault))
    }
}
