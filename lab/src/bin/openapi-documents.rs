//! Converts OpenAPI documents into tools, for `cargo xtask openapi`.
//!
//! `openapi-documents FILE…` prints a line of JSON for each document.
//! `openapi-documents --http ADDRESS FILE URL TAG…` serves the operations of a document with these tags. The API is at
//! `URL`, and gets the token `secret`.

#![expect(clippy::print_stdout, reason = "the command reads the output")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Instant,
};

use antiphon::{
    Server, Tool,
    results::{DualResponseServer, DualResponseServerOptions},
};
use antiphon_openapi::{Credential, OpenApi, OpenApiTools, PageLimits};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// The longest name that all large model providers accept.
const MAX_NAME: usize = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, address, file, url, tags @ ..] = &arguments[..]
        && option == "--http"
    {
        return serve(address, file, url, tags).await;
    }
    for file in arguments {
        println!("{}", convert(&file).with_context(|| format!("could not convert {file}"))?);
    }
    Ok(())
}

async fn serve(address: &str, file: &str, url: &str, tags: &[String]) -> Result<()> {
    let document = OpenApi::parse(&fs::read_to_string(file)?)?.with_base_url(url).with_tags(tags);
    let tools = document.with_credential("bearer_auth", Credential::token("secret")).tools()?.tools;
    let server = Server::builder("api", "1.0.0").tools(tools).build()?;
    Ok(server.serve_http(address).await?)
}

fn convert(file: &str) -> Result<Value> {
    let text = fs::read_to_string(file)?;
    let is_yaml = Path::new(file).extension().is_some_and(|extension| extension == "yaml");
    let start = Instant::now();
    let document = if is_yaml { OpenApi::parse_yaml(&text)? } else { OpenApi::parse(&text)? };
    let document = document.with_base_url("https://api.example.com").with_result_sets(PageLimits::new());
    let OpenApiTools { tools, report, .. } = document.tools()?;
    let millis = u64::try_from(start.elapsed().as_millis())?;

    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    let mut largest = 0;
    for tool in &tools {
        problems.extend(problem(tool).map(|problem| format!("{}: {problem}", tool.name())));
        if !names.insert(tool.name().to_owned()) {
            problems.push(format!("{}: the name is not unique", tool.name()));
        }
        largest = largest.max(serde_json::to_string(&tool.definition().input_schema)?.len());
    }
    let converted = tools.len();
    let results = DualResponseServer::new(DualResponseServerOptions::new("https://example.com/resources"))?;
    if let Err(error) = Server::builder("api", "1.0.0").with_results(results).tools(tools).build() {
        problems.push(error.to_string());
    }

    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for refused in &report.refused {
        *reasons.entry(refused.reason.clone()).or_default() += 1;
    }
    let mut warnings: BTreeMap<String, usize> = BTreeMap::new();
    for warning in &report.warnings {
        *warnings.entry(warning.text.clone()).or_default() += 1;
    }
    Ok(json!({
        "bytes": text.len(),
        "operations": converted + report.refused.len(),
        "converted": converted,
        "result_sets": report.converted.iter().filter(|it| it.has_result_set).count(),
        "refused": reasons,
        "warnings": warnings,
        "largest_schema": largest,
        "millis": millis,
        "problems": problems,
    }))
}

/// Returns the problem of a tool, if it has one.
fn problem(tool: &Tool) -> Option<String> {
    if tool.name().is_empty() || tool.name().len() > MAX_NAME {
        return Some(format!("the name does not have 1 to {MAX_NAME} characters"));
    }
    let schema = Value::Object((*tool.definition().input_schema).clone());
    jsonschema::draft202012::meta::validate(&schema).err().map(|error| error.to_string())
}
