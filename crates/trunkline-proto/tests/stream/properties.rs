//! Under any network faults: nothing is lost, duplicated or reordered, the buffers stay within
//! their bounds, and the results of flush and close are true.

use proptest::prelude::*;
use trunkline_proto::stream::Until;

use crate::rig::{SIZE, World, ms, options, varying};

/// The next event.
#[derive(Clone, Debug)]
enum Event {
    Write(u64),
    Read(u64),
    Run(u64),
    Cut,
    Heal,
    /// The connections stall silently.
    Freeze,
    /// One end silently stops receiving.
    HalfOpen(bool),
    /// Data in transit to one end arrives later, perhaps after that of a later connection.
    HoldUp(bool, u64),
    /// A byte in transit to one end is altered.
    Alter(bool, usize),
    Flush(Until),
    Pieces(usize),
}

fn until() -> impl Strategy<Value = Until> {
    prop_oneof![Just(Until::Sent), Just(Until::Available), Just(Until::Read)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..9_u64).prop_map(Event::Write),
        6 => (1..9_u64).prop_map(Event::Read),
        4 => (0..4_u64).prop_map(Event::Run),
        2 => (0..9000_u64).prop_map(Event::Run),
        1 => Just(Event::Cut),
        1 => Just(Event::Heal),
        1 => Just(Event::Freeze),
        1 => any::<bool>().prop_map(Event::HalfOpen),
        1 => (any::<bool>(), 0..9000_u64).prop_map(|(to, by)| Event::HoldUp(to, by)),
        2 => until().prop_map(Event::Flush),
        1 => (1..40_usize).prop_map(Event::Pieces),
    ]
}

/// Like [`event`], and altered bytes.
fn event_with_errors() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => event(),
        1 => (0..60_usize).prop_map(|at| Event::Alter(true, at)),
        1 => (0..60_usize).prop_map(|at| Event::Alter(false, at)),
    ]
}

fn apply(world: &mut World, event: &Event, asked: &mut Vec<(Until, u64)>) {
    act(world, event, asked);
    check(world, asked);
}

fn act(world: &mut World, event: &Event, asked: &mut Vec<(Until, u64)>) {
    match *event {
        Event::Write(count) => _ = world.write(count),
        Event::Read(count) => _ = world.read(count.min(world.reader.fill())),
        Event::Run(time) => world.run(ms(time)),
        Event::Cut => world.cut(),
        Event::Heal => world.heal(),
        Event::Freeze => world.net.freeze(),
        Event::HalfOpen(active) => world.net.half_open(active),
        Event::HoldUp(to_active, time) => world.net.hold_up(to_active, ms(time)),
        Event::Alter(to_active, at) => world.net.alter(to_active, at),
        Event::Flush(until) => asked.push((until, world.writer.link.flush(until))),
        Event::Pieces(len) => world.net.piece = len,
    }
}

/// The invariants at any time.
fn check(world: &World, asked: &[(Until, u64)]) {
    let (writer, reader) = (&world.writer, &world.reader);
    assert!(
        writer.link.freed() <= reader.link.arrived(),
        "freed and not there"
    );
    assert!(writer.fill() <= writer.link.options().capacity);
    assert!(reader.fill() <= reader.link.options().capacity);
    for &(until, position) in asked {
        if writer.link.is_reached(until, position) {
            let at = match until {
                Until::Read => reader.read,
                Until::Available => reader.link.arrived(),
                _ => position,
            };
            assert!(at >= position, "{until:?} of {position} is said at {at}");
        }
    }
    assert_eq!((writer.link.fault(), reader.link.fault()), (None, None));
}

/// Everything heals, and everything that was written is read.
fn settle(world: &mut World, asked: &[(Until, u64)]) {
    world.heal();
    let mut idle = 0;
    while world.reader.next * SIZE < world.writer.written {
        let fill = world.reader.fill();
        assert!(world.read(fill));
        idle = if fill == 0 { idle + 1 } else { 0 };
        assert!(
            idle < 100,
            "it stands still at element {}",
            world.reader.next
        );
        world.run(ms(200));
        check(world, asked);
    }
    world.run(ms(20_000));
    for &(until, position) in asked {
        assert!(world.writer.link.is_reached(until, position), "{until:?}");
    }
    assert_eq!(world.fills(), (0, 0));
}

