//! Tests of the client against a server with canned answers.

use contract::spec::PodGroupSpec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Answers one request per entry, then closes; returns the requests.
pub(crate) async fn server(answers: &[(u16, &str)]) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let answers: Vec<(u16, String)> = answers.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = fabric::tasks::spawn("server", async move {
        let mut asked = Vec::new();
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 16 * 1024];
            let length = stream.read(&mut request).await.unwrap();
            asked.push(String::from_utf8_lossy(&request[..length]).into_owned());
            let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
        asked
    });
    (url, served)
}

fn retry() -> Retry {
    Retry::for_span(Duration::from_secs(10), |_| {})
}

fn key(request: &str) -> &str {
    request.lines().find(|line| line.starts_with("idempotency-key")).unwrap()
}

#[tokio::test]
async fn the_next_url_is_tried_when_one_does_not_answer() {
    let (url, served) = server(&[(202, "[{\"Name\":\"n1\",\"State\":\"alive\"}]")]).await;
    let api = Api::new(&["http://127.0.0.1:1".to_owned(), url]).unwrap();
    assert_eq!(api.nodes().await.unwrap()[0].name, "n1");
    assert!(served.await.unwrap()[0].starts_with("GET /api/nodes HTTP"));
}

#[tokio::test]
async fn a_locked_group_is_tried_again_with_a_new_key_and_a_lost_answer_with_the_same() {
    let (url, served) = server(&[(423, "{\"message\":\"busy\"}"), (503, ""), (202, "{\"message\":\"ok\"}")]).await;
    Api::new(&[url]).unwrap().scale("a b", 3, None, &mut retry()).await.unwrap();
    let asked = served.await.unwrap();
    assert!(asked[0].starts_with("PATCH /api/podgroups?name=a+b&cmd=replica&num_instances=3 "), "{}", asked[0]);
    assert_ne!(key(&asked[0]), key(&asked[1]));
    assert_eq!(key(&asked[1]), key(&asked[2]));
}

#[tokio::test]
async fn a_queued_change_is_followed_until_it_is_decided() {
    const REFUSED: &str = r#"{"operation":"o1","state":"refused","message":"no","decided_at":"2026-01-01T00:00:00Z"}"#;
    let (url, _served) = server(&[(202, "{\"queued\":true,\"operation\":\"o1\"}"), (404, "{}"), (200, REFUSED)]).await;
    let error = Api::new(&[url]).unwrap().delete("a", None, &mut retry()).await.unwrap_err();
    assert!(matches!(error, Error::Refused { ref message, .. } if message == "no"), "{error:?}");
}

#[tokio::test]
async fn a_refusal_keeps_its_reason_and_an_unknown_name_is_not_found() {
    let (url, _served) = server(&[(400, "{\"message\":\"Pod.Containers: must not be empty\"}"), (404, "{}")]).await;
    let api = Api::new(&[url]).unwrap();
    let error = api.create(&PodGroupSpec::default(), &mut retry()).await.unwrap_err().to_string();
    assert!(error.contains("400") && error.contains("Pod.Containers: must not be empty"), "{error}");
    assert_eq!(api.group("x").await.unwrap(), None);
}

#[tokio::test]
async fn an_api_that_is_not_there_is_named_with_the_remedy() {
    let error = Api::new(&["http://127.0.0.1:1".to_owned()]).unwrap().nodes().await.unwrap_err().to_string();
    assert!(error.contains("http://127.0.0.1:1;") && error.contains("deployctl up"), "{error}");
}

#[test]
fn only_urls_are_urls() {
    assert!(Api::new(&["127.0.0.1:9003".to_owned()]).is_ok(), "it means http://");
    assert!(Api::new(&["ftp://a".to_owned()]).is_err());
}

/// Sockets come first in a local cluster. One of a dead apiserver must not make the outcome of a change unknown.
#[tokio::test]
async fn a_dead_socket_counts_as_no_connection_and_the_next_url_is_tried() {
    let dir = tempfile::tempdir().unwrap();
    let dead = dir.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let sockets = [dir.path().join("missing.sock"), dead].map(|path| url_of_socket(&path));
    let deadline = Deadline::after(Duration::from_secs(10));
    for urls in [sockets.to_vec(), vec![sockets[0].clone(), "https://127.0.0.1:1".to_owned()]] {
        let api = Api::new(&urls).unwrap().until(deadline);
        let attempt = api.attempt(&Request::new(Method::DELETE, "/api/podgroups", &[]), Some("key")).await;
        assert!(attempt.doubt.is_none(), "{:?}", attempt.doubt);
        assert!(matches!(attempt.answer, Err(Error::Unreachable { .. })));
    }
    let (url, served) = server(&[(202, "[]")]).await;
    Api::new(&[&sockets[..], &[url]].concat()).unwrap().nodes().await.unwrap();
    assert_eq!(served.await.unwrap().len(), 1);
}

#[tokio::test]
async fn requests_go_over_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a b.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let served = fabric::tasks::spawn("server", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 16 * 1024];
        let length = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 202 X\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]").await.unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let api = Api::new(&[url_of_socket(&path)]).unwrap();
    assert_eq!(api.nodes().await.unwrap().len(), 0);
    let request = served.await.unwrap();
    assert!(request.starts_with("GET /api/nodes HTTP") && request.contains("host: localhost"), "{request}");
}
