//! How the page comes to the browser.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::support::Folder;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn browser_is_led_to_the_page_without_telling_others_the_token() {
    let folder = Folder::new();
    let folder = folder.path();
    // A browser that notes what it is to open, and tells when it has.
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let browser = folder.join(program);
    fs::write(&browser, "#!/bin/sh\necho \"$@\" > \"$NOTED\"\n").unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let noted = folder.join("noted");
    let made = Command::new("mkfifo").arg(&noted).status().await.unwrap();
    assert!(made.success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
    command.arg("studio").env("ANTIPHON_CONFIG_DIR", folder).env("PATH", folder).env("NOTED", &noted);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    let (_, token) = line.trim().split_once("/?token=").expect("the address is printed");
    let given = tokio::task::spawn_blocking(move || fs::read_to_string(noted).unwrap()).await.unwrap();
    assert!(!given.contains(token), "the token is on a command line: {given}");
    let file = PathBuf::from(given.trim());
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    assert!(fs::read_to_string(&file).unwrap().contains(&format!("content=\"0; url={}\"", line.trim())));
    let id = child.id().unwrap().to_string();
    Command::new("kill").args(["-INT", &id]).status().await.unwrap();
    child.wait().await.unwrap();
    assert!(!file.parent().unwrap().exists(), "it is left behind");
}
