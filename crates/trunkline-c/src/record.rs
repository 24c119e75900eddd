//! Recordings of variables in TDMS files, and their playback.

use std::ffi::c_char;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use libc::size_t;
use trunkline::record::{
    Pace, PlayVariablesOptions, RecordedVariables, RecordingError, VariableRecorder,
    VariableRecorderOptions, VariableRecorderStatus, play_into_variables, stopper,
};

use crate::arguments::{Timeout, patterns, put, put_or_none, put_text, text};
use crate::client::{tl_client, with_client};
use crate::errors::{Failure, TL_ERROR_SYSTEM, tl_status};
use crate::{entry, handles};

/// A recording of variables that is in progress.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_recorder = u64;

/// The state of a recording.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_recorder_status {
    /// Number of recorded variables.
    pub variables: u64,
    /// Number of updates that were taken.
    pub updates: u64,
    /// Number of updates in the file, which survive a crash of the program.
    pub in_file: u64,
    /// Number of updates that survive a loss of power.
    pub on_disk: u64,
    /// Known number of updates that are missing.
    pub lost: u64,
    /// Number of times that an unknown number of updates was lost.
    pub unknown_gaps: u64,
    /// Size of all files in bytes.
    pub bytes: u64,
    /// Number of files.
    pub files: u32,
    /// Number of variables that are not recorded, because the engine refuses it.
    pub refused: u32,
    /// 1 while the connection to the engine is up, otherwise 0.
    pub is_connected: i32,
    /// 1 once no update of the variables that existed at the start is missed any more, otherwise 0.
    pub is_following: i32,
    /// 1 if the file has a failure, which `tl_recorder_error` has; otherwise 0.
    pub has_error: i32,
    /// Always 0.
    pub reserved: i32,
}

/// Counts of a playback.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_played {
    /// Updates passed to the engine.
    pub updates: u64,
    /// Writes that became updates.
    pub applied: u64,
    /// Writes that were refused or not tried, or whose outcome is unknown.
    pub failed: u64,
    /// Updates that were passed on more than 20 ms late.
    pub late: u64,
    /// Variables of the recording that cannot be played.
    pub refused: u64,
}

impl From<RecordingError> for Failure {
    fn from(error: RecordingError) -> Self {
        match error {
            RecordingError::Call(error) => Failure::from(*error),
            RecordingError::Stream(error) => Failure::from(*error),
            error => Failure::new(TL_ERROR_SYSTEM, error.to_string()),
        }
    }
}

/// A recorder, until it is stopped.
pub(crate) struct RecorderObject {
    recorder: Mutex<Option<VariableRecorder>>,
}

impl RecorderObject {
    fn status(&self) -> Result<VariableRecorderStatus, Failure> {
        let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let recorder = recorder.as_ref();
        recorder
            .map(VariableRecorder::status)
            .ok_or_else(|| Failure::closed("the recorder"))
    }
}

fn status_of(status: &VariableRecorderStatus) -> tl_recorder_status {
    tl_recorder_status {
        variables: status.progress.variables,
        updates: status.progress.updates,
        in_file: status.progress.in_file,
        on_disk: status.progress.on_disk,
        lost: status.progress.lost,
        unknown_gaps: status.progress.unknown_gaps,
        bytes: status.progress.bytes,
        files: status.files,
        refused: u32::try_from(status.refused_count).unwrap_or(u32::MAX),
        is_connected: i32::from(status.is_connected),
        is_following: i32::from(status.is_following),
        has_error: i32::from(status.error.is_some()),
        reserved: 0,
    }
}

/// Starts to record variables into a new TDMS file, and waits until no update is missed any more.
///
/// `patterns`, `patterns_length`: names or patterns of variables, one per line, such as `boiler/**`.
/// Variables that appear later are recorded as well.
///
/// `path`, `path_length`: path of the file, which must not exist.
///
/// `contract`, `contract_length`: the updates to record, as for `tl_subscribe`; empty is `all`.
///
/// `timeout_ms`: longest wait in milliseconds, or `TL_FOREVER`. The recording goes on after a timeout.
///
/// `recorder`: where the handle is stored. End it with `tl_recorder_stop`.
///
/// Errors: `TL_FAULT_BAD_PATTERN`, `TL_ERROR_SYNTAX`, `TL_ERROR_SYSTEM` if the file exists or cannot be
/// created: 0 is stored. `TL_ERROR_TIMEOUT`: the handle is stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_recorder_start(
    client: tl_client,
    patterns: *const c_char,
    patterns_length: size_t,
    path: *const c_char,
    path_length: size_t,
    contract: *const c_char,
    contract_length: size_t,
    timeout_ms: i32,
    recorder: *mut tl_recorder,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes texts, as documented.
        let (patterns, path, contract) = unsafe {
            (
                text("patterns", patterns, patterns_length)?,
                text("path", path, path_length)?,
                text("contract", contract, contract_length)?,
            )
        };
        let waits = Timeout::of(timeout_ms)?;
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("recorder", recorder, 0)? };
        let patterns = self::patterns(patterns)?;
        let mut options = VariableRecorderOptions::default();
        if !contract.is_empty() {
            options.contract = contract.parse().map_err(Failure::syntax)?;
        }
        let started =
            VariableRecorder::start(&object.client, &patterns, &[], Path::new(path), options)?;
        let handle = handles::add(RecorderObject {
            recorder: Mutex::new(Some(started)),
        })?;
        // SAFETY: the same promise.
        unsafe { put("recorder", recorder, handle)? };
        let started: Arc<RecorderObject> = handles::find(handle)?;
        // The recorder reports no change of its status, so this looks at it now and then.
        for part in waits.parts_of(LOOK) {
            if started.status()?.is_following {
                return Ok(());
            }
            thread::park_timeout(part);
        }
        Err(Failure::timeout(format!(
            "not all variables were followed within {timeout_ms} ms; the recording goes on"
        )))
    })
}

