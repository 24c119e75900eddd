//! Arrays of NumPy as elements of a stream.

use std::ffi::c_void;
use std::sync::Arc;

use numpy::npyffi::flags::{NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, NPY_ARRAY_WRITEABLE};
use numpy::npyffi::{NpyTypes, PY_ARRAY_API, get_type_object, npy_intp};
use numpy::{
    PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, dtype as dtype_of,
};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyModule, PyString, PyTuple};
use trunkline::stream::element_bytes;
use trunkline::types::text::parse_type;
use trunkline::types::{DataType, StructType};

/// The type of the elements of a stream, in both worlds.
pub(crate) struct ElementDtype {
    pub(crate) data_type: DataType,
    /// Bytes of an element.
    pub(crate) size: usize,
    pub(crate) dtype: Py<PyArrayDescr>,
}

impl ElementDtype {
    /// Converts a name of a Trunkline type, such as "f64", or whatever `numpy.dtype` accepts except
    /// text.
    pub(crate) fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = given.py();
        let data_type = match given.cast::<PyString>() {
            Ok(name) => parse_type(name.to_str()?)
                .map_err(|error| PyValueError::new_err(error.to_string()))?,
            Err(_) => of_dtype(&new_dtype(given)?)?,
        };
        let size = element_bytes(&data_type);
        let (Some(size), Some(dtype)) = (size, to_dtype(py, &data_type)?) else {
            return Err(PyValueError::new_err(format!(
                "elements of the type {data_type} have no NumPy dtype; use bool, an integer, f32, f64, \
                 timestamp, or a struct of these"
            )));
        };
        Ok(Self {
            data_type,
            size,
            dtype: dtype.unbind(),
        })
    }

    /// Returns the bytes of an array of elements.
    pub(crate) fn bytes<'a>(&self, array: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
        let array = self.checked(array)?;
        let len = array.len() * self.size;
        // SAFETY: the array is contiguous, so its elements are `len` bytes from the data pointer, and the
        // caller's reference keeps it alive. A thread that changes the array meanwhile gets what it
        // deserves: mixed elements.
        Ok(unsafe { slice(data(array).cast_const(), len) })
    }

    /// Returns the bytes of an array that is to be filled.
    #[expect(
        clippy::mut_from_ref,
        reason = "the memory belongs to the array, which Python shares"
    )]
    pub(crate) fn bytes_mut<'a>(&self, array: &'a Bound<'_, PyAny>) -> PyResult<&'a mut [u8]> {
        let array = self.checked(array)?;
        // SAFETY: the pointer is that of a live array object.
        let flags = unsafe { (*array.as_array_ptr()).fields.flags };
        if flags & NPY_ARRAY_WRITEABLE == 0 {
            return Err(PyValueError::new_err(
                "the array is read-only; use one that the elements can be written to, such as \
                 numpy.empty(n, reader.dtype)",
            ));
        }
        let len = array.len() * self.size;
        // SAFETY: as in `bytes`, and the array is writeable. Only bytes are written, which every element
        // type permits.
        Ok(unsafe { slice_mut(data(array), len) })
    }

    fn checked<'a, 'py>(
        &self,
        array: &'a Bound<'py, PyAny>,
    ) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
        let py = array.py();
        let wanted = self.dtype.bind(py);
        let Ok(array) = array.cast::<PyUntypedArray>() else {
            let given = array.get_type();
            return Err(PyTypeError::new_err(format!(
                "an object of the type {} is no array; use a numpy.ndarray of {wanted}",
                given.name()?
            )));
        };
        let given = array.dtype();
        if !given.is_equiv_to(wanted) {
            let native = given.call_method1("newbyteorder", ("=",));
            let is_swapped = native.is_ok_and(|native| {
                native
                    .cast::<PyArrayDescr>()
                    .is_ok_and(|native| native.is_equiv_to(wanted))
            });
            if is_swapped {
                return Err(PyValueError::new_err(format!(
                    "the array has the byte order of another machine ({given}); convert it with \
                     array.astype({:?})",
                    wanted.str()?.to_string()
                )));
            }
            return Err(PyTypeError::new_err(format!(
                "the array has elements of {given}, but the stream has {wanted}; convert it with \
                 array.astype({:?})",
                wanted.str()?.to_string()
            )));
        }
        if array.ndim() != 1 {
            return Err(PyValueError::new_err(format!(
                "the array has {} dimensions, but elements have one; use array.ravel()",
                array.ndim()
            )));
        }
        if !array.is_c_contiguous() {
            return Err(PyValueError::new_err(
                "the elements of the array are not contiguous in memory, as in a slice with a step; use \
                 numpy.ascontiguousarray(array)",
            ));
        }
        Ok(array)
    }

    /// Returns a new array with these elements.
    pub(crate) fn array_of<'py>(
        &self,
        py: Python<'py>,
        bytes: &[u8],
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.empty(py, bytes.len() / self.size)?;
        let into = self.bytes_mut(&array)?;
        into.copy_from_slice(&bytes[..into.len()]);
        Ok(array)
    }

    /// Returns a new array whose elements have any values.
    pub(crate) fn empty<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyAny>> {
        let numpy = PyModule::import(py, "numpy")?;
        numpy.getattr("empty")?.call1((count, self.dtype.bind(py)))
    }

    /// Returns an array of `count` elements at `data`, whose base is `owner`.
    ///
    /// # Safety
    /// The memory must be valid, and aligned to the size of an element, for as long as `owner` exists.
    pub(crate) unsafe fn view<'py>(
        &self,
        owner: Bound<'py, PyAny>,
        data: *mut u8,
        count: usize,
        is_writeable: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = owner.py();
        let too_large = || PyMemoryError::new_err("the elements do not fit into an array");
        let mut shape = [npy_intp::try_from(count).map_err(|_| too_large())?];
        let flags = match is_writeable {
            true => NPY_ARRAY_CARRAY,
            false => NPY_ARRAY_CARRAY_RO,
        };
        // SAFETY: the shape has one dimension, the function takes over the reference to the dtype, and
        // the caller vouches for the memory.
        let array = unsafe {
            let class = get_type_object(py, NpyTypes::PyArray_Type);
            let dtype = self.dtype.clone_ref(py).into_ptr();
            let array = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                class,
                dtype.cast(),
                1,
                shape.as_mut_ptr(),
                std::ptr::null_mut(),
                data.cast::<c_void>(),
                flags,
                std::ptr::null_mut(),
            );
            Bound::from_owned_ptr_or_err(py, array)?
        };
        // SAFETY: the array is new and has no base. The function takes over the reference to the owner.
        let status = unsafe {
            PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr())
        };
        match status {
            0 => Ok(array),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// Makes an array of one dimension empty, so that it no longer shows the memory of a lease.
pub(crate) fn make_empty(array: &Bound<'_, PyAny>) {
    if let Ok(array) = array.cast::<PyUntypedArray>()
        && array.ndim() == 1
    {
        // SAFETY: the array has one dimension, and a smaller length is valid for the same memory.
        unsafe { *(*array.as_array_ptr()).fields.dimensions = 0 };
    }
}

fn data(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the pointer is that of a live array object.
    unsafe { (*array.as_array_ptr()).fields.data.cast() }
}

/// # Safety
/// As [`std::slice::from_raw_parts`], except that `data` may be null if `len` is 0.
unsafe fn slice<'a>(data: *const u8, len: usize) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: the caller vouches for it.
        len => unsafe { std::slice::from_raw_parts(data, len) },
    }
}

