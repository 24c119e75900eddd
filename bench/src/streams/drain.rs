//! Readers that read until the writer ends, for writers that choose the measuring time themselves.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use trunkline::stream::{Reader, StreamError, Writer};

use super::flow::{Counted, Flow, Numbers};
use super::{COPIED, Form, free_port, journal, throughput};
use crate::Outcome;
use crate::cells::RAW;
use crate::raw::connect;
use crate::role::{Role, say};
use crate::settings::Settings;
use crate::usage::process_cpu_ns;

/// A reader that does not report for this long has failed.
const GONE_AFTER: Duration = Duration::from_secs(10);
/// Longer than a reader needs for data in transit.
const CLOSE_MAX: Duration = Duration::from_secs(60);

/// The writer of a system, with a reader that drains it.
pub(super) struct Tap {
    pub far: Role,
    pub numbers: Numbers,
    buffer: Vec<f64>,
    end: End,
}

enum End {
    Raw(TcpStream),
    Stream(Box<Writer<f64>>),
}

impl Tap {
    /// Connects a raw socket, or a copying stream over TCP: with journals if the settings ask for
    /// them.
    pub fn open(system: &str, flow: &Flow, settings: &Settings) -> Outcome<Self> {
        let port = free_port()?;
        let settings = settings.clone().with("port", port);
        let (far, end) = if system == RAW {
            let mut far = Role::start("drain-raw", &settings)?;
            let socket = connect(&far.expect("LISTENING")?)?;
            (far, End::Raw(socket))
        } else {
            let far = Role::start("drain-trunkline", &settings)?;
            let mut options = Form::of(COPIED)?.options(flow.capacity(), &settings)?;
            options.peer = Some(format!("tl://localhost:{port}/bench"));
            options.journal = journal::options(&settings, "writer")?;
            options.gone_after = Some(GONE_AFTER);
            let writer = Writer::create("bench/out", options)?;
            (far, End::Stream(Box::new(writer)))
        };
        Ok(Self {
            far,
            numbers: Numbers::default(),
            buffer: vec![0.0; flow.call],
            end,
        })
    }

    pub fn write(&mut self) -> Outcome<()> {
        match &mut self.end {
            End::Raw(socket) => {
                self.numbers.fill(&mut self.buffer);
                Ok(socket.write_all(bytemuck::cast_slice(&self.buffer))?)
            }
            End::Stream(writer) => {
                let (form, call) = (Form::of(COPIED)?, self.buffer.len());
                throughput::write(writer, form, call, &mut self.buffer, &mut self.numbers)
            }
        }
    }

    /// Returns the writer of a stream.
    pub fn writer(&mut self) -> Option<&mut Writer<f64>> {
        match &mut self.end {
            End::Stream(writer) => Some(writer),
            End::Raw(_) => None,
        }
    }

    /// Ends the stream and waits for the reader. Returns its count.
    pub fn finish(mut self) -> Outcome<Counted> {
        match self.end {
            End::Raw(socket) => socket.shutdown(std::net::Shutdown::Write)?,
            End::Stream(writer) => {
                let left = writer.close(Some(CLOSE_MAX));
                if left.elements > 0 {
                    return Err(format!("{} elements not delivered", left.elements).into());
                }
            }
        }
        let counted = Counted::of(&mut self.far)?;
        match self.numbers.next as f64 {
            written if written == counted.elements => Ok(counted),
            written => Err(format!("{written} written, {} read", counted.elements).into()),
        }
    }
}

pub fn read_raw(settings: &Settings) -> Outcome<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, settings.value("port")?))?;
    say(&format!("LISTENING {}", listener.local_addr()?));
    let (mut socket, _) = listener.accept()?;
    let mut buffer = vec![0.0_f64; settings.value("call")?];
    let counted = drain(|numbers| {
        match socket.read_exact(bytemuck::cast_slice_mut(&mut buffer)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        numbers.check(&buffer);
        Ok(true)
    });
    counted?.report();
    Ok(())
}

pub fn read_stream(settings: &Settings) -> Outcome<()> {
    let flow = Flow::read(settings)?;
    let port: u16 = settings.value("port")?;
    let mut options = Form::of(COPIED)?.options(flow.capacity(), settings)?;
    options.journal = journal::options(settings, "reader")?;
    let url = format!("tl://localhost:{port}/bench");
    let mut reader = Reader::<f64>::create(&url, options)?;
    let mut buffer = vec![0.0; flow.call];
    let counted = drain(|numbers| match reader.read_into(&mut buffer, None) {
        Ok(count) => {
            numbers.check(&buffer[..count]);
            Ok(count > 0)
        }
        Err(StreamError::Ended) => Ok(false),
        Err(error) => Err(error.into()),
    })?;
    // Dropping a reader with a journal would keep the stream for a later reader.
    reader.close()?;
    counted.report();
    Ok(())
}

/// Reads until the end of the stream. Returns what was counted.
pub fn drain(mut take: impl FnMut(&mut Numbers) -> Outcome<bool>) -> Outcome<Counted> {
    let mut numbers = Numbers::default();
    let (start, cpu) = (Instant::now(), process_cpu_ns());
    while take(&mut numbers)? {}
    Ok(Counted {
        elements: numbers.next as f64,
        seconds: start.elapsed().as_secs_f64(),
        cpu_ns: (process_cpu_ns() - cpu) as f64,
        wrong: numbers.wrong as f64,
    })
}
