//! Creates endpoints with several peers for the tests.

use std::thread::{self, JoinHandle};

use trunkline_stream::{
    Element, FanInOptions, FanInReader, FanOutOptions, FanOutWriter, Options, PeerStatus, Policy,
    Reader, Writer,
};

use crate::rig::*;

/// Returns options for a writer with a buffer of `capacity` elements that waits for `readers` readers.
pub fn fan_out(capacity: usize, readers: usize, policy: Policy) -> FanOutOptions {
    FanOutOptions {
        options: options(capacity),
        policy,
        readers_min: readers,
        ..FanOutOptions::default()
    }
}

/// Returns options for a reader with buffers of `capacity` elements that waits for `writers` writers.
pub fn fan_in(capacity: usize, writers: usize) -> FanInOptions {
    FanInOptions {
        options: options(capacity),
        writers_min: writers,
        ..FanInOptions::default()
    }
}

/// Creates readers with these options, which dial these URLs, and the writer.
pub fn spread<T: Element>(
    url: &str,
    options: FanOutOptions,
    readers: &[(&str, Options)],
) -> (FanOutWriter<T>, Vec<Reader<T>>) {
    let creates: Vec<_> = readers
        .iter()
        .map(|(peer, options)| read(peer, options.clone()))
        .collect();
    let writer = FanOutWriter::create(url, options).unwrap();
    let readers = creates.into_iter().map(|create| create.join().unwrap());
    (writer, readers.collect())
}

/// Returns a writer's report on one of its readers.
pub fn status_of<T: Element>(writer: &FanOutWriter<T>, reader: &Reader<T>) -> PeerStatus {
    let url = reader.properties().url;
    let mut readers = writer.readers().into_iter();
    readers.find(|present| present.member.url == url).unwrap()
}

/// Creates a reader in a thread.
pub fn read<T: Element>(peer: &str, options: Options) -> JoinHandle<Reader<T>> {
    let options = naming(peer, options);
    thread::spawn(move || Reader::create(&unique_url("reader"), options).unwrap())
}

/// Creates writers with these options, and the reader that they dial, in the order of their numbers
/// at the reader.
pub fn collect<T: Element>(
    url: &str,
    options: FanInOptions,
    writers: Vec<Options>,
) -> (FanInReader<T>, Vec<Writer<T>>) {
    let create = {
        let options = FanInOptions {
            writers_min: writers.len(),
            ..options
        };
        let url = url.to_owned();
        thread::spawn(move || FanInReader::create(&url, options).unwrap())
    };
    // The writers are created one after the other, so that they are numbered in this order.
    let writers = writers.into_iter().map(|options| {
        let options = naming(url, options);
        Writer::create(&unique_url("writer"), options).unwrap()
    });
    let writers: Vec<_> = writers.collect();
    (create.join().unwrap(), writers)
}
