//! Endpoints with journals are killed and restarted: nothing is lost or duplicated.

use proptest::prelude::*;
use trunkline_proto::FaultCode;
use trunkline_proto::message::stream::{ReaderState, WriterState};
use trunkline_proto::stream::{Link, LinkOptions, StreamFault, Until, lineage};

use crate::rig::{ReaderEnd, SIZE, World, WriterEnd, keep_pair, ms, options};

#[derive(Clone, Debug)]
enum Event {
    Write(u64),
    Read(u64),
    /// The reader's program has stored the elements that it has read.
    Sync,
    Run(u64),
    Cut,
    Heal,
    /// The program is killed and restarted. The other end is notified, or is not.
    KillWriter(bool),
    KillReader(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..9_u64).prop_map(Event::Write),
        6 => (1..9_u64).prop_map(Event::Read),
        3 => Just(Event::Sync),
        4 => (0..4_u64).prop_map(Event::Run),
        2 => (0..9000_u64).prop_map(Event::Run),
        1 => Just(Event::Cut),
        1 => Just(Event::Heal),
        1 => any::<bool>().prop_map(Event::KillWriter),
        1 => any::<bool>().prop_map(Event::KillReader),
    ]
}

/// Two endpoints and the content of their journals: that of the writer has everything written, that
/// of the reader its state at the last store.
struct Journaled {
    world: World,
    options: (LinkOptions, LinkOptions),
    stored: u64,
    lives: u8,
}

impl Journaled {
    fn new(writer: u64, reader: u64, writer_dials: bool) -> Self {
        let (mut w, mut r) = options(writer, reader, writer_dials);
        (w.has_journal, r.has_journal) = (true, true);
        w.freed_at = Until::Durable;
        Self {
            world: World::with(w.clone(), r.clone()),
            options: (w, r),
            stored: 0,
            lives: 2,
        }
    }

    fn lose_connections(&mut self, is_told: bool) {
        match is_told {
            true => self.world.cut(),
            false => self.world.net.freeze(),
        }
        self.world.heal();
        self.lives += 1;
    }

    fn kill_writer(&mut self, is_told: bool) {
        self.lose_connections(is_told);
        let world = &mut self.world;
        let at = WriterState {
            kept: world.writer.link.freed(),
            kept_elements: world.writer.link.freed_elements(),
            written: world.writer.written,
        };
        let mut options = self.options.0.clone();
        options.incarnation.0[0] = self.lives;
        keep_pair(&mut options, &world.writer.link);
        let link = Link::restored_writer(options, at, world.now);
        world.writer = WriterEnd::restored(link, at);
    }

    fn kill_reader(&mut self, is_told: bool) {
        self.lose_connections(is_told);
        let elements = self.stored / SIZE;
        let at = ReaderState {
            arrived: self.stored,
            arrived_elements: elements,
            read: self.stored,
            durable: self.stored,
            ..ReaderState::default()
        };
        let mut options = self.options.1.clone();
        options.incarnation.0[0] = self.lives;
        keep_pair(&mut options, &self.world.reader.link);
        let link = Link::restored_reader(options, at, elements, self.world.now);
        self.world.reader = ReaderEnd::restored(link);
    }

    fn sync(&mut self) {
        self.stored = self.world.reader.read;
        self.world.reader.link.handle_durable(self.stored);
    }

    fn check(&self) {
        let (writer, reader) = (&self.world.writer, &self.world.reader);
        assert!(writer.link.freed() <= self.stored, "freed and not stored");
        assert!(writer.fill() <= writer.link.options().capacity);
        assert_eq!((writer.link.fault(), reader.link.fault()), (None, None));
    }
}

/// A disk that loses confirmed data: the writer restarts with less than its reader has stored, and
/// is dialled by it. Both get an error with the difference. Behaviour: NS-71, B-60.
#[test]
fn writer_journal_behind_its_reader_ends_both_ends() {
    for writer_dials in [true, false] {
        let mut sut = Journaled::new(8, 8, writer_dials);
        sut.world.run(ms(10));
        assert!(sut.world.write(3));
        sut.world.run(ms(10));
        assert!(sut.world.read(3));
        sut.lose_connections(true);
        let at = WriterState {
            kept: 0,
            kept_elements: 0,
            written: SIZE,
        };
        let mut options = sut.options.0.clone();
        options.incarnation.0[0] = sut.lives;
        options.peer_lineage = Some(lineage(sut.options.1.incarnation));
        let link = Link::restored_writer(options, at, sut.world.now);
        sut.world.writer = WriterEnd::restored(link, at);
        sut.world.run(ms(5000));
        let (writer, reader) = (&sut.world.writer.link, &sut.world.reader.link);
        let lost = StreamFault::DataLost { bytes: 2 * SIZE };
        let is_told = |fault: Option<&StreamFault>| match fault {
            Some(StreamFault::Refused { code, sentence }) => {
                *code == FaultCode::StreamDataLost && *sentence == lost.to_string()
            }
            fault => fault == Some(&lost),
        };
        let faults = (writer.fault(), reader.fault());
        assert!(is_told(faults.0) && is_told(faults.1), "{faults:?}");
    }
}

proptest! {
    #[test]
    fn a_stream_outlives_its_programs(
        writer_dials: bool,
        sizes in (1..20_u64, 1..20_u64),
        events in prop::collection::vec(event(), 1..80),
    ) {
        let mut sut = Journaled::new(sizes.0, sizes.1, writer_dials);
        for event in events {
            match event {
                Event::Write(count) => _ = sut.world.write(count),
                Event::Read(count) => _ = sut.world.read(count.min(sut.world.reader.fill())),
                Event::Sync => sut.sync(),
                Event::Run(time) => sut.world.run(ms(time)),
                Event::Cut => sut.world.cut(),
                Event::Heal => sut.world.heal(),
                Event::KillWriter(is_told) => sut.kill_writer(is_told),
                Event::KillReader(is_told) => sut.kill_reader(is_told),
            }
            sut.check();
        }
        sut.world.heal();
        let mut idle = 0;
        while sut.stored < sut.world.writer.written {
            let fill = sut.world.reader.fill();
            assert!(sut.world.read(fill));
            sut.sync();
            idle = if fill == 0 { idle + 1 } else { 0 };
            prop_assert!(idle < 200, "it stands still at {}", sut.stored);
            sut.world.run(ms(200));
            sut.check();
        }
        sut.world.run(ms(10_000));
        prop_assert_eq!(sut.world.fills(), (0, 0));
    }
}
