//! KEEPALIVE and ACK: signs of life and acknowledgements.
//!
//! ```text
//! KEEPALIVE  sent u64 | echo u64 | echo_held_ns u64 | records_received u64 | digest u64
//! ACK        records_received u64 | count x (subscription varint | more varint)
//! ```

use trunkline_types::wire::{put_u64, put_varint};

use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// A sign of life from the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keepalive {
    /// Time of the sender's monotonic clock in nanoseconds; only the sender uses it, when it
    /// returns as `echo`.
    pub sent: u64,
    /// The field `sent` of the last keep-alive received from the other end; 0 if there was none.
    pub echo: u64,
    /// Nanoseconds between the arrival of that keep-alive and the sending of this one.
    pub echo_held_ns: u64,
    /// Number of update records on this connection so far: received by a client, sent by an engine
    /// (0 from an engine that keeps no digest).
    pub records_received: u64,
    /// From the engine: sum modulo 2^64 of [`digest::of_position`](crate::digest::of_position) over
    /// the update records sent on this connection before this frame. 0 from a client.
    pub digest: u64,
}

impl Keepalive {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::Keepalive, 0);
        let out = frame.payload();
        let Self {
            sent,
            echo,
            echo_held_ns,
            records_received,
            digest,
        } = *self;
        [sent, echo, echo_held_ns, records_received, digest]
            .iter()
            .for_each(|number| put_u64(out, *number));
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Keepalive)?;
        let keepalive = Self {
            sent: payload.u64()?,
            echo: payload.u64()?,
            echo_held_ns: payload.u64()?,
            records_received: payload.u64()?,
            digest: payload.u64()?,
        };
        payload.finish()?;
        Ok(keepalive)
    }
}

/// Permission to send more updates of an `all` subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grant {
    /// The subscription.
    pub subscription: u32,
    /// Number of additional updates.
    pub more: u64,
}

/// Writes an ACK frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct AckBuilder<'a> {
    frame: FrameWriter<'a>,
}

impl<'a> AckBuilder<'a> {
    /// Begins a frame at the end of `out`; `records_received` counts the update records received on
    /// this connection.
    pub fn begin(out: &'a mut Vec<u8>, records_received: u64) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Ack, 0);
        put_u64(frame.payload(), records_received);
        Self { frame }
    }

    /// Appends a grant.
    pub fn push(&mut self, grant: Grant) {
        let out = self.frame.payload();
        put_varint(out, u64::from(grant.subscription));
        put_varint(out, grant.more);
        self.frame.count_item();
    }

    /// Completes the frame.
    pub fn finish(self) {
        self.frame.finish(false);
    }
}

/// An ACK frame; iterates over the grants.
#[derive(Clone, Debug)]
pub struct Ack<'a> {
    records_received: u64,
    items: Items<'a>,
}

impl<'a> Ack<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` grants; errors in the grants appear during
    /// iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Ack)?;
        let records_received = payload.u64()?;
        Ok(Self {
            records_received,
            items: Items::new(payload, frame.count(), 2)?,
        })
    }

    /// Number of update records received on this connection.
    pub fn records_received(&self) -> u64 {
        self.records_received
    }
}

impl Iterator for Ack<'_> {
    type Item = Result<Grant, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items.next_with(|payload| {
            Ok(Grant {
                subscription: payload.varint_u32("a subscription")?,
                more: payload.varint()?,
            })
        })
    }
}
