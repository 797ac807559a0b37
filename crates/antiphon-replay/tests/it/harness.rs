//! A driver without a runtime, and a context as small as the machine allows.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::Future,
    ops::ControlFlow,
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use antiphon_replay::{Advance, Drift, Failure, Journal, Key, Machine, Op, Outcome, Suspension, Turn};
use serde_json::{Value, json};

#[cfg(feature = "__mutations")]
thread_local! {
    /// The rule that every machine of this thread breaks.
    pub(crate) static MUTATION: std::cell::Cell<Option<antiphon_replay::Mutation>> = const { std::cell::Cell::new(None) };
}

/// Whether a rule is broken on purpose.
pub(crate) fn is_broken() -> bool {
    #[cfg(feature = "__mutations")]
    return MUTATION.get().is_some();
    #[cfg(not(feature = "__mutations"))]
    false
}

/// What a program did to the world, over all its legs.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// How often each step was begun, by idempotency key.
    pub(crate) effects: RefCell<BTreeMap<String, u32>>,
    /// What was said while not replaying.
    pub(crate) notes: RefCell<Vec<String>>,
}

/// One request to the program: what it brings, and what the client can do.
#[derive(Clone)]
pub(crate) struct Leg {
    pub(crate) journal: Journal,
    pub(crate) answers: BTreeMap<Key, Value>,
    /// Questions that this client cannot be asked, and why.
    pub(crate) refusals: BTreeMap<Key, String>,
    pub(crate) fits: fn(&Value, &Value) -> bool,
    pub(crate) world: Rc<World>,
}

impl Leg {
    pub(crate) fn new(journal: Journal) -> Self {
        Self {
            journal,
            answers: BTreeMap::new(),
            refusals: BTreeMap::new(),
            fits: |_, _| true,
            world: Rc::default(),
        }
    }

    pub(crate) fn machine(&self) -> Machine {
        let machine =
            Machine::new(self.journal.clone()).with_answers(self.answers.clone()).with_fits(self.fits);
        #[cfg(feature = "__mutations")]
        let machine = machine.with_mutation(MUTATION.get());
        machine
    }
}

/// How a leg ended.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    Done(String, Journal),
    Suspended(Suspension),
    Drift(Drift),
    Deadlock,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// More polls than any of our programs needs.
const POLLS: u32 = 100_000;

/// Runs one leg of `program`.
pub(crate) fn drive<F: Future<Output = String>>(program: impl Fn(Ctx) -> F, leg: &Leg) -> End {
    let run = Rc::new(Run {
        machine: RefCell::new(leg.machine()),
        wakers: RefCell::default(),
        world: Rc::clone(&leg.world),
    });
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut code = pin!(program(Ctx { run: Rc::clone(&run), scope: "".into() }));
    for _ in 0..POLLS {
        flag.0.store(false, Ordering::SeqCst);
        if let Poll::Ready(value) = code.as_mut().poll(&mut Context::from_waker(&waker)) {
            return match run.take_machine().complete_run() {
                Ok(journal) => End::Done(value, journal),
                Err(drift) => End::Drift(drift),
            };
        }
        if flag.0.load(Ordering::SeqCst) {
            continue;
        }
        let advance = run.machine.borrow_mut().advance();
        match advance {
            Err(drift) => return End::Drift(drift),
            Ok(Advance::Deliver(key)) => run.wake(&key),
            Ok(Advance::Opened) => run.wake_all(),
            Ok(Advance::Blocked(_)) if run.refuse(&leg.refusals) => {}
            // The world turns: a slow step is a poll nearer to its end.
            Ok(Advance::Blocked(blocked)) if blocked.running > 0 => run.wake_all(),
            Ok(Advance::Blocked(blocked)) if blocked.asks == 0 => return End::Deadlock,
            Ok(Advance::Blocked(_)) => {
                return match run.take_machine().suspend() {
                    Ok(suspension) => End::Suspended(suspension),
                    Err(drift) => End::Drift(drift),
                };
            }
        }
    }
    panic!("the program does not come to rest");
}

struct Run {
    machine: RefCell<Machine>,
    wakers: RefCell<BTreeMap<Key, Waker>>,
    world: Rc<World>,
}

impl Run {
    fn take_machine(&self) -> Machine {
        self.machine.replace(Machine::new(Journal::new("over")))
    }

    fn park(&self, key: &Key, cx: &Context<'_>) {
        self.wakers.borrow_mut().insert(key.clone(), cx.waker().clone());
    }

    fn wake(&self, key: &Key) {
        let waker = self.wakers.borrow_mut().remove(key);
        waker.into_iter().for_each(Waker::wake);
    }

    fn wake_all(&self) {
        self.wakers.take().into_values().for_each(Waker::wake);
    }

