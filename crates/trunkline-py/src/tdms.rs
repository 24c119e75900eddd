//! TDMS files.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use numpy::{
    Complex32, Complex64, Element, PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods,
    PyUntypedArray, PyUntypedArrayMethods, dtype,
};
use pyo3::exceptions::{PyFileNotFoundError, PyKeyError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyModule, PyString};
use trunkline::tdms::{
    Arrangement, Channel, ChannelId, Data, Limits, ObjectPath, OpenError, Properties,
    PropertyValue, ReadError, Scaling, TdmsTime, TdmsType, Values, Waveform, Writer, WriterOptions,
};
use trunkline::types::Timestamp;

use crate::errors;

type Opened = trunkline::tdms::TdmsFile<File>;

/// A TDMS file that is read piece by piece.
#[pyclass(frozen)]
pub(crate) struct TdmsReader {
    path: PathBuf,
    file: RwLock<Option<Arc<Opened>>>,
}

/// What is known of a channel without reading its values.
#[pyclass(frozen, get_all)]
pub(crate) struct TdmsChannelInfo {
    group: String,
    name: String,
    /// Number of values.
    count: u64,
    /// Type of the values in the file, such as "f64".
    data_type: String,
    /// The dtype of the values that are read, before and after scaling.
    raw_dtype: Py<PyAny>,
    dtype: Py<PyAny>,
    /// Why the scales of the channel cannot be computed; `None` if they can.
    scale_error: Option<String>,
    /// Start in nanoseconds since 1970, offset and increment of the values; `None` if not defined.
    waveform: Option<(Option<i64>, f64, f64)>,
}

fn open(py: Python<'_>, path: &PathBuf) -> PyResult<Opened> {
    let opened = py.detach(|| {
        let metadata = fs::metadata(path).map_err(OpenFault::Io)?;
        if !metadata.is_file() {
            return Err(OpenFault::NotRegular);
        }
        let file = File::open(path).map_err(OpenFault::Io)?;
        let limits = Limits {
            is_salvaging: true,
            ..Limits::default()
        };
        let mut index = path.clone().into_os_string();
        index.push("_index");
        // The index file only saves time, so one that cannot be read is ignored.
        let opened = match File::open(index) {
            Ok(index) => Opened::open_indexed(file, index, limits),
            Err(_) => Opened::open_with(file, limits),
        };
        opened.map_err(OpenFault::Tdms)
    });
    let name = path.display();
    opened.map_err(|fault| match fault {
        OpenFault::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            PyFileNotFoundError::new_err(format!("{name}: there is no such file"))
        }
        OpenFault::Io(error) => PyOSError::new_err(format!("{name}: {error}")),
        OpenFault::NotRegular => PyOSError::new_err(format!(
            "{name} is not a regular file, which reading at any position needs"
        )),
        OpenFault::Tdms(error) => {
            let sentence = format!("{error}; check that this is the right file");
            errors::new(py, "Error", "not-tdms", &sentence, Some(&name.to_string()))
        }
    })
}

enum OpenFault {
    Io(std::io::Error),
    NotRegular,
    Tdms(OpenError),
}

impl TdmsReader {
    fn file(&self, py: Python<'_>) -> PyResult<Arc<Opened>> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        file.clone().ok_or_else(|| {
            let name = self.path.display().to_string();
            let sentence = "the file was closed by this program; open it again";
            errors::new(py, "Closed", "closed", sentence, Some(&name))
        })
    }
}

