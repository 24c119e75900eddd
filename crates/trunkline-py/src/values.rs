//! Values of variables as Python objects, and back.
//!
//! | Type of the variable | Python |
//! |---|---|
//! | `bool`, integers, `f32`, `f64` | `bool`, `int`, `float`; NumPy scalars are accepted too |
//! | `string`, `bytes` | `str`, `bytes` |
//! | `timestamp` | `int`, nanoseconds since 1970 UTC |
//! | enum | `str`, the label; the number of a label is accepted too |
//! | array | `numpy.ndarray` of the type's dtype and shape, in C order |
//! | struct | `dict`, by the names of the fields |
//! | waveform | `trunkline.Waveform` |
//!
//! A value is accepted only if nothing of it is lost: a fraction is no integer, and an array of `f64`
//! is no array of `f32`, unless the program converts it.

use std::collections::BTreeMap;
use std::sync::Arc;

use numpy::{
    Element, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
    dtype,
};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyModule, PyString};
use trunkline::types::text::with_article;
use trunkline::types::{
    Array, ArrayType, DataType, ElementType, Elements, Timestamp, Value, Waveform,
};

/// Evaluates an expression for the elements of each type that NumPy knows as such.
macro_rules! each_number {
    ($elements:expr, $v:ident => $body:expr, $strings:ident => $of_strings:expr, $times:ident => $of_times:expr) => {
        match $elements {
            Elements::Bool($v) => $body,
            Elements::I8($v) => $body,
            Elements::I16($v) => $body,
            Elements::I32($v) => $body,
            Elements::I64($v) => $body,
            Elements::U8($v) => $body,
            Elements::U16($v) => $body,
            Elements::U32($v) => $body,
            Elements::U64($v) => $body,
            Elements::F32($v) => $body,
            Elements::F64($v) => $body,
            Elements::String($strings) => $of_strings,
            Elements::Timestamp($times) => $of_times,
        }
    };
}

/// Converts a value of the type `data_type` to the object that Python gets.
pub(crate) fn to_python(
    py: Python<'_>,
    value: &Value,
    data_type: &DataType,
) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any().unbind(),
        Value::I8(value) => value.into_pyobject(py)?.into_any().unbind(),
        Value::I16(value) => value.into_pyobject(py)?.into_any().unbind(),
        Value::I32(value) => value.into_pyobject(py)?.into_any().unbind(),
        Value::I64(value) => value.into_pyobject(py)?.into_any().unbind(),
        Value::U8(value) => value.into_pyobject(py)?.into_any().unbind(),
        Value::U16(value) => value.into_pyobject(py)?.into_any().unbind(),
        Value::U32(value) => value.into_pyobject(py)?.into_any().unbind(),
        Value::U64(value) => value.into_pyobject(py)?.into_any().unbind(),
        Value::F32(value) => PyFloat::new(py, f64::from(*value)).into_any().unbind(),
        Value::F64(value) => PyFloat::new(py, *value).into_any().unbind(),
        Value::String(value) => PyString::new(py, value).into_any().unbind(),
        Value::Bytes(value) => PyBytes::new(py, value).into_any().unbind(),
        Value::Timestamp(value) => value.as_nanos().into_pyobject(py)?.into_any().unbind(),
        Value::Enum(index) => match data_type {
            DataType::Enum(labels) if labels.labels.get(*index as usize).is_some() => {
                PyString::new(py, &labels.labels[*index as usize])
                    .into_any()
                    .unbind()
            }
            _ => index.into_pyobject(py)?.into_any().unbind(),
        },
        Value::Array(array) => to_ndarray(py, array.elements(), array.shape())?,
        Value::Struct(values) => {
            let fields = PyDict::new(py);
            if let DataType::Struct(of) = data_type {
                for ((name, data_type), value) in of.fields.iter().zip(values.iter()) {
                    fields.set_item(&**name, to_python(py, value, data_type)?)?;
                }
            }
            fields.into_any().unbind()
        }
        Value::Waveform(waveform) => to_waveform(py, waveform)?,
    })
}

