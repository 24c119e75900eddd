//! Runs the history of an engine with two threads: one records updates, the other maintains the
//! files.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_config::HistoryConfig;
use trunkline_engine::figures::{HistoryCondition, HistoryState};
use trunkline_engine::history::{History, HistoryError, HistoryFigures, SpoolState};
use trunkline_engine::store::{OpenFault, StoreErrorKind};
use trunkline_engine::{Engine as Core, Wake};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::history::{
    HistoryForm, HistoryPage, HistoryQuery, HistoryRule, HistorySettings,
};
use trunkline_types::{Moment, Tick, Timestamp, WhyStage, WhyStep, WhyVerdict};

use crate::deployments::lock;
use crate::retention::{WakeThread, start_thread};

/// Time from the first update to the commit that makes it durable.
const COMMIT_DELAY: Duration = Duration::from_millis(20);
/// Interval at which the files are examined even if no segment was closed.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(60);
/// Lifetime of a page that was read ahead.
const READ_AHEAD_LIFETIME: Duration = Duration::from_secs(1);
/// Delay before a failed step is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Opens the history of an engine. The arguments are the folder of the history, the folder of its
/// spool if it has one, the rules, the engine, a wake that the engine calls when there is something
/// to record, and the time of the engine's start.
pub type OpenHistory = fn(
    &Path,
    Option<&Path>,
    Vec<HistoryRule>,
    &Core,
    Box<dyn Wake>,
    Timestamp,
) -> Result<Box<dyn History>, HistoryError>;

/// A running history. Dropping it ends its threads. Only [`HistoryHost::close`] records that the
/// engine stops.
pub(crate) struct HistoryHost {
    shared: Arc<Shared>,
    /// A page that was read ahead, with the query it answers and its expiry.
    read_ahead_page: Mutex<Option<(Tick, HistoryQuery, HistoryPage)>>,
    _recorder: Arc<Housekeeper>,
    _maintainer: Arc<Housekeeper>,
}

struct Shared {
    /// Empty while the history cannot be opened because of its disk.
    history: OnceLock<Box<dyn History>>,
    open: Box<dyn Fn() -> Result<Box<dyn History>, HistoryError> + Send + Sync>,
    clock: Clock,
    unfollowed: Mutex<UnfollowedVariables>,
    recording_error: Mutex<Option<HistoryError>>,
    /// Time of the recorder's next step, even if nothing wakes it.
    next_step: Mutex<Option<Tick>>,
    maintenance_error: Mutex<Option<HistoryError>>,
    maintainer: Arc<OnceLock<Weak<Housekeeper>>>,
}

/// Variables that the history does not follow yet, because it could not be told about them.
#[derive(Default)]
struct UnfollowedVariables {
    handles: Vec<u32>,
    /// Time from which the first of these variables should be followed.
    since: Option<Timestamp>,
}

impl HistoryHost {
    /// Opens the history. If its disk is full or fails, the engine starts without it, and the
    /// history is opened later.
    ///
    /// # Errors
    /// The history cannot be opened for another reason.
    pub(crate) fn start(
        config: &HistoryConfig,
        open: OpenHistory,
        core: &Core,
        clock: Clock,
    ) -> Result<Self, HistoryStartError> {
        let recorder: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        let maintainer: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        let (_, started) = clock.moment();
        let (config, core, woken) = (config.clone(), core.clone(), Arc::clone(&recorder));
        let open = move || {
            let wake = Box::new(WakeThread(Arc::clone(&woken)));
            let (folder, spool) = (&config.folder, config.spool.as_deref());
            open(folder, spool, config.rules.clone(), &core, wake, started)
        };
        let (history, error) = match open() {
            Ok(history) => (OnceLock::from(history), None),
            Err(error) if is_temporary(&error) => (OnceLock::new(), Some(error)),
            Err(error) => return Err(error.into()),
        };
        let shared = Arc::new(Shared {
            history,
            open: Box::new(open),
            clock,
            unfollowed: Mutex::default(),
            recording_error: Mutex::new(error),
            next_step: Mutex::default(),
            maintenance_error: Mutex::default(),
            maintainer: Arc::clone(&maintainer),
        });
        let recording = Arc::clone(&shared);
        let recorder_thread = start_thread(clock, &recorder, move |now, due| {
            recording.record_step(now, due)
        })?;
        let maintaining = Arc::clone(&shared);
        let wake_recorder = WakeThread(recorder);
        let maintainer_thread = start_thread(clock, &maintainer, move |now, due| {
            maintaining.maintain_step(now, due, &wake_recorder)
        })?;
        Ok(Self {
            shared,
            read_ahead_page: Mutex::default(),
            _recorder: recorder_thread,
            _maintainer: maintainer_thread,
        })
    }

