//! Implements the byte-level core that all kinds of writers with several readers share.

use std::sync::Arc;
use std::time::Duration;

use trunkline_net::Clock;
use trunkline_proto::message::stream::Until;
use trunkline_proto::stream::ElementForm;
use trunkline_ring::{ElementCursor, ElementProducer, RingStart};

use super::hub::{Hub, Lane};
use super::member::{PeerStatus, Undelivered};
use super::options::Policy;
use super::readers::{Readers, undelivered};
use crate::bytes::{CLOSE_TIMEOUT, NOT_RECEIVED_IN_TIME, PANICKED};
use crate::directory::Registration;
use crate::end::{BellLink, GATHER_BYTES, KeepFrom, LaneEnd, StreamEndpoint, boundary_at_or_after};
use crate::error::StreamError;
use crate::handle::Environment;
use crate::properties::{Monitor, Properties};
use crate::wait::{Blocking, Waiter, block};

/// Maximum number of attempts to make room before waiting for room. An attempt fails if a reader
/// joins at the same time, because that reader keeps the current elements.
const MAKE_ROOM_ATTEMPTS_MAX: usize = 64;

pub(crate) struct FanOutCore {
    pub(crate) hub: Arc<Hub<Readers>>,
    pub(crate) bell_link: Arc<BellLink>,
    pub(crate) ring: ElementProducer,
    pub(crate) form: ElementForm,
    pub(crate) policy: Policy,
    /// Bytes written since the lanes last polled the ring.
    pub(crate) unsent: u64,
    /// Length of the longest element known to fit all buffers.
    pub(crate) longest_checked: usize,
    /// Held for as long as the endpoint exists.
    pub(crate) registration: Option<Registration>,
}

impl FanOutCore {
    pub(crate) fn monitor(&self) -> Monitor {
        let hub = self.hub.clone();
        Monitor::new(move || hub.properties())
    }

    pub(crate) fn properties(&self) -> Properties {
        self.hub.properties()
    }

    pub(crate) fn capacity(&self) -> usize {
        // The capacity was configured as a `usize`.
        usize::try_from(self.ring.shape().capacity()).unwrap_or(usize::MAX)
    }

    pub(crate) fn room(&mut self) -> usize {
        // Only this program can write to the ring's memory, so the positions are valid.
        let (_, elements) = self.ring.room().unwrap_or((0, 0));
        usize::try_from(elements).unwrap_or(usize::MAX)
    }

    /// # Errors
    /// An element with its length prefix is longer than a buffer.
    pub(crate) fn check_element(&mut self, bytes: usize) -> Result<(), StreamError> {
        if bytes <= self.longest_checked || self.form != ElementForm::Variable {
            return Ok(());
        }
        let max = self.hub.element_bytes_max(bytes as u64);
        if bytes as u64 > max {
            return Err(StreamError::TooLong { bytes, max });
        }
        self.longest_checked = bytes;
        Ok(())
    }

    /// Writes `elements` elements from `bytes`: all of them, or none.
    pub(crate) async fn write(
        &mut self,
        waiter: &impl Waiter,
        bytes: &[u8],
        elements: usize,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.wait_for_room(waiter, bytes.len(), elements, timeout)
            .await?;
        // Only this program can write to the ring's memory, so the positions are valid.
        let is_pushed = self.ring.push(bytes, elements as u64);
        debug_assert_eq!(is_pushed.ok(), Some(true));
        self.after_write(bytes.len() as u64);
        Ok(())
    }

    /// Returns the memory for the next elements; there must be room for them.
    pub(crate) fn free_space(&mut self, bytes: usize) -> &mut [u8] {
        let position = self.ring.written();
        // The memory is mirrored: the space is in one piece, aligned to the element's size.
        let space = self.ring.free_at(position, bytes);
        space.map(|[piece, _]| piece).unwrap_or_default()
    }

    pub(crate) fn commit(&mut self, bytes: usize, elements: usize) {
        self.ring.commit(bytes as u64, elements as u64);
        self.after_write(bytes as u64);
    }

    /// Called after `bytes` bytes were added to the ring; makes sure that they are sent.
    fn after_write(&mut self, bytes: u64) {
        self.unsent += bytes;
        if self.ring.must_wake_unfenced() {
            self.for_each_lane(|end| end.inner.wake());
        } else if self.unsent >= GATHER_BYTES {
            // Accessing an endpoint sends all output that is due.
            self.for_each_lane(|_| ());
        }
    }

