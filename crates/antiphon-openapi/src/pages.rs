//! Pages of rows: detects how an operation splits its rows into pages, and reads these pages for a result set.

use antiphon::results::Rows;
use http::Method;
use serde_json::{Map, Value};
use url::Url;

use crate::{
    auth::{Applied, Caller},
    document::{Document, Found},
    http::{Http, Reply},
    operation::is_json,
    request::{Parameter, Place, Request, Template},
};

/// The limits of a result set whose rows come from the pages of an API.
#[derive(Clone, Debug)]
pub struct PageLimits {
    pages: usize,
    rows: usize,
    bytes: usize,
}

impl PageLimits {
    /// Creates the default limits of a result set from pages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of pages that one tool call reads. Default: 10 pages.
    #[must_use]
    pub fn with_pages(mut self, pages: usize) -> Self {
        self.pages = pages.max(1);
        self
    }

    /// Sets the maximum number of rows that one tool call reads. Default: 5,000 rows.
    #[must_use]
    pub fn with_rows(mut self, rows: usize) -> Self {
        self.rows = rows;
        self
    }

    /// Sets the maximum size of all rows that one tool call reads, in bytes. Default: 8 MiB.
    #[must_use]
    pub fn with_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }
}

impl Default for PageLimits {
    fn default() -> Self {
        Self { pages: 10, rows: 5_000, bytes: 8 << 20 }
    }
}

/// The way in which an operation splits its rows into pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paging {
    rows: RowsAt,
    position: Option<Position>,
    /// The argument that sets the size of a page, and the default of this argument.
    size: Option<(String, Option<u64>)>,
    /// Whether the document declares a response field for the next page. If the document declares this field, a
    /// response without the field is the last page.
    declares_next: bool,
}

/// The place in a response that contains the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RowsAt {
    /// The whole response is the list of rows.
    List,
    /// The field with this name is the list of rows.
    Field(String),
}

/// The argument that sets the position of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Position {
    Page {
        argument: String,
        /// The number of the first page, if the document states this number.
        first: Option<u64>,
    },
    Offset(String),
    /// The argument takes a cursor: a value from the previous page.
    Cursor(String),
    /// The argument takes the ID of the last row of the previous page.
    After(String),
}

const CURSORS: [&str; 13] = [
    "cursor",
    "page_token",
    "pagetoken",
    "next_token",
    "nexttoken",
    "marker",
    "continue",
    "after",
    "next_cursor",
    "page_cursor",
    "pagecursor",
    "start_cursor",
    "next_page_token",
];
const SIZES: [&str; 8] =
    ["per_page", "limit", "page_size", "pagesize", "max_results", "maxresults", "count", "size"];

/// The places in a response that can contain the cursor of the next page.
const NEXT_CURSORS: [&str; 22] = [
    "/next",
    "/next_cursor",
    "/nextCursor",
    "/next_page_token",
    "/nextPageToken",
    "/next_token",
    "/nextToken",
    "/NextToken",
    "/next_marker",
    "/metadata/continue",
    "/metadata/next_cursor",
    "/meta/next_cursor",
    "/meta/next_token",
    "/response_metadata/next_cursor",
    "/pagination/next_cursor",
    "/pagination/nextCursor",
    "/pageInfo/endCursor",
    "/paging/next/after",
    "/paging/cursors/after",
    "/next/page",
    "/cursor/after",
    "/next_page/offset",
];

/// The places in a response that can contain the URL of the next page.
const NEXT_URLS: [&str; 15] = [
    "/next",
    "/next_url",
    "/nextLink",
    "/@odata.nextLink",
    "/next_page_url",
    "/next_page_uri",
    "/nextPage",
    "/next_page/uri",
    "/links/next",
    "/links/next/href",
    "/links/pages/next",
    "/_links/next",
    "/_links/next/href",
    "/paging/next",
    "/pagination/next",
];

