use antiphon::results::{Access, CreateOptions, DualResponse, DualResponseServer, LinkOptions, Rows, Source};

async fn search_sales(ctx: &Ctx, _: ()) -> Result<DualResponse> {
    ctx.dual_response(CreateOptions::new("Sales", Source::rows(Rows::new()))).await
}

// ANCHOR: server
use antiphon::{ServerBuilder, prelude::*, results::ResultTools};

fn explore(results: DualResponseServer) -> ServerBuilder {
    Server::builder("explore", "1.0.0")
        .with_results(results) // with a store for snapshots, and keys for links
        .with_result_tools(ResultTools::new())
        .tool(Tool::new("search_sales", "Finds sales", search_sales).with_result_viewer())
}
// ANCHOR_END: server

// ANCHOR: link
async fn view(results: &DualResponseServer, id: &str, access: &Access) -> Result<String> {
    let link = results.mint_link(id, access, LinkOptions::default()).await?;
    Ok(link.url.replacen('?', "/view?", 1))
}
// ANCHOR_END: link
