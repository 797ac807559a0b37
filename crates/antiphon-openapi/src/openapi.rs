use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use antiphon::{Tool, bind, model::ToolAnnotations};
use http::Method;
use serde_json::Value;
use url::Url;

#[cfg(feature = "results")]
use crate::pages::{PageLimits, Paging};
use crate::{
    auth::{Applied, Credential, Credentials},
    call::{Call, Target},
    document::{Document, Found},
    error::{Error, Result},
    http::{Http, HttpLimits},
    names::{self, MAX_NAME},
    operation::{Operation, Sizes},
    report::{Converted, OpenApiTools, Refused, Report, Warning},
};

/// An OpenAPI document, and the settings for the conversion of its operations into tools.
///
/// ```
/// use antiphon::prelude::*;
/// use antiphon_openapi::{Credential, OpenApi};
///
/// # fn main() -> anyhow::Result<()> {
/// # let document = r##"{"openapi": "3.1.0", "paths": {"/pets": {"get": {"operationId": "listPets", "tags": ["pets"]}}}}"##;
/// let pets = OpenApi::parse(document)?
///     .with_base_url("https://pets.example.com/v1")
///     .with_tags(["pets"])
///     .with_bearer(Credential::token("secret"))
///     .tools()?;
/// assert_eq!(pets.tools[0].name(), "list_pets");
/// println!("{}", pets.report);
/// let server = Server::builder("pets", "1.0.0").tools(pets.tools).build()?;
/// # let _ = server;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a document has no effect until you call `tools`"]
pub struct OpenApi {
    document: Document,
    base_url: Option<String>,
    tags: Vec<String>,
    paths: Vec<String>,
    methods: Vec<Method>,
    operations: Vec<String>,
    renamed: BTreeMap<String, String>,
    credentials: Credentials,
    limits: HttpLimits,
    sizes: Sizes,
    #[cfg(feature = "results")]
    result_sets: Option<PageLimits>,
}

impl OpenApi {
    /// Reads a document in JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, or if the version of the document is not OpenAPI 3.0 or 3.1. Problems
    /// with single operations are not errors. The [`Report`] lists the problems with single operations.
    pub fn parse(json: &str) -> Result<Self> {
        Self::from_value(serde_json::from_str(json)?)
    }

    /// Reads a document in YAML. Read only trusted documents: the parser copies aliases, so a malicious document can
    /// use a lot of memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not YAML, or if the version of the document is not OpenAPI 3.0 or 3.1.
    #[cfg(feature = "yaml")]
    pub fn parse_yaml(yaml: &str) -> Result<Self> {
        Self::from_value(crate::yaml::parse(yaml)?)
    }

    /// Reads a document from a JSON value.
    ///
    /// # Errors
    ///
    /// Returns an error if the version of the document is not OpenAPI 3.0 or 3.1.
    pub fn from_value(document: Value) -> Result<Self> {
        Ok(Self {
            document: Document::new(document)?,
            base_url: None,
            tags: Vec::new(),
            paths: Vec::new(),
            methods: Vec::new(),
            operations: Vec::new(),
            renamed: BTreeMap::new(),
            credentials: Credentials::default(),
            limits: HttpLimits::default(),
            sizes: Sizes { description: 1_024, argument_description: 300, schema: 128 << 10 },
            #[cfg(feature = "results")]
            result_sets: None,
        })
    }

    /// Sets the base URL of the API for all operations. Default: the first server in the document.
    ///
    /// A server in the document must use `https`, and must have a public IP address. A base URL that you set can also
    /// be `http`, and can name a host of your network.
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Selects the operations that have one of the tags in `tags`. A second call replaces the tags of the first call.
    /// Default: all operations.
    pub fn with_tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Selects the operations whose path matches one of the patterns in `patterns`. In a pattern such as `/pets/**`,
    /// `*` matches a segment or a part of a segment, and `**` matches any number of segments. A second call replaces
    /// the patterns of the first call. Default: all operations.
    pub fn with_paths(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.paths = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// Selects the operations that have one of the HTTP methods in `methods`. A second call replaces the methods of
    /// the first call. Default: all operations.
    pub fn with_methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = methods.into_iter().collect();
        self
    }

