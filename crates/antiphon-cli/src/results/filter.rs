//! Parses filter conditions: `amount>=100`, `state in (NJ, NY)`, `closed is null`.

use antiphon_results::{
    ColumnDefinition, ColumnType,
    snapshot::{self, FilterOp},
};
use serde_json::Value;

/// A condition whose value has no type yet. The type comes from the server's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) column: String,
    op: FilterOp,
    given: Given,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    Nothing,
    One(Word),
    Many(Vec<Word>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    /// Whether the value is quoted. A quoted value is always text.
    quoted: bool,
}

/// The operators of conditions. Longer operators come first, because `<=` must not be parsed as `<` with a value that
/// starts with `=`.
const SIGNS: [(&str, FilterOp); 8] = [
    ("!=", FilterOp::Ne),
    ("<=", FilterOp::Le),
    (">=", FilterOp::Ge),
    ("^=", FilterOp::StartsWith),
    ("=", FilterOp::Eq),
    ("<", FilterOp::Lt),
    (">", FilterOp::Gt),
    ("~", FilterOp::Contains),
];

const HOW: &str = "write it as `amount>=100`; the operators are = != < <= > >= ~ (contains) ^= (begins \
                   with), `in (a, b)`, `is null` and `is not null`";

impl Filter {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (column, rest) = column(text.trim())?;
        let (op, given) = condition(rest)?;
        Ok(Self { column, op, given })
    }

    /// Converts the condition to a filter for the server. The value gets the type of the column.
    pub(crate) fn typed(&self, columns: &[ColumnDefinition]) -> Result<snapshot::Filter, String> {
        let known = columns.iter().find(|column| column.name == self.column);
        if known.is_none() && !columns.is_empty() {
            let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
            return Err(format!(
                "column `{}` does not exist; the columns are {}",
                self.column,
                names.join(", ")
            ));
        }
        let kind = known.map(|column| &column.kind);
        // `contains` and `starts_with` compare text.
        let kind = match self.op {
            FilterOp::Contains | FilterOp::StartsWith => Some(&ColumnType::String),
            _ => kind,
        };
        let typed =
            |word: &Word| word.typed(kind).map_err(|what| format!("column `{}` has {what}", self.column));
        let value = match &self.given {
            Given::Nothing => Value::Null,
            Given::One(word) => typed(word)?,
            Given::Many(words) => words.iter().map(typed).collect::<Result<_, _>>()?,
        };
        Ok(snapshot::Filter::new(&self.column, self.op, value))
    }
}

impl Word {
    fn typed(&self, kind: Option<&ColumnType>) -> Result<Value, String> {
        let text = || Value::from(&*self.text);
        if self.quoted {
            return Ok(text());
        }
        let plain = serde_json::from_str::<Value>(&self.text).ok();
        let number = || plain.clone().filter(Value::is_number);
        let truth = || plain.clone().filter(Value::is_boolean);
        match kind {
            Some(ColumnType::Number | ColumnType::Integer) => {
                number().ok_or_else(|| format!("numbers, and `{}` is not a number", self.text))
            }
            Some(ColumnType::Boolean) => {
                truth().ok_or_else(|| format!("true or false, and `{}` is neither", self.text))
            }
            Some(ColumnType::Json | ColumnType::Other(_)) | None => {
                Ok(number().or_else(truth).unwrap_or_else(text))
            }
            Some(_) => Ok(text()),
        }
    }
}

/// Splits a condition into the column's name and the rest. A name that contains operators or spaces must be in double
/// quotes or backticks.
fn column(text: &str) -> Result<(String, &str), String> {
    if let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '`')) {
        let (name, rest) =
            text[1..].split_once(quote).ok_or_else(|| format!("a quote in `{text}` is not closed; {HOW}"))?;
        return Ok((name.to_owned(), rest.trim_start()));
    }
    let sign = text.find(|char| "!<>^=~".contains(char));
    let word = word_at(text);
    let end = match (sign, word) {
        (Some(sign), Some(word)) => sign.min(word),
        (end, other) => end.or(other).ok_or_else(|| format!("`{text}` has no operator; {HOW}"))?,
    };
    let name = text[..end].trim_end();
    if name.is_empty() {
        return Err(format!("`{text}` has no column name; {HOW}"));
    }
    Ok((name.to_owned(), text[end..].trim_start()))
}

/// Returns the position of `is …` or `in (…`, in upper or lower case.
fn word_at(text: &str) -> Option<usize> {
    let spaces = text.char_indices().filter(|(_, char)| char.is_whitespace());
    let says = |rest: &str| {
        let rest = rest.trim_start().to_ascii_lowercase();
        let list = rest.strip_prefix("in").is_some_and(|list| list.trim_start().starts_with('('));
        list || rest.strip_prefix("is").is_some_and(|rest| rest.starts_with(char::is_whitespace))
    };
    spaces.map(|(at, _)| at).find(|at| says(&text[*at..]))
}

