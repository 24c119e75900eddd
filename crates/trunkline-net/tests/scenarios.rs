//! One table of scenarios over every transport.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;

use std::sync::Arc;
use std::time::Duration;

use echo::{CUT_OFF, Caller, CallerLink, Echo, Over, Rig, cut_off, noise};
use trunkline_net::{Clock, Link};
use trunkline_proto::Disconnect;

macro_rules! over_every_transport {
    ($($scenario:ident),* $(,)?) => {
        mod tcp {
            $(#[test] fn $scenario() { super::$scenario(super::Over::Tcp); })*
        }
        mod tls {
            $(#[test] fn $scenario() { super::$scenario(super::Over::Tls); })*
        }
        mod unix {
            $(#[test] fn $scenario() { super::$scenario(super::Over::Unix); })*
        }
        mod shared_memory {
            $(#[test] fn $scenario() { super::$scenario(super::Over::Shared); })*
        }
        mod pipe {
            $(#[test] fn $scenario() { super::$scenario(super::Over::Pipe(64 << 10)); })*
        }
        mod tiny_pipe {
            $(#[test] fn $scenario() { super::$scenario(super::Over::Pipe(61)); })*
        }
    };
}

over_every_transport!(
    a_message_comes_back,
    ten_thousand_messages_come_back_in_order,
    ten_thousand_messages_sent_ahead_come_back_in_order,
    long_messages_come_back_whole,
    input_is_held_until_the_client_accepts_it_again,
    closing_server_sends_pending_output_first,
    closing_client_sends_pending_output_first,
    lost_server_is_reported_with_the_cause,
    client_reconnects_to_a_restarted_server,
    two_hundred_clients_are_served,
    a_session_ends_with_its_client,
    every_thread_waiting_on_a_link_gets_its_message,
    a_closed_link_ends_every_wait,
    a_wait_ends_at_its_deadline,
    endpoint_timeout_fires_without_a_waiter,
    earlier_timeout_wakes_the_driving_thread,
);

fn a_message_comes_back(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    assert_eq!(sut.call(b"hello"), b"hello");
    assert_eq!(rig.server().counters().sessions, 1);
}

fn ten_thousand_messages_come_back_in_order(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    for index in 0..10_000u32 {
        assert_eq!(sut.call(&index.to_le_bytes()), index.to_le_bytes());
    }
}

fn ten_thousand_messages_sent_ahead_come_back_in_order(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    for index in 0..10_000u32 {
        sut.send(&index.to_le_bytes());
    }
    for index in 0..10_000u32 {
        assert_eq!(sut.receive(), index.to_le_bytes());
    }
}

fn long_messages_come_back_whole(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    for length in [64 << 10, 1 << 20] {
        let message = noise(length);
        assert!(sut.call(&message) == message, "{length} bytes");
    }
}

fn input_is_held_until_the_client_accepts_it_again(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    sut.wait_connected();
    let message = noise(300 << 10);
    sut.with(|caller, _, _| {
        caller.hungry = false;
        caller.send(&message);
    });
    // Another connection shows that the server continues, and lets the answer arrive.
    let other = rig.link();
    for _ in 0..100 {
        other.call(b"round trip");
    }
    sut.with(|caller, _, _| {
        assert!(caller.received.is_empty());
        caller.hungry = true;
    });
    assert!(sut.receive() == message);
}

fn closing_server_sends_pending_output_first(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    assert_eq!(sut.call(Echo::CLOSE), Echo::CLOSE);
    assert_eq!(sut.wait_disconnected(), Disconnect::PeerClosed);
}

fn closing_client_sends_pending_output_first(over: Over) {
    let (sender, received) = std::sync::mpsc::channel();
    let rig = Rig::serving(over, collector(sender));
    let sut = rig.link();
    sut.wait_connected();
    let message = noise(300 << 10);
    sut.send(&message);
    sut.close(cut_off().unwrap());
    let bytes = received.recv_timeout(CUT_OFF).unwrap();
    assert!(
        bytes[4..] == message,
        "{} bytes of {}",
        bytes.len(),
        message.len() + 4
    );
}

fn lost_server_is_reported_with_the_cause(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    sut.call(b"hello");
    rig.stop();
    assert_eq!(sut.wait_disconnected(), Disconnect::PeerClosed);
    assert!(!sut.with(|caller, _, _| caller.connected));
}

fn client_reconnects_to_a_restarted_server(over: Over) {
    let mut rig = Rig::new(over);
    let sut = rig.link_of(Caller::redialling());
    sut.call(b"before");
    rig.stop();
    assert_eq!(sut.wait_disconnected(), Disconnect::PeerClosed);
    // At least one attempt is refused.
    let cause = sut.wait_disconnected();
    assert!(
        cause.to_string().contains("no program is listening there"),
        "{cause}"
    );
    rig.start();
    sut.wait_connected();
    assert_eq!(sut.call(b"after"), b"after");
    assert_eq!(sut.with(|caller, _, _| caller.connections), 2);
}

fn two_hundred_clients_are_served(over: Over) {
    let rig = Rig::new(over);
    let links: Vec<_> = (0..200).map(|_| rig.link()).collect();
    for (index, link) in links.iter().enumerate() {
        link.send(&index.to_le_bytes());
    }
    for (index, link) in links.iter().enumerate() {
        assert_eq!(link.receive(), index.to_le_bytes());
    }
    assert_eq!(rig.server().counters().sessions, 200);
}

fn a_session_ends_with_its_client(over: Over) {
    let rig = Rig::new(over);
    let other = rig.link();
    other.wait_connected();
    let sut = rig.link();
    sut.call(b"hello");
    assert_eq!(rig.server().counters().sessions, 2);
    drop(sut);
    while rig.server().counters().sessions > 1 {
        other.call(b"round trip");
    }
}

fn every_thread_waiting_on_a_link_gets_its_message(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    let take = |sut: &Link<Caller>, wanted: &[u8]| {
        sut.wait_until(cut_off(), |caller, _| {
            let at = caller
                .received
                .iter()
                .position(|message| message == wanted)?;
            caller.received.remove(at)
        })
        .expect("this thread's message")
    };
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let sut = &sut;
            scope.spawn(move || {
                for index in 0..1000u32 {
                    let message = [thread.to_le_bytes(), index.to_le_bytes()].concat();
                    sut.send(&message);
                    take(sut, &message);
                }
            });
        }
    });
}

fn a_closed_link_ends_every_wait(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    sut.wait_connected();
    let (sender, looked) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (sut, sender) = (&sut, sender.clone());
            scope.spawn(move || {
                let answer: Option<()> = sut.wait_until(None, |_, _| {
                    sender.send(()).unwrap();
                    None
                });
                assert_eq!(answer, None);
            });
        }
        for _ in 0..3 {
            looked.recv_timeout(CUT_OFF).unwrap();
        }
        sut.close(Clock::new().now());
    });
    assert!(sut.is_closed());
}

