//! An open file: what is in it.

use std::sync::Arc;

use crate::channel::Channel;
use crate::fault::Finding;
use crate::map::Map;
use crate::path::ObjectPath;
use crate::property::Properties;
use crate::read_at::ReadAt;
use crate::text::Text;

/// A file that has been opened. Its data is read when it is asked for.
#[derive(Debug)]
pub struct TdmsFile<R> {
    pub(crate) source: R,
    pub(crate) map: Arc<Map>,
}

/// How sound a file is.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Report<'a> {
    /// Segments that were read.
    pub segments: u64,
    /// Version of the last of them: 4712 (1.0) or 4713 (2.0). None in an empty file.
    pub version: Option<u32>,
    /// Why the file ends before its last segment does, and where that begins.
    pub incomplete: Option<&'a Finding>,
    /// Bytes at the end that belong to no value.
    pub bytes_lost: u64,
    /// Bytes of damaged segments that were skipped, with sound ones behind them.
    pub bytes_skipped: u64,
    /// What else is not as it should be, in the order of the file.
    pub findings: &'a [Finding],
    /// Further findings that were not kept.
    pub findings_dropped: u64,
}

impl Report<'_> {
    /// Whether the file is as it should be.
    pub fn is_sound(&self) -> bool {
        self.incomplete.is_none() && self.findings.is_empty()
    }
}

impl<R> TdmsFile<R> {
    pub(crate) fn of(source: R, map: Map) -> Self {
        Self {
            source,
            map: Arc::new(map),
        }
    }

    /// How sound the file is.
    pub fn report(&self) -> Report<'_> {
        let map = &*self.map;
        Report {
            segments: map.segments,
            version: map.version,
            incomplete: map.incomplete.as_ref(),
            bytes_lost: map.bytes_lost,
            bytes_skipped: map.bytes_skipped,
            findings: &map.findings,
            findings_dropped: map.findings_dropped,
        }
    }

    /// All objects in the order in which they are first named, each after what it belongs to.
    pub fn paths(&self) -> impl Iterator<Item = &ObjectPath> {
        self.map.objects.iter().map(|object| &object.path)
    }

    /// The names of the groups.
    pub fn groups(&self) -> impl Iterator<Item = &Text> {
        self.paths().filter_map(|path| match path {
            ObjectPath::Group(name) => Some(name),
            _ => None,
        })
    }

    /// The properties of an object; none where there is no such object.
    pub fn properties(&self, path: &ObjectPath) -> Option<&Properties> {
        let number = self.map.objects.number(path)?;
        Some(&self.map.objects.get(number)?.properties)
    }

    /// What the file is read from.
    pub fn source(&self) -> &R {
        &self.source
    }
}

impl<R: ReadAt> TdmsFile<R> {
    /// The channel at a path; none where there is no such channel.
    pub fn channel(&self, path: &ObjectPath) -> Option<Channel<'_, R>> {
        let number = self.map.objects.number(path)?;
        path.is_channel()
            .then(|| Channel::of(self, number))
            .flatten()
    }

    /// All channels, in the order in which they are first named.
    pub fn channels(&self) -> impl Iterator<Item = Channel<'_, R>> {
        let all = self.map.objects.iter().enumerate();
        let channels = all.filter(|(_, object)| object.path.is_channel());
        channels.filter_map(|(number, _)| Channel::of(self, number as u32))
    }
}
