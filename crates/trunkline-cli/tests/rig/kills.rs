//! F24: the dialling end is killed repeatedly. The other one detects it in time, and its name is
//! released.

use std::time::Duration;

use trunkline::stream::{Options, Reader, StreamError, StreamFault, Until, Writer};
use trunkline_net::Clock;

use crate::figures::{is_full, record, seconds, size};
use crate::proxy::Proxy;
use crate::streams::{WAIT, address, far, fill, say, start, url};
use crate::{alone, until};

/// Elements that the end writes before it is killed.
const BEFORE: usize = 10;

/// Printed when it is connected.
const THERE: &str = "it is there";

/// Endpoints whose peers are killed at the same time.
const AT_A_TIME: u64 = 25;

/// One kill in this number is not reported by the system, as if the machine had vanished.
const SILENT: u64 = 10;

/// The end that is killed: it writes something, and waits.
pub fn hold(own: &str, options: Options) -> String {
    let mut writer = Writer::<f64>::create(own, options).unwrap();
    let mut elements = [0.0; BEFORE];
    fill(&mut elements, 0);
    writer.write_many(&elements, WAIT).unwrap();
    writer.flush(Until::Read, WAIT).unwrap();
    say(THERE);
    loop {
        std::thread::park();
    }
}

/// The longest times to detect a killed end, and a vanished one.
#[derive(Clone, Copy, Default)]
struct Slowest {
    killed: Duration,
    vanished: Duration,
}

/// Kills the peers of one endpoint, one after the other.
fn kill(times: u64, first: u64) -> Slowest {
    let passive = address();
    let (own, active) = (url(passive, "passive"), url(address(), "active"));
    let clock = Clock::new();
    let mut slowest = Slowest::default();
    for number in first..first + times {
        let proxy = Proxy::start(passive);
        let mut peer = start(&["hold", &active, &url(proxy.address, "passive")]);
        let options = Options {
            gone_after: Some(Duration::from_millis(100)),
            ..far(None)
        };
        // The same names each time: they are free again.
        let mut reader = Reader::<f64>::create(&own, options).unwrap();
        assert_eq!(reader.read_many(BEFORE, WAIT).unwrap().len(), BEFORE);
        peer.line_with(THERE);
        assert!(reader.properties().is_connected);
        let vanishes = number % SILENT == 0;
        if vanishes {
            proxy.vanish();
        }
        let killed = clock.now();
        peer.child.kill().unwrap();
        peer.child.wait().unwrap();
        until("the disconnect of the peer", || {
            (!reader.properties().is_connected).then_some(())
        });
        let after = clock.now().since(killed);
        let kind = match vanishes {
            true => &mut slowest.vanished,
            false => &mut slowest.killed,
        };
        *kind = after.max(*kind);
        // Then its program gets the error that no peer returns.
        let told = reader.read(WAIT);
        assert!(
            matches!(told, Err(StreamError::Fault(StreamFault::PeerGone { .. }))),
            "{told:?}"
        );
        reader.close().unwrap();
    }
    slowest
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Behaviour: B-61, NS-69.
#[test]
fn passive_end_detects_each_kill_of_the_active_one_without_leaks() {
    let _alone = alone();
    let kills = size(AT_A_TIME * 2, 1000);
    let each = kills / AT_A_TIME;
    let before = descriptors();
    let slowest: Vec<Slowest> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_A_TIME)
            .map(|thread| scope.spawn(move || kill(each, thread * each)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    until("the end of all connections", || {
        (descriptors() <= before).then_some(())
    });
    let killed = slowest.iter().map(|one| one.killed).max();
    let vanished = slowest.iter().map(|one| one.vanished).max();
    let [killed, vanished] = [killed, vanished].map(Option::unwrap_or_default);
    eprintln!("kill detected within {killed:?}, of silence within {vanished:?}");
    if is_full() {
        let check = "F24, 1000 kills of the active end";
        for (figure, measured, wanted) in [
            ("longest time to detect a kill", seconds(killed), "3.5 s"),
            (
                "longest time to detect a silent connection, 100 of them",
                seconds(vanished),
                "3.5 s",
            ),
            (
                "endpoints and connections left over, names not released",
                "0, 0".to_owned(),
                "0, 0",
            ),
        ] {
            record(check, figure, &measured, wanted);
        }
    }
}
