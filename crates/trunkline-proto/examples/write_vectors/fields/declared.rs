//! The contents of the declared frames, as JSON.

use serde_json::{Map, Value as Json};
use trunkline_proto::frame::Frame;
use trunkline_proto::message::kinds::{MessageVisitor, with_message};
use trunkline_proto::message::layout::{FieldSink, FieldValue, Record as _};
use trunkline_proto::message::list::{List, ListFrame};
use trunkline_proto::message::single::SingleFrame;
use trunkline_proto::{DecodeError, FrameKind};

use super::parts::{hex, list};

/// The payload of a declared frame; `None` for a kind whose codec is written by hand.
pub(super) fn declared(frame: &Frame<'_>) -> Option<Result<Json, DecodeError>> {
    let mut fields = with_message(frame.kind()?, Projection(frame))?;
    if let Ok(fields) = &mut fields {
        reorder(fields, last(frame.kind()));
    }
    Some(fields)
}

struct Projection<'f, 'a>(&'f Frame<'a>);

/// The fields of a record, or the items of a list.
#[derive(Default)]
struct Object {
    fields: Map<String, Json>,
    items: Vec<Json>,
}

impl Object {
    fn of(show: &dyn Fn(&mut dyn FieldSink)) -> Self {
        let mut object = Self::default();
        show(&mut object);
        object
    }

    fn put(&mut self, name: &str, value: Json) {
        match name {
            "" => self.items.push(value),
            _ => drop(self.fields.insert(name.to_owned(), value)),
        }
    }
}

impl FieldSink for Object {
    fn field(&mut self, name: &str, value: FieldValue<'_>) {
        let value = match value {
            FieldValue::Nothing => Json::Null,
            FieldValue::Flag(flag) => flag.into(),
            FieldValue::Number(number) => number.into(),
            FieldValue::NumberAsText(number) => number.to_string().into(),
            FieldValue::Signed(number) => number.to_string().into(),
            FieldValue::Real(number) => number.into(),
            FieldValue::Text(text) => text.into(),
            FieldValue::Bytes(bytes) => hex(bytes).into(),
        };
        self.put(name, value);
    }

    fn object(&mut self, name: &str, show: &dyn Fn(&mut dyn FieldSink)) {
        self.put(name, Object::of(show).fields.into());
    }

    fn list(&mut self, name: &str, show: &dyn Fn(&mut dyn FieldSink)) {
        self.put(name, Object::of(show).items.into());
    }
}

/// What `show` shows: an object, or one value without a name.
pub(super) fn shown(show: &dyn Fn(&mut dyn FieldSink)) -> Json {
    let mut object = Object::of(show);
    object.items.pop().unwrap_or(object.fields.into())
}

impl<'a> MessageVisitor<'a> for Projection<'_, 'a> {
    type Output = Option<Result<Json, DecodeError>>;

    fn list<F: ListFrame>(self) -> Self::Output {
        Some(List::<F>::decode(self.0).and_then(|frame| {
            let mut fields = shown(&|to| frame.head().show(to));
            let items = list(frame, |item| shown(&|to| item.show(to)))?;
            if F::ITEMS == "items" || !items.is_empty() {
                fields[F::ITEMS] = items.into();
            }
            Ok(fields)
        }))
    }

    fn single<M: SingleFrame<'a>>(self) -> Self::Output {
        let message = M::decode(self.0);
        Some(message.map(|message| shown(&|to| message.show(to))))
    }

    fn by_hand(self, _: FrameKind) -> Self::Output {
        None
    }
}

/// Groups of fields that stand at the end of their objects in the file, although not on the wire.
fn last(kind: Option<FrameKind>) -> &'static [&'static [&'static str]] {
    use FrameKind::*;
    match kind {
        Some(Refused | Goodbye | StreamRefused | StreamGoodbye) => {
            &[&["version_min", "version_max"], &["retry_after_ms"]]
        }
        Some(InfoAnswer | Forced) => &[
            &[
                "held_by",
                "lease_left_ms",
                "writers_waiting",
                "subscriptions",
                "readers",
                "forced",
            ],
            &["by", "since", "behind"],
        ],
        Some(ProviderAnswer) => &[&["ticket"]],
        Some(StreamStatus | StreamEndpoints) => &[
            &[
                "is_connected",
                "disconnections",
                "away_ms",
                "stalled_ms",
                "last_disconnect",
            ],
            &[
                "peer",
                "peer_program",
                "transport",
                "fault",
                "program",
                "pid",
            ],
        ],
        _ => &[],
    }
}

/// Reorders the fields of every object.
fn reorder(json: &mut Json, last: &[&[&str]]) {
    match json {
        Json::Object(fields) => {
            for group in last {
                for name in *group {
                    if let Some(value) = fields.shift_remove(*name) {
                        fields.insert((*name).to_owned(), value);
                    }
                }
            }
            fields.values_mut().for_each(|field| reorder(field, last));
        }
        Json::Array(items) => items.iter_mut().for_each(|item| reorder(item, last)),
        _ => {}
    }
}
