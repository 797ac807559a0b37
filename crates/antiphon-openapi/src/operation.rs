//! Converts an operation into the input schema of a tool and the template of the tool's requests.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Map, Value, json};
use url::Url;

use crate::{
    auth::{self, Target},
    document::{Document, Found},
    names,
    request::{Body, BodyKind, BodySource, IDEMPOTENCY_KEY, Parameter, Place, Style, Template},
    schema::{Converter, cut},
};

/// Headers that cannot be arguments, because the HTTP client sets them, or OpenAPI defines them in other fields.
const RESERVED_HEADERS: [&str; 10] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The keywords of a schema that do not restrict its values.
const ANNOTATIONS: [&str; 8] =
    ["title", "description", "example", "examples", "xml", "externalDocs", "deprecated", "default"];

/// The limits of a tool's texts and schemas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The maximum number of characters of a tool's description.
    pub(crate) description: usize,
    /// The maximum number of characters of a description in the input schema.
    pub(crate) argument_description: usize,
    /// The maximum number of bytes of a tool's input schema.
    pub(crate) schema: usize,
}

/// The parts of a tool that calls one operation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) input_schema: Value,
    pub(crate) template: Template,
    /// The header in which the server sends an idempotency key. The field is `None` if the operation does not declare
    /// this header.
    pub(crate) idempotency_header: Option<String>,
    pub(crate) warnings: BTreeSet<String>,
}

impl Operation {
    /// Converts an operation, or returns the reason why the operation cannot become a tool.
    pub(crate) fn new(
        document: &Document,
        found: &Found<'_>,
        server: Url,
        sizes: Sizes,
    ) -> Result<Self, String> {
        let method = Method::from_bytes(found.method.to_ascii_uppercase().as_bytes())
            .map_err(|_| format!("the method `{}` is not supported", found.method))?;
        if matches!(method, Method::TRACE | Method::OPTIONS) {
            return Err(format!("the method `{method}` returns no data of the API"));
        }
        // Some documents give two operations of a path different fragments. A request does not contain the fragment.
        let path = found.path.split('#').next().unwrap_or_default();
        if path.contains('?') {
            return Err("its path contains a query, which OpenAPI does not allow".to_owned());
        }
        let mut build = Build {
            document,
            path,
            credentials: auth::targets(document, found),
            converter: Converter::new(document, sizes.argument_description),
            taken: BTreeSet::new(),
            properties: Map::new(),
            required: Vec::new(),
            parameters: Vec::new(),
            idempotency_header: None,
        };
        build.parameters(found, &method)?;
        let body = match found.operation.get("requestBody") {
            Some(body) => build.body(body, &method)?,
            None => None,
        };
        let definitions = build.converter.definitions();
        let Build { converter, properties, required, parameters, idempotency_header, .. } = build;
        let mut input_schema =
            json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            input_schema["required"] = required.into();
        }
        if !definitions.is_empty() {
            input_schema["$defs"] = Value::Object(definitions);
        }
        let mut warnings = converter.warnings;
        limit(&mut input_schema, sizes.schema, &mut warnings)?;
        let whole = description(found);
        let description = cut(&whole, sizes.description);
        if description != whole {
            warnings.insert(format!(
                "the description is cut to {} characters; raise `OpenApi::with_max_description`",
                sizes.description
            ));
        }
        let template = Template {
            method,
            path: path.to_owned(),
            server,
            parameters,
            body,
            accept: accept(document, found),
        };
        Ok(Self {
            title: found.text("summary").map(|summary| cut(summary, 80)),
            description,
            input_schema,
            template,
            idempotency_header,
            warnings,
        })
    }
}

/// Returns the description of the tool: the summary and the description of the operation.
fn description(found: &Found<'_>) -> String {
    let (summary, text) = (found.text("summary"), found.text("description"));
    let mut whole = match (summary, text) {
        (Some(summary), Some(text)) if !text.starts_with(summary) => format!("{summary}\n\n{text}"),
        (_, Some(text)) => text.to_owned(),
        (Some(summary), None) => summary.to_owned(),
        (None, None) => found.title(),
    };
    if found.operation.get("deprecated") == Some(&Value::Bool(true)) {
        whole = format!("Deprecated. {whole}");
    }
    whole
}