/// # Safety
/// As [`std::slice::from_raw_parts_mut`], except that `data` may be null if `len` is 0.
unsafe fn slice_mut<'a>(data: *mut u8, len: usize) -> &'a mut [u8] {
    match len {
        0 => &mut [],
        // SAFETY: the caller vouches for it.
        len => unsafe { std::slice::from_raw_parts_mut(data, len) },
    }
}

fn new_dtype<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = PyModule::import(given.py(), "numpy")?;
    numpy.getattr("dtype")?.call1((given,))
}

/// Returns the dtype of a type whose elements have a fixed size; `None` if there is none.
fn to_dtype<'py>(
    py: Python<'py>,
    data_type: &DataType,
) -> PyResult<Option<Bound<'py, PyArrayDescr>>> {
    Ok(Some(match data_type {
        DataType::Bool => dtype_of::<bool>(py),
        DataType::I8 => dtype_of::<i8>(py),
        DataType::I16 => dtype_of::<i16>(py),
        DataType::I32 => dtype_of::<i32>(py),
        DataType::I64 => dtype_of::<i64>(py),
        DataType::U8 => dtype_of::<u8>(py),
        DataType::U16 => dtype_of::<u16>(py),
        DataType::U32 => dtype_of::<u32>(py),
        DataType::U64 => dtype_of::<u64>(py),
        DataType::F32 => dtype_of::<f32>(py),
        DataType::F64 => dtype_of::<f64>(py),
        DataType::Timestamp => {
            new_dtype(PyString::new(py, "datetime64[ns]").as_any())?.cast_into::<PyArrayDescr>()?
        }
        DataType::Struct(of) => {
            let fields = PyList::empty(py);
            for (name, data_type) in &of.fields {
                let Some(field) = to_dtype(py, data_type)? else {
                    return Ok(None);
                };
                fields.append((&**name, field))?;
            }
            new_dtype(fields.as_any())?.cast_into::<PyArrayDescr>()?
        }
        _ => return Ok(None),
    }))
}

