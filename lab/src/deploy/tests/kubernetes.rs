//! The manifests: three replicas that anybody may kill, probed, bounded, and stuck to by nobody.

use yaml_rust2::Yaml;

use super::{connections, files, is_setting, keys, root, strings, text, yaml};

const NAME: &str = "app.kubernetes.io/name";

fn manifest(name: &str) -> Yaml {
    yaml(&format!("deploy/kubernetes/{name}.yaml"))
}

/// The pod that the deployment makes.
fn pod(deployment: &Yaml) -> &Yaml {
    &deployment["spec"]["template"]["spec"]
}

fn container(deployment: &Yaml) -> &Yaml {
    &pod(deployment)["containers"][0]
}

/// The container's ports by name.
fn port(deployment: &Yaml, name: &str) -> Option<i64> {
    let ports = container(deployment)["ports"].as_vec()?;
    ports.iter().find(|port| port["name"].as_str() == Some(name))?["containerPort"].as_i64()
}

#[test]
fn kustomization_names_every_manifest_and_no_other() {
    let mut named = strings(&manifest("kustomization")["resources"]).join(" ");
    named.push_str(" kustomization.yaml");
    let mut named: Vec<&str> = named.split(' ').collect();
    named.sort_unstable();
    let found = files(&root().join("deploy/kubernetes"), &["yaml"]);
    let mut found: Vec<String> =
        found.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    found.sort_unstable();
    assert_eq!(named, found);
}

#[test]
fn three_replicas_are_rolled_one_by_one_with_none_missing() {
    let spec = &manifest("deployment")["spec"];
    assert_eq!(spec["replicas"].as_i64(), Some(3));
    assert_eq!(spec["strategy"]["type"].as_str(), Some("RollingUpdate"));
    let rolling = &spec["strategy"]["rollingUpdate"];
    assert_eq!((rolling["maxSurge"].as_i64(), rolling["maxUnavailable"].as_i64()), (Some(1), Some(0)));
    // The autoscaler has the last word about how many there are.
    let scaler = &manifest("autoscaler")["spec"];
    assert_eq!(scaler["minReplicas"].as_i64(), Some(3));
    assert!(scaler["maxReplicas"].as_i64() > Some(3));
    assert_eq!(scaler["scaleTargetRef"]["name"], manifest("deployment")["metadata"]["name"]);
}

#[test]
fn connections_of_the_largest_deployment_fit_into_the_default_of_postgres() {
    let spec = &manifest("deployment")["spec"];
    let pod = &spec["template"]["spec"];
    // A replica that ends has closed its connections before the next one ends, so at most one ends at a time.
    assert!(spec["minReadySeconds"].as_i64() >= pod["terminationGracePeriodSeconds"].as_i64());
    let surge = spec["strategy"]["rollingUpdate"]["maxSurge"].as_i64().unwrap();
    let most = manifest("autoscaler")["spec"]["maxReplicas"].as_i64().unwrap() + surge + 1;
    let sum = most * connections("deploy/kubernetes/kustomization.yaml");
    // PostgreSQL accepts 100 connections by default, and reserves three of them for superusers.
    assert!(sum <= 100 - 3, "{sum}");
    let comment = text("deploy/kubernetes/autoscaler.yaml");
    assert!(comment.contains(&format!("need {sum}.")), "the comment has another number than {sum}");
    // The guide and the comment have the sum with the default of the pool, too.
    let config = text("crates/antiphon-store/src/postgres/config.rs");
    let pool =
        config.lines().find_map(|line| line.trim().strip_prefix("max_connections: ")?.strip_suffix(','));
    let large = most * (pool.unwrap().parse::<i64>().unwrap() + 1) + 3;
    for text in [comment, text("docs/guides/deploying.md")] {
        assert!(text.contains(&format!("{large} connections")), "{large}: {text}");
    }
}

#[test]
fn secrets_are_files_and_not_variables() {
    let (deployment, config) = (manifest("deployment"), manifest("config"));
    let container = container(&deployment);
    let mount = |name: &str| {
        let mounts = container["volumeMounts"].as_vec().unwrap();
        let found = mounts.iter().find(|it| it["name"].as_str() == Some(name)).unwrap();
        assert_eq!(found["readOnly"].as_bool(), Some(true), "{name}");
        found["mountPath"].as_str().unwrap().to_owned()
    };
    let volumes = pod(&deployment)["volumes"].as_vec().unwrap();
    let volume = |name: &str| volumes.iter().find(|it| it["name"].as_str() == Some(name)).unwrap();
    assert!(container["envFrom"].as_vec().unwrap().iter().all(|it| it["secretRef"].is_badvalue()));
    for name in ["API_KEYS", "SEAL_KEYS", "STORE_URL"] {
        let path = config["data"][format!("{name}_FILE").as_str()].as_str();
        assert_eq!(path, Some(format!("{}/{name}", mount("secrets")).as_str()));
    }
    let said = text("deploy/kubernetes/kustomization.yaml");
    let secret = volume("secrets")["secret"]["secretName"].as_str().unwrap();
    assert!(said.contains(&format!("create secret generic {secret} ")), "{secret}");
    let authority = volume("store-authority")["configMap"]["name"].as_str().unwrap();
    assert!(said.contains(&format!("create configmap {authority} --from-file=ca.pem")), "{authority}");
    assert!(said.contains(&format!("sslrootcert={}/ca.pem", mount("store-authority"))), "{said}");
}

