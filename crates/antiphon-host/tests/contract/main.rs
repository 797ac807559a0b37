//! The streaming contract: one suite of behaviours, over every transport and on both revisions.
//!
//! Each cell is a test of its own, `behaviour::transport::revision`. A cell that a revision forbids is
//! not left out: its test says how it is refused. `cargo xtask contract` prints the matrix.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behaviours;
mod fixture;
mod frames;
mod raw;
mod tasks;
mod world;

use std::{future::Future, pin::Pin};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::world::{Revision, SERVE, Transport, World};

type Behaviour = fn(World) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! behaviours {
    ($from:ident: $($name:ident),* $(,)?) => {
        [$((stringify!($name), (|world| Box::pin($from::$name(world))) as Behaviour)),*]
    };
}

fn main() {
    if std::env::var_os(SERVE).is_some() {
        // This program is its own server over stdio.
        runtime().block_on(async { fixture::server().serve_stdio().await }).expect("the server serves");
        return;
    }
    let behaviours = behaviours![behaviours:
        says_who_it_is,
        prompts,
        resources_and_templates,
        completions,
        tools,
        every_block_survives,
        a_tool_error_is_a_result,
        receives_list_change_notifications,
        can_do_sampling,
        several_calls_in_one_reply_keep_their_order,
        can_do_form_elicitation,
        can_do_url_elicitation,
        a_page_that_was_declined_is_never_complete,
        what_was_not_declared_is_not_asked,
        url_elicitation_required_is_typed_and_retried,
        receives_progress,
        receives_logs_of_its_level,
        cancellation_reaches_the_tool,
        roots_are_asked_for,
        can_subscribe_to_resource_updates,
        can_unsubscribe_from_resource_updates,
        large_messages,
        a_thousand_calls_that_ask_do_not_cross,
        a_request_of_the_other_revision_is_refused,
        forms_without_defaults_are_declined_by_a_host_without_a_person,
        a_foreign_origin_is_refused,
        a_connection_that_breaks_is_resumed_or_the_call_is_said_to_be_lost,
    ];
    let tasks = behaviours![tasks:
        can_list_tasks,
        can_get_a_task_by_id,
        can_cancel_a_task,
        can_get_the_task_result,
        receives_task_update_notifications,
        a_task_asks_and_goes_on,
    ];
    let mut trials = Vec::new();
    for (name, behaviour) in behaviours.into_iter().chain(tasks) {
        for transport in Transport::ALL {
            for revision in Revision::ALL {
                let cell = format!("{name}::{}::{}", transport.name(), revision.name());
                trials.push(Trial::test(cell, move || run(behaviour, transport, revision)));
            }
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

#[expect(clippy::unnecessary_wraps, reason = "what a trial returns; a behaviour fails by panicking")]
fn run(behaviour: Behaviour, transport: Transport, revision: Revision) -> Result<(), Failed> {
    runtime().block_on(async {
        let world = World::new(transport, revision).await;
        if world.is_forbidden() {
            world.is_refused().await;
        } else {
            let frames = world.frames();
            behaviour(world).await;
            if let Some(frames) = frames {
                frames.assert_valid();
            }
        }
    });
    Ok(())
}
