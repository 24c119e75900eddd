//! Tests how updates are distributed if a link is too slow for all updates, or if clients stall.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_client::{Event, SubscriptionId};
use trunkline_proto::Endpoint;
use trunkline_types::{DataType, Properties, Value};

use crate::rig::{Pair, World, define};

const MS: Duration = Duration::from_millis(1);
/// Size of a packet of the virtual link.
const PACKET: usize = 1400;

/// A link that several connections share. They take turns to send packets, with a limited number of bytes per
/// millisecond.
struct Link {
    bytes_per_ms: usize,
    /// Index of the connection that sends the next packet.
    turn: usize,
    /// Number of bytes sent in excess of the budget, because a value was longer than the remaining budget.
    debt: usize,
}

impl Link {
    fn of(bytes_per_ms: usize) -> Self {
        let (turn, debt) = (0, 0);
        Self {
            bytes_per_ms,
            turn,
            debt,
        }
    }

    /// Lets one millisecond pass.
    fn tick(&mut self, pairs: &mut [Pair]) {
        pairs[0].world.advance(MS);
        let (now, wall) = pairs[0].world.time();
        let mut left = self.bytes_per_ms.saturating_sub(self.debt);
        self.debt = self.debt.saturating_sub(self.bytes_per_ms);
        let mut idle = 0;
        while left > 0 && idle < pairs.len() {
            let pair = &mut pairs[self.turn % pairs.len()];
            self.turn += 1;
            if pair.client.poll_timeout().is_some_and(|due| due <= now) && !pair.is_stopped {
                pair.client.handle_timeout(now, wall);
            }
            let before = pair.traffic.to_client.bytes;
            pair.capacity = 64 << 10;
            pair.turn_of_client();
            pair.capacity = PACKET.min(left);
            pair.turn_of_session();
            pair.capacity = 64 << 10;
            pair.turn_of_client();
            let sent = pair.traffic.to_client.bytes - before;
            idle = if sent == 0 { idle + 1 } else { 0 };
            self.debt += sent.saturating_sub(left);
            left = left.saturating_sub(sent);
        }
    }
}

fn text(path: &str) -> trunkline_types::VariableDefinition {
    define(path, DataType::String, |_: &mut Properties| {})
}

fn fill(length: usize, number: usize) -> Value {
    Value::String(format!("{number:>length$}").into())
}

/// The updates that a program has received from one subscription.
#[derive(Default, Debug)]
struct Got {
    updates: usize,
    /// Longest time between two updates, in ms.
    longest_gap: usize,
    last_at: usize,
    has_ended: bool,
}

impl Got {
    fn take(&mut self, pair: &mut Pair, id: SubscriptionId, at: usize) {
        let (now, _) = pair.world.time();
        while let Some(event) = pair.client.next_event(now, id) {
            match event {
                Event::Reading { .. } => {
                    self.updates += 1;
                    self.longest_gap = self.longest_gap.max(at - self.last_at);
                    self.last_at = at;
                }
                Event::Ended { .. } => self.has_ended = true,
                _ => {}
            }
        }
    }
}

/// Behaviour: B-05, B-07.
///
/// The subscriptions of one session take turns. A subscription with megabytes of pending data, in large or in
/// many small values, delays the others by only one slice at a time.
#[test]
fn huge_backlog_of_a_subscription_does_not_starve_the_others() {
    for (length, burst) in [(20_000, 200), (200, 20_000)] {
        let world = World::with_library("rig", ["bulk", "a", "b", "c", "d"].map(text).to_vec());
        let mut pair = Pair::on(&world);
        let bulk = pair.subscribe(&["rig/bulk"], "all:100000");
        let others = [
            ("rig/a", "latest"),
            ("rig/b", "all:1000"),
            ("rig/c", "last:10"),
            ("rig/d", "first:50"),
        ]
        .map(|(name, contract)| (name, pair.subscribe(&[name], contract)));
        for number in 0..burst {
            world.write("rig/bulk", &fill(length, number));
        }
        let mut pairs = [pair];
        // A tenth of the pending data is sent in the observed time.
        let mut link = Link::of(4_000);
        let mut got: BTreeMap<&str, Got> = BTreeMap::new();
        for ms in 0..100 {
            for (name, _) in others {
                world.write(name, &fill(10, ms));
            }
            link.tick(&mut pairs);
            got.entry("bulk").or_default().take(&mut pairs[0], bulk, ms);
            for (name, id) in others {
                got.entry(name).or_default().take(&mut pairs[0], id, ms);
            }
        }
        let bulk = &got["bulk"];
        assert!(bulk.updates > 10 && bulk.updates < burst, "{bulk:?}");
        for (name, _) in others {
            let got = &got[name];
            // A slice of the bulk, or one of its values, is on the link for some milliseconds.
            assert!(
                got.longest_gap <= 12,
                "{name} beside values of {length}: {got:?}"
            );
            assert!(
                got.updates >= 10,
                "{name} beside values of {length}: {got:?}"
            );
        }
        assert!(
            got["rig/b"].updates >= 85 && got["rig/c"].updates >= 85,
            "{got:?}"
        );
    }
}

