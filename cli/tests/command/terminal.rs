//! Texts of the API cannot control the terminal of an operator.

use serde_json::{Value, json};

use crate::rollouts::{revision, rollout};
use crate::server::Server;

/// Sets the window's title, clears the screen by C0 and C1 sequences, deletes, and reverses the direction of the text.
const EVIL: &str = "x\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2J\u{7f}\u{202e}y";
const SHOWN: &str = r"x\x1b]0;owned\x07\x1b[2J\x9b2J\x7f\u{202e}y";

/// Each answer shows the text in another part of the output: tables, details, events, errors, lines of a rollout.
fn answers() -> Vec<(&'static str, u16, Value)> {
    let mut evil_revision = revision(4, "Completed", EVIL);
    evil_revision["Cause"] = json!(EVIL);
    let mut progressing = rollout(5, "Progressing", 0);
    let mut complete = rollout(5, "Complete", 4);
    for view in [&mut progressing, &mut complete] {
        view["Message"] = json!(EVIL);
        view["Warnings"] = json!([EVIL]);
    }
    let event = json!({"At": "2026-01-01T00:00:00Z", "Kind": "Refused", "Group": "a.web.web", "Message": EVIL});
    vec![
        ("GET /api/revisions", 200, json!({"Name": "a.web.web", "Current": 4, "Revisions": [evil_revision]})),
        ("GET /api/nodes", 200, json!([{"Name": "n1", "State": EVIL, "Engine": EVIL, "Labels": {"rack": EVIL}}])),
        ("GET /api/events", 200, json!({"Events": [event]})),
        ("GET /api/rollouts", 200, progressing),
        ("GET /api/rollouts", 200, complete),
        ("DELETE /api/nodes/n1", 409, json!({"message": EVIL})),
    ]
}

#[tokio::test]
async fn control_characters_of_the_api_are_shown_as_escapes() {
    let server = Server::start(&answers()).await;
    for words in [
        "rollout history a.web.web",
        "rollout history a.web.web --revision 4",
        "rollout status a.web.web",
        "node list",
        "node remove n1",
        "events",
    ] {
        let ended = server.run(&words.split(' ').collect::<Vec<_>>()).await;
        let text = format!("{}{}", ended.out, ended.err);
        assert!(text.contains(SHOWN), "{words}: {text:?}");
        let raw = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(raw, None, "{words}: {text:?}");
    }
}

#[tokio::test]
async fn json_holds_the_texts_as_the_api_gave_them() {
    let server = Server::start(&answers()).await;
    let ended = server.run(&["rollout", "history", "a.web.web", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(value["Revisions"][0]["Cause"], EVIL);
}

#[tokio::test]
async fn a_line_break_in_a_text_does_not_look_like_another_row() {
    let node = json!([{"Name": "n1", "State": "ready\nn2  ready", "Engine": "up"}]);
    let server = Server::start(&[("GET /api/nodes", 200, node)]).await;
    let ended = server.run(&["node", "list"]).await;
    assert_eq!(ended.out.lines().count(), 2, "{}", ended.out);
    assert!(ended.out.contains(r"ready\nn2  ready"), "{}", ended.out);
}
