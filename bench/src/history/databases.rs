//! Databases that record the same samples: InfluxDB's line protocol over HTTP on two connections. A
//! sample counts once its request was acknowledged; the time ends when a query counts all of them.
//!
//! - QuestDB: `cairo.commit.mode=sync`, a WAL table with nanoseconds. A request is acknowledged when
//!   its commit to the WAL was synced; queries see it when the WAL was applied to the table.
//! - InfluxDB 1.x: `wal-fsync-delay = "20ms"`. A request is acknowledged after the `fsync` of the
//!   WAL, which the server calls once for all requests of 20 ms. Queries see it then.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::http::{Connection, escaped};
use super::{SCENARIO, Signal, TIMEOUT, nanos};
use crate::Outcome;
use crate::hosting;
use crate::peers::named;
use crate::record::Row;
use crate::settings::Settings;

pub(super) const QUESTDB: &str = "questdb";
pub(super) const INFLUXDB: &str = "influxdb";

/// Connections that write, each in a thread of its own.
const CONNECTIONS: usize = 2;
/// Longest time that a server may take to start.
const START_MAX: Duration = Duration::from_secs(60);
/// Time between two attempts to connect, and two queries for the number of samples.
const PAUSE: Duration = Duration::from_millis(5);
const CREATE_QUESTDB: &str = "CREATE TABLE samples (variable SYMBOL CAPACITY 4096, value DOUBLE, \
    timestamp TIMESTAMP_NS) TIMESTAMP(timestamp) PARTITION BY DAY WAL";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    QuestDb,
    InfluxDb,
}

impl Kind {
    fn of(system: &str) -> Outcome<Self> {
        match system {
            QUESTDB => Ok(Self::QuestDb),
            INFLUXDB => Ok(Self::InfluxDb),
            _ => Err(format!("there is no system {system}").into()),
        }
    }

    /// Samples per request, as the documentation recommends: what QuestDB's own clients send at
    /// most, and the upper end of InfluxDB's advice.
    fn batch(self) -> usize {
        match self {
            Self::QuestDb => 75_000,
            Self::InfluxDb => 10_000,
        }
    }

    fn write_path(self) -> &'static str {
        match self {
            Self::QuestDb => "/write?precision=n",
            Self::InfluxDb => "/write?db=bench&precision=ns",
        }
    }

    /// The requests that make the table, and the one that counts its samples.
    fn create(self) -> (&'static str, String) {
        match self {
            Self::QuestDb => ("GET", format!("/exec?query={}", escaped(CREATE_QUESTDB))),
            Self::InfluxDb => (
                "POST",
                format!("/query?q={}", escaped("CREATE DATABASE bench")),
            ),
        }
    }

    fn count_path(self) -> String {
        match self {
            Self::QuestDb => format!("/exec?query={}", escaped("SELECT count() FROM samples")),
            Self::InfluxDb => {
                let query = escaped("SELECT COUNT(value) FROM samples");
                format!("/query?db=bench&q={query}")
            }
        }
    }

    /// The count in the answer to that query; 0 if the table has no samples.
    fn count_in(self, body: &str) -> Outcome<u64> {
        let answer: serde_json::Value = serde_json::from_str(body)?;
        let count = match self {
            Self::QuestDb => answer.pointer("/dataset/0/0"),
            Self::InfluxDb => match answer.pointer("/results/0/series") {
                None if answer.pointer("/results/0/error").is_none() => return Ok(0),
                _ => answer.pointer("/results/0/series/0/values/0/1"),
            },
        };
        let count = count.and_then(serde_json::Value::as_u64);
        Ok(count.ok_or_else(|| format!("the count failed: {body}"))?)
    }

    /// Writes the configuration into the folder. Returns the arguments of the server.
    fn configure(self, folder: &Path, port: u16) -> Outcome<Vec<String>> {
        let shown = folder.display();
        match self {
            Self::QuestDb => {
                std::fs::create_dir_all(folder.join("conf"))?;
                let text = format!(
                    "http.bind.to=127.0.0.1:{port}\nhttp.min.enabled=false\npg.enabled=false\n\
                     line.tcp.enabled=false\ntelemetry.enabled=false\ncairo.commit.mode=sync\n"
                );
                std::fs::write(folder.join("conf/server.conf"), text)?;
                Ok(vec!["-d".to_owned(), shown.to_string(), "-n".to_owned()])
            }
            Self::InfluxDb => {
                let text = format!(
                    "reporting-disabled = true\nbind-address = \"127.0.0.1:0\"\n\
                     [meta]\ndir = \"{shown}/meta\"\n\
                     [data]\ndir = \"{shown}/data\"\nwal-dir = \"{shown}/wal\"\n\
                     wal-fsync-delay = \"20ms\"\nquery-log-enabled = false\n\
                     cache-max-memory-size = \"4g\"\n\
                     [monitor]\nstore-enabled = false\n\
                     [http]\nbind-address = \"127.0.0.1:{port}\"\nlog-enabled = false\n\
                     [continuous_queries]\nenabled = false\n"
                );
                let file = folder.join("influxdb.conf");
                std::fs::write(&file, text)?;
                Ok(vec!["-config".to_owned(), file.display().to_string()])
            }
        }
    }
}