impl Paging {
    /// Detects the paging of a `GET` operation that returns a list of rows, or an object with one list.
    pub(crate) fn detect(document: &Document, found: &Found<'_>, template: &Template) -> Option<Self> {
        if template.method != Method::GET {
            return None;
        }
        let responses = found.operation.get("responses")?.as_object()?;
        let response = responses.iter().find(|(status, _)| status.starts_with('2'))?.1;
        let response = document.resolve(response)?;
        let content = response.get("content")?.as_object()?;
        let (_, media) = content.iter().find(|(name, _)| is_json(name))?;
        let schema = media.get("schema")?;
        let rows = rows_at(document, schema, 0)?;
        let position = position(document, found, &template.parameters);
        let has_link = response
            .get("headers")
            .and_then(Value::as_object)
            .is_some_and(|headers| headers.keys().any(|name| name.eq_ignore_ascii_case("link")));
        if position.is_none() && !has_link {
            return None;
        }
        let size = template.parameters.iter().find(|it| is_one_of(it, &SIZES)).map(|parameter| {
            let default =
                schema_of(document, found, &parameter.wire).and_then(|it| it.get("default")?.as_u64());
            (parameter.argument.clone(), default)
        });
        let mut places = NEXT_CURSORS.iter().chain(&NEXT_URLS);
        let declares_next = has_link
            || places.any(|place| {
                let names: Vec<&str> = place.split('/').skip(1).collect();
                declares(document, schema, &names, 0)
            });
        Some(Self { rows, position, size, declares_next })
    }

    /// Returns the rows of a response.
    fn rows<'a>(&self, body: &'a Value) -> Option<&'a Vec<Value>> {
        match &self.rows {
            RowsAt::Field(field) => body.get(field)?.as_array(),
            RowsAt::List => body.as_array(),
        }
    }

    /// Returns the position of the next page, or `None` after the last page. If the next page cannot be determined,
    /// returns the reason as the error.
    fn next(&self, page: &Page<'_>) -> Result<Option<Next>, &'static str> {
        let Page { count, first_rows, reply, body, rows, url, arguments } = *page;
        let is_url = |text: &&str| ["http", "/", "?"].iter().any(|start| text.starts_with(start));
        let mut texts = NEXT_URLS.iter().filter_map(|pointer| body.pointer(pointer)?.as_str());
        if let Some(text) = reply.link.as_deref().and_then(next_link).or_else(|| texts.find(is_url)) {
            let url = url.join(text).map_err(|_| "the URL of the next page is not valid")?;
            return Ok(Some(Next::Url(url)));
        }
        let flag = |name: &str| body.get(name).and_then(Value::as_bool);
        let has_more = flag("has_more")
            .or_else(|| flag("hasMore"))
            .or_else(|| flag("isLast").map(|is_last| !is_last))
            .or_else(|| body.pointer("/pageInfo/hasNextPage").and_then(Value::as_bool));
        if has_more == Some(false) {
            return Ok(None);
        }
        let has_more = has_more.is_some();
        let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
        let size = self.size.as_ref().and_then(|(argument, default)| number(argument).or(*default));
        // An API can return fewer rows than the call requests. The first page then shows how many rows a full page has.
        let size = size.map(|size| if count == 1 { size } else { size.min(first_rows as u64) });
        let is_full = !rows.is_empty() && (has_more || size.is_none_or(|size| rows.len() as u64 >= size));
        let has_next = is_full || (count == 1 && !rows.is_empty() && !self.declares_next);
        // Ends the reading if the position of the next page is not known. If more rows can exist, the reading ends with
        // an error.
        let end = |is_known: bool| {
            if has_more {
                Err("the API has more rows, but the position of the next page is not known")
            } else if is_full && !is_known {
                Err("the response does not state whether another page exists")
            } else {
                Ok(None)
            }
        };
        let Some(position) = &self.position else { return end(self.declares_next) };
        let (argument, value) = match position {
            Position::Page { argument, first } if has_next => {
                let Some(page) = number(argument).or(*first) else {
                    let mut arguments = arguments.clone();
                    arguments.insert(argument.clone(), 1.into());
                    return Ok(Some(Next::FirstOrSecond(arguments)));
                };
                (argument, page.saturating_add(1).into())
            }
            Position::Offset(argument) if has_next => {
                (argument, number(argument).unwrap_or(0).saturating_add(rows.len() as u64).into())
            }
            Position::Page { .. } | Position::Offset(_) => return end(true),
            Position::Cursor(argument) => {
                let places = NEXT_CURSORS.iter().filter_map(|pointer| body.pointer(pointer));
                let places: Vec<&Value> = places.filter(|value| !value.is_object()).collect();
                match places.iter().find(|value| is_cursor(value)) {
                    Some(cursor) => (argument, (*cursor).clone()),
                    None => return end(self.declares_next || count > 1 || !places.is_empty()),
                }
            }
            Position::After(argument) => match rows.last().and_then(|row| row.get("id")) {
                Some(id) if has_more => (argument, id.clone()),
                _ => return end(false),
            },
        };
        let mut arguments = arguments.clone();
        arguments.insert(argument.clone(), value);
        Ok(Some(Next::Arguments(arguments)))
    }
}

