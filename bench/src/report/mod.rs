//! Tables and plots of a run: `bench/RESULTS.md` and `bench/plots/`.

mod bars;
mod medians;
mod published;
mod stages;
mod svg;
mod w1;
mod w2;
mod w5;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::machine::Machine;
use crate::record::Run;

use medians::Repeats;
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

/// Writes the page and the plots of the run in `results` into `folder`. What `folder` has in
/// `costs.md` is appended: the part that a person writes.
///
/// # Errors
/// A file cannot be read or written.
pub fn write(results: &Path, folder: &Path) -> Outcome<()> {
    let run = Run::read(results)?;
    let plots = folder.join("plots");
    fs::create_dir_all(&plots)?;
    let file = results
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut page = head(&run.machine, &file);
    page.push_str(&bars::section(&run));
    for section in [w1::section(&run), w2::section(&run), w5::section(&run)] {
        page.push_str(&section.text);
        for plot in section.charts {
            let Some(svg) = plot.svg else { continue };
            fs::write(plots.join(plot.file), svg)?;
            page.push_str(&format!("\n![{}](plots/{})\n", plot.title, plot.file));
        }
    }
    page.push_str(&stages::section(&run));
    if let Ok(costs) = fs::read_to_string(folder.join("costs.md")) {
        page.push_str("\n<!-- The rest is costs.md, word for word. -->\n\n");
        page.push_str(&costs);
    }
    page.push_str(&not_counting(&run));
    Ok(fs::write(folder.join("RESULTS.md"), page)?)
}

/// The newest result file of a folder.
///
/// # Errors
/// There is none.
pub fn newest(folder: &Path) -> Outcome<PathBuf> {
    let mut newest = None;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_result = path.extension().is_some_and(|ending| ending == "jsonl");
        if is_result && newest.as_ref().is_none_or(|other| *other < path) {
            newest = Some(path);
        }
    }
    newest.ok_or_else(|| format!("there is no result file in {}", folder.display()).into())
}

fn head(machine: &Machine, file: &str) -> String {
    let kind = if machine.virtual_machine {
        "virtual machine"
    } else {
        "no virtual machine"
    };
    let load = machine.load_percent as f64 / 100.0;
    format!(
        "# Results\n\n\
         Written by `bench/run` from `bench/results/{file}`; not edited by hand, except its last part. \
         [Measure](../docs/how-to/measure.md) says how it was measured and how to read it.\n\n\
         | | |\n|---|---|\n\
         | Date | {} |\n| Processor | {}, {} CPUs, {kind} |\n| Memory | {} GiB |\n| System | {} |\n\
         | Program | Trunkline {} |\n| Run | {}; load before it {load:.2} |\n\
         | Placement | `cross`: one process per CPU, its threads included |\n\
         | Waiting | every wait blocks at once, on both sides |\n\n\
         Every figure is the median of the repeats of this one run, in which the systems took turns cell \
         by cell. *Raw* is TCP used by hand: the least code that does the same work. Ratios are to raw; \
         figures of other runs must not be compared with these. An asterisk: an end was often answered \
         before it could sleep (less than 0.9 voluntary context switches per wait), so the row is no \
         measurement of sleeping ends. That is the machine's doing, not a spinning program's: none of \
         the systems here spins.\n",
        machine.date,
        machine.cpu,
        machine.cpus,
        machine.memory_gib,
        machine.kernel,
        machine.version,
        machine.run,
    )
}

/// Every row that does not count, with its reason.
fn not_counting(run: &Run) -> String {
    let mut text = String::from("\n## Rows that do not count\n\n");
    let mut rows = 0;
    for row in run.rows.iter().filter(|row| !row.invalid.is_empty()) {
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
        let results = folder.path().join("a.jsonl");
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
        write(&newest(folder.path()).unwrap(), folder.path()).unwrap();
        let page = fs::read_to_string(folder.path().join("RESULTS.md")).unwrap();
        for part in [
            "| 1.20 |",
            "## W1",
            "## W2",
            "## W5",
            "## Stages",
            "## Where the costs sit",
        ] {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
        assert!(page.contains("repeat 1: 3 updates out of order"), "{page}");
        assert!(folder.path().join("plots/w1-variables.svg").exists());
    }
}