    /// Selects operations by their `operationId`, or by method and path, such as `GET /pets`. A second call replaces
    /// the operations of the first call. Default: all operations.
    pub fn with_operations(mut self, operations: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.operations = operations.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the name of the tool for an operation. The argument `operation` is the `operationId`, or the method and
    /// the path. Default: the `operationId` in `snake_case`, or the method and the path.
    pub fn rename(mut self, operation: impl Into<String>, tool: impl Into<String>) -> Self {
        self.renamed.insert(operation.into(), tool.into());
        self
    }

    /// Sets the credential for a security scheme in the document. Each call of `with_credential` adds a credential.
    /// Default: none.
    ///
    /// An operation can have its own server. If the operation's own server and the first server in the document have
    /// different origins, the tool sends no credential, and the report contains a warning. To send a credential to an
    /// operation's own server, convert the operation separately, and set its URL with
    /// [`with_base_url`](Self::with_base_url).
    pub fn with_credential(mut self, scheme: impl Into<String>, credential: Credential) -> Self {
        self.credentials.named.insert(scheme.into(), credential);
        self
    }

    /// Sets a bearer token for operations without `security`. Tools use the token only if the document also lacks a
    /// top-level `security`. As with [`with_credential`](Self::with_credential), servers with another origin than the
    /// first server in the document do not receive the token. Default: none.
    pub fn with_bearer(mut self, credential: Credential) -> Self {
        self.credentials.bearer = Some(credential);
        self
    }

    /// Sets the limits of requests and responses. Default: [`HttpLimits::default`].
    pub fn with_limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the maximum length of a tool's description, in characters. Longer tool descriptions are shortened, and the
    /// report contains a warning. Default: 1,024.
    pub fn with_max_description(mut self, characters: usize) -> Self {
        self.sizes.description = characters.max(1);
        self
    }

    /// Sets the maximum length of a description in an input schema, in characters. Longer argument descriptions are
    /// shortened, and the report contains a warning. Default: 300.
    pub fn with_max_argument_description(mut self, characters: usize) -> Self {
        self.sizes.argument_description = characters.max(1);
        self
    }

    /// Sets the maximum size of an input schema, in bytes. If a schema is larger than this size, its nested
    /// descriptions are removed. If the schema is too large even without nested descriptions, the operation does not
    /// become a tool. Default: 128 KiB.
    pub fn with_max_schema_bytes(mut self, bytes: usize) -> Self {
        self.sizes.schema = bytes;
        self
    }

    /// Makes a tool return a result set if its operation returns pages of rows. The server needs
    /// [`ServerBuilder::with_results`](antiphon::ServerBuilder::with_results). Default: each call returns one page as
    /// JSON.
    #[cfg(feature = "results")]
    pub fn with_result_sets(mut self, limits: PageLimits) -> Self {
        self.result_sets = Some(limits);
        self
    }

    /// Creates the tools of the selected operations.
    ///
    /// The [`Report`] lists operations that cannot become tools. An operation that cannot become a tool does not
    /// affect the other operations.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is not valid, for example if a selected or renamed operation does not exist. Also
    /// returns an error if the document contains no absolute server URL and you have not set a base URL.
    pub fn tools(&self) -> Result<OpenApiTools> {
        let all = self.document.operations();
        let mut names = names::tools(&all);
        self.apply_names(&all, &mut names)?;
        self.check_operations(&all)?;
        let base = self.base_url.as_deref().map(configured).transpose()?;
        let http = Http::new(self.limits.clone(), base.is_none())?;
        let mut tools = Vec::new();
        let mut report = Report::default();
        for (found, name) in all.iter().zip(names) {
            if !self.is_selected(found) {
                report.omitted += 1;
                continue;
            }
            let server = match &base {
                Some(base) => Ok(base.clone()),
                None => self.server(found)?,
            };
            let converted = server.and_then(|server| self.tool(found, &name, server, &http, &mut report));
            match converted {
                Ok(tool) => tools.push(tool),
                Err(reason) => report.refused.push(Refused { operation: found.title(), reason }),
            }
        }
        // The operations of an unreadable path are unknown, so only the selection by path applies to this path.
        for (path, reason) in self.document.unreadable_paths() {
            if self.operations.is_empty() && self.is_path_selected(path) {
                report.refused.push(Refused { operation: path.to_owned(), reason });
            }
        }
        Ok(OpenApiTools { tools, report })
    }

    /// Converts one operation, or returns the reason why the operation cannot become a tool.
    fn tool(
        &self,
        found: &Found<'_>,
        name: &str,
        server: Url,
        http: &Http,
        report: &mut Report,
    ) -> Result<Tool, String> {
        let (credentials, warning) = self.credentials(found, &server);
        let operation = Operation::new(&self.document, found, server, self.sizes)?;
        jsonschema::options()
            .build(&operation.input_schema)
            .map_err(|error| format!("its input schema is not valid: {error}"))?;
        let Operation { title, description, input_schema, template, idempotency_header, mut warnings } =
            operation;
        warnings.extend(warning);
        if self.base_url.is_some()
            && (found.operation.contains_key("servers") || found.item.contains_key("servers"))
        {
            warnings.insert("its own server is not used: the base URL is set".to_owned());
        }
        let annotations = annotations(&template.method);
        #[cfg(feature = "results")]
        let paging = self
            .result_sets
            .clone()
            .and_then(|limits| Some((Paging::detect(&self.document, found, &template)?, limits)));
        #[cfg(feature = "results")]
        let has_result_set = paging.is_some();
        #[cfg(not(feature = "results"))]
        let has_result_set = false;
        let call = Call(Arc::new(Target {
            http: http.clone(),
            template,
            credentials,
            title: found.title(),
            idempotency_header,
            #[cfg(feature = "results")]
            paging,
        }));
        let mut tool =
            Tool::raw(name, description, input_schema, bind(call, Call::run)).with_annotations(annotations);
        if let Some(title) = title {
            tool = tool.with_title(title);
        }
        let operation = found.title();
        let named = |text| Warning { operation: operation.clone(), text };
        report.warnings.extend(warnings.into_iter().map(named));
        report.converted.push(Converted { tool: name.to_owned(), operation, has_result_set });
        Ok(tool)
    }

    /// Selects the credentials of an operation, and returns a warning if credentials are missing. The function selects
    /// no credentials if the operation has its own server with a different origin than the document's first server.
    fn credentials(&self, found: &Found<'_>, server: &Url) -> (Applied, Option<String>) {
        let (credentials, warning) = self.credentials.of(&self.document, found);
        let is_trusted = || {
            let first = first_server(self.document.field("servers")).and_then(|it| declared(it).ok());
            self.base_url.is_some() || first.is_some_and(|first| first.origin() == server.origin())
        };
        if credentials.is_empty() || is_trusted() {
            return (credentials, warning);
        }
        let warning = format!(
            "the tool sends no credential to `{}`, the server of this operation: the first server of the document has another origin; convert the operation separately, with `OpenApi::with_base_url`",
            server.origin().ascii_serialization()
        );
        (Applied::default(), Some(warning))
    }

    fn is_selected(&self, found: &Found<'_>) -> bool {
        let any =
            |list: &[String], matches: &dyn Fn(&String) -> bool| list.is_empty() || list.iter().any(matches);
        any(&self.tags, &|tag| found.tags().any(|it| it == tag))
            && self.is_path_selected(found.path)
            && any(&self.operations, &|operation| is_called(found, operation))
            && (self.methods.is_empty()
                || self.methods.iter().any(|method| method.as_str().eq_ignore_ascii_case(found.method)))
    }

    fn is_path_selected(&self, path: &str) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|pattern| path_matches(pattern, path))
    }

    /// Sets the tool names that the developer chose with [`rename`](Self::rename).
    fn apply_names(&self, all: &[Found<'_>], names: &mut [String]) -> Result<()> {
        for (operation, name) in &self.renamed {
            let at =
                all.iter().position(|found| is_called(found, operation)).ok_or_else(|| missing(operation))?;
            let is_valid = (1..=MAX_NAME).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
            if !is_valid {
                return Err(Error::Setting(format!(
                    "the tool name `{name}` is not valid: use 1 to {MAX_NAME} letters, digits, `_` or `-`"
                )));
            }
            names[at].clone_from(name);
        }
        let mut seen = BTreeSet::new();
        match names.iter().find(|name| !seen.insert(name.as_str())) {
            Some(name) => Err(Error::Setting(format!(
                "two operations have the tool name `{name}`: use another name in `OpenApi::rename`"
            ))),
            None => Ok(()),
        }
    }

    /// Returns an error if a selected operation, tag or pattern does not occur in the document.
    fn check_operations(&self, all: &[Found<'_>]) -> Result<()> {
        if let Some(operation) =
            self.operations.iter().find(|it| !all.iter().any(|found| is_called(found, it)))
        {
            return Err(missing(operation));
        }
        let is_used = |tag: &&String| all.iter().any(|found| found.tags().any(|it| it == tag.as_str()));
        if let Some(tag) = self.tags.iter().find(|tag| !is_used(tag)) {
            return Err(Error::Setting(format!("no operation of the document has the tag `{tag}`")));
        }
        let unreadable = self.document.unreadable_paths();
        let is_path = |pattern: &&String| {
            let mut paths =
                all.iter().map(|found| found.path).chain(unreadable.iter().map(|(path, _)| *path));
            paths.any(|path| path_matches(pattern, path))
        };
        if let Some(pattern) = self.paths.iter().find(|pattern| !is_path(pattern)) {
            return Err(Error::Setting(format!("no path of the document matches `{pattern}`")));
        }
        if let Some(scheme) = self
            .credentials
            .named
            .keys()
            .find(|scheme| self.document.component("securitySchemes", scheme).is_none())
        {
            return Err(Error::Setting(format!(
                "the document has no security scheme `{scheme}`; use `OpenApi::with_bearer` for a token without a scheme"
            )));
        }
        Ok(())
    }

    /// Returns the URL of an operation's server, from the document. The outer `Result` contains an error that affects
    /// all operations. The inner `Result` contains an error that affects only this operation.
    fn server(&self, found: &Found<'_>) -> Result<Result<Url, String>> {
        let own =
            first_server(found.operation.get("servers")).or_else(|| first_server(found.item.get("servers")));
        if let Some(server) = own {
            return Ok(declared(server));
        }
        let server = first_server(self.document.field("servers"));
        let server = server.ok_or("the document names no server".to_owned()).and_then(declared);
        match server {
            Ok(server) => Ok(Ok(server)),
            Err(reason) => {
                Err(Error::Setting(format!("{reason}; set the URL of the API with `OpenApi::with_base_url`")))
            }
        }
    }
}

fn first_server(servers: Option<&Value>) -> Option<&Value> {
    servers?.as_array()?.first()
}

fn missing(operation: &str) -> Error {
    Error::Setting(format!(
        "the document has no operation `{operation}`: use an `operationId`, or method and path as in `GET /pets`"
    ))
}

/// Returns whether the text `operation` is the `operationId` of an operation, or its method and path.
fn is_called(found: &Found<'_>, operation: &str) -> bool {
    found.text("operationId") == Some(operation) || found.title() == operation
}

/// Parses the base URL that a developer has set.
fn configured(text: &str) -> Result<Url> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
    url.ok_or_else(|| {
        Error::Setting(
            "the base URL is not valid: use an `http` or `https` URL without a user name".to_owned(),
        )
    })
}

