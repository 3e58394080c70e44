//! Compose files: what becomes of each key, and that nothing is left out silently.

use crate::document::{read, read_compose};

/// The documents of a file as one text, and the reported paths with their problems.
fn converted(text: &str) -> (String, Vec<String>) {
    let (documents, reports) = read_compose(text, "shop").unwrap_or_else(|error| panic!("{error}"));
    let documents = documents.join("---\n");
    read(&documents).unwrap_or_else(|error| panic!("{error}\n{documents}"));
    let without_place = |report: String| report.split_once(": ").map(|(_, rest)| rest.to_owned()).unwrap_or(report);
    (documents, reports.into_iter().map(without_place).collect())
}

/// The reported paths only.
fn paths(reports: &[String]) -> Vec<&str> {
    reports.iter().map(|report| report.split(": ").next().unwrap_or_default()).collect()
}

const WEB_SERVER: &str = r#"
services:
  web:
    image: nginx:1.27
    command: nginx -g "daemon off;"
    environment: {GREETING: hello, COUNT: 3, PRICE: "$$5"}
    expose: ["80"]
    user: "1000"
    working_dir: /srv
    labels: [team=shop]
    restart: unless-stopped
    stop_grace_period: 1m
    deploy: {replicas: 3, resources: {limits: {cpus: "0.5", memory: 256m}}}
    healthcheck: {test: [CMD, wget, -qO-, "http://127.0.0.1/a b"], interval: 10s, timeout: 5s, retries: 3}
    logging: {driver: json-file, options: {max-size: 10m}}
    x-note: {any: thing}
"#;

const WEB_SERVER_SHORT: &str = r#"name: shop.web
image: nginx:1.27
replicas: 3
restart: always
memory: 256Mi
cpu: 0.5
command:
- nginx
- -g
- daemon off;
env:
  GREETING: hello
  COUNT: "3"
  PRICE: $5
labels:
  team: shop
user: "1000"
workdir: /srv
port: 80
stopTimeout: 1m
health:
  command: wget -qO- 'http://127.0.0.1/a b'
  every: 10s
  timeout: 5s
  retries: 3
log:
  driver: json-file
  options:
    max-size: 10m
"#;

#[test]
fn a_web_server_needs_no_report() {
    assert_eq!(converted(WEB_SERVER), (WEB_SERVER_SHORT.to_owned(), Vec::new()));
}

const WEB_SITE: &str = r#"
version: "3.8"
name: blog
services:
  web:
    build: .
    ports: ["8080:80", "443:443"]
    depends_on: [db]
    env_file: .env
    environment: [DB=db, TOKEN]
    volumes: ["./site:/site", "/etc/ssl:/etc/ssl:ro", cache:/cache]
  db:
    image: mysql:${TAG:-8}
    restart: on-failure:5
    volumes: [data:/var/lib/mysql]
    healthcheck: {test: mysqladmin ping, interval: 5s, start_period: 1m}
volumes:
  data:
  cache: {driver: nfs}
networks:
  front:
"#;

const WEB_SITE_REPORTS: [&str; 17] = [
    "networks",
    "services",
    "services.db.healthcheck.interval",
    "services.db.healthcheck.start_period",
    "services.db.image",
    "services.db.restart",
    "services.db.volumes[0]",
    "services.web.build",
    "services.web.depends_on",
    "services.web.env_file",
    "services.web.environment[1]",
    "services.web.ports[0]",
    "services.web.ports[1]",
    "services.web.ports[1]",
    "services.web.volumes[0]",
    "services.web.volumes[2]",
    "volumes.cache.driver",
];

#[test]
fn a_web_site_with_a_database_reports_what_differs() {
    let (documents, reports) = converted(WEB_SITE);
    let names: Vec<&str> = documents.lines().filter(|line| line.starts_with("name:")).collect();
    assert_eq!(names, ["name: blog.web", "name: blog.db"]);
    for expected in [
        "image: blog-web\n",
        "port: 80\n",
        "volumes:\n- /cache\n",
        "mounts:\n- /etc/ssl:/etc/ssl:ro\n",
        "restart: never\n",
        "restart: on-failure\n",
        "volumes:\n- /var/lib/mysql\n",
        "health:\n  command: mysqladmin ping\n  every: 10s\n",
        "env:\n  DB: db\n",
    ] {
        assert!(documents.contains(expected), "{expected}{documents}");
    }
    let mut reported = paths(&reports);
    reported.sort_unstable();
    assert_eq!(reported, WEB_SITE_REPORTS);
}

const LONG_NOTATIONS: &str = r#"
services:
  web:
    image: i
    scale: 2
    mem_limit: 1g
    cpus: 0.3
    entrypoint: [sh, -c]
    ports:
    - {target: 53, protocol: udp}
    - {target: 8080, published: "80", mode: host, app_protocol: http}
    volumes:
    - {type: volume, source: data, target: /data, volume: {nocopy: true}}
    - {type: bind, source: /srv, target: /srv, read_only: true}
    - {type: tmpfs, target: /tmp}
    deploy: {restart_policy: {condition: any, max_attempts: 3}, placement: {constraints: [node.role == worker]}}
    healthcheck: {disable: true}
"#;

#[test]
fn the_long_notations_are_read() {
    let (documents, reports) = converted(LONG_NOTATIONS);
    let expected = "name: shop.web\nimage: i\nreplicas: 2\nrestart: always\nmemory: 1Gi\ncpu: 0.5\nentrypoint:\n- sh\n- -c\n\
        port: 8080\nvolumes:\n- /data\nmounts:\n- /srv:/srv:ro\nhealth:\n  command: none\n";
    assert_eq!(documents, expected);
    let mut reported = paths(&reports);
    reported.sort_unstable();
    assert_eq!(
        reported,
        [
            "services.web.cpus",
            "services.web.deploy.placement",
            "services.web.deploy.restart_policy.max_attempts",
            "services.web.ports[0]",
            "services.web.ports[1]",
            "services.web.ports[1].app_protocol",
            "services.web.volumes[0]",
            "services.web.volumes[0].volume",
            "services.web.volumes[2]",
        ]
    );
}

