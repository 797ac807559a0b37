//! Where the tests run that hold wherever rows are kept: in memory, in a folder, and on S3 where there is one.

use antiphon_snapshot::{SnapshotConfig, Snapshots};

use crate::ingest_support::{s3_bucket, s3_options, service};

#[derive(Clone, Copy)]
enum Kind {
    Memory,
    Folder,
    S3,
}

/// One place after the other, each made when its turn comes.
pub(crate) struct Places {
    left: std::slice::Iter<'static, Kind>,
}

impl Places {
    /// Every place there is.
    pub(crate) fn all() -> Self {
        Self { left: [Kind::Memory, Kind::Folder, Kind::S3].iter() }
    }

    /// Those that several can open: what is in memory is there for one.
    pub(crate) fn shared() -> Self {
        Self { left: [Kind::Folder, Kind::S3].iter() }
    }

    /// The next place, with nothing in it.
    pub(crate) async fn next(&mut self) -> Option<Place> {
        for kind in self.left.by_ref() {
            let place = match kind {
                Kind::Memory => Some(Place::new("memory", "memory:".to_owned())),
                Kind::Folder => Some(Place::folder()),
                Kind::S3 => Place::s3().await,
            };
            if place.is_some() {
                return place;
            }
        }
        None
    }
}

/// A place that rows can be kept in. A test that fails in it says in which it was.
pub(crate) struct Place {
    name: &'static str,
    address: String,
    options: Vec<(String, String)>,
    folder: Option<tempfile::TempDir>,
}

impl Place {
    fn new(name: &'static str, address: String) -> Self {
        Self { name, address, options: Vec::new(), folder: None }
    }

    fn folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("file://{}", folder.path().display());
        let mut place = Self::new("folder", address);
        place.folder = Some(folder);
        place
    }

    /// A bucket of its own, if this was built for S3 and there is one.
    async fn s3() -> Option<Self> {
        // Without the feature there is nothing to test, and nothing to miss in CI.
        if !cfg!(feature = "aws") {
            return None;
        }
        let url = service("ANTIPHON_TEST_S3_URL")?;
        let mut random = [0; 6];
        getrandom::fill(&mut random).unwrap();
        let name = random.iter().fold(String::from("place-"), |name, byte| format!("{name}{byte:02x}"));
        let bucket = s3_bucket(&url, &name).await;
        let mut place = Self::new("S3", format!("s3://{bucket}/rows"));
        place.options = s3_options(&url);
        Some(place)
    }

    pub(crate) fn open(&self) -> Snapshots {
        self.open_with(SnapshotConfig::default())
    }

    pub(crate) fn open_with(&self, config: SnapshotConfig) -> Snapshots {
        Snapshots::open_with(&self.address, self.options.clone(), config).unwrap()
    }

    /// Whether it is asked over connections, which are tasks of the runtime too.
    pub(crate) fn is_remote(&self) -> bool {
        !self.options.is_empty()
    }

    /// What lies in its folder, if it has one.
    pub(crate) fn files(&self) -> Vec<std::path::PathBuf> {
        let Some(folder) = &self.folder else { return Vec::new() };
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Place {
    #[expect(clippy::print_stderr, reason = "one assertion is made in several places")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was in: {}", self.name);
        }
    }
}
