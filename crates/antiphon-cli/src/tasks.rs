//! `antiphon tasks`: lists, shows, follows and cancels tasks.

use antiphon_host::{Connection, Error, TaskInfo};
use antiphon_transport::revision::Revision;
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    call::{follow, print_result},
    exit::Outcome,
    global::App,
    person::{Answering, Person, Watched},
    print::{clean, print, table, trimmed},
    target::Target,
};

/// List, show, follow and cancel tasks: calls that run in the background.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  antiphon tasks show reports 01HZX3\n  antiphon tasks follow reports 01HZX3\n  antiphon tasks cancel reports 01HZX3"
)]
pub(crate) struct Tasks {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List a server's tasks. Servers of 2026-07-28 do not have this list.
    #[command(after_help = "Example:\n  antiphon tasks list reports")]
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Show the status of a task.
    #[command(after_help = "Example:\n  antiphon tasks show reports 01HZX3")]
    Show {
        #[command(flatten)]
        target: Target,
        /// The ID of the task, as `antiphon call --task` prints it.
        id: String,
    },
    /// Wait for a task, answer its questions, and print its result.
    #[command(after_help = "Example:\n  antiphon tasks follow reports 01HZX3")]
    Follow {
        #[command(flatten)]
        target: Target,
        /// The ID of the task, as `antiphon call --task` prints it.
        id: String,
        #[command(flatten)]
        answering: Answering,
    },
    /// Request the cancellation of a task.
    #[command(after_help = "Example:\n  antiphon tasks cancel reports 01HZX3")]
    Cancel {
        #[command(flatten)]
        target: Target,
        /// The ID of the task, as `antiphon call --task` prints it.
        id: String,
    },
}

impl Tasks {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        match self.command {
            Command::List { target } => list(app, &app.connect(&target, App::host()).await?).await,
            Command::Show { target, id } => {
                let connection = app.connect(&target, App::host()).await?;
                let info = connection.task(&id).status().await?;
                print(app.json, &value(&info), || one(&info));
                Ok(Outcome::Done)
            }
            Command::Follow { target, id, answering } => {
                let person = Person::new(app, &target.server, &answering)?;
                let _watched = Watched(&person);
                let connection = app.connect(&target, person.host(app, &answering)?).await?;
                let ended = Box::pin(follow::follow(&person, &target, &connection.task(&id))).await;
                person.terminal().screen.finish();
                let ended = match ended {
                    Ok(result) => print_result(&connection, &result, app.json, None, "task"),
                    Err(error) => Err(error),
                };
                person.ended(ended)
            }
            Command::Cancel { target, id } => {
                let connection = app.connect(&target, App::host()).await?;
                let info = connection.task(&id).cancel().await?;
                print(app.json, &value(&info), || one(&info));
                let cancelled = follow::status(info.status) == "cancelled" || !info.status.is_finished();
                Ok(if cancelled { Outcome::Done } else { Outcome::Nothing })
            }
        }
    }
}

/// The error code of a server that does not support a method, or does not support the method for this client.
const METHOD_NOT_FOUND: i32 = -32601;

async fn list(app: &App, connection: &Connection) -> Result<Outcome> {
    let unlisted = |why: &str| {
        eprintln!("{why}");
        eprintln!("hint: note the IDs that `antiphon call --task` prints, and use `antiphon tasks show`");
        Ok(Outcome::Nothing)
    };
    match Revision::of(Some(connection.server().await.revision.as_str())) {
        Revision::Rounds => return unlisted("servers of 2026-07-28 have no list of tasks"),
        Revision::Session => {}
    }
    let tasks = match connection.tasks().await {
        Err(Error::Server { code: METHOD_NOT_FOUND, message, .. }) => {
            return unlisted(&clean(&format!("the server does not list its tasks: {message}")));
        }
        listed => listed?,
    };
    if tasks.is_empty() && !app.json {
        eprintln!("the server has no tasks of this caller");
        return Ok(Outcome::Nothing);
    }
    let values: Vec<Value> = tasks.iter().map(value).collect();
    print(app.json, &Value::from(values), || {
        let mut table = table(["TASK", "STATUS", "CREATED"]);
        for task in &tasks {
            let created = clean(task.created.as_deref().unwrap_or_default());
            table.add_row([clean(&task.id), follow::describe(task), created]);
        }
        trimmed(&table)
    });
    Ok(Outcome::Done)
}

fn one(info: &TaskInfo) -> String {
    let mut lines = vec![format!("{}: {}", clean(&info.id), follow::describe(info))];
    for (what, when) in [("created", &info.created), ("changed", &info.last_updated)] {
        lines.extend(when.as_ref().map(|when| format!("{what} {}", clean(when))));
    }
    lines.extend(info.ttl.map(|ttl| format!("kept for {ttl:?}")));
    lines.join("\n")
}

fn value(info: &TaskInfo) -> Value {
    json!({
        "taskId": info.id,
        "status": follow::status(info.status).replace(' ', "_"),
        "statusMessage": info.message,
        "createdAt": info.created,
        "lastUpdatedAt": info.last_updated,
    })
}