/// Returns the value of the header `Accept`: JSON first, then the other media types of successful responses.
fn accept(document: &Document, found: &Found<'_>) -> String {
    let mut types: Vec<&str> = Vec::new();
    for (status, response) in
        found.operation.get("responses").and_then(Value::as_object).into_iter().flatten()
    {
        if !status.starts_with('2') && status != "default" {
            continue;
        }
        let content = document.resolve(response).and_then(|response| response.get("content")?.as_object());
        for name in content.into_iter().flatten().map(|(name, _)| name.as_str()) {
            if !types.contains(&name) && name.contains('/') {
                types.push(name);
            }
        }
    }
    match types.iter().position(|name| is_json(name)) {
        Some(at) => types[..=at].rotate_right(1),
        None => types.insert(0, "application/json"),
    }
    types.truncate(4);
    types.push("*/*;q=0.1");
    types.join(", ")
}

/// Reduces a schema that is larger than `limit`: removes its nested descriptions and examples. Returns an error if the
/// reduced schema is still too large.
fn limit(schema: &mut Value, limit: usize, warnings: &mut BTreeSet<String>) -> Result<(), String> {
    if schema.to_string().len() <= limit {
        return Ok(());
    }
    if let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        definitions.values_mut().for_each(without_texts);
    }
    for (_, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        let description = property.get("description").cloned();
        without_texts(property);
        if let (Some(description), Some(property)) = (description, property.as_object_mut()) {
            property.insert("description".into(), description);
        }
    }
    let bytes = schema.to_string().len();
    if bytes > limit {
        return Err(format!(
            "its input schema has {bytes} bytes, more than {limit}; raise `OpenApi::with_max_schema_bytes`"
        ));
    }
    warnings
        .insert(format!("nested descriptions are dropped: the input schema is larger than {limit} bytes"));
    Ok(())
}

/// Removes descriptions, examples and titles from a schema and its parts. Properties with the name `description`,
/// `examples` or `title` stay in the schema.
fn without_texts(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            for text in ["description", "examples", "title"] {
                keywords.remove(text);
            }
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("default" | "const" | "enum" | "dependentRequired", _) => {}
                    ("properties" | "patternProperties" | "dependentSchemas", Value::Object(schemas)) => {
                        schemas.values_mut().for_each(without_texts);
                    }
                    (_, value) => without_texts(value),
                }
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(without_texts),
        _ => {}
    }
}

/// The data that is collected while one operation is converted into a tool.
#[derive(Debug)]
struct Build<'a> {
    document: &'a Document,
    /// The path of the operation, without the fragment.
    path: &'a str,
    /// The places where the security schemes of the operation put credentials. Parameters in the places of credentials
    /// are not arguments.
    credentials: Vec<Target>,
    converter: Converter<'a>,
    /// The argument names that the conversion has already used.
    taken: BTreeSet<String>,
    properties: Map<String, Value>,
    required: Vec<String>,
    parameters: Vec<Parameter>,
    idempotency_header: Option<String>,
}

