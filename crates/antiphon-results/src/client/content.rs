//! Parses the content of a dual response from a tool result.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    column::{ColumnDefinition, ColumnType},
    rows::Row,
    snapshot::DerivedBody,
};

/// The content of a dual response.
pub(super) struct Content {
    pub(super) sample: Vec<Row>,
    pub(super) uri: Option<String>,
    pub(super) url: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) name: Option<String>,
    pub(super) total_count: u64,
    pub(super) columns: Vec<ColumnDefinition>,
    pub(super) executed_at: Option<DateTime<Utc>>,
    pub(super) expires_at: Option<DateTime<Utc>>,
}

impl Content {
    /// Parses the structured content of a tool result. If the structured content cannot be parsed, parses a text block
    /// with the same JSON. The error names the part of the dual response that is missing.
    pub(super) fn of_result(result: &Value) -> Result<Self, String> {
        let result = result.as_object().ok_or("the tool result is not a JSON object")?;
        if result.get("isError") == Some(&Value::Bool(true)) {
            return Err("the tool reported an error".to_owned());
        }
        let structured =
            member(result, &["structuredContent", "structured_content"]).map(Self::of_structured);
        if let Some(Ok(content)) = structured {
            return Ok(content);
        }
        let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
        let texts = blocks.filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
        let mut objects = texts.filter(|text| text.trim_start().starts_with('{'));
        let text = objects.find_map(|text| Self::of_structured(&serde_json::from_str(text).ok()?).ok());
        match (text, structured) {
            (Some(content), _) => Ok(content),
            (None, Some(structured)) => structured,
            (None, None) => Err("the tool result has no `structuredContent`, and no text with it".to_owned()),
        }
    }

    /// Parses the structured content of a tool result.
    pub(super) fn of_structured(structured: &Value) -> Result<Self, String> {
        let object = structured.as_object().ok_or("`structuredContent` is not an object")?;
        let results = object.get("results").and_then(Value::as_array).ok_or("`results` is not an array")?;
        let sample = results.iter().map(Value::as_object).map(Option::<&Row>::cloned).collect::<Option<_>>();
        let sample = sample.ok_or("`results` contains a row that is not a JSON object")?;

        let resource = object.get("resource").and_then(Value::as_object).ok_or("`resource` is missing")?;
        let text = |names: &[&str]| member(resource, names).and_then(Value::as_str).map(str::to_owned);
        let (uri, url) = (text(&["uri"]), text(&["url"]));
        if uri.is_none() && url.is_none() {
            return Err("`resource.uri` is missing".to_owned());
        }

        let metadata = object.get("metadata").and_then(Value::as_object).ok_or("`metadata` is missing")?;
        let total_count = member(metadata, &["total_count", "totalCount"]).and_then(Value::as_u64);
        Ok(Self {
            sample,
            uri,
            url,
            base_url: text(&["base_url", "baseUrl"]),
            name: text(&["name"]),
            total_count: total_count.ok_or("`metadata.total_count` is missing or is not a whole number")?,
            columns: columns(metadata.get("columns"))?,
            executed_at: moment(metadata, &["executed_at", "executedAt"])?,
            expires_at: moment(metadata, &["expires_at", "expiresAt"])?,
        })
    }

    /// Creates the content of a result set for which only the URL is known.
    pub(super) fn at(url: &str) -> Self {
        Self {
            sample: Vec::new(),
            uri: None,
            url: Some(url.to_owned()),
            base_url: None,
            name: None,
            total_count: 0,
            columns: Vec::new(),
            executed_at: None,
            expires_at: None,
        }
    }

    /// Returns the ID of the result set. In a URI, the ID is the part after `://`. In a URL, the ID is the last part
    /// of the path.
    pub(super) fn id(&self) -> Option<&str> {
        let uri = self.uri.as_deref().and_then(|uri| uri.split_once("://")).map(|(_, id)| id);
        uri.or_else(|| self.url.as_deref()?.split(['?', '#']).next()?.rsplit('/').next())
    }
}

/// Converts the response to an SQL query into the content of the new result set.
impl From<&DerivedBody> for Content {
    fn from(derived: &DerivedBody) -> Self {
        Self {
            sample: derived.data.clone(),
            uri: Some(derived.uri.clone()),
            url: Some(derived.url.clone()),
            base_url: None,
            name: Some(derived.name.clone()),
            total_count: derived.total_count,
            columns: derived.columns.clone(),
            executed_at: None,
            expires_at: derived.expires_at,
        }
    }
}

fn member<'a>(object: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(*name)).filter(|value| !value.is_null())
}

/// Parses an optional time in the metadata of a dual response. Returns an error if the time cannot be parsed. If an
/// invalid time were ignored, the result set would seem to never expire.
fn moment(metadata: &Map<String, Value>, names: &[&str]) -> Result<Option<DateTime<Utc>>, String> {
    let Some(value) = member(metadata, names) else { return Ok(None) };
    let text = value.as_str().and_then(|text| DateTime::parse_from_rfc3339(text).ok());
    let moment = text.ok_or_else(|| format!("`metadata.{}` is not an RFC 3339 timestamp", names[0]))?;
    Ok(Some(moment.to_utc()))
}

/// Parses the columns of a dual response. Some servers send only the names of columns. For a column without a type,
/// the client assumes that the values can have any type.
fn columns(columns: Option<&Value>) -> Result<Vec<ColumnDefinition>, String> {
    let read = |column: &Value| match column {
        Value::String(name) => Some(ColumnDefinition::new(name, ColumnType::Json)),
        Value::Object(object) if !object.contains_key("type") => {
            Some(ColumnDefinition::new(object.get("name")?.as_str()?, ColumnType::Json))
        }
        column => ColumnDefinition::deserialize(column).ok(),
    };
    match columns {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(columns)) => {
            let columns = columns.iter().map(read).collect::<Option<_>>();
            columns.ok_or_else(|| "`metadata.columns` contains a column without a name".to_owned())
        }
        Some(_) => Err("`metadata.columns` is not an array".to_owned()),
    }
}
