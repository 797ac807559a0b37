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
async fn follow(endpoint: Endpoint, server: Server) -> anyhow::Result<()> {
    let (changed, mut changes) = tokio::sync::mpsc::unbounded_channel();
    let config = ProxyConfig::default().with_events(move |event| {
        if event == Event::ToolsChanged {
            let _ = changed.send(());
        }
    });
    let proxy = Proxy::connect_with(endpoint, config).await?;
    // Only these tools are removed, so the other server cannot replace a tool of your server.
    let mut added: Vec<String> = Vec::new();
    loop {
        let tools = proxy.tools().await?;
        added = server.update(|items| {
            for name in &added {
                items.remove_tool(name);
            }
            let mut names = Vec::new();
            for tool in tools {
                if !items.tools().any(|name| name == tool.name()) {
                    names.push(tool.name().to_owned());
                    items.add_tool(tool);
                }
            }
            names
        })?;
        if changes.recv().await.is_none() {
            return Ok(());
        }
    }
}
// ANCHOR_END: changes
