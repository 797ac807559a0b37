//! Questions on their way: to a client in a session, or to a provider.

use std::{collections::BTreeMap, future::Future, pin::Pin, task::Poll};

use antiphon_replay::{Failure, Key, Outcome};
use serde_json::{Value, json};

use crate::{
    ctx::Level,
    error::Result,
    ladder::{self, Because, Rung, Situation, VIA_META, Way},
    run::{Run, State},
    wire::{Note, Revision},
};

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value>> + Send + 'a>>;

pub(super) struct Asking<'a> {
    run: &'a Run,
    requests: BTreeMap<Key, (Rung, Answer<'a>)>,
    /// Who was asked in vain.
    tried: BTreeMap<Key, Vec<(Rung, Failure)>>,
    said: bool,
}

/// What becomes of a question, decided while the machine is looked at.
enum Decided {
    Ask(Rung, Value, Option<(std::sync::Arc<dyn antiphon_llm::Model>, Because)>),
    End(Outcome),
}

impl<'a> Asking<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        Self { run, requests: BTreeMap::new(), tried: BTreeMap::new(), said: false }
    }

    /// How many answers of providers are being waited for.
    pub(super) fn of_providers(&self) -> usize {
        self.requests.values().filter(|(rung, _)| *rung == Rung::Provider).count()
    }

    /// Sends what is pending and not yet sent, and tells the tool what cannot be asked; says whether
    /// there was any such.
    ///
    /// In a session one form is sent at a time, because a person has one screen. In rounds nothing is
    /// sent to the client here: what is left when the tool is at rest goes out with the round.
    pub(super) fn start(&mut self) -> bool {
        let mut state = self.run.state();
        let decided = self.decide(&mut state);
        let mut wakers = Vec::new();
        let mut ended = false;
        let mut because = None;
        for (key, decided) in decided {
            match decided {
                Decided::End(outcome) => {
                    ended = true;
                    match outcome {
                        Outcome::Refused(missing) => state.machine().refuse(&key, missing),
                        Outcome::Failed(failure) => state.machine().fail(&key, failure),
                        Outcome::Answer(_) | Outcome::Done(_) => {}
                    }
                    wakers.extend(state.take_waker(&key));
                }
                Decided::Ask(rung, request, provider) => {
                    let answer: Answer<'a> = match provider {
                        Some((model, why)) => {
                            if why != Because::Policy {
                                because.get_or_insert_with(|| (model.name().to_owned(), why));
                            }
                            Box::pin(ladder::ask(model, request, why))
                        }
                        None => Box::pin(self.run.link.ask(&request)),
                    };
                    self.requests.insert(key, (rung, answer));
                }
            }
        }
        let news = because.filter(|_| !self.said && !was_said(&mut state));
        drop(state);
        wakers.into_iter().for_each(std::task::Waker::wake);
        if let Some((model, why)) = news {
            self.said = true;
            self.say(&model, why);
        }
        ended
    }

    fn decide(&mut self, state: &mut State) -> Vec<(Key, Decided)> {
        let run = self.run;
        let rounds_left = run.shared.limits.rounds.saturating_sub(state.machine().round());
        let pending = state.machine().pending();
        // What the tool no longer waits for is withdrawn: dropped, a request cancels itself.
        self.requests.retain(|key, _| pending.iter().any(|(waiting, _)| *waiting == key));
        let live = run.link.revision() == Revision::Session;
        let is_form = |request: &Value| request["method"] == "elicitation/create";
        let mut form_open =
            pending.iter().any(|(key, request)| is_form(request) && self.requests.contains_key(*key));
        let round_is_made = pending.iter().any(|(_, request)| !ladder::is_sampling(request));
        let mut decided = Vec::new();
        for (key, request) in pending {
            if self.requests.contains_key(key) {
                continue;
            }
            let tried = self.tried.get(key).map(Vec::as_slice).unwrap_or_default();
            let situation = Situation { link: &run.link, rounds_left, round_is_made, tried };
            let decision = match run.shared.ladder.way(request, &situation) {
                Way::Client if !live || (form_open && is_form(request)) => continue,
                Way::Client => {
                    form_open |= is_form(request);
                    Decided::Ask(Rung::Client, request.clone(), None)
                }
                Way::Provider(model, why) => {
                    Decided::Ask(Rung::Provider, request.clone(), Some((model, why)))
                }
                Way::Nobody(missing) => Decided::End(Outcome::Refused(missing.name().into())),
                Way::Failed(failure) => Decided::End(Outcome::Failed(failure)),
            };
            decided.push((key.clone(), decision));
        }
        decided
    }

    /// Waits for the next answer and hands it to the tool. Never ends when nothing was asked.
    pub(super) async fn answered(&mut self) {
        let (key, answer) = std::future::poll_fn(|cx| {
            for (key, (_, request)) in &mut self.requests {
                if let Poll::Ready(answer) = request.as_mut().poll(cx) {
                    return Poll::Ready((key.clone(), answer));
                }
            }
            Poll::Pending
        })
        .await;
        let Some((rung, _)) = self.requests.remove(&key) else { return };
        let answer = match answer {
            Ok(answer) => answer,
            // Perhaps somebody else can be asked; `start` finds out, and what nobody can answer ends
            // there.
            Err(error) => {
                self.tried.entry(key).or_default().push((rung, error.to_failure()));
                return;
            }
        };
        let waker = {
            let mut state = self.run.state();
            state.machine().answer(&key, answer);
            state.take_waker(&key)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Tells the operator, and the client that listens, that a provider is asked instead of it.
    fn say(&self, model: &str, because: Because) {
        let run = self.run;
        tracing::info!(run = run.id(), model, %because, "a provider is asked instead of the client");
        if run.link.wants(Level::Info) {
            let data = json!({"message": format!("asking `{model}` instead of the client's model"), "because": because.to_string()});
            run.note(Note::Log { level: Level::Info, logger: Some("antiphon".into()), data });
        }
    }
}

/// Whether an earlier round has said that a provider is asked instead of the client.
fn was_said(state: &mut State) -> bool {
    let policy = Because::Policy.to_string();
    state.machine().journal().entries.iter().any(|entry| match &entry.outcome {
        Outcome::Answer(answer) => {
            answer["_meta"][VIA_META]["because"].as_str().is_some_and(|because| because != policy)
        }
        _ => false,
    })
}
