//! `stream --readers`, `stream --writers`: one of the others is killed while elements flow.

use std::io::{PipeWriter, Write};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use crate::rig::{Running, command};
use crate::stream_fans::{dialling, of, spreading, told};
use crate::streams::{endpoint, reader};

/// Numbers from 0 on, one a line, until it is enough.
struct Feed {
    is_enough: Arc<OnceLock<()>>,
    feeding: JoinHandle<u64>,
}

impl Feed {
    fn into(mut input: PipeWriter) -> Self {
        let is_enough = Arc::new(OnceLock::new());
        let ends = is_enough.clone();
        let feeding = std::thread::spawn(move || {
            let mut next = 0;
            // A program that was killed takes no more.
            while ends.get().is_none() && writeln!(input, "{next}").is_ok() {
                next += 1;
            }
            next
        });
        Self { is_enough, feeding }
    }

    /// Ends it. Returns the number of numbers.
    fn end(self) -> u64 {
        let _ = self.is_enough.set(());
        self.feeding.join().unwrap()
    }
}

fn all(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

/// Behaviour: B-62, B-61.
#[test]
fn killed_reader_is_reported_and_the_others_print_everything() {
    let url = endpoint("killed reader");
    let arguments = ["--type", "u64", "--json", "--capacity", "100"];
    let stay = ["a", "b"].map(|name| dialling(name, &url, &arguments));
    let killed = dialling("killed", &url, &arguments);
    let more = ["--readers", "3", "--gone-after", "200ms"];
    let (writer, input) = spreading(&url, &[&arguments[..], &more].concat());
    (0..3).for_each(|_| drop(told(&writer, "stream-connected")));
    let feed = Feed::into(input);
    (0..1000).for_each(|number| assert_eq!(killed.line(), number.to_string()));
    killed.signal("KILL");
    assert_eq!(killed.end().0, None);
    // The writer waits for it up to the time limit, by then with a full buffer.
    let left = told(&writer, "stream-reader");
    assert_eq!(left["peer"], "tl://localhost/killed");
    assert_eq!(left["code"], "peer-gone", "{left}");
    let lacks = left["left"].as_u64().unwrap();
    assert!(lacks > 0 && left["lost"] == 0, "{left}");
    // Another one comes, and begins somewhere after that.
    let next = dialling("next", &url, &arguments);
    let came = told(&writer, "stream-connected");
    assert_eq!(came["peer"], "tl://localhost/next");
    let first: u64 = next.line().parse().unwrap();
    assert!(first > 1000, "{first}");
    let count = feed.end();
    for reader in stay {
        let (code, lines) = reader.end();
        assert_eq!(code, Some(0));
        assert!(lines == all(0..count), "{} of {count}", lines.len());
    }
    let (code, lines) = next.end();
    assert_eq!(code, Some(0));
    assert!(lines == all(first + 1..count), "{} of {count}", lines.len());
    let written = told(&writer, "written");
    assert_eq!(
        (&written["elements"], &written["left"], &written["readers"]),
        (&count.into(), &lacks.into(), &4.into())
    );
    // Not every reader got everything.
    assert_eq!(writer.end().0, Some(7));
}

/// Behaviour: B-62, B-61.
#[test]
fn killed_writer_is_reported_and_the_others_are_printed() {
    let url = endpoint("killed writer");
    let arguments = ["--type", "u64", "--json", "--as", "csv"];
    let more = ["--writers", "2", "--gone-after", "200ms"];
    let reader = reader(&url, &[&arguments[..], &more].concat());
    let write = |name: &str| {
        let (end, input) = std::io::pipe().unwrap();
        let mut write = command(&["stream", "write", name, "--to", &url, "--type", "u64"]);
        (Running::spawn_reading(&mut write, end.into()), input)
    };
    let (stays, of_stays) = write("stays");
    let (killed, of_killed) = write("killed");
    let [of_stays, of_killed] = [of_stays, of_killed].map(Feed::into);
    assert_eq!(reader.line(), "writer,value");
    let mut lines = Vec::new();
    let mut read_to = |last: &str| {
        while lines.last().is_none_or(|line| line != last) {
            lines.push(reader.line());
            assert!(lines.len() < 10_000_000, "{last} does not come");
        }
    };
    read_to("tl://localhost/killed,1000");
    killed.signal("KILL");
    assert_eq!(killed.end().0, None);
    of_killed.end();
    let ended = told(&reader, "stream-writer");
    assert_eq!(ended["peer"], "tl://localhost/killed");
    assert_eq!(ended["code"], "peer-gone", "{ended}");
    let came = ended["elements"].as_u64().unwrap();
    // After a restart it is another writer, under any name.
    let (again, mut of_again) = write("again");
    of_again.write_all(b"5\n6\n").unwrap();
    drop(of_again);
    assert_eq!(again.end().0, Some(0));
    read_to("tl://localhost/again,6");
    let count = of_stays.end();
    assert_eq!(stays.end().0, Some(0));
    let read = told(&reader, "read");
    // Elements of one may be missing.
    let (code, rest) = reader.end();
    assert_eq!(code, Some(7));
    lines.extend(rest);
    assert_eq!(of(&lines, "tl://localhost/stays,"), all(0..count));
    assert_eq!(of(&lines, "tl://localhost/killed,"), all(0..came));
    assert_eq!(of(&lines, "tl://localhost/again,"), ["5", "6"]);
    assert_eq!(
        (&read["elements"], &read["ended"]),
        (&(count + came + 2).into(), &3.into())
    );
}
