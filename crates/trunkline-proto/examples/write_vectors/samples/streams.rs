//! Between the two endpoints of a stream.

use std::time::Duration;

use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::message::login::KeyProof;
use trunkline_proto::message::single::{SingleFrame, encode_empty};
use trunkline_proto::message::stream::control::{encode_goodbye, encode_keepalive, encode_refused};
use trunkline_proto::message::stream::directory::{
    Arrived, ArrivedFrom, Lookup, PeerGrant, Register, Registered, Revoked, RevokedFor,
    TicketGrant, Visitor,
};
use trunkline_proto::message::stream::listing::{
    EndpointStatus, EndpointsPage, EndpointsQuery, MemberStatus,
};
use trunkline_proto::message::stream::{
    Abort, Ack, Ask, Data, DataHead, EndState, Incarnation, Lost, ReaderState, StreamEnd,
    StreamHello, StreamWelcome, Until, WriterState, encode_end,
};
use trunkline_proto::stream::Secret;
use trunkline_proto::{FaultCode, Features, FrameKind, VersionRange};
use trunkline_types::DataType;

use super::{Sample, add};

const WRITER: Incarnation = Incarnation(*b"writer's 1st run");
const READER: Incarnation = Incarnation(*b"reader's 1st run");

pub(super) fn add_all(samples: &mut Vec<Sample>) {
    directory(samples);
    machines(samples);
    listing(samples);
    hello(samples);
    transfer(samples);
    closing(samples);
}

fn end(state: EndState) -> StreamEnd {
    let is_writer = matches!(state, EndState::Writer(_));
    let urls = ["tl://rig2/daq/wave", "tl://plant7/archive/wave"].map(str::to_owned);
    let [url, peer_url] = urls;
    let (url, peer_url) = if is_writer {
        (url, peer_url)
    } else {
        (peer_url, String::new())
    };
    StreamEnd {
        features: Features::NONE,
        incarnation: if is_writer { WRITER } else { READER },
        url,
        peer_url,
        data_type: DataType::F64,
        capacity: 4096,
        bytes_max: 32_768,
        has_journal: !is_writer,
        program: "trunkline 0.1.0".to_owned(),
        state,
    }
}

fn directory(samples: &mut Vec<Sample>) {
    let versions = VersionRange { min: 1, max: 1 };
    let url = "tl://plant7/archive/wave".to_owned();
    let program = "trunkline 0.1.0".to_owned();
    let ticket = *b"a one-time token";
    add(samples, "s-lookup", "A writer asks for its peer", |out| {
        let lookup = Lookup {
            versions,
            url: url.clone(),
            incarnation: WRITER,
            program: program.clone(),
            key: None,
        };
        lookup.encode(out);
    });
    add(samples, "s-ticket", "The peer is there", |out| {
        let grant = TicketGrant {
            ticket,
            valid_for: Duration::from_secs(10),
        };
        grant.encode(out);
    });
    add(samples, "s-register", "A reader gives its name", |out| {
        let register = Register {
            versions,
            url: url.clone(),
            incarnation: READER,
            program: program.clone(),
            pid: 4711,
            key: None,
        };
        register.encode(out);
    });
    add(samples, "s-registered", "The name is taken", |out| {
        let registered = Registered {
            lease: Duration::from_secs(3),
            url: url.clone(),
        };
        registered.encode(out);
    });
    add(
        samples,
        "s-arrived",
        "Somebody has come, three bytes ahead",
        |out| {
            let bytes = &[1, 2, 3];
            Arrived { ticket, bytes }.encode(out);
        },
    );
    add(
        samples,
        "s-arrived-from",
        "The account of the connection is in the extension",
        |out| {
            let from = ArrivedFrom {
                identity: "account:daq".to_owned(),
                login: String::new(),
            };
            let bytes = &[1, 2, 3];
            Arrived { ticket, bytes }.encode_from(&from, out);
        },
    );
    add(
        samples,
        "s-arrived-report",
        "The endpoint reports the connection to an engine that was restarted",
        |out| {
            let from = ArrivedFrom {
                identity: "account:daq".to_owned(),
                login: "sha256:0f 192.0.2.7".to_owned(),
            };
            Arrived { ticket, bytes: &[] }.encode_from(&from, out);
        },
    );
}

