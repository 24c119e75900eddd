//! Represents a TOML document as a tree of values with places.
//!
//! `toml_edit` distinguishes tables, inline tables, dotted keys and arrays of tables because it
//! edits files. This tree does not distinguish them, because they have the same meaning.

use std::ops::Range;

use toml_edit::{Document, Item, TableLike, Value};

use crate::error::ConfigErrorKind as Kind;
use crate::report::Report;
use crate::source::Place;

/// One value with its place.
#[derive(Debug)]
pub(crate) struct Node {
    pub place: Place,
    pub kind: NodeKind,
}

#[derive(Debug)]
pub(crate) enum NodeKind {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    /// A date or time in the form of RFC 3339; the offset is present only if the file has one.
    Time(String),
    List(Vec<Node>),
    Table(Table),
}

/// The entries of a table in the order in which they were written.
#[derive(Debug)]
pub(crate) struct Table {
    pub place: Place,
    pub entries: Vec<Entry>,
}

/// One key of a table and its value.
#[derive(Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub key_place: Place,
    pub node: Node,
}

/// Maximum number of characters of a text that a message quotes.
const QUOTED_MAX: usize = 40;

impl Node {
    /// Parses the text of a source. Returns `None` after reporting an error if the text is not TOML.
    pub fn parse(source: u32, report: &mut Report) -> Option<Table> {
        let parsed = Document::parse(report.source(source)?.text.as_str()).map(|document| {
            let place = Place { source, offset: 0 };
            Reader { source }.table(document.as_table(), place)
        });
        match parsed {
            Ok(table) => Some(table),
            Err(error) => {
                let offset = error.span().map_or(0, |span| span.start as u32);
                let reason = error.message().trim_end().to_owned();
                report.error(Place { source, offset }, Kind::Syntax { reason });
                None
            }
        }
    }

    /// Returns the value as quoted in a message, such as `5` or `a list`.
    pub fn quoted(&self) -> String {
        match &self.kind {
            NodeKind::Bool(value) => value.to_string(),
            NodeKind::Integer(value) => value.to_string(),
            NodeKind::Float(value) => format!("{value:?}"),
            NodeKind::Text(text) => quoted_text(text),
            NodeKind::Time(text) => text.clone(),
            NodeKind::List(_) => "a list".to_owned(),
            NodeKind::Table(_) => "a table".to_owned(),
        }
    }

    /// Returns true if a text in this value contains a brace, and so may have a placeholder.
    pub fn has_braces(&self) -> bool {
        match &self.kind {
            NodeKind::Text(text) => text.contains(['{', '}']),
            NodeKind::List(nodes) => nodes.iter().any(Node::has_braces),
            NodeKind::Table(table) => table.entries.iter().any(|entry| entry.node.has_braces()),
            NodeKind::Bool(_) | NodeKind::Integer(_) | NodeKind::Float(_) | NodeKind::Time(_) => {
                false
            }
        }
    }
}

impl Table {
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub fn node(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }
}

/// Returns the text in quotes, truncated if it is long.
pub(crate) fn quoted_text(text: &str) -> String {
    let mut quoted: String = text
        .chars()
        .take(QUOTED_MAX)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(QUOTED_MAX).is_some() {
        quoted.push('\u{2026}');
    }
    format!("\"{quoted}\"")
}

/// Converts parsed items to nodes. The recursion is bounded, because `toml_edit` refuses documents
/// that are nested deeper than 80 levels.
struct Reader {
    source: u32,
}

impl Reader {
    fn place(&self, span: Option<Range<usize>>, fallback: Place) -> Place {
        span.map_or(fallback, |span| Place {
            source: self.source,
            offset: span.start as u32,
        })
    }

    fn item(&self, item: &Item, fallback: Place) -> Option<Node> {
        let place = self.place(item.span(), fallback);
        let kind = match item {
            Item::None => return None,
            Item::Value(value) => return Some(self.value(value, fallback)),
            Item::Table(table) => NodeKind::Table(self.table(table, place)),
            Item::ArrayOfTables(tables) => {
                let node = |table: &toml_edit::Table| {
                    let place = self.place(table.span(), place);
                    Node {
                        place,
                        kind: NodeKind::Table(self.table(table, place)),
                    }
                };
                NodeKind::List(tables.iter().map(node).collect())
            }
        };
        Some(Node { place, kind })
    }

    fn value(&self, value: &Value, fallback: Place) -> Node {
        let place = self.place(value.span(), fallback);
        let kind = match value {
            Value::Boolean(value) => NodeKind::Bool(*value.value()),
            Value::Integer(value) => NodeKind::Integer(*value.value()),
            Value::Float(value) => NodeKind::Float(*value.value()),
            Value::String(value) => NodeKind::Text(value.value().clone()),
            Value::Datetime(value) => NodeKind::Time(value.value().to_string()),
            Value::Array(values) => NodeKind::List(
                values
                    .iter()
                    .map(|value| self.value(value, place))
                    .collect(),
            ),
            Value::InlineTable(table) => NodeKind::Table(self.table(table, place)),
        };
        Node { place, kind }
    }

    fn table(&self, table: &dyn TableLike, place: Place) -> Table {
        let mut entries = Vec::with_capacity(table.len());
        for (key, item) in table.iter() {
            let key_place = self.place(table.key(key).and_then(|key| key.span()), place);
            if let Some(node) = self.item(item, key_place) {
                entries.push(Entry {
                    key: key.to_owned(),
                    key_place,
                    node,
                });
            }
        }
        Table { place, entries }
    }
}
