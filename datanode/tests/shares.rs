//! Room of a DataNode that one user cannot take from others.

use std::io::{Read, Write};

use client::dfs::{CreateOptions, DfsClient, DfsWriter};

use crate::common::{Cluster, dfs};

/// Operations that the DataNode carries out at once.
const TRANSFERS_MAX: usize = 16;
/// Of one user alone.
const OF_ONE_USER: usize = 12;

/// A file that is open for writing and says nothing more.
fn idle(client: &DfsClient, name: &str) -> std::io::Result<DfsWriter> {
    let options = CreateOptions { replication: Some(1), ..CreateOptions::default() };
    let mut writer = client.create(&dfs(name), options).map_err(std::io::Error::other)?;
    writer.write_all(b"a line")?;
    writer.hflush().map_err(std::io::Error::other)?;
    Ok(writer)
}

fn put_and_get(client: &DfsClient, name: &str) {
    let options = CreateOptions { replication: Some(1), ..CreateOptions::default() };
    let mut writer = client.create(&dfs(name), options).unwrap();
    writer.write_all(&[7; 100_000]).unwrap();
    writer.close().unwrap();
    let mut data = Vec::new();
    client.open(&dfs(name)).unwrap().read_to_end(&mut data).unwrap();
    assert_eq!(data, [7; 100_000]);
}

#[test]
fn idle_writers_of_one_user_stop_nobody_else() {
    let cluster = Cluster::start_with(1, false, TRANSFERS_MAX);
    for user in ["mallory", "ada", "bob"] {
        let home = dfs(&format!("/{user}"));
        cluster.client.mkdirs(&home, 0o777, true).unwrap();
        cluster.client.set_mode(&home, 0o777).unwrap();
    }
    let mallory = cluster.connect_as("mallory");
    let mut held = Vec::new();
    for number in 0..OF_ONE_USER {
        held.push(idle(&mallory, &format!("/mallory/{number}")).unwrap());
    }
    let ada = cluster.connect_as("ada");
    put_and_get(&ada, "/ada/first");
    // Others come, hold as many as they like, and get what the first has too much of.
    let bob = cluster.connect_as("bob");
    let mut others = Vec::new();
    for number in 0..OF_ONE_USER / 3 {
        others.push(idle(&ada, &format!("/ada/{number}")).unwrap());
        others.push(idle(&bob, &format!("/bob/{number}")).unwrap());
    }
    put_and_get(&bob, "/bob/last");
    // Whoever has no more than others keeps what it has.
    for mut writer in others {
        writer.write_all(b" more").unwrap();
        writer.close().unwrap();
    }
    drop(held);
}
