//! Changes of a TOML document that keep its comments, order and form.

use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, RawString, Table, Value};

/// Appends a table `[[key]]` after the last one with this key.
pub(super) fn push_table(document: &mut DocumentMut, key: &str, mut table: Table) {
    let has_tables = document.iter().any(|(_, item)| match item {
        Item::ArrayOfTables(tables) => !tables.is_empty(),
        Item::None | Item::Value(_) | Item::Table(_) => false,
    });
    let comments = document.trailing().as_str().unwrap_or_default().to_owned();
    // Without tables, all comments follow the end of the (empty) document, but belong above the new table.
    if !has_tables && !comments.trim().is_empty() {
        table
            .decor_mut()
            .set_prefix(format!("{}\n\n", comments.trim_end()));
        document.set_trailing("");
    }
    let item = document
        .entry(key)
        .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    if let Some(tables) = item.as_array_of_tables_mut() {
        tables.push(table);
    }
}

/// Removes the table number `index` of `[[key]]`, with the comment directly above it. Other comments above it,
/// such as that of the file, stay.
pub(super) fn remove_table(document: &mut DocumentMut, key: &str, index: usize) {
    let tables = document.get_mut(key).and_then(Item::as_array_of_tables_mut);
    let Some(tables) = tables.filter(|tables| index < tables.len()) else {
        return;
    };
    let removed = tables.remove(index);
    if tables.is_empty() {
        document.remove(key);
    }
    let prefix = text_of(removed.decor().prefix());
    let kept = prefix.get(..own_comment_start(prefix)).unwrap_or_default();
    if kept.trim().is_empty() {
        return;
    }
    let following = document
        .iter_mut()
        .filter_map(|(_, item)| item.as_array_of_tables_mut())
        .flat_map(ArrayOfTables::iter_mut)
        .filter(|table| table.position() > removed.position())
        .min_by_key(|table| table.position());
    match following {
        Some(table) => {
            let prefix = text_of(table.decor().prefix())
                .trim_start_matches('\n')
                .to_owned();
            table.decor_mut().set_prefix(format!("{kept}{prefix}"));
        }
        None => {
            let trailing = document.trailing().as_str().unwrap_or_default();
            let trailing = format!("{kept}{trailing}");
            document.set_trailing(trailing);
        }
    }
}

/// Returns the offset of the comment lines at the end of `prefix` that no empty line separates from what follows.
fn own_comment_start(prefix: &str) -> usize {
    let mut start = prefix.len();
    for line in prefix.split_inclusive('\n').rev() {
        if !line.trim_start().starts_with('#') {
            break;
        }
        start = start.saturating_sub(line.len());
    }
    start
}

/// Sets the value of a key. The comment behind it stays.
pub(super) fn set_value(table: &mut Table, key: &str, value: impl Into<Value>) {
    let mut value = value.into();
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        Some(Item::None | Item::Table(_) | Item::ArrayOfTables(_)) | None => {
            table.insert(key, Item::Value(value));
        }
    }
}

/// Appends a text to the list of a key, in the form of the list: on a line of its own if the others are.
pub(super) fn push_text(table: &mut Table, key: &str, text: &str) {
    let item = table
        .entry(key)
        .or_insert_with(|| Item::Value(Array::new().into()));
    let Some(array) = item.as_array_mut() else {
        return;
    };
    let Some(last) = array
        .len()
        .checked_sub(1)
        .and_then(|last| array.get_mut(last))
    else {
        array.push(text);
        return;
    };
    let prefix = text_of(last.decor().prefix()).to_owned();
    let suffix = text_of(last.decor().suffix()).to_owned();
    let trailing = array.trailing().as_str().unwrap_or_default().to_owned();
    // What follows the last item: the comment on its line, and the end of the line.
    let rest = format!("{suffix}{trailing}");
    let Some((_, indent)) = prefix.rsplit_once('\n').filter(|_| rest.contains('\n')) else {
        array.push(text);
        return;
    };
    if let Some(last) = array
        .len()
        .checked_sub(1)
        .and_then(|last| array.get_mut(last))
    {
        last.decor_mut().set_suffix("");
    }
    let comment = rest.trim_end();
    let prefix = format!("{comment}\n{indent}");
    array.push_formatted(Value::from(text).decorated(prefix, ""));
    let end_indent = rest.rsplit_once('\n').map_or("", |(_, indent)| indent);
    array.set_trailing(format!("\n{end_indent}"));
}

