//! `cargo xtask words`: how many sentences have a habit that makes readers read them twice.
//!
//! There are four corpora: the pages in `docs/` and the READMEs, rustdoc, other comments, and error messages.
//! `words.toml` has the limit of each, which can only fall. Generated pages are left out, because their sentences come from
//! rustdoc. The check finds known habits only. A sentence without one can still be unclear.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use serde::Deserialize;

use crate::project::Project;
use crate::table::Table;

const BASELINE: &str = "xtask/words.toml";

/// Pages that `cargo xtask reference` and tests write.
const GENERATED: [&str; 6] = [
    "reference/cli.md",
    "reference/configuration.md",
    "reference/errors.md",
    "reference/features.md",
    "reference/model-view.md",
    "reference/wire.md",
];

/// A habit, its pattern, and text that the pattern must not see.
const HABITS: [(&str, &str, &str); 6] = [
    (
        "a relative clause as a noun",
        r"(?:^|[,;:(] ?|\b(?:of|for|with|by|to|from|in|is|says?|and|or|but|than|as|told|tells?|sees?|knows?|has|does) )(?:what|whoever|whatever|whichever|whom|whose) |^Who ",
        r"\bwhat (?:if|kind|happens if)\b|^Who are\b",
    ),
    ("an indefinite person", r"\b(?:nobody|somebody|anybody|whoever|those who|others')\b", "$^"),
    (
        "`is no X`",
        r"\b(?:is|are|was|were) (?:no|none)\b|\bknows? no\b|\btakes? nothing\b|\b(?:needs?|asks?) nobody\b",
        r"\bno longer\b",
    ),
    (
        "an idiom of another language",
        r"\b(?:goes on|go on|going on|went on|is there|are there when|in hand|at hand|c[oa]mes? of it|became of|of (?:its|their|your|our) own|is good|are good|no longer good|beside|mend(?:ed|s)?|to be had|at rest|anew|letter by letter|is to be|are to be|stands? (?:on|in|beside|for)|by itself|by themselves|without end)\b",
        "$^",
    ),
    (
        "software that feels or talks",
        r"\b(?:server|client|host|page|tool|test|machine|driver|crate|store|command|code|key|set|link|replica|bus|backend|sdk|library|error|guide|log|layer|run|seal|process)s? (?:is told|are told|tells?|knows?|hears?|believes?|trusts?|sees?|wants?|lets?|looks?|forgets?|judges?)\b",
        "$^",
    ),
    (
        "`a` for `per`",
        r"\b(?:one|a|an|two|16|once) [a-z` ]{2,25}? an? (?:problem|run|law|tool|target|contract|module|row|set|tenant|process|call|request|round|connection|stream|game|type|leg|crate|caller|key|route|transport)\b",
        "$^",
    ),
];

/// Options of `cargo xtask words`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Show the sentences with a habit, with the file of each.
    #[arg(long)]
    show: bool,
    /// Lower the limits in `xtask/words.toml` to the figures of today. Limits are never raised.
    #[arg(long)]
    update: bool,
}

/// The limits of a corpus, in percent of its sentences.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Limits {
    habits: f64,
    semicolons: f64,
}

/// The sentences of a corpus, each with its file.
#[derive(Debug, Default)]
struct Corpus {
    /// How many semicolons a sentence may have. An error has one, between its cause and what to do.
    semicolons: usize,
    sentences: Vec<(PathBuf, String)>,
}

/// Prints the figures, and checks them.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let (corpora, limits) = (read(&project.root)?, limits(&project.root)?);
    let habits = Habits::new()?;
    let mut table = Table::new(["corpus", "sentences", "with a habit", "limit", "with a semicolon", "limit"]);
    for (name, corpus) in &corpora {
        let (found, limit) = (corpus.figures(&habits), limits.get(*name));
        let text = |figure: f64| format!("{figure:.1} %");
        table.row([
            (*name).to_owned(),
            corpus.sentences.len().to_string(),
            text(found.habits),
            limit.map_or_else(String::new, |limit| text(limit.habits)),
            text(found.semicolons),
            limit.map_or_else(String::new, |limit| text(limit.semicolons)),
        ]);
        if options.show {
            for (path, sentence) in &corpus.sentences {
                if let Some(habit) = habits.first(sentence) {
                    println!("{}: [{}] {sentence}", path.display(), habit.name);
                }
            }
        }
    }
    println!("{table}");
    if options.update {
        return update(&project.root, &corpora, &limits, &habits);
    }
    println!("{}", compare(&corpora, &limits, &habits)?);
    Ok(())
}

