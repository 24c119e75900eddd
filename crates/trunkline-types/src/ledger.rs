//! The loss ledger: exact counters that account for every update, by outcome and cause.
//!
//! The engine and the client keep the same counters, the protocol sends them, and tools show them.
//! All counters are cumulative: the losses between two readings are the difference between the
//! counters at these times. Each ledger has an identity that holds at any time except while its
//! owner is changing it.

/// Counts the writes offered to a variable, by outcome.
///
/// `offered = written + unchanged + superseded + refused + unknown + fifo_overflow + upstream_lost`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WriteLedger {
    /// Writes that reached the variable; a write answered with would-block does not count as
    /// offered.
    pub offered: u64,
    /// Writes that became updates and were numbered.
    pub written: u64,
    /// Writes within the deadband.
    pub unchanged: u64,
    /// Writes replaced by a later write before they were carried out (write mode `newest`).
    pub superseded: u64,
    /// Writes refused by a rule.
    pub refused: u64,
    /// Writes with an unknown outcome.
    pub unknown: u64,
    /// Writes lost in a full real-time FIFO.
    pub fifo_overflow: u64,
    /// Writes lost before they reached this engine; counted by the engine that this engine mirrors.
    pub upstream_lost: u64,
}

/// Counts a variable's updates for one subscription by outcome, from the sequence at which the
/// subscription opened.
///
/// ```text
/// written = filtered + coalesced + dropped_queue + dropped_overrun + dropped_disconnect
///         + waiting + sent_unconfirmed + received
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SubscriptionLedger {
    /// Updates numbered since the subscription opened.
    pub written: u64,
    /// Updates withheld by the subscription's filters.
    pub filtered: u64,
    /// Updates replaced by a newer value, as the contract allows.
    pub coalesced: u64,
    /// Updates dropped because a bounded buffer was full.
    pub dropped_queue: u64,
    /// Updates dropped because an `all` subscription exceeded its bound.
    pub dropped_overrun: u64,
    /// Updates dropped because the connection was down.
    pub dropped_disconnect: u64,
    /// Updates waiting to be sent.
    pub waiting: u64,
    /// Updates sent whose receipt is not confirmed yet.
    pub sent_unconfirmed: u64,
    /// Updates whose receipt is confirmed.
    pub received: u64,
    /// Updates sent again because the client had a different value (B-10); not part of the sum.
    pub repaired: u64,
}

/// The end of one item of a subscription, for example because the subscription exceeded its bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EndedItem {
    /// Handle of the variable.
    pub handle: u32,
    /// Sequence of the last update delivered; 0 if there was none.
    pub last_sequence: u64,
    /// Number of later updates that were not delivered, excluding those withheld by the
    /// subscription's filters.
    pub lost: u64,
}

/// Counts the updates that reached a client, by outcome.
///
/// `received = taken + coalesced + dropped + waiting`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ClientLedger {
    pub received: u64,
    /// Updates read by the application; displays call this "delivered".
    pub taken: u64,
    /// Updates replaced by a newer value before the application read them.
    pub coalesced: u64,
    /// Updates dropped because a queue was full.
    pub dropped: u64,
    /// Updates that the application has not read yet.
    pub waiting: u64,
    /// Number of received updates that the engine sent again because this client had a different
    /// value (B-10).
    pub repaired: u64,
}

impl WriteLedger {
    /// Returns true if every write offered is accounted for.
    pub fn is_balanced(&self) -> bool {
        let Self {
            offered,
            written,
            unchanged,
            superseded,
            refused,
            unknown,
            fifo_overflow,
            upstream_lost,
        } = *self;
        let parts = [
            written,
            unchanged,
            superseded,
            refused,
            unknown,
            fifo_overflow,
            upstream_lost,
        ];
        sum(&parts) == u128::from(offered)
    }
}

impl SubscriptionLedger {
    /// Returns true if every update written is accounted for.
    pub fn is_balanced(&self) -> bool {
        let parts = [
            self.filtered,
            self.coalesced,
            self.dropped_queue,
            self.dropped_overrun,
            self.dropped_disconnect,
            self.waiting,
            self.sent_unconfirmed,
            self.received,
        ];
        sum(&parts) == u128::from(self.written)
    }

    /// Returns the number of updates lost in violation of the contract: dropped for any cause.
    pub fn lost(&self) -> u64 {
        self.dropped_queue
            .saturating_add(self.dropped_overrun)
            .saturating_add(self.dropped_disconnect)
    }
}

impl ClientLedger {
    /// Returns true if every update received is accounted for.
    pub fn is_balanced(&self) -> bool {
        sum(&[self.taken, self.coalesced, self.dropped, self.waiting]) == u128::from(self.received)
    }
}

/// Returns the exact sum: the sum of eight `u64` values always fits into a `u128`.
fn sum(parts: &[u64]) -> u128 {
    parts.iter().map(|part| u128::from(*part)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_counts_in_the_identity_of_writes() {
        let ledger = WriteLedger {
            offered: 28,
            written: 1,
            unchanged: 2,
            superseded: 3,
            refused: 4,
            unknown: 5,
            fifo_overflow: 6,
            upstream_lost: 7,
        };
        assert!(ledger.is_balanced());
        assert!(
            !WriteLedger {
                unknown: 6,
                ..ledger
            }
            .is_balanced()
        );
        assert!(WriteLedger::default().is_balanced());
    }

    #[test]
    fn every_outcome_counts_in_the_identity_of_a_subscription() {
        let ledger = SubscriptionLedger {
            written: 36,
            filtered: 1,
            coalesced: 2,
            dropped_queue: 3,
            dropped_overrun: 4,
            dropped_disconnect: 5,
            waiting: 6,
            sent_unconfirmed: 7,
            received: 8,
            repaired: 9,
        };
        assert!(ledger.is_balanced());
        assert_eq!(ledger.lost(), 12);
        assert!(
            !SubscriptionLedger {
                received: 9,
                ..ledger
            }
            .is_balanced()
        );
    }

    #[test]
    fn every_outcome_counts_in_the_identity_of_a_client() {
        let ledger = ClientLedger {
            received: 10,
            taken: 1,
            coalesced: 2,
            dropped: 3,
            waiting: 4,
            repaired: 5,
        };
        assert!(ledger.is_balanced());
        assert!(!ClientLedger { taken: 0, ..ledger }.is_balanced());
    }

    #[test]
    fn huge_counters_do_not_wrap_into_balance() {
        let ledger = ClientLedger {
            received: 0,
            taken: u64::MAX,
            coalesced: 1,
            ..ClientLedger::default()
        };
        assert!(!ledger.is_balanced());
    }
}
