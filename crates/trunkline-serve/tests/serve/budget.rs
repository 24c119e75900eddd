//! Tests the memory budget for the requests and items of all clients.

use std::sync::Arc;
use std::time::Duration;

use trunkline_engine::{Administrator, Caller, Order, Reply};
use trunkline_proto::frame::split_oversized;
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::message::library::{DeployBuilder, DeployHead};
use trunkline_proto::message::open::{OpenBuilder, OpenOptions, OpenTerms, Opened};
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_proto::{Disconnect, FaultCode, FrameKind, FrameWriter};
use trunkline_serve::{RequestBudget, ServeOptions};
use trunkline_types::{Contract, DataType, VariableDefinition};

use crate::rig::{Heard, Pair, Peer, World, f64_variable};

const MIB: usize = 1 << 20;

/// Accepts orders and stores them without an answer.
#[derive(Default)]
struct Host(std::sync::Mutex<Vec<(Order, Reply)>>);

impl Administrator for Host {
    fn submit(&self, _: &Caller, order: Order, reply: Reply) {
        self.0.lock().unwrap().push((order, reply));
    }
}

fn budget_of(max: usize) -> (ServeOptions, Arc<RequestBudget>) {
    let requests = Arc::new(RequestBudget::new(max));
    let options = ServeOptions {
        requests: Arc::clone(&requests),
        administrator: Some(Arc::new(Host::default())),
        ..ServeOptions::default()
    };
    (options, requests)
}

fn greeted(world: &World, options: &ServeOptions) -> Peer {
    let mut peer = Peer::with(world, options.clone());
    peer.say(|out| Hello::default().encode(out));
    peer
}

fn faults(peer: &Peer) -> Vec<FaultCode> {
    let codes = peer.frames(|frame| {
        let fault = FaultMessage::decode(frame).ok()?;
        Some(fault.fault.to_fault().code)
    });
    codes.into_iter().flatten().collect()
}

/// Appends a DEPLOY frame with about a page of variables with short names.
fn deploy(out: &mut Vec<u8>, request: u32, page: usize, more: bool) {
    let head = DeployHead {
        library: "large",
        description: "",
        replace: true,
    };
    let mut frame = DeployBuilder::begin(out, request, &head);
    for n in 0..2000 {
        let path = format!("{}", page * 2000 + n);
        frame.push(&VariableDefinition::new(&path, DataType::F64));
    }
    frame.finish(more);
}

#[test]
fn endless_deploy_is_refused_at_the_bound_and_releases_its_memory() {
    let (options, requests) = budget_of(8 * MIB);
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let mut peer = greeted(&world, &options);
    let mut most = 0;
    for page in 0..100 {
        peer.say(|out| deploy(out, 7, page, true));
        most = most.max(requests.used());
    }
    assert!(most > MIB, "{most} bytes were counted");
    assert!(most <= 4 * MIB, "one session has half of them, not {most}");
    assert_eq!(requests.used(), 0, "what is refused is not kept");
    peer.say(|out| deploy(out, 7, 100, false));
    assert_eq!(faults(&peer), [FaultCode::MemoryFull]);
    // No other client is affected.
    let mut bystander = Pair::on(&world);
    let x = bystander.variable("rig/x");
    assert_eq!(bystander.write([(x, 1.0)]).len(), 1);
}

#[test]
fn an_order_counts_until_its_host_has_answered_it() {
    let (mut options, requests) = budget_of(64 * MIB);
    let host = Arc::new(Host::default());
    options.administrator = Some(host.clone());
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let mut peer = greeted(&world, &options);
    peer.say(|out| deploy(out, 7, 0, false));
    let counted = requests.used();
    assert!(
        counted > 2000 * size_of::<VariableDefinition>(),
        "{counted}"
    );
    // After the session has ended, the host still has the library.
    drop(peer);
    assert_eq!(requests.used(), counted);
    host.0.lock().unwrap().clear();
    assert_eq!(requests.used(), 0);
}

#[test]
fn the_next_frame_of_a_request_has_a_deadline() {
    type Begin = fn(&mut Vec<u8>);
    let begins: [Begin; 2] = [
        |out| deploy(out, 7, 0, true),
        |out| {
            let mut frame = OpenBuilder::begin(out, 7, &OpenTerms::default());
            frame.push(&&b"rig/x"[..]);
            frame.finish(true);
        },
    ];
    for begin in begins {
        let (options, requests) = budget_of(64 * MIB);
        let world = World::with_library("rig", vec![f64_variable("x")]);
        let mut peer = greeted(&world, &options);
        peer.say(begin);
        // The peer sends keep-alives, but no further frame of the request.
        for _ in 0..11 {
            world.advance(Duration::from_secs(1));
            peer.say(|out| Keepalive::default().encode(out));
            peer.time_out();
        }
        let cause = peer.cause();
        assert!(
            matches!(
                cause,
                Disconnect::Slow {
                    what: "request",
                    ..
                }
            ),
            "{cause:?}"
        );
        assert_eq!(requests.used(), 0);
    }
}

