//! A refund waits for a manager.

use antiphon::Result;
use antiphon::testing::{Answers, Client, Revision};
use serde_json::{Value, json};

async fn call(answer: Value, revision: Revision) -> Result<String> {
    let server = refund::server().build()?;
    let answers = Answers::new().accept("approval", answer);
    let mut client = Client::connect(&server, revision).await?.with_answers(answers);
    Ok(client.call("refund", json!({"order": 1042})).await?.text())
}

#[tokio::test]
async fn refund_is_paid_if_the_manager_approves() -> Result<()> {
    for revision in Revision::BOTH {
        let paid = call(json!({"approve": true, "message": "Sorry!"}), revision).await?;
        assert!(paid.starts_with("22 euros were paid back for order 1042, receipt R-"), "{paid}");
        assert!(paid.ends_with(". Message: Sorry!"), "{paid}");
        let declined = call(json!({"approve": false}), revision).await?;
        assert_eq!(declined, "The refund for order 1042 was declined.");
    }
    Ok(())
}
