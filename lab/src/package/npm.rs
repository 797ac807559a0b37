//! The npm packages, for `npx antiphon`: one with a script, and one with the program for each platform.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use super::archive::{Entry, lay_out, write_tar};
use super::platform::{PLATFORMS, Platform};
use super::{Contents, NAME};

/// The script that starts the program of the platform.
const LAUNCHER: &str = include_str!("antiphon.js");

/// The two packages that a user of this platform installs.
#[derive(Debug)]
pub(super) struct Tarballs {
    /// The package `antiphon`.
    pub(super) launcher: PathBuf,
    /// The package with the program.
    pub(super) program: PathBuf,
}

/// Writes both packages.
pub(super) fn write(contents: &Contents, folder: &Path) -> Result<Tarballs> {
    let platform = contents.platform;
    let script = Entry::program("package/bin/antiphon.js".into(), LAUNCHER.as_bytes());
    let program = Entry::program(format!("package/bin/{}", platform.program()), &contents.program);
    Ok(Tarballs {
        launcher: pack(contents, folder, &launcher_manifest(contents), script)?,
        program: pack(contents, folder, &program_manifest(contents, platform), program)?,
    })
}

/// The manifest of the package that users install.
fn launcher_manifest(contents: &Contents) -> Value {
    let programs = PLATFORMS.iter().map(|it| (it.npm_package(), Value::from(contents.version.as_str())));
    let mut manifest = manifest(contents, NAME);
    manifest["bin"] = json!({ NAME: "bin/antiphon.js" });
    manifest["engines"] = json!({"node": ">=18"});
    // npm installs only the one whose system and processor fit.
    manifest["optionalDependencies"] = Value::Object(programs.collect::<Map<_, _>>());
    manifest
}

/// The manifest of the package with the program of a platform.
fn program_manifest(contents: &Contents, platform: &Platform) -> Value {
    let mut manifest = manifest(contents, &platform.npm_package());
    manifest["os"] = json!([platform.node_os()]);
    manifest["cpu"] = json!([platform.node_cpu()]);
    if platform.node_os() == "linux" {
        manifest["libc"] = json!(["glibc"]);
    }
    // Yarn otherwise keeps packages in archives, from which no program can be started.
    manifest["preferUnplugged"] = true.into();
    manifest
}

fn manifest(contents: &Contents, name: &str) -> Value {
    json!({
        "name": name,
        "version": contents.version,
        "description": contents.description,
        "keywords": contents.keywords,
        "license": contents.license,
        "repository": {"type": "git", "url": format!("git+{}.git", contents.repository)},
        "publishConfig": {"access": "public"},
    })
}

/// Writes a package under the name that `npm pack` would give it.
fn pack(contents: &Contents, folder: &Path, manifest: &Value, program: Entry<'_>) -> Result<PathBuf> {
    let name = file_name(manifest["name"].as_str().unwrap_or_default(), &contents.version);
    let text = format!("{manifest:#}\n").into_bytes();
    let mut entries = vec![program, Entry::file("package/package.json".into(), text)];
    for (name, text) in &contents.texts {
        entries.push(Entry::file(format!("package/{name}"), text.as_bytes()));
    }
    lay_out(folder, &entries)?;
    write_tar(folder, "package", &name)?;
    fs::remove_dir_all(folder.join("package")).context("could not remove the files of the npm package")?;
    Ok(folder.join(name))
}

/// `@antiphon-rs/cli-linux-x64` is `antiphon-rs-cli-linux-x64-0.1.0.tgz`.
fn file_name(package: &str, version: &str) -> String {
    format!("{}-{version}.tgz", package.trim_start_matches('@').replace('/', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::tests::contents;

    #[test]
    fn launcher_needs_the_program_of_each_platform_in_its_own_version() {
        let manifest = launcher_manifest(&contents(&PLATFORMS[0]));
        assert_eq!((&manifest["name"], &manifest["version"]), (&json!("antiphon"), &json!("0.2.0")));
        assert_eq!(manifest["bin"], json!({"antiphon": "bin/antiphon.js"}));
        let programs = manifest["optionalDependencies"].as_object().unwrap();
        assert_eq!(programs.len(), PLATFORMS.len());
        for platform in &PLATFORMS {
            assert_eq!(programs[&platform.npm_package()], "0.2.0");
        }
    }

    #[test]
    fn program_is_installed_on_its_platform_only() {
        for platform in &PLATFORMS {
            let manifest = program_manifest(&contents(platform), platform);
            assert_eq!(manifest["name"], platform.npm_package());
            assert_eq!(manifest["version"], "0.2.0");
            assert_eq!(manifest["os"], json!([platform.node_os()]));
            assert_eq!(manifest["cpu"], json!([platform.node_cpu()]));
            assert_eq!(manifest.get("libc").is_some(), platform.target.contains("linux"), "{platform:?}");
        }
    }

    #[test]
    fn launcher_finds_the_program_under_the_names_of_the_packages() {
        assert!(LAUNCHER.starts_with("#!/usr/bin/env node\n"));
        assert!(LAUNCHER.contains("`@antiphon-rs/cli-${process.platform}-${process.arch}`"));
        assert!(LAUNCHER.contains("`${name}/bin/${file}`"));
    }

    #[test]
    fn tarball_is_named_as_npm_names_it() {
        assert_eq!(file_name("@antiphon-rs/cli-linux-x64", "0.2.0"), "antiphon-rs-cli-linux-x64-0.2.0.tgz");
        assert_eq!(file_name("antiphon", "0.2.0"), "antiphon-0.2.0.tgz");
    }
}
