//! Resources: content that a client reads by URI. The function of a resource can ask questions, as a tool can.

use std::{collections::BTreeMap, fmt, future::Future, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{MetaObject, Resource as Definition, ResourceTemplate as TemplateDefinition};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    base::serialized_bytes,
    error::Result,
    function::{Erased, Function, erase},
    model::{Annotations, Icon, ResourceContents},
    output::Returned,
    prompt::{Completer, Completion},
    visibility::{RequestInfo, VisibleIf},
};

/// A resource with a fixed URI, which clients can read.
///
/// ```
/// use antiphon::{Resource, prelude::*};
///
/// async fn motto(_: &Ctx, _: ()) -> Result<String> {
///     Ok("call and response".into())
/// }
///
/// let resource = Resource::new("antiphon://motto", "motto", motto).with_mime_type("text/plain");
/// # let _ = resource;
/// ```
pub struct Resource {
    pub(crate) definition: Definition,
    pub(crate) read: Erased<Contents>,
    pub(crate) listed: bool,
    /// The URI without a digest, if the server also serves the resource at URIs with other digests. See `in_family`.
    family: Option<&'static str>,
    /// Whether only clients that show MCP Apps can read the resource.
    pub(crate) for_apps: bool,
    /// The conditions under which a request can see the resource.
    pub(crate) visible_if: VisibleIf,
}

impl Resource {
    /// Creates a resource at `uri`. `function` returns the contents of the resource.
    pub fn new<M, R, F>(uri: impl Into<String>, name: impl Into<String>, function: F) -> Self
    where
        R: IntoContents + 'static,
        F: for<'a> Function<'a, (), M, Out = R> + 'static,
    {
        let read = erase(function, |contents: R| Ok(contents.into_contents()));
        Self {
            definition: Definition::new(uri, name),
            read,
            listed: true,
            family: None,
            for_apps: false,
            visible_if: VisibleIf::default(),
        }
    }

    /// Shows the resource only to requests for which `condition` returns `true`. Default: every request sees the
    /// resource.
    ///
    /// For all other requests, the server behaves as if the resource did not exist, also in `resources/read`. If
    /// another request subscribes to the resource, the server accepts the subscription but sends no updates, as for an
    /// unknown URI. In a session, the server evaluates the condition when the client subscribes. See
    /// [`Tool::visible_if`](crate::Tool::visible_if).
    #[must_use]
    pub fn visible_if(
        mut self,
        condition: impl Fn(&RequestInfo<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.visible_if.add(condition);
        self
    }

    /// Sets the name that users see. Default: none.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Sets the description of the resource. Default: none.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// Sets the media type of the contents, for example `text/plain`. Default: none.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.definition.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the size of the contents in bytes, which clients can show. Default: none.
    #[must_use]
    pub fn with_size(mut self, size: u64) -> Self {
        self.definition.size = Some(size);
        self
    }

    /// Sets the icons that clients can show for the resource. Default: none.
    #[must_use]
    pub fn with_icons(mut self, icons: impl IntoIterator<Item = Icon>) -> Self {
        self.definition.icons = Some(icons.into_iter().collect());
        self
    }

    /// Sets the annotations of the resource, for example the audience of the resource. Default: none.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Adds an entry to the resource's `_meta`. Clients receive the entry when they list the resource. If the function
    /// returns text or bytes, clients also receive the entry when they read the resource.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.definition.meta.get_or_insert_default().0.insert(key.into(), value.into());
        self
    }

    /// Also serves the resource at the URI `family`, and at `family` followed by any digest, for example
    /// `family/0123456789abcdef`.
    ///
    /// The URI of a web page contains the digest of the page. During an upgrade, replicas have different versions of
    /// the web page. So a client can receive a URI from an old replica and then send this URI to a new replica.
    pub(crate) fn in_family(mut self, family: &'static str) -> Self {
        self.family = Some(family);
        self
    }

    /// Returns `true` if the server also serves the resource at `uri`.
    pub(crate) fn is_also_at(&self, uri: &str) -> bool {
        let rest = self.family.and_then(|family| uri.strip_prefix(family));
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('/').is_some_and(is_digest))
    }

    /// Removes the resource from `resources/list`, and hides the resource from clients that do not show MCP Apps.
    pub(crate) fn for_apps(self) -> Self {
        Self { listed: false, for_apps: true, ..self }
    }

    /// Removes the resource from `resources/list`. A client that has the URI can still read the resource.
    #[must_use]
    pub fn unlisted(mut self) -> Self {
        self.listed = false;
        self
    }
}

