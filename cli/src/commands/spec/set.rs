//! `set`: changes one part of a container of a PodGroup.

use contract::spec::{ContainerSpec, PodGroupSpec};

use super::Error;
use crate::api::{self, Api};
use crate::args::{SetTarget, SetWhat};
use crate::commands::apply;
use crate::document::Document;
use crate::short;

/// `deployctl set`
pub async fn set(api: &Api, what: &SetWhat) -> Result<(), crate::Error> {
    let (SetWhat::Image { target, .. }
    | SetWhat::Env { target, .. }
    | SetWhat::Memory { target, .. }
    | SetWhat::Cpu { target, .. }) = what;
    // A value that is wrong is refused before anything is asked.
    change(&mut ContainerSpec::default(), what)?;
    let group = api.group(&target.name).await?.ok_or_else(|| api::Error::no_group(&target.name))?;
    let mut spec = group.spec;
    change(container(&mut spec, target)?, what)?;
    let document = Document::of_spec(spec);
    Ok(apply::apply_document(api, &document, target.cause.as_deref(), &target.waiting).await?)
}

fn container<'a>(spec: &'a mut PodGroupSpec, target: &SetTarget) -> Result<&'a mut ContainerSpec, Error> {
    let count = spec.pod.containers.len();
    let index = target.container.or_else(|| (count == 1).then_some(0));
    let found = index.and_then(|index| spec.pod.containers.get_mut(index));
    found.ok_or_else(|| Error::Container { name: target.name.clone(), count })
}

fn change(container: &mut ContainerSpec, what: &SetWhat) -> Result<(), Error> {
    let number = |key: &str, text: &str| short::number(key, text).map_err(Error::Value);
    match what {
        SetWhat::Image { image, .. } => container.image.clone_from(image),
        SetWhat::Memory { memory, .. } => container.memory_limit = number("memory", memory)?,
        SetWhat::Cpu { cpu, .. } => container.cpu_limit = number("cpu", cpu)?,
        SetWhat::Env { changes, .. } => {
            for change in changes {
                variable(&mut container.env, change)?;
            }
        }
    }
    Ok(())
}

/// `NAME=TEXT` sets a variable at its place, or at the end; `NAME-` removes it.
fn variable(env: &mut Vec<String>, change: &str) -> Result<(), Error> {
    let is = |entry: &String, name: &str| entry.split_once('=').is_some_and(|(known, _)| known == name);
    match (change.split_once('='), change.strip_suffix('-')) {
        (Some((name, _)), _) if !name.is_empty() => match env.iter().position(|entry| is(entry, name)) {
            Some(index) => change.clone_into(&mut env[index]),
            None => env.push(change.to_owned()),
        },
        (None, Some(name)) if !name.is_empty() => env.retain(|entry| !is(entry, name)),
        _ => return Err(Error::Value(format!("{change:?} must be NAME=TEXT, or NAME- to remove a variable"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(env: &[&str], changes: &[&str]) -> Result<Vec<String>, String> {
        let mut env: Vec<String> = env.iter().map(|entry| (*entry).to_owned()).collect();
        changes.iter().try_for_each(|change| variable(&mut env, change)).map_err(|error| error.to_string())?;
        Ok(env)
    }

    #[test]
    fn variables_are_set_at_their_place_and_removed_by_a_minus() {
        assert_eq!(changed(&["A=1", "B=2"], &["A=x=y", "C="]).unwrap(), ["A=x=y", "B=2", "C="]);
        assert_eq!(changed(&["A=1", "B=2"], &["A-", "D-", "B=2"]).unwrap(), ["B=2"]);
        for wrong in ["A", "=1", "-", ""] {
            assert!(changed(&[], &[wrong]).is_err_and(|error| error.contains("must be NAME=TEXT")), "{wrong}");
        }
    }
}
