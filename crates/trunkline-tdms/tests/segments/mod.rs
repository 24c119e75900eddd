//! Builds segments field by field, for files that no writer should write.

#![allow(dead_code, reason = "each test program uses its part")]

pub const META: u32 = 0x02;
pub const NEW_LIST: u32 = 0x04;
pub const RAW: u32 = 0x08;
pub const INTERLEAVED: u32 = 0x20;
pub const BIG_ENDIAN: u32 = 0x40;
pub const FIRST: u32 = META | NEW_LIST | RAW;

pub const I8: u32 = 1;
pub const I16: u32 = 2;
pub const I32: u32 = 3;
pub const F64: u32 = 10;
pub const STRING: u32 = 0x20;

/// A segment under construction.
#[derive(Clone, Debug)]
pub struct Segment {
    pub toc: u32,
    pub version: u32,
    pub metadata: Vec<u8>,
    pub objects: u32,
    pub raw: Vec<u8>,
    /// Lengths that are written instead of the true lengths.
    pub segment_bytes: Option<u64>,
    pub metadata_bytes: Option<u64>,
}

pub fn segment(toc: u32) -> Segment {
    Segment {
        toc,
        version: 4713,
        metadata: Vec::new(),
        objects: 0,
        raw: Vec::new(),
        segment_bytes: None,
        metadata_bytes: None,
    }
}

impl Segment {
    pub fn u32(&self, value: u32) -> [u8; 4] {
        match self.toc & BIG_ENDIAN {
            0 => value.to_le_bytes(),
            _ => value.to_be_bytes(),
        }
    }

    pub fn u64(&self, value: u64) -> [u8; 8] {
        match self.toc & BIG_ENDIAN {
            0 => value.to_le_bytes(),
            _ => value.to_be_bytes(),
        }
    }

    fn text(&mut self, text: &[u8]) {
        self.metadata.extend(self.u32(text.len() as u32));
        self.metadata.extend(text);
    }

    /// An object with the bytes of its raw index, and no properties.
    pub fn object(mut self, path: &str, index: &[u8]) -> Self {
        self.objects += 1;
        self.text(path.as_bytes());
        self.metadata.extend(index);
        self.metadata.extend(self.u32(0));
        self
    }

    /// A property, its value as bytes, of the object before, which has none yet.
    pub fn with_property(mut self, name: &[u8], code: u32, value: &[u8]) -> Self {
        let at = self.metadata.len() - 4;
        let one = self.u32(1);
        self.metadata[at..].copy_from_slice(&one);
        self.text(name);
        self.metadata.extend(self.u32(code));
        self.metadata.extend(value);
        self
    }

    pub fn no_data(self, path: &str) -> Self {
        self.object(path, &[0xff; 4])
    }

    pub fn same_as_before(self, path: &str) -> Self {
        self.object(path, &[0; 4])
    }

    /// Adds an object with `count` values of a type per chunk.
    pub fn plain(self, path: &str, code: u32, count: u64) -> Self {
        let index = self.index(20, code, 1, count);
        self.object(path, &index)
    }

    pub fn strings(self, path: &str, count: u64, bytes: u64) -> Self {
        let mut index = self.index(28, STRING, 1, count);
        index.extend(self.u64(bytes));
        self.object(path, &index)
    }

    pub fn index(&self, length: u32, code: u32, dimensions: u32, count: u64) -> Vec<u8> {
        let mut index = Vec::new();
        index.extend(self.u32(length));
        index.extend(self.u32(code));
        index.extend(self.u32(dimensions));
        index.extend(self.u64(count));
        index
    }

    /// A DAQmx object: scalers as (type, buffer, offset, id), the widths of the buffers.
    pub fn daqmx(
        self,
        path: &str,
        is_digital: bool,
        (code, rows): (u32, u64),
        scalers: &[(u32, u32, u32, u32)],
        widths: &[u32],
    ) -> Self {
        let mut index = Vec::new();
        index.extend(self.u32(if is_digital { 0x126a } else { 0x1269 }));
        index.extend(self.u32(code));
        index.extend(self.u32(1));
        index.extend(self.u64(rows));
        index.extend(self.u32(scalers.len() as u32));
        for (kind, buffer, offset, id) in scalers {
            index.extend(self.u32(*kind));
            index.extend(self.u32(*buffer));
            index.extend(self.u32(*offset));
            match is_digital {
                true => index.push(0),
                false => index.extend(self.u32(0)),
            }
            index.extend(self.u32(*id));
        }
        index.extend(self.u32(widths.len() as u32));
        for width in widths {
            index.extend(self.u32(*width));
        }
        self.object(path, &index)
    }

    pub fn raw(mut self, bytes: impl IntoIterator<Item = u8>) -> Self {
        self.raw.extend(bytes);
        self
    }

    pub fn i32s(mut self, values: impl IntoIterator<Item = i32>) -> Self {
        for value in values {
            self.raw.extend(self.u32(value as u32));
        }
        self
    }

    pub fn says(mut self, segment_bytes: u64) -> Self {
        self.segment_bytes = Some(segment_bytes);
        self
    }

    pub fn not_closed(self) -> Self {
        self.says(u64::MAX)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut metadata = Vec::new();
        if self.toc & META != 0 {
            metadata.extend(self.u32(self.objects));
        }
        metadata.extend(&self.metadata);
        let metadata_bytes = metadata.len() as u64;
        let all = metadata_bytes + self.raw.len() as u64;
        let mut out = b"TDSm".to_vec();
        out.extend(self.toc.to_le_bytes());
        out.extend(self.u32(self.version));
        out.extend(self.u64(self.segment_bytes.unwrap_or(all)));
        out.extend(self.u64(self.metadata_bytes.unwrap_or(metadata_bytes)));
        out.extend(metadata);
        out.extend(&self.raw);
        out
    }
}

/// A file of these segments.
pub fn file<const N: usize>(segments: [Segment; N]) -> Vec<u8> {
    segments.iter().flat_map(Segment::bytes).collect()
}
