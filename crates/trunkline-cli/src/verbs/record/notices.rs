//! Notices during a recording, one line for each change. A log then shows a full disk, losses and a
//! missing file while something can still be done about them.

use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;
use trunkline::record::{Displaced, Room, RoomState};
use trunkline_types::Tick;

use super::disk::span_text;
use crate::output::json::Object;
use crate::problem::Stop;
use crate::terminal::{Mood, plain, shown};
use crate::verbs::Context;
use crate::verbs::stream::units::bytes_text;

/// Shortest time between two lines about losses or troubles that continue.
const SUMMED_EVERY: Duration = Duration::from_secs(1);

/// Current state of a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) displaced: Option<&'a Displaced>,
    pub(super) sums_displaced: Option<&'a Displaced>,
    pub(super) room: Room,
    /// Current failure of the file.
    pub(super) trouble: Option<&'a str>,
    /// `None`: the recording needs no engine.
    pub(super) is_connected: Option<bool>,
    pub(super) lost: u64,
}

/// The state that was reported last.
#[derive(Debug)]
pub(super) struct Notices {
    displaced: Option<Displaced>,
    sums_displaced: Option<Displaced>,
    room: RoomState,
    trouble: Option<String>,
    trouble_at: Option<Tick>,
    is_connected: Option<bool>,
    lost: u64,
    lost_at: Option<Tick>,
    /// Description of what happens to new data while the disk is full.
    when_full: &'static str,
}

/// One line, and its event name for programs.
struct Notice {
    event: &'static str,
    mood: Mood,
    message: String,
}

impl Notices {
    pub(super) fn new(when_full: &'static str) -> Self {
        Self {
            displaced: None,
            sums_displaced: None,
            room: RoomState::Enough,
            trouble: None,
            trouble_at: None,
            is_connected: None,
            lost: 0,
            lost_at: None,
            when_full,
        }
    }

    /// Reports each change once, and losses and troubles that continue at most once a second.
    pub(super) fn say(
        &mut self,
        seen: &Seen<'_>,
        path: &Path,
        now: Tick,
        context: &Context,
    ) -> Result<(), Stop> {
        for notice in self.changes(seen, now) {
            let Notice {
                event,
                mood,
                message,
            } = notice;
            let line = match context.settings.is_json() {
                true => json(event, path, &message, seen.lost).to_string(),
                false => {
                    let line = format!("*** {}: {}", shown(path), plain(&message));
                    context.terminal.error_paint(mood, &line)
                }
            };
            context.terminal.note(&line)?;
        }
        Ok(())
    }

    fn changes(&mut self, seen: &Seen<'_>, now: Tick) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mut say = |event, mood, message| {
            notices.push(Notice {
                event,
                mood,
                message,
            });
        };
        if self.displaced.as_ref() != seen.displaced {
            self.displaced = seen.displaced.cloned();
            match seen.displaced {
                Some(found) if found.is_removed() => {
                    say("removed", Mood::Bad, removed_text(found));
                }
                Some(found) => say("renamed", Mood::Bad, found.to_string()),
                None => say(
                    "found",
                    Mood::Plain,
                    "the file has its name again".to_owned(),
                ),
            }
        }
        if self.sums_displaced.as_ref() != seen.sums_displaced {
            self.sums_displaced = seen.sums_displaced.cloned();
            if let Some(found) = seen.sums_displaced {
                say("sums-displaced", Mood::Bad, found.to_string());
            }
        }
        if self.room != seen.room.state {
            self.room = seen.room.state;
            let left = left_text(seen.room);
            match seen.room.state {
                RoomState::Full => {
                    let full = format!("the disk is full; {}", self.when_full);
                    say("disk-full", Mood::Bad, full);
                }
                RoomState::Low => {
                    say(
                        "disk-low",
                        Mood::Uncertain,
                        format!("the disk is nearly full: {left}"),
                    );
                }
                _ => say(
                    "disk-ok",
                    Mood::Plain,
                    format!("the disk has free space again: {left}"),
                ),
            }
        }
        let is_of_place = seen.displaced.is_some_and(Displaced::is_removed);
        let trouble = seen.trouble.filter(|_| !is_of_place);
        if self.trouble.as_deref() != trouble && is_due(&mut self.trouble_at, now) {
            match trouble {
                Some(trouble) => say("trouble", Mood::Bad, trouble.to_owned()),
                None => say(
                    "trouble-over",
                    Mood::Plain,
                    "the file is written again".to_owned(),
                ),
            }
            self.trouble = trouble.map(str::to_owned);
        }
        if self.is_connected != seen.is_connected {
            match (self.is_connected, seen.is_connected) {
                (Some(true), Some(false)) => {
                    let text = "not connected to the engine; reconnecting".to_owned();
                    say("disconnected", Mood::Uncertain, text);
                }
                (Some(false), Some(true)) => {
                    let text = "connected to the engine".to_owned();
                    say("connected", Mood::Plain, text);
                }
                _ => {}
            }
            // Not being connected yet at the start is not a change.
            if self.is_connected.is_some() || seen.is_connected == Some(true) {
                self.is_connected = seen.is_connected;
            }
        }
        if seen.lost > self.lost && is_due(&mut self.lost_at, now) {
            let more = seen.lost - self.lost;
            let text = format!("{} lost, {more} of them since the last notice", seen.lost);
            say("losing", Mood::Bad, text);
            self.lost = seen.lost;
        }
        notices
    }
}

