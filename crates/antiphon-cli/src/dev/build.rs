//! Runs the build command, at the start and after each change.

use std::{
    path::{Display, Path, PathBuf},
    process::Stdio,
    time::SystemTime,
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::Command,
    sync::mpsc,
};

use super::{
    server::Group,
    watch::{ChangedDuringBuilds, Files},
};

/// The maximum number of lines of a failed build that are reported to the host.
const REPORTED: usize = 100;

/// The option that makes cargo report the programs that it built.
const MESSAGES: &str = "--message-format=json-render-diagnostics";

/// A build command, the files to watch, and the program that it builds.
#[derive(Debug)]
pub(super) struct Build {
    words: Vec<String>,
    folder: PathBuf,
    roots: Vec<PathBuf>,
    /// The program of the server and its arguments. If the list is empty, cargo reports which program it has built.
    command: Vec<String>,
}

/// An event that the build task sends.
#[derive(Debug)]
pub(super) enum Event {
    Started,
    /// The build failed. The text is the output of the build.
    Failed(String),
    Built(Built),
}

/// A successful build.
#[derive(Debug)]
pub(super) struct Built {
    /// The program of the server and its arguments.
    pub(super) command: Vec<String>,
    /// Whether the program differs from the program of the last build.
    pub(super) is_new: bool,
}

impl Build {
    /// Creates a `Build` from the options. If the options cannot be combined, returns the reason.
    pub(super) fn new(
        build: &str,
        command: &[String],
        watch: &[PathBuf],
        folder: &Path,
    ) -> Result<Self, String> {
        let mut words = shell_words::split(build)
            .map_err(|_| format!("`--build` has a quote that is not closed: `{build}`"))?;
        if words.is_empty() {
            return Err("`--build` is empty; write a command".into());
        }
        if command.is_empty() {
            let [cargo, verb, ..] = words.as_slice() else { return Err(nameless(build)) };
            if Path::new(cargo).file_stem().is_none_or(|name| name != "cargo") || verb != "build" {
                return Err(nameless(build));
            }
            words.insert(2, MESSAGES.to_owned());
        }
        let roots = match watch {
            [] if command.is_empty() => vec![folder.to_owned()],
            // Every build starts a new process. If the process wrote a file into the project, the file would start
            // another build, and the builds would never end.
            [] => {
                return Err(
                    "a command after `--` needs `--watch`; name the sources, such as `--watch src`".into()
                );
            }
            paths => paths.iter().map(|path| root(folder, path)).collect::<Result<_, _>>()?,
        };
        Ok(Self { words, folder: folder.to_owned(), roots, command: command.to_vec() })
    }

    /// Builds now and after each change, until the receiver of `events` is dropped.
    pub(super) async fn run(self, events: mpsc::Sender<Event>) {
        let mut last = None;
        let mut seen = Files::read(&self.roots).await;
        let mut changes = ChangedDuringBuilds::default();
        loop {
            if events.send(Event::Started).await.is_err() {
                return;
            }
            let event = match self.build().await {
                Ok(command) => {
                    // If cargo did not write the program again, the program has not changed.
                    let state = self.command.is_empty().then(|| (command.clone(), written(&command)));
                    let is_new = state.is_none() || state != last;
                    last = state;
                    Event::Built(Built { command, is_new })
                }
                Err(output) => Event::Failed(output),
            };
            if events.send(event).await.is_err() {
                return;
            }
            // The build command can write files in the watched folders. Do not build again because of these files.
            let built = Files::read(&self.roots).await;
            for output in changes.add(seen.differences(&built)) {
                if changes.is_new_output(&output) {
                    eprintln!(
                        "antiphon dev: the build command writes {}; changes of this file during a build are ignored",
                        self.shown(&output)
                    );
                }
                seen.update(&output, &built);
            }
            let (now, path) = tokio::select! {
                changed = seen.changed(&self.roots) => changed,
                () = events.closed() => return,
            };
            eprintln!("antiphon dev: {} changed", self.shown(&path));
            seen = now;
        }
    }

