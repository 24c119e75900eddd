//! The steps of a page.
//!
//! A `sh` block runs as one script, which must succeed. A block of any kind with lines that begin
//! with `$ ` is a transcript: each command runs on a terminal and must print the text after it, as
//! far as [`crate::output`] compares. Comments specify the rest. These are separate steps:
//!
//! | Comment | What a reader has done, too |
//! |---|---|
//! | `<!-- start: COMMAND -->` | started this in a terminal of its own, and left it running |
//! | `<!-- start: COMMAND; until: TEXT -->` | the same, and waited until it printed this |
//! | `<!-- run: COMMAND -->` | run this to its end |
//! | `<!-- kill: PART -->` | killed the process that was started by a command with this part |
//!
//! The others describe the block that follows:
//!
//! | Comment | The block |
//! |---|---|
//! | `<!-- file: NAME -->` | is this file |
//! | `<!-- append: NAME -->` | is added to this file |
//! | `<!-- background -->`, `<!-- background; until: TEXT -->` | goes on running |
//! | `<!-- interrupt -->` | has commands that do not end: each gets Ctrl-C after its first line |
//! | `<!-- exit: N -->` | ends with this code, or with one of several: `0 or 7` |
//! | `<!-- prints -->` | shows what the block before printed |
//! | `<!-- prints: PART -->` | shows lines that the command with this part, still running, prints |
//! | `<!-- not run: WHY -->` | is left to the reader |

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

#[derive(Debug)]
pub struct Step {
    /// Line of the page, counted from 1.
    pub line: usize,
    pub code: Code,
}

#[derive(Debug)]
pub enum Code {
    File {
        name: String,
        text: String,
        append: bool,
    },
    Start {
        command: String,
        until: Option<String>,
    },
    Kill {
        part: String,
    },
    Run {
        command: String,
        /// The permitted exit codes.
        exits: Vec<i32>,
    },
    Interrupted {
        commands: Vec<String>,
    },
    Transcript {
        entries: Vec<Entry>,
    },
    Prints {
        text: String,
    },
    PrintsMeanwhile {
        part: String,
        lines: Vec<String>,
    },
    NotRun {
        why: String,
    },
}

/// A command of a transcript and the lines it prints.
#[derive(Debug)]
pub struct Entry {
    pub command: String,
    pub output: Vec<String>,
}

/// The steps of a page, or the line and the reason why it cannot be understood.
pub fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut remark: Option<(String, String)> = None;
    let mut block: Option<(usize, String, String)> = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        let line = 1 + text[..range.start].matches('\n').count();
        let at = |problem: String| format!("{line}: {problem}");
        match event {
            Event::Html(html) => {
                let Some((name, value)) = comment(&html) else {
                    continue;
                };
                let code = match name.as_str() {
                    "start" => {
                        let (command, until) = split_until(&value);
                        Code::Start { command, until }
                    }
                    "run" => Code::Run {
                        command: value,
                        exits: vec![0],
                    },
                    "kill" => Code::Kill { part: value },
                    "file" | "append" | "background" | "interrupt" | "exit" | "prints"
                    | "not run" => {
                        if remark.replace((name, value)).is_some() {
                            return Err(at("two comments about one block".to_owned()));
                        }
                        continue;
                    }
                    // Used by other checks of the documents.
                    "generated" | "end" => continue,
                    _ => return Err(at(format!("there is no comment `{name}`"))),
                };
                steps.push(Step { line, code });
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                block = Some((line, language, String::new()));
            }
            Event::Text(part) => {
                if let Some((_, _, text)) = &mut block {
                    text.push_str(&part);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some((line, language, text)) = block.take() {
                    let code = code_of(remark.take(), &language, text)
                        .map_err(|problem| format!("{line}: {problem}"))?;
                    steps.extend(code.map(|code| Step { line, code }));
                }
            }
            _ => {}
        }
    }
    match remark {
        Some((name, _)) => Err(format!("the comment `{name}` has no block behind it")),
        None => Ok(steps),
    }
}

/// The use of a block; nothing for examples that are not commands.
fn code_of(
    remark: Option<(String, String)>,
    language: &str,
    text: String,
) -> Result<Option<Code>, String> {
    let remark = remark.as_ref().map(|(name, value)| (name.as_str(), value));
    if let Some(("not run", why)) = remark {
        return Ok(Some(Code::NotRun { why: why.clone() }));
    }
    if let Some((name @ ("file" | "append"), value)) = remark {
        let (name, append) = (value.clone(), name == "append");
        return Ok(Some(Code::File { name, text, append }));
    }
    if text.lines().any(|line| line.starts_with("$ ")) {
        return match remark {
            None => Ok(Some(Code::Transcript {
                entries: transcript(&text),
            })),
            Some((name, _)) => Err(format!("a transcript takes no comment `{name}`")),
        };
    }
    let code = match (language, remark) {
        ("sh", None) => Code::Run {
            command: text,
            exits: vec![0],
        },
        ("sh", Some(("exit", codes))) => {
            let exits = codes
                .split(" or ")
                .map(str::parse)
                .collect::<Result<_, _>>();
            Code::Run {
                command: text,
                exits: exits.map_err(|_| format!("`{codes}` are no exit codes"))?,
            }
        }
        ("sh", Some(("background", value))) => {
            let (_, until) = split_until(value);
            Code::Start {
                command: text,
                until,
            }
        }
        ("sh", Some(("interrupt", _))) => {
            let commands = text.lines().filter(|line| !line.is_empty());
            Code::Interrupted {
                commands: commands.map(str::to_owned).collect(),
            }
        }
        ("text", Some(("prints", part))) if part.is_empty() => Code::Prints { text },
        ("text", Some(("prints", part))) => {
            let (part, lines) = (part.clone(), text.lines().map(str::to_owned).collect());
            Code::PrintsMeanwhile { part, lines }
        }
        ("toml", _) => return Err("needs `<!-- file: NAME -->` before it".to_owned()),
        (_, None) => return Ok(None),
        (_, Some((name, _))) => {
            return Err(format!(
                "the comment `{name}` is not for `{language}` blocks"
            ));
        }
    };
    Ok(Some(code))
}

/// The name and value of `<!-- name: value -->`.
fn comment(html: &str) -> Option<(String, String)> {
    let inside = html
        .trim()
        .strip_prefix("<!--")?
        .strip_suffix("-->")?
        .trim();
    let end = inside.find([':', ';']).unwrap_or(inside.len());
    let (name, value) = inside.split_at(end);
    let value = value.strip_prefix(':').unwrap_or(value);
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

/// `COMMAND; until: TEXT`.
fn split_until(value: &str) -> (String, Option<String>) {
    match value.split_once("; until: ") {
        Some((command, until)) => (command.to_owned(), Some(until.to_owned())),
        None => (value.to_owned(), None),
    }
}

fn transcript(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), entries.last_mut()) {
            (Some(command), _) => entries.push(Entry {
                command: command.to_owned(),
                output: Vec::new(),
            }),
            (None, Some(entry)) => entry.output.push(line.to_owned()),
            (None, None) => {}
        }
    }
    entries
}
