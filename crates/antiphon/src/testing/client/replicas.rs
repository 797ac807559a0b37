use std::{fmt, sync::Arc};

use antiphon_llm::BoxFuture;
use serde::Serialize;
use serde_json::{Map, Value, json, map::Entry};

use super::{Answers, Client, Question, Revision};
use crate::{
    error::{Error, Result},
    seal::SealConfig,
    server::ServerBuilder,
    trace,
};

/// A test harness that runs a tool until the tool returns. After every question, the harness continues the run on a new
/// replica.
///
/// The harness also sends the answers of a round in several parts, repeats requests, and sends old requests again after
/// newer requests.
///
/// ```
/// # use antiphon::{prelude::*, testing::{Answers, Replicas}};
/// # use serde_json::json;
/// # #[derive(Deserialize, JsonSchema)] struct Name { name: String }
/// # async fn greet(ctx: &Ctx, _: ()) -> Result<String> {
/// #     Ok(format!("Hello, {}!", ctx.elicit::<Name>("Who?").await?.accepted()?.name))
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let report = Replicas::new(|| Server::builder("greeter", "1.0.0").tool(Tool::new("greet", "Greets you", greet)))
///     .run("greet", json!({}), || Answers::new().accept("name", json!({"name": "Ada"})))
///     .await?;
/// assert_eq!(report.result["content"][0]["text"], "Hello, Ada!");
/// # Ok::<(), antiphon::Error>(())
/// # }).unwrap();
/// ```
pub struct Replicas {
    /// A function that creates a world for each schedule. A world is external state, for example a database, that all
    /// replicas of a schedule share.
    world: Box<dyn Fn() -> World + Send + Sync>,
    /// Whether the replicas share a world. If the replicas share a world, the harness can compare side effects.
    has_world: bool,
    seal: SealConfig,
    seed: u64,
    schedules: u32,
    steady: bool,
}

/// The objects that all replicas of one schedule share.
struct World {
    replica: Box<dyn Fn() -> ServerBuilder + Send + Sync>,
    /// A function that returns the changes that the tool has made to the world.
    look: Box<dyn Fn() -> Value + Send + Sync>,
}

/// The result of [`Replicas::run`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The tool's result. Every schedule (order of requests) has this result, unless you allow different results.
    pub result: Value,
    /// The number of schedules that the harness has run.
    pub schedules: u32,
    /// The number of times that the harness has executed the tool's function. Each execution used a new replica.
    pub replicas: u32,
    /// The number of requests that the harness has sent twice.
    pub duplicates: u32,
    /// The number of old requests that the harness has sent again after newer requests.
    pub stale: u32,
    /// The largest number of rounds that any schedule needed.
    pub rounds: u32,
}

/// The maximum number of rounds of a run. If a run needs more rounds than this maximum, the harness returns an error,
/// because the run seems endless.
const ROUNDS: u32 = 1000;

impl Replicas {
    /// Creates a test harness. `replica` is a function that returns a builder for each new replica. The harness
    /// replaces the seal settings and the limits of the returned builder. So all replicas have the same encryption key,
    /// and the default limits with a maximum of 1000 rounds.
    pub fn new(replica: impl Fn() -> ServerBuilder + Send + Sync + 'static) -> Self {
        let replica = Arc::new(replica);
        let world = move || {
            let replica = Arc::clone(&replica);
            World { replica: Box::new(move || replica()), look: Box::new(|| Value::Null) }
        };
        Self::of(Box::new(world), false)
    }

