//! W1 with Trunkline: one client, subscribed to all variables (`latest`, or `all`), that writes
//! them in one call.

use std::time::{Duration, Instant};

use trunkline::types::{Contract, Value};
use trunkline::{Client, Event, OpenOptions, SubscribeOptions, Subscription, VariableRef, Write};

use super::{Grid, Kind, Registers};
use crate::Outcome;
use crate::hosting::{Manner, names};
use crate::trunkline_calls::{PATIENCE, opened};

#[derive(Debug)]
pub struct Near {
    client: Client,
    subscription: Subscription,
    variables: Vec<VariableRef>,
    kind: Kind,
    prepared: Vec<Write>,
    lost: u64,
}

impl Near {
    /// Connects to the engine, opens the variables and subscribes to them. Waits for the first
    /// reading of each.
    pub fn connect(url: &str, grid: Grid, contract: Contract, manner: Manner) -> Outcome<Self> {
        let client = manner.client(url)?;
        let names = names(grid.variables);
        let variables = opened(client.open(&names, OpenOptions::default(), PATIENCE)?)?;
        let subscription = client.subscribe(&names, contract, SubscribeOptions::default())?;
        let mut readings = 0;
        while readings < grid.variables {
            match subscription
                .next(Some(PATIENCE))
                .ok_or("no first reading came")?
            {
                Event::Reading { .. } => readings += 1,
                Event::Connected { .. } => {}
                other => return Err(format!("instead of a reading: {other:?}").into()),
            }
        }
        let kind = grid.kind;
        Ok(Self {
            client,
            subscription,
            variables,
            kind,
            prepared: Vec::new(),
            lost: 0,
        })
    }
}

impl Registers for Near {
    fn prepare(&mut self, tick: u32) {
        let value = match self.kind {
            Kind::I32 => Value::I32(tick as i32),
            Kind::F32 => Value::F32(tick as f32),
            Kind::String16 => Value::String(Kind::string_of(tick).into()),
        };
        let writes = self
            .variables
            .iter()
            .map(|variable| Write::new(*variable, value.clone()));
        self.prepared = writes.collect();
    }

    fn send(&mut self) -> Outcome<()> {
        Ok(self
            .client
            .write_untracked(self.prepared.drain(..), PATIENCE)?)
    }

    fn receive(&mut self, deadline: Instant, notice: &mut dyn FnMut(usize, u32)) -> Outcome<()> {
        let patience = deadline.saturating_duration_since(Instant::now());
        let mut event = self
            .subscription
            .next(Some(patience.max(Duration::from_micros(1))));
        while let Some(received) = event {
            match received {
                Event::Reading { item, reading } => {
                    let lost = &reading.lost;
                    let beyond = lost
                        .count()
                        .ok_or("an unknown number of updates was lost")?;
                    self.lost += lost.coalesced + beyond;
                    notice(item as usize, tick_of(&reading.sample.value)?);
                }
                other => return Err(format!("instead of a reading: {other:?}").into()),
            }
            event = self.subscription.try_next();
        }
        Ok(())
    }

    fn told_lost(&self) -> Option<u64> {
        Some(self.lost)
    }

    fn finish(&mut self) -> Outcome<()> {
        let counts = self.client.flush(PATIENCE)?;
        if counts.applied != counts.issued {
            return Err(format!("not every write was applied: {counts:?}").into());
        }
        Ok(())
    }
}

fn tick_of(value: &Value) -> Outcome<u32> {
    match value {
        Value::I32(tick) => Ok(*tick as u32),
        Value::F32(tick) => Ok(*tick as u32),
        Value::String(text) => Ok(text.parse()?),
        other => Err(format!("a value of another type: {other:?}").into()),
    }
}
