//! Tables and plots of a run: `bench/RESULTS.md` and `bench/plots/`.

mod bars;
mod blocks;
mod medians;
mod peers;
mod published;
mod recorder;
mod results;
mod same_host;
mod stages;
mod statements;
mod streams;
mod svg;
mod tdms;
mod w1;
mod w2;
mod w5;
mod w7;
mod w8;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::plan::SCENARIOS;

use medians::Repeats;
use results::Results;
use svg::{Bars, Chart};

/// What a scenario contributes.
struct Section {
    /// Markdown, from its heading on.
    text: String,
    /// Its plots, below the text.
    charts: Vec<Plot>,
}

/// A plot of the page.
struct Plot {
    file: &'static str,
    title: String,
    /// Without figures there is nothing to draw.
    svg: Option<String>,
}

impl Plot {
    fn of_lines(file: &'static str, chart: &Chart) -> Self {
        Self {
            file,
            title: chart.title.clone(),
            svg: chart.draw(),
        }
    }

    fn of_bars(file: &'static str, bars: &Bars) -> Self {
        Self {
            file,
            title: bars.title.clone(),
            svg: bars.draw(),
        }
    }
}

/// Writes the page and the plots into `folder`: of the run in `file` alone, or of all runs in
/// `folder/results`, each scenario of its newest. What `folder` has in `costs.md` is appended: the
/// part that a person writes.
///
/// # Errors
/// A file cannot be read or written, or there is no run.
pub fn write(file: Option<&Path>, folder: &Path) -> Outcome<()> {
    let results = match file {
        Some(file) => Results::of_file(file)?,
        None => Results::of_folder(&folder.join("results"))?,
    };
    let plots = folder.join("plots");
    fs::create_dir_all(&plots)?;
    let mut page = head(&results);
    let counted = fs::read_to_string(folder.join("instructions.toml")).unwrap_or_default();
    page.push_str(&bars::section(&results, &counted));
    let sections = [
        w1::section,
        w2::section,
        w5::section,
        w5::several,
        w7::section,
        w8::section,
        same_host::section,
        same_host::idle,
        same_host::changes,
        same_host::stalled,
        blocks::fifo,
        blocks::waveform,
        streams::throughput,
        streams::latency,
        streams::journals,
        streams::sweep,
        streams::paced,
        recorder::section,
        recorder::devices,
        tdms::reading,
        tdms::writing,
        stages::section,
    ];
    for (scenario, section) in SCENARIOS.into_iter().zip(sections) {
        let section = section(results.of(scenario));
        page.push_str(&with_origin(&section.text, scenario, &results));
        for plot in section.charts {
            let Some(svg) = plot.svg else { continue };
            fs::write(plots.join(plot.file), svg)?;
            page.push_str(&format!("\n![{}](plots/{})\n", plot.title, plot.file));
        }
    }
    page.push_str(&statements::section(&results));
    if let Ok(costs) = fs::read_to_string(folder.join("costs.md")) {
        page.push_str("\n<!-- The rest is costs.md, word for word. -->\n\n");
        page.push_str(&costs);
    }
    page.push_str(&not_counting(&results));
    Ok(fs::write(folder.join("RESULTS.md"), page)?)
}

/// A section that says below its heading which run it is of.
fn with_origin(text: &str, scenario: &str, results: &Results) -> String {
    let origin = match results.with(scenario) {
        Some(measured) => measured.origin(scenario),
        None => "*Not measured yet.*".to_owned(),
    };
    match text.trim_start().split_once("\n\n") {
        Some((heading, rest)) => format!("\n{heading}\n\n{origin}\n\n{rest}"),
        None => format!("{text}\n{origin}\n"),
    }
}

