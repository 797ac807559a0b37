//! Validation of JSON values against a complete JSON Schema.

use serde_json::{Map, Value};

/// A compiled JSON Schema.
#[derive(Debug)]
pub(crate) struct Validator {
    compiled: jsonschema::Validator,
}

/// The maximum number of validation problems that an error message lists.
const PROBLEMS: usize = 10;

impl Validator {
    /// Compiles `schema`. Returns a description of the problem if the schema is not valid.
    pub(crate) fn new(schema: &Map<String, Value>) -> Result<Self, String> {
        jsonschema::options()
            .build(&Value::Object(schema.clone()))
            .map(|compiled| Self { compiled })
            .map_err(|error| error.to_string())
    }

    /// Returns one line for each problem. The line begins with the field: `cell: 9 is greater than the maximum of 8`.
    pub(crate) fn problems(&self, value: &Value) -> Vec<String> {
        if self.compiled.is_valid(value) {
            return Vec::new();
        }
        let mut problems = Vec::new();
        for error in self.compiled.iter_errors(value) {
            name_problems(&error, &mut problems);
        }
        problems.truncate(PROBLEMS);
        problems
    }

    /// Returns one line of text for each problem, for a model: `cell: value is greater than the maximum of 8 (got 9)`.
    /// The line ends with the truncated invalid value, so that a long value does not hide the problem.
    pub(crate) fn lines(&self, value: &Value) -> Vec<String> {
        if self.compiled.is_valid(value) {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for error in self.compiled.iter_errors(value) {
            at_fault(&error, &mut |error| {
                let got: String = error.instance().to_string().chars().take(GOT_CHARS).collect();
                lines.push(format!(
                    "{}: {} (got {got})",
                    path(error).unwrap_or("(root)".into()),
                    error.masked()
                ));
            });
        }
        lines.truncate(PROBLEMS);
        lines
    }
}

/// The maximum length of an invalid value in a message, in characters.
const GOT_CHARS: usize = 100;

fn name_problems(error: &jsonschema::ValidationError<'_>, problems: &mut Vec<String>) {
    at_fault(error, &mut |error| {
        problems.push(match path(error) {
            None => error.to_string(),
            Some(path) => format!("{path}: {error}"),
        });
    });
}

/// Returns the path of the invalid value with dots: `/items/0/name` becomes `items.0.name`.
fn path(error: &jsonschema::ValidationError<'_>) -> Option<String> {
    let pointer = error.instance_path().to_string();
    let path = pointer.strip_prefix('/')?;
    Some(path.replace('/', ".").replace("~1", "/").replace("~0", "~"))
}

/// Calls `tell` with each error to report. If a value must match one of several schemas but matches none, `tell`
/// receives only the errors of the closest schema. For example, if an optional object has a wrong field, the error
/// names this field. The error does not mention that null would also be valid.
fn at_fault(error: &jsonschema::ValidationError<'_>, tell: &mut dyn FnMut(&jsonschema::ValidationError<'_>)) {
    use jsonschema::error::ValidationErrorKind::{AnyOf, OneOfNotValid};
    if let AnyOf { context } | OneOfNotValid { context } = error.kind() {
        let depth = |errors: &Vec<jsonschema::ValidationError<'_>>| {
            errors
                .iter()
                .map(|error| error.instance_path().to_string().matches('/').count())
                .min()
                .unwrap_or(0)
        };
        let here = error.instance_path().to_string().matches('/').count();
        if let Some(closest) =
            context.iter().filter(|errors| depth(errors) > here).max_by_key(|errors| depth(errors))
        {
            return closest.iter().for_each(|error| at_fault(error, tell));
        }
    }
    tell(error);
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::json;

    use crate::schema::form;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct PickMove {
        #[schemars(range(min = 0, max = 8))]
        cell: u8,
        mood: Mood,
        tags: Vec<Mood>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Mood {
        Calm,
        Wild,
    }

    #[test]
    fn a_problem_names_its_field() {
        let form = form::<PickMove>().unwrap();
        let problems = form.validator.problems(&json!({"cell": 9, "mood": "Calm", "tags": []}));
        assert_eq!(problems, ["cell: 9 is greater than the maximum of 8"]);
    }
}
