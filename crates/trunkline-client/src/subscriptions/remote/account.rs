//! Accounts for an item's updates: the last update, and the updates missed since then, by cause.

use trunkline_proto::message::lost::LostRecord;
use trunkline_types::{Lost, Position};

/// Updates missed before a reading, by cause. Coalesced updates alone need no allocation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Missed {
    coalesced: u64,
    /// All causes other than coalescing.
    others: Option<Box<Lost>>,
}

impl Missed {
    pub(crate) const NOTHING: Missed = Missed {
        coalesced: 0,
        others: None,
    };

    pub(crate) fn of(lost: Lost) -> Self {
        let coalesced = lost.coalesced;
        let others = Lost {
            coalesced: 0,
            ..lost
        };
        Self {
            coalesced,
            others: (others != Lost::NONE).then(|| Box::new(others)),
        }
    }

    pub(crate) const fn coalesced(updates: u64) -> Self {
        Self {
            coalesced: updates,
            others: None,
        }
    }

    #[inline]
    pub(crate) fn is_nothing(&self) -> bool {
        self.coalesced == 0 && self.others.is_none()
    }

    #[inline]
    pub(crate) fn add(&mut self, more: Missed) {
        self.coalesced = self.coalesced.saturating_add(more.coalesced);
        if let Some(more) = more.others {
            let before = self.others.get_or_insert_default();
            **before = before.plus(*more);
        }
    }

    #[inline]
    pub(crate) fn lost(&self) -> Lost {
        let others = self.others.as_deref().copied();
        Lost {
            coalesced: self.coalesced,
            ..others.unwrap_or(Lost::NONE)
        }
    }
}

/// The last update of an item, and the losses that the engine has reported since then.
#[derive(Debug, Default)]
pub(crate) struct Account {
    position: Option<Position>,
    reported: Option<Box<ReportedLosses>>,
}

/// The cause of missing updates that no report explains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Remainder {
    /// The engine merged them into newer updates, as the contract specifies.
    Coalesced,
    /// They were written while the item was not subscribed.
    Disconnect,
    /// The cause is unknown, because this contract delivers every update or reports its loss.
    Unknown,
}

/// Reported losses before the item's next update.
#[derive(Clone, Copy, Debug, Default)]
struct ReportedLosses {
    filtered: u64,
    queue: u64,
    overrun: u64,
    disconnect: u64,
    /// Losses reported by an ENDED frame. They include the updates that later LOST frames report
    /// for the same gap.
    ended: u64,
    /// True if the client ended the item. Every missing update then counts as an overrun.
    ended_here: bool,
    unknown: bool,
}

impl Account {
    pub(crate) fn position(&self) -> Option<Position> {
        self.position
    }

    pub(crate) fn add_losses(&mut self, record: &LostRecord) {
        let losses = self.reported.get_or_insert_default();
        let add = |sum: &mut u64, count: u64| *sum = sum.saturating_add(count);
        add(&mut losses.filtered, record.filtered);
        add(&mut losses.queue, record.queue);
        add(&mut losses.overrun, record.overrun);
        add(&mut losses.disconnect, record.disconnect);
        losses.unknown |= record.unknown;
    }

    /// Records that the engine ended the subscription with `lost` undelivered updates.
    pub(crate) fn add_end(&mut self, lost: u64) {
        let losses = self.reported.get_or_insert_default();
        losses.ended = losses.ended.saturating_add(lost);
    }

    /// Records that the client ended the subscription because the program's queue is full.
    pub(crate) fn add_local_end(&mut self) {
        self.reported.get_or_insert_default().ended_here = true;
    }

    /// Records that another variable with the same name replaced this one, so that updates between
    /// the two cannot be counted.
    pub(crate) fn replaced(&mut self) {
        if self.position.take().is_some() {
            self.reported.get_or_insert_default().unknown = true;
        }
    }

