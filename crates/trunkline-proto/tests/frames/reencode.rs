//! Decodes a frame of any kind to its last item and encodes what was read again: the one function
//! behind the round-trip, hostile-input and fuzz tests.

#[path = "reencode_stream.rs"]
mod reencode_stream;

use trunkline_proto::frame::Frame;
use trunkline_proto::message::audit::{Audit, AuditPageBuilder, AuditPageFrame};
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::convergence::{Check, CheckBuilder, Compare, CompareBuilder};
use trunkline_proto::message::engine::{EngineInfo, decode_engine_request, encode_engine_request};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::find::Find;
use trunkline_proto::message::flush::{decode_flush, decode_flushed, encode_flush, encode_flushed};
use trunkline_proto::message::forcing::{Forced, ForcedBuilder, Forcing};
use trunkline_proto::message::group::{
    GroupAnswer, GroupAnswerBuilder, GroupWrite, GroupWriteBuilder,
};
use trunkline_proto::message::handles::{Handles, HandlesBuilder, Unsubscribe};
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::message::info::{InfoAnswer, InfoAnswerBuilder};
use trunkline_proto::message::keepalive::{Ack, AckBuilder, Keepalive};
use trunkline_proto::message::kinds::{MessageVisitor, with_message};
use trunkline_proto::message::library::{Deploy, DeployBuilder, LibraryOrder, LibraryReport};
use trunkline_proto::message::list::{List, ListBuilder, ListFrame};
use trunkline_proto::message::lost::{LostBuilder, LostRecords};
use trunkline_proto::message::open::{Open, OpenBuilder, Opened, OpenedBuilder};
use trunkline_proto::message::provider::{
    Provide, ProvideBuilder, ProviderAnswers, ProviderAnswersBuilder, ProviderBind,
    ProviderBindBuilder, begin_provided, begin_provider_request, decode_provided,
    decode_provider_request,
};
use trunkline_proto::message::read::{Readings, ReadingsBuilder};
use trunkline_proto::message::results::{Results, ResultsBuilder};
use trunkline_proto::message::single::SingleFrame;
use trunkline_proto::message::snapshot::{begin_snapshot, decode_snapshot};
use trunkline_proto::message::subscribe::{Subscribe, SubscribeBuilder};
use trunkline_proto::message::updates::{Updates, UpdatesBuilder};
use trunkline_proto::message::watch::{Appeared, AppearedBuilder, Vanished, begin_vanished};
use trunkline_proto::message::write::{WriteBuilder, Writes};
use trunkline_proto::message::write_answers::{WriteAnswers, WriteAnswersBuilder};
use trunkline_proto::{DecodeError, FrameKind};

/// Appends to `out` the frame that says what `frame` says; `None` for kinds that carry no message
/// of their own (PART, and what this version does not know). Extensions are dropped.
///
/// What it writes for legal frames differs from them only where the form leaves a choice.
pub fn reencode(frame: &Frame<'_>, out: &mut Vec<u8>) -> Option<Result<(), DecodeError>> {
    with_message(frame.kind()?, Reencode { frame, out })
}

struct Reencode<'f, 'a, 'o> {
    frame: &'f Frame<'a>,
    out: &'o mut Vec<u8>,
}

impl<'a> MessageVisitor<'a> for Reencode<'_, 'a, '_> {
    type Output = Option<Outcome>;

    fn list<F: ListFrame>(self) -> Self::Output {
        let Self { frame, out } = self;
        Some(List::<F>::decode(frame).and_then(|items| {
            let mut builder = ListBuilder::<F>::begin(out, frame.request(), items.head());
            for item in items {
                builder.push(&item?);
            }
            builder.finish(frame.has_more());
            Ok(())
        }))
    }

    fn single<M: SingleFrame<'a>>(self) -> Self::Output {
        let Self { frame, out } = self;
        Some(M::decode(frame).map(|message| message.encode(frame.request(), out)))
    }

    fn by_hand(self, kind: FrameKind) -> Self::Output {
        by_hand(kind, self.frame, self.out)
    }
}

