#![no_main]
//! A whole client with arbitrary input after the engine's welcome.

use libfuzzer_sys::fuzz_target;
use trunkline_client::{Batch, ClientCore, ClientOptions, OpenOptions, SubscribeOptions};
use trunkline_proto::message::hello::Welcome;
use trunkline_proto::{Endpoint, Features};
use trunkline_types::{Contract, Pattern, Tick, Timestamp};

const WALL: Timestamp = Timestamp::from_nanos(1_795_000_000_000_000_000);

fuzz_target!(|data: &[u8]| {
    let mut client = ClientCore::new(ClientOptions::default());
    let mut now = Tick::from_nanos(1);
    let names = ["l/number", "l/text"];
    let contracts = [Contract::Latest, Contract::Last(2), Contract::First(2), Contract::ALL];
    let subscriptions =
        contracts.map(|c| client.subscribe(&names, c, SubscribeOptions::default()));
    let opened = client.open(&names, OpenOptions { include_readings: true, ..OpenOptions::default() });
    let watch = client.watch("l/**").ok();
    let patterns: Vec<Pattern> = Pattern::parse("l/*").into_iter().collect();
    let none: [&str; 0] = [];
    let options = SubscribeOptions::default();
    let followed = client.follow(&none, &patterns, &[], Contract::Latest, options).ok();
    client.handle_connected(now, WALL);
    let (mut out, mut batch) = (Vec::new(), Batch::new());
    client.poll_output(now, WALL, 65_536, &mut out);
    let mut welcome = Vec::new();
    Welcome { epoch: 1, features: Features::OURS, ..Welcome::default() }.encode(&mut welcome);
    client.handle_input(now, WALL, &welcome);
    let (cut, data) = data.split_first().map_or((255, data), |(cut, data)| (*cut, data));
    for piece in data.chunks(usize::from(cut).max(1)) {
        out.clear();
        client.poll_output(now, WALL, 65_536, &mut out);
        client.handle_input(now, WALL, piece);
        now = now.saturating_add(std::time::Duration::from_millis(10));
        if client.poll_timeout().is_some_and(|due| due <= now) {
            client.handle_timeout(now, WALL);
        }
        for (subscription, most) in subscriptions.iter().flatten().zip(1..) {
            // One by one, and in batches of which some end before the pending ones do.
            client.next_event(now, *subscription);
            while client.take_batch(now, *subscription, most, &mut batch) {}
            let ledger = client.ledger(*subscription);
            assert!(ledger.is_none_or(|ledger| ledger.is_balanced()), "{ledger:?}");
        }
    }
    if let Some(watch) = watch {
        // Pending events are bounded by the number of names, and by the names that the program
        // knows.
        let known = client.watched_names(watch).len();
        let told = std::iter::from_fn(|| client.next_watch_event(watch)).count();
        assert!(told <= 2 * known + data.len() + 2, "{told} events of {known} names");
    }
    if let Some(followed) = followed {
        while client.next_followed(now, followed).is_some() {}
    }
    if let Ok(opened) = opened {
        let _ = client.take(opened);
    }
});
