//! Finds changed files by their modification times.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// The interval between two checks of the files.
const INTERVAL: Duration = Duration::from_millis(300);
/// If a file changes during this number of consecutive builds, the file counts as output of the build command.
const OUTPUT: u32 = 3;

/// The watched files. Each path is mapped to the modification time and the size of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl Files {
    /// Reads the files in the folders `roots`, without build output, hidden files, and temporary files of editors.
    pub(super) async fn read(roots: &[PathBuf]) -> Self {
        let roots = roots.to_vec();
        let read = tokio::task::spawn_blocking(move || {
            let mut files = Self::default();
            for root in &roots {
                files.add(root);
            }
            files
        });
        read.await.unwrap_or_default()
    }

    /// Waits until at least one file differs from the state `self`. After the first change, waits until all files stay
    /// unchanged for one interval. Returns the new state of the files, and one changed file.
    pub(super) async fn changed(&self, roots: &[PathBuf]) -> (Self, PathBuf) {
        let mut last: Option<Self> = None;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let now = Self::read(roots).await;
            if last.as_ref() == Some(&now)
                && let Some(path) = self.differences(&now).pop_first()
            {
                return (now, path);
            }
            last = Some(now);
        }
    }

    /// Returns the files that differ between the two states.
    pub(super) fn differences(&self, other: &Self) -> BTreeSet<PathBuf> {
        let paths = self.0.keys().chain(other.0.keys());
        paths.filter(|path| self.0.get(*path) != other.0.get(*path)).cloned().collect()
    }

    /// Takes the state of one file from `other`.
    pub(super) fn update(&mut self, path: &Path, other: &Self) {
        match other.0.get(path) {
            Some(state) => self.0.insert(path.to_owned(), *state),
            None => self.0.remove(path),
        };
    }

    fn add(&mut self, path: &Path) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        if !metadata.is_dir() {
            self.0.insert(path.to_owned(), (metadata.modified().ok(), metadata.len()));
            return;
        }
        // Cargo and other tools put this file into folders with generated files.
        if path.join("CACHEDIR.TAG").exists() {
            return;
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if !is_ignored(&entry.file_name().to_string_lossy()) {
                self.add(&entry.path());
            }
        }
    }
}

/// The files that changed during the last build, each with the number of consecutive builds during which it changed.
#[derive(Debug, Default)]
pub(super) struct ChangedDuringBuilds(BTreeMap<PathBuf, u32>);

impl ChangedDuringBuilds {
    /// Adds the files that changed during one build. Returns the files that the build command writes.
    pub(super) fn add(&mut self, changed: BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let last = std::mem::take(&mut self.0);
        for path in changed {
            let count = last.get(&path).map_or(1, |count| count.saturating_add(1));
            self.0.insert(path, count);
        }
        let outputs = self.0.iter().filter(|(_, count)| **count >= OUTPUT);
        outputs.map(|(path, _)| path.clone()).collect()
    }

    /// Returns `true` if the last build has shown for the first time that the build command writes the file `path`.
    pub(super) fn is_new_output(&self, path: &Path) -> bool {
        self.0.get(path) == Some(&OUTPUT)
    }
}

fn is_ignored(name: &str) -> bool {
    // Vim creates `4913` to test whether it can write in a folder.
    let is_folder_of_tools = matches!(name, "target" | "node_modules" | "4913");
    let is_of_editor = name.ends_with('~') || name.starts_with('#');
    name.starts_with('.') || is_folder_of_tools || is_of_editor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn change_of_a_source_is_found_and_other_files_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let roots = [folder.path().to_owned()];
        write("src/lib.rs", "1");
        let before = Files::read(&roots).await;
        for ignored in ["target/debug/x", ".git/index", "src/.lib.rs.swp", "src/lib.rs~", "out/CACHEDIR.TAG"]
        {
            write(ignored, "1");
        }
        write("out/x", "1");
        assert_eq!(before.differences(&Files::read(&roots).await), BTreeSet::new());
        write("src/lib.rs", "12");
        let after = Files::read(&roots).await;
        let source = BTreeSet::from([folder.path().join("src/lib.rs")]);
        assert_eq!(before.differences(&after), source);
        fs::remove_file(folder.path().join("src/lib.rs")).unwrap();
        assert_eq!(after.differences(&Files::read(&roots).await), source);
    }

    #[test]
    fn file_that_changes_during_three_builds_in_a_row_is_written_by_the_build_command() {
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
        let mut changes = ChangedDuringBuilds::default();
        assert_eq!(changes.add(files(&["output", "source"])), Vec::<PathBuf>::new());
        assert_eq!(changes.add(files(&["output", "source"])), Vec::<PathBuf>::new());
        assert_eq!(changes.add(files(&["output"])), [Path::new("output")]);
        assert!(changes.is_new_output(Path::new("output")));
        assert_eq!(changes.add(files(&["output", "source"])), [Path::new("output")], "the source was edited");
        assert!(!changes.is_new_output(Path::new("output")));
    }
}
