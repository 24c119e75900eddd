//! SUBSCRIBE: subscribes open variables under a contract.
//!
//! ```text
//! SUBSCRIBE  subscription u32 | contract | flags u8 | resume u8 | [epoch u64]
//!            count x ( handle zigzag delta | [sequence varint] )
//!            [..] only if resume is 1
//! ```
//!
//! The client chooses the number of the subscription, unique in its session. A run of frames with
//! the same number, or a later request, adds items to it. With `resume` each item names the last
//! update that the client has. Delivery continues after it as far as the engine can, and missing
//! updates are counted.

use trunkline_types::Contract;
use trunkline_types::wire::{put_u8, put_u32, put_u64, put_varint, put_zigzag};

use super::contract::{SubscribeFlags, put_contract, read_contract};
use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// The part common to all items of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeTerms {
    /// The number chosen by the client.
    pub subscription: u32,
    /// The delivery contract.
    pub contract: Contract,
    /// The filters.
    pub flags: SubscribeFlags,
}

/// An item of a SUBSCRIBE frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeItem {
    /// The variable.
    pub handle: u32,
    /// Sequence of the last update that the client has; 0 if it has none or does not resume.
    pub last_sequence: u64,
}

/// Writes a SUBSCRIBE frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct SubscribeBuilder<'a> {
    frame: FrameWriter<'a>,
    previous: u32,
    resume: bool,
}

/// A SUBSCRIBE frame; iterates over its items.
#[derive(Clone, Debug)]
pub struct Subscribe<'a> {
    terms: SubscribeTerms,
    resume_epoch: Option<u64>,
    items: Items<'a>,
    previous: u32,
}

impl<'a> SubscribeBuilder<'a> {
    /// Begins a frame at the end of `out`. With `resume_epoch`, the items name positions of that
    /// epoch.
    pub fn begin(
        out: &'a mut Vec<u8>,
        request: u32,
        terms: &SubscribeTerms,
        resume_epoch: Option<u64>,
    ) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Subscribe, request);
        let out = frame.payload();
        put_terms(out, terms);
        put_u8(out, u8::from(resume_epoch.is_some()));
        if let Some(epoch) = resume_epoch {
            put_u64(out, epoch);
        }
        Self {
            frame,
            previous: 0,
            resume: resume_epoch.is_some(),
        }
    }

    /// Appends an item; its sequence is omitted if nothing is resumed.
    pub fn push(&mut self, item: &SubscribeItem) {
        let out = self.frame.payload();
        put_zigzag(
            out,
            i64::from(item.handle).wrapping_sub(i64::from(self.previous)),
        );
        if self.resume {
            put_varint(out, item.last_sequence);
        }
        self.previous = item.handle;
        self.frame.count_item();
    }

    /// Number of items so far.
    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; set `more` if further frames of this request follow.
    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

impl<'a> Subscribe<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the head does not have the form drawn in the [module](self) or the frame
    /// cannot hold `count` items; errors in the items appear during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Subscribe)?;
        let terms = read_terms(&mut payload)?;
        let resume_epoch = match payload.u8()? {
            0 => None,
            1 => Some(payload.u64()?),
            other => return Err(payload.unexpected("0 or 1 for resume", u64::from(other))),
        };
        let item_bytes = if resume_epoch.is_some() { 2 } else { 1 };
        let items = Items::new(payload, frame.count(), item_bytes)?;
        Ok(Self {
            terms,
            resume_epoch,
            items,
            previous: 0,
        })
    }

    /// Number, contract and filters.
    pub fn terms(&self) -> SubscribeTerms {
        self.terms
    }

    /// The epoch of the items' positions; `None` if nothing is resumed.
    pub fn resume_epoch(&self) -> Option<u64> {
        self.resume_epoch
    }

    /// Number of items not yet read.
    pub fn left(&self) -> u32 {
        self.items.left()
    }
}

impl Iterator for Subscribe<'_> {
    type Item = Result<SubscribeItem, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (previous, resume) = (&mut self.previous, self.resume_epoch.is_some());
        self.items.next_with(|payload| {
            let handle = payload.handle(*previous)?;
            *previous = handle;
            Ok(SubscribeItem {
                handle,
                last_sequence: if resume { payload.varint()? } else { 0 },
            })
        })
    }
}

/// Appends the terms of a subscription.
pub(crate) fn put_terms(out: &mut Vec<u8>, terms: &SubscribeTerms) {
    put_u32(out, terms.subscription);
    put_contract(out, &terms.contract);
    put_u8(out, terms.flags.to_bits());
}

/// Reads the terms of a subscription.
pub(crate) fn read_terms(payload: &mut Payload<'_>) -> Result<SubscribeTerms, DecodeError> {
    Ok(SubscribeTerms {
        subscription: payload.u32()?,
        contract: read_contract(payload)?,
        flags: SubscribeFlags::from_bits(payload.u8()?),
    })
}
