//! The match that maps each kind of frame to its message.

use super::alarm::{AlarmActForm, AlarmActedForm, AlarmPageForm, Alarms};
use super::alarm_journal::{AlarmEntriesForm, AlarmJournal};
use super::audit::{Audit, AuditPageForm};
use super::closing::{Goodbye, Refused};
use super::control::{Control, ControlledFrame};
use super::convergence::{CheckFrame, CompareFrame};
use super::ended::EndedFrame;
use super::engine::EngineInfo;
use super::fault::FaultMessage;
use super::find::{FindFrame, NamesFrame};
use super::forcing::{ForcedFrame, Forcing};
use super::group::GroupAnswerFrame;
use super::handles::{HandlesFrame, UnsubscribeFrame};
use super::hello::{Hello, Welcome};
use super::history::{HistoryFrameForm, HistoryRowsForm};
use super::info::InfoAnswerFrame;
use super::keepalive::{AckFrame, Keepalive};
use super::lease::{LeaseFrame, LeasedFrame};
use super::library::{LibraryOrder, LibraryReport};
use super::list::ListFrame;
use super::lost::LostFrame;
use super::open::OpenFrame;
use super::pair::{Pair, Paired};
use super::provider::{ProvideFrame, ProviderAnswerFrame, ProviderBindFrame, ProviderRequestFrame};
use super::single::SingleFrame;
use super::stream::control::{Abort, Ack, Ask, End, Lost, StreamKeepalive};
use super::stream::directory::{
    Arrived, Lookup, PeerGrant, Register, Registered, Revoked, TicketGrant, Visitor,
};
use super::stream::listing::{EndpointStatus, EndpointsPage, EndpointsQuery};
use super::subscribe::SubscribeFrame;
use super::watch::{AppearedFrame, Unwatch, VanishedFrame, Watch};
use super::why::{Why, WhyAnswerFrame};
use super::write::WriteAnswersFrame;
use crate::FrameKind;

/// An operation on the message of a frame of any kind.
pub trait MessageVisitor<'a> {
    type Output;
    fn list<F: ListFrame>(self) -> Self::Output;
    fn single<M: SingleFrame<'a>>(self) -> Self::Output;
    /// Visits a kind of frame with a hand-written codec.
    fn by_hand(self, kind: FrameKind) -> Self::Output;
}

