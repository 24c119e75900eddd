//! The metrics: one table, from which the exposition and the reference page are made.
//!
//! No metric has a label with the name of a variable, a client or another thing of which there may be
//! many. The labels are states, bands of priority, and the names of I/O servers.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use trunkline_engine::SourceConnection;
use trunkline_engine::figures::{HistoryCondition, StoreCondition};
use trunkline_types::Timestamp;

use crate::health::HealthSnapshot;

/// Media type of the exposition.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A metric, as described on the reference page.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name without unit and without `_total`.
    stem: &'static str,
    kind: Kind,
    unit: MetricUnit,
    /// Names of the labels; empty if the metric is one number.
    pub labels: &'static [&'static str],
    /// Meaning, in one sentence without a full stop.
    pub help: &'static str,
    samples: fn(&HealthSnapshot, &mut Samples),
}

/// The kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A number that rises and falls.
    Gauge,
    /// A number that only rises, until the engine starts again.
    Counter,
    /// The constant 1, with facts as labels.
    Info,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MetricUnit {
    Count,
    Seconds,
    Bytes,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Number {
    Whole(u64),
    Real(f64),
}

/// The samples of a metric: the values of its labels, and a number. A figure that the system does
/// not provide has no sample.
#[derive(Debug, Default)]
struct Samples(Vec<(Vec<String>, Number)>);

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<bool> for Number {
    fn from(flag: bool) -> Self {
        Self::Whole(u64::from(flag))
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// Seconds.
impl From<Duration> for Number {
    fn from(time: Duration) -> Self {
        Self::Real(time.as_secs_f64())
    }
}

/// Seconds since 1970-01-01 UTC.
impl From<Timestamp> for Number {
    fn from(time: Timestamp) -> Self {
        Self::Real(time.as_nanos() as f64 / 1e9)
    }
}

impl Samples {
    fn put(&mut self, labels: &[&str], number: impl Into<Number>) {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.0.push((labels, number.into()));
    }

    /// Adds the only sample of a metric without labels.
    fn only(&mut self, figure: impl Into<Number>) {
        self.put(&[], figure);
    }

    /// Like [`only`](Self::only), if the figure is known.
    fn known(&mut self, figure: Option<impl Into<Number>>) {
        if let Some(figure) = figure {
            self.only(figure);
        }
    }
}

impl Metric {
    /// Returns the full name, as in samples.
    pub fn name(&self) -> String {
        let total = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Info => "",
        };
        format!("{}{}{total}", self.stem, self.unit.suffix())
    }

    /// Returns the type: gauge, counter or info.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Info => "info",
        }
    }

    fn encode(
        &self,
        snapshot: &HealthSnapshot,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let unit = match self.unit {
            MetricUnit::Count => None,
            MetricUnit::Seconds => Some(Unit::Seconds),
            MetricUnit::Bytes => Some(Unit::Bytes),
        };
        let metric_type = match self.kind {
            Kind::Gauge => MetricType::Gauge,
            Kind::Counter => MetricType::Counter,
            Kind::Info => MetricType::Info,
        };
        // An info is encoded with the suffix `_info`, which the stem of the table includes.
        let stem = match self.kind {
            Kind::Info => self.stem.trim_end_matches("_info"),
            Kind::Gauge | Kind::Counter => self.stem,
        };
        let help = format!("{}.", self.help);
        let mut metric = encoder.encode_descriptor(stem, &help, unit.as_ref(), metric_type)?;
        let mut samples = Samples::default();
        (self.samples)(snapshot, &mut samples);
        for (values, number) in &samples.0 {
            let values = values.iter().map(String::as_str);
            let labels: Vec<(&str, &str)> = self.labels.iter().copied().zip(values).collect();
            match self.kind {
                Kind::Info => metric.encode_info(&labels)?,
                Kind::Gauge | Kind::Counter if labels.is_empty() => {
                    self.encode_number(*number, &mut metric)?;
                }
                Kind::Gauge | Kind::Counter => {
                    self.encode_number(*number, &mut metric.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    fn encode_number(&self, number: Number, sample: &mut MetricEncoder<'_>) -> fmt::Result {
        const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, f64>> = None;
        match (self.kind, number) {
            (Kind::Counter, Number::Whole(number)) => sample.encode_counter(&number, NO_EXEMPLAR),
            (Kind::Counter, Number::Real(number)) => sample.encode_counter(&number, NO_EXEMPLAR),
            (Kind::Gauge | Kind::Info, Number::Whole(number)) => sample.encode_gauge(&number),
            (Kind::Gauge | Kind::Info, Number::Real(number)) => sample.encode_gauge(&number),
        }
    }
}

impl MetricUnit {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Seconds => "_seconds",
            Self::Bytes => "_bytes",
        }
    }
}

/// A snapshot that is encoded as all metrics of the table.
#[derive(Debug)]
struct Exposition(HealthSnapshot);

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        METRICS
            .iter()
            .try_for_each(|metric| metric.encode(&self.0, &mut encoder))
    }
}

/// Writes all metrics in the OpenMetrics text format, which Prometheus reads.
///
/// # Errors
/// Never, because writing to a text cannot fail; the library's interface has the error.
pub fn exposition(snapshot: HealthSnapshot) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition(snapshot)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// Returns the table of all metrics for the reference page.
pub fn page_table() -> String {
    let mut table = "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        table += &format!(
            "| `{}` | {} | {} | {} |\n",
            metric.name(),
            metric.type_name(),
            labels.join(", "),
            metric.help
        );
    }
    table
}