fn condition(text: &str) -> Result<(FilterOp, Given), String> {
    for (sign, op) in SIGNS {
        if let Some(value) = text.strip_prefix(sign) {
            return Ok((op, Given::One(word(value)?)));
        }
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["is", "null"] => return Ok((FilterOp::IsNull, Given::Nothing)),
        ["is", "not", "null"] => return Ok((FilterOp::NotNull, Given::Nothing)),
        _ => {}
    }
    let list = text.get(..2).filter(|word| word.eq_ignore_ascii_case("in")).map(|_| text[2..].trim());
    let list = list.and_then(|list| list.strip_prefix('(')?.strip_suffix(')'));
    let list = list.ok_or_else(|| format!("`{text}` is not a valid condition; {HOW}"))?;
    let values: Vec<Word> = apart(list).into_iter().map(word).collect::<Result<_, _>>()?;
    Ok((FilterOp::In, Given::Many(values)))
}

/// Parses the value of a condition, and removes the quotes around the value.
fn word(text: &str) -> Result<Word, String> {
    let text = text.trim();
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
    match quote {
        None => Ok(Word { text: text.to_owned(), quoted: false }),
        Some(quote) => match text[1..].strip_suffix(quote) {
            Some(inner) => Ok(Word { text: inner.to_owned(), quoted: true }),
            None => Err(format!("the quote in `{text}` is not closed")),
        },
    }
}

/// Splits a list at the commas that are outside of quotes.
fn apart(list: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut quote) = (Vec::new(), 0, None);
    for (at, char) in list.char_indices() {
        match (quote, char) {
            (None, '"' | '\'') => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            (None, ',') => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &Value) {
        let columns = [
            ColumnDefinition::number("amount"),
            ColumnDefinition::string("zip"),
            ColumnDefinition::boolean("open"),
            ColumnDefinition::string("unit price=x"),
            ColumnDefinition::new("any", ColumnType::Json),
            ColumnDefinition::string("spin in"),
        ];
        let filter = Filter::parse(text).and_then(|filter| filter.typed(&columns)).unwrap();
        assert_eq!(&json!(filter), expected);
    }

    #[test]
    fn every_condition_is_read() {
        check("amount>=100", &json!({"column": "amount", "op": "ge", "value": 100}));
        check("amount <= -1.5e3", &json!({"column": "amount", "op": "le", "value": -1500.0}));
        check("amount<1", &json!({"column": "amount", "op": "lt", "value": 1}));
        check("amount > 1", &json!({"column": "amount", "op": "gt", "value": 1}));
        check("zip=04103", &json!({"column": "zip", "op": "eq", "value": "04103"}));
        check("zip != ''", &json!({"column": "zip", "op": "ne", "value": ""}));
        check("zip~a=b", &json!({"column": "zip", "op": "contains", "value": "a=b"}));
        check("amount~12", &json!({"column": "amount", "op": "contains", "value": "12"}));
        check("zip ^= 04", &json!({"column": "zip", "op": "starts_with", "value": "04"}));
        check("open = true", &json!({"column": "open", "op": "eq", "value": true}));
        check("any=7", &json!({"column": "any", "op": "eq", "value": 7}));
        check("any='7'", &json!({"column": "any", "op": "eq", "value": "7"}));
        check("amount in(1, 2,3)", &json!({"column": "amount", "op": "in", "value": [1, 2, 3]}));
        check("zip IN ('a, b', c)", &json!({"column": "zip", "op": "in", "value": ["a, b", "c"]}));
        check("amount is null", &json!({"column": "amount", "op": "is_null"}));
        check("amount IS  NOT NULL", &json!({"column": "amount", "op": "not_null"}));
        check("\"unit price=x\"=3", &json!({"column": "unit price=x", "op": "eq", "value": "3"}));
        check("`spin in` is null", &json!({"column": "spin in", "op": "is_null"}));
    }

    #[test]
    fn mistakes_are_told_with_what_would_do() {
        for wrong in ["", "amount", ">=100", "amount in 1,2", "amount is nothing", "`amount=1", "\"a\" 7"] {
            let error = Filter::parse(wrong).unwrap_err();
            assert!(error.contains("is not null"), "{wrong}: {error}");
        }
        assert!(Filter::parse("zip='a").unwrap_err().contains("not closed"));
        let columns = [ColumnDefinition::number("amount"), ColumnDefinition::boolean("open")];
        let error = |text| Filter::parse(text).unwrap().typed(&columns).unwrap_err();
        assert_eq!(error("amont=1"), "column `amont` does not exist; the columns are amount, open");
        assert_eq!(error("amount=much"), "column `amount` has numbers, and `much` is not a number");
        assert_eq!(error("open=maybe"), "column `open` has true or false, and `maybe` is neither");
    }
}
