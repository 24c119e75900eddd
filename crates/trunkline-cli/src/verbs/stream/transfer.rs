//! Provides the waiting, the progress display and the summary for commands that transfer elements.

use std::time::Duration;

use trunkline::stream::{JournalError, Properties, StreamError};
use trunkline_types::Tick;

use super::events::{StreamEvent, Transferred};
use super::peers::{Endpoint, PeerEvent};
use super::units::{bytes_text, rate_text};
use crate::verbs::progress::Meter;
use crate::{CliError, Context, counted};

/// Maximum wait between two checks for Ctrl-C.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Reason why a command stops transferring elements.
#[derive(Debug)]
pub(super) enum Halt {
    /// The user pressed Ctrl-C.
    Interrupted,
    Stream(StreamError),
    /// An error outside the stream, such as in the input or output.
    Command(CliError),
}

impl From<StreamError> for Halt {
    fn from(error: StreamError) -> Self {
        Halt::Stream(error)
    }
}

impl From<CliError> for Halt {
    fn from(error: CliError) -> Self {
        Halt::Command(error)
    }
}

/// Amount of data transferred so far.
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
    /// Number of elements that a writer dropped.
    pub(super) lost: u64,
    /// Gaps that were not reported yet.
    unreported: Option<Gaps>,
    /// Time of the last report about gaps.
    last_report: Option<Tick>,
    /// Number of lost connections with the only peer at the last check, and whether it was
    /// disconnected then.
    connection: (u64, bool),
    is_disk_full: bool,
}

#[derive(Clone, Copy, Debug)]
struct Gaps {
    /// Number of elements read before the first gap.
    before: u64,
    /// Number of missing elements in all gaps.
    elements: u64,
    /// Number of gaps.
    count: u64,
}

/// Minimum interval between two reports of losses, because a slow reader may have hundreds per second.
const REPORT_INTERVAL_MIN: Duration = Duration::from_secs(1);