/// Checks the figures of all corpora.
pub(crate) fn check(project: &Project) -> Result<String> {
    compare(&read(&project.root)?, &limits(&project.root)?, &Habits::new()?)
}

fn compare(
    corpora: &BTreeMap<&str, Corpus>,
    limits: &BTreeMap<String, Limits>,
    habits: &Habits,
) -> Result<String> {
    let mut said = Vec::new();
    for (name, corpus) in corpora {
        let limit = limits.get(*name).with_context(|| format!("{BASELINE} has no limits for {name}"))?;
        let found = corpus.figures(habits);
        ensure!(
            found.habits <= limit.habits && found.semicolons <= limit.semicolons,
            "{name}: {:.1} % of the sentences have a habit that the style guide advises against, and the limit is {:.1} %; {:.1} % have a semicolon, and the limit is {:.1} %; run `cargo xtask words --show`",
            found.habits,
            limit.habits,
            found.semicolons,
            limit.semicolons,
        );
        said.push(format!("{name} {:.1} %", found.habits));
    }
    Ok(said.join(", "))
}

fn limits(root: &Path) -> Result<BTreeMap<String, Limits>> {
    let text =
        fs::read_to_string(root.join(BASELINE)).with_context(|| format!("could not read {BASELINE}"))?;
    toml::from_str(&text).with_context(|| format!("{BASELINE} is not valid"))
}

fn update(
    root: &Path,
    corpora: &BTreeMap<&str, Corpus>,
    limits: &BTreeMap<String, Limits>,
    habits: &Habits,
) -> Result<()> {
    let mut text = "# Limits of `cargo xtask words`, in percent of the sentences of a corpus. They can only fall:\n# `cargo xtask words --update` lowers them.\n".to_owned();
    for (name, corpus) in corpora {
        let found = corpus.figures(habits);
        let old = limits.get(*name).copied().unwrap_or(Limits { habits: 100.0, semicolons: 100.0 });
        let (habits, semicolons) = (found.habits.min(old.habits), found.semicolons.min(old.semicolons));
        write!(text, "\n[{name}]\nhabits = {habits:.1}\nsemicolons = {semicolons:.1}\n")?;
    }
    fs::write(root.join(BASELINE), text).with_context(|| format!("could not write {BASELINE}"))
}

/// The patterns that find prose and sentences.
#[derive(Debug)]
struct Patterns {
    code: Regex,
    marker: Regex,
    paragraph: Regex,
    end: Regex,
    link: Regex,
    messages: [Regex; 2],
}

