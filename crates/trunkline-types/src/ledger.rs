//! The loss ledger: what became of every update, counted exactly, with its cause.
//!
//! The same counters are kept by the engine and the client, sent by the protocol and shown to
//! people. All are cumulative; what was lost between two readings is a difference of two. Each
//! ledger has an identity that holds at any moment at which its owner is not just changing it.

/// What became of the writes offered to a variable.
///
/// `offered = written + unchanged + superseded + refused + unknown + fifo_overflow + upstream_lost`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct UpstreamLedger {
    /// Writes that reached the variable; one that was answered would-block is not yet offered.
    pub offered: u64,
    /// They became updates and were numbered.
    pub written: u64,
    /// They were within the deadband.
    pub unchanged: u64,
    /// A later write took their place (write mode `newest`).
    pub superseded: u64,
    /// A rule refused them.
    pub refused: u64,
    /// Nobody knows whether they were carried out.
    pub unknown: u64,
    /// They were lost in a full real-time FIFO.
    pub fifo_overflow: u64,
    /// They were lost before they came to this engine, as a mirrored engine counted.
    pub upstream_lost: u64,
}

/// What became of the updates of a variable on their way to one subscription, from the sequence at
/// which it opened.
///
/// ```text
/// written = filtered + coalesced + dropped_queue + dropped_overrun + dropped_disconnect
///         + waiting + sent_unconfirmed + received
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SubscriptionLedger {
    /// Updates numbered since the subscription opened.
    pub written: u64,
    /// Withheld by the subscription's own filters.
    pub filtered: u64,
    /// Merged into a newer value, as the contract says.
    pub coalesced: u64,
    /// Dropped by a full bounded buffer.
    pub dropped_queue: u64,
    /// Dropped because an `all` subscription overran its bound.
    pub dropped_overrun: u64,
    /// Dropped because the connection was down.
    pub dropped_disconnect: u64,
    /// Not sent yet.
    pub waiting: u64,
    /// Sent, receipt not confirmed yet.
    pub sent_unconfirmed: u64,
    /// Receipt confirmed.
    pub received: u64,
    /// Sent once more, because the client was found to have something else (B-10); beside the sum.
    pub repaired: u64,
}

/// What became of the updates that came to a client.
///
/// `received = taken + coalesced + dropped + waiting`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ClientLedger {
    /// Updates received.
    pub received: u64,
    /// Taken by the application; what displays call delivered.
    pub taken: u64,
    /// Merged into a newer value before they were taken.
    pub coalesced: u64,
    /// Dropped by a full queue.
    pub dropped: u64,
    /// Not taken yet.
    pub waiting: u64,
    /// Of the received ones, those that the engine sent once more because this client was found to
    /// have something else (B-10).
    pub repaired: u64,
}

impl UpstreamLedger {
    /// Whether every write offered is accounted for.
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
    /// Whether every update written is accounted for.
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

    /// Updates lost against the contract: dropped for whatever cause.
    pub fn lost(&self) -> u64 {
        self.dropped_queue
            .saturating_add(self.dropped_overrun)
            .saturating_add(self.dropped_disconnect)
    }
}

impl ClientLedger {
    /// Whether every update received is accounted for.
    pub fn is_balanced(&self) -> bool {
        sum(&[self.taken, self.coalesced, self.dropped, self.waiting]) == u128::from(self.received)
    }
}

/// The exact sum: eight u64 cannot exceed a u128.
fn sum(parts: &[u64]) -> u128 {
    parts.iter().map(|part| u128::from(*part)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_counts_in_the_upstream_identity() {
        let ledger = UpstreamLedger {
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
            !UpstreamLedger {
                unknown: 6,
                ..ledger
            }
            .is_balanced()
        );
        assert!(UpstreamLedger::default().is_balanced());
    }

    #[test]
    fn every_cause_counts_in_the_subscription_identity() {
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
    fn every_end_counts_in_the_client_identity() {
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
