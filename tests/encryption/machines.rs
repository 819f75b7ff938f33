//! A cluster whose daemons are reached as those of other machines are: at an outer address of this one, each over a link that somebody else holds.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use needs::{Need, lacks};

use super::relay::Relay;
use crate::support::cluster::{Ports, fresh_directory, hanno_binary};
use crate::support::{Caller, Outcome, wait};

/// Time for daemons to know each other.
const READY_MAX: Duration = Duration::from_secs(60);
/// DataNodes and workers.
const EACH: usize = 2;

/// The address by which other machines would reach this one; `None`, and said, if it has only loopback.
pub(super) fn outer() -> Option<IpAddr> {
    // Connecting a datagram socket sends nothing; it only determines the route.
    let way = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let address = way.ok().map(|way| way.ip()).filter(|ip| !ip.is_loopback());
    if address.is_none() {
        lacks(Need::Network, "the machine has no address but loopback");
    }
    address
}

/// Who stands before the DataNodes' ports for blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// Passes bytes on.
    Honest,
    /// Shows a certificate of its own.
    Between,
}

/// Running daemons.
pub(super) struct Machines {
    pub(super) directory: PathBuf,
    pub(super) caller: Caller,
    pub(super) namenode: SocketAddr,
    /// By the daemon behind each: its name, and `-blocks` for a DataNode's second port.
    pub(super) links: Vec<(String, Relay)>,
    daemons: Vec<(String, Child)>,
    ip: IpAddr,
    ports: Ports,
    used: u16,
}

impl Machines {
    /// Starts a NameNode, a JobTracker, two DataNodes and two workers; each has these lines in its configuration, too.
    pub(super) fn start(ip: IpAddr, blocks: Link, lines: &str) -> Self {
        let directory = fresh_directory();
        daemon::secret::load(&directory.join("secret"), true).unwrap();
        let nowhere = SocketAddr::new(ip, 0);
        let caller = Caller { namenode: String::new(), jobtracker: String::new() };
        let mut machines = Machines {
            directory,
            caller,
            namenode: nowhere,
            links: Vec::new(),
            daemons: Vec::new(),
            ip,
            ports: Ports::take(),
            used: 0,
        };
        machines.namenode = machines.place();
        let (bind, link) = (machines.namenode, machines.link("namenode", machines.namenode));
        machines.caller.namenode = format!("http://{link}");
        let minimum = "safe_mode_datanodes = 2\nheartbeat_ms = 200\nblock_size_min = 1024\n";
        let text = format!(
            "advertise = \"{link}\"\n{minimum}data_dir = \"{}\"\n",
            machines.data("namenode")
        );
        machines.begin("namenode", bind, &(text + lines));
        for number in 1..=EACH {
            machines.begin_datanode(&format!("datanode-{number}"), blocks, lines);
        }
        let bind = machines.place();
        machines.caller.jobtracker = format!("http://{}", machines.link("jobtracker", bind));
        let text = format!(
            "namenode = \"{}\"\ndata = \"{}\"\n",
            machines.caller.namenode,
            machines.data("jobtracker")
        );
        machines.begin("jobtracker", bind, &(text + lines));
        for number in 1..=EACH {
            machines.begin_worker(&format!("worker-{number}"), lines);
        }
        machines.wait_ready();
        machines
    }

    fn begin_datanode(&mut self, name: &str, blocks: Link, lines: &str) {
        let (bind, http) = (self.place(), self.place());
        let transfer = match blocks {
            Link::Honest => Relay::before(bind),
            Link::Between => Relay::between(bind),
        };
        let (transfer_link, http_link) = (transfer.address, self.link(name, http));
        self.links.push((format!("{name}-blocks"), transfer));
        let text = format!(
            "advertise = \"{transfer_link}\"\nhttp_bind = \"{http}\"\nhttp_advertise = \"{http_link}\"\nnamenode = \"{}\"\n\
             data_directories = [\"{}\"]\nlocal_socket = false\n",
            self.caller.namenode,
            self.data(name)
        );
        self.begin(name, bind, &(text + lines));
    }

