//! What one client expects of one run, whatever happens to the servers.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value, json};

/// Which tool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plot {
    /// `plan_trip` of the example `tour`.
    Trip,
    /// `checkout` of the example of that name, which changes the world.
    Checkout,
}

impl Plot {
    /// Its questions, round by round.
    fn rounds(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Trip => &[&["destination"], &["month"], &["hotel", "meal", "seat"]],
            Self::Checkout => &[&["address"], &["note"]],
        }
    }
}

/// How the tool says that a replica died in the middle of something that may happen only once.
const UNKNOWN: &str = "has an unknown outcome";

/// One run as its client sees it.
#[derive(Debug)]
pub(crate) struct Story {
    plot: Plot,
    number: u64,
    /// What was sent and what came back, oldest first.
    told: Vec<(Map<String, Value>, Answer)>,
}

/// A result without what may differ between two equal deliveries, such as the seal's nonce.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// The tool asks for these keys.
    Asks(Vec<String>),
    /// The tool has ended with this text.
    Ends(String),
}

/// What the client does after an answer.
#[derive(Debug)]
pub(crate) enum Next {
    /// Send these parameters.
    Send(Map<String, Value>),
    /// Nothing: the run has come to its right end.
    Done,
}

impl Story {
    /// A run nobody has heard of; all its answers carry its number.
    pub(crate) fn new(plot: Plot, number: u64) -> Self {
        Self { plot, number, told: Vec::new() }
    }

    /// The parameters of the first call.
    pub(crate) fn opening(&self) -> Map<String, Value> {
        let params = match self.plot {
            Plot::Trip => {
                json!({ "name": "plan_trip", "arguments": { "traveller": self.word("traveller") } })
            }
            Plot::Checkout => {
                json!({ "name": "checkout", "arguments": { "item": self.word("item"), "price": self.number } })
            }
        };
        params.as_object().cloned().unwrap_or_default()
    }

    /// Rounds told so far.
    pub(crate) fn rounds(&self) -> &[(Map<String, Value>, Answer)] {
        &self.told
    }

    /// Takes the answer to `sent`, checks it, and says what follows.
    pub(crate) fn tell(&mut self, sent: Map<String, Value>, result: &Value) -> Result<Next> {
        let answer = Answer::of(result)?;
        let next = match &answer {
            Answer::Asks(keys) => {
                let round = self.told.len();
                let expected = self.plot.rounds().get(round).copied().unwrap_or_default();
                ensure!(keys == expected, "round {round} asks {keys:?}, not {expected:?}");
                Next::Send(self.reply(keys, result)?)
            }
            Answer::Ends(text) => {
                self.check_end(text)?;
                Next::Done
            }
        };
        self.told.push((sent, answer));
        Ok(next)
    }

    fn reply(&self, keys: &[String], result: &Value) -> Result<Map<String, Value>> {
        let mut responses = Map::new();
        for key in keys {
            let schema = &result["inputRequests"][key]["params"]["requestedSchema"]["properties"];
            let name = schema.as_object().and_then(|it| it.keys().next());
            let name = name.with_context(|| format!("question `{key}` has no schema: {result}"))?;
            responses.insert(key.clone(), json!({ "action": "accept", "content": { name: self.word(key) } }));
        }
        let mut params = self.opening();
        params.insert("inputResponses".into(), responses.into());
        params.insert("requestState".into(), result["requestState"].clone());
        Ok(params)
    }

    fn check_end(&self, text: &str) -> Result<()> {
        let (rounds, all) = (self.told.len(), self.plot.rounds().len());
        let is_unknown = self.plot == Plot::Checkout && text.contains(UNKNOWN);
        ensure!(rounds == all || is_unknown, "it ended after {rounds} rounds: {text}");
        if self.plot == Plot::Checkout {
            let start = format!("{} to {}: ", self.word("item"), self.word("address"));
            let end = format!("charged {}, shipped, with \"{}\"", self.number, self.word("note"));
            let rest = text.strip_prefix(&start);
            ensure!(
                rest.is_some_and(|rest| rest == end || is_unknown),
                "the text is `{text}`, not `{start}{end}`"
            );
            return Ok(());
        }
        let expected = format!(
            "{}: {} in {}, {}, {}, {}; booked ref-",
            self.word("traveller"),
            self.word("destination"),
            self.word("month"),
            self.word("hotel"),
            self.word("meal"),
            self.word("seat")
        );
        let reference = text.strip_prefix(&expected);
        ensure!(reference.is_some_and(|it| it.len() == 8), "the text is `{text}`, not `{expected}…`");
        Ok(())
    }

    /// What the world must have seen of it, now that it has ended: which effects for certain, and which perhaps.
    pub(crate) fn effects(&self) -> Effects {
        let end = self.told.last().map(|(_, answer)| answer);
        let Some(Answer::Ends(text)) = end else { return Effects::default() };
        let unknown = |step: &str| text.contains(&format!("step `{step}` {UNKNOWN}"));
        let charge = if unknown("charge") { Effect::Perhaps } else { Effect::Once };
        let ship = match charge {
            Effect::Perhaps => Effect::Never,
            _ if unknown("ship") => Effect::Perhaps,
            _ => Effect::Once,
        };
        Effects { address: self.word("address"), charge, ship }
    }