/// A server in a folder of its own; killed on drop.
struct Server {
    kind: Kind,
    child: Child,
    port: u16,
}

impl Server {
    fn start(system: &str, folder: &Path) -> Outcome<Self> {
        let kind = Kind::of(system)?;
        let peer = named(system).ok_or_else(|| format!("there is no system {system}"))?;
        let program = peer.program()?;
        let listener = std::net::TcpListener::bind(hosting::free_port())?;
        let port = listener.local_addr()?.port();
        drop(listener);
        let log = File::create(folder.join("output"))?;
        let child = Command::new(program)
            .args(kind.configure(folder, port)?)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut server = Self { kind, child, port };
        let deadline = Instant::now() + START_MAX;
        loop {
            if Connection::open(port)
                .and_then(|mut one| one.get("/ping"))
                .is_ok()
            {
                break;
            }
            let has_ended = server.child.try_wait()?.is_some();
            if has_ended || Instant::now() > deadline {
                let output = std::fs::read_to_string(folder.join("output"))?;
                let last = output.lines().last().unwrap_or_default();
                return Err(format!("the server of {system} does not answer: {last}").into());
            }
            thread::sleep(PAUSE);
        }
        let (verb, path) = kind.create();
        let mut connection = Connection::open(port)?;
        let answer = match verb {
            "GET" => connection.get(&path)?,
            _ => connection.post(&path, &[])?,
        };
        if answer.status != 200 {
            return Err(format!("{system} refused the table: {}", answer.body).into());
        }
        Ok(server)
    }

    /// Writes for a time, with one connection for each of the `lines`. Returns the number of samples
    /// that were acknowledged.
    fn write(&self, lines: &mut [Lines], time: Duration) -> Outcome<u64> {
        let end = Instant::now() + time;
        let write = |lines: &mut Lines| -> Result<u64, String> {
            let mut connection = Connection::open(self.port).map_err(|error| error.to_string())?;
            let mut acknowledged = 0;
            while Instant::now() < end {
                let body = lines.next(self.kind.batch());
                let answer = connection.post(self.kind.write_path(), body);
                let answer = answer.map_err(|error| error.to_string())?;
                if answer.status != 204 {
                    return Err(format!("status {}: {}", answer.status, answer.body));
                }
                acknowledged += self.kind.batch() as u64;
            }
            Ok(acknowledged)
        };
        thread::scope(|scope| {
            let write = &write;
            let threads: Vec<_> = lines
                .iter_mut()
                .map(|lines| scope.spawn(move || write(lines)))
                .collect();
            let mut sum = 0;
            for thread in threads {
                sum += thread.join().map_err(|_| "a writing thread failed")??;
            }
            Ok(sum)
        })
    }

