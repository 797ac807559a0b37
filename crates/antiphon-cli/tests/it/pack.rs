//! `antiphon pack`.

use std::io::Read as _;

use insta::assert_snapshot;
use serde_json::{Value, json};
use zip::ZipArchive;

use crate::ground::Folder;

const CARGO: &str = r#"
[package]
name = "desk"
version = "1.2.3"
description = "A desk"
authors = ["Ada <ada@example.com>"]
license = "MIT"
repository = "https://github.com/ada/desk"
"#;

const SERVER: &str = r#"{
  "name": "io.github.ada/desk",
  "title": "Desk",
  "description": "Answers questions of customers",
  "version": "1.2.3",
  "packages": [
    {
      "registryType": "cargo",
      "identifier": "desk",
      "version": "1.2.3",
      "transport": {"type": "stdio"},
      "packageArguments": [
        {"type": "positional", "value": "serve"},
        {"type": "named", "name": "--level", "value": "info"},
        {"type": "named", "name": "--data"}
      ],
      "environmentVariables": [
        {"name": "API_KEY", "description": "The key of the service", "isRequired": true, "isSecret": true},
        {"name": "PAGE_SIZE", "format": "number", "default": "20"},
        {"name": "MODE", "value": "bundle"}
      ]
    }
  ]
}"#;

/// An image of a Linux program: only its first bytes matter.
const PROGRAM: &[u8] = b"\x7fELF and more";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and more";

fn project() -> Folder {
    let folder = Folder::new();
    folder.write("Cargo.toml", CARGO);
    folder.write("server.json", SERVER);
    std::fs::write(folder.path().join("desk"), PROGRAM).unwrap();
    folder
}

fn archive(folder: &Folder, name: &str) -> ZipArchive<std::fs::File> {
    ZipArchive::new(std::fs::File::open(folder.path().join(name)).unwrap()).unwrap()
}

#[tokio::test]
async fn bundle_has_the_program_and_a_manifest() {
    let folder = project();
    std::fs::write(folder.path().join("icon.png"), PNG).unwrap();
    let packed = folder.run(&["pack", "--binary", "desk", "--json"]).await;
    assert_eq!(packed.code, Some(0), "{packed:?}");
    assert_eq!(
        packed.err,
        "warning: the bundle omits the argument `--data`, which has no fixed value in `server.json`\n"
    );
    let value = packed.json();
    assert_eq!((&value["file"], &value["platform"]), (&json!("desk-1.2.3.mcpb"), &json!("linux")));
    assert_eq!(value["sha256"].as_str().unwrap().len(), 64);

    let mut archive = archive(&folder, "desk-1.2.3.mcpb");
    let names: Vec<String> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    assert_eq!(names, ["manifest.json", "icon.png", "server/desk"]);
    let mut program = archive.by_name("server/desk").unwrap();
    assert_eq!(program.unix_mode().unwrap() & 0o777, 0o755);
    let mut bytes = Vec::new();
    program.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, PROGRAM);
    drop(program);
    let mut manifest = String::new();
    archive.by_name("manifest.json").unwrap().read_to_string(&mut manifest).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&manifest).unwrap(), value["manifest"]);
    assert_snapshot!(manifest, @r#"
    {
      "manifest_version": "0.3",
      "name": "desk",
      "display_name": "Desk",
      "version": "1.2.3",
      "description": "Answers questions of customers",
      "author": {
        "name": "Ada",
        "email": "ada@example.com"
      },
      "repository": {
        "type": "git",
        "url": "https://github.com/ada/desk"
      },
      "icon": "icon.png",
      "server": {
        "type": "binary",
        "entry_point": "server/desk",
        "mcp_config": {
          "command": "${__dirname}/server/desk",
          "args": [
            "serve",
            "--level",
            "info"
          ],
          "env": {
            "API_KEY": "${user_config.api_key}",
            "PAGE_SIZE": "${user_config.page_size}",
            "MODE": "bundle"
          }
        }
      },
      "license": "MIT",
      "compatibility": {
        "platforms": [
          "linux"
        ]
      },
      "user_config": {
        "api_key": {
          "type": "string",
          "title": "API_KEY",
          "description": "The key of the service",
          "required": true,
          "sensitive": true
        },
        "page_size": {
          "type": "number",
          "title": "PAGE_SIZE",
          "description": "PAGE_SIZE",
          "required": false,
          "default": 20
        }
      }
    }
    "#);
}

#[tokio::test]
async fn same_files_give_the_same_bundle() {
    let folder = project();
    let digest = async |out: &str| {
        let packed = folder.run(&["pack", "--binary", "desk", "--out", out, "--json"]).await.json();
        (packed["sha256"].clone(), packed["bytes"].clone())
    };
    assert_eq!(digest("a.mcpb").await, digest("b.mcpb").await);
    // A bundle is replaced.
    std::fs::write(folder.path().join("desk"), b"MZ for Windows").unwrap();
    let packed = folder.run(&["pack", "--binary", "desk", "--out", "a.mcpb"]).await;
    assert!(packed.err.contains("created a.mcpb for win32: "), "{packed:?}");
    assert!(archive(&folder, "a.mcpb").by_name("server/desk.exe").is_ok());
}

#[tokio::test]
async fn project_without_server_json_is_packed() {
    let folder = Folder::new();
    folder.write("Cargo.toml", "[package]\nname = \"desk\"\nversion = \"0.1.0\"\n");
    let missing = folder.run_with(&["pack"], &[("CARGO_TARGET_DIR", "built")], "").await;
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.err.contains("built/release/desk does not exist"), "{missing:?}");
    std::fs::create_dir_all(folder.path().join("built/release")).unwrap();
    std::fs::write(folder.path().join("built/release/desk"), PROGRAM).unwrap();
    let packed = folder.run_with(&["pack", "--json"], &[("CARGO_TARGET_DIR", "built")], "").await.json();
    let manifest = &packed["manifest"];
    assert_eq!((&manifest["description"], &manifest["author"]), (&json!("desk"), &json!({"name": "desk"})));
    assert_eq!(manifest["server"]["mcp_config"]["args"], json!([]));
}

#[tokio::test]
async fn project_that_cannot_be_packed_is_explained() {
    let folder = Folder::new();
    let pack = async || folder.run(&["pack", "--binary", "desk"]).await;
    assert!(pack().await.err.contains("the working folder has no `Cargo.toml`"));
    folder.write("Cargo.toml", CARGO);
    folder.write("server.json", &SERVER.replace("\"stdio\"", "\"streamable-http\""));
    assert!(pack().await.err.contains("a bundle needs a server over stdio"));
    folder.write("server.json", &SERVER.replace("1.2.3", "1.2.4"));
    assert!(pack().await.err.contains("`Cargo.toml` has version 1.2.3, but `server.json` has 1.2.4"));
    folder.write("server.json", "{");
    assert_eq!(pack().await.code, Some(1));
    folder.write("server.json", SERVER);
    assert!(pack().await.err.contains("desk does not exist; run `cargo build --release`"));
    std::fs::write(folder.path().join("desk"), PROGRAM).unwrap();
    folder.write("icon.png", "a GIF");
    let refused = pack().await;
    assert!(refused.code == Some(2) && refused.err.contains("icon.png is not valid"), "{refused:?}");
    assert!(!folder.path().join("desk-1.2.3.mcpb").exists());
}
