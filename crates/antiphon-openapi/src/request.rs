//! Builds the HTTP request of a tool call. Each argument is written to its place in the request, in the style that the
//! document requires.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Number, Value};
use url::Url;

/// The name of the header with which an API recognizes a repeated request.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The characters that are percent-encoded: all characters except the unreserved characters of RFC 3986.
pub(crate) const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The characters that are percent-encoded in parameters with `allowReserved`. Reserved characters are not encoded,
/// unless they would end the value.
const RESERVED: &AsciiSet = &ENCODED
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b';');

/// The maximum length of a request's path, in bytes. Many servers already reject shorter paths than 32 KiB. The HTTP
/// client rejects paths of 64 KiB.
const MAX_PATH: usize = 32 << 10;

/// The maximum number of layers of percent-encoding in a path. The percent-encoding of the request itself counts as
/// the first layer.
const MAX_LAYERS: usize = 8;

/// The template for the requests of an operation, without arguments and credentials.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) method: Method,
    /// The path with variables, for example `/pets/{petId}`.
    pub(crate) path: String,
    /// The URL of the server, to which the path is added.
    pub(crate) server: Url,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Body>,
    /// The media types that the tool accepts in a response.
    pub(crate) accept: String,
}

/// A parameter of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// The name of the parameter in the arguments of the tool.
    pub(crate) argument: String,
    /// The name of the parameter in the request.
    pub(crate) wire: String,
    pub(crate) place: Place,
    pub(crate) style: Style,
    pub(crate) explode: bool,
    pub(crate) allow_reserved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }
}

/// The way in which a value is written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
    /// The style of a parameter that has the field `content`: JSON.
    Json,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) media_type: String,
    pub(crate) kind: BodyKind,
    pub(crate) source: BodySource,
}

#[derive(Clone, Debug)]
pub(crate) enum BodyKind {
    Json,
    /// A form. The document can set a style for some of the form's fields.
    Form(Vec<(String, Style, bool)>),
    Text,
}

/// The arguments that form the body of a request.
#[derive(Clone, Debug)]
pub(crate) enum BodySource {
    /// The argument with this name is the whole body.
    Argument(String),
    /// Each field of the body in the list `fields` is an argument.
    Fields { fields: Vec<String>, required: bool },
}

/// A request to which credentials are not added yet.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// The cookies of the request. A credential can add a cookie.
    pub(crate) cookies: Vec<String>,
    pub(crate) body: Option<Vec<u8>>,
}

impl Request {
    /// Returns whether the request can be sent again after a failure, even if the API has possibly executed the
    /// request.
    pub(crate) fn can_repeat(&self) -> bool {
        self.method.is_safe() || self.headers.contains_key(IDEMPOTENCY_KEY)
    }
}

impl Template {
    /// Creates the request of a tool call. If the arguments do not fit, the error is a message for the model.
    pub(crate) fn fill(&self, arguments: &Map<String, Value>) -> Result<Request, String> {
        let mut path = self.path.clone();
        let mut query = Vec::new();
        let mut headers = HeaderMap::new();
        let mut cookies = Vec::new();
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(header::ACCEPT, accept);
        }
        for parameter in &self.parameters {
            let Some(value) = arguments.get(&parameter.argument) else { continue };
            match parameter.place {
                Place::Path => {
                    let text = parameter.in_path(value)?;
                    path = path.replace(&format!("{{{}}}", parameter.wire), &text);
                }
                Place::Query => query.extend(parameter.pairs(value)?),
                Place::Header => {
                    let text = parameter.joined(value)?;
                    let name = HeaderName::from_bytes(parameter.wire.as_bytes());
                    let value = HeaderValue::from_str(&text);
                    let (Ok(name), Ok(value)) = (name, value) else {
                        return Err(format!(
                            "`{}` cannot be sent in a header: use visible ASCII characters",
                            parameter.argument
                        ));
                    };
                    headers.insert(name, value);
                }
                Place::Cookie => cookies.extend(parameter.pairs(value)?),
            }
        }
        let body = match &self.body {
            Some(body) => body.bytes(arguments)?,
            None => None,
        };
        if let (Some(_), Some(template)) = (&body, &self.body) {
            let value = HeaderValue::from_str(&template.media_type);
            headers
                .insert(header::CONTENT_TYPE, value.unwrap_or(HeaderValue::from_static("application/json")));
        }
        let url = self.url(&path, &query)?;
        Ok(Request { method: self.method.clone(), url, headers, cookies, body })
    }

    /// Adds `path` to the URL of the server. Arguments cannot lead to a path outside of the server's URL.
    fn url(&self, path: &str, query: &[String]) -> Result<Url, String> {
        if let Some(start) = path.find('{') {
            let name: String = path[start + 1..].chars().take_while(|character| *character != '}').collect();
            return Err(format!("the path parameter `{name}` is missing"));
        }
        check_path(path)?;
        let mut url = self.server.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{}", path.trim_start_matches('/')));
        let mut all: Vec<&str> = url.query().into_iter().filter(|query| !query.is_empty()).collect();
        all.extend(query.iter().map(String::as_str));
        let all = all.join("&");
        url.set_query((!all.is_empty()).then_some(&all));
        url.set_fragment(None);
        Ok(url)
    }
}