fn by_hand(kind: FrameKind, frame: &Frame<'_>, out: &mut Vec<u8>) -> Option<Outcome> {
    let result = match kind {
        FrameKind::Hello => Hello::decode(frame).map(|m| m.encode(out)),
        FrameKind::Welcome => Welcome::decode(frame).map(|m| m.encode(out)),
        FrameKind::Refused => Refused::decode(frame).map(|m| m.encode(out)),
        FrameKind::Goodbye => Goodbye::decode(frame).map(|m| m.encode(out)),
        FrameKind::Keepalive => Keepalive::decode(frame).map(|m| m.encode(out)),
        FrameKind::Ack => ack(frame, out),
        FrameKind::Open => open(frame, out),
        FrameKind::Opened => {
            Opened::decode(frame).and_then(|items| opened(items, frame, None, out))
        }
        FrameKind::Subscribe => subscribe(frame, out),
        FrameKind::Subscribed | FrameKind::Closed | FrameKind::Requested => {
            results(frame, kind, out)
        }
        FrameKind::Unsubscribe => Unsubscribe::decode(frame).and_then(|m| {
            let builder = HandlesBuilder::unsubscribe(out, frame.request(), m.subscription);
            handles(m.handles, builder, frame)
        }),
        FrameKind::Read => all_handles(frame, HandlesBuilder::read(out, frame.request())),
        FrameKind::Snapshot => all_handles(frame, HandlesBuilder::snapshot(out, frame.request())),
        FrameKind::Close => all_handles(frame, HandlesBuilder::close(out, frame.request())),
        FrameKind::Info => all_handles(frame, HandlesBuilder::info(out, frame.request())),
        FrameKind::RequestValue => {
            all_handles(frame, HandlesBuilder::request_value(out, frame.request()))
        }
        FrameKind::Gone => all_handles(frame, HandlesBuilder::gone(out)),
        FrameKind::Readings => readings(frame, out),
        FrameKind::Write | FrameKind::Publish | FrameKind::ProviderWrite => {
            writes(frame, kind, out)
        }
        FrameKind::WriteAnswers => write_answers(frame, out),
        FrameKind::Updates => updates(frame, out),
        FrameKind::Lost => lost(frame, out),
        FrameKind::Find => Find::decode(frame).and_then(|(find, conditions)| {
            let mut wrong = Ok(());
            let right = conditions.map_while(|condition| {
                let condition = condition.map_err(|error| wrong = Err(error));
                condition.ok()
            });
            find.encode_with(right, frame.request(), out);
            wrong
        }),
        FrameKind::Appeared => appeared(frame, out),
        FrameKind::Vanished => vanished(frame, out),
        FrameKind::InfoAnswer => info(frame, out),
        FrameKind::Engine => {
            decode_engine_request(frame).map(|()| encode_engine_request(frame.request(), out))
        }
        FrameKind::EngineAnswer => {
            EngineInfo::decode(frame).map(|m| m.encode(frame.request(), out))
        }
        FrameKind::Fault => FaultMessage::decode(frame).map(|m| m.encode(out)),
        FrameKind::Deploy => deploy(frame, out),
        FrameKind::Order => LibraryOrder::decode(frame).map(|m| m.encode(frame.request(), out)),
        FrameKind::Forcing => Forcing::decode(frame).map(|m| m.encode(frame.request(), out)),
        FrameKind::Forced => forced(frame, out),
        FrameKind::Check => check(frame, out),
        FrameKind::Compare => compare(frame, out),
        FrameKind::Repaired => repaired(frame, out),
        FrameKind::Report => LibraryReport::decode(frame).map(|m| m.encode(frame.request(), out)),
        FrameKind::GroupWrite => group_write(frame, out),
        FrameKind::GroupAnswer => group_answer(frame, out),
        FrameKind::SnapshotAnswer => decode_snapshot(frame).and_then(|(head, items)| {
            let first = items.first_index();
            all_readings(
                items,
                begin_snapshot(out, frame.request(), first, head),
                frame,
            )
        }),
        FrameKind::Audit => Audit::decode(frame).map(|m| m.encode(frame.request(), out)),
        FrameKind::AuditPage => audit_page(frame, out),
        FrameKind::Provide => provide(frame, out),
        FrameKind::Provided => {
            decode_provided(frame).and_then(|(lease, items)| opened(items, frame, Some(lease), out))
        }
        FrameKind::ProviderRequest => decode_provider_request(frame)
            .and_then(|(ticket, items)| handles(items, begin_provider_request(out, ticket), frame)),
        FrameKind::ProviderBind => provider_bind(frame, out),
        FrameKind::ProviderAnswer => provider_answers(frame, out),
        FrameKind::Flush => decode_flush(frame).map(|()| encode_flush(frame.request(), out)),
        FrameKind::Flushed => decode_flushed(frame).map(|()| encode_flushed(frame.request(), out)),
        _ => return reencode_stream::stream(frame, out),
    };
    Some(result)
}

type Outcome = Result<(), DecodeError>;

fn ack(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let ack = Ack::decode(frame)?;
    let mut builder = AckBuilder::begin(out, ack.records_received());
    for grant in ack {
        builder.push(grant?);
    }
    builder.finish();
    Ok(())
}

