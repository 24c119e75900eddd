//! The figures of a W5 cell, for all systems.

use std::thread;
use std::time::Duration;

use super::{Measured, Taken};
use crate::Outcome;
use crate::record::Row;
use crate::role::{Role, say};
use crate::settings::Settings;

/// Share of the measured time in which the subscriber must take the updates in transit.
const BACKLOG_SHARE_MAX: f64 = 0.1;

/// Counts of one subscriber.
#[derive(Debug)]
pub struct Share {
    /// Updates taken since the first, and those out of order.
    pub taken: Taken,
    /// Window of measuring, with the CPU time of the whole process.
    pub measured: Option<Measured>,
}

/// Runs each subscriber in a thread and reports their counts to the writer.
pub fn take_with(
    subscribers: usize,
    take: impl Fn(usize) -> Result<Share, String> + Sync,
) -> Outcome<()> {
    let take = &take;
    let shares: Vec<Result<Share, String>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..subscribers)
            .map(|number| scope.spawn(move || take(number)))
            .collect();
        let join = |one: thread::ScopedJoinHandle<'_, _>| {
            one.join()
                .unwrap_or_else(|_| Err("a subscriber panicked".to_owned()))
        };
        threads.into_iter().map(join).collect()
    });
    let (mut count, mut out_of_order) = (0, 0);
    let mut all = Measured {
        updates: 0,
        seconds: 0.0,
        cpu_ns: 0,
    };
    for share in shares {
        let share = share?;
        count += share.taken.count;
        out_of_order += share.taken.out_of_order;
        if let Some(measured) = share.measured {
            all.updates += measured.updates;
            all.seconds = all.seconds.max(measured.seconds);
            all.cpu_ns = all.cpu_ns.max(measured.cpu_ns);
        }
    }
    let result = Settings::default()
        .with("count", count)
        .with("out_of_order", out_of_order)
        .with("updates", all.updates)
        .with("seconds", all.seconds)
        .with("cpu_ns", all.cpu_ns);
    say(&format!("TAKEN {}", result.arguments().join(" ")));
    Ok(())
}

/// Counts of the writing process.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Subscribers of each update.
    pub subscribers: usize,
    /// Updates written since the first.
    pub count: u64,
    /// Window of measuring, with the CPU time of the writing thread.
    pub by_writer: Measured,
    /// CPU nanoseconds of the other threads of the process in the window.
    pub others_cpu_ns: u64,
    /// Time from the last write until the subscribers have taken everything.
    pub backlog: Duration,
}

/// Reads the counts of the subscribers.
pub fn taken_of(subscriber: &mut Role) -> Outcome<Settings> {
    let words: Vec<String> = subscriber
        .expect("TAKEN")?
        .split(' ')
        .map(ToOwned::to_owned)
        .collect();
    Settings::parse(&words)
}

/// Enters the figures of a cell.
pub fn enter(row: &mut Row, written: &Written, taken: &Settings) -> Outcome<()> {
    let (count, out_of_order): (u64, u64) = (taken.value("count")?, taken.value("out_of_order")?);
    let (updates, seconds): (f64, f64) = (taken.value("updates")?, taken.value("seconds")?);
    let reader_cpu_ns: f64 = taken.value("cpu_ns")?;
    let by_writer = written.by_writer;
    let wanted = written.count * written.subscribers as u64;
    let per_update = |cpu_ns: u64| cpu_ns as f64 / by_writer.updates.max(1) as f64;
    row.figure("updates", count as f64);
    row.figure(
        "updates_per_s",
        if seconds > 0.0 {
            updates / seconds
        } else {
            0.0
        },
    );
    row.figure("writer_ns_per_update", per_update(by_writer.cpu_ns));
    row.figure("engine_ns_per_update", per_update(written.others_cpu_ns));
    row.figure("client_ns_per_update", reader_cpu_ns / updates.max(1.0));
    row.figure("backlog_ms", written.backlog.as_secs_f64() * 1e3);
    row.require(count == wanted, || {
        format!("{wanted} updates were to be taken and {count} were")
    });
    row.require(out_of_order == 0, || {
        format!("{out_of_order} updates out of order")
    });
    row.require(updates > 0.0, || {
        "the measured time was over before it began".to_owned()
    });
    row.require(
        written.backlog.as_secs_f64() <= seconds * BACKLOG_SHARE_MAX,
        || format!("the subscriber was {:?} behind at the end", written.backlog),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(count: u64, backlog_ms: u64) -> Row {
        let written = Written {
            subscribers: 1,
            count: 1000,
            by_writer: Measured {
                updates: 500,
                seconds: 1.0,
                cpu_ns: 5000,
            },
            others_cpu_ns: 1000,
            backlog: Duration::from_millis(backlog_ms),
        };
        let taken = Settings::default()
            .with("count", count)
            .with("out_of_order", 0)
            .with("updates", 400)
            .with("seconds", 2.0)
            .with("cpu_ns", 800);
        let mut row = Row::new("updates_to_one", "raw-tcp", String::new(), "cross");
        enter(&mut row, &written, &taken).unwrap();
        row
    }

    #[test]
    fn figures_are_per_update() {
        let row = entered(1000, 10);
        assert_eq!(row.figures["updates_per_s"], 200.0);
        assert_eq!(row.figures["writer_ns_per_update"], 10.0);
        assert_eq!(row.figures["engine_ns_per_update"], 2.0);
        assert_eq!(row.figures["client_ns_per_update"], 2.0);
        assert_eq!(row.invalid, Vec::<String>::new());
    }

    #[test]
    fn a_row_with_losses_or_a_backlog_does_not_count() {
        assert!(entered(999, 10).invalid[0].contains("999 were"));
        assert!(entered(1000, 900).invalid[0].contains("behind"));
    }
}