/// Calls the method of `visitor` for the message of a frame of this kind.
pub fn with_message<'a, V: MessageVisitor<'a>>(kind: FrameKind, visitor: V) -> V::Output {
    match kind {
        FrameKind::Hello | FrameKind::StreamLogin => visitor.single::<Hello>(),
        FrameKind::Welcome => visitor.single::<Welcome>(),
        FrameKind::Refused | FrameKind::StreamRefused => visitor.single::<Refused>(),
        FrameKind::Goodbye | FrameKind::StreamGoodbye => visitor.single::<Goodbye>(),
        FrameKind::Keepalive => visitor.single::<Keepalive>(),
        FrameKind::Ack => visitor.list::<AckFrame>(),
        FrameKind::Open => visitor.list::<OpenFrame>(),
        FrameKind::Subscribe => visitor.list::<SubscribeFrame>(),
        FrameKind::Unsubscribe => visitor.list::<UnsubscribeFrame>(),
        FrameKind::Read
        | FrameKind::Snapshot
        | FrameKind::Close
        | FrameKind::Info
        | FrameKind::RequestValue
        | FrameKind::Gone => visitor.list::<HandlesFrame>(),
        FrameKind::WriteAnswers => visitor.list::<WriteAnswersFrame>(),
        FrameKind::Lost => visitor.list::<LostFrame>(),
        FrameKind::Ended => visitor.list::<EndedFrame>(),
        FrameKind::Find => visitor.list::<FindFrame>(),
        FrameKind::Names => visitor.list::<NamesFrame>(),
        FrameKind::InfoAnswer => visitor.list::<InfoAnswerFrame>(),
        FrameKind::Why => visitor.single::<Why<'a>>(),
        FrameKind::WhyAnswer => visitor.list::<WhyAnswerFrame>(),
        FrameKind::Engine | FrameKind::Flush | FrameKind::Flushed | FrameKind::StreamBell => {
            visitor.single::<()>()
        }
        FrameKind::EngineAnswer => visitor.single::<EngineInfo>(),
        FrameKind::Fault => visitor.single::<FaultMessage<'a>>(),
        FrameKind::Provide => visitor.list::<ProvideFrame>(),
        FrameKind::ProviderRequest => visitor.list::<ProviderRequestFrame>(),
        FrameKind::ProviderAnswer => visitor.list::<ProviderAnswerFrame>(),
        FrameKind::ProviderBind => visitor.list::<ProviderBindFrame>(),
        FrameKind::Order => visitor.single::<LibraryOrder<'a>>(),
        FrameKind::Report => visitor.single::<LibraryReport>(),
        FrameKind::Check => visitor.list::<CheckFrame>(),
        FrameKind::Compare => visitor.list::<CompareFrame>(),
        FrameKind::GroupAnswer => visitor.list::<GroupAnswerFrame>(),
        FrameKind::Lease => visitor.list::<LeaseFrame>(),
        FrameKind::Leased => visitor.list::<LeasedFrame>(),
        FrameKind::Control => visitor.single::<Control<'a>>(),
        FrameKind::Controlled => visitor.list::<ControlledFrame>(),
        FrameKind::Watch => visitor.single::<Watch<'a>>(),
        FrameKind::Appeared => visitor.list::<AppearedFrame>(),
        FrameKind::Vanished => visitor.list::<VanishedFrame>(),
        FrameKind::Unwatch => visitor.single::<Unwatch>(),
        FrameKind::Forcing => visitor.single::<Forcing>(),
        FrameKind::Forced => visitor.list::<ForcedFrame>(),
        FrameKind::Audit => visitor.single::<Audit<'a>>(),
        FrameKind::AuditPage => visitor.list::<AuditPageForm>(),
        FrameKind::Alarms => visitor.single::<Alarms<'a>>(),
        FrameKind::AlarmPage => visitor.list::<AlarmPageForm>(),
        FrameKind::AlarmAct => visitor.list::<AlarmActForm>(),
        FrameKind::AlarmActed => visitor.list::<AlarmActedForm>(),
        FrameKind::AlarmJournal => visitor.single::<AlarmJournal<'a>>(),
        FrameKind::AlarmEntries => visitor.list::<AlarmEntriesForm>(),
        FrameKind::History => visitor.list::<HistoryFrameForm>(),
        FrameKind::HistoryRows => visitor.list::<HistoryRowsForm>(),
        FrameKind::Pair => visitor.single::<Pair>(),
        FrameKind::Paired => visitor.single::<Paired>(),
        FrameKind::StreamLookup => visitor.single::<Lookup>(),
        FrameKind::StreamTicket => visitor.single::<TicketGrant>(),
        FrameKind::StreamRegister => visitor.single::<Register>(),
        FrameKind::StreamRegistered => visitor.single::<Registered>(),
        FrameKind::StreamArrived => visitor.single::<Arrived<'a>>(),
        FrameKind::StreamAck => visitor.single::<Ack>(),
        FrameKind::StreamAsk => visitor.single::<Ask>(),
        FrameKind::StreamEnd => visitor.single::<End>(),
        FrameKind::StreamAbort => visitor.single::<Abort>(),
        FrameKind::StreamKeepalive => visitor.single::<StreamKeepalive>(),
        FrameKind::StreamList => visitor.single::<EndpointsQuery>(),
        FrameKind::StreamEndpoints => visitor.single::<EndpointsPage>(),
        FrameKind::StreamStatus => visitor.single::<EndpointStatus>(),
        FrameKind::StreamLost => visitor.single::<Lost>(),
        FrameKind::StreamPeer => visitor.single::<PeerGrant>(),
        FrameKind::StreamVisitor => visitor.single::<Visitor>(),
        FrameKind::StreamRevoked => visitor.single::<Revoked>(),
        FrameKind::Part
        | FrameKind::Opened
        | FrameKind::Subscribed
        | FrameKind::Closed
        | FrameKind::Requested
        | FrameKind::Readings
        | FrameKind::Write
        | FrameKind::Updates
        | FrameKind::Provided
        | FrameKind::Publish
        | FrameKind::ProviderWrite
        | FrameKind::Deploy
        | FrameKind::Repaired
        | FrameKind::GroupWrite
        | FrameKind::SnapshotAnswer
        | FrameKind::StreamHello
        | FrameKind::StreamWelcome
        | FrameKind::StreamData => visitor.by_hand(kind),
    }
}
