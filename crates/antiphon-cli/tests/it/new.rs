//! `antiphon new`, as a new user would.

use std::{path::Path, process::Stdio};

use insta::assert_snapshot;
use tokio::process::Command;

use crate::ground::Folder;

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[tokio::test]
async fn project_is_rendered_for_its_transport() {
    let folder = Folder::new();
    let refused = folder.run(&["new", "my-hello"]).await;
    assert_snapshot!(refused.whole(), @"
    exit 2
    --- out
    --- err
    error: Antiphon is not on crates.io yet; pass `--path` with the folder of Antiphon's source
    ");
    assert!(!folder.path().join("my-hello").exists(), "a project that does not build is not created");
    let made = folder.run(&["new", "my-hello", "--path", workspace().to_str().unwrap()]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let read = |path: &str| std::fs::read_to_string(folder.path().join(path)).unwrap();
    let manifest = read("my-hello/Cargo.toml");
    let source = manifest.split('"').find(|part| part.ends_with("/crates/antiphon")).unwrap().to_owned();
    assert_snapshot!(manifest.replace(&source, "[source]"), @r#"
    [package]
    name = "my-hello"
    version = "0.1.0"
    edition = "2024"
    rust-version = "1.88"
    publish = false

    [dependencies]
    antiphon = { path = "[source]" }
    schemars = "1"
    serde = { version = "1", features = ["derive"] }
    tokio = { version = "1", features = ["macros", "rt-multi-thread"] }

    [dev-dependencies]
    antiphon = { path = "[source]", features = ["testing"] }
    serde_json = "1"

    # The project is its own workspace, also inside the folder of another one.
    [workspace]
    "#);
    let program = read("my-hello/src/main.rs");
    assert!(program.contains("my_hello::server();") && program.contains("server.build()?.serve_stdio()"));
    assert!(read("my-hello/README.md").contains("The project is built from Antiphon's source"));
    for file in ["src/lib.rs", "README.md", "tests/greet.rs"] {
        assert!(read(&format!("my-hello/{file}")).contains("with_asking"), "{file}");
    }
    assert!(!read("my-hello/Dockerfile").contains("EXPOSE"));
    assert_snapshot!(read("my-hello/server.json"), @r#"
    {
      "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
      "name": "io.github.OWNER/my-hello",
      "title": "my-hello",
      "description": "Greets you by name",
      "version": "0.1.0",
      "packages": [
        {
          "registryType": "cargo",
          "identifier": "my-hello",
          "version": "0.1.0",
          "transport": {
            "type": "stdio"
          }
        }
      ]
    }
    "#);
    // The registry reads the README from crates.io, which drops HTML comments.
    let token = "\n- MCP Registry name: `mcp-name: io.github.OWNER/my-hello`\n";
    assert!(read("my-hello/README.md").contains(token));

    let made = folder.run(&["new", "built", "--path", workspace().to_str().unwrap()]).await;
    assert_snapshot!(made.err, @r#"
    created built in built
    next: cd built
          cargo test
          antiphon call "cargo run --quiet" greet
    "#);

    let arguments = ["new", "web", "--http", "--owner", "ada", "--json", "--path"];
    let made = folder.run(&[&arguments[..], &[workspace().to_str().unwrap()]].concat()).await;
    assert_eq!(made.json()["files"].as_array().unwrap().len(), 9);
    let server: serde_json::Value = serde_json::from_str(&read("web/server.json")).unwrap();
    assert_eq!(server["name"], "io.github.ada/web");
    assert_eq!(server["packages"][0]["transport"]["type"], "streamable-http");
    assert!(read("web/README.md").contains("`mcp-name: io.github.ada/web`"));
    assert!(read("web/Cargo.toml").contains("/crates/antiphon\", features = [\"http\"]"));
    assert!(read("web/Dockerfile").contains("EXPOSE 8000"));
    assert!(read("web/README.md").contains("--build-context antiphon="));
}

#[tokio::test]
async fn folder_with_something_in_it_and_names_of_no_crate_are_refused() {
    let folder = Folder::new();
    folder.write("notes.txt", "mine");
    std::fs::create_dir(folder.path().join("full")).unwrap();
    folder.write("full/notes.txt", "mine");
    for (arguments, part) in [
        (&["new", "full"][..], "not empty"),
        (&["new", "2fast"], "must begin with a letter"),
        (&["new", "async"], "is reserved in Rust"),
        (&["new", "hello", "--owner", "ada/x"], "is not a GitHub account"),
        (&["new", "hello", "--path", "."], "the folder `crates/antiphon` is missing"),
    ] {
        let refused = folder.run(arguments).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(part), "{refused:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path().join("full")).unwrap().count(), 1);
}

/// Both transports in turn, because the second project uses the dependencies that the first has compiled. CI leaves
/// this test out, because it takes minutes. The nightly workflow runs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn project_compiles_and_its_own_test_passes() {
    let folder = Folder::new();
    for arguments in [&["new", "hello-stdio"][..], &["new", "hello-http", "--http"]] {
        let path = ["--path", workspace().to_str().unwrap()];
        let made = folder.run(&[arguments, &path].concat()).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        let project = folder.path().join(arguments[1]);
        // The versions that are here: a test may not depend on what came out today.
        std::fs::copy(workspace().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
        // The profile of the workspace, so that cargo uses the dependencies that are built already.
        let others = workspace_profile()["package"]["*"].as_table().unwrap().clone();
        let settings = others.iter().map(|(name, value)| format!("profile.dev.package.'*'.{name}={value}"));
        let output = Command::new(env!("CARGO"))
            .args(["test", "--offline", "--quiet"])
            .args(settings.flat_map(|setting| ["--config".to_owned(), setting]))
            .current_dir(&project)
            .env("CARGO_TARGET_DIR", target())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("2 passed") && !text.contains("warning"), "{text}");
    }
}

fn workspace_profile() -> toml::Value {
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    manifest["profile"]["dev"].clone()
}

/// Beside the binary under test.
fn target() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_antiphon")).ancestors().nth(2).unwrap()
}
