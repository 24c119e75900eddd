//! The text form of keys and certificates (RFC 7468).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// An error in a PEM text. Line numbers start at 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PemError {
    /// The text has no block.
    #[error("the file has no `-----BEGIN {0}-----`; specify a PEM file that has one")]
    Nothing(&'static str),
    /// A block of another kind comes first.
    #[error("line {line} begins a block `{found}`, but a block `{expected}` is needed; {remedy}")]
    OtherLabel {
        /// Line at which the block begins.
        line: usize,
        /// The label of the block.
        found: String,
        /// The label needed.
        expected: &'static str,
        /// What the user can do.
        remedy: &'static str,
    },
    /// A block has no end.
    #[error(
        "the block that begins on line {line} has no end; the file is cut off, so copy it again"
    )]
    NoEnd {
        /// Line at which the block begins.
        line: usize,
    },
    /// A line of a block is not base64.
    #[error("the block that begins on line {line} is not base64; copy the file again")]
    NotBase64 {
        /// Line at which the block begins.
        line: usize,
    },
    /// The content of a block is not what its label says.
    #[error("the block `{label}` is damaged or of an unknown kind ({reason}); copy the file again")]
    Content {
        /// The label of the block.
        label: &'static str,
        /// The reason, from the library that reads the content.
        reason: String,
    },
    /// The text has more blocks than permitted.
    #[error("the file has more than {BLOCKS_MAX} blocks; specify a file with fewer")]
    TooManyBlocks,
}

/// Label of a certificate.
pub(crate) const CERTIFICATE: &str = "CERTIFICATE";
/// Label of a private key in PKCS #8.
pub(crate) const PRIVATE_KEY: &str = "PRIVATE KEY";

/// Maximum number of blocks in a file.
pub const BLOCKS_MAX: usize = 16;

/// A block of a PEM text.
pub(crate) struct Block<'a> {
    pub(crate) label: &'a str,
    /// The decoded content, which is erased from memory when it is dropped.
    pub(crate) content: Zeroizing<Vec<u8>>,
    /// Line at which the block begins, from 1.
    pub(crate) line: usize,
}

/// Formats one block, with lines of 64 characters.
pub(crate) fn encode(label: &str, content: &[u8]) -> Zeroizing<String> {
    let mut base64 = Zeroizing::new(vec![0; content.len().div_ceil(3).saturating_mul(4)]);
    // The buffer has the exact length, so this cannot fail; an empty block would be refused by every reader.
    let length = STANDARD.encode_slice(content, &mut base64).unwrap_or(0);
    let lines = length.div_ceil(LINE);
    let markers = 2 * label.len() + "-----BEGIN -----\n-----END -----\n".len();
    // Growing the text would leave copies of it behind.
    let mut text = Zeroizing::new(String::with_capacity(length + lines + markers));
    text.push_str("-----BEGIN ");
    text.push_str(label);
    text.push_str("-----\n");
    for line in base64.get(..length).unwrap_or_default().chunks(LINE) {
        text.push_str(std::str::from_utf8(line).unwrap_or_default());
        text.push('\n');
    }
    text.push_str("-----END ");
    text.push_str(label);
    text.push_str("-----\n");
    text
}

/// Characters in a line of base64.
const LINE: usize = 64;

/// Decodes all blocks. Text before, between and after them is skipped.
pub(crate) fn blocks(text: &str) -> Result<Vec<Block<'_>>, PemError> {
    let mut blocks = Vec::new();
    let mut lines = (1..).zip(text.lines().map(str::trim));
    while let Some((line, begin)) = lines.next() {
        let Some(label) = marker(begin, "BEGIN") else {
            continue;
        };
        if blocks.len() == BLOCKS_MAX {
            return Err(PemError::TooManyBlocks);
        }
        let mut base64 = Zeroizing::new(Vec::with_capacity(text.len()));
        loop {
            let (_, inner) = lines.next().ok_or(PemError::NoEnd { line })?;
            match marker(inner, "END") {
                Some(end) if end == label => break,
                Some(_) => return Err(PemError::NoEnd { line }),
                None => base64.extend_from_slice(inner.as_bytes()),
            }
        }
        let mut content = Zeroizing::new(vec![0; base64.len()]);
        let length = STANDARD.decode_slice(&*base64, &mut content);
        content.truncate(length.map_err(|_| PemError::NotBase64 { line })?);
        blocks.push(Block {
            label,
            content,
            line,
        });
    }
    Ok(blocks)
}