#[pymethods]
impl TdmsReader {
    /// Opens a file and reads its metadata, but no values.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file = RwLock::new(Some(Arc::new(open(py, &path)?)));
        Ok(Self { path, file })
    }

    /// Reads the metadata again, for a file that grows.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.file(py)?;
        let opened = open(py, &self.path)?;
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(opened));
        Ok(())
    }

    fn close(&self) {
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    #[getter]
    fn is_closed(&self) -> bool {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        file.is_none()
    }

    /// Returns the names of the groups, in the order of the file.
    fn groups(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let file = self.file(py)?;
        Ok(file
            .groups()
            .map(|name| name.to_str().into_owned())
            .collect())
    }

    /// Returns the channels in the order of the file.
    fn channels(&self, py: Python<'_>) -> PyResult<Vec<TdmsChannelInfo>> {
        let file = self.file(py)?;
        file.channels().map(|channel| info(py, &channel)).collect()
    }

    /// Returns the properties of the file, a group or a channel.
    #[pyo3(signature = (group=None, channel=None))]
    fn properties<'py>(
        &self,
        py: Python<'py>,
        group: Option<&str>,
        channel: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let file = self.file(py)?;
        let path = match (group, channel) {
            (None, _) => ObjectPath::File,
            (Some(group), None) => ObjectPath::group(group),
            (Some(group), Some(channel)) => ObjectPath::channel(group, channel),
        };
        match file.properties(&path) {
            Some(properties) => properties_of(py, properties),
            None => Ok(PyDict::new(py)),
        }
    }

    /// Reads at most `count` values of a channel from number `start` on.
    fn read(
        &self,
        py: Python<'_>,
        group: &str,
        channel: &str,
        start: u64,
        count: u64,
        scaled: bool,
    ) -> PyResult<Py<PyAny>> {
        let file = self.file(py)?;
        let path = ObjectPath::channel(group, channel);
        let found = file.channel(&path);
        let channel = found.ok_or_else(|| PyKeyError::new_err(path.to_string()))?;
        let count = count.min(channel.len().saturating_sub(start));
        let values = py.detach(|| {
            let scaling = match scaled {
                true => channel.scaling(),
                false => Scaling::None,
            };
            if matches!(scaling, Scaling::Chain(_)) {
                let mut numbers = vec![0.0; usize::try_from(count).unwrap_or(usize::MAX)];
                let read = channel.read_scaled_into(&scaling, start, &mut numbers)?;
                numbers.truncate(read);
                return Ok(Values::F64(numbers));
            }
            match channel.data_type() {
                TdmsType::Void => Ok(Values::Void),
                _ => channel.read(start, count),
            }
        });
        let name = self.path.display().to_string();
        let values = values.map_err(|error: ReadError| {
            let code = match error {
                ReadError::Damaged { .. } => "damaged",
                _ => "not-readable",
            };
            errors::new(py, "Error", code, &error.to_string(), Some(&name))
        })?;
        array_of(py, values)
    }

    /// Returns what is wrong with the file, as sentences; empty if it is sound.
    fn findings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let file = self.file(py)?;
        let report = file.report();
        let findings = report.incomplete.into_iter().chain(report.findings);
        Ok(findings.map(ToString::to_string).collect())
    }
}

fn info(py: Python<'_>, channel: &Channel<'_, File>) -> PyResult<TdmsChannelInfo> {
    let scaling = channel.scaling();
    let held = match (channel.data_type(), channel.scalers()) {
        (TdmsType::Daqmx, [scaler, ..]) => scaler.data_type,
        (held, _) => held,
    };
    let raw = dtype_of(py, held)?;
    let scaled = match &scaling {
        Scaling::Chain(_) => dtype::<f64>(py).into_any(),
        Scaling::None | Scaling::Unknown(_) => raw.clone(),
    };
    let path = channel.path();
    let waveform = channel.waveform().map(|waveform: Waveform| {
        let start = waveform.start.and_then(TdmsTime::to_timestamp);
        let start = start.map(Timestamp::as_nanos);
        (start, waveform.offset, waveform.increment)
    });
    let group = path
        .parent()
        .map(|group| group.name().to_str().into_owned());
    Ok(TdmsChannelInfo {
        group: group.unwrap_or_default(),
        name: path.name().to_str().into_owned(),
        count: channel.len(),
        data_type: channel.data_type().to_string(),
        raw_dtype: raw.unbind(),
        dtype: scaled.unbind(),
        scale_error: match scaling {
            Scaling::Unknown(error) => Some(error.to_string()),
            _ => None,
        },
        waveform,
    })
}

fn datetime_dtype(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let numpy = PyModule::import(py, "numpy")?;
    numpy.getattr("dtype")?.call1(("datetime64[ns]",))
}

