//! Simulates the reading program.

use std::time::Duration;

use trunkline_stream::sim::SimReader;
use trunkline_stream::{Commit, StreamError};
use trunkline_types::Tick;

use super::checker::{Lineage, StreamEnd};
use super::ctx::{Ctx, Exit, Phase};
use super::writing::{Next, check_fault, creation_failed};

/// Creates readers, one after another, and reads from them.
pub async fn run(ctx: Ctx) -> Exit {
    let data_type = ctx.plan().kind.data_type();
    loop {
        ctx.pause_between_ends().await;
        let url = ctx.url();
        let created = SimReader::create(&ctx.process, &url, &data_type, ctx.options());
        let reader = match created.await {
            Ok(reader) => reader,
            Err(error) => {
                ctx.log(|| format!("not created: {error}"));
                match creation_failed(&ctx, &error) {
                    true => return Exit::Wipe,
                    false => continue,
                }
            }
        };
        let found = reader.properties();
        let own = ctx.own();
        ctx.checker(|checker| checker.reader_created(own, ctx.peer(), &found));
        ctx.log(|| format!("goes on at {}", found.total));
        let every = ctx.plan().sides[1].pace.close_interval;
        let closes_at = every.map(|mean| ctx.now().saturating_add(ctx.rng(|rng| rng.wait(mean))));
        match (Reading {
            ctx: &ctx,
            own,
            closes_at,
        })
        .read_on(reader)
        .await
        {
            Next::Again => {}
            Next::Exit(exit) => return exit,
        }
    }
}

/// The state of the reading program while it has a reader.
struct Reading<'a> {
    ctx: &'a Ctx,
    /// Lineage of the reader.
    own: Lineage,
    /// Time at which the program closes the reader; `None`: never.
    closes_at: Option<Tick>,
}

impl Reading<'_> {
    /// Returns true if each read commits the elements of the previous read.
    fn commits_by_itself(&self) -> bool {
        self.has_journal() && self.ctx.plan().commit == Commit::ByNextRead
    }

    fn has_journal(&self) -> bool {
        self.ctx.plan().sides[1].journal.is_some()
    }

    async fn read_on(&self, mut reader: SimReader) -> Next {
        let ctx = self.ctx;
        loop {
            let is_time = self.closes_at.is_some_and(|at| ctx.now() >= at);
            if is_time && ctx.phase() == Phase::Faults {
                ctx.log(|| "closes".to_owned());
                ctx.checker(|checker| {
                    checker.is_disturbed = true;
                    checker.commit_began(self.own);
                });
                let found = reader.properties();
                self.close(reader).await;
                ctx.checker(|checker| checker.reader_gone(self.own, &found));
                return match self.has_journal() {
                    // Discard the data that the writer still has.
                    true => Next::Exit(Exit::Wipe),
                    false => Next::Again,
                };
            }
            match self.read(&mut reader).await {
                Ok(()) | Err(StreamError::Timeout { .. }) => {}
                Err(StreamError::Journal(error)) => {
                    ctx.log(|| error.to_string());
                    if !error.is_temporary() {
                        return Next::Again;
                    }
                }
                Err(error) => return self.over(reader, error).await,
            }
            ctx.pause().await;
        }
    }

    async fn close(&self, reader: SimReader) {
        if let Err(error) = reader.close().await {
            self.ctx.log(|| error.to_string());
        }
    }

    async fn over(&self, reader: SimReader, error: StreamError) -> Next {
        let ctx = self.ctx;
        ctx.log(|| format!("over: {error}"));
        check_fault(ctx, &error);
        let ended = match &error {
            StreamError::Ended => StreamEnd::Ended,
            StreamError::Aborted { missing, .. } => StreamEnd::Aborted { missing: *missing },
            StreamError::Fault(_) => StreamEnd::Fault,
            other => {
                ctx.checker(|checker| {
                    checker.fail(|| format!("a reader gets an unexpected error: {other}"))
                });
                StreamEnd::Fault
            }
        };
        ctx.checker(|checker| {
            checker.is_disturbed = true;
            checker.reader_over(self.own, ctx.peer(), ended);
            checker.commit_began(self.own);
        });
        let found = reader.properties();
        self.close(reader).await;
        ctx.checker(|checker| checker.reader_gone(self.own, &found));
        let has_all = matches!(ended, StreamEnd::Ended | StreamEnd::Aborted { missing: 0 });
        match ctx.phase() {
            Phase::Finish if has_all => Next::Exit(Exit::Done),
            _ if has_all => Next::Again,
            _ if ctx.plan().sides.iter().any(|side| side.journal.is_some()) => {
                Next::Exit(Exit::Wipe)
            }
            _ => Next::Again,
        }
    }

    async fn read(&self, reader: &mut SimReader) -> Result<(), StreamError> {
        let (ctx, own) = (self.ctx, self.own);
        let pace = &ctx.plan().sides[1].pace;
        let is_calm = ctx.phase() != Phase::Faults;
        let requested = ctx.rng(|rng| match rng.chance(0.3) {
            true => None,
            false => Some(rng.range(1, pace.batch_max) as usize),
        });
        let requested = requested.filter(|_| !is_calm);
        let timeout = ctx.rng(|rng| match rng.chance(pace.short_timeout_chance) {
            true => rng.millis(0, 300),
            false => rng.millis(1000, 8000),
        });
        let timeout = match is_calm {
            true => Duration::from_millis(50),
            false => timeout,
        };
        let by_itself = self.commits_by_itself();
        if by_itself {
            ctx.checker(|checker| checker.commit_began(own));
        }
        // Without a requested number, a read does not wait. Sometimes request one element, so that it waits.
        let requested = match requested {
            None if is_calm && ctx.rng(|rng| rng.chance(0.5)) => Some(1),
            requested => requested,
        };
        let take = |bytes: &[u8], count: usize| {
            ctx.checker(|checker| checker.deliver(own, ctx.peer(), bytes, count));
        };
        let got = reader.read(requested, Some(timeout), take).await;
        let found = reader.properties();
        ctx.checker(|checker| {
            let is_broken = matches!(&got, Err(StreamError::Journal(_)));
            if by_itself && !is_broken {
                checker.committed(own);
            }
            let count = *got.as_ref().unwrap_or(&0);
            // The read has committed the earlier elements. The next read commits the elements of this one.
            checker.check_read(own, requested, count, &found);
        });
        if let Err(error) = got
            && !matches!(error, StreamError::Timeout { .. })
        {
            return Err(error);
        }
        // Elements that are not committed occupy the buffer, so always commit if there are no faults.
        let chance = if is_calm { 1.0 } else { 0.4 };
        if self.has_journal() && !by_itself && ctx.rng(|rng| rng.chance(chance)) {
            ctx.checker(|checker| checker.commit_began(own));
            reader.commit().await?;
            ctx.checker(|checker| checker.committed(own));
        }
        Ok(())
    }
}