    /// Creates a harness whose replicas share a world. A world is a database, a file, or other state that the tool
    /// changes.
    ///
    /// `world` creates a new world for each schedule. The function `replica` returns a builder for the replicas that
    /// use the world. `look` returns the state of the world after a run.
    ///
    /// First, [`run`](Self::run) runs the tool without interruption on one replica. Then `run` repeats this run and
    /// continues it on another replica after each question. If the world differs between these runs, `run` returns an
    /// error. For example, the world can differ if the tool has a side effect outside of a step.
    ///
    /// If the replicas share a world, the harness does not send requests twice, because a [step](crate::Ctx::step)
    /// could then run twice and change the world twice.
    ///
    /// ```
    /// # use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// # use antiphon::{State, prelude::*, testing::{Answers, Replicas}};
    /// # use serde_json::json;
    /// # #[derive(Deserialize, JsonSchema)] struct Sure { sure: bool }
    /// type Removed = Arc<AtomicU32>;
    ///
    /// async fn remove(ctx: &Ctx, State(removed): State<Removed>, _: ()) -> Result<String> {
    ///     removed.fetch_add(1, Ordering::Relaxed); // This side effect is not in a step, so every replica repeats it.
    ///     ctx.elicit::<Sure>("Sure?").await?.accepted()?;
    ///     Ok("removed".into())
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let tool = || Tool::new("remove", "Removes it", remove);
    /// let replicas = Replicas::with_world(
    ///     Removed::default,
    ///     move |removed| Server::builder("shop", "1.0.0").with_state(Arc::clone(removed)).tool(tool()),
    ///     |removed| removed.load(Ordering::Relaxed),
    /// );
    /// let answers = || Answers::new().accept("sure", json!({"sure": true}));
    /// let error = replicas.run("remove", json!({}), answers).await.unwrap_err();
    /// assert!(error.to_string().contains("outside of a step"));
    /// # });
    /// ```
    pub fn with_world<W, L>(
        world: impl Fn() -> W + Send + Sync + 'static,
        replica: impl Fn(&W) -> ServerBuilder + Send + Sync + 'static,
        look: impl Fn(&W) -> L + Send + Sync + 'static,
    ) -> Self
    where
        W: Send + Sync + 'static,
        L: Serialize,
    {
        let (replica, look) = (Arc::new(replica), Arc::new(look));
        let world = move || {
            let (world, replica, look) = (Arc::new(world()), Arc::clone(&replica), Arc::clone(&look));
            let seen = Arc::clone(&world);
            World {
                replica: Box::new(move || replica(&world)),
                look: Box::new(move || serde_json::to_value(look(&seen)).unwrap_or_default()),
            }
        };
        Self::of(Box::new(world), true)
    }

    fn of(world: Box<dyn Fn() -> World + Send + Sync>, has_world: bool) -> Self {
        let seal = SealConfig::default();
        Self { world, has_world, seal, seed: 0x5EED, schedules: 16, steady: true }
    }

    /// Sets the seed of the random numbers. With the same seed, you can reproduce a failure. Default: `0x5EED`.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of schedules. In each schedule, the harness sends the requests and answers in a different
    /// order. Default: 16.
    #[must_use]
    pub fn schedules(mut self, schedules: u32) -> Self {
        self.schedules = schedules;
        self
    }

    /// Accepts different results in different schedules. Use this method for tools whose steps return random values.
    /// The harness still reports drift. Default: different results are an error.
    #[must_use]
    pub fn allow_different_results(mut self) -> Self {
        self.steady = false;
        self
    }

    /// Runs `tool` in every schedule.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    ///
    /// - A replay does not match its journal (drift).
    /// - Two schedules have different results or side effects.
    /// - The server answers the same request with two different replies.
    ///
    /// The error message contains the schedule and the seed.
    pub async fn run(&self, tool: &str, arguments: Value, answers: impl Fn() -> Answers) -> Result<Report> {
        let mut report =
            Report { result: Value::Null, schedules: 0, replicas: 0, duplicates: 0, stale: 0, rounds: 0 };
        let mut random = Random(self.seed | 1);
        let undisturbed =
            if self.has_world { self.undisturbed(tool, &arguments, answers()).await? } else { Value::Null };
        let first = json!({"name": tool, "arguments": arguments});
        for schedule in 0..self.schedules {
            // The first schedule does not repeat requests, and sends all answers of a round in one request.
            let calm = schedule == 0;
            let world = (self.world)();
            let result = self
                .schedule(&world, first.clone(), answers(), calm, &mut random, &mut report)
                .await
                .map_err(|error| {
                    Error::tool(format!("schedule {schedule} (seed {:#x}): {error:#}", self.seed))
                })?;
            let changed = (world.look)();
            if changed != undisturbed {
                return Err(Error::tool(format!(
                    "schedule {schedule} (seed {:#x}) had the side effects {changed}, but a run without interruption has {undisturbed}: the tool has an effect outside of a step",
                    self.seed
                )));
            }
            if self.steady && schedule > 0 && steady(&result) != steady(&report.result) {
                return Err(Error::tool(format!(
                    "schedule {schedule} (seed {:#x}) returned {result}, but a run without interruption returned {}: the tool depends on a value that is not recorded in a step",
                    self.seed, report.result
                )));
            }
            if schedule == 0 {
                report.result = result;
            }
            report.schedules += 1;
        }
        Ok(report)
    }

