//! The client's frames, as the fake engine decoded them.

use trunkline_proto::message::audit::Audit;
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::find::FindConditions;
use trunkline_proto::message::handles::{Handles, Unsubscribe};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::{Ack, Keepalive};
use trunkline_proto::message::open::{Open, OpenTerms};
use trunkline_proto::message::provider::{Provide, ProviderAnswers, ProviderOutcome};
use trunkline_proto::message::subscribe::{Subscribe, SubscribeTerms};
use trunkline_proto::message::watch::{Unwatch, Watch};
use trunkline_proto::message::why::Why;
use trunkline_proto::message::write::{WriteOptions, Writes};
use trunkline_proto::{Frame, FrameKind};

/// A frame of the client.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    Hello(Box<Hello>),
    Goodbye(Goodbye),
    Keepalive(Keepalive),
    Ack {
        records: u64,
        grants: Vec<(u32, u64)>,
    },
    Open {
        request: u32,
        terms: OpenTerms,
        names: Vec<String>,
        more: bool,
    },
    Subscribe {
        request: u32,
        terms: SubscribeTerms,
        resume: Option<u64>,
        items: Vec<(u32, u64)>,
        more: bool,
    },
    Unsubscribe {
        request: u32,
        subscription: u32,
        handles: Vec<u32>,
        more: bool,
    },
    Handles {
        kind: FrameKind,
        request: u32,
        handles: Vec<u32>,
        more: bool,
    },
    /// A request to check everything, or the items whose digests differ.
    Compare,
    Write(Vec<SaidWrite>),
    Find {
        request: u32,
        pattern: String,
        cursor: u64,
    },
    Watch {
        request: u32,
        watch: u32,
        pattern: String,
    },
    Unwatch(u32),
    Why {
        request: u32,
        name: String,
    },
    Engine {
        request: u32,
    },
    Provide {
        request: u32,
        name: String,
    },
    Publish(Vec<SaidWrite>),
    /// Tickets, each with the sentence of a refusal.
    Answers(Vec<(u64, Option<String>)>),
    History {
        request: u32,
    },
    Audit {
        request: u32,
        from: Option<u64>,
        limit: u32,
    },
}

/// A write of the client.
#[derive(Clone, PartialEq, Debug)]
pub struct SaidWrite {
    pub number: u64,
    pub handle: u32,
    pub options: WriteOptions,
    pub value: Vec<u8>,
}

