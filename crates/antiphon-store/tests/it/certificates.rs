//! Certificates made on the spot, and the cases that every engine is tested with.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A server with one certificate, and a client that trusts one authority.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The certificate of the server.
    pub(crate) server: &'static str,
    /// The authority that the client trusts.
    pub(crate) authority: &'static str,
    /// The certificate of the client, if it has one. The server always asks for one.
    pub(crate) client: Option<&'static str>,
    /// A word of the error. `None` if the connection works.
    pub(crate) problem: Option<&'static str>,
}

pub(crate) const CASES: [Case; 6] = [
    Case { name: "right", server: "server", authority: "authority", client: Some("client"), problem: None },
    Case {
        name: "unknown authority",
        server: "server",
        authority: "stranger",
        client: Some("client"),
        problem: Some("UnknownIssuer"),
    },
    Case {
        name: "expired",
        server: "expired",
        authority: "authority",
        client: Some("client"),
        problem: Some("expired"),
    },
    Case {
        name: "wrong host",
        server: "elsewhere",
        authority: "authority",
        client: Some("client"),
        problem: Some("not valid for name"),
    },
    Case {
        name: "no client certificate",
        server: "server",
        authority: "authority",
        client: None,
        problem: Some(""),
    },
    Case {
        name: "client certificate of an unknown authority",
        server: "server",
        authority: "authority",
        client: Some("foreign"),
        problem: Some(""),
    },
];

pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    pub(crate) fn make() -> Self {
        let folder = std::env::temp_dir().join(crate::unique("antiphon-certificates"));
        fs::create_dir(&folder).expect("there is room for temporary files");
        let made = Self { folder };
        for authority in ["authority", "stranger"] {
            let name = format!("/CN={authority}");
            let (key, pem) = (format!("{authority}-key.pem"), format!("{authority}.pem"));
            let usage = "keyUsage=keyCertSign";
            made.run(&[
                "req", "-x509", "-days", "2", "-subj", &name, "-keyout", &key, "-out", &pem, "-addext", usage,
            ]);
        }
        let here = "DNS:localhost,IP:127.0.0.1";
        let now = ["20240101000000Z", "20990101000000Z"];
        made.sign("server", "authority", here, now);
        made.sign("elsewhere", "authority", "DNS:elsewhere.example", now);
        made.sign("expired", "authority", here, ["20240101000000Z", "20240201000000Z"]);
        made.sign("client", "authority", "DNS:client.example", now);
        made.sign("foreign", "stranger", "DNS:client.example", now);
        made
    }

    /// The certificate with this name, in PEM.
    pub(crate) fn pem(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("the certificate was made")
    }

    /// The private key of the certificate with this name, in PEM.
    pub(crate) fn key(&self, name: &str) -> Vec<u8> {
        fs::read(self.key_path(name)).expect("the key was made")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.pem"))
    }

    pub(crate) fn key_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}-key.pem"))
    }

    fn sign(&self, name: &str, authority: &str, names: &str, [from, until]: [&str; 2]) {
        let (key, pem, request) = (format!("{name}-key.pem"), format!("{name}.pem"), format!("{name}.csr"));
        let subject = format!("/CN={name}");
        let names = format!("subjectAltName={names}");
        let limits = "basicConstraints=critical,CA:FALSE";
        self.run(&[
            "req", "-subj", &subject, "-keyout", &key, "-out", &request, "-addext", &names, "-addext", limits,
        ]);
        // Only `openssl ca` can make a certificate that has expired.
        let settings = "[ca]\ndefault_ca=all\n[all]\ndatabase=index.txt\nrand_serial=yes\nnew_certs_dir=.\n\
                        default_md=sha256\npolicy=any\ncopy_extensions=copy\nunique_subject=no\n[any]\n\
                        commonName=supplied\n";
        fs::write(self.folder.join("ca.cnf"), settings).expect("there is room for temporary files");
        fs::write(self.folder.join("index.txt"), "").expect("there is room for temporary files");
        let (authority_key, authority) = (format!("{authority}-key.pem"), format!("{authority}.pem"));
        self.run(&[
            "ca",
            "-batch",
            "-notext",
            "-config",
            "ca.cnf",
            "-cert",
            &authority,
            "-keyfile",
            &authority_key,
            "-in",
            &request,
            "-out",
            &pem,
            "-startdate",
            from,
            "-enddate",
            until,
        ]);
    }

    fn run(&self, arguments: &[&str]) {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(&self.folder).stdout(Stdio::null()).stderr(Stdio::null());
        if arguments[0] == "req" {
            command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        }
        let made = command.status().expect("OpenSSL 3 is installed");
        assert!(made.success(), "openssl {arguments:?}");
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}
