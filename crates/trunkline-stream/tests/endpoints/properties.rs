//! Tests the properties that endpoints report.

use trunkline_stream::{Options, Until};
use trunkline_types::DataType;

use crate::rig::*;

/// Behaviour: NS-50, NS-51, NS-54.
#[test]
fn fills_and_totals_are_counted_in_elements() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<String>(dials, [10, 4]);
        let text = "some text".to_owned();
        let (mut written, mut read) = (0, 0);
        // (written, read) in each step, then the fills.
        for (writes, reads, of_writer, of_reader) in [
            (0, 0, 0, 0),
            (4, 0, 0, 4),
            (3, 0, 3, 4),
            (0, 2, 1, 4),
            (9, 0, 10, 4),
            (0, 4, 6, 4),
            (0, 4, 2, 4),
            (0, 4, 0, 2),
            (0, 2, 0, 0),
        ] {
            for _ in 0..writes {
                writer.write(&text, LONG).unwrap();
            }
            for _ in 0..reads {
                reader.read(LONG).unwrap();
            }
            (written, read) = (written + writes, read + reads);
            until_filled(&reader, of_reader);
            until_filled(&writer, of_writer);
            let (of_writing, of_reading) = (writer.properties(), reader.properties());
            assert_eq!(of_writing.available_for_writing(), 10 - of_writer);
            assert_eq!(
                of_writing.available_for_reading(),
                0,
                "valid on the reader only"
            );
            assert_eq!(of_reading.available_for_reading(), of_reader);
            assert_eq!(
                of_reading.available_for_writing(),
                0,
                "valid on the writer only"
            );
            assert_eq!((of_writing.total, of_reading.total), (written, read));
            assert_eq!(reader.available() as u64, of_reader);
        }
    }
}

/// Behaviour: NS-54.
#[test]
fn endpoint_reports_its_own_and_its_peers_properties() {
    let named = |program: &str, capacity| Options {
        program: program.to_owned(),
        ..options(capacity)
    };
    for dials in EITHER {
        let address = address();
        let (writer, reader) = meet::<i32>(
            dials,
            named("writes 1.0", 10),
            named("reads 2.0", 20),
            address,
            None,
        );
        let (writer, reader) = (writer.properties(), reader.properties());
        assert!(writer.is_writer && !reader.is_writer);
        assert_eq!((writer.capacity, reader.capacity), (10, 20));
        assert_eq!(writer.data_type, DataType::I32);
        assert_eq!(reader.data_type, DataType::I32);
        assert_eq!(writer.peer.as_deref(), Some(reader.url.as_str()));
        assert_eq!(reader.peer.as_deref(), Some(writer.url.as_str()));
        assert_eq!(writer.peer_program.as_deref(), Some("reads 2.0"));
        assert_eq!(reader.peer_program.as_deref(), Some("writes 1.0"));
        let passive = match dials {
            Dials::Writer => &reader.url,
            Dials::Reader => &writer.url,
        };
        assert_eq!(*passive, url(address, "passive"));
        for end in [writer, reader] {
            assert!(end.is_connected && end.transport.is_some());
            assert_eq!(
                (end.disconnections, end.away_for, end.fault),
                (0, None, None)
            );
        }
    }
}

/// Network losses and a destroyed peer both count as disconnections.
///
/// Behaviour: NS-52, NS-53, NS-54.
#[test]
fn disconnections_are_counted() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 10]);
        for cut in 1..=3 {
            proxy.down();
            until_connected(&writer, false);
            until_connected(&reader, false);
            for properties in [writer.properties(), reader.properties()] {
                assert_eq!(properties.disconnections, cut);
                assert!(properties.away_for.is_some() && properties.last_disconnect.is_some());
                assert!(!properties.is_peer_destroyed());
            }
            proxy.up();
            until_connected(&writer, true);
            writer.write(&0.5, LONG).unwrap();
            reader.read(LONG).unwrap();
            writer.flush(Until::Read, LONG).unwrap();
            assert_eq!(writer.properties().away_for, None);
            assert_eq!(writer.properties().disconnections, cut);
        }
        reader.close().unwrap();
        until_connected(&writer, false);
        let properties = writer.properties();
        assert_eq!(properties.disconnections, 4);
        assert!(properties.is_peer_destroyed() && properties.fault.is_some());
    }
}

/// Behaviour: NS-52.
#[test]
fn a_reader_whose_writer_has_ended_is_not_connected() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [10, 10]);
        writer.write_many(&elements(0..3), LONG).unwrap();
        writer.close(LONG);
        until_connected(&reader, false);
        let properties = reader.properties();
        assert_eq!((properties.in_buffer, properties.disconnections), (3, 1));
        assert_eq!((properties.is_ended, properties.outages()), (true, 0));
        check_run(&reader.read_available().unwrap(), 0);
        assert_eq!(reader.properties().total, 3);
    }
}