impl Said {
    /// Decodes a frame with the protocol's own decoders.
    pub fn of(frame: &Frame<'_>) -> Self {
        let (request, more) = (frame.request(), frame.has_more());
        match frame.kind().expect("the client sends known kinds only") {
            FrameKind::Hello => Said::Hello(Box::new(Hello::decode(frame).unwrap())),
            FrameKind::Goodbye => Said::Goodbye(Goodbye::decode(frame).unwrap()),
            FrameKind::Keepalive => Said::Keepalive(Keepalive::decode(frame).unwrap()),
            FrameKind::Ack => {
                let ack = Ack::decode(frame).unwrap();
                let records = ack.head().records_received;
                let grants = ack
                    .map(Result::unwrap)
                    .map(|g| (g.subscription, g.more))
                    .collect();
                Said::Ack { records, grants }
            }
            FrameKind::Open => {
                let open = Open::decode(frame).unwrap();
                let terms = *open.head();
                let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
                let names = open.map(Result::unwrap).map(text).collect();
                Said::Open {
                    request,
                    terms,
                    names,
                    more,
                }
            }
            FrameKind::Subscribe => {
                let subscribe = Subscribe::decode(frame).unwrap();
                let (terms, resume) = (subscribe.head().terms, subscribe.head().resume_epoch);
                let item = |item: trunkline_proto::message::subscribe::SubscribeItem| {
                    (item.handle, item.last_sequence)
                };
                let items = subscribe.map(Result::unwrap).map(item).collect();
                Said::Subscribe {
                    request,
                    terms,
                    resume,
                    items,
                    more,
                }
            }
            FrameKind::Unsubscribe => {
                let unsubscribe = Unsubscribe::decode(frame).unwrap();
                let subscription = unsubscribe.head().subscription;
                let handles = unsubscribe.map(Result::unwrap).collect();
                Said::Unsubscribe {
                    request,
                    subscription,
                    handles,
                    more,
                }
            }
            FrameKind::Compare => Said::Compare,
            FrameKind::Write => Said::Write(writes(frame)),
            FrameKind::Publish => Said::Publish(writes(frame)),
            FrameKind::Provide => {
                let name = Provide::decode(frame).unwrap().head().provider.to_owned();
                Said::Provide { request, name }
            }
            FrameKind::ProviderAnswer => {
                let answers = ProviderAnswers::decode(frame).unwrap().map(Result::unwrap);
                let refusal = |outcome| match outcome {
                    ProviderOutcome::Refused(fault) => Some(fault.sentence.to_owned()),
                    _ => None,
                };
                let answers = answers.map(|answer| (answer.ticket, refusal(answer.outcome)));
                Said::Answers(answers.collect())
            }
            FrameKind::Find => {
                let find = *FindConditions::decode(frame).unwrap().head();
                Said::Find {
                    request,
                    pattern: find.pattern.to_owned(),
                    cursor: find.cursor,
                }
            }
            FrameKind::Watch => {
                let Watch { watch, pattern } = Watch::decode(frame).unwrap();
                let pattern = pattern.to_owned();
                Said::Watch {
                    request,
                    watch,
                    pattern,
                }
            }
            FrameKind::Unwatch => Said::Unwatch(Unwatch::decode(frame).unwrap().watch),
            FrameKind::Why => Said::Why {
                request,
                name: Why::decode(frame).unwrap().name.to_owned(),
            },
            FrameKind::Engine => Said::Engine { request },
            FrameKind::Audit => {
                let audit = Audit::decode(frame).unwrap();
                Said::Audit {
                    request,
                    from: audit.from,
                    limit: audit.limit,
                }
            }
            FrameKind::History => Said::History { request },
            kind => {
                let handles = Handles::decode(frame)
                    .unwrap()
                    .map(Result::unwrap)
                    .collect();
                Said::Handles {
                    kind,
                    request,
                    handles,
                    more,
                }
            }
        }
    }

    /// The kind of the frame.
    pub fn kind(&self) -> FrameKind {
        match self {
            Said::Hello(_) => FrameKind::Hello,
            Said::Goodbye(_) => FrameKind::Goodbye,
            Said::Keepalive(_) => FrameKind::Keepalive,
            Said::Ack { .. } => FrameKind::Ack,
            Said::Open { .. } => FrameKind::Open,
            Said::Subscribe { .. } => FrameKind::Subscribe,
            Said::Unsubscribe { .. } => FrameKind::Unsubscribe,
            Said::Handles { kind, .. } => *kind,
            Said::Compare => FrameKind::Compare,
            Said::Write(_) => FrameKind::Write,
            Said::Find { .. } => FrameKind::Find,
            Said::Watch { .. } => FrameKind::Watch,
            Said::Unwatch(_) => FrameKind::Unwatch,
            Said::Why { .. } => FrameKind::Why,
            Said::Engine { .. } => FrameKind::Engine,
            Said::Provide { .. } => FrameKind::Provide,
            Said::Publish(_) => FrameKind::Publish,
            Said::Answers(_) => FrameKind::ProviderAnswer,
            Said::Audit { .. } => FrameKind::Audit,
            Said::History { .. } => FrameKind::History,
        }
    }
}

fn writes(frame: &Frame<'_>) -> Vec<SaidWrite> {
    let writes = Writes::decode(frame).unwrap().map(Result::unwrap);
    let said = writes.map(|w| SaidWrite {
        number: w.write,
        handle: w.handle,
        options: w.options,
        value: w.value.to_vec(),
    });
    said.collect()
}