    /// Starts or ends the recording of these variables, as the rules require.
    pub(crate) fn follow(&self, handles: &[u32]) {
        let mut unfollowed = lock(&self.shared.unfollowed);
        for handle in handles {
            if !unfollowed.handles.contains(handle) {
                unfollowed.handles.push(*handle);
            }
        }
        unfollowed
            .since
            .get_or_insert_with(|| self.shared.clock.wall());
        drop(unfollowed);
        self.shared.follow_unfollowed();
        // The first readings of these variables do not wake the thread themselves.
        self._recorder.wake();
    }

    /// Reads the page that the client is expected to request next.
    pub(crate) fn read_ahead(&self, query: HistoryQuery) {
        let (_, wall) = self.shared.clock.moment();
        // An error is ignored here, because the request itself will meet it again. The last page of
        // a query is not read ahead, because updates may still be added to it.
        let is_cheap = query.form == HistoryForm::Rows;
        if is_cheap
            && let Some(history) = self.shared.history.get()
            && let Ok(page) = history.read(&query, wall)
            && page.next.is_some()
        {
            let until = self.shared.clock.now().saturating_add(READ_AHEAD_LIFETIME);
            *lock(&self.read_ahead_page) = Some((until, query, page));
        }
    }

    /// Returns a page that includes everything recorded until now.
    pub(crate) fn page(&self, query: &HistoryQuery) -> Result<HistoryPage, HistoryError> {
        if let Some((until, answered, page)) = lock(&self.read_ahead_page).take()
            && answered == *query
            && self.shared.clock.now() < until
        {
            return Ok(self.with_state(page));
        }
        self.flush();
        let (_, wall) = self.shared.clock.moment();
        let page = match (self.shared.history.get(), self.error()) {
            (Some(history), _) => history.read(query, wall)?,
            (None, Some(error)) => return Err(error),
            // The history is open since this moment, and is still empty.
            (None, None) => HistoryPage::default(),
        };
        Ok(self.with_state(page))
    }

    fn with_state(&self, mut page: HistoryPage) -> HistoryPage {
        let sentences = [self.failure_sentence(), page.state];
        let faults: Vec<&str> = sentences
            .iter()
            .map(String::as_str)
            .filter(|sentence| !sentence.is_empty())
            .collect();
        page.state = faults.join("; ");
        page
    }

    /// Describes why the history cannot be written now; empty if it can be written.
    fn failure_sentence(&self) -> String {
        match (self.error(), self.spool_in_use()) {
            (Some(error), Some(location)) => {
                format!("updates are recorded in the spool {location} now: {error}")
            }
            (Some(error), None) => format!(
                "updates cannot be recorded now, and wait in memory as long as there is room: {error}"
            ),
            (None, _) => String::new(),
        }
    }

    /// Explains whether and how a variable is recorded.
    pub(crate) fn explain(&self, variable: &str) -> WhyStep {
        let history = self.shared.history.get();
        if let (None, Some(error)) = (history, self.error()) {
            let sentence = format!("nothing is recorded now: {error}");
            let next = "recording begins when the history can be written";
            return WhyStep::fault(WhyStage::Consumer, sentence, next);
        }
        let Some(settings) = history.and_then(|history| history.settings(variable)) else {
            let sentence =
                "it is not recorded: no [[history]] section selects it, or one excludes it";
            let next = "to record it, select it in a [[history]] section of the engine's \
                        configuration, before any section that excludes it";
            return WhyStep {
                verdict: WhyVerdict::Note,
                ..WhyStep::fault(WhyStage::Consumer, sentence, next)
            };
        };
        let Some(error) = self.error() else {
            return WhyStep::ok(WhyStage::Consumer, describe_settings(&settings));
        };
        match self.spool_in_use() {
            Some(location) => WhyStep {
                verdict: WhyVerdict::Note,
                ..WhyStep::fault(
                    WhyStage::Consumer,
                    format!("it is recorded in the spool {location} now: {error}"),
                    "the rows are moved to the history when it can be written",
                )
            },
            None => WhyStep::fault(
                WhyStage::Consumer,
                format!("it is not recorded now: {error}"),
                "updates wait in memory as long as there is room",
            ),
        }
    }

