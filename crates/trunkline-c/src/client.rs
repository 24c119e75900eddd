//! Connections to engines, and the variables that a program has opened with them.

use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use libc::size_t;
use trunkline::types::DataType;
use trunkline::{Client, ConnectOptions, ConnectionState, LeaseTerms, OpenOptions, VariableRef};

use crate::arguments::{
    elements, names, put, put_or_none, put_text, room, room_or_none, short, text, timeout,
};
use crate::errors::{
    Failure, TL_ERROR_ARGUMENT, TL_ERROR_NOT_CONNECTED, TL_ERROR_TIMEOUT, TL_OK, tl_status,
};
use crate::values::{tl_type, type_of};
use crate::{entry, handles};

/// A connection to an engine. It reconnects and restores its subscriptions automatically. Any number
/// of threads may use it at the same time.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_client = u64;

/// A variable that a client has opened. It stays valid across reconnections until it or its client is
/// closed. Only this client can use it. 0 is no variable.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_variable = u64;

/// The client tries to connect; `tl_client_cause` has the last failure.
pub const TL_STATE_CONNECTING: i32 = 0;
/// The connection is up.
pub const TL_STATE_CONNECTED: i32 = 1;
/// The client no longer tries to connect; `tl_client_cause` has the reason.
pub const TL_STATE_CLOSED: i32 = 2;

/// A client and the variables that the program has opened with it.
pub(crate) struct ClientObject {
    pub(crate) client: Client,
    /// Tells variables of different clients apart.
    number: u32,
    is_closing: AtomicBool,
    variables: RwLock<Vec<Option<OpenVariable>>>,
}

/// A variable as the program knows it.
#[derive(Clone)]
pub(crate) struct OpenVariable {
    pub(crate) name: Arc<str>,
    pub(crate) variable: VariableRef,
    pub(crate) data_type: DataType,
}

/// Numbers clients.
static CLIENTS: AtomicU32 = AtomicU32::new(1);

impl ClientObject {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            number: CLIENTS.fetch_add(1, Ordering::Relaxed),
            is_closing: AtomicBool::new(false),
            variables: RwLock::new(Vec::new()),
        }
    }

    /// Returns the failure of a call: that the client was closed, if this has ended the call.
    pub(crate) fn failure(&self, failure: Failure) -> Failure {
        let is_ended = [TL_ERROR_NOT_CONNECTED, TL_ERROR_TIMEOUT].contains(&failure.status);
        match is_ended && self.is_closing.load(Ordering::Acquire) {
            true => Failure::closed("the client"),
            false => failure,
        }
    }

    fn add(
        &self,
        variables: &mut Vec<Option<OpenVariable>>,
        variable: OpenVariable,
    ) -> tl_variable {
        variables.push(Some(variable));
        u64::from(self.number) << 32 | variables.len() as u64
    }

    /// Returns the index of a variable of this client.
    fn index(&self, variable: tl_variable) -> Result<usize, Failure> {
        let (number, index) = ((variable >> 32) as u32, variable as u32);
        if number == self.number && index > 0 {
            return Ok(index as usize - 1);
        }
        let what = match variable {
            0 => "0 is no variable; it could not be opened, see its status".to_owned(),
            _ => format!("{variable:#x} is no variable of this client; open it with this client"),
        };
        Err(Failure::new(TL_ERROR_ARGUMENT, what))
    }

    pub(crate) fn variable(&self, variable: tl_variable) -> Result<OpenVariable, Failure> {
        let index = self.index(variable)?;
        let variables = self
            .variables
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let variable = variables.get(index).cloned().flatten();
        variable.ok_or_else(|| {
            Failure::new(TL_ERROR_ARGUMENT, "the variable was closed; open it again")
        })
    }

    pub(crate) fn list(&self, variables: &[tl_variable]) -> Result<Vec<OpenVariable>, Failure> {
        let of_place = |(index, variable): (usize, &tl_variable)| {
            let of_place = |failure: Failure| failure.of_item(&format!("variables[{index}]"));
            self.variable(*variable).map_err(of_place)
        };
        variables.iter().enumerate().map(of_place).collect()
    }
}

/// Runs the body of a function that uses a client.
pub(crate) fn with_client(
    client: tl_client,
    body: impl FnOnce(&Arc<ClientObject>) -> Result<(), Failure>,
) -> tl_status {
    entry(|| {
        let object = handles::find::<ClientObject>(client)?;
        body(&object).map_err(|failure| object.failure(failure))
    })
}

pub(crate) fn references(variables: &[OpenVariable]) -> Vec<VariableRef> {
    variables.iter().map(|variable| variable.variable).collect()
}

/// The statuses of the items of a call: stores each one, and keeps the first failure, which is the
/// result of the call.
pub(crate) struct Statuses<'a> {
    statuses: Option<&'a mut [std::mem::MaybeUninit<tl_status>]>,
    first: Option<Failure>,
}

