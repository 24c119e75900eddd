//! Decodes a frame of any kind completely and re-encodes it. Shared by the round-trip,
//! hostile-input and fuzz tests.

use trunkline_proto::frame::Frame;
use trunkline_proto::message::group::{GroupWrite, GroupWriteBuilder};
use trunkline_proto::message::kinds::{MessageVisitor, with_message};
use trunkline_proto::message::library::{Deploy, DeployBuilder};
use trunkline_proto::message::list::{List, ListBuilder, ListFrame};
use trunkline_proto::message::open::{Opened, OpenedBuilder};
use trunkline_proto::message::provider::{begin_provided, decode_provided};
use trunkline_proto::message::read::{Readings, ReadingsBuilder};
use trunkline_proto::message::results::{Results, ResultsBuilder};
use trunkline_proto::message::single::SingleFrame;
use trunkline_proto::message::snapshot::{begin_snapshot, decode_snapshot};
use trunkline_proto::message::stream::{Data, StreamHello, StreamWelcome};
use trunkline_proto::message::updates::{Updates, UpdatesBuilder};
use trunkline_proto::message::write::{WriteBuilder, Writes};
use trunkline_proto::{DecodeError, FrameKind};

/// Appends a frame equivalent to `frame` to `out`; returns `None` for kinds without a message (PART
/// and unknown kinds). Extensions are dropped.
///
/// For a valid frame, the output differs only where the encoding is not unique.
pub fn reencode(frame: &Frame<'_>, out: &mut Vec<u8>) -> Option<Result<(), DecodeError>> {
    let kind = frame.kind()?;
    with_message(kind, Reencode { kind, frame, out })
}

struct Reencode<'f, 'a, 'o> {
    kind: FrameKind,
    frame: &'f Frame<'a>,
    out: &'o mut Vec<u8>,
}

impl<'a> MessageVisitor<'a> for Reencode<'_, 'a, '_> {
    type Output = Option<Outcome>;

    fn list<F: ListFrame>(self) -> Self::Output {
        let Self { kind, frame, out } = self;
        Some(List::<F>::decode(frame).and_then(|items| {
            let request = frame.request();
            let mut builder = ListBuilder::<F>::begin_as(kind, out, request, items.head());
            for item in items {
                builder.push(&item?);
            }
            builder.finish(frame.has_more());
            Ok(())
        }))
    }

    fn single<M: SingleFrame<'a>>(self) -> Self::Output {
        let Self { kind, frame, out } = self;
        let message = M::decode(frame);
        Some(message.map(|message| message.encode_as(kind, frame.request(), out)))
    }

    fn by_hand(self, kind: FrameKind) -> Self::Output {
        by_hand(kind, self.frame, self.out)
    }
}

fn by_hand(kind: FrameKind, frame: &Frame<'_>, out: &mut Vec<u8>) -> Option<Outcome> {
    let result = match kind {
        FrameKind::Opened => {
            Opened::decode(frame).and_then(|items| opened(items, frame, None, out))
        }
        FrameKind::Subscribed | FrameKind::Closed | FrameKind::Requested => {
            results(frame, kind, out)
        }
        FrameKind::Readings => readings(frame, out),
        FrameKind::Write | FrameKind::Publish | FrameKind::ProviderWrite => {
            writes(frame, kind, out)
        }
        FrameKind::Updates => updates(frame, out),
        FrameKind::Deploy => deploy(frame, out),
        FrameKind::Repaired => repaired(frame, out),
        FrameKind::GroupWrite => group_write(frame, out),
        FrameKind::SnapshotAnswer => decode_snapshot(frame).and_then(|(head, items)| {
            let first = items.first_index();
            all_readings(
                items,
                begin_snapshot(out, frame.request(), first, head),
                frame,
            )
        }),
        FrameKind::Provided => {
            decode_provided(frame).and_then(|(lease, items)| opened(items, frame, Some(lease), out))
        }
        FrameKind::StreamHello => StreamHello::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamWelcome => StreamWelcome::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamData => Data::decode(frame).map(|m| m.encode(out)),
        _ => return None,
    };
    Some(result)
}

