//! A TOML document as a plain tree of values with places.
//!
//! `toml_edit` distinguishes tables, inline tables, dotted keys and arrays of tables because it
//! edits files. This tree does not: here they mean the same.

use std::ops::Range;

use toml_edit::{Document, Item, TableLike, Value};

use crate::error::ConfigErrorKind as Kind;
use crate::report::Report;
use crate::source::Place;

/// One value with its place.
#[derive(Debug)]
pub(crate) struct Node {
    pub place: Place,
    pub tree: Tree,
}

/// The kinds of value.
#[derive(Debug)]
pub(crate) enum Tree {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    /// A date or time in the form of RFC 3339, with an offset if it was written with one.
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

/// Characters of a text that a message quotes.
const SHOWN_MAX: usize = 40;

impl Node {
    /// Parses the text of a source. Reports a document that is not TOML, and returns `None`.
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
    pub fn shown(&self) -> String {
        match &self.tree {
            Tree::Bool(value) => value.to_string(),
            Tree::Integer(value) => value.to_string(),
            Tree::Float(value) => format!("{value:?}"),
            Tree::Text(text) => shown_text(text),
            Tree::Time(text) => text.clone(),
            Tree::List(_) => "a list".to_owned(),
            Tree::Table(_) => "a table".to_owned(),
        }
    }

    /// Returns true if any text in it has a brace, and so may contain a placeholder.
    pub fn has_braces(&self) -> bool {
        match &self.tree {
            Tree::Text(text) => text.contains(['{', '}']),
            Tree::List(nodes) => nodes.iter().any(Node::has_braces),
            Tree::Table(table) => table.entries.iter().any(|entry| entry.node.has_braces()),
            Tree::Bool(_) | Tree::Integer(_) | Tree::Float(_) | Tree::Time(_) => false,
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
pub(crate) fn shown_text(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(SHOWN_MAX)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('\u{2026}');
    }
    format!("\"{shown}\"")
}

/// Turns parsed items into nodes; `toml_edit` bounds the nesting (80 levels).
struct Reader {
    source: u32,
}

impl Reader {
    fn place(&self, span: Option<Range<usize>>, otherwise: Place) -> Place {
        span.map_or(otherwise, |span| Place {
            source: self.source,
            offset: span.start as u32,
        })
    }

    fn item(&self, item: &Item, otherwise: Place) -> Option<Node> {
        let place = self.place(item.span(), otherwise);
        let tree = match item {
            Item::None => return None,
            Item::Value(value) => return Some(self.value(value, otherwise)),
            Item::Table(table) => Tree::Table(self.table(table, place)),
            Item::ArrayOfTables(tables) => {
                let node = |table: &toml_edit::Table| {
                    let place = self.place(table.span(), place);
                    Node {
                        place,
                        tree: Tree::Table(self.table(table, place)),
                    }
                };
                Tree::List(tables.iter().map(node).collect())
            }
        };
        Some(Node { place, tree })
    }

    fn value(&self, value: &Value, otherwise: Place) -> Node {
        let place = self.place(value.span(), otherwise);
        let tree = match value {
            Value::Boolean(value) => Tree::Bool(*value.value()),
            Value::Integer(value) => Tree::Integer(*value.value()),
            Value::Float(value) => Tree::Float(*value.value()),
            Value::String(value) => Tree::Text(value.value().clone()),
            Value::Datetime(value) => Tree::Time(value.value().to_string()),
            Value::Array(values) => Tree::List(
                values
                    .iter()
                    .map(|value| self.value(value, place))
                    .collect(),
            ),
            Value::InlineTable(table) => Tree::Table(self.table(table, place)),
        };
        Node { place, tree }
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