fn to_ndarray(py: Python<'_>, elements: &Elements, shape: &[u32]) -> PyResult<Py<PyAny>> {
    let shape: Vec<usize> = shape.iter().map(|length| *length as usize).collect();
    each_number!(elements, v => shaped(py, v, &shape), strings => {
        let mut objects = Vec::with_capacity(strings.len());
        for text in strings {
            objects.push(PyString::new(py, text).into_any().unbind());
        }
        let array = numpy::PyArray1::from_vec(py, objects);
        Ok(array.reshape(shape)?.into_any().unbind())
    }, times => {
        let nanos: Vec<i64> = times.iter().map(|time| time.as_nanos()).collect();
        let array = shaped(py, &nanos, &shape)?;
        array.call_method1(py, "view", ("datetime64[ns]",))
    })
}

fn shaped<T: Element + Copy>(
    py: Python<'_>,
    elements: &[T],
    shape: &[usize],
) -> PyResult<Py<PyAny>> {
    let array = numpy::PyArray1::from_slice(py, elements);
    match shape {
        [_] => Ok(array.into_any().unbind()),
        shape => Ok(array.reshape(shape)?.into_any().unbind()),
    }
}

/// Returns an object of the package `trunkline`, of which `name` is defined in `trunkline._waveform`.
fn waveform_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        let module = PyModule::import(py, "trunkline._waveform")?;
        Ok::<_, PyErr>(module.getattr("Waveform")?.unbind())
    })?;
    Ok(class.bind(py))
}

fn to_waveform(py: Python<'_>, waveform: &Waveform) -> PyResult<Py<PyAny>> {
    let count = u32::try_from(waveform.samples.len()).unwrap_or(u32::MAX);
    let data = to_ndarray(py, &waveform.samples, &[count])?;
    let attributes = PyDict::new(py);
    for (name, value) in &waveform.attributes {
        // Attributes are plain values, whose conversion needs no type.
        attributes.set_item(&**name, to_python(py, value, &DataType::Bool)?)?;
    }
    let arguments = (data, waveform.t0.as_nanos(), waveform.dt, attributes);
    Ok(waveform_class(py)?.call1(arguments)?.unbind())
}

/// Converts an object of Python to a value of the type `data_type`.
///
/// # Errors
/// `TypeError` if the object is of another kind, `OverflowError` if it does not fit, and `ValueError`
/// if it has the wrong shape or is no label of the enum.
pub(crate) fn from_python(object: &Bound<'_, PyAny>, data_type: &DataType) -> PyResult<Value> {
    Ok(match data_type {
        DataType::Bool => Value::Bool(boolean(object)?),
        DataType::I8 => Value::I8(integer(object, data_type)?),
        DataType::I16 => Value::I16(integer(object, data_type)?),
        DataType::I32 => Value::I32(integer(object, data_type)?),
        DataType::I64 => Value::I64(integer(object, data_type)?),
        DataType::U8 => Value::U8(integer(object, data_type)?),
        DataType::U16 => Value::U16(integer(object, data_type)?),
        DataType::U32 => Value::U32(integer(object, data_type)?),
        DataType::U64 => Value::U64(integer(object, data_type)?),
        DataType::F32 => {
            let number = float(object, data_type)?;
            let single = number as f32;
            if number.is_finite() && !single.is_finite() {
                return Err(out_of_range(object, data_type));
            }
            Value::F32(single)
        }
        DataType::F64 => Value::F64(float(object, data_type)?),
        DataType::String => {
            let text = object
                .cast::<PyString>()
                .map_err(|_| wrong_type(object, data_type))?;
            Value::String(text.to_str()?.into())
        }
        DataType::Bytes => Value::Bytes(bytes(object, data_type)?.into()),
        DataType::Timestamp => Value::Timestamp(Timestamp::from_nanos(nanos(object, data_type)?)),
        DataType::Enum(labels) => Value::Enum(label(object, &labels.labels, data_type)?),
        DataType::Array(of) => Value::Array(Arc::new(array(object, of, data_type)?)),
        DataType::Struct(of) => {
            let given = object
                .cast::<PyDict>()
                .map_err(|_| wrong_type(object, data_type))?;
            let mut fields = Vec::with_capacity(of.fields.len());
            for (name, data_type) in &of.fields {
                let Some(field) = given.get_item(&**name)? else {
                    return Err(PyValueError::new_err(format!(
                        "the field {name:?} is missing"
                    )));
                };
                fields.push(from_python(&field, data_type)?);
            }
            if given.len() != fields.len() {
                let names: Vec<&str> = of.fields.iter().map(|(name, _)| &**name).collect();
                return Err(PyValueError::new_err(format!(
                    "there are {} fields, but the type has {}: {}",
                    given.len(),
                    fields.len(),
                    names.join(", ")
                )));
            }
            Value::Struct(fields.into())
        }
        DataType::Waveform(element) => {
            Value::Waveform(Arc::new(waveform(object, *element, data_type)?))
        }
    })
}

