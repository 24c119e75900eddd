//! Shows frames of any kind as text, so that a test can search an answer for what it must not contain.

use trunkline_proto::message::kinds::{MessageVisitor, with_message};
use trunkline_proto::message::list::{List, ListFrame};
use trunkline_proto::message::open::Opened;
use trunkline_proto::message::provider::decode_provided;
use trunkline_proto::message::read::Readings;
use trunkline_proto::message::results::Results;
use trunkline_proto::message::single::SingleFrame;
use trunkline_proto::message::snapshot::decode_snapshot;
use trunkline_proto::message::updates::Updates;
use trunkline_proto::message::write::Writes;
use trunkline_proto::{Frame, FrameKind};

/// Returns the kind of the frame, its request and everything that its message contains.
pub fn spoken(frame: &Frame<'_>) -> String {
    let kind = frame.kind().expect("a kind of this release");
    let message = with_message(kind, Spoken(frame));
    format!("{kind} {} {message}", frame.request())
}

struct Spoken<'f, 'a>(&'f Frame<'a>);

impl<'a> MessageVisitor<'a> for Spoken<'_, 'a> {
    type Output = String;

    fn list<F: ListFrame>(self) -> String {
        let list = List::<F>::decode(self.0).expect("a list");
        let head = format!("{:?}", list.head());
        let items: Vec<String> = list.map(|item| format!("{:?}", item.unwrap())).collect();
        format!("{head} {items:?}").replace('\\', "")
    }

    fn single<M: SingleFrame<'a>>(self) -> String {
        format!("{:?}", M::decode(self.0).expect("a message"))
    }

    fn by_hand(self, kind: FrameKind) -> String {
        let frame = self.0;
        match kind {
            FrameKind::Opened => all(Opened::decode(frame).unwrap()),
            FrameKind::Subscribed | FrameKind::Closed | FrameKind::Requested => {
                all(Results::decode(frame).unwrap())
            }
            FrameKind::Readings => all(Readings::decode(frame).unwrap()),
            FrameKind::Updates => all(Updates::decode(frame).unwrap()),
            FrameKind::Repaired => all(Updates::decode_repaired(frame).unwrap()),
            FrameKind::ProviderWrite => all(Writes::decode(frame).unwrap()),
            FrameKind::SnapshotAnswer => {
                let (head, readings) = decode_snapshot(frame).unwrap();
                format!("{head:?} {}", all(readings))
            }
            FrameKind::Provided => {
                let (lease, opened) = decode_provided(frame).unwrap();
                format!("{lease:?} {}", all(opened))
            }
            other => panic!("an engine does not send {other}"),
        }
    }
}

fn all<T: std::fmt::Debug, E: std::fmt::Debug>(
    items: impl Iterator<Item = Result<T, E>>,
) -> String {
    let items: Vec<T> = items.map(|item| item.unwrap()).collect();
    format!("{items:?}")
}