impl Patterns {
    fn new() -> Result<Self> {
        Ok(Self {
            code: Regex::new(r"(?s)```.*?```|<!--.*?-->|<[^>]+>")?,
            marker: Regex::new(r"^(?:[-*+]|\d+\.)\s+")?,
            paragraph: Regex::new(r"\n\s*\n")?,
            end: Regex::new("([.!?])\\s+([A-Z`*\\[\"])")?,
            link: Regex::new(r"\[([^\]]*)\]\([^)]*\)")?,
            messages: [
                Regex::new(r#"#\[error\(\s*"((?:[^"\\]|\\.)*)""#)?,
                Regex::new(
                    r#"(?:Error::\w+|bail!|anyhow!|misuse|problem|refuse\w*)\(\s*(?:format!\(\s*)?"((?:[^"\\]|\\.){12,})""#,
                )?,
            ],
        })
    }

    /// The prose of a page, without code, comments, headings and pictures. Each cell of a table is a paragraph.
    fn markdown(&self, text: &str) -> String {
        let text = self.code.replace_all(text, "");
        let mut prose = String::new();
        for line in text.lines().map(str::trim) {
            if line.starts_with(['#', '!']) || line.starts_with("|---") {
                prose.push('\n');
            } else if let Some(cells) = line.strip_prefix('|') {
                cells.split('|').for_each(|cell| {
                    let _ = write!(prose, "\n{}\n\n", cell.trim());
                });
            } else {
                let _ = writeln!(prose, "{}", self.marker.replace(line, "\n"));
            }
        }
        prose
    }

    /// The sentences of at least four words.
    fn sentences(&self, prose: &str) -> Vec<String> {
        let mut found = Vec::new();
        for paragraph in self.paragraph.split(prose) {
            let words: Vec<_> = paragraph.split_whitespace().collect();
            let marked = words.join(" ");
            let marked = self.end.replace_all(&marked, "$1\n$2");
            for sentence in marked.split('\n') {
                if sentence.split_whitespace().count() >= 4 {
                    found.push(self.link.replace_all(sentence, "$1").into_owned());
                }
            }
        }
        found
    }
}

/// A compiled habit.
#[derive(Debug)]
struct Habit {
    name: &'static str,
    pattern: Regex,
    allowed: Regex,
}

impl Habit {
    fn is_in(&self, sentence: &str) -> bool {
        self.pattern.is_match(&self.allowed.replace_all(sentence, "-"))
    }
}

/// All habits. One search finds the sentences that can have one.
#[derive(Debug)]
struct Habits {
    all: RegexSet,
    each: Vec<Habit>,
}

impl Habits {
    fn new() -> Result<Self> {
        let compile = |pattern: &str| RegexBuilder::new(pattern).case_insensitive(true).build();
        let each = HABITS.iter().map(|(name, pattern, allowed)| {
            Ok(Habit { name, pattern: compile(pattern)?, allowed: compile(allowed)? })
        });
        let patterns = HABITS.iter().map(|(_, pattern, _)| pattern);
        let all = RegexSetBuilder::new(patterns).case_insensitive(true).build()?;
        Ok(Self { all, each: each.collect::<Result<_>>()? })
    }

    /// Returns the first habit of a sentence.
    fn first(&self, sentence: &str) -> Option<&Habit> {
        if !self.all.is_match(sentence) {
            return None;
        }
        self.each.iter().find(|habit| habit.is_in(sentence))
    }
}

impl Corpus {
    fn figures(&self, habits: &Habits) -> Limits {
        let share = |is_counted: &dyn Fn(&str) -> bool| {
            let count = self.sentences.iter().filter(|(_, sentence)| is_counted(sentence)).count();
            // Rounded to tenths of a percent, as in the file.
            let all = self.sentences.len().max(1);
            let tenths = u32::try_from((2000 * count + all) / (2 * all)).unwrap_or(u32::MAX);
            f64::from(tenths) / 10.0
        };
        Limits {
            habits: share(&|sentence| habits.first(sentence).is_some()),
            semicolons: share(&|sentence| sentence.matches(';').count() > self.semicolons),
        }
    }

