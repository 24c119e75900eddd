//! Control of folders: who may write their variables.

use std::ffi::c_char;
use std::time::Duration;

use libc::size_t;
use trunkline::types::control::{ControlEntry, ControlHolder, ControlLevel, ControlTerms};

use crate::arguments::{put, put_or_none, put_text, text, timeout};
use crate::client::{tl_client, with_client};
use crate::errors::{Failure, tl_status};
use crate::{entry, handles};

/// The controlled folders, and the requests for them: `tl_controls`.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_control_list = u64;

/// Control of an operator. Needs the right to write every variable of the folder.
pub const TL_CONTROL_OPERATOR: i32 = 0;
/// Control of a supervisor, who takes control from operators. Needs the right to force the variables.
pub const TL_CONTROL_SUPERVISOR: i32 = 1;

/// Only the client that took control may write.
pub const TL_CONTROL_SESSION: i32 = 0;
/// Every client with the same identity may write.
pub const TL_CONTROL_IDENTITY: i32 = 1;

/// As the remaining time of control: it ends with its session.
pub const TL_CONTROL_WITH_SESSION: i64 = -1;

/// A folder that is controlled, or that a client waits to control.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_control {
    /// Number of the control or of the request, unique for one start of the engine. Requests are granted
    /// in the order of their numbers.
    pub number: u64,
    /// When control was granted or requested, UTC nanoseconds since 1970.
    pub since_ns: i64,
    /// Milliseconds until control ends; `TL_CONTROL_WITH_SESSION` if it ends with its session, and for a
    /// request.
    pub left_ms: i64,
    /// One of `TL_CONTROL_OPERATOR` and `TL_CONTROL_SUPERVISOR`.
    pub level: i32,
    /// One of `TL_CONTROL_SESSION` and `TL_CONTROL_IDENTITY`.
    pub holder: i32,
    /// 1 if the client waits for control, 0 if it has it.
    pub is_waiting: i32,
    /// 1 if this client has control or waits for it, otherwise 0.
    pub is_own: i32,
}

fn control_of(entry: &ControlEntry) -> tl_control {
    tl_control {
        number: entry.number,
        since_ns: entry.since.as_nanos(),
        left_ms: entry.left.map_or(TL_CONTROL_WITH_SESSION, |left| {
            i64::try_from(left.as_millis()).unwrap_or(i64::MAX)
        }),
        level: match entry.level {
            ControlLevel::Operator => TL_CONTROL_OPERATOR,
            ControlLevel::Supervisor => TL_CONTROL_SUPERVISOR,
        },
        holder: match entry.holder {
            ControlHolder::Session => TL_CONTROL_SESSION,
            ControlHolder::Identity => TL_CONTROL_IDENTITY,
        },
        is_waiting: i32::from(entry.is_waiting),
        is_own: i32::from(entry.is_own),
    }
}

fn terms(level: i32, holder: i32, duration_ms: u32) -> Result<ControlTerms, Failure> {
    Ok(ControlTerms {
        level: match level {
            TL_CONTROL_OPERATOR => ControlLevel::Operator,
            TL_CONTROL_SUPERVISOR => ControlLevel::Supervisor,
            other => {
                return Err(Failure::argument(format!(
                    "{other} is no level of control; pass TL_CONTROL_OPERATOR or \
                     TL_CONTROL_SUPERVISOR"
                )));
            }
        },
        holder: match holder {
            TL_CONTROL_SESSION => ControlHolder::Session,
            TL_CONTROL_IDENTITY => ControlHolder::Identity,
            other => {
                return Err(Failure::argument(format!(
                    "{other} is no holder of control; pass TL_CONTROL_SESSION or TL_CONTROL_IDENTITY"
                )));
            }
        },
        duration: (duration_ms > 0).then(|| Duration::from_millis(duration_ms.into())),
    })
}

/// Takes control of a folder: until it ends, the engine refuses writes by other clients to its variables.
/// Control ends with the connection, after its duration, or when it is released or taken over; the client
/// does not take it again automatically.
///
/// `folder`, `folder_length`: such as `boiler` or `boiler/pump`.
///
/// `level`: `TL_CONTROL_OPERATOR` or `TL_CONTROL_SUPERVISOR`.
///
/// `holder`: `TL_CONTROL_SESSION` or `TL_CONTROL_IDENTITY`.
///
/// `duration_ms`: time after which control ends, in milliseconds; 0 if it ends with the connection.
///
/// `control`: where the control is stored; may be NULL.
///
/// Errors: `TL_FAULT_CONTROLLED` if a client of the same or a higher level has control, which the message
/// names; `TL_FAULT_DENIED`; `TL_FAULT_BAD_NAME` for a folder that is not valid; `TL_ERROR_TIMEOUT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_take_control(
    client: tl_client,
    folder: *const c_char,
    folder_length: size_t,
    level: i32,
    holder: i32,
    duration_ms: u32,
    timeout_ms: i32,
    control: *mut tl_control,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes a text, as documented.
        let folder = unsafe { text("folder", folder, folder_length)? };
        let terms = terms(level, holder, duration_ms)?;
        let taken = object
            .client
            .take_control(folder, terms, timeout(timeout_ms)?)?;
        // SAFETY: the caller passes a place for a control or NULL.
        unsafe { put_or_none("control", control, control_of(&taken)) }
    })
}

