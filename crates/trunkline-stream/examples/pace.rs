//! How fast a stream is beside a bare socket: `pace CALL [SECONDS]`, elements of f64.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use trunkline_stream::{Options, Reader, Writer};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("write") => write(&arguments[2], &arguments[3], number(&arguments[4])),
        _ => {
            let call = arguments.get(1).map_or(10_000, |call| number(call));
            let seconds = arguments.get(2).map_or(1, |s| number(s)) as u64;
            for _ in 0..3 {
                for form in std::env::var("FORMS").map_or(vec!["raw".to_owned()], |f| {
                    f.split(",").map(str::to_owned).collect()
                }) {
                    read(&form, call, Duration::from_secs(seconds));
                }
            }
        }
    }
}

fn number(text: &str) -> usize {
    text.parse().unwrap()
}

fn spawn(form: &str, port: u16, call: usize) -> Child {
    let own = std::env::current_exe().unwrap();
    Command::new("taskset")
        .args(["-c", "1"])
        .arg(own)
        .args(["write", form, &port.to_string(), &call.to_string()])
        .spawn()
        .unwrap()
}

/// No sockets for what is to be over TCP.
fn sockets(form: &str) -> Option<std::path::PathBuf> {
    (!form.starts_with("shm")).then(|| "/nowhere".into())
}

fn capacity(call: usize) -> usize {
    (call * 10).clamp(100_000, 1_000_000)
}

fn read(form: &str, call: usize, time: Duration) {
    let mut next = 0_u64;
    let mut check = |elements: &[f64]| {
        let mut wrong = false;
        for element in elements {
            wrong |= *element != next as f64;
            next += 1;
        }
        assert!(!wrong);
    };
    let (start, mut child, count);
    if form == "raw" {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        child = spawn(form, port, call);
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0.0_f64; call.max(4096)];
        start = Instant::now();
        while start.elapsed() < time {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut buffer);
            stream.read_exact(bytes).unwrap();
            check(&buffer);
        }
        count = next;
    } else {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        child = spawn(form, port, call);
        let url = format!("tl://localhost:{port}/pace");
        let options = Options {
            capacity: capacity(call),
            sockets: sockets(form),
            ..Options::default()
        };
        let mut reader = Reader::<f64>::create(&url, options).unwrap();
        let mut buffer = vec![0.0_f64; call];
        start = Instant::now();
        while start.elapsed() < time {
            for _ in 0..(10_000 / call).max(1) {
                if form.ends_with("copy") && call == 1 {
                    check(&[reader.read(None).unwrap()]);
                } else if form.ends_with("copy") {
                    reader.read_into(&mut buffer, None).unwrap();
                    check(&buffer);
                } else {
                    check(&reader.acquire(call, None).unwrap());
                }
            }
        }
        count = next;
    }
    let elapsed = start.elapsed().as_secs_f64();
    child.kill().unwrap();
    child.wait().unwrap();
    println!(
        "{form:8} {:8.1} M/s {:8.0} MB/s",
        count as f64 / elapsed / 1e6,
        count as f64 * 8.0 / elapsed / 1e6
    );
}

fn write(form: &str, port: &str, call: usize) {
    let mut next = 0_u64;
    let mut fill = |elements: &mut [f64]| {
        for element in elements {
            *element = next as f64;
            next += 1;
        }
    };
    if form == "raw" {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let mut buffer = vec![0.0_f64; call.max(4096)];
        loop {
            fill(&mut buffer);
            if stream.write_all(bytemuck::cast_slice(&buffer)).is_err() {
                return;
            }
        }
    }
    let options = Options {
        capacity: capacity(call),
        sockets: sockets(form),
        ..Options::to(format!("tl://localhost:{port}/pace"))
    };
    let mut writer = Writer::<f64>::create("from/pace", options).unwrap();
    let mut buffer = vec![0.0_f64; call];
    loop {
        let result = if form.ends_with("copy") && call == 1 {
            let mut one = [0.0];
            fill(&mut one);
            writer.write(&one[0], None)
        } else if form.ends_with("copy") {
            fill(&mut buffer);
            writer.write_many(&buffer, None)
        } else {
            writer.write_with(call, None, &mut fill)
        };
        if result.is_err() {
            return;
        }
    }
}
