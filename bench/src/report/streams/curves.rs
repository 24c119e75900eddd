//! The published curves: throughput by buffer and call (NS-87), CPU by rate (NS-88).

use super::super::medians::{Repeats, ratio};
use super::super::svg::{Chart, Line};
use super::super::{Plot, Section, cells, figure, peers};
use super::name;
use crate::cells::RAW;
use crate::record::Run;
use crate::streams::paced::{self, RATES};
use crate::streams::sweep::{self, BUFFERS, by_buffer, by_call};
use crate::streams::{COPIED, PACED, SWEEP};

/// NS-87.
pub(in crate::report) fn sweep(run: &Run) -> Section {
    let mut text = String::from(
        "\n## NS-87: throughput by buffer and by call\n\n\
         The published method: doubles, counted at the reader; first the buffer is varied, with calls of a \
         tenth of it, then the calls, with the buffer that was best. 0.4 s at each point instead of 60, and \
         one direction, as both ends are the same machine. Raw has the calls alone, small ones packed as in \
         W3. Published: buffers of 1,000,000, 1,000,000 and 500,000 were best, and streams were comparable \
         with TCP (NS-89).\n\n",
    );
    let buffers: Vec<(usize, String)> = BUFFERS.map(|size| (size, by_buffer(size))).to_vec();
    let calls: Vec<(usize, String)> = sweep::CALLS.map(|size| (size, by_call(size))).to_vec();
    let of = |system: &str, case: &str| Repeats::find(run, SWEEP, system, case);
    let table = |points: &[(usize, String)], what: &str| {
        let mut text = format!("| {what} ");
        for system in sweep::SYSTEMS {
            text.push_str(&format!("| {}, MB/s ", name(system)));
            if system != RAW {
                text.push_str("| x raw ");
            }
        }
        text.push_str(&format!("|\n|---:{}\n", "|---:".repeat(5) + "|"));
        for (size, case) in points {
            let mut row = vec![size.to_string()];
            for system in sweep::SYSTEMS {
                let rate = |system| of(system, case).figure("mb_per_s");
                row.push(figure(rate(system)));
                if system != RAW {
                    row.push(figure(ratio(rate(system), rate(RAW))));
                }
            }
            text.push_str(&cells(&row));
        }
        text
    };
    text.push_str(&table(&buffers, "elements of the buffer"));
    text.push('\n');
    text.push_str(&table(&calls, "elements per call"));
    let best = |system| {
        let buffer = of(system, &by_call(1)).figure("buffer");
        buffer.map(|buffer| format!("{}: {buffer}", name(system)))
    };
    let best: Vec<String> = sweep::SYSTEMS[1..]
        .iter()
        .filter_map(|one| best(one))
        .collect();
    if !best.is_empty() {
        let best = best.join("; ");
        text.push_str(&format!(
            "\nBest buffer, in elements (median of the repeats): {best}.\n"
        ));
    }
    let chart = |file, title: &str, x_label: &str, points: &[(usize, String)]| {
        let line = |system: &str| {
            let point = |(size, case): &(usize, String)| {
                Some((*size as f64, of(system, case).figure("mb_per_s")?))
            };
            Line {
                name: name(system).to_owned(),
                points: points.iter().filter_map(point).collect(),
                dashed: system == RAW,
            }
        };
        let chart = Chart {
            title: title.to_owned(),
            x_label: x_label.to_owned(),
            y_label: "MB/s".to_owned(),
            lines: sweep::SYSTEMS.map(line).to_vec(),
        };
        Plot::of_lines(file, &chart)
    };
    let charts = vec![
        chart(
            "ns87-buffer.svg",
            "NS-87: throughput by buffer, calls of a tenth",
            "elements of the buffer",
            &buffers,
        ),
        chart(
            "ns87-call.svg",
            "NS-87: throughput by call, with the best buffer",
            "elements per call",
            &calls,
        ),
    ];
    Section { text, charts }
}

