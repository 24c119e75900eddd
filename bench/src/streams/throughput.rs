//! W3: elements per second by call size.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};

use trunkline::stream::{Options, Reader, Writer};

use super::encrypted::{self, Introduction};
use super::flow::{Counted, Counting, Flow, Numbers};
use super::{ENCRYPTED, Form, THROUGHPUT, free_port, memory};
use crate::Outcome;
use crate::cells::RAW;
use crate::raw::connect;
use crate::record::Row;
use crate::role::{Role, say};
use crate::same_host::RAW_MEMORY;
use crate::settings::Settings;
use crate::usage::process_cpu_ns;

/// Measures one system: this process writes, another one reads and counts.
pub fn cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let flow = Flow::read(settings)?;
    let case = format!("call={}", flow.call);
    let mut row = Row::new(THROUGHPUT, system, case, placement);
    row.waiting = "mixed".to_owned();
    measure(system, flow, &mut row)?;
    Ok(row)
}

/// Writes as fast as possible.
pub(super) fn measure(system: &str, flow: Flow, row: &mut Row) -> Outcome<()> {
    if system == RAW_MEMORY {
        return memory::measure(flow, row);
    }
    let port = free_port()?;
    let introduction = match system {
        ENCRYPTED => Some(Introduction::start()?),
        _ => None,
    };
    let mut far_settings = flow.settings().with("port", port).with("system", system);
    if let Some(introduction) = &introduction {
        far_settings = introduction.reader(far_settings)?;
    }
    let mut numbers = Numbers::default();
    let cpu = process_cpu_ns();
    let mut far;
    if system == RAW {
        far = Role::start("stream_throughput-raw", &far_settings)?;
        let mut socket = connect(&far.expect("LISTENING")?)?;
        let mut buffer = vec![0.0_f64; flow.packed()];
        loop {
            numbers.fill(&mut buffer);
            // The connection ends when the reader has counted enough.
            if socket.write_all(bytemuck::cast_slice(&buffer)).is_err() {
                break;
            }
        }
    } else {
        let form = Form::of(system)?;
        far = Role::start("stream_throughput-trunkline", &far_settings)?;
        let mut options: Options = form.options(flow.capacity(), &far_settings)?;
        options.peer = Some(format!("tl://localhost:{port}/bench"));
        if let Some(introduction) = &introduction {
            introduction.writer("bench", &mut options)?;
        }
        let mut writer = Writer::<f64>::create("bench/out", options)?;
        let mut buffer = vec![0.0; flow.call];
        while write(&mut writer, form, flow.call, &mut buffer, &mut numbers).is_ok() {}
    }
    let cpu = process_cpu_ns() - cpu;
    let writer_ns = cpu as f64 / numbers.next as f64;
    Counted::of(&mut far)?.enter(writer_ns, row);
    Ok(())
}

/// One call of a writer. Inlined, as in the loop of a program: a function call per element would
/// cost as much as the element.
#[inline(always)]
pub(super) fn write(
    writer: &mut Writer<f64>,
    form: Form,
    call: usize,
    buffer: &mut [f64],
    numbers: &mut Numbers,
) -> Outcome<()> {
    if form.is_in_place {
        writer.write_with(call, None, |elements| numbers.fill(elements))?;
    } else if call == 1 {
        numbers.fill(buffer);
        writer.write(&buffer[0], None)?;
    } else {
        numbers.fill(buffer);
        writer.write_many(buffer, None)?;
    }
    Ok(())
}

#[inline(always)]
pub(super) fn read(
    reader: &mut Reader<f64>,
    form: Form,
    call: usize,
    buffer: &mut [f64],
    numbers: &mut Numbers,
) -> Outcome<()> {
    if form.is_in_place {
        numbers.check(&reader.acquire(call, None)?);
    } else if call == 1 {
        numbers.check(&[reader.read(None)?]);
    } else {
        reader.read_into(buffer, None)?;
        numbers.check(buffer);
    }
    Ok(())
}

pub fn read_raw(settings: &Settings) -> Outcome<()> {
    let flow = Flow::read(settings)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, settings.value("port")?))?;
    say(&format!("LISTENING {}", listener.local_addr()?));
    let (mut socket, _) = listener.accept()?;
    let mut counting = Counting::new(flow, process_cpu_ns);
    let mut buffer = vec![0.0_f64; flow.packed()];
    loop {
        if let Some(counted) = counting.poll() {
            counted.report();
            return Ok(());
        }
        for _ in 0..Flow::calls_per_clock_read(flow.packed()) {
            socket.read_exact(bytemuck::cast_slice_mut(&mut buffer))?;
            counting.numbers.check(&buffer);
        }
    }
}

pub fn read_stream(settings: &Settings) -> Outcome<()> {
    let flow = Flow::read(settings)?;
    let form = Form::of(&settings.value::<String>("system")?)?;
    let port: u16 = settings.value("port")?;
    let mut options = form.options(flow.capacity(), settings)?;
    let url = match encrypted::is_introduced(settings, &mut options)? {
        true => "bench".to_owned(),
        false => format!("tl://localhost:{port}/bench"),
    };
    let mut reader = Reader::<f64>::create(&url, options)?;
    let mut counting = Counting::new(flow, process_cpu_ns);
    let mut buffer = vec![0.0; flow.call];
    loop {
        if let Some(counted) = counting.poll() {
            counted.report();
            return Ok(());
        }
        for _ in 0..Flow::calls_per_clock_read(flow.call) {
            read(
                &mut reader,
                form,
                flow.call,
                &mut buffer,
                &mut counting.numbers,
            )?;
        }
    }
}
