//! What servers have: tools, prompts, resources.

use std::process::Stdio;

use crate::{
    support::{Folder, Said, antiphon, command, plain, serve},
    talk::server,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_listed_and_shown_without_what_would_move_the_cursor() {
    let url = serve(&server()).await;
    let listed = antiphon(&["tools", &url]).await.ended(0);
    insta::assert_snapshot!(listed.out, @"
    TOOL     WHAT IT DOES                  HINTS
    echo     Says what it was told
    order    Takes an order                asks
    later    Takes an order, and its time
    long     Tells how far it is
    say      Asks the model
    sign_in  Sends you to a page
    picture  Draws
    fail     Innocent�[2J�]0;owned�
    sleep    Takes an hour
    ");
    let shown = antiphon(&["tools", &url, "echo"]).await.ended(0);
    insta::assert_snapshot!(plain(&shown.out, &url), @"
    echo

    Says what it was told

     ARGUMENT      FLAG            WHAT                     REQUIRED  DEFAULT  ABOUT
     name          --name          text                     yes                Who it is
     count         --count         whole number, 1 to 9                        How often
     dryRun        --dry-run       yes or no
     tag           --tag           list: text
     mood          --mood          one of glad, sad
     task          --task          text                                        A flag we have as well
     address.city  --address.city  text                     yes
     address.zip   --address.zip   whole number, 0 or more
     rest          --rest          JSON
     odd name      --arguments     text

    Call it:
      antiphon call URL echo --name text --address.city text
    ");
    let legacy = antiphon(&["tools", "--revision", "2025-11-25", &url]).await.ended(0);
    assert!(
        legacy.out.contains("its time  always a task") && legacy.out.contains("can be a task"),
        "{}",
        legacy.out
    );
    let unknown = antiphon(&["tools", &url, "ecko"]).await.ended(3);
    assert!(unknown.err.contains("the tool `ecko` does not exist; the tools are echo"), "{}", unknown.err);
    let json = antiphon(&["tools", &url, "--json"]).await.ended(0).json();
    assert_eq!(json[0]["name"], "echo");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_and_resources_are_listed_and_read() {
    let url = serve(&server()).await;
    insta::assert_snapshot!(antiphon(&["prompts", &url]).await.ended(0).out, @"
    PROMPT  WHAT IT IS FOR     ARGUMENTS
    review  Asks for a review  code
    ");
    let got = antiphon(&["prompts", &url, "review", "--arg", "code=1+1"]).await.ended(0);
    assert_eq!(got.out, "user: Review this: 1+1\n");
    let lacking = antiphon(&["prompts", &url, "review"]).await.ended(2);
    assert_eq!(lacking.err, "error: the prompt `review` needs `code`; add `--arg code=…`\n");
    antiphon(&["prompts", &url, "preview"]).await.ended(3);
    insta::assert_snapshot!(antiphon(&["resources", &url]).await.ended(0).out, @"
    URI           NAME   KIND        ABOUT
    talk://motto  motto  text/plain
    ");
    assert_eq!(antiphon(&["resources", &url, "talk://motto"]).await.ended(0).out, "call and response\n");
    let folder = Folder::new();
    let path = folder.path().join("motto.txt");
    antiphon(&["resources", &url, "talk://motto", "--save", path.to_str().unwrap()]).await.ended(0);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "call and response");
    antiphon(&["resources", "--templates", &url]).await.ended(3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_has_help_with_an_example() {
    for command in ["tools", "call", "prompts", "resources", "tasks"] {
        let help = antiphon(&[command, "--help"]).await.ended(0).out;
        assert!(help.contains(&format!("Examples:\n  antiphon {command}")), "{help}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_has_had_enough_is_no_failure() {
    let url = serve(&server()).await;
    let folder = Folder::new();
    let mut command = command(&folder);
    command.args(["tools", &url]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    Said::from(child.wait_with_output().await.unwrap()).ended(0);
}
