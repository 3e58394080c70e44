//! Lists in every format: as a table, a wide table, YAML, JSON or names, once or with every later change.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::sleep;

use crate::api;
use crate::args::{ListOutput, Listing};
use crate::output::columns::{Table, plain};
use crate::output::{self, terminal};

/// How often a watched list is read again.
const EVERY: Duration = Duration::from_secs(1);

/// Whether a column is shown always or in the wide table only.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Column {
    Usual(&'static str),
    Wide(&'static str),
}

/// A list as the API gave it, with the cells of its tables.
#[derive(Debug)]
pub(crate) struct List {
    columns: &'static [Column],
    items: Vec<Item>,
    whole: Value,
    /// What to say when it is empty.
    none: &'static str,
}

#[derive(Debug, Clone)]
struct Item {
    name: String,
    value: Value,
    /// A cell for each column, wide ones included.
    cells: Vec<String>,
}

impl List {
    pub(crate) fn new(columns: &'static [Column], none: &'static str) -> Self {
        Self { columns, items: Vec::new(), whole: Value::Null, none }
    }

    /// Adds an object: its name, and a cell for each column.
    pub(crate) fn add(&mut self, name: &str, value: &impl Serialize, cells: impl Into<Vec<String>>) {
        self.items.push(Item { name: name.to_owned(), value: to_value(value), cells: cells.into() });
    }

    /// JSON and YAML show `whole` instead of an array of the objects.
    pub(crate) fn within(self, whole: &impl Serialize) -> Self {
        Self { whole: to_value(whole), ..self }
    }

    /// The objects, as JSON and YAML show them.
    pub(crate) fn value(&self) -> Value {
        match &self.whole {
            Value::Null => self.items.iter().map(|item| item.value.clone()).collect(),
            whole => whole.clone(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn table(&self, wide: bool) -> Table {
        self.table_of(&self.items, wide)
    }

    fn table_of(&self, items: &[Item], wide: bool) -> Table {
        let is_shown = |column: &&Column| wide || matches!(column, Column::Usual(_));
        let titles: Vec<&str> = self
            .columns
            .iter()
            .filter(is_shown)
            .map(|column| match column {
                Column::Usual(title) | Column::Wide(title) => *title,
            })
            .collect();
        let mut table = plain(&titles);
        for item in items {
            let cells = self.columns.iter().zip(&item.cells).filter(|(column, _)| is_shown(column));
            table.add_row(cells.map(|(_, cell)| cell.clone()));
        }
        table
    }

    pub(crate) fn print(&self, output: ListOutput) {
        match output {
            ListOutput::Table | ListOutput::Wide if self.is_empty() => println!("{}", self.none),
            ListOutput::Table | ListOutput::Wide => self.table(output == ListOutput::Wide).print(),
            ListOutput::Yaml => output::print_yaml(&self.value()),
            ListOutput::Json => output::print_json(&self.value()),
            ListOutput::Name => self.items.iter().for_each(|item| println!("{}", item.name)),
        }
    }

    /// Prints what differs from an earlier state of the list.
    fn print_changes(&self, before: &Self, output: ListOutput) {
        let old: BTreeMap<&str, &Value> = before.items.iter().map(|item| (item.name.as_str(), &item.value)).collect();
        let changed = |item: &&Item| old.get(item.name.as_str()) != Some(&&item.value);
        let changed: Vec<Item> = self.items.iter().filter(changed).cloned().collect();
        match output {
            ListOutput::Table | ListOutput::Wide => {
                let wide = output == ListOutput::Wide;
                self.table(wide).print_below(&self.table_of(&changed, wide));
            }
            ListOutput::Yaml => changed.iter().for_each(|item| {
                println!("---");
                output::print_yaml(&item.value);
            }),
            ListOutput::Json => changed.iter().for_each(|item| terminal::print_json(&item.value.to_string())),
            ListOutput::Name => changed.iter().for_each(|item| println!("{}", item.name)),
        }
        let is_gone = |item: &&Item| !self.items.iter().any(|other| other.name == item.name);
        for item in before.items.iter().filter(is_gone) {
            match output {
                ListOutput::Table | ListOutput::Wide => println!("{}  (gone)", terminal::inline(&item.name)),
                // Programs see the rows that exist.
                ListOutput::Yaml | ListOutput::Json | ListOutput::Name => {}
            }
        }
    }
}

/// Prints a list, and with --watch every change of it until Ctrl-C.
///
/// It reads the list again every second: the answer is always the present state, so nothing is missed when a connection breaks,
/// and deployctl keeps no more than one list.
pub(crate) async fn show(
    listing: Listing,
    mut read: impl AsyncFnMut() -> Result<List, api::Error>,
) -> Result<(), api::Error> {
    let mut shown = read().await?;
    shown.print(listing.output);
    if !listing.watch {
        return Ok(());
    }
    loop {
        sleep(EVERY).await;
        match read().await {
            Ok(list) => {
                list.print_changes(&shown, listing.output);
                shown = list;
            }
            Err(error) if error.is_temporary() => eprintln!("waiting for the API: {error}"),
            Err(error) => return Err(error),
        }
    }
}

fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("bodies of the API have string keys only")
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [Column::Usual("name"), Column::Wide("version"), Column::Usual("state")];

    fn list() -> List {
        let mut list = List::new(&COLUMNS, "nothing");
        list.add("a", &serde_json::json!({"Name": "a"}), ["a", "3", "running"].map(str::to_owned));
        list
    }

    #[test]
    fn wide_columns_are_in_the_wide_table_only() {
        let text = |wide| crate::output::columns::text(&list().table(wide));
        assert_eq!(text(false), "NAME  STATE\na     running");
        assert_eq!(text(true), "NAME  VERSION  STATE\na     3        running");
    }

    #[test]
    fn the_value_of_a_list_is_what_the_api_gave() {
        assert_eq!(list().value(), serde_json::json!([{"Name": "a"}]));
        assert_eq!(list().within(&serde_json::json!({"Of": 1})).value(), serde_json::json!({"Of": 1}));
    }
}
