//! Reads of variables: their readings, numbers and texts, and requests for fresh values.

use std::ffi::c_char;

use libc::size_t;
use trunkline::ReadingBuffer;
use trunkline::proto::Fault;
use trunkline::types::{FaultCode, Value};

use crate::arguments::{elements, put_or_none, put_text, room, timeout};
use crate::client::{
    ClientObject, OpenVariable, Statuses, references, tl_client, tl_variable, with_client,
};
use crate::errors::{Failure, tl_status};
use crate::readings::{ReadingsObject, Rows, Types, no_value, tl_readings};
use crate::values;
use crate::{entry, handles};

/// Reads the current values of variables from the engine, in one round trip, into `readings`.
///
/// Errors: the fault of the first variable that cannot be read; the others are read all the same.
/// `TL_ERROR_BUSY` if another thread uses `readings`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_read(
    client: tl_client,
    variables: *const tl_variable,
    count: size_t,
    timeout_ms: i32,
    readings: tl_readings,
) -> tl_status {
    with_client(client, |object| {
        let readings = handles::find::<ReadingsObject>(readings)?;
        // SAFETY: the caller passes an array with `count` elements, as documented.
        let list = object.list(unsafe { elements("variables", variables, count)? })?;
        let mut contents = readings.lock()?;
        let mut buffer = match std::mem::take(&mut contents.rows) {
            Rows::Read(buffer) => buffer,
            _ => ReadingBuffer::new(),
        };
        contents.types = types_of(&list);
        let read = object
            .client
            .read_into(&references(&list), &mut buffer, timeout(timeout_ms)?);
        let first = buffer
            .faults()
            .next()
            .map(|(index, fault)| named(&list, index, fault));
        contents.rows = Rows::Read(buffer);
        read?;
        first.map_or(Ok(()), Err)
    })
}

/// Reads variables at one instant, into `readings`.
///
/// `count`: at most 4096 variables for one instant. With more, the readings are not from one instant.
///
/// `instant_ns`: where the instant is stored, UTC nanoseconds since 1970; may be NULL.
///
/// `is_consistent`: where 1 is stored if all readings are from one instant, otherwise 0; may be NULL.
///
/// Errors: as `tl_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_snapshot(
    client: tl_client,
    variables: *const tl_variable,
    count: size_t,
    timeout_ms: i32,
    readings: tl_readings,
    instant_ns: *mut i64,
    is_consistent: *mut i32,
) -> tl_status {
    with_client(client, |object| {
        let readings = handles::find::<ReadingsObject>(readings)?;
        // SAFETY: the caller passes an array with `count` elements, as documented.
        let list = object.list(unsafe { elements("variables", variables, count)? })?;
        let mut contents = readings.lock()?;
        let snapshot = object
            .client
            .snapshot(&references(&list), timeout(timeout_ms)?)?;
        // SAFETY: the caller passes places for both or NULL.
        unsafe {
            put_or_none("instant_ns", instant_ns, snapshot.instant.as_nanos())?;
            put_or_none(
                "is_consistent",
                is_consistent,
                i32::from(snapshot.is_consistent),
            )?;
        }
        let faults = snapshot.readings.iter().enumerate();
        let mut faults = faults.filter_map(|(index, result)| Some((index, result.as_ref().err()?)));
        let first = faults
            .next()
            .map(|(index, fault)| named(&list, index, fault));
        contents.types = types_of(&list);
        contents.rows = Rows::Listed((0..).zip(snapshot.readings).collect());
        first.map_or(Ok(()), Err)
    })
}

fn types_of(list: &[OpenVariable]) -> Types {
    Types::Listed(
        list.iter()
            .map(|variable| Some(variable.data_type.clone()))
            .collect(),
    )
}

fn named(list: &[OpenVariable], index: usize, fault: &Fault) -> Failure {
    let name = list.get(index).map_or("", |variable| &variable.name);
    Failure::from(fault).of_item(name)
}

/// Reads the current values of numeric variables as doubles: numbers, booleans as 0 or 1, enums as
/// their index. Also reads values of bad quality; `tl_read` has the quality.
///
/// `values`: room for `count` doubles; NaN for a variable that cannot be read.
///
/// `statuses`: room for `count` statuses, or NULL: `TL_OK`, the fault, `TL_FAULT_NO_VALUE` for a
/// variable that was never written, or `TL_FAULT_WRONG_TYPE` for one that is not a number.
///
/// Errors: the first of the statuses that is not `TL_OK`; the other variables are read all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_read_f64(
    client: tl_client,
    variables: *const tl_variable,
    count: size_t,
    timeout_ms: i32,
    values: *mut f64,
    statuses: *mut tl_status,
) -> tl_status {
    entry(|| {
        // SAFETY: the same promises.
        unsafe {
            read_numbers(
                (client, variables, count),
                timeout_ms,
                (values, f64::NAN),
                statuses,
                values::as_f64,
            )
        }
    })
}

