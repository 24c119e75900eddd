//! Tests folders that are in use or cannot be written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use trunkline_engine::history::History;
use trunkline_types::{DataType, Value};

use crate::rig::{Plant, SECOND, START, assert_same, folder};

const VARIABLES: [(&str, DataType); 1] = [("x", DataType::F64)];

fn error_of(folder: &Path) -> String {
    let opened = Plant::open(folder, 2, START, &VARIABLES);
    let error = opened.expect_err("the folder must not be opened");
    let error = error.to_string();
    let name = folder.display().to_string();
    assert!(error.contains(&name), "{error} does not name {name}");
    error
}

#[test]
fn folder_is_used_by_one_engine_at_a_time() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    let mut written = vec![plant.write("x", &Value::F64(1.0))];
    plant.record();
    for _ in 0..3 {
        let error = error_of(folder.path());
        assert!(error.contains("in use"), "{error}");
    }
    // The refused engines have not changed the folder.
    written.push(plant.write("x", &Value::F64(2.0)));
    plant.seal();
    assert_same(&plant.everything().lines, &written, "the first engine");
    let time = plant.time + SECOND;
    drop(plant);
    let plant = Plant::start(folder.path(), 3, time, &VARIABLES);
    assert_same(&plant.everything().lines, &written, "the next engine");
}

/// H-14: the error names the folder and the reason.
#[test]
fn folder_that_cannot_be_created_or_written_is_reported() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "no folder").unwrap();
    error_of(&file);
    error_of(&file.join("below"));
    error_of(Path::new("/proc/history"));
    // The superuser may write to a read-only folder.
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(locked.join("probe"), "").is_err() {
        error_of(&locked);
    }
}

#[test]
fn folders_with_the_names_of_files_are_reported_or_harmless() {
    for name in [
        "catalogue.sqlite",
        "lock",
        "samples",
        "summaries",
        "log-0000000001.tlh",
    ] {
        let folder = folder();
        let path = folder.path().join(name);
        match name {
            "samples" | "summaries" => fs::write(path, "no folder").unwrap(),
            _ => fs::create_dir(path).unwrap(),
        }
        let Ok(mut plant) = Plant::open(folder.path(), 1, START, &VARIABLES) else {
            continue;
        };
        let mut written = Vec::new();
        for n in 0..1000 {
            written.push(plant.write("x", &Value::F64(f64::from(n))));
        }
        plant.record();
        plant.close_segment();
        // The segment cannot be moved to files, so it stays in the log.
        let _sealed = plant.history.maintain(plant.moment().wall);
        assert_same(&plant.everything().lines, &written, name);
    }
}

#[test]
fn unknown_files_in_the_folder_are_ignored() {
    let folder = folder();
    let names = [
        "README",
        "log-x.tlh",
        "log-.tlh",
        "log-0000000009.tlh.old",
        "samples.txt",
    ];
    for name in names {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    let written = vec![plant.write("x", &Value::F64(1.0))];
    plant.seal();
    let time = plant.time;
    drop(plant);
    let plant = Plant::start(folder.path(), 2, time, &VARIABLES);
    assert_same(&plant.everything().lines, &written, "beside other files");
    for name in names {
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), name);
    }
}