    /// Returns why the history records nothing, or only in the spool.
    pub(crate) fn error(&self) -> Option<HistoryError> {
        let error = lock(&self.shared.recording_error).clone();
        let error = error.or_else(|| self.spool()?.cause);
        error.or_else(|| lock(&self.shared.maintenance_error).clone())
    }

    /// Returns the state of the spool. It has no `cause` if the spool cannot be written either.
    pub(crate) fn spool(&self) -> Option<SpoolState> {
        let mut spool = self.shared.history.get()?.spool()?;
        if lock(&self.shared.recording_error).is_some() {
            spool.cause = None;
        }
        Some(spool)
    }

    /// Returns the condition of the history, its failures as sentences, and its statistics.
    pub(crate) fn state(&self) -> HistoryState {
        let error = self.error();
        let condition = match &error {
            None => HistoryCondition::Good,
            Some(_) if self.spool_in_use().is_some() => HistoryCondition::Spooling,
            Some(_) => HistoryCondition::Failing,
        };
        let sentence =
            |error: Option<HistoryError>| error.map_or_else(String::new, |error| error.to_string());
        HistoryState {
            condition,
            error: sentence(error),
            spool_error: sentence(self.spool().and_then(|spool| spool.fault)),
            figures: self.figures(),
        }
    }

    /// Returns the folder of the spool if updates are recorded there now.
    pub(crate) fn spool_in_use(&self) -> Option<String> {
        let spool = self.spool()?;
        spool.cause.map(|_| spool.location)
    }

    pub(crate) fn figures(&self) -> HistoryFigures {
        let history = self.shared.history.get();
        history.map(|history| history.figures()).unwrap_or_default()
    }

    /// Records everything that has happened until now.
    pub(crate) fn flush(&self) {
        self.shared.record_all();
        if lock(&self.shared.next_step).is_some() {
            self._recorder.wake();
        }
    }

