//! Readings, and blocks of readings as NumPy arrays.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use trunkline::types::{DataType, Lost, Quality, Reason, Timestamp, Value};
use trunkline::{BatchReading, types};

use crate::values;

/// A value with its time, quality and losses.
#[pyclass(frozen)]
pub(crate) struct Reading {
    /// Name of the variable.
    #[pyo3(get)]
    name: Py<PyString>,
    /// The value, in engineering units. If the variable was never written, the default of its type.
    #[pyo3(get)]
    value: Py<PyAny>,
    /// Time of the measurement in nanoseconds since 1970 UTC, by the source's clock.
    #[pyo3(get)]
    ts_ns: i64,
    /// Time at which the engine accepted the value, in nanoseconds since 1970 UTC.
    #[pyo3(get)]
    engine_ts_ns: i64,
    /// The engine's epoch, which changes with every start.
    #[pyo3(get)]
    epoch: u64,
    /// Number of the update within the epoch, from 1; 0 if the variable was never written.
    #[pyo3(get)]
    seq: u64,
    /// The updates that this reader missed since its previous reading.
    missed: Lost,
    /// Age in seconds if the value may no longer be the current one; otherwise `None`.
    #[pyo3(get)]
    stale: Option<f64>,
    /// True if this connection wrote the value.
    #[pyo3(get)]
    own: bool,
    /// False if the variable was never written.
    #[pyo3(get)]
    has_value: bool,
    /// The quality in packed form, as blocks have it.
    #[pyo3(get)]
    quality_bits: u32,
    /// Unit of the value; empty if it has none or if it is not known.
    #[pyo3(get)]
    units: Py<PyString>,
}

/// What all readings of a variable have in common.
pub(crate) struct Source {
    pub(crate) name: Py<PyString>,
    pub(crate) units: Py<PyString>,
    pub(crate) data_type: DataType,
}

impl Source {
    pub(crate) fn new(py: Python<'_>, name: &str, units: &str, data_type: DataType) -> Self {
        Self {
            name: PyString::new(py, name).unbind(),
            units: PyString::new(py, units).unbind(),
            data_type,
        }
    }
}

/// The parts of a reading, from wherever it comes.
pub(crate) struct Parts<'a> {
    value: &'a Value,
    source_timestamp: Timestamp,
    engine_timestamp: Timestamp,
    quality: Quality,
    position: types::Position,
    lost: Lost,
    stale: Option<std::time::Duration>,
    own: bool,
}

/// A reading of an item of a subscription.
pub(crate) trait ItemReading {
    /// Index of the item.
    fn item(&self) -> u32;

    fn parts(&self) -> Parts<'_>;
}

impl ItemReading for BatchReading {
    fn item(&self) -> u32 {
        BatchReading::item(self)
    }

    #[inline]
    fn parts(&self) -> Parts<'_> {
        Parts {
            value: self.value(),
            source_timestamp: self.source_timestamp(),
            engine_timestamp: self.engine_timestamp(),
            quality: self.quality(),
            position: self.position(),
            lost: self.lost(),
            stale: self.stale(),
            own: self.own(),
        }
    }
}

impl ItemReading for (u32, types::Reading) {
    fn item(&self) -> u32 {
        self.0
    }

    fn parts(&self) -> Parts<'_> {
        Parts::of(&self.1)
    }
}

impl<'a> Parts<'a> {
    pub(crate) fn of(reading: &'a types::Reading) -> Self {
        Self {
            value: &reading.sample.value,
            source_timestamp: reading.sample.source_timestamp,
            engine_timestamp: reading.sample.engine_timestamp,
            quality: reading.sample.quality,
            position: reading.position,
            lost: reading.lost,
            stale: reading.stale,
            own: reading.own,
        }
    }
}