fn provider_bind(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let mut builder = ProviderBindBuilder::begin(out);
    for bound in ProviderBind::decode(frame)? {
        let bound = bound?;
        builder.push(bound.handle, &bound.data_type, bound.access, bound.item);
    }
    builder.finish();
    Ok(())
}

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

fn group_answer(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let answer = GroupAnswer::decode(frame)?;
    let mut builder = GroupAnswerBuilder::begin(out, frame.request(), answer.head());
    for outcome in answer {
        builder.push(&outcome?);
    }
    builder.finish();
    Ok(())
}

fn forced(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let forced = Forced::decode(frame)?;
    let head = forced.head();
    let mut builder = ForcedBuilder::begin(out, frame.request());
    for entry in forced {
        builder.push(&entry?);
    }
    builder.finish(&head);
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

fn open(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let open = Open::decode(frame)?;
    let mut builder = OpenBuilder::begin(out, frame.request(), &open.terms());
    for name in open {
        builder.push(&String::from_utf8_lossy(name?));
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

fn subscribe(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = Subscribe::decode(frame)?;
    let epoch = items.resume_epoch();
    let mut builder = SubscribeBuilder::begin(out, frame.request(), &items.terms(), epoch);
    for item in items {
        builder.push(&item?);
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

fn all_handles(frame: &Frame<'_>, builder: HandlesBuilder<'_>) -> Outcome {
    match Handles::decode(frame) {
        Ok(items) => handles(items, builder, frame),
        Err(error) => {
            builder.finish(false);
            Err(error)
        }
    }
}

fn handles(items: Handles<'_>, mut builder: HandlesBuilder<'_>, frame: &Frame<'_>) -> Outcome {
    for handle in items {
        builder.push(handle?);
    }
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

fn write_answers(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = WriteAnswers::decode(frame)?;
    let mut builder = WriteAnswersBuilder::begin(out, items.first_write());
    for item in items {
        builder.push(&item?.1);
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

fn check(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let mut builder = CheckBuilder::begin(out);
    for chunk in Check::decode(frame)? {
        builder.push(&chunk?);
    }
    builder.finish();
    Ok(())
}

fn compare(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = Compare::decode(frame)?;
    let mut builder = CompareBuilder::begin(out, items.records_received());
    for item in items {
        builder.push(&item?);
    }
    builder.finish();
    Ok(())
}

fn lost(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = LostRecords::decode(frame)?;
    let mut builder = LostBuilder::begin(out, items.subscription());
    for item in items {
        builder.push(&item?);
    }
    builder.finish();
    Ok(())
}

fn appeared(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = Appeared::decode(frame)?;
    let (watch, revision, listed) = (items.watch(), items.revision(), items.is_listed());
    let begins_anew = items.begins_anew();
    let mut builder = AppearedBuilder::begin(out, frame.request(), watch, revision);
    for item in items {
        let item = item?;
        builder.push(item.handle, item.name, &item.data_type, item.access);
    }
    match begins_anew {
        true => builder.finish_anew(),
        false => builder.finish(listed),
    }
    Ok(())
}

fn vanished(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let vanished = Vanished::decode(frame)?;
    let mut builder = begin_vanished(out, vanished.watch, vanished.revision);
    for handle in vanished.handles {
        builder.push(handle?);
    }
    builder.finish(false);
    Ok(())
}

fn audit_page(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = AuditPageFrame::decode(frame)?;
    let head = items.head();
    let mut builder = AuditPageBuilder::begin(out, frame.request(), &head);
    for item in items {
        builder.push(&item?);
    }
    builder.finish(frame.has_more());
    Ok(())
}

fn info(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = InfoAnswer::decode(frame)?;
    let mut builder = InfoAnswerBuilder::begin(out, frame.request(), items.first_index());
    for item in items {
        match item? {
            Ok(info) => builder.push(&info),
            Err(fault) => builder.push_fault(fault),
        }
    }
    builder.finish(frame.has_more());
    Ok(())
}

fn provide(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = Provide::decode(frame)?;
    let (lease, provider) = (items.lease(), items.provider());
    let mut builder = ProvideBuilder::begin(out, frame.request(), lease, provider);
    for name in items {
        builder.push(&String::from_utf8_lossy(name?));
    }
    builder.finish(frame.has_more());
    Ok(())
}

fn provider_answers(frame: &Frame<'_>, out: &mut Vec<u8>) -> Outcome {
    let items = ProviderAnswers::decode(frame)?;
    let mut builder = ProviderAnswersBuilder::begin(out);
    for item in items {
        builder.push(&item?);
    }
    builder.finish();
    Ok(())
}