fn wrong_type(object: &Bound<'_, PyAny>, data_type: &DataType) -> PyErr {
    let given = object.get_type();
    let name = given
        .name()
        .map_or_else(|_| "this object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "a value of the type {name} is not {}",
        with_article(data_type)
    ))
}

fn out_of_range(object: &Bound<'_, PyAny>, data_type: &DataType) -> PyErr {
    PyOverflowError::new_err(format!(
        "{object} is outside the range of {}",
        with_article(data_type)
    ))
}

fn boolean(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object
        .extract()
        .map_err(|_| wrong_type(object, &DataType::Bool))
}

/// Accepts what has `__index__`: `int` and NumPy integers, but no `bool` and no `float`.
fn integer<T: TryFrom<i128>>(object: &Bound<'_, PyAny>, data_type: &DataType) -> PyResult<T> {
    let is_index = object.is_instance_of::<PyInt>() || object.hasattr("__index__")?;
    if object.is_instance_of::<PyBool>() || !is_index {
        return Err(wrong_type(object, data_type));
    }
    let wide = match object.extract::<i64>() {
        Ok(number) => i128::from(number),
        Err(_) => i128::from(
            object
                .extract::<u64>()
                .map_err(|_| out_of_range(object, data_type))?,
        ),
    };
    T::try_from(wide).map_err(|_| out_of_range(object, data_type))
}

/// Accepts what has `__float__`, but no `bool` and no text.
fn float(object: &Bound<'_, PyAny>, data_type: &DataType) -> PyResult<f64> {
    if let Ok(number) = object.cast_exact::<PyFloat>() {
        return Ok(number.value());
    }
    if object.is_instance_of::<PyBool>() || object.is_instance_of::<PyString>() {
        return Err(wrong_type(object, data_type));
    }
    object.extract().map_err(|_| wrong_type(object, data_type))
}

fn bytes(object: &Bound<'_, PyAny>, data_type: &DataType) -> PyResult<Vec<u8>> {
    if object.is_instance_of::<PyString>() || object.is_instance_of::<PyInt>() {
        return Err(wrong_type(object, data_type));
    }
    // bytes, bytearray and everything else with a buffer.
    let module = PyModule::import(object.py(), "builtins")?;
    let copy = module
        .getattr("bytes")?
        .call1((object,))
        .map_err(|_| wrong_type(object, data_type))?;
    Ok(copy.cast::<PyBytes>()?.as_bytes().to_vec())
}

/// Accepts integers and `numpy.datetime64`.
fn nanos(object: &Bound<'_, PyAny>, data_type: &DataType) -> PyResult<i64> {
    let class = object.get_type();
    if class.name().is_ok_and(|name| name == "datetime64") {
        let nanos = object.call_method1("astype", ("datetime64[ns]",))?;
        return nanos.call_method1("astype", ("int64",))?.extract();
    }
    integer(object, data_type)
}

