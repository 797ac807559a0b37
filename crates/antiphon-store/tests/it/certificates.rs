//! Certificates made on the spot: an authority, a server's, and another authority.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    pub(crate) fn make() -> Self {
        let folder = std::env::temp_dir().join(crate::unique("antiphon-certificates"));
        std::fs::create_dir(&folder).expect("there is room for temporary files");
        let made = Self { folder };
        for authority in ["authority", "stranger"] {
            let name = format!("/CN={authority}");
            let (key, pem) = (format!("{authority}-key.pem"), format!("{authority}.pem"));
            made.request(&["-subj", &name, "-keyout", &key, "-out", &pem, "-addext", "keyUsage=keyCertSign"]);
        }
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        let signer = ["-CA", "authority.pem", "-CAkey", "authority-key.pem"];
        let certificate = ["-subj", "/CN=localhost", "-keyout", "server-key.pem", "-out", "server.pem"];
        let limits = ["-addext", names, "-addext", "basicConstraints=critical,CA:FALSE"];
        made.request(&[&signer[..], &certificate, &limits].concat());
        made
    }

    /// The certificate of the authority that signed the server's.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// The certificate of an authority that signed nothing.
    pub(crate) fn stranger(&self) -> PathBuf {
        self.folder.join("stranger.pem")
    }

    pub(crate) fn server(&self) -> PathBuf {
        self.folder.join("server.pem")
    }

    pub(crate) fn server_key(&self) -> PathBuf {
        self.folder.join("server-key.pem")
    }

    fn request(&self, arguments: &[&str]) {
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
            ])
            .args(arguments)
            .current_dir(&self.folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("OpenSSL 3 is installed");
        assert!(made.success(), "openssl req {arguments:?}");
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}