/// Returns the content of the first block, which must have the label `expected`.
pub(crate) fn first(text: &str, expected: &'static str) -> Result<Zeroizing<Vec<u8>>, PemError> {
    let first = blocks(text)?.into_iter().next();
    content(first.ok_or(PemError::Nothing(expected))?, expected)
}

/// Returns the contents of all blocks, at least one, which must have the label `expected`.
pub(crate) fn all(text: &str, expected: &'static str) -> Result<Vec<Zeroizing<Vec<u8>>>, PemError> {
    let blocks = blocks(text)?;
    if blocks.is_empty() {
        return Err(PemError::Nothing(expected));
    }
    let contents = blocks.into_iter().map(|block| content(block, expected));
    contents.collect()
}

fn content(block: Block<'_>, expected: &'static str) -> Result<Zeroizing<Vec<u8>>, PemError> {
    if block.label == expected {
        return Ok(block.content);
    }
    let remedy = match block.label {
        "ENCRYPTED PRIVATE KEY" => "decrypt the key, and protect its file with permissions",
        "OPENSSH PRIVATE KEY" | "EC PRIVATE KEY" | "RSA PRIVATE KEY" => {
            "convert the key to PKCS #8, or create a new key"
        }
        _ => "specify the correct file",
    };
    Err(PemError::OtherLabel {
        line: block.line,
        found: block.label.chars().take(40).collect(),
        expected,
        remedy,
    })
}

/// Returns the label of the line `-----BEGIN LABEL-----`, or the same with `END`.
fn marker<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.strip_prefix("-----")?
        .strip_prefix(word)?
        .strip_prefix(' ')?
        .strip_suffix("-----")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encoded_block_has_lines_of_64_characters() {
        let text = encode(CERTIFICATE, &[0xfb; 50]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], "-----BEGIN CERTIFICATE-----");
        assert_eq!((lines[1].len(), lines[2].len()), (64, 4));
        assert_eq!(lines[3], "-----END CERTIFICATE-----");
        assert_eq!(text.len(), text.capacity(), "the text was not copied");
    }

    #[test]
    fn text_around_blocks_and_line_ends_of_windows_are_accepted() {
        let block = encode(PRIVATE_KEY, b"content");
        let text = format!("Subject: x\n\n{}trailing\n", *block).replace('\n', "\r\n");
        let found = blocks(&text).unwrap();
        assert_eq!((found.len(), found[0].line), (1, 3));
        assert_eq!(**found[0].content, *b"content");
    }

    #[test]
    fn wrong_texts_have_clear_errors() {
        let error = |text: &str| first(text, PRIVATE_KEY).unwrap_err();
        assert_eq!(error(""), PemError::Nothing(PRIVATE_KEY));
        assert_eq!(error("# a comment"), PemError::Nothing(PRIVATE_KEY));
        let begin = "-----BEGIN PRIVATE KEY-----\n";
        let end = "-----END PRIVATE KEY-----\n";
        assert_eq!(
            error(&format!("\n{begin}AAAA")),
            PemError::NoEnd { line: 2 }
        );
        let other_end = "-----END CERTIFICATE-----";
        assert_eq!(
            error(&format!("{begin}{other_end}")),
            PemError::NoEnd { line: 1 }
        );
        for bad in [
            "A",
            "AAA",
            "AA=A",
            "A\u{e9}AA",
            "Proc-Type: 4,ENCRYPTED",
            "AAB=",
        ] {
            let text = format!("{begin}{bad}\n{end}");
            assert_eq!(error(&text), PemError::NotBase64 { line: 1 }, "{bad}");
        }
        let certificate = encode(CERTIFICATE, b"c");
        let message = error(&certificate).to_string();
        let expected = "line 1 begins a block `CERTIFICATE`, but a block `PRIVATE KEY` is needed; \
                        specify the correct file";
        assert_eq!(message, expected);
        let encrypted = error(&encode("ENCRYPTED PRIVATE KEY", b"c")).to_string();
        assert!(encrypted.contains("decrypt"), "{encrypted}");
        let many = certificate.repeat(BLOCKS_MAX + 1);
        assert_eq!(error(&many), PemError::TooManyBlocks);
    }

    proptest! {
        #[test]
        fn content_survives(content in proptest::collection::vec(any::<u8>(), 0..300)) {
            let text = encode(PRIVATE_KEY, &content);
            prop_assert_eq!(&**first(&text, PRIVATE_KEY).unwrap(), &*content);
        }

        #[test]
        fn no_text_causes_a_panic(text in "(-----BEGIN A-----\n|-----END A-----\n|[A-Za-z0-9+/=]{0,9}\n|.{0,9}){0,20}") {
            let _ = blocks(&text);
        }
    }
}
