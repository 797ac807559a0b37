use antiphon::prelude::*;
use antiphon_host::{Endpoint, Event, Proxy, ProxyConfig};
use serde_json::json;

// ANCHOR: serve
async fn portal() -> anyhow::Result<Server> {
    let config = ProxyConfig::default().with_prefix("weather_");
    let weather = Proxy::connect_with(Endpoint::http("https://weather.example/mcp"), config).await?;
    let files = Proxy::connect(Endpoint::command("file-server", ["--root", "/srv/files"])).await?;

    let builder = Server::builder("portal", "1.0.0").tool(Tool::new("report", "Writes a report", report));
    let builder = weather.add_to(builder.with_state(weather.clone())).await?;
    Ok(files.add_to(builder).await?.build()?)
}
// ANCHOR_END: serve

// ANCHOR: step
async fn report(ctx: &Ctx, State(weather): State<Proxy>, _: ()) -> Result<String> {
    let forecast = weather.call(ctx, "forecast", json!({"city": "Kyiv"})).await?;
    let text = forecast.content.iter().find_map(|block| Some(block.as_text()?.text.clone()));
    Ok(format!("Tomorrow: {}", text.unwrap_or_default()))
}
// ANCHOR_END: step

// ANCHOR: changes
async fn follow(endpoint: Endpoint, server: Server) -> antiphon_host::Result<()> {
    let (changed, mut changes) = tokio::sync::mpsc::unbounded_channel();
    let config = ProxyConfig::default().with_events(move |event| {
        if event == Event::ToolsChanged {
            let _ = changed.send(());
        }
    });
    let proxy = Proxy::connect_with(endpoint, config).await?;
    while changes.recv().await.is_some() {
        for tool in proxy.tools().await? {
            // A tool with the same name is replaced.
            server.remove_tool(tool.name());
            let _ = server.add_tool(tool);
        }
    }
    Ok(())
}
// ANCHOR_END: changes