fn dtype_of(py: Python<'_>, data_type: TdmsType) -> PyResult<Bound<'_, PyAny>> {
    Ok(match data_type.without_unit() {
        TdmsType::I8 => dtype::<i8>(py),
        TdmsType::I16 => dtype::<i16>(py),
        TdmsType::I32 => dtype::<i32>(py),
        TdmsType::I64 => dtype::<i64>(py),
        TdmsType::U8 => dtype::<u8>(py),
        TdmsType::U16 => dtype::<u16>(py),
        TdmsType::U32 => dtype::<u32>(py),
        TdmsType::U64 => dtype::<u64>(py),
        TdmsType::F32 => dtype::<f32>(py),
        TdmsType::F64 | TdmsType::Extended => dtype::<f64>(py),
        TdmsType::Bool => dtype::<bool>(py),
        TdmsType::ComplexF32 => dtype::<Complex32>(py),
        TdmsType::ComplexF64 => dtype::<Complex64>(py),
        TdmsType::String => dtype::<Py<PyAny>>(py),
        TdmsType::Time => return datetime_dtype(py),
        _ => {
            return PyModule::import(py, "numpy")?
                .getattr("dtype")?
                .call1(("V8",));
        }
    }
    .into_any())
}

/// Returns nanoseconds since 1970; for a time that has none, those of NaT.
fn nanos(time: TdmsTime) -> i64 {
    time.to_timestamp().map_or(i64::MIN, Timestamp::as_nanos)
}

fn array_of(py: Python<'_>, values: Values) -> PyResult<Py<PyAny>> {
    fn numbers<T: Element>(py: Python<'_>, values: Vec<T>) -> Py<PyAny> {
        PyArray1::from_vec(py, values).into_any().unbind()
    }
    Ok(match values {
        Values::Void => numbers(py, Vec::<f64>::new()),
        Values::I8(v) => numbers(py, v),
        Values::I16(v) => numbers(py, v),
        Values::I32(v) => numbers(py, v),
        Values::I64(v) => numbers(py, v),
        Values::U8(v) => numbers(py, v),
        Values::U16(v) => numbers(py, v),
        Values::U32(v) => numbers(py, v),
        Values::U64(v) => numbers(py, v),
        Values::F32(v) => numbers(py, v),
        Values::F64(v) => numbers(py, v),
        Values::Bool(v) => numbers(py, v),
        Values::Extended(v) => numbers(py, v.into_iter().map(|one| one.to_f64()).collect()),
        Values::ComplexF32(v) => {
            let complex = |[re, im]: [f32; 2]| Complex32::new(re, im);
            numbers(py, v.into_iter().map(complex).collect())
        }
        Values::ComplexF64(v) => {
            let complex = |[re, im]: [f64; 2]| Complex64::new(re, im);
            numbers(py, v.into_iter().map(complex).collect())
        }
        Values::String(v) => {
            let text =
                |one: &trunkline::tdms::Text| PyString::new(py, &one.to_str()).into_any().unbind();
            numbers(py, v.iter().map(text).collect())
        }
        Values::Time(v) => {
            let nanos = v.into_iter().map(nanos).collect();
            PyArray1::<i64>::from_vec(py, nanos)
                .call_method1("view", (datetime_dtype(py)?,))?
                .unbind()
        }
    })
}

fn properties_of<'py>(py: Python<'py>, of: &Properties) -> PyResult<Bound<'py, PyDict>> {
    let named = PyDict::new(py);
    for (name, value) in of {
        let name = name.to_str();
        match value {
            PropertyValue::Void => named.set_item(name, py.None())?,
            PropertyValue::I8(v) => named.set_item(name, v)?,
            PropertyValue::I16(v) => named.set_item(name, v)?,
            PropertyValue::I32(v) => named.set_item(name, v)?,
            PropertyValue::I64(v) => named.set_item(name, v)?,
            PropertyValue::U8(v) => named.set_item(name, v)?,
            PropertyValue::U16(v) => named.set_item(name, v)?,
            PropertyValue::U32(v) => named.set_item(name, v)?,
            PropertyValue::U64(v) => named.set_item(name, v)?,
            PropertyValue::F32(v) => named.set_item(name, v)?,
            PropertyValue::F64(v) => named.set_item(name, v)?,
            PropertyValue::Extended(v) => named.set_item(name, v.to_f64())?,
            PropertyValue::String(v) => named.set_item(name, v.to_str())?,
            PropertyValue::Bool(v) => named.set_item(name, v)?,
            PropertyValue::Time(v) => {
                let numpy = PyModule::import(py, "numpy")?;
                let time = numpy.getattr("datetime64")?.call1((nanos(*v), "ns"))?;
                named.set_item(name, time)?;
            }
            PropertyValue::ComplexF32([re, im]) => {
                named.set_item(
                    name,
                    PyComplex::from_doubles(py, (*re).into(), (*im).into()),
                )?;
            }
            PropertyValue::ComplexF64([re, im]) => {
                named.set_item(name, PyComplex::from_doubles(py, *re, *im))?;
            }
        }
    }
    Ok(named)
}

