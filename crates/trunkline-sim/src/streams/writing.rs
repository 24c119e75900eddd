//! Simulates the writing program.

use std::time::Duration;

use trunkline_stream::sim::SimWriter;
use trunkline_stream::{Closed, Left, StreamError, StreamFault, Until};
use trunkline_types::Tick;

use super::content::Kind;
use super::ctx::{Ctx, Exit, Phase};

/// Creates writers, one after another, and writes to them.
pub async fn run(ctx: Ctx) -> Exit {
    let data_type = ctx.plan().kind.data_type();
    loop {
        ctx.pause_between_ends().await;
        let url = ctx.url();
        let created = SimWriter::create(&ctx.process, &url, &data_type, ctx.options());
        let writer = match created.await {
            Ok(writer) => writer,
            Err(error) => {
                ctx.log(|| format!("not created: {error}"));
                match creation_failed(&ctx, &error) {
                    true => return Exit::Wipe,
                    false => continue,
                }
            }
        };
        let found = writer.properties();
        let stream = ctx.checker(|checker| checker.writer_created(ctx.own(), &found));
        ctx.log(|| format!("stream {stream} goes on at {}", found.total));
        match Writing::new(&ctx, stream).write_on(writer).await {
            Next::Again => {}
            Next::Exit(exit) => return exit,
        }
    }
}

/// Returns true if the journals can no longer be used after this error.
pub fn creation_failed(ctx: &Ctx, error: &StreamError) -> bool {
    let is_lost = match error {
        StreamError::NoPeer { .. } => false,
        StreamError::Journal(error) => {
            return !error.is_temporary() && ctx.plan().faults.is_empty();
        }
        StreamError::Fault(_) => true,
        StreamError::Refused { .. } => false,
        _ => {
            ctx.checker(|checker| checker.fail(|| format!("an end cannot be created: {error}")));
            false
        }
    };
    check_fault(ctx, error);
    is_lost && ctx.plan().sides.iter().any(|side| side.journal.is_some())
}

/// Checks that a stream has ended with a fault only because a program has ended or data was lost.
pub fn check_fault(ctx: &Ctx, error: &StreamError) {
    let StreamError::Fault(fault) = error else {
        return;
    };
    let plan = ctx.plan();
    let both_have_journals = plan.sides.iter().all(|side| side.journal.is_some());
    ctx.checker(|checker| {
        let is_lost = matches!(fault, StreamFault::DataLost { .. })
            || matches!(fault, StreamFault::Refused { code, .. }
                if *code == trunkline_proto::FaultCode::StreamDataLost);
        let is_gone = matches!(fault, StreamFault::PeerGone { .. });
        let is_permitted = match fault {
            _ if is_gone => plan.gone_after.is_some(),
            StreamFault::PeerRestarted | StreamFault::LocalRestarted if plan.accepts_successor => {
                false
            }
            _ if is_lost => checker.may_lose || checker.has_failed || !both_have_journals,
            // An endpoint that has waited for `gone_after` has ended, even before its program knows.
            _ => checker.is_disturbed || plan.gone_after.is_some(),
        };
        if is_gone {
            checker.is_disturbed = true;
        }
        if !is_permitted {
            checker.fail(|| format!("I1: a stream is over, but no program ended it: {fault}"));
        }
    });
}

/// What a program does after its endpoint has ended.
pub enum Next {
    /// Creates another endpoint.
    Again,
    Exit(Exit),
}

/// The state of the writing program while it has a writer.
struct Writing<'a> {
    ctx: &'a Ctx,
    /// Number of the stream in the checker.
    stream: u64,
    /// Time at which the program closes the writer; `None`: never.
    closes_at: Option<Tick>,
    /// Buffer for the elements of a write.
    bytes: Vec<u8>,
    /// True after the program has decided to write a single element as a probe.
    probes: bool,
}

impl<'a> Writing<'a> {
    fn new(ctx: &'a Ctx, stream: u64) -> Self {
        let every = ctx.plan().sides[0].pace.close_interval;
        let closes_at = every.map(|mean| ctx.now().saturating_add(ctx.rng(|rng| rng.wait(mean))));
        Self {
            ctx,
            stream,
            closes_at,
            bytes: Vec::new(),
            probes: false,
        }
    }

    fn has_journal(&self) -> bool {
        self.ctx.plan().sides[0].journal.is_some()
    }