    /// Records everything that has happened until now, and that the engine stops. Records nothing
    /// after that.
    pub(crate) fn close(&self) {
        let (_, wall) = self.shared.clock.moment();
        if let Some(history) = self.shared.history.get() {
            *lock(&self.shared.recording_error) = history.close(wall).err();
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryStartError {
    #[error("{0}")]
    History(#[from] HistoryError),
    #[error("{0}")]
    Thread(#[from] io::Error),
}

/// Returns true for a failure of the disk that may end on its own: the history is then opened
/// later. All other failures need a decision by the operator.
fn is_temporary(error: &HistoryError) -> bool {
    match error {
        HistoryError::Files { kind, .. } => match kind {
            StoreErrorKind::Full
            | StoreErrorKind::NoMemory
            | StoreErrorKind::ReadOnly
            | StoreErrorKind::CannotOpen(
                OpenFault::Missing
                | OpenFault::FileInPath
                | OpenFault::OtherFolder
                | OpenFault::Database(_),
            )
            | StoreErrorKind::Failed(_) => true,
            StoreErrorKind::CannotOpen(
                OpenFault::NoHistory
                | OpenFault::Spool
                | OpenFault::Identity
                | OpenFault::EarlierLog,
            )
            | StoreErrorKind::Damaged(_)
            | StoreErrorKind::Newer { .. }
            | StoreErrorKind::InUse
            | StoreErrorKind::Folder
            | StoreErrorKind::Replaced => false,
        },
        HistoryError::Spool { .. } => true,
        HistoryError::ForeignSpool { .. } | HistoryError::Query(_) => false,
    }
}

/// Describes how a variable is recorded.
fn describe_settings(settings: &HistorySettings) -> String {
    let HistorySettings {
        deadband_percent,
        resolution,
        every,
        keep,
        array_bytes_max: _,
    } = *settings;
    let mut sentence = match every {
        None => "its updates are recorded".to_owned(),
        Some(every) => format!("the newest of its updates is recorded every {every:?}"),
    };
    if deadband_percent > 0.0 {
        sentence.push_str(&format!(
            ", if the value has changed by more than {deadband_percent} % of the range"
        ));
    }
    if resolution > 0.0 {
        sentence.push_str(&format!(", rounded to {resolution}"));
    }
    if let Some(keep) = keep {
        sentence.push_str(&format!(", and kept for {} h", keep.as_secs() / 3600));
    }
    sentence
}

impl Shared {
    /// Records what is due, and returns the time of the next step.
    fn record_step(&self, now: Tick, due: Option<Tick>) -> Option<Tick> {
        let Some(history) = self.history.get() else {
            return match due {
                Some(due) if now < due => Some(due),
                _ => Some(self.try_open(now)),
            };
        };
        let soon = now.saturating_add(COMMIT_DELAY);
        let retry =
            (!lock(&self.unfollowed).handles.is_empty()).then(|| now.saturating_add(RETRY_DELAY));
        let due = Tick::earliest([
            due,
            *lock(&self.next_step),
            due.is_none().then_some(retry).flatten(),
        ]);
        match due {
            Some(due) if due <= now => match self.record() {
                Ok(Some(next)) => Some(next),
                Ok(None) => (!history.is_idle()).then_some(soon),
                Err(()) => Some(now.saturating_add(RETRY_DELAY)),
            },
            due if history.is_idle() => due,
            // A failed step is repeated only after its delay.
            Some(due) if lock(&self.recording_error).is_some() => Some(due),
            Some(due) => Some(due.min(soon)),
            None => Some(soon),
        }
    }

    /// Tries to open the history, and returns the time of the next step.
    fn try_open(&self, now: Tick) -> Tick {
        match (self.open)() {
            Ok(history) => {
                // The cell is still empty, because only this thread opens the history.
                let _ = self.history.set(history);
                self.follow_unfollowed();
                now
            }
            Err(error) => {
                *lock(&self.recording_error) = Some(error);
                now.saturating_add(RETRY_DELAY)
            }
        }
    }

    /// Records what happened, and returns the time of the next call. Stores an error in
    /// `recording_error`.
    fn record(&self) -> Result<Option<Tick>, ()> {
        let Some(history) = self.history.get() else {
            return Err(());
        };
        self.follow_unfollowed();
        let (now, wall) = self.clock.moment();
        let result = history.record(Moment { now, wall });
        let next = result.as_ref().map(|next| *next).map_err(|_| ());
        let failed = result.err();
        // Taken before the lock of `recording_error`, in the same order as in `follow_unfollowed`.
        let follows_all = lock(&self.unfollowed).handles.is_empty();
        if failed.is_some() || follows_all {
            *lock(&self.recording_error) = failed;
        }
        *lock(&self.next_step) = next.unwrap_or(None);
        if let Some(maintainer) = self.maintainer.get().and_then(Weak::upgrade)
            && history.is_maintenance_due()
        {
            maintainer.wake();
        }
        next
    }

    /// Records everything that happened before this call, except what cannot be recorded now.
    fn record_all(&self) {
        let Some(history) = self.history.get() else {
            return;
        };
        while let Ok(Some(next)) = self.record() {
            let (now, _) = self.clock.moment();
            if next > now || history.is_idle() {
                break;
            }
        }
    }

    fn follow_unfollowed(&self) {
        let Some(history) = self.history.get() else {
            return;
        };
        let mut unfollowed = lock(&self.unfollowed);
        let Some(since) = unfollowed.since else {
            return;
        };
        // Updates since `since` that can no longer be recorded are reported as missing from that
        // time on.
        let result = history.follow(&unfollowed.handles, since);
        if result.is_ok() {
            *unfollowed = UnfollowedVariables::default();
        }
        drop(unfollowed);
        if let Err(error) = result {
            *lock(&self.recording_error) = Some(error);
        }
    }

    fn maintain_step(&self, now: Tick, due: Option<Tick>, recorder: &WakeThread) -> Option<Tick> {
        let Some(history) = self.history.get() else {
            return Some(now.saturating_add(RETRY_DELAY));
        };
        let is_failing = lock(&self.maintenance_error).is_some();
        if is_failing && let Some(due) = due.filter(|due| now < *due) {
            return Some(due);
        }
        let (_, wall) = self.clock.moment();
        let result = history.maintain(wall);
        let next = match &result {
            Ok(true) => {
                // The recorder may be waiting for this maintenance.
                recorder.wake();
                Some(now)
            }
            Ok(false) => Some(now.saturating_add(MAINTENANCE_INTERVAL)),
            Err(_) => Some(now.saturating_add(RETRY_DELAY)),
        };
        *lock(&self.maintenance_error) = result.err();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine does not start with a history that cannot be opened later either.
    ///
    /// Behaviour: H-14.
    #[test]
    fn history_that_needs_the_operator_is_not_opened_later() {
        for (fault, expected) in [
            (OpenFault::Missing, true),
            (OpenFault::OtherFolder, true),
            (OpenFault::Spool, false),
            (OpenFault::NoHistory, false),
            (OpenFault::EarlierLog, false),
        ] {
            let error = HistoryError::Files {
                location: "/history".to_owned(),
                kind: StoreErrorKind::CannotOpen(fault),
            };
            assert_eq!(is_temporary(&error), expected, "{error}");
        }
    }
}
