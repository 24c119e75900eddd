//! An engine in this process, and its variables without a connection.

use std::ffi::c_char;
use std::time::Duration;

use libc::size_t;
use trunkline::Engine;
use trunkline::config::{self, LoadOptions};
use trunkline::local::{OpenError, ReadError, Variable, WriteError};
use trunkline::proto::Fault;
use trunkline::types::{DataType, FaultCode, Value};

use crate::arguments::{put, put_or_none, put_text, text};
use crate::client::{ClientObject, tl_client};
use crate::errors::{Failure, TL_ERROR_SUPERSEDED, TL_ERROR_UNKNOWN_OUTCOME, tl_status};
use crate::values;
use crate::{entry, handles};

/// An engine in this process.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_engine = u64;

/// An engine that this program hosts.
pub(crate) struct EngineObject {
    engine: Engine,
}

/// Starts an engine in this process.
///
/// `configuration`, `configuration_length`: a configuration in the notation of configuration files: the
/// settings of the engine, libraries of variables, I/O servers. If the text has no `[library]`, the
/// variables are in the library `program`. `listen = ["127.0.0.1:0"]` in `[engine]` lets the system
/// choose a port; see `tl_engine_url`.
///
/// `engine`: where the handle is stored. Close it with `tl_engine_close`.
///
/// Errors: `TL_ERROR_SYNTAX` with the line and column of each error in the configuration,
/// `TL_ERROR_SYSTEM` if the engine cannot listen or cannot use its store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_engine_start(
    configuration: *const c_char,
    configuration_length: size_t,
    engine: *mut tl_engine,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes a text, as documented.
        let text = unsafe { text("configuration", configuration, configuration_length)? };
        let plan = config::parse("program.toml", text).map_err(Failure::syntax)?;
        let object = EngineObject {
            engine: Engine::from_plan(&plan)?,
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("engine", engine, handles::add(object)?) }
    })
}

/// Stops an engine: its I/O servers, then its connections, which have up to `grace_ms` milliseconds to
/// send waiting data. Clients of the engine stay to be closed.
#[unsafe(no_mangle)]
pub extern "C" fn tl_engine_close(engine: tl_engine, grace_ms: u32) -> tl_status {
    entry(|| {
        let object = handles::remove::<EngineObject>(engine)?;
        object
            .engine
            .shutdown(Duration::from_millis(u64::from(grace_ms)));
        Ok(())
    })
}

/// Copies the URL of the first port at which the engine listens, such as `tl://127.0.0.1:5850`.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_ARGUMENT` if the engine listens at no port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_engine_url(
    engine: tl_engine,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<EngineObject>(engine)?;
        let address = object
            .engine
            .local_addrs()
            .first()
            .copied()
            .ok_or_else(|| {
                Failure::argument(
                    "the engine listens at no port; set `listen` in [engine] of its configuration",
                )
            })?;
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&format!("tl://{address}"), buffer, capacity, length) }
    })
}

/// Deploys libraries, in the notation of configuration files. If the text has no `[library]`, the
/// variables are in the library `program`. A library of the same name is replaced: unchanged variables
/// keep their values and subscribers.
///
/// Errors: `TL_ERROR_SYNTAX` with the line and column of each error, `TL_FAULT_BAD_LIBRARY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_engine_deploy(
    engine: tl_engine,
    configuration: *const c_char,
    configuration_length: size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<EngineObject>(engine)?;
        // SAFETY: the caller passes a text, as documented.
        let text = unsafe { text("configuration", configuration, configuration_length)? };
        let options = LoadOptions {
            accepts_unknown_io_servers: true,
            ..LoadOptions::default()
        };
        let plan =
            config::parse_with(&[("program.toml", text)], &options).map_err(Failure::syntax)?;
        for library in &plan.libraries {
            let deployed = object.engine.replace(library);
            deployed.map_err(|error| Failure::from_library(&error))?;
        }
        Ok(())
    })
}

/// Creates a client of the engine through memory, without a socket. It has the same functions as a
/// client over the network, and also reaches variables of the scope `process`.
///
/// `client`: where the handle is stored. Close it with `tl_client_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_engine_client(engine: tl_engine, client: *mut tl_client) -> tl_status {
    entry(|| {
        let object = handles::find::<EngineObject>(engine)?;
        let created = ClientObject::new(object.engine.client()?);
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("client", client, handles::add(created)?) }
    })
}

/// A variable of an engine in this process, used without a connection.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_host_variable = u64;

/// An open variable of an engine in this process.
pub(crate) struct HostVariableObject {
    name: String,
    access: Access,
}

/// Variables of type `f64` have a faster path.
enum Access {
    F64(Variable<f64>),
    Any(Variable<Value>),
}

fn open_failure(error: OpenError) -> Failure {
    match error {
        OpenError::Access(error) => Failure::from(Fault::from(&error)),
        error => Failure::fault(FaultCode::WrongType, error.to_string()),
    }
}

