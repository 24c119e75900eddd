//! Runs the history of an engine: one thread records, another one maintains the files.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_config::HistoryConfig;
use trunkline_engine::history::{History, HistoryError, HistoryFigures, SpoolState};
use trunkline_engine::store::StoreErrorKind;
use trunkline_engine::{Engine as Core, Wake};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::history::{
    HistoryForm, HistoryPage, HistoryQuery, HistoryRule, HistorySettings,
};
use trunkline_types::{Moment, Tick, Timestamp, WhyStage, WhyStep, WhyVerdict};

use crate::deployments::lock;
use crate::retention::{WakeThread, start_thread};

/// Time from the first update to the commit that makes it durable.
const GATHER: Duration = Duration::from_millis(20);
/// Time after which files are examined again, although no segment was closed.
const MAINTENANCE: Duration = Duration::from_secs(60);
/// How long a page that was read before it was asked for may be used.
const AHEAD: Duration = Duration::from_secs(1);
/// Delay before a failed step is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Opens the history of an engine in a folder, and its spool in another one, if it has one. The wake
/// must be called when there is something to record.
pub type OpenHistory = fn(
    &Path,
    Option<&Path>,
    Vec<HistoryRule>,
    &Core,
    Box<dyn Wake>,
    Timestamp,
) -> Result<Box<dyn History>, HistoryError>;

/// A history that is recorded. Dropping it ends its threads; only [`HistoryHost::close`] records
/// that the engine stops.
pub(crate) struct HistoryHost {
    shared: Arc<Shared>,
    /// A page that was read before it was asked for.
    ahead: Mutex<Option<(Tick, HistoryQuery, HistoryPage)>>,
    _recorder: Arc<Housekeeper>,
    _maintainer: Arc<Housekeeper>,
}

struct Shared {
    /// Empty as long as the history cannot be opened because of its disk.
    history: OnceLock<Box<dyn History>>,
    open: Box<dyn Fn() -> Result<Box<dyn History>, HistoryError> + Send + Sync>,
    clock: Clock,
    waiting: Mutex<Waiting>,
    recording: Mutex<Option<HistoryError>>,
    /// When the recorder must be called next, even if nothing wakes it.
    next: Mutex<Option<Tick>>,
    maintenance: Mutex<Option<HistoryError>>,
    maintainer: Arc<OnceLock<Weak<Housekeeper>>>,
}

/// Variables that could not be followed yet.
#[derive(Default)]
struct Waiting {
    handles: Vec<u32>,
    /// When the first of them was to be followed.
    since: Option<Timestamp>,
}

