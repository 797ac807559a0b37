//! A client that brings runs to their end: its model calls tools, and its form answers questions.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::json;

use super::Break;
use super::caller::{Caller, Fronts};
use super::run::{Reply, Run, Source};
use super::view::{Asked, Opened, Replied, View, ids_in, text_of, waiting_task};
use crate::chaos::cluster::PAUSE;
use crate::mcp::{LEGACY, MODERN};

/// How many users there are.
pub(super) const USERS: u64 = 20;

/// A part of the error for a task that does not exist.
const NO_TASK: &str = "no such task";

/// How long replies to another user can differ: while the store is away, they do.
const COMPARISON: Duration = Duration::from_secs(15);

/// A client of its own thread.
#[derive(Debug)]
pub(super) struct Client<'a> {
    fronts: &'a Fronts,
    rng: Rng,
    patience: Duration,
    breaks: Option<Break>,
    /// The number of answers so far, which makes each answer unique.
    words: u64,
    /// Calls without a result. Some of them have started a run.
    pub(super) orphans: u64,
}

/// How a user answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Once,
    /// Sends the same answer again.
    Same,
    /// Sends the same answer on two connections at the same time.
    SameAtOnce,
    /// Sends two answers on two connections at the same time.
    OtherAtOnce,
    /// Sends another answer with the ticket of a question that is answered.
    Late,
    /// Answers after another user has tried to.
    AfterAnother,
    /// First sends an answer that does not fit.
    Misfit,
}

impl<'a> Client<'a> {
    pub(super) fn new(fronts: &'a Fronts, rng: Rng, patience: Duration, breaks: Option<Break>) -> Self {
        Self { fronts, rng, patience, breaks, words: 0, orphans: 0 }
    }

    /// Calls a tool, answers its questions, and reads its result. Gives up after a long time.
    pub(super) fn run(&mut self, number: u64) -> Run {
        let start = Instant::now();
        let revision = if number.is_multiple_of(2) { MODERN } else { LEGACY };
        // 20 and 2 share a factor: without the shift, half of the users would have one revision only.
        let user = user((number + number / USERS) % USERS);
        let mut model = Caller::new(self.fronts, &user, revision);
        let mut run = self.begin(&mut model, number, &user, start);
        if !run.task.is_empty() {
            self.look_early(&mut model, &mut run);
            self.attend(&mut run, revision, start);
            self.fetch(&mut model, &mut run, start);
        }
        model.close(self.front());
        run
    }

    fn begin(&mut self, model: &mut Caller<'_>, number: u64, user: &str, start: Instant) -> Run {
        let tool = if self.rng.bool() { "inquire" } else { "inquire_later" };
        let mut run = Run { user: user.to_owned(), asks_twice: number.is_multiple_of(3), ..Run::default() };
        let mut attempt = 0;
        loop {
            // A call without a result can have started a run, so the next call starts another one.
            run.name = format!("case-{number}.{attempt}");
            let arguments = json!({ "run": run.name, "asks_twice": run.asks_twice });
            match model.call(self.front(), tool, &arguments) {
                // The store was away.
                Ok(result) if result["isError"] == true => text_of(&result).clone_into(&mut run.last),
                Ok(result) => {
                    let source = match self.rng.u8(..3) {
                        0 => Source::Text,
                        1 => Source::Data,
                        _ => Source::Meta,
                    };
                    run.begin(&result, source);
                    return run;
                }
                Err(error) => run.last = format!("{error:#}"),
            }
            self.orphans += 1;
            attempt += 1;
            if start.elapsed() > self.patience {
                return run;
            }
            thread::sleep(PAUSE);
        }
    }

    /// In some runs, the model asks for the result too early, or for the form.
    fn look_early(&mut self, model: &mut Caller<'_>, run: &mut Run) {
        let (tool, arguments) = match self.rng.u8(..6) {
            0 => ("task_result", json!({ "id": run.task, "wait": 0 })),
            1 => ("task_question", json!({ "id": run.task })),
            _ => return,
        };
        if let Ok(result) = model.call(self.front(), tool, &arguments)
            && result["isError"] != true
        {
            let is_named = ids_in(text_of(&result)).next() == Some(run.task.as_str())
                && waiting_task(&result) == Some(run.task.as_str());
            run.waiting.check(is_named, || format!("{}: `{tool}` returned {result}", run.name));
        }
    }

    /// Shows the form until no question is left.
    fn attend(&mut self, run: &mut Run, revision: &'static str, start: Instant) {
        let user = run.user.clone();
        let Some(mut view) = self.view(run, &user, revision, start) else { return };
        let mut last = None;
        while start.elapsed() < self.patience {
            if self.rng.u8(..8) == 0
                && let Ok(result) = view.look(self.front(), None)
            {
                run.listed.extend(ids_in(&result.to_string()).map(str::to_owned));
            }
            match view.open(self.front(), &run.task) {
                Opened::Asks(asked) => {
                    run.known.examined += 1;
                    let word = self.answer(run, &mut view, &asked, revision);
                    last = Some((asked, word));
                }
                Opened::Works => thread::sleep(PAUSE),
                Opened::Over => {
                    run.known.examined += 1;
                    break;
                }
                Opened::Refused(refusal) => {
                    run.known.check(false, || format!("{} could not be opened: {refusal}", run.name));
                    break;
                }
                Opened::Away(error) => {
                    run.last = error;
                    thread::sleep(PAUSE);
                }
            }
        }
        // A page that is still open after the end has an old ticket.
        if let Some((asked, word)) = last.filter(|_| self.rng.u8(..4) == 0) {
            let other = self.word(run);
            self.send(run, &mut view, &asked, &word);
            self.send(run, &mut view, &asked, &other);
        }
        view.caller.close(self.front());
    }

