// An OpenID Connect provider for tests, made of the package oidc-provider with as little as it takes.
// Whoever names an address has it; one that begins with "unverified" the provider does not vouch for.
//
//   node provider.mjs PORT CLIENT_ID CLIENT_SECRET REDIRECT_URI LOGOUT_URI
//
// It says when it is ready, and ends when its input does.
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const [port, clientId, clientSecret, redirectUri, logoutUri] = process.argv.slice(2);

const provider = new Provider(`http://localhost:${port}`, {
  clients: [
    {
      client_id: clientId,
      client_secret: clientSecret,
      redirect_uris: [redirectUri],
      backchannel_logout_uri: logoutUri,
      backchannel_logout_session_required: true,
    },
  ],
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  cookies: { keys: ['not a secret'] },
  features: {
    backchannelLogout: { enabled: true },
    devInteractions: { enabled: false },
    rpInitiatedLogout: {
      logoutSource: (context, form) => {
        context.body = `${HEAD}<title>Sign out?</title>${form}
<button form="op.logoutForm" name="logout" value="yes">Sign out</button>`;
      },
      postLogoutSuccessSource: (context) => {
        context.body = `${HEAD}<title>Signed out</title>`;
      },
    },
  },
  // Its own dispatcher sends nothing to this machine.
  fetch: (url, { dispatcher, ...options }) => fetch(url, options),
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: id, email_verified: !id.startsWith('unverified') }),
  }),
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  pkce: { required: () => true },
});

const HEAD = '<!doctype html><html lang="en">';
const PAGE = `${HEAD}<title>Who are you?</title>
<form method="post"><label>Address <input name="address"></label>
<button>Continue</button> <button name="stop">Stop</button></form>`;

async function interact(request, response) {
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  const finish = (result) => provider.interactionFinished(request, response, result);
  if (prompt.name === 'consent') {
    const grant = new provider.Grant({
      accountId: session.accountId,
      clientId: params.client_id,
    });
    grant.addOIDCScope(params.scope);
    await finish({ consent: { grantId: await grant.save() } });
  } else if (request.method === 'POST') {
    let body = '';
    for await (const chunk of request) body += chunk;
    const form = new URLSearchParams(body);
    const login = { accountId: form.get('address') };
    await finish(form.has('stop') ? { error: 'access_denied' } : { login });
  } else {
    response.setHeader('Content-Type', 'text/html');
    response.end(PAGE);
  }
}

provider.on('backchannel.error', (_, error) => console.error(error));

const answer = provider.callback();
createServer((request, response) => {
  if (!request.url.startsWith('/interaction/')) {
    answer(request, response);
    return;
  }
  interact(request, response).catch((error) => {
    console.error(error);
    // Whoever comes back to a question that is answered gets a page, as a browser shows none without.
    response.writeHead(400, { 'Content-Type': 'text/html' });
    response.end(`${HEAD}<title>This is over</title><p>Start again.`);
  });
}).listen(Number(port), 'localhost', () => console.log('ready'));

process.stdin.resume();
process.stdin.on('end', () => process.exit());