impl Build<'_> {
    /// Adds arguments for the parameters of the path item and of the operation. A parameter of the operation replaces
    /// a parameter of the path item that has the same name and place.
    fn parameters(&mut self, found: &Found<'_>, method: &Method) -> Result<(), String> {
        let document = self.document;
        let mut all: Vec<&Map<String, Value>> = Vec::new();
        for list in [found.item.get("parameters"), found.operation.get("parameters")] {
            for parameter in list.and_then(Value::as_array).into_iter().flatten() {
                let Some(Value::Object(parameter)) = document.resolve(parameter) else {
                    return Err(format!(
                        "a parameter is not an object, or its reference points to nothing in the document: {}",
                        cut(&parameter.to_string(), 100)
                    ));
                };
                let same = |other: &&Map<String, Value>| {
                    other.get("name") == parameter.get("name") && other.get("in") == parameter.get("in")
                };
                match all.iter().position(same) {
                    Some(at) => all[at] = parameter,
                    None => all.push(parameter),
                }
            }
        }
        // If several parameters have the same name, only the first parameter keeps this name. So the order of the
        // places matters.
        for place in [Place::Path, Place::Query, Place::Header, Place::Cookie] {
            for parameter in
                all.iter().filter(|it| it.get("in").and_then(Value::as_str) == Some(place.name()))
            {
                self.parameter(parameter, place, method)?;
            }
        }
        if let Some(other) = all.iter().find(|it| {
            let place = it.get("in").and_then(Value::as_str).unwrap_or_default();
            !["path", "query", "header", "cookie"].contains(&place)
        }) {
            let place = other.get("in").and_then(Value::as_str).unwrap_or("nowhere");
            return Err(format!("a parameter in `{}` is not supported", cut(place, 40)));
        }
        let mut rest = self.path;
        while let Some((_, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            if !self.parameters.iter().any(|it| it.place == Place::Path && it.wire == name) {
                self.converter
                    .warn(format!("the path parameter `{name}` is not declared, so it is a string"));
                let declared = json!({"name": name, "schema": {"type": "string"}});
                if let Some(declared) = declared.as_object() {
                    self.parameter(declared, Place::Path, method)?;
                }
            }
            rest = after;
        }
        Ok(())
    }

    fn parameter(
        &mut self,
        parameter: &Map<String, Value>,
        place: Place,
        method: &Method,
    ) -> Result<(), String> {
        let wire = parameter.get("name").and_then(Value::as_str).unwrap_or_default();
        if wire.is_empty() {
            return Err("a parameter has no name".to_owned());
        }
        if self.credentials.iter().any(|target| target.is_parameter(place.name(), wire)) {
            return Ok(());
        }
        if place == Place::Path && !self.path.contains(&format!("{{{wire}}}")) {
            self.converter
                .warn(format!("the path parameter `{wire}` is dropped: the path does not contain it"));
            return Ok(());
        }
        if place == Place::Header {
            let name = wire.to_ascii_lowercase();
            if RESERVED_HEADERS.contains(&name.as_str()) {
                if !["accept", "authorization", "content-type"].contains(&name.as_str()) {
                    self.converter.warn(format!("the header `{wire}` is dropped: the HTTP client sets it"));
                }
                return Ok(());
            }
            if name == IDEMPOTENCY_KEY && !method.is_safe() {
                self.idempotency_header = Some(name);
                return Ok(());
            }
        }
        let content =
            parameter.get("content").and_then(Value::as_object).and_then(|content| content.iter().next());
        let (schema, style) = match (parameter.get("schema"), content) {
            (Some(schema), _) => (schema, self.style(parameter, place, wire)),
            (None, Some((media_type, content))) => {
                if !is_json(media_type) {
                    return Err(format!("the parameter `{wire}` has the media type `{media_type}`"));
                }
                (content.get("schema").unwrap_or(&Value::Bool(true)), Style::Json)
            }
            (None, None) => (&Value::Bool(true), self.style(parameter, place, wire)),
        };
        let mut converted = self.converter.convert(schema);
        if let Some(description) = parameter.get("description").and_then(Value::as_str) {
            let text = self.converter.description(description);
            describe(&mut converted, &text);
        }
        if let (Some(example), Value::Object(converted)) = (parameter.get("example"), &mut converted)
            && !converted.contains_key("examples")
        {
            converted.insert("examples".into(), json!([example]));
        }
        let argument = names::argument(wire, place.name(), &self.taken);
        self.taken.insert(argument.clone());
        if place == Place::Path || parameter.get("required") == Some(&Value::Bool(true)) {
            self.required.push(argument.clone());
        }
        self.properties.insert(argument.clone(), converted);
        let flag = |name: &str| parameter.get(name).and_then(Value::as_bool);
        self.parameters.push(Parameter {
            argument,
            wire: wire.to_owned(),
            place,
            style,
            explode: flag("explode").unwrap_or(style == Style::Form),
            allow_reserved: place == Place::Query && flag("allowReserved").unwrap_or(false),
        });
        Ok(())
    }

    /// Returns the style of a parameter, or the default style for its place.
    fn style(&mut self, parameter: &Map<String, Value>, place: Place, wire: &str) -> Style {
        let default = match place {
            Place::Path | Place::Header => Style::Simple,
            Place::Query | Place::Cookie => Style::Form,
        };
        let Some(name) = parameter.get("style").and_then(Value::as_str) else { return default };
        let style = match (name, place) {
            ("simple", Place::Path | Place::Header) => Some(Style::Simple),
            ("label", Place::Path) => Some(Style::Label),
            ("matrix", Place::Path) => Some(Style::Matrix),
            ("form", Place::Query | Place::Cookie) => Some(Style::Form),
            (_, Place::Query) => query_style(name),
            _ => None,
        };
        style.unwrap_or_else(|| {
            self.converter
                .warn(format!("the parameter `{wire}` has an unknown style, so the default is used"));
            default
        })
    }

    /// Adds arguments for the request body. Each field of the body becomes an argument, if the conversion loses no
    /// information. If the conversion would lose information, the whole body is one argument.
    fn body(&mut self, body: &Value, method: &Method) -> Result<Option<Body>, String> {
        let document = self.document;
        let body = document
            .resolve(body)
            .ok_or("the reference of the request body points to nothing in the document")?;
        let content = body.get("content").and_then(Value::as_object);
        let Some(content) = content.filter(|content| !content.is_empty()) else { return Ok(None) };
        let is_required = body.get("required") == Some(&Value::Bool(true));
        let find = |accepts: fn(&str) -> bool| content.iter().find(|(name, _)| accepts(name));
        let json = content.iter().filter(|(name, _)| is_json(name)).min_by_key(|(name, _)| json_rank(name));
        let (name, media, kind) = if let Some((name, media)) = json {
            (name, media, BodyKind::Json)
        } else if let Some((name, media)) = find(is_form) {
            (name, media, BodyKind::Form(self.form_styles(media)))
        } else if let Some((name, media)) = find(is_text) {
            (name, media, BodyKind::Text)
        } else {
            let names: Vec<String> = content.keys().map(|name| format!("`{name}`")).collect();
            return Err(format!("its body needs {}, which a tool cannot send", names.join(" or ")));
        };
        // `*/*` allows any media type, so use JSON.
        let media_type = if name.contains('*') { "application/json".to_owned() } else { name.clone() };
        let schema = media.get("schema").unwrap_or(&Value::Bool(true));
        let target = document.resolve(schema).filter(|_| self.is_only_reference(schema));
        let is_empty =
            |schema: &Value| schema.get("properties").and_then(Value::as_object).is_some_and(Map::is_empty);
        if target.is_some_and(is_empty) && matches!(kind, BodyKind::Form(_)) {
            return Ok(None);
        }
        if method.is_safe() {
            self.converter
                .warn(format!("the body is dropped: a request with the method `{method}` has none"));
            return Ok(None);
        }
        let fields = target.and_then(Value::as_object).filter(|target| self.is_flat(target, is_required));
        let source = if let (Some(target), false) = (fields, matches!(kind, BodyKind::Text)) {
            self.fields(target, is_required)
        } else {
            let mut converted = self.converter.convert(schema);
            if matches!(kind, BodyKind::Text) {
                converted = json!({"type": "string"});
            }
            if let Some(text) = body.get("description").and_then(Value::as_str) {
                let text = self.converter.description(text);
                describe(&mut converted, &text);
            }
            let argument = names::argument("body", "request", &self.taken);
            self.taken.insert(argument.clone());
            if is_required {
                self.required.push(argument.clone());
            }
            self.properties.insert(argument.clone(), converted);
            BodySource::Argument(argument)
        };
        Ok(Some(Body { media_type, kind, source }))
    }

    /// Returns the styles of a form's fields, from the `encoding` of the media type.
    fn form_styles(&mut self, media: &Value) -> Vec<(String, Style, bool)> {
        let encoding = media.get("encoding").and_then(Value::as_object).into_iter().flatten();
        let styles = encoding.filter_map(|(name, encoding)| {
            let text = |field: &str| encoding.get(field).and_then(Value::as_str);
            let explode = encoding.get("explode").and_then(Value::as_bool);
            let style = match (text("style"), explode) {
                (Some(style), _) => query_style(style).or_else(|| {
                    self.converter.warn(format!(
                        "the form field `{name}` has an unknown style, so the default is used"
                    ));
                    None
                })?,
                (None, Some(_)) => Style::Form,
                (None, None) if text("contentType").is_some_and(is_json) => Style::Json,
                (None, None) => return None,
            };
            Some((name.clone(), style, explode.unwrap_or(style == Style::Form)))
        });
        styles.collect()
    }

    /// Returns `false` if a schema, or a schema to which its references lead, has restricting keywords next to `$ref`.
    /// In OpenAPI 3.1, a schema can have other keywords next to `$ref`. In OpenAPI 3.0, keywords next to `$ref` are
    /// ignored. The recursion ends, because [`Document::resolve`] has already followed the references of this schema
    /// to their end.
    fn is_only_reference(&self, schema: &Value) -> bool {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return true };
        let mut keywords = schema.as_object().into_iter().flat_map(Map::keys);
        let is_alone =
            self.document.is_3_0 || keywords.all(|keyword| keyword == "$ref" || is_annotation(keyword));
        is_alone && self.document.pointer(reference).is_some_and(|target| self.is_only_reference(target))
    }

    /// Returns whether the fields of a body can be arguments. The body must be an object with fixed fields, and no
    /// field can have the name of a parameter.
    fn is_flat(&self, schema: &Map<String, Value>, is_required: bool) -> bool {
        let fixed = ["type", "properties", "required", "additionalProperties"];
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return false };
        let needs = schema.get("required").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
        schema.get("type").is_none_or(|kind| kind == "object")
            && schema.keys().all(|keyword| fixed.contains(&keyword.as_str()) || is_annotation(keyword))
            && schema.get("additionalProperties").is_none_or(|more| *more == Value::Bool(false))
            && (is_required || !needs)
            && !properties.is_empty()
            && properties
                .keys()
                .all(|name| !self.taken.contains(name) && names::argument(name, "body", &self.taken) == *name)
    }

    fn fields(&mut self, schema: &Map<String, Value>, is_required: bool) -> BodySource {
        let converted = self.converter.convert(&Value::Object(schema.clone()));
        let mut fields = Vec::new();
        for (name, property) in converted.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.taken.insert(name.clone());
            self.properties.insert(name.clone(), property.clone());
            fields.push(name.clone());
        }
        let required = converted.get("required").and_then(Value::as_array).into_iter().flatten();
        let required = required.filter_map(Value::as_str).filter(|name| self.properties.contains_key(*name));
        let required: Vec<String> = required.map(ToOwned::to_owned).collect();
        self.required.extend(required);
        BodySource::Fields { fields, required: is_required }
    }
}

fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-")
}

/// Adds a description to a schema. The description of a parameter replaces the description in the schema of the
/// parameter.
fn describe(schema: &mut Value, text: &str) {
    if text.is_empty() {
        return;
    }
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("description".into(), text.into());
    }
}

fn query_style(name: &str) -> Option<Style> {
    match name {
        "form" => Some(Style::Form),
        "spaceDelimited" => Some(Style::SpaceDelimited),
        "pipeDelimited" => Some(Style::PipeDelimited),
        "deepObject" => Some(Style::DeepObject),
        _ => None,
    }
}

fn media(name: &str) -> String {
    name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns whether a media type is JSON, or allows any type.
pub(crate) fn is_json(name: &str) -> bool {
    let name = media(name);
    name.ends_with("/json") || name.ends_with("+json") || name == "*/*" || name == "application/*"
}

/// Returns the rank of a JSON media type. The lowest rank is best: a plain document has the lowest rank, then a merge
/// patch, then a list of changes.
fn json_rank(name: &str) -> u8 {
    match media(name).as_str() {
        "application/json" => 0,
        "application/merge-patch+json" => 1,
        "application/json-patch+json" => 3,
        _ => 2,
    }
}

fn is_form(name: &str) -> bool {
    media(name) == "application/x-www-form-urlencoded"
}

fn is_text(name: &str) -> bool {
    let name = media(name);
    name.starts_with("text/") && name != "text/xml"
}
