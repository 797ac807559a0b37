use std::fs;

use antiphon::seal::KeyRing;
use anyhow::Context as _;

/// The settings of the program, from environment variables.
///
/// A variable with the suffix `_FILE` names a file that contains the value, for example `STORE_URL_FILE`. Use files for
/// secrets, because environment variables are visible in `docker inspect`, in crash reports and to child processes.
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
    /// `API_KEYS`: API keys of the callers, as `NAME=SHA256`, separated by commas. Default: none, and then the program
    /// starts only with `ALLOW_ANYBODY`.
    pub api_keys: Vec<(String, String)>,
    /// `OAUTH_ISSUER`: an authorization server that is asked about access tokens (RFC 7662), at the endpoint that its
    /// metadata name. The tools `errand` and `errand_now` then need the scope `errands`. Default: none.
    pub issuer: Option<String>,
    /// `OAUTH_CLIENT`: the client ID and the secret to ask with, as `ID:SECRET`. Required with `OAUTH_ISSUER`.
    pub client: Option<(String, String)>,
    /// `TOKEN_CHECK`: after how many seconds a token is checked again, also on open connections. Default: 30.
    pub token_check: u64,
    /// `ALLOW_ANYBODY`: `1` serves callers without authentication if neither `API_KEYS` nor `OAUTH_ISSUER` is set. Default:
    /// not set.
    pub anybody: bool,
    /// `CALLER_RATE`: requests per second that each caller can send to this replica, with a burst of three times as many.
    /// Default: no limit.
    pub rate: Option<u64>,
    /// `CALLER_TOKENS`: model tokens per minute for each caller, counted over all replicas. Default: no limit.
    pub tokens: Option<u64>,
    /// `SNAPSHOTS_URL`: where rows of result sets are kept, the same for all replicas. Default: `memory:` for one alone;
    /// for several, there are no result sets.
    pub snapshots: Option<String>,
    /// `ORDERS`: the file that orders are written to. Default: none are taken.
    pub orders: Option<String>,
    /// `EFFECTS`: the address of a ledger that records the effects of the tools `errand` and `errand_now`. Default: none,
    /// and there are no such tools.
    pub effects: Option<String>,
    /// `TASK_LIFE`: how many seconds a task is kept. Default: 2,592,000, which is 30 days.
    pub task_life: u64,
    /// `SEAL_LIFE`: how many seconds a `requestState` is valid. Default: 3,600.
    pub seal_life: u64,
    /// `SEAL_SKEW`: by how many seconds clocks can differ, of replicas and of the authorization server. Default: 60.
    pub seal_skew: u64,
    /// `LEASE`: after how many seconds of silence a worker counts as dead. Default: 30.
    pub lease: u64,
    /// `REPAIR_INTERVAL`: how many seconds pass between two searches for runs whose job was lost. Default: 10.
    pub repair_interval: u64,
    /// `AUDIT_INTERVAL`: how many seconds pass between two checks of all task records, which also encrypt old records with
    /// the newest key. Default: 86,400, which is 24 hours.
    pub audit_interval: u64,
    /// `WORKERS`: how many legs of tasks this process runs at the same time. With `0`, it creates tasks and leaves the work
    /// to other replicas. Default: 16.
    pub workers: usize,
    /// `BACKLOG`: how many legs of tasks can wait, sleeping ones included, before new tasks are rejected. Default: 1,000,000.
    pub backlog: u64,
    /// `DRAIN`: how many seconds in-flight requests have to complete when the server shuts down. Default: 30.
    pub drain: u64,
    /// `WEBSOCKET`: `1` serves clients at `/ws` over WebSocket, too. Default: `0`.
    pub websocket: bool,
    /// `SSE`: `1` serves clients of the HTTP+SSE transport of 2024-11-05, too, at `/sse` and `/message`. Default: `0`.
    pub sse: bool,
    /// `OPERATORS_TOKEN`: the token of the operators' routes at `HEALTH_LISTEN`, 24 bytes or more. Default: none, and
    /// there are no such routes.
    pub operators: Option<String>,
    /// `REPLICA`: who this is among them. Default: `one`.
    pub replica: String,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`: where spans go. Default: nowhere.
    pub collector: Option<String>,
    /// `RUST_LOG`: what is logged. Default: `info,rmcp=error`, because the SDK logs errors as they are answered.
    pub log: String,
}

impl Settings {
    /// Reads the settings with `environment`, which returns the value of an environment variable.
    ///
    /// # Errors
    ///
    /// Returns an error if a value cannot be parsed, if a file cannot be read, if a variable and its variant with `_FILE`
    /// are both set, if replicas share a store and `SEAL_KEYS` is not set, or if the server would serve callers without
    /// authentication and `ALLOW_ANYBODY` is not `1`.
    pub fn read(environment: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let variable = |name: &str| variable_or_file(&environment, name);
        let or = |name: &str, default: &str| -> anyhow::Result<String> {
            Ok(variable(name)?.unwrap_or_else(|| default.to_owned()))
        };
        let store = or("STORE_URL", "memory:")?;
        let keys = variable("SEAL_KEYS")?.map(|keys| keys.trim().parse::<KeyRing>());
        let keys =
            keys.transpose().context("SEAL_KEYS is not valid; write 1=HEX, from `openssl rand -hex 32`")?;
        anyhow::ensure!(
            keys.is_some() || store == "memory:",
            "STORE_URL is a shared store, and SEAL_KEYS is not set; set the same SEAL_KEYS in all replicas"
        );
        let listed = |name: &str| {
            let all = or(name, "")?;
            let names = all.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned);
            anyhow::Ok(names.collect::<Vec<_>>())
        };
        let anybody = variable("ALLOW_ANYBODY")?.is_some_and(|it| it.trim() == "1");
        let api_keys = variable("API_KEYS")?.map(|keys| api_keys(&keys)).transpose()?;
        let issuer = variable("OAUTH_ISSUER")?;
        anyhow::ensure!(
            api_keys.is_some() || issuer.is_some() || anybody,
            "the server has no authentication: API_KEYS is not set; set it to NAME=SHA256 pairs, set OAUTH_ISSUER, or set \
             ALLOW_ANYBODY=1 to serve every caller"
        );
        let client = variable("OAUTH_CLIENT")?.map(|client| match client.split_once(':') {
            Some((id, secret)) if !secret.is_empty() => Ok((id.to_owned(), secret.to_owned())),
            _ => anyhow::bail!("OAUTH_CLIENT is not valid; write ID:SECRET"),
        });
        let client = client.transpose()?;
        anyhow::ensure!(
            issuer.is_none() || client.is_some(),
            "OAUTH_ISSUER is set and OAUTH_CLIENT is not; set it to ID:SECRET, for token introspection"
        );
        let number = |name: &'static str| {
            let number = variable(name)?.map(|number| number.trim().parse::<u64>());
            number.transpose().with_context(|| format!("{name} is not a whole number"))
        };
        let listen = or("LISTEN", "127.0.0.1:8000")?;
        Ok(Self {
            public: or("PUBLIC_URL", &format!("http://{listen}"))?,
            api_keys: api_keys.unwrap_or_default(),
            issuer,
            client,
            token_check: number("TOKEN_CHECK")?.unwrap_or(30).max(1),
            anybody,
            rate: number("CALLER_RATE")?,
            tokens: number("CALLER_TOKENS")?,
            snapshots: variable("SNAPSHOTS_URL")?.or_else(|| (store == "memory:").then(|| store.clone())),
            orders: variable("ORDERS")?,
            effects: variable("EFFECTS")?,
            task_life: number("TASK_LIFE")?.unwrap_or(30 * 24 * 3600),
            seal_life: number("SEAL_LIFE")?.unwrap_or(3600),
            seal_skew: number("SEAL_SKEW")?.unwrap_or(60),
            lease: number("LEASE")?.unwrap_or(30).max(1),
            repair_interval: number("REPAIR_INTERVAL")?.unwrap_or(10).max(1),
            audit_interval: number("AUDIT_INTERVAL")?.unwrap_or(24 * 3600).max(1),
            workers: number("WORKERS")?.map_or(Ok(16), usize::try_from)?,
            backlog: number("BACKLOG")?.unwrap_or(1_000_000),
            drain: number("DRAIN")?.unwrap_or(30),
            websocket: number("WEBSOCKET")? == Some(1),
            sse: number("SSE")? == Some(1),
            operators: variable("OPERATORS_TOKEN")?,
            listen,
            health: or("HEALTH_LISTEN", "127.0.0.1:9090")?,
            store,
            keys,
            hosts: listed("ALLOWED_HOSTS")?,
            replica: or("REPLICA", "one")?,
            // The exporter reads this variable itself.
            collector: environment("OTEL_EXPORTER_OTLP_ENDPOINT"),
            log: or("RUST_LOG", "info,rmcp=error")?,
        })
    }
}

/// Returns the value of the setting `name`, from the variable `name` or from the file that the variable `{name}_FILE` names.
fn variable_or_file(
    environment: &impl Fn(&str) -> Option<String>,
    name: &str,
) -> anyhow::Result<Option<String>> {
    let in_file = format!("{name}_FILE");
    match (environment(name), environment(&in_file)) {
        (Some(_), Some(_)) => anyhow::bail!("{name} and {in_file} are both set; unset one of them"),
        (value, None) => Ok(value),
        (None, Some(path)) => {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("the file `{path}` of {in_file} cannot be read"))?;
            // Editors and `echo` end a file with a line break.
            Ok(Some(text.trim_end().to_owned()))
        }
    }
}

/// Parses `API_KEYS`. A secret that was rendered empty must not turn authentication off, so no keys are an error.
fn api_keys(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let keys = pairs.map(|pair| match pair.split_once('=') {
        Some((name, hash)) if !name.is_empty() => Ok((name.to_owned(), hash.to_owned())),
        _ => anyhow::bail!("API_KEYS is not valid; write NAME=SHA256 pairs, separated by commas"),
    });
    let keys = keys.collect::<anyhow::Result<Vec<_>>>()?;
    anyhow::ensure!(
        !keys.is_empty(),
        "API_KEYS is set and contains no key; check the secret it comes from, or unset it"
    );
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> anyhow::Result<Settings> {
        Settings::read(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn shared_store_without_shared_keys_is_rejected() {
        let error = read(&[("STORE_URL", "redis://localhost"), ("ALLOW_ANYBODY", "1")]);
        assert!(error.unwrap_err().to_string().contains("SEAL_KEYS"));
    }

    #[test]
    fn api_keys_are_read_with_their_names() {
        let keys = |keys: &str| read(&[("API_KEYS", keys)]);
        let owned = |pair: (&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
        assert_eq!(keys("ada=5a, bob=6b,").unwrap().api_keys, [("ada", "5a"), ("bob", "6b")].map(owned));
        for wrong in ["5a", "=5a", "ada=5a,6b"] {
            assert!(keys(wrong).unwrap_err().to_string().contains("NAME=SHA256"), "{wrong}");
        }
    }

    #[test]
    fn server_without_authentication_is_rejected_unless_it_is_allowed() {
        for variables in [&[][..], &[("ALLOW_ANYBODY", "")], &[("ALLOW_ANYBODY", "0")]] {
            let error = read(variables).unwrap_err().to_string();
            assert!(error.contains("API_KEYS") && error.contains("ALLOW_ANYBODY=1"), "{error}");
        }
        assert!(read(&[("ALLOW_ANYBODY", "1")]).unwrap().api_keys.is_empty());
    }

    #[test]
    fn authorization_server_needs_a_client_to_ask_with() {
        let issuer = ("OAUTH_ISSUER", "https://login.example.com");
        let error = read(&[issuer]).unwrap_err().to_string();
        assert!(error.contains("OAUTH_CLIENT"), "{error}");
        let error = read(&[issuer, ("OAUTH_CLIENT", "reports")]).unwrap_err().to_string();
        assert!(error.contains("ID:SECRET"), "{error}");
        let settings = read(&[issuer, ("OAUTH_CLIENT", "reports:a:b")]).unwrap();
        assert_eq!(settings.client, Some(("reports".into(), "a:b".into())));
    }

    #[test]
    fn empty_api_keys_are_an_error_even_if_anybody_is_allowed() {
        for empty in ["", " ", ",", " , "] {
            for allowed in ["0", "1"] {
                let error = read(&[("API_KEYS", empty), ("ALLOW_ANYBODY", allowed)]).unwrap_err().to_string();
                assert!(error.contains("API_KEYS"), "{error}");
            }
        }
    }

    #[test]
    fn setting_is_read_from_a_file_and_not_from_two_places() {
        let path = std::env::temp_dir().join(format!("deployed-settings-{}", std::process::id()));
        let keys = format!("1={}", "5a".repeat(32));
        fs::write(&path, format!("{keys}\n")).unwrap();
        let file = path.to_str().unwrap();
        let shared = [("ALLOW_ANYBODY", "1"), ("STORE_URL", "redis://localhost"), ("SEAL_KEYS_FILE", file)];
        assert!(read(&shared).unwrap().keys.is_some());
        let both = read(&[&shared[..], &[("SEAL_KEYS", keys.as_str())]].concat()).unwrap_err().to_string();
        assert!(both.contains("SEAL_KEYS and SEAL_KEYS_FILE"), "{both}");
        // An empty file must not turn authentication off.
        fs::write(&path, "\n").unwrap();
        let empty = read(&[("ALLOW_ANYBODY", "1"), ("API_KEYS_FILE", file)]).unwrap_err().to_string();
        assert!(empty.contains("API_KEYS"), "{empty}");
        fs::remove_file(&path).unwrap();
        let missing = read(&[("STORE_URL_FILE", file)]).unwrap_err().to_string();
        assert!(missing.contains("STORE_URL_FILE") && missing.contains(file), "{missing}");
    }

    #[test]
    fn host_names_are_separated_by_commas() {
        let read = read(&[("ALLOW_ANYBODY", "1"), ("ALLOWED_HOSTS", "a.example, b.example")]);
        assert_eq!(read.unwrap().hosts, ["a.example", "b.example"]);
    }
}
