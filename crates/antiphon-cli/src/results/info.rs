//! `antiphon results info`: shows the metadata of a result set.

use std::fmt::Write as _;

use anyhow::Result;
use indicatif::HumanBytes;
use serde_json::json;

use super::{page::Manifest, set::Set, table};
use crate::{exit::Outcome, global::App, print};

pub(crate) async fn run(app: &App, set: &Set) -> Result<Outcome> {
    let remote = set.reach().await?;
    let metadata = remote.set.metadata().await?;
    // Some servers do not support manifests.
    let manifest = remote.manifest().await?;
    let mut value = json!(metadata);
    if let Some((_, manifest)) = &manifest {
        value["manifest"] = manifest.clone();
    }
    print::print(app.json, &value, || {
        let mut table = print::table(["COLUMN", "TYPE", "ABOUT"]);
        for column in &metadata.columns {
            let about = column.description.as_deref().unwrap_or_default();
            table.add_row([
                print::first_line(&column.name),
                print::first_line(column.kind.name()),
                print::first_line(about),
            ]);
        }
        let expires = metadata.expires_at.map_or_else(|| "never".to_owned(), |end| end.to_rfc3339());
        let more = manifest.as_ref().map(|(manifest, _)| told(manifest)).unwrap_or_default();
        format!(
            "rows     {}\ncreated  {}\nexpires  {expires}\nread     {} times\n{more}\n{}",
            table::grouped(metadata.total_count),
            metadata.created_at.to_rfc3339(),
            metadata.access_count,
            print::trimmed(&table)
        )
    });
    Ok(Outcome::Done)
}

/// Formats the fields of the manifest, one per line.
fn told(manifest: &Manifest) -> String {
    let mut lines = String::new();
    let mut line = |what: &str, text: &str| {
        let _ = writeln!(lines, "{what:<8} {}", print::first_line(text));
    };
    match (&*manifest.status, &manifest.failure) {
        ("failed", Some(why)) => line("status", &format!("failed: {why}")),
        ("writing", _) => line("status", "still being written"),
        _ => {}
    }
    if let Some(limit) = &manifest.truncated {
        line("cut", &format!("the set is truncated: the server reached its limit ({limit})"));
    }
    if let Some(bytes) = manifest.bytes.filter(|bytes| *bytes > 0) {
        line("size", &HumanBytes(bytes).to_string());
    }
    if let Some(digest) = &manifest.digest {
        line("digest", digest);
    }
    if !manifest.formats.is_empty() {
        line("formats", &manifest.formats.join(", "));
    }
    if let Some(lineage) = &manifest.lineage {
        let sources: Vec<String> =
            lineage.sources.iter().map(|(name, id)| format!("{name} = {id}")).collect();
        line("made of", &sources.join(", "));
        line("by", &lineage.query);
    }
    lines
}
