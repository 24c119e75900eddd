//! The verbs of a client.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use trunkline::polled;
use trunkline::proto::{Fault, LibraryReport, WhyVerdict};
use trunkline::types::definition::Properties;
use trunkline::types::{Access, Contract, Pattern, Quality, Timestamp};
use trunkline::{
    Client, ConnectOptions, ConnectionState, ContextError, Contexts, Found, GroupOutcome,
    LeaseTerms, LeaseVerb, NotTried, OpenOptions, Opened, PatternSet, SubscribeOptions,
    VariableRef, Write, WriteMode, WriteOutcome, aio,
};

use crate::alarms;
use crate::audit;
use crate::call::{Call, duration};
use crate::control;
use crate::definitions;
use crate::errors;
use crate::history;
use crate::pattern_subscription::PatternSubscription;
use crate::reading::{Parts, Reading, Source};
use crate::recorder::{Recorder, RecorderOptions};
use crate::subscription::Subscription;
use crate::values;

/// A variable that was opened.
#[pyclass(frozen)]
pub(crate) struct Handle {
    pub(crate) variable: VariableRef,
    pub(crate) source: Arc<Source>,
    properties: Option<Arc<Properties>>,
    access: Access,
}

#[pymethods]
impl Handle {
    /// Full name of the variable.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyString> {
        self.source.name.clone_ref(py)
    }

    /// Type of the values, such as "f64" or "enum(OFF, ON)".
    #[getter]
    fn data_type(&self) -> String {
        self.source.data_type.to_string()
    }

    /// Engineering unit; empty if there is none.
    #[getter]
    fn units(&self, py: Python<'_>) -> Py<PyString> {
        self.source.units.clone_ref(py)
    }

    /// Description for users; empty if there is none.
    #[getter]
    fn description(&self) -> &str {
        self.properties.as_ref().map_or("", |of| &of.description)
    }

    /// Lowest and highest value; `None` if there is no range.
    #[getter]
    fn range(&self) -> Option<(f64, f64)> {
        self.properties.as_ref()?.range
    }

    /// Number of decimal places shown to users; `None` if it is not configured.
    #[getter]
    fn precision(&self) -> Option<u8> {
        self.properties.as_ref()?.precision
    }

    /// "read-write", "read-only" or "write-only".
    #[getter]
    fn access(&self) -> &'static str {
        access_name(self.access)
    }

    /// Labels of an enum in the order of their numbers; `None` for other types.
    #[getter]
    fn labels(&self) -> Option<Vec<String>> {
        match &self.source.data_type {
            trunkline::types::DataType::Enum(of) => {
                Some(of.labels.iter().map(|label| label.to_string()).collect())
            }
            _ => None,
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (name, units) = (self.source.name.bind(py), self.source.units.bind(py));
        let mut text = format!("Handle({}, {}", name.to_str()?, self.source.data_type);
        if !units.is_empty()? {
            text.push_str(&format!(", {}", units.to_str()?));
        }
        if let Some((low, high)) = self.range() {
            text.push_str(&format!(", {low} to {high}"));
        }
        text.push_str(&format!(", {})", access_name(self.access)));
        Ok(text)
    }
}

/// A connection to an engine. All methods that return a [`Call`] return at once.
#[pyclass(frozen)]
pub(crate) struct Connection {
    polled: polled::Client,
    blocking: Client,
    aio: aio::Client,
    /// `None` for an engine in this process.
    url: Option<String>,
}

impl Connection {
    pub(crate) fn of(client: Client) -> Self {
        Self {
            url: None,
            polled: client.clone().into_polled(),
            aio: client.clone().into_async(),
            blocking: client,
        }
    }
}

#[pymethods]
impl Connection {
    /// Starts to connect to the engine at `url`.
    #[staticmethod]
    fn connect(py: Python<'_>, url: &str, program: Option<&str>) -> PyResult<Self> {
        let client = ConnectOptions::new(url).and_then(|mut options| {
            if let Some(program) = program {
                program.clone_into(&mut options.program);
            }
            Client::connect_with(&options)
        });
        let url = Some(url.to_owned());
        client
            .map(|client| Self {
                url,
                ..Self::of(client)
            })
            .map_err(|error| errors::of_connect(py, &error))
    }