/// Returns true if enough time has passed for another line.
fn is_due(last: &mut Option<Tick>, now: Tick) -> bool {
    let is_due = last.is_none_or(|last| now.since(last) >= SUMMED_EVERY);
    if is_due {
        *last = Some(now);
    }
    is_due
}

/// Describes what a removed file means while the recording is running.
pub(super) fn removed_text(found: &Displaced) -> String {
    use trunkline::record::Whereabouts;
    match &found.now {
        Whereabouts::Removed {
            copy_from: Some(from),
        } => format!(
            "{found}, and its contents are lost when the recording ends; copy it from {} before \
             then",
            from.display()
        ),
        _ => format!("{found}, and its contents are lost"),
    }
}

/// Appends where displaced files are now, for people and for programs.
pub(super) fn sum_up(
    displaced: &[Option<&Displaced>],
    text: &mut String,
    object: &mut Object,
) -> bool {
    let found: Vec<String> = displaced
        .iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    for one in &found {
        text.push_str("; ");
        text.push_str(&plain(one));
    }
    let is_displaced = !found.is_empty();
    if is_displaced {
        object.put("displaced", found);
    }
    is_displaced
}

fn left_text(room: Room) -> String {
    let left = match room.bytes {
        Some(bytes) => format!("{} left", bytes_text(bytes as f64)),
        None => "the free space is unknown".to_owned(),
    };
    match room.full_in {
        Some(time) => format!("{left}, full in {}", span_text(time.as_secs_f64())),
        None => left,
    }
}

fn json(event: &'static str, path: &Path, message: &str, lost: u64) -> Json {
    let mut object = Object::new();
    object.put("event", event);
    object.put("file", path.display().to_string());
    object.put("message", message);
    object.put("lost", lost);
    object.into_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen<'a>() -> Seen<'a> {
        Seen {
            displaced: None,
            sums_displaced: None,
            room: Room::default(),
            trouble: None,
            is_connected: Some(true),
            lost: 0,
        }
    }

    fn events(sut: &mut Notices, seen: &Seen<'_>, milliseconds: u64) -> Vec<&'static str> {
        let now = Tick::from_nanos(milliseconds * 1_000_000);
        let changes = sut.changes(seen, now);
        changes.into_iter().map(|notice| notice.event).collect()
    }

    /// Behaviour: B-70.
    #[test]
    fn each_change_is_said_once_and_losses_at_most_once_a_second() {
        let mut sut = Notices::new("updates wait");
        assert!(events(&mut sut, &seen(), 0).is_empty());
        let mut full = seen();
        full.room.state = RoomState::Full;
        full.trouble = Some("no space");
        assert_eq!(events(&mut sut, &full, 10), ["disk-full", "trouble"]);
        assert!(events(&mut sut, &full, 20).is_empty());
        full.lost = 5;
        assert_eq!(events(&mut sut, &full, 30), ["losing"]);
        for at in (40..1_000).step_by(50) {
            full.lost += 1_000;
            assert!(events(&mut sut, &full, at).is_empty());
        }
        assert_eq!(events(&mut sut, &full, 1_040), ["losing"]);
        let mut over = seen();
        over.lost = full.lost;
        over.is_connected = Some(false);
        assert_eq!(
            events(&mut sut, &over, 2_000),
            ["disk-ok", "trouble-over", "disconnected"]
        );
        over.is_connected = Some(true);
        assert_eq!(events(&mut sut, &over, 2_010), ["connected"]);
    }
}
