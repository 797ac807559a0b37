//! What each part of the crate stands on.

use std::{collections::BTreeSet, process::Command};

/// The crates that a part needs.
fn tree(features: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "antiphon-results", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}", "--no-default-features", "--features", features])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split_whitespace().next()).map(ToOwned::to_owned).collect()
}

#[test]
fn no_part_knows_mcp_or_a_model() {
    for features in ["", "server", "rest", "client", "server,rest,client,postgres,mysql,sqlite,conformance"] {
        let tree = tree(features);
        // Of `antiphon-transport` it has what looks at hosts and origins, which knows no MCP either.
        for stranger in ["rmcp", "antiphon", "antiphon-llm", "antiphon-host", "rig-core"] {
            assert!(!tree.contains(stranger), "`{features}` needs {stranger}");
        }
    }
}

#[test]
fn client_and_server_stand_alone() {
    let (server, client) = (tree("server"), tree("client"));
    assert!(!client.contains("antiphon-store") && !client.contains("axum") && !client.contains("sqlx"));
    assert!(!server.contains("reqwest") && !server.contains("axum") && !server.contains("sqlx"));
    assert!(tree("").len() < 40);
}
