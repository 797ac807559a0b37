//! The files of a new project.

use std::path::{Component, Path, PathBuf};

/// A project to create.
#[derive(Debug)]
pub(crate) struct Project<'a> {
    pub(crate) name: &'a str,
    pub(crate) http: bool,
    /// The GitHub account in the server's name for the MCP Registry.
    pub(crate) owner: &'a str,
    /// The path of Antiphon's source, relative to the project.
    pub(crate) path: Option<&'a Path>,
}

impl Project<'_> {
    /// Returns the path and the content of each file.
    pub(crate) fn files(&self) -> Vec<(&'static str, String)> {
        let (main, readme, server) = if self.http {
            (
                include_str!("template/main.http.rs.in"),
                include_str!("template/README.http.md.in"),
                include_str!("template/server.http.json.in"),
            )
        } else {
            (
                include_str!("template/main.stdio.rs.in"),
                include_str!("template/README.stdio.md.in"),
                include_str!("template/server.stdio.json.in"),
            )
        };
        let fill = |text| self.fill(text);
        vec![
            ("Cargo.toml", fill(include_str!("template/Cargo.toml.in"))),
            ("src/lib.rs", fill(include_str!("template/lib.rs.in"))),
            ("src/main.rs", fill(main)),
            ("tests/greet.rs", fill(include_str!("template/greet.rs.in"))),
            ("README.md", fill(readme)),
            ("server.json", fill(server)),
            ("Dockerfile", fill(include_str!("template/Dockerfile.in"))),
            (".dockerignore", fill(include_str!("template/dockerignore.in"))),
            (".gitignore", fill(include_str!("template/gitignore.in"))),
        ]
    }

    fn fill(&self, template: &str) -> String {
        let path = self.path.map(|path| path.to_string_lossy().replace('\\', "/"));
        let quoted = |text: String| serde_json::Value::from(text).to_string();
        let from = match &path {
            Some(path) => format!("path = {}", quoted(format!("{path}/crates/antiphon"))),
            None => format!("version = \"{}\"", version()),
        };
        let features = if self.http { ", features = [\"http\"]" } else { "" };
        let note = match &path {
            Some(path) => format!(
                "\nThe project is built from Antiphon's source in `{path}`.\nWhen Antiphon is on crates.io, replace `path = …` in `Cargo.toml` with `version = \"{}\"`, twice.\n",
                version()
            ),
            None => format!(
                "\nThe project requires Antiphon {} from crates.io.\nUntil Antiphon is published, create projects with `antiphon new --path FOLDER`, with the folder of Antiphon's source.\n",
                version()
            ),
        };
        let context = path.as_ref().map(|path| format!(" --build-context antiphon={path}"));
        let copy = path.as_ref().map(|path| format!("COPY --from=antiphon . {path}\n"));
        let expose = if self.http { "ENV ADDRESS=0.0.0.0:8000\nEXPOSE 8000\n" } else { "" };
        template
            .replace("{{registry}}", &format!("io.github.{}/{}", self.owner, self.name))
            .replace("{{name}}", self.name)
            .replace("{{crate}}", &self.name.replace('-', "_"))
            .replace("{{from}}", &from)
            .replace("{{features}}", features)
            .replace("{{net}}", if self.http { "\"net\", " } else { "" })
            .replace("{{note}}", &note)
            .replace("{{context}}", &context.unwrap_or_default())
            .replace("{{copy}}", &copy.unwrap_or_default())
            .replace("{{expose}}", expose)
    }
}

/// Returns the version requirement for Antiphon, such as `0.1`, which matches all versions 0.1.x.
fn version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"))
}

/// Returns the path from one folder to another folder. If the two folders share only the root, the path is absolute.
pub(crate) fn relative(from: &Path, to: &Path) -> PathBuf {
    let (from, to): (Vec<Component<'_>>, Vec<_>) = (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    // A relative path through the root is longer than the absolute path, and breaks if the project moves.
    if shared <= 1 {
        return to.iter().collect();
    }
    let up = from[shared..].iter().map(|_| Component::ParentDir);
    up.chain(to[shared..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn way_between_folders_is_short_or_whole() {
        let way = |from: &str, to: &str| relative(from.as_ref(), to.as_ref());
        assert_eq!(way("/home/ada/hello", "/home/ada/antiphon"), Path::new("../antiphon"));
        assert_eq!(way("/home/ada/a/b", "/home/ada"), Path::new("../.."));
        assert_eq!(way("/tmp/hello", "/home/ada/antiphon"), Path::new("/home/ada/antiphon"));
    }

    #[test]
    fn nothing_of_a_template_is_left_unfilled() {
        for http in [false, true] {
            for path in [None, Some(Path::new("../antiphon"))] {
                for (file, text) in (Project { name: "my-server", http, owner: "ada", path }).files() {
                    assert!(!text.contains("{{"), "{file}:\n{text}");
                    assert!(file != "server.json" || text.contains("\"io.github.ada/my-server\""), "{text}");
                    let version = format!("antiphon = {{ version = \"{}\"", version());
                    assert!(file != "Cargo.toml" || path.is_some() || text.contains(&version), "{text}");
                }
            }
        }
    }

    /// The workspace compiles and tests the example project. So the comparison with the example ensures that new
    /// projects compile.
    #[test]
    fn example_is_what_the_template_creates() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/new-project");
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        for (http, main) in [(true, "src/main.rs"), (false, "src/stdio.rs")] {
            let project = Project { name: "new-project", http, owner: "ada", path: None };
            for (file, text) in project.files() {
                let example = if file == "src/main.rs" { main } else { file };
                if example.starts_with("src/") || example.starts_with("tests/") {
                    assert_eq!(text, read(example), "{example} differs from the template");
                }
            }
        }
        // The names of the dependencies must be equal. The versions and features in the example come from the
        // workspace.
        let names = |manifest: &str, table: &str| -> Vec<String> {
            let manifest: toml::Table = manifest.parse().unwrap();
            manifest[table].as_table().unwrap().keys().cloned().collect()
        };
        let created = Project { name: "new-project", http: true, owner: "ada", path: None };
        let manifest = created.fill(include_str!("template/Cargo.toml.in"));
        for table in ["dependencies", "dev-dependencies"] {
            assert_eq!(names(&manifest, table), names(&read("Cargo.toml"), table));
        }
    }
}
