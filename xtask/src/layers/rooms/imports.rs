//! The imports between the files of a crate, found in their tokens.
//!
//! The tokens of a file contain every path: those of `use`, those in code, and those in the arguments of
//! macros. Comments and strings are ignored, and so are items marked `#[cfg(test)]`.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use crate::tree::Tree;

/// The facts about a file that the rules need.
#[derive(Debug, Default)]
pub(super) struct SourceFile {
    /// Path relative to the root of the repository.
    pub path: String,
    /// Names from the root of the crate to the file's module.
    pub module: Vec<String>,
    /// The line of each path into this crate, and its names from the root of the crate.
    pub imports: Vec<(usize, Vec<String>)>,
    /// The types with an inherent `impl` in this file.
    pub impls: BTreeSet<String>,
    /// The modules declared here that have their own files.
    children: Vec<Vec<String>>,
}

/// Reads `lib.rs` in `folder` and the files of all modules below it.
pub(super) fn read_crate(tree: &Tree, folder: &str) -> Result<Vec<SourceFile>, String> {
    let mut files = Vec::new();
    let mut modules = vec![Vec::new()];
    while let Some(module) = modules.pop() {
        let name = match module.as_slice() {
            [] => "lib".to_owned(),
            names => names.join("/"),
        };
        let (path, text) = ["", "/mod"]
            .map(|ending| format!("{folder}/{name}{ending}.rs"))
            .into_iter()
            .find_map(|path| tree.text(&path).map(|text| (path, text)))
            .ok_or_else(|| format!("{folder}: the module {name} has no file"))?;
        let stream = text.parse().map_err(|e| format!("{path}: {e}"))?;
        let mut file = SourceFile {
            path,
            module: module.clone(),
            ..SourceFile::default()
        };
        file.read(&tokens(stream), &module, &[]);
        modules.append(&mut file.children);
        files.push(file);
    }
    Ok(files)
}

/// A token and its line. A literal counts as a mark, and so does an arrow, without its head.
type Token = (usize, Kind);

#[derive(Debug, PartialEq)]
enum Kind {
    Word(String),
    /// `::`
    Separator,
    Mark(char),
    /// The tokens in brackets of this kind.
    Group(Delimiter, Vec<Token>),
}
use Kind::{Group, Mark, Separator, Word};

fn tokens(stream: TokenStream) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut joined = None;
    for tree in stream {
        let line = tree.span().start().line;
        let before = joined.take();
        let kind = match tree {
            TokenTree::Group(group) => Group(group.delimiter(), self::tokens(group.stream())),
            TokenTree::Ident(word) => Word(word.to_string()),
            TokenTree::Literal(_) => Mark('"'),
            TokenTree::Punct(mark) => {
                joined = (mark.spacing() == Spacing::Joint).then(|| mark.as_char());
                match (before, mark.as_char()) {
                    (Some(':'), ':') => {
                        tokens.pop();
                        joined = None;
                        Separator
                    }
                    (Some('-' | '='), '>') => continue,
                    (_, mark) => Mark(mark),
                }
            }
        };
        tokens.push((line, kind));
    }
    tokens
}

impl SourceFile {
    /// Records the imports of `tokens`. `outer` has the modules declared around them.
    fn read(&mut self, tokens: &[Token], module: &[String], outer: &[&str]) {
        let mut declared = outer.to_vec();
        declared.extend(tokens.windows(2).filter_map(|pair| match pair {
            [(_, Word(word)), (_, Word(name))] if word == "mod" => Some(name.as_str()),
            _ => None,
        }));
        let mut at = 0;
        while let Some((_, kind)) = tokens.get(at) {
            let rest = &tokens[at..];
            at += 1;
            match (kind, &rest[1..]) {
                (Mark('#'), [(_, Group(Delimiter::Bracket, attribute)), item @ ..])
                    if is_of_tests(attribute) =>
                {
                    at += 1 + length_of_item(item);
                }
                (Word(word), [(_, Word(name)), (_, body), ..]) if word == "mod" => {
                    let child = [module, std::slice::from_ref(name)].concat();
                    match body {
                        Group(_, tokens) => self.read(tokens, &child, &[]),
                        _ => self.children.push(child),
                    }
                    at += 2;
                }
                (Word(word), header) if word == "impl" && begins_item(&tokens[..at - 1]) => {
                    self.impls.extend(inherent_type(header));
                }
                (Word(word), [(_, Separator), ..]) => {
                    let own = ["crate", "self", "super"].contains(&word.as_str())
                        || declared.contains(&word.as_str());
                    at += match own {
                        true => self.import(rest, module.to_vec()),
                        false => length_of_path(rest),
                    } - 1;
                }
                (Group(_, inner), _) => self.read(inner, module, &declared),
                _ => {}
            }
        }
    }

