//! Writes random files with this crate's writer, and predicts the content with a separate model.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;

use fastrand::Rng;
use trunkline_tdms::{
    Arrangement, ChannelAmount, ChannelId, ObjectPath, PropertyValue, TdmsTime, TdmsType, Text,
    Values, Version, Writer, WriterOptions, index_of, lengthen_segment,
};
use trunkline_types::Timestamp;

use crate::dump::Dump;

pub const TYPES: [TdmsType; 15] = [
    TdmsType::I8,
    TdmsType::I16,
    TdmsType::I32,
    TdmsType::I64,
    TdmsType::U8,
    TdmsType::U16,
    TdmsType::U32,
    TdmsType::U64,
    TdmsType::F32,
    TdmsType::F64,
    TdmsType::String,
    TdmsType::Bool,
    TdmsType::Time,
    TdmsType::ComplexF32,
    TdmsType::ComplexF64,
];

/// A file, its index, its content, and the ends of its segments.
pub struct RandomFile {
    pub bytes: Vec<u8>,
    pub index: Vec<u8>,
    /// The content after 0, 1, 2, ... segments, and the position at which that many end.
    pub states: Vec<(u64, Dump)>,
}

impl RandomFile {
    pub fn dump(&self) -> &Dump {
        &self.states.last().unwrap().1
    }
}

/// The calls of the writer; returns the expected content of a file.
#[derive(Default)]
struct Model {
    properties: BTreeMap<(ObjectPath, Text), PropertyValue>,
    objects: Vec<ObjectPath>,
    channels: BTreeMap<ObjectPath, Values>,
}

impl Model {
    fn object(&mut self, path: &ObjectPath) {
        if let Some(parent) = path.parent() {
            self.object(&parent);
        }
        if !self.objects.contains(path) {
            self.objects.push(path.clone());
        }
    }

    fn dump(&self) -> Dump {
        let mut dump = Dump::default();
        self.objects.iter().for_each(|path| dump.object(path));
        for ((path, name), value) in &self.properties {
            dump.property(path, name, value);
        }
        for (path, values) in &self.channels {
            dump.values(path, values);
        }
        dump
    }
}

/// Returns the random file for a seed.
pub fn random_file(seed: u64) -> RandomFile {
    random_file_of(seed, |_| true)
}

/// Returns the random file for a seed within the limits of npTDMS, which supports no complex
/// numbers in properties and in interleaved data.
pub fn random_file_for_nptdms(seed: u64) -> RandomFile {
    let is_complex = |t| matches!(t, TdmsType::ComplexF32 | TdmsType::ComplexF64);
    random_file_of(seed, move |data_type| !is_complex(data_type))
}