    async fn write_on(&mut self, mut writer: SimWriter) -> Next {
        let ctx = self.ctx;
        loop {
            if ctx.checker(|checker| checker.stream(self.stream).is_closing) {
                return self.close(writer, true).await;
            }
            let is_time = self.closes_at.is_some_and(|at| ctx.now() >= at);
            match ctx.phase() {
                Phase::Finish => return self.close(writer, true).await,
                Phase::Faults if is_time || self.must_end() => {
                    return self.end_early(writer).await;
                }
                _ => {}
            }
            if ctx.checker(|checker| checker.is_probing()) {
                // The probe must arrive without further calls of the program.
                ctx.pause().await;
                continue;
            }
            let may_write = match ctx.phase() {
                Phase::Calm(until) => ctx.now() < until,
                _ => true,
            };
            // Limit the backlog to the number of elements that can pass in the remaining time, even if
            // round trips limit the rate.
            let is_backlog_full =
                ctx.checker(|checker| checker.backlog(self.stream)) >= ctx.plan().backlog();
            let may_write = may_write && !is_backlog_full;
            let is_probe = !self.probes && !is_backlog_full && self.probe_is_due();
            self.probes |= is_probe;
            let may_write = may_write || is_probe;
            let done = match may_write {
                true => self.write(&mut writer).await,
                // Without a write, a flush detects that the endpoint has ended.
                false => {
                    writer
                        .flush(Until::Read, Some(Duration::from_millis(200)))
                        .await
                }
            };
            if is_probe && done.is_ok() {
                let by = ctx.now().saturating_add(ctx.plan().element_time_max());
                ctx.checker(|checker| checker.probe(self.stream, by));
            }
            let is_late = may_write && matches!(done, Err(StreamError::Timeout { .. }));
            if is_late && ctx.phase() == Phase::Faults {
                let give_up_chance = ctx.plan().sides[0].pace.give_up_chance;
                if ctx.rng(|rng| rng.chance(give_up_chance)) {
                    return self.end_early(writer).await;
                }
            }
            let done = match done {
                Ok(()) if may_write && !is_probe => self.flush(&mut writer).await,
                done => done,
            };
            if let Some(next) = self.next_step(done) {
                return match next {
                    // The next incarnation continues the stream from the journal.
                    Next::Again if self.has_journal() => Next::Again,
                    next => self.give_up(writer, next).await,
                };
            }
            ctx.pause().await;
        }
    }

    /// Returns true if the program should write the probe, a single element that must arrive although no
    /// call waits for it. This is some time after the last write was read.
    fn probe_is_due(&self) -> bool {
        let Phase::Calm(until) = self.ctx.phase() else {
            return false;
        };
        let backlog = self.ctx.checker(|checker| checker.backlog(self.stream));
        backlog == 0 && self.ctx.now() >= until.saturating_add(Duration::from_secs(3))
    }

    async fn write(&mut self, writer: &mut SimWriter) -> Result<(), StreamError> {
        let ctx = self.ctx;
        let (kind, pace) = (ctx.plan().kind, &ctx.plan().sides[0].pace);
        let count_max = pace.batch_max.min(ctx.plan().backlog());
        let count_max = if self.probes { 1 } else { count_max };
        let count = ctx.rng(|rng| rng.range(1, count_max));
        let first = ctx.checker(|checker| checker.stream(self.stream).accepted);
        self.bytes.clear();
        let room = ctx.plan().sides[0]
            .bytes_max
            .min(ctx.plan().sides[1].bytes_max);
        let mut elements = 0;
        for index in first..first + count {
            let before = self.bytes.len();
            kind.put(self.stream, index, &mut self.bytes);
            if matches!(kind, Kind::Variable(..)) && self.bytes.len() > room {
                self.bytes.truncate(before);
                break;
            }
            elements += 1;
        }
        let timeout = self.call_timeout();
        ctx.checker(|checker| checker.write_began(self.stream, elements));
        let done = writer.write(&self.bytes, elements as usize, timeout).await;
        // Reading the properties through the writer also sends pending data. The probe must arrive
        // without that.
        let (end, _) = ctx.process.ends();
        let found = match end.filter(|_| self.probes) {
            Some(end) => end.properties(),
            None => writer.properties(),
        };
        ctx.checker(|checker| match &done {
            Ok(()) => checker.write_accepted(self.stream, elements, &found),
            Err(StreamError::Journal(error)) if !error.is_temporary() => {}
            Err(_) => checker.write_failed(self.stream, &found),
        });
        done
    }

    fn call_timeout(&self) -> Option<Duration> {
        let ctx = self.ctx;
        match ctx.phase() {
            Phase::Faults => {
                let short_timeout_chance = ctx.plan().sides[0].pace.short_timeout_chance;
                ctx.rng(|rng| match rng.chance(short_timeout_chance) {
                    true => Some(rng.millis(0, 300)),
                    // Use a timeout that is longer than most outages, but limited, so that the run ends.
                    false => Some(rng.millis(2000, 8000)),
                })
            }
            _ => Some(Duration::from_millis(100)),
        }
    }