type Outcome = Result<(), DecodeError>;

fn group_write(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let group = GroupWrite::decode(frame)?;
    let mut builder = GroupWriteBuilder::begin(out, frame.request(), group.try_only());
    for write in group {
        let write = write?;
        builder.push(write.handle, &write.options, write.value);
    }
    builder.finish();
    Ok(())
}

fn deploy(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let deploy = Deploy::decode(frame)?;
    let mut builder = DeployBuilder::begin(out, frame.request(), &deploy.head());
    for variable in deploy {
        builder.push(&variable?);
    }
    builder.finish(frame.has_more());
    Ok(())
}

fn opened(
    items: Opened<'_>,
    frame: &Frame<'_>,
    lease: Option<std::time::Duration>,
    out: &mut Vec<u8>,
) -> Outcome {
    let (request, options, first) = (frame.request(), items.options(), items.first_index());
    let mut builder = match lease {
        Some(lease) => begin_provided(out, request, lease, options, first),
        None => OpenedBuilder::begin(out, request, options, first),
    };
    for item in items {
        match item? {
            Ok(item) => builder.push(
                item.handle,
                &item.data_type,
                item.access,
                item.reading.as_ref(),
                item.properties.as_ref(),
            ),
            Err(fault) => builder.push_fault(fault),
        }
    }
    builder.finish(frame.has_more());
    Ok(())
}

fn results(frame: &Frame<'_>, kind: FrameKind, out: &mut Vec<u8>) -> Outcome {
    let mut exceptions = Results::decode(frame)?;
    let (first, count) = (exceptions.first_index(), exceptions.answered());
    let mut builder = match kind {
        FrameKind::Closed => ResultsBuilder::closed(out, frame.request(), first),
        FrameKind::Requested => ResultsBuilder::requested(out, frame.request(), first),
        _ => ResultsBuilder::subscribed(out, frame.request(), first),
    };
    // A frame can claim any number of successes without a byte; a test writes only some of them
    // again.
    let mut written = 0;
    let mut succeed_before = |builder: &mut ResultsBuilder<'_>, index: u32| {
        while written < index.min(100_000) {
            builder.push_ok();
            written += 1;
        }
        written += 1;
    };
    exceptions.try_for_each(|exception| {
        let (index, fault) = exception?;
        succeed_before(&mut builder, index.wrapping_sub(first));
        builder.push_fault(fault);
        Ok(())
    })?;
    succeed_before(&mut builder, count);
    builder.finish(frame.has_more());
    Ok(())
}

fn readings(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = Readings::decode(frame)?;
    let builder = ReadingsBuilder::begin(out, frame.request(), items.first_index());
    all_readings(items, builder, frame)
}

fn all_readings(
    items: Readings<'_>,
    mut builder: ReadingsBuilder<'_>,
    frame: &Frame<'_>,
) -> Outcome {
    for item in items {
        match item? {
            Ok(record) => builder.push(&record),
            Err(fault) => builder.push_fault(fault),
        }
    }
    builder.finish(frame.has_more());
    Ok(())
}

fn writes(frame: &Frame<'_>, kind: FrameKind, out: &mut Vec<u8>) -> Outcome {
    let items = Writes::decode(frame)?;
    let first = items.first_write();
    let mut builder = match kind {
        FrameKind::Publish => WriteBuilder::begin_publish(out, first),
        FrameKind::ProviderWrite => WriteBuilder::begin_provider_write(out, first),
        _ => WriteBuilder::begin(out, first),
    };
    for item in items {
        let item = item?;
        let id = builder.push(item.handle, &item.options, item.value);
        assert_eq!(id, item.write);
    }
    builder.finish();
    Ok(())
}

fn updates(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = Updates::decode(frame)?;
    let mut builder = UpdatesBuilder::begin(out, items.subscription());
    for item in items {
        builder.push(&item?);
    }
    builder.finish();
    Ok(())
}

fn repaired(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = Updates::decode_repaired(frame)?;
    let mut builder = UpdatesBuilder::begin_repaired(out, items.subscription());
    for item in items {
        builder.push(&item?);
    }
    builder.finish();
    Ok(())
}