impl<'a> Statuses<'a> {
    /// # Safety
    /// `statuses` is NULL or leads to memory for `count` statuses.
    pub(crate) unsafe fn new(statuses: *mut tl_status, count: size_t) -> Result<Self, Failure> {
        Ok(Self {
            // SAFETY: the same promise.
            statuses: unsafe { room_or_none("statuses", statuses, count)? },
            first: None,
        })
    }

    pub(crate) fn put(&mut self, index: usize, name: &str, result: Result<(), Failure>) {
        let status = result
            .as_ref()
            .map_or_else(|failure| failure.status, |()| TL_OK);
        if let Some(place) = self.statuses.as_mut().and_then(|all| all.get_mut(index)) {
            place.write(status);
        }
        if let (Err(failure), None) = (result, &self.first) {
            self.first = Some(failure.of_item(name));
        }
    }

    pub(crate) fn end(self) -> Result<(), Failure> {
        self.first.map_or(Ok(()), Err)
    }
}

/// Starts to connect to an engine, and waits until the connection is up.
///
/// `url`: `tl://host[:port]`; `tl:///` or an empty text is the engine of this machine. If the user has
/// joined the engine, the connection is encrypted and uses the user's key.
///
/// `timeout_ms`: longest wait in milliseconds, or `TL_FOREVER`; 0 does not wait.
///
/// `client`: where the handle is stored. Close it with `tl_client_close`. If the connection is not up
/// in time, the handle is stored all the same, and the client keeps trying; close it if you do not
/// want that.
///
/// Errors: `TL_ERROR_SYNTAX` for a URL that is not valid, `TL_ERROR_SYSTEM`: 0 is stored.
/// `TL_ERROR_NOT_CONNECTED`, `TL_ERROR_TIMEOUT`: not connected in time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_connect(
    url: *const c_char,
    url_length: size_t,
    timeout_ms: i32,
    client: *mut tl_client,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes a text, as documented.
        let url = match unsafe { text("url", url, url_length)? } {
            "" => "tl:///",
            url => url,
        };
        let limit = timeout(timeout_ms)?;
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("client", client, 0)? };
        let options = ConnectOptions::new(url)?;
        let object = ClientObject::new(Client::connect_with(&options)?);
        let connection = object.client.clone();
        // SAFETY: the same promise.
        unsafe { put("client", client, handles::add(object)?)? };
        match timeout_ms {
            0 => Ok(()),
            _ => Ok(connection.wait_connected(limit).map(drop)?),
        }
    })
}

/// Closes a client: sends what waits to be sent, and ends its subscriptions. Calls of other threads
/// that use this client return `TL_ERROR_CLOSED`. Handles of its subscriptions stay to be closed.
#[unsafe(no_mangle)]
pub extern "C" fn tl_client_close(client: tl_client) -> tl_status {
    entry(|| {
        let object = handles::remove::<ClientObject>(client)?;
        object.is_closing.store(true, Ordering::Release);
        object.client.close();
        Ok(())
    })
}

/// Waits until the connection is up.
///
/// Errors: `TL_ERROR_NOT_CONNECTED` with the cause, `TL_ERROR_TIMEOUT`.
#[unsafe(no_mangle)]
pub extern "C" fn tl_wait_connected(client: tl_client, timeout_ms: i32) -> tl_status {
    with_client(client, |object| {
        Ok(object
            .client
            .wait_connected(timeout(timeout_ms)?)
            .map(drop)?)
    })
}

/// Stores the state of the connection, `TL_STATE_...`, at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_client_state(client: tl_client, state: *mut i32) -> tl_status {
    with_client(client, |object| {
        let now = match object.client.state() {
            ConnectionState::Connecting { .. } => TL_STATE_CONNECTING,
            ConnectionState::Connected(_) => TL_STATE_CONNECTED,
            ConnectionState::Closed { .. } => TL_STATE_CLOSED,
        };
        // SAFETY: the caller passes a place for a state or NULL.
        unsafe { put("state", state, now) }
    })
}

/// Copies the reason why the connection is down; the empty text if there is none.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_client_cause(
    client: tl_client,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    with_client(client, |object| {
        let state = object.client.state();
        let cause = state.cause().map_or_else(String::new, ToString::to_string);
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&cause, buffer, capacity, length) }
    })
}

