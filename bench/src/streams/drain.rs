//! Readers that read until the writer ends, for writers that say themselves how long they write.

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

/// A reader that is gone for so long has failed.
const GONE_AFTER: Duration = Duration::from_secs(10);
/// Longer than a reader takes for what is on its way.
const CLOSE_MAX: Duration = Duration::from_secs(60);

/// The writer's end of a system, with a reader that drains it.
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
    /// Connects raw, or a stream with copies over TCP: with journals where the settings say so.
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

    /// The writer, of a stream.
    pub fn writer(&mut self) -> Option<&mut Writer<f64>> {
        match &mut self.end {
            End::Stream(writer) => Some(writer),
            End::Raw(_) => None,
        }
    }

    /// Ends the stream, and returns what the reader has counted when it has everything.
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

/// The far end of raw.
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
    counted?.say();
    Ok(())
}

/// The far end of a stream.
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
    // One that just goes, with a journal, leaves the stream to its next life.
    reader.close()?;
    counted.say();
    Ok(())
}

/// Takes as long as there is something; what it was.
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
