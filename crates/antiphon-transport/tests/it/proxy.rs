//! A wire that can be cut.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Passes bytes on to a server until it is cut.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cuts: watch::Sender<u32>,
    down: watch::Sender<bool>,
    refused: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = watch::Sender::new(0);
        let down = watch::Sender::new(false);
        let refused = Arc::<AtomicUsize>::default();
        let (cut, is_down, refusals) = (cuts.clone(), down.subscribe(), Arc::clone(&refused));
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                if *is_down.borrow() {
                    refusals.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                let mut cut = cut.subscribe();
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(server).await else { return };
                    let _ = (near.set_nodelay(true), far.set_nodelay(true));
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, cuts, down, refused }
    }

    /// Ends every connection, without a word.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Whether connections are refused from now on.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.send_replace(down);
    }

    /// How many connections were refused.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }
}
