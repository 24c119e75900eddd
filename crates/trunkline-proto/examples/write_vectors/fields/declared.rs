//! What the declared frames say, as JSON.

use serde_json::{Map, Value as Json};
use trunkline_proto::frame::Frame;
use trunkline_proto::message::kinds::{MessageVisitor, with_message};
use trunkline_proto::message::layout::{Record, Show, Shown};
use trunkline_proto::message::list::{List, ListFrame};
use trunkline_proto::message::single::SingleFrame;
use trunkline_proto::{DecodeError, FrameKind};

use super::parts::list;

/// The payload of a declared frame; `None` for a kind whose codec is written by hand.
pub(super) fn declared(frame: &Frame<'_>) -> Option<Result<Json, DecodeError>> {
    with_message(frame.kind()?, Projection(frame))
}

struct Projection<'f, 'a>(&'f Frame<'a>);

#[derive(Default)]
struct Object(Map<String, Json>);

impl Show for Object {
    fn field(&mut self, name: &str, value: Shown<'_>) {
        let value = match value {
            Shown::Nothing => Json::Null,
            Shown::Small(number) => number.into(),
            Shown::Big(number) => number.to_string().into(),
            Shown::Text(text) => text.into(),
        };
        self.0.insert(name.to_owned(), value);
    }
}

fn object<'a>(record: &impl Record<'a>) -> Map<String, Json> {
    let mut object = Object::default();
    record.show(&mut object);
    object.0
}

impl<'a> MessageVisitor<'a> for Projection<'_, 'a> {
    type Output = Option<Result<Json, DecodeError>>;

    fn list<F: ListFrame>(self) -> Self::Output {
        Some(List::<F>::decode(self.0).and_then(|items| {
            let mut fields = object(items.head());
            fields.insert(
                "items".into(),
                list(items, |item| object(&item).into())?.into(),
            );
            Ok(fields.into())
        }))
    }

    fn single<M: SingleFrame<'a>>(self) -> Self::Output {
        Some(M::decode(self.0).map(|message| object(&message).into()))
    }

    fn by_hand(self, _: FrameKind) -> Self::Output {
        None
    }
}