impl Parameter {
    fn encoded(&self, text: &str) -> String {
        let set = if self.allow_reserved { RESERVED } else { ENCODED };
        utf8_percent_encode(text, set).to_string()
    }

    /// Returns the text of a path parameter with the value `value`.
    fn in_path(&self, value: &Value) -> Result<String, String> {
        let name = self.encoded(&self.wire);
        let text = match (self.style, value) {
            (Style::Json, value) => self.encoded(&value.to_string()),
            (Style::Label, Value::Array(_) | Value::Object(_)) => {
                format!(".{}", self.parts(value)?.join(if self.explode { "." } else { "," }))
            }
            (Style::Label, value) => format!(".{}", self.encoded(&plain(value))),
            (Style::Matrix, Value::Array(items)) if self.explode => {
                let items = items.iter().map(|item| format!("{name}={}", self.encoded(&plain(item))));
                format!(";{}", items.collect::<Vec<_>>().join(";"))
            }
            (Style::Matrix, Value::Object(_)) if self.explode => format!(";{}", self.parts(value)?.join(";")),
            (Style::Matrix, Value::Array(_) | Value::Object(_)) => {
                format!(";{name}={}", self.parts(value)?.join(","))
            }
            (Style::Matrix, value) => format!(";{name}={}", self.encoded(&plain(value))),
            (_, Value::Array(_) | Value::Object(_)) => self.parts(value)?.join(","),
            (_, value) => self.encoded(&plain(value)),
        };
        if text.is_empty() {
            return Err(format!("the path parameter `{}` must not be empty", self.argument));
        }
        Ok(text)
    }

    /// Returns the items of a list, or the members of an object as `name,value` or `name=value`. All returned parts
    /// are percent-encoded.
    fn parts(&self, value: &Value) -> Result<Vec<String>, String> {
        match value {
            Value::Array(items) => items.iter().map(|item| Ok(self.encoded(&self.scalar(item)?))).collect(),
            Value::Object(members) => {
                let mut parts = Vec::new();
                for (name, member) in members {
                    let (name, member) = (self.encoded(name), self.encoded(&self.scalar(member)?));
                    if self.explode {
                        parts.push(format!("{name}={member}"));
                    } else {
                        parts.extend([name, member]);
                    }
                }
                Ok(parts)
            }
            other => Ok(vec![self.encoded(&plain(other))]),
        }
    }

    fn scalar(&self, value: &Value) -> Result<String, String> {
        if value.is_array() || value.is_object() {
            return Err(format!(
                "`{}` cannot be sent: OpenAPI does not define how to write a list or an object inside this parameter; use only strings, numbers and booleans there",
                self.argument
            ));
        }
        Ok(plain(value))
    }

