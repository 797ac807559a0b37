//! Reads fields from a JSON schema, for flags and forms.

mod check;
mod kind;

use serde_json::{Map, Value};

pub(crate) use self::{
    check::{check, check_count},
    kind::{Choice, Kind},
};

/// A value that the user can fill in. Each field of a nested object is a separate `Field` with a longer path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// The names of the nested members that lead from the top of the object to this field.
    pub(crate) path: Vec<String>,
    /// For each name in `path`, a value that is `true` if the object that contains the named member requires this
    /// member.
    required: Vec<bool>,
    /// The label for the user.
    pub(crate) title: String,
    pub(crate) description: Option<String>,
    pub(crate) default: Option<Value>,
    pub(crate) kind: Kind,
}

/// The maximum nesting depth of fields. The user fills in deeper objects as JSON.
const DEEPEST: usize = 4;
/// The maximum number of fields of a schema.
const MOST: usize = 500;

impl Field {
    /// Returns the fields of an object's schema, in the order of the schema.
    pub(crate) fn all(schema: &Value) -> Vec<Self> {
        let mut fields = Vec::new();
        collect(schema, schema, &[], &[], &mut fields);
        fields
    }

    /// Returns whether the field and all objects around it are required.
    pub(crate) fn is_required(&self) -> bool {
        self.required.iter().all(|required| *required)
    }

    /// Returns whether this field is required and missing in `arguments`. If an optional object is not in `arguments`,
    /// the required fields of this object do not count as missing.
    pub(crate) fn is_missing(&self, arguments: &Map<String, Value>) -> bool {
        for (i, required) in self.required.iter().enumerate() {
            let there = find(arguments, &self.path[..=i]).is_some();
            if !required && !there {
                return false;
            }
        }
        !self.is_in(arguments)
    }

    /// Returns whether `arguments` contain the field.
    pub(crate) fn is_in(&self, arguments: &Map<String, Value>) -> bool {
        self.find(arguments).is_some()
    }

    /// Returns the field's value in `arguments`.
    pub(crate) fn find<'a>(&self, arguments: &'a Map<String, Value>) -> Option<&'a Value> {
        find(arguments, &self.path)
    }

    /// Sets the field's value in `arguments`.
    pub(crate) fn put(&self, arguments: &mut Map<String, Value>, value: Value) {
        let Some((name, way)) = self.path.split_last() else { return };
        let mut object = arguments;
        for part in way {
            let inner = object.entry(part.clone()).or_insert_with(|| Value::Object(Map::new()));
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            let Some(inner) = inner.as_object_mut() else { return };
            object = inner;
        }
        object.insert(name.clone(), value);
    }

    /// Returns the path with dots between the names.
    pub(crate) fn name(&self) -> String {
        self.path.join(".")
    }
}

fn find<'a>(arguments: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(arguments.get(first)?, |value, name| value.get(name))
}

fn collect(root: &Value, schema: &Value, path: &[String], required: &[bool], fields: &mut Vec<Field>) {
    let needed: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if fields.len() >= MOST {
            return;
        }
        let path = [path, std::slice::from_ref(name)].concat();
        let required = [required, &[needed.contains(&name.as_str())]].concat();
        let plain = kind::resolved(root, property);
        let within = plain["properties"].as_object().is_some_and(|inner| !inner.is_empty());
        if within && path.len() < DEEPEST {
            collect(root, plain, &path, &required, fields);
            continue;
        }
        // The text in the property overrides the text in the definition of its type.
        let text = |key: &str| property[key].as_str().or(plain[key].as_str()).map(str::to_owned);
        fields.push(Field {
            title: text("title").filter(|title| !title.is_empty()).unwrap_or_else(|| path.join(" ")),
            description: text("description").filter(|text| !text.is_empty()),
            default: property.get("default").filter(|default| !default.is_null()).cloned(),
            kind: Kind::read(root, plain),
            path,
            required,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "required": ["name", "address"], "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/Address"},
            "second": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]},
        }, "$defs": {"Address": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Where"}, "zip": {"type": ["integer", "null"]},
        }}}})
    }

    #[test]
    fn objects_within_objects_are_fields_with_longer_paths() {
        let fields = Field::all(&schema());
        let names: Vec<String> = fields.iter().map(Field::name).collect();
        assert_eq!(names, ["name", "address.city", "address.zip", "second.city", "second.zip"]);
        assert_eq!(fields[1].description.as_deref(), Some("Where"));
        let required: Vec<bool> = fields.iter().map(Field::is_required).collect();
        assert_eq!(required, [true, true, false, false, false]);
    }

    #[test]
    fn a_part_of_what_is_not_there_is_not_missed_until_it_is_begun() {
        let fields = Field::all(&schema());
        let missing = |arguments: Value| -> Vec<String> {
            let arguments = arguments.as_object().unwrap().clone();
            fields.iter().filter(|field| field.is_missing(&arguments)).map(Field::name).collect()
        };
        assert_eq!(missing(json!({})), ["name", "address.city"]);
        assert_eq!(missing(json!({"name": "Ada", "address": {"city": "Bern"}})), [] as [&str; 0]);
        let begun = json!({"name": "Ada", "address": {"city": "Bern"}, "second": {"zip": 3000}});
        assert_eq!(missing(begun), ["second.city"]);
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        let to = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let schema = json!({
            "properties": {"node": to("Node"), "loop": to("Loop"), "list": to("List"), "all": to("All"), "any": to("Any")},
            "$defs": {
                "Node": {"type": "object", "properties": {"next": to("Node")}},
                "Loop": to("Loop"),
                "List": {"type": "array", "items": to("List")},
                "All": {"allOf": [to("All")]},
                "Any": {"anyOf": [to("Any"), {"type": "null"}]},
            },
        });
        let fields = Field::all(&schema);
        let mut names: Vec<String> = fields.iter().map(Field::name).collect();
        names.sort();
        assert_eq!(names, ["all", "any", "list", "loop", "node.next.next.next"]);
        assert!(fields.iter().all(|field| field.kind == Kind::Json), "{fields:?}");
    }
}
