//! Parses and evaluates the integer arithmetic in placeholders, with a recursive-descent parser of
//! bounded depth.

use super::{Env, Param, PlaceholderError};

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Expression {
    Number(i64),
    Parameter(String),
    Negative(Box<Expression>),
    Operation(Operator, Box<Expression>, Box<Expression>),
}

/// An operator between two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Maximum nesting of parentheses and signs.
const DEPTH_MAX: u32 = 32;

/// Returns true if a parameter of this name can be used in a placeholder.
pub(crate) fn is_parameter_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|character| character.is_ascii_alphanumeric() || character == '_')
}

impl Expression {
    /// Parses the text before the colon of a placeholder.
    pub fn parse(text: &str) -> Result<Self, PlaceholderError> {
        if text.trim().is_empty() {
            return Err(PlaceholderError::Empty);
        }
        let mut parser = Parser { rest: text };
        let expression = parser.sum(0)?;
        match parser.peek() {
            None => Ok(expression),
            Some(found) => Err(unexpected(found)),
        }
    }

    /// Returns the value of the expression with these parameters.
    pub fn evaluate(&self, env: &Env) -> Result<Param, PlaceholderError> {
        if let Expression::Parameter(name) = self {
            return env.get(name).cloned().ok_or_else(|| unknown(name, env));
        }
        self.integer(env).map(Param::Integer)
    }

    fn integer(&self, env: &Env) -> Result<i64, PlaceholderError> {
        match self {
            Expression::Number(number) => Ok(*number),
            Expression::Parameter(name) => match env.get(name) {
                Some(Param::Integer(number)) => Ok(*number),
                Some(_) => Err(PlaceholderError::NotInteger { name: name.clone() }),
                None => Err(unknown(name, env)),
            },
            Expression::Negative(inner) => inner
                .integer(env)?
                .checked_neg()
                .ok_or(PlaceholderError::Overflow),
            Expression::Operation(operator, left, right) => {
                operator.apply(left.integer(env)?, right.integer(env)?)
            }
        }
    }
}

impl Operator {
    fn apply(self, left: i64, right: i64) -> Result<i64, PlaceholderError> {
        let result = match self {
            Operator::Add => left.checked_add(right),
            Operator::Subtract => left.checked_sub(right),
            Operator::Multiply => left.checked_mul(right),
            Operator::Divide | Operator::Remainder if right == 0 => {
                return Err(PlaceholderError::DivisionByZero);
            }
            Operator::Divide => left.checked_div(right),
            Operator::Remainder => left.checked_rem(right),
        };
        result.ok_or(PlaceholderError::Overflow)
    }
}

fn unknown(name: &str, env: &Env) -> PlaceholderError {
    PlaceholderError::Unknown {
        name: name.to_owned(),
        suggestion: env.suggestion(name),
    }
}

fn unexpected(found: char) -> PlaceholderError {
    PlaceholderError::Unexpected {
        found: format!("'{}'", found.escape_debug()),
    }
}

/// A recursive-descent parser of expressions.
struct Parser<'a> {
    /// Text that has not been parsed yet.
    rest: &'a str,
}

impl Parser<'_> {
    /// Returns the next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, character: char) -> bool {
        self.peek();
        match self.rest.strip_prefix(character) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn operator(&mut self, operators: &[(char, Operator)]) -> Option<Operator> {
        let (_, operator) = operators
            .iter()
            .find(|(character, _)| self.take(*character))?;
        Some(*operator)
    }

    fn sum(&mut self, depth: u32) -> Result<Expression, PlaceholderError> {
        let mut left = self.product(depth)?;
        while let Some(operator) = self.operator(&[('+', Operator::Add), ('-', Operator::Subtract)])
        {
            let right = self.product(depth)?;
            left = Expression::Operation(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn product(&mut self, depth: u32) -> Result<Expression, PlaceholderError> {
        const OPERATORS: &[(char, Operator)] = &[
            ('*', Operator::Multiply),
            ('/', Operator::Divide),
            ('%', Operator::Remainder),
        ];
        let mut left = self.factor(depth)?;
        while let Some(operator) = self.operator(OPERATORS) {
            let right = self.factor(depth)?;
            left = Expression::Operation(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn factor(&mut self, depth: u32) -> Result<Expression, PlaceholderError> {
        if depth >= DEPTH_MAX {
            return Err(PlaceholderError::TooDeep);
        }
        if self.take('-') {
            return Ok(Expression::Negative(Box::new(self.factor(depth + 1)?)));
        }
        if self.take('(') {
            let inner = self.sum(depth + 1)?;
            return match (self.take(')'), self.peek()) {
                (true, _) => Ok(inner),
                (false, Some(found)) => Err(unexpected(found)),
                (false, None) => Err(PlaceholderError::Incomplete),
            };
        }
        self.word()
    }

    /// Parses a number or the name of a parameter.
    fn word(&mut self) -> Result<Expression, PlaceholderError> {
        let first = self.peek().ok_or(PlaceholderError::Incomplete)?;
        let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
        if !is_part(first) {
            return Err(unexpected(first));
        }
        let end = self
            .rest
            .find(|character| !is_part(character))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if is_parameter_name(word) {
            self.rest = rest;
            return Ok(Expression::Parameter(word.to_owned()));
        }
        if let Some(letter) = word.chars().find(|character| !character.is_ascii_digit()) {
            return Err(unexpected(letter));
        }
        self.rest = rest;
        word.parse()
            .map(Expression::Number)
            .map_err(|_| PlaceholderError::Overflow)
    }
}
