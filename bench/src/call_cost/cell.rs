//! The loop of W2 and its figures; all systems use them.

use std::time::Instant;

use super::{BATCH, Operation, VARIABLES, Variables, Verb};
use crate::Outcome;
use crate::record::Row;
use crate::statistics::median;
use crate::usage::{Loopback, Usage, process_cpu_ns};

/// One pass of an operation.
struct Pass {
    elapsed_ms: f64,
    near_cpu_ms: f64,
    bytes: f64,
    packets: f64,
    near: Usage,
    far: Usage,
}

/// Makes `calls` calls of an operation, once to warm up and `passes` times measured, and enters the
/// medians.
pub fn run(
    operation: Operation,
    calls: usize,
    passes: u32,
    variables: &mut dyn Variables,
    far_pid: u32,
    row: &mut Row,
) -> Outcome<()> {
    let mut first = 1;
    let mut values = Vec::with_capacity(calls.min(BATCH));
    let mut measured = Vec::new();
    for _ in 0..=passes {
        measured.push(one_pass(
            operation,
            calls,
            first,
            variables,
            far_pid,
            &mut values,
        )?);
        first += calls as u64;
        if operation.verb == Verb::Put {
            check_content(first - 1, calls, variables, &mut values)?;
        }
    }
    let measured = &measured[1..];
    let middle = |pick: fn(&Pass) -> f64| {
        median(&measured.iter().map(pick).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    row.figure("calls", calls as f64);
    row.figure("elapsed_ms", middle(|pass| pass.elapsed_ms));
    row.figure("near_cpu_ms", middle(|pass| pass.near_cpu_ms));
    row.figure("far_cpu_ms", middle(|pass| pass.far.cpu_ns as f64 / 1e6));
    row.figure("loopback_bytes", middle(|pass| pass.bytes));
    row.figure("loopback_packets", middle(|pass| pass.packets));
    if operation.synchronous {
        let waits = f64::from(passes) * calls as f64;
        let switches = |end: fn(&Pass) -> u64| measured.iter().map(end).sum();
        row.slept("near", switches(|pass| pass.near.voluntary), waits);
        row.slept("far", switches(|pass| pass.far.voluntary), waits);
    }
    Ok(())
}

fn one_pass(
    operation: Operation,
    calls: usize,
    first: u64,
    variables: &mut dyn Variables,
    far_pid: u32,
    values: &mut Vec<f64>,
) -> Outcome<Pass> {
    let (near, far) = (Usage::of_self()?, Usage::of(far_pid)?);
    let (lo, cpu, start) = (Loopback::now()?, process_cpu_ns(), Instant::now());
    match (operation.verb, operation.synchronous) {
        (Verb::Put, true) => {
            for call in 0..calls {
                variables.put(call % VARIABLES, (first + call as u64) as f64)?;
            }
        }
        (Verb::Get, true) => {
            for call in 0..calls {
                std::hint::black_box(variables.get(call % VARIABLES)?);
            }
        }
        (Verb::Put, false) => {
            for done in (0..calls).step_by(BATCH) {
                variables.put_all(first + done as u64, BATCH.min(calls - done))?;
            }
        }
        (Verb::Get, false) => {
            for done in (0..calls).step_by(BATCH) {
                variables.get_all(BATCH.min(calls - done), values)?;
            }
        }
    }
    let (elapsed, cpu) = (start.elapsed(), process_cpu_ns() - cpu);
    let lo = Loopback::now()? - lo;
    let (near, far) = (Usage::of_self()? - near, Usage::of(far_pid)? - far);
    Ok(Pass {
        elapsed_ms: elapsed.as_secs_f64() * 1e3,
        near_cpu_ms: cpu as f64 / 1e6,
        bytes: lo.bytes as f64,
        packets: lo.packets as f64,
        near,
        far,
    })
}

/// Checks that each variable holds the last value put to it; the last of all puts was `last`.
fn check_content(
    last: u64,
    calls: usize,
    variables: &mut dyn Variables,
    values: &mut Vec<f64>,
) -> Outcome<()> {
    variables.get_all(VARIABLES.min(calls), values)?;
    // Every batch begins with variable 0.
    let batch = if calls.is_multiple_of(BATCH) {
        BATCH
    } else {
        calls % BATCH
    };
    let start = last + 1 - batch as u64;
    for (index, value) in values.iter().enumerate() {
        let rounds = (batch - 1 - index) / VARIABLES;
        let expected = start + (index + rounds * VARIABLES) as u64;
        if *value != expected as f64 {
            return Err(format!("variable {index} holds {value}, {expected} was put").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_cost::OPERATIONS;

    struct Here {
        held: Vec<f64>,
        loses: bool,
    }

    impl Variables for Here {
        fn put(&mut self, variable: usize, value: f64) -> Outcome<()> {
            self.held[variable] = if self.loses && variable == 7 {
                0.0
            } else {
                value
            };
            Ok(())
        }

        fn get(&mut self, variable: usize) -> Outcome<f64> {
            Ok(self.held[variable])
        }

        fn put_all(&mut self, first: u64, count: usize) -> Outcome<()> {
            (0..count).try_for_each(|n| self.put(n % VARIABLES, (first + n as u64) as f64))
        }

        fn get_all(&mut self, count: usize, values: &mut Vec<f64>) -> Outcome<()> {
            values.clear();
            values.extend(self.held.iter().cycle().take(count));
            Ok(())
        }
    }

    fn measure(operation: Operation, calls: usize, loses: bool) -> Outcome<Row> {
        let mut sut = Here {
            held: vec![0.0; VARIABLES],
            loses,
        };
        let mut row = Row::new("call_cost", "raw-tcp", operation.name().to_owned(), "cross");
        run(operation, calls, 2, &mut sut, std::process::id(), &mut row)?;
        Ok(row)
    }

    #[test]
    fn every_operation_is_measured_and_its_content_checked() {
        for operation in OPERATIONS {
            for calls in [1000, 12_345, 20_000] {
                let row = measure(operation, calls, false).unwrap();
                assert_eq!(row.figures["calls"], calls as f64);
                assert!(row.figures["elapsed_ms"] > 0.0);
            }
        }
    }

    #[test]
    fn a_lost_put_is_found() {
        let error = measure(OPERATIONS[0], 1000, true).unwrap_err().to_string();
        assert!(error.contains("variable 7 holds 0"), "{error}");
    }
}
