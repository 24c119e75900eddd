//! Creates the lanes of a writer with several readers, and records the readers that have left.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use trunkline_net::Clock;
use trunkline_proto::stream::{ElementForm, LinkOptions, WriterLink};
use trunkline_ring::ElementCursors;

use super::hub::{Hub, Lane, Lanes};
use super::member::Undelivered;
use crate::end::{Bell, KeepFrom, LaneEnd, boundary_at_or_after};
use crate::properties::Properties;

/// Creates the lanes of a writer, each of which has a cursor in the writer's ring.
pub(crate) struct Readers {
    pub(crate) cursors: ElementCursors,
    pub(crate) form: ElementForm,
    pub(crate) quota: Option<u64>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) departed: Departed,
}

/// Readers that have left and have not been reported to the program yet; at most the last
/// `DEPARTED_MAX`.
#[derive(Default)]
pub(crate) struct Departed(Mutex<VecDeque<Undelivered>>);

const DEPARTED_MAX: usize = 64;

impl Departed {
    fn push(&self, undelivered: Undelivered) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= DEPARTED_MAX {
            all.pop_front();
        }
        all.push_back(undelivered);
    }

    pub(super) fn take(&self) -> Vec<Undelivered> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *all).into()
    }
}

impl Lanes for Readers {
    type End = LaneEnd;
    type ProgramPart = ();
    const REMOVE_WHEN_OVER: bool = true;
    const PEERS: &'static str = "readers";
    const HOLDS_BACK: bool = true;

    fn link(&self, options: LinkOptions) -> WriterLink {
        WriterLink::writer(options, Clock::new().now())
    }

    fn ends(&self) -> std::io::Result<(LaneEnd, ())> {
        let (mut cursor, others) = self.cursors.join();
        let written = cursor.written_elements().unwrap_or(0);
        let from = match self.quota {
            // Only the existing readers get earlier elements.
            _ if others > 0 => KeepFrom {
                position: cursor.written().unwrap_or(0),
                elements: 0,
            },
            Some(quota) => KeepFrom {
                position: 0,
                elements: written.saturating_sub(quota),
            },
            None => KeepFrom::default(),
        };
        let place = boundary_at_or_after(&cursor, self.form, cursor.place(), from);
        cursor.pass(place.position, place.elements);
        let end = LaneEnd::new(cursor, self.form, self.quota, self.bell.clone());
        Ok((end, ()))
    }

    fn on_opened(&self, _: &Lane<LaneEnd>, (): ()) {}

    fn on_left(&self, lane: &Lane<LaneEnd>) {
        self.departed.push(undelivered(lane));
    }

    fn properties(&self, hub: &Hub<Self>) -> Properties {
        let (mut cursor, _) = self.cursors.join();
        let kept = cursor.place().elements;
        let total = cursor.written_elements().unwrap_or(kept);
        drop(cursor);
        Properties {
            is_writer: true,
            in_buffer: total.saturating_sub(kept),
            total,
            ..hub.properties_of_lanes()
        }
    }
}

pub(super) fn undelivered(lane: &Lane<LaneEnd>) -> Undelivered {
    lane.link.with(|end, _, _| {
        end.poll_ring();
        Undelivered {
            member: lane.member.clone(),
            left: end.inner.left(&end.link),
            lost: end.link.lost(),
            fault: end.link.fault().cloned(),
        }
    })
}