enum Next {
    Url(Url),
    Arguments(Map<String, Value>),
    /// The arguments for the page with the number 1. It is unknown whether the API numbers its pages from 0 or from 1.
    /// If the API numbers pages from 1, the page with the number 1 was already read.
    FirstOrSecond(Map<String, Value>),
}

/// A page that was read, and the state of the reading.
struct Page<'a> {
    /// The number of pages that were read, including the current page.
    count: usize,
    /// The number of rows of the first page.
    first_rows: usize,
    reply: &'a Reply,
    body: &'a Value,
    rows: &'a [Value],
    url: &'a Url,
    arguments: &'a Map<String, Value>,
}

/// The rows of all pages, or a response that contains no rows.
pub(crate) enum Gathered {
    /// The rows of all pages. The field `note` states the reason if rows are missing.
    Rows {
        rows: Rows,
        note: Option<String>,
    },
    Other(Reply, Url),
}

/// Reads all pages of a tool call, within the limits.
pub(crate) async fn gather(
    http: &Http,
    template: &Template,
    paging: &Paging,
    limits: &PageLimits,
    credentials: (&Applied, &Caller),
    mut arguments: Map<String, Value>,
) -> antiphon::Result<Gathered> {
    let (applied, caller) = credentials;
    let mut request = template.fill(&arguments).map_err(antiphon::Error::tool)?;
    let mut rows = Rows::new();
    let mut previous: Option<Vec<Value>> = None;
    let mut page = 1;
    let mut first_rows = 0;
    // Whether the request can return the first page again.
    let mut is_guess = false;
    loop {
        // The request for the next page needs the same headers and cookies, but can have new credentials.
        let before = request.clone();
        let secrets = applied.add(&mut request, caller).await?;
        let reply = match http.send(request, &secrets).await {
            Ok(reply) => reply,
            Err(error) if page == 1 => return Err(error),
            Err(error) => return Ok(incomplete(rows, &format!("page {page} could not be read: {error}"))),
        };
        let body = reply.json().filter(|_| reply.is_success());
        let Some((body, found)) = body.as_ref().and_then(|body| Some((body, paging.rows(body)?))) else {
            if page == 1 {
                return Ok(Gathered::Other(reply, before.url));
            }
            return Ok(incomplete(rows, &format!("page {page} failed with HTTP {}", reply.status)));
        };
        let is_repeated = match &previous {
            Some(previous) if is_guess => has_same_rows(previous, found),
            Some(previous) => previous == found,
            None => false,
        };
        let is_repeated = is_repeated && !found.is_empty();
        // An API that ignores the position returns the same page again.
        if is_repeated && !is_guess {
            return Ok(incomplete(rows, &format!("page {page} has the same rows as the page before it")));
        }
        previous = Some(found.clone());
        if is_repeated {
            // The repeated page shows that the API numbers its pages from 1.
            page -= 1;
        }
        if page == 1 {
            first_rows = found.len();
        }
        for row in found.iter().filter(|_| !is_repeated) {
            if rows.len() >= limits.rows || rows.bytes() >= limits.bytes {
                let limit = if rows.len() >= limits.rows { "rows" } else { "bytes" };
                return Ok(incomplete(
                    rows,
                    &format!("the limit of {limit} is reached, so narrow the request"),
                ));
            }
            let wrapped = (!row.is_object()).then(|| serde_json::json!({"value": row}));
            rows.push(wrapped.as_ref().unwrap_or(row))?;
        }
        let read = Page {
            count: page,
            first_rows,
            reply: &reply,
            body,
            rows: found,
            url: &before.url,
            arguments: &arguments,
        };
        let next = match paging.next(&read) {
            Ok(Some(next)) => next,
            Ok(None) => break,
            Err(reason) => return Ok(incomplete(rows, reason)),
        };
        if page >= limits.pages {
            let reason = format!("the limit of {} pages is reached, so narrow the request", limits.pages);
            return Ok(incomplete(rows, &reason));
        }
        page += 1;
        is_guess = matches!(next, Next::FirstOrSecond(_));
        request = match next {
            Next::Url(next) if next.origin() != template.server.origin() => {
                return Ok(incomplete(rows, "the next page is on another host"));
            }
            Next::Url(next) if next == before.url => break,
            Next::Url(next) => Request { url: next, ..before },
            Next::Arguments(next) | Next::FirstOrSecond(next) => {
                arguments = next;
                template.fill(&arguments).map_err(antiphon::Error::tool)?
            }
        };
    }
    Ok(Gathered::Rows { rows, note: None })
}