    /// Whom its effects are about; nothing is said of them.
    pub(crate) fn subject(&self) -> Effects {
        Effects { address: self.word("address"), ..Effects::default() }
    }

    fn word(&self, key: &str) -> String {
        format!("{key}-{}", self.number)
    }
}

/// What a checkout did to the world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    pub(crate) address: String,
    pub(crate) charge: Effect,
    pub(crate) ship: Effect,
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Effect {
    #[default]
    Never,
    /// The tool has said that nobody knows.
    Perhaps,
    Once,
}

impl Answer {
    /// Whether the tool says that it cannot know what has happened.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Ends(text) if text.contains(UNKNOWN))
    }

    /// Reads a `tools/call` result.
    pub(crate) fn of(result: &Value) -> Result<Self> {
        if result["resultType"] == "input_required" {
            ensure!(result["requestState"].is_string(), "a question came without requestState: {result}");
            let requests = result["inputRequests"].as_object();
            let requests = requests.with_context(|| format!("nothing is asked in {result}"))?;
            let mut keys: Vec<String> = requests.keys().cloned().collect();
            keys.sort();
            return Ok(Self::Asks(keys));
        }
        ensure!(result["isError"] != true, "the tool failed: {result}");
        match result["content"][0]["text"].as_str() {
            Some(text) => Ok(Self::Ends(text.to_owned())),
            None => bail!("neither a question nor a text: {result}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(keys: &[&str]) -> Value {
        let ask = |key: &&str| {
            let schema = json!({ "type": "object", "properties": { *key: { "type": "string" } } });
            ((*key).to_owned(), json!({ "params": { "requestedSchema": schema } }))
        };
        let requests: Map<String, Value> = keys.iter().map(ask).collect();
        json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "s" })
    }

    fn end(seat: u64) -> Value {
        let text = format!(
            "traveller-7: destination-7 in month-7, hotel-7, meal-7, seat-{seat}; booked ref-01234567"
        );
        json!({ "content": [{ "type": "text", "text": text }] })
    }

    fn until_last_round() -> (Story, Map<String, Value>) {
        let mut story = Story::new(Plot::Trip, 7);
        let mut params = story.opening();
        for keys in Plot::Trip.rounds() {
            match story.tell(params, &question(keys)).unwrap() {
                Next::Send(next) => params = next,
                Next::Done => panic!("a question is no end"),
            }
        }
        (story, params)
    }

    #[test]
    fn three_rounds_and_the_right_text_are_an_end() {
        let (mut story, params) = until_last_round();
        assert_eq!(params["inputResponses"]["meal"]["content"]["meal"], "meal-7");
        assert!(matches!(story.tell(params, &end(7)), Ok(Next::Done)));
    }

    #[test]
    fn the_answer_of_another_run_is_wrong() {
        let (mut story, params) = until_last_round();
        assert!(story.tell(params, &end(8)).is_err());
    }

    #[test]
    fn a_question_asked_again_is_wrong() {
        let mut story = Story::new(Plot::Trip, 7);
        let first = story.opening();
        story.tell(first.clone(), &question(&["destination"])).unwrap();
        assert!(story.tell(first, &question(&["destination"])).is_err());
    }

    #[test]
    fn an_early_end_is_wrong() {
        let mut story = Story::new(Plot::Trip, 7);
        let first = story.opening();
        assert!(story.tell(first, &end(7)).is_err());
    }

    #[test]
    fn a_checkout_tells_what_it_has_done() {
        let end = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        let effects = |rounds: &[&[&str]], text: &str| {
            let mut story = Story::new(Plot::Checkout, 7);
            let mut params = story.opening();
            for keys in rounds {
                let Next::Send(next) = story.tell(params, &question(keys)).unwrap() else { panic!("no end") };
                params = next;
            }
            story.tell(params, &end(text)).map(|_| (story.effects().charge, story.effects().ship))
        };
        let known = "item-7 to address-7: charged 7, shipped, with \"note-7\"";
        assert_eq!(effects(&[&["address"], &["note"]], known).unwrap(), (Effect::Once, Effect::Once));
        let unknown = "item-7 to address-7: step `charge` has an unknown outcome";
        assert_eq!(effects(&[&["address"]], unknown).unwrap(), (Effect::Perhaps, Effect::Never));
        let half = "item-7 to address-7: charged 7, step `ship` has an unknown outcome";
        assert_eq!(effects(&[&["address"], &["note"]], half).unwrap(), (Effect::Once, Effect::Perhaps));
        assert!(effects(&[&["address"]], known).is_err());
        assert!(effects(&[&["address"], &["note"]], "item-8 to address-8: charged 7, shipped").is_err());
    }
}