    fn refuse(&self, refusals: &BTreeMap<Key, String>) -> bool {
        let pending: Vec<Key> =
            self.machine.borrow().pending().into_iter().map(|(key, _)| key.clone()).collect();
        let refused: Vec<_> = pending.iter().filter_map(|key| Some((key, refusals.get(key)?))).collect();
        for (key, reason) in &refused {
            self.machine.borrow_mut().refuse(key, reason.as_str());
            self.wake(key);
        }
        !refused.is_empty()
    }

    fn leave(&self, key: &Key) {
        self.machine.borrow_mut().leave(key);
        self.wakers.borrow_mut().remove(key);
    }
}

/// What a program talks to.
#[derive(Clone)]
pub(crate) struct Ctx {
    run: Rc<Run>,
    scope: Rc<str>,
}

impl Ctx {
    fn take_key(&self, name: &str) -> Key {
        self.run.machine.borrow_mut().take_key(&self.scope, name)
    }

    /// A scope of its own.
    pub(crate) fn scope(&self, name: &str) -> Self {
        self.at(&self.take_key(name))
    }

    fn at(&self, key: &Key) -> Self {
        Self { run: Rc::clone(&self.run), scope: key.as_str().into() }
    }

    /// Says something, unless it was said before.
    pub(crate) fn note(&self, note: &str) {
        if !self.run.machine.borrow().is_replaying() {
            self.run.world.notes.borrow_mut().push(note.into());
        }
    }

    pub(crate) fn ask(&self, name: &str, text: &str) -> Ask {
        self.ask_details(name, text, Value::Null)
    }

    /// A question with more in its request than its label shows.
    pub(crate) fn ask_details(&self, name: &str, text: &str, details: Value) -> Ask {
        let mut request = json!({ "message": text });
        if !details.is_null() {
            request["details"] = details;
        }
        let op = Op::ask(&format!("`{text}`"), &request);
        Ask { ctx: self.clone(), key: self.take_key(name), op, request, waits: false }
    }

    pub(crate) fn step(&self, name: &str, value: impl Into<Value>) -> Step {
        self.step_of(name, Ok(value.into()))
    }

    pub(crate) fn failing(&self, name: &str, failure: Failure) -> Step {
        self.step_of(name, Err(failure))
    }

    fn step_of(&self, name: &str, result: Result<Value, Failure>) -> Step {
        Step {
            ctx: self.clone(),
            key: self.take_key(name),
            op: Op::step(name),
            result,
            polls: 0,
            state: At::Rest,
        }
    }

    /// A loop that keeps its state in the journal.
    pub(crate) fn fold<B>(&self, name: &str, state: Value, body: B) -> impl Future<Output = String> + use<B>
    where
        B: AsyncFn(Self, Value) -> ControlFlow<String, Value>,
    {
        let key = self.take_key(name);
        let op = Op::fold(name);
        let (ctx, child) = (self.clone(), self.at(&key));
        async move {
            let mut state = match ctx.turn(&key, |machine| machine.fold(&key, &op)).await {
                Some(Outcome::Done(reached)) => reached,
                None => state,
                Some(other) => panic!("a loop has a state and not {other:?}"),
            };
            loop {
                match body(child.clone(), state).await {
                    ControlFlow::Break(value) => return value,
                    ControlFlow::Continue(next) => {
                        ctx.turn(&key, |machine| machine.refold(&key, &op, next.clone())).await;
                        state = next;
                    }
                }
            }
        }
    }

    async fn turn(&self, key: &Key, turn: impl Fn(&mut Machine) -> Turn) -> Option<Outcome> {
        std::future::poll_fn(|cx| match turn(&mut self.run.machine.borrow_mut()) {
            Turn::Start => Poll::Ready(None),
            Turn::Ready(outcome) => Poll::Ready(Some(outcome)),
            Turn::Wait => {
                self.run.park(key, cx);
                Poll::Pending
            }
        })
        .await
    }
}

/// What came of it, in words.
fn words(outcome: Outcome) -> String {
    match outcome {
        Outcome::Answer(Value::String(text)) | Outcome::Done(Value::String(text)) => text,
        Outcome::Answer(value) | Outcome::Done(value) => value.to_string(),
        Outcome::Refused(reason) => format!("refused: {reason}"),
        Outcome::Failed(Failure { message, code, terminal, .. }) => {
            format!("failed: {message} ({code:?}, {terminal})")
        }
    }
}

pub(crate) struct Ask {
    ctx: Ctx,
    key: Key,
    op: Op,
    request: Value,
    waits: bool,
}

impl Ask {
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.ctx.run.machine.borrow_mut().return_key(&self.key);
        self.key = self.ctx.take_key(name);
        self
    }
}

