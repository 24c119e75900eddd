//! Limits the connection rate of each address, and assigns retry times to refused peers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use trunkline_types::Tick;

/// Maximum number of addresses remembered. It limits the memory that a peer with many addresses can
/// use.
const ADDRESSES_MAX: usize = 4096;

/// Longest delay assigned to a peer. After that, the times start over, so that any number of peers
/// is spread evenly over this time.
const SPREAD_MAX: Duration = Duration::from_secs(20);

/// Times at which refused peers should try again, one interval apart, so that peers arrive at the
/// rate at which they can be served.
#[derive(Debug)]
pub(super) struct RetryTimes {
    interval: Duration,
    next: Tick,
}

impl RetryTimes {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            next: Tick::ZERO,
        }
    }

    /// Returns the delay until the next unassigned time, which is at least `earliest`.
    pub(super) fn next_delay(&mut self, now: Tick, earliest: Duration) -> Duration {
        let earliest = now.saturating_add(earliest);
        if self.next < earliest || self.next > now.saturating_add(SPREAD_MAX) {
            self.next = earliest;
        }
        let assigned = self.next;
        self.next = assigned.saturating_add(self.interval);
        assigned.since(now)
    }
}

/// The recent connections of each address of other machines. Addresses of this machine are not
/// counted, because its programs share them.
#[derive(Debug)]
pub(super) struct Arrivals {
    per_second: u32,
    addresses: HashMap<IpAddr, Address>,
}

#[derive(Debug)]
struct Address {
    /// Time by which all its connections would have arrived at the allowed rate.
    paced: Tick,
    retry_times: RetryTimes,
}

impl Arrivals {
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            per_second: per_second.max(1),
            addresses: HashMap::new(),
        }
    }

    /// Sets the number of connections per second that one address may make.
    pub(super) fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second.max(1);
    }

    /// Counts a connection from `peer`. A burst of one second's connections is allowed.
    ///
    /// # Errors
    /// The peer connects too often and should try again after this delay.
    pub(super) fn admit(&mut self, peer: SocketAddr, now: Tick) -> Result<(), Duration> {
        let ip = peer.ip().to_canonical();
        if ip.is_loopback() {
            return Ok(());
        }
        self.make_room(now);
        let interval = Duration::from_secs(1) / self.per_second;
        let address = self.addresses.entry(network(ip)).or_insert(Address {
            paced: now,
            retry_times: RetryTimes::new(interval),
        });
        let paced = address.paced.max(now);
        let ahead = paced.since(now).saturating_add(interval);
        if ahead <= Duration::from_secs(1) {
            address.paced = paced.saturating_add(interval);
            return Ok(());
        }
        Err(address
            .retry_times
            .next_delay(now, ahead - Duration::from_secs(1)))
    }

    /// Forgets addresses without recent connections. If that is not enough, it forgets all of them,
    /// because a limit per address cannot stop a peer that has this number of addresses.
    fn make_room(&mut self, now: Tick) {
        if self.addresses.len() < ADDRESSES_MAX {
            return;
        }
        self.addresses.retain(|_, address| address.paced > now);
        if self.addresses.len() >= ADDRESSES_MAX {
            self.addresses.clear();
        }
    }
}

/// Reduces an IPv6 address to its /64 network, which one machine may have to itself.
fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::server::admission::SESSION_RETRY_INTERVAL;

    const MILLI: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Tick {
        Tick::ZERO.saturating_add(Duration::from_secs(9) + MILLI * millis as u32)
    }

    fn peer(text: &str) -> SocketAddr {
        format!("{text}:50000").parse().unwrap()
    }

    #[test]
    fn retry_times_are_an_interval_apart_and_restart_after_the_longest_delay() {
        let mut sut = RetryTimes::new(MILLI);
        let waits: Vec<_> = (0..3).map(|_| sut.next_delay(at(0), 100 * MILLI)).collect();
        assert_eq!(waits, [100 * MILLI, 101 * MILLI, 102 * MILLI]);
        let longest = (0..100_000)
            .map(|_| sut.next_delay(at(0), 100 * MILLI))
            .max();
        assert_eq!(longest, Some(SPREAD_MAX));
        assert_eq!(sut.next_delay(at(60_000), 100 * MILLI), 100 * MILLI);
    }

    /// The cost of waiting clients does not depend on their number, until their retry times exceed
    /// the longest delay.
    #[test]
    fn rejected_clients_retry_at_a_constant_rate() {
        let per_second = |crowd: u64| {
            let mut sut = RetryTimes::new(SESSION_RETRY_INTERVAL);
            let mut due: BinaryHeap<_> = (0..crowd).map(|n| Reverse((at(0), n))).collect();
            let mut retries = 0;
            while let Some(Reverse((now, n))) = due.pop()
                && now <= at(200_000)
            {
                retries += u64::from(now > at(100_000));
                due.push(Reverse((
                    now.saturating_add(sut.next_delay(now, 2000 * MILLI)),
                    n,
                )));
            }
            retries / 100
        };
        assert_eq!(per_second(10), 5, "each of them after 2 s");
        assert_eq!(per_second(100), 20);
        assert_eq!(per_second(300), 20);
        let crowded = per_second(10_000);
        assert!(
            (850..950).contains(&crowded),
            "each after 11 s on average: {crowded}"
        );
    }

    #[test]
    fn address_over_its_rate_gets_the_time_to_retry() {
        let mut sut = Arrivals::new(20);
        for count in 0..20 {
            assert_eq!(sut.admit(peer("10.0.0.7"), at(0)), Ok(()), "{count}");
        }
        assert_eq!(sut.admit(peer("10.0.0.7"), at(0)), Err(50 * MILLI));
        assert_eq!(sut.admit(peer("10.0.0.7"), at(0)), Err(100 * MILLI));
        // Other addresses are not delayed.
        assert_eq!(sut.admit(peer("10.0.0.8"), at(0)), Ok(()));
        // Peers that try again at their assigned time are admitted.
        assert_eq!(sut.admit(peer("10.0.0.7"), at(50)), Ok(()));
        assert_eq!(sut.admit(peer("10.0.0.7"), at(100)), Ok(()));
        assert!(sut.admit(peer("10.0.0.7"), at(100)).is_err());
    }

    #[test]
    fn local_programs_are_not_counted_and_ipv6_counts_per_network() {
        let mut sut = Arrivals::new(1);
        for _ in 0..100 {
            assert_eq!(sut.admit(peer("127.0.0.1"), at(0)), Ok(()));
            assert_eq!(sut.admit(peer("[::1]"), at(0)), Ok(()));
            assert_eq!(sut.admit(peer("[::ffff:127.0.0.1]"), at(0)), Ok(()));
        }
        assert_eq!(sut.admit(peer("[2001:db8::1]"), at(0)), Ok(()));
        assert!(sut.admit(peer("[2001:db8::2]"), at(0)).is_err());
        assert_eq!(sut.admit(peer("[2001:db8:0:1::2]"), at(0)), Ok(()));
    }

    #[test]
    fn memory_for_addresses_is_bounded() {
        let mut sut = Arrivals::new(20);
        for index in 0..100_000u32 {
            let address = SocketAddr::from((std::net::Ipv4Addr::from(index << 4), 1));
            let _ = sut.admit(address, at(0));
        }
        assert!(sut.addresses.len() <= ADDRESSES_MAX);
    }
}
