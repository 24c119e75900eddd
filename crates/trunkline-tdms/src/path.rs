//! Parses and formats the paths of objects: `/`, `/'group'` or `/'group'/'channel'`.

use std::fmt;

use crate::text::Text;

/// The path of an object: the file, a group or a channel.
///
/// In a file, a name is enclosed in single quotes, and a quote inside it is doubled. Nothing else
/// is escaped, so a name may contain slashes, spaces and line breaks. Paths are compared byte by
/// byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectPath {
    /// The file itself, `/`.
    File,
    Group(Text),
    /// A channel, with the names of the group and of the channel.
    Channel(Text, Text),
}

impl ObjectPath {
    pub fn group(group: impl Into<Text>) -> Self {
        Self::Group(group.into())
    }

    pub fn channel(group: impl Into<Text>, channel: impl Into<Text>) -> Self {
        Self::Channel(group.into(), channel.into())
    }

    /// Parses a path in the format of files.
    ///
    /// # Errors
    /// [`PathError`]: the bytes are not a well-formed path.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        if bytes == b"/" {
            return Ok(Self::File);
        }
        let (group, end) = parse_component(bytes, 0)?;
        if end == bytes.len() {
            return Ok(Self::Group(group));
        }
        let (channel, end) = parse_component(bytes, end)?;
        if end == bytes.len() {
            return Ok(Self::Channel(group, channel));
        }
        Err(PathError { at: end })
    }

    /// Returns the path in the format of files.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::File => out.push(b'/'),
            Self::Group(group) => push_component(group, &mut out),
            Self::Channel(group, channel) => {
                push_component(group, &mut out);
                push_component(channel, &mut out);
            }
        }
        out
    }

    /// Returns the path of the parent object; `None` for the file.
    pub fn parent(&self) -> Option<Self> {
        match self {
            Self::File => None,
            Self::Group(_) => Some(Self::File),
            Self::Channel(group, _) => Some(Self::Group(group.clone())),
        }
    }

    /// Returns the last name in the path; empty for the file.
    pub fn name(&self) -> Text {
        match self {
            Self::File => Text::default(),
            Self::Group(name) | Self::Channel(_, name) => name.clone(),
        }
    }

    pub fn is_channel(&self) -> bool {
        matches!(self, Self::Channel(..))
    }
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_bytes()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an object path is damaged from byte {at} of the path on")]
pub struct PathError {
    /// Offset in the path of the first byte that breaks the syntax.
    pub at: usize,
}

/// Parses `/'name'` from byte `at` on. Returns the name and the offset of the end.
fn parse_component(bytes: &[u8], at: usize) -> Result<(Text, usize), PathError> {
    if bytes.get(at..at + 2) != Some(b"/'") {
        return Err(PathError { at });
    }
    let mut name = Vec::new();
    let mut next = at + 2;
    while let Some(&byte) = bytes.get(next) {
        next += 1;
        if byte == b'\'' {
            if bytes.get(next) != Some(&b'\'') {
                return Ok((name.into(), next));
            }
            next += 1;
        }
        name.push(byte);
    }
    Err(PathError { at: next })
}

fn push_component(name: &Text, out: &mut Vec<u8>) {
    out.extend(b"/'");
    for &byte in name.as_bytes() {
        out.push(byte);
        if byte == b'\'' {
            out.push(byte);
        }
    }
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_round_trip() {
        let names = ["g", "", "Dr. T's", "/'a'/'b'", "''", "two\nlines", "µ 🦀"];
        for group in names {
            let path = ObjectPath::group(group);
            assert_eq!(ObjectPath::parse(&path.to_bytes()), Ok(path));
            for channel in names {
                let path = ObjectPath::channel(group, channel);
                assert_eq!(ObjectPath::parse(&path.to_bytes()), Ok(path));
            }
        }
        assert_eq!(
            ObjectPath::group("Dr. T's").to_bytes(),
            b"/'Dr. T''s'".to_vec()
        );
        assert_eq!(ObjectPath::parse(b"/"), Ok(ObjectPath::File));
    }

    #[test]
    fn syntax_errors_are_reported_with_their_position() {
        for (path, at) in [
            ("", 0),
            ("//", 0),
            ("/'", 2),
            ("/'a", 3),
            ("/a", 0),
            ("/'a'b", 4),
            ("/'a'/", 4),
            ("/'a'/'b'/'c'", 8),
            ("/'a''", 5),
        ] {
            let error = PathError { at };
            assert_eq!(ObjectPath::parse(path.as_bytes()), Err(error), "{path}");
        }
    }
}