impl Reading {
    pub(crate) fn new(py: Python<'_>, source: &Source, parts: &Parts<'_>) -> PyResult<Self> {
        Ok(Self {
            name: source.name.clone_ref(py),
            value: values::to_python(py, parts.value, &source.data_type)?,
            ts_ns: parts.source_timestamp.as_nanos(),
            engine_ts_ns: parts.engine_timestamp.as_nanos(),
            epoch: parts.position.epoch,
            seq: parts.position.sequence,
            missed: parts.lost,
            stale: parts.stale.map(|age| age.as_secs_f64()),
            own: parts.own,
            has_value: parts.position.sequence > 0 && parts.quality.has_value(),
            quality_bits: parts.quality.to_bits(),
            units: source.units.clone_ref(py),
        })
    }

    fn packed_quality(&self) -> Quality {
        Quality::from_bits(self.quality_bits)
    }
}

#[pymethods]
impl Reading {
    /// The trust in the value: "good", "uncertain" or "bad".
    #[getter]
    fn quality(&self) -> String {
        self.packed_quality().level().to_string()
    }

    /// The reason for the quality, such as "sensor-failure"; empty if there is none.
    #[getter]
    fn reason(&self) -> String {
        match self.packed_quality().reason() {
            Reason::None => String::new(),
            reason => reason.to_string(),
        }
    }

    /// Number of updates that this reader missed since its previous reading; `None` if unknown.
    #[getter]
    fn lost(&self) -> Option<u64> {
        self.missed.count()
    }

    /// The missed updates by cause: "queue" and "overrun" if the program was too slow, "disconnect",
    /// and true in "unknown" if the engine was restarted.
    #[getter]
    fn lost_by<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let causes = PyDict::new(py);
        causes.set_item("queue", self.missed.queue)?;
        causes.set_item("overrun", self.missed.overrun)?;
        causes.set_item("disconnect", self.missed.disconnect)?;
        causes.set_item("unknown", self.missed.unknown)?;
        Ok(causes)
    }

    /// Number of updates that the contract replaced by newer ones, which is no loss.
    #[getter]
    fn coalesced(&self) -> u64 {
        self.missed.coalesced
    }

    /// True if an operator has forced the value.
    #[getter]
    fn is_forced(&self) -> bool {
        self.packed_quality().is_forced()
    }

    /// True if the value comes from a simulation.
    #[getter]
    fn is_simulated(&self) -> bool {
        self.packed_quality().is_simulated()
    }

    /// The time of the measurement as `numpy.datetime64[ns]`, UTC.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?
            .getattr("datetime64")?
            .call1((self.ts_ns, "ns"))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let units = self.units.bind(py).to_str()?;
        let space = if units.is_empty() { "" } else { " " };
        let mut text = format!(
            "Reading({} = {}{space}{units}, {}",
            self.name.bind(py),
            self.value.bind(py).repr()?,
            self.packed_quality()
        );
        match self.missed.count() {
            Some(0) => {}
            Some(lost) => text.push_str(&format!(", {lost} lost")),
            None => text.push_str(", unknown number lost"),
        }
        if let Some(age) = self.stale {
            text.push_str(&format!(", stale for {age:.1} s"));
        }
        text.push(')');
        Ok(text)
    }

    fn _repr_html_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let html = slf.py().import("trunkline._html")?;
        html.call_method1("reading_table", (slf,))
    }
}

/// Many readings in columns, as NumPy arrays of equal length, oldest first.
#[pyclass(frozen, get_all)]
pub(crate) struct Block {
    /// Names of the items, by their index.
    names: Py<PyList>,
    /// Index of the item of each reading, `uint32`.
    item: Py<PyAny>,
    /// The values. Of the dtype of the variables if they all have the same scalar type; `float64` if
    /// they have several numeric types; otherwise objects.
    value: Py<PyAny>,
    /// Times of measurement, nanoseconds since 1970 UTC, `int64`.
    ts_ns: Py<PyAny>,
    /// Qualities in packed form, `uint32`. The lowest two bits are 0 if the value is good.
    quality_bits: Py<PyAny>,
    /// Numbers of the updates, `uint64`.
    seq: Py<PyAny>,
    /// Numbers of updates missed before each reading, `uint64`; the highest value if unknown.
    lost: Py<PyAny>,
}

