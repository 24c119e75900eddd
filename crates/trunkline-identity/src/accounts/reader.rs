//! Reads the text of accounts and rules, and reports every error with its line.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::ops::Range;
use std::str::FromStr;

use toml_edit::{Array, Document, Item, Key, Table, Value};
use trunkline_access::{
    Account, Actions, Effect, GroupName, HostRange, Place, Policy, Role, Rule, UserName, Who,
};
use trunkline_types::Pattern;
use trunkline_types::audit::cut;
use trunkline_types::name::suggest;

use super::CREDENTIALS_MAX;
use super::entry::AccountEntry;
use super::error::{AccessError, AccessErrorKind as Kind, AccessErrors, ERRORS_MAX};
use super::file::FILE_BYTES_MAX;
use crate::password::PasswordHash;

pub(super) const USER: &str = "user";
pub(super) const RULE: &str = "rule";

/// The keys of `[[user]]`.
pub(super) mod user_keys {
    pub(in crate::accounts) const NAME: &str = "name";
    pub(in crate::accounts) const ROLE: &str = "role";
    pub(in crate::accounts) const GROUPS: &str = "groups";
    pub(in crate::accounts) const KEYS: &str = "keys";
    pub(in crate::accounts) const CERTIFICATES: &str = "certificates";
    pub(in crate::accounts) const PASSWORD: &str = "password";
    pub(in crate::accounts) const UID: &str = "uid";
    pub(in crate::accounts) const UIDS: &str = "uids";
    pub(in crate::accounts) const DISABLED: &str = "disabled";
}

/// The keys of `[[rule]]`.
pub(super) mod rule_keys {
    pub(in crate::accounts) const USER: &str = "user";
    pub(in crate::accounts) const GROUP: &str = "group";
    pub(in crate::accounts) const ROLE: &str = "role";
    pub(in crate::accounts) const HOST: &str = "host";
    pub(in crate::accounts) const EVERYONE: &str = "everyone";
    pub(in crate::accounts) const PATTERN: &str = "pattern";
    pub(in crate::accounts) const GRANT: &str = "grant";
    pub(in crate::accounts) const DENY: &str = "deny";
}

/// A kind of table, with its keys.
struct Section {
    name: &'static str,
    keys: &'static [&'static str],
}

const FILE: Section = Section {
    name: "the file",
    keys: &[USER, RULE],
};

const USER_SECTION: Section = Section {
    name: "[[user]]",
    keys: &[
        user_keys::NAME,
        user_keys::ROLE,
        user_keys::GROUPS,
        user_keys::KEYS,
        user_keys::CERTIFICATES,
        user_keys::PASSWORD,
        user_keys::UID,
        user_keys::UIDS,
        user_keys::DISABLED,
    ],
};

const RULE_SECTION: Section = Section {
    name: "[[rule]]",
    keys: &[
        rule_keys::USER,
        rule_keys::GROUP,
        rule_keys::ROLE,
        rule_keys::HOST,
        rule_keys::EVERYONE,
        rule_keys::PATTERN,
        rule_keys::GRANT,
        rule_keys::DENY,
    ],
};

/// Maximum length of a key that a message shows, in bytes.
const KEY_BYTES_MAX: usize = 40;

/// The content of a text without errors.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) entries: Vec<AccountEntry>,
    pub(super) policy: Policy,
}

/// Reads a text. `file` is its name in messages.
pub(super) fn read(file: &str, text: &str) -> Result<Content, AccessErrors> {
    let mut reader = Reader::new(file, text);
    let (entries, rules) = reader.document(text);
    reader.check_unique(&entries);
    reader.finish()?;
    let accounts = entries.iter().map(|entry| entry.account.clone()).collect();
    match Policy::new(accounts, rules) {
        Ok(policy) => Ok(Content { entries, policy }),
        Err(invalid) => Err(AccessErrors {
            omitted: invalid.omitted,
            // These errors state their places.
            errors: invalid
                .errors
                .into_iter()
                .map(|error| AccessError {
                    place: None,
                    kind: Kind::Policy(error),
                })
                .collect(),
        }),
    }
}

struct Reader<'t> {
    file: &'t str,
    /// Offset of the start of each line.
    lines: Vec<usize>,
    /// The errors with their lines.
    errors: Vec<(usize, Kind)>,
}