fn label(object: &Bound<'_, PyAny>, labels: &[Arc<str>], data_type: &DataType) -> PyResult<u32> {
    if let Ok(text) = object.cast::<PyString>() {
        let text = text.to_str()?;
        let index = labels.iter().position(|label| **label == *text);
        let index = index.and_then(|index| u32::try_from(index).ok());
        return index.ok_or_else(|| {
            PyValueError::new_err(format!(
                "{text:?} is no label; the labels are {}",
                labels.join(", ")
            ))
        });
    }
    let index: u32 = integer(object, data_type)?;
    match labels.get(index as usize) {
        Some(_) => Ok(index),
        None => Err(PyValueError::new_err(format!(
            "{index} is no number of a label; the type has {} labels, counted from 0",
            labels.len()
        ))),
    }
}

fn array(object: &Bound<'_, PyAny>, of: &ArrayType, data_type: &DataType) -> PyResult<Array> {
    let array = as_array(object, of.element, data_type)?;
    let shape: Vec<u32> = array
        .shape()
        .iter()
        .map(|length| u32::try_from(*length).map_err(|_| out_of_range(object, data_type)))
        .collect::<PyResult<_>>()?;
    let fits = shape.len() == of.shape.len()
        && shape
            .iter()
            .zip(&of.shape)
            .all(|(length, fixed)| fixed.is_none_or(|fixed| fixed == *length));
    if !fits {
        return Err(PyValueError::new_err(format!(
            "an array of the shape {:?} is not {}",
            array.shape(),
            with_article(data_type)
        )));
    }
    let elements = elements(&array, of.element)?;
    Array::new(shape, elements).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns the object as a contiguous array of the dtype of `element`. Only conversions that lose
/// nothing are made, as NumPy's "safe" casting defines them.
fn as_array<'py>(
    object: &Bound<'py, PyAny>,
    element: ElementType,
    data_type: &DataType,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = object.py();
    let numpy = PyModule::import(py, "numpy")?;
    let array = numpy
        .getattr("asarray")?
        .call1((object,))
        .map_err(|_| wrong_type(object, data_type))?;
    let wanted = element_dtype(py, element)?;
    let given = array.getattr("dtype")?;
    // A list of Python numbers has the widest type, and its elements may still fit.
    let is_plain = !object.hasattr("dtype")?;
    let kind = |dtype: &Bound<'py, PyAny>| -> PyResult<String> { dtype.getattr("kind")?.extract() };
    let is_integer = |kind: &str| matches!(kind, "i" | "u");
    let (from, to) = (kind(&given)?, kind(&wanted)?);
    let must_compare = is_plain && is_integer(&from) && is_integer(&to);
    let is_safe = match element {
        ElementType::String => from != "V",
        _ if must_compare => true,
        _ => {
            let rule = if is_plain { "same_kind" } else { "safe" };
            numpy
                .getattr("can_cast")?
                .call1((&given, &wanted, rule))?
                .extract()?
        }
    };
    if !is_safe {
        return Err(PyTypeError::new_err(format!(
            "an array of {given} is not {}; convert it with astype",
            with_article(data_type)
        )));
    }
    let named = PyDict::new(py);
    named.set_item("dtype", wanted)?;
    named.set_item("order", "C")?;
    let contiguous = numpy.getattr("asarray")?.call((&array,), Some(&named))?;
    let equal = numpy.getattr("array_equal")?;
    if must_compare && !equal.call1((&array, &contiguous))?.is_truthy()? {
        return Err(out_of_range(object, data_type));
    }
    Ok(contiguous.cast_into()?)
}

