//! The DataNode's own page: what it is, and charts of the last hour.

use std::future::{self, Ready};
use std::sync::Arc;

use axum::Router;
use daemon::Shutdown;
use daemon::access::Access;
use daemon::auth::Authenticator;
use daemon::last_hour::{LastHour, Rate, Series};
use daemon::page::format;
use daemon::page::node::{self, NodePage};
use protocol::auth::{self, Key};
use protocol::namenode::DatanodeInfo;
use transport::rpc::now_ms;

use crate::config::Config;
use crate::transfer::Service;

/// The DataNode's own figures.
const OWN: [Series; 3] = [
    Series { title: "Used by blocks", show: format::bytes },
    Series { title: "Received from writers", show: format::byte_rate },
    Series { title: "Sent to readers and as copies", show: format::byte_rate },
];

/// The routes of the page. Its figures are taken until `shutdown`.
pub(crate) fn router(
    (config, secret): (&Config, &Key),
    (service, info): (&Arc<Service>, &DatanodeInfo),
    shutdown: Shutdown,
) -> Router {
    let hour = LastHour::new("DataNode", OWN).with_machine();
    tokio::spawn(hour.clone().record(shutdown, figures(Arc::clone(service))));
    let page = NodePage {
        name: "Hanno DataNode",
        host: info.host.clone(),
        master: (node::of_master(&config.namenode, &format!("/datanodes/{}", info.id)), "NameNode"),
        facts: vec![
            node::version(),
            node::since(now_ms()),
            ("Id", info.id.to_string()),
            ("Address", info.transfer_address.clone()),
            ("Rack", info.rack.clone()),
        ],
        hour,
    };
    let auth = Authenticator::new(secret, auth::Service::Datanode);
    page.routes(&Access::new(auth, None, config.webhdfs.auth)).into()
}

fn figures(service: Arc<Service>) -> impl FnMut() -> Ready<Option<[u64; OWN.len()]>> {
    let (mut received, mut sent) =
        (Rate::begin(service.traffic().received()), Rate::begin(service.traffic().sent()));
    move || {
        let traffic = service.traffic();
        let rates = [received.per_second(traffic.received()), sent.per_second(traffic.sent())];
        future::ready(Some([service.store.usage_lately().used, rates[0], rates[1]]))
    }
}