/// A line of NS-88: a system with a size of calls.
type Curve = (&'static str, usize);

fn curves(run: &Run) -> Vec<Curve> {
    let mut curves = vec![(RAW, paced::SMALL)];
    curves.extend(paced::CALLS.map(|call| (COPIED, call)));
    let others = peers::measured(run, PACED).into_iter();
    curves.extend(others.map(|(system, _)| (system, paced::SMALL)));
    curves
}

fn label((system, call): Curve) -> String {
    format!("{}, {} k", name(system), call / 1000)
}

/// NS-88.
pub(in crate::report) fn paced(run: &Run) -> Section {
    let mut text = String::from(
        "\n## NS-88: processors by throughput\n\n\
         The published method: a writer keeps a rate, which is doubled until an end needs more than 90 % of \
         its core or the rate is not kept (less than 95 % of it). 0.6 s at each rate with 6 samples instead \
         of 60 s with 120; calls of 10,000 elements, and of Trunkline of 100,000 as published. CPU of both \
         ends, in percent of one core; in brackets the largest sample of either end.\n\n",
    );
    let curves = curves(run);
    let of =
        |(system, call): Curve, rate| Repeats::find(run, PACED, system, &paced::case(call, rate));
    let both = |curve, rate| {
        let of = of(curve, rate);
        Some(of.figure("writer_percent")? + of.figure("reader_percent")?)
    };
    text.push_str("| MB/s asked ");
    for curve in &curves {
        text.push_str(&format!("| {}: MB/s | CPU % ", label(*curve)));
    }
    text.push_str(&format!("|\n|---:|{}\n", "---:|---:|".repeat(curves.len())));
    for rate in RATES {
        let mut row = vec![figure(Some(rate * 8e-6))];
        for curve in &curves {
            row.push(figure(of(*curve, rate).figure("mb_per_s")));
            row.push(match both(*curve, rate) {
                None => "-".to_owned(),
                cpu => format!(
                    "{} ({})",
                    figure(cpu),
                    figure(of(*curve, rate).figure("busiest_percent"))
                ),
            });
        }
        text.push_str(&cells(&row));
    }
    let line = |curve: &Curve| {
        let point = |rate| {
            let mb = of(*curve, rate).figure("mb_per_s")?;
            Some((mb, both(*curve, rate)?))
        };
        Line {
            name: label(*curve),
            points: RATES.into_iter().filter_map(point).collect(),
            dashed: curve.0 == RAW,
        }
    };
    let chart = Chart {
        title: "NS-88: CPU of both ends by throughput".to_owned(),
        x_label: "MB/s".to_owned(),
        y_label: "% of a core".to_owned(),
        lines: curves.iter().map(line).collect(),
    };
    Section {
        text,
        charts: vec![Plot::of_lines("ns88-cpu.svg", &chart)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Row;

    /// Scenario, system, case, figures.
    type Measured<'a> = (&'a str, &'a str, String, &'a [(&'a str, f64)]);

    fn run(rows: &[Measured<'_>]) -> Run {
        let row = |(scenario, system, case, figures): &Measured<'_>| {
            let mut row = Row::new(scenario, system, case.clone(), "cross");
            for (name, value) in *figures {
                row.figure(name, *value);
            }
            row
        };
        Run {
            machine: Machine::here("quick").unwrap(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn sweeps_are_beside_raw_point_by_point() {
        let run = run(&[
            (SWEEP, RAW, by_buffer(10_000), &[("mb_per_s", 1000.0)]),
            (SWEEP, COPIED, by_buffer(10_000), &[("mb_per_s", 500.0)]),
            (SWEEP, RAW, by_call(1), &[("mb_per_s", 800.0)]),
            (
                SWEEP,
                COPIED,
                by_call(1),
                &[("mb_per_s", 200.0), ("buffer", 1e4)],
            ),
        ]);
        let section = sweep(&run);
        let text = &section.text;
        assert!(
            text.contains("| 10000 | 1000 | 500 | 0.500 | - | - |"),
            "{text}"
        );
        assert!(text.contains("| 1 | 800 | 200 | 0.250 | - | - |"), "{text}");
        assert!(text.contains("Trunkline, copied: 10000."), "{text}");
        assert!(section.charts.iter().all(|plot| plot.svg.is_some()));
    }

    #[test]
    fn cpu_is_that_of_both_ends() {
        let figures: &[(&str, f64)] = &[
            ("mb_per_s", 79.0),
            ("writer_percent", 10.0),
            ("reader_percent", 15.0),
            ("busiest_percent", 20.0),
        ];
        let case = paced::case(paced::SMALL, 1e7);
        let run = run(&[
            (PACED, RAW, case.clone(), figures),
            (PACED, "zeromq", case, figures),
        ]);
        let text = paced(&run).text;
        let row = "| 80.0 | 79.0 | 25.0 (20.0) | - | - | - | - | 79.0 | 25.0 (20.0) |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| ZeroMQ, 10 k: MB/s |"), "{text}");
    }
}
