//! Connects to DataNodes on this machine for a task, which may not make Unix sockets itself: there is no wall that would keep it from those of others.
//!
//! Invariant: it connects to DataNodes and to nothing else, whatever name it is asked for.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Connected;

use protocol::transfer::is_local_socket_name;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;

/// Answers the questions of a task until its end of `socket` is closed, or says something that is no question.
pub(crate) async fn serve(mut socket: UnixStream) {
    // A task that breaks the rules, or is gone, is answered no more; what it does then with its DataNodes goes over TCP.
    while let Ok(name) = question(&mut socket).await {
        let connected = connect(&name);
        let answered = socket.async_io(Interest::WRITABLE, || {
            sys::broker::answer(socket.as_fd(), connected.as_ref())
        });
        if answered.await.is_err() {
            return;
        }
    }
}

async fn question(socket: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut name = vec![0; usize::from(socket.read_u8().await?)];
    socket.read_exact(&mut name).await?;
    Ok(name)
}

/// A connection to a DataNode; `None` if it is none, or does not take one now.
fn connect(name: &[u8]) -> Option<Connected> {
    let name = std::str::from_utf8(name).ok().filter(|name| is_local_socket_name(name))?;
    sys::socket::connect_now(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::broker::Broker;

    #[tokio::test]
    async fn connects_to_datanodes_and_to_nobody_else() {
        let datanode = protocol::transfer::local_socket_name(rand::random());
        let other = format!("hanno-test-other-{}", std::process::id());
        let listeners = [&datanode, &other].map(|name| sys::socket::listen(name).unwrap());
        let (ours, theirs) = Connected::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let serving = tokio::spawn(serve(UnixStream::from_std(ours).unwrap()));
        let asking = tokio::task::spawn_blocking(move || {
            let broker = Broker::new(theirs).unwrap();
            let nobody = protocol::transfer::local_socket_name(0);
            for refused in [&other, &nobody, "", "/run/docker.sock", "\u{0}"] {
                let error = broker.connect(refused).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{refused}");
            }
            broker.connect(&datanode).unwrap();
        });
        asking.await.unwrap();
        listeners[0].accept().unwrap();
        listeners[1].set_nonblocking(true).unwrap();
        assert_eq!(listeners[1].accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        serving.await.unwrap();
    }
}
