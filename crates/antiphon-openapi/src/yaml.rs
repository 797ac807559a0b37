//! Reads YAML as JSON.

use serde_json::{Map, Number, Value};
use yaml_rust2::{Yaml, YamlLoader};

use crate::error::{Error, Result};

/// The maximum nesting depth of a YAML document. The JSON parser has the same maximum.
const MAX_DEPTH: usize = 128;

/// The key with which a YAML mapping inherits the members of another mapping.
const MERGE: &str = "<<";

/// Reads the first YAML document of a text.
pub(crate) fn parse(text: &str) -> Result<Value> {
    let documents = YamlLoader::load_from_str(text).map_err(|error| Error::Yaml(error.to_string()))?;
    let document = documents.first().ok_or_else(|| Error::Yaml("the text is empty".to_owned()))?;
    json(document, 0)
}

fn json(yaml: &Yaml, depth: usize) -> Result<Value> {
    if depth > MAX_DEPTH {
        return Err(Error::Yaml(format!("it is nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(match yaml {
        Yaml::Null => Value::Null,
        Yaml::Boolean(value) => Value::Bool(*value),
        Yaml::Integer(value) => Value::from(*value),
        Yaml::Real(text) => {
            // `.inf` and `.nan` cannot be represented in JSON.
            let number = text.parse().ok().and_then(Number::from_f64);
            number.map_or_else(|| Value::String(text.clone()), Value::Number)
        }
        Yaml::String(text) => Value::String(text.clone()),
        Yaml::Array(items) => {
            Value::Array(items.iter().map(|item| json(item, depth + 1)).collect::<Result<_>>()?)
        }
        Yaml::Hash(members) => {
            let mut object = Map::new();
            let mut inherited = Vec::new();
            for (name, value) in members {
                let (name, value) = (key(name)?, json(value, depth + 1)?);
                if name == MERGE {
                    match value {
                        Value::Array(parents) => inherited.extend(parents),
                        parent => inherited.push(parent),
                    }
                } else {
                    object.insert(name, value);
                }
            }
            // The mapping's own members take precedence over the members of its parents. The first parent takes
            // precedence over the other parents.
            for parent in inherited {
                let Value::Object(parent) = parent else {
                    return Err(Error::Yaml(format!("the value of `{MERGE}` is not a mapping")));
                };
                for (name, value) in parent {
                    object.entry(name).or_insert(value);
                }
            }
            Value::Object(object)
        }
        Yaml::Alias(_) | Yaml::BadValue => {
            return Err(Error::Yaml("it has an alias without an anchor".to_owned()));
        }
    })
}

/// Returns the key of a YAML mapping as text. In the YAML document, the key can be a number, for example the status
/// code of a response.
fn key(yaml: &Yaml) -> Result<String> {
    match yaml {
        Yaml::String(text) | Yaml::Real(text) => Ok(text.clone()),
        Yaml::Integer(number) => Ok(number.to_string()),
        Yaml::Boolean(value) => Ok(value.to_string()),
        _ => Err(Error::Yaml("the keys of mappings must be text, not lists or mappings".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_becomes_json() {
        let text = "a: &x [1, 2.5, yes, null, 'no']\nb: *x\n200: ok\n";
        let expected = json!([1, 2.5, "yes", null, "no"]);
        assert_eq!(parse(text).unwrap(), json!({"a": expected, "b": expected, "200": "ok"}));
        assert!(matches!(parse("a: [").unwrap_err(), Error::Yaml(_)));
        assert!(matches!(parse("<<: 1").unwrap_err(), Error::Yaml(_)));
        assert!(matches!(parse("").unwrap_err(), Error::Yaml(_)));
    }

    #[test]
    fn merge_keys_add_the_members_of_other_mappings() {
        let text = "a: &a {x: 1, y: 1}\nb: &b\n  <<: *a\n  y: 2\nc:\n  z: 3\n  <<: [*b, {x: 9, w: 9}]\n";
        let expected = json!({
            "a": {"x": 1, "y": 1},
            "b": {"x": 1, "y": 2},
            "c": {"x": 1, "y": 2, "z": 3, "w": 9},
        });
        assert_eq!(parse(text).unwrap(), expected);
    }
}