/// Removes a text from the list of a key, with the comment behind it. Returns false if it is not there.
pub(super) fn remove_text(table: &mut Table, key: &str, is_removed: impl Fn(&str) -> bool) -> bool {
    let Some(array) = table.get_mut(key).and_then(Item::as_array_mut) else {
        return false;
    };
    let is_found = |value: &Value| value.as_str().is_some_and(&is_removed);
    let Some(index) = array.iter().position(is_found) else {
        return false;
    };
    let removed = array.remove(index);
    let before = text_of(removed.decor().prefix());
    // The first line ahead of an item holds the comment of the item before it.
    let previous_comment = before.split_once('\n').map(|(comment, _)| comment);
    if let Some(next) = array.get_mut(index) {
        let prefix = text_of(next.decor().prefix());
        let prefix = match (prefix.find('\n'), previous_comment) {
            (Some(end), comment) => {
                let lines = prefix.get(end..).unwrap_or_default();
                format!("{}{lines}", comment.unwrap_or_default())
            }
            (None, _) => before.to_owned(),
        };
        next.decor_mut().set_prefix(prefix);
        return true;
    }
    let rest = format!(
        "{}{}",
        text_of(removed.decor().suffix()),
        array.trailing().as_str().unwrap_or_default()
    );
    let lines = rest.find('\n').and_then(|end| rest.get(end..));
    array.set_trailing(match (previous_comment, lines) {
        (Some(comment), lines) => format!("{comment}{}", lines.unwrap_or("\n")),
        (None, Some(lines)) => lines.to_owned(),
        (None, None) => rest,
    });
    true
}

fn text_of(raw: Option<&RawString>) -> &str {
    raw.and_then(RawString::as_str).unwrap_or_default()
}

