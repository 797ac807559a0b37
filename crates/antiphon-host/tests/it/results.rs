//! Dual responses, from the tool to the last row.

use antiphon::{http::HttpConfig, prelude::*};
use antiphon_host::{Endpoint, Host};
use antiphon_results::{
    CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions, Rows, Source,
    client::{DualResponseClientOptions, FetchAllOptions, FetchOptions},
};
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{BOTH, endpoint};

async fn report(ctx: &Ctx, _: ()) -> Result<DualResponse> {
    let mut rows = Rows::new();
    for id in 0..847 {
        rows.push(&json!({"id": id}))?;
    }
    ctx.dual_response(CreateOptions::new("Report", Source::rows(rows))).await
}

fn server(base: &str) -> (Server, DualResponseServer) {
    let results = DualResponseServer::new(DualResponseServerOptions::new(base)).unwrap();
    let tool = Tool::new("report", "Reports", report);
    (Server::builder("s", "1").with_results(results.clone()).tool(tool).build().unwrap(), results)
}

/// Serves MCP and the sets, and says where.
async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (server, results) = server(&format!("{base}/resources"));
    let app = server.router(HttpConfig::default()).nest("/resources", results.router());
    tokio::spawn(async move { axum::serve(listener, app).await });
    base
}

#[tokio::test]
async fn set_is_fetched_at_the_origin_of_its_server() {
    let base = serve().await;
    for lifecycle in BOTH {
        let host = Host::builder("h", "1").with_lifecycle(lifecycle).build();
        let connection = host.connect(Endpoint::http(format!("{base}/mcp"))).await.unwrap();
        let result = connection.call("report", json!({})).await.unwrap();
        let set = connection.dual_response(&result).unwrap();
        assert_eq!((set.total_count(), set.sample().len()), (847, 15));
        let rows = set.fetch_all(FetchAllOptions::new()).await.unwrap();
        assert_eq!(rows.len(), 847);
        assert_eq!(rows[846]["id"], 846);
    }
}

#[tokio::test]
async fn set_elsewhere_is_not_gone_to_unless_the_host_says_so() {
    let elsewhere = serve().await;
    // A server whose sets are said to be at another origin.
    let (other, _) = server("https://169.254.169.254/latest");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let app = other.router(HttpConfig::default());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let connection = Host::builder("h", "1").build().connect(Endpoint::http(&url)).await.unwrap();
    let result = connection.call("report", json!({})).await.unwrap();
    let refused = connection.dual_response(&result).unwrap().fetch(FetchOptions::new()).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "URL_REFUSED");
    // Over a pipe there is no origin: nothing is gone to until the host names a base.
    let (piped, _) = server(&format!("{elsewhere}/resources"));
    let connection = Host::builder("h", "1").build().connect(endpoint(&piped)).await.unwrap();
    let result = connection.call("report", json!({})).await.unwrap();
    let refused = connection.dual_response(&result).unwrap().fetch(FetchOptions::new()).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "URL_REFUSED");
    let options = DualResponseClientOptions::new().with_base_url(format!("{elsewhere}/resources"));
    let host = Host::builder("h", "1").with_results(options).build();
    let connection = host.connect(endpoint(&piped)).await.unwrap();
    let result = connection.call("report", json!({})).await.unwrap();
    let gone = connection.dual_response(&result).unwrap().fetch(FetchOptions::new()).await.unwrap_err();
    // It went there; that server has no such set.
    assert_eq!(gone.code().as_str(), "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn headers_are_not_for_whoever_is_connected_to() {
    let (piped, _) = server("https://api.example.com/resources");
    let options = DualResponseClientOptions::new().with_header("authorization", "Bearer secret");
    let host = Host::builder("h", "1").with_results(options.clone()).build();
    let refused = host.connect(endpoint(&piped)).await.unwrap_err();
    assert!(refused.to_string().contains("`with_base_url`"), "{refused}");
    let options = options.with_base_url("https://api.example.com/resources");
    assert!(Host::builder("h", "1").with_results(options).build().connect(endpoint(&piped)).await.is_ok());
}

#[tokio::test]
async fn plain_result_is_no_dual_response() {
    let tool = Tool::new("plain", "Says something", async |_: &Ctx, _: ()| -> Result<String> {
        Ok("hello".to_owned())
    });
    let server = Server::builder("s", "1").tool(tool).build().unwrap();
    let connection = Host::builder("h", "1").build().connect(endpoint(&server)).await.unwrap();
    let result = connection.call("plain", json!({})).await.unwrap();
    assert!(connection.dual_response(&result).is_none());
}
