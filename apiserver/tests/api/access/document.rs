//! The tables of docs/security.md say what the code decides.

use contract::access::routes::ROUTES;
use contract::access::{Right, Role};

/// The cells of the rows that follow a heading.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, rest) = page.split_once(heading).expect("the table");
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_tables_of_rights_are_those_of_the_code() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let page = std::fs::read_to_string(path).unwrap();
    let word = |has: bool| if has { "yes" } else { "no" };
    let roles = rows(&page, "| right | viewer | releaser | deployer | operator | admin | monitor |");
    let row = |name: &str, has: &dyn Fn(Role) -> bool| {
        let cells = [Role::Viewer, Role::Releaser, Role::Deployer, Role::Operator, Role::Admin, Role::Monitor].map(has);
        std::iter::once(name).chain(cells.map(word)).map(str::to_owned).collect::<Vec<_>>()
    };
    for right in Right::ALL {
        assert!(roles.contains(&row(right.word(), &|role| role.has(right))), "{}", right.word());
    }
    assert!(roles.contains(&row("values of environment variables", &Role::sees_environment)));
    assert_eq!(roles.len(), Right::ALL.len() + 1);
    let routes = rows(&page, "| right | routes |");
    for route in &ROUTES {
        let (method, path) = (route.method, route.path);
        let row = routes.iter().find(|row| row[0] == route.right.word()).expect("a row for each right");
        assert!(row[1].contains(&format!("`{method} {path}`")), "{method} {path} needs {}", route.right.word());
    }
}
