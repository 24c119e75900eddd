//! Truncated recordings, and the reports on them.

use serde_json::Value as Json;
use trunkline_tdms::{Arrangement, Data, ObjectPath, TdmsTime, Writer, WriterOptions};
use trunkline_types::Timestamp;

use crate::rig::{columns, run};
use crate::schema;

/// Three updates of an array, of 2, 3 and 0 elements, as they are recorded: its elements last.
fn recorded() -> Vec<u8> {
    let group = "rig/curve";
    let mut writer = Writer::new(WriterOptions::default());
    let object = ObjectPath::group(group);
    writer
        .set(&object, "variable_type", "array(i16, *)")
        .unwrap();
    let times = [1, 2, 3].map(|second| TdmsTime::from(Timestamp::from_nanos(second)));
    let channels = [
        ("time", Data::from(&times)),
        ("value.count", Data::from(&[2_u32, 3, 0])),
        ("value", Data::from(&[10_i16, 11, 20, 21, 22])),
    ];
    let data = channels.map(|(name, data)| {
        let channel = writer.channel(group, name, data.data_type()).unwrap();
        (channel, data)
    });
    let mut bytes = Vec::new();
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    bytes
}

/// Behaviour: B-70.
#[test]
fn partially_recorded_updates_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let file = path.to_str().unwrap();
    let whole = recorded();
    for (bytes_lost, updates, cut_off) in [(0, 3, 0), (1, 1, 2), (3 * 2, 1, 2), (3 * 2 + 1, 0, 3)] {
        std::fs::write(&path, &whole[..whole.len() - bytes_lost]).unwrap();
        let info = run(&["record", "info", file]);
        assert_eq!(info.code, Some(0), "{info:?}");
        assert_eq!(info.err.contains("was cut off"), bytes_lost > 0, "{info:?}");
        let line = info.out.lines().find(|line| line.starts_with("rig/curve"));
        let [updates_said, cut_off_said] = [updates, cut_off].map(|count: u64| count.to_string());
        let expected = [
            "rig/curve",
            "array(i16, *)",
            &updates_said,
            "0",
            "0",
            &cut_off_said,
        ];
        assert_eq!(columns(line.unwrap()), expected, "{info:?}");

        let info = run(&["record", "info", file, "--json"]);
        let line: Json = serde_json::from_str(info.out.trim()).unwrap();
        let schema = &schema::documented()["$defs"]["record_content"];
        schema::check(&line, schema).unwrap();
        assert_eq!(
            (&line["values"], &line["cut_off"]),
            (&updates.into(), &cut_off.into())
        );
    }
}
