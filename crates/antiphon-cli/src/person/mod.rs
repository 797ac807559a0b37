//! Answers the questions of servers. The answers come from the user at the terminal, or from a file.

mod answers;
mod approval;
mod board;
pub(crate) mod field;
pub(crate) mod forms;
pub(crate) mod hand;
mod pages;
mod prompt;
pub(crate) mod screen;
pub(crate) mod terminal;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use antiphon_host::{BoxFuture, Form, FormHandler, HostBuilder, Page, Shown};
use anyhow::Result;
use clap::{Args, ValueEnum};

use self::{answers::Answers, terminal::Terminal};
use crate::{
    config::ModelChoice,
    exit::{self, Misused, Outcome},
    global::App,
    print::clean,
};

/// Options for answering questions.
#[derive(Clone, Debug, Args)]
pub(crate) struct Answering {
    /// Answer forms from this JSON file, by question key. For scripts and tests.
    #[arg(long, value_name = "FILE", help_heading = "Questions")]
    pub(crate) answers: Option<PathBuf>,
    /// Choose how to treat sampling requests.
    #[arg(long, value_enum, default_value_t = Samples::Ask, help_heading = "Questions")]
    pub(crate) samples: Samples,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
}

/// How to treat sampling requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Samples {
    /// Show each request and ask for approval.
    Ask,
    /// Send all requests to the model.
    Allow,
    /// Reject all requests.
    Refuse,
    /// Answer each request yourself, in place of a model. It needs a terminal.
    Hand,
}

/// The source of answers to questions: the user at the terminal, or a file.
#[derive(Clone, Debug)]
pub(crate) struct Person(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pub(crate) terminal: Terminal,
    /// The server that asks the questions.
    server: String,
    /// Whether a user is present to answer.
    present: bool,
    verbose: bool,
    answers: Option<Answers>,
    samples: Samples,
    noted: Mutex<Noted>,
}

/// The maximum number of characters of a server's command that a question shows.
const LONGEST_NAME: usize = 80;

/// Records which questions were not answered, and whether the user declined a question.
#[derive(Debug, Default)]
struct Noted {
    /// Questions that were not answered, as messages for the user.
    unanswered: Vec<String>,
    /// Whether the user declined a question.
    declined: bool,
}

impl Person {
    /// Creates the `Person` that answers the questions of `server`.
    pub(crate) fn new(app: &App, server: &str, answering: &Answering) -> Result<Self> {
        let answers = answering.answers.as_deref().map(Answers::read).transpose()?;
        Ok(Self(Arc::new(Inner {
            terminal: Terminal::new(),
            server: clean(server).chars().take(LONGEST_NAME).collect(),
            present: app.interactive,
            verbose: app.verbose,
            answers,
            samples: answering.samples,
            noted: Mutex::default(),
        })))
    }

    /// Returns a host builder that uses this `Person` for questions.
    pub(crate) fn host(&self, app: &App, answering: &Answering) -> Result<HostBuilder> {
        let (screen, strays) = (self.clone(), self.clone());
        let mut host = App::host()
            .with_forms(Asking(self.clone()))
            .with_pages(pages::Opening(self.clone()))
            .with_events(move |event| screen.terminal().screen.tell(&event))
            .with_stray_output(move |stray| {
                strays.terminal().screen.line(&format!("warning: {}", App::describe(stray)));
            });
        if self.0.present && self.0.answers.is_none() {
            host = host.with_form(board::KEY, board::Playing(self.clone()));
        }
        if answering.samples == Samples::Hand {
            if !self.is_present() {
                let message = "`--samples hand` needs a terminal, where you answer; use `--model` in scripts";
                return Err(Misused(message.into()).into());
            }
            let hand = approval::ByHand::new(self.clone());
            return Ok(host.with_approval(hand.clone()).with_model(hand));
        }
        if let Some(model) = answering.model.or(&app.config.model).open()? {
            host = host.with_approval(approval::Approving::new(self.clone(), model.name())).with_model(model);
        }
        Ok(host)
    }

    pub(crate) fn terminal(&self) -> &Terminal {
        &self.0.terminal
    }

    /// Returns the name, the URL or the command with which the user selected the server.
    fn server(&self) -> &str {
        &self.0.server
    }

    /// Returns whether a user is present to answer.
    pub(crate) fn is_present(&self) -> bool {
        self.0.present
    }

    /// Records that a question was not answered.
    fn miss(&self, what: String) {
        let mut noted = self.0.noted.lock().unwrap_or_else(PoisonError::into_inner);
        // If a tool repeats a question, report it only once.
        if !noted.unanswered.contains(&what) {
            noted.unanswered.push(what);
        }
    }

    /// Records that the user declined a question.
    fn decline(&self) {
        self.0.noted.lock().unwrap_or_else(PoisonError::into_inner).declined = true;
    }

    /// Prints the unanswered questions, and returns the final outcome. If a question was not answered or the user
    /// interrupted the CLI, the final outcome differs from `outcome`.
    pub(crate) fn outcome(&self, outcome: Outcome) -> Outcome {
        if self.terminal().is_interrupted() {
            return Outcome::Interrupted;
        }
        let noted = self.0.noted.lock().unwrap_or_else(PoisonError::into_inner);
        for missed in &noted.unanswered {
            eprintln!("{missed}");
        }
        let failed = !matches!(outcome, Outcome::Done);
        if !noted.unanswered.is_empty() || (failed && noted.declined) { Outcome::Unanswered } else { outcome }
    }

    /// Returns the final outcome like [`Person::outcome`], for commands that can fail. If the command failed because
    /// of an unanswered question or an interrupt, prints the error.
    pub(crate) fn ended(&self, ended: Result<Outcome>) -> Result<Outcome> {
        self.terminal().screen.finish();
        match ended {
            Ok(outcome) => Ok(self.outcome(outcome)),
            Err(error) => match self.outcome(Outcome::ToolFailed) {
                outcome @ (Outcome::Unanswered | Outcome::Interrupted) => {
                    eprintln!("error: {}", clean(&exit::told(&error)));
                    Ok(outcome)
                }
                _ => Err(error),
            },
        }
    }
}

/// Returns a host for commands that only list items. The returned host declares the capabilities of this user, and
/// declines all questions.
pub(crate) fn declaring(app: &App) -> HostBuilder {
    let host = App::host()
        .with_forms(|_: Form| std::future::ready(Shown::Decline))
        .with_pages(|_: Page| std::future::ready(false));
    match app.config.model.open() {
        Ok(Some(model)) => host.with_approval(approval::Nobody).with_model(model),
        // Without a model or its API key, the host does not declare sampling.
        Ok(None) | Err(_) => host,
    }
}

/// Answers forms from the file, or shows the forms to the user.
struct Asking(Person);

impl FormHandler for Asking {
    fn show(&self, form: Form) -> BoxFuture<'_, Shown> {
        Box::pin(async move {
            let Self(person) = self;
            let shown = match &person.0.answers {
                Some(answers) => answers.shown(&form),
                None if person.is_present() => Some(forms::show(person, &form).await),
                None => None,
            };
            let Some(shown) = shown else {
                person.miss(answers::missing(&form, person.0.answers.is_some()));
                return Shown::Decline;
            };
            if !matches!(shown, Shown::Accept(_)) {
                person.decline();
            }
            shown
        })
    }
}

/// A guard that clears the progress display and restores the terminal on drop.
pub(crate) struct Watched<'a>(pub(crate) &'a Person);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.terminal().screen.finish();
        terminal::restore();
    }
}