/// Converts the value of a property.
pub(crate) fn property(value: &Bound<'_, PyAny>) -> PyResult<PropertyValue> {
    if value.is_instance_of::<PyBool>() || value.get_type().name()? == "bool" {
        return Ok(PropertyValue::Bool(value.is_truthy()?));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(PropertyValue::String(text.to_str()?.into()));
    }
    if value.get_type().name()? == "datetime64" {
        let nanos = value.call_method1("astype", ("datetime64[ns]",))?;
        let nanos: i64 = nanos.call_method1("astype", ("int64",))?.extract()?;
        return Ok(PropertyValue::Time(Timestamp::from_nanos(nanos).into()));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(PropertyValue::F64(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() || value.hasattr("__index__")? {
        if let Ok(number) = value.extract::<i32>() {
            return Ok(PropertyValue::I32(number));
        }
        if let Ok(number) = value.extract::<i64>() {
            return Ok(PropertyValue::I64(number));
        }
        return Ok(PropertyValue::U64(value.extract()?));
    }
    if value.hasattr("__float__")? {
        return Ok(PropertyValue::F64(value.extract()?));
    }
    Err(PyTypeError::new_err(format!(
        "a property cannot be a {}; use a number, bool, str or numpy.datetime64",
        value.get_type().name()?
    )))
}

/// Writes a new TDMS file, segment by segment.
#[pyclass(frozen)]
pub(crate) struct TdmsFileWriter {
    path: PathBuf,
    state: Mutex<Option<(File, Writer)>>,
}

#[pymethods]
impl TdmsFileWriter {
    /// Creates a file, which must not exist unless `replace` is true.
    #[staticmethod]
    fn create(py: Python<'_>, path: PathBuf, replace: bool) -> PyResult<Self> {
        let created = py.detach(|| {
            let mut options = File::options();
            options.write(true);
            match replace {
                true => options.create(true).truncate(true).open(&path),
                false => options.create_new(true).open(&path),
            }
        });
        let file = created.map_err(|error| file_error(&path, &error))?;
        let state = Mutex::new(Some((file, Writer::new(WriterOptions::default()))));
        Ok(Self { path, state })
    }

    /// Appends a segment: rows of group, channel or `None`, properties, and values or `None`.
    fn write(&self, py: Python<'_>, rows: &Bound<'_, PyList>) -> PyResult<u64> {
        let locked = self.state.lock_py_attached(py);
        let mut state = locked.unwrap_or_else(PoisonError::into_inner);
        let Some((file, writer)) = state.as_mut() else {
            let name = self.path.display().to_string();
            let sentence = "the file was closed by this program; create another one";
            return Err(errors::new(py, "Closed", "closed", sentence, Some(&name)));
        };
        let refused = |error: trunkline::tdms::WriteError| PyValueError::new_err(error.to_string());
        let mut columns: Vec<(ChannelId, Values)> = Vec::new();
        for row in rows.iter() {
            type Row<'py> = (
                Option<String>,
                Option<String>,
                Bound<'py, PyDict>,
                Option<Bound<'py, PyAny>>,
            );
            let (group, channel, properties, values): Row<'_> = row.extract()?;
            let path = match (&group, &channel) {
                (None, _) => ObjectPath::File,
                (Some(group), None) => ObjectPath::group(group.as_str()),
                (Some(group), Some(channel)) => {
                    ObjectPath::channel(group.as_str(), channel.as_str())
                }
            };
            writer.object(&path).map_err(refused)?;
            for (name, value) in properties.iter() {
                let name: String = name.extract()?;
                writer
                    .set(&path, name, property(&value)?)
                    .map_err(refused)?;
            }
            if let (Some(group), Some(channel), Some(values)) = (group, channel, values) {
                let (data_type, column) = column(&values)?;
                let id = writer.channel(group, channel, data_type).map_err(refused)?;
                columns.push((id, column));
            }
        }
        py.detach(|| {
            let data: Vec<(ChannelId, Data<'_>)> = columns
                .iter()
                .filter_map(|(id, column)| Some((*id, column.as_data()?)))
                .collect();
            let mut bytes = Vec::new();
            writer
                .write(&data, Arrangement::Contiguous, &mut bytes)
                .map_err(refused)?;
            file.write_all(&bytes)
                .map_err(|error| file_error(&self.path, &error))?;
            Ok(bytes.len() as u64)
        })
    }

    /// Writes the last bytes to the disk and closes the file.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let locked = self.state.lock_py_attached(py);
        let mut state = locked.unwrap_or_else(PoisonError::into_inner);
        match state.take() {
            None => Ok(()),
            Some((file, _)) => py
                .detach(|| file.sync_all())
                .map_err(|error| file_error(&self.path, &error)),
        }
    }
}

fn file_error(path: &std::path::Path, error: &std::io::Error) -> PyErr {
    let sentence = format!("{}: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => pyo3::exceptions::PyFileExistsError::new_err(format!(
            "{sentence}; choose another name, or replace it with replace=True"
        )),
        _ => PyOSError::new_err(sentence),
    }
}