    /// Returns the text of a header parameter. The text of a header is not percent-encoded.
    fn joined(&self, value: &Value) -> Result<String, String> {
        match value {
            _ if self.style == Style::Json => Ok(value.to_string()),
            Value::Array(items) => {
                let items: Result<Vec<String>, String> = items.iter().map(|item| self.scalar(item)).collect();
                Ok(items?.join(","))
            }
            Value::Object(members) => {
                let separator = if self.explode { "=" } else { "," };
                let members: Result<Vec<String>, String> = members
                    .iter()
                    .map(|(name, member)| Ok(format!("{name}{separator}{}", self.scalar(member)?)))
                    .collect();
                Ok(members?.join(","))
            }
            other => Ok(plain(other)),
        }
    }

    /// Returns the percent-encoded `name=value` pairs of a parameter for the query, a form or the cookies.
    fn pairs(&self, value: &Value) -> Result<Vec<String>, String> {
        let name = utf8_percent_encode(&self.wire, ENCODED).to_string();
        Ok(match (self.style, value) {
            (Style::Json, value) => vec![format!("{name}={}", self.encoded(&value.to_string()))],
            (Style::DeepObject, Value::Array(_) | Value::Object(_)) => {
                let mut pairs = Vec::new();
                self.deep(&name, value, &mut pairs);
                pairs
            }
            (Style::SpaceDelimited, Value::Array(_) | Value::Object(_)) if !self.explode => {
                vec![format!("{name}={}", self.parts(value)?.join("%20"))]
            }
            (Style::PipeDelimited, Value::Array(_) | Value::Object(_)) if !self.explode => {
                vec![format!("{name}={}", self.parts(value)?.join("%7C"))]
            }
            (_, Value::Array(items)) if self.explode => {
                let pairs: Result<Vec<String>, String> = items
                    .iter()
                    .map(|item| Ok(format!("{name}={}", self.encoded(&self.scalar(item)?))))
                    .collect();
                pairs?
            }
            (_, Value::Object(_)) if self.explode => self.parts(value)?,
            (_, Value::Array(_) | Value::Object(_)) => {
                vec![format!("{name}={}", self.parts(value)?.join(","))]
            }
            (_, value) => vec![format!("{name}={}", self.encoded(&plain(value)))],
        })
    }

    /// Adds `name[member]=value` pairs to `pairs`. Nested lists are written with indexes, because no specification
    /// defines a form for nested lists.
    fn deep(&self, name: &str, value: &Value, pairs: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (member, value) in members {
                    self.deep(&format!("{name}[{}]", self.encoded(member)), value, pairs);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.deep(&format!("{name}[{index}]"), item, pairs);
                }
            }
            value => pairs.push(format!("{name}={}", self.encoded(&plain(value)))),
        }
    }
}

impl Body {
    /// Returns the bytes of the request body, or `None` if the arguments contain no body.
    fn bytes(&self, arguments: &Map<String, Value>) -> Result<Option<Vec<u8>>, String> {
        let value = match &self.source {
            BodySource::Argument(name) => match arguments.get(name) {
                Some(value) => value.clone(),
                None => return Ok(None),
            },
            BodySource::Fields { fields, required } => {
                let present =
                    fields.iter().filter_map(|name| Some((name.clone(), arguments.get(name)?.clone())));
                let present: Map<String, Value> = present.collect();
                if present.is_empty() && !required {
                    return Ok(None);
                }
                Value::Object(present)
            }
        };
        Ok(Some(match &self.kind {
            BodyKind::Json => value.to_string().into_bytes(),
            BodyKind::Text => plain(&value).into_bytes(),
            BodyKind::Form(styles) => form(&value, styles)?.into_bytes(),
        }))
    }
}

/// Rejects a path with a segment `.` or `..`, even if such a segment appears only after escapes are decoded. Proxies
/// decode `%2F`, and some proxies decode it more than once. Some servers ignore the part of a segment after `;`.
///
/// The length and the layers of a path have limits, because each layer of percent-encoding takes time in proportion to
/// the length.
fn check_path(path: &str) -> Result<(), String> {
    if path.len() > MAX_PATH {
        return Err(format!("the path parameters are too long: a path can have {MAX_PATH} bytes"));
    }
    let mut path = path.to_owned();
    for _ in 0..=MAX_LAYERS {
        let is_dots = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
        if path.split(['/', '\\']).any(is_dots) {
            return Err("a path parameter must not contain a segment `.` or `..`".to_owned());
        }
        let decoded = percent_decode_str(&path).decode_utf8_lossy().into_owned();
        if decoded == path {
            return Ok(());
        }
        path = decoded;
    }
    Err(format!("a path parameter must not have more than {} layers of percent-encoding", MAX_LAYERS - 1))
}

