//! Many small files written together, through real DataNodes and a real NameNode: each has its own outcome, whatever becomes of the others.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Cluster, dfs, sample, until};
use client::dfs::{
    CreateOptions, DfsClient, Parents, SMALL_FILE_BYTES_MAX, SMALL_FILES_MAX, SmallFile,
};
use protocol::ErrorKind;

fn file(path: &str, bytes: Vec<u8>) -> SmallFile {
    SmallFile { path: dfs(path), options: CreateOptions::default(), bytes }
}

/// Sizes about every edge, and enough for several operations.
fn sizes() -> Vec<usize> {
    let edges = [0, 1, 511, 512, 513, 4095, 4096, SMALL_FILE_BYTES_MAX, SMALL_FILE_BYTES_MAX + 1];
    edges.into_iter().chain((0..2 * SMALL_FILES_MAX).map(|n| n * 97)).collect()
}

fn write_all(client: &DfsClient, folder: &str, sizes: &[usize], options: &CreateOptions) {
    let files = sizes.iter().enumerate().map(|(number, size)| SmallFile {
        path: dfs(&format!("{folder}/f{number}")),
        options: options.clone(),
        bytes: sample(*size, number as u32),
    });
    let outcomes = client.write_small(files.collect());
    assert_eq!(outcomes.len(), sizes.len());
    for (number, outcome) in outcomes.into_iter().enumerate() {
        outcome.unwrap_or_else(|error| panic!("{folder}/f{number}: {error}"));
    }
}

fn check_all(cluster: &Cluster, folder: &str, sizes: &[usize]) {
    for (number, size) in sizes.iter().enumerate() {
        let path = format!("{folder}/f{number}");
        let status = cluster.client.status(&dfs(&path)).unwrap();
        assert_eq!((status.length, status.open), (*size as u64, false), "{path}");
        assert!(cluster.get(&path).unwrap() == sample(*size, number as u32), "{path}");
    }
}

#[test]
fn every_size_comes_back() {
    for local_socket in [true, false] {
        let cluster = Cluster::start(3, local_socket);
        let sizes = sizes();
        write_all(&cluster.client, "/plain", &sizes, &CreateOptions::default());
        check_all(&cluster, "/plain", &sizes);
        // Some are longer than a block.
        let tiny = CreateOptions { block_size: Some(4096), ..CreateOptions::default() };
        write_all(&cluster.client, "/tiny", &sizes[..40], &tiny);
        check_all(&cluster, "/tiny", &sizes[..40]);
        until("all have three replicas", || {
            let blocks = |n: usize| cluster.locations(&format!("/plain/f{n}")).blocks;
            (0..sizes.len()).flat_map(blocks).all(|block| block.replicas.len() == 3)
        });
        assert!(cluster.client.write_small(Vec::new()).is_empty());
    }
}

#[test]
fn each_has_its_own_outcome() {
    let cluster = Cluster::start(3, true);
    cluster.put("/there", b"old", 1 << 20);
    let below = |path: &str, root: &str| SmallFile {
        options: CreateOptions { parents: Parents::Below(dfs(root)), ..CreateOptions::default() },
        ..file(path, b"below".to_vec())
    };
    let published = |path: &str, overwrite| SmallFile {
        options: CreateOptions {
            publish_as: Some(dfs(path)),
            publish_overwrite: overwrite,
            ..CreateOptions::default()
        },
        ..file(&format!("{path}._COPYING_"), b"new".to_vec())
    };
    let files = vec![
        file("/a", b"a".to_vec()),
        file("/there", b"new".to_vec()),
        file("/there/below", b"x".to_vec()),
        file("/empty", Vec::new()),
        published("/there", false),
        below("/made/deep/f", "/"),
        below("/missing/deep/f", "/missing"),
        published("/published", false),
    ];
    let kinds: Vec<Option<ErrorKind>> = cluster
        .client
        .write_small(files)
        .into_iter()
        .map(|outcome| outcome.err().map(|error| error.kind().expect("the NameNode refuses it")))
        .collect();
    use ErrorKind::{AlreadyExists, NotFound, ParentNotDirectory};
    let refused =
        [Some(AlreadyExists), Some(ParentNotDirectory), Some(AlreadyExists), Some(NotFound)];
    assert_eq!(kinds, [None, refused[0], refused[1], None, refused[2], None, refused[3], None]);
    for (path, bytes) in [
        ("/a", &b"a"[..]),
        ("/there", b"old"),
        ("/empty", b""),
        ("/made/deep/f", b"below"),
        ("/published", b"new"),
    ] {
        assert_eq!(cluster.get(path).unwrap(), bytes, "{path}");
    }
    let left = cluster.client.list(&dfs("/")).map(|entry| entry.unwrap().name);
    let left: Vec<String> = left.filter(|name| name.contains("COPYING")).collect();
    assert!(left.is_empty(), "a file that is not published is deleted: {left:?}");
    let outcomes = cluster.client.write_small(vec![published("/there", true)]);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(cluster.get("/there").unwrap(), b"new");
}

#[test]
fn files_of_one_message_go_few_ways() {
    let cluster = Cluster::start(5, true);
    let sizes = vec![100; SMALL_FILES_MAX];
    write_all(&cluster.client, "/ways", &sizes, &CreateOptions::default());
    let mut nodes: Vec<_> = (0..sizes.len())
        .flat_map(|n| cluster.locations(&format!("/ways/f{n}")).blocks)
        .flat_map(|block| block.replicas.into_iter().map(|replica| replica.id))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 3, "of five");
}

#[test]
fn a_datanode_that_dies_costs_no_file() {
    for victim in 0..3 {
        let mut cluster = Cluster::start(4, true);
        let sizes: Vec<usize> = (0..200).map(|n| n * 31).collect();
        write_all(&cluster.client, "/before", &sizes, &CreateOptions::default());
        let (client, done) = (cluster.connect(), AtomicBool::new(false));
        let rounds = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut round = 0;
                while !done.load(Ordering::Relaxed) || round < 3 {
                    let folder = format!("/round-{round}");
                    write_all(&client, &folder, &sizes, &CreateOptions::default());
                    round += 1;
                }
                round
            });
            cluster.stop_datanode(victim);
            done.store(true, Ordering::Relaxed);
            writing.join().unwrap()
        });
        // Its connections are dead now.
        write_all(&cluster.client, "/after", &sizes, &CreateOptions::default());
        for round in 0..rounds {
            check_all(&cluster, &format!("/round-{round}"), &sizes);
        }
        check_all(&cluster, "/after", &sizes);
        cluster.start_datanode(victim);
        cluster.wait_live(4);
        check_all(&cluster, "/before", &sizes);
    }
}