/// Between endpoints of two machines, over TLS.
fn machines(samples: &mut Vec<Sample>) {
    let versions = VersionRange { min: 1, max: 1 };
    let url = "tl://plant7/archive/wave".to_owned();
    let program = "trunkline 0.1.0".to_owned();
    let ticket = *b"a one-time token";
    let (writer, reader) = ([0x77; 32], [0x88; 32]);
    add(samples, "s-login", "A writer proves who it is", |out| {
        let hello = Hello {
            program: program.clone(),
            key: Some(KeyProof {
                public_key: [0x11; 32],
                signature: [0x22; 64],
            }),
            ..Hello::default()
        };
        hello.encode_as(FrameKind::StreamLogin, 0, out);
    });
    add(
        samples,
        "s-lookup-key",
        "A writer asks for its peer on another machine",
        |out| {
            let lookup = Lookup {
                versions,
                url: url.clone(),
                incarnation: WRITER,
                program: program.clone(),
                key: Some(writer),
            };
            lookup.encode(out);
        },
    );
    add(
        samples,
        "s-register-key",
        "A reader gives its name and its key",
        |out| {
            let register = Register {
                versions,
                url: url.clone(),
                incarnation: READER,
                program: program.clone(),
                pid: 4711,
                key: Some(reader),
            };
            register.encode(out);
        },
    );
    add(
        samples,
        "s-peer",
        "The peer is there and has this key",
        |out| {
            PeerGrant {
                ticket,
                key: reader,
            }
            .encode(out)
        },
    );
    add(
        samples,
        "s-visitor",
        "Somebody with this key has come",
        |out| {
            Visitor {
                ticket,
                key: writer,
            }
            .encode(out)
        },
    );
    add(
        samples,
        "s-revoked",
        "The one with this ticket must go",
        |out| Revoked { ticket }.encode(out),
    );
    add(
        samples,
        "s-revoked-lost",
        "Its account may not use the stream any more",
        |out| {
            let extension = RevokedFor { is_lost: true };
            Revoked { ticket }.encode_for(&extension, out);
        },
    );
}

fn listing(samples: &mut Vec<Sample>) {
    let status = EndpointStatus {
        url: "tl://localhost/archive/wave".to_owned(),
        is_writer: Some(false),
        data_type: "f64".to_owned(),
        capacity: 4096,
        in_buffer: 1000,
        total: 24_000,
        rate: 8000,
        is_connected: false,
        disconnections: 1,
        away_for: Some(Duration::from_millis(1500)),
        stalled_for: Some(Duration::from_millis(250)),
        last_disconnect: "nothing was heard for 3 s".to_owned(),
        peer: "tl://rig2/daq/wave".to_owned(),
        peer_program: "trunkline 0.1.0".to_owned(),
        transport: "TCP".to_owned(),
        fault: String::new(),
        program: "trunkline 0.1.0".to_owned(),
        pid: 4711,
        ..EndpointStatus::default()
    };
    add(samples, "s-list", "The second page of all", |out| {
        let query = EndpointsQuery {
            versions: VersionRange { min: 1, max: 1 },
            after: "tl://localhost/archive/a".to_owned(),
            only: String::new(),
        };
        query.encode(out);
    });
    add(
        samples,
        "s-endpoints",
        "A reader whose writer is away, and one that has said nothing",
        |out| {
            let silent = EndpointStatus {
                url: "tl://localhost/daq/wave".to_owned(),
                ..EndpointStatus::default()
            };
            let page = EndpointsPage {
                endpoints: vec![status.clone(), silent],
                has_more: true,
            };
            page.encode(1, out);
        },
    );
    add(samples, "s-status", "A reader reports its state", |out| {
        status.encode(out);
    });
    add(
        samples,
        "s-status-members",
        "A writer with two readers, one of which is away",
        |out| {
            let member = |name: &str, account: &str, away: Option<u64>| MemberStatus {
                url: format!("tl://localhost/{name}"),
                account: account.to_owned(),
                away_for: away.map(Duration::from_millis),
            };
            let status = EndpointStatus {
                url: "tl://localhost/daq/all".to_owned(),
                is_writer: Some(true),
                is_connected: true,
                peer: "2 readers".to_owned(),
                ..EndpointStatus::default()
            };
            let members = vec![
                member("archive/raw", "local:1000", None),
                member("display/raw", "account:screen", Some(1500)),
            ];
            status.with_members(members).encode(out);
        },
    );
}