fn of_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let refused = |reason: &str| {
        Err(PyValueError::new_err(format!(
            "{dtype} is no type of the elements of a stream: {reason}"
        )))
    };
    let names = dtype.getattr("names")?;
    if !names.is_none() {
        let fields = dtype.getattr("fields")?;
        let mut of = Vec::new();
        for name in names.cast::<PyTuple>()?.iter() {
            let field = fields.get_item(&name)?.get_item(0)?;
            let name: String = name.extract()?;
            of.push((Arc::from(name), of_dtype(&field)?));
        }
        let data_type = DataType::Struct(Arc::new(StructType { fields: of }));
        let size: usize = dtype.getattr("itemsize")?.extract()?;
        return match element_bytes(&data_type) == Some(size) {
            true => Ok(data_type),
            false => {
                refused("its fields must follow each other without gaps; leave out align=True")
            }
        };
    }
    let order: String = dtype.getattr("byteorder")?.extract()?;
    if order == ">" {
        return refused("it has the byte order of another machine; use dtype.newbyteorder('=')");
    }
    let kind: String = dtype.getattr("kind")?.extract()?;
    let size: usize = dtype.getattr("itemsize")?.extract()?;
    Ok(match (kind.as_str(), size) {
        ("b", 1) => DataType::Bool,
        ("i", 1) => DataType::I8,
        ("i", 2) => DataType::I16,
        ("i", 4) => DataType::I32,
        ("i", 8) => DataType::I64,
        ("u", 1) => DataType::U8,
        ("u", 2) => DataType::U16,
        ("u", 4) => DataType::U32,
        ("u", 8) => DataType::U64,
        ("f", 4) => DataType::F32,
        ("f", 8) => DataType::F64,
        ("M", 8) if dtype.str()?.to_str()?.ends_with("[ns]") => DataType::Timestamp,
        ("M", _) => return refused("its unit must be nanoseconds, datetime64[ns]"),
        _ => {
            return refused(
                "use bool, integers, floats of 4 or 8 bytes, datetime64[ns], or a record",
            );
        }
    })
}

/// Returns the Trunkline name of a type of elements, its dtype, and the bytes of an element.
#[pyfunction]
pub(crate) fn stream_dtype<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = given.py();
    let of = ElementDtype::of(given)?;
    let about = PyDict::new(py);
    about.set_item("data_type", of.data_type.to_string())?;
    about.set_item("dtype", of.dtype)?;
    about.set_item("size", of.size)?;
    Ok(about)
}
