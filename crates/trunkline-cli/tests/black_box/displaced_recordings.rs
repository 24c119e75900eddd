//! Files that are removed, replaced or renamed while they are recorded.

use serde_json::Value as Json;

use crate::rig::{Running, Served};
use crate::schema;

fn path(served: &Served, name: &str) -> String {
    let path = served.folder.path().join(name);
    path.to_str().unwrap().to_owned()
}

/// A recorder of the level, which has begun and whose file exists.
fn recorder(served: &Served, file: &str, options: &[&str]) -> Running {
    let start = [&["record", "start", file, "rig/level"][..], options].concat();
    let recorder = Running::spawn(&mut served.command(&start));
    recorder.error_with("recording to");
    recorder
}

fn line(text: &str) -> Json {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Behaviour: B-70.
#[test]
fn removed_recording_is_reported_at_once_and_not_called_durable() {
    let served = Served::rig();
    for is_replaced in [false, true] {
        let file = path(&served, "run.tdms");
        let recorder = recorder(&served, &file, &[]);
        std::fs::remove_file(&file).unwrap();
        if is_replaced {
            std::fs::write(&file, "of another program").unwrap();
        }
        // While it runs, and once.
        recorder.error_with("removed or replaced while it was being written");
        let stopped = served.run(&["record", "stop", &file, "--json"]);
        assert_eq!(stopped.code, Some(7), "{stopped:?}");
        let told = line(&stopped.out);
        schema::check(&told, &schema::documented()["$defs"]["recorded"]).unwrap();
        assert_eq!(
            (&told["on_disk"], &told["durability"]),
            (&0.into(), &"in-file".into())
        );
        assert_eq!(told["lost"], told["updates"], "{told}");
        assert!(told["displaced"][0].as_str().unwrap().contains("removed"));
        assert_eq!(recorder.end().0, Some(7));
        let _ = std::fs::remove_file(&file);
    }
}

/// Behaviour: B-70.
#[test]
fn renamed_recording_is_reported_with_its_new_name() {
    let served = Served::rig();
    let (file, moved) = (path(&served, "run.tdms"), path(&served, "moved.tdms"));
    let recorder = recorder(&served, &file, &["--sums"]);
    std::fs::rename(&file, &moved).unwrap();
    recorder.error_with("was renamed while it was being written; it is ");
    let stopped = served.run(&["record", "stop", &file]);
    assert_eq!(stopped.code, Some(7), "{stopped:?}");
    assert!(stopped.out.contains("moved.tdms now"), "{stopped:?}");
    assert!(stopped.out.contains("flushed to disk"), "{stopped:?}");
    assert_eq!(recorder.end().0, Some(7));
    let info = served.run(&["record", "info", &moved]);
    assert_eq!(info.code, Some(0), "{info:?}");
}

/// Behaviour: B-70.
#[test]
fn a_stream_whose_file_is_removed_is_not_called_safe() {
    let served = Served::rig();
    // Rows that are written in place, and elements that are collected first.
    for data_type in ["u64", "string"] {
        let file = path(&served, "raw.tdms");
        let of = ["--stream", "in", "--type", data_type];
        let start = [&["record", "start", &file][..], &of].concat();
        let recorder = Running::spawn(&mut served.command(&start));
        let write = ["stream", "write", "out", "--to", "in", "--type", data_type];
        let mut writer = served.command(&write);
        let mut writer = Running::spawn_reading(&mut writer, std::process::Stdio::piped());
        recorder.error_with("recording with");
        std::fs::remove_file(&file).unwrap();
        recorder.error_with("removed or replaced while it was being written");
        drop(writer.child.stdin.take());
        let (code, _) = recorder.end();
        assert_eq!(code, Some(7), "{data_type}");
    }
}
