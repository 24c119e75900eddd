//! Defines a writer and a reader with their names and folders.

use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use trunkline_stream::{Durability, JournalOptions, Options, Reader, Writer};

pub const TEST_TIMEOUT: Option<Duration> = Some(Duration::from_secs(60));

/// Capacity of each buffer, in elements.
pub const CAPACITY: usize = 100;

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// The names and folders of a writer and of a reader.
pub struct Pair {
    pub ports: [u16; 2],
    pub folder: tempfile::TempDir,
    pub durability: Durability,
    pub has_journal: [bool; 2],
    /// The end that names its peer: 0 is the writer, 1 is the reader.
    pub dials: usize,
}

impl Pair {
    pub fn new(durability: Durability) -> Self {
        Self {
            ports: [free_port(), free_port()],
            folder: tempfile::tempdir().unwrap(),
            durability,
            has_journal: [true, true],
            dials: 0,
        }
    }

    pub fn url(&self, side: usize) -> String {
        format!("tl://localhost:{}/journaled {side}", self.ports[side])
    }

    /// Returns the folder of a journal.
    pub fn journal(&self, side: usize) -> PathBuf {
        self.folder.path().join(side.to_string())
    }

    pub fn options(&self, side: usize) -> Options {
        let journal = JournalOptions {
            durability: self.durability,
            ..JournalOptions::at(self.journal(side))
        };
        Options {
            capacity: CAPACITY,
            timeout: TEST_TIMEOUT,
            journal: Some(journal).filter(|_| self.has_journal[side]),
            peer: (side == self.dials).then(|| self.url(1 - side)),
            ..Options::default()
        }
    }

    pub fn writer<T: trunkline_stream::Element>(&self) -> Writer<T> {
        Writer::create(&self.url(0), self.options(0)).unwrap()
    }

    pub fn reader<T: trunkline_stream::Element>(&self) -> Reader<T> {
        Reader::create(&self.url(1), self.options(1)).unwrap()
    }

    pub fn both<T: trunkline_stream::Element>(&self) -> (Writer<T>, Reader<T>) {
        self.both_with(self.options(0), self.options(1))
    }

    pub fn both_with<T: trunkline_stream::Element>(
        &self,
        of_writer: Options,
        of_reader: Options,
    ) -> (Writer<T>, Reader<T>) {
        thread::scope(|scope| {
            let reader = scope.spawn(|| Reader::create(&self.url(1), of_reader).unwrap());
            let writer = Writer::create(&self.url(0), of_writer).unwrap();
            (writer, reader.join().unwrap())
        })
    }
}
