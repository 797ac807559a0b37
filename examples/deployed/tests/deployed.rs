//! The program as an orchestrator runs it: started, probed, scraped, and asked to end.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

/// A free address. Its port is below those that the system gives to outgoing connections, so it stays free until the
/// program listens.
fn free() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 8_000 + u16::try_from(std::process::id() % 400).unwrap() * 5;
    let address = || SocketAddr::from(([127, 0, 0, 1], first + NEXT.fetch_add(1, Ordering::Relaxed)));
    std::iter::repeat_with(address).find(|address| TcpListener::bind(address).is_ok()).unwrap()
}

/// A process that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(listen: SocketAddr, health: SocketAddr, variables: &[(&str, &str)]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deployed"));
    command.env("LISTEN", listen.to_string()).env("HEALTH_LISTEN", health.to_string());
    for name in ["ALLOW_ANYBODY", "API_KEYS", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    Running(command.stderr(Stdio::piped()).spawn().unwrap())
}

fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    Some((status, text))
}

fn ready(address: SocketAddr) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if get(address, "/readyz").is_some_and(|(status, _)| status == 200) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
fn it_is_started_probed_scraped_and_asked_to_end() {
    let (listen, health) = (free(), free());
    let mut running = start(listen, health, &[("REPLICA", "a"), ("ALLOW_ANYBODY", "1")]);
    assert!(ready(health), "it never was ready");
    assert_eq!(get(health, "/livez").unwrap().0, 200);
    let (status, figures) = get(health, "/metrics").unwrap();
    assert_eq!(status, 200);
    assert!(figures.contains("service_name=\"onboarding\""), "{figures}");
    assert_eq!(get(listen, "/metrics").unwrap().0, 404, "figures are on a port of their own");
    let asked = Command::new("kill").args(["-TERM", &running.0.id().to_string()]).status().unwrap();
    assert!(asked.success());
    let ended = running.0.wait().unwrap();
    assert!(ended.success(), "it ended with {ended}");
    let mut log = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{log}");
}

#[test]
fn where_keys_are_given_out_nobody_is_served_without_one() {
    let (listen, health) = (free(), free());
    let _running = start(listen, health, &[("API_KEYS", &format!("ada={}", "5a".repeat(32)))]);
    assert!(ready(health), "it never was ready");
    assert_eq!(get(listen, "/mcp").unwrap().0, 401);
    assert_eq!(get(listen, "/resources/rs_anything").unwrap().0, 401);
}

/// What the program writes before it ends with an error.
fn refusal(variables: &[(&str, &str)]) -> String {
    let mut running = start(free(), free(), variables);
    assert!(!running.0.wait().unwrap().success(), "it started with {variables:?}");
    let mut said = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

#[test]
fn replica_without_the_shared_keys_does_not_start() {
    let said = refusal(&[("STORE_URL", "redis://127.0.0.1:1"), ("ALLOW_ANYBODY", "1")]);
    assert!(said.contains("SEAL_KEYS"), "{said}");
}

#[test]
fn server_without_authentication_does_not_start() {
    let said = refusal(&[]);
    assert!(said.contains("API_KEYS") && said.contains("ALLOW_ANYBODY=1"), "{said}");
    // A secret that failed to render.
    for empty in ["", ","] {
        let said = refusal(&[("API_KEYS", empty), ("ALLOW_ANYBODY", "1")]);
        assert!(said.contains("API_KEYS"), "{said}");
    }
}
