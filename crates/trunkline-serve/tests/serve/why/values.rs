//! Tests faults of a variable's value: the source, and the filters of updates.

use trunkline_client::SubscribeOptions;
use trunkline_engine::{Origin, Wakes, Write as EngineWrite, WriteVerb};
use trunkline_proto::message::why::WhyStage;
use trunkline_types::{Contract, DataType, Properties, Reason, Scaling, Value};

use super::{NAME, Row, SECOND, healthy, of_plc, provided, requote, row, why, with, world_with};
use crate::rig::{Pair, define};

pub(super) const ROWS: &[Row] = &[
    // Source.
    row(
        "no I/O server serves its source",
        || why(&mut with(of_plc), NAME),
        WhyStage::Source,
        "plc:level is not served",
        "[[io]]",
    ),
    row(
        "its provider process is gone",
        || {
            let (mut pair, _, id) = provided(|_| {});
            let (now, wall) = pair.world.time();
            let reason = Reason::ProviderGone;
            pair.world
                .engine()
                .providers()
                .detach(id, reason, now, wall, &mut Wakes::new());
            why(&mut pair, NAME)
        },
        WhyStage::Source,
        "plc is not running",
        "start",
    ),
    row(
        "its driver fails",
        || {
            let (mut pair, plc, id) = provided(|_| {});
            *plc.0.lock().unwrap() = Some("line 3 is broken".to_owned());
            requote(&pair.world, id, Reason::DeviceFailure);
            why(&mut pair, NAME)
        },
        WhyStage::Source,
        "line 3 is broken",
        "correct this error",
    ),
    row(
        "its source says that the value is bad",
        || {
            let (mut pair, _, id) = provided(|_| {});
            requote(&pair.world, id, Reason::SensorFailure);
            why(&mut pair, NAME)
        },
        WhyStage::Source,
        "its value is bad: sensor-failure",
        "check I/O server plc and its device",
    ),
    row(
        "a raw value that cannot be scaled",
        || {
            let scaling = Scaling::SquareRoot {
                raw: [0.0, 10.0],
                eng: [0.0, 100.0],
            };
            let (mut pair, ..) = provided(|p| p.scaling = Some(scaling));
            let raw = Value::F64(-5.0);
            let mut write = EngineWrite::value(&raw);
            write.origin = Origin::SourceRaw;
            pair.world.try_write(NAME, &write);
            why(&mut pair, NAME)
        },
        WhyStage::Source,
        "outside the range of square root scaling",
        "correct its `scale`",
    ),
    row(
        "nothing was ever written",
        || why(&mut Pair::on(&world_with(|_| {})), NAME),
        WhyStage::Source,
        "nothing has been written",
        "write it once",
    ),
    row(
        "its source fell silent",
        || {
            let mut pair = with(|p| p.max_age = Some(2 * SECOND));
            pair.pass(5 * SECOND);
            why(&mut pair, NAME)
        },
        WhyStage::Source,
        "longer ago than its max_age of 2s",
        "check whether its last writer is still running",
    ),
    row(
        "an alias of what is not there",
        || {
            let world = world_with(|p| p.alias = "plant/x".to_owned());
            why(&mut Pair::on(&world), NAME)
        },
        WhyStage::Source,
        "the target plant/x does not exist",
        "deploy its target",
    ),
    row(
        "an alias of an alias whose target is stopped",
        || {
            let world = world_with(|p| p.alias = "mid/x".to_owned());
            let alias = |p: &mut Properties| p.alias = "far/x".to_owned();
            world.deploy("far", vec![define("x", DataType::F64, |_| {})]);
            world.deploy("mid", vec![define("x", DataType::F64, alias)]);
            world.set("far/x", 1.0);
            let (now, wall) = world.time();
            world
                .engine()
                .libraries()
                .stop("far", now, wall, &mut Wakes::new())
                .unwrap();
            why(&mut Pair::on(&world), NAME)
        },
        WhyStage::Source,
        "library far is stopped",
        "library start far",
    ),
    // Filter.
    row(
        "somebody forces it",
        || {
            let (mut pair, ..) = provided(|_| {});
            let held = Value::F64(7.0);
            let mut force = EngineWrite::value(&held);
            force.verb = WriteVerb::Force;
            pair.world.try_write(NAME, &force);
            pair.world.publish(NAME, &Value::F64(2.0));
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "it is forced by",
        "trunkline unforce rig/x",
    ),
    row(
        "a deadband wider than the changes",
        || {
            let mut pair = with(|p| {
                p.deadband.user_percent = 50.0;
                p.range = Some((0.0, 100.0));
            });
            (0..10).for_each(|n| pair.world.set(NAME, f64::from(n)));
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "within the deadband",
        "50 %",
    ),
    row(
        "values outside its range",
        || {
            let mut pair = with(|p| p.range = Some((0.0, 10.0)));
            let x = pair.variable(NAME);
            pair.write([(x, 11.0)]);
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "outside the range 0 to 10",
        "write a value within it",
    ),
    row(
        "a subscription to other values only",
        || {
            let mut pair = healthy();
            let options = SubscribeOptions {
                only_changes: true,
                ..SubscribeOptions::default()
            };
            let id = pair.subscribe_with(&[NAME], Contract::Last(10), options);
            pair.events(id);
            (0..5).for_each(|_| pair.world.set(NAME, 1.0));
            pair.exchange();
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "the last 5 updates repeated",
        "subscribe to every update",
    ),
    row(
        "a period longer than the changes",
        || {
            let mut pair = healthy();
            let id = pair.subscribe(&[NAME], "sampled:1m");
            pair.events(id);
            pair.world.set(NAME, 2.0);
            pair.pass(SECOND);
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "samples once every 60s",
        "shorter period",
    ),
];
