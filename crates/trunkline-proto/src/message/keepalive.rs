//! KEEPALIVE and ACK: signs of life and receipt.
//!
//! ```text
//! KEEPALIVE  sent u64 | echo u64 | echo_held_ns u64 | records_received u64 | digest u64
//! ACK        records_received u64 | count x (subscription varint | more varint)
//! ```

use trunkline_types::wire::{put_u64, put_varint};

use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// The sender lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keepalive {
    /// The sender's monotonic clock in nanoseconds, for its own use when it comes back as `echo`.
    pub sent: u64,
    /// `sent` of the last keep-alive that came from the other end; 0 when none did.
    pub echo: u64,
    /// Nanoseconds between the arrival of that keep-alive and this one's leaving.
    pub echo_held_ns: u64,
    /// Update records on this connection so far: received by a client, sent by an engine (0 from
    /// one that keeps no digest).
    pub records_received: u64,
    /// Sum modulo 2^64 of [`digest::of_position`](crate::digest::of_position) over the update
    /// records that went over this connection before this frame, from the engine; 0 from a client.
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
    /// [`DecodeError`] when the payload is not as drawn in the [module](self).
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

/// More updates that an `all` subscription may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grant {
    /// The subscription.
    pub subscription: u32,
    /// How many more.
    pub more: u64,
}

/// Writes an ACK frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct AckBuilder<'a> {
    frame: FrameWriter<'a>,
}

impl<'a> AckBuilder<'a> {
    /// Begins a frame at the end of `out`: so many update records were received on this connection.
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
    /// [`DecodeError`] when the frame cannot hold `count` grants; the rest shows in the iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Ack)?;
        let records_received = payload.u64()?;
        Ok(Self {
            records_received,
            items: Items::new(payload, frame.count(), 2)?,
        })
    }

    /// Update records received on this connection.
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
