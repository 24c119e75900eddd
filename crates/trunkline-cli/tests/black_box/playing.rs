//! Playing recordings made by other programs.

use trunkline_tdms::{Arrangement, Data, ObjectPath, TdmsTime, Text, Writer, WriterOptions};
use trunkline_types::Timestamp;

use crate::rig::Served;

/// Three rows with their times, the last an hour after the second.
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
fn rows_are_streamed_at_the_times_of_a_channel() {
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

/// A string channel in three chunks, the second with damaged string offsets, and a number channel.
fn damaged() -> Vec<u8> {
    let mut writer = Writer::new(WriterOptions::default());
    let mut bytes = Vec::new();
    for group in ["rig/note", "rig/level"] {
        let object = ObjectPath::group(group);
        let of = if group == "rig/note" { "string" } else { "f64" };
        writer.set(&object, "variable_type", of).unwrap();
    }
    for chunk in 0..3_i64 {
        let rows = chunk * 2..chunk * 2 + 2;
        let time = |row: i64| TdmsTime::from(Timestamp::from_nanos(row));
        let times: Vec<TdmsTime> = rows.clone().map(time).collect();
        let texts: Vec<Text> = rows
            .clone()
            .map(|row| format!("text {row}").into())
            .collect();
        let numbers: Vec<f64> = rows.map(|row| row as f64).collect();
        let data = [
            ("rig/note", "time", Data::from(&times[..])),
            ("rig/note", "value", Data::from(&texts[..])),
            ("rig/level", "time", Data::from(&times[..])),
            ("rig/level", "value", Data::from(&numbers[..])),
        ];
        let data = data.map(|(group, name, data)| {
            let channel = writer.channel(group, name, data.data_type()).unwrap();
            (channel, data)
        });
        writer
            .write(&data, Arrangement::Contiguous, &mut bytes)
            .unwrap();
    }
    let ends: Vec<u8> = [6_u32, 12].into_iter().flat_map(u32::to_le_bytes).collect();
    let places = bytes.windows(ends.len()).enumerate();
    let places: Vec<usize> = places
        .filter(|(_, w)| *w == ends)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(places.len(), 3);
    bytes[places[1]..places[1] + 4].fill(0xff);
    bytes
}

/// Behaviour: B-70.
#[test]
fn updates_with_damaged_text_are_counted_and_the_others_played() {
    let served = Served::rig();
    let folder = served.folder.path();
    let library = "[library]\nname = \"test\"\n\n[[variable]]\nname = \"note\"\ntype = \"string\"\n\n\
                   [[variable]]\nname = \"level\"\ntype = \"f64\"\n";
    std::fs::write(folder.join("test.toml"), library).unwrap();
    let deployed = served.run(&["deploy", folder.join("test.toml").to_str().unwrap()]);
    assert_eq!(deployed.code, Some(0), "{deployed:?}");
    let file = folder.join("damaged.tdms");
    std::fs::write(&file, damaged()).unwrap();
    let play = [
        "play",
        file.to_str().unwrap(),
        "--as",
        "rig/=test/",
        "--full-speed",
    ];
    let played = served.run(&play);
    assert_eq!(played.code, Some(1), "{played:?}");
    assert!(played.err.contains("10 updates played"), "{played:?}");
    for part in ["test/note", "2 updates", "--exclude 'test/note'"] {
        assert!(played.err.contains(part), "{part}: {played:?}");
    }
    let sound = served.run(&[&play[..], &["--exclude", "test/note"]].concat());
    assert_eq!(sound.code, Some(0), "{sound:?}");
    assert!(sound.err.contains("6 updates played"), "{sound:?}");
}

#[test]
fn name_of_a_variable_that_is_not_played_is_not_padded() {
    let served = Served::rig();
    let folder = served.folder.path();
    let library = "[library]\nname = \"größe\"\n\n[[variable]]\nname = \"level\"\ntype = \"f64\"\n";
    std::fs::write(folder.join("test.toml"), library).unwrap();
    let deployed = served.run(&["deploy", folder.join("test.toml").to_str().unwrap()]);
    assert_eq!(deployed.code, Some(0), "{deployed:?}");
    let file = folder.join("damaged.tdms");
    std::fs::write(&file, damaged()).unwrap();
    let play = [
        "play",
        file.to_str().unwrap(),
        "--as",
        "rig/=größe/",
        "--full-speed",
    ];
    let played = served.run(&play);
    assert_eq!(played.code, Some(1), "{played:?}");
    assert!(played.err.contains("größe/note   *** "), "{played:?}");
}

/// Behaviour: B-72.
#[test]
fn excluded_channels_are_not_streamed() {
    let served = Served::rig();
    let file = served.folder.path().join("timed.tdms");
    std::fs::write(&file, timed()).unwrap();
    let file = file.to_str().unwrap();
    let play = [
        "play",
        file,
        "--stream",
        "p",
        "--full-speed",
        "--exclude",
        "g/when",
    ];
    let player = served.spawn(&play);
    let reader = served.spawn(&["stream", "read", "r", "--from", "p"]);
    let lines = [reader.line(), reader.line(), reader.line()];
    assert_eq!(lines, ["1.5", "2.5", "3.5"]);
    assert_eq!(player.end().0, Some(0));
    assert_eq!(reader.end(), (Some(0), Vec::new()));
}