/// Copies an array with one dimension.
fn column(values: &Bound<'_, PyAny>) -> PyResult<(TdmsType, Values)> {
    fn copy<T: Element + Copy>(array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<T>> {
        let array = array.cast::<PyArray1<T>>()?;
        Ok(array.try_readonly()?.as_slice()?.to_vec())
    }
    let py = values.py();
    let numpy = PyModule::import(py, "numpy")?;
    let array = numpy.getattr("ascontiguousarray")?.call1((values,))?;
    let array = array.cast_into::<PyUntypedArray>()?;
    if array.ndim() != 1 {
        return Err(PyValueError::new_err(format!(
            "the values of a channel have one dimension, but this array has {}; use array.ravel()",
            array.ndim()
        )));
    }
    let kind = array.dtype().kind();
    let array = match array.dtype().byteorder() {
        b'>' => {
            let native = array.dtype().call_method1("newbyteorder", ("=",))?;
            array.call_method1("astype", (native,))?.cast_into()?
        }
        _ => array,
    };
    Ok(match (kind, array.dtype().itemsize()) {
        (b'i', 1) => (TdmsType::I8, Values::I8(copy(&array)?)),
        (b'i', 2) => (TdmsType::I16, Values::I16(copy(&array)?)),
        (b'i', 4) => (TdmsType::I32, Values::I32(copy(&array)?)),
        (b'i', 8) => (TdmsType::I64, Values::I64(copy(&array)?)),
        (b'u', 1) => (TdmsType::U8, Values::U8(copy(&array)?)),
        (b'u', 2) => (TdmsType::U16, Values::U16(copy(&array)?)),
        (b'u', 4) => (TdmsType::U32, Values::U32(copy(&array)?)),
        (b'u', 8) => (TdmsType::U64, Values::U64(copy(&array)?)),
        (b'f', 4) => (TdmsType::F32, Values::F32(copy(&array)?)),
        (b'f', 8) => (TdmsType::F64, Values::F64(copy(&array)?)),
        (b'b', _) => (TdmsType::Bool, Values::Bool(copy(&array)?)),
        (b'c', 8) => {
            let parts = copy::<Complex32>(&array)?;
            let parts = parts.into_iter().map(|one| [one.re, one.im]).collect();
            (TdmsType::ComplexF32, Values::ComplexF32(parts))
        }
        (b'c', 16) => {
            let parts = copy::<Complex64>(&array)?;
            let parts = parts.into_iter().map(|one| [one.re, one.im]).collect();
            (TdmsType::ComplexF64, Values::ComplexF64(parts))
        }
        (b'M', _) => {
            let nanos = array.call_method1("astype", ("datetime64[ns]",))?;
            let nanos = nanos.call_method1("view", ("int64",))?;
            let nanos: Vec<i64> = copy(nanos.cast()?)?;
            let time = |nanos| match nanos {
                i64::MIN => TdmsTime::default(),
                nanos => Timestamp::from_nanos(nanos).into(),
            };
            (
                TdmsType::Time,
                Values::Time(nanos.into_iter().map(time).collect()),
            )
        }
        (b'U' | b'O', _) => {
            let mut texts = Vec::with_capacity(array.len());
            for text in array.try_iter()? {
                let text = text?;
                let text = text.cast::<PyString>().map_err(|_| {
                    PyTypeError::new_err("the values of this channel are neither numbers nor text")
                })?;
                texts.push(text.to_str()?.into());
            }
            (TdmsType::String, Values::String(texts))
        }
        _ => {
            let dtype: Bound<'_, PyArrayDescr> = array.dtype();
            return Err(PyTypeError::new_err(format!(
                "a TDMS file has no values of {dtype}; convert them with astype"
            )));
        }
    })
}
