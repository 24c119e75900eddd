//! Waiting, progress and summary of a command that moves elements.

use std::time::Duration;

use trunkline::stream::{JournalError, Properties, StreamError};
use trunkline_types::Tick;

use super::events::{StreamEvent, Transferred};
use super::peers::{Endpoint, PeerEvent};
use super::units::{bytes_text, rate_text};
use crate::verbs::progress::Meter;
use crate::{CliError, Context, counted};

/// Maximum wait between two checks for Ctrl-C.
pub(super) const SLICE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) enum Halt {
    Interrupted,
    Stream(StreamError),
    Stop(CliError),
}

impl From<StreamError> for Halt {
    fn from(error: StreamError) -> Self {
        Halt::Stream(error)
    }
}

impl From<CliError> for Halt {
    fn from(error: CliError) -> Self {
        Halt::Stop(error)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) elements: u64,
    /// Size of the elements as encoded in the stream.
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Transfer<'a> {
    pub(super) context: &'a Context,
    /// Timeout of one step; `None` waits indefinitely.
    timeout: Option<Duration>,
    started: Tick,
    meter: Meter,
    /// Time of the last check for events of the peers.
    last_poll: Tick,
    pub(super) moved: Moved,
    /// Elements dropped by a writer.
    pub(super) lost: u64,
    unreported: Option<Gaps>,
    last_report: Option<Tick>,
    /// Number of lost connections with the only peer at the last check, and whether it was
    /// disconnected then.
    connection: (u64, bool),
    is_disk_full: bool,
}

#[derive(Clone, Copy, Debug)]
struct Gaps {
    /// Elements read before the first gap.
    before: u64,
    /// Elements missing in all gaps.
    elements: u64,
    places: u64,
}

/// Minimum interval between two reports of losses, because a slow reader may have hundreds per second.
const REPORT_INTERVAL_MIN: Duration = Duration::from_secs(1);

impl<'a> Transfer<'a> {
    /// From here on, the command handles the first two presses of Ctrl-C itself.
    pub(super) fn new(context: &'a Context) -> Self {
        context.interrupted.handle_presses(2);
        let now = context.clock.now();
        Self {
            context,
            timeout: context.settings.explicit_timeout(),
            started: now,
            meter: Meter::new(now),
            last_poll: now,
            moved: Moved::default(),
            lost: 0,
            unreported: None,
            last_report: None,
            connection: (0, false),
            is_disk_full: false,
        }
    }

    pub(super) fn report_delivering(
        &self,
        end: &Properties,
        limit: Duration,
    ) -> Result<(), CliError> {
        self.context.notify(&StreamEvent::StreamDelivering {
            url: end.url.clone(),
            elements: end.in_buffer,
            limit,
        })
    }

    /// Reports the peer of the endpoint and, with a journal, the position in its stream.
    pub(super) fn report_start(
        &self,
        end: &mut impl Endpoint,
        has_journal: bool,
    ) -> Result<(), CliError> {
        if end.is_many() {
            return self.report_peers(end);
        }
        let found = end.properties();
        if has_journal {
            self.context.notify(&StreamEvent::StreamJournal {
                url: found.url.clone(),
                elements: found.total,
            })?;
        }
        if !found.is_connected && found.disconnections == 0 {
            // With a journal, the endpoint continues without waiting for its peer.
            return Ok(());
        }
        self.report_connected(&found, false)
    }

    fn report_connected(&self, found: &Properties, is_again: bool) -> Result<(), CliError> {
        self.context.notify(&StreamEvent::StreamConnected {
            url: found.url.clone(),
            peer: found.peer.clone().unwrap_or_default(),
            transport: Some(found.transport.unwrap_or("?")),
            data_type: found.data_type.to_string(),
            same_name: false,
            is_again,
        })
    }

    pub(super) fn report_peers(&self, end: &mut impl Endpoint) -> Result<(), CliError> {
        let events = end.peer_events();
        self.report_peer_events(&end.properties(), &events)
    }

    pub(super) fn report_peer_events(
        &self,
        end: &Properties,
        events: &[PeerEvent],
    ) -> Result<(), CliError> {
        events
            .iter()
            .try_for_each(|event| self.context.notify(&event.event(&end.url, &end.data_type)))
    }

    /// Shows the progress at intervals, and reports losses and changes of the connections.
    pub(super) fn poll(&mut self, end: &mut impl Endpoint) -> Result<(), CliError> {
        let now = self.context.clock.now();
        if now.since(self.last_poll) >= SLICE {
            self.last_poll = now;
            match end.is_many() {
                true => self.report_peers(end)?,
                false => self.report_connection(&end.properties())?,
            }
        }
        let is_due = |time: Tick| now.since(time) >= REPORT_INTERVAL_MIN;
        if self.unreported.is_some() && self.last_report.is_none_or(is_due) {
            self.report_lost(&end.properties().url)?;
        }
        self.show(end);
        Ok(())
    }

