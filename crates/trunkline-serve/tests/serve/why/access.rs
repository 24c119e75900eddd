//! Tests faults on the path to a variable: the name, the connection, rights, and the library.

use trunkline_client::ClientOptions;
use trunkline_engine::{LeaseRequest, Rights, Wakes};
use trunkline_proto::message::why::WhyStage;
use trunkline_proto::{Disconnect, Endpoint, Negotiation, VersionRange};
use trunkline_serve::ServeOptions;
use trunkline_types::{Access, Moment};

use super::{NAME, Row, SECOND, another, ended, healthy, row, why, with, world_with, write_as};
use crate::rig::{Pair, client_options};

pub(super) const ROWS: &[Row] = &[
    // Resolution.
    row(
        "unknown name",
        || why(&mut healthy(), "rig/level"),
        WhyStage::Resolution,
        "no variable is named rig/level",
        "find",
    ),
    row(
        "a typing error",
        || why(&mut healthy(), "rjg/x"),
        WhyStage::Resolution,
        "no variable is named rjg/x",
        "try rig/x",
    ),
    row(
        "upper case",
        || why(&mut healthy(), "rig/X"),
        WhyStage::Resolution,
        "upper and lower case differ",
        "try rig/x",
    ),
    row(
        "a name that is none",
        || why(&mut healthy(), "rig//x"),
        WhyStage::Resolution,
        "",
        "correct the name",
    ),
    row(
        "host without address",
        || {
            let (host, text) = ("nowhere".to_owned(), "not known".to_owned());
            ended(healthy(), Disconnect::NameLookup { host, text })
        },
        WhyStage::Resolution,
        "\"nowhere\" has no address",
        "check the spelling",
    ),
    // Connection.
    row(
        "nobody listens there",
        || {
            let kind = std::io::ErrorKind::ConnectionRefused;
            ended(
                healthy(),
                Disconnect::Io {
                    kind,
                    text: "refused".to_owned(),
                },
            )
        },
        WhyStage::Connection,
        "stale",
        "start the engine",
    ),
    row(
        "the engine is silent",
        || {
            let mut pair = healthy();
            let id = pair.subscribe(&[NAME], "latest");
            pair.events(id);
            // The other end stalls, so nothing arrives and no error is reported.
            pair.session = None;
            for _ in 0..100 {
                pair.world.advance(SECOND / 10);
                let (now, wall) = pair.world.time();
                pair.client.handle_timeout(now, wall);
            }
            let cause = pair.client.wants_close().expect("it has noticed");
            let (now, _) = pair.world.time();
            pair.client.handle_disconnected(now, cause);
            why(&mut pair, NAME)
        },
        WhyStage::Connection,
        "nothing arrived from the peer for",
        "has stalled",
    ),
    row(
        "the connection was cut",
        || ended(healthy(), Disconnect::PeerClosed),
        WhyStage::Connection,
        "s old, and stale",
        "stopped or killed",
    ),
    row(
        "the program there is none of ours",
        || {
            let world = world_with(|_| {});
            let mut pair = Pair::offline(&world, ServeOptions::default(), client_options());
            let (now, wall) = world.time();
            pair.client.handle_connected(now, wall);
            pair.client
                .handle_input(now, wall, b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let cause = pair.client.wants_close().expect("it has noticed");
            pair.client.handle_disconnected(now, cause);
            why(&mut pair, NAME)
        },
        WhyStage::Connection,
        "does not speak Trunkline's protocol",
        "check the host and the port",
    ),
    row(
        "versions that do not meet",
        || {
            let world = world_with(|_| {});
            let negotiation = Negotiation {
                versions: VersionRange { min: 200, max: 201 },
                ..Negotiation::OURS
            };
            let options = ClientOptions {
                negotiation,
                ..client_options()
            };
            let mut pair = Pair::offline(&world, ServeOptions::default(), options);
            pair.connect();
            why(&mut pair, NAME)
        },
        WhyStage::Version,
        "200",
        "update",
    ),
    // Rights.
    row(
        "the variable is write-only",
        || why(&mut with(|p| p.access = Access::WriteOnly), NAME),
        WhyStage::Rights,
        "write-only",
        "change its `access`",
    ),
    row(
        "the caller may not read",
        || {
            let world = world_with(|_| {});
            world.permit(Rights::NONE);
            why(&mut Pair::on(&world), NAME)
        },
        // The variable does not exist for the caller (B-82).
        WhyStage::Resolution,
        "no variable is named rig/x",
        "find",
    ),
    row(
        "a write to a read-only variable",
        || {
            let mut pair = with(|p| p.access = Access::ReadOnly);
            let x = pair.variable(NAME);
            pair.write([(x, 2.0)]);
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "read-only",
        "to make it writable, change `access` in its configuration",
    ),
    row(
        "leased by another",
        || {
            let mut pair = healthy();
            let (other, x) = (another(&pair.world), pair.variable(NAME));
            let engine = pair.world.engine();
            let handle = engine.resolve(&other, NAME).unwrap().handle();
            let request = LeaseRequest::acquire(60 * SECOND);
            let ((now, wall), wakes) = (pair.world.time(), &mut Wakes::new());
            let (leases, moment) = (engine.leases(), Moment { now, wall });
            leases
                .request(&other, moment, handle, request, wakes)
                .unwrap();
            pair.write([(x, 2.0)]);
            why(&mut pair, NAME)
        },
        WhyStage::Rights,
        "leased by",
        "lease",
    ),
    row(
        "another is its single writer",
        || {
            let mut pair = with(|p| p.single_writer = true);
            let (other, x) = (another(&pair.world), pair.variable(NAME));
            write_as(&pair.world, &other, 5.0);
            pair.write([(x, 2.0)]);
            why(&mut pair, NAME)
        },
        WhyStage::Rights,
        "single writer",
        "takes over",
    ),
    // Library.
    row(
        "its library was never deployed",
        || why(&mut healthy(), "boiler/level"),
        WhyStage::Library,
        "library boiler is not deployed",
        "trunkline deploy boiler.toml",
    ),
    row(
        "its library was undeployed",
        || {
            let mut pair = healthy();
            pair.world.undeploy("rig");
            why(&mut pair, NAME)
        },
        WhyStage::Library,
        "library rig is not deployed",
        "trunkline deploy rig.toml",
    ),
    row(
        "its library is stopped",
        || {
            let mut pair = healthy();
            let (now, wall) = pair.world.time();
            pair.world
                .engine()
                .libraries()
                .stop("rig", now, wall, &mut Wakes::new())
                .unwrap();
            why(&mut pair, NAME)
        },
        WhyStage::Library,
        "library rig is stopped",
        "trunkline library start rig",
    ),
];
