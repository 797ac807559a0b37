//! What is checked in for operators fits together, and fits what is built.
//!
//! Nothing here starts a container: the workflow `release.yml` builds the image and renders the manifests.

use std::fs;
use std::path::{Path, PathBuf};

use yaml_rust2::{Yaml, YamlLoader};

mod compose;
mod image;
mod kubernetes;
mod watching;

/// The folder of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The one document of a file.
fn yaml(path: &str) -> Yaml {
    let documents = YamlLoader::load_from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let [document]: [Yaml; 1] = documents.try_into().unwrap_or_else(|_| panic!("{path} is not one document"));
    document
}

/// The strings of a list.
fn strings(list: &Yaml) -> Vec<&str> {
    list.as_vec().into_iter().flatten().filter_map(Yaml::as_str).collect()
}

/// The names in a map.
fn keys(map: &Yaml) -> Vec<&str> {
    map.as_hash().into_iter().flat_map(|map| map.keys()).filter_map(Yaml::as_str).collect()
}

/// How many connections each replica uses: `max_connections` of the URL in `path`, and one connection that listens.
fn connections(path: &str) -> i64 {
    let text = text(path);
    let number = text.split("max_connections=").nth(1).unwrap_or_else(|| panic!("{path} sets no limit"));
    let digits = number.split(|it: char| !it.is_ascii_digit()).next();
    digits.unwrap().parse::<i64>().unwrap() + 1
}

/// Every file below `folder` that ends so.
fn files(folder: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ends));
        } else if path.extension().is_some_and(|end| ends.iter().any(|it| end == *it)) {
            found.push(path);
        }
    }
    found
}

/// What `examples/deployed` reads from the environment, as its settings' docs name it. `X_FILE` names a file with the
/// value of `X`.
fn is_setting(name: &str) -> bool {
    let name = name.strip_suffix("_FILE").unwrap_or(name);
    text("examples/deployed/src/settings.rs").contains(&format!("/// `{name}`: "))
}

#[test]
fn every_file_for_operators_can_be_read() {
    let mut read = 0;
    for folder in ["deploy", ".github"] {
        for path in files(&root().join(folder), &["yaml", "yml"]) {
            let documents = YamlLoader::load_from_str(&fs::read_to_string(&path).unwrap());
            let documents = documents.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(documents.iter().all(|it| it.as_hash().is_some()), "{}", path.display());
            read += documents.len();
        }
        for path in files(&root().join(folder), &["json"]) {
            let found = serde_json::from_str::<serde_json::Value>(&fs::read_to_string(&path).unwrap());
            assert!(found.is_ok_and(|it| it.is_object()), "{}", path.display());
        }
    }
    assert!(read > 15, "only {read} were found");
}

#[test]
fn what_is_no_setting_is_not_taken_for_one() {
    assert!(is_setting("STORE_URL") && is_setting("STORE_URL_FILE") && is_setting("RUST_LOG"));
    assert!(!is_setting("STORE") && !is_setting("POSTGRES_USER"));
}