fn a_wait_ends_at_its_deadline(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    sut.wait_connected();
    let deadline = Clock::new().now().saturating_add(Duration::from_millis(20));
    let answer: Option<()> = sut.wait_until(Some(deadline), |_, _| None);
    assert_eq!(answer, None);
    assert!(Clock::new().now() >= deadline);
}

fn endpoint_timeout_fires_without_a_waiter(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    sut.call(b"hello");
    sut.with(|caller, now, _| caller.timeout = Some(now.saturating_add(Duration::from_millis(5))));
    let looked = std::iter::repeat_with(|| sut.with(|caller, _, _| caller.timeouts));
    let deadline = cut_off().unwrap();
    assert!(
        looked
            .take_while(|_| Clock::new().now() < deadline)
            .any(|timeouts| timeouts == 1)
    );
}

fn earlier_timeout_wakes_the_driving_thread(over: Over) {
    let rig = Rig::new(over);
    let sut = rig.link();
    sut.wait_connected();
    std::thread::scope(|scope| {
        let waiter = scope
            .spawn(|| sut.wait_until(cut_off(), |caller, _| (caller.timeouts == 1).then_some(())));
        sut.with(|caller, now, _| caller.timeout = Some(now));
        assert_eq!(waiter.join().unwrap(), Some(()));
    });
}

/// Sessions that collect their input and send it to `sender` when the client disconnects.
fn collector(sender: std::sync::mpsc::Sender<Vec<u8>>) -> Arc<dyn trunkline_net::SessionFactory> {
    use trunkline_net::{Notifier, Peer};
    use trunkline_proto::Endpoint;
    use trunkline_types::{Tick, Timestamp};

    struct Collector(Vec<u8>, std::sync::mpsc::Sender<Vec<u8>>);
    impl Endpoint for Collector {
        fn handle_connected(&mut self, _: Tick, _: Timestamp) {}
        fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
            self.0.extend(bytes);
        }
        fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, _: &mut Vec<u8>) -> bool {
            false
        }
        fn poll_timeout(&self) -> Option<Tick> {
            None
        }
        fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}
        fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {
            self.1.send(std::mem::take(&mut self.0)).unwrap();
        }
        fn wants_close(&self) -> Option<Disconnect> {
            None
        }
    }
    let sender = std::sync::Mutex::new(sender);
    Arc::new(move |_: Peer, _: Notifier| {
        let sender = sender.lock().unwrap().clone();
        Ok(Box::new(Collector(Vec::new(), sender)) as Box<dyn Endpoint>)
    })
}