/// Five peers each send almost 2 MiB of a message in parts, but the budget is 8 MiB.
#[test]
fn messages_in_parts_of_all_clients_together_are_bounded() {
    let (options, requests) = budget_of(8 * MIB);
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let mut whole = Vec::new();
    let mut frame = FrameWriter::begin(&mut whole, FrameKind::Write, 0);
    frame.payload().resize(4 * MIB, 0);
    frame.finish(false);
    split_oversized(&mut whole, 0, 64 << 10);
    let mut peers: Vec<_> = (0..5).map(|_| greeted(&world, &options)).collect();
    let mut ended = [false; 5];
    for piece in whole[..2 * MIB - (128 << 10)].chunks(64 << 10) {
        for (peer, ended) in peers.iter_mut().zip(&mut ended) {
            if !*ended {
                peer.send(piece);
                peer.take();
                *ended = peer.kinds().contains(&FrameKind::Goodbye);
            }
            assert!(requests.used() <= 8 * MIB, "{}", requests.used());
        }
    }
    let gone = ended.iter().filter(|ended| **ended).count();
    assert!((1..5).contains(&gone), "{ended:?}");
    for (peer, _) in peers.iter().zip(ended).filter(|(_, ended)| *ended) {
        let Heard::Goodbye(goodbye) = peer.last() else {
            panic!("{:?}", peer.last())
        };
        assert_eq!(goodbye.code, FaultCode::MemoryFull);
        assert!(goodbye.retry_after.is_some(), "{goodbye:?}");
    }
    drop(peers);
    assert_eq!(requests.used(), 0);
}

#[test]
fn items_beyond_the_memory_are_refused_one_by_one() {
    let (options, requests) = budget_of(MIB);
    let variables = (0..5000).map(|n| f64_variable(&format!("v{n}"))).collect();
    let world = World::with_library("rig", variables);
    let mut peer = greeted(&world, &options);
    for page in 0..5 {
        peer.say(|out| {
            let terms = OpenTerms {
                options: OpenOptions::default(),
                subscribe: Some(SubscribeTerms {
                    subscription: 1,
                    contract: Contract::Latest,
                    flags: SubscribeFlags::NONE,
                }),
            };
            let mut frame = OpenBuilder::begin(out, page + 1, &terms);
            (0..1000).for_each(|n| frame.push(&format!("rig/v{}", page * 1000 + n).as_bytes()));
            frame.finish(false);
        });
    }
    let (mut made, mut refused) = (0, 0);
    peer.frames(|frame| {
        if frame.kind() == Some(FrameKind::Opened) {
            for item in Opened::decode(frame).unwrap() {
                match item.unwrap() {
                    Ok(_) => made += 1,
                    Err(fault) => {
                        assert_eq!(fault.to_fault().code, FaultCode::MemoryFull);
                        refused += 1;
                    }
                }
            }
        }
    });
    assert_eq!(made + refused, 5000);
    assert!((2000..2400).contains(&made), "{made} items in half a MiB");
    assert!(requests.used() <= MIB / 2);
    assert_eq!(requests.refusals(), refused);
    drop(peer);
    assert_eq!(requests.used(), 0);
}

/// A list in several frames is refused as a whole: its later frames are not answered.
#[test]
fn a_request_without_memory_is_refused_once_and_the_next_one_is_served() {
    let (options, requests) = budget_of(MIB);
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let mut peer = greeted(&world, &options);
    let page = |out: &mut Vec<u8>, request, names: usize, more| {
        let mut frame = OpenBuilder::begin(out, request, &OpenTerms::default());
        (0..names).for_each(|_| frame.push(&&b"rig/x"[..]));
        frame.finish(more);
    };
    peer.say(|out| {
        page(out, 7, 60_000, true);
        page(out, 7, 10, true);
        page(out, 7, 10, false);
        page(out, 8, 1, false);
    });
    assert_eq!(faults(&peer), [FaultCode::MemoryFull]);
    let opened = peer.frames(|frame| {
        (frame.kind() == Some(FrameKind::Opened)).then(|| (frame.request(), frame.count()))
    });
    let opened: Vec<_> = opened.into_iter().flatten().collect();
    assert_eq!(opened, [(8, 1)]);
    assert_eq!(requests.used(), 0);
}