proptest! {
    /// Behaviour: NS-01, NS-42, NS-43, NS-44, NS-60, NS-61, NS-62, NS-66, NS-67, NS-68.
    #[test]
    fn nothing_is_lost_duplicated_or_reordered(
        writer_dials: bool,
        sizes in (1..20_u64, 1..20_u64),
        is_leaky: bool,
        events in prop::collection::vec(event(), 1..80),
    ) {
        let mut world = World::new(sizes.0, sizes.1, writer_dials);
        world.net.is_leaky = is_leaky;
        let mut asked = Vec::new();
        events.iter().for_each(|event| apply(&mut world, event, &mut asked));
        settle(&mut world, &asked);
    }

    #[test]
    fn altered_bytes_of_the_stream_are_found_by_their_checksum(
        writer_dials: bool,
        events in prop::collection::vec(event(), 1..60),
        alter in prop::collection::vec((any::<prop::sample::Index>(), 0..8_usize), 1..4),
    ) {
        let (mut w, r) = options(10, 10, writer_dials);
        w.is_checked = true;
        let mut world = World::with(w, r);
        world.run(ms(10));
        let mut asked = Vec::new();
        for (number, event) in events.iter().enumerate() {
            // Just after bytes of the stream have left, the last of which is their last element.
            if let Some((_, at)) = alter.iter().find(|(i, _)| i.index(events.len()) == number)
                && world.write(1)
            {
                let handed = world.writer.link.handed();
                world.pump();
                if world.writer.link.handed() > handed {
                    world.net.alter(!writer_dials, *at);
                }
            }
            apply(&mut world, event, &mut asked);
        }
        settle(&mut world, &asked);
    }

    /// Frames altered anywhere may end connections, or the stream with a fault, but never panic nor
    /// give away more than the buffers hold.
    #[test]
    fn frames_altered_anywhere_do_no_harm(
        writer_dials: bool,
        events in prop::collection::vec(event_with_errors(), 1..80),
    ) {
        let (mut w, r) = options(10, 10, writer_dials);
        w.is_checked = true;
        let mut world = World::with(w, r);
        world.net.is_forgiving = true;
        for event in &events {
            match event {
                Event::Read(_) => {}
                event => {
                    if let Event::Alter(..) = event {
                        world.pump();
                    }
                    act(&mut world, event, &mut Vec::new());
                }
            }
            prop_assert!(world.reader.fill() <= 10);
            prop_assert!(world.writer.fill() <= 10);
        }
    }

    #[test]
    fn elements_that_vary_keep_both_bounds(
        writer_dials: bool,
        sizes in (1..8_u64, 24..80_u64, 1..8_u64, 24..80_u64),
        is_checked: bool,
        steps in prop::collection::vec((0..20_usize, event()), 1..80),
    ) {
        let (w, r) = options(1, 1, writer_dials);
        let mut w = varying(w, sizes.0, sizes.1);
        w.is_checked = is_checked;
        let mut world = World::with(w, varying(r, sizes.2, sizes.3));
        for (len, event) in steps {
            match event {
                Event::Write(count) => for _ in 0..count { world.writer.write_varying(len); },
                Event::Read(count) => for _ in 0..count { world.reader.read_varying(); },
                event => apply(&mut world, &event, &mut Vec::new()),
            }
            prop_assert!(world.reader.fill() <= sizes.2);
        }
        world.heal();
        let mut idle = 0;
        while world.reader.read_elements < world.writer.ends.len() as u64 {
            idle = if world.reader.read_varying() { 0 } else { idle + 1 };
            prop_assert!(idle < 100, "it stands still at {}", world.reader.read_elements);
            world.run(ms(200));
        }
    }

    /// Behaviour: NS-40, NS-45, NS-47.
    #[test]
    fn close_reports_what_the_reader_lacks(
        writer_dials: bool,
        sizes in (1..20_u64, 1..20_u64),
        events in prop::collection::vec(event(), 1..40),
        patience in 0..40_u64,
        is_healed: bool,
    ) {
        let mut world = World::new(sizes.0, sizes.1, writer_dials);
        let mut asked = Vec::new();
        events.iter().for_each(|event| apply(&mut world, event, &mut asked));
        world.writer.link.close();
        if is_healed {
            world.heal();
        }
        world.run(ms(patience));
        let is_whole = world.writer.link.is_closed();
        if !is_whole {
            world.writer.link.abort("a test");
            world.run(ms(10));
        }
        let left = world.writer.left();
        let lacking = (world.writer.written - world.reader.link.arrived()) / SIZE;
        if world.writer.link.is_closed() && left.in_doubt == 0 {
            prop_assert_eq!(left.elements, lacking);
            prop_assert!(!is_whole || lacking == 0);
        } else {
            prop_assert!(!is_whole);
            prop_assert!((left.elements - left.in_doubt..=left.elements).contains(&lacking));
        }
        // The reader reads everything that it has.
        while world.reader.fill() > 0 {
            prop_assert!(world.read(1));
        }
        prop_assert_eq!(world.reader.next, world.reader.link.arrived() / SIZE);
    }
}
