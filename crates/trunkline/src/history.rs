//! Runs the history of an engine: one thread records, another one maintains the files.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_config::HistoryConfig;
use trunkline_engine::history::{History, HistoryError, HistoryFigures};
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

/// Opens the history of an engine in a folder. The wake must be called when there is something to
/// record.
pub type OpenHistory = fn(
    &Path,
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
    history: Box<dyn History>,
    clock: Clock,
    /// Variables that could not be followed yet.
    waiting: Mutex<Vec<u32>>,
    recording: Mutex<Option<HistoryError>>,
    /// When the recorder must be called next, even if nothing wakes it.
    next: Mutex<Option<Tick>>,
    maintenance: Mutex<Option<HistoryError>>,
    maintainer: Arc<OnceLock<Weak<Housekeeper>>>,
}

impl HistoryHost {
    /// # Errors
    /// The history cannot be opened.
    pub(crate) fn start(
        config: &HistoryConfig,
        open: OpenHistory,
        core: &Core,
        clock: Clock,
    ) -> Result<Self, HistoryStartError> {
        let recorder: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        let maintainer: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        let wake = Box::new(WakeThread(Arc::clone(&recorder)));
        let (_, wall) = clock.moment();
        let shared = Arc::new(Shared {
            history: open(&config.folder, config.rules.clone(), core, wake, wall)?,
            clock,
            waiting: Mutex::default(),
            recording: Mutex::default(),
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
            if !waiting.contains(handle) {
                waiting.push(*handle);
            }
        }
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
            && let Ok(page) = self.shared.history.read(&query, wall)
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
        let page = self.shared.history.read(query, wall)?;
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
        match self.error() {
            Some(error) => format!(
                "updates cannot be recorded now, and wait in memory as long as there is room: {error}"
            ),
            None => String::new(),
        }
    }

    /// Explains whether and how a variable is recorded.
    pub(crate) fn explain(&self, variable: &str) -> WhyStep {
        let Some(settings) = self.shared.history.settings(variable) else {
            let sentence =
                "it is not recorded: no [[history]] section selects it, or one excludes it";
            let next = "to record it, add its name to the configuration of the engine";
            return WhyStep {
                verdict: WhyVerdict::Note,
                ..WhyStep::fault(WhyStage::Consumer, sentence, next)
            };
        };
        if let Some(error) = self.error() {
            let sentence = format!("it is not recorded now: {error}");
            let next = "updates wait in memory as long as there is room";
            return WhyStep::fault(WhyStage::Consumer, sentence, next);
        }
        WhyStep::ok(WhyStage::Consumer, sentence_of(&settings))
    }

    pub(crate) fn error(&self) -> Option<HistoryError> {
        let error = lock(&self.shared.recording).clone();
        error.or_else(|| lock(&self.shared.maintenance).clone())
    }

    pub(crate) fn figures(&self) -> HistoryFigures {
        self.shared.history.figures()
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
        *lock(&self.shared.recording) = self.shared.history.close(wall).err();
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryStartError {
    #[error("{0}")]
    History(#[from] HistoryError),
    #[error("{0}")]
    Thread(#[from] io::Error),
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
        let soon = now.saturating_add(GATHER);
        let retry = (!lock(&self.waiting).is_empty()).then(|| now.saturating_add(RETRY));
        let due = Tick::earliest([
            due,
            *lock(&self.next),
            due.is_none().then_some(retry).flatten(),
        ]);
        match due {
            Some(due) if due <= now => match self.record() {
                Ok(Some(next)) => Some(next),
                Ok(None) => (!self.history.is_idle()).then_some(soon),
                Err(()) => Some(now.saturating_add(RETRY)),
            },
            due if self.history.is_idle() => due,
            // Failed steps are tried again only when they are due.
            Some(due) if lock(&self.recording).is_some() => Some(due),
            Some(due) => Some(due.min(soon)),
            None => Some(soon),
        }
    }

    /// Records what happened, and returns when the next call is due. The error is kept.
    fn record(&self) -> Result<Option<Tick>, ()> {
        self.follow_waiting();
        let (now, wall) = self.clock.moment();
        let result = self.history.record(Moment { now, wall });
        let next = result.as_ref().map(|next| *next).map_err(|_| ());
        let failed = result.err();
        // Before the other lock, since `follow_waiting` takes them in this order.
        let follows_all = lock(&self.waiting).is_empty();
        if failed.is_some() || follows_all {
            *lock(&self.recording) = failed;
        }
        *lock(&self.next) = next.unwrap_or(None);
        if let Some(maintainer) = self.maintainer.get().and_then(Weak::upgrade)
            && self.history.is_maintenance_due()
        {
            maintainer.wake();
        }
        next
    }

    /// Records everything that happened until this call, apart from what cannot be recorded now.
    fn record_all(&self) {
        while let Ok(Some(next)) = self.record() {
            let (now, _) = self.clock.moment();
            if next > now || self.history.is_idle() {
                break;
            }
        }
    }

    fn follow_waiting(&self) {
        let mut waiting = lock(&self.waiting);
        if waiting.is_empty() {
            return;
        }
        let (_, wall) = self.clock.moment();
        let result = self.history.follow(&waiting, wall);
        if result.is_ok() {
            waiting.clear();
        }
        drop(waiting);
        if let Err(error) = result {
            *lock(&self.recording) = Some(error);
        }
    }

    fn maintain_turn(&self, now: Tick, due: Option<Tick>, recorder: &WakeThread) -> Option<Tick> {
        let is_failing = lock(&self.maintenance).is_some();
        if is_failing && let Some(due) = due.filter(|due| now < *due) {
            return Some(due);
        }
        let (_, wall) = self.clock.moment();
        let result = self.history.maintain(wall);
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
