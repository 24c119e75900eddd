//! The ids of the specification, and lists of ids as tests and decisions write them.

const PREFIXES: [&str; 14] = [
    "SP", "NV", "LX", "DP", "API", "SV", "H", "PB", "NS", "LM", "ZC", "VS", "X", "B",
];

/// One behaviour.
#[derive(Debug)]
pub(super) struct Behaviour {
    /// Its id, such as `SP-10`.
    pub id: String,
    /// Its text, in Markdown.
    pub text: String,
}

/// The behaviours in the order of the specification, under its headings.
#[derive(Debug)]
pub(super) struct Specification {
    /// Heading (of level 2 or 3) and the behaviours below it.
    pub sections: Vec<(String, Vec<Behaviour>)>,
}

impl Specification {
    /// Reads the lines `- ID text` below their headings.
    ///
    /// # Errors
    ///
    /// If an id occurs twice, or if there is no id.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut sections: Vec<(String, Vec<Behaviour>)> = Vec::new();
        for line in text.lines() {
            if let Some(heading) = line
                .strip_prefix("## ")
                .or_else(|| line.strip_prefix("### "))
            {
                sections.push((heading.trim().to_owned(), Vec::new()));
            } else if let Some(item) = line.strip_prefix("- ")
                && let Some((id, text)) = item.split_once(' ')
                && Id::parse(id).is_some()
            {
                let behaviour = Behaviour {
                    id: id.to_owned(),
                    text: text.trim().to_owned(),
                };
                match sections.last_mut() {
                    Some((_, behaviours)) => behaviours.push(behaviour),
                    None => return Err(format!("{id} stands before the first heading")),
                }
            }
        }
        sections.retain(|(_, behaviours)| !behaviours.is_empty());
        let specification = Self { sections };
        let ids = specification.ids();
        if ids.is_empty() {
            return Err("the specification holds no behaviour (`- SP-01 text`)".to_owned());
        }
        for (index, id) in ids.iter().enumerate() {
            if ids[..index].contains(id) {
                return Err(format!("the specification has {id} twice"));
            }
        }
        Ok(specification)
    }

    /// All ids in order.
    pub(super) fn ids(&self) -> Vec<&str> {
        self.sections
            .iter()
            .flat_map(|(_, b)| b.iter().map(|b| b.id.as_str()))
            .collect()
    }

    /// Expands `SP-10, SP-14..SP-16` into its ids.
    ///
    /// # Errors
    ///
    /// A message, if a word is not an id or is not in the specification.
    pub(super) fn expand(&self, list: &str) -> Result<Vec<String>, String> {
        let mut ids = Vec::new();
        for word in list.split(',').map(str::trim) {
            match word.split_once("..") {
                Some((first, last)) => ids.extend(self.range(first, last)?),
                None => ids.push(self.known(word)?.to_owned()),
            }
        }
        Ok(ids)
    }

    fn range(&self, first: &str, last: &str) -> Result<Vec<String>, String> {
        let from = Id::parse(self.known(first)?);
        let to = Id::parse(self.known(last)?);
        let (Some(from), Some(to)) = (from, to) else {
            return Err(format!("`{first}..{last}` is not a range of ids"));
        };
        if from.prefix != to.prefix || from >= to {
            return Err(format!(
                "`{first}..{last}` does not go upward within one group of ids"
            ));
        }
        let is_inside = |id: &&str| Id::parse(id).is_some_and(|id| from <= id && id <= to);
        Ok(self
            .ids()
            .into_iter()
            .filter(is_inside)
            .map(str::to_owned)
            .collect())
    }

    fn known<'a>(&self, word: &'a str) -> Result<&'a str, String> {
        if Id::parse(word).is_none() {
            return Err(format!(
                "`{word}` is not an id; write `Behaviour: SP-10, SP-11.`"
            ));
        }
        match self.ids().contains(&word) {
            true => Ok(word),
            false => Err(format!("{word} is not in the specification")),
        }
    }
}

/// The parts of an id, in the order ids sort: `SP-10b` is (SP, 10, b).
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id<'a> {
    prefix: &'a str,
    number: u32,
    letter: Option<char>,
}

impl<'a> Id<'a> {
    fn parse(word: &'a str) -> Option<Self> {
        let (prefix, rest) = word.split_once('-')?;
        if !PREFIXES.contains(&prefix) {
            return None;
        }
        let letter = rest.chars().next_back().filter(char::is_ascii_lowercase);
        let digits = rest
            .strip_suffix(|c: char| c.is_ascii_lowercase())
            .unwrap_or(rest);
        let are_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        are_digits.then_some(())?;
        Some(Self {
            prefix,
            number: digits.parse().ok()?,
            letter,
        })
    }
}