    /// Loads the form of a user.
    fn view(
        &mut self,
        run: &mut Run,
        user: &str,
        revision: &'static str,
        start: Instant,
    ) -> Option<View<'a>> {
        // A host opens a session for the form, too.
        let mut caller = Caller::new(self.fronts, user, revision);
        while start.elapsed() < self.patience {
            match View::read_key(&mut caller, self.front(), self.rng.bool()) {
                Ok(key) => return Some(View::new(caller, key)),
                Err(error) => run.last = format!("{error:#}"),
            }
            thread::sleep(PAUSE);
        }
        None
    }

    /// Answers open questions. Returns the answer that was sent first.
    fn answer(
        &mut self,
        run: &mut Run,
        view: &mut View<'_>,
        asked: &Asked,
        revision: &'static str,
    ) -> String {
        self.think();
        let habit = self.habit();
        match habit {
            Habit::AfterAnother => self.intrude(run, asked, revision),
            Habit::Misfit => self.misfit(run, view, asked),
            _ => {}
        }
        let (word, other) = (self.word(run), self.word(run));
        match habit {
            Habit::SameAtOnce => self.send_at_once(run, view, asked, (&word, &word)),
            Habit::OtherAtOnce => self.send_at_once(run, view, asked, (&word, &other)),
            Habit::Same => {
                self.send(run, view, asked, &word);
                self.send(run, view, asked, &word);
            }
            Habit::Late => {
                if self.send(run, view, asked, &word) == Reply::Taken {
                    self.send(run, view, asked, &other);
                }
            }
            Habit::Once | Habit::AfterAnother | Habit::Misfit => {
                self.send(run, view, asked, &word);
            }
        }
        word
    }

    fn habit(&mut self) -> Habit {
        let habits = [
            Habit::Once,
            Habit::Once,
            Habit::Same,
            Habit::SameAtOnce,
            Habit::OtherAtOnce,
            Habit::OtherAtOnce,
            Habit::Late,
            Habit::AfterAnother,
            Habit::Misfit,
        ];
        habits[self.rng.usize(..habits.len())]
    }

    /// Waits as a user would. Processes are killed meanwhile.
    fn think(&mut self) {
        let millis = match self.rng.u8(..10) {
            0 => self.rng.u64(300..1500),
            1..=4 => self.rng.u64(..100),
            _ => self.rng.u64(..10),
        };
        thread::sleep(Duration::from_millis(millis));
    }

    /// Returns an answer that nobody else sends.
    fn word(&mut self, run: &Run) -> String {
        self.words += 1;
        format!("word-{}-{}", run.name, self.words)
    }

    fn send(&mut self, run: &mut Run, view: &mut View<'_>, asked: &Asked, word: &str) -> Reply {
        let replied = view.answer(self.front(), &run.task, asked, &json!(word));
        self.note(run, asked, word, replied)
    }

    /// Sends two answers on two connections at the same time, often to two front ends.
    fn send_at_once(&mut self, run: &mut Run, view: &mut View<'_>, asked: &Asked, words: (&str, &str)) {
        let (word, other) = words;
        let (front, another) = (self.front(), self.front());
        let (mut twin, task) = (view.twin(), run.task.as_str());
        let (first, second) = thread::scope(|scope| {
            let second = scope.spawn(|| twin.answer(another, task, asked, &json!(other)));
            let first = view.answer(front, task, asked, &json!(word));
            (first, second.join().unwrap_or(Replied::Lost))
        });
        self.note(run, asked, word, first);
        self.note(run, asked, other, second);
    }

    fn note(&self, run: &mut Run, asked: &Asked, word: &str, replied: Replied) -> Reply {
        let reply = match replied {
            Replied::Taken => Reply::Taken,
            Replied::Used if self.breaks == Some(Break::DoubleAnswer) => Reply::Taken,
            Replied::Used => Reply::Used,
            Replied::Invalid(problems) => {
                run.misfits.check(false, || format!("{}: `{word}` was invalid: {problems}", run.name));
                Reply::Lost
            }
            Replied::Refused(refusal) => {
                run.known.check(false, || format!("{}: `{word}` was rejected: {refusal}", run.name));
                Reply::Lost
            }
            Replied::Lost => Reply::Lost,
        };
        for key in &asked.keys {
            run.note(key, word, reply);
        }
        reply
    }

    /// Sends a number where the form asks for a text.
    fn misfit(&mut self, run: &mut Run, view: &mut View<'_>, asked: &Asked) {
        match view.answer(self.front(), &run.task, asked, &json!(7)) {
            Replied::Lost => {}
            // An earlier answer without a reply can have been taken meanwhile.
            Replied::Used if run.was_answered(&asked.keys) => {}
            replied => {
                let is_invalid = matches!(replied, Replied::Invalid(_));
                run.misfits.check(is_invalid, || format!("{}: the number 7 led to {replied:?}", run.name));
            }
        }
    }

    /// Another user tries everything with the task and its ticket.
    fn intrude(&mut self, run: &mut Run, asked: &Asked, revision: &'static str) {
        let other = loop {
            let other = user(self.rng.u64(..USERS));
            if other != run.user {
                break other;
            }
        };
        let other = if self.breaks == Some(Break::OtherUser) { run.user.clone() } else { other };
        let Some(mut view) = self.view(run, &other, revision, Instant::now()) else { return };
        for tool in ["ask_open", "task_result", "task_question", "task_cancel"] {
            self.compare(run, &mut view, tool);
        }
        let word = format!("foreign-{}", self.word(run));
        let replied = view.answer(self.front(), &run.task, asked, &json!(word));
        for key in &asked.keys {
            run.questions.entry(key.clone()).or_default().foreign.push(word.clone());
        }
        match replied {
            Replied::Lost => {}
            Replied::Refused(refusal) => {
                run.foreign.check(true, String::new);
                let leaks = is_about(&refusal, run);
                run.secrets.check(!leaks, || format!("{}: `{other}` received {refusal}", run.name));
            }
            replied => {
                let complaint = || format!("{}: the answer of `{other}` led to {replied:?}", run.name);
                run.foreign.check(false, complaint);
            }
        }
        view.caller.close(self.front());
    }

    /// A task of another user and a task that does not exist must look the same.
    fn compare(&mut self, run: &mut Run, view: &mut View<'_>, tool: &str) {
        let (start, nothing) = (Instant::now(), format!("t_{:032x}", self.rng.u128(..)));
        let mut replies = None;
        while start.elapsed() < COMPARISON {
            let theirs = call_about(view, self.front(), tool, &run.task);
            let none = call_about(view, self.front(), tool, &nothing);
            if let (Some(theirs), Some(none)) = (theirs, none) {
                let is_same = theirs.text.replace(&run.task, "ID") == none.text.replace(&nothing, "ID");
                let is_clear = is_same || !theirs.is_error;
                replies = Some((is_same && theirs.is_error, theirs.text, none.text));
                if is_clear {
                    break;
                }
            }
            thread::sleep(PAUSE);
        }
        let Some((is_refused, theirs, none)) = replies else { return };
        run.foreign.check(is_refused, || format!("{}: another user called `{tool}`: {theirs}", run.name));
        let is_secret = is_refused && !is_about(&theirs, run);
        run.secrets.check(is_secret, || format!("{}: `{tool}` returned {theirs}, not {none}", run.name));
    }

    /// The model calls `task_result` until the result is there.
    fn fetch(&mut self, model: &mut Caller<'_>, run: &mut Run, start: Instant) {
        loop {
            // Tools accept an ID with and without its prefix.
            let id = run.task.strip_prefix("t_").filter(|_| self.rng.bool()).unwrap_or(&run.task);
            let arguments = json!({ "id": id, "wait": self.rng.u8(..3) });
            match model.call(self.front(), "task_result", &arguments) {
                Ok(result) if result["isError"] == true => {
                    text_of(&result).clone_into(&mut run.last);
                    if run.last.contains(NO_TASK) {
                        run.known.check(false, || format!("{} is gone: {}", run.name, run.last));
                        return;
                    }
                }
                Ok(result) if waiting_task(&result).is_some() => text_of(&result).clone_into(&mut run.last),
                Ok(result) => {
                    run.known.examined += 1;
                    run.end = Some(result);
                    return;
                }
                Err(error) => run.last = format!("{error:#}"),
            }
            if start.elapsed() > self.patience {
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    fn front(&mut self) -> usize {
        self.rng.usize(..self.fronts.addresses.len())
    }
}

fn user(number: u64) -> String {
    format!("user-{number:02}")
}

/// The reply of a tool to a call about a task, without metadata.
struct About {
    is_error: bool,
    text: String,
}

/// Calls a tool with the ID of a task. Returns `None` if there is no reply.
fn call_about(view: &mut View<'_>, front: usize, tool: &str, task: &str) -> Option<About> {
    let result = match tool {
        "ask_open" => view.look(front, Some(task)),
        "task_result" => view.caller.call(front, tool, &json!({ "id": task, "wait": 0 })),
        _ => view.caller.call(front, tool, &json!({ "id": task })),
    };
    let result = result.ok()?;
    let text = json!([result["content"], result["structuredContent"]]).to_string();
    Some(About { is_error: result["isError"] == true, text })
}

/// Returns whether a text contains data of a run.
fn is_about(text: &str, run: &Run) -> bool {
    let id = run.task.strip_prefix("t_").unwrap_or(&run.task);
    [run.name.as_str(), run.user.as_str(), id].into_iter().any(|data| !data.is_empty() && text.contains(data))
}
