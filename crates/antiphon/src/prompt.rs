//! Prompts: message templates that a user selects by name. The function of a prompt can ask questions, as a tool can.

use std::{any::TypeId, collections::BTreeMap, fmt, future::Future, sync::Arc};

use antiphon_llm::BoxFuture;
use rmcp::model::{Prompt as Definition, PromptArgument};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    base::serialized_bytes,
    error::Result,
    function::{Erased, Function, erase},
    model::{Icon, PromptMessage, Role},
    output::Returned,
    schema,
    tool::Arguments,
    visibility::{RequestInfo, VisibleIf},
};

/// A prompt that a server offers over MCP.
///
/// ```
/// use antiphon::{Prompt, prelude::*};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Review {
///     /// The code to look at.
///     code: String,
/// }
///
/// async fn review(_: &Ctx, args: Review) -> Result<String> {
///     Ok(format!("Review this code:\n\n{}", args.code))
/// }
///
/// let prompt = Prompt::new("review", "Asks for a code review", review);
/// # let _ = prompt;
/// ```
pub struct Prompt {
    pub(crate) definition: Definition,
    pub(crate) get: Erased<Vec<PromptMessage>>,
    pub(crate) arguments: Arguments,
    pub(crate) completions: BTreeMap<String, Completer>,
    /// The conditions under which a request can see the prompt.
    pub(crate) visible_if: VisibleIf,
}

/// A function that suggests completions for the text that a user is typing.
pub(crate) type Completer = Arc<dyn Fn(Completion) -> BoxFuture<'static, Result<Vec<String>>> + Send + Sync>;

/// The argument value that a user is typing. The server suggests completions for the value that the user is typing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The text that the user has typed so far.
    pub value: String,
    /// The values of the other arguments that the user has already set.
    pub arguments: BTreeMap<String, String>,
}

impl Prompt {
    /// Creates a prompt. `function` returns the messages of the prompt.
    pub fn new<A, M, R, F>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoPrompt + 'static,
        F: for<'a> Function<'a, A, M, Out = R> + 'static,
    {
        let schema = schema::of_arguments::<A>();
        let erased = erase(function, |messages: R| Ok(messages.into_messages()));
        let none = TypeId::of::<A>() == TypeId::of::<()>();
        Self::with_get(name.into(), description.into(), &schema, none, erased)
    }

    /// Creates a prompt from a JSON Schema of its arguments. You write the schema yourself, instead of deriving the
    /// schema from a type. Each property in the schema `arguments` is an argument of the prompt, and can have a
    /// `description`. The `required` list in the schema contains the arguments that a client must send. The function
    /// receives the arguments as JSON.
    pub fn raw<M, R, F>(
        name: impl Into<String>,
        description: impl Into<String>,
        arguments: &Value,
        function: F,
    ) -> Self
    where
        R: IntoPrompt + 'static,
        F: for<'a> Function<'a, Map<String, Value>, M, Out = R> + 'static,
    {
        let schema = arguments.as_object().cloned().unwrap_or_default();
        let erased = erase(function, |messages: R| Ok(messages.into_messages()));
        Self::with_get(name.into(), description.into(), &schema, false, erased)
    }

    fn with_get(
        name: String,
        description: String,
        schema: &Map<String, Value>,
        none: bool,
        get: Erased<Vec<PromptMessage>>,
    ) -> Self {
        let required = schema.get("required").and_then(Value::as_array);
        let arguments: Vec<_> = schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, property)| {
                let mut argument = PromptArgument::new(name);
                argument.description = property["description"].as_str().map(str::to_owned);
                argument.required =
                    Some(required.is_some_and(|required| required.iter().any(|field| field == name)));
                argument
            })
            .collect();
        let arguments_of = (!arguments.is_empty()).then_some(arguments);
        Self {
            // A schema that is generated from a type is always valid.
            arguments: Arguments::new(schema, none).unwrap_or_default(),
            definition: Definition::new(name, Some(description), arguments_of),
            get,
            completions: BTreeMap::new(),
            visible_if: VisibleIf::default(),
        }
    }

    /// Shows the prompt only to requests for which `condition` returns `true`. Default: every request sees the prompt.
    ///
    /// For all other requests, the server behaves as if the prompt did not exist, also in `prompts/get` and
    /// `completion/complete`. See [`Tool::visible_if`](crate::Tool::visible_if).
    #[must_use]
    pub fn visible_if(
        mut self,
        condition: impl Fn(&RequestInfo<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.visible_if.add(condition);
        self
    }

    /// Sets the name that users see. Default: none.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Sets the icons that clients can show for the prompt. Default: none.
    #[must_use]
    pub fn with_icons(mut self, icons: impl IntoIterator<Item = Icon>) -> Self {
        self.definition.icons = Some(icons.into_iter().collect());
        self
    }

    /// Sets the function that suggests values for the argument `argument` while the user types. Default: no
    /// suggestions.
    #[must_use]
    pub fn completes<F, Fut>(mut self, argument: impl Into<String>, complete: F) -> Self
    where
        F: Fn(Completion) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<String>>> + Send + 'static,
    {
        self.completions.insert(argument.into(), Arc::new(move |completion| Box::pin(complete(completion))));
        self
    }
}

/// A type that a prompt's function can return.
pub trait IntoPrompt {
    /// Converts the value into the messages of the prompt.
    fn into_messages(self) -> Vec<PromptMessage>;
}

impl IntoPrompt for String {
    fn into_messages(self) -> Vec<PromptMessage> {
        vec![PromptMessage::new_text(Role::User, self)]
    }
}

impl IntoPrompt for &'static str {
    fn into_messages(self) -> Vec<PromptMessage> {
        self.to_owned().into_messages()
    }
}

impl IntoPrompt for PromptMessage {
    fn into_messages(self) -> Vec<PromptMessage> {
        vec![self]
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_messages(self) -> Vec<PromptMessage> {
        self
    }
}

impl Returned for Vec<PromptMessage> {
    fn bytes(&self) -> usize {
        serialized_bytes(self)
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("definition", &self.definition).finish_non_exhaustive()
    }
}