fn read_failure(error: ReadError) -> Failure {
    match error {
        ReadError::Access(error) => Failure::from(Fault::from(&error)),
        error => Failure::fault(FaultCode::Gone, error.to_string()),
    }
}

fn write_failure(error: WriteError) -> Failure {
    match error {
        WriteError::Refused(refusal) => Failure::from(Fault::from(&refusal)),
        WriteError::Superseded => Failure::new(TL_ERROR_SUPERSEDED, error.to_string()),
        WriteError::Unknown(_) => Failure::new(TL_ERROR_UNKNOWN_OUTCOME, error.to_string()),
        error => Failure::fault(FaultCode::Internal, error.to_string()),
    }
}

/// Opens a numeric variable of an engine in this process. Reading and writing it needs no connection: a
/// read takes well under a microsecond, and a write runs on the calling thread.
///
/// `name`, `name_length`: the full name of a number, a boolean or an enum.
///
/// `variable`: where the handle is stored. Close it with `tl_host_close`.
///
/// Errors: `TL_FAULT_UNKNOWN_NAME`, `TL_FAULT_WRONG_TYPE` for a variable that is not a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_engine_variable(
    engine: tl_engine,
    name: *const c_char,
    name_length: size_t,
    variable: *mut tl_host_variable,
) -> tl_status {
    entry(|| {
        let object = handles::find::<EngineObject>(engine)?;
        // SAFETY: the caller passes a text, as documented.
        let name = unsafe { text("name", name, name_length)? };
        let access = match object.engine.variable::<f64>(name) {
            Ok(variable) => Access::F64(variable),
            Err(_) => {
                let variable = object
                    .engine
                    .variable::<Value>(name)
                    .map_err(open_failure)?;
                values::as_f64(&variable.read().map_err(read_failure)?.value)?;
                Access::Any(variable)
            }
        };
        let opened = HostVariableObject {
            name: name.to_owned(),
            access,
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("variable", variable, handles::add(opened)?) }
    })
}

/// Closes a variable of an engine in this process.
#[unsafe(no_mangle)]
pub extern "C" fn tl_host_close(variable: tl_host_variable) -> tl_status {
    entry(|| handles::remove::<HostVariableObject>(variable).map(drop))
}

/// Reads a variable of an engine in this process.
///
/// `value`: where the value is stored. `source_timestamp_ns`, `quality`, `sequence`: where these are
/// stored, as in `tl_reading`; each may be NULL.
///
/// Errors: `TL_FAULT_GONE` if the variable was removed; `TL_FAULT_NO_VALUE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_host_read_f64(
    variable: tl_host_variable,
    value: *mut f64,
    source_timestamp_ns: *mut i64,
    quality: *mut u32,
    sequence: *mut u64,
) -> tl_status {
    entry(|| {
        let object = handles::find::<HostVariableObject>(variable)?;
        let (number, time, state, position) = match &object.access {
            Access::F64(variable) => {
                let reading = variable.read().map_err(read_failure)?;
                (
                    reading.value,
                    reading.source_timestamp,
                    reading.quality,
                    reading.position,
                )
            }
            Access::Any(variable) => {
                let reading = variable.read().map_err(read_failure)?;
                let number = values::as_f64(&reading.value)?;
                (
                    number,
                    reading.source_timestamp,
                    reading.quality,
                    reading.position,
                )
            }
        };
        if position.sequence == 0 || !state.has_value() {
            let failure = Failure::fault(FaultCode::NoValue, format!("no value yet: {state}"));
            return Err(failure.of_item(&object.name));
        }
        // SAFETY: the caller passes places for the results or NULL.
        unsafe {
            put("value", value, number)?;
            put_or_none("source_timestamp_ns", source_timestamp_ns, time.as_nanos())?;
            put_or_none("quality", quality, state.to_bits())?;
            put_or_none("sequence", sequence, position.sequence)
        }
    })
}

/// Writes a variable of an engine in this process, on the calling thread. The value is converted as by
/// `tl_write_f64`.
///
/// `sequence`: where the number of the update is stored; may be NULL.
///
/// Errors: the rule that refused the write, such as `TL_FAULT_OUT_OF_RANGE`; `TL_ERROR_UNKNOWN_OUTCOME`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_host_write_f64(
    variable: tl_host_variable,
    value: f64,
    sequence: *mut u64,
) -> tl_status {
    entry(|| {
        let object = handles::find::<HostVariableObject>(variable)?;
        let written = match &object.access {
            Access::F64(variable) => variable.write(value),
            Access::Any(variable) => {
                let known = variable.read().map_err(read_failure)?.value;
                let value = match known.plain_type() {
                    Some(plain) => values::of_f64(value, &plain)?,
                    None => match values::of_f64(value, &DataType::U32)? {
                        Value::U32(index) => Value::Enum(index),
                        other => other,
                    },
                };
                variable.write(value)
            }
        };
        let written = written.map_err(|error| write_failure(error).of_item(&object.name))?;
        // SAFETY: the caller passes a place for a number or NULL.
        unsafe { put_or_none("sequence", sequence, written.position.sequence) }
    })
}