    /// The URL of the engine; `None` for an engine in this process.
    #[getter]
    fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Waits until the connection is up. The answer is a dictionary about the engine.
    fn wait_connected(&self, py: Python<'_>) -> PyResult<Call> {
        Call::new(py, self.polled.wait_connected(), |py, session| {
            let about = PyDict::new(py);
            about.set_item("name", session.engine_name.as_str())?;
            about.set_item("session", session.session)?;
            about.set_item("epoch", session.epoch)?;
            Ok(about.into_any().unbind())
        })
    }

    /// The state of the connection: "connecting", "connected" or "closed", and the cause if it is down.
    fn state(&self) -> (&'static str, Option<String>) {
        let cause = |cause: &dyn std::fmt::Display| cause.to_string();
        match self.blocking.state() {
            ConnectionState::Connecting { last_failure, .. } => {
                ("connecting", last_failure.map(|failure| cause(&failure)))
            }
            ConnectionState::Connected(_) => ("connected", None),
            ConnectionState::Closed { cause: reason } => ("closed", Some(cause(&reason))),
        }
    }

    /// Name of the transport, such as "shared memory"; `None` while the connection is down.
    fn transport(&self) -> Option<&'static str> {
        Some(self.blocking.transport()?.name)
    }

    /// Opens variables. The answer has a `(Handle, Reading or None)` or an exception for each name.
    fn open(&self, py: Python<'_>, names: Vec<String>, with_readings: bool) -> PyResult<Call> {
        let options = OpenOptions {
            include_readings: with_readings,
            describe: true,
            ..OpenOptions::default()
        };
        Call::new(py, self.polled.open(&names, options), move |py, opened| {
            let answers = PyList::empty(py);
            for (name, one) in names.iter().zip(opened) {
                match one {
                    Ok(opened) => answers.append(handle(py, name, opened)?)?,
                    Err(fault) => answers.append(errors::of_fault(py, &fault, Some(name)))?,
                }
            }
            Ok(answers.into_any().unbind())
        })
    }

    /// Closes variables.
    fn close_variables(&self, py: Python<'_>, handles: Vec<Py<Handle>>) -> PyResult<Call> {
        let call = self.polled.close_variables(&variables(&handles));
        Call::new(py, call, |py, _| Ok(py.None()))
    }

    /// Reads variables. The answer has a `Reading` or an exception for each of them.
    fn read(&self, py: Python<'_>, handles: Vec<Py<Handle>>) -> PyResult<Call> {
        let call = self.polled.read(&variables(&handles));
        Call::new(py, call, move |py, readings| {
            readings_of(py, &handles, readings)
        })
    }

    /// Reads variables at one instant. The answer is `(commit, instant_ns, is_consistent, readings)`.
    fn snapshot(&self, py: Python<'_>, handles: Vec<Py<Handle>>) -> PyResult<Call> {
        let call = self.polled.snapshot(&variables(&handles));
        Call::new(py, call, move |py, snapshot| {
            let readings = readings_of(py, &handles, snapshot.readings)?;
            let instant = snapshot.instant.as_nanos();
            let answer = (snapshot.commit, instant, snapshot.is_consistent, readings);
            Ok(answer.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Asks the sources of variables for fresh values. The answer has `None` or an exception for each.
    fn request_value(&self, py: Python<'_>, handles: Vec<Py<Handle>>) -> PyResult<Call> {
        let call = self.polled.request_value(&variables(&handles));
        Call::new(py, call, move |py, results| {
            let answers = PyList::empty(py);
            for (handle, result) in handles.iter().zip(results) {
                match result {
                    Ok(()) => answers.append(py.None())?,
                    Err(fault) => answers.append(fault_of(py, handle, &fault))?,
                }
            }
            Ok(answers.into_any().unbind())
        })
    }

    /// Writes values. The answer has `(state, epoch, seq)` or an exception for each of them; `state` is
    /// "applied", "unchanged" or "superseded".
    #[pyo3(signature = (handles, objects, *, verb, ts_ns=None, quality_bits=None, newest=false, expected=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the keyword arguments of Python"
    )]
    fn write(
        &self,
        py: Python<'_>,
        handles: Vec<Py<Handle>>,
        objects: Vec<Bound<'_, PyAny>>,
        verb: &str,
        ts_ns: Option<i64>,
        quality_bits: Option<u32>,
        newest: bool,
        expected: Option<(u64, u64)>,
    ) -> PyResult<Call> {
        let mut writes = writes_of(&handles, &objects, verb)?;
        for write in &mut writes {
            write.options.source_timestamp = ts_ns.map(Timestamp::from_nanos);
            write.options.quality = quality_bits.map(Quality::from_bits);
            write.options.expected =
                expected.map(|(epoch, sequence)| trunkline::types::Position { epoch, sequence });
            if newest {
                write.mode = WriteMode::Newest;
            }
        }
        Call::new(py, self.polled.write(writes), move |py, outcomes| {
            Ok(outcomes_of(py, &handles, outcomes)?.into_any().unbind())
        })
    }

    /// Writes a group: all values or none. The answer is `(commit, outcomes)`, and the outcomes are as
    /// those of `write`.
    fn write_group(
        &self,
        py: Python<'_>,
        handles: Vec<Py<Handle>>,
        objects: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Call> {
        let writes = writes_of(&handles, &objects, "put")?;
        Call::new(py, self.polled.write_group(writes), move |py, group| {
            let GroupOutcome {
                commit,
                outcomes,
                refused_member,
            } = group;
            let outcomes = outcomes_of(py, &handles, outcomes)?;
            Ok((commit, refused_member, outcomes)
                .into_pyobject(py)?
                .into_any()
                .unbind())
        })
    }

    /// Queues writes and returns at once. They wait at most `life` seconds for a connection.
    fn write_untracked(
        &self,
        py: Python<'_>,
        handles: Vec<Py<Handle>>,
        objects: Vec<Bound<'_, PyAny>>,
        life: f64,
    ) -> PyResult<()> {
        let writes = writes_of(&handles, &objects, "put")?;
        let queued = self.blocking.write_untracked(writes, duration(life));
        queued.map_err(|error| errors::of_call(py, &error))
    }

    /// Waits for the outcomes of all writes. The answer has their counts.
    fn flush(&self, py: Python<'_>) -> PyResult<Call> {
        Call::new(py, self.polled.flush(), |py, counts| {
            Ok(counts_of(py, &counts)?.into_any().unbind())
        })
    }

    /// Returns the counts of all writes so far, by outcome.
    fn write_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counts_of(py, &self.blocking.write_counts())
    }

    /// Finds variables by a pattern. The answer has a `(name, data_type, access)` for each.
    fn find(&self, py: Python<'_>, pattern: &str, limit: Option<usize>) -> PyResult<Call> {
        Call::new(py, self.polled.find(pattern, limit), |py, found| {
            let answers = PyList::empty(py);
            for Found {
                name,
                data_type,
                access,
            } in found
            {
                answers.append((name, data_type.to_string(), access_name(access)))?;
            }
            Ok(answers.into_any().unbind())
        })
    }

    /// Explains why a variable does not update. The answer has a sentence for each step.
    fn why(&self, py: Python<'_>, name: &str) -> PyResult<Call> {
        Call::new(py, self.polled.why(name), |py, steps| {
            let answers = PyList::empty(py);
            for step in steps {
                answers.append((
                    step.stage.name(),
                    verdict_name(step.verdict),
                    step.sentence.as_str(),
                    step.next.as_str(),
                ))?;
            }
            Ok(answers.into_any().unbind())
        })
    }

    /// Queries a page of the history. `form` is "rows", "last", "total", "points", "buckets",
    /// "interpolated" or "stepped"; `width` is the number of points, or nanoseconds.
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the arguments of Python"
    )]
    fn history(
        &self,
        py: Python<'_>,
        patterns: Vec<String>,
        since_ns: Option<i64>,
        until_ns: Option<i64>,
        form: &str,
        width: u64,
        from: Option<Bound<'_, history::Cursor>>,
    ) -> PyResult<Call> {
        let query = history::query(&patterns, since_ns, until_ns, form, width, from.as_ref())?;
        Call::new(py, self.polled.history(query), |py, page| {
            history::page(py, &page)
        })
    }

    /// Queries alarms. The answer has a dictionary for each of them.
    fn alarms(
        &self,
        py: Python<'_>,
        pattern: Option<&str>,
        area: &str,
        priority_min: u16,
        states: Vec<String>,
    ) -> PyResult<Call> {
        let query = alarms::query(pattern, area, priority_min, &states)?;
        Call::new(py, self.polled.alarms(query), |py, found| {
            alarms::statuses(py, &found)
        })
    }

    /// Applies an action to alarms. The answer has the new state or an exception for each of them.
    fn act_on_alarms(
        &self,
        py: Python<'_>,
        of: Vec<(String, String)>,
        action: &str,
        comment: &str,
        seconds: f64,
    ) -> PyResult<Call> {
        let action = alarms::action(action, seconds)?;
        let call = self
            .polled
            .act_on_alarms(alarms::names(of.clone()), action, comment);
        Call::new(py, call, move |py, results| {
            alarms::results(py, &of, results)
        })
    }

    /// Queries a page of the alarm journal. The answer is `(entries, next)`, with a dictionary for each entry.
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the arguments of Python"
    )]
    fn alarm_journal(
        &self,
        py: Python<'_>,
        pattern: Option<&str>,
        area: &str,
        priority_min: u16,
        states: Vec<String>,
        since_ns: Option<i64>,
        until_ns: Option<i64>,
        newest_first: bool,
        limit: u32,
        from: Option<u64>,
    ) -> PyResult<Call> {
        let query = alarms::journal_query(
            pattern,
            area,
            priority_min,
            &states,
            since_ns,
            until_ns,
            newest_first,
            limit,
            from,
        )?;
        Call::new(py, self.polled.alarm_journal(query), |py, page| {
            alarms::journal_page(py, &page)
        })
    }

    /// Queries a page of the audit trail. The answer is `(entries, next)`, with a dictionary for each entry.
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the arguments of Python"
    )]
    fn audit(
        &self,
        py: Python<'_>,
        pattern: Option<&str>,
        since_ns: Option<i64>,
        who: Option<String>,
        newest_first: bool,
        limit: u32,
        from: Option<u64>,
    ) -> PyResult<Call> {
        let query = audit::query(pattern, since_ns, who, newest_first, limit, from)?;
        Call::new(py, self.polled.audit(query), |py, page| {
            audit::page(py, &page)
        })
    }

    /// Takes control of a folder, or with `waits` requests it. The answer is a dictionary.
    fn take_control(
        &self,
        py: Python<'_>,
        folder: &str,
        level: &str,
        only_this_program: bool,
        seconds: Option<f64>,
        waits: bool,
    ) -> PyResult<Call> {
        let terms = control::terms(level, only_this_program, seconds)?;
        let call = match waits {
            true => self.polled.request_control(folder, terms),
            false => self.polled.take_control(folder, terms),
        };
        Call::new(py, call, |py, entry| control::entry(py, &entry))
    }

    /// Hands control of a folder over to the request `number`. The answer is a dictionary.
    fn give_control(&self, py: Python<'_>, folder: &str, number: u64) -> PyResult<Call> {
        Call::new(py, self.polled.give_control(folder, number), |py, entry| {
            control::entry(py, &entry)
        })
    }

    /// Releases control of a folder, or withdraws the request for it.
    fn release_control(&self, py: Python<'_>, folder: &str) -> PyResult<Call> {
        Call::new(py, self.polled.release_control(folder), |py, ()| {
            Ok(py.None())
        })
    }

    /// Lists control of the folders that overlap `folder`. The answer is `(revision, entries)`.
    fn controls(&self, py: Python<'_>, folder: &str, own: bool) -> PyResult<Call> {
        Call::new(py, self.polled.controls(folder, own), |py, list| {
            control::list(py, &list)
        })
    }

    /// Waits until something has changed since the revision `known` in what this client controls and waits for.
    fn follow_control(&self, py: Python<'_>, known: u64) -> PyResult<Call> {
        Call::new(py, self.polled.follow_control(known), |py, revision| {
            Ok(revision.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Acquires, renews or releases leases. The answer has the seconds or an exception for each variable.
    fn lease(
        &self,
        py: Python<'_>,
        handles: Vec<Py<Handle>>,
        verb: &str,
        seconds: f64,
    ) -> PyResult<Call> {
        let verb = match verb {
            "acquire" => LeaseVerb::Acquire,
            "renew" => LeaseVerb::Renew,
            "release" => LeaseVerb::Release,
            other => return Err(invalid(format!("there is no verb {other:?}"))),
        };
        let terms = LeaseTerms {
            verb,
            duration: duration(seconds),
            expected: Vec::new(),
        };
        let call = self.polled.lease(&variables(&handles), terms);
        Call::new(py, call, move |py, leases| {
            let answers = PyList::empty(py);
            for (handle, lease) in handles.iter().zip(leases) {
                match lease {
                    Ok(lease) => answers.append(lease.duration.as_secs_f64())?,
                    Err(fault) => answers.append(fault_of(py, handle, &fault))?,
                }
            }
            Ok(answers.into_any().unbind())
        })
    }

    /// Deploys a library. The answer has the numbers of variables by what became of them.
    fn deploy(
        &self,
        py: Python<'_>,
        name: &str,
        rows: Vec<definitions::Row<'_>>,
        replace: bool,
    ) -> PyResult<Call> {
        let library = definitions::library(name, &rows)?;
        Call::new(py, self.polled.deploy(library, replace), |py, report| {
            report_of(py, &report)
        })
    }

    /// Removes a library.
    fn undeploy(&self, py: Python<'_>, name: &str, force: bool) -> PyResult<Call> {
        Call::new(py, self.polled.undeploy(name, force), |py, report| {
            report_of(py, &report)
        })
    }

    /// Subscribes to variables by name.
    #[pyo3(signature = (names, contract, *, is_async, only_changes=false, own_suppressed=false, max_age=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the keyword arguments of Python"
    )]
    fn subscribe(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        contract: &str,
        is_async: bool,
        only_changes: bool,
        own_suppressed: bool,
        max_age: Option<f64>,
    ) -> PyResult<Subscription> {
        let contract: Contract = contract.parse().map_err(invalid)?;
        let options = SubscribeOptions {
            only_changes,
            own_suppressed,
            max_age: max_age.map(duration),
            ..SubscribeOptions::default()
        };
        let subscribed = match is_async {
            true => {
                let subscription = self.aio.subscribe(&names, contract, options);
                subscription.map(|one| Subscription::of_aio(one, names.len()))
            }
            false => {
                let subscription = self.blocking.subscribe(&names, contract, options);
                subscription.map(|one| Subscription::of_blocking(one, names.len()))
            }
        };
        subscribed.map_err(|error| errors::of_call(py, &error))
    }

    /// Subscribes to the variables that match patterns, and to those that appear later.
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the arguments of Python"
    )]
    fn subscribe_patterns(
        &self,
        py: Python<'_>,
        patterns: Vec<String>,
        excluded: Vec<String>,
        contract: &str,
        is_async: bool,
        only_changes: bool,
        max_age: Option<f64>,
    ) -> PyResult<PatternSubscription> {
        let parse = |patterns: &[String]| -> PyResult<Vec<Pattern>> {
            let parsed = patterns
                .iter()
                .map(|text| Pattern::parse(text).map_err(invalid));
            parsed.collect()
        };
        let contract: Contract = contract.parse().map_err(invalid)?;
        let (patterns, excluded) = (parse(&patterns)?, parse(&excluded)?);
        let set = PatternSet {
            names: &[],
            patterns: &patterns,
            excluded: &excluded,
        };
        let options = SubscribeOptions {
            only_changes,
            max_age: max_age.map(duration),
            ..SubscribeOptions::default()
        };
        let subscribed = match is_async {
            true => {
                let subscription = self.aio.subscribe_patterns(&set, contract, options);
                subscription.map(PatternSubscription::of_aio)
            }
            false => {
                let subscription = self.blocking.subscribe_patterns(&set, contract, options);
                subscription.map(PatternSubscription::of_blocking)
            }
        };
        subscribed.map_err(|error| errors::of_call(py, &error))
    }

    /// Starts to record variables into a file.
    fn record(&self, py: Python<'_>, options: RecorderOptions<'_>) -> PyResult<Recorder> {
        Recorder::start(py, &self.blocking, options)
    }

    /// Sends waiting data and closes the connection.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.blocking.close());
    }
}