fn hello(samples: &mut Vec<Sample>) {
    let writer = EndState::Writer(WriterState {
        kept: 8000,
        kept_elements: 1000,
        written: 24_000,
    });
    let reader = EndState::Reader(ReaderState {
        arrived: 8000,
        arrived_elements: 1000,
        read: 4000,
        durable: 800,
        credit_bytes: 36_768,
        credit_elements: 4596,
        lost: 0,
    });
    add(
        samples,
        "s-hello",
        "A writer that was never connected",
        |out| {
            let hello = StreamHello {
                versions: VersionRange { min: 1, max: 1 },
                end: end(EndState::Writer(WriterState::default())),
                peer: None,
                attempt: 1,
                ticket: Some(*b"a one-time token"),
                share: Some(Secret([0x5a; 32])),
                proof: None,
            };
            hello.encode(out);
        },
    );
    add(
        samples,
        "s-hello-again",
        "A writer that was connected before",
        |out| {
            let hello = StreamHello {
                versions: VersionRange { min: 1, max: 1 },
                end: end(writer),
                peer: Some(READER),
                attempt: 2,
                ticket: None,
                share: Some(Secret([0x5b; 32])),
                proof: Some(Secret([0xc3; 32])),
            };
            hello.encode(out);
        },
    );
    add(samples, "s-welcome", "A reader with a journal", |out| {
        let mut welcome = StreamWelcome::new(end(reader));
        welcome.share = Some(Secret([0xa5; 32]));
        welcome.encode(out);
    });
    add(
        samples,
        "s-welcome-again",
        "The same when the writer comes again",
        |out| {
            let mut welcome = StreamWelcome::new(end(reader));
            welcome.proof = Some(Secret([0x3c; 32]));
            welcome.encode(out);
        },
    );
    add(samples, "s-refused", "Another type of elements", |out| {
        let refused = Refused {
            code: FaultCode::StreamType,
            versions: VersionRange { min: 1, max: 1 },
            retry_after: None,
            sentence: "the elements are of type f64, not string".to_owned(),
        };
        encode_refused(&refused, out);
    });
}

fn transfer(samples: &mut Vec<Sample>) {
    add(samples, "s-data", "Two elements", |out| {
        let bytes = [1.5_f64, 2.5].map(f64::to_le_bytes).concat();
        let head = DataHead {
            position: 8000,
            len: 16,
            crc32c: None,
            is_short_of_room: false,
        };
        let bytes = &bytes;
        Data { head, bytes }.encode(out);
    });
    add(
        samples,
        "s-data-checked",
        "The well-known test of CRC-32C, from a writer that waits for room",
        |out| {
            let head = DataHead {
                position: 8016,
                len: 9,
                crc32c: Some(0xe306_9283),
                is_short_of_room: true,
            };
            let bytes = b"123456789";
            Data { head, bytes }.encode(out);
        },
    );
    let ack = Ack {
        arrived: 8016,
        read: 4000,
        durable: 800,
        credit_bytes: 36_768,
        credit_elements: 4596,
        has_end: false,
    };
    add(samples, "s-ack", "Two more elements have arrived", |out| {
        ack.encode(out)
    });
    add(samples, "s-ack-end", "And the end is known", |out| {
        Ack {
            has_end: true,
            ..ack
        }
        .encode(out);
    });
    for (name, description, until) in [
        (
            "s-ask",
            "Flush until available for reading",
            Until::Available,
        ),
        ("s-ask-read", "Flush until read", Until::Read),
        ("s-ask-durable", "Flush until durable", Until::Durable),
    ] {
        let position = 8016;
        add(samples, name, description, |out| {
            Ask { until, position }.encode(out)
        });
    }
    add(samples, "s-keepalive", "The sender is alive", |out| {
        let keepalive = Keepalive {
            sent: 3_000_000_000,
            echo: 2_000_000_000,
            echo_held_ns: 40_000,
            ..Keepalive::default()
        };
        encode_keepalive(&keepalive, out);
    });
}

fn closing(samples: &mut Vec<Sample>) {
    add(samples, "s-end", "The writer is closed", |out| {
        encode_end(8016, out)
    });
    add(
        samples,
        "s-abort",
        "The writer is destroyed, 2 elements unsent",
        |out| {
            let abort = Abort {
                position: 8032,
                transferred: 8016,
                code: FaultCode::StreamDestroyed,
                sentence: FaultCode::StreamDestroyed.meaning().to_owned(),
            };
            abort.encode(out);
        },
    );
    add(samples, "s-goodbye", "Nothing came for too long", |out| {
        let goodbye = Goodbye {
            code: FaultCode::PeerSilent,
            retry_after: Some(Duration::from_millis(500)),
            sentence: FaultCode::PeerSilent.meaning().to_owned(),
        };
        encode_goodbye(&goodbye, out);
    });
    add(
        samples,
        "s-bell",
        "Something has changed in the ring of both",
        |out| encode_empty(FrameKind::StreamBell, 0, out),
    );
    add(
        samples,
        "s-lost",
        "12 elements are missing where 1,002 have come",
        |out| {
            let (position, lost) = (8016, 12);
            Lost { position, lost }.encode(out);
        },
    );
}