/// Returns the dtype of the elements of arrays.
pub(crate) fn element_dtype(py: Python<'_>, element: ElementType) -> PyResult<Bound<'_, PyAny>> {
    Ok(match element {
        ElementType::Bool => dtype::<bool>(py).into_any(),
        ElementType::I8 => dtype::<i8>(py).into_any(),
        ElementType::I16 => dtype::<i16>(py).into_any(),
        ElementType::I32 => dtype::<i32>(py).into_any(),
        ElementType::I64 => dtype::<i64>(py).into_any(),
        ElementType::U8 => dtype::<u8>(py).into_any(),
        ElementType::U16 => dtype::<u16>(py).into_any(),
        ElementType::U32 => dtype::<u32>(py).into_any(),
        ElementType::U64 => dtype::<u64>(py).into_any(),
        ElementType::F32 => dtype::<f32>(py).into_any(),
        ElementType::F64 => dtype::<f64>(py).into_any(),
        ElementType::String => dtype::<Py<PyAny>>(py).into_any(),
        ElementType::Timestamp => PyModule::import(py, "numpy")?
            .getattr("dtype")?
            .call1(("datetime64[ns]",))?,
    })
}

fn elements(array: &Bound<'_, PyUntypedArray>, element: ElementType) -> PyResult<Elements> {
    fn of<T: Element + Copy>(array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<T>> {
        let array: PyReadonlyArrayDyn<'_, T> = array.cast::<PyArrayDyn<T>>()?.readonly();
        Ok(array.as_slice()?.to_vec())
    }
    Ok(match element {
        ElementType::Bool => Elements::Bool(of(array)?),
        ElementType::I8 => Elements::I8(of(array)?),
        ElementType::I16 => Elements::I16(of(array)?),
        ElementType::I32 => Elements::I32(of(array)?),
        ElementType::I64 => Elements::I64(of(array)?),
        ElementType::U8 => Elements::U8(of(array)?),
        ElementType::U16 => Elements::U16(of(array)?),
        ElementType::U32 => Elements::U32(of(array)?),
        ElementType::U64 => Elements::U64(of(array)?),
        ElementType::F32 => Elements::F32(of(array)?),
        ElementType::F64 => Elements::F64(of(array)?),
        ElementType::String => {
            let flat = array.call_method0("ravel")?;
            let mut texts = Vec::with_capacity(array.len());
            for text in flat.try_iter()? {
                let text = text?;
                let text = text
                    .cast::<PyString>()
                    .map_err(|_| wrong_type(&text, &DataType::String))?;
                texts.push(Arc::from(text.to_str()?));
            }
            Elements::String(texts)
        }
        ElementType::Timestamp => {
            let nanos = array.call_method1("view", ("int64",))?;
            let nanos: Vec<i64> = of(nanos.cast()?)?;
            Elements::Timestamp(nanos.into_iter().map(Timestamp::from_nanos).collect())
        }
    })
}

/// Accepts a `Waveform`, or an array for a waveform without time.
fn waveform(
    object: &Bound<'_, PyAny>,
    element: ElementType,
    data_type: &DataType,
) -> PyResult<Waveform> {
    let class = waveform_class(object.py())?;
    let (data, t0, dt, attributes) = match object.is_instance(class)? {
        true => (
            object.getattr("data")?,
            object.getattr("t0_ns")?.extract()?,
            object.getattr("dt")?.extract()?,
            plain_attributes(&object.getattr("attributes")?)?,
        ),
        false => (object.clone(), 0, 0.0, BTreeMap::new()),
    };
    let samples = as_array(&data, element, data_type)?;
    if samples.ndim() != 1 {
        return Err(PyValueError::new_err(
            "the samples of a waveform have one dimension",
        ));
    }
    Ok(Waveform {
        t0: Timestamp::from_nanos(t0),
        dt,
        samples: elements(&samples, element)?,
        attributes,
    })
}

fn plain_attributes(object: &Bound<'_, PyAny>) -> PyResult<BTreeMap<Arc<str>, Value>> {
    let mut attributes = BTreeMap::new();
    for (name, value) in object.cast::<PyDict>()?.iter() {
        let data_type = if value.is_instance_of::<PyBool>() {
            DataType::Bool
        } else if value.is_instance_of::<PyInt>() {
            DataType::I64
        } else if value.is_instance_of::<PyString>() {
            DataType::String
        } else {
            DataType::F64
        };
        let name: String = name.extract()?;
        attributes.insert(Arc::from(name), from_python(&value, &data_type)?);
    }
    Ok(attributes)
}
