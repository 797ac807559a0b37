//! A terminal to drive: tmux, on a socket of its own.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use crate::support::Folder;

/// What is run after the command: says how it ended, and whether it gave the terminal back.
const AFTER: &str = r#"code=$?; case "$(stty -a)" in *-icanon*) echo "[left raw]";; esac; echo "[ended $code]"; exec sleep 600"#;

/// A window of 100 columns and 30 rows in which the command runs.
pub(crate) struct Pane {
    socket: String,
    folder: Folder,
    patience: Duration,
}

impl Pane {
    /// Runs the command with these arguments; none if there is no tmux. In CI there has to be.
    #[expect(clippy::print_stderr, reason = "who runs the tests should know what they do not check")]
    pub(crate) fn run(arguments: &[&str]) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "there is no tmux, and CI needs it");
            eprintln!("skipped: there is no tmux");
            return None;
        }
        let folder = Folder::new();
        let socket = folder.path().join("tmux").to_str().unwrap().to_owned();
        let words = [env!("CARGO_BIN_EXE_antiphon")].into_iter().chain(arguments.iter().copied());
        // It stays after the command has ended, so that the end can be read.
        let line = format!("trap : INT; {}; {AFTER}", shell_words::join(words));
        let pane = Self { socket, folder, patience: Duration::from_secs(30) };
        let config = format!("ANTIPHON_CONFIG_DIR={}", pane.folder.path().display());
        let folder = pane.folder.path().to_str().unwrap();
        let session = ["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "-c", folder];
        pane.tmux(
            &[&session[..], &["-e", &config, "-e", "NO_COLOR=1", "env", "-u", "COLUMNS", "sh", "-c", &line]]
                .concat(),
        );
        Some(pane)
    }

    /// Waits longer: a real model takes its time.
    pub(crate) fn patient(mut self) -> Self {
        self.patience = Duration::from_mins(5);
        self
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", &self.socket]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What is on the screen.
    pub(crate) fn screen(&self) -> String {
        let text = self.tmux(&["capture-pane", "-p"]);
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned() + "\n"
    }

    /// Waits until the screen is as it should be.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + self.patience;
        loop {
            let screen = self.screen();
            assert!(!screen.contains("[left raw]"), "the terminal was not given back:\n{screen}");
            if is(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "never {what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("`{text}`"), |screen| screen.contains(text))
    }

    /// Presses keys, in tmux's words: `Enter`, `Down`, `C-c`.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Interrupts the command from outside, as `kill` does.
    pub(crate) fn interrupt(&self) {
        let shell = self.tmux(&["list-panes", "-F", "#{pane_pid}"]);
        let found = Command::new("pgrep").args(["-P", shell.trim()]).output().unwrap();
        let command = String::from_utf8(found.stdout).unwrap();
        assert!(Command::new("kill").args(["-INT", command.trim()]).status().unwrap().success());
    }

    /// Types text.
    pub(crate) fn write(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Writes the screen to `<name>.txt` in the folder that `ANTIPHON_TEST_SCREENS` names, if it is set: for the docs.
    pub(crate) fn keep(&self, name: &str) {
        if let Some(folder) = std::env::var_os("ANTIPHON_TEST_SCREENS") {
            std::fs::create_dir_all(&folder).unwrap();
            let path = std::path::Path::new(&folder).join(format!("{name}.txt"));
            std::fs::write(path, self.screen()).unwrap();
        }
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
}