    /// Returns the number of updates between the last position and this one that no report
    /// explains. Under a contract that delivers or reports every update, they were sent and then
    /// lost.
    #[inline]
    pub(crate) fn unexplained(&self, position: Position) -> u64 {
        let Some(before) = self.position.filter(|at| at.epoch == position.epoch) else {
            return 0;
        };
        let gap = position.sequence.saturating_sub(before.sequence + 1);
        match &self.reported {
            _ if gap == 0 => 0,
            None => gap,
            Some(losses) if losses.ended_here => 0,
            Some(losses) => [losses.filtered, losses.ended, losses.queue, losses.overrun]
                .iter()
                .fold(gap, |gap, lost| gap.saturating_sub(*lost))
                .saturating_sub(losses.disconnect),
        }
    }

    /// Makes a repaired update the item's last one, whatever its position. Returns the updates
    /// missed since the previous one.
    pub(crate) fn repair(&mut self, position: Position, remainder: Remainder) -> Missed {
        self.update(position, remainder).unwrap_or_else(|| {
            self.position = Some(position);
            Missed::NOTHING
        })
    }

    /// Records an arriving update. Returns the updates missed since the previous update, or `None`
    /// if the item already has this one.
    ///
    /// Each reported cause explains part of the gap between the two sequence numbers. All causes
    /// together never exceed the gap. `remainder` is the cause of the rest.
    #[inline(always)]
    pub(crate) fn update(&mut self, position: Position, remainder: Remainder) -> Option<Missed> {
        // Fast path: the sequence number is the next one, and no losses were reported.
        if let (None, Some(before)) = (&self.reported, &mut self.position)
            && before.epoch == position.epoch
            && before.sequence.checked_add(1) == Some(position.sequence)
        {
            before.sequence = position.sequence;
            return Some(Missed::NOTHING);
        }
        self.update_after_gap(position, remainder)
    }

