//! The texts of errors, with line, column and caret.

use crate::document;

fn error(text: &str) -> String {
    document::read(text).expect_err(text).to_string()
}

/// The error of a group with this line as its fourth.
fn with(line: &str) -> String {
    error(&format!("name: shop.web\nreplicas: 3\nimage: nginx:1.27\n{line}\n"))
}

#[test]
fn an_unknown_key_is_shown_with_its_place_and_the_key_that_is_meant() {
    assert_eq!(
        with("memroy: 256Mi"),
        "line 4, column 1: memroy: unknown key; did you mean memory?\n    4 | memroy: 256Mi\n      | ^^^^^^"
    );
    assert_eq!(
        with("health: {command: x, intervall: 10s}"),
        "line 4, column 22: health.intervall: unknown key; did you mean every?\n    \
         4 | health: {command: x, intervall: 10s}\n      |                      ^^^^^^^^^"
    );
    for (line, words) in [
        ("replica: 3", "did you mean replicas?"),
        ("environment: {A: b}", "did you mean env?"),
        ("depends_on: [db]", "did you mean needs?"),
        ("MemoryLimit: 5", "did you mean memory?"),
        ("every: 10s", "did you mean health.every?"),
        ("needs: [{pods: x}]", "needs[0].pods: unknown key; did you mean pod?"),
        ("files: {a: b}", "files: unknown key; `deployctl explain` lists all keys"),
        ("secrets: [a]", "secrets: unknown key; `deployctl explain` lists all keys"),
        ("containers: [{image: i}]", "image: belongs to a container; move it into an item of containers"),
    ] {
        assert!(with(line).contains(words), "{line}: {}", with(line));
    }
}

#[test]
fn a_value_of_another_type_is_explained_in_plain_words() {
    assert_eq!(
        with("memory: true"),
        "line 4, column 9: memory: must be a size such as 256Mi, is true\n    4 | memory: true\n      |         ^^^^"
    );
    for (line, words) in [
        ("memory: 256MB", "memory: must be a size such as 256Mi, is \"256MB\""),
        ("memory: 1Mi", "memory: must be a size such as 256Mi, is \"1Mi\""),
        ("cpu: 0.3", "cpu: must be cores from 0.5 to 4 in steps of 0.5, such as 0.5, is 0.3"),
        ("restart: sometimes", "restart: must be always, on-failure or never, is \"sometimes\""),
        ("restart: yes", "restart: must be always, on-failure or never, is yes"),
        ("env: hello", "env: must be a mapping such as {GREETING: hello}, or a list of NAME=text, is \"hello\""),
        ("command: sleep 1", "command: must be a list of words such as [sleep, \"3600\"], is \"sleep 1\""),
        ("health: {every: soon}", "health.every: must be a time such as 30s, is \"soon\""),
        ("health: {every: 5s}", "health.every: must be 10s to 24h, is 5s"),
        ("health: curl", "health: must be a mapping such as"),
        ("stopTimeout: 500ms", "stopTimeout: must be whole seconds, is 500ms"),
        ("port: 99999", "port: must be 0..65535, is 99999"),
        ("ports: [80, 81]", "ports: must be one port for each container, is a list of 2"),
        ("ports: [\"8080:80\"]", "ports: must be the TCP port of the container, 1..65535, is \"8080:80\""),
        ("paused: 1", "paused: must be true or false, is 1"),
        ("strategy: [batch]", "strategy: must be a word, or a mapping such as {type: batch, size: 2}, is a list"),
        ("strategy: bach", "strategy: must be rolling, batch, beta, recreate or serial, is \"bach\""),
        (
            "strategy: {maxSurge: many}",
            "strategy.maxSurge: must be a count such as 2 or a percentage such as 25%, is \"many\"",
        ),
        ("needs: [5]", "needs[0]: must be an item such as svc.portal.portal"),
        ("user:", "user: has no value; write a text such as \"1000\", or leave the key out"),
        (
            "units: {values: [a], replicas: {a: x}}",
            "units.replicas.a: must be a count such as 2 or a percentage such as 25%, is",
        ),
        ("env: {A: [1]}", "line 4, column 10: env.A: must be a text, is a list"),
        ("env: {A: 1, B: }", "env.B: must be a text; write \"\" for an empty one, is empty"),
        ("env: {A=1: b}", "env.A=1: is no name of a variable; write NAME: text"),
        ("command: [a, {b: c}]", "command[1]: must be a text, is a mapping"),
    ] {
        assert!(with(line).contains(words), "{line}: {}", with(line));
        for kind in ["i64", "u32", "usize", "String", "struct"] {
            assert!(!with(line).contains(kind), "{line}: {}", with(line));
        }
    }
}