fn access_name(access: Access) -> &'static str {
    match access {
        Access::ReadWrite => "read-write",
        Access::ReadOnly => "read-only",
        Access::WriteOnly => "write-only",
    }
}

fn verdict_name(verdict: WhyVerdict) -> &'static str {
    match verdict {
        WhyVerdict::Ok => "ok",
        WhyVerdict::Fault => "fault",
        WhyVerdict::Note => "note",
        WhyVerdict::Unknown(_) => "unknown",
    }
}

fn invalid(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn variables(handles: &[Py<Handle>]) -> Vec<VariableRef> {
    handles.iter().map(|handle| handle.get().variable).collect()
}

fn handle(py: Python<'_>, name: &str, opened: Opened) -> PyResult<(Handle, Option<Reading>)> {
    let units = opened.properties.as_ref().map_or("", |of| &of.units);
    let source = Source::new(py, name, units, opened.data_type.clone());
    let reading = opened.reading.as_ref();
    let reading = reading
        .map(|reading| Reading::new(py, &source, &Parts::of(reading)))
        .transpose()?;
    let handle = Handle {
        variable: opened.variable,
        source: Arc::new(source),
        properties: opened.properties,
        access: opened.access,
    };
    Ok((handle, reading))
}

fn fault_of(py: Python<'_>, handle: &Py<Handle>, fault: &Fault) -> PyErr {
    let name = handle.get().source.name.bind(py);
    errors::of_fault(py, fault, name.to_str().ok())
}

fn readings_of(
    py: Python<'_>,
    handles: &[Py<Handle>],
    readings: Vec<Result<trunkline::types::Reading, Fault>>,
) -> PyResult<Py<PyAny>> {
    let answers = PyList::empty(py);
    for (handle, reading) in handles.iter().zip(readings) {
        match reading {
            Ok(reading) => {
                answers.append(Reading::new(
                    py,
                    &handle.get().source,
                    &Parts::of(&reading),
                )?)?;
            }
            Err(fault) => answers.append(fault_of(py, handle, &fault))?,
        }
    }
    Ok(answers.into_any().unbind())
}

/// Builds the writes of `objects`, all with the same verb of the engine.
fn writes_of(
    handles: &[Py<Handle>],
    objects: &[Bound<'_, PyAny>],
    verb: &str,
) -> PyResult<Vec<Write>> {
    let mut writes = Vec::with_capacity(handles.len());
    for (position, handle) in handles.iter().enumerate() {
        let variable = handle.get().variable;
        let write = match verb {
            "send" => Write::send(variable),
            "request" => Write::request(variable),
            "unforce" => Write::unforce(variable),
            verb => {
                let object = objects
                    .get(position)
                    .ok_or_else(|| invalid("a value is missing"))?;
                let value = values::from_python(object, &handle.get().source.data_type)?;
                match verb {
                    "put" => Write::new(variable, value),
                    "set" => Write::set(variable, value),
                    "force" => Write::force(variable, value),
                    other => return Err(invalid(format!("there is no verb {other:?}"))),
                }
            }
        };
        writes.push(write);
    }
    Ok(writes)
}

fn outcomes_of<'py>(
    py: Python<'py>,
    handles: &[Py<Handle>],
    outcomes: Vec<WriteOutcome>,
) -> PyResult<Bound<'py, PyList>> {
    let answers = PyList::empty(py);
    for (handle, outcome) in handles.iter().zip(outcomes) {
        match outcome {
            WriteOutcome::Applied(at) => answers.append(("applied", at.epoch, at.sequence))?,
            WriteOutcome::Unchanged(at) => answers.append(("unchanged", at.epoch, at.sequence))?,
            WriteOutcome::Superseded => answers.append(("superseded", 0, 0))?,
            WriteOutcome::Refused(fault) => answers.append(fault_of(py, handle, &fault))?,
            WriteOutcome::Unknown(fault) => {
                let name = handle.get().source.name.bind(py).to_str()?;
                answers.append(errors::of_unknown_outcome(py, &fault, name))?;
            }
            WriteOutcome::NotTried(NotTried::WouldBlock) => {
                let fault = Fault::from(trunkline::proto::FaultCode::WouldBlock);
                answers.append(fault_of(py, handle, &fault))?;
            }
            WriteOutcome::NotTried(NotTried::Cancelled(fault)) => {
                answers.append(fault_of(py, handle, &fault))?;
            }
        }
    }
    Ok(answers)
}

