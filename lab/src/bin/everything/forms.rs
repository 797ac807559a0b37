//! What a form can look like: each is a Rust type, and its answer a value of that type.
//!
//! Docs on these types are for the person who fills in the form; what is for the reader of the code
//! is in plain comments.

use antiphon::{ServerBuilder, prelude::*};

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(Tool::new("test_elicitation", "Asks who you are", contact))
        .tool(Tool::new("test_elicitation_sep1034_defaults", "Asks with defaults filled in", defaults))
        .tool(Tool::new("test_elicitation_sep1330_enums", "Asks for each kind of choice", choices))
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What to ask.
    message: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Contact {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

async fn contact(ctx: &Ctx, arguments: Message) -> Result<String> {
    let answer = ctx.elicit::<Contact>(arguments.message).await?;
    Ok(format!("User response: {}", describe(answer)?))
}

// `#[serde(default)]` on the struct takes each field's default from `Default`: the form shows it, and
// a field that is left out has it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Profile {
    name: String,
    age: u32,
    score: f64,
    status: Status,
    verified: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Active,
    Inactive,
    Pending,
}

impl Default for Profile {
    fn default() -> Self {
        Self { name: "John Doe".into(), age: 30, score: 95.5, status: Status::Active, verified: true }
    }
}

async fn defaults(ctx: &Ctx, _: ()) -> Result<String> {
    let answer = ctx.elicit::<Profile>("Please look over your profile").await?;
    Ok(format!("Elicitation completed: {}", describe(answer)?))
}

// One choice is an enum, several are a list of one.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Choices {
    untitled_single: Plain,
    titled_single: Titled,
    #[schemars(extend("enumNames" = ["Option One", "Option Two", "Option Three"]))]
    legacy_enum: Legacy,
    untitled_multi: Vec<Plain>,
    titled_multi: Vec<TitledChoice>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Plain {
    Option1,
    Option2,
    Option3,
}

// Variants with docs are shown by them.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Titled {
    /// First Option
    Value1,
    /// Second Option
    Value2,
    /// Third Option
    Value3,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Legacy {
    Opt1,
    Opt2,
    Opt3,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TitledChoice {
    /// First Choice
    Value1,
    /// Second Choice
    Value2,
    /// Third Choice
    Value3,
}

async fn choices(ctx: &Ctx, _: ()) -> Result<String> {
    let answer = ctx.elicit::<Choices>("Please choose").await?;
    Ok(format!("Elicitation completed: {}", describe(answer)?))
}

/// Declining is an answer, too, and these tools report it as one.
fn describe(answer: Elicited<impl Serialize>) -> Result<String> {
    Ok(match answer {
        Elicited::Accept(answer) => {
            format!("action=accept, content={}", serde_json::to_string(&answer.value)?)
        }
        Elicited::Decline(_) => "action=decline".into(),
        Elicited::Cancel(_) => "action=cancel".into(),
    })
}