#[test]
fn what_the_checks_of_a_spec_say_is_shown_at_the_key() {
    assert_eq!(
        with("strategy: {type: rolling, size: 2}"),
        "line 4, column 33: strategy.size: only has a meaning with strategy.type batch or beta, which is rolling; leave it out\n    \
         4 | strategy: {type: rolling, size: 2}\n      |                                 ^"
    );
    assert_eq!(
        with("volumes: [/data, data]"),
        "line 4, column 18: volumes[1]: must be an absolute path without '.', '..', ':' or ',', is \"data\"\n    \
         4 | volumes: [/data, data]\n      |                  ^^^^"
    );
    for (line, words) in [
        ("strategy: serial\nminReady: 5s", "minReady: needs a strategy.type other than serial, for example rolling"),
        ("units: {label: zone}", "line 4, column 1: units.values: must name at least one unit"),
        ("ports: [80]\nport: 80", "line 5, column 1: port: means the same as ports; keep one of them"),
    ] {
        assert!(with(line).contains(words), "{line}: {}", with(line));
    }
    assert!(error("image: i\nreplicas: 1\n").starts_with("line 1, column 1: name: is required; write the name"));
    assert!(error("name: a\nimage: i\n").contains("replicas: is required; write how many instances"));
    assert!(error("name: a\nreplicas: 1\n").contains("line 1, column 1: image: is required; write the image"));
    assert!(with("containers: []").contains("image: belongs to a container"));
    let name = error("name: a b\nreplicas: 1\nimage: i\n");
    assert!(name.starts_with("line 1, column 7: name: contains ' '") && name.lines().count() == 3, "{name}");
    let listed = error("name: a\nreplicas: 1\ncontainers:\n- image: i\n- port: 80\n");
    assert!(listed.starts_with("line 5, column 3: containers[1].image: must not be empty"), "{listed}");
}

#[test]
fn all_problems_of_a_document_are_shown_in_the_order_of_the_text() {
    let error = error("nam: a\nreplicas: x\nimage: i\nport: y\n");
    let lines: Vec<&str> = error.lines().filter(|line| line.starts_with("line")).collect();
    let begins: Vec<&str> = lines.iter().map(|line| line.split(": ").nth(1).unwrap_or_default()).collect();
    assert_eq!(begins, ["nam", "name", "replicas", "port"], "{error}");
}

#[test]
fn the_other_form_and_files_of_other_programs_are_recognised() {
    assert!(with("Pod: {}").starts_with(
        "line 4, column 1: mixes the two forms: Pod is a field of a PodGroupSpec, image a key of the short form; use one"
    ));
    let kubernetes = error("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n");
    assert!(kubernetes.starts_with("line 1, column 1: this looks like a Kubernetes manifest"), "{kubernetes}");
    let compose = error("version: \"3\"\nservices:\n  web: {image: i}\n");
    assert!(compose.starts_with("line 2, column 1: this looks like a compose file"), "{compose}");
}

#[test]
fn broken_yaml_is_shown_with_its_place() {
    let error = error("name: a\nenv: {A: b\nreplicas: 1\n");
    assert!(error.starts_with("it is not YAML: line ") && error.contains("| "), "{error}");
    let twice = self::error("name: a\nname: b\nimage: i\nreplicas: 1\n");
    assert!(twice.contains("line 2, column 1") && twice.contains("    2 | name: b\n      | ^"), "{twice}");
}

#[test]
fn a_spec_of_the_api_has_places_too() {
    let error = error("Name: a\nNamespace: a\nNumInstances: \"2\"\nPod:\n  Containers:\n  - Image: i\n    Memory: 5\n");
    assert_eq!(
        error,
        "line 7, column 5: Pod.Containers[0].Memory: unknown field; did you mean Pod.Containers[0].MemoryLimit?\n    \
         7 |     Memory: 5\n      |     ^^^^^^"
    );
}