fn report_of(py: Python<'_>, report: &LibraryReport) -> PyResult<Py<PyAny>> {
    let counts = PyDict::new(py);
    counts.set_item("added", report.added)?;
    counts.set_item("changed", report.changed)?;
    counts.set_item("kept", report.kept)?;
    counts.set_item("removed", report.removed)?;
    Ok(counts.into_any().unbind())
}

fn counts_of<'py>(
    py: Python<'py>,
    counts: &trunkline::WriteCounts,
) -> PyResult<Bound<'py, PyDict>> {
    let named = PyDict::new(py);
    named.set_item("issued", counts.issued)?;
    named.set_item("applied", counts.applied)?;
    named.set_item("unchanged", counts.unchanged)?;
    named.set_item("superseded", counts.superseded)?;
    named.set_item("refused", counts.refused)?;
    Ok(named)
}

/// Returns the URL of the context that the user has selected; `None` if there is none.
#[pyfunction]
pub(crate) fn default_url(py: Python<'_>) -> PyResult<Option<String>> {
    let url = || -> Result<Option<String>, ContextError> {
        let contexts = Contexts::of_user()?;
        let Some(name) = contexts.selected()? else {
            return Ok(None);
        };
        Ok(Some(contexts.get(&name)?.url.to_string()))
    };
    url().map_err(|error| errors::new(py, "Error", "bad-context", &error.to_string(), None))
}