    fn report_disk(&mut self, url: &str, error: Option<&JournalError>) -> Result<(), CliError> {
        let is_full = error.is_some();
        if std::mem::replace(&mut self.is_disk_full, is_full) == is_full {
            return Ok(());
        }
        let url = url.to_owned();
        self.context.notify(&match error {
            Some(error) => StreamEvent::StreamDiskFull {
                url,
                message: error.to_string(),
            },
            None => StreamEvent::StreamDiskBack { url },
        })
    }

    fn report_connection(&mut self, found: &Properties) -> Result<(), CliError> {
        let (outages_before, was_disconnected) = self.connection;
        let outages = found.outages();
        let is_disconnected = !found.is_connected && outages > 0;
        self.connection = (outages, is_disconnected);
        // This includes a connection that was lost and restored since the last check. A stream that
        // has ended reports that itself.
        let is_lost = outages > outages_before && found.fault.is_none();
        if is_lost {
            self.context.notify(&StreamEvent::StreamDisconnected {
                url: found.url.clone(),
                peer: found.peer.clone().unwrap_or_default(),
                message: found.last_disconnect.as_ref().map(ToString::to_string),
                is_writer: found.is_writer,
            })?;
        }
        match (is_lost || was_disconnected) && !is_disconnected {
            true => self.report_connected(found, true),
            false => Ok(()),
        }
    }

    /// Repeats `attempt`, which waits at most for the given time, until it returns a result, Ctrl-C is
    /// pressed, or the user's timeout expires.
    pub(super) fn retry_until_done<E: Endpoint, R>(
        &mut self,
        end: &mut E,
        mut attempt: impl FnMut(&mut E, Duration) -> Result<R, Halt>,
    ) -> Result<R, Halt> {
        let started_at = self.context.clock.now();
        loop {
            if self.context.interrupted.is_pressed() {
                return Err(Halt::Interrupted);
            }
            let operation = match attempt(end, SLICE) {
                Err(Halt::Stream(StreamError::Timeout { what, .. })) => what,
                Err(Halt::Stream(StreamError::Journal(error))) if error.is_passing() => {
                    self.report_disk(&end.properties().url, Some(&error))?;
                    self.context.interrupted.wait(SLICE);
                    "the disk of the journal accepts no data"
                }
                Err(Halt::Stream(StreamError::Lost { elements })) => {
                    self.note_lost(elements);
                    self.poll(end)?;
                    continue;
                }
                result => {
                    if result.is_ok() && self.is_disk_full {
                        self.report_disk(&end.properties().url, None)?;
                    }
                    return result;
                }
            };
            let waited = self.context.clock.now().since(started_at);
            if let Some(timeout) = self.timeout.filter(|timeout| waited >= *timeout) {
                return Err(StreamError::Timeout {
                    timeout,
                    what: operation,
                }
                .into());
            }
            self.poll(end)?;
        }
    }

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

    pub(super) fn report_lost(&mut self, url: &str) -> Result<(), CliError> {
        let Some(gaps) = self.unreported.take() else {
            return Ok(());
        };
        self.last_report = Some(self.context.clock.now());
        self.context.notify(&StreamEvent::StreamLost {
            url: url.to_owned(),
            before: gaps.before,
            elements: gaps.elements,
            places: gaps.places,
        })
    }

    fn show(&mut self, end: &mut impl Endpoint) {
        let (now, terminal) = (self.context.clock.now(), &self.context.terminal);
        let moved = self.moved;
        let Some(rate) = self.meter.rate(now, moved.bytes, terminal) else {
            return;
        };
        let found = end.properties();
        let filled = found.in_buffer.saturating_mul(100) / found.capacity.max(1);
        let state = match found.away_for {
            Some(away) => format!(" · disconnected for {:.0} s", away.as_secs_f64()),
            None => String::new(),
        };
        terminal.progress(&format!(
            "{} · {} · {} · buffer {filled} %{}{state}",
            counted(moved.elements, "element"),
            bytes_text(moved.bytes as f64),
            rate_text(rate),
            end.peers(),
        ));
    }

    pub(super) fn transferred(&self, end: &Properties) -> Transferred {
        Transferred {
            url: end.url.clone(),
            elements: self.moved.elements,
            bytes: self.moved.bytes,
            seconds: self.context.clock.now().since(self.started).into(),
            disconnections: end.outages(),
        }
    }
}