impl<'a> Transfer<'a> {
    /// Begins a transfer. From here on, the command handles the first two presses of Ctrl-C itself.
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
        properties: &Properties,
        limit: Duration,
    ) -> Result<(), CliError> {
        self.context.notify(&StreamEvent::StreamDelivering {
            url: properties.url.clone(),
            elements: properties.in_buffer,
            limit,
        })
    }

    /// Reports the peer of the endpoint and, with a journal, the position in its stream.
    pub(super) fn report_start(
        &self,
        endpoint: &mut impl Endpoint,
        has_journal: bool,
    ) -> Result<(), CliError> {
        if endpoint.allows_many_peers() {
            return self.report_peers(endpoint);
        }
        let properties = endpoint.properties();
        if has_journal {
            self.context.notify(&StreamEvent::StreamJournal {
                url: properties.url.clone(),
                elements: properties.total,
            })?;
        }
        if !properties.is_connected && properties.disconnections == 0 {
            // With a journal, the endpoint continues without waiting for its peer.
            return Ok(());
        }
        self.report_connected(&properties, false)
    }

    fn report_connected(&self, properties: &Properties, is_again: bool) -> Result<(), CliError> {
        self.context.notify(&StreamEvent::StreamConnected {
            url: properties.url.clone(),
            peer: properties.peer.clone().unwrap_or_default(),
            transport: Some(properties.transport.unwrap_or("?")),
            data_type: properties.data_type.to_string(),
            same_name: false,
            is_again,
        })
    }

    pub(super) fn report_peers(&self, endpoint: &mut impl Endpoint) -> Result<(), CliError> {
        let events = endpoint.peer_events();
        self.report_peer_events(&endpoint.properties(), &events)
    }

    pub(super) fn report_peer_events(
        &self,
        properties: &Properties,
        events: &[PeerEvent],
    ) -> Result<(), CliError> {
        let (url, data_type) = (&properties.url, &properties.data_type);
        events
            .iter()
            .try_for_each(|event| self.context.notify(&event.event(url, data_type)))
    }

    /// Shows the progress at intervals, and reports losses and connection changes.
    pub(super) fn poll(&mut self, endpoint: &mut impl Endpoint) -> Result<(), CliError> {
        let now = self.context.clock.now();
        if now.since(self.last_poll) >= POLL_INTERVAL {
            self.last_poll = now;
            match endpoint.allows_many_peers() {
                true => self.report_peers(endpoint)?,
                false => self.report_connection(&endpoint.properties())?,
            }
        }
        let is_due = |time: Tick| now.since(time) >= REPORT_INTERVAL_MIN;
        if self.unreported.is_some() && self.last_report.is_none_or(is_due) {
            self.report_lost(&endpoint.properties().url)?;
        }
        self.show(endpoint);
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

    fn report_connection(&mut self, properties: &Properties) -> Result<(), CliError> {
        let (outages_before, was_disconnected) = self.connection;
        let outages = properties.outages();
        let is_disconnected = !properties.is_connected && outages > 0;
        self.connection = (outages, is_disconnected);
        // This includes a connection that was lost and restored since the last check. The failure of a
        // stream is reported separately.
        let is_lost = outages > outages_before && properties.fault.is_none();
        if is_lost {
            self.context.notify(&StreamEvent::StreamDisconnected {
                url: properties.url.clone(),
                peer: properties.peer.clone().unwrap_or_default(),
                message: properties.last_disconnect.as_ref().map(ToString::to_string),
                is_writer: properties.is_writer,
            })?;
        }
        match (is_lost || was_disconnected) && !is_disconnected {
            true => self.report_connected(properties, true),
            false => Ok(()),
        }
    }

    /// Repeats `attempt`, which waits at most for the given time, until it returns a result, Ctrl-C is
    /// pressed, or the user's timeout expires.
    pub(super) fn retry_until_done<E: Endpoint, R>(
        &mut self,
        endpoint: &mut E,
        mut attempt: impl FnMut(&mut E, Duration) -> Result<R, Halt>,
    ) -> Result<R, Halt> {
        let started_at = self.context.clock.now();
        loop {
            if self.context.interrupted.is_pressed() {
                return Err(Halt::Interrupted);
            }
            let operation = match attempt(endpoint, POLL_INTERVAL) {
                Err(Halt::Stream(StreamError::Timeout { what, .. })) => what,
                Err(Halt::Stream(StreamError::Journal(error))) if error.is_temporary() => {
                    self.report_disk(&endpoint.properties().url, Some(&error))?;
                    self.context.interrupted.wait(POLL_INTERVAL);
                    "the journal's disk is not accepting data"
                }
                Err(Halt::Stream(StreamError::Lost { elements })) => {
                    self.record_loss(elements);
                    self.poll(endpoint)?;
                    continue;
                }
                result => {
                    if result.is_ok() && self.is_disk_full {
                        self.report_disk(&endpoint.properties().url, None)?;
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
            self.poll(endpoint)?;
        }
    }

    fn record_loss(&mut self, elements: u64) {
        self.lost += elements;
        let gaps = self.unreported.get_or_insert(Gaps {
            before: self.moved.elements,
            elements: 0,
            count: 0,
        });
        gaps.elements += elements;
        gaps.count += 1;
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
            places: gaps.count,
        })
    }

    fn show(&mut self, endpoint: &mut impl Endpoint) {
        let (now, terminal) = (self.context.clock.now(), &self.context.terminal);
        let moved = self.moved;
        let Some(rate) = self.meter.rate(now, moved.bytes, terminal) else {
            return;
        };
        let properties = endpoint.properties();
        let filled = properties.in_buffer.saturating_mul(100) / properties.capacity.max(1);
        let state = match properties.away_for {
            Some(away) => format!(" · disconnected for {:.0} s", away.as_secs_f64()),
            None => String::new(),
        };
        terminal.progress(&format!(
            "{} · {} · {} · buffer {filled} %{}{state}",
            counted(moved.elements, "element"),
            bytes_text(moved.bytes as f64),
            rate_text(rate),
            endpoint.peers(),
        ));
    }

    pub(super) fn transferred(&self, properties: &Properties) -> Transferred {
        Transferred {
            url: properties.url.clone(),
            elements: self.moved.elements,
            bytes: self.moved.bytes,
            seconds: self.context.clock.now().since(self.started).into(),
            disconnections: properties.outages(),
        }
    }
}
