//! `antiphon install` and `antiphon uninstall`.
#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::ground::{Ended, Folder};

/// The program in the expected files.
const PROGRAM: [&str; 5] = ["--env", "DESK_MODE=fast", "--", "/opt/desk/bin/desk", "--quiet"];
/// The folder of desktop programs, below the home folder.
const DATA: &str = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };

/// A configuration file, before and after the installation.
struct Case {
    host: &'static str,
    scope: &'static str,
    path: String,
    before: &'static str,
    after: &'static str,
}

macro_rules! fixture {
    ($name:literal, $extension:literal) => {
        (
            include_str!(concat!("install/", $name, ".", $extension)),
            include_str!(concat!("install/", $name, ".after.", $extension)),
        )
    };
}

fn cases() -> Vec<Case> {
    let case = |host, (before, after), user: &str, project: &str| {
        let file = |scope, path: String| Case { host, scope, path, before, after };
        let user = (!user.is_empty()).then(|| file("user", format!("home/{user}")));
        let project = (!project.is_empty()).then(|| file("project", project.to_owned()));
        user.into_iter().chain(project)
    };
    let claude_desktop = format!("{DATA}/Claude/claude_desktop_config.json");
    let vscode = format!("{DATA}/Code/User/mcp.json");
    let devin = ".config/devin/mcp_config.json";
    [
        case("claude-code", fixture!("claude-code", "json"), ".claude.json", ".mcp.json"),
        case("claude-desktop", fixture!("claude-desktop", "json"), &claude_desktop, ""),
        case("vscode", fixture!("vscode", "json"), &vscode, ".vscode/mcp.json"),
        case("cursor", fixture!("cursor", "json"), ".cursor/mcp.json", ".cursor/mcp.json"),
        case("codex", fixture!("codex", "toml"), ".codex/config.toml", ".codex/config.toml"),
        case("gemini-cli", fixture!("gemini-cli", "json"), ".gemini/settings.json", ".gemini/settings.json"),
        case("opencode", fixture!("opencode", "json"), ".config/opencode/opencode.json", "opencode.json"),
        case("opencode", fixture!("opencode-2", "json"), ".config/opencode/opencode.jsonc", "opencode.jsonc"),
        case("goose", fixture!("goose", "yaml"), ".config/goose/config.yaml", ""),
        case("zed", fixture!("zed", "json"), ".config/zed/settings.json", ".zed/settings.json"),
        case("windsurf", fixture!("windsurf", "json"), devin, ".devin/mcp_config.json"),
        case("windsurf", fixture!("windsurf", "json"), ".codeium/windsurf/mcp_config.json", ""),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Runs the command for a user whose home is in the folder.
async fn run(folder: &Folder, arguments: &[&str]) -> Ended {
    let home = folder.path().join("home");
    let mut env = vec![("HOME", home.to_str().unwrap())];
    // An empty variable has no effect.
    let variables =
        ["XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "GOOSE_PATH_ROOT"];
    env.extend(variables.map(|variable| (variable, "")));
    folder.run_with(arguments, &env, "").await
}

async fn install(folder: &Folder, host: &str, scope: &str, more: &[&str]) -> Ended {
    run(folder, &[&["install", host, "--name", "desk", "--scope", scope][..], more].concat()).await
}

async fn uninstall(folder: &Folder, host: &str, scope: &str) -> Ended {
    run(folder, &["uninstall", host, "--name", "desk", "--scope", scope]).await
}

/// Writes a file, with its folders.
fn place(folder: &Folder, path: &str, text: &str) -> PathBuf {
    let path = folder.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn install_changes_only_the_entry_and_uninstall_restores_the_file() {
    for Case { host, scope, path, before, after } in cases() {
        let folder = Folder::new();
        let path = place(&folder, &path, before);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let read = || fs::read_to_string(&path).unwrap();
        let label = format!("{host} {}", path.display());

        let installed = install(&folder, host, scope, &PROGRAM).await;
        assert_eq!(installed.code, Some(0), "{label}: {installed:?}");
        assert_eq!(read(), after, "{label}");
        assert_eq!(mode(&path), 0o640, "{label}");
        assert!(installed.err.contains("\nnext: "), "{label}: {installed:?}");

        let again = install(&folder, host, scope, &PROGRAM).await;
        assert!(again.code == Some(0) && again.err.contains("is already in"), "{label}: {again:?}");
        assert_eq!(read(), after, "{label}");

        let removed = uninstall(&folder, host, scope).await;
        assert_eq!(removed.code, Some(0), "{label}: {removed:?}");
        assert_eq!(read(), before, "{label}");
        assert_eq!(uninstall(&folder, host, scope).await.code, Some(3), "{label}");
        // The temporary file is gone.
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().filter(is_temporary).count(), 0, "{label}");
    }
}

fn is_temporary(entry: &std::io::Result<fs::DirEntry>) -> bool {
    entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".antiphon-")
}

#[tokio::test]
async fn missing_file_is_created_and_stays_valid_without_servers() {
    let folder = Folder::new();
    let list = async || run(&folder, &["install", "--list", "--json"]).await.json();
    assert_eq!(list().await, json!([]));
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for Case { host, scope, path, .. } in cases() {
        // A host with two forms creates the current one.
        if seen.contains(&(host, scope)) {
            continue;
        }
        seen.push((host, scope));
        let path = folder.path().join(path);
        let installed = install(&folder, host, scope, &["--", "/bin/sh", "-c", "desk"]).await;
        assert_eq!(installed.code, Some(0), "{installed:?}");
        if scope == "user" {
            assert_eq!(mode(&path), 0o600, "{host}");
        }
        let found = list().await;
        let (server, file) = ("/bin/sh -c desk", path.display().to_string());
        let file = file.replace(&*folder.path().to_string_lossy(), "[folder]");
        let expected = json!([{"host": host, "scope": scope, "name": "desk", "where": server, "file": file}]);
        assert_eq!(found, expected);
        assert_eq!(uninstall(&folder, host, scope).await.code, Some(0), "{host}");
        assert_eq!(list().await, json!([]), "{host}");
        assert!(path.is_file(), "{host}");
    }
    assert_eq!(seen.len(), 18);
}

#[tokio::test]
async fn file_that_is_not_valid_is_left_alone() {
    for (host, path, text, part) in [
        ("cursor", "home/.cursor/mcp.json", "{\n  \"mcpServers\": {\n}\n", "at line 4 column"),
        ("zed", "home/.config/zed/settings.json", "// note\n{\"a\": sesame}\n", "at line 2 column 7"),
        ("codex", "home/.codex/config.toml", "a = 1\nb = \n", "at line "),
        ("goose", "home/.config/goose/config.yaml", "a: 1\nextensions: {\n", "line "),
        ("cursor", "home/.cursor/mcp.json", "[]", "not an object"),
    ] {
        let folder = Folder::new();
        let path = place(&folder, path, text);
        let installed = install(&folder, host, "user", &PROGRAM).await;
        for refused in [installed, uninstall(&folder, host, "user").await] {
            assert_eq!(refused.code, Some(1), "{refused:?}");
            assert!(refused.err.contains(" is not valid: ") && refused.err.contains(part), "{refused:?}");
            assert!(!refused.err.contains("sesame"), "{refused:?}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let listed = run(&folder, &["install", "--list", "--json"]).await;
        assert!(listed.json() == json!([]) && listed.err.contains("was skipped"), "{listed:?}");
    }
}

#[tokio::test]
async fn entry_of_another_server_needs_force() {
    for (host, path) in [
        ("claude-desktop", format!("home/{DATA}/Claude/claude_desktop_config.json")),
        ("codex", "home/.codex/config.toml".to_owned()),
        ("goose", "home/.config/goose/config.yaml".to_owned()),
    ] {
        let folder = Folder::new();
        install(&folder, host, "user", &["--", "/bin/sh", "--token", "sesame"]).await;
        let file = folder.path().join(&path);
        let before = fs::read_to_string(&file).unwrap();
        let refused = install(&folder, host, "user", &PROGRAM).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let expected = format!(
            "error: [folder]/{path} has another entry `desk`: it is /bin/sh --token '***'; \
             choose another name, or use `--force`\n"
        );
        assert_eq!(refused.err, expected);
        assert_eq!(fs::read_to_string(&file).unwrap(), before);

        let replaced = install(&folder, host, "user", &[&["--force"][..], &PROGRAM].concat()).await;
        assert!(replaced.code == Some(0) && replaced.err.contains("replaced `desk` in"), "{replaced:?}");
        let (fresh, direct) = (Folder::new(), fs::read_to_string(&file).unwrap());
        install(&fresh, host, "user", &PROGRAM).await;
        assert_eq!(fs::read_to_string(fresh.path().join(&path)).unwrap(), direct);
    }
}

#[tokio::test]
async fn link_is_followed_and_a_read_only_file_is_refused() {
    let folder = Folder::new();
    let target = place(&folder, "dotfiles/mcp.json", "{}\n");
    let link = place(&folder, "home/.cursor/other", "").with_file_name("mcp.json");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert_eq!(install(&folder, "cursor", "user", &PROGRAM).await.code, Some(0));
    assert!(link.is_symlink());
    let text = fs::read_to_string(&target).unwrap();
    assert!(text.contains("/opt/desk/bin/desk"), "{text}");

    fs::set_permissions(&target, fs::Permissions::from_mode(0o444)).unwrap();
    let refused = uninstall(&folder, "cursor", "user").await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("the file is read-only"), "{refused:?}");
    assert_eq!(fs::read_to_string(&target).unwrap(), text);
}

#[tokio::test]
async fn url_has_the_form_of_each_host() {
    let url = "https://desk.example.com/mcp";
    let headers = json!({"Authorization": "***"});
    let forms = [
        ("claude-code", json!({"type": "http", "url": url, "headers": headers})),
        ("vscode", json!({"type": "http", "url": url, "headers": headers})),
        ("cursor", json!({"url": url, "headers": headers})),
        ("codex", json!({"url": url, "http_headers": headers})),
        ("gemini-cli", json!({"httpUrl": url, "headers": headers})),
        ("opencode", json!({"type": "remote", "url": url, "enabled": true, "headers": headers})),
        (
            "goose",
            json!({
                "enabled": true,
                "type": "streamable_http",
                "name": "desk",
                "description": "desk",
                "uri": url,
                "headers": headers,
                "timeout": 300,
            }),
        ),
        ("zed", json!({"url": url, "headers": headers})),
        ("windsurf", json!({"url": url, "transport": "http", "headers": headers})),
    ];
    for (host, entry) in forms {
        let folder = Folder::new();
        let more = ["--url", url, "--header", "Authorization: Bearer sesame", "--json"];
        let shown = install(&folder, host, "user", &[&more[..], &["--dry-run"]].concat()).await;
        assert_eq!(shown.json()["entry"], entry, "{host}");
        assert_eq!(shown.json()["written"], json!(false), "{host}");
        assert!(!shown.out.contains("sesame"), "{shown:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{host}");

        let installed = install(&folder, host, "user", &more).await.json();
        assert_eq!((&installed["change"], &installed["written"]), (&json!("added"), &json!(true)), "{host}");
        let file = installed["file"].as_str().unwrap().replace("[folder]", &folder.path().to_string_lossy());
        assert!(fs::read_to_string(file).unwrap().contains("Bearer sesame"), "{host}");
    }
    let folder = Folder::new();
    place(&folder, "home/.codeium/windsurf/mcp_config.json", "");
    let older = install(&folder, "windsurf", "user", &["--url", url, "--dry-run", "--json"]).await.json();
    assert_eq!(older["entry"], json!({"serverUrl": url}));
}

#[tokio::test]
async fn output_has_the_next_step_and_no_secrets() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("home")).unwrap();
    let more = ["--env", "API_KEY=sesame", "--", "./desk"];
    let shown = install(&folder, "codex", "project", &[&["--dry-run"][..], &more].concat()).await;
    assert_eq!(shown.out, "[mcp_servers.desk]\ncommand = \"./desk\"\nenv = { API_KEY = \"***\" }\n");
    assert_eq!(shown.err, "dry run: [folder]/.codex/config.toml was not changed\n");

    let installed = install(&folder, "codex", "project", &more).await;
    assert_eq!(
        installed.err,
        "warning: the program `./desk` was not found, so Codex cannot start it\n\
         warning: [folder]/.codex/config.toml contains the values of `--env` and `--header`; \
         do not commit secrets\n\
         added `desk` to the configuration of Codex: [folder]/.codex/config.toml\n\
         next: start Codex in this folder, and trust the project. Codex ignores the file in other projects\n"
    );
    let installed = install(&folder, "claude-code", "user", &["--", "./desk"]).await;
    let text = fs::read_to_string(folder.path().join("home/.claude.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let command = folder.path().join("desk").display().to_string();
    assert_eq!(file["mcpServers"]["desk"]["command"], json!(command), "{installed:?}");
    let listed = run(&folder, &["install", "--list"]).await;
    assert!(listed.out.contains("codex") && listed.out.contains("claude-code"), "{listed:?}");
    let of_one = run(&folder, &["install", "codex", "--list", "--json"]).await.json();
    assert_eq!(of_one.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn unusual_form_is_refused_with_the_text_to_add() {
    for (host, path, text, part) in [
        ("codex", "home/.codex/config.toml", "mcp_servers = { a = { url = 'u' } }\n", "[mcp_servers.desk]\n"),
        ("goose", "home/.config/goose/config.yaml", "extensions: {a: {name: a}}\n", "extensions:\n  desk:\n"),
        ("cursor", "home/.cursor/mcp.json", "{\"mcpServers\": null}", "\"desk\": {\n"),
    ] {
        let folder = Folder::new();
        let path = place(&folder, path, text);
        let refused = install(&folder, host, "user", &["--", "/bin/sh"]).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains(" cannot be edited safely: "), "{refused:?}");
        assert!(refused.err.contains(part), "{refused:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[tokio::test]
async fn wrong_usage_is_explained() {
    let folder = Folder::new();
    for (arguments, part) in [
        (&["claude-desktop", "--name", "desk", "--url", "http://127.0.0.1:1"][..], "Customize > Connectors"),
        (&["goose", "--name", "desk", "--scope", "project", "--", "/bin/sh"], "use `--scope user`"),
        (&["cursor", "--name", "desk"], "pass `--url URL`, or a program after `--`"),
        (&["cursor", "--name", "desk", "--url", "ws://127.0.0.1:1"], "use a URL with http or https"),
        (&["cursor", "--name", "a b", "--", "/bin/sh"], "is not a valid server name"),
        (&["cursor", "--name", "desk", "--env", "A=b", "--url", "http://[::1]"], "a URL takes `--header`"),
        (&["cursor", "--name", "desk", "--header", "A: b", "--", "/bin/sh"], "a program takes `--env`"),
        (&["cursor", "--", "/bin/sh"], "--name <NAME>"),
        (&["--list", "--name", "desk"], "cannot be used with"),
        (&["notepad", "--name", "desk", "--", "/bin/sh"], "claude-code"),
    ] {
        let refused = run(&folder, &[&["install"][..], arguments].concat()).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(part), "{refused:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