/// Reads the current values of variables as 64-bit integers: integers, booleans as 0 or 1, enums as
/// their index, times as nanoseconds. Otherwise as `tl_read_f64`.
///
/// `values`: room for `count` integers; 0 for a variable that cannot be read.
///
/// Errors: as `tl_read_f64`, and `TL_FAULT_OUT_OF_RANGE` for a `u64` of 2^63 or more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_read_i64(
    client: tl_client,
    variables: *const tl_variable,
    count: size_t,
    timeout_ms: i32,
    values: *mut i64,
    statuses: *mut tl_status,
) -> tl_status {
    entry(|| {
        // SAFETY: the same promises.
        unsafe {
            read_numbers(
                (client, variables, count),
                timeout_ms,
                (values, 0),
                statuses,
                values::as_i64,
            )
        }
    })
}

/// # Safety
/// As the header states for `tl_read_f64`.
unsafe fn read_numbers<T: Copy>(
    (client, variables, count): (tl_client, *const tl_variable, size_t),
    timeout_ms: i32,
    (values, missing): (*mut T, T),
    statuses: *mut tl_status,
    convert: impl Fn(&Value) -> Result<T, Failure>,
) -> Result<(), Failure> {
    let object = handles::find::<ClientObject>(client)?;
    // SAFETY: the caller passes arrays with `count` elements, as documented.
    let (variables, places, mut statuses) = unsafe {
        (
            elements("variables", variables, count)?,
            room("values", values, count)?,
            Statuses::new(statuses, count)?,
        )
    };
    let list = object.list(variables)?;
    let mut buffer = ReadingBuffer::new();
    let read = object
        .client
        .read_into(&references(&list), &mut buffer, timeout(timeout_ms)?);
    read.map_err(|error| object.failure(error.into()))?;
    for ((index, place), variable) in places.iter_mut().enumerate().zip(&list) {
        let reading = buffer.get(index);
        let reading = reading.unwrap_or(Err(&NO_ANSWER)).map_err(Failure::from);
        let value = reading.and_then(|reading| {
            match reading.position().sequence > 0 && reading.quality().has_value() {
                true => convert(reading.value()),
                false => Err(no_value(reading.quality())),
            }
        });
        place.write(*value.as_ref().unwrap_or(&missing));
        statuses.put(index, &variable.name, value.map(drop));
    }
    statuses.end()
}

static NO_ANSWER: Fault = Fault {
    code: FaultCode::Internal,
    sentence: String::new(),
};

/// Reads the current value of one variable of any type as text: strings as they are, all other types as
/// the command line prints them.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: the fault of the variable; `TL_FAULT_NO_VALUE`; `TL_ERROR_SHORT_BUFFER`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_read_text(
    client: tl_client,
    variable: tl_variable,
    timeout_ms: i32,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    with_client(client, |object| {
        let variable = object.variable(variable)?;
        let mut answer = object
            .client
            .read(&[variable.variable], timeout(timeout_ms)?)?;
        let reading = answer.pop().unwrap_or_else(|| Err(NO_ANSWER.clone()));
        let reading = reading.map_err(|fault| Failure::from(fault).of_item(&variable.name))?;
        if !reading.has_value() {
            return Err(no_value(reading.sample.quality).of_item(&variable.name));
        }
        let text = values::as_text(&reading.sample.value, Some(&variable.data_type));
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&text, buffer, capacity, length) }
    })
}

/// Asks the I/O servers of variables for fresh values, which arrive as updates of the variables.
///
/// `statuses`: room for `count` statuses, or NULL.
///
/// Errors: the first of the statuses that is not `TL_OK`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_request(
    client: tl_client,
    variables: *const tl_variable,
    count: size_t,
    timeout_ms: i32,
    statuses: *mut tl_status,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes arrays with `count` elements, as documented.
        let (variables, mut statuses) = unsafe {
            (
                elements("variables", variables, count)?,
                Statuses::new(statuses, count)?,
            )
        };
        let list = object.list(variables)?;
        let results = object
            .client
            .request_value(&references(&list), timeout(timeout_ms)?)?;
        for (index, (variable, result)) in list.iter().zip(results).enumerate() {
            statuses.put(index, &variable.name, result.map_err(Failure::from));
        }
        statuses.end()
    })
}
