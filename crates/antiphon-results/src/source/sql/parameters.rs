use serde_json::Value;

use super::SqlError;

/// Returns the members of `parameters` in the order of `names`.
///
/// Every name in `names` must have a member in `parameters`, and every member must have a name. Without this rule, a
/// missing or misspelt member would silently change the query.
pub(super) fn ordered<'v>(names: &[String], parameters: &'v Value) -> Result<Vec<&'v Value>, SqlError> {
    let empty = serde_json::Map::new();
    let members = match parameters {
        Value::Object(members) => members,
        // A query without parameters accepts `null` and an empty object.
        Value::Null => &empty,
        _ => return Err(SqlError::invalid("the parameters must be a JSON object")),
    };
    if let Some(extra) = members.keys().find(|member| !names.contains(member)) {
        // The name comes from a client. So the message contains only the start of the name, and `{:?}` escapes control
        // characters.
        let shown: String = extra.chars().take(64).collect();
        return Err(SqlError::invalid(format!("the query has no parameter {shown:?}")));
    }
    if let Some(missing) = names.iter().find(|name| !members.contains_key(*name)) {
        return Err(SqlError::invalid(format!("the parameter `{missing}` is missing")));
    }
    let Value::Object(members) = parameters else { return Ok(Vec::new()) };
    Ok(names.iter().map(|name| &members[name]).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(names: &[&str], parameters: &Value) -> Result<Vec<Value>, String> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let found = ordered(&names, parameters).map_err(|error| error.to_string())?;
        Ok(found.into_iter().cloned().collect())
    }

    #[test]
    fn members_come_in_the_order_of_the_names_and_as_often() {
        let found = check(&["b", "a", "b"], &json!({"a": 1, "b": null})).unwrap();
        assert_eq!(found, [Value::Null, json!(1), Value::Null]);
        assert!(check(&[], &Value::Null).unwrap().is_empty());
        assert!(check(&[], &json!({})).unwrap().is_empty());
    }

    #[test]
    fn missing_and_extra_members_are_named() {
        assert_eq!(check(&["a"], &json!({})).unwrap_err(), "the parameter `a` is missing");
        assert_eq!(check(&["a"], &Value::Null).unwrap_err(), "the parameter `a` is missing");
        let extra = check(&["a"], &json!({"a": 1, "b\n": 2})).unwrap_err();
        assert_eq!(extra, r#"the query has no parameter "b\n""#);
        assert_eq!(check(&["a"], &json!([1])).unwrap_err(), "the parameters must be a JSON object");
    }
}
