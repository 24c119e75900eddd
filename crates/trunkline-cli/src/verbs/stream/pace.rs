//! Waiting, progress and summary of a command that moves elements.

use std::time::Duration;

use trunkline::stream::{JournalError, Properties, StreamError};
use trunkline_net::Clock;
use trunkline_types::Tick;

use super::peers::{Endpoint, News};
use super::units::{bytes_text, per_second, rate_text};
use crate::interrupt::Interrupted;
use crate::output::counted;
use crate::output::json::Object;
use crate::problem::Stop;
use crate::terminal::Terminal;
use crate::verbs::Context;

/// Longest wait before Ctrl-C is checked.
pub(super) const SLICE: Duration = Duration::from_millis(200);

/// Interval at which the progress is updated.
const SHOWN_EVERY: Duration = Duration::from_millis(500);

/// The reason why moving elements has ended.
#[derive(Debug)]
pub(super) enum Halt {
    /// Ctrl-C.
    Interrupted,
    /// An error of the stream.
    Stream(StreamError),
    /// Any other reason.
    Stop(Stop),
}

impl From<StreamError> for Halt {
    fn from(error: StreamError) -> Self {
        Halt::Stream(error)
    }
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Halt::Stop(stop)
    }
}

/// The amount moved so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) elements: u64,
    /// Bytes in the stream's own layout.
    pub(super) bytes: u64,
}

/// The waiting state of a command.
#[derive(Debug)]
pub(super) struct Pace {
    terminal: Terminal,
    clock: Clock,
    is_json: bool,
    interrupted: Interrupted,
    /// Longest time for one step; `None`: for ever.
    limit: Option<Duration>,
    started: Tick,
    shown: (Tick, Moved),
    /// Time of the last check for news of several peers.
    looked: Tick,
    pub(super) moved: Moved,
    /// Elements dropped by a writer.
    pub(super) lost: u64,
    /// Losses not reported yet.
    unreported: Option<Gaps>,
    /// Time of the last report of losses.
    reported: Option<Tick>,
    /// State of the connection as last reported.
    connection: Reported,
    /// True if the full disk of the journal was reported.
    is_disk_full: bool,
}

/// State of the connection with one peer, as last reported.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    /// Number of lost connections at that time.
    outages: u64,
    is_away: bool,
}

/// Places where elements are missing.
#[derive(Clone, Copy, Debug)]
struct Gaps {
    /// Elements read before the first of them.
    before: u64,
    /// Elements missing at all of them.
    elements: u64,
    places: u64,
}

/// Losses are reported at most once in this time, because a slow reader may have hundreds a second.
const REPORTED_EVERY: Duration = Duration::from_secs(1);

impl Pace {
    /// From here on, Ctrl-C ends the command in order.
    pub(super) fn new(context: &Context, interrupted: Interrupted) -> Self {
        interrupted.end_in_order_twice();
        let now = context.clock.now();
        Self {
            terminal: context.terminal.clone(),
            clock: context.clock,
            is_json: context.settings.is_json(),
            interrupted,
            limit: context.settings.patience(),
            started: now,
            shown: (now, Moved::default()),
            looked: now,
            moved: Moved::default(),
            lost: 0,
            unreported: None,
            reported: None,
            connection: Reported::default(),
            is_disk_full: false,
        }
    }