/// A group of resources whose URIs match a template such as `notes://{user}/{id}`.
///
/// Each `{name}` in the template matches a part of the URI without a `/`. The server percent-decodes the part, and the
/// function receives the decoded part as the field `name` of its arguments.
pub struct ResourceTemplate {
    pub(crate) definition: TemplateDefinition,
    pub(crate) read: Erased<Contents>,
    pub(crate) pattern: Pattern,
    pub(crate) completions: BTreeMap<String, Completer>,
    /// The conditions under which a request can see the template.
    pub(crate) visible_if: VisibleIf,
}

impl ResourceTemplate {
    /// Creates a resource template for URIs that match `uri_template`. `function` returns the contents of the requested
    /// resource.
    pub fn new<A, M, R, F>(uri_template: impl Into<String>, name: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoContents + 'static,
        F: for<'a> Function<'a, A, M, Out = R> + 'static,
    {
        let uri_template = uri_template.into();
        let read = erase(function, |contents: R| Ok(contents.into_contents()));
        Self {
            pattern: Pattern::new(&uri_template),
            definition: TemplateDefinition::new(uri_template, name),
            read,
            completions: BTreeMap::new(),
            visible_if: VisibleIf::default(),
        }
    }

    /// Creates a template whose function receives the complete URI, as the client sent it.
    ///
    /// Each `{expression}` in a raw template matches any text, even text that contains `/`. So a raw template can use
    /// all expressions of RFC 6570. The server uses a raw template only if no resource has the requested URI and no
    /// other template matches this URI. Use this method to forward the resources of another MCP server.
    pub fn raw<M, R, F>(uri_template: impl Into<String>, name: impl Into<String>, function: F) -> Self
    where
        R: IntoContents + 'static,
        F: for<'a> Function<'a, String, M, Out = R> + 'static,
    {
        let uri_template = uri_template.into();
        let read = erase(function, |contents: R| Ok(contents.into_contents()));
        Self {
            pattern: Pattern { is_raw: true, ..Pattern::new(&uri_template) },
            definition: TemplateDefinition::new(uri_template, name),
            read,
            completions: BTreeMap::new(),
            visible_if: VisibleIf::default(),
        }
    }

    /// Shows the template only to requests for which `condition` returns `true`. Default: every request sees the
    /// template.
    ///
    /// For all other requests, the server behaves as if the template did not exist, also in `resources/read` and
    /// `completion/complete`. See [`Resource::visible_if`].
    #[must_use]
    pub fn visible_if(
        mut self,
        condition: impl Fn(&RequestInfo<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.visible_if.add(condition);
        self
    }

    /// Sets the name that users see. Default: none.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Sets the description of the resources. Default: none.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// Sets the media type of the contents, for example `text/plain`. Default: none.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.definition.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the function that suggests values for a variable of the template while the user types. Default: no
    /// suggestions.
    #[must_use]
    pub fn completes<F, Fut>(mut self, argument: impl Into<String>, complete: F) -> Self
    where
        F: Fn(Completion) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<String>>> + Send + 'static,
    {
        self.completions.insert(argument.into(), Arc::new(move |completion| Box::pin(complete(completion))));
        self
    }
}

/// The fixed parts and variables of a URI template, in order.
#[derive(Debug)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
    /// Whether each variable matches any text. If `true`, the function receives the complete URI instead of the
    /// variables.
    pub(crate) is_raw: bool,
}

#[derive(Debug)]
enum Part {
    Fixed(String),
    Variable(String),
}

impl Pattern {
    fn new(template: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((fixed, tail)) = rest.split_once('{') {
            let Some((name, tail)) = tail.split_once('}') else { break };
            parts.push(Part::Fixed(fixed.to_owned()));
            parts.push(Part::Variable(name.to_owned()));
            rest = tail;
        }
        parts.push(Part::Fixed(rest.to_owned()));
        Self { parts, is_raw: false }
    }

    /// Returns the arguments of the template's function if `uri` matches the template.
    pub(crate) fn arguments(&self, uri: &str) -> Option<Value> {
        if self.is_raw {
            return self.allows(uri).then(|| uri.into());
        }
        self.matches(uri).map(Value::Object)
    }

    /// Returns whether `uri` contains the fixed parts of the template, in the same order.
    fn allows(&self, uri: &str) -> bool {
        let fixed = self.parts.iter().filter_map(|part| match part {
            Part::Fixed(text) => Some(text.as_str()),
            Part::Variable(_) => None,
        });
        let fixed: Vec<&str> = fixed.collect();
        let [first, between @ .., last] = fixed.as_slice() else { return fixed == [uri] };
        let Some(mut rest) = uri.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
            return false;
        };
        for text in between {
            let Some((_, tail)) = rest.split_once(text) else { return false };
            rest = tail;
        }
        true
    }