    fn begin_worker(&mut self, name: &str, lines: &str) {
        let bind = self.place();
        let link = self.link(name, bind);
        let text = format!(
            "advertise = \"{link}\"\nnamenode = \"{}\"\njobtracker = \"{}\"\ndata = \"{}\"\nslot_count = 1\nshared_outputs = false\n",
            self.caller.namenode,
            self.caller.jobtracker,
            self.data(name)
        );
        self.begin(name, bind, &(text + lines));
    }

    fn begin(&mut self, name: &str, bind: SocketAddr, text: &str) {
        let secret = self.directory.join("secret");
        let text = format!("bind = \"{bind}\"\nsecret_file = \"{}\"\n{text}", secret.display());
        fs::write(self.directory.join(format!("{name}.toml")), text).unwrap();
        let child = self.spawn(name);
        self.daemons.push((name.to_owned(), child));
    }

    fn spawn(&self, name: &str) -> Child {
        let errors = self.directory.join(format!("{name}.err"));
        let errors = fs::File::options().create(true).append(true).open(errors).unwrap();
        let mut command = Command::new(hanno_binary());
        command.arg(name.split('-').next().unwrap()).arg("--config");
        command.arg(self.directory.join(format!("{name}.toml")));
        command.env("HADOOP_USER_NAME", crate::support::cluster::SUPERUSER);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        command.spawn().unwrap()
    }

    /// Ends a daemon and starts it again, at the same address.
    pub(super) fn restart(&mut self, name: &str) {
        let at = self.daemons.iter().position(|(known, _)| known == name).unwrap();
        let mut ended = self.daemons.remove(at).1;
        sys::process::terminate(ended.id()).unwrap();
        assert!(ended.wait().unwrap().success());
        let child = self.spawn(name);
        self.daemons.push((name.to_owned(), child));
    }

    /// A port that nobody uses.
    fn place(&mut self) -> SocketAddr {
        self.used += 1;
        SocketAddr::new(self.ip, u16::try_from(self.ports.base).unwrap() + self.used)
    }

    fn link(&mut self, name: &str, daemon: SocketAddr) -> SocketAddr {
        let relay = Relay::before(daemon);
        let address = relay.address;
        self.links.push((name.to_owned(), relay));
        address
    }

    fn data(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn wait_ready(&self) {
        let ready = wait::until(READY_MAX, || {
            let nodes = self.hanno(&["dfsadmin", "-report", "-live"]).stdout_text();
            let workers = self.hanno(&["job", "-list-active-trackers"]).stdout_text();
            nodes.contains(&format!("Live datanodes ({EACH})")) && workers.lines().count() == EACH
        });
        assert!(ready, "not ready: {}", self.directory.display());
    }

    /// Runs `hanno ARGS` against this cluster.
    pub(super) fn hanno(&self, args: &[&str]) -> Outcome {
        let mut command = self.caller.command(&hanno_binary(), args);
        command.env("HANNO_SECRET_FILE", self.directory.join("secret"));
        Outcome::of(command)
    }

    /// Runs an example job against this cluster.
    pub(super) fn example(&self, name: &str, args: &[&str]) -> Outcome {
        let mut command = self.caller.example(name, args);
        command.env("HANNO_SECRET_FILE", self.directory.join("secret"));
        Outcome::of(command)
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for (_, daemon) in &mut self.daemons {
            let _ = sys::process::terminate(daemon.id());
        }
        for (_, daemon) in &mut self.daemons {
            let _ = daemon.wait();
        }
        match std::thread::panicking() {
            true => eprintln!("the daemons' directory is kept: {}", self.directory.display()),
            false => drop(fs::remove_dir_all(&self.directory)),
        }
    }
}
