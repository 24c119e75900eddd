//! How a command that moves elements waits, shows how it is doing, and sums up.

use std::time::Duration;

use trunkline::stream::{Properties, StreamError};
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

/// How long a wait lasts before somebody looks whether Ctrl-C was pressed.
pub(super) const SLICE: Duration = Duration::from_millis(200);

/// How often the progress is renewed.
const SHOWN_EVERY: Duration = Duration::from_millis(500);

/// Why the elements do not go on.
#[derive(Debug)]
pub(super) enum Halt {
    /// Ctrl-C.
    Interrupted,
    /// The stream.
    Stream(StreamError),
    /// Anything else.
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

/// What has moved so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) elements: u64,
    /// As they lie in the stream.
    pub(super) bytes: u64,
}

/// The waits of a command.
#[derive(Debug)]
pub(super) struct Pace {
    terminal: Terminal,
    clock: Clock,
    is_json: bool,
    interrupted: Interrupted,
    /// How long one step may take; `None`: for ever.
    limit: Option<Duration>,
    started: Tick,
    shown: (Tick, Moved),
    /// When it was last asked what has become of several peers.
    looked: Tick,
    pub(super) moved: Moved,
    /// Elements that a writer has dropped.
    pub(super) lost: u64,
}

impl Pace {
    /// From now on Ctrl-C ends the command in order.
    pub(super) fn new(context: &Context, interrupted: Interrupted) -> Self {
        interrupted.end_in_order();
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
        }
    }

    /// Whether Ctrl-C was pressed.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.is_so()
    }

    /// Says with whom the end is connected; of one with a journal, how far its stream is.
    pub(super) fn met(&self, end: &mut impl Endpoint, has_journal: bool) -> Result<(), Stop> {
        if end.is_many() {
            return self.tell(end);
        }
        let found = end.properties();
        if has_journal {
            self.resumed(&found)?;
        }
        if !found.is_connected && found.disconnections == 0 {
            // It goes on without waiting for its peer.
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

    /// Says what has become of several peers.
    pub(super) fn tell(&self, end: &mut impl Endpoint) -> Result<(), Stop> {
        let news = end.news();
        self.tell_news(&end.properties(), &news)
    }

    /// The same of an end that was let go.
    pub(super) fn tell_news(&self, end: &Properties, news: &[News]) -> Result<(), Stop> {
        news.iter().try_for_each(|one| {
            self.terminal.note(&match self.is_json {
                true => one.json(end).to_string(),
                false => one.text(&end.url),
            })
        })
    }

    /// Says now and then how it goes, and what has become of several peers.
    pub(super) fn look(&mut self, end: &mut impl Endpoint) -> Result<(), Stop> {
        let now = self.clock.now();
        if end.is_many() && now.since(self.looked) >= SLICE {
            self.looked = now;
            self.tell(end)?;
        }
        self.show(end);
        Ok(())
    }

    /// Repeats `attempt`, which waits for as long as it is told, until it has an answer, Ctrl-C was
    /// pressed, or it has waited for as long as the user waits.
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
                Err(Halt::Stream(StreamError::Lost { elements })) => {
                    self.note_lost(end, elements)?;
                    continue;
                }
                result => return result,
            };
            let waited = self.clock.now().since(since);
            if let Some(timeout) = self.limit.filter(|limit| waited >= *limit) {
                return Err(StreamError::Timeout { timeout, what }.into());
            }
            self.look(end)?;
        }
    }

    /// Says where elements are missing that the writer has dropped.
    fn note_lost(&mut self, end: &impl Endpoint, elements: u64) -> Result<(), Stop> {
        self.lost += elements;
        let before = self.moved.elements;
        if self.is_json {
            let mut object = Object::new();
            object.put("event", "stream-lost");
            object.put("url", end.properties().url);
            object.put("before", before);
            object.put("elements", elements);
            return self.terminal.note(&object.into_json().to_string());
        }
        self.terminal.note(&format!(
            "{} missing behind the first {before}: this end was too slow for its writer, which does \
             not wait",
            counted(elements, "element")
        ))
    }

    /// Renews the progress, where somebody looks at it.
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

    /// Sums up on standard error. `did`: what was done with the elements; `rest`: what else there
    /// is to say of them, for people and for programs.
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
            object.put("disconnections", end.disconnections);
            for (key, number) in numbers {
                object.put(key, number);
            }
            return self.terminal.note(&object.into_json().to_string());
        }
        let cuts = match end.disconnections {
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