impl Future for Ask {
    type Output = String;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<String> {
        let this = &mut *self;
        let turn = this.ctx.run.machine.borrow_mut().ask(&this.key, &this.op, || this.request.clone());
        this.waits = turn == Turn::Wait;
        match turn {
            Turn::Ready(outcome) => Poll::Ready(words(outcome)),
            Turn::Wait => {
                this.ctx.run.park(&this.key, cx);
                Poll::Pending
            }
            Turn::Start => panic!("a question is not started"),
        }
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        if self.waits {
            self.ctx.run.leave(&self.key);
        }
    }
}

pub(crate) struct Step {
    ctx: Ctx,
    key: Key,
    op: Op,
    result: Result<Value, Failure>,
    /// How often it is polled in vain before it ends.
    polls: u32,
    state: At,
}

enum At {
    Rest,
    Waiting,
    Work,
}

impl Step {
    pub(crate) fn slow(mut self, polls: u32) -> Self {
        self.polls = polls;
        self
    }
}

impl Future for Step {
    type Output = String;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<String> {
        let this = &mut *self;
        let run = &this.ctx.run;
        if !matches!(this.state, At::Work) {
            let turn = run.machine.borrow_mut().step(&this.key, &this.op);
            match turn {
                Turn::Ready(outcome) => {
                    this.state = At::Rest;
                    return Poll::Ready(words(outcome));
                }
                Turn::Wait => {
                    this.state = At::Waiting;
                    run.park(&this.key, cx);
                    return Poll::Pending;
                }
                Turn::Start => {
                    this.state = At::Work;
                    let name = run.machine.borrow().idempotency_key(&this.key);
                    *run.world.effects.borrow_mut().entry(name).or_default() += 1;
                }
            }
        }
        if let Some(left) = this.polls.checked_sub(1) {
            this.polls = left;
            run.park(&this.key, cx);
            return Poll::Pending;
        }
        this.state = At::Rest;
        run.machine.borrow_mut().finish(&this.key, this.result.clone());
        Poll::Ready(words(match this.result.clone() {
            Ok(value) => Outcome::Done(value),
            Err(failure) => Outcome::Failed(failure),
        }))
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !matches!(self.state, At::Rest) {
            self.ctx.run.leave(&self.key);
        }
    }
}

/// A program and a client, round by round.
///
/// What is said between two rounds goes with the next one: [`answered`](Self::answered) and
/// [`refused`](Self::refused) gather, [`asks`](Self::asks), [`returns`](Self::returns) and
/// [`drifts`](Self::drifts) run a round and say how it ends. The journal travels as JSON, and every
/// round that ends with questions is replayed once without answers, which must change nothing.
pub(crate) struct Story<P> {
    program: P,
    leg: Leg,
    /// The questions that are out, by key.
    out: BTreeMap<Key, Value>,
    /// All answers that were ever given, with the text they answered where it is known.
    given: Vec<(Key, Option<Value>, Value)>,
    /// All questions that were ever refused.
    refusals: BTreeMap<Key, String>,
}

