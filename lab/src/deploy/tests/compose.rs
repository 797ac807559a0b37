//! Three replicas on one machine: every name leads to a service, every file that is mounted is there.

use yaml_rust2::Yaml;

use super::{connections, is_setting, keys, root, strings, text, yaml};

const COMPOSE: &str = "deploy/compose.yaml";

/// The services by name.
fn services(compose: &Yaml) -> Vec<(&str, &Yaml)> {
    let names = keys(&compose["services"]);
    names.into_iter().map(|name| (name, &compose["services"][name])).collect()
}

#[test]
fn three_replicas_share_a_store_and_its_settings_are_the_programs() {
    let compose = yaml(COMPOSE);
    let server = &compose["services"]["server"];
    assert_eq!(server["deploy"]["replicas"].as_i64(), Some(3));
    assert!(server["deploy"]["resources"]["limits"]["memory"].as_str().is_some());
    let settings = keys(&server["environment"]);
    for name in &settings {
        assert!(is_setting(name), "`{name}` is nothing that `examples/deployed` reads");
    }
    assert!(!settings.contains(&"ALLOW_ANYBODY") && settings.contains(&"CALLER_RATE"), "{settings:?}");
    for name in ["API_KEYS_FILE", "SEAL_KEYS_FILE", "STORE_URL_FILE"] {
        assert!(server["environment"][name].as_str().unwrap().starts_with("/run/secrets/"), "{name}");
    }
    let dockerfile = server["build"]["dockerfile"].as_str().unwrap();
    assert!(root().join(dockerfile).is_file(), "{dockerfile}");
}

#[test]
fn secrets_are_files_that_the_script_creates_and_git_ignores() {
    let compose = yaml(COMPOSE);
    let (script, ignored) = (text("deploy/secrets.sh"), text(".gitignore"));
    assert!(ignored.lines().any(|line| line == "/deploy/secrets"), "{ignored}");
    let mut read = 0;
    for (name, service) in services(&compose) {
        let given = strings(&service["secrets"]);
        let values = keys(&service["environment"]).into_iter().map(|it| &service["environment"][it]);
        for path in values.filter_map(|it| it.as_str()?.strip_prefix("/run/secrets/")) {
            assert!(given.contains(&path), "{name} reads {path}");
            read += 1;
        }
        for secret in given {
            let file = compose["secrets"][secret]["file"].as_str().unwrap_or_else(|| panic!("{secret}"));
            assert_eq!(file, format!("./secrets/{secret}"));
            assert!(script.contains(&format!("[ -s {secret} ] || ")), "the script does not create {secret}");
        }
    }
    assert_eq!(read, 4);
}

#[test]
fn clients_and_the_store_use_tls() {
    let compose = yaml(COMPOSE);
    let nginx = text("deploy/nginx.conf");
    let listens: Vec<&str> =
        nginx.lines().filter_map(|line| line.trim().strip_prefix("listen ")?.strip_suffix(';')).collect();
    let [listen] = listens[..] else { panic!("{listens:?}") };
    let port = listen.strip_suffix(" ssl").unwrap();
    assert_eq!(strings(&compose["services"]["balancer"]["ports"]), [format!("127.0.0.1:{port}:{port}")]);
    let public = compose["services"]["server"]["environment"]["PUBLIC_URL"].as_str().unwrap();
    assert_eq!(public, format!("https://localhost:{port}"));
    let store = &compose["services"]["postgres"];
    assert!(strings(&store["command"]).contains(&"--ssl=on"), "{store:?}");
    let rules = text("deploy/pg_hba.conf");
    let mut kinds =
        rules.lines().filter(|line| !line.starts_with('#')).map(|line| &line[..line.find(' ').unwrap()]);
    assert!(kinds.all(|kind| kind == "local" || kind == "hostssl"), "{rules}");
    let script = text("deploy/secrets.sh");
    assert!(script.contains("sslmode=%s&sslrootcert=%s") && script.contains("verify-full /authority/ca.pem"));
}

#[test]
fn store_accepts_the_connections_of_all_replicas() {
    let compose = yaml(COMPOSE);
    let replicas = compose["services"]["server"]["deploy"]["replicas"].as_i64().unwrap();
    let command = strings(&compose["services"]["postgres"]["command"]);
    let most = command.iter().find_map(|it| it.strip_prefix("--max_connections=")).unwrap();
    // PostgreSQL reserves three connections for superusers. A replica can start while another one ends.
    let most = most.parse::<i64>().unwrap() - 3;
    assert!(most >= (replicas + 1) * connections("deploy/secrets.sh"), "{most}");
}

#[test]
fn images_are_pinned_and_what_is_mounted_is_there() {
    let compose = yaml(COMPOSE);
    let mut mounts = 0;
    for (name, service) in services(&compose) {
        if let Some(image) = service["image"].as_str() {
            let tag = image.rsplit_once(':').map(|(_, tag)| tag);
            assert!(tag.is_some_and(|tag| tag != "latest"), "{name}: {image}");
        }
        for mount in strings(&service["volumes"]) {
            let source = mount.split(':').next().unwrap();
            if source.starts_with('.') {
                assert!(root().join("deploy").join(source).exists(), "{name}: {source}");
                mounts += 1;
            } else {
                assert!(keys(&compose["volumes"]).contains(&source), "{name}: {source}");
            }
        }
    }
    assert!(mounts > 4, "{mounts}");
}

#[test]
fn ports_of_this_machine_are_open_to_nobody_else() {
    let compose = yaml(COMPOSE);
    for (name, service) in services(&compose) {
        for port in strings(&service["ports"]) {
            assert!(port.starts_with("127.0.0.1:"), "{name}: {port}");
        }
    }
}

#[test]
fn every_name_leads_to_a_service() {
    let compose = yaml(COMPOSE);
    let names: Vec<&str> = services(&compose).into_iter().map(|(name, _)| name).collect();
    let is_service = |host: &str| names.contains(&host);
    for (_, service) in services(&compose) {
        let waits = &service["depends_on"];
        for name in keys(waits).into_iter().chain(strings(waits)) {
            assert!(is_service(name), "{name}");
        }
    }
    let nginx = text("deploy/nginx.conf");
    let upstream = nginx.lines().find_map(|line| line.trim().strip_prefix("server ")?.split_once(':'));
    let (host, rest) = upstream.unwrap();
    assert!(is_service(host) && rest.starts_with("8000 "), "{host}:{rest}");
    let scraped = &yaml("deploy/prometheus/prometheus.yml")["scrape_configs"][0]["dns_sd_configs"][0];
    assert!(strings(&scraped["names"]).into_iter().all(is_service), "{scraped:?}");
    assert_eq!(scraped["port"].as_i64(), Some(9090));
    let spans = yaml("deploy/collector.yaml");
    let told = [
        spans["exporters"]["otlp"]["endpoint"].as_str().unwrap().to_owned(),
        compose["services"]["server"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
            .as_str()
            .unwrap()
            .to_owned(),
        yaml("deploy/grafana/provisioning/datasources/prometheus.yaml")["datasources"][0]["url"]
            .as_str()
            .unwrap()
            .to_owned(),
    ];
    for address in told {
        let host = address.trim_start_matches("http://").split(':').next().unwrap();
        assert!(is_service(host), "{address}");
    }
    let own = spans["receivers"]["otlp"]["protocols"]["http"]["endpoint"].as_str().unwrap();
    assert!(own.ends_with(":4318"), "{own}");
}
