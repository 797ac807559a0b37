//! The Python wheel, for `uvx antiphon` and `pipx install antiphon`. It contains no Python code.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::archive::{Entry, write_zip};
use super::{Contents, NAME};

/// Writes the wheel.
pub(super) fn write(contents: &Contents, folder: &Path) -> Result<PathBuf> {
    let version = python_version(&contents.version)?;
    let tag = format!("py3-none-{}", contents.platform.wheel_tag(&contents.program)?);
    let wheel = folder.join(format!("{NAME}-{version}-{tag}.whl"));
    write_zip(&wheel, &entries(contents, &version, &tag))?;
    Ok(wheel)
}

/// The files of the wheel. `RECORD` is the last, because it has the hashes of the others.
fn entries<'a>(contents: &'a Contents, version: &str, tag: &str) -> Vec<Entry<'a>> {
    let info = format!("{NAME}-{version}.dist-info");
    let program = format!("{NAME}-{version}.data/scripts/{}", contents.platform.program());
    let mut entries = vec![Entry::program(program, &contents.program)];
    for (name, license) in contents.licenses() {
        entries.push(Entry::file(format!("{info}/licenses/{name}"), license.as_bytes()));
    }
    entries.push(Entry::file(format!("{info}/METADATA"), metadata(contents, version).into_bytes()));
    let about = format!("Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\nTag: {tag}\n");
    entries.push(Entry::file(format!("{info}/WHEEL"), about.into_bytes()));
    let name = format!("{info}/RECORD");
    let record = hashes(&entries, &name);
    entries.push(Entry::file(name, record.into_bytes()));
    entries
}

/// The text of `METADATA`: the fields, an empty line, and the description.
fn metadata(contents: &Contents, version: &str) -> String {
    let Contents { description, keywords, license, repository, .. } = contents;
    let mut metadata = format!(
        "Metadata-Version: 2.4\nName: {NAME}\nVersion: {version}\nSummary: {description}\nKeywords: {}\n\
         License-Expression: {license}\n",
        keywords.join(",")
    );
    for (name, _) in contents.licenses() {
        let _ = writeln!(metadata, "License-File: {name}");
    }
    let _ = write!(
        metadata,
        "Requires-Python: >=3.8\nProject-URL: Repository, {repository}\nDescription-Content-Type: text/markdown\n\n{}",
        contents.readme()
    );
    metadata
}

/// The text of `RECORD`: path, hash and size of each file. The file itself has neither a hash nor a size.
fn hashes(entries: &[Entry<'_>], record: &str) -> String {
    let mut lines = String::new();
    for Entry { name, bytes, .. } in entries {
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        let _ = writeln!(lines, "{name},sha256={hash},{}", bytes.len());
    }
    lines + record + ",,\n"
}

/// The version in Python's spelling: `0.2.0-rc.1` is `0.2.0rc1`.
fn python_version(version: &str) -> Result<String> {
    let Some((release, stage)) = version.split_once('-') else { return Ok(version.to_owned()) };
    let stages = [("alpha.", "a"), ("beta.", "b"), ("rc.", "rc")];
    let spelled = stages.iter().find_map(|(ours, pythons)| {
        let number = stage.strip_prefix(ours)?.parse::<u32>().ok()?;
        Some(format!("{release}{pythons}{number}"))
    });
    spelled.with_context(|| {
        format!(
            "the version `{version}` has no spelling in Python; end it with `-alpha.N`, `-beta.N` or `-rc.N`"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use super::*;
    use crate::package::{platform::PLATFORMS, tests::contents};

    #[test]
    fn wheel_is_named_by_its_tags_and_records_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = write(&contents(&PLATFORMS[0]), folder.path()).unwrap();
        assert_eq!(wheel.file_name().unwrap(), "antiphon-0.2.0-py3-none-manylinux_2_34_x86_64.whl");
        let mut zip = zip::ZipArchive::new(File::open(wheel).unwrap()).unwrap();
        let mut read = |name: &str| {
            let mut bytes = Vec::new();
            zip.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        };
        let record = String::from_utf8(read("antiphon-0.2.0.dist-info/RECORD")).unwrap();
        let lines: Vec<Vec<&str>> = record.lines().map(|line| line.split(',').collect()).collect();
        let (last, files) = lines.split_last().unwrap();
        assert_eq!(*last, ["antiphon-0.2.0.dist-info/RECORD", "", ""]);
        let names: Vec<&str> = files.iter().map(|line| line[0]).collect();
        let expected = [
            "antiphon-0.2.0.data/scripts/antiphon",
            "antiphon-0.2.0.dist-info/licenses/LICENSE-APACHE",
            "antiphon-0.2.0.dist-info/licenses/LICENSE-MIT",
            "antiphon-0.2.0.dist-info/METADATA",
            "antiphon-0.2.0.dist-info/WHEEL",
        ];
        assert_eq!(names, expected);
        for line in files {
            let bytes = read(line[0]);
            let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(&bytes));
            assert_eq!((line[1], line[2]), (&*format!("sha256={hash}"), &*bytes.len().to_string()));
        }
        let about = String::from_utf8(read("antiphon-0.2.0.dist-info/WHEEL")).unwrap();
        assert!(about.contains("Root-Is-Purelib: false\nTag: py3-none-manylinux_2_34_x86_64\n"), "{about}");
    }

    #[test]
    fn program_of_a_wheel_is_executable() {
        let contents = contents(&PLATFORMS[4]);
        let entries = entries(&contents, "0.2.0", "py3-none-win_amd64");
        let programs: Vec<&str> =
            entries.iter().filter(|entry| entry.is_program).map(|entry| entry.name.as_str()).collect();
        assert_eq!(programs, ["antiphon-0.2.0.data/scripts/antiphon.exe"]);
    }

    #[test]
    fn metadata_has_a_blank_line_before_the_description() {
        let metadata = metadata(&contents(&PLATFORMS[0]), "0.2.0");
        let (fields, description) = metadata.split_once("\n\n").unwrap();
        assert!(fields.contains("Name: antiphon\nVersion: 0.2.0\nSummary: Talk to servers\n"), "{fields}");
        assert!(fields.contains("License-File: LICENSE-MIT\n"), "{fields}");
        assert_eq!(description, "# Readme\n");
    }

    #[test]
    fn version_is_spelled_as_python_spells_it() {
        let spellings = [("0.1.0", "0.1.0"), ("0.2.0-rc.1", "0.2.0rc1"), ("1.0.0-alpha.12", "1.0.0a12")];
        for (ours, pythons) in spellings {
            assert_eq!(python_version(ours).unwrap(), pythons);
        }
        python_version("0.2.0-night").unwrap_err();
    }
}