/// Asks for control of a folder. If another client has it, the request waits in the engine: `is_waiting`
/// is 1, and `tl_follow_control` reports when control is granted. The parameters are those of
/// `tl_take_control`.
///
/// Errors: `TL_FAULT_DENIED`; `TL_FAULT_LIMIT_REACHED` if too many requests wait; `TL_ERROR_TIMEOUT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_request_control(
    client: tl_client,
    folder: *const c_char,
    folder_length: size_t,
    level: i32,
    holder: i32,
    duration_ms: u32,
    timeout_ms: i32,
    control: *mut tl_control,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes a text, as documented.
        let folder = unsafe { text("folder", folder, folder_length)? };
        let terms = terms(level, holder, duration_ms)?;
        let answer = object
            .client
            .request_control(folder, terms, timeout(timeout_ms)?)?;
        // SAFETY: the caller passes a place for a control or NULL.
        unsafe { put_or_none("control", control, control_of(&answer)) }
    })
}

/// Hands control of a folder over to a client that waits for it.
///
/// `number`: number of the request, from `tl_controls`.
///
/// `control`: where the control of that client is stored; may be NULL.
///
/// Errors: `TL_FAULT_NOT_CONTROLLED` and others if this client does not control the folder, or if there is
/// no such request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_give_control(
    client: tl_client,
    folder: *const c_char,
    folder_length: size_t,
    number: u64,
    timeout_ms: i32,
    control: *mut tl_control,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes a text, as documented.
        let folder = unsafe { text("folder", folder, folder_length)? };
        let given = object
            .client
            .give_control(folder, number, timeout(timeout_ms)?)?;
        // SAFETY: the caller passes a place for a control or NULL.
        unsafe { put_or_none("control", control, control_of(&given)) }
    })
}

/// Releases control of a folder, or withdraws the request for it. The first client that waits gets control.
///
/// Errors: `TL_FAULT_NOT_CONTROLLED` if this client has neither.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_release_control(
    client: tl_client,
    folder: *const c_char,
    folder_length: size_t,
    timeout_ms: i32,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes a text, as documented.
        let folder = unsafe { text("folder", folder, folder_length)? };
        Ok(object
            .client
            .release_control(folder, timeout(timeout_ms)?)?)
    })
}

/// The controls of one handle.
pub(crate) struct ControlListObject(Vec<ControlEntry>);

/// Lists the holders of folders that overlap `folder`, and the programs that wait for them.
///
/// `folder`, `folder_length`: empty for all folders.
///
/// `own`: not 0 for only what concerns this client.
///
/// `revision`: where the number is stored that `tl_follow_control` needs; may be NULL.
///
/// `controls`: where the handle is stored. Close it with `tl_controls_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_controls(
    client: tl_client,
    folder: *const c_char,
    folder_length: size_t,
    own: i32,
    timeout_ms: i32,
    revision: *mut u64,
    controls: *mut tl_control_list,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes a text, as documented.
        let folder = unsafe { text("folder", folder, folder_length)? };
        let list = object
            .client
            .controls(folder, own != 0, timeout(timeout_ms)?)?;
        // SAFETY: the caller passes places for both or NULL.
        unsafe {
            put_or_none("revision", revision, list.revision)?;
            put(
                "controls",
                controls,
                handles::add(ControlListObject(list.entries))?,
            )
        }
    })
}

/// Stores the number of controls and requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_controls_count(
    controls: tl_control_list,
    count: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<ControlListObject>(controls)?;
        // SAFETY: the caller passes a place for a count or NULL.
        unsafe { put("count", count, object.0.len()) }
    })
}

impl ControlListObject {
    fn get(&self, index: usize) -> Result<&ControlEntry, Failure> {
        self.0.get(index).ok_or_else(|| {
            Failure::argument(format!(
                "there is no control {index}; the list has {}, numbered from 0",
                self.0.len()
            ))
        })
    }
}

/// Stores one control or request.
///
/// `index`: from 0 to the count - 1.
///
/// Errors: `TL_ERROR_ARGUMENT` for another index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_controls_get(
    controls: tl_control_list,
    index: size_t,
    control: *mut tl_control,
) -> tl_status {
    entry(|| {
        let object = handles::find::<ControlListObject>(controls)?;
        // SAFETY: the caller passes a place for a control or NULL.
        unsafe { put("control", control, control_of(object.get(index)?)) }
    })
}

/// Copies the folder of a control or request.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_ARGUMENT` for an index that does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_controls_folder(
    controls: tl_control_list,
    index: size_t,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<ControlListObject>(controls)?;
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(object.get(index)?.folder.as_str(), buffer, capacity, length) }
    })
}

/// Copies who has control or waits for it, with the origin of the session.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_ARGUMENT` for an index that does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_controls_by(
    controls: tl_control_list,
    index: size_t,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<ControlListObject>(controls)?;
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&object.get(index)?.by, buffer, capacity, length) }
    })
}

/// Closes a list of controls.
#[unsafe(no_mangle)]
pub extern "C" fn tl_controls_close(controls: tl_control_list) -> tl_status {
    entry(|| handles::remove::<ControlListObject>(controls).map(drop))
}

/// Waits until something has changed in what this client controls and waits for: control was granted or
/// has ended, or another client asks for it. `tl_controls` shows what it is. After a reconnection, which
/// ends control, it returns at once.
///
/// `known`: the revision of the last `tl_controls`, or of the last call.
///
/// `revision`: where the new revision is stored.
///
/// Errors: `TL_ERROR_TIMEOUT` if nothing has changed; `TL_ERROR_CLOSED` once the client is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_follow_control(
    client: tl_client,
    known: u64,
    timeout_ms: i32,
    revision: *mut u64,
) -> tl_status {
    with_client(client, |object| {
        let new = object.client.follow_control(known, timeout(timeout_ms)?)?;
        // SAFETY: the caller passes a place for a number or NULL.
        unsafe { put("revision", revision, new) }
    })
}