#[pymethods]
impl Block {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.item.bind(py).len()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (count, items) = (self.__len__(py)?, self.names.bind(py).len());
        Ok(format!("Block({count} readings of {items} variables)"))
    }
}

impl Block {
    /// Copies readings into columns. `source` returns what is known about an item.
    pub(crate) fn new<'a, R: ItemReading>(
        py: Python<'_>,
        names: Py<PyList>,
        source: impl Fn(u32) -> Option<&'a Source>,
        readings: &[R],
    ) -> PyResult<Self> {
        let type_of = |index: usize| {
            let source = readings
                .get(index)
                .and_then(|reading| source(reading.item()));
            source.map_or(&DataType::Bool, |source| &source.data_type)
        };
        let values: Vec<&Value> = readings
            .iter()
            .map(|reading| reading.parts().value)
            .collect();
        Ok(Self {
            names,
            item: column(py, readings, |reading| reading.item()),
            value: value_column(py, &values, type_of)?,
            ts_ns: column(py, readings, |reading| {
                reading.parts().source_timestamp.as_nanos()
            }),
            quality_bits: column(py, readings, |reading| reading.parts().quality.to_bits()),
            seq: column(py, readings, |reading| reading.parts().position.sequence),
            lost: column(py, readings, |reading| {
                reading.parts().lost.count().unwrap_or(u64::MAX)
            }),
        })
    }
}

fn column<R: ItemReading, T: numpy::Element>(
    py: Python<'_>,
    readings: &[R],
    of: impl Fn(&R) -> T,
) -> Py<PyAny> {
    let column: Vec<T> = readings.iter().map(of).collect();
    PyArray1::from_vec(py, column).into_any().unbind()
}

/// Builds the column if all values have the variant, which is that of the first one.
macro_rules! of_one_type {
    ($py:expr, $values:expr, $($variant:ident)*) => {
        match $values.first() {
            $(Some(Value::$variant(_)) => {
                let values = $values.iter().map(|value| match value {
                    Value::$variant(value) => Some(*value),
                    _ => None,
                });
                let column: Option<Vec<_>> = values.collect();
                column.map(|column| PyArray1::from_vec($py, column).into_any().unbind())
            })*
            _ => None,
        }
    };
}

/// Returns values as an array: of their type if all have the same type of numbers, `float64` if they
/// are numbers of several types that fit, and otherwise objects. `type_of` returns the type of the
/// value at an index.
pub(crate) fn value_column<'a>(
    py: Python<'_>,
    values: &[&Value],
    type_of: impl Fn(usize) -> &'a DataType,
) -> PyResult<Py<PyAny>> {
    if let Some(column) = of_one_type!(py, values, F64 F32 I64 I32 I16 I8 U64 U32 U16 U8 Bool) {
        return Ok(column);
    }
    let numbers: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
    if let Some(numbers) = numbers {
        return Ok(PyArray1::from_vec(py, numbers).into_any().unbind());
    }
    let mut objects = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        objects.push(values::to_python(py, value, type_of(index))?);
    }
    Ok(PyArray1::from_vec(py, objects).into_any().unbind())
}

/// Returns a number without loss; `None` for integers of 64 bits and for values of other kinds.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::F64(value) => Some(*value),
        Value::F32(value) => Some(f64::from(*value)),
        Value::I8(value) => Some(f64::from(*value)),
        Value::I16(value) => Some(f64::from(*value)),
        Value::I32(value) => Some(f64::from(*value)),
        Value::U8(value) => Some(f64::from(*value)),
        Value::U16(value) => Some(f64::from(*value)),
        Value::U32(value) => Some(f64::from(*value)),
        Value::I64(_)
        | Value::U64(_)
        | Value::Bool(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Enum(_)
        | Value::Array(_)
        | Value::Struct(_)
        | Value::Waveform(_) => None,
    }
}