    fn add(&mut self, path: &Path, prose: &str, patterns: &Patterns) {
        let sentences = patterns.sentences(prose);
        self.sentences.extend(sentences.into_iter().map(|sentence| (path.to_owned(), sentence)));
    }
}

fn read(root: &Path) -> Result<BTreeMap<&'static str, Corpus>> {
    let (mut docs, mut rustdoc, mut comments, mut errors) =
        (Corpus::default(), Corpus::default(), Corpus::default(), Corpus::default());
    errors.semicolons = 1;
    let patterns = Patterns::new()?;
    let mut pages = files(&root.join("docs"), "md")?;
    for folder in [".", "crates", "examples"] {
        pages.extend(files_in(&root.join(folder), if folder == "." { 1 } else { 2 }, "md")?);
    }
    pages.retain(|path| !GENERATED.iter().any(|name| path.ends_with(name)));
    for path in pages {
        docs.add(path.strip_prefix(root)?, &patterns.markdown(&fs::read_to_string(&path)?), &patterns);
    }
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path().join("src");
        for path in files(&folder, "md")? {
            rustdoc.add(path.strip_prefix(root)?, &patterns.markdown(&fs::read_to_string(&path)?), &patterns);
        }
        for path in files(&folder, "rs")? {
            let (text, name) = (fs::read_to_string(&path)?, path.strip_prefix(root)?.to_owned());
            rustdoc.add(&name, &rust_comments(&text, true), &patterns);
            comments.add(&name, &rust_comments(&text, false), &patterns);
            let found = patterns.messages.iter().flat_map(|pattern| pattern.captures_iter(&text));
            let found = found.map(|found| found[1].to_owned());
            errors
                .sentences
                .extend(found.filter(|it| it.split_whitespace().count() >= 4).map(|it| (name.clone(), it)));
        }
    }
    Ok(BTreeMap::from([("docs", docs), ("rustdoc", rustdoc), ("comments", comments), ("errors", errors)]))
}

/// All files below a folder that have this extension.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    files_in(folder, usize::MAX, extension)
}

fn files_in(folder: &Path, depth: usize, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if depth == 0 || !folder.is_dir() {
        return Ok(found);
    }
    let entries = fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_in(&path, depth - 1, extension)?);
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The text of doc comments, or of the other comments, without code, headings and tables.
fn rust_comments(text: &str, of_docs: bool) -> String {
    let (mut prose, mut in_code) = (String::new(), false);
    for line in text.lines().map(str::trim) {
        let comment = match line.strip_prefix("//") {
            Some(rest) if of_docs => rest.strip_prefix(['/', '!']),
            Some(rest) if !rest.starts_with(['/', '!']) => Some(rest),
            _ => None,
        };
        let Some(comment) = comment.map(str::trim) else {
            prose.push('\n');
            in_code = false;
            continue;
        };
        if comment.starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            prose.push_str(if comment.starts_with(['#', '|']) { "" } else { comment });
            prose.push('\n');
        }
    }
    prose
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sentence: &str) -> Vec<&'static str> {
        Habits::new()
            .unwrap()
            .each
            .iter()
            .filter(|habit| habit.is_in(sentence))
            .map(|habit| habit.name)
            .collect()
    }

    #[test]
    fn habits_are_found_and_plain_sentences_are_not() {
        assert_eq!(found("The client sends it with what it has seen."), ["a relative clause as a noun"]);
        assert_eq!(found("The store keeps one record a run."), ["`a` for `per`"]);
        assert_eq!(found("The server is told of the change."), ["software that feels or talks"]);
        assert_eq!(found("Says what happens if the client disconnects."), Vec::<&str>::new());
        assert_eq!(found("The server stores one record per run."), Vec::<&str>::new());
    }

    #[test]
    fn prose_has_no_code_and_cells_are_sentences() {
        let page = "# Title of the page\n\nOne two three four. Five six seven eight.\n\n```rust\nlet nobody = 1;\n```\n\n| a cell with words | another cell with words |\n|---|---|\n- a list with words\n";
        let patterns = Patterns::new().unwrap();
        let sentences = patterns.sentences(&patterns.markdown(page));
        assert_eq!(sentences.len(), 5, "{sentences:?}");
        assert_eq!(sentences[1], "Five six seven eight.");
    }

    #[test]
    fn doc_comments_and_other_comments_are_apart() {
        let text = "/// One two three four.\n/// ```\n/// let a = 1;\n/// ```\nfn f() {} // trailing\n// Five six seven eight.\n";
        let patterns = Patterns::new().unwrap();
        assert_eq!(patterns.sentences(&rust_comments(text, true)), ["One two three four."]);
        assert_eq!(patterns.sentences(&rust_comments(text, false)), ["Five six seven eight."]);
    }
}