    /// Waits until a query counts this number of samples. Returns the number that it counted.
    fn wait_for(&self, samples: u64) -> Outcome<u64> {
        let path = self.kind.count_path();
        let mut connection = Connection::open(self.port)?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let count = self.kind.count_in(&connection.get(&path)?.body)?;
            if count >= samples || Instant::now() > deadline {
                return Ok(count);
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its folder is removed, so it can be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Samples as lines, from memory as far as possible: names and values are texts already.
struct Lines {
    starts: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    written: usize,
    time: i64,
    number: usize,
    buffer: Vec<u8>,
}

impl Lines {
    /// The lines of one connection.
    fn new(count: usize, number: usize) -> Self {
        let signal = Signal::new();
        let start = |index| format!("samples,variable=v{index:04} value=").into_bytes();
        let value = |n| format!("{:?} ", signal.at(n)).into_bytes();
        Self {
            starts: (0..count).map(start).collect(),
            values: (0..signal.table.len()).map(value).collect(),
            written: number,
            time: 0,
            number,
            buffer: Vec::new(),
        }
    }

    /// The next lines. InfluxDB replaces a sample with the same time: no two samples of all
    /// connections have the same.
    fn next(&mut self, samples: usize) -> &[u8] {
        self.buffer.clear();
        let step = CONNECTIONS as i64;
        let now = nanos() / step * step + self.number as i64;
        self.time = now.max(self.time);
        for _ in 0..samples {
            let start = &self.starts[self.written % self.starts.len()];
            let value = &self.values[self.written % self.values.len()];
            self.buffer.extend_from_slice(start);
            self.buffer.extend_from_slice(value);
            // Writing to memory does not fail.
            let _ = writeln!(self.buffer, "{}", self.time);
            self.written += 1;
            self.time += step;
        }
        &self.buffer
    }
}

/// Samples per second that one thread formats without sending them.
fn formatted_per_s(kind: Kind, count: usize) -> f64 {
    let mut lines = Lines::new(count, 0);
    let (start, mut samples) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(100) {
        std::hint::black_box(lines.next(kind.batch()));
        samples += kind.batch();
    }
    samples as f64 / start.elapsed().as_secs_f64()
}

pub(super) fn record(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let (count, ms): (usize, u64) = (settings.value("vars")?, settings.value("ms")?);
    let case = format!("what=record vars={count}");
    let mut row = Row::new(SCENARIO, system, case, placement);
    // While no server needs the CPUs.
    row.figure("formatted_per_s", formatted_per_s(Kind::of(system)?, count));
    let folder = crate::streams::disk::folder()?;
    let server = Server::start(system, folder.path())?;
    let mut lines: Vec<Lines> = (0..CONNECTIONS)
        .map(|number| Lines::new(count, number))
        .collect();
    // A program for the virtual machine of Java is compiled while it runs.
    let before = server.write(&mut lines, Duration::from_millis(ms / 2))?;
    let counted = server.wait_for(before)?;
    row.require(counted == before, || {
        format!("{before} samples were acknowledged at first, {counted} are there")
    });
    let start = Instant::now();
    let acknowledged = server.write(&mut lines, Duration::from_millis(ms))?;
    let written_s = start.elapsed().as_secs_f64();
    let there = server.wait_for(before + acknowledged)?;
    let seconds = match Kind::of(system)? {
        // Its rows are visible only when they were moved from its log.
        Kind::QuestDb => start.elapsed().as_secs_f64(),
        // Its samples are visible when they are acknowledged; the count is a check.
        Kind::InfluxDb => written_s,
    };
    let lost = (before + acknowledged).saturating_sub(there);
    row.figure("samples_per_s", acknowledged as f64 / seconds);
    row.figure("acknowledged_per_s", acknowledged as f64 / written_s);
    row.figure("lost", lost as f64);
    row.require(there == before + acknowledged, || {
        format!(
            "{} samples were acknowledged, {there} are there",
            before + acknowledged
        )
    });
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_connections_have_different_times() {
        let lines = |number| {
            let mut lines = Lines::new(2, number);
            String::from_utf8(lines.next(3).to_vec()).unwrap()
        };
        let times = |text: &str| -> Vec<i64> {
            let times = text.lines().map(|line| line.rsplit(' ').next().unwrap());
            times.map(|time| time.parse().unwrap()).collect()
        };
        let (first, second) = (lines(0), lines(1));
        assert!(
            first.starts_with("samples,variable=v0000 value="),
            "{first}"
        );
        assert!(
            second.starts_with("samples,variable=v0001 value="),
            "{second}"
        );
        assert!(times(&first).iter().all(|time| time % 2 == 0));
        assert!(times(&second).iter().all(|time| time % 2 == 1));
        assert!(times(&first).is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn counts_are_read_from_the_answers() {
        let of_questdb = r#"{"columns":[],"dataset":[[12]],"count":1}"#;
        assert_eq!(Kind::QuestDb.count_in(of_questdb).unwrap(), 12);
        assert!(Kind::QuestDb.count_in(r#"{"error":"no table"}"#).is_err());
        let of_influxdb = r#"{"results":[{"series":[{"values":[["1970-01-01T00:00:00Z",3]]}]}]}"#;
        assert_eq!(Kind::InfluxDb.count_in(of_influxdb).unwrap(), 3);
        assert_eq!(
            Kind::InfluxDb
                .count_in(r#"{"results":[{"statement_id":0}]}"#)
                .unwrap(),
            0
        );
        assert!(
            Kind::InfluxDb
                .count_in(r#"{"results":[{"error":"no"}]}"#)
                .is_err()
        );
    }
}
