//! F4: the other end is silent. Both ends notice, and afterwards nothing is missing.

use std::time::Duration;

use trunkline::{Client, SubscribeOptions, Subscription};
use trunkline_net::Clock;
use trunkline_types::Contract;

use crate::engine::{Engine, Handles, Launch, client_at, config, names};
use crate::figures::{is_full, record, seconds, size};
use crate::netns::Network;
use crate::proxy::{Cut, Proxy};
use crate::view::View;
use crate::{CUT_OFF, alone, until};

const VARIABLES: usize = 5;

/// A subscriber whose link has the fault, and a writer whose link does not.
struct Watched {
    client: Client,
    subscription: Subscription,
    view: View,
}

impl Watched {
    fn new(client: Client) -> Self {
        let subscription = client
            .subscribe(
                &names(VARIABLES),
                Contract::ALL,
                SubscribeOptions::default(),
            )
            .unwrap();
        Self {
            client,
            subscription,
            view: View::default(),
        }
    }

    /// Takes events until `done`.
    fn follow(&mut self, what: &str, mut done: impl FnMut(&View) -> bool) {
        until(what, || {
            if let Some(event) = self.subscription.next(Some(Duration::from_millis(5))) {
                self.view.take(event);
            }
            done(&self.view).then_some(())
        });
    }
}

/// Continues writing during a fault. Returns when both ends have detected it.
fn through(
    name: &str,
    sut: &mut Watched,
    writer: &Client,
    fault: impl FnOnce(),
    heal: impl FnOnce(),
) {
    let clock = Clock::new();
    let handles = Handles::open(writer, &names(VARIABLES));
    // Sessions that never come so far as to subscribe do not count.
    let subscribers = || {
        let info = writer.info(&handles.0[..1], CUT_OFF).unwrap();
        info[0].as_ref().unwrap().subscribers
    };
    handles.write(writer, clock.now().as_nanos() as f64);
    let before = handles.read(writer);
    sut.follow("the values before", |view| view.equals(&before));
    // Another client follows the same variables over a link without the fault.
    let options = SubscribeOptions::default();
    let keeper = writer
        .subscribe(&names(VARIABLES), Contract::ALL, options)
        .unwrap();
    let (lost_before, mut meanwhile) = (sut.view.lost, 0);
    let disconnects = sut.view.disconnects.len();
    assert_eq!(subscribers(), 2);
    fault();
    let start = clock.now();
    sut.follow("the client notices", |view| {
        view.disconnects.len() > disconnects
    });
    let client_after = clock.now().since(start);
    let stale = sut.subscription.value(0).unwrap().stale;
    assert!(stale.is_some(), "what is known may be old, and says so");
    until("the engine notices", || {
        meanwhile += 1;
        handles.write(writer, clock.now().as_nanos() as f64);
        (subscribers() == 1).then_some(())
    });
    let engine_after = clock.now().since(start);
    heal();
    let healed = clock.now();
    handles.write(writer, clock.now().as_nanos() as f64);
    let after = handles.read(writer);
    sut.follow("the values after", |view| view.equals(&after));
    let back = clock.now().since(healed);
    // Updates written while the engine had no session to keep them for are reported as lost to the
    // disconnect, exactly; the view has checked the sum.
    let lost = sut.view.lost - lost_before;
    assert!(lost <= meanwhile * VARIABLES as u64, "{name}: {lost} lost");
    let mut kept = View::default();
    while let Some(event) = keeper.try_next() {
        kept.take(event);
    }
    assert_eq!(
        (kept.lost, kept.disconnects.len()),
        (0, 0),
        "{name}: the others notice nothing"
    );
    if is_full() {
        let check = format!("F4, {name}");
        record(
            &check,
            "noticed by the client",
            &seconds(client_after),
            "3.5 s",
        );
        record(
            &check,
            "noticed by the engine",
            &seconds(engine_after),
            "3.5 s",
        );
        record(
            &check,
            "recovery time, with every update delivered or reported as lost",
            &seconds(back),
            "",
        );
    }
}

