//! Approval before a delete.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// A placeholder for a database. Each project has a number of files.
#[derive(Clone, Default)]
struct Projects(Arc<Mutex<BTreeMap<String, u32>>>);

impl Projects {
    async fn count(&self, project: &str) -> Result<u32> {
        tokio::task::yield_now().await;
        let projects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        projects.get(project).copied().ok_or_else(|| Error::tool(format!("there is no project `{project}`")))
    }

    async fn delete(&self, project: &str) -> Result<()> {
        tokio::task::yield_now().await;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(project);
        Ok(())
    }
}

// ANCHOR: recipe
use antiphon::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Delete {
    /// The name of the project.
    project: String,
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Type the name of the project to delete it.
    name: String,
}

async fn delete(ctx: &Ctx, State(projects): State<Projects>, Delete { project }: Delete) -> Result<String> {
    // In a step, so that the question has the same text in every round.
    let files = ctx.step("count", || projects.count(&project)).await?;
    ctx.elicit::<Approval>(format!("Delete {project} with {files} files?"))
        .check(|it| if it.name == project { Ok(()) } else { Err("this is another name".to_owned()) })
        .await?
        .accepted()?;
    ctx.step("delete", || projects.delete(&project)).await?;
    Ok(format!("{project} is deleted."))
}
// ANCHOR_END: recipe

#[cfg(test)]
mod tests {
    use antiphon::{
        ServerBuilder,
        testing::{Answers, Client, Revision},
    };
    use serde_json::json;

    use super::*;

    fn server(projects: &Projects) -> ServerBuilder {
        let tool = Tool::new("delete", "Deletes a project", delete);
        Server::builder("projects", "1.0.0").with_state(projects.clone()).tool(tool)
    }

    #[tokio::test]
    async fn project_is_deleted_after_its_name_was_typed() -> Result<()> {
        for revision in Revision::BOTH {
            let projects = Projects::default();
            projects.0.lock().unwrap().insert("atlas".into(), 12);
            let answers = Answers::new()
                .accept("approval", json!({"name": "atlantis"}))
                .accept("approval", json!({"name": "atlas"}));
            let server = server(&projects).build()?;
            let mut client = Client::connect(&server, revision).await?.with_answers(answers);
            let talk = client.call("delete", json!({"project": "atlas"})).await?;
            assert_eq!(talk.text(), "atlas is deleted.");
            assert_eq!(talk.asked.len(), 2);
            assert!(projects.0.lock().unwrap().is_empty());
        }
        Ok(())
    }
}