    fn update_after_gap(&mut self, position: Position, remainder: Remainder) -> Option<Missed> {
        let before = self.position;
        if before.is_some_and(|b| b.epoch == position.epoch && position.sequence <= b.sequence) {
            return None;
        }
        self.position = Some(position);
        let losses = self.reported.take().map(|losses| *losses);
        let (mut gap, unknown) = match before {
            None if losses.is_none() => return Some(Missed::NOTHING),
            None => (u64::MAX, false),
            Some(before) if before.epoch != position.epoch => (u64::MAX, true),
            Some(before) => (position.sequence - before.sequence - 1, false),
        };
        let mut lost = Lost {
            unknown,
            ..Lost::NONE
        };
        let bounded = gap != u64::MAX;
        if let Some(losses) = losses {
            let mut part = |count: u64| {
                let count = count.min(gap);
                gap -= count;
                count
            };
            part(losses.filtered);
            let counts_all = losses.ended_here && bounded;
            lost.overrun = part(if counts_all { u64::MAX } else { losses.ended });
            lost.queue = part(losses.queue);
            lost.overrun += part(losses.overrun);
            lost.disconnect = part(losses.disconnect);
            // If the client ended the item before its first reading, the missed updates cannot be
            // counted.
            lost.unknown |= losses.unknown || (losses.ended_here && !bounded);
        }
        if bounded && gap > 0 {
            match remainder {
                Remainder::Coalesced => lost.coalesced = gap,
                Remainder::Disconnect => lost.disconnect += gap,
                Remainder::Unknown => lost.unknown = true,
            }
        }
        Some(Missed::of(lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shorthand for the tests.
    impl Account {
        fn lost_at(&mut self, position: Position, remainder: Remainder) -> Option<Lost> {
            self.update(position, remainder).map(|missed| missed.lost())
        }
    }

    fn at(sequence: u64) -> Position {
        Position { epoch: 1, sequence }
    }

    fn lost(queue: u64, disconnect: u64) -> LostRecord {
        LostRecord {
            queue,
            disconnect,
            ..LostRecord::default()
        }
    }

    #[test]
    fn first_update_reports_no_loss() {
        assert_eq!(
            Account::default().lost_at(at(17), Remainder::Coalesced),
            Some(Lost::NONE)
        );
    }

    #[test]
    fn loss_of_an_item_ended_before_its_first_reading_is_unknown() {
        let mut sut = Account::default();
        sut.add_local_end();
        let lost = sut.lost_at(at(17), Remainder::Disconnect).unwrap();
        assert_eq!(
            lost,
            Lost {
                unknown: true,
                ..Lost::NONE
            }
        );
    }

    #[test]
    fn unreported_gaps_are_counted_within_an_epoch() {
        let mut sut = Account::default();
        assert_eq!(sut.unexplained(at(17)), 0, "nothing is known before it");
        sut.lost_at(at(17), Remainder::Unknown);
        assert_eq!(sut.unexplained(at(18)), 0);
        assert_eq!(sut.unexplained(at(17)), 0, "again");
        assert_eq!(sut.unexplained(at(24)), 6);
        sut.add_losses(&lost(2, 3));
        assert_eq!(sut.unexplained(at(24)), 1);
        assert_eq!(sut.unexplained(at(20)), 0);
        let other = Position {
            epoch: 2,
            sequence: 30,
        };
        assert_eq!(sut.unexplained(other), 0);
    }

    #[test]
    fn unreported_updates_were_coalesced() {
        let mut sut = Account::default();
        sut.lost_at(at(1), Remainder::Coalesced);
        sut.add_losses(&lost(2, 3));
        let lost = Lost {
            coalesced: 4,
            queue: 2,
            disconnect: 3,
            ..Lost::NONE
        };
        assert_eq!(sut.lost_at(at(11), Remainder::Coalesced), Some(lost));
    }

    #[test]
    fn unexplained_gap_is_unknown_without_coalescing() {
        let mut sut = Account::default();
        sut.lost_at(at(1), Remainder::Unknown);
        assert_eq!(
            sut.lost_at(at(3), Remainder::Unknown)
                .map(|lost| lost.unknown),
            Some(true)
        );
        assert_eq!(sut.lost_at(at(4), Remainder::Unknown), Some(Lost::NONE));
    }

    #[test]
    fn updates_between_two_connections_are_counted_as_disconnect() {
        let mut sut = Account::default();
        sut.lost_at(at(0), Remainder::Unknown);
        let lost = Lost {
            disconnect: 3,
            ..Lost::NONE
        };
        assert_eq!(sut.lost_at(at(4), Remainder::Disconnect), Some(lost));
    }

    #[test]
    fn causes_never_exceed_the_gap() {
        let mut sut = Account::default();
        sut.lost_at(at(1), Remainder::Unknown);
        sut.add_end(5);
        sut.add_losses(&lost(0, 7));
        let lost = Lost {
            overrun: 5,
            disconnect: 2,
            ..Lost::NONE
        };
        assert_eq!(sut.lost_at(at(9), Remainder::Unknown), Some(lost));
    }

    #[test]
    fn gap_after_a_local_overrun_counts_as_overrun() {
        let mut sut = Account::default();
        sut.lost_at(at(1), Remainder::Unknown);
        sut.add_local_end();
        sut.add_losses(&lost(0, 7));
        assert_eq!(
            sut.lost_at(at(9), Remainder::Unknown),
            Some(Lost {
                overrun: 7,
                ..Lost::NONE
            })
        );
    }

    #[test]
    fn repeated_update_is_ignored() {
        let mut sut = Account::default();
        sut.lost_at(at(5), Remainder::Coalesced);
        assert_eq!(
            (
                sut.lost_at(at(5), Remainder::Coalesced),
                sut.lost_at(at(4), Remainder::Coalesced)
            ),
            (None, None)
        );
        assert_eq!(sut.lost_at(at(6), Remainder::Coalesced), Some(Lost::NONE));
    }

    #[test]
    fn loss_across_epochs_is_unknown() {
        let mut sut = Account::default();
        sut.lost_at(at(5), Remainder::Coalesced);
        let position = Position {
            epoch: 2,
            sequence: 1,
        };
        let lost = sut.lost_at(position, Remainder::Coalesced);
        assert_eq!(
            lost,
            Some(Lost {
                unknown: true,
                ..Lost::NONE
            })
        );
    }
}