/// `reads` returns true for the types that may occur in properties and in interleaved data.
fn random_file_of(seed: u64, reads: impl Fn(TdmsType) -> bool) -> RandomFile {
    let mut rng = Rng::with_seed(seed);
    // A separate generator, so that the rest of a file is the same with and without it.
    let mut padding = Rng::with_seed(!seed);
    let mut chunks = Rng::with_seed(seed.rotate_left(32));
    let version = if rng.u8(..4) == 0 {
        Version::V1
    } else {
        Version::V2
    };
    let block = rng.u8(..4) == 0;
    let mut sut = Writer::new(WriterOptions {
        version,
        block_bytes: block.then(|| [16, 512, 4096][rng.usize(..3)].try_into().unwrap()),
        position: 0,
    });
    let mut model = Model::default();
    model.object(&ObjectPath::File);
    let mut channels: Vec<(ObjectPath, ChannelId, TdmsType)> = Vec::new();
    let (mut bytes, mut index) = (Vec::new(), Vec::new());
    let mut states = vec![(0, Dump::default())];
    for _ in 0..rng.usize(1..9) {
        for _ in 0..rng.usize(..3) {
            let group = ObjectPath::group(name(&mut rng));
            let ObjectPath::Group(of) = &group else {
                continue;
            };
            let path = ObjectPath::channel(of.clone(), name(&mut rng));
            if channels.iter().any(|(known, ..)| *known == path) {
                continue;
            }
            let data_type = TYPES[rng.usize(..TYPES.len())];
            let id = sut.channel(of.clone(), path.name(), data_type).unwrap();
            model.object(&path);
            channels.push((path, id, data_type));
        }
        for _ in 0..rng.usize(..3) {
            let path = model.objects[rng.usize(..model.objects.len())].clone();
            let (name, value) = (Text::from(name(&mut rng)), property(&mut rng));
            if !reads(value.data_type()) {
                continue;
            }
            sut.set(&path, name.clone(), value.clone()).unwrap();
            model.properties.insert((path, name), value);
        }
        let is_interleaved = version == Version::V2 && rng.u8(..3) == 0;
        let rows = rng.usize(..6);
        let mut written: Vec<Written> = Vec::new();
        // Most segments have all channels in the same order, so that segments without metadata
        // occur.
        let mut order: Vec<usize> = (0..channels.len()).collect();
        if rng.u8(..4) == 0 {
            rng.shuffle(&mut order);
            order.truncate(rng.usize(..=order.len()));
        }
        let same = rng.bool();
        for at in order {
            let (path, id, data_type) = &channels[at];
            if is_interleaved && (*data_type == TdmsType::String || !reads(*data_type)) {
                continue;
            }
            let count = match is_interleaved || same {
                true => rows,
                false => rng.usize(..6),
            };
            written.push((path.clone(), *id, values(&mut rng, *data_type, count)));
        }
        let data: Vec<_> = written
            .iter()
            .map(|(_, id, values)| (*id, values.as_data().unwrap()))
            .collect();
        let arrangement = match is_interleaved {
            true => Arrangement::Interleaved,
            false => Arrangement::Contiguous,
        };
        let place = sut.write(&data, arrangement, &mut bytes).unwrap();
        assert_eq!(
            place.position + place.header_bytes + place.raw_bytes,
            bytes.len() as u64
        );
        let from = place.position as usize;
        // Further chunks under the same header, with other values. Strings would have to have as
        // many bytes again.
        let types: Vec<TdmsType> = written
            .iter()
            .map(|(_, id, _)| type_of(&channels, *id))
            .collect();
        let counts: Vec<usize> = written.iter().map(|(.., values)| values.len()).collect();
        let has_chunks = place.raw_bytes > 0 && !types.contains(&TdmsType::String);
        for _ in 0..if has_chunks { chunks.usize(..3) } else { 0 } {
            let mut more = written.clone();
            for (((.., values), data_type), count) in more.iter_mut().zip(&types).zip(&counts) {
                *values = self::values(&mut chunks, *data_type, *count);
            }
            let amounts: Vec<_> = more
                .iter()
                .map(|(_, channel, values)| ChannelAmount {
                    channel: *channel,
                    count: values.len() as u64,
                    bytes: 0,
                })
                .collect();
            let raw = raw_of(&more, &types, arrangement);
            let added = sut.add_chunk(&amounts, arrangement).unwrap();
            assert_eq!(added, raw.len() as u64);
            lengthen_segment(&mut bytes[from..], added);
            bytes.extend(raw);
            assert_eq!(sut.position(), bytes.len() as u64);
            for ((.., values), (.., more)) in written.iter_mut().zip(more) {
                append(values, more);
            }
        }
        if place.header_bytes > 0 {
            let header = &bytes[from..from + place.header_bytes as usize];
            index.extend(index_of(header));
        }
        if padding.bool() {
            let place = sut.pad(&mut bytes).unwrap();
            if place.header_bytes > 0 {
                index.extend(index_of(&bytes[place.position as usize..]));
            }
            assert_eq!(sut.position() % block_of(&sut).unwrap_or(1), 0);
        }
        if let (true, Some(block)) = (place.raw_bytes > 0 && block, block_of(&sut)) {
            assert_eq!((place.position + place.header_bytes) % block, 0);
        }
        for (path, _, values) in written {
            match model.channels.get_mut(&path) {
                Some(before) => append(before, values),
                None => {
                    model.channels.insert(path, values);
                }
            }
        }
        states.push((bytes.len() as u64, model.dump()));
    }
    RandomFile {
        bytes,
        index,
        states,
    }
}

fn block_of(sut: &Writer) -> Option<u64> {
    sut.options().block_bytes.map(std::num::NonZeroU64::get)
}

pub fn name(rng: &mut Rng) -> String {
    let names = [
        "g",
        "h",
        "",
        "Dr. T's",
        "a/b",
        "''",
        "/'x'/'y'",
        "µ 🦀",
        "two\nlines",
        "name",
    ];
    match rng.u8(..40) {
        0 => "long ".repeat(rng.usize(1_000..6_000)),
        1..4 => (0..rng.usize(..9)).map(|_| rng.char('\u{1}'..)).collect(),
        _ => names[rng.usize(..names.len())].to_owned(),
    }
}

pub fn property(rng: &mut Rng) -> PropertyValue {
    match rng.u8(..15) {
        0 => rng.i8(..).into(),
        1 => rng.i16(..).into(),
        2 => rng.i32(..).into(),
        3 => rng.i64(..).into(),
        4 => rng.u8(..).into(),
        5 => rng.u16(..).into(),
        6 => rng.u32(..).into(),
        7 => rng.u64(..).into(),
        8 => float(rng).into(),
        9 => (float(rng) as f32).into(),
        10 => rng.bool().into(),
        11 => time(rng).into(),
        12 => [float(rng) as f32, float(rng) as f32].into(),
        13 => [float(rng), float(rng)].into(),
        _ => name(rng).into(),
    }
}

