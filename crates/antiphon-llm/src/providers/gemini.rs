use bytes::Bytes;
use rig_core::{
    completion::ReplayTarget as _,
    http_client::{
        HeaderValue, HttpClientExt, LazyBody, MultipartForm, Request, Response, Result as HttpResult,
        StreamingResponse,
    },
    message::{AudioMediaType, ImageMediaType},
    providers::gemini::GeminiConfig,
};
use rig_reqwest::ReqwestClient;

use super::{
    config::{Needs, ProviderConfig},
    engine::{Engine, Profile},
    plan::Api,
};
use crate::error::Result;

/// A model behind Gemini's `generateContent` API.
///
/// ```no_run
/// # use antiphon_llm::providers::{Gemini, ProviderConfig};
/// # fn main() -> Result<(), antiphon_llm::Error> {
/// # let key = "";
/// let model = Gemini::new(ProviderConfig::new(key).with_model("gemini-3.8-flash"))?;
/// # Ok(())
/// # }
/// ```
///
/// Requests for structured data use `responseJsonSchema`.
pub struct Gemini(Engine);

impl Gemini {
    /// Creates a model from the configuration of a provider.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Config`](crate::Error::Config) if a setting is missing or invalid.
    pub fn new(config: ProviderConfig) -> Result<Self> {
        let profile = Profile {
            name: "Gemini",
            api: Api::Gemini,
            needs: Needs { key: true, base_url: false },
            vendor: Some("gcp.gemini"),
            images: SEEN,
            audio: HEARD,
        };
        let mut rig = GeminiConfig::new(config.secret().to_owned());
        if let Some(url) = &config.base_url {
            rig = rig.with_base_url(url);
        }
        let model = |name: &str, http| {
            let model = rig.clone().connect(KeyInHeader(http)).completion(name);
            let images = model.wire.accepts(name).user_images;
            (model.erase(), images)
        };
        Ok(Self(Engine::new(profile, config, model)?))
    }
}

super::model!(Gemini);

/// An HTTP client that sends the API key in a header. By default, rig would put the API key into the URL, and URLs are
/// often logged.
struct KeyInHeader(ReqwestClient);

impl KeyInHeader {
    fn moved<T>(request: Request<T>) -> Request<T> {
        let (mut parts, body) = request.into_parts();
        let whole = parts.uri.to_string();
        if let Some((address, key)) = whole.split_once("?key=")
            && let (Ok(uri), Ok(mut key)) = (address.parse(), HeaderValue::from_str(key))
        {
            key.set_sensitive(true);
            parts.uri = uri;
            parts.headers.insert("x-goog-api-key", key);
        }
        Request::from_parts(parts, body)
    }
}

impl HttpClientExt for KeyInHeader {
    fn send<T, U>(
        &self,
        request: Request<T>,
    ) -> impl Future<Output = HttpResult<Response<LazyBody<U>>>> + Send + 'static
    where
        T: Into<Bytes> + Send,
        U: From<Bytes> + Send + 'static,
    {
        self.0.send(Self::moved(request))
    }

    fn send_multipart<U>(
        &self,
        request: Request<MultipartForm>,
    ) -> impl Future<Output = HttpResult<Response<LazyBody<U>>>> + Send + 'static
    where
        U: From<Bytes> + Send + 'static,
    {
        self.0.send_multipart(Self::moved(request))
    }

    fn send_streaming<T>(
        &self,
        request: Request<T>,
    ) -> impl Future<Output = HttpResult<StreamingResponse>> + Send
    where
        T: Into<Bytes> + Send,
    {
        self.0.send_streaming(Self::moved(request))
    }
}

const SEEN: &[ImageMediaType] = &[
    ImageMediaType::JPEG,
    ImageMediaType::PNG,
    ImageMediaType::WEBP,
    ImageMediaType::HEIC,
    ImageMediaType::HEIF,
];

const HEARD: &[AudioMediaType] = &[
    AudioMediaType::WAV,
    AudioMediaType::MP3,
    AudioMediaType::AIFF,
    AudioMediaType::AAC,
    AudioMediaType::OGG,
    AudioMediaType::FLAC,
];