const fn metric(
    kind: Kind,
    stem: &'static str,
    help: &'static str,
    samples: fn(&HealthSnapshot, &mut Samples),
) -> Metric {
    Metric {
        stem,
        kind,
        unit: MetricUnit::Count,
        labels: &[],
        help,
        samples,
    }
}

const fn gauge(
    stem: &'static str,
    help: &'static str,
    samples: fn(&HealthSnapshot, &mut Samples),
) -> Metric {
    metric(Kind::Gauge, stem, help, samples)
}

const fn counter(
    stem: &'static str,
    help: &'static str,
    samples: fn(&HealthSnapshot, &mut Samples),
) -> Metric {
    metric(Kind::Counter, stem, help, samples)
}

const fn seconds(metric: Metric) -> Metric {
    Metric {
        unit: MetricUnit::Seconds,
        ..metric
    }
}

const fn bytes(metric: Metric) -> Metric {
    Metric {
        unit: MetricUnit::Bytes,
        ..metric
    }
}

const fn labelled(labels: &'static [&'static str], metric: Metric) -> Metric {
    Metric { labels, ..metric }
}

/// All metrics, in the order of the exposition.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    labelled(&["name", "version"], metric(Kind::Info, "trunkline_engine_info",
        "Name of the engine and version of its program",
        |s, to| to.put(&[&s.figures.name, &s.figures.version], 1_u64))),
    seconds(gauge("trunkline_uptime", "Time since the engine started",
        |s, to| to.only(s.figures.uptime))),
    seconds(gauge("trunkline_housekeeping_age",
        "Time since the housekeeping thread last ran; /healthz fails above 5 s",
        |s, to| to.only(s.housekeeping_age))),
    seconds(gauge("trunkline_housekeeping_delay",
        "Longest delay of the housekeeping thread within the last period of measurement",
        |s, to| to.only(s.figures.housekeeping_delay))),

    gauge("trunkline_variables", "Deployed variables", |s, to| to.only(s.figures.variables.deployed)),
    gauge("trunkline_slots", "Slots in use by variables and open fields",
        |s, to| to.only(s.figures.variables.slots)),
    gauge("trunkline_slots_max", "Limit of trunkline_slots",
        |s, to| to.only(s.figures.variables.slots_max)),
    gauge("trunkline_fields", "Open fields", |s, to| to.only(s.figures.variables.fields)),
    gauge("trunkline_fields_max", "Limit of trunkline_fields",
        |s, to| to.only(s.figures.variables.fields_max)),
    gauge("trunkline_subscriptions", "Variables subscribed to, summed over all subscriptions",
        |s, to| to.only(s.figures.variables.subscriptions)),

    gauge("trunkline_sessions", "Open sessions", |s, to| to.only(s.figures.connections.sessions)),
    gauge("trunkline_sessions_max", "Maximum number of open sessions",
        |s, to| to.known(s.figures.connections.sessions_max)),
    gauge("trunkline_sessions_detached",
        "Lost sessions whose subscriptions wait for their clients to connect again",
        |s, to| to.only(s.figures.connections.detached)),
    gauge("trunkline_handshakes", "Connections that are being set up",
        |s, to| to.only(s.figures.connections.handshakes)),
    counter("trunkline_connections_accepted", "Connections that became a session",
        |s, to| to.only(s.figures.connections.accepted)),
    counter("trunkline_connections_refused", "Connections that were refused",
        |s, to| to.only(s.figures.connections.refused)),
    counter("trunkline_accept_failures",
        "Attempts to accept a connection that failed for lack of file descriptors or memory",
        |s, to| to.only(s.figures.connections.accept_failures)),

    counter("trunkline_writes_offered", "Completed writes, accepted or refused",
        |s, to| to.only(s.figures.delivery.offered)),
    counter("trunkline_writes_refused", "Refused writes",
        |s, to| to.only(s.figures.delivery.refused)),
    counter("trunkline_updates", "Updates of all variables",
        |s, to| to.only(s.figures.delivery.written)),
    counter("trunkline_updates_lost",
        "Updates that last, first and all subscriptions lost because their buffer was full",
        |s, to| to.only(s.figures.delivery.lost)),
    counter("trunkline_overruns", "Subscriptions with the contract all that ended because their buffer was full",
        |s, to| to.only(s.figures.delivery.overruns)),
    counter("trunkline_repaired", "Items with a wrong value at a client, sent again; above 0 indicates a defect",
        |s, to| to.only(s.figures.delivery.repaired)),

    bytes(gauge("trunkline_queue", "Memory used by updates that wait for slow subscribers",
        |s, to| to.only(s.figures.queue.bytes))),
    bytes(gauge("trunkline_queue_max", "Limit of trunkline_queue_bytes",
        |s, to| to.known(s.figures.queue.bytes_max))),
    counter("trunkline_queue_refusals", "Times that trunkline_queue_bytes reached its limit",
        |s, to| to.only(s.figures.queue.refusals)),
    bytes(gauge("trunkline_request", "Memory used by requests and items of clients",
        |s, to| to.only(s.figures.requests.bytes))),
    bytes(gauge("trunkline_request_max", "Limit of trunkline_request_bytes",
        |s, to| to.known(s.figures.requests.bytes_max))),
    counter("trunkline_request_refusals",
        "Requests and items refused because trunkline_request_bytes reached its limit",
        |s, to| to.only(s.figures.requests.refusals)),

    labelled(&["state", "priority"], gauge("trunkline_alarms",
        "Alarms by state and by priority: low (1 to 333), medium (334 to 666) or high (667 to 1000)",
        |s, to| for (state, band, count) in s.figures.alarms.counts.by_state_and_band() {
            to.put(&[state.name(), band.name()], count);
        })),
    gauge("trunkline_alarms_active", "Alarms whose condition is met",
        |s, to| to.only(s.figures.alarms.counts.active)),
    gauge("trunkline_alarms_recent", "Alarms raised within the last 10 minutes; above 10 is an alarm flood",
        |s, to| to.only(s.figures.alarms.counts.raised_recently)),
    counter("trunkline_alarm_journal_lost", "Alarm changes that are missing from the alarm journal",
        |s, to| to.only(s.figures.alarms.lost)),
    gauge("trunkline_audit_waiting", "Audit entries that are not stored yet",
        |s, to| to.only(s.figures.audit.waiting)),
    gauge("trunkline_audit_lost", "Entries that are missing from the audit trail and that no entry reports yet",
        |s, to| to.only(s.figures.audit.lost)),

    gauge("trunkline_configuration_failing",
        "1 if changed configuration files have an error, and were not applied, otherwise 0",
        |s, to| to.only(s.configuration_fault.is_some())),
    gauge("trunkline_store_failing", "1 if nothing can be stored now, otherwise 0",
        |s, to| to.only(s.figures.store.condition == StoreCondition::Failing)),
    gauge("trunkline_store_damaged", "1 if part of the store is damaged and not used, otherwise 0",
        |s, to| to.only(s.figures.store.condition == StoreCondition::Damaged)),
    gauge("trunkline_history_failing", "1 if updates are not recorded now, otherwise 0",
        |s, to| to.only(s.figures.history.condition == HistoryCondition::Failing)),
    gauge("trunkline_history_spooling",
        "1 if updates are recorded in the spool, because the history cannot be written, otherwise 0",
        |s, to| to.only(s.figures.history.condition == HistoryCondition::Spooling)),
    gauge("trunkline_history_spool_failing", "1 if the spool of the history cannot be used now, otherwise 0",
        |s, to| to.only(!s.figures.history.spool_error.is_empty())),
    counter("trunkline_history_rows", "Rows that were recorded",
        |s, to| to.only(s.figures.history.figures.recorded)),
    counter("trunkline_history_lost", "Updates that are missing from the history",
        |s, to| to.only(s.figures.history.figures.lost)),
    gauge("trunkline_history_unsealed_rows", "Rows that are still in the log, not yet in files",
        |s, to| to.only(s.figures.history.figures.unsealed)),
    gauge("trunkline_history_spooled_rows", "Rows that are in the log of the spool",
        |s, to| to.only(s.figures.history.figures.spooled)),
    bytes(gauge("trunkline_history", "Size of the history on disk",
        |s, to| to.only(s.figures.history.figures.bytes))),

    labelled(&["server"], gauge("trunkline_io_server_connected",
        "1 if the I/O server runs and has a connection to its device, otherwise 0",
        |s, to| for source in &s.figures.sources {
            to.put(&[&source.name], source.connection == SourceConnection::Connected);
        })),
    labelled(&["server"], gauge("trunkline_io_server_failing",
        "1 if the I/O server reports an error, for example of some of its items, otherwise 0",
        |s, to| for source in &s.figures.sources {
            to.put(&[&source.name], source.error.is_some());
        })),

    gauge("trunkline_forcing_on", "1 if forced values take effect, otherwise 0",
        |s, to| to.only(s.figures.forcing.is_on)),
    gauge("trunkline_forced_variables", "Variables in the list of forced variables",
        |s, to| to.only(s.figures.forcing.variables)),
    counter("trunkline_clock_steps", "Times that the system clock was set by 100 ms or more",
        |s, to| to.only(s.figures.clock.steps)),

    seconds(counter("process_cpu", "Processor time of the process, in user and system mode",
        |s, to| to.known(s.figures.process.cpu_time))),
    bytes(gauge("process_resident_memory", "Resident memory of the process",
        |s, to| to.known(s.figures.process.resident_bytes))),
    bytes(gauge("process_virtual_memory", "Virtual memory of the process",
        |s, to| to.known(s.figures.process.virtual_bytes))),
    gauge("process_threads", "Threads of the process", |s, to| to.known(s.figures.process.threads)),
    gauge("process_open_fds", "Open file descriptors of the process",
        |s, to| to.known(s.figures.process.open_descriptors)),
    gauge("process_max_fds", "Maximum number of open file descriptors of the process",
        |s, to| to.known(s.figures.process.descriptors_max)),
    seconds(gauge("process_start_time", "Start of the process, in seconds since 1970-01-01 UTC",
        |s, to| to.known(s.figures.process.started))),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use trunkline_engine::SourceState;
    use trunkline_engine::figures::{ConnectionFigures, EngineFigures, ProcessFigures};

    use super::*;

    fn snapshot() -> HealthSnapshot {
        HealthSnapshot {
            figures: Arc::new(EngineFigures {
                name: "a \"b\"\nc\\".to_owned(),
                version: "1.2.3".to_owned(),
                uptime: Duration::from_millis(1500),
                connections: ConnectionFigures {
                    refused: 7,
                    sessions_max: None,
                    ..ConnectionFigures::default()
                },
                process: ProcessFigures {
                    cpu_time: Some(Duration::from_millis(250)),
                    started: Some(Timestamp::from_nanos(1_700_000_000_500_000_000)),
                    ..ProcessFigures::default()
                },
                sources: vec![SourceState {
                    name: "plc".into(),
                    connection: SourceConnection::NotRunning,
                    error: None,
                }],
                ..EngineFigures::default()
            }),
            ..HealthSnapshot::default()
        }
    }

    /// Behaviour: B-04.
    #[test]
    fn exposition_has_help_type_unit_and_samples() {
        let sut = exposition(snapshot()).unwrap();
        for lines in [
            "# HELP trunkline_uptime_seconds Time since the engine started.\n\
             # TYPE trunkline_uptime_seconds gauge\n\
             # UNIT trunkline_uptime_seconds seconds\n\
             trunkline_uptime_seconds 1.5\n",
            "# TYPE trunkline_connections_refused counter\ntrunkline_connections_refused_total 7\n",
            "# TYPE trunkline_engine info\n\
             trunkline_engine_info{name=\"a \\\"b\\\"\\nc\\\\\",version=\"1.2.3\"} 1\n",
            "\ntrunkline_alarms{state=\"shelved\",priority=\"high\"} 0\n",
            "\ntrunkline_io_server_connected{server=\"plc\"} 0\n",
            "\nprocess_cpu_seconds_total 0.25\n",
            "\nprocess_start_time_seconds 1700000000.5\n",
        ] {
            assert!(sut.contains(lines), "{lines}\n{sut}");
        }
        assert!(sut.ends_with("# EOF\n"));
    }

    #[test]
    fn figure_that_is_unknown_has_no_sample() {
        let sut = exposition(snapshot()).unwrap();
        assert!(
            sut.contains("# TYPE trunkline_sessions_max gauge\n# HELP"),
            "{sut}"
        );
        assert!(!sut.contains("\ntrunkline_sessions_max "), "{sut}");
        assert!(!sut.contains("\nprocess_open_fds "), "{sut}");
    }

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        let mut names = BTreeSet::new();
        for metric in METRICS {
            let name = metric.name();
            let is_ours = name.starts_with("trunkline_") || name.starts_with("process_");
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(is_ours && name.bytes().all(is_plain), "{name}");
            assert!(!metric.help.ends_with('.'), "{name}");
            assert!(names.insert(name.clone()), "{name} occurs twice");
        }
    }

    /// A label with the name of a variable or a client would create a series for each of them.
    #[test]
    fn labels_have_few_values() {
        let labels: BTreeSet<&str> = METRICS.iter().flat_map(|m| m.labels).copied().collect();
        let expected = ["name", "priority", "server", "state", "version"];
        assert_eq!(labels, BTreeSet::from(expected));
    }
}