fn float(rng: &mut Rng) -> f64 {
    match rng.u8(..6) {
        0 => f64::INFINITY,
        1 => -0.0,
        2 => f64::MIN_POSITIVE,
        _ => rng.f64() * 1e6 - 5e5,
    }
}

fn time(rng: &mut Rng) -> TdmsTime {
    match rng.u8(..3) {
        0 => Timestamp::from_nanos(rng.i64(..)).into(),
        1 => Timestamp::from_nanos(rng.i64(0..2_000_000_000_000_000_000)).into(),
        _ => TdmsTime {
            seconds: rng.i64(..),
            fraction: rng.u64(..),
        },
    }
}

pub fn values(rng: &mut Rng, data_type: TdmsType, count: usize) -> Values {
    fn of<T>(count: usize, make: impl FnMut() -> T) -> Vec<T> {
        std::iter::repeat_with(make).take(count).collect()
    }
    match data_type {
        TdmsType::I8 => Values::I8(of(count, || rng.i8(..))),
        TdmsType::I16 => Values::I16(of(count, || rng.i16(..))),
        TdmsType::I32 => Values::I32(of(count, || rng.i32(..))),
        TdmsType::I64 => Values::I64(of(count, || rng.i64(..))),
        TdmsType::U8 => Values::U8(of(count, || rng.u8(..))),
        TdmsType::U16 => Values::U16(of(count, || rng.u16(..))),
        TdmsType::U32 => Values::U32(of(count, || rng.u32(..))),
        TdmsType::U64 => Values::U64(of(count, || rng.u64(..))),
        TdmsType::F32 => Values::F32(of(count, || float(rng) as f32)),
        TdmsType::F64 => Values::F64(of(count, || float(rng))),
        TdmsType::String => Values::String(of(count, || name(rng).into())),
        TdmsType::Bool => Values::Bool(of(count, || rng.bool())),
        TdmsType::Time => Values::Time(of(count, || time(rng))),
        TdmsType::ComplexF32 => {
            Values::ComplexF32(of(count, || [float(rng) as f32, float(rng) as f32]))
        }
        TdmsType::ComplexF64 => Values::ComplexF64(of(count, || [float(rng), float(rng)])),
        other => panic!("{other}"),
    }
}

type Written = (ObjectPath, ChannelId, Values);

fn type_of(channels: &[(ObjectPath, ChannelId, TdmsType)], id: ChannelId) -> TdmsType {
    channels
        .iter()
        .find(|(_, known, _)| *known == id)
        .unwrap()
        .2
}

/// The bytes of values as stored in a segment: from a file of another writer.
fn raw_of(written: &[Written], types: &[TdmsType], arrangement: Arrangement) -> Vec<u8> {
    let mut writer = Writer::new(WriterOptions::default());
    let data: Vec<_> = written
        .iter()
        .zip(types)
        .enumerate()
        .map(|(number, ((.., values), data_type))| {
            let channel = writer.channel("g", number.to_string(), *data_type);
            (channel.unwrap(), values.as_data().unwrap())
        })
        .collect();
    let mut bytes = Vec::new();
    let place = writer.write(&data, arrangement, &mut bytes).unwrap();
    bytes.split_off(place.header_bytes as usize)
}

fn append(to: &mut Values, more: Values) {
    match (to, more) {
        (Values::I8(a), Values::I8(b)) => a.extend(b),
        (Values::I16(a), Values::I16(b)) => a.extend(b),
        (Values::I32(a), Values::I32(b)) => a.extend(b),
        (Values::I64(a), Values::I64(b)) => a.extend(b),
        (Values::U8(a), Values::U8(b)) => a.extend(b),
        (Values::U16(a), Values::U16(b)) => a.extend(b),
        (Values::U32(a), Values::U32(b)) => a.extend(b),
        (Values::U64(a), Values::U64(b)) => a.extend(b),
        (Values::F32(a), Values::F32(b)) => a.extend(b),
        (Values::F64(a), Values::F64(b)) => a.extend(b),
        (Values::String(a), Values::String(b)) => a.extend(b),
        (Values::Bool(a), Values::Bool(b)) => a.extend(b),
        (Values::Time(a), Values::Time(b)) => a.extend(b),
        (Values::ComplexF32(a), Values::ComplexF32(b)) => a.extend(b),
        (Values::ComplexF64(a), Values::ComplexF64(b)) => a.extend(b),
        (a, b) => panic!("{a:?} and {b:?}"),
    }
}
