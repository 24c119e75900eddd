//! Round-trip test: decoding an encoded frame returns the original content, for every declared frame.

use std::sync::Arc;

use proptest::prelude::*;
use trunkline_types::{DataType, EnumType, Value};

use super::kinds::{MessageVisitor, with_message};
use super::layout::Record;
use super::list::{List, ListBuilder, ListFrame};
use super::single::SingleFrame;
use super::stream::POSITION_MAX;
use super::stream::seal::is_sealed;
use crate::{Frame, FrameKind};

/// Arbitrary content, created from the bytes that the property test chooses.
#[derive(Debug)]
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// Returns a small number, the largest number, or an arbitrary one.
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

    /// Returns the only possible content of an absent number.
    pub(super) fn zero(&mut self) -> u64 {
        0
    }

    pub(super) fn position(&mut self) -> u64 {
        self.number().min(POSITION_MAX)
    }

    pub(super) fn bool(&mut self) -> bool {
        self.number() % 2 == 1
    }

    pub(super) fn value(&mut self, data_type: &DataType) -> Value {
        match data_type {
            DataType::Bool => Value::Bool(self.bool()),
            DataType::String => Value::String(self.text().into()),
            DataType::Enum(_) => Value::Enum(self.number() as u32 % 2),
            _ => Value::F64(self.number() as f64),
        }
    }

    pub(super) fn text(&mut self) -> &'a str {
        let length = self.number() as usize % 40;
        let chunk = self.take(length).utf8_chunks().next();
        chunk.map_or("", |chunk| chunk.valid())
    }

    pub(super) fn data_type(&mut self) -> DataType {
        let labels = vec!["OFF".into(), "AUTO".into()];
        match self.number() % 4 {
            0 => DataType::F64,
            1 => DataType::Bool,
            2 => DataType::String,
            _ => DataType::Enum(Arc::new(EnumType { labels })),
        }
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Encodes an arbitrary message of a kind, and decodes it. The bytes are leaked, so that all
/// borrowed data has the same lifetime.
struct RoundTrip(FrameKind, Source<'static>);

fn frame(bytes: Vec<u8>) -> Frame<'static> {
    let mut rest: &[u8] = bytes.leak();
    let frame = Frame::take_from(&mut rest).unwrap().unwrap();
    assert!(rest.is_empty());
    frame
}

impl MessageVisitor<'static> for RoundTrip {
    type Output = ();

    fn list<F: ListFrame>(mut self) {
        let source = &mut self.1;
        let (request, more) = (source.number() as u32, source.bool());
        let head = F::Head::sample(source, &mut Default::default());
        let mut out = Vec::new();
        let mut builder = ListBuilder::<F>::begin_as(self.0, &mut out, request, &head);
        let mut items = Vec::new();
        for _ in 0..=source.number() % 8 {
            let item = F::Item::sample(source, &mut builder.context().clone());
            builder.push(&item);
            items.push(item);
        }
        builder.finish(more);
        let frame = frame(out);
        assert_eq!(frame.has_more(), more);
        let list = List::<F>::decode(&frame).unwrap();
        assert_eq!((list.request(), list.head()), (request, &head));
        assert_eq!(list.map(Result::unwrap).collect::<Vec<_>>(), items);
    }

    fn single<M: SingleFrame<'static>>(mut self) {
        let message = M::sample(&mut self.1, &mut Default::default());
        let mut out = Vec::new();
        message.encode_as(self.0, 7, &mut out);
        let frame = frame(out);
        assert!(is_sealed(self.0) || frame.request() == 7);
        assert_eq!(M::decode(&frame).unwrap(), message);
    }

    fn by_hand(self, _: FrameKind) {}
}

/// Checks that a frame without items is removed from the buffer or left there, as its form
/// specifies.
struct Empty;

impl MessageVisitor<'static> for Empty {
    type Output = ();

    fn list<F: ListFrame>(self) {
        let mut out = b"kept".to_vec();
        let head = F::Head::sample(&mut Source(&[]), &mut Default::default());
        ListBuilder::<F>::begin(&mut out, 1, &head).finish(false);
        assert_eq!(out == b"kept", F::EMPTY_IS_REMOVED, "{}", F::KIND);
    }

    fn single<M: SingleFrame<'static>>(self) {}

    fn by_hand(self, _: FrameKind) {}
}

proptest! {
    #[test]
    fn encoded_frames_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes: &[u8] = bytes.leak();
        for kind in FrameKind::ALL {
            with_message(*kind, RoundTrip(*kind, Source(bytes)));
        }
    }
}

#[test]
fn a_frame_without_items_is_removed_or_kept() {
    for kind in FrameKind::ALL {
        with_message(*kind, Empty);
    }
}
