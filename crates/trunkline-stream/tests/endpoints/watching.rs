//! Tests that an endpoint can be monitored while the endpoint's own thread waits (NS-52, NS-69).

use std::thread;

use crate::rig::{Dials, TEST_TIMEOUT, meet, options};

/// Behaviour: NS-50, NS-51, NS-52.
#[test]
fn properties_are_readable_while_an_end_waits() {
    let address = crate::rig::address();
    let (mut writer, mut reader) =
        meet::<f64>(Dials::Writer, options(4), options(4), address, None);
    let (of_writer, of_reader) = (writer.monitor(), reader.monitor());
    let reading = thread::spawn(move || {
        reader
            .read(Some(TEST_TIMEOUT))
            .map(|element| (element, reader))
    });
    assert!(of_reader.properties().is_connected);
    assert_eq!(of_reader.properties().available_for_reading(), 0);
    writer.write(&7.0, Some(TEST_TIMEOUT)).unwrap();
    let (element, reader) = reading.join().unwrap().unwrap();
    assert_eq!(element, 7.0);
    assert_eq!(of_reader.properties().total, 1);
    drop(reader);
    // After the ends are gone, their monitors return the last properties.
    while of_writer.properties().is_connected {
        thread::yield_now();
    }
    drop(writer);
    assert_eq!(of_writer.properties().total, 1);
    assert_eq!(of_reader.properties().total, 1);
}