    /// Returns a path relative to the project.
    fn shown<'a>(&self, path: &'a Path) -> Display<'a> {
        path.strip_prefix(&self.folder).unwrap_or(path).display()
    }

    /// Runs the build command once. Returns the command of the server, or the output of the failed build.
    pub(super) async fn build(&self) -> Result<Vec<String>, String> {
        let [program, arguments @ ..] = self.words.as_slice() else { return Ok(Vec::new()) };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group =
            Group::spawn(&mut command).map_err(|error| format!("cannot start `{program}`: {error}"))?;
        let (Some(out), Some(err)) = (group.child.stdout.take(), group.child.stderr.take()) else {
            return Err("the build has no pipe for its output".into());
        };
        let is_cargo = self.command.is_empty();
        let (out, err) = tokio::join!(read(out, !is_cargo), read(err, true));
        let status = group.child.wait().await.map_err(|error| format!("the build did not end: {error}"))?;
        if !status.success() {
            let output = if is_cargo { err } else { [out, err].concat() };
            return Err(format!("the build failed ({status})\n{}", excerpt(&output)));
        }
        if !is_cargo {
            return Ok(self.command.clone());
        }
        match executables(&out).as_slice() {
            [program] => Ok(vec![program.clone()]),
            [] => Err("the build created no program; write the server's command after `--`".into()),
            many => Err(format!(
                "the build created several programs; select one with `--build 'cargo build --bin NAME'`: {}",
                many.join(", ")
            )),
        }
    }
}

/// Returns a file or folder to watch, without symbolic links.
fn root(folder: &Path, path: &Path) -> Result<PathBuf, String> {
    let found = folder.join(path).canonicalize();
    found.map_err(|error| format!("cannot watch `{}`: {error}; check `--watch`", path.display()))
}

fn nameless(build: &str) -> String {
    format!("`--build {build}` needs the server's command after `--`, because only `cargo build` reports it")
}

/// Reads the lines of a stream, and shows them on standard error.
async fn read(stream: impl AsyncRead + Unpin, shown: bool) -> Vec<String> {
    let mut lines = BufReader::new(stream).split(b'\n');
    let mut read = Vec::new();
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if shown {
            eprintln!("{line}");
        }
        read.push(line);
    }
    read
}

/// Returns the part of a failed build's output that describes the cause.
fn excerpt(lines: &[String]) -> String {
    let first = lines.iter().position(|line| line.starts_with("error"));
    let from = first.unwrap_or(lines.len().saturating_sub(REPORTED));
    let rest = &lines[from..];
    let mut text = rest[..rest.len().min(REPORTED)].join("\n");
    if rest.len() > REPORTED {
        text.push_str("\n…");
    }
    text
}

/// Returns the programs in the messages of cargo.
fn executables(lines: &[String]) -> Vec<String> {
    let messages = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| message["executable"].as_str().map(str::to_owned)).collect()
}

/// Returns the modification time and the size of the program.
fn written(command: &[String]) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(command.first()?).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_command_without_a_program_must_be_cargo_build() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let new = |build: &str, command: &[&str]| {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            Build::new(build, &command, &["src".into()], package).map(|build| build.words)
        };
        assert_eq!(new("cargo build --release", &[]).unwrap(), ["cargo", "build", MESSAGES, "--release"]);
        assert_eq!(new("cargo build", &["./server"]).unwrap(), ["cargo", "build"]);
        assert!(new("make", &[]).unwrap_err().contains("after `--`"));
        assert!(new("cargo test", &[]).is_err());
        assert!(new("make 'x", &["./server"]).unwrap_err().contains("quote"));
    }

    #[test]
    fn report_of_a_failed_build_begins_with_the_first_error() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(excerpt(&lines("warning: x\nerror[E0308]: y\n  --> src")), "error[E0308]: y\n  --> src");
        let long: Vec<String> = (0..REPORTED + 20).map(|line| line.to_string()).collect();
        assert!(excerpt(&long).starts_with("20\n"), "without an error, the last lines count");
    }

    #[test]
    fn programs_are_read_from_the_messages_of_cargo() {
        let lines =
            [r#"{"reason":"compiler-artifact","executable":null}"#, r#"{"executable":"/t/x"}"#, "text"];
        assert_eq!(executables(&lines.map(str::to_owned)), ["/t/x"]);
    }
}
