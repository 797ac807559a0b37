//! The image: what it is built from is there, and is let in.

use std::fs;

use serde_json::Value;

use super::{is_setting, root, text, yaml};
use crate::project::Project;

const DOCKERFILE: &str = "deploy/Dockerfile";

/// The words after `instruction`, each time it stands in the Dockerfile.
fn instructions(instruction: &str) -> Vec<String> {
    let text = text(DOCKERFILE).replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| line.strip_prefix(instruction)?.strip_prefix(' '));
    lines.map(str::to_owned).collect()
}

/// What `NAME=value` says in `ENV` or `ARG`.
fn value(instruction: &str, name: &str) -> Option<String> {
    let all = instructions(instruction);
    let mut pairs =
        all.iter().flat_map(|line| line.split_whitespace()).filter_map(|word| word.split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

fn built() -> Value {
    let package = value("ARG", "PACKAGE").expect("the Dockerfile says which package it builds");
    let project = Project::open().unwrap();
    let packages = project.metadata["packages"].as_array().unwrap();
    let found = packages.iter().find(|it| it["name"] == package.as_str());
    found.unwrap_or_else(|| panic!("the workspace has no package `{package}`")).clone()
}

#[test]
fn the_package_has_a_program_of_its_name_and_the_features_that_are_asked_for() {
    let package = built();
    let is_program = |target: &Value| target["kind"][0] == "bin" && target["name"] == package["name"];
    assert!(package["targets"].as_array().unwrap().iter().any(is_program), "{package}");
    for line in instructions("RUN") {
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            let asked = match word.split_once('=') {
                Some(("--features" | "-F", features)) => features,
                None if word == "--features" || word == "-F" => words.next().unwrap_or_default(),
                _ => continue,
            };
            for feature in asked.trim_matches('"').split(',') {
                assert!(!package["features"][feature].is_null(), "there is no feature `{feature}`");
            }
        }
    }
}

#[test]
fn everything_that_cargo_reads_is_let_into_the_build() {
    let ignore = text("deploy/Dockerfile.dockerignore");
    let is_let_in = |path: &str| ignore.lines().any(|line| line.strip_prefix('!') == Some(path));
    assert!(ignore.starts_with("*\n"), "nothing comes in but what is named");
    for file in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "README.md"] {
        assert!(is_let_in(file), "{file}");
    }
    let project = Project::open().unwrap();
    for package in project.metadata["packages"].as_array().unwrap() {
        let manifest = package["manifest_path"].as_str().unwrap();
        let folder = manifest.strip_prefix(project.root.to_str().unwrap()).unwrap();
        let folder = folder.split('/').nth(1).unwrap();
        assert!(is_let_in(folder), "cargo wants every member of the workspace: {folder}");
    }
    for named in ignore.lines().filter_map(|line| line.strip_prefix('!')) {
        assert!(root().join(named).exists(), "{named} is let in and is not there");
    }
}

#[test]
fn compiler_is_the_workspaces_and_runs_on_the_system_it_was_built_for() {
    let stages = instructions("FROM");
    let [build, run] = &stages[..] else { panic!("{stages:?}") };
    let toolchain: toml::Table = text("rust-toolchain.toml").parse().unwrap();
    let channel = toolchain["toolchain"]["channel"].as_str().unwrap();
    let image = build.strip_prefix("rust:").unwrap();
    let version = image.split('-').next().unwrap();
    assert!(channel == version || channel.starts_with(&format!("{version}.")), "{version} is not {channel}");
    // A C library that is older than the one it was linked with does not do.
    assert!(build.contains("-bookworm ") && run.contains("-debian12:"), "{build} and {run}");
    assert!(run.ends_with(":nonroot"), "{run}");
}

#[test]
fn ports_of_the_image_are_those_of_the_pods() {
    let exposed: Vec<i64> =
        instructions("EXPOSE").join(" ").split_whitespace().map(|port| port.parse().unwrap()).collect();
    let listened = ["LISTEN", "HEALTH_LISTEN"].map(|name| {
        assert!(is_setting(name), "{name}");
        let address = value("ENV", name).unwrap();
        address.rsplit_once(':').unwrap().1.parse::<i64>().unwrap()
    });
    let deployment = yaml("deploy/kubernetes/deployment.yaml");
    let ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"].as_vec().unwrap();
    let ports: Vec<i64> = ports.iter().filter_map(|port| port["containerPort"].as_i64()).collect();
    assert_eq!(exposed, listened);
    assert_eq!(exposed, ports);
}

#[test]
fn what_is_built_elsewhere_is_built_from_files_that_are_here() {
    let release = fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    for path in [DOCKERFILE, "deploy/compose.yaml", "deploy/kubernetes"] {
        assert!(release.contains(path) && root().join(path).exists(), "{path}");
    }
}