/// Behaviour: B-07.
#[test]
fn saturated_link_slows_every_client_in_proportion() {
    const CLIENTS: usize = 5;
    const NAMES: [&str; 6] = ["rig/0", "rig/1", "rig/2", "rig/3", "rig/4", "rig/5"];
    const CONTRACTS: [&str; 6] = [
        "latest",
        "latest",
        "sampled:5ms",
        "last:5",
        "first:5",
        "all:50",
    ];
    let run = |bytes_per_ms: usize| {
        let variables = ["0", "1", "2", "3", "4", "5"].map(text).to_vec();
        let world = World::with_library("rig", variables);
        let mut pairs: Vec<Pair> = (0..CLIENTS).map(|_| Pair::on(&world)).collect();
        let mut ids = Vec::new();
        for (client, pair) in pairs.iter_mut().enumerate() {
            let of_client: Vec<SubscriptionId> = NAMES
                .iter()
                .zip(CONTRACTS)
                .map(|(name, contract)| pair.subscribe(&[name], contract))
                .collect();
            // Some clients also subscribe under a second contract.
            let more = (0..client)
                .map(|_| pair.subscribe(&NAMES, "last:2"))
                .collect();
            ids.push([of_client, more].concat());
        }
        let mut link = Link::of(bytes_per_ms);
        let mut got: Vec<Vec<Got>> = ids
            .iter()
            .map(|ids| ids.iter().map(|_| Got::default()).collect())
            .collect();
        pairs
            .iter_mut()
            .for_each(|pair| pair.traffic.to_client.bytes = 0);
        for ms in 0..400 {
            NAMES.iter().for_each(|name| {
                world.write(name, &fill(100, ms));
            });
            link.tick(&mut pairs);
            for (pair, (ids, got)) in pairs.iter_mut().zip(ids.iter().zip(&mut got)) {
                for (id, got) in ids.iter().zip(got) {
                    got.take(pair, *id, ms);
                }
            }
        }
        let bytes: Vec<usize> = pairs.iter().map(|p| p.traffic.to_client.bytes).collect();
        (got, bytes)
    };
    let (ample, _) = run(1 << 20);
    let (scarce, bytes) = run(1500);
    // All clients have about the same share of the link.
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    assert!(*most < least * 3 / 2, "{bytes:?}");
    for (client, (ample, scarce)) in ample.iter().zip(&scarce).enumerate() {
        let shares: Vec<f64> = ample
            .iter()
            .zip(scarce)
            .map(|(ample, scarce)| scarce.updates as f64 / ample.updates as f64)
            .collect();
        for (n, got) in scarce.iter().enumerate() {
            // A subscription that exceeded its bound has ended and is created again. The others continue.
            assert!(
                got.updates > 3,
                "client {client}, subscription {n}: {got:?}"
            );
            let is_all = CONTRACTS.get(n) == Some(&"all:50");
            assert!(
                got.longest_gap <= 100 || is_all,
                "client {client}, subscription {n}: {got:?}"
            );
        }
        // Regardless of the number of clients, each receives some updates.
        let latest = &shares[..2];
        assert!(
            latest.iter().all(|share| *share > 0.02),
            "client {client}: {shares:?}"
        );
    }
}

/// Behaviour: B-05, B-06.
///
/// One of ten clients stalls. The engine's memory for this client is bounded, the writer does not wait, and
/// the other nine clients receive all updates without delay.
#[test]
fn stopped_client_does_not_affect_the_others() {
    let world = World::with_library("rig", vec![text("x"), text("y")]);
    world.write("rig/x", &fill(10, 0));
    let mut pairs: Vec<Pair> = (0..10).map(|_| Pair::on(&world)).collect();
    let contracts = ["all:1000", "latest", "last:10", "first:10"];
    let ids: Vec<Vec<SubscriptionId>> = pairs
        .iter_mut()
        .map(|pair| {
            contracts
                .map(|contract| pair.subscribe(&["rig/x"], contract))
                .to_vec()
        })
        .collect();
    pairs[0].is_stopped = true;
    let mut got: Vec<Got> = (0..10).map(|_| Got::default()).collect();
    for ms in 1..=3000 {
        world.write("rig/x", &fill(1000, ms));
        for (client, pair) in pairs.iter_mut().enumerate().skip(1) {
            pair.exchange();
            for id in &ids[client] {
                got[client].take(pair, *id, ms);
            }
            assert!(got[client].longest_gap <= 1 && !got[client].has_ended);
        }
        pairs[0].turn_of_session();
    }
    for got in &got[1..] {
        // The first reading of `latest` waited until the first update took its place.
        assert_eq!(got.updates, 4 * 3001 - 1, "{got:?}");
    }
    // Pending for the stalled client: the transport's buffer and its bounds.
    assert!(pairs[0].waiting_answers() <= pairs[0].capacity + 2_000);
    // When the client continues, it receives a report of the loss and the current values.
    pairs[0].is_stopped = false;
    pairs[0].pass(Duration::from_secs(5));
    for id in &ids[0] {
        let readings = pairs[0].readings(*id);
        let newest = readings.last().expect("it has a reading");
        let is_first = *id == ids[0][3];
        assert!(is_first || newest.position.sequence == world.sequence("rig/x"));
    }
    let (lost, overruns) = world.engine().health().lost_and_overruns();
    assert!(lost > 2000 && overruns == 1, "{lost} {overruns}");
}
