//! What is encoded is decoded, whatever it is: every declared frame with any content.

use proptest::prelude::*;

use super::kinds::{MessageVisitor, with_message};
use super::layout::Record;
use super::list::{List, ListBuilder, ListFrame};
use crate::{FaultCode, FaultRef, Frame, FrameKind};

/// Any content, made from the bytes that the property test chooses.
#[derive(Debug)]
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// A small number, the largest, or any other.
    pub(super) fn number(&mut self) -> u64 {
        match self.take(1) {
            [] => 0,
            [200..=210] => u64::MAX,
            [small @ 0..200] => u64::from(*small),
            _ => {
                let bytes = self.take(8).iter();
                bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
            }
        }
    }

    /// True or false.
    pub(super) fn is_chosen(&mut self) -> bool {
        self.number() % 2 == 1
    }

    /// A fault.
    pub(super) fn fault(&mut self) -> FaultRef<'a> {
        let code = FaultCode::from_number((self.number() as u16).max(1));
        let sentence = self.text();
        FaultRef { code, sentence }
    }

    fn text(&mut self) -> &'a str {
        let length = self.number() as usize % 40;
        let chunk = self.take(length).utf8_chunks().next();
        chunk.map_or("", |chunk| chunk.valid())
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Encodes any message of a kind, and decodes it. The comparison is of texts, because a head or an
/// item with the lifetime of the frame is another type.
struct RoundTrip<'s>(Source<'s>);

impl MessageVisitor for RoundTrip<'_> {
    type Output = ();

    fn list<F: ListFrame>(mut self) {
        let source = &mut self.0;
        let (request, more) = (source.number() as u32, source.is_chosen());
        let head = F::Head::sample(source, &Default::default());
        let mut out = b"kept".to_vec();
        let mut builder = ListBuilder::<F>::begin(&mut out, request, &head);
        let mut items = Vec::new();
        for _ in 0..=source.number() % 8 {
            let item = F::Item::sample(source, builder.run());
            builder.push(&item);
            items.push(item);
        }
        builder.finish(more);
        let mut rest = out.strip_prefix(b"kept").unwrap();
        let frame = Frame::take_from(&mut rest).unwrap().unwrap();
        assert!(rest.is_empty());
        assert_eq!((frame.request(), frame.has_more()), (request, more));
        let list = List::<F>::decode(&frame).unwrap();
        assert_eq!(format!("{:?}", list.head()), format!("{head:?}"));
        let got: Vec<_> = list.map(Result::unwrap).collect();
        assert_eq!(format!("{got:?}"), format!("{items:?}"));
    }

    fn by_hand(self, _: FrameKind) {}
}

/// A frame without items is removed, or kept, as its form says.
struct Empty;

impl MessageVisitor for Empty {
    type Output = ();

    fn list<F: ListFrame>(self) {
        let mut out = Vec::new();
        let head = F::Head::sample(&mut Source(&[]), &Default::default());
        ListBuilder::<F>::begin(&mut out, 1, &head).finish(false);
        assert_eq!(out.is_empty(), F::EMPTY_IS_REMOVED, "{}", F::KIND);
    }

    fn by_hand(self, _: FrameKind) {}
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for kind in FrameKind::ALL {
            with_message(*kind, RoundTrip(Source(&bytes)));
        }
    }
}

#[test]
fn a_frame_without_items_is_removed_or_kept() {
    for kind in FrameKind::ALL {
        with_message(*kind, Empty);
    }
}
