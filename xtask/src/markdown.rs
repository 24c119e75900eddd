//! Links, headings and code spans of a Markdown page.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A piece of a page and the line it begins on, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Line, counted from 1.
    pub line: usize,
    /// Target of a link, or text of a code span.
    pub text: String,
}

/// The facts about a page that the checks need.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Targets of links and images, as written.
    pub links: Vec<Piece>,
    /// Contents of code spans (not of code blocks).
    pub code_spans: Vec<Piece>,
    /// Anchors of the headings, as mdBook and GitHub make them.
    pub anchors: BTreeSet<String>,
}

impl Page {
    /// Reads a page.
    pub(crate) fn parse(text: &str) -> Self {
        let options = Options::ENABLE_TABLES | Options::ENABLE_HEADING_ATTRIBUTES;
        let mut page = Self::default();
        let mut heading: Option<(Option<String>, String)> = None;
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            let line = 1 + text[..range.start].matches('\n').count();
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(Piece {
                        line,
                        text: dest_url.into_string(),
                    });
                }
                Event::Start(Tag::Heading { id, .. }) => {
                    heading = Some((id.map(|i| i.into_string()), String::new()));
                }
                Event::End(TagEnd::Heading(_)) => {
                    if let Some((id, title)) = heading.take() {
                        let anchor = id.unwrap_or_else(|| anchor_of(&title));
                        let count = seen.entry(anchor.clone()).or_insert(0);
                        page.anchors.insert(match *count {
                            0 => anchor,
                            n => format!("{anchor}-{n}"),
                        });
                        *count += 1;
                    }
                }
                Event::Text(part) => {
                    if let Some((_, title)) = &mut heading {
                        title.push_str(&part);
                    }
                }
                Event::Code(part) => {
                    if let Some((_, title)) = &mut heading {
                        title.push_str(&part);
                    }
                    page.code_spans.push(Piece {
                        line,
                        text: part.into_string(),
                    });
                }
                _ => {}
            }
        }
        page
    }
}

/// Returns the anchor of a heading: lower case, spaces as hyphens, punctuation left out.
fn anchor_of(title: &str) -> String {
    title
        .trim()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            _ if c.is_alphanumeric() => Some(c),
            _ => None,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the path of a relative link, relative to the root; `None` if it leaves the tree.
pub(crate) fn resolve(page: &str, target: &str) -> Option<String> {
    let mut segments: Vec<&str> = page.split('/').collect();
    segments.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                segments.pop()?;
            }
            name => segments.push(name),
        }
    }
    Some(segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_code_spans_have_their_lines() {
        let page = Page::parse("# A\n\nsee [b](c.md#d)\nand `e`\n\n```\n[no](x) `no`\n```\n");
        assert_eq!(
            page.links,
            [Piece {
                line: 3,
                text: "c.md#d".to_owned()
            }]
        );
        assert_eq!(
            page.code_spans,
            [Piece {
                line: 4,
                text: "e".to_owned()
            }]
        );
    }

    #[test]
    fn anchors_are_those_of_the_renderers() {
        let page = Page::parse("# 4. The way, of `a` sample\n## Twice\n## Twice\n## X {#own}\n");
        let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(
            anchors,
            ["4-the-way-of-a-sample", "own", "twice", "twice-1"]
        );
    }

    #[test]
    fn relative_targets_resolve_from_the_page() {
        assert_eq!(
            resolve("docs/a/b.md", "../c.md").as_deref(),
            Some("docs/c.md")
        );
        assert_eq!(resolve("README.md", "docs/").as_deref(), Some("docs"));
        assert_eq!(resolve("README.md", "../x"), None);
    }
}
