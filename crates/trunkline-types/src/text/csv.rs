//! Parses rows of comma-separated values as in RFC 4180. Inside quotation marks, a quotation mark is
//! written twice. Lines end in LF or CRLF.

/// A cell, and the offset of its first byte in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsvCell {
    /// The content, without quotes.
    pub text: String,
    /// The offset in bytes.
    pub at: usize,
}

/// Parses rows. Empty lines and a byte order mark are skipped.
///
/// # Errors
/// The offset of a cell, and a description of its error.
pub fn parse_csv(text: &str) -> Result<Vec<Vec<CsvCell>>, (usize, &'static str)> {
    let mut rows = Vec::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while !rest.is_empty() {
        let mut row = Vec::new();
        loop {
            let at = text.len() - rest.len();
            let (cell, after) = next_cell(rest).map_err(|error| (at, error))?;
            row.push(CsvCell { text: cell, at });
            rest = after;
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None => break,
            }
        }
        rest = rest.strip_prefix('\r').unwrap_or(rest);
        rest = rest.strip_prefix('\n').unwrap_or(rest);
        if row.len() > 1 || !row[0].text.is_empty() {
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Parses a cell. Returns the cell and the rest of the text, which is empty or begins with a comma or
/// the end of the line.
fn next_cell(text: &str) -> Result<(String, &str), &'static str> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', '\n']).unwrap_or(text.len());
        let (cell, rest) = text.split_at(end);
        let cell = cell.strip_suffix('\r').unwrap_or(cell);
        return match cell.contains('"') {
            true => Err(
                "a field contains a quotation mark; write it twice, and enclose the whole field in quotation \
                     marks",
            ),
            false => Ok((cell.to_owned(), rest)),
        };
    };
    let mut cell = String::new();
    let mut rest = quoted;
    loop {
        let (piece, after) = rest
            .split_once('"')
            .ok_or("a quote is not closed; close it")?;
        cell.push_str(piece);
        rest = after;
        match rest.strip_prefix('"') {
            Some(after) => {
                cell.push('"');
                rest = after;
            }
            None if rest.is_empty() || rest.starts_with([',', '\r', '\n']) => {
                return Ok((cell, rest));
            }
            None => return Err("text follows a closing quote; put a comma between the cells"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<Vec<String>> {
        let rows = parse_csv(text).unwrap().into_iter();
        rows.map(|row| row.into_iter().map(|cell| cell.text).collect())
            .collect()
    }

    #[test]
    fn quoted_and_unquoted_cells_are_parsed_with_both_line_ends() {
        assert_eq!(
            texts("tag,addr\r\nA,1\r\n\nB,2"),
            [["tag", "addr"], ["A", "1"], ["B", "2"]]
        );
        assert_eq!(texts("\"a,\"\"b\"\"\n\",x\n"), [["a,\"b\"\n", "x"]]);
        assert_eq!(texts("a,\n,b\n"), [["a", ""], ["", "b"]]);
        assert_eq!(texts("\u{feff}a"), [["a"]]);
        assert_eq!(texts(""), Vec::<Vec<String>>::new());
    }

    #[test]
    fn error_in_quotation_has_the_offset_of_its_cell() {
        for (text, at) in [
            ("a,\"b", 2),
            ("a,\"b\"c", 2),
            ("a\"b", 0),
            ("a,b\nc,\"d", 6),
        ] {
            assert_eq!(parse_csv(text).map_err(|(at, _)| at), Err(at), "{text}");
        }
    }
}
