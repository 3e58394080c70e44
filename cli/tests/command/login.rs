//! Contexts and tokens: where a token comes from, where it goes, and where it never shows.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use contract::access::token::Token;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::server::{Ended, Server, run};

pub(crate) const ACCESS: &str = "GET /api/access";
const NODES: &str = "GET /api/nodes";

/// A token, different for each number.
pub(crate) fn token(number: u8) -> String {
    Token::from_random(&[number; 40]).reveal()
}

/// The answer of `GET /api/access` to alice.
pub(crate) fn view() -> Value {
    json!({"Enforced": true, "Principal": "alice", "Bindings": ["deployer@shop"]})
}

/// An API that knows alice.
pub(crate) async fn api() -> Server {
    let cluster = json!({"leader": "scheduler-1", "term": 1});
    Server::start(&[(ACCESS, 200, view()), (NODES, 200, json!([])), ("GET /api/cluster", 200, cluster)]).await
}

/// A file with a token and these rights.
pub(crate) fn file(folder: &Path, token: &str, mode: u32) -> PathBuf {
    let path = folder.join(format!("token-{mode:o}"));
    std::fs::write(&path, format!("{token}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("the mode is set");
    path
}

/// `deployctl login` with the token on the standard input.
pub(crate) async fn login(server: &Server, words: &[&str], token: &str) -> Ended {
    let url = server.url();
    let mut command = server.command(&[&["login", &url], words].concat());
    let mut child = command.env_remove("DEPLOYD_API").stdin(Stdio::piped()).spawn().expect("deployctl runs");
    let mut input = child.stdin.take().expect("an input");
    // A command that refuses its flags reads no input.
    drop(input.write_all(format!("{token}\n").as_bytes()).await);
    drop(input);
    Ended::of(&child.wait_with_output().await.expect("deployctl ends"))
}

#[tokio::test]
async fn after_a_login_commands_send_the_token_to_that_api_and_to_no_other() {
    let (server, other) = (api().await, api().await);
    let ended = login(&server, &["--name", "prod"], &token(1)).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.out.contains("as alice (deployer@shop)") && ended.out.contains("context prod is in use"),
        "{ended:?}"
    );
    let bearer = format!("Bearer {}", token(1));
    assert_eq!(server.authorizations(), std::slice::from_ref(&bearer), "the API is asked before anything is stored");

    let ended = server.run_elsewhere(&["node", "list"]).await;
    assert_eq!((ended.code, server.authorizations().len()), (Some(0), 2), "{ended:?}");
    // The same API, named by its URL: its token is sent.
    server.run(&["node", "list"]).await;
    assert!(server.authorizations().iter().all(|sent| *sent == bearer), "{:?}", server.authorizations());
    // Another API gets no token, whether it stands alone or beside the own one.
    for urls in [other.url(), format!("{},{}", other.url(), server.url())] {
        let mut command = server.command(&["node", "list"]);
        run({
            command.env("DEPLOYD_API", &urls);
            command
        })
        .await;
    }
    assert_eq!(other.authorizations(), ["", ""]);
}

#[tokio::test]
async fn contexts_are_private_and_a_file_that_others_can_read_is_refused() {
    let server = api().await;
    login(&server, &["--name", "prod"], &token(1)).await;
    let mode = |path: &Path| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    let path = server.contexts();
    assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("the mode is set");
    let before = server.requests();
    for words in [["node", "list"], ["context", "list"], ["context", "show"]] {
        let ended = server.run_elsewhere(&words).await;
        assert!(ended.code == Some(2) && ended.err.contains("chmod 600"), "{words:?}: {ended:?}");
    }
    assert_eq!(server.requests(), before);
}

#[tokio::test]
async fn a_login_that_fails_stores_nothing_and_shows_no_token() {
    let refused = Server::start(&[(ACCESS, 401, json!({"message": "this token is unknown"}))]).await;
    let older = Server::start(&[]).await;
    let good = api().await;
    for (server, words, token, code, text) in [
        (&refused, &[][..], token(1), 7, "does not accept the token of the input: this token is unknown"),
        (&older, &[], token(1), 1, "has no access control"),
        (&good, &[], "ddt_12_34".to_owned(), 2, "the input holds no token"),
        (&good, &["--name", "local"], token(1), 2, "no name of a context"),
        (&good, &["--ca", "/dev/null"], token(1), 2, "no certificate"),
    ] {
        let ended = login(server, words, &token).await;
        assert!(ended.code == Some(code) && ended.err.contains(text), "{text}: {ended:?}");
        assert!(!format!("{ended:?}").contains(&token), "{ended:?}");
        assert!(!server.contexts().exists());
    }
    assert_eq!(good.requests(), 0);
}

#[tokio::test]
async fn a_token_does_not_leave_this_machine_in_clear_text() {
    let server = api().await;
    let folder = tempfile::tempdir().expect("a folder");
    let token = file(folder.path(), &token(1), 0o600);
    let token = token.to_str().expect("a path");
    for words in [&["login", "http://10.255.255.1:9003"][..], &["node", "list", "--api", "http://10.255.255.1:9003"]] {
        let ended = server.run(&[&["--token-file", token], words].concat()).await;
        assert!(ended.code == Some(2) && ended.err.contains("in clear text"), "{words:?}: {ended:?}");
    }
    // A proxy of the environment would see it.
    let mut command = server.command(&["node", "list", "--token-file", token]);
    command.env("http_proxy", "http://127.0.0.1:1").env("HTTP_PROXY", "http://127.0.0.1:1");
    assert_eq!((run(command).await.code, server.authorizations().len()), (Some(0), 1));
}

#[tokio::test]
async fn a_token_comes_from_the_flag_then_the_variable_then_the_context() {
    let server = api().await;
    let folder = tempfile::tempdir().expect("a folder");
    login(&server, &[], &token(1)).await;
    let named = file(folder.path(), &token(3), 0o600);
    let variable = |command: &mut tokio::process::Command| {
        command.env("DEPLOYD_TOKEN", token(2));
    };
    let mut first = server.command(&["node", "list"]);
    variable(&mut first);
    let mut second = server.command(&["node", "list"]);
    variable(&mut second);
    second.env("DEPLOYD_TOKEN_FILE", &named);
    for command in [first, second] {
        run(command).await;
    }
    let sent = server.authorizations();
    assert_eq!(sent, [1, 2, 3].map(|number| format!("Bearer {}", token(number))));
}

#[tokio::test]
async fn a_token_file_that_others_can_read_is_refused() {
    let server = api().await;
    let folder = tempfile::tempdir().expect("a folder");
    let public = file(folder.path(), &token(1), 0o644);
    for (path, text) in [(public.to_str().expect("a path"), "chmod 600"), ("/nowhere/token", "there is no file")] {
        let ended = server.run(&["node", "list", "--token-file", path]).await;
        assert!(ended.code == Some(2) && ended.err.contains(text), "{ended:?}");
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_refusal_names_the_client_and_the_remedy_and_has_its_own_exit_code() {
    let unknown = json!({"message": "no token, and no binding for clients without one"});
    let denied = json!({"message": "alice may not read the nodes"});
    let server = Server::start(&[(NODES, 401, unknown.clone()), (NODES, 401, unknown), (NODES, 403, denied)]).await;
    let ended = server.run(&["node", "list"]).await;
    let login = format!("deployctl login {}", server.url());
    assert!(ended.code == Some(7) && ended.err.contains("not logged in") && ended.err.contains(&login), "{ended:?}");
    let mut with_token = server.command(&["node", "list"]);
    with_token.env("DEPLOYD_TOKEN", token(1));
    let ended = run(with_token).await;
    assert!(
        ended.err.contains("does not accept the token of DEPLOYD_TOKEN") && ended.err.contains(&login),
        "{ended:?}"
    );
    let ended = server.run(&["node", "list"]).await;
    assert!(
        ended.code == Some(7) && ended.err.contains("not allowed (403): alice may not read the nodes"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn contexts_are_listed_chosen_shown_and_removed() {
    let (first, second) = (api().await, api().await);
    login(&first, &["--name", "first"], &token(1)).await;
    let mut command = first.command(&["login", &second.url(), "--name", "second"]);
    command.env("DEPLOYD_TOKEN", token(2));
    assert_eq!(run(command).await.code, Some(0));

    let listed = first.run_elsewhere(&["context", "list", "-o", "json"]).await.out;
    let rows: Value = serde_json::from_str(&listed).expect("JSON");
    let of = |row: &Value| (row["Name"].clone(), row["InUse"].clone());
    assert_eq!([of(&rows[0]), of(&rows[1])], [(json!("first"), json!(false)), (json!("second"), json!(true))]);
    assert!(!listed.contains(&token(1)) && !listed.contains(&token(2)), "{listed}");
    let shown = first.run_elsewhere(&["context", "show"]).await.out;
    assert!(shown.contains(&second.url()) && shown.contains("(context second)"), "{shown}");

    assert_eq!(first.run_elsewhere(&["context", "use", "third"]).await.code, Some(2));
    first.run_elsewhere(&["context", "use", "first"]).await;
    first.run_elsewhere(&["node", "list"]).await;
    assert_eq!((first.requests(), second.requests()), (2, 1));
    // An API that does not answer is named with the context that leads to it.
    first.stop();
    let ended = first.run_elsewhere(&["node", "list"]).await;
    assert!(ended.code == Some(4) && ended.err.contains(&format!("{} (context first)", first.url())), "{ended:?}");

    let ended = first.run_elsewhere(&["logout"]).await;
    assert!(ended.out.contains("removed the context first") && ended.out.contains("token revoke"), "{ended:?}");
    assert_eq!(first.run_elsewhere(&["logout"]).await.code, Some(2), "none is in use");
    let stored = std::fs::read_to_string(first.contexts()).expect("contexts");
    assert!(!stored.contains(&token(1)) && stored.contains(&token(2)), "{stored}");
}

#[tokio::test]
async fn a_directory_that_is_named_comes_before_the_context() {
    let server = api().await;
    login(&server, &[], &token(1)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path");
    let ended = server.run_elsewhere(&["node", "list", "--dir", dir]).await;
    assert!(ended.code == Some(4) && ended.err.contains("no cluster runs in"), "{ended:?}");
    assert_eq!(server.requests(), 1, "only the login");
}

/// `script` gives deployctl a terminal and copies what it shows.
#[tokio::test]
async fn a_terminal_is_asked_for_the_token_and_does_not_show_it() {
    let server = api().await;
    let login = format!("{} login {}", env!("CARGO_BIN_EXE_deployctl"), server.url());
    let mut command = tokio::process::Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &login, "/dev/null"]);
    command.env("XDG_CONFIG_HOME", server.contexts().parent().and_then(Path::parent).expect("a folder"));
    command.env_remove("DEPLOYD_TOKEN").env_remove("DEPLOYD_TOKEN_FILE").kill_on_drop(true);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script runs");
    let (mut input, mut output) = (child.stdin.take().expect("an input"), child.stdout.take().expect("an output"));
    let mut shown = String::new();
    let talk = async {
        // Typed before the prompt, the terminal would show it.
        while !shown.contains("token: ") {
            let mut bytes = [0; 256];
            let length = tokio::io::AsyncReadExt::read(&mut output, &mut bytes).await.expect("a prompt");
            assert!(length > 0, "no prompt: {shown}");
            shown.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
        input.write_all(format!("{}\n", token(1)).as_bytes()).await.expect("typed");
        let mut rest = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut output, &mut rest).await.expect("it ends");
        shown.push_str(&String::from_utf8_lossy(&rest));
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), talk).await.expect("it ends in time");
    assert!(child.wait().await.expect("it ends").success(), "{shown}");
    assert!(shown.contains("logged in to") && !shown.contains(&token(1)), "{shown}");
    assert_eq!(server.authorizations(), [format!("Bearer {}", token(1))]);
}
