//! The properties of an end, and the peers of an end with several.

use std::ffi::c_char;

use libc::size_t;
use trunkline::stream::{PeerStatus, Properties, Undelivered};

use crate::arguments::{put_elements, put_text};
use crate::errors::Failure;

/// The state of one end of a stream.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_stream_properties {
    /// Capacity of the buffer, in elements.
    pub capacity: u64,
    /// Of a writer: elements that the reader has not confirmed. Of a reader: elements that can be read.
    pub in_buffer: u64,
    /// Elements written or read since the end was created.
    pub total: u64,
    /// Number of times that the connection was lost, or ended with its stream.
    pub disconnections: u64,
    /// Time since the connection was lost in nanoseconds; -1 while connected and before the first
    /// connection.
    pub away_ns: i64,
    /// 1 while the two ends are connected, otherwise 0.
    pub is_connected: i32,
    /// 1 if the stream has ended in order, otherwise 0.
    pub is_ended: i32,
}

pub(super) fn properties_of(properties: &Properties) -> tl_stream_properties {
    let away = properties
        .away_for
        .map(|away| i64::try_from(away.as_nanos()).unwrap_or(i64::MAX));
    tl_stream_properties {
        capacity: properties.capacity,
        in_buffer: properties.in_buffer,
        total: properties.total,
        disconnections: properties.disconnections,
        away_ns: away.unwrap_or(-1),
        is_connected: i32::from(properties.is_connected),
        is_ended: i32::from(properties.is_ended),
    }
}

/// One of the readers of a writer with several readers, or one of the writers of a reader with several
/// writers.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_stream_peer {
    /// Number of the peer at this end, from 1. Numbers are never used again.
    pub number: u64,
    /// Of a reader: elements that it has not confirmed. Of a writer: elements that have arrived from it
    /// and were not read.
    pub waiting: u64,
    /// Of a reader: elements that were dropped because it was too slow. Of a writer: 0.
    pub lost: u64,
    /// 1 while connected, otherwise 0.
    pub is_connected: i32,
    /// Always 0.
    pub reserved: i32,
}

/// A reader that has left a writer with several readers.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_stream_departed {
    /// Number of the reader, as in `tl_stream_peer`.
    pub number: u64,
    /// Elements that the reader has not confirmed.
    pub undelivered: u64,
    /// Number of these that may have arrived, because the connection was lost.
    pub in_doubt: u64,
    /// Elements that were dropped because the reader was too slow.
    pub lost: u64,
}

pub(super) fn departed_of(reader: &Undelivered) -> tl_stream_departed {
    tl_stream_departed {
        number: reader.member.number,
        undelivered: reader.left.elements,
        in_doubt: reader.left.in_doubt,
        lost: reader.lost,
    }
}

/// # Safety
/// As [`put_elements`].
pub(super) unsafe fn put_peers(
    peers: &[PeerStatus],
    array: *mut tl_stream_peer,
    capacity: size_t,
    count: *mut size_t,
) -> Result<(), Failure> {
    let peers = peers.iter().map(|peer| tl_stream_peer {
        number: peer.member.number,
        waiting: peer.waiting,
        lost: peer.lost,
        is_connected: i32::from(peer.is_connected),
        reserved: 0,
    });
    let peers: Vec<tl_stream_peer> = peers.collect();
    // SAFETY: the same promise.
    unsafe { put_elements("peers", &peers, array, capacity, count) }
}

/// # Safety
/// As [`put_text`].
pub(super) unsafe fn put_url(
    peers: &[PeerStatus],
    number: u64,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> Result<(), Failure> {
    let peer = peers.iter().find(|peer| peer.member.number == number);
    let peer = peer.ok_or_else(|| Failure::argument(format!("there is no peer {number} now")))?;
    // SAFETY: the same promise.
    unsafe { put_text(&peer.member.url, buffer, capacity, length) }
}