    /// Records a path in `module`, or each path of a `use` tree. Returns its number of tokens.
    fn import(&mut self, path: &[Token], mut module: Vec<String>) -> usize {
        let length = length_of_path(path);
        for (_, kind) in &path[..length] {
            match kind {
                Word(word) if word == "crate" => module.clear(),
                Word(word) if word == "self" => {}
                Word(word) if word == "super" => drop(module.pop()),
                Word(word) => module.push(word.clone()),
                Group(_, trees) => {
                    for tree in trees.split(|(_, kind)| *kind == Mark(',')) {
                        self.import(tree, module.clone());
                    }
                    return length;
                }
                _ => {}
            }
        }
        if let Some((line, _)) = path.first() {
            self.imports.push((*line, module));
        }
        length
    }
}

/// Returns the number of tokens of a path, including the tree that ends it in a `use`.
fn length_of_path(tokens: &[Token]) -> usize {
    let mut at = 0;
    while let [(_, Word(_)), (_, Separator), ..] = &tokens[at..] {
        at += 2;
    }
    match tokens.get(at) {
        Some((_, Word(_) | Group(Delimiter::Brace, _))) => at + 1,
        _ => at,
    }
}

/// Returns true if an attribute is `cfg(test)` or `cfg(all(.., test, ..))`.
fn is_of_tests(attribute: &[Token]) -> bool {
    let is = |token: &Token, name: &str| matches!(&token.1, Word(word) if word == name);
    let [cfg, (_, Group(_, condition))] = attribute else {
        return false;
    };
    is(cfg, "cfg")
        && match condition.as_slice() {
            [only] => is(only, "test"),
            [all, (_, Group(_, conditions))] => {
                is(all, "all") && conditions.iter().any(|token| is(token, "test"))
            }
            _ => false,
        }
}

/// Returns the number of tokens to the end of an item, a statement or a field.
fn length_of_item(tokens: &[Token]) -> usize {
    let is_end = |kind: &Kind| matches!(kind, Mark(';' | ',') | Group(Delimiter::Brace, _));
    let Some((end, _)) = outside_angles(tokens).find(|(_, kind)| is_end(kind)) else {
        return tokens.len();
    };
    end + 1 + usize::from(matches!(tokens.get(end + 1), Some((_, Mark(';')))))
}

/// Returns true if an item can begin after these tokens; otherwise `impl` is part of a type.
fn begins_item(before: &[Token]) -> bool {
    match before.last() {
        None | Some((_, Mark(';') | Group(Delimiter::Brace | Delimiter::Bracket, _))) => true,
        Some((_, Word(word))) => word == "unsafe",
        _ => false,
    }
}

/// Returns the name of the type of an inherent `impl`; `None` if the `impl` is of a trait.
fn inherent_type(header: &[Token]) -> Option<String> {
    let mut name = None;
    for (_, kind) in outside_angles(header) {
        match kind {
            Word(word) if word == "for" => return None,
            Word(word) if word == "where" => return name,
            Word(word) => name = Some(word.clone()),
            Group(Delimiter::Brace, _) => return name,
            _ => {}
        }
    }
    None
}

fn outside_angles(tokens: &[Token]) -> impl Iterator<Item = (usize, &Kind)> {
    let mut depth = 0_usize;
    tokens
        .iter()
        .enumerate()
        .filter_map(move |(at, (_, kind))| {
            match kind {
                Mark('<') => depth += 1,
                Mark('>') => depth = depth.saturating_sub(1),
                _ if depth == 0 => return Some((at, kind)),
                _ => {}
            }
            None
        })
}
