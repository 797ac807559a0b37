//! An OpenAPI document as JSON, and the code that follows the references in the document.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The HTTP methods that a path item of an OpenAPI document can have.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// The maximum number of consecutive references that [`Document::resolve`] follows.
const MAX_HOPS: usize = 16;

/// An OpenAPI document of the version 3.0 or 3.1.
///
/// The document is stored as JSON. If a part of the document does not follow the specification, the defect affects only
/// the operations that use this part.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    root: Value,
    /// Whether the schemas of the document have the dialect of OpenAPI 3.0.
    pub(crate) is_3_0: bool,
}

/// An operation in a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    pub(crate) item: &'a Map<String, Value>,
    pub(crate) operation: &'a Map<String, Value>,
}

impl Document {
    pub(crate) fn new(root: Value) -> Result<Self> {
        let version = root.get("openapi").or_else(|| root.get("swagger"));
        let version = match version {
            Some(Value::String(version)) => version.clone(),
            Some(other) => other.to_string(),
            None => return Err(Error::Version("none".to_owned())),
        };
        let is_3_0 = version == "3.0" || version.starts_with("3.0.");
        if !is_3_0 && version != "3.1" && !version.starts_with("3.1.") {
            return Err(Error::Version(version));
        }
        Ok(Self { root, is_3_0 })
    }

    /// Returns the value of a top-level field of the document.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.root.get(name)
    }

    /// Returns the component `name` of the document, for example a security scheme.
    pub(crate) fn component(&self, kind: &str, name: &str) -> Option<&Value> {
        self.resolve(self.root.get("components")?.get(kind)?.get(name)?)
    }

    /// Returns the value to which a reference in this document points. A reference is a text such as
    /// `#/components/schemas/Pet`.
    pub(crate) fn pointer(&self, reference: &str) -> Option<&Value> {
        let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
        self.root.pointer(&pointer)
    }

    /// Follows the references from a value to a value that is not a reference. Returns `None` if one of the references
    /// has no target in this document.
    pub(crate) fn resolve<'a>(&'a self, mut value: &'a Value) -> Option<&'a Value> {
        for _ in 0..MAX_HOPS {
            match value.get("$ref").and_then(Value::as_str) {
                Some(reference) => value = self.pointer(reference)?,
                None => return Some(value),
            }
        }
        None
    }

    /// Returns the paths whose operations cannot be read, each with the reason.
    pub(crate) fn unreadable_paths(&self) -> Vec<(&str, String)> {
        let paths = self.root.get("paths").and_then(Value::as_object).into_iter().flatten();
        let paths = paths.filter(|(path, _)| path.starts_with('/'));
        let unreadable = paths.filter_map(|(path, item)| match self.resolve(item) {
            Some(Value::Object(_)) => None,
            Some(_) => Some((path.as_str(), "its path item is not an object".to_owned())),
            None => {
                let reference = item.get("$ref").and_then(Value::as_str).unwrap_or_default();
                Some((path.as_str(), format!("the reference `{reference}` has no target in the document")))
            }
        });
        unreadable.collect()
    }

    /// Returns all operations in the document, in the order of the document.
    pub(crate) fn operations(&self) -> Vec<Found<'_>> {
        let mut found = Vec::new();
        for (path, item) in self.root.get("paths").and_then(Value::as_object).into_iter().flatten() {
            let Some(item) = self.resolve(item).and_then(Value::as_object) else { continue };
            for (name, operation) in item {
                let method = METHODS.into_iter().find(|method| *method == name.to_ascii_lowercase());
                if let (Some(method), Some(operation)) = (method, operation.as_object()) {
                    found.push(Found { method, path, item, operation });
                }
            }
        }
        found
    }
}

impl<'a> Found<'a> {
    /// Returns the text field `name` of the operation, unless the text is empty.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.operation.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    }

    /// Returns the tags of the operation.
    pub(crate) fn tags(&self) -> impl Iterator<Item = &'a str> {
        self.operation.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the method and the path of the operation, for example `GET /pets`.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.method.to_ascii_uppercase(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_versions_are_rejected() {
        for version in ["2.0", "3.2.0", "3.00"] {
            let error = Document::new(json!({"openapi": version})).unwrap_err();
            assert!(matches!(error, Error::Version(found) if found == version));
        }
        assert!(Document::new(json!({"swagger": "2.0"})).is_err());
        assert!(Document::new(json!({"openapi": "3.0.3"})).unwrap().is_3_0);
        assert!(!Document::new(json!({"openapi": "3.1.0"})).unwrap().is_3_0);
    }

    #[test]
    fn references_can_have_escaped_and_encoded_parts() {
        let document =
            json!({"openapi": "3.0.0", "paths": {"/keys/{id}": {"get": {"parameters": [{"name": "id"}]}}}});
        let document = Document::new(document).unwrap();
        let reference = json!({"$ref": "#/paths/~1keys~1%7Bid%7D/get/parameters/0"});
        assert_eq!(document.resolve(&reference), Some(&json!({"name": "id"})));
        assert_eq!(document.resolve(&json!({"$ref": "other.json#/Pet"})), None);
    }

    #[test]
    fn a_reference_to_itself_has_no_target() {
        let document = json!({"openapi": "3.0.0", "components": {"parameters": {"a": {"$ref": "#/components/parameters/a"}}}});
        let document = Document::new(document).unwrap();
        assert_eq!(document.component("parameters", "a"), None);
    }
}
