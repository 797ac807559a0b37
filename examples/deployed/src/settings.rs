use antiphon::KeyRing;
use anyhow::Context as _;

/// What the environment says.
#[derive(Debug)]
pub struct Settings {
    /// `LISTEN`: where the server is. Default: `127.0.0.1:8000`.
    pub listen: String,
    /// `HEALTH_LISTEN`: where probes and figures are. Default: `127.0.0.1:9090`.
    pub health: String,
    /// `STORE_URL`: what replicas share. Default: `memory:`, for one alone.
    pub store: String,
    /// `SEAL_KEYS`: the key ring, the same for all replicas, as `1=<64 hex digits>`. Default: one drawn here.
    pub keys: Option<KeyRing>,
    /// `ALLOWED_HOSTS`: the names the server goes by, with commas. Default: loopback.
    pub hosts: Vec<String>,
    /// `PUBLIC_URL`: where clients find it. Default: `http://` and what `LISTEN` says.
    pub public: String,
    /// `API_KEYS`: who may call, as `ada=<sha256 of her key>`, with commas. Default: anybody.
    pub api_keys: Vec<(String, String)>,
    /// `CALLER_RATE`: how many requests a second each caller may send to this replica, and three times that at once.
    /// Default: any number.
    pub rate: Option<u64>,
    /// `CALLER_TOKENS`: how many tokens a minute each caller may have the model use, all replicas together. Default: any
    /// number.
    pub tokens: Option<u64>,
    /// `SNAPSHOTS_URL`: where rows of result sets are kept, the same for all replicas. Default: `memory:` for one alone;
    /// for several, there are no result sets.
    pub snapshots: Option<String>,
    /// `ORDERS`: the file that orders are written to. Default: none are taken.
    pub orders: Option<String>,
    /// `REPLICA`: who this is among them. Default: `one`.
    pub replica: String,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`: where spans go. Default: nowhere.
    pub collector: Option<String>,
    /// `RUST_LOG`: what is logged. Default: `info,rmcp=error`, because the SDK logs errors as they are answered.
    pub log: String,
}

impl Settings {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// When `SEAL_KEYS` are none, replicas would draw keys of their own, or a key or a number is none.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let or = |name: &str, default: &str| variable(name).unwrap_or_else(|| default.to_owned());
        let store = or("STORE_URL", "memory:");
        let keys = variable("SEAL_KEYS").map(|keys| keys.trim().parse::<KeyRing>());
        let keys =
            keys.transpose().context("SEAL_KEYS is no key ring; make one with `openssl rand -hex 32`")?;
        anyhow::ensure!(
            keys.is_some() || store == "memory:",
            "replicas that share a store must share their keys: set SEAL_KEYS"
        );
        let listed = |name: &str| {
            let all = or(name, "");
            all.split(',').map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect::<Vec<_>>()
        };
        let key = |key: String| match key.split_once('=') {
            Some((who, hash)) => Ok((who.to_owned(), hash.to_owned())),
            None => anyhow::bail!("API_KEYS are given as NAME=SHA256, with commas"),
        };
        let number = |name: &'static str| {
            let number = variable(name).map(|number| number.trim().parse::<u64>());
            number.transpose().with_context(|| format!("{name} is no number"))
        };
        let listen = or("LISTEN", "127.0.0.1:8000");
        Ok(Self {
            public: or("PUBLIC_URL", &format!("http://{listen}")),
            api_keys: listed("API_KEYS").into_iter().map(key).collect::<anyhow::Result<_>>()?,
            rate: number("CALLER_RATE")?,
            tokens: number("CALLER_TOKENS")?,
            snapshots: variable("SNAPSHOTS_URL").or_else(|| (store == "memory:").then(|| store.clone())),
            orders: variable("ORDERS"),
            listen,
            health: or("HEALTH_LISTEN", "127.0.0.1:9090"),
            store,
            keys,
            hosts: listed("ALLOWED_HOSTS"),
            replica: or("REPLICA", "one"),
            collector: variable("OTEL_EXPORTER_OTLP_ENDPOINT"),
            log: or("RUST_LOG", "info,rmcp=error"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_store_without_shared_keys_is_refused() {
        let error = Settings::read(|name| (name == "STORE_URL").then(|| "redis://localhost".to_owned()));
        assert!(error.unwrap_err().to_string().contains("SEAL_KEYS"));
    }

    #[test]
    fn keys_are_read_with_their_names() {
        let keys = |keys: &'static str| Settings::read(|name| (name == "API_KEYS").then(|| keys.to_owned()));
        assert_eq!(keys("ada=5a, bob=6b").unwrap().api_keys, [("ada", "5a"), ("bob", "6b")].map(owned));
        assert!(keys("5a").unwrap_err().to_string().contains("NAME=SHA256"));
    }

    fn owned(pair: (&str, &str)) -> (String, String) {
        (pair.0.to_owned(), pair.1.to_owned())
    }

    #[test]
    fn names_are_read_with_commas() {
        let read =
            Settings::read(|name| (name == "ALLOWED_HOSTS").then(|| "a.example, b.example".to_owned()));
        assert_eq!(read.unwrap().hosts, ["a.example", "b.example"]);
    }
}