fn head(results: &Results) -> String {
    let mut text = String::from(
        "# Results\n\n\
         Written by `bench/run` from the files in `bench/results`; not edited by hand, except its last \
         part. [Measure](../docs/how-to/measure.md) says how it was measured and how to read it.\n\n\
         | scenarios | date | run | processor | system | program | load before it |\n\
         |---|---|---|---|---|---|---:|\n",
    );
    for (measured, scenarios) in results.used() {
        let machine = &measured.run.machine;
        text.push_str(&cells(&[
            scenarios.join(", "),
            results::moment(machine),
            machine.run.clone(),
            results::kind(machine),
            machine.kernel.clone(),
            format!("Trunkline {}", machine.version),
            format!("{:.2}", machine.load_percent as f64 / 100.0),
        ]));
    }
    text.push_str(
        "\nPlacement `cross`: one process per CPU, its threads included; `same`: both ends on one CPU. \
         Waiting: raw blocks at once, on both sides, and so does Trunkline in W1 and W2: the spinning \
         that its programs do by default is switched off there, except in the rows that name it, and \
         in those of shared memory that do not name sleeping. In all other scenarios with connections \
         Trunkline waits as its programs do by default, also beside a raw that sleeps: an end may look \
         for a while before it sleeps, where that has paid lately. In the FIFOs of W7 both ends spin \
         without end.\n\n\
         Every figure is the median of the repeats of one run, in which the systems took turns cell \
         by cell; each scenario is of the newest run that has it, which its section names. *Raw* is TCP \
         used by hand: the least code that does the same work. Other systems take part where `bench/run \
         --peers` was asked for; each has the settings that its documentation names for speed, keeps \
         nothing on disk, and its rows count only if nothing was lost, out of order or of another content. Ratios are to raw where nothing else is \
         said; figures of different runs must not be compared. An asterisk: an end was often answered \
         before it could sleep (less than 0.9 voluntary context switches per wait), so the row is no \
         measurement of sleeping ends. In W1 and W2 that is the machine's doing, not a spinning \
         program's; elsewhere it is either, in the rows of Trunkline.\n",
    );
    text
}

/// Every row that does not count, with its reason.
fn not_counting(results: &Results) -> String {
    let mut text = String::from("\n## Rows that do not count\n\n");
    let mut rows = 0;
    let (mut named, all) = (
        BTreeSet::new(),
        SCENARIOS.map(|scenario| results.of(scenario)),
    );
    for (name, reason) in all.into_iter().flat_map(peers::not_run) {
        if named.insert(name) {
            rows += 1;
            text.push_str(&format!("- {name} was not run: {reason}\n"));
        }
    }
    let of_scenario = |scenario: &'static str| {
        let rows = results.of(scenario).rows.iter();
        rows.filter(move |row| row.scenario == scenario)
    };
    let all = SCENARIOS.into_iter().flat_map(of_scenario);
    let is_named =
        |system: &str| crate::peers::named(system).is_some_and(|peer| named.contains(peer.name));
    for row in all.filter(|row| !row.invalid.is_empty() && !is_named(&row.system)) {
        rows += 1;
        let reasons = row.invalid.join("; ");
        text.push_str(&format!(
            "- {} `{}` {}, repeat {}: {reasons}\n",
            row.scenario, row.case, row.system, row.repeat
        ));
    }
    if rows == 0 {
        text.push_str("None: every row met the rule of its scenario.\n");
    }
    text
}

/// The sign behind figures of an end that was often answered before it could sleep.
fn mark(repeats: &Repeats<'_>) -> &'static str {
    if repeats.is_mixed() { " *" } else { "" }
}

/// Three digits, or a dash for what was not measured.
fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) => {
            let digits = (2.0 - value.abs().log10().floor()).clamp(0.0, 4.0) as usize;
            format!("{value:.digits$}")
        }
    }
}

/// A table row.
fn cells(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::{Row, Writer};

    #[test]
    fn figures_have_three_digits() {
        let shown: Vec<String> = [0.0, 0.01234, 1.5, 51.25, 1234.5]
            .map(|value| figure(Some(value)))
            .to_vec();
        assert_eq!(shown, ["0", "0.0123", "1.50", "51.2", "1234"]);
        assert_eq!(figure(None), "-");
    }

    #[test]
    fn page_has_every_section_and_what_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("results")).unwrap();
        let results = folder.path().join("results/a.jsonl");
        let mut writer = Writer::create(&results, &Machine::here("quick").unwrap()).unwrap();
        for (system, mean) in [("raw-tcp", 50.0), ("trunkline", 60.0)] {
            let mut row = Row::new("w1", system, "n=1 t=10 type=i32".to_owned(), "cross");
            row.figure("mean_us", mean);
            writer.append(&row).unwrap();
        }
        let mut row = Row::new("w5", "trunkline", "vars=1".to_owned(), "cross");
        row.require(false, || "3 updates out of order".to_owned());
        writer.append(&row).unwrap();
        fs::write(folder.path().join("costs.md"), "## Where the costs sit\n").unwrap();
        write(None, folder.path()).unwrap();
        let page = fs::read_to_string(folder.path().join("RESULTS.md")).unwrap();
        for part in [
            "| 1.20 |",
            "## W1",
            "## W2",
            "## W5",
            "## W7",
            "## W8",
            "*Not measured yet.*",
            "`results/a.jsonl`",
            "## Stages",
            "## Where the costs sit",
        ] {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
        assert!(page.contains("repeat 1: 3 updates out of order"), "{page}");
        assert!(folder.path().join("plots/w1-variables.svg").exists());
    }
}
