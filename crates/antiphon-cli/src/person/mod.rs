//! The person at the terminal, or who stands in for them: who answers what servers ask.

mod answers;
mod approval;
mod board;
pub(crate) mod field;
pub(crate) mod forms;
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
use crate::{config::ModelChoice, exit::Outcome, global::App, print::clean};

/// How what a server asks is answered.
#[derive(Clone, Debug, Args)]
pub(crate) struct Answering {
    /// Answers to forms, in a JSON file, by key: for programs, and for tests.
    #[arg(long, value_name = "FILE", help_heading = "Questions")]
    pub(crate) answers: Option<PathBuf>,
    /// Whether samples may go to the model.
    #[arg(long, value_enum, default_value_t = Samples::Ask, help_heading = "Questions")]
    pub(crate) samples: Samples,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
}

/// Whether samples may go to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Samples {
    /// Show each, and ask.
    Ask,
    /// Let them through.
    Allow,
    /// Turn them away.
    Refuse,
}

/// Whoever answers what a server asks.
#[derive(Clone, Debug)]
pub(crate) struct Person(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pub(crate) terminal: Terminal,
    /// Who asks.
    server: String,
    /// Whether somebody can be asked.
    present: bool,
    verbose: bool,
    answers: Option<Answers>,
    samples: Samples,
    noted: Mutex<Noted>,
}

/// More of a server's command than this nobody reads before a question.
const LONGEST_NAME: usize = 80;

/// What became of the questions.
#[derive(Debug, Default)]
struct Noted {
    /// What nobody was there to answer, in words for the person.
    unanswered: Vec<String>,
    /// Whether somebody said no.
    declined: bool,
}

impl Person {
    /// Whoever answers what `server` asks.
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

    /// A host on which this person answers.
    pub(crate) fn host(&self, app: &App, answering: &Answering) -> Result<HostBuilder> {
        let screen = self.clone();
        let mut host = App::host()
            .with_forms(Asking(self.clone()))
            .with_pages(pages::Opening(self.clone()))
            .with_events(move |event| screen.terminal().screen.tell(&event));
        if self.0.present && self.0.answers.is_none() {
            host = host.with_form(board::KEY, board::Playing(self.clone()));
        }
        if let Some(model) = answering.model.or(&app.config.model).open()? {
            host = host.with_approval(approval::Approving::new(self.clone(), model.name())).with_model(model);
        }
        Ok(host)
    }

    pub(crate) fn terminal(&self) -> &Terminal {
        &self.0.terminal
    }

    /// Who asks, as the person knows it.
    fn server(&self) -> &str {
        &self.0.server
    }

    /// Whether somebody can be asked.
    pub(crate) fn is_present(&self) -> bool {
        self.0.present
    }

    /// Notes that nobody was there to answer.
    fn miss(&self, what: String) {
        let mut noted = self.0.noted.lock().unwrap_or_else(PoisonError::into_inner);
        // A tool that asks the same again gets the same said once.
        if !noted.unanswered.contains(&what) {
            noted.unanswered.push(what);
        }
    }

    /// Notes that somebody said no.
    fn decline(&self) {
        self.0.noted.lock().unwrap_or_else(PoisonError::into_inner).declined = true;
    }

    /// How a command ends that would end with `outcome`, if all questions had been answered. Says what was not.
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

    /// The same for a command that failed: its error is said as well.
    pub(crate) fn ended(&self, ended: Result<Outcome>) -> Result<Outcome> {
        self.terminal().screen.finish();
        match ended {
            Ok(outcome) => Ok(self.outcome(outcome)),
            Err(error) => match self.outcome(Outcome::ToolFailed) {
                outcome @ (Outcome::Unanswered | Outcome::Interrupted) => {
                    eprintln!("error: {}", clean(&format!("{error:#}")));
                    Ok(outcome)
                }
                _ => Err(error),
            },
        }
    }
}

/// A host that declares what a person here can be asked, and answers nothing: for looking around.
pub(crate) fn declaring(app: &App) -> HostBuilder {
    let host = App::host()
        .with_forms(|_: Form| std::future::ready(Shown::Decline))
        .with_pages(|_: Page| std::future::ready(false));
    match app.config.model.open() {
        Ok(Some(model)) => host.with_approval(approval::Nobody).with_model(model),
        // Without a model, and without its key, nothing is sampled.
        Ok(None) | Err(_) => host,
    }
}

/// Shows forms to the person, or takes what the file has.
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

/// Ends what a person sees of a call when it is over, or left.
pub(crate) struct Watched<'a>(pub(crate) &'a Person);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.terminal().screen.finish();
        terminal::restore();
    }
}