/// The keys of a service in the compose specification that have no counterpart.
const UNSUPPORTED: [&str; 63] = [
    "annotations",
    "attach",
    "blkio_config",
    "build",
    "cap_add",
    "cap_drop",
    "cgroup",
    "cgroup_parent",
    "configs",
    "container_name",
    "cpu_count",
    "cpu_percent",
    "cpu_period",
    "cpu_quota",
    "cpu_rt_period",
    "cpu_rt_runtime",
    "cpu_shares",
    "cpuset",
    "credential_spec",
    "depends_on",
    "develop",
    "device_cgroup_rules",
    "devices",
    "dns",
    "dns_opt",
    "domainname",
    "env_file",
    "extends",
    "external_links",
    "extra_hosts",
    "gpus",
    "group_add",
    "hostname",
    "init",
    "ipc",
    "isolation",
    "label_file",
    "links",
    "mac_address",
    "mem_reservation",
    "mem_swappiness",
    "memswap_limit",
    "models",
    "network_mode",
    "networks",
    "oom_kill_disable",
    "oom_score_adj",
    "pid",
    "pids_limit",
    "platform",
    "post_start",
    "pre_stop",
    "privileged",
    "profiles",
    "provider",
    "pull_policy",
    "read_only",
    "runtime",
    "secrets",
    "security_opt",
    "shm_size",
    "stdin_open",
    "sysctls",
];

#[test]
fn every_key_without_a_counterpart_is_reported_with_its_place() {
    for key in UNSUPPORTED.into_iter().chain([
        "tmpfs",
        "tty",
        "ulimits",
        "use_api_socket",
        "userns_mode",
        "uts",
        "volumes_from",
    ]) {
        let text = format!("services:\n  web:\n    image: i\n    {key}: 1\n");
        let (_, reports) = read_compose(&text, "shop").unwrap();
        let expected = format!("line 4, column 5: services.web.{key}: not supported; ");
        assert!(reports.len() == 1 && reports[0].starts_with(&expected), "{key}: {reports:?}");
    }
    for key in ["networks", "secrets", "configs", "include", "models"] {
        let (_, reports) = read_compose(&format!("services:\n  web: {{image: i}}\n{key}: {{a: 1}}\n"), "shop").unwrap();
        assert!(
            reports.len() == 1 && reports[0].starts_with(&format!("line 3, column 1: {key}: not")),
            "{key}: {reports:?}"
        );
    }
}

/// Keys inside of supported ones that have no counterpart: the key above them, and their paths below a service.
const UNSUPPORTED_INSIDE: [(&str, &[&str]); 9] = [
    ("healthcheck", &["start_period", "start_interval"]),
    ("deploy", &["mode", "endpoint_mode", "labels", "placement", "rollback_config", "update_config"]),
    ("deploy.resources", &["reservations"]),
    ("deploy.resources.limits", &["pids"]),
    ("deploy.restart_policy", &["delay", "max_attempts", "window"]),
    ("logging", &["level"]),
    ("ports[0]", &["name", "host_ip", "app_protocol"]),
    ("volumes[0]", &["bind", "volume", "tmpfs", "image", "consistency"]),
    ("", &["gpus"]),
];

#[test]
fn keys_inside_of_supported_ones_are_reported_too() {
    for (parent, keys) in UNSUPPORTED_INSIDE {
        for key in keys {
            let steps = parent.split('.').filter(|step| !step.is_empty());
            let usual = if parent == "ports[0]" { "target: 80, " } else { "target: /a, " };
            let inner = if parent.ends_with(']') { format!("{usual}{key}: 1") } else { format!("{key}: 1") };
            let nested = steps.rev().fold(inner, |inner, step| match step.strip_suffix("[0]") {
                Some(step) => format!("{step}: [{{{inner}}}]"),
                None => format!("{step}: {{{inner}}}"),
            });
            let (_, reports) = converted(&format!("services:\n  web: {{image: i, {nested}}}\n"));
            let dot = if parent.is_empty() { "" } else { "." };
            let expected = format!("services.web.{parent}{dot}{key}");
            assert_eq!(paths(&reports), [expected.as_str()], "{nested}");
        }
    }
}

#[test]
fn reports_stand_in_the_order_of_the_file_and_merged_mappings_are_read() {
    let text =
        "x-common: &common\n  tty: true\nservices:\n  b: {init: true, image: i}\n  a:\n    <<: *common\n    image: j\n";
    let (documents, reports) = read_compose(text, "shop").unwrap();
    assert_eq!(documents[1], "name: shop.a\nimage: j\nreplicas: 1\nrestart: never\n");
    let lines: Vec<&str> = reports.iter().map(|report| report.split(',').next().unwrap()).collect();
    assert!(lines.is_sorted() && lines.len() == 3, "{reports:?}");
}

#[test]
fn a_service_without_an_image_gets_one_of_its_name_and_is_reported() {
    let (documents, reports) = converted("services:\n  web:\n");
    assert!(documents.contains("image: shop-web\n"), "{documents}");
    assert_eq!(reports, ["services.web.image: is missing; the document names shop-web"]);
}

#[test]
fn a_file_without_services_is_refused() {
    for text in ["web: {image: i}", "services: [a]", "services:"] {
        let error = read_compose(text, "shop").unwrap_err().to_string();
        assert!(error.contains("a compose file has a mapping `services`"), "{error}");
    }
}
