//! `apply`: creates or updates PodGroups from a file and waits until the change is made.

use std::io::Read;
use std::path::{Path, PathBuf};

use contract::spec::PodGroupSpec;

use crate::api::{self, Api, Deadline, Retry};
use crate::args::{self, Output, Waiting};
use crate::commands::plan::Planned;
use crate::commands::rollout;
use crate::commands::rollout::follow::{self, Watched};
use crate::commands::rollout::outcome::RolloutOutcome;
use crate::commands::wait::{self, finish, retry};
use crate::document::difference::{self, Difference};
use crate::document::{self, Document};
use crate::output::progress::Progress;
use crate::output::{self, question};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}; name a file with -f, or - for standard input")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is not a valid document")]
    Document {
        path: PathBuf,
        #[source]
        source: document::Error,
    },
    #[error("nothing was changed: the plan was not confirmed; --yes applies it without a question")]
    Declined,
    #[error("{name} exists and differs in {fields}, which cannot be changed; delete it, then apply it again")]
    Fixed { name: String, fields: String },
    /// The change was accepted and failed.
    #[error("PodGroup {name}: {reason}")]
    Failed { name: String, reason: String },
    /// The rollout ended, and the group is not what the document says.
    #[error(
        "PodGroup {name} differs from the document in {fields}: the change was rolled back, or another one followed; \
         `deployctl rollout history {name}` shows which"
    )]
    Replaced { name: String, fields: String },
    #[error(transparent)]
    Rollout(#[from] rollout::Error),
    #[error(transparent)]
    Api(#[from] api::Error),
}

/// `deployctl apply`
pub async fn apply(api: &Api, asked: &args::Apply) -> Result<(), Error> {
    let documents = documents(&asked.file, document::read)?;
    if !asked.yes && question::can_ask() {
        confirm(api, &documents).await?;
    }
    // The time that the user takes to answer does not count.
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    for document in &documents {
        apply_one(api, document, asked, deadline).await?;
    }
    Ok(())
}

/// Applies a document that no file holds, as `apply` does with those of a file.
pub async fn apply_document(
    api: &Api,
    document: &Document,
    cause: Option<&str>,
    waiting: &Waiting,
) -> Result<(), Error> {
    let (file, cause) = (PathBuf::from("-"), cause.map(str::to_owned));
    let asked = args::Apply { file, cause, yes: true, waiting: waiting.clone() };
    let deadline = Deadline::after(waiting.timeout);
    apply_one(&api.until(deadline), document, &asked, deadline).await
}

/// The specs of a file; all of them are valid, or none is returned.
pub fn documents<S>(file: &Path, reader: fn(&str) -> Result<Vec<S>, document::Error>) -> Result<Vec<S>, Error> {
    reader(&read(file)?).map_err(|source| Error::Document { path: file.to_owned(), source })
}

/// Shows the plan of every group that exists and would change, and asks once for all of them.
async fn confirm(api: &Api, documents: &[Document]) -> Result<(), Error> {
    let mut is_change = false;
    for document in documents {
        let Some(current) = api.group(&document.spec.name).await? else { continue };
        let (spec, difference) = difference(document, &current.spec)?;
        if difference == Difference::default() {
            continue;
        }
        is_change = true;
        let fields = difference.changes(&current.spec);
        match api.plan(&spec).await {
            Ok(view) => eprintln!("{}\n", output::plan::plan(&Planned { view, fields })),
            // The user may not be allowed to plan, or no scheduler leads; the changed fields are known without a plan.
            Err(error) => {
                eprintln!("{}: would update it\n{}no plan: {error}\n", spec.name, output::difference::text(&fields));
            }
        }
    }
    if is_change && !question::is_confirmed("Apply these changes?") { Err(Error::Declined) } else { Ok(()) }
}

async fn apply_one(api: &Api, document: &Document, asked: &args::Apply, deadline: Deadline) -> Result<(), Error> {
    let spec = &document.spec;
    let name = &spec.name;
    let progress = Progress::start(&format!("PodGroup {name}: applying"));
    let mut retry = retry(&progress, deadline);
    let done = match change(api, document, asked.cause.as_deref(), &mut retry).await {
        Ok(done) => done,
        Err(error) => {
            progress.abandon();
            return Err(error);
        }
    };
    progress.done(&format!("PodGroup {name} {}", done.join(", ")));
    if !asked.waiting.waits() {
        return Ok(());
    }
    if spec.has_strategy() {
        until_rolled_out(api, document, deadline).await
    } else {
        until_applied(api, document, deadline).await
    }
}

/// Makes the missing changes and returns what it did.
async fn change(api: &Api, document: &Document, cause: Option<&str>, retry: &mut Retry) -> Result<Vec<String>, Error> {
    let name = &document.spec.name;
    let Some(current) = wait::first_read(retry, async || api.group(name).await).await? else {
        api.create(&document.spec, retry).await?;
        return Ok(vec!["created".to_owned()]);
    };
    let (spec, Difference { rollout: settings, pod, number, policy, fixed: _ }) = difference(document, &current.spec)?;
    let mut done = Vec::new();
    // The rollout settings come first: the new pod rolls out by them.
    if !settings.fields.is_empty() {
        api.set_strategy(name, &settings.fields, retry).await?;
        done.push(format!("updated: {}", difference::paths(&settings.changes)));
    }
    let present = u32::try_from(current.spec.num_instances).unwrap_or(0);
    // Scale down before the rollout, so that it replaces no instance that goes away; scale up after it starts, so that new
    // instances start with the new pod.
    let shrinks_first = number.is_some_and(|number| number < present);
    for scales in [shrinks_first, !shrinks_first] {
        if scales && (number.is_some() || policy.is_some()) {
            api.scale(name, number.unwrap_or(present), policy, retry).await?;
            done.extend(number.map(|number| format!("scaled from {present} to {number} instances")));
            done.extend(policy.map(|policy| format!("updated: RestartPolicy {}", policy.word())));
        } else if !scales && !pod.is_empty() {
            api.patch(name, &spec.pod, cause, retry).await?;
            done.push(format!("updated: {}", difference::paths(&pod)));
        }
    }
    Ok(if done.is_empty() { vec!["is unchanged".to_owned()] } else { done })
}

/// The spec to apply over a group that runs as `current`, and the differences; an error if one cannot be changed.
pub(crate) fn difference(document: &Document, current: &PodGroupSpec) -> Result<(PodGroupSpec, Difference), Error> {
    let spec = document.over(current);
    let difference = difference::of_group(current, &spec);
    if difference.fixed.is_empty() {
        return Ok((spec, difference));
    }
    Err(Error::Fixed { name: spec.name, fields: difference.fixed.join(", ") })
}

/// Waits until the operation ends and every instance is ready. A change that was rolled back has failed.
async fn until_applied(api: &Api, document: &Document, deadline: Deadline) -> Result<(), Error> {
    let spec = &document.spec;
    let name = &spec.name;
    let progress = Progress::start(&format!("PodGroup {name}: waiting until the change is made"));
    let mut retry = retry(&progress, deadline);
    let group = wait::settled(api, &spec.namespace, name, &mut retry).await;
    let group = finish(&progress, group, &format!("PodGroup {name} has settled"))?;
    let wanted = document.over(&group.spec);
    if difference::of_group(&group.spec, &wanted) != Difference::default() && !group.last_error.is_empty() {
        return Err(Error::Failed { name: name.clone(), reason: group.last_error });
    }
    // The lock ends with the last deploy; whether the new pods become ready is known later.
    until_rolled_out(api, document, deadline).await
}

/// Follows the rollout to its end and prints the instances. A rollback completes too, so the spec at the end decides.
async fn until_rolled_out(api: &Api, document: &Document, deadline: Deadline) -> Result<(), Error> {
    let name = &document.spec.name;
    let mut retry = Retry::until(deadline, |_| {});
    let release = wait::read(&mut retry, async || api.rollout(name).await).await?.release;
    let followed = follow::follow(api, name, Watched::Only(release), deadline).await?;
    if followed.outcome != RolloutOutcome::Complete {
        return Ok(rollout::ended(followed, Output::Table)?);
    }
    let group = wait::read(&mut retry, async || api.group(name).await).await?;
    let group = group.ok_or_else(|| api::Error::no_group(name))?;
    let (_, difference) = difference(document, &group.spec)?;
    if difference != Difference::default() {
        return Err(Error::Replaced {
            name: name.clone(),
            fields: difference::paths(&difference.changes(&group.spec)),
        });
    }
    Ok(wait::until_running(api, name, document.spec.num_instances, deadline).await?)
}

/// The text of a file, or of standard input.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|source| Error::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contract::api::PodGroupWithSpec;

    use super::*;
    use crate::api::tests::server;

    const OK: (u16, &str) = (202, "{\"message\":\"ok\"}");

    fn document(image: &str, instances: i64) -> Document {
        let text = format!(
            "Name: a.web.web\nNamespace: a\nNumInstances: {instances}\nPod: {{Containers: [{{Image: {image}}}]}}"
        );
        document::read(&text).unwrap().swap_remove(0)
    }

    /// What `apply` reports and the requests it sends when the group runs as `current`.
    async fn applied(current: Option<Document>, wanted: &Document, changes: usize) -> (Vec<String>, Vec<String>) {
        let group = |spec| serde_json::to_string(&PodGroupWithSpec { spec, ..Default::default() }).unwrap();
        let shown = current.map_or_else(|| (404, "{}".to_owned()), |current| (200, group(current.spec)));
        let mut answers = vec![(shown.0, shown.1.as_str())];
        answers.extend(std::iter::repeat_n(OK, changes));
        let (url, served) = server(&answers).await;
        let mut retry = Retry::for_span(Duration::from_secs(5), |_| {});
        let done = change(&Api::new(&[url]).unwrap(), wanted, None, &mut retry).await.unwrap();
        let asked = served.await.unwrap().into_iter().skip(1);
        (done, asked.map(|request| request.split(" HTTP").next().unwrap_or_default().to_owned()).collect())
    }

    #[tokio::test]
    async fn applying_an_unchanged_document_sends_no_change() {
        assert_eq!(
            applied(Some(document("i", 2)), &document("i", 2), 0).await,
            (vec!["is unchanged".to_owned()], Vec::new())
        );
        let (done, asked) = applied(None, &document("i", 2), 1).await;
        assert_eq!((done, asked), (vec!["created".to_owned()], vec!["POST /api/podgroups?strict=true".to_owned()]));
    }

    #[tokio::test]
    async fn scaling_down_precedes_the_new_pod_and_scaling_up_follows_it() {
        const SPEC: &str = "PATCH /api/podgroups?name=a.web.web&cmd=spec&strict=true";
        const SCALE: &str = "PATCH /api/podgroups?name=a.web.web&cmd=replica&num_instances=";
        let changed = "updated: Pod.Containers[0].Image".to_owned();
        let (done, asked) = applied(Some(document("i", 2)), &document("j", 2), 1).await;
        assert_eq!((done, asked), (vec![changed.clone()], vec![SPEC.to_owned()]));
        let (done, asked) = applied(Some(document("i", 2)), &document("j", 3), 2).await;
        assert_eq!(done, [changed.clone(), "scaled from 2 to 3 instances".to_owned()]);
        assert_eq!(asked, [SPEC.to_owned(), format!("{SCALE}3")]);
        let (done, asked) = applied(Some(document("i", 2)), &document("j", 1), 2).await;
        assert_eq!(done, ["scaled from 2 to 1 instances".to_owned(), changed]);
        assert_eq!(asked, [format!("{SCALE}1"), SPEC.to_owned()]);
    }

    #[tokio::test]
    async fn a_field_that_cannot_be_changed_is_an_error_before_any_change_is_sent() {
        let mut other = document("j", 3);
        other.spec.pod.network = "elsewhere".to_owned();
        let current = PodGroupWithSpec { spec: document("i", 2).spec, ..Default::default() };
        let (url, _served) = server(&[(200, &serde_json::to_string(&current).unwrap())]).await;
        let mut retry = Retry::for_span(Duration::from_secs(5), |_| {});
        let error = change(&Api::new(&[url]).unwrap(), &other, None, &mut retry).await.unwrap_err().to_string();
        assert!(error.contains("Pod.Network"), "{error}");
    }
}