/// Opens a list of variables in one round trip.
///
/// `names`, `names_length`: the names, one per line, such as `"boiler/level\nboiler/pump/mode"`.
///
/// `variables`: room for `capacity` variables; a variable that cannot be opened is 0.
///
/// `statuses`: room for `capacity` statuses, or NULL.
///
/// `count`: where the number of names is stored; may be NULL.
///
/// Errors: the status of the first name that cannot be opened, such as `TL_FAULT_UNKNOWN_NAME`; the
/// others are open all the same. `TL_ERROR_SHORT_BUFFER` if there are more than `capacity` names: none
/// is opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_open(
    client: tl_client,
    names: *const c_char,
    names_length: size_t,
    timeout_ms: i32,
    variables: *mut tl_variable,
    statuses: *mut tl_status,
    capacity: size_t,
    count: *mut size_t,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes a text, as documented.
        let list = self::names(unsafe { text("names", names, names_length)? })?;
        // SAFETY: the caller passes a place for a count or NULL.
        unsafe { put_or_none("count", count, list.len())? };
        if list.len() > capacity {
            return Err(short("variables", list.len(), capacity));
        }
        // SAFETY: the caller passes arrays with `capacity` elements, as documented.
        let (places, mut statuses) = unsafe {
            (
                room("variables", variables, list.len())?,
                Statuses::new(statuses, list.len())?,
            )
        };
        for place in places.iter_mut() {
            place.write(0);
        }
        let opened = object
            .client
            .open(&list, OpenOptions::default(), timeout(timeout_ms)?)?;
        let mut known = object
            .variables
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for (index, (name, result)) in list.iter().zip(opened).enumerate() {
            let result = result.map(|opened| {
                let variable = OpenVariable {
                    name: Arc::from(*name),
                    variable: opened.variable,
                    data_type: opened.data_type,
                };
                places[index].write(object.add(&mut known, variable));
            });
            statuses.put(index, name, result.map_err(Failure::from));
        }
        statuses.end()
    })
}

/// Closes variables. Subscriptions to them are not affected.
///
/// Errors: `TL_ERROR_ARGUMENT` for a variable that is not open; then none is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_close_variables(
    client: tl_client,
    variables: *const tl_variable,
    count: size_t,
    timeout_ms: i32,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes an array with `count` elements, as documented.
        let variables = unsafe { elements("variables", variables, count)? };
        let list = object.list(variables)?;
        let mut known = object
            .variables
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for variable in variables {
            if let Some(place) = known.get_mut(object.index(*variable)?) {
                *place = None;
            }
        }
        drop(known);
        let results = object
            .client
            .close_variables(&references(&list), timeout(timeout_ms)?)?;
        results
            .into_iter()
            .find_map(Result::err)
            .map_or(Ok(()), |fault| Err(fault.into()))
    })
}

/// Stores the type of an open variable, at once.
///
/// `data_type`: where one of `TL_TYPE_...` is stored.
///
/// `buffer`, `capacity`, `length`: the type as text, such as `f64` or `enum(OFF, AUTO)`; see "Texts
/// that the library returns"; may be NULL, 0 and NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_variable_type(
    client: tl_client,
    variable: tl_variable,
    data_type: *mut tl_type,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    with_client(client, |object| {
        let variable = object.variable(variable)?;
        // SAFETY: the caller passes a place for a type or NULL.
        unsafe { put("data_type", data_type, type_of(&variable.data_type))? };
        if capacity == 0 && length.is_null() {
            return Ok(());
        }
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&variable.data_type.to_string(), buffer, capacity, length) }
    })
}

/// Takes, renews or releases the leases of variables. While this client holds the lease of a variable,
/// the engine refuses writes by other clients. A lease ends with the connection.
///
/// `duration_ms`: duration of the lease in milliseconds, from 1; 0 releases it.
///
/// `statuses`: room for `count` statuses, or NULL.
///
/// Errors: the first of the statuses that is not `TL_OK`, such as `TL_FAULT_LEASED` with the name of the
/// holder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_lease(
    client: tl_client,
    variables: *const tl_variable,
    count: size_t,
    duration_ms: u32,
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
        let terms = match duration_ms {
            0 => LeaseTerms::release(),
            ms => LeaseTerms::acquire(std::time::Duration::from_millis(u64::from(ms))),
        };
        let results = object
            .client
            .lease(&references(&list), terms, timeout(timeout_ms)?)?;
        for (index, (variable, result)) in list.iter().zip(results).enumerate() {
            statuses.put(
                index,
                &variable.name,
                result.map(drop).map_err(Failure::from),
            );
        }
        statuses.end()
    })
}

/// Finds variables by a pattern, such as `boiler/**`, and copies their names, one per line, sorted.
///
/// `limit`: maximum number of names; 0 is no limit.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_FAULT_BAD_PATTERN`, `TL_ERROR_SHORT_BUFFER`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_find(
    client: tl_client,
    pattern: *const c_char,
    pattern_length: size_t,
    limit: size_t,
    timeout_ms: i32,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes a text, as documented.
        let pattern = unsafe { text("pattern", pattern, pattern_length)? };
        let limit = (limit > 0).then_some(limit);
        let found = object.client.find(pattern, limit, timeout(timeout_ms)?)?;
        let mut names: Vec<String> = found.into_iter().map(|found| found.name).collect();
        names.sort();
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&names.join("\n"), buffer, capacity, length) }
    })
}

/// Explains why a variable does not update: one line for each step from its name to its source and on
/// to this program.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_why(
    client: tl_client,
    name: *const c_char,
    name_length: size_t,
    timeout_ms: i32,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes a text, as documented.
        let name = unsafe { text("name", name, name_length)? };
        let steps = object.client.why(name, timeout(timeout_ms)?)?;
        let lines: Vec<String> = steps
            .iter()
            .map(|step| match step.next.as_str() {
                "" => step.sentence.clone(),
                next => format!("{}; {next}", step.sentence),
            })
            .collect();
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&lines.join("\n"), buffer, capacity, length) }
    })
}
