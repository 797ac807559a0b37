//! The platforms of a release, and their names in each package index.

use std::env;

use anyhow::{Context as _, Result};

use super::NAME;

/// A system and a processor for which a release has packages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Platform {
    /// Rust's target triple.
    pub(super) target: &'static str,
    /// The system, as `std::env::consts::OS` names it.
    os: &'static str,
    /// The processor, as `std::env::consts::ARCH` names it.
    arch: &'static str,
}

/// All platforms. The matrix of `release.yml` has the same.
pub(super) static PLATFORMS: [Platform; 5] = [
    Platform { target: "x86_64-unknown-linux-gnu", os: "linux", arch: "x86_64" },
    Platform { target: "aarch64-unknown-linux-gnu", os: "linux", arch: "aarch64" },
    Platform { target: "x86_64-apple-darwin", os: "macos", arch: "x86_64" },
    Platform { target: "aarch64-apple-darwin", os: "macos", arch: "aarch64" },
    Platform { target: "x86_64-pc-windows-msvc", os: "windows", arch: "x86_64" },
];

impl Platform {
    /// The platform of the machine that runs us.
    pub(super) fn of_this_machine() -> Result<&'static Self> {
        let (os, arch) = (env::consts::OS, env::consts::ARCH);
        let found = PLATFORMS.iter().find(|it| it.os == os && it.arch == arch);
        found.with_context(|| format!("a release has no packages for {os} on {arch}"))
    }

    pub(super) fn is_windows(&self) -> bool {
        self.os == "windows"
    }

    /// The file name of the program.
    pub(super) fn program(&self) -> &'static str {
        if self.is_windows() { "antiphon.exe" } else { "antiphon" }
    }

    /// The folder in the archive. Its name is also the name of the archive.
    pub(super) fn folder(&self) -> String {
        format!("{NAME}-{}", self.target)
    }

    /// The file name of the archive. It has no version, so that the address of the latest release is always the same.
    pub(super) fn archive(&self) -> String {
        format!("{}.{}", self.folder(), if self.is_windows() { "zip" } else { "tar.gz" })
    }

    /// The system, as Node names it.
    pub(super) fn node_os(&self) -> &'static str {
        match self.os {
            "macos" => "darwin",
            "windows" => "win32",
            os => os,
        }
    }

    /// The processor, as Node names it.
    pub(super) fn node_cpu(&self) -> &'static str {
        if self.arch == "aarch64" { "arm64" } else { "x64" }
    }

    /// The npm package with the program of this platform.
    pub(super) fn npm_package(&self) -> String {
        format!("@antiphon-rs/cli-{}-{}", self.node_os(), self.node_cpu())
    }

    /// The platform in the name of a wheel.
    pub(super) fn wheel_tag(&self, program: &[u8]) -> Result<String> {
        let arch = self.arch;
        Ok(match self.os {
            "linux" => {
                let (major, minor) = glibc(program)
                    .context("the program does not use glibc; build it for a target that ends with `gnu`")?;
                format!("manylinux_{major}_{minor}_{arch}")
            }
            // `MACOSX_DEPLOYMENT_TARGET` in `release.yml`.
            "macos" => format!("macosx_11_0_{}", if arch == "aarch64" { "arm64" } else { arch }),
            _ => "win_amd64".to_owned(),
        })
    }
}

/// The newest version of glibc whose symbols a program needs. The program contains the names of these versions.
fn glibc(program: &[u8]) -> Option<(u32, u32)> {
    let versions = program.split(|byte| *byte == 0).filter_map(|text| text.strip_prefix(b"GLIBC_"));
    let parsed = versions.filter_map(|version| {
        let mut numbers = std::str::from_utf8(version).ok()?.split('.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    });
    parsed.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheel_of_linux_has_the_newest_glibc_that_its_program_needs() {
        let program = b"\x7fELF\0GLIBC_2.9\0memcpy\0GLIBC_2.34\0GLIBC_2.2.5\0GLIBC_PRIVATE\0no GLIBC_2.99\0";
        let tags = PLATFORMS.iter().map(|it| it.wheel_tag(program).unwrap());
        let expected = [
            "manylinux_2_34_x86_64",
            "manylinux_2_34_aarch64",
            "macosx_11_0_x86_64",
            "macosx_11_0_arm64",
            "win_amd64",
        ];
        assert_eq!(tags.collect::<Vec<_>>(), expected);
        assert!(PLATFORMS[0].wheel_tag(b"\x7fELF\0musl\0").is_err());
    }

    #[test]
    fn each_platform_has_its_own_names() {
        let packages: Vec<String> = PLATFORMS.iter().map(Platform::npm_package).collect();
        let expected = [
            "@antiphon-rs/cli-linux-x64",
            "@antiphon-rs/cli-linux-arm64",
            "@antiphon-rs/cli-darwin-x64",
            "@antiphon-rs/cli-darwin-arm64",
            "@antiphon-rs/cli-win32-x64",
        ];
        assert_eq!(packages, expected);
        assert_eq!(PLATFORMS[0].archive(), "antiphon-x86_64-unknown-linux-gnu.tar.gz");
        assert_eq!(PLATFORMS[4].archive(), "antiphon-x86_64-pc-windows-msvc.zip");
    }
}
