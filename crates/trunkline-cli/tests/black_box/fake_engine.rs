//! Peers that do not behave: what an engine never does, or does only when it dies.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::hello::Welcome;
use trunkline_proto::message::history::{HistoryFrame, HistoryRowsBuilder, HistoryRowsHead};
use trunkline_proto::message::open::{Open, OpenedBuilder};
use trunkline_proto::{FaultCode, Features, Frame, FrameKind, VersionRange};
use trunkline_types::history::{Bucket, HistoryForm, HistorySeries, SeriesData};
use trunkline_types::{Access, DataType};

/// In which way it misbehaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manners {
    /// Accepts connections and sends nothing.
    Silent,
    /// Speaks another protocol.
    NotTrunkline,
    /// Speaks versions 7 to 9 of this one.
    Newer,
    /// Welcomes, and answers nothing.
    Mute,
    /// Opens every variable, and closes the connection at the first write.
    DropsWrites,
    /// Opens every variable, and answers no write.
    IgnoresWrites,
    /// Has one update of `a/b` in its history, and answers no query of rows.
    IgnoresRows,
}

/// One of them, until the test ends.
pub struct FakeEngine {
    pub url: String,
    frames: Receiver<FrameKind>,
}

impl FakeEngine {
    pub fn start(manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("tl://{}", listener.local_addr().unwrap());
        let (sender, frames) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                std::thread::spawn(move || serve(stream, manners, &sender));
            }
        });
        Self { url, frames }
    }

    /// Waits until a client has asked for this.
    pub fn wait_for(&self, kind: FrameKind) {
        while self.frames.recv().unwrap() != kind {}
    }
}

/// Until the client goes.
fn serve(mut stream: TcpStream, manners: Manners, frames: &Sender<FrameKind>) {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..count]);
        let mut rest = received.as_slice();
        while let Ok(Some(frame)) = Frame::take_from(&mut rest) {
            // The test may not care.
            let _ = frame.kind().map(|kind| frames.send(kind));
            let Some(answer) = answer(&frame, manners) else {
                return;
            };
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
        received = rest.to_vec();
    }
}

/// Its answer to a frame; `None`: it closes the connection.
fn answer(frame: &Frame<'_>, manners: Manners) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match (frame.kind(), manners) {
        (_, Manners::Silent) => {}
        (_, Manners::NotTrunkline) => out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        (Some(FrameKind::Hello), Manners::Newer) => Refused {
            code: FaultCode::VersionMismatch,
            versions: VersionRange { min: 7, max: 9 },
            retry_after: None,
            sentence: String::new(),
        }
        .encode(&mut out),
        (Some(FrameKind::Hello), _) => Welcome {
            epoch: 1,
            session: 1,
            // It sends no keep-alives, and must not count as dead for that.
            deadline: Duration::from_secs(600),
            engine_name: "fake".to_owned(),
            features: Features::HISTORY,
            ..Welcome::default()
        }
        .encode(&mut out),
        (Some(FrameKind::Open), Manners::DropsWrites | Manners::IgnoresWrites) => {
            let open = Open::decode(frame).ok()?;
            let options = open.head().options;
            let mut opened = OpenedBuilder::begin(&mut out, frame.request(), options, 0);
            for handle in 1..=frame.count() {
                opened.push(handle, &DataType::F64, Access::ReadWrite, None, None);
            }
            opened.finish(false);
        }
        (Some(FrameKind::Write), Manners::DropsWrites) => return None,
        (Some(FrameKind::History), Manners::IgnoresRows) => {
            let query = HistoryFrame::decode(frame).ok()?;
            if query.head().query_form() == Some(HistoryForm::Total) {
                let mut bucket = Bucket::new(0);
                bucket.add(1.0);
                let head = HistoryRowsHead::default();
                let mut rows = HistoryRowsBuilder::begin(&mut out, frame.request(), &head);
                rows.push(&HistorySeries {
                    variable: "a/b".to_owned(),
                    data_type: DataType::F64,
                    units: String::new(),
                    data: SeriesData::Buckets {
                        width: 1,
                        buckets: vec![bucket],
                    },
                });
                rows.finish(false);
            }
        }
        _ => {}
    }
    Some(out)
}