/// Interval between two looks at the status of a recorder.
const LOOK: Duration = Duration::from_millis(2);

/// Stores the state of a recording.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_recorder_progress(
    recorder: tl_recorder,
    status: *mut tl_recorder_status,
) -> tl_status {
    entry(|| {
        let object = handles::find::<RecorderObject>(recorder)?;
        // SAFETY: the caller passes a place for the state or NULL.
        unsafe { put("status", status, status_of(&object.status()?)) }
    })
}

/// Copies the current failure of the file; the empty text if there is none.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_recorder_error(
    recorder: tl_recorder,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<RecorderObject>(recorder)?;
        let error = object.status()?.error.unwrap_or_default();
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&error, buffer, capacity, length) }
    })
}

/// Ends a recording: records every update that the engine has at the time of the call, writes and syncs
/// the file, and closes the handle.
///
/// `status`: where the last state is stored; may be NULL.
///
/// Errors: `TL_ERROR_SYSTEM` if the file has a failure; the recording is incomplete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_recorder_stop(
    recorder: tl_recorder,
    status: *mut tl_recorder_status,
) -> tl_status {
    entry(|| {
        let object = handles::remove::<RecorderObject>(recorder)?;
        let recorder = object
            .recorder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let recorder = recorder.ok_or_else(|| Failure::closed("the recorder"))?;
        let end = recorder.stop();
        // SAFETY: the caller passes a place for the state or NULL.
        unsafe { put_or_none("status", status, status_of(&end))? };
        end.error
            .map_or(Ok(()), |error| Err(Failure::system(error)))
    })
}

/// Plays a recording of variables into the variables of the same names, and waits until its end. Closing
/// the client from another thread ends the playback.
///
/// `path`, `path_length`: the file, or the first file of a series.
///
/// `speed`: multiple of the recorded speed, such as 1.0; 0 plays as fast as possible.
///
/// `keep_timestamps`: 1 to keep the recorded source timestamps, 0 to let the engine set new ones.
///
/// `played`: where the counts are stored; may be NULL.
///
/// Errors: `TL_ERROR_SYSTEM` if the file cannot be played, `TL_ERROR_ARGUMENT` for a negative speed,
/// `TL_ERROR_NOT_CONNECTED`, `TL_ERROR_TIMEOUT` if the engine does not answer within 10 s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_play(
    client: tl_client,
    path: *const c_char,
    path_length: size_t,
    speed: f64,
    keep_timestamps: i32,
    played: *mut tl_played,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes a text, as documented.
        let path = unsafe { text("path", path, path_length)? };
        let pace = match speed {
            0.0 => Pace::Full,
            speed if speed.is_finite() && speed > 0.0 => Pace::Scaled(speed),
            speed => {
                return Err(Failure::argument(format!(
                    "the speed {speed} is not 0 or a positive number"
                )));
            }
        };
        let options = PlayVariablesOptions {
            pace,
            keep_timestamps: keep_timestamps != 0,
            ..PlayVariablesOptions::default()
        };
        let mut recorded =
            RecordedVariables::open_series(Path::new(path)).map_err(Failure::system)?;
        let (_stopper, stopped) = stopper();
        let same = |name: &str| Some(name.to_owned());
        let done = play_into_variables(
            &object.client,
            &mut recorded,
            same,
            options,
            &stopped,
            |_| (),
        )?;
        let done = tl_played {
            updates: done.updates,
            applied: done.applied,
            failed: done.failed,
            late: done.late,
            refused: done.refused.len() as u64,
        };
        // SAFETY: the caller passes a place for the counts or NULL.
        unsafe { put_or_none("played", played, done) }
    })
}
