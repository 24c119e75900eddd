//! Tests faults after a variable: the buffers of its subscriptions, and the programs that take updates from
//! them.

use std::sync::{Arc, Mutex};

use trunkline_client::{ClientOptions, SubscribeOptions, Write};
use trunkline_engine::{Engine, EngineOptions};
use trunkline_proto::message::why::WhyStage;
use trunkline_serve::ServeOptions;
use trunkline_types::{Access, DataType, Tick, Value};

use super::{
    NAME, Plc, Row, SECOND, all, behind, healthy, of_plc, row, untaken, why, with, world_with,
};
use crate::rig::{Pair, World, client_options, define};

pub(super) const ROWS: &[Row] = &[
    // Buffer.
    row(
        "last:n drops its oldest",
        || behind("last:3"),
        WhyStage::Buffer,
        "`last:3` buffer was full: 47 of 51",
        "larger buffer",
    ),
    row(
        "first:n drops its newest",
        || behind("first:3"),
        WhyStage::Buffer,
        "`first:3` buffer was full: 47 of 51",
        "larger buffer",
    ),
    row(
        "all reaches its bound",
        || behind("all:3"),
        WhyStage::Buffer,
        "has reached its bound",
        "larger bound",
    ),
    row(
        "an overrun that nobody reopens",
        || {
            let mut pair = healthy();
            let options = SubscribeOptions {
                reopen: false,
                ..SubscribeOptions::default()
            };
            let id = pair.subscribe_with(&[NAME], all(2), options);
            pair.events(id);
            (0..5).for_each(|n| pair.world.set(NAME, f64::from(n)));
            pair.exchange();
            pair.events(id);
            why(&mut pair, NAME)
        },
        WhyStage::Buffer,
        "has ended with `overrun`",
        "subscribe again",
    ),
    row(
        "the engine's memory is full",
        || {
            let mut options = EngineOptions::new("sut", 7);
            options.queue_bytes_max = 200_000;
            let world = World::of(Engine::new(options));
            world.deploy("rig", vec![define("x", DataType::F64, |_| {})]);
            world.set(NAME, 1.0);
            let mut stopped = Pair::on(&world);
            stopped.subscribe(&[NAME], "all:100000");
            stopped.capacity = 0;
            (0..5000).for_each(|n| world.set(NAME, f64::from(n)));
            let mut pair = Pair::on(&world);
            let id = pair.subscribe(&[NAME], "last:5");
            let told = format!("{:?}", pair.events(id));
            assert!(
                told.contains("MemoryFull") && told.contains("queue_bytes_max"),
                "{told}"
            );
            why(&mut pair, NAME)
        },
        WhyStage::Buffer,
        "memory is full",
        "queue_bytes_max",
    ),
    row(
        "a subscriber holds writers up",
        || {
            let mut pair = with(|p| p.stall = 60 * SECOND);
            let mut slow = Pair::on(&pair.world);
            slow.subscribe_with(&[NAME], all(2), SubscribeOptions::default());
            slow.capacity = 0;
            let x = pair.variable(NAME);
            let writes = (0..5).map(|n| Write::new(x, Value::F64(f64::from(n))));
            pair.client.write_untracked(writes, Tick::MAX).unwrap();
            pair.exchange();
            // Requests behind the waiting write are not carried out, but this one is answered.
            why(&mut pair, NAME)
        },
        WhyStage::Buffer,
        "writes wait up to 60s",
        "take their updates",
    ),
    // Consumer.
    row(
        "the client confirms nothing",
        || {
            let world = world_with(|_| {});
            world.set(NAME, 0.0);
            let options = ClientOptions {
                window_records: 4,
                ..client_options()
            };
            let mut pair = Pair::offline(&world, ServeOptions::default(), options);
            pair.connect();
            let id = pair.subscribe(&[NAME], "latest");
            pair.events(id);
            pair.settle();
            // The program sends a request, and does not read the answer.
            let request = pair.client.why(NAME).unwrap();
            for n in 0..4 {
                pair.world.set(NAME, f64::from(n));
                pair.turn_of_session();
            }
            pair.client_sends();
            pair.turn_of_session();
            pair.answer(request).unwrap()
        },
        WhyStage::Consumer,
        "not confirmed",
        "your program",
    ),
    row(
        "the program takes nothing (latest)",
        || untaken("latest", 5),
        WhyStage::Consumer,
        "wait for this program",
        "have the program take",
    ),
    row(
        "the program takes nothing (last)",
        || untaken("last:3", 9),
        WhyStage::Consumer,
        "dropped",
        "have the program take",
    ),
    row(
        "the write credit is used up",
        || {
            let world = world_with(|p| {
                of_plc(p);
                p.access = Access::ReadWrite;
            });
            let plc = Arc::new(Plc(Mutex::new(None)));
            let _id = world
                .engine()
                .providers()
                .attach_source(plc as Arc<_>)
                .unwrap();
            world.publish(NAME, &Value::F64(1.0));
            let serve = ServeOptions {
                write_credit_count: 2,
                ..ServeOptions::default()
            };
            let mut pair = Pair::offline(&world, serve, client_options());
            pair.connect();
            let x = pair.variable(NAME);
            let writes = (0..5).map(|n| Write::new(x, Value::F64(f64::from(n))));
            pair.client.write_untracked(writes, Tick::MAX).unwrap();
            pair.exchange();
            why(&mut pair, NAME)
        },
        WhyStage::Consumer,
        "the credit is used up",
        "find out what delays",
    ),
];
