//! Recordings that others have made, as they are played.

use trunkline_tdms::{Arrangement, Data, TdmsTime, Writer, WriterOptions};
use trunkline_types::Timestamp;

use crate::rig::Served;

/// Three rows, the last an hour after the second, with when they were taken.
fn timed() -> Vec<u8> {
    let hour = 3_600_000_000_000;
    let times = [0, 1_000_000, hour].map(|nanos| TdmsTime::from(Timestamp::from_nanos(nanos)));
    let mut writer = Writer::new(WriterOptions::default());
    let channels = [
        ("when", Data::from(&times)),
        ("level", Data::from(&[1.5_f64, 2.5, 3.5])),
    ];
    let data = channels.map(|(name, data)| {
        let channel = writer.channel("g", name, data.data_type()).unwrap();
        (channel, data)
    });
    let mut bytes = Vec::new();
    let written = writer.write(&data, Arrangement::Contiguous, &mut bytes);
    written.unwrap();
    bytes
}

/// Behaviour: B-72.
#[test]
fn rows_go_into_a_stream_as_fast_as_a_channel_of_times_says() {
    let served = Served::rig();
    let file = served.folder.path().join("timed.tdms");
    std::fs::write(&file, timed()).unwrap();
    let file = file.to_str().unwrap();
    let play = ["play", file, "--stream", "p", "--times"];
    let unknown = served.run(&[&play[..], &["level"]].concat());
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.err.contains("level"), "{unknown:?}");
    let player = served.spawn(&[&play[..], &["when"]].concat());
    let reader = served.spawn(&["stream", "read", "r", "--from", "p"]);
    assert_eq!((reader.line(), reader.line()), ("1.5".into(), "2.5".into()));
    // The next row is not due for an hour.
    player.signal("INT");
    player.error_with("2 rows played");
    assert_eq!(player.end().0, Some(130));
    assert_eq!(reader.end(), (Some(0), Vec::new()));
}
