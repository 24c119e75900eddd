//! The figures that the rig measures: printed, and with `make rig` kept in a table.

use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// Returns true if the long versions run: `make rig`.
pub fn is_full() -> bool {
    std::env::var("TRUNKLINE_RIG").is_ok_and(|value| value == "full")
}

/// The size of a check: short in the ordinary tests, long with `make rig`.
pub fn size<T>(short: T, full: T) -> T {
    if is_full() { full } else { short }
}

const HEAD: &str = "\
# The rig: faults with real processes

`make rig` runs engines, clients and the ends of streams as processes. It stops and kills these processes, exhausts
their descriptors and cuts their links, measures the effects, and writes this table. Each row shows the date of its
run; the machine below is that of the last run. [Remarks](#remarks) explains rows that miss their target. The checks
are the tests in `crates/trunkline-cli/tests/rig`. `make test` runs a short form of them, which checks only properties
that must hold on any machine, not times.

| Check | Figure | Measured | Target | Date, build |
|---|---|---|---|---|
";

/// The heading of the part after the table, written by hand.
const REMARKS: &str = "\n## Remarks\n";

/// Keeps one figure of one check with its target (empty: none).
pub fn record(check: &str, figure: &str, measured: &str, wanted: &str) {
    eprintln!("{check}: {figure}: {measured} (wanted: {wanted})");
    let Ok(page) = std::env::var("TRUNKLINE_RIG_PAGE") else {
        return;
    };
    static PAGE: Mutex<()> = Mutex::new(());
    let _page = PAGE.lock();
    let old = std::fs::read_to_string(&page).unwrap_or_default();
    let key = format!("| {check} | {figure} |");
    let when = output("date", &["-u", "+%F"]);
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let row = format!("{key} {measured} | {wanted} | {when}, {build} |");
    let mut rows: Vec<&str> = old
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| Check"))
        .filter(|line| !line.starts_with(&key))
        .chain([row.as_str()])
        .collect();
    rows.sort_by_key(|row| number(row));
    // The text below the table is kept.
    let remarks = old.find(REMARKS).map_or("", |start| &old[start..]);
    let text = format!(
        "{HEAD}{}\n\nMachine: {}.\n{remarks}",
        rows.join("\n"),
        machine()
    );
    std::fs::write(&page, text).unwrap();
}

/// Rows in the order of their checks; F2 before F12.
fn number(row: &str) -> (u32, String) {
    let digits: String = row.chars().skip_while(|c| !c.is_ascii_digit()).collect();
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    let family = u32::from(!row.starts_with("| F"));
    (
        family * 1000 + digits.parse().unwrap_or(999),
        row.to_owned(),
    )
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split(": ").nth(1))
        .unwrap_or("unknown processor");
    let processors = cpuinfo.matches("processor\t").count();
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    format!(
        "{processors} x {model}, Linux {}, load {load} at the end of the last run",
        kernel.trim()
    )
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A duration as the table shows it.
pub fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// The value below which `part` (0 to 1) of them are.
pub fn quantile(values: &mut [Duration], part: f64) -> Duration {
    values.sort();
    let last = values.len().saturating_sub(1);
    values
        .get((last as f64 * part).round() as usize)
        .copied()
        .unwrap_or_default()
}
