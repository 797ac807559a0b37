//! Saves the images, audio and other files in results.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Saves the files of a result in a folder and returns their paths. Existing files are not overwritten.
pub(super) fn save_all(folder: &Path, tool: &str, content: &Value) -> Result<Vec<PathBuf>> {
    let mut saved = Vec::new();
    for block in content.as_array().into_iter().flatten() {
        let (kind, data) = match block["type"].as_str() {
            Some("image" | "audio") => (&block["mimeType"], &block["data"]),
            Some("resource") => (&block["resource"]["mimeType"], &block["resource"]["blob"]),
            _ => continue,
        };
        let Some(data) = data.as_str() else { continue };
        let Some(bytes) = decoded(data) else { bail!("a file of the result is not valid base64") };
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        saved.push(fresh(folder, &safe(tool), extension(kind.as_str().unwrap_or_default()), &bytes)?);
    }
    Ok(saved)
}

/// Writes the contents of a resource to a file.
pub(crate) fn save(path: &Path, resource: &Value) -> Result<()> {
    let bytes = match (resource["text"].as_str(), resource["blob"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(blob)) => decoded(blob).context("the resource is not valid base64")?,
        (None, None) => bail!("the resource is empty"),
    };
    fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}

/// Writes a file under the first name that is not in use.
fn fresh(folder: &Path, name: &str, extension: &str, bytes: &[u8]) -> Result<PathBuf> {
    for number in 1..10_000 {
        let path = folder.join(format!("{name}-{number}.{extension}"));
        match File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(bytes).with_context(|| format!("{} cannot be written", path.display()))?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("{} cannot be created", path.display())),
        }
    }
    bail!("{} has too many files named {name}; choose another folder", folder.display())
}

/// Converts a tool's name to a safe part of a file name. The conversion is necessary because servers choose the names
/// of tools.
fn safe(name: &str) -> String {
    let kept = name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let name: String = kept.take(60).collect();
    if name.is_empty() { "result".into() } else { name }
}

fn extension(kind: &str) -> &'static str {
    match kind.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" => "wav",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "text/csv" => "csv",
        "text/plain" => "txt",
        _ => "bin",
    }
}

/// Returns the decoded size of base64 data, as text.
pub(super) fn size(data: &str) -> String {
    let bytes = data.trim_end_matches('=').len() * 3 / 4;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// Decodes base64 of the standard alphabet or the URL alphabet, with or without padding.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0u32);
    for c in text.trim_end().trim_end_matches('=').bytes().filter(|c| !c.is_ascii_whitespace()) {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    (count < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_in_its_usual_forms() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8", b"fo"),
            ("Zm9v", b"foo"),
            ("-_8=", &[0xfb, 0xff]),
            ("Zm\n9v", b"foo"),
        ] {
            assert_eq!(decoded(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(decoded("Z"), None);
        assert_eq!(decoded("Zm9v!"), None);
    }

    #[test]
    fn a_tool_does_not_choose_where_its_files_go() {
        assert_eq!(safe("../../etc/passwd"), "etcpasswd");
        assert_eq!(safe("…"), "result");
        assert_eq!(size("AAAA"), "3 B");
        assert_eq!(size(&"A".repeat(16_000)), "12 kB");
    }
}