/// Returns a list of texts on one line.
pub(super) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> Value {
    let mut array: Array = texts.into_iter().collect();
    array.fmt();
    array.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> DocumentMut {
        text.parse().unwrap()
    }

    /// Applies a change to the first `[[user]]`.
    fn changed(text: &str, change: impl FnOnce(&mut Table)) -> String {
        let mut document = document(text);
        let tables = document["user"].as_array_of_tables_mut().unwrap();
        change(tables.get_mut(0).unwrap());
        document.to_string()
    }

    #[test]
    fn value_is_set_with_its_comment_kept() {
        let text =
            "# top\n[[user]] # anna\nname = \"anna\"\nrole   =  \"viewer\" # for now\n# end\n";
        let set = changed(text, |user| set_value(user, "role", "admin"));
        assert_eq!(set, text.replace("viewer", "admin"));
        let added = changed(text, |user| set_value(user, "disabled", true));
        assert_eq!(added, text.replace("# end", "disabled = true\n# end"));
    }

    #[test]
    fn text_is_appended_in_the_form_of_the_list() {
        for (before, after) in [
            ("keys = []", "keys = [\"c\"]"),
            ("keys = [\"a\"]", "keys = [\"a\", \"c\"]"),
            (
                "keys = [ \"a\", \"b\" ] # x",
                "keys = [ \"a\", \"b\" , \"c\"] # x",
            ),
            (
                "keys = [\n  \"a\", # laptop\n  \"b\", # phone\n]",
                "keys = [\n  \"a\", # laptop\n  \"b\", # phone\n  \"c\",\n]",
            ),
            (
                "keys = [\n  \"a\",\n  \"b\" # phone\n]",
                "keys = [\n  \"a\",\n  \"b\", # phone\n  \"c\"\n]",
            ),
            (
                "keys = [\n  # all\n  \"a\"\n  ]",
                "keys = [\n  # all\n  \"a\",\n  \"c\"\n  ]",
            ),
        ] {
            let text = |keys: &str| format!("[[user]]\nname = \"anna\"\n{keys}\n");
            let pushed = changed(&text(before), |user| push_text(user, "keys", "c"));
            assert_eq!(pushed, text(after));
        }
        let pushed = changed("[[user]]\nname = \"anna\"\n", |user| {
            push_text(user, "keys", "c")
        });
        assert_eq!(pushed, "[[user]]\nname = \"anna\"\nkeys = [\"c\"]\n");
    }

    #[test]
    fn text_is_removed_with_its_own_comment_only() {
        let list = "[\n  \"a\", # laptop\n  \"b\", # phone\n  # old\n  \"c\", # panel\n]";
        for (before, removed, after) in [
            ("[\"a\"]", "a", "[]"),
            ("[\"a\", \"b\"]", "a", "[\"b\"]"),
            ("[\"a\", \"b\"]", "b", "[\"a\"]"),
            ("[\"a\", \"b\", \"c\"]", "b", "[\"a\", \"c\"]"),
            (
                list,
                "a",
                "[\n  \"b\", # phone\n  # old\n  \"c\", # panel\n]",
            ),
            (
                list,
                "b",
                "[\n  \"a\", # laptop\n  # old\n  \"c\", # panel\n]",
            ),
            (list, "c", "[\n  \"a\", # laptop\n  \"b\", # phone\n]"),
            (
                "[\n  \"a\", # laptop\n  \"b\"\n]",
                "b",
                "[\n  \"a\" # laptop\n]",
            ),
        ] {
            let text = |keys: &str| format!("[[user]]\nname = \"anna\"\nkeys = {keys} # x\n");
            let result = changed(&text(before), |user| {
                assert!(remove_text(user, "keys", |text| text == removed));
            });
            assert_eq!(result, text(after));
        }
        let text = "[[user]]\nname = \"anna\"\nkeys = [\"a\"]\n";
        let unchanged = changed(text, |user| {
            assert!(!remove_text(user, "keys", |text| text == "b"));
            assert!(!remove_text(user, "name", |text| text == "anna"));
            assert!(!remove_text(user, "none", |text| text == "a"));
        });
        assert_eq!(unchanged, text);
    }

    fn named(name: &str) -> Table {
        let mut table = Table::new();
        set_value(&mut table, "name", name);
        table
    }

    #[test]
    fn table_is_appended_after_the_last_one_of_its_kind() {
        let mut sut = document("");
        push_table(&mut sut, "user", named("a"));
        assert_eq!(sut.to_string(), "[[user]]\nname = \"a\"\n");
        push_table(&mut sut, "user", named("b"));
        assert_eq!(
            sut.to_string(),
            "[[user]]\nname = \"a\"\n\n[[user]]\nname = \"b\"\n"
        );
        let text = "# top\n\n[[user]]\nname = \"a\"\n\n# rules\n[[rule]]\nname = \"r\"\n# end\n";
        let mut sut = document(text);
        push_table(&mut sut, "user", named("b"));
        push_table(&mut sut, "rule", named("s"));
        let expected = "# top\n\n[[user]]\nname = \"a\"\n\n[[user]]\nname = \"b\"\n\n# rules\n[[rule]]\nname = \
                        \"r\"\n\n[[rule]]\nname = \"s\"\n# end\n";
        assert_eq!(sut.to_string(), expected);
    }

    #[test]
    fn table_is_appended_below_the_comments_of_an_empty_file() {
        let mut sut = document("# top\n#\n# [[user]]\n");
        push_table(&mut sut, "user", named("a"));
        assert_eq!(
            sut.to_string(),
            "# top\n#\n# [[user]]\n\n[[user]]\nname = \"a\"\n"
        );
    }

    #[test]
    fn table_is_removed_with_its_own_comment_only() {
        let text = "# top\n\n# anna\n[[user]]\nname = \"a\" # x\n\n# rules\n\n# for r\n[[rule]]\nname = \"r\"\n\n\
                    [[user]]\nname = \"b\"\n# end\n";
        let removed = |key: &str, index: usize| {
            let mut sut = document(text);
            remove_table(&mut sut, key, index);
            sut.to_string()
        };
        let first = "# top\n\n# rules\n\n# for r\n[[rule]]\nname = \"r\"\n\n[[user]]\nname = \"b\"\n# end\n";
        assert_eq!(removed("user", 0), first);
        let second = "# top\n\n# anna\n[[user]]\nname = \"a\" # x\n\n# rules\n\n# for r\n[[rule]]\nname = \"r\"\n# \
                      end\n";
        assert_eq!(removed("user", 1), second);
        let rule = "# top\n\n# anna\n[[user]]\nname = \"a\" # x\n\n# rules\n\n[[user]]\nname = \"b\"\n# end\n";
        assert_eq!(removed("rule", 0), rule);
        assert_eq!(removed("user", 2), text);
        assert_eq!(removed("none", 0), text);
        let mut last = document("# top\n\n[[user]]\nname = \"a\"\n");
        remove_table(&mut last, "user", 0);
        assert_eq!(last.to_string(), "# top\n\n");
    }
}
