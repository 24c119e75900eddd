//! Frames that are lists: a head and `count` items.

use std::marker::PhantomData;

use super::form::Varint;
use super::layout::{FrameContext, Record, record};
use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// The form of a frame that is a list. A form is a type without values.
pub trait ListFrame {
    const KIND: FrameKind;
    /// Other kinds of frames with the same form.
    const ALSO: &'static [FrameKind];
    /// The name of the items in the golden vectors. If the name is not `items`, a list without
    /// items is omitted.
    const ITEMS: &'static str;
    /// True if [`ListBuilder::finish`] removes a frame without items from the buffer.
    const EMPTY_IS_REMOVED: bool;
    type Head<'a>: Record<'a>;
    type Item<'a>: Record<'a>;
}

record! {
    #[derive(Copy, Eq)]
    pub struct AnswerHead {
        /// Index of the frame's first item within the whole request.
        pub first_index: u32 = Varint,
    }
}

#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct ListBuilder<'o, F: ListFrame> {
    frame: FrameWriter<'o>,
    context: FrameContext,
    head_at: usize,
    head_bytes: usize,
    form: PhantomData<F>,
}

impl<'o, F: ListFrame> ListBuilder<'o, F> {
    /// Begins a frame at the end of `out`. `request` is the number of the request or of the
    /// subscription, for the header.
    pub fn begin(out: &'o mut Vec<u8>, request: u32, head: &F::Head<'_>) -> Self {
        Self::begin_as(F::KIND, out, request, head)
    }

    pub fn begin_as(
        kind: FrameKind,
        out: &'o mut Vec<u8>,
        request: u32,
        head: &F::Head<'_>,
    ) -> Self {
        let mut frame = FrameWriter::begin(out, kind, request);
        let mut context = FrameContext::default();
        let head_at = frame.payload().len();
        head.put(&mut context, frame.payload());
        context.record_head_flags = context.flags;
        let head_bytes = frame.payload().len().saturating_sub(head_at);
        Self {
            frame,
            context,
            head_at,
            head_bytes,
            form: PhantomData,
        }
    }

    #[inline]
    pub fn push(&mut self, item: &F::Item<'_>) {
        item.put(&mut self.context, self.frame.payload());
        self.frame.count_item();
    }

    /// Replaces the head. The new head must have the same size as the head that `begin` wrote.
    pub(super) fn set_head(&mut self, head: &F::Head<'_>) {
        let payload = self.frame.payload();
        let end = payload.len();
        head.put(&mut FrameContext::default(), payload);
        debug_assert_eq!(
            payload.len(),
            end.saturating_add(self.head_bytes),
            "the head has a different size"
        );
        payload.copy_within(end.., self.head_at);
        payload.truncate(end);
    }

    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame. `more` must be true if further frames of this request or answer follow.
    pub fn finish(self, more: bool) {
        self.frame.finish_list(more, F::EMPTY_IS_REMOVED);
    }

    #[cfg(test)]
    pub(super) fn context(&self) -> &FrameContext {
        &self.context
    }
}

/// A frame that is a list; iterates over the items.
#[derive(Clone, Debug)]
pub struct List<'a, F: ListFrame> {
    head: F::Head<'a>,
    items: Items<'a>,
    context: FrameContext,
    request: u32,
}

impl<'a, F: ListFrame> List<'a, F> {
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of_kinds(frame, F::KIND, F::ALSO)?;
        let mut context = FrameContext::default();
        let head = F::Head::read(&mut context, &mut payload)?;
        context.record_head_flags = context.flags;
        let items = Items::new(payload, frame.count(), F::Item::bytes_min(&context))?;
        Ok(Self {
            head,
            items,
            context,
            request: frame.request(),
        })
    }

    /// Returns the number of the request or of the subscription from the header.
    pub fn request(&self) -> u32 {
        self.request
    }

    pub fn left(&self) -> u32 {
        self.items.left()
    }

    pub fn head(&self) -> &F::Head<'a> {
        &self.head
    }
}

impl<'a, F: ListFrame> Iterator for List<'a, F> {
    type Item = Result<F::Item<'a>, DecodeError>;

    // Always inlined, because an item that a call returns would be copied twice.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.items
            .next_with(|p| F::Item::read(&mut self.context, p))
    }
}

/// Declares a frame that is a list, with the names of its decoder and its builder, other kinds with
/// the same form, and the name of the items in the golden vectors.
macro_rules! list_frame {
    (
        $form:ident: $kind:ident, $decoder:ident, $builder:ident,
        head $head:ty, item $item:ty, empty_frame $empty:ident
        $(, also $($also:ident)+)? $(, items $items:literal)?
    ) => {
        #[doc = concat!("The form of the frame ", stringify!($kind), ".")]
        #[derive(Clone, Debug)]
        pub enum $form {}

        impl $crate::message::list::ListFrame for $form {
            const KIND: $crate::FrameKind = $crate::FrameKind::$kind;
            const ALSO: &'static [$crate::FrameKind] = &[$($($crate::FrameKind::$also),+)?];
            const ITEMS: &'static str = $crate::message::list::list_frame!(@items $($items)?);
            const EMPTY_IS_REMOVED: bool = $crate::message::list::list_frame!(@ $empty);
            type Head<'a> = $head;
            type Item<'a> = $item;
        }

        #[doc = concat!("Writes a frame of the kind ", stringify!($kind), ".")]
        pub type $builder<'o> = $crate::message::list::ListBuilder<'o, $form>;
        #[doc = concat!("A frame of the kind ", stringify!($kind), "; iterates over the items.")]
        pub type $decoder<'a> = $crate::message::list::List<'a, $form>;
    };
    (@ kept) => {
        false
    };
    (@ removed) => {
        true
    };
    (@items) => {
        "items"
    };
    (@items $items:literal) => {
        $items
    };
}
pub(crate) use list_frame;