fn incomplete(rows: Rows, reason: &str) -> Gathered {
    Gathered::Rows { rows, note: Some(format!("The result set can be incomplete: {reason}.")) }
}

/// Returns whether two pages have the same rows. If rows have an `id`, the function compares only the `id`, because
/// other fields can change between two requests, for example signed URLs.
fn has_same_rows(one: &[Value], other: &[Value]) -> bool {
    fn identity(row: &Value) -> &Value {
        row.get("id").filter(|id| !id.is_null()).unwrap_or(row)
    }
    one.iter().map(identity).eq(other.iter().map(identity))
}

/// Returns the URL with `rel="next"` in a `Link` header.
fn next_link(header: &str) -> Option<&str> {
    header.split('<').skip(1).find_map(|part| {
        let (url, rest) = part.split_once('>')?;
        let is_next = rest.split([';', ',']).any(|parameter| {
            let parameter = parameter.trim().to_ascii_lowercase();
            let relations = parameter.strip_prefix("rel=").map(|value| value.trim_matches('"').to_owned());
            relations.is_some_and(|relations| relations.split_whitespace().any(|relation| relation == "next"))
        });
        is_next.then_some(url)
    })
}

/// Determines from the schema of a response where the rows are. The response must be a list, or an object with one
/// list.
fn rows_at(document: &Document, schema: &Value, depth: usize) -> Option<RowsAt> {
    let schema = document.resolve(schema)?;
    if is_list(schema) {
        return Some(RowsAt::List);
    }
    let mut lists: Vec<String> = Vec::new();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, property) in properties {
        if document.resolve(property).is_some_and(is_list) {
            lists.push(name.clone());
        }
    }
    if depth < 4 {
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            if let Some(RowsAt::Field(name)) = rows_at(document, part, depth + 1) {
                lists.push(name);
            }
        }
    }
    lists.dedup();
    let usual = ["data", "items", "results", "records", "values", "entries", "rows"];
    let usual =
        usual.iter().find(|name| lists.iter().any(|list| list == *name)).map(|name| (*name).to_owned());
    match (lists.len(), usual) {
        (1, _) => lists.pop().map(RowsAt::Field),
        (_, Some(name)) => Some(RowsAt::Field(name)),
        _ => None,
    }
}

/// Returns whether a schema has the nested property to which the path `names` leads.
fn declares(document: &Document, schema: &Value, names: &[&str], depth: usize) -> bool {
    let Some((first, rest)) = names.split_first() else { return true };
    let Some(schema) = document.resolve(schema) else { return false };
    let property = schema.get("properties").and_then(|properties| properties.get(*first));
    let parts = schema.get("allOf").and_then(Value::as_array).filter(|_| depth < 4);
    property.is_some_and(|property| declares(document, property, rest, depth))
        || parts.into_iter().flatten().any(|part| declares(document, part, names, depth + 1))
}

/// Returns whether a value is the cursor of a next page. After the last page, APIs send null, an empty text or 0 as
/// the cursor.
fn is_cursor(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_u64() != Some(0),
        _ => false,
    }
}