/// Returns the body of a form. If a field has no style, a list repeats the name of the field, and an object is written
/// as JSON.
fn form(value: &Value, styles: &[(String, Style, bool)]) -> Result<String, String> {
    let Value::Object(fields) = value else { return Err("the body of a form must be an object".to_owned()) };
    let mut pairs = Vec::new();
    for (name, value) in fields {
        let declared = styles.iter().find(|(field, _, _)| field == name);
        let (style, explode) = match (declared, value) {
            (Some((_, style, explode)), _) => (*style, *explode),
            (None, Value::Object(_)) => (Style::Json, false),
            (None, Value::Array(items)) if items.iter().any(|item| item.is_array() || item.is_object()) => {
                (Style::Json, false)
            }
            (None, _) => (Style::Form, true),
        };
        let field = Parameter {
            argument: name.clone(),
            wire: name.clone(),
            place: Place::Query,
            style,
            explode,
            allow_reserved: false,
        };
        pairs.extend(field.pairs(value)?);
    }
    Ok(pairs.join("&"))
}

/// Replaces numbers such as `3.0` by integers. JSON Schema accepts `3.0` as an integer, but many APIs reject `3.0`.
pub(crate) fn write_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(integer) = integer(number) {
                *number = integer;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_integers),
        Value::Object(members) => members.values_mut().for_each(write_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Returns a floating-point number as an integer, if the number has no fraction and fewer than 16 digits.
fn integer(number: &Number) -> Option<Number> {
    let value =
        number.as_f64().filter(|value| number.is_f64() && value.fract() == 0.0 && value.abs() < 9e15)?;
    format!("{value:.0}").parse::<i64>().ok().map(Into::into)
}

/// Returns a value as text: a string without quotes, any other value as JSON, and null as an empty text.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parameter(place: Place, style: Style, explode: bool) -> Parameter {
        let (argument, wire) = ("color".to_owned(), "color".to_owned());
        Parameter { argument, wire, place, style, explode, allow_reserved: false }
    }

    fn template(path: &str, parameters: Vec<Parameter>) -> Template {
        Template {
            method: Method::GET,
            path: path.to_owned(),
            server: Url::parse("https://api.example.com/v1/").unwrap(),
            parameters,
            body: None,
            accept: "application/json".to_owned(),
        }
    }

    fn arguments(value: &Value) -> Map<String, Value> {
        json!({"color": value}).as_object().unwrap().clone()
    }

    /// Tests the examples in the specification's table of styles.
    #[test]
    fn styles_are_those_of_the_specification() {
        let list = json!(["blue", "black", "brown"]);
        let object = json!({"R": 100, "G": 200, "B": 150});
        for (style, explode, of_text, of_list, of_object) in [
            (Style::Simple, false, "blue", "blue,black,brown", "R,100,G,200,B,150"),
            (Style::Simple, true, "blue", "blue,black,brown", "R=100,G=200,B=150"),
            (Style::Label, false, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
            (Style::Label, true, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
            (Style::Matrix, false, ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
            (Style::Matrix, true, ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
        ] {
            let parameter = parameter(Place::Path, style, explode);
            assert_eq!(parameter.in_path(&json!("blue")).unwrap(), of_text);
            assert_eq!(parameter.in_path(&list).unwrap(), of_list);
            assert_eq!(parameter.in_path(&object).unwrap(), of_object);
        }
        for (style, explode, of_list, of_object) in [
            (Style::Form, false, "color=blue,black,brown", "color=R,100,G,200,B,150"),
            (Style::Form, true, "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
            (Style::SpaceDelimited, false, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"),
            (Style::PipeDelimited, false, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
            (
                Style::DeepObject,
                true,
                "color[0]=blue&color[1]=black&color[2]=brown",
                "color[R]=100&color[G]=200&color[B]=150",
            ),
        ] {
            let parameter = parameter(Place::Query, style, explode);
            assert_eq!(parameter.pairs(&list).unwrap().join("&"), of_list);
            assert_eq!(parameter.pairs(&object).unwrap().join("&"), of_object);
        }
        let header = parameter(Place::Header, Style::Simple, false);
        assert_eq!(header.joined(&list).unwrap(), "blue,black,brown");
        assert_eq!(header.joined(&object).unwrap(), "R,100,G,200,B,150");
    }

    #[test]
    fn arguments_cannot_leave_the_server_and_its_path() {
        let template = template("/colors/{color}", vec![parameter(Place::Path, Style::Simple, false)]);
        for (value, path) in [
            ("a/b..c/...", "/v1/colors/a%2Fb..c%2F..."),
            ("a?b#c", "/v1/colors/a%3Fb%23c"),
            ("\\\\evil.example", "/v1/colors/%5C%5Cevil.example"),
            ("@evil.example", "/v1/colors/%40evil.example"),
            ("100%", "/v1/colors/100%25"),
            ("{color}", "/v1/colors/%7Bcolor%7D"),
        ] {
            let request = template.fill(&arguments(&json!(value))).unwrap();
            assert_eq!(request.url.path(), path);
            assert_eq!(request.url.host_str(), Some("api.example.com"));
        }
        for value in [
            json!(""),
            json!([]),
            json!("."),
            json!(".."),
            json!("%2e%2e"),
            json!("../../admin"),
            json!("a/../../b"),
            json!("a/.."),
            json!("..\\admin"),
            json!("..;/admin"),
            json!("..%2fadmin"),
            json!("..%252fadmin"),
            json!(["../admin", "b"]),
        ] {
            assert!(template.fill(&arguments(&value)).is_err(), "{value}");
        }
        assert!(template.fill(&Map::new()).unwrap_err().contains("`color` is missing"));
    }

    #[test]
    fn long_and_repeatedly_encoded_paths_are_rejected_at_once() {
        let template = template("/colors/{color}", vec![parameter(Place::Path, Style::Simple, false)]);
        let start = std::time::Instant::now();
        let layers = |layers: usize| json!(format!("%{}", "25".repeat(layers)));
        let error = template.fill(&arguments(&layers(100_000))).unwrap_err();
        assert!(error.contains("too long"), "{error}");
        let error = template.fill(&arguments(&layers(10_000))).unwrap_err();
        assert!(error.contains("more than 7 layers"), "{error}");
        assert!(start.elapsed() < std::time::Duration::from_secs(1), "{:?}", start.elapsed());
        // `%25` has one layer: it is `%`, encoded once.
        assert!(template.fill(&arguments(&layers(8))).is_err());
        let request = template.fill(&arguments(&layers(7))).unwrap();
        assert_eq!(request.url.path(), "/v1/colors/%2525252525252525");
    }

    #[test]
    fn integers_are_written_without_a_fraction() {
        let mut value = json!({"a": [3.0, -2.0, 2.5, 7, "3.0"], "b": 1e300, "c": u64::MAX, "d": 1e20});
        write_integers(&mut value);
        assert_eq!(value, json!({"a": [3, -2, 2.5, 7, "3.0"], "b": 1e300, "c": u64::MAX, "d": 1e20}));
    }

    #[test]
    fn header_values_cannot_contain_line_breaks() {
        let template = template("/", vec![parameter(Place::Header, Style::Simple, false)]);
        assert!(template.fill(&arguments(&json!("a\r\nx-admin: 1"))).is_err());
        let request = template.fill(&arguments(&json!("blue"))).unwrap();
        assert_eq!(request.headers["color"], "blue");
    }

    #[test]
    fn forms_have_the_style_of_each_field() {
        let styles = [("metadata".to_owned(), Style::DeepObject, true)];
        let body =
            json!({"metadata": {"a b": 1}, "tags": ["x", "y"], "card": {"number": 4}, "note": "a&b=c"});
        let written = form(&body, &styles).unwrap();
        assert_eq!(written, "metadata[a%20b]=1&tags=x&tags=y&card=%7B%22number%22%3A4%7D&note=a%26b%3Dc");
    }
}
