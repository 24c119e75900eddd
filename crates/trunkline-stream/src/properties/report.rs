//! Builds the status that an endpoint reports to its directory.

use trunkline_proto::message::stream::listing::{EndpointStatus, MemberStatus};
use trunkline_types::{DataType, Tick};

use super::Properties;

/// Builds a [status](EndpointStatus) from properties, and adds values that are computed from
/// successive properties.
#[derive(Debug)]
pub(crate) struct Reporter {
    /// Time and total number of elements at the last computation of the rate.
    last_total: (Tick, u64),
    /// Elements per second.
    rate: u64,
    /// Time since which a writer's buffer has been full, or a reader's buffer empty.
    stalled_since: Option<Tick>,
}

/// Shortest time over which a rate is meaningful, in milliseconds.
const RATE_MILLIS_MIN: u128 = 200;

impl Reporter {
    pub(crate) fn new(now: Tick) -> Self {
        Self {
            last_total: (now, 0),
            rate: 0,
            stalled_since: None,
        }
    }

    pub(crate) fn report(&mut self, now: Tick, found: &Properties) -> EndpointStatus {
        let (since, total) = self.last_total;
        let elapsed = now.since(since).as_millis();
        if elapsed >= RATE_MILLIS_MIN {
            let moved = u128::from(found.total.saturating_sub(total));
            self.rate = u64::try_from(moved * 1000 / elapsed).unwrap_or(u64::MAX);
            self.last_total = (now, found.total);
        }
        let is_stalled = match found.is_writer {
            true => found.in_buffer >= found.capacity,
            false => found.in_buffer == 0,
        };
        self.stalled_since = match is_stalled {
            true => Some(self.stalled_since.unwrap_or(now)),
            false => None,
        };
        let members = found.members.iter().map(|member| MemberStatus {
            url: member.url.clone(),
            account: member.account.clone().unwrap_or_default(),
            away_for: member.away_for,
        });
        let status = EndpointStatus {
            url: found.url.clone(),
            is_writer: Some(found.is_writer),
            data_type: DataType::to_string(&found.data_type),
            capacity: found.capacity,
            in_buffer: found.in_buffer,
            total: found.total,
            rate: self.rate,
            is_connected: found.is_connected,
            disconnections: found.disconnections,
            away_for: found.away_for,
            stalled_for: self.stalled_since.map(|since| now.since(since)),
            last_disconnect: text(found.last_disconnect.as_ref()),
            peer: found.peer.clone().unwrap_or_default(),
            peer_program: found.peer_program.clone().unwrap_or_default(),
            transport: found.transport.unwrap_or_default().to_owned(),
            fault: text(found.fault.as_ref()),
            // The directory takes these from the registration.
            program: String::new(),
            pid: 0,
            peer_account: found.peer_account.clone().unwrap_or_default(),
            ..EndpointStatus::default()
        };
        match found.members.is_empty() {
            true => status,
            false => status.with_members(members.collect()),
        }
    }
}

fn text(cause: Option<&impl ToString>) -> String {
    cause.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trunkline_proto::stream::LinkOptions;

    use super::*;

    fn writer(in_buffer: u64, total: u64) -> Properties {
        let options = LinkOptions::fixed("tl://localhost/out", DataType::F64, 8, 10);
        Properties {
            is_writer: true,
            in_buffer,
            total,
            is_connected: true,
            ..Properties::new(&options)
        }
    }

    /// Behaviour: NS-83.
    #[test]
    fn rate_covers_the_last_interval_and_stalls_are_timed() {
        let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
        let mut sut = Reporter::new(at(0));
        let status = sut.report(at(1000), &writer(10, 500));
        assert_eq!(
            (status.rate, status.stalled_for),
            (500, Some(Duration::ZERO))
        );
        let status = sut.report(at(3000), &writer(10, 600));
        let stalled = Some(Duration::from_secs(2));
        assert_eq!((status.rate, status.stalled_for), (50, stalled));
        // The interval is too short for another rate.
        let status = sut.report(at(3100), &writer(9, 700));
        assert_eq!((status.rate, status.stalled_for), (50, None));
        // A reader is stalled while it is empty.
        let reader = Properties {
            is_writer: false,
            ..writer(0, 700)
        };
        let status = sut.report(at(3200), &reader);
        assert_eq!(status.stalled_for, Some(Duration::ZERO));
    }
}