    /// Returns true if Ctrl-C was pressed.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.is_so()
    }

    /// Returns true if Ctrl-C was pressed twice.
    pub(super) fn is_interrupted_again(&self) -> bool {
        self.interrupted.is_so_again()
    }

    /// Reports that Ctrl-C was pressed, and the number of elements not delivered yet.
    pub(super) fn tell_delivering(
        &self,
        url: &str,
        elements: u64,
        limit: Duration,
    ) -> Result<(), Stop> {
        if self.is_json {
            let mut object = Object::new();
            object.put("event", "stream-delivering");
            object.put("url", url);
            object.put("elements", elements);
            return self.terminal.note(&object.into_json().to_string());
        }
        self.terminal.note(&format!(
            "interrupted: delivering {} for up to {} s; press Ctrl-C again to stop without \
             delivering them",
            counted(elements, "element"),
            limit.as_secs()
        ))
    }

    /// Returns the current time.
    pub(super) fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Reports the peer of the end, and with a journal the position in its stream.
    pub(super) fn met(&self, end: &mut impl Endpoint, has_journal: bool) -> Result<(), Stop> {
        if end.is_many() {
            return self.tell(end);
        }
        let found = end.properties();
        if has_journal {
            self.resumed(&found)?;
        }
        if !found.is_connected && found.disconnections == 0 {
            // With a journal it continues without waiting for its peer.
            return Ok(());
        }
        let peer = found.peer.unwrap_or_default();
        let transport = found.transport.unwrap_or("?");
        if self.is_json {
            let mut object = Object::new();
            object.put("event", "stream-connected");
            object.put("url", found.url);
            object.put("peer", peer);
            object.put("transport", transport);
            object.put("type", found.data_type.to_string());
            return self.terminal.note(&object.into_json().to_string());
        }
        let line = format!("{} connected with {peer} ({transport})", found.url);
        self.terminal.note(&line)
    }

    fn resumed(&self, found: &Properties) -> Result<(), Stop> {
        if self.is_json {
            let mut object = Object::new();
            object.put("event", "stream-journal");
            object.put("url", found.url.as_str());
            object.put("elements", found.total);
            return self.terminal.note(&object.into_json().to_string());
        }
        let line = format!("{} resuming after element {}", found.url, found.total);
        self.terminal.note(&line)
    }

    /// Reports news of several peers.
    pub(super) fn tell(&self, end: &mut impl Endpoint) -> Result<(), Stop> {
        let news = end.news();
        self.tell_news(&end.properties(), &news)
    }

    /// Reports news of an end that was closed.
    pub(super) fn tell_news(&self, end: &Properties, news: &[News]) -> Result<(), Stop> {
        news.iter().try_for_each(|one| {
            self.terminal.note(&match self.is_json {
                true => one.json(end).to_string(),
                false => one.text(&end.url),
            })
        })
    }

    /// Shows the progress now and then, and reports news of several peers.
    pub(super) fn look(&mut self, end: &mut impl Endpoint) -> Result<(), Stop> {
        let now = self.clock.now();
        if now.since(self.looked) >= SLICE {
            self.looked = now;
            match end.is_many() {
                true => self.tell(end)?,
                false => self.tell_connection(&end.properties())?,
            }
        }
        let is_due = |at: Tick| now.since(at) >= REPORTED_EVERY;
        if self.unreported.is_some() && self.reported.is_none_or(is_due) {
            self.report_lost(&end.properties().url)?;
        }
        self.show(end);
        Ok(())
    }

    /// Reports that the disk of the journal is full, and that it has room again.
    fn tell_disk(&mut self, url: &str, error: Option<&JournalError>) -> Result<(), Stop> {
        let is_full = error.is_some();
        if std::mem::replace(&mut self.is_disk_full, is_full) == is_full {
            return Ok(());
        }
        let event = match is_full {
            true => "stream-disk-full",
            false => "stream-disk-back",
        };
        if self.is_json {
            let mut object = Object::new();
            object.put("event", event);
            object.put("url", url);
            if let Some(error) = error {
                object.put("message", error.to_string());
            }
            return self.terminal.note(&object.into_json().to_string());
        }
        self.terminal.note(&match error {
            Some(error) => format!("{url} waits: {error}"),
            None => format!("{url} goes on: the disk of the journal takes elements again"),
        })
    }

    /// Reports that the connection with the only peer was lost, and that it is back.
    fn tell_connection(&mut self, found: &Properties) -> Result<(), Stop> {
        let before = self.connection;
        let outages = found.outages();
        let is_away = !found.is_connected && outages > 0;
        self.connection = Reported { outages, is_away };
        // A connection that was lost and restored in between counts as well. A stream that has
        // ended reports that itself.
        let is_lost = outages > before.outages && found.fault.is_none();
        if is_lost {
            self.tell_lost_connection(found)?;
        }
        if (is_lost || before.is_away) && !is_away {
            let peer = found.peer.as_deref().unwrap_or_default();
            if self.is_json {
                let mut object = Object::new();
                object.put("event", "stream-connected");
                object.put("url", found.url.as_str());
                object.put("peer", peer);
                object.put("transport", found.transport.unwrap_or("?"));
                object.put("type", found.data_type.to_string());
                return self.terminal.note(&object.into_json().to_string());
            }
            let line = format!("{} connected again with {peer}", found.url);
            return self.terminal.note(&line);
        }
        Ok(())
    }

    fn tell_lost_connection(&self, found: &Properties) -> Result<(), Stop> {
        let peer = found.peer.as_deref().unwrap_or_default();
        let cause = found.last_disconnect.as_ref().map(ToString::to_string);
        if self.is_json {
            let mut object = Object::new();
            object.put("event", "stream-disconnected");
            object.put("url", found.url.as_str());
            object.put("peer", peer);
            if let Some(cause) = cause {
                object.put("message", cause);
            }
            return self.terminal.note(&object.into_json().to_string());
        }
        let cause = cause.map_or(String::new(), |cause| format!(" ({cause})"));
        let goes_on = match found.is_writer {
            true => "what is written is kept, until the buffer is full",
            false => "what has arrived is read",
        };
        self.terminal.note(&format!(
            "{}: connection with {peer} lost{cause}; {goes_on}",
            found.url
        ))
    }

    /// Repeats `attempt`, which waits for the time it is given, until it has an answer, Ctrl-C was
    /// pressed, or the user's timeout has passed.
    pub(super) fn patiently<E: Endpoint, R>(
        &mut self,
        end: &mut E,
        mut attempt: impl FnMut(&mut E, Duration) -> Result<R, Halt>,
    ) -> Result<R, Halt> {
        let since = self.clock.now();
        loop {
            if self.is_interrupted() {
                return Err(Halt::Interrupted);
            }
            let what = match attempt(end, SLICE) {
                Err(Halt::Stream(StreamError::Timeout { what, .. })) => what,
                Err(Halt::Stream(StreamError::Journal(error))) if error.is_passing() => {
                    self.tell_disk(&end.properties().url, Some(&error))?;
                    self.interrupted.wait(SLICE);
                    "the disk of the journal accepts no data"
                }
                Err(Halt::Stream(StreamError::Lost { elements })) => {
                    self.note_lost(elements);
                    self.look(end)?;
                    continue;
                }
                result => {
                    if result.is_ok() && self.is_disk_full {
                        self.tell_disk(&end.properties().url, None)?;
                    }
                    return result;
                }
            };
            let waited = self.clock.now().since(since);
            if let Some(timeout) = self.limit.filter(|limit| waited >= *limit) {
                return Err(StreamError::Timeout { timeout, what }.into());
            }
            self.look(end)?;
        }
    }

    /// Notes that the writer has dropped elements, which are missing here.
    fn note_lost(&mut self, elements: u64) {
        self.lost += elements;
        let gaps = self.unreported.get_or_insert(Gaps {
            before: self.moved.elements,
            elements: 0,
            places: 0,
        });
        gaps.elements += elements;
        gaps.places += 1;
    }

    /// Reports the losses not reported yet.
    pub(super) fn report_lost(&mut self, url: &str) -> Result<(), Stop> {
        let Some(gaps) = self.unreported.take() else {
            return Ok(());
        };
        self.reported = Some(self.clock.now());
        let Gaps {
            before,
            elements,
            places,
        } = gaps;
        if self.is_json {
            let mut object = Object::new();
            object.put("event", "stream-lost");
            object.put("url", url);
            object.put("before", before);
            object.put("elements", elements);
            object.put("places", places);
            return self.terminal.note(&object.into_json().to_string());
        }
        let at = match places {
            1 => String::new(),
            places => format!(" at {places} places"),
        };
        self.terminal.note(&format!(
            "{} missing behind the first {before}{at}: this end was too slow for its writer, which \
             does not wait",
            counted(elements, "element")
        ))
    }

    /// Updates the progress display.
    fn show(&mut self, end: &mut impl Endpoint) {
        if !self.terminal.shows_progress() {
            return;
        }
        let now = self.clock.now();
        let (at, before) = self.shown;
        let elapsed = now.since(at);
        if elapsed < SHOWN_EVERY {
            return;
        }
        let moved = self.moved;
        self.shown = (now, moved);
        let found = end.properties();
        let rate = per_second(moved.bytes.saturating_sub(before.bytes), elapsed);
        let filled = found.in_buffer.saturating_mul(100) / found.capacity.max(1);
        let state = match found.away_for {
            Some(away) => format!(" · away for {:.0} s", away.as_secs_f64()),
            None => String::new(),
        };
        self.terminal.progress(&format!(
            "{} · {} · {} · buffer {filled} %{}{state}",
            counted(moved.elements, "element"),
            bytes_text(moved.bytes as f64),
            rate_text(rate),
            end.peers(),
        ));
    }

    /// Prints the summary to standard error. `did` is what was done with the elements; `rest` is
    /// additional text for people and numbers for programs.
    pub(super) fn sum_up(
        &self,
        did: &'static str,
        end: &Properties,
        rest: (String, Vec<(&'static str, u64)>),
    ) -> Result<(), Stop> {
        let elapsed = self.clock.now().since(self.started);
        let Moved { elements, bytes } = self.moved;
        let (sentence, numbers) = rest;
        if self.is_json {
            let mut object = Object::new();
            object.put("event", did);
            object.put("url", end.url.as_str());
            object.put("elements", elements);
            object.put("bytes", bytes);
            object.put("seconds", elapsed.as_secs_f64());
            object.put("disconnections", end.outages());
            for (key, number) in numbers {
                object.put(key, number);
            }
            return self.terminal.note(&object.into_json().to_string());
        }
        let cuts = match end.outages() {
            0 => String::new(),
            count => format!(", {}", counted(count, "disconnection")),
        };
        self.terminal.note(&format!(
            "{} {did} ({}) in {:.3} s: {:.0} elements/s, {}{cuts}{sentence}",
            counted(elements, "element"),
            bytes_text(bytes as f64),
            elapsed.as_secs_f64(),
            per_second(elements, elapsed),
            rate_text(per_second(bytes, elapsed)),
        ))
    }
}