/// Bytes of the text that a key or a value covers.
type Span = Option<Range<usize>>;

impl<'t> Reader<'t> {
    fn new(file: &'t str, text: &str) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let after_newlines = newlines.map(|(offset, _)| offset.saturating_add(1));
        Self {
            file,
            lines: std::iter::once(0).chain(after_newlines).collect(),
            errors: Vec::new(),
        }
    }

    /// Returns the line of a span, from 1.
    fn line(&self, span: &Span) -> usize {
        let offset = span.as_ref().map_or(0, |span| span.start);
        self.lines.partition_point(|start| *start <= offset).max(1)
    }

    fn place(&self, line: usize) -> Place {
        format!("{}:{line}", self.file).into()
    }

    fn error(&mut self, line: usize, kind: Kind) {
        self.errors.push((line, kind));
    }

    /// Returns the value, or reports the error.
    fn checked<T, E>(
        &mut self,
        line: usize,
        result: Result<T, E>,
        kind: impl FnOnce(E) -> Kind,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.error(line, kind(error));
                None
            }
        }
    }

    fn finish(&mut self) -> Result<(), AccessErrors> {
        if self.errors.is_empty() {
            return Ok(());
        }
        let mut errors = std::mem::take(&mut self.errors);
        errors.sort_by_key(|(line, _)| *line);
        let omitted = errors.len().saturating_sub(ERRORS_MAX);
        errors.truncate(ERRORS_MAX);
        let errors = errors.into_iter().map(|(line, kind)| AccessError {
            place: Some(self.place(line)),
            kind,
        });
        Err(AccessErrors {
            errors: errors.collect(),
            omitted,
        })
    }

    fn document(&mut self, text: &str) -> (Vec<AccountEntry>, Vec<Rule>) {
        let nothing = (Vec::new(), Vec::new());
        if text.len() > FILE_BYTES_MAX {
            self.error(1, Kind::TooLarge);
            return nothing;
        }
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(error) => {
                let line = self.line(&error.span());
                self.error(line, Kind::syntax(&error));
                return nothing;
            }
        };
        let root = document.as_table();
        self.check_keys(root, &FILE);
        let users = self.tables(root, USER);
        let entries = users
            .into_iter()
            .filter_map(|table| self.user(table))
            .collect();
        let rules = self.tables(root, RULE);
        let rules = rules
            .into_iter()
            .filter_map(|table| self.rule(table))
            .collect();
        (entries, rules)
    }

    /// Reports the keys that a section does not have.
    fn check_keys(&mut self, table: &Table, section: &Section) {
        for (name, _) in table.iter() {
            if section.keys.contains(&name) {
                continue;
            }
            let meant = suggest(name, section.keys.iter().copied());
            let kind = Kind::UnknownKey {
                key: cut(name, KEY_BYTES_MAX),
                section: section.name,
                suggestion: section
                    .keys
                    .iter()
                    .copied()
                    .find(|key| Some(*key) == meant.as_deref()),
                known: section.keys,
            };
            let line = self.line(&table.key(name).and_then(Key::span));
            self.error(line, kind);
        }
    }

    /// Returns the tables `[[key]]`.
    fn tables<'d>(&mut self, root: &'d Table, key: &'static str) -> Vec<&'d Table> {
        match root.get(key) {
            None | Some(Item::None) => Vec::new(),
            Some(Item::ArrayOfTables(tables)) => tables.iter().collect(),
            Some(item @ (Item::Table(_) | Item::Value(_))) => {
                let line = self.line(&item.span().or_else(|| root.key(key).and_then(Key::span)));
                self.error(line, Kind::WrongSection { key });
                Vec::new()
            }
        }
    }

    fn user(&mut self, table: &Table) -> Option<AccountEntry> {
        use user_keys as key;
        let line = self.line(&table.span());
        self.check_keys(table, &USER_SECTION);
        let name = self.parsed(table, key::NAME, name_error(key::NAME));
        if !table.contains_key(key::NAME) {
            self.missing(line, "user", key::NAME, "name = \"anna\"");
        }
        let role = self.parsed(table, key::ROLE, Kind::Role);
        let groups = self.list(table, key::GROUPS, name_error(key::GROUPS));
        let keys = self.list(table, key::KEYS, Kind::Key);
        let certificates = self.list(table, key::CERTIFICATES, Kind::Certificate);
        let password = self.parsed::<PasswordHash, _>(table, key::PASSWORD, Kind::Password);
        let uids = self.uids(table, line);
        let disabled = self.flag(table, key::DISABLED);
        let counts = [
            (key::KEYS, keys.len()),
            (key::CERTIFICATES, certificates.len()),
            (key::UIDS, uids.len()),
        ];
        for (key, count) in counts
            .into_iter()
            .filter(|(_, count)| *count > CREDENTIALS_MAX)
        {
            self.error(line, Kind::TooMany { key, count });
        }
        Some(AccountEntry {
            account: Account {
                name: name?,
                role,
                groups,
                disabled: disabled.unwrap_or(false),
                place: self.place(line),
            },
            keys,
            certificates,
            password,
            uids,
            line,
        })
    }

    fn uids(&mut self, table: &Table, line: usize) -> Vec<u32> {
        use user_keys as key;
        if table.contains_key(key::UID) && table.contains_key(key::UIDS) {
            self.error(line, Kind::TwoUserIds);
        }
        let one = table.get(key::UID).and_then(Item::as_value);
        let several = self.array(table, key::UIDS, "a list of numbers");
        let values = one.map(|value| (key::UID, value)).into_iter();
        let several = several
            .into_iter()
            .flatten()
            .map(|value| (key::UIDS, value));
        let mut uids = Vec::new();
        for (key, value) in values.chain(several) {
            let line = self.line(&value.span());
            match value
                .as_integer()
                .map(|number| (number, u32::try_from(number)))
            {
                // The highest number means "no user" to the system.
                Some((_, Ok(uid))) if uid < u32::MAX => uids.push(uid),
                Some((found, Ok(_) | Err(_))) => self.error(line, Kind::UserId { key, found }),
                None => self.wrong_form(line, key, "a number", value.type_name()),
            }
        }
        if let Some(item) = table.get(key::UID)
            && one.is_none()
        {
            let line = self.line(&item.span());
            self.wrong_form(line, key::UID, "a number", item.type_name());
        }
        uids
    }

    fn rule(&mut self, table: &Table) -> Option<Rule> {
        use rule_keys as key;
        let line = self.line(&table.span());
        self.check_keys(table, &RULE_SECTION);
        let who = self.who(table, line);
        let pattern = self
            .text(table, key::PATTERN)
            .and_then(|(line, text)| self.checked(line, Pattern::parse(text), Kind::Pattern));
        if !table.contains_key(key::PATTERN) {
            self.missing(line, "rule", key::PATTERN, "pattern = \"boiler/**\"");
        }
        let (effect, key) = match (
            table.contains_key(key::GRANT),
            table.contains_key(key::DENY),
        ) {
            (true, false) => (Effect::Grant, key::GRANT),
            (false, true) => (Effect::Deny, key::DENY),
            (true, true) => {
                self.error(line, Kind::TwoEffects);
                return None;
            }
            (false, false) => {
                self.error(line, Kind::NoEffect);
                return None;
            }
        };
        let actions = self.actions(table, key);
        Some(Rule {
            who: who?,
            pattern: pattern?,
            effect,
            actions: actions?,
            place: self.place(line),
        })
    }

    fn who(&mut self, table: &Table, line: usize) -> Option<Who> {
        use rule_keys as key;
        let subjects = [key::USER, key::GROUP, key::ROLE, key::HOST, key::EVERYONE];
        let mut present = subjects.into_iter().filter(|key| table.contains_key(key));
        let Some(first) = present.next() else {
            self.error(line, Kind::NoSubject);
            return None;
        };
        if let Some(second) = present.next() {
            self.error(line, Kind::TwoSubjects { first, second });
            return None;
        }
        match first {
            key::USER => {
                let name = self.parsed::<UserName, _>(table, first, name_error(first));
                name.map(Who::User)
            }
            key::GROUP => {
                let name = self.parsed::<GroupName, _>(table, first, name_error(first));
                name.map(Who::Group)
            }
            key::ROLE => self
                .parsed::<Role, _>(table, first, Kind::Role)
                .map(Who::Role),
            key::HOST => self
                .parsed::<HostRange, _>(table, first, Kind::Host)
                .map(Who::Host),
            _ => match self.flag(table, first)? {
                true => Some(Who::Everyone),
                false => {
                    self.error(line, Kind::EveryoneFalse);
                    None
                }
            },
        }
    }

    fn actions(&mut self, table: &Table, key: &'static str) -> Option<Actions> {
        let line = self.line(&table.key(key).and_then(Key::span));
        let values = self.array(table, key, "a list of actions")?;
        let mut names = Vec::new();
        for value in values {
            match value.as_str() {
                Some(name) => names.push(name),
                None => {
                    let line = self.line(&value.span());
                    self.wrong_form(line, key, "a list of actions", value.type_name());
                    return None;
                }
            }
        }
        self.checked(line, Actions::from_names(names), Kind::Actions)
    }

    fn missing(
        &mut self,
        line: usize,
        section: &'static str,
        key: &'static str,
        example: &'static str,
    ) {
        let kind = Kind::KeyMissing {
            section,
            key,
            example,
        };
        self.error(line, kind);
    }

    fn wrong_form(
        &mut self,
        line: usize,
        key: &'static str,
        expected: &'static str,
        found: &'static str,
    ) {
        let kind = Kind::WrongForm {
            key,
            expected,
            found,
        };
        self.error(line, kind);
    }

    /// Returns the text of a key with its line. Reports a value that is not a text.
    fn text<'d>(&mut self, table: &'d Table, key: &'static str) -> Option<(usize, &'d str)> {
        let item = table.get(key)?;
        let line = self.line(&item.span());
        match item.as_str() {
            Some(text) => Some((line, text)),
            None => {
                self.wrong_form(line, key, "a text", item.type_name());
                None
            }
        }
    }

    fn parsed<T, E>(
        &mut self,
        table: &Table,
        key: &'static str,
        kind: impl FnOnce(E) -> Kind,
    ) -> Option<T>
    where
        T: FromStr<Err = E>,
    {
        let (line, text) = self.text(table, key)?;
        self.checked(line, text.parse(), kind)
    }

    fn flag(&mut self, table: &Table, key: &'static str) -> Option<bool> {
        let item = table.get(key)?;
        let flag = item.as_bool();
        if flag.is_none() {
            let line = self.line(&item.span());
            self.wrong_form(line, key, "true or false", item.type_name());
        }
        flag
    }

    fn array<'d>(
        &mut self,
        table: &'d Table,
        key: &'static str,
        expected: &'static str,
    ) -> Option<impl Iterator<Item = &'d Value> + use<'d>> {
        let item = table.get(key)?;
        let array = item.as_array().map(Array::iter);
        if array.is_none() {
            let line = self.line(&item.span());
            self.wrong_form(line, key, expected, item.type_name());
        }
        array
    }

    fn list<T, E>(&mut self, table: &Table, key: &'static str, kind: impl Fn(E) -> Kind) -> Vec<T>
    where
        T: FromStr<Err = E>,
    {
        let mut list = Vec::new();
        for value in self
            .array(table, key, "a list of texts")
            .into_iter()
            .flatten()
        {
            let line = self.line(&value.span());
            match value.as_str() {
                Some(text) => list.extend(self.checked(line, text.parse(), &kind)),
                None => self.wrong_form(line, key, "a list of texts", value.type_name()),
            }
        }
        list
    }

    /// Reports keys, certificates and user ids that identify more than one account, or are listed twice.
    fn check_unique(&mut self, entries: &[AccountEntry]) {
        self.check_unique_in(entries, "the key", |entry| &entry.keys);
        self.check_unique_in(entries, "the certificate", |entry| &entry.certificates);
        self.check_unique_in(entries, "the user id", |entry| &entry.uids);
    }

    fn check_unique_in<T: Eq + Hash + Display>(
        &mut self,
        entries: &[AccountEntry],
        what: &str,
        of: impl Fn(&AccountEntry) -> &Vec<T>,
    ) {
        let mut first = HashMap::new();
        for entry in entries {
            for item in of(entry) {
                if let Some(other) = first.insert(item, entry) {
                    let kind = Kind::Duplicate {
                        what: format!("{what} {item}"),
                        other: other.account.place.clone(),
                    };
                    self.error(entry.line, kind);
                }
            }
        }
    }
}

fn name_error(key: &'static str) -> impl Fn(trunkline_access::account::NameError) -> Kind + Copy {
    move |error| Kind::Name { key, error }
}
