// An authorization server: oidc-provider, with clients that act for themselves and tokens for named resources.
//
// `node serve.mjs PORT RESOURCE OTHER`. Beside what it is asked as an authorization server it knows two requests more:
// `POST /rotate` begins to sign with a new key and still shows the old ones, `POST /rotate?forget` shows the new one alone.

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import Provider, { errors } from 'oidc-provider';

const [port, resource, other] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;

const client = (id) => ({
  client_id: id,
  client_secret: `${id}-0123456789abcdef0123456789abcdef`,
  grant_types: ['client_credentials'],
  redirect_uris: [],
  response_types: [],
});

const configuration = {
  // `guarded` is the resource itself, which asks about tokens.
  clients: ['ada', 'eve', 'opaque', 'guarded'].map(client),
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  cookies: { keys: [randomUUID()] },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    introspection: { enabled: true, allowedPolicy: (_, asking) => asking.clientId === 'guarded' },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo(_, indicator, asking) {
        if (![resource, other].includes(indicator)) throw new errors.InvalidTarget();
        return {
          scope: 'reports:read reports:write',
          accessTokenTTL: 300,
          accessTokenFormat: asking.clientId === 'opaque' ? 'opaque' : 'jwt',
          jwt: { sign: { alg: 'ES256' } },
        };
      },
    },
  },
};

let keys = [];
let answer;

function rotate(forget) {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'ES256', use: 'sig' };
  keys = [key, ...(forget ? [] : keys)];
  // Tokens are in a storage that all providers of this process share.
  const provider = new Provider(issuer, { ...configuration, jwks: { keys } });
  provider.on('server_error', (_, error) => console.error(error));
  answer = provider.callback();
  return key.kid;
}

rotate(true);
createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, issuer);
  if (request.method === 'POST' && pathname === '/rotate') {
    response.end(JSON.stringify({ kid: rotate(searchParams.has('forget')) }));
  } else {
    answer(request, response);
  }
}).listen(Number(port), '127.0.0.1');
