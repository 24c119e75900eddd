//! An open file and its content.

use std::sync::Arc;

use crate::channel::Channel;
use crate::fault::Finding;
use crate::map::Map;
use crate::path::ObjectPath;
use crate::property::Properties;
use crate::read_at::ReadAt;
use crate::text::Text;

/// An open file. Its data is read on request.
#[derive(Debug)]
pub struct TdmsFile<R> {
    pub(crate) source: R,
    pub(crate) map: Arc<Map>,
}

/// The condition of a file.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Report<'a> {
    /// Number of segments read.
    pub segments: u64,
    /// The version of the last segment: 4712 (1.0) or 4713 (2.0). `None` for an empty file.
    pub version: Option<u32>,
    /// The reason why the file ends before its last segment does, and the position of that segment.
    pub incomplete: Option<&'a Finding>,
    /// Bytes at the end that belong to no value.
    pub bytes_lost: u64,
    /// Bytes of damaged segments that were skipped because sound ones follow.
    pub bytes_skipped: u64,
    /// Other faults, in the order of the file.
    pub findings: &'a [Finding],
    /// Number of further findings that were not kept.
    pub findings_dropped: u64,
}

impl Report<'_> {
    /// Returns true if the file has no faults.
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

    /// Returns the condition of the file.
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

    /// Returns all objects in the order in which they are first named, each after its parent.
    pub fn paths(&self) -> impl Iterator<Item = &ObjectPath> {
        self.map.objects.iter().map(|object| &object.path)
    }

    /// Returns the names of the groups.
    pub fn groups(&self) -> impl Iterator<Item = &Text> {
        self.paths().filter_map(|path| match path {
            ObjectPath::Group(name) => Some(name),
            _ => None,
        })
    }

    /// Returns the properties of an object, or `None` if it does not exist.
    pub fn properties(&self, path: &ObjectPath) -> Option<&Properties> {
        let number = self.map.objects.number(path)?;
        Some(&self.map.objects.get(number)?.properties)
    }

    /// Returns the source that the file is read from.
    pub fn source(&self) -> &R {
        &self.source
    }
}

impl<R: ReadAt> TdmsFile<R> {
    /// Returns the channel at a path, or `None` if there is no such channel.
    pub fn channel(&self, path: &ObjectPath) -> Option<Channel<'_, R>> {
        let number = self.map.objects.number(path)?;
        path.is_channel()
            .then(|| Channel::of(self, number))
            .flatten()
    }

    /// Returns all channels, in the order in which they are first named.
    pub fn channels(&self) -> impl Iterator<Item = Channel<'_, R>> {
        let all = self.map.objects.iter().enumerate();
        let channels = all.filter(|(_, object)| object.path.is_channel());
        channels.filter_map(|(number, _)| Channel::of(self, number as u32))
    }
}