    fn for_each_lane(&mut self, mut f: impl FnMut(&mut StreamEndpoint<LaneEnd>)) {
        self.unsent = 0;
        for lane in self.hub.current_lanes() {
            lane.link.with(|end, _, _| f(end));
        }
    }

    fn has_room(&mut self, bytes: usize, elements: usize) -> bool {
        let has_room = self.ring.has_room(bytes as u64, elements as u64);
        has_room.unwrap_or(false)
    }

    /// Waits until there is room for this many bytes and elements, or makes room for them.
    pub(crate) async fn wait_for_room(
        &mut self,
        waiter: &impl Waiter,
        bytes: usize,
        elements: usize,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        let shape = self.ring.shape();
        if elements as u64 > shape.capacity() || bytes > shape.bytes_max() {
            return Err(match elements {
                1 => StreamError::TooLong {
                    bytes,
                    max: shape.bytes_max() as u64,
                },
                asked => StreamError::TooMany {
                    asked,
                    capacity: self.capacity(),
                },
            });
        }
        if self.has_room(bytes, elements) {
            return Ok(());
        }
        if let Policy::Quota(quota) = self.policy {
            for _ in 0..MAKE_ROOM_ATTEMPTS_MAX {
                self.make_room(bytes, elements, quota);
                if self.has_room(bytes, elements) {
                    return Ok(());
                }
            }
        }
        let deadline = Environment::Real.deadline(timeout);
        let mut watch = self.hub.bell.watch();
        self.set_short_of_room(true);
        let mut found = true;
        while found && !self.has_room(bytes, elements) {
            found = watch.wait_for_ring(waiter, &self.bell_link, deadline).await;
        }
        self.set_short_of_room(false);
        match found || self.has_room(bytes, elements) {
            true => Ok(()),
            false => Err(StreamError::Timeout {
                timeout: timeout.unwrap_or_default(),
                what: "the slowest reader has not made room for all of the elements",
            }),
        }
    }

    fn set_short_of_room(&mut self, is_short: bool) {
        self.for_each_lane(|end| {
            end.poll_ring();
            end.link.set_short_of_room(is_short);
        });
    }

    /// Drops the oldest elements of readers that are too slow.
    fn make_room(&mut self, bytes: usize, elements: usize, quota: u64) {
        let shape = self.ring.shape();
        let (written, count) = (self.ring.written(), self.ring.written_elements());
        let capacity = shape.capacity();
        let from = KeepFrom {
            position: (written + bytes as u64).saturating_sub(shape.bytes_max() as u64),
            elements: (count + elements as u64)
                .saturating_sub(capacity)
                .max(count.saturating_sub(quota.min(capacity))),
        };
        self.for_each_lane(|end| {
            end.poll_ring();
            end.inner.keep_from(&mut end.link, from);
        });
        // If there are no readers, the elements can be dropped.
        let (mut cursor, others) = self.hub.lanes.cursors.join();
        if others == 0 && cursor.written().is_ok() {
            let place = self.place(&cursor, from);
            cursor.pass(place.position, place.elements);
        }
    }

    fn place(&self, cursor: &ElementCursor, from: KeepFrom) -> RingStart {
        boundary_at_or_after(cursor, self.form, cursor.place(), from)
    }

    /// Sends all written elements now, and waits until they have reached the stage `until` at every
    /// current reader, or were dropped for that reader.
    pub(crate) async fn flush(
        &mut self,
        waiter: &impl Waiter,
        until: Until,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.unsent = 0;
        let lanes = self.hub.current_lanes();
        let mut watch = self.hub.bell.watch();
        for lane in &lanes {
            let has_journal = lane.link.with(|end, _, _| {
                end.poll_ring();
                end.link.mark(until);
                end.link.peer().is_some_and(|peer| peer.has_journal)
            });
            if until == Until::Durable && !has_journal {
                return Err(StreamError::NoJournal);
            }
        }
        let is_reached = |lane: &Lane<LaneEnd>| {
            lane.is_over() || lane.link.with(|end, _, _| end.link.is_mark_reached(until))
        };
        let deadline = Environment::Real.deadline(timeout);
        loop {
            if lanes.iter().all(is_reached) || timeout == Some(Duration::ZERO) {
                return Ok(());
            }
            if !watch.wait_for_ring(waiter, &self.bell_link, deadline).await {
                return Err(StreamError::Timeout {
                    timeout: timeout.unwrap_or_default(),
                    what: "not all elements have reached the requested state at every reader",
                });
            }
        }
    }