/// Parses the URL of a server in the document, with the default values of the server's variables.
fn declared(server: &Value) -> Result<Url, String> {
    let mut text = server.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
        let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
        text = text.replace(&format!("{{{name}}}"), default);
    }
    let url = Url::parse(&text)
        .map_err(|_| format!("the server `{text}` of the document is not an absolute URL"))?;
    if url.scheme() != "https" || !url.username().is_empty() || url.password().is_some() {
        return Err(format!("the server `{text}` of the document is not an https URL without a user name"));
    }
    Ok(url)
}

/// Returns the tool annotations for an HTTP method. For POST, PUT and PATCH, MCP's default applies: the tool is
/// destructive.
fn annotations(method: &Method) -> ToolAnnotations {
    let annotations = ToolAnnotations::new().read_only(method.is_safe()).open_world(true);
    match *method {
        Method::DELETE => annotations.destructive(true).idempotent(true),
        Method::PUT => annotations.idempotent(true),
        _ => annotations,
    }
}

/// Returns whether a path matches a pattern with `*` and `**`.
fn path_matches(pattern: &str, path: &str) -> bool {
    fn segments(pattern: &[&str], path: &[&str]) -> bool {
        match pattern {
            [] => path.is_empty(),
            ["**"] => true,
            ["**", rest @ ..] => (0..=path.len()).any(|skipped| segments(rest, &path[skipped..])),
            [first, rest @ ..] => path
                .split_first()
                .is_some_and(|(segment, others)| part(first, segment) && segments(rest, others)),
        }
    }
    fn part(pattern: &str, text: &str) -> bool {
        match pattern.split_once('*') {
            None => pattern == text,
            Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
                let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
                ends.any(|at| part(after, &rest[at..]))
            }),
        }
    }
    let pattern: Vec<&str> = pattern.trim_matches('/').split('/').collect();
    let path: Vec<&str> = path.trim_matches('/').split('/').collect();
    segments(&pattern, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_segments() {
        for (pattern, path, matches) in [
            ("/pets", "/pets", true),
            ("/pets", "/pets/{id}", false),
            ("/pets/*", "/pets/{id}", true),
            ("/pets/*", "/pets/{id}/toys", false),
            ("/pets/**", "/pets", true),
            ("/pets/**", "/pets/{id}/toys", true),
            ("/**/toys", "/pets/{id}/toys", true),
            ("/v*/pets", "/v2/pets", true),
            ("/v*/pets", "/x2/pets", false),
        ] {
            assert_eq!(path_matches(pattern, path), matches, "{pattern} {path}");
        }
    }

    #[test]
    fn credentials_are_not_sent_to_another_origin_of_the_document() {
        let document = serde_json::json!({
            "openapi": "3.1.0",
            "servers": [{"url": "https://api.example.com/v1"}],
            "paths": {
                "/a": {"get": {}},
                "/b": {"get": {"servers": [{"url": "https://api.example.com/v2"}]}},
                "/c": {"get": {"servers": [{"url": "https://evil.example"}]}},
                "/d": {"servers": [{"url": "https://api.example.com:8443"}], "get": {}},
            },
        });
        let openapi = OpenApi::from_value(document).unwrap().with_bearer(Credential::token("secret"));
        let has_credential = |openapi: &OpenApi, base: Option<&str>| -> Vec<bool> {
            let operations = openapi.document.operations();
            let credentials = operations.iter().map(|found| {
                let server = match base {
                    Some(base) => configured(base).unwrap(),
                    None => openapi.server(found).unwrap().unwrap(),
                };
                !openapi.credentials(found, &server).0.is_empty()
            });
            credentials.collect()
        };
        assert_eq!(has_credential(&openapi, None), [true, true, false, false]);
        let warnings = openapi.tools().unwrap().report.warnings;
        let warned: Vec<&str> = warnings.iter().map(|it| it.operation.as_str()).collect();
        assert_eq!(warned, ["GET /c", "GET /d"]);
        assert!(warnings[0].text.contains("`https://evil.example`"), "{warnings:?}");
        let base = "https://proxy.example";
        assert_eq!(has_credential(&openapi.with_base_url(base), Some(base)), [true; 4]);
    }

    #[test]
    fn servers_of_the_document_must_be_https() {
        let server = serde_json::json!({"url": "https://{region}.example.com/{v}", "variables": {"region": {"default": "eu"}, "v": {"default": "v2"}}});
        assert_eq!(declared(&server).unwrap().as_str(), "https://eu.example.com/v2");
        for url in ["/v1", "http://example.com", "https://ada:hush@example.com", "file:///etc/passwd", ""] {
            assert!(declared(&serde_json::json!({"url": url})).is_err(), "{url}");
        }
    }
}