fn is_list(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.contains(&"array".into()),
        _ => schema.get("items").is_some(),
    }
}

fn is_one_of(parameter: &Parameter, names: &[&str]) -> bool {
    let name = parameter.wire.to_ascii_lowercase();
    parameter.place == Place::Query && names.contains(&name.as_str())
}

fn position(document: &Document, found: &Found<'_>, parameters: &[Parameter]) -> Option<Position> {
    let is_number = |parameter: &Parameter| {
        let kind =
            schema_of(document, found, &parameter.wire).and_then(|schema| schema.get("type")?.as_str());
        matches!(kind, Some("integer" | "number"))
    };
    let find = |names: &[&str]| parameters.iter().find(|parameter| is_one_of(parameter, names));
    let pages = ["page", "page_number", "pagenumber", "page_num"];
    if let Some(page) = find(&pages).filter(|page| is_number(page)) {
        let schema = schema_of(document, found, &page.wire);
        let number = |keyword: &str| schema.and_then(|schema| schema.get(keyword)?.as_u64());
        let first = number("default").or_else(|| number("minimum"));
        return Some(Position::Page { argument: page.argument.clone(), first });
    }
    if let Some(offset) = find(&["offset", "skip", "startat"]).filter(|offset| is_number(offset)) {
        return Some(Position::Offset(offset.argument.clone()));
    }
    if let Some(after) = find(&["starting_after"]) {
        return Some(Position::After(after.argument.clone()));
    }
    let cursor = find(&CURSORS).or_else(|| find(&["offset", "page"]))?;
    Some(Position::Cursor(cursor.argument.clone()))
}

/// Returns the schema of the query parameter `name`.
fn schema_of<'a>(document: &'a Document, found: &Found<'a>, name: &str) -> Option<&'a Value> {
    let lists = [found.operation.get("parameters"), found.item.get("parameters")];
    let mut parameters = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    let parameter = parameters.find_map(|parameter| {
        let parameter = document.resolve(parameter)?;
        let is_it =
            parameter.get("name")?.as_str() == Some(name) && parameter.get("in")?.as_str() == Some("query");
        is_it.then_some(parameter)
    })?;
    document.resolve(parameter.get("schema")?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_next_link_is_found_among_others() {
        let header = r#"<https://a/?page=1>; rel="prev", <https://a/?page=3>; title="x"; rel="next last""#;
        assert_eq!(next_link(header), Some("https://a/?page=3"));
        assert_eq!(next_link("<https://a/?page=9>; rel=next"), Some("https://a/?page=9"));
        assert_eq!(next_link(r#"<https://a/>; rel="last""#), None);
    }

    #[test]
    fn rows_with_an_id_are_compared_by_the_id() {
        let page = |id: u64, url: &str| [json!({"id": id, "url": url}), json!("a")];
        assert!(has_same_rows(&page(1, "x"), &page(1, "y")));
        assert!(!has_same_rows(&page(1, "x"), &page(2, "x")));
        assert!(!has_same_rows(&page(1, "x"), &page(1, "x")[..1]));
        assert!(!has_same_rows(&[json!({"id": null, "a": 1})], &[json!({"id": null, "a": 2})]));
    }

    #[test]
    fn the_list_of_a_response_is_found() {
        let document = Document::new(json!({"openapi": "3.0.0", "components": {"schemas": {
            "Pets": {"type": "array", "items": {}},
            "Page": {"type": "object", "properties": {"items": {"$ref": "#/components/schemas/Pets"}, "total": {"type": "integer"}}},
            "Two": {"properties": {"a": {"type": "array"}, "b": {"type": "array"}}},
            "All": {"allOf": [{"$ref": "#/components/schemas/Page"}, {"properties": {"errors": {"type": "array"}}}]},
        }}}))
        .unwrap();
        let found =
            |name: &str| rows_at(&document, &json!({"$ref": format!("#/components/schemas/{name}")}), 0);
        assert_eq!(found("Pets"), Some(RowsAt::List));
        assert_eq!(found("Page"), Some(RowsAt::Field("items".into())));
        assert_eq!(found("Two"), None);
        assert_eq!(found("All"), Some(RowsAt::Field("items".into())));
    }
}
