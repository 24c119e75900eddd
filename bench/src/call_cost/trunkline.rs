//! W2 with Trunkline: calls of one item, and calls of many items with one wait.

use trunkline::types::{Reading, Value};
use trunkline::{Client, OpenOptions, ReadingBuffer, VariableRef, Write, WriteOutcome};

use super::{VARIABLES, Variables};
use crate::Outcome;
use crate::hosting::{Manner, names};
use crate::trunkline_calls::{PATIENCE, opened};

#[derive(Debug)]
pub struct Near {
    client: Client,
    variables: Vec<VariableRef>,
    page: ReadingBuffer,
}

impl Near {
    pub fn connect(url: &str, manner: Manner) -> Outcome<Self> {
        let client = manner.client(url)?;
        let variables =
            opened(client.open(&names(VARIABLES), OpenOptions::default(), PATIENCE)?)?;
        let page = ReadingBuffer::new();
        Ok(Self {
            client,
            variables,
            page,
        })
    }
}

impl Variables for Near {
    fn put(&mut self, variable: usize, value: f64) -> Outcome<()> {
        let write = Write::new(self.variables[variable], Value::F64(value));
        all_applied(&self.client.write([write], PATIENCE)?, 1)
    }

    fn get(&mut self, variable: usize) -> Outcome<f64> {
        let readings = self
            .client
            .read(&self.variables[variable..=variable], PATIENCE)?;
        match readings.as_slice() {
            [Ok(reading)] => number(reading),
            other => Err(format!("instead of one reading: {other:?}").into()),
        }
    }

    fn put_all(&mut self, first: u64, count: usize) -> Outcome<()> {
        let values = (first..).map(|value| Value::F64(value as f64));
        let variables = self.variables.iter().cycle().take(count);
        let writes = variables
            .zip(values)
            .map(|(variable, value)| Write::new(*variable, value));
        all_applied(&self.client.write(writes, PATIENCE)?, count)
    }

    fn get_all(&mut self, count: usize, values: &mut Vec<f64>) -> Outcome<()> {
        values.clear();
        if count <= VARIABLES {
            self.client
                .read_into(&self.variables[..count], &mut self.page, PATIENCE)?;
        } else {
            let variables: Vec<_> = self.variables.iter().cycle().take(count).copied().collect();
            self.client
                .read_into(&variables, &mut self.page, PATIENCE)?;
        }
        for reading in self.page.iter() {
            let reading = reading.map_err(ToString::to_string)?;
            let value = reading.get::<f64>();
            values.push(value.ok_or_else(|| format!("a value of another type: {reading:?}"))?);
        }
        if values.len() == count {
            Ok(())
        } else {
            Err(format!("{} of {count} readings came", values.len()).into())
        }
    }
}

fn all_applied(outcomes: &[WriteOutcome], count: usize) -> Outcome<()> {
    let applied = |outcome: &&WriteOutcome| matches!(outcome, WriteOutcome::Applied(_));
    match outcomes.iter().filter(applied).count() {
        applied if applied == count => Ok(()),
        applied => Err(format!("{applied} of {count} puts were applied").into()),
    }
}

fn number(reading: &Reading) -> Outcome<f64> {
    match reading.sample.value {
        Value::F64(value) => Ok(value),
        ref other => Err(format!("a value of another type: {other:?}").into()),
    }
}
