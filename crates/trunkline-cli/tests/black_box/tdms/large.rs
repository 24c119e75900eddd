//! Files far larger than the permitted memory, and than a user waits for.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::FileExt;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use trunkline_tdms::{Arrangement, ChannelAmount, TdmsType, Writer, WriterOptions};

use super::Files;
use crate::rig::{Output, command, exit_code, finish};

/// Runs the binary with this address space in KiB, which is more than its memory.
fn within(kib: u64, arguments: &[&str]) -> Output {
    let script = format!("ulimit -v {kib}; exec \"$0\" tdms \"$@\"");
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &script, env!("CARGO_BIN_EXE_trunkline")])
        .args(arguments)
        .env("TZ", "UTC");
    finish(&mut bash, "")
}

/// A sparse file of zeros: two channels of this number of rows, in one segment.
fn sparse(files: &Files, name: &str, rows: u64) -> (String, File) {
    let mut writer = Writer::new(WriterOptions::default());
    let amounts = ["a", "b"].map(|name| ChannelAmount {
        channel: writer.channel("g", name, TdmsType::I64).unwrap(),
        count: rows,
        bytes: 0,
    });
    let mut header = Vec::new();
    writer
        .header(&amounts, Arrangement::Contiguous, &mut header)
        .unwrap();
    let path = files.put(name, &header);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(header.len() as u64 + 16 * rows).unwrap();
    (path, file)
}

/// Behaviour: B-70.
#[test]
fn rows_far_in_a_file_of_a_terabyte_are_read_at_once() {
    let files = Files::new();
    let rows: u64 = 1 << 36;
    let (path, file) = sparse(&files, "run.tdms", rows);
    let end = file.metadata().unwrap().len();
    file.write_at(&(-7_i64).to_le_bytes(), end - 8).unwrap();
    let from = (rows - 2).to_string();
    let output = within(200 * 1024, &["cat", &path, "--from", &from, "-o", "csv"]);
    assert_eq!(output.out, "g/a,g/b\n0,0\n0,-7\n", "{output:?}");
    assert_eq!(output.code, Some(0));
    let output = within(200 * 1024, &["info", &path]);
    assert!(output.out.contains("g/a\ti64\t68719476736"), "{output:?}");
}

#[test]
fn a_file_is_converted_and_verified_in_less_memory_than_it_has() {
    let files = Files::new();
    // 160 MB, and 100 MB of addresses, of which threads and code take half.
    let (path, _) = sparse(&files, "run.tdms", 10_000_000);
    let out = files.path("run.parquet");
    for arguments in [&["convert", &path, &out][..], &["verify", &path]] {
        let output = within(100 * 1024, arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}

/// Reads the other side of a terminal until it shows `part`.
fn shown(master: &mut File, part: &str) -> String {
    let (mut seen, mut piece) = (String::new(), [0; 1024]);
    while !seen.contains(part) {
        let count = master.read(&mut piece).unwrap();
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    seen
}

#[test]
fn terminal_shows_progress_and_ctrl_c_leaves_no_file() {
    let files = Files::new();
    // A terabyte: it does not end before it is interrupted.
    let (path, _) = sparse(&files, "run.tdms", 1 << 36);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let mut child = command(&["tdms", "convert", &path, &files.path("out.csv")])
        .stderr(slave)
        .spawn()
        .unwrap();
    let mut master = File::from(master);
    let seen = shown(&mut master, "written");
    assert!(seen.contains("  0 %") && seen.starts_with('\r'), "{seen:?}");
    let sent = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    let code = exit_code(&mut child, "the interrupted command");
    assert_eq!(code, Some(130));
    assert_eq!(files.names(), ["run.tdms"]);
}
