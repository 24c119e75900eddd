//! Opens a file and gives access to its objects and properties.

use std::sync::Arc;

use crate::fault::Finding;
use crate::map::Map;
use crate::open::{Limits, OpenError};
use crate::path::ObjectPath;
use crate::property::Properties;
use crate::read_at::ReadAt;
use crate::text::Text;
use crate::walk::{FileKind, Walk};

/// An open file. Its values are read on request.
#[derive(Debug)]
pub struct TdmsFile<R> {
    pub(crate) source: R,
    pub(crate) map: Arc<Map>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report<'a> {
    pub segments: u64,
    /// Version of the last segment: 4712 (1.0) or 4713 (2.0). `None` for an empty file.
    pub version: Option<u32>,
    /// The reason why the last segment is incomplete, and the position of that segment.
    pub incomplete: Option<&'a Finding>,
    /// Number of bytes at the end that belong to no readable value.
    pub bytes_lost: u64,
    /// Size in bytes of the damaged segments that were skipped because intact segments follow.
    pub bytes_skipped: u64,
    /// Other faults, in the order of the file.
    pub findings: &'a [Finding],
    /// Number of findings that were not kept.
    pub findings_dropped: u64,
}

impl Report<'_> {
    /// Returns true if the file has no faults.
    pub fn is_sound(&self) -> bool {
        self.incomplete.is_none() && self.findings.is_empty()
    }
}

impl<R: ReadAt> TdmsFile<R> {
    /// Opens a data file.
    ///
    /// A file that was not closed or lost its end is opened up to the damage, which
    /// [`TdmsFile::report`] describes.
    pub fn open(source: R) -> Result<Self, OpenError> {
        Self::open_with(source, Limits::default())
    }

    pub fn open_with(source: R, limits: Limits) -> Result<Self, OpenError> {
        let map = Walk::new(&source, None::<&[u8]>, FileKind::Data, limits)?.run()?;
        Ok(Self::of(source, map))
    }

    /// Opens a data file and compares its index file with it.
    ///
    /// The index does not change the content of the file, because the data file takes precedence.
    /// An index that is old, damaged or belongs to another file is a finding
    /// ([`Fault::StaleIndex`](crate::Fault::StaleIndex)).
    pub fn open_indexed<I: ReadAt>(source: R, index: I, limits: Limits) -> Result<Self, OpenError> {
        let map = Walk::new(&source, Some(&index), FileKind::Data, limits)?.run()?;
        Ok(Self::of(source, map))
    }

    /// Opens an index file without its data file. It has objects and properties, but no data.
    pub fn open_index(source: R, limits: Limits) -> Result<Self, OpenError> {
        let map = Walk::new(&source, None::<&[u8]>, FileKind::IndexAlone, limits)?.run()?;
        Ok(Self::of(source, map))
    }
}

impl<R> TdmsFile<R> {
    pub(crate) fn of(source: R, map: Map) -> Self {
        Self {
            source,
            map: Arc::new(map),
        }
    }

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

    /// Returns the paths of all objects in the order in which the file first names them, each after
    /// its parent.
    pub fn paths(&self) -> impl Iterator<Item = &ObjectPath> {
        self.map.objects.iter().map(|object| &object.path)
    }

    pub fn groups(&self) -> impl Iterator<Item = &Text> {
        self.paths().filter_map(|path| match path {
            ObjectPath::Group(name) => Some(name),
            _ => None,
        })
    }

    /// Returns the properties of an object; `None` if the object does not exist.
    pub fn properties(&self, path: &ObjectPath) -> Option<&Properties> {
        let number = self.map.objects.number(path)?;
        Some(&self.map.objects.get(number)?.properties)
    }

    /// Returns the source from which the file is read.
    pub fn source(&self) -> &R {
        &self.source
    }
}
