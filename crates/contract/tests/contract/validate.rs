//! Validation: all flaws are reported together, each with its field.

use contract::spec::{CloudVolume, ContainerSpec, PodGroupSpec};

use crate::samples;

fn fields(spec: &PodGroupSpec) -> Vec<String> {
    spec.validate().err().unwrap_or_default().into_iter().map(|flaw| flaw.field).collect()
}

fn with(change: impl FnOnce(&mut PodGroupSpec)) -> PodGroupSpec {
    let mut spec = samples::spec();
    change(&mut spec);
    spec
}

#[test]
fn a_real_spec_passes() {
    assert_eq!(samples::spec().validate(), Ok(()));
}

#[test]
fn an_empty_spec_names_every_missing_field() {
    assert_eq!(fields(&PodGroupSpec::default()), ["Name", "Namespace", "Pod.Name", "Pod.Namespace", "Pod.Containers"]);
}

#[test]
fn each_flaw_names_its_field() {
    let cases: Vec<(&str, PodGroupSpec)> = vec![
        ("Name", with(|s| "a..b".clone_into(&mut s.name))),
        ("Name", with(|s| "a/b".clone_into(&mut s.name))),
        ("Name", with(|s| s.name = "x".repeat(300))),
        ("Namespace", with(|s| "a b".clone_into(&mut s.namespace))),
        ("NumInstances", with(|s| s.num_instances = -1)),
        ("NumInstances", with(|s| s.num_instances = 1_000_000)),
        ("Pod.Name", with(|s| "other".clone_into(&mut s.pod.name))),
        ("Pod.Annotation", with(|s| "not json".clone_into(&mut s.pod.annotation))),
        ("Pod.Annotation", with(|s| "[]".clone_into(&mut s.pod.annotation))),
        ("Pod.Annotation.ports", with(|s| r#"{"ports":7}"#.clone_into(&mut s.pod.annotation))),
        (
            "Pod.Annotation.ports[0].srcport",
            with(|s| r#"{"ports":[{"srcport":0,"dstport":1}]}"#.clone_into(&mut s.pod.annotation)),
        ),
        ("Pod.Labels", with(|s| drop(s.pod.labels.insert("cc.bdp.lain.deployd.pg_name".to_owned(), String::new())))),
        ("Pod.Containers", with(|s| s.pod.containers = vec![s.pod.containers[0].clone(); 17])),
        ("Pod.Containers[0].Image", with(|s| s.pod.containers[0].image.clear())),
        ("Pod.Containers[0].Image", with(|s| "a b".clone_into(&mut s.pod.containers[0].image))),
        ("Pod.Containers[0].CpuLimit", with(|s| s.pod.containers[0].cpu_limit = -1)),
        ("Pod.Containers[0].MemoryLimit", with(|s| s.pod.containers[0].memory_limit = -1)),
        ("Pod.Containers[0].MemoryLimit", with(|s| s.pod.containers[0].memory_limit = 1024)),
        ("Pod.Containers[0].Expose", with(|s| s.pod.containers[0].expose = 70_000)),
        ("Pod.Containers[0].Env[0]", with(|s| "NOVALUE".clone_into(&mut s.pod.containers[0].env[0]))),
        ("Pod.Containers[0].Volumes[0]", with(|s| "/a/../../etc".clone_into(&mut s.pod.containers[0].volumes[0]))),
        ("Pod.Containers[0].Volumes[0]", with(|s| "relative".clone_into(&mut s.pod.containers[0].volumes[0]))),
        ("Pod.Containers[0].Volumes[0]", with(|s| "/a:/b".clone_into(&mut s.pod.containers[0].volumes[0]))),
    ];
    for (field, spec) in cases {
        assert!(fields(&spec).contains(&field.to_owned()), "{field}: {:?}", spec.validate());
    }
}

#[test]
fn a_cloud_volume_is_multi_or_single() {
    let spec = with(|s| {
        let volume = CloudVolume { kind: "other".to_owned(), dirs: vec!["/data".to_owned()] };
        s.pod.containers.push(ContainerSpec {
            image: "i".to_owned(),
            cloud_volumes: vec![volume],
            ..Default::default()
        });
    });
    assert_eq!(fields(&spec), ["Pod.Containers[1].CloudVolumes[0].Type"]);
}

#[test]
fn a_new_group_gets_version_and_times_from_deployd() {
    let spec = with(|s| {
        s.version = 7;
        s.pod.version = 9;
        s.pod.annotation.clear();
    })
    .for_creation(samples::at(5));
    assert_eq!((spec.version, spec.pod.version, spec.pod.annotation.as_str()), (0, 0, "{}"));
    assert_eq!(spec.created_at, samples::at(5));
}
