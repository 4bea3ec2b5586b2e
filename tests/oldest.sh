#!/usr/bin/env bash
# Runs the tests that are named on the oldest PostgreSQL that is supported, 15, as a login that may
# create roles and databases and nothing more. Debian's packages are installed where they are missing
# and the rights are there. The server is private, on a Unix socket, and gone afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

binaries=${POSTGRES_15_BIN:-/usr/lib/postgresql/15/bin}
if [ ! -x "$binaries/initdb" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "PostgreSQL 15 is missing; as root: apt-get install postgresql-15 (or set POSTGRES_15_BIN)" >&2
        exit 1
    fi
    echo "installing PostgreSQL 15"
    # No cluster of its own is wanted, only the binaries.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
        echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql-15
fi

scratch=$(mktemp -d /tmp/svc-oldest.XXXXXX)
as_server() { if [ "$(id -u)" -eq 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
[ "$(id -u)" -ne 0 ] || chown postgres "$scratch"
finish() {
    as_server "$binaries/pg_ctl" -D "$scratch/data" -m immediate stop > /dev/null 2>&1 || true # it may not have started
    rm -rf "$scratch"
}
trap finish EXIT

# As tests/conftest.py starts the embedded one, which has no JIT compilation. The service's roles have none either
# (sql/roles.sql), but the connections of the tests' own login would.
fast="-c jit=off -c fsync=off -c synchronous_commit=off -c full_page_writes=off"
as_server "$binaries/initdb" -D "$scratch/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 > /dev/null
as_server "$binaries/pg_ctl" -D "$scratch/data" -l "$scratch/log" -w start \
    -o "-c listen_addresses='' -c unix_socket_directories=$scratch -c max_connections=480 $fast" > /dev/null
as_server "$binaries/psql" -q -h "$scratch" -U postgres -d postgres \
    -c "create role tester login createrole createdb"
chmod 755 "$scratch"

# Random examples say more of the queries than of the server, and were tried on the newer one.
TEST_DATABASE_URL="host=$scratch user=tester dbname=postgres" \
    PYTHONDONTWRITEBYTECODE= .venv/bin/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not hypothesis" "$@"