    async fn flush(&mut self, writer: &mut SimWriter) -> Result<(), StreamError> {
        let ctx = self.ctx;
        if !ctx.rng(|rng| rng.chance(0.15)) {
            return Ok(());
        }
        let is_durable = ctx.plan().sides[1].journal.is_some();
        let until = ctx.rng(|rng| match rng.below(4) {
            0 => Until::Sent,
            1 => Until::Read,
            2 if is_durable => Until::Durable,
            _ => Until::Available,
        });
        let is_zero = ctx.rng(|rng| rng.chance(0.2));
        let timeout = match is_zero {
            true => Some(Duration::ZERO),
            false => self.call_timeout(),
        };
        let count = ctx.checker(|checker| checker.stream(self.stream).accepted);
        let done = writer.flush(until, timeout).await;
        if done.is_ok() && timeout != Some(Duration::ZERO) {
            let ends = ctx.shared.ends.borrow();
            let reader = ends[1].as_ref().filter(|reader| {
                let (own, _) = ctx.process.ends();
                own.is_some_and(|own| {
                    reader.peer() == Some(own.incarnation())
                        && own.peer() == Some(reader.incarnation())
                })
            });
            let found = reader.map(|reader| reader.properties());
            let by = ctx.peer().unwrap_or_default();
            ctx.checker(|checker| checker.flushed(self.stream, until, count, by, found.as_ref()));
        }
        done
    }

    /// Decides how to continue after a call. `None` means to continue with the same writer.
    fn next_step(&self, done: Result<(), StreamError>) -> Option<Next> {
        let ctx = self.ctx;
        match done {
            Ok(()) | Err(StreamError::Timeout { .. }) => None,
            Err(StreamError::Journal(error)) => {
                ctx.log(|| error.to_string());
                (!error.is_temporary()).then_some(Next::Again)
            }
            // The journal records that the stream was closed, so the writer only sends the remaining data.
            Err(StreamError::Closed) if self.has_journal() => None,
            Err(error) => {
                ctx.log(|| format!("over: {error}"));
                check_fault(ctx, &error);
                if !matches!(error, StreamError::Fault(_)) {
                    ctx.checker(|c| {
                        c.fail(|| format!("a writer gets an unexpected error: {error}"))
                    });
                }
                Some(Next::Exit(Exit::Wipe))
            }
        }
    }

    /// Closes the writer of a stream that has ended with a fault.
    async fn give_up(&mut self, writer: SimWriter, next: Next) -> Next {
        let closed = writer.close(Some(Duration::from_secs(1))).await;
        let left = self.undelivered(closed);
        self.ctx.checker(|checker| {
            checker.is_disturbed = true;
            checker.writer_left(self.stream, left, false);
        });
        match self.ctx.plan().sides[1].journal.is_some() || self.has_journal() {
            true => next,
            false => Next::Again,
        }
    }

    /// Returns the undelivered elements.
    fn undelivered(&self, closed: Closed) -> Left {
        if let Some(error) = closed.journal_error {
            self.ctx.log(|| error.to_string());
        }
        Left {
            elements: closed.elements,
            in_doubt: closed.in_doubt,
        }
    }

    /// Returns true if the program must end the stream because of a fault of the connection.
    fn must_end(&self) -> bool {
        let ends_at = &self.ctx.shared.ends_at;
        let is_due = ends_at.get().is_some_and(|at| at <= self.ctx.now());
        if is_due {
            ends_at.set(None);
        }
        is_due
    }

    /// Ends the stream on the program's own initiative.
    async fn end_early(&mut self, writer: SimWriter) -> Next {
        let ctx = self.ctx;
        ctx.checker(|checker| checker.is_disturbed = true);
        let in_order = ctx.rng(|rng| rng.chance(0.7));
        self.close(writer, in_order).await
    }

    async fn close(&mut self, writer: SimWriter, in_order: bool) -> Next {
        let ctx = self.ctx;
        let timeout = match ctx.phase() {
            Phase::Finish => Duration::from_secs(8),
            _ => ctx.rng(|rng| match rng.chance(0.5) {
                true => rng.millis(0, 300),
                false => rng.millis(0, 6000),
            }),
        };
        ctx.log(|| format!("ends stream {}, in order: {in_order}", self.stream));
        ctx.checker(|checker| checker.close_began(self.stream, in_order));
        let closed = match in_order {
            true => writer.close(Some(timeout)).await,
            false => writer.abort().await,
        };
        let left = self.undelivered(closed);
        let (end, _) = ctx.process.ends();
        let fault = end.and_then(|end| end.fault());
        ctx.log(|| format!("left {left:?}, {fault:?}"));
        if let Some(fault) = fault.filter(|_| self.has_journal()) {
            check_fault(ctx, &fault.into());
            ctx.checker(|checker| checker.writer_gone(self.stream));
            return Next::Exit(Exit::Wipe);
        }
        let is_kept = self.has_journal() && left != Left::default();
        if is_kept && in_order {
            // The next incarnation sends the remaining elements.
            return Next::Again;
        }
        ctx.checker(|checker| checker.writer_left(self.stream, left, in_order));
        match ctx.phase() {
            Phase::Finish => Next::Exit(Exit::Done),
            _ if self.has_journal() && left != Left::default() => Next::Exit(Exit::Wipe),
            _ => Next::Again,
        }
    }
}