#[test]
fn probes_ask_routes_that_there_are_and_only_readiness_asks_the_store() {
    let deployment = manifest("deployment");
    let served = text("crates/antiphon/src/server/http/health.rs");
    for (probe, path) in
        [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
    {
        let asked = &container(&deployment)[probe]["httpGet"];
        assert_eq!(asked["path"].as_str(), Some(path), "{probe}");
        assert!(served.contains(&format!("\"{path}\"")), "there is no route {path}");
        assert_eq!(asked["port"].as_str(), Some("health"), "{probe}");
    }
    // A probe must outlast what it asks for: the store has two seconds.
    assert!(container(&deployment)["readinessProbe"]["timeoutSeconds"].as_i64() > Some(2));
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    let scraped = annotations["prometheus.io/port"].as_str().and_then(|port| port.parse().ok());
    assert_eq!(scraped, port(&deployment, "health"));
    let path = annotations["prometheus.io/path"].as_str().unwrap();
    assert!(served.contains(&format!("\"{path}\"")), "there is no route {path}");
}

#[test]
fn budget_lets_nodes_be_emptied_and_leaves_two() {
    let least = manifest("disruption")["spec"]["minAvailable"].as_i64();
    assert!(least >= Some(2) && least < manifest("deployment")["spec"]["replicas"].as_i64(), "{least:?}");
}

#[test]
fn nobody_is_stuck_to_a_replica() {
    assert_eq!(manifest("service")["spec"]["sessionAffinity"].as_str(), Some("None"));
    let ingress = manifest("ingress");
    for annotation in keys(&ingress["metadata"]["annotations"]) {
        for sticky in ["affinity", "session-cookie", "upstream-hash-by"] {
            assert!(!annotation.contains(sticky), "{annotation}");
        }
    }
    for line in text("deploy/nginx.conf").lines() {
        let directive = line.split_whitespace().next().unwrap_or_default();
        assert!(!["ip_hash;", "hash", "sticky"].contains(&directive), "{line}");
    }
}

#[test]
fn every_selector_finds_the_pods_and_every_port_has_its_name() {
    let deployment = manifest("deployment");
    let label = &deployment["spec"]["template"]["metadata"]["labels"][NAME];
    assert!(label.as_str().is_some());
    let (service, ingress, network) = (manifest("service"), manifest("ingress"), manifest("network"));
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"][NAME], label);
    assert_eq!(&service["spec"]["selector"][NAME], label);
    assert_eq!(&manifest("disruption")["spec"]["selector"]["matchLabels"][NAME], label);
    assert_eq!(&network["spec"]["podSelector"]["matchLabels"][NAME], label);
    let spread = pod(&deployment)["topologySpreadConstraints"].as_vec().unwrap();
    assert!(spread.iter().all(|it| &it["labelSelector"]["matchLabels"][NAME] == label), "{spread:?}");
    let led = &service["spec"]["ports"][0];
    assert!(port(&deployment, led["targetPort"].as_str().unwrap()).is_some());
    let backend = &ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"];
    assert_eq!((&backend["name"], &backend["port"]["name"]), (&service["metadata"]["name"], &led["name"]));
    for rule in network["spec"]["ingress"].as_vec().unwrap() {
        let name = rule["ports"][0]["port"].as_str().unwrap();
        assert!(port(&deployment, name).is_some(), "nothing listens on {name}");
    }
}

#[test]
fn containers_ask_for_what_they_need_and_may_do_nothing_else() {
    let deployment = manifest("deployment");
    let (pod, container) = (pod(&deployment), container(&deployment));
    for asked in [
        &container["resources"]["requests"]["cpu"],
        &container["resources"]["requests"]["memory"],
        &container["resources"]["limits"]["memory"],
    ] {
        assert!(asked.as_str().is_some(), "{asked:?}");
    }
    assert_eq!(pod["automountServiceAccountToken"].as_bool(), Some(false));
    assert_eq!(pod["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"].as_str(), Some("RuntimeDefault"));
    let bounds = &container["securityContext"];
    assert_eq!(bounds["allowPrivilegeEscalation"].as_bool(), Some(false));
    assert_eq!(bounds["readOnlyRootFilesystem"].as_bool(), Some(true));
    assert_eq!(strings(&bounds["capabilities"]["drop"]), ["ALL"]);
    // The namespace refuses pods that promise less.
    let labels = &manifest("namespace")["metadata"]["labels"];
    assert_eq!(labels["pod-security.kubernetes.io/enforce"].as_str(), Some("restricted"));
}

#[test]
fn pods_are_given_the_time_that_an_end_in_peace_takes() {
    let deployment = manifest("deployment");
    let grace = pod(&deployment)["terminationGracePeriodSeconds"].as_i64().unwrap();
    let sleep = container(&deployment)["lifecycle"]["preStop"]["sleep"]["seconds"].as_i64().unwrap();
    // Legs in hand have ten seconds, and requests come to their end before that.
    assert!(sleep > 0 && grace >= sleep + 30, "{grace} s after {sleep} s");
}

#[test]
fn settings_of_the_pods_are_settings_of_the_program() {
    let (config, deployment) = (manifest("config"), manifest("deployment"));
    let said = text("deploy/kubernetes/kustomization.yaml");
    let secret = said.split("--from-literal=").skip(1).filter_map(|rest| rest.split('=').next());
    let own = container(&deployment)["env"].as_vec().unwrap();
    let names: Vec<&str> = keys(&config["data"])
        .into_iter()
        .chain(secret)
        .chain(own.iter().filter_map(|it| it["name"].as_str()))
        .collect();
    for name in ["API_KEYS", "CALLER_RATE", "PUBLIC_URL", "SEAL_KEYS", "STORE_URL"] {
        assert!(names.contains(&name), "{name} is missing: {names:?}");
    }
    assert!(!names.contains(&"ALLOW_ANYBODY"), "the ingress would lead anybody to it");
    assert!(said.contains("sslmode=verify-full"), "the store's certificate is not verified");
    for name in names {
        assert!(is_setting(name), "`{name}` is nothing that `examples/deployed` reads");
    }
}