    /// Returns the readers that are connected or may reconnect.
    pub(crate) fn peers(&self) -> Vec<PeerStatus> {
        let status_of = |lane: &Lane<LaneEnd>| {
            lane.link.with(|end, _, _| {
                end.poll_ring();
                PeerStatus {
                    member: lane.member.clone(),
                    is_connected: end.link.is_connected(),
                    waiting: end.inner.left(&end.link).elements,
                    lost: end.link.lost(),
                }
            })
        };
        let lanes = self.hub.current_lanes();
        lanes.iter().map(status_of).collect()
    }

    /// Returns the readers that have left since the last call.
    pub(crate) fn departed(&self) -> Vec<Undelivered> {
        // Moves the readers that have left to `departed`.
        drop(self.hub.current_lanes());
        self.hub.lanes.departed.take()
    }

    /// Ends the stream, waits up to `timeout` for every reader to receive everything, and reports
    /// how many elements each has not received.
    pub(crate) async fn close(
        &mut self,
        waiter: &impl Waiter,
        timeout: Option<Duration>,
    ) -> Vec<Undelivered> {
        self.hub.close();
        let lanes = self.hub.current_lanes();
        for lane in &lanes {
            lane.link.with(|end, _, _| {
                end.poll_ring();
                end.link.close();
            });
        }
        self.wait_closed(waiter, &lanes, timeout).await;
        // The remaining elements of a slow reader are discarded, and the reader is notified.
        let slow = lanes.iter().filter(|lane| !is_closed(lane)).cloned();
        let slow: Vec<_> = slow.collect();
        self.abort_lanes(waiter, &slow, NOT_RECEIVED_IN_TIME).await;
        self.end(&lanes)
    }

    pub(crate) async fn abort(&mut self, waiter: &impl Waiter, reason: &str) -> Vec<Undelivered> {
        self.hub.close();
        let lanes = self.hub.current_lanes();
        self.abort_lanes(waiter, &lanes, reason).await;
        self.end(&lanes)
    }

    async fn abort_lanes(&mut self, waiter: &impl Waiter, lanes: &[Lane<LaneEnd>], reason: &str) {
        for lane in lanes {
            lane.link.with(|end, _, _| {
                end.poll_ring();
                end.link.abort(reason);
            });
        }
        // A lane is closed once the reader has reported its position, or the connection is gone.
        let timeout = Some(Duration::from_secs(1));
        self.wait_closed(waiter, lanes, timeout).await;
    }

    fn end(&mut self, lanes: &[Lane<LaneEnd>]) -> Vec<Undelivered> {
        let now = Clock::new().now();
        let undelivered = lanes.iter().map(|lane| {
            let undelivered = undelivered(lane);
            lane.link.close(now);
            undelivered
        });
        let undelivered = undelivered.collect();
        self.registration = None;
        self.bell_link.close(now);
        undelivered
    }

    async fn wait_closed(
        // Mutable, so that the future can move to another thread.
        &mut self,
        waiter: &impl Waiter,
        lanes: &[Lane<LaneEnd>],
        timeout: Option<Duration>,
    ) {
        let deadline = Environment::Real.deadline(timeout);
        let mut watch = self.hub.bell.watch();
        while !lanes.iter().all(is_closed) {
            if !watch.wait_for_ring(waiter, &self.bell_link, deadline).await {
                return;
            }
        }
    }
}

fn is_closed(lane: &Lane<LaneEnd>) -> bool {
    lane.link.with(|end, _, _| end.link.is_closed())
}

impl Drop for FanOutCore {
    fn drop(&mut self) {
        if self.bell_link.is_closed() {
        } else if std::thread::panicking() {
            // The stream is incomplete, and the readers must not treat it as complete.
            block(self.abort(&Blocking, PANICKED));
        } else {
            block(self.close(&Blocking, Some(CLOSE_TIMEOUT)));
        }
    }
}
