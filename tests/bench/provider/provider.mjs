// The package oidc-provider on Postgres, with one public client whose refresh tokens rotate.
//
//   node provider.mjs PORT DATABASE_URL CLIENT_ID COUNT
//
// It prints one line, a JSON array of COUNT refresh tokens of different grants, when it is ready, and ends when its
// input does.
import { createServer } from 'node:http';
import Provider from 'oidc-provider';
import pg from 'pg';

const [port, url, clientId, count] = process.argv.slice(2);
const SCOPE = 'read:profile';

// As many connections as our authorization server has.
const pool = new pg.Pool({ connectionString: url, max: 6 });
await pool.query(`
  create table if not exists public.oidc_model (
    name text,
    id text,
    payload jsonb not null,
    grant_id text,
    expires_at timestamptz,
    consumed_at timestamptz,
    primary key (name, id)
  )`);
await pool.query('create index if not exists oidc_model_grant on public.oidc_model (grant_id)');

// Each statement has a name, so that a connection prepares it once, as ours do.
const run = async (name, text, values) => (await pool.query({ name, text, values })).rows;

class PostgresAdapter {
  constructor(name) {
    this.name = name;
  }

  async upsert(id, payload, expiresIn) {
    await run(
      'upsert',
      `insert into public.oidc_model (name, id, payload, grant_id, expires_at)
       values ($1, $2, $3, $4, now() + $5 * interval '1 second')
           on conflict (name, id) do update
          set payload = excluded.payload,
              expires_at = excluded.expires_at`,
      [this.name, id, payload, payload.grantId ?? null, expiresIn ?? null],
    );
  }

  async find(id) {
    const [row] = await run(
      'find',
      `select payload, extract(epoch from consumed_at)::integer as consumed
         from public.oidc_model
        where name = $1
          and id = $2
          and (expires_at is null or expires_at > now())`,
      [this.name, id],
    );
    return row && { ...row.payload, ...(row.consumed && { consumed: row.consumed }) };
  }

  async consume(id) {
    await run(
      'consume',
      'update public.oidc_model set consumed_at = now() where name = $1 and id = $2',
      [this.name, id],
    );
  }

  async destroy(id) {
    await run('destroy', 'delete from public.oidc_model where name = $1 and id = $2', [
      this.name,
      id,
    ]);
  }

  async revokeByGrantId(grantId) {
    await run('revoke', 'delete from public.oidc_model where grant_id = $1', [grantId]);
  }

  // Sessions, device codes and the like are never looked up in a refresh.
  async findByUid() {}

  async findByUserCode() {}
}

const provider = new Provider(`http://localhost:${port}`, {
  adapter: PostgresAdapter,
  clients: [
    {
      client_id: clientId,
      redirect_uris: ['https://app.example/callback'],
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
    },
  ],
  cookies: { keys: ['not a secret'] },
  features: { devInteractions: { enabled: false } },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  pkce: { required: () => true },
  rotateRefreshToken: true,
  scopes: ['offline_access', SCOPE],
  ttl: { AccessToken: 3600, Grant: 90 * 86400, RefreshToken: 90 * 86400 },
});

async function refreshToken() {
  const grant = new provider.Grant({ accountId: 'alice', clientId });
  grant.addOIDCScope(SCOPE);
  const token = new provider.RefreshToken({
    accountId: 'alice',
    client: await provider.Client.find(clientId),
    grantId: await grant.save(),
    gty: 'authorization_code',
    scope: SCOPE,
  });
  return token.save();
}

const tokens = await Promise.all(Array.from({ length: Number(count) }, refreshToken));
createServer(provider.callback()).listen(Number(port), '127.0.0.1', () => {
  console.log(JSON.stringify(tokens));
});

process.stdin.resume();
process.stdin.on('end', () => process.exit());
