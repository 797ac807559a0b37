//! Parsing of the values that users submit with the forms of the answer page.

use serde_json::{Number, Value};

use super::fields::{Field, Kind};

/// The submitted values of a form, each with the name of its field.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Given(pub(super) Vec<(String, String)>);

impl Given {
    /// Parses the body of a request (`application/x-www-form-urlencoded`). Returns `None` if the body is not valid.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let (name, value) = (halves.next()?, halves.next().unwrap_or_default());
            Some((decoded(name)?, decoded(value)?))
        });
        pairs.collect::<Option<_>>().map(Self)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn decoded(text: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(*rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}

impl Field<'_> {
    /// Returns the value that the user submitted for this field. Returns `None` if the field is empty.
    ///
    /// # Errors
    ///
    /// Returns a text that tells the user what to enter if the submitted text is not a valid value for this field.
    pub(super) fn value(&self, given: &Given) -> Result<Option<Value>, &'static str> {
        let text = given.get(&self.name).unwrap_or_default().replace("\r\n", "\n");
        let is_empty = text.trim().is_empty();
        Ok(match self.kind() {
            Kind::Many(options) => {
                let chosen = given.all(&self.name).filter_map(|at| options.get(at.parse::<usize>().ok()?));
                let chosen: Vec<Value> = chosen.map(|(value, _)| (*value).clone()).collect();
                // If the user chose no options, an optional list that must not be empty is left out of the answer.
                let can_be_empty = self.required || self.schema["minItems"].as_u64() <= Some(0);
                (can_be_empty || !chosen.is_empty()).then_some(Value::Array(chosen))
            }
            Kind::One(options) => {
                let chosen = text.parse::<usize>().ok().and_then(|at| options.get(at));
                chosen.map(|(value, _)| (*value).clone())
            }
            Kind::Boolean => Some(given.get(&self.name).is_some().into()),
            _ if is_empty => None,
            Kind::Number { whole } => Some(number(text.trim(), whole)?),
            Kind::Text => Some(text.into()),
            Kind::Json => Some(serde_json::from_str(&text).map_err(|_| "Enter valid JSON.")?),
        })
    }
}

/// Parses a number. If `whole` is true, the text must be an integer.
fn number(text: &str, whole: bool) -> Result<Value, &'static str> {
    if let Ok(number) = text.parse::<i64>() {
        return Ok(number.into());
    }
    if whole {
        return Err("Enter a whole number.");
    }
    let number = text.parse::<f64>().ok().and_then(Number::from_f64);
    number.map(Value::Number).ok_or("Enter a number.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_body_are_decoded() {
        let given = Given::parse(b"a=1+2&b=%C3%A4%26&a=x&empty=&none&=y").unwrap();
        assert_eq!(given.all("a").collect::<Vec<_>>(), ["1 2", "x"]);
        let value = |name| given.get(name);
        assert_eq!((value("b"), value("empty"), value("none")), (Some("ä&"), Some(""), Some("")));
        assert_eq!((value(""), value("c")), (Some("y"), None));
        assert_eq!(Given::parse(b""), Some(Given::default()));
        for wrong in [&b"a=%"[..], b"a=%1", b"a=%zz", b"a=%ff", b"%C3=1"] {
            assert_eq!(Given::parse(wrong), None);
        }
    }
}