impl<P, F> Story<P>
where
    P: Fn(Ctx) -> F,
    F: Future<Output = String>,
{
    pub(crate) fn new(program: P) -> Self {
        Self::from(Journal::new("run"), program)
    }

    pub(crate) fn from(journal: Journal, program: P) -> Self {
        Self {
            program,
            leg: Leg::new(journal),
            out: BTreeMap::new(),
            given: Vec::new(),
            refusals: BTreeMap::new(),
        }
    }

    /// Deploys other code while the run waits.
    pub(crate) fn deploy<Q: Fn(Ctx) -> G, G: Future<Output = String>>(self, program: Q) -> Story<Q> {
        Story { program, leg: self.leg, out: self.out, given: self.given, refusals: self.refusals }
    }

    pub(crate) fn answered(mut self, key: &str, answer: impl Into<Value>) -> Self {
        let (key, answer) = (Key::from(key), answer.into());
        let text = self.out.get(&key).map(|request| request["message"].clone());
        self.given.push((key.clone(), text, answer.clone()));
        self.leg.answers.insert(key, answer);
        self
    }

    pub(crate) fn refused(mut self, key: &str, reason: &str) -> Self {
        self.refusals.insert(key.into(), reason.into());
        self.leg.refusals.insert(key.into(), reason.into());
        self
    }

    /// Sets what counts as an answer, from here on.
    pub(crate) fn fits(mut self, fits: fn(&Value, &Value) -> bool) -> Self {
        self.leg.fits = fits;
        self
    }

    #[track_caller]
    pub(crate) fn asks<const N: usize>(mut self, keys: [&str; N]) -> Self {
        let end = drive(&self.program, &self.leg);
        let End::Suspended(Suspension { journal, asks }) = end else {
            panic!("expected questions, and it ended with {end:?}");
        };
        let asked: Vec<_> = asks.keys().map(Key::as_str).collect();
        assert_eq!(asked, keys);
        self.leg.journal = Journal::from_json(&journal.to_json()).expect("what is written can be read");
        assert_eq!(self.leg.journal, journal);
        self.leg.answers.clear();
        self.leg.refusals.clear();
        self.out = asks;
        self.assert_rests();
        self
    }

    /// Without answers a round leads nowhere: the same questions, and nothing done.
    #[track_caller]
    fn assert_rests(&self) {
        let leg = Leg { world: Rc::default(), ..self.leg.clone() };
        let mut expected = Suspension { journal: self.leg.journal.clone(), asks: self.out.clone() };
        expected.journal.round += 1;
        assert_eq!(drive(&self.program, &leg), End::Suspended(expected), "a round without answers");
        assert!(leg.world.effects.borrow().is_empty(), "a round without answers must not do anything");
        assert!(leg.world.notes.borrow().is_empty(), "a round without answers must not say anything");
    }

    /// The text of a question that is out.
    #[track_caller]
    pub(crate) fn worded(self, key: &str, text: &str) -> Self {
        assert_eq!(self.out[key]["message"], text);
        self
    }

    #[track_caller]
    pub(crate) fn recorded<const N: usize>(self, keys: [&str; N]) -> Self {
        let recorded: Vec<_> = self.leg.journal.entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(recorded, keys);
        self
    }

    /// How often each step was begun so far, by idempotency key.
    #[track_caller]
    pub(crate) fn did<const N: usize>(self, effects: [(&str, u32); N]) -> Self {
        let expected = effects.into_iter().map(|(name, times)| (name.to_owned(), times)).collect();
        assert_eq!(*self.leg.world.effects.borrow(), expected);
        self
    }

    #[track_caller]
    pub(crate) fn said<const N: usize>(self, notes: [&str; N]) -> Self {
        assert_eq!(*self.leg.world.notes.borrow(), notes);
        self
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.leg.journal
    }

    /// The last round; then again from every prefix of the journal, with the answers given so far.
    #[track_caller]
    pub(crate) fn returns(self, value: &str) -> Self {
        let story = self.wins(value);
        for cut in 0..story.leg.journal.entries.len() {
            story.assert_returns_from(cut, value);
        }
        story
    }

    #[track_caller]
    fn assert_returns_from(&self, cut: usize, value: &str) {
        let mut leg = Leg { world: Rc::default(), ..self.leg.clone() };
        leg.journal.entries.truncate(cut);
        leg.refusals.clone_from(&self.refusals);
        leg.journal.round = leg.journal.round.max(1);
        for _ in 0..100 {
            match drive(&self.program, &leg) {
                End::Suspended(Suspension { journal, asks }) => {
                    leg.journal = journal;
                    leg.answers =
                        asks.iter().map(|(key, request)| (key.clone(), self.given(key, request))).collect();
                }
                End::Done(done, _) => {
                    assert_eq!(done, value, "continued from the first {cut} entries");
                    return;
                }
                end => panic!("continued from the first {cut} entries, it ended with {end:?}"),
            }
        }
        panic!("continued from the first {cut} entries, it never ends");
    }

    #[track_caller]
    fn given(&self, key: &Key, request: &Value) -> Value {
        let of_key = || self.given.iter().rev().filter(|(given, ..)| given == key);
        let exact = of_key().find(|(_, text, _)| text.as_ref() == Some(&request["message"]));
        let (.., answer) =
            exact.or_else(|| of_key().next()).unwrap_or_else(|| panic!("{key:?} was never answered"));
        answer.clone()
    }

    /// As [`returns`](Self::returns) for what depends on who came first: replayed in full only.
    #[track_caller]
    pub(crate) fn wins(mut self, value: &str) -> Self {
        let end = drive(&self.program, &self.leg);
        let End::Done(done, journal) = end else {
            panic!("expected `{value}`, and it ended with {end:?}");
        };
        assert_eq!(done, value);
        self.leg.journal = journal;
        self.leg.answers.clear();
        self.leg.journal.asked.clear();
        let again = Leg { world: Rc::default(), ..self.leg.clone() };
        assert_eq!(drive(&self.program, &again), End::Done(done, self.leg.journal.clone()), "replayed");
        assert!(again.world.effects.borrow().is_empty(), "what was done must not be done again");
        self
    }

    /// The round ends with a drift, and this is what a person reads.
    #[track_caller]
    pub(crate) fn drifts(&self, message: &str, hint: &str) {
        let end = drive(&self.program, &self.leg);
        let End::Drift(drift) = end else {
            panic!("expected a drift, and it ended with {end:?}");
        };
        assert_eq!(drift.to_string(), message);
        assert_eq!(drift.hint(), hint);
    }

    #[track_caller]
    pub(crate) fn deadlocks(&self) {
        assert_eq!(drive(&self.program, &self.leg), End::Deadlock);
    }
}