    /// Returns the changes that the tool makes if the run stays on one replica.
    async fn undisturbed(&self, tool: &str, arguments: &Value, answers: Answers) -> Result<Value> {
        let world = (self.world)();
        let server = (world.replica)().build()?;
        let mut client = Client::connect(&server, Revision::V2025_11_25).await?.with_answers(answers);
        client.call(tool, arguments.clone()).await?;
        Ok((world.look)())
    }

    async fn schedule(
        &self,
        world: &World,
        first: Value,
        mut answers: Answers,
        calm: bool,
        random: &mut Random,
        report: &mut Report,
    ) -> Result<Value> {
        let mut request = first.clone();
        let mut given: Map<String, Value> = Map::new();
        let mut old: Vec<(Value, Value)> = Vec::new();
        for round in 1..=ROUNDS {
            report.rounds = report.rounds.max(round - 1);
            let reply = self.leg(world, &request, report).await?;
            if !calm && !self.has_world && random.one_in(3) {
                report.duplicates += 1;
                let again = self.leg(world, &request, report).await?;
                self.same(&reply, &again, "a request that was sent twice")?;
            }
            if !calm && !self.has_world && !old.is_empty() && random.one_in(4) {
                report.stale += 1;
                let (request, before) = &old[random.below(old.len())];
                let again = self.leg(world, request, report).await?;
                self.same(before, &again, "an old request that was sent again")?;
            }
            old.push((request, reply.clone()));
            if reply["resultType"] != "input_required" {
                return Ok(reply);
            }
            request = first.clone();
            request["requestState"] = reply["requestState"].clone();
            request["inputResponses"] = json!({});
            let asked: Vec<_> = reply["inputRequests"].as_object().into_iter().flatten().collect();
            for (key, question) in &asked {
                // If the server asks a question again, the harness sends the first answer again.
                let answer = match given.entry((*key).clone()) {
                    Entry::Occupied(given) => given.into_mut(),
                    Entry::Vacant(entry) => {
                        entry.insert(answers.answer(&Question::new(Some(key), question))?)
                    }
                };
                if calm || asked.len() == 1 || random.one_in(2) {
                    request["inputResponses"][*key] = answer.clone();
                }
            }
        }
        Err(Error::tool(format!("the tool still sends questions after {ROUNDS} rounds")))
    }

    /// Runs one leg on a new replica. This method is not `async`, so that only this crate compiles the future, and not
    /// each program with tests.
    fn leg<'a>(
        &'a self,
        world: &'a World,
        request: &'a Value,
        report: &'a mut Report,
    ) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.leg_on_a_new_server(world, request, report))
    }

    async fn leg_on_a_new_server(
        &self,
        world: &World,
        request: &Value,
        report: &mut Report,
    ) -> Result<Value> {
        let limits = crate::Limits::default().with_max_rounds(ROUNDS);
        let server = (world.replica)().with_seal(self.seal.clone()).with_limits(limits).build()?;
        report.replicas += 1;
        let mut client = Client::connect(&server, Revision::V2026_07_28).await?;
        let reply = client.request("tools/call", request.clone()).await?;
        let text = reply["content"][0]["text"].as_str().unwrap_or_default();
        if reply["isError"] == true && text.starts_with("the run cannot be continued") {
            return Err(Error::tool(text.to_owned()));
        }
        Ok(reply)
    }

    fn same(&self, before: &Value, after: &Value, what: &str) -> Result<()> {
        if !self.steady || steady(before) == steady(after) {
            return Ok(());
        }
        Err(Error::tool(format!(
            "the server answered {what} with {after}, but its first answer to the same request was {before}"
        )))
    }
}

/// Returns a reply without the parts that differ between two equal replies, for example the `requestState`.
fn steady(reply: &Value) -> Value {
    let mut reply = reply.clone();
    if let Some(fields) = reply.as_object_mut() {
        fields.remove("requestState");
        if let Some(meta) = fields.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.remove(trace::META);
        }
    }
    reply
}

/// A deterministic generator of random numbers (xorshift). The generator returns the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap_or_default()
    }
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas")
            .field("seed", &self.seed)
            .field("schedules", &self.schedules)
            .finish_non_exhaustive()
    }
}