fn timing() -> &'static str {
    // The ordinary tests need not take the ordinary deadline.
    size("keep_alive = \"200ms\"\ndeadline = \"600ms\"\n", "")
}

/// Behaviour: B-13.
#[test]
fn silent_link_is_detected_by_both_ends_and_losses_are_reported() {
    let _alone = alone();
    let engine = Engine::start(&config(VARIABLES, "f64", timing()));
    let proxy = Proxy::start(engine.address);
    let writer = engine.client();
    let mut sut = Watched::new(client_at(proxy.address));
    for (name, to_engine, to_client) in [
        ("silence both ways", true, true),
        ("silence towards the engine", true, false),
        ("silence towards the client", false, true),
    ] {
        let fault = || proxy.silence(to_engine, to_client);
        through(name, &mut sut, &writer, fault, || proxy.heal());
    }
    through(
        "half-closed, and silent",
        &mut sut,
        &writer,
        || {
            proxy.cut(Cut::HalfClose);
            proxy.silence(true, true);
        },
        || proxy.heal(),
    );
    drop(sut.client);
}

/// Behaviour: B-13.
#[test]
fn cut_link_is_detected_by_both_ends_and_losses_are_reported() {
    let _alone = alone();
    let Some(network) = Network::create("F4: the link between two machines") else {
        return;
    };
    // Data in files does not use the link.
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("rig.sock");
    let socket = socket.to_str().unwrap();
    let engine = Engine::launch(Launch {
        before: network.before(),
        environment: Vec::new(),
        listen: vec![format!("{}:0", network.engine), format!("unix:{socket}")],
        config: config(VARIABLES, "f64", &format!("{}insecure = true\n", timing())),
    });
    let writer = Client::connect(&format!("tl+unix://{socket}")).unwrap();
    let mut sut = Watched::new(engine.client());
    for _ in 0..size(1, 5) {
        let (cut, join) = (|| network.link(false), || network.link(true));
        through("link down", &mut sut, &writer, cut, join);
        let (cut, join) = (
            || network.lose_from_engine(true),
            || network.lose_from_engine(false),
        );
        through("one-way loss from the engine", &mut sut, &writer, cut, join);
        let (cut, join) = (
            || network.lose_to_engine(true),
            || network.lose_to_engine(false),
        );
        through("one-way loss to the engine", &mut sut, &writer, cut, join);
    }
}

/// Behaviour: B-13.
#[test]
fn stalled_engine_is_detected_and_continues_where_it_was() {
    let _alone = alone();
    let engine = Engine::start(&config(VARIABLES, "f64", timing()));
    let clock = Clock::new();
    let writer = engine.client();
    let handles = Handles::open(&writer, &names(VARIABLES));
    let mut sut = Watched::new(engine.client());
    handles.write(&writer, 1.0);
    let before = handles.read(&writer);
    sut.follow("the values before", |view| view.equals(&before));
    engine.signal("STOP");
    let start = clock.now();
    sut.follow("the client notices", |view| !view.disconnects.is_empty());
    let noticed = clock.now().since(start);
    engine.signal("CONT");
    let healed = clock.now();
    let handles = Handles::open(&writer, &names(VARIABLES));
    handles.write(&writer, 2.0);
    let after = handles.read(&writer);
    sut.follow("the values after", |view| view.equals(&after));
    assert_eq!((sut.view.lost, sut.view.restarts), (0, 0));
    if is_full() {
        let back = clock.now().since(healed);
        record(
            "F4, SIGSTOP of the engine",
            "noticed by the client",
            &seconds(noticed),
            "3.5 s",
        );
        record(
            "F4, SIGSTOP of the engine",
            "recovery time, with every update delivered",
            &seconds(back),
            "",
        );
    }
}