    /// Returns `true` if both templates match the same URIs, even if the variables have different names.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|parts| match parts {
                (Part::Fixed(one), Part::Fixed(other)) => one == other,
                (Part::Variable(_), Part::Variable(_)) => true,
                _ => false,
            })
    }

    /// Returns the values of the template's variables if `uri` matches the template.
    fn matches(&self, uri: &str) -> Option<Map<String, Value>> {
        let mut variables = Map::new();
        let mut rest = uri;
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            match part {
                Part::Fixed(fixed) => rest = rest.strip_prefix(fixed.as_str())?,
                Part::Variable(name) => {
                    let end = match parts.peek() {
                        Some(Part::Fixed(next)) if !next.is_empty() => rest.find(next.as_str())?,
                        _ => rest.len(),
                    };
                    let (value, tail) = rest.split_at(end);
                    if value.is_empty() || value.contains('/') {
                        return None;
                    }
                    variables.insert(name.clone(), percent_decode(value)?.into());
                    rest = tail;
                }
            }
        }
        rest.is_empty().then_some(variables)
    }
}

/// Returns whether `text` is a digest in hexadecimal.
fn is_digest(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn percent_decode(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The contents of a resource, without its URI.
#[derive(Debug)]
pub enum Contents {
    /// The contents are text.
    Text(String),
    /// The contents are bytes.
    Blob(Vec<u8>),
    /// Complete MCP contents, which the server sends unchanged.
    Raw(Vec<ResourceContents>),
}

impl Returned for Contents {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            // Base64 encodes three bytes as four.
            Self::Blob(bytes) => bytes.len().div_ceil(3) * 4,
            Self::Raw(contents) => contents.iter().map(serialized_bytes).sum(),
        }
    }
}

impl Contents {
    pub(crate) fn into_wire(
        self,
        uri: &str,
        mime_type: Option<&str>,
        meta: Option<&MetaObject>,
    ) -> Vec<ResourceContents> {
        let typed = |contents: ResourceContents| {
            let contents = match mime_type {
                Some(mime_type) => contents.with_mime_type(mime_type),
                None => contents,
            };
            match meta {
                Some(meta) => contents.with_meta(meta.clone()),
                None => contents,
            }
        };
        match self {
            Self::Text(text) => vec![typed(ResourceContents::text(text, uri))],
            Self::Blob(bytes) => vec![typed(ResourceContents::blob(STANDARD.encode(bytes), uri))],
            Self::Raw(contents) => contents,
        }
    }
}

/// A type that a resource's function can return.
pub trait IntoContents {
    /// Converts the value into the contents of the resource.
    fn into_contents(self) -> Contents;
}

impl IntoContents for String {
    fn into_contents(self) -> Contents {
        Contents::Text(self)
    }
}

impl IntoContents for &'static str {
    fn into_contents(self) -> Contents {
        Contents::Text(self.to_owned())
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self) -> Contents {
        Contents::Blob(self)
    }
}

impl IntoContents for &'static [u8] {
    fn into_contents(self) -> Contents {
        Contents::Blob(self.to_vec())
    }
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self) -> Contents {
        Contents::Raw(self)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl fmt::Debug for ResourceTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceTemplate").field("definition", &self.definition).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_takes_a_uri_apart() {
        let pattern = Pattern::new("test://template/{id}/data");
        assert_eq!(
            pattern.matches("test://template/12%203/data").map(Value::Object),
            Some(json!({"id": "12 3"}))
        );
        assert_eq!(pattern.matches("test://template/1/2/data"), None);
        assert_eq!(pattern.matches("test://template//data"), None);
        assert_eq!(pattern.matches("test://template/1/data/more"), None);
    }

    #[test]
    fn a_raw_template_passes_the_uri_on() {
        let pattern = |template: &str| Pattern { is_raw: true, ..Pattern::new(template) };
        let files = pattern("file:///{+path}.{ext}");
        assert_eq!(files.arguments("file:///a/b%20c.txt"), Some(json!("file:///a/b%20c.txt")));
        assert_eq!(files.arguments("file:///a/b"), None);
        assert_eq!(files.arguments("http:///a.txt"), None);
        assert!(pattern("test://all").arguments("test://all").is_some());
        assert_eq!(pattern("test://all").arguments("test://all/1"), None);
    }
}