impl HistoryHost {
    /// Opens the history, or starts without it if its disk is full or fails; it is then opened later.
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
        let (history, recording) = match open() {
            Ok(history) => (OnceLock::from(history), None),
            Err(error) if may_pass(&error) => (OnceLock::new(), Some(error)),
            Err(error) => return Err(error.into()),
        };
        let shared = Arc::new(Shared {
            history,
            open: Box::new(open),
            clock,
            waiting: Mutex::default(),
            recording: Mutex::new(recording),
            next: Mutex::default(),
            maintenance: Mutex::default(),
            maintainer: Arc::clone(&maintainer),
        });
        let recording = Arc::clone(&shared);
        let recorder_thread = start_thread(clock, &recorder, move |now, due| {
            recording.record_turn(now, due)
        })?;
        let maintaining = Arc::clone(&shared);
        let wake_recorder = WakeThread(recorder);
        let maintainer_thread = start_thread(clock, &maintainer, move |now, due| {
            maintaining.maintain_turn(now, due, &wake_recorder)
        })?;
        Ok(Self {
            shared,
            ahead: Mutex::default(),
            _recorder: recorder_thread,
            _maintainer: maintainer_thread,
        })
    }

    /// Starts or ends the recording of these variables, as the rules say.
    pub(crate) fn follow(&self, handles: &[u32]) {
        let mut waiting = lock(&self.shared.waiting);
        for handle in handles {
            if !waiting.handles.contains(handle) {
                waiting.handles.push(*handle);
            }
        }
        waiting
            .since
            .get_or_insert_with(|| self.shared.clock.wall());
        drop(waiting);
        self.shared.follow_waiting();
        // First readings wait without waking the thread.
        self._recorder.wake();
    }

    /// Reads the page that its client will ask for next.
    pub(crate) fn read_ahead(&self, query: HistoryQuery) {
        let (_, wall) = self.shared.clock.moment();
        // An error is found again when the page is asked for. The last page of a query may become
        // longer until then.
        let is_cheap = query.form == HistoryForm::Rows;
        if is_cheap
            && let Some(history) = self.shared.history.get()
            && let Ok(page) = history.read(&query, wall)
            && page.next.is_some()
        {
            let until = self.shared.clock.now().saturating_add(AHEAD);
            *lock(&self.ahead) = Some((until, query, page));
        }
    }

    /// Returns a page of everything that happened until now.
    pub(crate) fn page(&self, query: &HistoryQuery) -> Result<HistoryPage, HistoryError> {
        if let Some((until, of, page)) = lock(&self.ahead).take()
            && of == *query
            && self.shared.clock.now() < until
        {
            return Ok(self.with_state(page));
        }
        self.flush();
        let (_, wall) = self.shared.clock.moment();
        let page = match (self.shared.history.get(), self.error()) {
            (Some(history), _) => history.read(query, wall)?,
            (None, Some(error)) => return Err(error),
            // It was opened at this moment, and has nothing yet.
            (None, None) => HistoryPage::default(),
        };
        Ok(self.with_state(page))
    }

    fn with_state(&self, mut page: HistoryPage) -> HistoryPage {
        let sentences = [self.sentence(), page.state];
        let faults: Vec<&str> = sentences
            .iter()
            .map(String::as_str)
            .filter(|sentence| !sentence.is_empty())
            .collect();
        page.state = faults.join("; ");
        page
    }

    /// Describes why the history cannot be written now; empty if it can.
    fn sentence(&self) -> String {
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
            let next = "to record it, add its name to the configuration of the engine";
            return WhyStep {
                verdict: WhyVerdict::Note,
                ..WhyStep::fault(WhyStage::Consumer, sentence, next)
            };
        };
        let Some(error) = self.error() else {
            return WhyStep::ok(WhyStage::Consumer, sentence_of(&settings));
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

    /// Returns why nothing is recorded, or only in the spool.
    pub(crate) fn error(&self) -> Option<HistoryError> {
        let error = lock(&self.shared.recording).clone();
        let error = error.or_else(|| self.spool()?.cause);
        error.or_else(|| lock(&self.shared.maintenance).clone())
    }

    /// Returns the state of the spool. It has no `cause` if the spool cannot be written either.
    pub(crate) fn spool(&self) -> Option<SpoolState> {
        let mut spool = self.shared.history.get()?.spool()?;
        if lock(&self.shared.recording).is_some() {
            spool.cause = None;
        }
        Some(spool)
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

    /// Records what happened until now.
    pub(crate) fn flush(&self) {
        self.shared.record_all();
        if lock(&self.shared.next).is_some() {
            self._recorder.wake();
        }
    }

    /// Records what happened until now, that the engine stops, and nothing that happens later.
    pub(crate) fn close(&self) {
        let (_, wall) = self.shared.clock.moment();
        if let Some(history) = self.shared.history.get() {
            *lock(&self.shared.recording) = history.close(wall).err();
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

/// Returns true if the history may be opened later although it cannot be opened now: its disk is full,
/// fails or cannot be written. Other faults need a decision of people.
fn may_pass(error: &HistoryError) -> bool {
    match error {
        HistoryError::Files { kind, .. } => match kind {
            StoreErrorKind::Full
            | StoreErrorKind::NoMemory
            | StoreErrorKind::ReadOnly
            | StoreErrorKind::CannotOpen(_)
            | StoreErrorKind::Failed(_) => true,
            StoreErrorKind::Damaged(_)
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
fn sentence_of(settings: &HistorySettings) -> String {
    let HistorySettings {
        deadband_percent,
        resolution,
        every,
        keep,
        array_bytes_max: _,
    } = *settings;
    let what = match every {
        None => "its updates are recorded".to_owned(),
        Some(every) => format!("the newest of its updates is recorded every {every:?}"),
    };
    let mut sentence = what;
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
    /// Records what is due, and returns the time of the next turn.
    fn record_turn(&self, now: Tick, due: Option<Tick>) -> Option<Tick> {
        let Some(history) = self.history.get() else {
            return match due {
                Some(due) if now < due => Some(due),
                _ => Some(self.try_open(now)),
            };
        };
        let soon = now.saturating_add(GATHER);
        let retry = (!lock(&self.waiting).handles.is_empty()).then(|| now.saturating_add(RETRY));
        let due = Tick::earliest([
            due,
            *lock(&self.next),
            due.is_none().then_some(retry).flatten(),
        ]);
        match due {
            Some(due) if due <= now => match self.record() {
                Ok(Some(next)) => Some(next),
                Ok(None) => (!history.is_idle()).then_some(soon),
                Err(()) => Some(now.saturating_add(RETRY)),
            },
            due if history.is_idle() => due,
            // Failed steps are tried again only when they are due.
            Some(due) if lock(&self.recording).is_some() => Some(due),
            Some(due) => Some(due.min(soon)),
            None => Some(soon),
        }
    }

    /// Tries to open the history, and returns the time of the next turn.
    fn try_open(&self, now: Tick) -> Tick {
        match (self.open)() {
            Ok(history) => {
                // Only this thread opens it, so it is not set yet.
                let _ = self.history.set(history);
                self.follow_waiting();
                now
            }
            Err(error) => {
                *lock(&self.recording) = Some(error);
                now.saturating_add(RETRY)
            }
        }
    }

    /// Records what happened, and returns when the next call is due. The error is kept.
    fn record(&self) -> Result<Option<Tick>, ()> {
        let Some(history) = self.history.get() else {
            return Err(());
        };
        self.follow_waiting();
        let (now, wall) = self.clock.moment();
        let result = history.record(Moment { now, wall });
        let next = result.as_ref().map(|next| *next).map_err(|_| ());
        let failed = result.err();
        // Before the other lock, since `follow_waiting` takes them in this order.
        let follows_all = lock(&self.waiting).handles.is_empty();
        if failed.is_some() || follows_all {
            *lock(&self.recording) = failed;
        }
        *lock(&self.next) = next.unwrap_or(None);
        if let Some(maintainer) = self.maintainer.get().and_then(Weak::upgrade)
            && history.is_maintenance_due()
        {
            maintainer.wake();
        }
        next
    }

    /// Records everything that happened until this call, apart from what cannot be recorded now.
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

    fn follow_waiting(&self) {
        let Some(history) = self.history.get() else {
            return;
        };
        let mut waiting = lock(&self.waiting);
        let Some(since) = waiting.since else {
            return;
        };
        // What happened since then and cannot be recorded any more is missing from that time on.
        let result = history.follow(&waiting.handles, since);
        if result.is_ok() {
            *waiting = Waiting::default();
        }
        drop(waiting);
        if let Err(error) = result {
            *lock(&self.recording) = Some(error);
        }
    }

    fn maintain_turn(&self, now: Tick, due: Option<Tick>, recorder: &WakeThread) -> Option<Tick> {
        let Some(history) = self.history.get() else {
            return Some(now.saturating_add(RETRY));
        };
        let is_failing = lock(&self.maintenance).is_some();
        if is_failing && let Some(due) = due.filter(|due| now < *due) {
            return Some(due);
        }
        let (_, wall) = self.clock.moment();
        let result = history.maintain(wall);
        let next = match &result {
            Ok(true) => {
                // It may have waited for this.
                recorder.wake();
                Some(now)
            }
            Ok(false) => Some(now.saturating_add(MAINTENANCE)),
            Err(_) => Some(now.saturating_add(RETRY)),
        };
        *lock(&self.maintenance) = result.err();
        next
    }
}
